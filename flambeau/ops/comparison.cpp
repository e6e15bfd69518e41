// Whether tensors are equal or close.
#include <cmath>

#include "flambeau/base/error.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;

Tensor both_nan(const Tensor& a, const Tensor& b) {
  return prim::bit_and(prim::ne(a, a), prim::ne(b, b));
}

/// |a - b| <= atol + rtol |b|, or equal; for floats.
Tensor close(const Tensor& a, const Tensor& b, const Number& rtol, const Number& atol,
             bool equal_nan) {
  Sizes sizes = graph::sizes_of(a);
  auto number = [&](const Number& n) { return expand_to(to_tensor(n, a.dtype()), sizes); };
  Tensor gap = prim::abs(prim::sub(a, b));
  Tensor allowed = prim::add(number(atol), prim::abs(prim::mul(number(rtol), b)));
  Tensor finite = prim::lt(gap, prim::constant(HUGE_VAL, a.dtype(), sizes));
  Tensor result = prim::bit_or(prim::eq(a, b), prim::bit_and(finite, prim::le(gap, allowed)));
  return equal_nan ? prim::bit_or(result, both_nan(a, b)) : result;
}

Tensor all_of(const Tensor& x) {
  Tensor f = flat(x);
  return prim::reduce(f, {0}, Monoid::all);
}

}  // namespace

namespace {

const Op<Tensor(const Tensor&, const Tensor&, const Number&, const Number&, bool)> close_values{
    "_isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
    "-> "
    "Tensor",
    R"(isclose with tolerances that are not negative.)",
    [](const Tensor& self, const Tensor& other, const Number& rtol, const Number& atol,
       bool equal_nan) {
      check(self.dtype() == other.dtype(), ErrorKind::runtime, "isclose: ", self.dtype(),
            " did not match ", other.dtype());
      Sizes sizes = broadcast_sizes({self, other}, "isclose");
      DType t = self.dtype();
      Tensor a = expand_to(self, sizes), b = expand_to(other, sizes);
      if (is_complex(t)) {
        Pair x = components(a), y = components(b);
        Tensor re = prim::sub(x.re, y.re), im = prim::sub(x.im, y.im);
        auto length = [](const Tensor& u, const Tensor& v) {
          return prim::sqrt(prim::add(prim::mul(u, u), prim::mul(v, v)));
        };
        auto number = [&](const Number& n) { return expand_to(to_tensor(n, re.dtype()), sizes); };
        Tensor gap = length(re, im);
        Tensor allowed = prim::add(number(atol), prim::mul(number(rtol), length(y.re, y.im)));
        Tensor equal = prim::bit_and(prim::eq(x.re, y.re), prim::eq(x.im, y.im));
        Tensor result = prim::bit_or(
            equal, prim::bit_and(prim::lt(gap, prim::constant(HUGE_VAL, re.dtype(), sizes)),
                                 prim::le(gap, allowed)));
        if (!equal_nan) return result;
        auto nan = [](const Pair& p) {
          return prim::bit_or(prim::ne(p.re, p.re), prim::ne(p.im, p.im));
        };
        return prim::bit_or(result, prim::bit_and(nan(x), nan(y)));
      }
      DType compute = is_float(t) ? compute_type(t) : DType::float64;
      return close(to_dtype(a, compute), to_dtype(b, compute), rtol, atol, equal_nan);
    },
    0};

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Number&, const Number&, bool)> isclose{
    "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
    "-> Tensor",
    R"(Where |self - other| <= atol + rtol |other|; NaN is close to NaN with equal_nan. Shapes broadcast. Errors:
RuntimeError for different dtypes or negative tolerances.)",
    [](const Tensor& self, const Tensor& other, const Number& rtol, const Number& atol,
       bool equal_nan) {
      check(rtol.scalar().real() >= 0, ErrorKind::runtime,
            "isclose: rtol must be greater than or equal to zero, but got ", rtol);
      check(atol.scalar().real() >= 0, ErrorKind::runtime,
            "isclose: atol must be greater than or equal to zero, but got ", atol);
      return close_values(self, other, rtol, atol, equal_nan);
    },
    kFunction | kMethod, BodyKind::direct};

namespace {

const Op<Tensor(const Tensor&)> all_true{
    "_all_true(Tensor self) -> Tensor", R"(Whether all elements are true, 0-d.)",
    [](const Tensor& self) { return all_of(to_dtype(self, DType::boolean)); }, 0};

const Op<Tensor(const Tensor&, const Tensor&)> same_values{
    "_same_values(Tensor self, Tensor other) -> Tensor",
    R"(Whether all elements are equal, 0-d; of one shape and dtype.)",
    [](const Tensor& self, const Tensor& other) {
      if (!is_complex(self.dtype())) {
        DType t = compute_type(self.dtype());
        return all_of(prim::eq(to_dtype(self, t), to_dtype(other, t)));
      }
      Pair x = components(self), y = components(other);
      return all_of(prim::bit_and(prim::eq(x.re, y.re), prim::eq(x.im, y.im)));
    },
    0};

bool value_of(const Tensor& t) { return *t.data_as<uint8_t>() != 0; }

}  // namespace

const Op<Argument(const Tensor&, const Tensor&, const Number&, const Number&, bool)> allclose{
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
    "-> bool",
    R"(Whether isclose holds everywhere: a Python bool.)",
    [](const Tensor& self, const Tensor& other, const Number& rtol, const Number& atol,
       bool equal_nan) {
      return Argument(value_of(all_true(isclose(self, other, rtol, atol, equal_nan))));
    },
    kFunction | kMethod, BodyKind::direct};

const Op<Argument(const Tensor&, const Tensor&)> equal{
    "equal(Tensor self, Tensor other) -> bool",
    R"(Whether both have the same shape and elements: a Python bool; NaN equals nothing. Errors: RuntimeError for different
dtypes.)",
    [](const Tensor& self, const Tensor& other) {
      if (self.sizes() != other.sizes()) return Argument(false);
      check(self.dtype() == other.dtype(), ErrorKind::runtime,
            "equal: Expected all tensors to have the same dtype, but got ", self.dtype(), " and ",
            other.dtype());
      return Argument(value_of(same_values(self, other)));
    },
    kFunction | kMethod, BodyKind::direct};

}  // namespace flambeau::ops
