// What an elementwise primitive gets to write its part of a kernel.
#pragma once

#include <functional>
#include <vector>

#include "flambeau/graph/primitive.h"
#include "flambeau/loop/builder.h"

namespace flambeau::prim {

/// What a kernel can report about values; zero means nothing went wrong.
enum class KernelError : int64_t {
  none = 0,
  division_by_zero = 1,
  index_out_of_range = 2,
  negative_exponent = 3,
  position_out_of_range = 4
};

struct Lowering {
  loop::Builder& b;
  const std::vector<loop::Value>&
      x;                // operands: vectors of `lanes` lanes in the compute form of their dtype
  DType operand_dtype;  // of x[0]
  DType result_dtype;
  int lanes;
  /// Reports an error for the lanes where `condition` (i1) holds.
  std::function<void(loop::Value condition, KernelError error)> raise;

  loop::Type type(DType t) const;  // vector type of a dtype in kernels
  loop::Value real(double v) const { return b.real(v, type(operand_dtype)); }
  loop::Value integer(int64_t v) const { return b.integer(v, type(operand_dtype)); }
};

/// The scalar type that holds a real dtype inside kernels: bool is i1, float16 and bfloat16 keep
/// their format.
loop::Scalar scalar_of(DType t);
/// The type of an element in memory: bool is i8.
loop::Scalar memory_scalar_of(DType t);

}  // namespace flambeau::prim
