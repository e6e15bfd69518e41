#include "flambeau/ops/reduce.h"

#include <algorithm>
#include <limits>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

using prim::Monoid;

Tensor reduce_keep(const Tensor& x, const std::vector<int64_t>& dims, Monoid monoid, bool keep) {
  if (dims.empty()) return x;
  Tensor r = monoid == Monoid::sum ? sum(x, dims) : prim::reduce(x, dims, monoid);
  return keep ? keep_dims(r, dims, graph::sizes_of(x)) : r;
}

Tensor count_of(const Tensor& x, const std::vector<int64_t>& dims, DType dtype) {
  // A size as a value: the last position of an iota, plus one.
  Size n = 1;
  Sizes sizes = graph::sizes_of(x);
  for (int64_t d : dims) n = n * sizes[static_cast<size_t>(d)];
  Tensor positions = prim::iota({n + 1}, 0);
  Tensor last = prim::reshape(prim::slice(positions, 0, n, 1, 1), {});
  return to_dtype(prim::cast(last, real_type(dtype)), dtype);
}

Tensor mean_of(const Tensor& x, const std::vector<int64_t>& dims, bool keep) {
  Tensor total = reduce_keep(x, dims, Monoid::sum, keep);
  if (dims.empty()) return x;
  return div(total, expand_to(count_of(x, dims, total.dtype()), graph::sizes_of(total)));
}

namespace {

DType sum_type(DType t) { return t == DType::boolean || is_integer(t) ? DType::int64 : t; }

Tensor truth(const Tensor& x) {
  if (!is_complex(x.dtype())) return to_dtype(x, DType::boolean);
  return prim::bit_or(prim::cast(prim::real(x), DType::boolean),
                      prim::cast(prim::imag(x), DType::boolean));
}

/// Sums and products: integers in int64, half types in float32 with one rounding.
Tensor accumulated(const Tensor& self, const std::vector<int64_t>& dims, bool keep, DType dtype,
                   Monoid monoid) {
  Tensor x = to_dtype(to_dtype(self, dtype), compute_type(dtype));
  if (dtype == DType::boolean)
    return reduce_keep(truth(self), dims, monoid == Monoid::product ? Monoid::all : Monoid::any,
                       keep);
  if (is_complex(dtype) && monoid == Monoid::product)
    fail(ErrorKind::not_implemented, "prod: not implemented for complex tensors");
  return to_dtype(reduce_keep(x, dims, monoid, keep), dtype);
}

Tensor extremes(const Tensor& self, const std::vector<int64_t>& dims, bool keep, Monoid monoid,
                const char* name) {
  check(!is_complex(self.dtype()), ErrorKind::runtime, name,
        ": not implemented for complex tensors");
  for (int64_t d : dims) {
    check(graph::size_of(self, d) != Size(0), ErrorKind::index, name, "(): Expected reduction dim ",
          d, " to have non-zero size.");
  }
  Tensor x = to_dtype(self, compute_type(self.dtype()));
  return to_dtype(reduce_keep(x, dims, monoid, keep), self.dtype());
}

void check_nonempty(const Tensor& self, const char* name) {
  for (Size s : graph::sizes_of(self)) {
    check(s != Size(0), ErrorKind::runtime, name,
          "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
          "reduction dim with the 'dim' argument.");
  }
}

std::vector<int64_t> every_dim(const Tensor& x) { return reduced_dims(std::nullopt, x.dim(), ""); }

/// The value and position of the extreme along one dim.
std::tuple<Tensor, Tensor> extreme_with_position(const Tensor& self, int64_t dim, bool keep,
                                                 bool largest, const char* name) {
  check(!is_complex(self.dtype()), ErrorKind::runtime, name,
        ": not implemented for complex tensors");
  int64_t d = wrap_dim(dim, self.dim(), name);
  if (self.dim() == 0) return {self, prim::constant(0, DType::int64)};
  check(graph::size_of(self, d) != Size(0), ErrorKind::index, name, "(): Expected reduction dim ",
        d, " to have non-zero size.");
  Tensor x = to_dtype(self, compute_type(self.dtype()));
  Tensor position = prim::reduce(x, {d}, largest ? Monoid::argmax : Monoid::argmin);
  // The value is read at the position: its cotangent goes there alone.
  Sizes sizes = graph::sizes_of(self);
  Tensor at = keep_dims(position, {d}, sizes);
  Tensor hit = prim::eq(expand_to(at, sizes), prim::iota(sizes, d));
  DType compute = compute_type(self.dtype());
  Tensor value;
  if (is_float(compute)) {
    Tensor only = prim::select(hit, x,
                               prim::constant(largest ? -std::numeric_limits<double>::infinity()
                                                      : std::numeric_limits<double>::infinity(),
                                              compute, sizes));
    value = prim::reduce(only, {d}, largest ? Monoid::maximum : Monoid::minimum);
    value = to_dtype(value, self.dtype());
  } else {
    value =
        to_dtype(prim::reduce(x, {d}, largest ? Monoid::maximum : Monoid::minimum), self.dtype());
  }
  if (keep) return {keep_dims(value, {d}, sizes), at};
  return {value, position};
}

Tensor position_of(const Tensor& self, std::optional<Dim> dim, bool keep, bool largest,
                   const char* name) {
  check(!is_complex(self.dtype()), ErrorKind::runtime, name,
        ": not implemented for complex tensors");
  check(self.dtype() != DType::boolean, ErrorKind::runtime, name, ": not implemented for 'Bool'");
  if (self.dim() == 0) {
    if (dim) wrap_dim(*dim, 0, name);
    return prim::constant(0, DType::int64);
  }
  Tensor x = to_dtype(self, compute_type(self.dtype()));
  Monoid monoid = largest ? Monoid::argmax : Monoid::argmin;
  if (dim) {
    int64_t d = wrap_dim(*dim, self.dim(), name);
    check(graph::size_of(self, d) != Size(0), ErrorKind::index, name, "(): Expected reduction dim ",
          d, " to have non-zero size.");
    Tensor r = prim::reduce(x, {d}, monoid);
    return keep ? keep_dims(r, {d}, graph::sizes_of(self)) : r;
  }
  for (Size s : graph::sizes_of(self)) {
    check(s != Size(0), ErrorKind::index, name,
          "(): Expected reduction dim to be specified for input.numel() == 0.");
  }
  Tensor r = prim::reduce(x, every_dim(x), monoid);
  return keep ? keep_dims(r, every_dim(x), graph::sizes_of(self)) : r;
}

Tensor logical(const Tensor& self, const std::vector<int64_t>& dims, bool keep, Monoid monoid) {
  Tensor r = reduce_keep(truth(self), dims, monoid, keep);
  return self.dtype() == DType::uint8 ? to_dtype(r, DType::uint8) : r;
}

}  // namespace

const Op<Tensor(const Tensor&, std::optional<DType>)> sum_all{
    "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    R"(Sum of all elements. Integers and bool give int64. See sum.dim_IntList.)",
    [](const Tensor& self, std::optional<DType> dtype) {
      return accumulated(self, every_dim(self), false, dtype.value_or(sum_type(self.dtype())),
                         Monoid::sum);
    },
    kFunction | kMethod};
const Op<Tensor(const Tensor&, std::optional<DimList>, bool, std::optional<DType>)> sum_dims{
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
    "Tensor",
    R"(Sum over the dims; no dims stand for all. `dtype`: converted to before summing; integers and bool give int64, half types are summed
in float32 and rounded once. The order of summation is that of docs/design.md. Errors: IndexError for a dim out of range, RuntimeError for
a repeated one.)",
    [](const Tensor& self, std::optional<DimList> dim, bool keepdim, std::optional<DType> dtype) {
      return accumulated(self, reduced_dims(dim, self.dim(), "sum"), keepdim,
                         dtype.value_or(sum_type(self.dtype())), Monoid::sum);
    }};

namespace {

Tensor mean(const Tensor& self, const std::vector<int64_t>& dims, bool keep,
            std::optional<DType> wanted) {
  DType dtype = wanted.value_or(self.dtype());
  check(is_inexact(dtype), ErrorKind::runtime,
        "mean(): could not infer output dtype. Input dtype must be either a floating point or "
        "complex dtype. Got: ",
        dtype);
  Tensor x = to_dtype(to_dtype(self, dtype), compute_type(dtype));
  return to_dtype(mean_of(x, dims, keep), dtype);
}

/// Sum of squared distances from the mean over (n - correction): two passes over the row.
struct Moments {
  Tensor mean, variance;  // dims kept
};
Moments moments(const Tensor& self, const std::vector<int64_t>& dims, const Number& correction,
                const char* name) {
  check(is_inexact(self.dtype()), ErrorKind::runtime, name,
        " only support floating point and complex dtypes");
  Tensor x = to_dtype(self, compute_type(self.dtype()));
  Tensor m = mean_of(x, dims, true);
  Tensor d = sub(x, expand_to(m, graph::sizes_of(x)));
  Tensor squares = is_complex(d.dtype()) ? prim::add(prim::mul(prim::real(d), prim::real(d)),
                                                     prim::mul(prim::imag(d), prim::imag(d)))
                                         : prim::mul(d, d);
  if (dims.empty() && self.dim() > 0) return {m, squares};
  Tensor total = reduce_keep(squares, dims, Monoid::sum, true);
  DType real = total.dtype();
  Tensor n = self.dim() == 0 ? prim::constant(1.0, real) : count_of(x, dims, real);
  Tensor left = prim::sub(n, to_tensor(correction, real));
  left = prim::maximum(left, prim::zeros_like(left));
  return {m, prim::div(total, expand_to(left, graph::sizes_of(total)))};
}

Tensor dropped(const Tensor& kept, const Tensor& self, const std::vector<int64_t>& dims,
               bool keep) {
  if (keep || dims.empty()) return kept;
  Sizes sizes, full = graph::sizes_of(self);
  for (size_t d = 0; d < full.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
      sizes.push_back(full[d]);
  }
  return prim::reshape(kept, sizes);
}

Tensor variance(const Tensor& self, const std::vector<int64_t>& dims, const Number& correction,
                bool keep, const char* name, bool root) {
  Tensor v = dropped(moments(self, dims, correction, name).variance, self, dims, keep);
  if (root) v = prim::sqrt(v);
  return to_dtype(v, real_type(self.dtype()));
}

std::tuple<Tensor, Tensor> variance_mean(const Tensor& self, const std::vector<int64_t>& dims,
                                         const Number& correction, bool keep, const char* name,
                                         bool root) {
  Moments m = moments(self, dims, correction, name);
  Tensor v = dropped(m.variance, self, dims, keep);
  if (root) v = prim::sqrt(v);
  return {to_dtype(v, real_type(self.dtype())),
          to_dtype(dropped(m.mean, self, dims, keep), self.dtype())};
}

}  // namespace

const Op<Tensor(const Tensor&, std::optional<DType>)> mean_all{
    "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    R"(Mean of all elements. Errors: RuntimeError for integers without dtype.)",
    [](const Tensor& self, std::optional<DType> dtype) {
      return mean(self, every_dim(self), false, dtype);
    },
    kDefaultForms};
const Op<Tensor(const Tensor&, std::optional<DimList>, bool, std::optional<DType>)> mean_dims{
    "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    R"(Sum over the dims divided by the number of elements; no dims stand for all. Errors: RuntimeError for integers without dtype.)",
    [](const Tensor& self, std::optional<DimList> dim, bool keepdim, std::optional<DType> dtype) {
      return mean(self, reduced_dims(dim, self.dim(), "mean"), keepdim, dtype);
    }};
const Op<Tensor(const Tensor&, std::optional<DType>)> prod_all{
    "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    R"(Product of all elements. Integers and bool give int64.)",
    [](const Tensor& self, std::optional<DType> dtype) {
      return accumulated(self, every_dim(self), false, dtype.value_or(sum_type(self.dtype())),
                         Monoid::product);
    },
    kDefaultForms};
const Op<Tensor(const Tensor&, Dim, bool, std::optional<DType>)> prod_dim{
    "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    R"(Product along one dim. Integers and bool give int64.)",
    [](const Tensor& self, Dim dim, bool keepdim, std::optional<DType> dtype) {
      return accumulated(self, reduced_dims(DimList{dim.value}, self.dim(), "prod", false), keepdim,
                         dtype.value_or(sum_type(self.dtype())), Monoid::product);
    }};

const Op<Tensor(const Tensor&, DimList, bool)> amax{
    "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    R"(Largest element over the dims; no dims stand for all; NaN is the largest. Equal extremes share the cotangent. Errors: IndexError over an empty dim.)",
    [](const Tensor& self, DimList dim, bool keepdim) {
      if (dim.empty()) check_nonempty(self, "amax");
      return extremes(self, reduced_dims(dim, self.dim(), "amax"), keepdim, Monoid::maximum,
                      "amax");
    }};
const Op<Tensor(const Tensor&, DimList, bool)> amin{
    "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    R"(Smallest element over the dims; NaN wins. See amax.)",
    [](const Tensor& self, DimList dim, bool keepdim) {
      if (dim.empty()) check_nonempty(self, "amin");
      return extremes(self, reduced_dims(dim, self.dim(), "amin"), keepdim, Monoid::minimum,
                      "amin");
    }};
const Op<std::tuple<Tensor, Tensor>(const Tensor&, std::optional<Dim>, bool)> aminmax{
    "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    R"(Smallest and largest element, along a dim or of all.)",
    [](const Tensor& self, std::optional<Dim> dim, bool keepdim) -> std::tuple<Tensor, Tensor> {
      if (!dim) check_nonempty(self, "aminmax");
      std::optional<DimList> list;
      if (dim) list = DimList{dim->value};
      auto dims = reduced_dims(list, self.dim(), "aminmax");
      return {extremes(self, dims, keepdim, Monoid::minimum, "aminmax"),
              extremes(self, dims, keepdim, Monoid::maximum, "aminmax")};
    },
    kDefaultForms};
const Op<Tensor(const Tensor&)> max_all{
    "max(Tensor self) -> Tensor", R"(Largest element; NaN is the largest.)",
    [](const Tensor& self) {
      check_nonempty(self, "max");
      return extremes(self, every_dim(self), false, Monoid::maximum, "max");
    },
    kDefaultForms};
const Op<Tensor(const Tensor&)> min_all{
    "min(Tensor self) -> Tensor", R"(Smallest element; NaN wins.)",
    [](const Tensor& self) {
      check_nonempty(self, "min");
      return extremes(self, every_dim(self), false, Monoid::minimum, "min");
    },
    kDefaultForms};
const Op<std::tuple<Tensor, Tensor>(const Tensor&, Dim, bool)> max_dim{
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    R"(Largest element along a dim and the first position that has it.)",
    [](const Tensor& self, Dim dim, bool keepdim) {
      return extreme_with_position(self, dim, keepdim, true, "max");
    }};
const Op<std::tuple<Tensor, Tensor>(const Tensor&, Dim, bool)> min_dim{
    "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    R"(Smallest element along a dim and the first position that has it.)",
    [](const Tensor& self, Dim dim, bool keepdim) {
      return extreme_with_position(self, dim, keepdim, false, "min");
    }};
const Op<Tensor(const Tensor&, std::optional<Dim>, bool)> argmax{
    "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    R"(First position of the largest element, along a dim or in row-major order; int64. NaN is the largest.)",
    [](const Tensor& self, std::optional<Dim> dim, bool keepdim) {
      return position_of(self, dim, keepdim, true, "argmax");
    }};
const Op<Tensor(const Tensor&, std::optional<Dim>, bool)> argmin{
    "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    R"(First position of the smallest element, along a dim or in row-major order; int64. NaN wins.)",
    [](const Tensor& self, std::optional<Dim> dim, bool keepdim) {
      return position_of(self, dim, keepdim, false, "argmin");
    }};

const Op<Tensor(const Tensor&)> all_all{
    "all(Tensor self) -> Tensor", R"(Whether all elements are not 0; bool, uint8 for uint8.)",
    [](const Tensor& self) { return logical(self, every_dim(self), false, Monoid::all); }};
const Op<Tensor(const Tensor&, Dim, bool)> all_dim{
    "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", R"(all along a dim.)",
    [](const Tensor& self, Dim dim, bool keepdim) {
      return logical(self, reduced_dims(DimList{dim.value}, self.dim(), "all", false), keepdim,
                     Monoid::all);
    }};
const Op<Tensor(const Tensor&, std::optional<DimList>, bool)> all_dims{
    "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", R"(all over dims.)",
    [](const Tensor& self, std::optional<DimList> dim, bool keepdim) {
      return logical(self, reduced_dims(dim, self.dim(), "all", false), keepdim, Monoid::all);
    }};
const Op<Tensor(const Tensor&)> any_all{
    "any(Tensor self) -> Tensor", R"(Whether some element is not 0; bool, uint8 for uint8.)",
    [](const Tensor& self) { return logical(self, every_dim(self), false, Monoid::any); }};
const Op<Tensor(const Tensor&, Dim, bool)> any_dim{
    "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", R"(any along a dim.)",
    [](const Tensor& self, Dim dim, bool keepdim) {
      return logical(self, reduced_dims(DimList{dim.value}, self.dim(), "any", false), keepdim,
                     Monoid::any);
    }};
const Op<Tensor(const Tensor&, std::optional<DimList>, bool)> any_dims{
    "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", R"(any over dims.)",
    [](const Tensor& self, std::optional<DimList> dim, bool keepdim) {
      return logical(self, reduced_dims(dim, self.dim(), "any", false), keepdim, Monoid::any);
    }};
const Op<Tensor(const Tensor&, DimList)> count_nonzero{
    "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    R"(Number of elements that are not 0 over the dims; int64.)",
    [](const Tensor& self, DimList dim) {
      return reduce_keep(prim::cast(truth(self), DType::int64),
                         reduced_dims(dim, self.dim(), "count_nonzero"), Monoid::sum, false);
    },
    kFunction | kMethod};
const Op<Tensor(const Tensor&, std::optional<Dim>)> count_nonzero_all{
    "count_nonzero(Tensor self, int? dim=None) -> Tensor",
    R"(Number of elements that are not 0, of all or along a dim; int64.)",
    [](const Tensor& self, std::optional<Dim> dim) {
      std::optional<DimList> list;
      if (dim) list = DimList{dim->value};
      return reduce_keep(prim::cast(truth(self), DType::int64),
                         reduced_dims(list, self.dim(), "count_nonzero"), Monoid::sum, false);
    },
    kFunction | kMethod};

// Variance: the correction is 1 unless given; `unbiased` False is a correction of 0.

#define VARIANCE(symbol, name, function, result, root, text)                                  \
  const Op<result(const Tensor&, bool)> symbol##_unbiased{                                    \
      name "(Tensor self, bool unbiased=True) -> " text,                                      \
      R"(Over all elements; divided by n - 1 if unbiased, else by n.)",                       \
      [](const Tensor& self, bool unbiased) {                                                 \
        return function(self, every_dim(self), Number(unbiased ? 1 : 0), false, name, root);  \
      },                                                                                      \
      kFunction | kMethod};                                                                   \
  const Op<result(const Tensor&, std::optional<DimList>, bool, bool)> symbol##_dim{           \
      name ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> " text, \
      R"(Over the dims; divided by n - 1 if unbiased, else by n.)",                           \
      [](const Tensor& self, std::optional<DimList> dim, bool unbiased, bool keepdim) {       \
        return function(self, reduced_dims(dim, self.dim(), name), Number(unbiased ? 1 : 0),  \
                        keepdim, name, root);                                                 \
      }};                                                                                     \
  const Op<result(const Tensor&, std::optional<DimList>, std::optional<Number>, bool)>        \
      symbol##_correction {                                                                   \
    name ".correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "       \
         "keepdim=False) -> " text,                                                           \
        R"(Over the dims; divided by max(0, n - correction).)",                               \
        [](const Tensor& self, std::optional<DimList> dim, std::optional<Number> correction,  \
           bool keepdim) {                                                                    \
          return function(self, reduced_dims(dim, self.dim(), name),                          \
                          correction.value_or(Number(1)), keepdim, name, root);               \
        }                                                                                     \
  }
using Two = std::tuple<Tensor, Tensor>;
VARIANCE(var, "var", variance, Tensor, false, "Tensor");
VARIANCE(std_op, "std", variance, Tensor, true, "Tensor");
VARIANCE(var_mean, "var_mean", variance_mean, Two, false, "(Tensor, Tensor)");
VARIANCE(std_mean, "std_mean", variance_mean, Two, true, "(Tensor, Tensor)");
#undef VARIANCE

const Op<Tensor(const Tensor&, DimList, bool)> logsumexp{
    "logsumexp|special.logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    R"(log(sum(exp(x))) over the dims, from the largest element.)",
    [](const Tensor& self, DimList dim, bool keepdim) {
      DType dtype = float_type(self.dtype());
      check(!is_complex(dtype), ErrorKind::not_implemented,
            "logsumexp: not implemented for complex tensors");
      Tensor x = to_dtype(self, compute_type(dtype));
      auto dims = reduced_dims(dim, self.dim(), "logsumexp");
      if (self.dim() == 0) return to_dtype(x, dtype);
      Sizes sizes = graph::sizes_of(x);
      Tensor m = reduce_keep(x, dims, Monoid::maximum, true);
      Tensor infinite =
          prim::eq(prim::abs(m), prim::constant_like(m, std::numeric_limits<double>::infinity()));
      m = prim::barrier(prim::select(infinite, prim::zeros_like(m), m));
      Tensor total =
          reduce_keep(prim::exp(prim::sub(x, expand_to(m, sizes))), dims, Monoid::sum, true);
      return to_dtype(dropped(prim::add(prim::log(total), m), x, dims, keepdim), dtype);
    }};

const Op<Tensor(const Tensor&, std::optional<DimList>, bool, std::optional<DType>)> nansum{
    "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
    "Tensor",
    R"(sum with NaN taken as 0.)",
    [](const Tensor& self, std::optional<DimList> dim, bool keepdim, std::optional<DType> dtype) {
      check(!is_complex(self.dtype()), ErrorKind::runtime,
            "nansum does not support complex inputs");
      Tensor x = self;
      if (is_float(x.dtype())) {
        Tensor y = to_dtype(x, compute_type(x.dtype()));
        x = to_dtype(prim::select(prim::ne(y, y), prim::zeros_like(y), y), x.dtype());
      }
      return accumulated(x, reduced_dims(dim, self.dim(), "nansum"), keepdim,
                         dtype.value_or(sum_type(self.dtype())), Monoid::sum);
    }};

const Op<Tensor(const Tensor&, Dim, std::optional<DType>)> cumsum{
    "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    R"(Running sum along a dim, ascending. Integers and bool give int64.)",
    [](const Tensor& self, Dim dim, std::optional<DType> wanted) {
      DType dtype = wanted.value_or(sum_type(self.dtype()));
      int64_t d = wrap_dim(dim, self.dim(), "cumsum");
      Tensor x = to_dtype(to_dtype(self, dtype), compute_type(dtype));
      if (self.dim() == 0) return to_dtype(x, dtype);
      if (is_complex(dtype))
        return join(
            {prim::scan(prim::real(x), d, Monoid::sum), prim::scan(prim::imag(x), d, Monoid::sum)});
      return to_dtype(prim::scan(x, d, Monoid::sum), dtype);
    },
    kElementwiseForms};

}  // namespace flambeau::ops
