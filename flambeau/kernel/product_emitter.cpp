#include "flambeau/kernel/product_emitter.h"

#include <algorithm>
#include <cstddef>

#include "flambeau/base/threads.h"

namespace flambeau::kernel {

using loop::Builder;
using loop::kNone;
using loop::Opcode;
using loop::Type;
using loop::Value;
using LoopScalar = loop::Scalar;

namespace {

constexpr int kUnroll = 4;
// A task: at most so many row tiles and columns of the result.
constexpr int64_t kTaskRowTiles = 16, kTaskColumns = 256;
// Multiplications below which one thread does everything.
constexpr int64_t kSerialProduct = 1 << 17;
constexpr int64_t kTasksPerThread = 4;

struct Launch {
  loop::Entry entry;
  const int64_t* slots;
  static void body(void* context, int64_t begin, int64_t end, int64_t worker) {
    auto* l = static_cast<Launch*>(context);
    l->entry(l->slots, begin, end, worker);
  }
};

}  // namespace

LoopScalar panel_scalar(LoopScalar operand) {
  switch (operand) {
    case LoopScalar::f16:
    case LoopScalar::bf16:
      return LoopScalar::f32;
    case LoopScalar::i8:
    case LoopScalar::i16:
      return LoopScalar::i32;
    default:
      return operand;
  }
}

TileGeometry::TileGeometry(LoopScalar panel, int vector_bytes, TileShape shape)
    : bytes(loop::bits(panel) / 8),
      lanes(vector_bytes / bytes),
      rows((shape == TileShape::tall ? 6 : 4) * (vector_bytes == 64 ? 2 : 1)),
      vectors(shape == TileShape::tall ? 2 : 3),
      columns(vectors * lanes) {}

int64_t TileGeometry::task_columns() const { return kTaskColumns / columns * columns; }

int64_t TileGeometry::worker_elements() const {
  return kTaskRowTiles * rows * task_columns() + kContractionBlock * columns;
}
int64_t TileGeometry::workers_bytes() const { return num_threads() * worker_elements() * bytes; }

void launch_tasks(loop::Entry entry, const int64_t* slots, int64_t tasks, bool serial) {
  if (tasks <= 0) return;
  if (serial || tasks == 1) return entry(slots, 0, tasks, 0);
  Launch l{entry, slots};
  parallel_for(tasks, 1, 1, &Launch::body, &l);
}

bool is_serial(int64_t batch, int64_t rows, int64_t columns, int64_t depth) {
  return static_cast<double>(batch) * static_cast<double>(rows) * static_cast<double>(columns) *
             static_cast<double>(depth) <
         kSerialProduct;
}

void launch_tiles(loop::Entry tiles, const TileGeometry& geometry, int64_t* slots, bool serial,
                  bool large_tasks) {
  int64_t row_tiles = (slots[kRows] + geometry.rows - 1) / geometry.rows,
          column_blocks = (slots[kColumns] + geometry.task_columns() - 1) / geometry.task_columns();
  // Some tasks for each thread, as far as there are tiles.
  int64_t threads = serial ? 1 : num_threads();
  int64_t task_tiles = std::clamp<int64_t>(
      slots[kBatch] * column_blocks * row_tiles / (threads * kTasksPerThread), 1, kTaskRowTiles);
  if (serial || large_tasks) task_tiles = kTaskRowTiles;
  slots[kTaskTiles] = task_tiles;
  launch_tasks(tiles, slots,
               slots[kBatch] * ((row_tiles + task_tiles - 1) / task_tiles) * column_blocks, serial);
}

ProductEmitter::ProductEmitter(const ProductSpec& spec, const Epilogue& epilogue, TileShape shape)
    : spec_(spec),
      epilogue_(epilogue),
      panel_(panel_scalar(spec.operand)),
      g_(panel_, spec.vector_bytes, shape),
      bytes_(g_.bytes),
      lanes_(g_.lanes),
      rows_(g_.rows),
      vectors_(g_.vectors),
      columns_(g_.columns) {}

loop::Function ProductEmitter::tiles() {
  Builder b("tiles");
  Value m = size(b, kRows), n = size(b, kColumns), k = padded_depth(b, size(b, kDepth));
  Value task_rows = b.mul(size(b, kTaskTiles), b.integer(rows_));
  Value row_blocks = b.binary(Opcode::udiv, b.add(m, b.sub(task_rows, b.integer(1))), task_rows),
        column_blocks = up(b, n, g_.task_columns());
  Value finished = b.stack(static_cast<int64_t>(rows_) * columns_ * bytes_);
  int64_t task_columns = g_.task_columns(), column_tiles = task_columns / columns_;
  Value sums = b.offset(pointer(b, kRightScratch),
                        b.mul(b.worker(), b.integer(g_.worker_elements())), bytes_);
  Value own_panel = b.offset(sums, b.integer(kTaskRowTiles * rows_ * task_columns), bytes_);
  b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
    // Row blocks first: threads share columns of B between them before rows of A.
    Value row_block = b.binary(Opcode::urem, t, row_blocks),
          rest = b.binary(Opcode::udiv, t, row_blocks);
    Value column_block = b.binary(Opcode::urem, rest, column_blocks),
          number = b.binary(Opcode::udiv, rest, column_blocks);
    Value first_row = b.mul(row_block, task_rows),
          first_column = b.mul(column_block, b.integer(task_columns));
    Value last_row = b.smin(b.add(first_row, task_rows), m);
    Value last_column = b.smin(b.add(first_column, b.integer(task_columns)), n);
    Batch batch = batch_of(b, number);
    // At least one block, so that K = 0 stores zeros.
    b.loop(b.integer(0), b.smax(k, b.integer(1)), kContractionBlock, {},
           [&](Value lo, const std::vector<Value>&) -> std::vector<Value> {
             Value hi = b.smin(b.add(lo, b.integer(kContractionBlock)), k);
             b.loop(first_column, last_column, columns_, {},
                    [&](Value column, const std::vector<Value>&) -> std::vector<Value> {
                      Value panel = panel_of(b, batch, column, n, lo, hi, own_panel);
                      b.loop(first_row, last_row, rows_, {},
                             [&](Value row, const std::vector<Value>&) -> std::vector<Value> {
                               Value row_tile =
                                   b.binary(Opcode::udiv, b.sub(row, first_row), b.integer(rows_));
                               Value column_tile = b.binary(
                                   Opcode::udiv, b.sub(column, first_column), b.integer(columns_));
                               Value where = b.mul(
                                   b.add(b.mul(row_tile, b.integer(column_tiles)), column_tile),
                                   b.integer(rows_ * columns_));
                               tile_block(b, {batch, panel, sums, where, finished, row, column, m,
                                              n, lo, hi, k});
                               return {};
                             });
                      return {};
                    });
             return {};
           });
    return {};
  });
  return b.finish();
}

Value ProductEmitter::up(Builder& b, Value x, int64_t unit) {
  return b.binary(Opcode::udiv, b.add(x, b.integer(unit - 1)), b.integer(unit));
}

Value ProductEmitter::flushed(Builder& b, Value x) {
  Type type = b.type(x), bits{LoopScalar::i32, type.lanes};
  Value small = b.compare(Opcode::lt, b.unary(Opcode::abs, x), b.real(0x1p-126, type));
  Value sign = b.bitcast(b.bit_and(b.bitcast(x, LoopScalar::i32), b.integer(INT32_MIN, bits)),
                         LoopScalar::f32);
  return b.select(small, sign, x);
}

Value ProductEmitter::zero(Builder& b) {
  Type type{panel_, lanes_};
  return loop::is_float(panel_) ? b.real(0, type) : b.integer(0, type);
}

Value ProductEmitter::accumulate(Builder& b, Value x, Value y, Value sum) {
  if (!loop::is_float(panel_)) return b.add(sum, b.mul(x, y));
  Value next = b.fma(x, y, sum);
  return flushes() ? flushed(b, next) : next;
}

std::vector<Value> ProductEmitter::chains(
    Builder& b, const Tile& t, const std::vector<Value>& masks, const std::vector<Value>& cursor,
    const std::function<std::pair<Value, Value>(std::vector<Value>&)>& advance) {
  std::vector<Value> rows;
  Value last = b.sub(t.m, b.integer(1));
  for (int r = 0; r < rows_; ++r) {
    // Rows beyond the last one compute it again and store nothing.
    Value row = b.smin(b.add(t.row, b.integer(r)), last);
    rows.push_back(b.offset(t.batch.left, row_position(b, row), bytes_));
  }
  auto sums = static_cast<std::ptrdiff_t>(rows_ * vectors_);
  auto step = [&](std::vector<Value> state) {
    std::vector<Value> at(state.begin() + sums, state.end());
    auto [left, right] = advance(at);
    std::copy(at.begin(), at.end(), state.begin() + sums);
    std::vector<Value> panel;
    for (int v = 0; v < vectors_; ++v) {
      Value index = v == 0 ? right : b.add(right, b.integer(v * lanes_));
      panel.push_back(b.load(t.panel, index, {panel_, lanes_},
                             masks.empty() ? kNone : masks[static_cast<size_t>(v)]));
    }
    for (int r = 0; r < rows_; ++r) {
      Value x = b.splat(b.load(rows[static_cast<size_t>(r)], left, {panel_, 1}), lanes_);
      for (int v = 0; v < vectors_; ++v) {
        auto i = static_cast<size_t>(r * vectors_ + v);
        state[i] = accumulate(b, x, panel[static_cast<size_t>(v)], state[i]);
      }
    }
    return state;
  };
  std::vector<Value> state(static_cast<size_t>(sums), zero(b));
  state.insert(state.end(), cursor.begin(), cursor.end());
  Value whole = t.lo;
  if (masks.empty()) {
    whole = b.add(t.lo, b.bit_and(b.sub(t.hi, t.lo), b.integer(-kUnroll)));
    state = b.loop(t.lo, whole, kUnroll, state, [&](Value, const std::vector<Value>& carried) {
      std::vector<Value> next = carried;
      for (int u = 0; u < kUnroll; ++u) next = step(next);
      return next;
    });
  }
  state = b.loop(whole, t.hi, 1, state,
                 [&](Value, const std::vector<Value>& carried) { return step(carried); });
  state.resize(static_cast<size_t>(sums));
  return state;
}

void ProductEmitter::tile_block(Builder& b, const Tile& t) {
  std::vector<Value> sums = block_sums(b, t);
  sums = b.branch(
      b.compare(Opcode::eq, t.lo, b.integer(0)), [&] { return sums; },
      [&] {
        std::vector<Value> total;
        for (size_t i = 0; i < sums.size(); ++i) {
          Value before = b.load(t.sums, b.add(t.where, b.integer(static_cast<int64_t>(i) * lanes_)),
                                {panel_, lanes_});
          Value sum = b.add(before, sums[i]);
          total.push_back(flushes() ? flushed(b, sum) : sum);
        }
        return total;
      });
  auto store = [&](Value to, Value where) {
    for (size_t i = 0; i < sums.size(); ++i)
      b.store(to, b.add(where, b.integer(static_cast<int64_t>(i) * lanes_)), sums[i]);
  };
  b.branch(
      b.compare(Opcode::lt, t.hi, t.k),
      [&]() -> std::vector<Value> {
        store(t.sums, t.where);
        return {};
      },
      [&]() -> std::vector<Value> {
        store(t.finished, b.integer(0));
        finish(b, t);
        return {};
      });
}

Value ProductEmitter::column_mask(Builder& b, Value column, Value n) {
  return b.compare(Opcode::lt, b.add(b.splat(column, lanes_), b.lanes({LoopScalar::i64, lanes_})),
                   b.splat(n, lanes_));
}

std::vector<Value> ProductEmitter::column_masks(Builder& b, const Tile& t) {
  std::vector<Value> masks;
  for (int v = 0; v < vectors_; ++v)
    masks.push_back(column_mask(b, b.add(t.column, b.integer(v * lanes_)), t.n));
  return masks;
}

}  // namespace flambeau::kernel
