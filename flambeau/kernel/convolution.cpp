// The columns of a convolution's product are the positions of the input from the first window on,
// line after line: what a column contributes at a contracted position is the element so much
// further in memory, so windows need no copy. Columns that lie between lines are computed and not
// stored. The weight's cotangent has channels as columns, which lie last in its input.
#include "flambeau/kernel/convolution.h"

#include <algorithm>

#include "flambeau/base/error.h"
#include "flambeau/kernel/product_emitter.h"

namespace flambeau::kernel {

using loop::Builder;
using loop::kNone;
using loop::Opcode;
using loop::Value;
using LoopScalar = loop::Scalar;

size_t ConvolutionSpec::batch_dims() const {
  switch (form) {
    case ConvolutionForm::forward:
      return rank() == 3 ? 3 : 2;
    case ConvolutionForm::weight_by_inner:
      return 1 + rank() - (merges_taps() ? 1 : 0);
    default:
      return 1;
  }
}

size_t ConvolutionSpec::column_dims() const {
  switch (form) {
    case ConvolutionForm::forward:
      return rank() == 1 ? 1 : 2;
    case ConvolutionForm::weight_by_inner:
      return merges_taps() ? 2 : 1;
    default:
      return 1;
  }
}

namespace {

class ConvolutionEmitter : public ProductEmitter {
 public:
  ConvolutionEmitter(const ConvolutionSpec& spec, const Epilogue& epilogue)
      : ProductEmitter(spec.product, epilogue, TileShape::wide), convolution_(spec) {}

 private:
  Batch batch_of(Builder& b, Value number) override {
    Value positions = pointer(b, kBatchPositions), at = b.mul(number, b.integer(2));
    Value left = b.load(positions, at, {LoopScalar::i64, 1}),
          right = b.load(positions, b.add(at, b.integer(1)), {LoopScalar::i64, 1});
    std::vector<Value> place(convolution_.batch_dims());
    Value rest = number;
    for (size_t d = place.size(); d-- > 1;) {
      Value extent = size(b, kBatchExtents + static_cast<int>(d));
      place[d] = b.binary(Opcode::urem, rest, extent);
      rest = b.binary(Opcode::udiv, rest, extent);
    }
    place[0] = rest;
    return {place, b.offset(pointer(b, kLeft), left, bytes_), right};
  }

  Value panel_of(Builder& b, const Batch& batch, Value column, Value, Value, Value,
                 Value) override {
    return b.offset(pointer(b, kRight), b.add(batch.right, column), bytes_);
  }

  std::vector<Value> block_sums(Builder& b, const Tile& t) override {
    auto sums = [&](const std::vector<Value>& masks) {
      return chains(b, t, masks, {t.lo}, [&](std::vector<Value>& cursor) {
        Value left = b.load(pointer(b, kLeftPositions), cursor[0], {LoopScalar::i64, 1}),
              right = b.load(pointer(b, kRightPositions), cursor[0], {LoopScalar::i64, 1});
        cursor[0] = b.add(cursor[0], b.integer(1));
        return std::pair{left, right};
      });
    };
    return b.branch(
        b.compare(Opcode::le, b.add(t.column, b.integer(columns_)), t.n), [&] { return sums({}); },
        [&] { return sums(column_masks(b, t)); });
  }

  Value row_position(Builder& b, Value row) override {
    return b.load(pointer(b, kRowPositions), row, {LoopScalar::i64, 1});
  }

  void finish(Builder& b, const Tile& t) override {
    Value line_size = size(b, kLine), used = size(b, kLineUsed);
    Value last_row = b.smin(b.add(t.row, b.integer(rows_)), t.m);
    Value last_column = b.smin(b.add(t.column, b.integer(columns_)), t.n);
    Value first_line = b.binary(Opcode::udiv, t.column, line_size);
    Value last_line =
        b.add(b.binary(Opcode::udiv, b.sub(last_column, b.integer(1)), line_size), b.integer(1));
    b.loop(first_line, last_line, 1, {},
           [&](Value line, const std::vector<Value>&) -> std::vector<Value> {
             Value origin = b.mul(line, line_size);
             Value from = b.smax(origin, t.column), to = b.smin(b.add(origin, used), last_column);
             b.loop(t.row, last_row, 1, {},
                    [&](Value row, const std::vector<Value>&) -> std::vector<Value> {
                      store_line(b, t, row, line, origin, from, to);
                      return {};
                    });
             return {};
           });
  }

  /// Columns [from, to), which are in one line, of a row.
  void store_line(Builder& b, const Tile& t, Value row, Value line, Value origin, Value from,
                  Value to) {
    Value sums = b.sub(b.mul(b.sub(row, t.row), b.integer(columns_)), t.column);
    b.loop(from, to, lanes_, {},
           [&](Value column, const std::vector<Value>&) -> std::vector<Value> {
             std::vector<Value> place = t.batch.place;
             place.push_back(row);
             if (convolution_.column_dims() == 2) place.push_back(line);
             place.push_back(b.sub(column, origin));
             auto hand_over = [&](Value mask) -> std::vector<Value> {
               Value x = b.load(t.finished, b.add(sums, column), {panel_, lanes_}, mask);
               epilogue_(b, x, place, mask);
               return {};
             };
             b.branch(
                 b.compare(Opcode::le, b.add(column, b.integer(lanes_)), to),
                 [&] { return hand_over(kNone); },
                 [&] { return hand_over(column_mask(b, column, to)); });
             return {};
           });
  }

  bool flushes() const override { return convolution_.pairs; }

  const ConvolutionSpec& convolution_;
};

class ConvolutionPhases : public ProductPhases {
 public:
  explicit ConvolutionPhases(const ConvolutionSpec& spec)
      : spec_(spec),
        tile_(panel_scalar(spec.product.operand), spec.product.vector_bytes, TileShape::wide) {}

  /// Scratch memory 0 holds the positions, 1 what the workers need.
  int64_t scratch_bytes(int which, const int64_t* slots) const override {
    Shape s = shape(slots);
    if (which == 0)
      return (s.rows + 2 * s.depth + 2 * s.batch) * static_cast<int64_t>(sizeof(int64_t));
    return s.depth > kContractionBlock ? tile_.workers_bytes() : 0;
  }

  void run(const std::vector<loop::Entry>& entries, int64_t* slots) const override {
    Shape s = shape(slots);
    if (s.batch == 0 || s.rows == 0 || s.columns <= 0) return;
    check_windows(slots);
    auto* positions = reinterpret_cast<int64_t*>(slots[kLeftScratch]);
    Positions at{positions, positions + s.rows, positions + s.rows + s.depth,
                 positions + s.rows + 2 * s.depth};
    switch (spec_.form) {
      case ConvolutionForm::forward:
        find_positions(slots, at);
        break;
      case ConvolutionForm::weight_by_inner:
        find_positions_by_inner(slots, at);
        break;
      case ConvolutionForm::weight_by_outer:
        find_positions_by_outer(slots, at);
        break;
    }
    if (spec_.pairs) {
      for (int64_t k = 0; k + 1 < s.depth; k += 2) {
        std::swap(at.left[k], at.left[k + 1]);
        std::swap(at.right[k], at.right[k + 1]);
      }
    }
    slots[kRowPositions] = reinterpret_cast<int64_t>(at.rows);
    slots[kLeftPositions] = reinterpret_cast<int64_t>(at.left);
    slots[kRightPositions] = reinterpret_cast<int64_t>(at.right);
    slots[kBatchPositions] = reinterpret_cast<int64_t>(at.batch);
    slots[kBatch] = s.batch;
    slots[kRows] = s.rows;
    slots[kColumns] = s.columns;
    slots[kDepth] = s.depth;
    launch_tiles(entries[0], tile_, slots, is_serial(s.batch, s.rows, s.columns, s.depth), false);
  }

 private:
  struct Shape {
    int64_t batch, rows, columns, depth;
  };
  struct Positions {
    int64_t *rows, *left, *right, *batch;
  };

  size_t rank() const { return spec_.rank(); }
  static int64_t window(const int64_t* slots, size_t d) {
    return slots[kWindow + static_cast<int>(d)];
  }
  static int64_t result(const int64_t* slots, size_t d) {
    return slots[kResult + static_cast<int>(d)];
  }

  Shape shape(const int64_t* slots) const {
    int64_t taps = 1, results = 1;
    for (size_t d = 0; d < rank(); ++d) {
      taps *= spec_.taps[d];
      results *= result(slots, d);
    }
    if (spec_.form == ConvolutionForm::weight_by_inner) {
      int64_t merged = spec_.merges_taps() ? spec_.taps.back() : 1;
      return {slots[kGroups] * taps / merged, slots[kOuter], merged * slots[kInner],
              slots[kImages] * results};
    }
    if (spec_.form == ConvolutionForm::weight_by_outer)
      return {slots[kGroups], slots[kInner] * taps, slots[kOuter], slots[kImages] * results};
    int64_t batch = slots[kImages] * slots[kGroups], columns = result(slots, rank() - 1);
    if (rank() == 3) batch *= result(slots, 0);
    if (rank() >= 2 && columns > 0)
      columns += (result(slots, rank() - 2) - 1) * window(slots, rank() - 1);
    return {results == 0 ? 0 : batch, slots[kOuter], columns, slots[kInner] * taps};
  }

  /// Nothing outside the input is read.
  void check_windows(const int64_t* slots) const {
    for (size_t d = 0; d < rank(); ++d) {
      int64_t last =
          result(slots, d) - 1 + (spec_.taps[d] - 1) * spec_.dilations[d] / spec_.steps[d];
      internal_check(last < window(slots, d), "a convolution's window leaves its input: ", last,
                     " of ", window(slots, d));
    }
  }

  /// Element strides of [phases..., window...] with `inner` elements at each position.
  struct Strides {
    std::vector<int64_t> phase, window;
    int64_t all;  // elements of all positions
  };
  Strides strides(const int64_t* slots, int64_t inner) const {
    Strides s{std::vector<int64_t>(rank()), std::vector<int64_t>(rank()), inner};
    for (size_t d = rank(); d-- > 0;) {
      s.window[d] = s.all;
      s.all *= window(slots, d);
    }
    for (size_t d = rank(); d-- > 0;) {
      s.phase[d] = s.all;
      s.all *= spec_.steps[d];
    }
    return s;
  }

  /// Where tap number `tap` (row-major) lies from the first one.
  int64_t tap_position(const Strides& s, int64_t tap, size_t dims) const {
    int64_t at = 0;
    for (size_t d = dims; d-- > 0;) {
      int64_t t = tap % spec_.taps[d] * spec_.dilations[d];
      tap /= spec_.taps[d];
      at += t % spec_.steps[d] * s.phase[d] + t / spec_.steps[d] * s.window[d];
    }
    return at;
  }
  int64_t taps(size_t dims) const {
    int64_t n = 1;
    for (size_t d = 0; d < dims; ++d) n *= spec_.taps[d];
    return n;
  }

  int64_t results(const int64_t* slots) const {
    int64_t n = 1;
    for (size_t d = 0; d < rank(); ++d) n *= result(slots, d);
    return n;
  }

  /// Where the window of result number `y` (row-major) begins.
  int64_t window_position(const int64_t* slots, const Strides& s, int64_t y) const {
    int64_t at = 0;
    for (size_t d = rank(); d-- > 0;) {
      at += y % result(slots, d) * s.window[d];
      y /= result(slots, d);
    }
    return at;
  }

  // Input [images, groups, inner, phases..., window...], weight [groups, outer, inner * taps].
  void find_positions(int64_t* slots, Positions at) const {
    Strides s = strides(slots, 1);
    int64_t images = slots[kImages], groups = slots[kGroups], inner = slots[kInner],
            outer = slots[kOuter], all_taps = taps(rank()), depth = inner * all_taps;
    for (int64_t r = 0; r < outer; ++r) at.rows[r] = r * depth;
    for (int64_t c = 0, k = 0; c < inner; ++c) {
      for (int64_t t = 0; t < all_taps; ++t, ++k) {
        at.left[k] = k;
        at.right[k] = c * s.all + tap_position(s, t, rank());
      }
    }
    int64_t slices = rank() == 3 ? result(slots, 0) : 1;
    for (int64_t i = 0; i < images * groups; ++i) {
      for (int64_t z = 0; z < slices; ++z) {
        *at.batch++ = i % groups * outer * depth;
        *at.batch++ = i * inner * s.all + z * s.window[0];
      }
    }
    slots[kBatchExtents] = images;
    slots[kBatchExtents + 1] = groups;
    slots[kBatchExtents + 2] = slices;
    slots[kLine] = rank() == 1 ? result(slots, 0) : window(slots, rank() - 1);
    slots[kLineUsed] = result(slots, rank() - 1);
  }

  // Input [groups, images, phases..., window..., inner], cotangent [images, groups, outer,
  // result...].
  void find_positions_by_inner(int64_t* slots, Positions at) const {
    int64_t images = slots[kImages], groups = slots[kGroups], inner = slots[kInner],
            outer = slots[kOuter], all = results(slots);
    Strides s = strides(slots, inner);
    for (int64_t r = 0; r < outer; ++r) at.rows[r] = r * all;
    for (int64_t n = 0, k = 0; n < images; ++n) {
      for (int64_t y = 0; y < all; ++y, ++k) {
        at.left[k] = n * groups * outer * all + y;
        at.right[k] = n * s.all + window_position(slots, s, y);
      }
    }
    size_t tap_dims = rank() - (spec_.merges_taps() ? 1 : 0);
    slots[kBatchExtents] = groups;
    for (size_t d = 0; d < tap_dims; ++d)
      slots[kBatchExtents + 1 + static_cast<int>(d)] = spec_.taps[d];
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t t = 0; t < taps(tap_dims); ++t) {
        *at.batch++ = g * outer * all;
        *at.batch++ = g * images * s.all + tap_position(s, t, tap_dims);
      }
    }
    slots[kLine] = slots[kLineUsed] = inner;
  }

  // Input [images, groups, inner, phases..., window...], cotangent [images, groups, result...,
  // outer]; rows are the input's, one for each channel and tap.
  void find_positions_by_outer(int64_t* slots, Positions at) const {
    int64_t images = slots[kImages], groups = slots[kGroups], inner = slots[kInner],
            outer = slots[kOuter], all = results(slots), all_taps = taps(rank());
    Strides s = strides(slots, 1);
    for (int64_t c = 0, r = 0; c < inner; ++c) {
      for (int64_t t = 0; t < all_taps; ++t, ++r)
        at.rows[r] = c * s.all + tap_position(s, t, rank());
    }
    for (int64_t n = 0, k = 0; n < images; ++n) {
      for (int64_t y = 0; y < all; ++y, ++k) {
        at.left[k] = n * groups * inner * s.all + window_position(slots, s, y);
        at.right[k] = (n * groups * all + y) * outer;
      }
    }
    slots[kBatchExtents] = groups;
    for (int64_t g = 0; g < groups; ++g) {
      *at.batch++ = g * inner * s.all;
      *at.batch++ = g * all * outer;
    }
    slots[kLine] = slots[kLineUsed] = outer;
  }

  ConvolutionSpec spec_;
  TileGeometry tile_;
};

}  // namespace

std::shared_ptr<const ProductPhases> build_convolution(loop::Module& module,
                                                       const ConvolutionSpec& spec,
                                                       const Epilogue& epilogue) {
  ConvolutionEmitter emitter(spec, epilogue);
  module.functions.push_back(emitter.tiles());
  return std::make_shared<ConvolutionPhases>(spec);
}

}  // namespace flambeau::kernel
