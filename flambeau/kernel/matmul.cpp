// A is read where it lies, an element at a time; B is read from panels of one tile's columns that
// are packed before, from one that the task packs when few rows use it, or where it lies when that
// is as near. Half types are converted to float32 while packing; bfloat16 pairs are swapped there,
// so that the chain takes the odd element first, as the instruction vdpbf16ps does, and denormal
// operands become zeros.
#include "flambeau/kernel/matmul.h"

#include <algorithm>

#include "flambeau/base/error.h"
#include "flambeau/kernel/product_emitter.h"

namespace flambeau::kernel {

using loop::Builder;
using loop::kNone;
using loop::Opcode;
using loop::Type;
using loop::Value;
using LoopScalar = loop::Scalar;

namespace {

// Packing all panels before is worth a barrier from this many rows on.
constexpr int64_t kFewRows = 48;
constexpr int64_t kFirstLevelBytes = 16384;

/// How tiles find B.
enum class Panels : int64_t { in_place, packed_before, packed_by_task };

class MatmulEmitter : public ProductEmitter {
 public:
  MatmulEmitter(const ProductSpec& spec, const Epilogue& epilogue)
      : ProductEmitter(spec, epilogue, TileShape::tall) {}

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

 private:
  Batch batch_of(Builder& b, Value number) override {
    return {{number},
            b.offset(pointer(b, kLeft), b.mul(number, stride(b, kLeftStrides, 0)), bytes_),
            b.mul(number, stride(b, kRightStrides, 0))};
  }

  Value panel_of(Builder& b, const Batch& batch, Value column, Value n, Value lo, Value hi,
                 Value own_panel) override {
    return b.branch(
        is(b, Panels::packed_by_task),
        [&]() -> std::vector<Value> {
          pack_panel(b,
                     {pointer(b, kRight), own_panel, batch.right, b.integer(0), column, n,
                      size(b, kDepth)},
                     lo, hi);
          return {own_panel};
        },
        [&]() -> std::vector<Value> {
          Value tile = b.binary(Opcode::udiv, column, b.integer(columns_));
          Value start = b.add(b.mul(tile, size(b, kTileStride)), b.mul(lo, size(b, kChainStride)));
          return {b.offset(pointer(b, kRight), b.add(batch.right, start), bytes_)};
        })[0];
  }

  std::vector<Value> block_sums(Builder& b, const Tile& t) override {
    Value by_k = stride(b, kLeftStrides, 2);
    auto sums = [&](const std::vector<Value>& masks, Value right_by_k) {
      return chains(b, t, masks, {b.mul(t.lo, by_k), b.integer(0)},
                    [&](std::vector<Value>& cursor) {
                      std::pair<Value, Value> at{cursor[0], cursor[1]};
                      cursor = {b.add(cursor[0], by_k), b.add(cursor[1], right_by_k)};
                      return at;
                    });
    };
    return b.branch(
        is(b, Panels::in_place),
        [&] { return sums(column_masks(b, t), stride(b, kRightStrides, 1)); },
        [&] { return sums({}, b.integer(columns_)); });
  }

  void finish(Builder& b, const Tile& t) override {
    Value last_row = b.smin(b.add(t.row, b.integer(rows_)), t.m);
    Value last_column = b.smin(b.add(t.column, b.integer(columns_)), t.n);
    b.loop(t.row, last_row, 1, {}, [&](Value row, const std::vector<Value>&) -> std::vector<Value> {
      Value line = b.mul(b.sub(row, t.row), b.integer(columns_));
      b.loop(t.column, last_column, lanes_, {},
             [&](Value column, const std::vector<Value>&) -> std::vector<Value> {
               Value x = b.load(t.finished, b.add(line, b.sub(column, t.column)), {panel_, lanes_});
               std::vector<Value> place{t.batch.place[0], row, column};
               b.branch(
                   b.compare(Opcode::le, b.add(column, b.integer(lanes_)), t.n),
                   [&]() -> std::vector<Value> {
                     epilogue_(b, x, place, kNone);
                     return {};
                   },
                   [&]() -> std::vector<Value> {
                     epilogue_(b, x, place, column_mask(b, column, t.n));
                     return {};
                   });
               return {};
             });
      return {};
    });
  }

  Value row_position(Builder& b, Value row) override {
    return b.mul(row, stride(b, kLeftStrides, 1));
  }

  bool flushes() const override { return swaps(); }

  Value is(Builder& b, Panels how) {
    return b.compare(Opcode::eq, size(b, kPanels), b.integer(static_cast<int64_t>(how)));
  }

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
    for (int v = 0; v < vectors_; ++v) {
      columns.push_back(b.add(b.splat(b.add(p.first, b.integer(v * lanes_)), lanes_),
                              b.lanes({LoopScalar::i64, lanes_})));
      masks.push_back(b.compare(Opcode::lt, columns.back(), b.splat(p.n, lanes_)));
    }
    b.loop(lo, hi, 1, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
      Value position = source_position(b, i, 1);
      Value line = b.add(p.from, b.mul(position, by_k));
      Value exists = b.compare(Opcode::lt, position, p.k);
      for (size_t v = 0; v < masks.size(); ++v) {
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
      for (int v = 0; v < vectors_; ++v) {
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

  Value stride(Builder& b, int first, int which) { return b.slot(first + which, LoopScalar::i64); }
  Value tiles_of(Builder& b, Value n) { return up(b, n, columns_); }

  // bfloat16 pairs.
  bool swaps() const { return spec_.operand == LoopScalar::bf16; }
  Value padded_depth(Builder& b, Value k) override {
    return swaps() ? b.bit_and(b.add(k, b.integer(1)), b.integer(-2)) : k;
  }
  Value source_position(Builder& b, Value i, int lanes) {
    Type type{LoopScalar::i64, lanes};
    Value p = lanes == 1 ? i : b.add(b.splat(i, lanes), b.lanes(type));
    return swaps() ? b.bit_xor(p, b.integer(1, type)) : p;
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
};

class MatmulPhases : public ProductPhases {
 public:
  explicit MatmulPhases(const ProductSpec& spec)
      : spec_(spec),
        panel_(panel_scalar(spec.operand)),
        tile_(panel_, spec.vector_bytes, TileShape::tall) {}

  /// Scratch memory 0 holds packed A, 1 packed B and what the workers need.
  int64_t scratch_bytes(int which, const int64_t* slots) const override {
    if (which == 0) {
      return packs_left() ? slots[kBatch] * slots[kRows] * padded_depth(slots[kDepth]) * tile_.bytes
                          : 0;
    }
    bool needed = slots[kDepth] > kContractionBlock || panels(slots) == Panels::packed_by_task;
    return tiles_bytes(slots) + (needed ? tile_.workers_bytes() : 0);
  }

  /// Strides and pointers in `slots` are replaced by those of packed operands.
  void run(const std::vector<loop::Entry>& entries, int64_t* slots) const override {
    int64_t batch = slots[kBatch], m = slots[kRows], n = slots[kColumns],
            depth = padded_depth(slots[kDepth]);
    if (batch == 0 || m == 0 || n == 0) return;
    bool serial = is_serial(batch, m, n, slots[kDepth]);
    Panels how = panels(slots);
    slots[kPanels] = static_cast<int64_t>(how);
    int64_t workers_memory = slots[kRightScratch] + tiles_bytes(slots);
    size_t next = 0;
    if (packs_left()) {
      launch_tasks(entries[next++], slots, batch * m, serial);
      slots[kLeft] = slots[kLeftScratch];
      slots[kLeftStrides] = m * depth;
      slots[kLeftStrides + 1] = depth;
      slots[kLeftStrides + 2] = 1;
    }
    slots[kTileStride] = tile_.columns;
    slots[kChainStride] = how == Panels::in_place ? slots[kRightStrides + 1] : tile_.columns;
    if (how == Panels::packed_before) {
      launch_tasks(entries[next], slots, batch * right_tiles(n), serial);
      slots[kRight] = slots[kRightScratch];
      slots[kRightStrides] = right_tiles(n) * depth * tile_.columns;
      slots[kTileStride] = depth * tile_.columns;
    }
    ++next;
    slots[kRightScratch] = workers_memory;
    launch_tiles(entries[next], tile_, slots, serial, how == Panels::packed_by_task);
  }

 private:
  bool packs_left() const { return spec_.operand != panel_; }
  int64_t padded_depth(int64_t k) const {
    return spec_.operand == LoopScalar::bf16 ? (k + 1) / 2 * 2 : k;
  }
  int64_t right_tiles(int64_t n) const { return (n + tile_.columns - 1) / tile_.columns; }

  Panels panels(const int64_t* slots) const {
    if (slots[kRows] > kFewRows || packs_left()) return Panels::packed_before;
    bool near = slots[kColumns] * slots[kDepth] * tile_.bytes <= kFirstLevelBytes ||
                slots[kRows] <= tile_.rows;
    return near && slots[kRightStrides + 2] == 1 ? Panels::in_place : Panels::packed_by_task;
  }

  int64_t tiles_bytes(const int64_t* slots) const {  // of packed B
    if (panels(slots) != Panels::packed_before) return 0;
    return slots[kBatch] * right_tiles(slots[kColumns]) * tile_.columns *
           padded_depth(slots[kDepth]) * tile_.bytes;
  }

  ProductSpec spec_;
  LoopScalar panel_;
  TileGeometry tile_;
};

}  // namespace

std::shared_ptr<const ProductPhases> build_matmul(loop::Module& module, const ProductSpec& spec,
                                                  const Epilogue& epilogue) {
  internal_check(panel_scalar(spec.operand) == spec.accumulator,
                 "a product's sums have the type that its operands are multiplied in");
  MatmulEmitter emitter(spec, epilogue);
  if (emitter.converts()) module.functions.push_back(emitter.pack_left());
  module.functions.push_back(emitter.pack_right());
  module.functions.push_back(emitter.tiles());
  return std::make_shared<MatmulPhases>(spec);
}

}  // namespace flambeau::kernel
