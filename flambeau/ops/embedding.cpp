// Tables of vectors looked up by number.
#include "flambeau/base/error.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

const Op<Tensor(const Tensor&, Size)> one_hot_of{
    "_one_hot(Tensor self, SymInt num_classes) -> Tensor",
    R"(one_hot with a known number of classes.)",
    [](const Tensor& self, Size num_classes) {
      Sizes sizes = graph::sizes_of(self);
      sizes.push_back(num_classes);
      std::vector<int64_t> from;
      for (int64_t d = 0; d < self.dim(); ++d) from.push_back(d);
      from.push_back(-1);
      Tensor hit = prim::eq(prim::broadcast(self, sizes, from), prim::iota(sizes, self.dim()));
      return prim::cast(hit, DType::int64);
    },
    0};

int64_t value_of(const Tensor& t) { return *t.data_as<int64_t>(); }

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Number>, std::optional<Number>,
                const Number&, bool, bool)>
    embedding{
        "nn.functional.embedding(Tensor input, Tensor weight, Scalar? padding_idx=None, float? "
        "max_norm=None, float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> "
        "Tensor",
        R"(Rows of `weight` by number.

Shapes: input [...], weight [rows, width]; the result is [..., width]. Dtypes: input int32 or int64, weight any. The row
padding_idx gets no gradient. Errors: IndexError for a number out of range; NotImplementedError for max_norm,
scale_grad_by_freq and sparse.)",
        [](const Tensor& input, const Tensor& weight, std::optional<Number> padding_idx,
           std::optional<Number> max_norm, const Number&, bool by_frequency, bool sparse) {
          check(!max_norm && !by_frequency && !sparse, ErrorKind::not_implemented,
                "embedding: max_norm, scale_grad_by_freq and sparse are not implemented");
          check(input.dtype() == DType::int64 || input.dtype() == DType::int32, ErrorKind::runtime,
                "embedding: Expected tensor for argument 'input' to have one of the following "
                "scalar types: Long, Int; but got ",
                input.dtype());
          check(weight.dim() == 2, ErrorKind::runtime, "embedding: 'weight' must be 2-D, got ",
                weight.dim(), "-D");
          Tensor index = to_dtype(input, DType::int64);
          Tensor rows = prim::take(weight, index, 0);
          if (!padding_idx) return rows;
          Sizes sizes = graph::sizes_of(index), full = graph::sizes_of(rows);
          Tensor number = expand_to(to_tensor(*padding_idx, DType::int64), sizes),
                 zero = prim::zeros_like(number);
          Tensor count = expand_to(count_of(weight, {0}, DType::int64), sizes);
          Tensor padding = prim::eq(
              index, prim::select(prim::lt(number, zero), prim::add(number, count), number));
          std::vector<int64_t> from;
          for (int64_t d = 0; d < index.dim(); ++d) from.push_back(d);
          from.push_back(-1);
          return prim::select(prim::broadcast(padding, full, from), prim::barrier(rows), rows);
        },
        kFunction};

const Op<Tensor(const Tensor&, Dim)> one_hot{
    "nn.functional.one_hot(Tensor tensor, int num_classes=-1) -> Tensor",
    R"(1 where the last index is the class, else 0; num_classes = -1 takes one more than the largest class.

Shapes: [...] -> [..., num_classes]. Dtypes: int64. Errors: RuntimeError for classes out of range.)",
    [](const Tensor& tensor, Dim num_classes) {
      check(tensor.dtype() == DType::int64, ErrorKind::runtime,
            "one_hot is only applicable to index tensor of type LongTensor, got ", tensor.dtype());
      int64_t classes = num_classes;
      if (tensor.numel() == 0) {
        check(classes > 0, ErrorKind::runtime,
              "one_hot: Can not infer total number of classes from empty tensor.");
      } else {
        check(value_of(amin(tensor, DimList{}, false)) >= 0, ErrorKind::runtime,
              "one_hot: Class values must be non-negative.");
        int64_t largest = value_of(amax(tensor, DimList{}, false));
        check(classes != 0 && classes >= -1, ErrorKind::runtime,
              "one_hot: num_classes should be positive, got ", classes);
        check(classes == -1 || largest < classes, ErrorKind::runtime,
              "one_hot: Class values must be smaller than num_classes, got ", largest, " for ",
              classes);
        if (classes == -1) classes = largest + 1;
      }
      return one_hot_of(tensor, Size(classes));
    },
    kFunction, BodyKind::direct};

}  // namespace flambeau::ops
