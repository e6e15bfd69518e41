// What products of matrices and convolutions have in common. The order of summation is part of the
// definition: the contracted positions, in ascending order, are cut into blocks of
// kContractionBlock; inside a block one chain of fma (multiply and add for integers) from zero,
// block sums added in ascending order. Other sizes, strides, tiles and threads never change it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "flambeau/loop/builder.h"

namespace flambeau::kernel {

constexpr int64_t kContractionBlock = 256;

/// Argument slots of every product; those of its kind follow, then those of the epilogue.
enum ProductSlot : int {
  kLeft,
  kRight,  // pointers
  kLeftScratch,
  kRightScratch,  // pointers, see scratch_bytes
  kBatch,
  kRows,
  kColumns,
  kDepth,      // sizes of the product as it is computed
  kTaskTiles,  // row tiles of a task; filled in by run()
  kProductSlots,
};

struct ProductSpec {
  loop::Scalar operand;           // in memory: i8, i16, i32, i64, f16, bf16, f32, f64
  bool unsigned_operand = false;  // i8 only
  loop::Scalar accumulator;       // i32 for i8 to i32, i64, f32 for f16 to f32, f64
  int vector_bytes = 32;
};

/// Stores a vector of finished sums, in the accumulator's type. `place` has the position in each
/// dim of the result (i64 scalars); lanes follow each other along the last one. Lanes where `mask`
/// (i1 lanes, or kNone for all) is false are not part of it.
using Epilogue = std::function<void(loop::Builder&, loop::Value value,
                                    const std::vector<loop::Value>& place, loop::Value mask)>;

/// The host's part of a product.
class ProductPhases {
 public:
  ProductPhases() = default;
  ProductPhases(const ProductPhases&) = delete;
  ProductPhases& operator=(const ProductPhases&) = delete;
  virtual ~ProductPhases() = default;
  /// Bytes of scratch buffer 0 or 1 for the sizes and strides in `slots`.
  virtual int64_t scratch_bytes(int which, const int64_t* slots) const = 0;
  /// Runs the product on the thread pool. `entries` are the compiled functions of the module;
  /// `slots` are completed.
  virtual void run(const std::vector<loop::Entry>& entries, int64_t* slots) const = 0;
};

}  // namespace flambeau::kernel
