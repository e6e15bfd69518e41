// Single elements of any dtype as scalars, for what looks at values one by one: printing, lists,
// item(). Kernels never come here.
#pragma once

#include <cstdint>

#include "flambeau/tensor/scalar.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

/// The element at `memory`; every value of every dtype is represented exactly.
Scalar load_element(const void* memory, DType dtype);
/// Converts as the field does: rounds to nearest even, truncates to integers, wraps around.
void store_element(void* memory, DType dtype, const Scalar& value);
/// The only element of a tensor; throws a runtime Error when it has another number of elements.
Scalar item(const Tensor& t);
/// A new 0-d tensor.
Tensor scalar_tensor(const Scalar& value, DType dtype);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
uint16_t float_to_bfloat16(float value);

/// Calls visit(pointer to element) for every element in logical order.
template <class F>
void for_each_element(const Tensor& t, F&& visit) {
  if (t.numel() == 0) return;
  const char* base = t.data();
  int64_t size = itemsize(t.dtype());
  Dims at(t.dim());
  for (int64_t i = 0, offset = 0;;) {
    visit(base + offset * size);
    if (++i == t.numel()) return;
    for (int64_t d = t.dim() - 1;; --d) {
      offset += t.stride(d);
      if (++at[d] < t.size(d)) break;
      offset -= t.stride(d) * t.size(d);
      at[d] = 0;
    }
  }
}

}  // namespace flambeau
