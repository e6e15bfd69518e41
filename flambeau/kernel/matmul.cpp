// The kernel of a product: a register tile of `rows` x `vectors` vectors runs over a block of K;
// blocks of M and N that fit in the second-level cache are the tasks. A is read where it lies, an
// element at a time; B is read from panels of one tile's columns that are packed before, from one
// that the task packs when few rows use it, or where it lies when that is as near. Half types are
// converted to float32 while packing; bfloat16 pairs are swapped there, so that the chain takes the
// odd element first, as the instruction vdpbf16ps does, and denormal operands become zeros.
#include "flambeau/kernel/matmul.h"

#include <algorithm>

#include "flambeau/base/error.h"
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
// Packing all panels before is worth a barrier from this many rows on.
constexpr int64_t kFewRows = 48;
constexpr int64_t kFirstLevelBytes = 16384;
// Multiplications below which one thread does everything.
constexpr int64_t kSerialProduct = 1 << 17;

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

constexpr int64_t kTasksPerThread = 4;

int rows_of_tile(int vector_bytes) { return vector_bytes == 64 ? 12 : 6; }
constexpr int kVectors = 2;

/// Memory of a worker: unfinished sums of a task and one panel.
int64_t worker_elements(int64_t rows, int64_t columns) {
  return kTaskRowTiles * rows * kTaskColumns + kContractionBlock * columns;
}

}  // namespace

class ProductEmitter {
 public:
  ProductEmitter(const MatmulSpec& spec, const Epilogue& epilogue)
      : spec_(spec),
        epilogue_(epilogue),
        panel_(panel_scalar(spec.operand)),
        bytes_(loop::bits(panel_) / 8),
        lanes_(spec.vector_bytes / bytes_),
        rows_(rows_of_tile(spec.vector_bytes)),
        columns_(kVectors * lanes_) {}

  bool converts() const { return panel_ != spec_.operand; }

  /// A as [batch, m, padded k] in the panel type; a task is a row.
  loop::Function pack_left() {
    Builder b("pack_left");
    Value m = size(b, kRows), k = size(b, kDepth), padded = padded_depth(b, k);
    Value source = pointer(b, kLeft), target = pointer(b, kLeftScratch);
    b.loop(b.begin(), b.end(), 1, {},
           [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
             Value batch = b.binary(Opcode::udiv, t, m), row = b.binary(Opcode::urem, t, m);
             Value from = b.add(b.mul(batch, stride(b, kLeftStrides, 0)),
                                b.mul(row, stride(b, kLeftStrides, 1)));
             Value to = b.mul(t, padded);
             vector_loop(b, padded, [&](Value i, Value mask) {
               Value position = source_position(b, i, lanes_);
               Value inside = b.compare(Opcode::lt, position, b.splat(k, lanes_));
               Value index = b.add(b.splat(from, lanes_),
                                   b.mul(position, b.splat(stride(b, kLeftStrides, 2), lanes_)));
               Value x = load_operand(b, source, index, lanes_, inside);
               b.store(target, b.add(to, i), x, mask);
             });
             return {};
           });
    return b.finish();
  }

  /// B as [batch, tiles, padded k, columns of a tile] in the panel type, zeros beyond n; a task is
  /// a tile.
  loop::Function pack_right() {
    Builder b("pack_right");
    Value n = size(b, kColumns), k = size(b, kDepth), padded = padded_depth(b, k);
    Value tiles = tiles_of(b, n), source = pointer(b, kRight), target = pointer(b, kRightScratch);
    b.loop(
        b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
          Value batch = b.binary(Opcode::udiv, t, tiles), tile = b.binary(Opcode::urem, t, tiles);
          Value first = b.mul(tile, b.integer(columns_));
          Value from = b.mul(batch, stride(b, kRightStrides, 0)),
                to = b.mul(t, b.mul(padded, b.integer(columns_)));
          pack_panel(b, {source, target, from, to, first, n, k}, b.integer(0), padded);
          return {};
        });
    return b.finish();
  }

  /// The product itself. Strides of A are those of packed A where it is packed; kRightScratch
  /// points to the workers' memory: sums of unfinished blocks, [row tile, column tile, rows,
  /// columns], and a panel.
  loop::Function tiles() {
    Builder b("tiles");
    Value m = size(b, kRows), n = size(b, kColumns), k = padded_depth(b, size(b, kDepth));
    Value task_rows = b.mul(size(b, kTaskTiles), b.integer(rows_));
    Value row_blocks = b.binary(Opcode::udiv, b.add(m, b.sub(task_rows, b.integer(1))), task_rows),
          column_blocks = up(b, n, kTaskColumns);
    Value finished = b.stack(static_cast<int64_t>(rows_) * columns_ * bytes_);
    int64_t column_tiles = kTaskColumns / columns_;
    Value sums = b.offset(pointer(b, kRightScratch),
                          b.mul(b.worker(), b.integer(worker_elements(rows_, columns_))), bytes_);
    Value own_panel = b.offset(sums, b.integer(kTaskRowTiles * rows_ * kTaskColumns), bytes_);
    Value packs = b.compare(Opcode::eq, size(b, kPanels),
                            b.integer(static_cast<int64_t>(MatmulPhases::Panels::packed_by_task)));
    b.loop(
        b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
          // Row blocks first: threads share columns of B between them before rows of A.
          Value row_block = b.binary(Opcode::urem, t, row_blocks),
                rest = b.binary(Opcode::udiv, t, row_blocks);
          Value column_block = b.binary(Opcode::urem, rest, column_blocks),
                batch = b.binary(Opcode::udiv, rest, column_blocks);
          Value first_row = b.mul(row_block, task_rows),
                first_column = b.mul(column_block, b.integer(kTaskColumns));
          Value last_row = b.smin(b.add(first_row, task_rows), m);
          Value last_column = b.smin(b.add(first_column, b.integer(kTaskColumns)), n);
          Value left =
              b.offset(pointer(b, kLeft), b.mul(batch, stride(b, kLeftStrides, 0)), bytes_);
          Value right_start = b.mul(batch, stride(b, kRightStrides, 0));
          // At least one block, so that K = 0 stores zeros.
          b.loop(b.integer(0), b.smax(k, b.integer(1)), kContractionBlock, {},
                 [&](Value lo, const std::vector<Value>&) -> std::vector<Value> {
                   Value hi = b.smin(b.add(lo, b.integer(kContractionBlock)), k);
                   b.loop(
                       first_column, last_column, columns_, {},
                       [&](Value column, const std::vector<Value>&) -> std::vector<Value> {
                         Value tile = b.binary(Opcode::udiv, column, b.integer(columns_));
                         Value panel = b.branch(
                             packs,
                             [&]() -> std::vector<Value> {
                               pack_panel(b,
                                          {pointer(b, kRight), own_panel, right_start, b.integer(0),
                                           column, n, size(b, kDepth)},
                                          lo, hi);
                               return {own_panel};
                             },
                             [&]() -> std::vector<Value> {
                               Value start = b.add(b.mul(tile, size(b, kTileStride)),
                                                   b.mul(lo, size(b, kChainStride)));
                               return {
                                   b.offset(pointer(b, kRight), b.add(right_start, start), bytes_)};
                             })[0];
                         b.loop(first_row, last_row, rows_, {},
                                [&](Value row, const std::vector<Value>&) -> std::vector<Value> {
                                  Value row_tile = b.binary(Opcode::udiv, b.sub(row, first_row),
                                                            b.integer(rows_));
                                  Value column_tile =
                                      b.binary(Opcode::udiv, b.sub(column, first_column),
                                               b.integer(columns_));
                                  Value place = b.mul(
                                      b.add(b.mul(row_tile, b.integer(column_tiles)), column_tile),
                                      b.integer(rows_ * columns_));
                                  tile_block(b, {left, panel, sums, place, finished, batch, row,
                                                 column, m, n, lo, hi, k});
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

 private:
  struct Tile {
    Value left, panel;  // pointers to A of the batch, and to the tile's columns of B at position lo
    Value sums, place;  // memory of unfinished sums and the tile's position there
    Value finished;     // memory of the tile's sums, [rows, columns]
    Value batch, row, column, m, n, lo, hi, k;
  };

  /// Where a panel comes from and goes to: element numbers `from` of position (0, 0) of B and `to`;
  /// `first` is the panel's first column.
  struct Panel {
    Value source, target, from, to, first, n, k;
  };

  /// Positions [lo, hi) of the panel, the padded ones included, to target[to + (position - lo) *
  /// columns].
  void pack_panel(Builder& b, const Panel& p, Value lo, Value hi) {
    Value by_k = stride(b, kRightStrides, 1), by_n = stride(b, kRightStrides, 2);
    b.branch(
        b.compare(Opcode::eq, by_n, b.integer(1)),
        [&]() -> std::vector<Value> {
          return pack_lines(b, p, lo, lo, hi, true), std::vector<Value>();
        },
        [&]() -> std::vector<Value> {
          Value rest = lo;
          if (!converts()) {
            rest = b.branch(
                b.compare(Opcode::eq, by_k, b.integer(1)),
                [&] { return std::vector<Value>{pack_squares(b, p, lo, hi)}; },
                [&] { return std::vector<Value>{lo}; })[0];
          }
          pack_lines(b, p, lo, rest, hi, false);
          return {};
        });
  }

  /// Line by line: `dense` columns are neighbours in memory.
  void pack_lines(Builder& b, const Panel& p, Value origin, Value lo, Value hi, bool dense) {
    Value by_k = stride(b, kRightStrides, 1), by_n = stride(b, kRightStrides, 2);
    std::vector<Value> masks, columns;
    for (int v = 0; v < kVectors; ++v) {
      columns.push_back(b.add(b.splat(b.add(p.first, b.integer(v * lanes_)), lanes_),
                              b.lanes({LoopScalar::i64, lanes_})));
      masks.push_back(b.compare(Opcode::lt, columns.back(), b.splat(p.n, lanes_)));
    }
    b.loop(lo, hi, 1, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
      Value position = source_position(b, i, 1);
      Value line = b.add(p.from, b.mul(position, by_k));
      Value exists = b.compare(Opcode::lt, position, p.k);
      for (size_t v = 0; v < kVectors; ++v) {
        Value offset = b.integer(static_cast<int64_t>(v) * lanes_);
        Value mask = swaps() ? b.bit_and(masks[v], b.splat(exists, lanes_)) : masks[v];
        Value index = dense
                          ? b.add(line, b.add(p.first, offset))
                          : b.add(b.splat(line, lanes_), b.mul(columns[v], b.splat(by_n, lanes_)));
        Value x = load_operand(b, p.source, index, lanes_, mask);
        b.store(p.target, b.add(b.add(p.to, b.mul(b.sub(i, origin), b.integer(columns_))), offset),
                x);
      }
      return {};
    });
  }

  /// Squares of lanes x lanes, read along k and transposed in registers; returns the first position
  /// left over. Columns beyond n repeat the last one.
  Value pack_squares(Builder& b, const Panel& p, Value lo, Value hi) {
    Value by_n = stride(b, kRightStrides, 2), last = b.sub(p.n, b.integer(1));
    Value end = b.add(lo, b.bit_and(b.sub(hi, lo), b.integer(-lanes_)));
    std::vector<Value> lines;
    for (int c = 0; c < columns_; ++c)
      lines.push_back(b.add(p.from, b.mul(b.smin(b.add(p.first, b.integer(c)), last), by_n)));
    b.loop(lo, end, lanes_, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
      Value to = b.add(p.to, b.mul(b.sub(i, lo), b.integer(columns_)));
      for (int v = 0; v < kVectors; ++v) {
        std::vector<Value> square;
        for (int c = 0; c < lanes_; ++c)
          square.push_back(b.load(p.source, b.add(lines[static_cast<size_t>(v * lanes_ + c)], i),
                                  {panel_, lanes_}));
        transpose(b, square);
        for (int r = 0; r < lanes_; ++r)
          b.store(p.target, b.add(to, b.integer(r * columns_ + v * lanes_)),
                  square[static_cast<size_t>(r)]);
      }
      return {};
    });
    return end;
  }

  /// Swaps the off-diagonal blocks of size 1, 2, 4, ...
  void transpose(Builder& b, std::vector<Value>& square) {
    for (int s = 1; s < lanes_; s *= 2) {
      std::vector<int32_t> upper, lower;
      for (int j = 0; j < lanes_; ++j) {
        upper.push_back(j & s ? lanes_ + j - s : j);
        lower.push_back(j & s ? lanes_ + j : j + s);
      }
      for (int i = 0; i < lanes_; ++i) {
        if (i & s) continue;
        auto first = static_cast<size_t>(i), second = static_cast<size_t>(i + s);
        Value x = square[first], y = square[second];
        square[first] = b.shuffle(x, y, upper);
        square[second] = b.shuffle(x, y, lower);
      }
    }
  }

  Value pointer(Builder& b, int slot) { return b.slot(slot, LoopScalar::ptr); }
  Value size(Builder& b, int slot) { return b.slot(slot, LoopScalar::i64); }
  Value stride(Builder& b, int first, int which) { return b.slot(first + which, LoopScalar::i64); }
  Value up(Builder& b, Value x, int64_t unit) {
    return b.binary(Opcode::udiv, b.add(x, b.integer(unit - 1)), b.integer(unit));
  }
  Value tiles_of(Builder& b, Value n) { return up(b, n, columns_); }

  // bfloat16 pairs.
  bool swaps() const { return spec_.operand == LoopScalar::bf16; }
  Value padded_depth(Builder& b, Value k) {
    return swaps() ? b.bit_and(b.add(k, b.integer(1)), b.integer(-2)) : k;
  }
  Value source_position(Builder& b, Value i, int lanes) {
    Type type{LoopScalar::i64, lanes};
    Value p = lanes == 1 ? i : b.add(b.splat(i, lanes), b.lanes(type));
    return swaps() ? b.bit_xor(p, b.integer(1, type)) : p;
  }

  /// x where it is not denormal, else a zero of its sign.
  Value flushed(Builder& b, Value x) {
    Type type = b.type(x), bits{LoopScalar::i32, type.lanes};
    Value small = b.compare(Opcode::lt, b.unary(Opcode::abs, x), b.real(0x1p-126, type));
    Value sign = b.bitcast(b.bit_and(b.bitcast(x, LoopScalar::i32), b.integer(INT32_MIN, bits)),
                           LoopScalar::f32);
    return b.select(small, sign, x);
  }

  Value load_operand(Builder& b, Value from, Value index, int lanes, Value mask) {
    Value x = b.load(from, index, {spec_.operand, lanes}, mask);
    switch (spec_.operand) {
      case LoopScalar::i8:
      case LoopScalar::i16:
        return b.cast(spec_.unsigned_operand ? Opcode::zext : Opcode::sext, x, LoopScalar::i32);
      case LoopScalar::f16:
        return b.cast(Opcode::fpext, x, LoopScalar::f32);
      case LoopScalar::bf16:
        return flushed(b, b.cast(Opcode::fpext, x, LoopScalar::f32));
      default:
        return x;
    }
  }

  void vector_loop(Builder& b, Value n, const std::function<void(Value, Value)>& body) {
    b.loop(b.integer(0), n, lanes_, {},
           [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
             Value lane = b.add(b.splat(i, lanes_), b.lanes({LoopScalar::i64, lanes_}));
             body(i, b.compare(Opcode::lt, lane, b.splat(n, lanes_)));
             return {};
           });
  }

  Value zero(Builder& b) {
    Type type{panel_, lanes_};
    return loop::is_float(panel_) ? b.real(0, type) : b.integer(0, type);
  }

  Value accumulate(Builder& b, Value x, Value y, Value sum) {
    if (!loop::is_float(panel_)) return b.add(sum, b.mul(x, y));
    Value next = b.fma(x, y, sum);
    return swaps() ? flushed(b, next) : next;
  }

  /// Sums of the tile over [lo, hi): rows x vectors. B is a panel, or in place with `masks` that
  /// limit what is read.
  std::vector<Value> chains(Builder& b, const Tile& t, const std::vector<Value>& masks) {
    Value by_m = stride(b, kLeftStrides, 1), by_k = stride(b, kLeftStrides, 2);
    Value right_by_k = masks.empty() ? b.integer(columns_) : stride(b, kRightStrides, 1);
    std::vector<Value> rows;
    Value last = b.sub(t.m, b.integer(1));
    for (int r = 0; r < rows_; ++r) {
      // Rows beyond the last one compute it again and store nothing.
      Value row = b.smin(b.add(t.row, b.integer(r)), last);
      rows.push_back(b.offset(t.left, b.mul(row, by_m), bytes_));
    }
    auto step = [&](std::vector<Value> state) {
      Value right = state[state.size() - 1], left = state[state.size() - 2];
      std::vector<Value> panel;
      for (int v = 0; v < kVectors; ++v) {
        Value index = v == 0 ? right : b.add(right, b.integer(v * lanes_));
        panel.push_back(b.load(t.panel, index, {panel_, lanes_},
                               masks.empty() ? kNone : masks[static_cast<size_t>(v)]));
      }
      for (int r = 0; r < rows_; ++r) {
        Value x = b.splat(b.load(rows[static_cast<size_t>(r)], left, {panel_, 1}), lanes_);
        for (int v = 0; v < kVectors; ++v) {
          auto at = static_cast<size_t>(r * kVectors + v);
          state[at] = accumulate(b, x, panel[static_cast<size_t>(v)], state[at]);
        }
      }
      state[state.size() - 2] = b.add(left, by_k);
      state[state.size() - 1] = b.add(right, right_by_k);
      return state;
    };
    std::vector<Value> state(static_cast<size_t>(rows_ * kVectors), zero(b));
    state.push_back(b.mul(t.lo, by_k));
    state.push_back(b.integer(0));
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
    state.resize(state.size() - 2);
    return state;
  }

  void tile_block(Builder& b, const Tile& t) {
    Value in_place = b.compare(Opcode::eq, size(b, kPanels),
                               b.integer(static_cast<int64_t>(MatmulPhases::Panels::in_place)));
    std::vector<Value> sums = b.branch(
        in_place,
        [&] {
          std::vector<Value> masks;
          for (int v = 0; v < kVectors; ++v)
            masks.push_back(column_mask(b, b.add(t.column, b.integer(v * lanes_)), t.n));
          return chains(b, t, masks);
        },
        [&] { return chains(b, t, {}); });
    sums = b.branch(
        b.compare(Opcode::eq, t.lo, b.integer(0)), [&] { return sums; },
        [&] {
          std::vector<Value> total;
          for (size_t i = 0; i < sums.size(); ++i) {
            Value before =
                b.load(t.sums, b.add(t.place, b.integer(static_cast<int64_t>(i) * lanes_)),
                       {panel_, lanes_});
            Value sum = b.add(before, sums[i]);
            total.push_back(swaps() ? flushed(b, sum) : sum);
          }
          return total;
        });
    auto store = [&](Value to, Value place) {
      for (size_t i = 0; i < sums.size(); ++i)
        b.store(to, b.add(place, b.integer(static_cast<int64_t>(i) * lanes_)), sums[i]);
    };
    b.branch(
        b.compare(Opcode::lt, t.hi, t.k),
        [&]() -> std::vector<Value> {
          store(t.sums, t.place);
          return {};
        },
        [&]() -> std::vector<Value> {
          store(t.finished, b.integer(0));
          finish(b, t);
          return {};
        });
  }

  Value column_mask(Builder& b, Value column, Value n) {
    return b.compare(Opcode::lt, b.add(b.splat(column, lanes_), b.lanes({LoopScalar::i64, lanes_})),
                     b.splat(n, lanes_));
  }

  void finish(Builder& b, const Tile& t) {
    Value last_row = b.smin(b.add(t.row, b.integer(rows_)), t.m);
    Value last_column = b.smin(b.add(t.column, b.integer(columns_)), t.n);
    b.loop(t.row, last_row, 1, {}, [&](Value row, const std::vector<Value>&) -> std::vector<Value> {
      Value line = b.mul(b.sub(row, t.row), b.integer(columns_));
      b.loop(t.column, last_column, lanes_, {},
             [&](Value column, const std::vector<Value>&) -> std::vector<Value> {
               Value x = b.load(t.finished, b.add(line, b.sub(column, t.column)), {panel_, lanes_});
               b.branch(
                   b.compare(Opcode::le, b.add(column, b.integer(lanes_)), t.n),
                   [&]() -> std::vector<Value> {
                     epilogue_(b, x, t.batch, row, column, kNone);
                     return {};
                   },
                   [&]() -> std::vector<Value> {
                     epilogue_(b, x, t.batch, row, column, column_mask(b, column, t.n));
                     return {};
                   });
               return {};
             });
      return {};
    });
  }

  const MatmulSpec& spec_;
  const Epilogue& epilogue_;
  LoopScalar panel_;
  int bytes_, lanes_, rows_, columns_;
};

namespace {

struct Launch {
  loop::Entry entry;
  const int64_t* slots;
  static void body(void* context, int64_t begin, int64_t end, int64_t worker) {
    auto* l = static_cast<Launch*>(context);
    l->entry(l->slots, begin, end, worker);
  }
};

void launch(loop::Entry entry, const int64_t* slots, int64_t tasks, bool serial) {
  if (tasks <= 0) return;
  if (serial || tasks == 1) return entry(slots, 0, tasks, 0);
  Launch l{entry, slots};
  parallel_for(tasks, 1, 1, &Launch::body, &l);
}

}  // namespace

MatmulPhases::MatmulPhases(const MatmulSpec& spec)
    : spec_(spec),
      panel_(panel_scalar(spec.operand)),
      columns_(kVectors * spec.vector_bytes / (loop::bits(panel_) / 8)) {}

int64_t MatmulPhases::padded_depth(int64_t k) const {
  return spec_.operand == LoopScalar::bf16 ? (k + 1) / 2 * 2 : k;
}

MatmulPhases::Panels MatmulPhases::panels(const int64_t* slots) const {
  if (slots[kRows] <= kFewRows && !packs_left()) {
    bool near = slots[kColumns] * slots[kDepth] * (loop::bits(panel_) / 8) <= kFirstLevelBytes ||
                slots[kRows] <= rows_of_tile(spec_.vector_bytes);
    return near && slots[kRightStrides + 2] == 1 ? Panels::in_place : Panels::packed_by_task;
  }
  return Panels::packed_before;
}

int64_t MatmulPhases::tiles_bytes(const int64_t* slots) const {
  if (panels(slots) != Panels::packed_before) return 0;
  return slots[kBatch] * right_tiles(slots[kColumns]) * columns_ * padded_depth(slots[kDepth]) *
         (loop::bits(panel_) / 8);
}

int64_t MatmulPhases::scratch_bytes(int which, const int64_t* slots) const {
  int64_t bytes = loop::bits(panel_) / 8;
  if (which == 0)
    return packs_left() ? slots[kBatch] * slots[kRows] * padded_depth(slots[kDepth]) * bytes : 0;
  bool needed = slots[kDepth] > kContractionBlock || panels(slots) == Panels::packed_by_task;
  return tiles_bytes(slots) +
         (needed
              ? num_threads() * worker_elements(rows_of_tile(spec_.vector_bytes), columns_) * bytes
              : 0);
}

void MatmulPhases::run(const std::vector<loop::Entry>& entries, int64_t* slots) const {
  int64_t batch = slots[kBatch], m = slots[kRows], n = slots[kColumns], k = slots[kDepth],
          depth = padded_depth(k);
  if (batch == 0 || m == 0 || n == 0) return;
  bool serial = static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
                    static_cast<double>(k) <
                kSerialProduct;
  Panels how = panels(slots);
  slots[kPanels] = static_cast<int64_t>(how);
  int64_t workers_memory = slots[kRightScratch] + tiles_bytes(slots);
  size_t next = 0;
  if (packs_left()) {
    launch(entries[next++], slots, batch * m, serial);
    slots[kLeft] = slots[kLeftScratch];
    slots[kLeftStrides] = m * depth;
    slots[kLeftStrides + 1] = depth;
    slots[kLeftStrides + 2] = 1;
  }
  slots[kTileStride] = columns_;
  slots[kChainStride] = how == Panels::in_place ? slots[kRightStrides + 1] : columns_;
  if (how == Panels::packed_before) {
    launch(entries[next], slots, batch * right_tiles(n), serial);
    slots[kRight] = slots[kRightScratch];
    slots[kRightStrides] = right_tiles(n) * depth * columns_;
    slots[kTileStride] = depth * columns_;
  }
  ++next;
  slots[kRightScratch] = workers_memory;
  int64_t rows = rows_of_tile(spec_.vector_bytes), row_tiles = (m + rows - 1) / rows,
          column_blocks = (n + kTaskColumns - 1) / kTaskColumns;
  // Some tasks for each thread, as far as there are tiles.
  int64_t threads = serial ? 1 : num_threads();
  int64_t task_tiles = std::clamp<int64_t>(
      batch * column_blocks * row_tiles / (threads * kTasksPerThread), 1, kTaskRowTiles);
  if (serial || how == Panels::packed_by_task) task_tiles = kTaskRowTiles;
  slots[kTaskTiles] = task_tiles;
  launch(entries[next], slots, batch * ((row_tiles + task_tiles - 1) / task_tiles) * column_blocks,
         serial);
}

MatmulPhases build_matmul(loop::Module& module, const MatmulSpec& spec, const Epilogue& epilogue) {
  internal_check(panel_scalar(spec.operand) == spec.accumulator,
                 "a product's sums have the type that its operands are multiplied in");
  ProductEmitter emitter(spec, epilogue);
  if (emitter.converts()) module.functions.push_back(emitter.pack_left());
  module.functions.push_back(emitter.pack_right());
  module.functions.push_back(emitter.tiles());
  return MatmulPhases(spec);
}

}  // namespace flambeau::kernel
