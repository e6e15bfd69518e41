// Matrix products: the template from which a product kernel is made for an operand type and an epilogue.
// Operands of any strides are packed into panels; a register tile runs over the panels. The order of summation
// is part of the definition: K is cut into blocks of kContractionBlock elements, inside a block one fma chain
// in ascending k from zero, block sums added in ascending order. M, N, tiles and threads never change it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "flambeau/emit/code.h"
#include "flambeau/loop/builder.h"

namespace flambeau::kernel {

/// Argument slots from `first_slot`: pointers of A, B and two scratch buffers, then batch, m, n, k, then the
/// strides of A (batch, m, k) and of B (batch, k, n) in elements. Slots of the epilogue follow.
constexpr int kMatmulSlots = 14;

struct MatmulSpec {
  loop::Scalar operand;           // in memory: i8, i16, i32, i64, f16, bf16, f32, f64
  bool unsigned_operand = false;  // i8 only
  loop::Scalar accumulator;       // i32, i64, f32, f64
  int first_slot = 0;
  int vector_bytes = 32;
};

/// Stores a vector of finished sums, in the accumulator's type: columns col, col + 1, ... of row `row` of
/// product `batch` (i64 scalars). Lanes where `mask` (i1 lanes, or kNone for all) is false are not part of it.
using Epilogue = std::function<void(loop::Builder&, loop::Value value, loop::Value batch, loop::Value row, loop::Value col, loop::Value mask)>;

struct MatmulPhases {
  MatmulSpec spec;
  /// Bytes of scratch buffer `which` (0 or 1) for a product of these sizes; may depend on the number of threads.
  int64_t scratch_bytes(int which, int64_t batch, int64_t m, int64_t n, int64_t k) const;
  /// Runs the product on the thread pool. `entries` are the compiled functions of the module.
  void run(const std::vector<emit::Entry>& entries, const int64_t* slots, int64_t batch, int64_t m, int64_t n, int64_t k) const;
};

/// Adds the functions of a product to `module`.
MatmulPhases build_matmul(loop::Module& module, const MatmulSpec& spec, const Epilogue& epilogue);

}  // namespace flambeau::kernel
