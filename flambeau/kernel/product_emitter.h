// The kernel of a product: a register tile of `rows` x `vectors` vectors runs over a block of the
// contracted positions; blocks of rows and columns that fit in the second-level cache are the
// tasks. How operands are found is up to the kind of product.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "flambeau/kernel/product.h"

namespace flambeau::kernel {

/// What operands are multiplied in.
loop::Scalar panel_scalar(loop::Scalar operand);

/// The register tile, in rows and vectors. Both keep as many sums as there are registers for;
/// tall tiles read B less often, wide ones suit numbers of rows that are multiples of 4 or 8.
enum class TileShape : uint8_t { tall, wide };

/// Sizes of the register tile, and what follows from them for the host.
struct TileGeometry {
  int bytes, lanes, rows, vectors, columns;
  TileGeometry(loop::Scalar panel, int vector_bytes, TileShape shape);
  int64_t task_columns() const;
  /// Memory of all workers: unfinished sums of a task and one panel.
  int64_t workers_bytes() const;
  int64_t worker_elements() const;
};

/// Launches the tasks of `tiles`, the function that ProductEmitter::tiles makes.
void launch_tiles(loop::Entry tiles, const TileGeometry& geometry, int64_t* slots, bool serial,
                  bool large_tasks);
void launch_tasks(loop::Entry entry, const int64_t* slots, int64_t tasks, bool serial);
/// Whether one thread does everything.
bool is_serial(int64_t batch, int64_t rows, int64_t columns, int64_t depth);

class ProductEmitter {
 public:
  ProductEmitter(const ProductSpec& spec, const Epilogue& epilogue, TileShape shape);
  virtual ~ProductEmitter() = default;
  ProductEmitter(const ProductEmitter&) = delete;
  ProductEmitter& operator=(const ProductEmitter&) = delete;

  /// The product itself. kRightScratch points to the workers' memory: sums of unfinished blocks,
  /// [row tile, column tile, rows, columns], and a panel.
  loop::Function tiles();

 protected:
  using Builder = loop::Builder;
  using Value = loop::Value;

  /// One product of the batch.
  struct Batch {
    std::vector<Value> place;  // in the leading dims of the result
    Value left;                // pointer to A
    Value right;               // element number of B from kRight
  };
  struct Tile {
    const Batch& batch;
    Value panel;        // pointer to the tile's columns of B
    Value sums, where;  // memory of unfinished sums and the tile's position there
    Value finished;     // memory of the tile's sums, [rows, columns]
    Value row, column, m, n, lo, hi, k;
  };

  virtual Batch batch_of(Builder& b, Value number) = 0;
  /// The pointer to columns column, column + 1, ... of B; `own_panel` is memory of the worker.
  virtual Value panel_of(Builder& b, const Batch& batch, Value column, Value n, Value lo, Value hi,
                         Value own_panel) = 0;
  /// Sums of the tile over [lo, hi): rows x vectors.
  virtual std::vector<Value> block_sums(Builder& b, const Tile& t) = 0;
  /// Hands the tile's sums in t.finished to the epilogue.
  virtual void finish(Builder& b, const Tile& t) = 0;
  /// Element number of a row of A from the batch's left.
  virtual Value row_position(Builder& b, Value row) = 0;
  virtual Value padded_depth(Builder& b, Value k) { return k; }
  /// Whether the terms are those of bfloat16 pairs, whose denormal sums are flushed.
  virtual bool flushes() const = 0;

  /// One chain for each element of the tile over [t.lo, t.hi). `advance` gives the element numbers
  /// in a row of A and in the panel, and moves the cursor on. `masks` limit what is read of B,
  /// none: nothing does.
  std::vector<Value> chains(
      Builder& b, const Tile& t, const std::vector<Value>& masks, const std::vector<Value>& cursor,
      const std::function<std::pair<Value, Value>(std::vector<Value>&)>& advance);

  Value pointer(Builder& b, int slot) { return b.slot(slot, loop::Scalar::ptr); }
  Value size(Builder& b, int slot) { return b.slot(slot, loop::Scalar::i64); }
  Value up(Builder& b, Value x, int64_t unit);  // x / unit, rounded up
  Value column_mask(Builder& b, Value column, Value n);
  std::vector<Value> column_masks(Builder& b, const Tile& t);
  /// x where it is not denormal, else a zero of its sign.
  Value flushed(Builder& b, Value x);

  const ProductSpec& spec_;
  const Epilogue& epilogue_;
  loop::Scalar panel_;
  TileGeometry g_;
  int bytes_, lanes_, rows_, vectors_, columns_;

 private:
  void tile_block(Builder& b, const Tile& t);
  Value zero(Builder& b);
  Value accumulate(Builder& b, Value x, Value y, Value sum);
};

}  // namespace flambeau::kernel
