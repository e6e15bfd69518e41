// Running products, extremes and logarithms of sums along a dim.
#include <cmath>
#include <optional>

#include "flambeau/base/error.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;

/// Sums from each position on.
Tensor sum_behind(const Tensor& x, int64_t dim) {
  return prim::reverse(prim::scan(prim::reverse(x, {dim}), dim, Monoid::sum), {dim});
}

/// x without the element that each position has along `dim` when pairs [.., i, j] are formed: the
/// product over k <= j, k != i of x_k, times the cotangents at j >= i. Quadratic along dim; right
/// for zeros too.
std::vector<Tensor> cumprod_rule(const std::vector<Argument>& arguments, const std::vector<Tensor>&,
                                 const std::vector<Tensor>& cotangents) {
  const Tensor& self = std::get<Tensor>(arguments[0]);
  if (self.dim() == 0) return {to_dtype(cotangents[0], self.dtype())};
  DType t = compute_type(cotangents[0].dtype());
  int64_t d = wrap_dim(std::get<Dim>(arguments[1]), self.dim(), "cumprod");
  Tensor x = to_dtype(self, t), c = to_dtype(cotangents[0], t);
  Sizes sizes = graph::sizes_of(x), pairs = sizes;
  pairs.insert(pairs.begin() + d, sizes[static_cast<size_t>(d)]);
  // [.., i, k, ..]: x_k, and 1 where k = i.
  std::vector<int64_t> from;
  for (int64_t k = 0; k < self.dim() + 1; ++k) from.push_back(k < d ? k : k == d ? -1 : k - 1);
  Tensor wide = prim::broadcast(x, pairs, from), ct = prim::broadcast(c, pairs, from);
  Tensor i = prim::iota(pairs, d), k = prim::iota(pairs, d + 1);
  Tensor others = prim::select(prim::eq(i, k), prim::constant_like(wide, 1), wide);
  Tensor products = prim::scan(others, d + 1, Monoid::product);
  Tensor counted = prim::select(prim::ge(k, i), prim::mul(products, ct), prim::zeros_like(ct));
  return {to_dtype(prim::reduce(counted, {d + 1}, Monoid::sum), self.dtype())};
}

/// Every cotangent goes to the position that had the extreme.
std::vector<Tensor> extreme_rule(const std::vector<Argument>& arguments,
                                 const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& cotangents) {
  const Tensor& self = std::get<Tensor>(arguments[0]);
  if (self.dim() == 0) return {cotangents[0]};
  DType t = compute_type(self.dtype());
  int64_t d = wrap_dim(std::get<Dim>(arguments[1]), self.dim(), "cummax");
  Sizes sizes = graph::sizes_of(self);
  Tensor position;
  Size count = 1;
  for (int64_t k = 0; k < self.dim(); ++k) {
    Tensor at = k == d ? results[1] : prim::iota(sizes, k);
    position =
        k == 0 ? at : prim::add(prim::mul(position, expand_to(size_value(self, k), sizes)), at);
    count = count * sizes[static_cast<size_t>(k)];
  }
  Tensor g = prim::put(prim::constant(0.0, t, {count}), prim::reshape(position, {count}),
                       prim::reshape(to_dtype(cotangents[0], t), {count}), 0, prim::Combine::add);
  return {to_dtype(prim::reshape(g, sizes), self.dtype())};
}

/// Running extremes and where they are: of equals the last, as the field has it.
std::tuple<Tensor, Tensor> running(const Tensor& self, Dim dim, Monoid monoid, const char* name) {
  check(!is_complex(self.dtype()), ErrorKind::runtime, name, ": not implemented for ",
        self.dtype());
  int64_t d = wrap_dim(dim, self.dim(), name);
  if (self.dim() == 0) return {prim::barrier(self), prim::constant(int64_t{0}, DType::int64)};
  DType t = self.dtype() == DType::boolean ? DType::uint8 : compute_type(self.dtype());
  Tensor x = to_dtype(self, t);
  Tensor best = prim::scan(x, d, monoid);
  Tensor is_best = prim::eq(x, best);
  if (is_float(t)) is_best = prim::bit_or(is_best, prim::ne(x, x));
  Tensor at = prim::iota(graph::sizes_of(x), d);
  Tensor where = prim::scan(prim::select(is_best, at, prim::zeros_like(at)), d, Monoid::maximum);
  return {to_dtype(best, self.dtype()), where};
}

}  // namespace

const Op<Tensor(const Tensor&, Dim, std::optional<DType>)> cumprod{
    "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    R"(Running product along a dim, ascending. Integers and bool give int64; half types are rounded once. Errors:
RuntimeError for complex dtypes, IndexError for a dim out of range.)",
    [](const Tensor& self, Dim dim, std::optional<DType> wanted) {
      DType own = self.dtype();
      DType dtype = wanted.value_or(own == DType::boolean || is_integer(own) ? DType::int64 : own);
      check(!is_complex(dtype), ErrorKind::runtime, "cumprod: not implemented for ", dtype);
      int64_t d = wrap_dim(dim, self.dim(), "cumprod");
      Tensor x = to_dtype(to_dtype(self, dtype), compute_type(dtype));
      return self.dim() == 0 ? to_dtype(x, dtype)
                             : to_dtype(prim::scan(x, d, Monoid::product), dtype);
    },
    kElementwiseForms,
    BodyKind::composite,
    cumprod_rule};

const Op<std::tuple<Tensor, Tensor>(const Tensor&, Dim)> cummax{
    "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    R"(Running maximum along a dim and where it is, int64: of equals the last. NaN is the largest.)",
    [](const Tensor& self, Dim dim) { return running(self, dim, Monoid::maximum, "cummax"); },
    kDefaultForms,
    BodyKind::composite,
    extreme_rule};

const Op<std::tuple<Tensor, Tensor>(const Tensor&, Dim)> cummin{
    "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    R"(Running minimum along a dim and where it is, int64: of equals the last. NaN wins.)",
    [](const Tensor& self, Dim dim) { return running(self, dim, Monoid::minimum, "cummin"); },
    kDefaultForms,
    BodyKind::composite,
    extreme_rule};

namespace {

/// exp(x_i - y_j) c_j summed over j >= i.
std::vector<Tensor> logcumsumexp_rule(const std::vector<Argument>& arguments,
                                      const std::vector<Tensor>& results,
                                      const std::vector<Tensor>& cotangents) {
  const Tensor& self = std::get<Tensor>(arguments[0]);
  if (self.dim() == 0) return {cotangents[0]};
  DType t = compute_type(self.dtype());
  int64_t d = wrap_dim(std::get<Dim>(arguments[1]), self.dim(), "logcumsumexp");
  Tensor x = to_dtype(self, t), y = to_dtype(results[0], t), c = to_dtype(cotangents[0], t);
  // Shifted by the largest element of the row, which cancels.
  Tensor top =
      expand_to(prim::barrier(reduce_keep(x, {d}, Monoid::maximum, true)), graph::sizes_of(x));
  Tensor scaled = prim::mul(c, prim::exp(prim::sub(top, y)));
  Tensor g = prim::mul(prim::exp(prim::sub(x, top)), sum_behind(scaled, d));
  return {to_dtype(g, self.dtype())};
}

}  // namespace

const Op<Tensor(const Tensor&, Dim)> logcumsumexp{
    "logcumsumexp(Tensor self, int dim) -> Tensor",
    R"(The logarithm of the running sum of exponentials along a dim, shifted by the row's largest element. Dtypes: floats.
Errors: RuntimeError for other dtypes, IndexError for a dim out of range.)",
    [](const Tensor& self, Dim dim) {
      int64_t d = wrap_dim(dim, self.dim(), "logcumsumexp");
      check(is_float(self.dtype()), ErrorKind::runtime, "logcumsumexp: not implemented for ",
            self.dtype());
      if (self.dim() == 0) return prim::barrier(self);
      Tensor x = to_dtype(self, compute_type(self.dtype()));
      // In float64, so that what is far below the largest element of the row is not lost.
      Sizes sizes = graph::sizes_of(x);
      Tensor whole = expand_to(reduce_keep(x, {d}, Monoid::maximum, true), sizes);
      Tensor finite = prim::lt(prim::abs(whole), prim::constant(HUGE_VAL, x.dtype(), sizes));
      whole = prim::select(finite, whole, prim::zeros_like(whole));
      DType wide = DType::float64;
      Tensor total = prim::scan(prim::exp(prim::cast(prim::sub(x, whole), wide)), d, Monoid::sum);
      Tensor y = prim::add(prim::cast(prim::log(total), x.dtype()), whole);
      return to_dtype(y, self.dtype());
    },
    kDefaultForms,
    BodyKind::composite,
    logcumsumexp_rule};

}  // namespace flambeau::ops
