// gather and scatter: an index tensor with a position along one dim for each of its elements.
#include <optional>
#include <string>

#include "flambeau/base/error.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Combine;

Tensor at_least_1d(const Tensor& x) { return x.dim() == 0 ? prim::reshape(x, {Size(1)}) : x; }

void check_index(const Tensor& self, const Tensor& index, int64_t dim, const char* name,
                 bool along_other_dims = true) {
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, ErrorKind::runtime, name,
        "(): Expected dtype int32/int64 for index, got ", index.dtype());
  check(index.dim() == self.dim(), ErrorKind::runtime, name,
        "(): Index tensor must have the same number of dimensions as self tensor, got ",
        index.dim(), " and ", self.dim());
  for (int64_t d = 0; along_other_dims && d < self.dim(); ++d) {
    check(d == dim || graph::size_of(index, d) <= graph::size_of(self, d), ErrorKind::runtime, name,
          "(): Expected index ", index.sizes(), " to be no larger than self ", self.sizes(),
          " apart from dimension ", dim);
  }
}

/// Position in the row-major order of x of x[.., index[..], ..].
Tensor linear_positions(const Tensor& x, const Tensor& index, int64_t dim) {
  Sizes sizes = graph::sizes_of(index);
  Tensor linear;
  for (int64_t d = 0; d < x.dim(); ++d) {
    Tensor at = d == dim ? checked_index(index, x, d, true) : prim::iota(sizes, d);
    linear = d == 0 ? at : prim::add(prim::mul(linear, expand_to(size_value(x, d), sizes)), at);
  }
  return linear;
}

Tensor gathered(const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor x = at_least_1d(self), i = at_least_1d(to_dtype(index, DType::int64));
  Tensor r = prim::take(flat(x), linear_positions(x, i, dim), 0);
  return prim::reshape(r, graph::sizes_of(index));
}

/// The part of source that has the sizes of the index, as one dim.
Tensor matching_source(const Tensor& source, const Tensor& index, const char* name) {
  check(source.dim() == index.dim(), ErrorKind::runtime, name,
        "(): Index tensor must have the same number of dimensions as src tensor, got ", index.dim(),
        " and ", source.dim());
  Tensor s = source;
  for (int64_t d = 0; d < index.dim(); ++d) {
    Size n = graph::size_of(index, d);
    check(n <= graph::size_of(source, d), ErrorKind::runtime, name, "(): Expected index ",
          index.sizes(), " to be no larger than src ", source.sizes());
    s = prim::slice(s, d, 0, n, 1);
  }
  return flat(s);
}

struct Target {
  Tensor x;         // self as one dim
  Tensor position;  // of each element of the index, as one dim
};

Target target_of(const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor x = at_least_1d(self), i = at_least_1d(to_dtype(index, DType::int64));
  return {flat(x), flat(linear_positions(x, i, dim))};
}

Tensor scattered(const Tensor& self, Dim dim, const Tensor& index, const Tensor& source,
                 Combine combine, const char* name) {
  int64_t d = wrap_dim(dim, self.dim(), name);
  check(self.dtype() == source.dtype(), ErrorKind::runtime, name,
        "(): Expected self.dtype to be equal to src.dtype, got ", self.dtype(), " and ",
        source.dtype());
  // An empty index writes nothing, whatever its sizes.
  for (Size s : graph::sizes_of(index)) {
    if (s == Size(0)) return self;
  }
  check_index(self, index, d, name);
  Target t = target_of(self, d, index);
  return prim::reshape(
      prim::put(t.x, t.position, matching_source(at_least_1d(source), at_least_1d(index), name), 0,
                combine),
      graph::sizes_of(self));
}

Tensor number_for(const Tensor& self, const Tensor& index, const Number& value) {
  return expand_to(to_tensor(value, self.dtype()), graph::sizes_of(index));
}

Combine combine_of(const std::string& reduce, const char* name) {
  check(reduce == "add" || reduce == "multiply", ErrorKind::runtime, name,
        "(): reduce argument must be either add or multiply, got '", reduce, "'");
  return reduce == "add" ? Combine::add : Combine::multiply;
}

constexpr int kForms = kFunction | kMethod | kInplace | kOut;

}  // namespace

const Op<Tensor(const Tensor&, Dim, const Tensor&, bool)> gather{
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    R"(self[.., index[i, .., k], ..]: each element of the index is a position along dim, the other positions are its own.

Shapes: index has the rank of self and is no larger except along dim; the result has the index's sizes. Dtypes: self any, index
int64 or int32. Errors: RuntimeError for shapes that do not fit and positions out of range.)",
    [](const Tensor& self, Dim dim, const Tensor& index, bool) {
      int64_t d = wrap_dim(dim, self.dim(), "gather");
      for (Size s : graph::sizes_of(index)) {
        if (s == Size(0)) return prim::constant(0, self.dtype(), graph::sizes_of(index));
      }
      check_index(self, index, d, "gather");
      return gathered(self, d, index);
    }};

const Op<Tensor(const Tensor&, Dim, const Tensor&, const Tensor&)> scatter{
    "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    R"(self with src[i] written at position index[i] along dim; of several for one position the last in row-major order wins.
Shapes and errors: see gather; src is no smaller than the index.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Tensor& src) {
      return scattered(self, dim, index, src, Combine::set, "scatter");
    },
    kForms};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Number&)> scatter_value{
    "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    R"(scatter of one number.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Number& value) {
      return scattered(self, dim, index, number_for(self, index, value), Combine::set, "scatter");
    },
    kForms};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Tensor&, const std::string&)> scatter_with{
    "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    R"(scatter that adds to, or multiplies with, what is there.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Tensor& src,
       const std::string& reduce) {
      return scattered(self, dim, index, src, combine_of(reduce, "scatter"), "scatter");
    },
    kForms};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Number&, const std::string&)>
    scatter_value_with{
        "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> "
        "Tensor",
        R"(scatter of one number that adds or multiplies.)",
        [](const Tensor& self, Dim dim, const Tensor& index, const Number& value,
           const std::string& reduce) {
          return scattered(self, dim, index, number_for(self, index, value),
                           combine_of(reduce, "scatter"), "scatter");
        },
        kForms};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Tensor&)> scatter_add{
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    R"(scatter that adds, in row-major order.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Tensor& src) {
      return scattered(self, dim, index, src, Combine::add, "scatter_add");
    },
    kForms};

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Dim>)> take_along_dim{
    "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    R"(gather after broadcasting all other dims; without dim both are seen as one dim. Negative positions count from the end.)",
    [](const Tensor& self, const Tensor& indices, std::optional<Dim> dim) {
      check(indices.dtype() == DType::int64, ErrorKind::runtime,
            "torch.take_along_dim(): dtype of indices should be Long but got ", indices.dtype());
      if (!dim) {
        Tensor x = flat(self), i = flat(indices);
        return gathered(x, 0, wrapped_index(i, x, 0));
      }
      check(self.dim() == indices.dim(), ErrorKind::runtime,
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            "but got ",
            self.dim(), " dimensions for input, and ", indices.dim(), " dimensions for indices");
      int64_t d = wrap_dim(*dim, self.dim(), "take_along_dim");
      Tensor x = at_least_1d(self), i = at_least_1d(indices);
      Sizes xs = graph::sizes_of(x), is = graph::sizes_of(i);
      for (size_t k = 0; k < xs.size(); ++k) {
        if (static_cast<int64_t>(k) == d) continue;
        if (xs[k] == Size(1))
          xs[k] = is[k];
        else if (is[k] == Size(1))
          is[k] = xs[k];
        bool fits =
            graph::Trace::current()->require_equal(xs[k], is[k], "sizes must match apart from dim");
        check(fits, ErrorKind::runtime, "torch.take_along_dim(): The size of tensor a (", xs[k],
              ") must match the size of tensor b (", is[k], ") at non-singleton dimension ", k);
      }
      x = expand_to(x, xs);
      return gathered(x, d, wrapped_index(expand_to(i, is), x, d));
    }};

}  // namespace flambeau::ops
