// Element types, their numbers (those of the field, c10) and the rules of promotion.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flambeau {

enum class DType : int8_t {
  uint8 = 0,
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  float16 = 5,
  float32 = 6,
  float64 = 7,
  complex64 = 9,
  complex128 = 10,
  boolean = 11,
  bfloat16 = 15,
};
constexpr int kMaxDType = 16;

int64_t itemsize(DType t);       // bytes of an element
std::string_view name(DType t);  // "float32"
/// Nothing but the names above; throws a type Error listing them.
DType parse_dtype(std::string_view name);
inline void append(std::string& out, DType t) { out += name(t); }

constexpr bool is_complex(DType t) { return t == DType::complex64 || t == DType::complex128; }
constexpr bool is_float(DType t) {
  return t == DType::float16 || t == DType::bfloat16 || t == DType::float32 || t == DType::float64;
}
constexpr bool is_integer(DType t) { return static_cast<int>(t) <= 4; }  // without bool
constexpr bool is_inexact(DType t) { return is_float(t) || is_complex(t); }
constexpr bool is_signed(DType t) { return t != DType::uint8 && t != DType::boolean; }
DType real_type(DType t);     // complex64 -> float32, others unchanged
DType complex_type(DType t);  // float32 -> complex64; float16 and bfloat16 -> complex64

/// The smallest type of the promotion lattice that both convert to.
DType promote(DType a, DType b);
/// 0 bool, 1 integers, 2 floats, 3 complex: a number or 0-d tensor changes the type of a tensor
/// only when its category is higher.
int category(DType t);
/// The type that factories use when none is given; float32 at start. Thread-safe.
DType default_dtype();
void set_default_dtype(DType t);

}  // namespace flambeau
