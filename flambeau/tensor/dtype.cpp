#include "flambeau/tensor/dtype.h"

#include <atomic>

#include "flambeau/base/error.h"

namespace flambeau {

namespace {
struct Info {
  DType dtype;
  std::string_view name;
  int64_t size;
  int category;
};
constexpr Info kInfos[] = {
    {DType::uint8, "uint8", 1, 1},         {DType::int8, "int8", 1, 1},
    {DType::int16, "int16", 2, 1},         {DType::int32, "int32", 4, 1},
    {DType::int64, "int64", 8, 1},         {DType::float16, "float16", 2, 2},
    {DType::float32, "float32", 4, 2},     {DType::float64, "float64", 8, 2},
    {DType::complex64, "complex64", 8, 3}, {DType::complex128, "complex128", 16, 3},
    {DType::boolean, "bool", 1, 0},        {DType::bfloat16, "bfloat16", 2, 2},
};
const Info& info(DType t) {
  for (const auto& i : kInfos) {
    if (i.dtype == t) return i;
  }
  fail(ErrorKind::type, text("unknown dtype number ", static_cast<int>(t)));
}
std::atomic<DType> default_dtype_{DType::float32};
}  // namespace

int64_t itemsize(DType t) { return info(t).size; }
std::string_view name(DType t) { return info(t).name; }
int category(DType t) { return info(t).category; }

DType parse_dtype(std::string_view name) {
  std::string names;
  for (const auto& i : kInfos) {
    if (i.name == name) return i.dtype;
    names += names.empty() ? "" : ", ";
    names += i.name;
  }
  fail(ErrorKind::type, text("unknown dtype '", name, "'; known are ", names));
}

DType real_type(DType t) {
  return t == DType::complex64 ? DType::float32 : t == DType::complex128 ? DType::float64 : t;
}
DType complex_type(DType t) {
  if (is_complex(t)) return t;
  return t == DType::float64 ? DType::complex128 : DType::complex64;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  int ca = category(a), cb = category(b);
  if (ca < cb) return promote(b, a);
  if (ca > cb) {
    // A higher category wins; complex keeps the precision of a float64 partner.
    return a == DType::complex64 && b == DType::float64 ? DType::complex128 : a;
  }
  if (ca == 1) {
    // uint8 and a signed type of one byte meet in int16.
    if (a == DType::uint8 || b == DType::uint8) {
      DType other = a == DType::uint8 ? b : a;
      return other == DType::int8 ? DType::int16 : other;
    }
    return itemsize(a) > itemsize(b) ? a : b;
  }
  if (itemsize(a) != itemsize(b)) return itemsize(a) > itemsize(b) ? a : b;
  return DType::float32;  // float16 with bfloat16
}

DType default_dtype() { return default_dtype_.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) {
  check(is_float(t), ErrorKind::type,
        "set_default_dtype: only floating-point types are supported, got ", t);
  default_dtype_.store(t);
}

}  // namespace flambeau
