#include "flambeau/io/element.h"

#include <bit>
#include <complex>
#include <cstring>

#include "flambeau/base/error.h"

namespace flambeau {

float half_to_float(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact
  return sign ? -magnitude : magnitude;
}

uint16_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {
    // Below the smallest normal: adding 2^-1 * 2^-13 aligns the bits, and the addition rounds to
    // nearest even.
    float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3F000000u));
  }
  uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

uint16_t float_to_bfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

namespace {

template <class T>
T load(const void* memory) {
  T value;
  std::memcpy(&value, memory, sizeof value);
  return value;
}
template <class T>
void store(void* memory, T value) {
  std::memcpy(memory, &value, sizeof value);
}

/// Out-of-range and NaN as the hardware converts them: the smallest int64.
int64_t to_integer(const Scalar& value) {
  if (value.is_integral()) return value.integer();
  double real = value.real();
  return real >= -0x1p63 && real < 0x1p63 ? static_cast<int64_t>(real) : INT64_MIN;
}

}  // namespace

Scalar load_element(const void* memory, DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return Scalar(load<uint8_t>(memory) != 0);
    case DType::uint8:
      return Scalar(int64_t{load<uint8_t>(memory)});
    case DType::int8:
      return Scalar(int64_t{load<int8_t>(memory)});
    case DType::int16:
      return Scalar(int64_t{load<int16_t>(memory)});
    case DType::int32:
      return Scalar(int64_t{load<int32_t>(memory)});
    case DType::int64:
      return Scalar(load<int64_t>(memory));
    case DType::float16:
      return Scalar(double{half_to_float(load<uint16_t>(memory))});
    case DType::bfloat16:
      return Scalar(
          double{std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(memory)) << 16)});
    case DType::float32:
      return Scalar(double{load<float>(memory)});
    case DType::float64:
      return Scalar(load<double>(memory));
    case DType::complex64:
      return Scalar(std::complex<double>(load<std::complex<float>>(memory)));
    case DType::complex128:
      return Scalar(load<std::complex<double>>(memory));
  }
  fail(ErrorKind::internal, text("internal error: no elements of dtype ", dtype));
}

void store_element(void* memory, DType dtype, const Scalar& value) {
  switch (dtype) {
    case DType::boolean:
      return store(memory, static_cast<uint8_t>(value.boolean()));
    case DType::uint8:
      return store(memory, static_cast<uint8_t>(to_integer(value)));
    case DType::int8:
      return store(memory, static_cast<int8_t>(to_integer(value)));
    case DType::int16:
      return store(memory, static_cast<int16_t>(to_integer(value)));
    case DType::int32:
      return store(memory, static_cast<int32_t>(to_integer(value)));
    case DType::int64:
      return store(memory, to_integer(value));
    case DType::float16:
      return store(memory, float_to_half(static_cast<float>(value.real())));
    case DType::bfloat16:
      return store(memory, float_to_bfloat16(static_cast<float>(value.real())));
    case DType::float32:
      return store(memory, static_cast<float>(value.real()));
    case DType::float64:
      return store(memory, value.real());
    case DType::complex64:
      return store(memory, std::complex<float>(static_cast<float>(value.real()),
                                               static_cast<float>(value.imag())));
    case DType::complex128:
      return store(memory, std::complex<double>(value.real(), value.imag()));
  }
  fail(ErrorKind::internal, text("internal error: no elements of dtype ", dtype));
}

Scalar item(const Tensor& t) {
  check(t.numel() == 1, ErrorKind::runtime, "a Tensor with ", t.numel(),
        " elements cannot be converted to Scalar");
  return load_element(t.data(), t.dtype());
}

Tensor scalar_tensor(const Scalar& value, DType dtype) {
  Tensor t = empty_tensor(Dims(), dtype);
  store_element(t.data(), dtype, value);
  return t;
}

}  // namespace flambeau
