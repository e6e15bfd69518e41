// Matrix products: the template from which a product kernel is made for an operand type and an
// epilogue. The order of summation is part of the definition: K is cut into blocks of
// kContractionBlock elements, inside a block one chain of fma (multiply and add for integers) in
// ascending k from zero, block sums added in ascending order. M, N, strides, tiles and threads
// never change it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "flambeau/loop/builder.h"

namespace flambeau::kernel {

constexpr int64_t kContractionBlock = 256;

/// Argument slots of a product; those of the epilogue follow.
enum MatmulSlot : int {
  kLeft,
  kRight,  // pointers of A and B
  kLeftScratch,
  kRightScratch,  // pointers, see scratch_bytes
  kBatch,
  kRows,
  kColumns,
  kDepth,                            // sizes
  kLeftStrides,                      // of A by batch, m, k, in elements
  kRightStrides = kLeftStrides + 3,  // of B by batch, k, n
  kPanels = kRightStrides + 3,       // how B is read; this and the next are filled in by run()
  kTaskTiles,                        // row tiles of a task
  kTileStride,
  kChainStride,  // between column tiles of B and along k inside a tile, in elements
  kMatmulSlots,
};

struct MatmulSpec {
  loop::Scalar operand;           // in memory: i8, i16, i32, i64, f16, bf16, f32, f64
  bool unsigned_operand = false;  // i8 only
  loop::Scalar accumulator;       // i32 for i8 to i32, i64, f32 for f16 to f32, f64
  int vector_bytes = 32;
};

/// Stores a vector of finished sums, in the accumulator's type: columns col, col + 1, ... of row
/// `row` of product `batch` (i64 scalars). Lanes where `mask` (i1 lanes, or kNone for all) is false
/// are not part of it.
using Epilogue = std::function<void(loop::Builder&, loop::Value value, loop::Value batch,
                                    loop::Value row, loop::Value col, loop::Value mask)>;

class MatmulPhases {
 public:
  explicit MatmulPhases(const MatmulSpec& spec);
  /// Bytes of scratch buffer 0 (A) or 1 (B and sums) for the sizes and strides in `slots`.
  int64_t scratch_bytes(int which, const int64_t* slots) const;
  /// Runs the product on the thread pool. `entries` are the compiled functions of the module;
  /// strides and pointers in `slots` are replaced by those of packed operands.
  void run(const std::vector<loop::Entry>& entries, int64_t* slots) const;

 private:
  /// How tiles find B.
  enum class Panels : int64_t { in_place, packed_before, packed_by_task };

  bool packs_left() const { return spec_.operand != panel_; }
  Panels panels(const int64_t* slots) const;
  int64_t padded_depth(int64_t k) const;
  int64_t tiles_bytes(const int64_t* slots) const;  // of packed B
  int64_t right_tiles(int64_t n) const { return (n + columns_ - 1) / columns_; }

  MatmulSpec spec_;
  loop::Scalar panel_;  // what operands are multiplied in
  int64_t columns_;     // of a register tile
  friend class ProductEmitter;
};

/// Adds the functions of a product to `module`.
MatmulPhases build_matmul(loop::Module& module, const MatmulSpec& spec, const Epilogue& epilogue);

}  // namespace flambeau::kernel
