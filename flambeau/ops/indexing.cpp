// Reading and writing at positions given by tensors: indexing with tensors, selection along a dim,
// and operators whose result size depends on values.
#include "flambeau/ops/indexing.h"

#include <algorithm>

#include "flambeau/base/error.h"
#include "flambeau/ops/copy.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"

namespace flambeau::ops {

using prim::Combine;

Tensor size_value(const Tensor& x, int64_t dim) { return count_of(x, {dim}, DType::int64); }

Tensor checked_index(const Tensor& index, const Tensor& x, int64_t dim, bool runtime_error) {
  return prim::check_index(index, graph::size_of(x, dim), runtime_error);
}

Tensor wrapped_index(const Tensor& index, const Tensor& x, int64_t dim) {
  Tensor count = expand_to(size_value(x, dim), graph::sizes_of(index));
  return prim::select(prim::lt(index, prim::zeros_like(index)), prim::add(index, count), index);
}

Tensor flat(const Tensor& x) {
  Size n = 1;
  for (Size s : graph::sizes_of(x)) n = n * s;
  return prim::reshape(x, {n});
}

Tensor nonzero_positions(const Tensor& x) {
  Tensor mask = contiguous_copy(convert(x, DType::boolean));
  const auto* values = mask.data_as<uint8_t>();
  int64_t count = std::count_if(values, values + mask.numel(), [](uint8_t v) { return v != 0; });
  int64_t rank = x.dim();
  Tensor result = empty_tensor({count, rank}, DType::int64);
  auto* out = result.data_as<int64_t>();
  Dims position(rank);
  for (int64_t i = 0; i < mask.numel(); ++i) {
    if (values[i]) out = std::copy(position.data(), position.data() + rank, out);
    for (int64_t d = rank - 1; d >= 0 && ++position[d] == mask.size(d); --d) position[d] = 0;
  }
  return result;
}

namespace {

Tensor as_index(const Tensor& index, const char* name) {
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, ErrorKind::runtime, name,
        ": Expected dtype int32/int64 for index, got ", index.dtype());
  return to_dtype(index, DType::int64);
}

/// How index tensors address a tensor: the indexed dims are brought together and become one.
struct Selection {
  std::vector<int64_t> order;   // dims of self, the indexed ones next to each other
  size_t first = 0, count = 0;  // where they are in `order`
  Sizes merged;                 // sizes with the indexed dims as one
  Tensor position;              // in the merged dim, of the broadcast sizes of the indices
};

Selection select_positions(const Tensor& self, const OptionalTensorList& indices) {
  check(static_cast<int64_t>(indices.size()) <= self.dim(), ErrorKind::index,
        "too many indices for tensor of dimension ", self.dim(), " (got ", indices.size(), ")");
  Selection s;
  std::vector<int64_t> indexed, others;
  std::vector<Tensor> given;
  for (int64_t d = 0; d < self.dim(); ++d) {
    bool has =
        d < static_cast<int64_t>(indices.size()) && indices[static_cast<size_t>(d)].defined();
    (has ? indexed : others).push_back(d);
    if (has) given.push_back(to_dtype(indices[static_cast<size_t>(d)], DType::int64));
  }
  bool adjacent = indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  s.first = adjacent ? static_cast<size_t>(indexed.front()) : 0;
  s.count = indexed.size();
  s.order = others;
  s.order.insert(s.order.begin() + static_cast<ptrdiff_t>(s.first), indexed.begin(), indexed.end());
  Sizes sizes = graph::sizes_of(self), shape = broadcast_sizes(given, "index");
  Size merged = 1;
  for (size_t i = 0; i < indexed.size(); ++i) {
    int64_t d = indexed[i];
    Tensor at = wrapped_index(expand_to(given[i], shape), self, d);
    if (indexed.size() > 1) at = checked_index(at, self, d);
    s.position =
        i == 0 ? at : prim::add(prim::mul(s.position, expand_to(size_value(self, d), shape)), at);
    merged = merged * sizes[static_cast<size_t>(d)];
  }
  for (size_t i = 0; i < s.order.size(); ++i) {
    if (i == s.first) s.merged.push_back(merged);
    if (i < s.first || i >= s.first + s.count)
      s.merged.push_back(sizes[static_cast<size_t>(s.order[i])]);
  }
  return s;
}

Tensor merge(const Tensor& self, const Selection& s) {
  return prim::reshape(prim::permute(self, s.order), s.merged);
}

const Op<Tensor(const Tensor&, const OptionalTensorList&)> index_by_numbers{
    "_index(Tensor self, Tensor?[] indices) -> Tensor", R"(index.Tensor with integer indices.)",
    [](const Tensor& self, const OptionalTensorList& indices) {
      Selection s = select_positions(self, indices);
      return prim::take(merge(self, s), s.position, static_cast<int64_t>(s.first));
    },
    0};

const Op<Tensor(const Tensor&, const OptionalTensorList&, const Tensor&, bool)> put_by_numbers{
    "_put_index(Tensor self, Tensor?[] indices, Tensor values, bool accumulate) -> Tensor",
    R"(index_put with integer indices.)",
    [](const Tensor& self, const OptionalTensorList& indices, const Tensor& values,
       bool accumulate) {
      check(values.dtype() == self.dtype(), ErrorKind::runtime,
            "index_put: Index put requires the source and destination dtypes match, got ",
            self.dtype(), " for the destination and ", values.dtype(), " for the source.");
      Selection s = select_positions(self, indices);
      Sizes target = s.merged, at = graph::sizes_of(s.position);
      target.erase(target.begin() + static_cast<ptrdiff_t>(s.first));
      target.insert(target.begin() + static_cast<ptrdiff_t>(s.first), at.begin(), at.end());
      check(values.dim() <= static_cast<int64_t>(target.size()), ErrorKind::runtime,
            "index_put: shape mismatch: value tensor of shape ", values.sizes(),
            " cannot be broadcast to indexing result of shape ", flambeau::values(target));
      Sizes given = graph::sizes_of(values);
      for (size_t i = 0; i < given.size(); ++i) {
        Size wanted = target[target.size() - given.size() + i];
        bool fits = given[i] == Size(1) ||
                    graph::Trace::current()->require_equal(
                        given[i], wanted, "the values must have the sizes of what is indexed");
        check(fits, ErrorKind::runtime, "index_put: shape mismatch: value tensor of shape ",
              values.sizes(), " cannot be broadcast to indexing result of shape ",
              flambeau::values(target));
      }
      Tensor written =
          prim::put(merge(self, s), s.position, expand_to(values, target),
                    static_cast<int64_t>(s.first), accumulate ? Combine::add : Combine::set);
      Sizes permuted, sizes = graph::sizes_of(self);
      std::vector<int64_t> back(s.order.size());
      for (size_t i = 0; i < s.order.size(); ++i) {
        permuted.push_back(sizes[static_cast<size_t>(s.order[i])]);
        back[static_cast<size_t>(s.order[i])] = static_cast<int64_t>(i);
      }
      return prim::permute(prim::reshape(written, permuted), back);
    },
    0};

/// Masks as the positions that they select.
OptionalTensorList numbers_of(const Tensor& self, const OptionalTensorList& indices,
                              const char* name) {
  OptionalTensorList result;
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      result.push_back(index);
      continue;
    }
    if (index.dtype() != DType::boolean && index.dtype() != DType::uint8) {
      check(is_integer(index.dtype()), ErrorKind::index, name,
            ": tensors used as indices must be long, int, byte or bool tensors, got ",
            index.dtype());
      result.push_back(index);
      continue;
    }
    auto at = static_cast<int64_t>(result.size());
    for (int64_t d = 0; d < index.dim(); ++d) {
      bool fits = at + d < self.dim() && self.size(at + d) == index.size(d);
      check(fits, ErrorKind::index, "The shape of the mask ", index.sizes(), " at index ", d,
            " does not match the shape of the indexed tensor ", self.sizes(), " at index ", at + d);
    }
    Tensor positions = nonzero_positions(index);
    for (int64_t d = 0; d < index.dim(); ++d) result.push_back(select(positions, Dim(1), Size(d)));
  }
  check(static_cast<int64_t>(result.size()) <= self.dim(), ErrorKind::index,
        "too many indices for tensor of dimension ", self.dim());
  return result;
}

bool any_defined(const OptionalTensorList& list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return t.defined(); });
}

}  // namespace

const Op<Tensor(const Tensor&, const OptionalTensorList&)> index{
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    R"(self[indices]: index tensors are broadcast together and take the place of the dims that they index; when those are not
neighbours, the new dims come first. None keeps a dim.

Dtypes: self any, indices int64, int32 or masks (bool, uint8), which stand for the positions that they select. Negative
positions count from the end. Errors: IndexError for positions out of range and for masks of another shape.)",
    [](const Tensor& self, const OptionalTensorList& indices) {
      OptionalTensorList numbers = numbers_of(self, indices, "index");
      return any_defined(numbers) ? index_by_numbers(self, numbers) : clone(self);
    },
    0, BodyKind::direct};

const Op<Tensor(const Tensor&, const OptionalTensorList&, const Tensor&, bool)> index_put{
    "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    R"(self with `values`, broadcast, at self[indices]; with `accumulate` added to what is there. Of values for one position the
last in row-major order wins; sums are taken in that order. Dtypes and errors: see index.)",
    [](const Tensor& self, const OptionalTensorList& indices, const Tensor& values,
       bool accumulate) {
      OptionalTensorList numbers = numbers_of(self, indices, "index_put");
      check(any_defined(numbers), ErrorKind::index, "index_put: at least one index must be given");
      return put_by_numbers(self, numbers, values, accumulate);
    },
    kMethod | kInplace | kFunction, BodyKind::direct};

// Along one dim.

namespace {

int64_t index_dim(const Tensor& self, Dim dim, const char* name) {
  return wrap_dim(dim, self.dim(), name);
}

Tensor at_least_1d(const Tensor& x) { return x.dim() == 0 ? prim::reshape(x, {Size(1)}) : x; }

/// The index vector of operators that work along a dim, checked: [n].
Tensor index_vector(const Tensor& index, const char* name) {
  check(index.dim() <= 1, ErrorKind::index, name, "(): Index is supposed to be a vector, got ",
        index.dim(), " dimensions");
  return at_least_1d(as_index(index, name));
}

/// Puts source [.., n, ..] at positions `index` of `dim`.
Tensor put_along(const Tensor& self, Dim dim, const Tensor& index, const Tensor& source,
                 Combine combine, const char* name) {
  int64_t d = index_dim(self, dim, name);
  check(self.dtype() == source.dtype(), ErrorKind::runtime, name,
        "(): self and source expected to have the same dtype, but got (self) ", self.dtype(),
        " and (source) ", source.dtype());
  Tensor i = index_vector(index, name), x = at_least_1d(self), s = at_least_1d(source);
  check(s.dim() == x.dim(), ErrorKind::runtime, name,
        "(): source must have the dimensions of self, got ", source.dim(), " and ", self.dim());
  Sizes wanted = graph::sizes_of(x), given = graph::sizes_of(s);
  wanted[static_cast<size_t>(d)] = graph::size_of(i, 0);
  for (size_t k = 0; k < wanted.size(); ++k) {
    bool fits = graph::Trace::current()->require_equal(
        given[k], wanted[k], "source must have the sizes of self, and along dim that of index");
    check(fits, static_cast<int64_t>(k) == d ? ErrorKind::index : ErrorKind::runtime, name,
          "(): source/destination tensors must have same slice shapes, got ", self.sizes(), " and ",
          source.sizes(), " with ", i.sizes(), " indices");
  }
  Tensor r = prim::put(x, i, prim::reshape(s, wanted), d, combine);
  return prim::reshape(r, graph::sizes_of(self));
}

}  // namespace

const Op<Tensor(const Tensor&, Dim, const Tensor&)> index_select{
    "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    R"(The positions `index` of a dim. Shapes: index [n] or []; the dim gets size n. Errors: IndexError out of range.)",
    [](const Tensor& self, Dim dim, const Tensor& index) {
      int64_t d = index_dim(self, dim, "index_select");
      Tensor r = prim::take(at_least_1d(self), index_vector(index, "index_select"), d);
      return self.dim() == 0 ? prim::reshape(r, {}) : r;
    }};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Tensor&, const Number&)> index_add{
    "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    R"(self with alpha * source added at the positions `index` of a dim, in ascending order.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Tensor& source,
       const Number& alpha) {
      DType compute = compute_type(source.dtype());
      Tensor s = source;
      bool one = !alpha.traced().defined() && alpha.kind() == Scalar::Kind::integer &&
                 alpha.scalar().integer() == 1;
      if (!one) {
        if (source.dtype() == DType::boolean)
          s = prim::bit_and(source,
                            expand_to(to_tensor(alpha, DType::boolean), graph::sizes_of(source)));
        else
          s = to_dtype(mul(to_dtype(source, compute),
                           expand_to(to_tensor(alpha, compute), graph::sizes_of(source))),
                       source.dtype());
      }
      return put_along(self, dim, index, s, Combine::add, "index_add");
    },
    kElementwiseForms};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Tensor&)> index_copy{
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    R"(self with source at the positions `index` of a dim; of two for one position the last.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Tensor& source) {
      return put_along(self, dim, index, source, Combine::set, "index_copy");
    },
    kElementwiseForms};

namespace {

Tensor fill_along(const Tensor& self, Dim dim, const Tensor& index, const Tensor& value) {
  int64_t d = index_dim(self, dim, "index_fill");
  Tensor i = index_vector(index, "index_fill"), x = at_least_1d(self);
  Sizes sizes = graph::sizes_of(x);
  sizes[static_cast<size_t>(d)] = graph::size_of(i, 0);
  return prim::reshape(
      prim::put(x, wrapped_index(i, x, d), expand_to(value, sizes), d, Combine::set),
      graph::sizes_of(self));
}

}  // namespace

const Op<Tensor(const Tensor&, Dim, const Tensor&, const Number&)> index_fill{
    "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    R"(self with `value` at the positions `index` of a dim.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Number& value) {
      return fill_along(self, dim, index, to_tensor(value, self.dtype()));
    },
    kMethod | kFunction | kInplace};
const Op<Tensor(const Tensor&, Dim, const Tensor&, const Tensor&)> index_fill_tensor{
    "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    R"(index_fill with a 0-d tensor.)",
    [](const Tensor& self, Dim dim, const Tensor& index, const Tensor& value) {
      check(value.dim() == 0, ErrorKind::runtime,
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
            value.dim(), " dimension(s).");
      return fill_along(self, dim, index, to_dtype(value, self.dtype()));
    },
    kMethod | kFunction | kInplace};
const Op<Tensor(const Tensor&, const Tensor&)> take{
    "take(Tensor self, Tensor index) -> Tensor",
    R"(Elements of self, seen as one dim, at the positions `index`; the result has the index's sizes.)",
    [](const Tensor& self, const Tensor& index) {
      check(index.dtype() == DType::int64, ErrorKind::runtime,
            "take(): Expected a long tensor for index, but got ", index.dtype());
      Tensor x = flat(self);
      return prim::take(x, wrapped_index(index, x, 0), 0);
    }};

// Results whose size depends on values.

namespace {

TensorList columns_of(const Tensor& positions) {
  TensorList result;
  for (int64_t d = 0; d < positions.size(1); ++d)
    result.push_back(select(positions, Dim(1), Size(d)));
  return result;
}

}  // namespace

const Op<Argument(const Tensor&, bool)> nonzero{
    "nonzero(Tensor self, *, bool as_tuple=False) -> Tensor",
    R"(Positions of the elements that are not 0: [count, rank], int64, in row-major order; with as_tuple one tensor a dim.)",
    [](const Tensor& self, bool as_tuple) {
      if (!as_tuple) return Argument(nonzero_positions(self));
      return Argument(
          columns_of(nonzero_positions(self.dim() == 0 ? reshape(self, Sizes{Size(1)}) : self)));
    },
    kDefaultForms, BodyKind::direct};
const Op<Tensor(const Tensor&)> argwhere{"argwhere(Tensor self) -> Tensor", R"(nonzero.)",
                                         [](const Tensor& self) { return nonzero_positions(self); },
                                         kFunction | kMethod, BodyKind::direct};
const Op<TensorList(const Tensor&)> nonzero_numpy{
    "nonzero_numpy|where(Tensor self) -> Tensor[]",
    R"(Positions of the elements that are not 0, one tensor a dim.)",
    [](const Tensor& self) {
      return columns_of(nonzero_positions(self.dim() == 0 ? reshape(self, Sizes{Size(1)}) : self));
    },
    kFunction, BodyKind::direct};
const Op<Tensor(const Tensor&, const Tensor&)> masked_select{
    "masked_select(Tensor self, Tensor mask) -> Tensor",
    R"(The elements where `mask` is true, after broadcasting, in row-major order: [count]. Errors: RuntimeError for a mask that is not bool.)",
    [](const Tensor& self, const Tensor& mask) {
      check(mask.dtype() == DType::boolean, ErrorKind::runtime,
            "masked_select: expected BoolTensor for mask, got ", mask.dtype());
      Sizes sizes = broadcast_sizes({self, mask}, "masked_select");
      Tensor x = expand(self, sizes), m = expand(mask, sizes);
      if (x.dim() == 0) {
        x = reshape(x, Sizes{Size(1)});
        m = reshape(m, Sizes{Size(1)});
      }
      return index(x, OptionalTensorList{m});
    },
    kDefaultForms, BodyKind::direct};

}  // namespace flambeau::ops
