// Addition, subtraction, multiplication and division with promotion and broadcasting.
#include "flambeau/ops/arithmetic.h"

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

/// alpha * other, in the promoted type.
Tensor scaled(const Tensor& other, const Number& alpha, DType dtype, const char* name) {
  bool exact = category(alpha.dtype()) <= category(dtype);
  check(exact || dtype == DType::boolean, ErrorKind::runtime, name,
        ": For integral input tensors, argument alpha must not be a floating point number.");
  check(dtype == DType::boolean || alpha.kind() != Scalar::Kind::boolean, ErrorKind::runtime, name,
        ": Boolean alpha only supported for Boolean results.");
  DType compute = compute_type(dtype);
  if (compute == DType::boolean)
    return prim::bit_and(other, expand_to(to_tensor(alpha, compute), graph::sizes_of(other)));
  return mul(other, expand_to(to_tensor(alpha, compute), graph::sizes_of(other)));
}

Tensor add_or_sub(const Tensor& a, const Tensor& b, const Number& alpha, DType dtype,
                  const char* name, bool subtract) {
  Sizes sizes = broadcast_sizes({a, b}, name);
  DType compute = compute_type(dtype);
  auto ready = [&](const Tensor& x) {
    return to_dtype(expand_to(to_dtype(x, dtype), sizes), compute);
  };
  // A default alpha of 1 is a constant: multiplying by it is exact and is left out.
  bool one = !alpha.traced().defined() && alpha.kind() == Scalar::Kind::integer &&
             alpha.scalar().integer() == 1;
  Tensor x = ready(a), y = ready(b);
  if (!one) y = scaled(y, alpha, dtype, name);
  if (compute == DType::boolean) return prim::bit_or(x, y);
  return to_dtype(subtract ? sub(x, y) : add(x, y), dtype);
}

void check_subtraction(DType a, DType b, const char* name) {
  check(a != DType::boolean && b != DType::boolean, ErrorKind::runtime, name,
        ": Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
        "to invert a mask, use the `~` or "
        "`logical_not()` operator instead.");
}

Tensor product(const Tensor& a, const Tensor& b) {
  return a.dtype() == DType::boolean ? prim::bit_and(a, b) : mul(a, b);
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Number&)> add_tensor{
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    R"(self + alpha * other, element by element, after broadcasting and promotion.

Shapes: any that broadcast together. Dtypes: all; for bool the result is the logical or. Errors: RuntimeError where
shapes do not broadcast, and for a floating-point alpha with integers.)",
    [](const Tensor& self, const Tensor& other, const Number& alpha) {
      return add_or_sub(self, other, alpha, result_type({self, other}), "add", false);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Number&, const Number&)> add_scalar{
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    R"(self + alpha * other with a number. See add.Tensor.)",
    [](const Tensor& self, const Number& other, const Number& alpha) {
      DType dtype = result_type({self}, {other});
      return add_or_sub(self, to_tensor(other, dtype), alpha, dtype, "add", false);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Tensor&, const Number&)> sub_tensor{
    "sub.Tensor|subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    R"(self - alpha * other, element by element, after broadcasting and promotion.

Shapes: any that broadcast together. Dtypes: all but bool. Errors: RuntimeError as for add, and for bool tensors.)",
    [](const Tensor& self, const Tensor& other, const Number& alpha) {
      check_subtraction(self.dtype(), other.dtype(), "sub");
      return add_or_sub(self, other, alpha, result_type({self, other}), "sub", true);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Number&, const Number&)> sub_scalar{
    "sub.Scalar|subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    R"(self - alpha * other with a number. See sub.Tensor.)",
    [](const Tensor& self, const Number& other, const Number& alpha) {
      check_subtraction(self.dtype(), other.dtype(), "sub");
      DType dtype = result_type({self}, {other});
      return add_or_sub(self, to_tensor(other, dtype), alpha, dtype, "sub", true);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Tensor&)> mul_tensor{
    "mul.Tensor|multiply.Tensor(Tensor self, Tensor other) -> Tensor",
    R"(self * other, element by element, after broadcasting and promotion.

Shapes: any that broadcast together. Dtypes: all; for bool the result is the logical and.)",
    [](const Tensor& self, const Tensor& other) {
      return binary(self, other, result_type({self, other}), "mul", product);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Number&)> mul_scalar{
    "mul.Scalar|multiply.Scalar(Tensor self, Scalar other) -> Tensor",
    R"(self * other with a number. See mul.Tensor.)",
    [](const Tensor& self, const Number& other) {
      DType dtype = result_type({self}, {other});
      return binary(self, to_tensor(other, dtype), dtype, "mul", product);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Tensor&)> div_tensor{
    "div.Tensor|divide.Tensor|true_divide.Tensor(Tensor self, Tensor other) -> Tensor",
    R"(self / other, element by element, after broadcasting and promotion; integers give the default float type.

Shapes: any that broadcast together. Dtypes: all. Division by zero follows IEEE 754.)",
    [](const Tensor& self, const Tensor& other) {
      return binary(self, other, float_type(result_type({self, other})), "div", div);
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Number&)> div_scalar{
    "div.Scalar|divide.Scalar|true_divide.Scalar(Tensor self, Scalar other) -> Tensor",
    R"(self / other with a number. See div.Tensor.)",
    [](const Tensor& self, const Number& other) {
      DType dtype = float_type(result_type({self}, {other}));
      return binary(self, to_tensor(other, dtype), dtype, "div", div);
    },
    kElementwiseForms};

}  // namespace flambeau::ops
