// Boxed arguments and results of operator calls, and the types that operator bodies see.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "flambeau/graph/size.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

/// An integer that is structure: a dim, a count of digits. Its value is part of a plan's key.
struct Dim {
  int64_t value = 0;
  Dim() = default;
  Dim(int64_t v) : value(v) {}
  Dim(int v) : value(v) {}
  operator int64_t() const { return value; }
};
using DimList = std::vector<int64_t>;

/// A Python number in a body. Its kind is structure, its value is data: while tracing it is a 0-d
/// input.
class Number {
 public:
  Number() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  Number(T v)
      : scalar_(std::is_same_v<T, bool> ? Scalar(static_cast<bool>(v))
                : std::is_integral_v<T> ? Scalar(static_cast<int64_t>(v))
                                        : Scalar(static_cast<double>(v))) {}
  Number(Scalar v) : scalar_(v) {}
  Number(Scalar v, Tensor traced) : scalar_(v), traced_(std::move(traced)) {}
  /// The present value. A body that decides by it must call `specialize`, never this.
  const Scalar& scalar() const { return scalar_; }
  const Tensor& traced() const { return traced_; }
  Scalar::Kind kind() const { return scalar_.kind(); }
  DType dtype() const { return scalar_.dtype(); }

 private:
  Scalar scalar_;
  Tensor traced_;  // 0-d: bool, int64, float64 or complex128 by kind
};
inline void append(std::string& out, const Number& n) { append(out, n.scalar()); }

using TensorList = std::vector<Tensor>;
using OptionalTensorList = std::vector<Tensor>;  // undefined tensors stand for None

/// One boxed argument or result.
using Argument = std::variant<std::monostate,  // None
                              Tensor, TensorList, bool, Dim, Size, DimList, Sizes, Number, DType,
                              std::string, Device>;

}  // namespace flambeau
