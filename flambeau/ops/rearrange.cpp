// Elements in another order or more than once: copies, not views.
#include <algorithm>

#include "flambeau/base/error.h"
#include "flambeau/ops/copy.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"

namespace flambeau::ops {

namespace {

Tensor rolled(const Tensor& x, Size shift, int64_t dim) {
  Size n = graph::size_of(x, dim);
  if (n == Size(0)) return x;
  Size start = (n - shift % n) % n;
  return prim::concat({prim::slice(x, dim, start, n - start, 1), prim::slice(x, dim, 0, start, 1)},
                      dim);
}

/// x repeated `repeats[d]` times along each dim; repeats has the rank of x.
Tensor repeated(const Tensor& x, const Sizes& repeats, const char* name) {
  Sizes sizes = graph::sizes_of(x), spread, result;
  std::vector<int64_t> from;
  for (size_t d = 0; d < sizes.size(); ++d) {
    check(repeats[d] >= Size(0), ErrorKind::runtime, name,
          ": Trying to create tensor with negative dimension ", repeats[d]);
    spread.push_back(repeats[d]);
    spread.push_back(sizes[d]);
    from.push_back(-1);
    from.push_back(static_cast<int64_t>(d));
    Size n = repeats[d] * sizes[d];
    result.push_back(n == Size(1) ? Size(1) : n);
  }
  return prim::reshape(prim::broadcast(x, spread, from), result);
}

Tensor with_rank(const Tensor& x, size_t rank) {
  Sizes sizes = graph::sizes_of(x);
  sizes.insert(sizes.begin(), rank - sizes.size(), Size(1));
  return prim::reshape(x, sizes);
}

Tensor flipped(const Tensor& self, const DimList& dims, const char* name) {
  std::vector<int64_t> wrapped;
  for (int64_t d : dims) wrapped.push_back(wrap_dim(d, self.dim(), name));
  std::sort(wrapped.begin(), wrapped.end());
  check(std::adjacent_find(wrapped.begin(), wrapped.end()) == wrapped.end(), ErrorKind::runtime,
        name, ": dim appears multiple times in the list of dims");
  if (self.dim() == 0) return self;
  return prim::reverse(self, wrapped);
}

}  // namespace

const Op<Tensor(const Tensor&, const DimList&)> flip{
    "flip(Tensor self, int[] dims) -> Tensor",
    R"(Reversed order along dims. Errors: IndexError for a dim out of range, RuntimeError for one given twice.)",
    [](const Tensor& self, const DimList& dims) { return flipped(self, dims, "flip"); },
    kFunction | kMethod};
const Op<Tensor(const Tensor&)> fliplr{
    "fliplr(Tensor self) -> Tensor", R"(Reversed order along dim 1.)",
    [](const Tensor& self) {
      check(self.dim() >= 2, ErrorKind::runtime, "fliplr: Input must be >= 2-d.");
      return flipped(self, {1}, "fliplr");
    },
    kFunction | kMethod};
const Op<Tensor(const Tensor&)> flipud{
    "flipud(Tensor self) -> Tensor", R"(Reversed order along dim 0.)",
    [](const Tensor& self) {
      check(self.dim() >= 1, ErrorKind::runtime, "flipud: Input must be >= 1-d.");
      return flipped(self, {0}, "flipud");
    },
    kFunction | kMethod};
const Op<Tensor(const Tensor&, const Sizes&, const DimList&)> roll{
    "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    R"(Elements moved by `shifts` along `dims`, those that leave at one end entering at the other; without dims the tensor is seen
as one dim. Errors: RuntimeError where there are not as many shifts as dims.)",
    [](const Tensor& self, const Sizes& shifts, const DimList& dims) {
      if (dims.empty()) {
        check(shifts.size() == 1, ErrorKind::runtime,
              "roll: shifts and dimensions must align. shifts: ", shifts.size(), ", dims:0");
        Size n = 1;
        for (Size s : graph::sizes_of(self)) n = n * s;
        return prim::reshape(rolled(prim::reshape(self, {n}), shifts[0], 0), graph::sizes_of(self));
      }
      check(shifts.size() == dims.size(), ErrorKind::runtime,
            "roll: shifts and dimensions must align. shifts: ", shifts.size(),
            ", dims:", dims.size());
      check(self.dim() > 0, ErrorKind::index, "roll: Dimension specified as ", dims[0],
            " but tensor has no dimensions");
      Tensor x = self;
      for (size_t i = 0; i < dims.size(); ++i) {
        int64_t d = wrap_dim(dims[i], self.dim(), "roll");
        x = rolled(x, shifts[i], d);
      }
      return x;
    },
    kFunction | kMethod};
const Op<Tensor(const Tensor&, const Sizes&)> repeat{
    "repeat(Tensor self, SymInt[] repeats) -> Tensor",
    R"(The tensor repeated along each dim; more repeats than dims add dims in front.
Errors: RuntimeError for fewer repeats than dims, and for negative ones.)",
    [](const Tensor& self, const Sizes& repeats) {
      check(static_cast<int64_t>(repeats.size()) >= self.dim(), ErrorKind::runtime,
            "repeat: Number of dimensions of repeat dims can not be smaller than number of "
            "dimensions of tensor");
      return repeated(with_rank(self, repeats.size()), repeats, "repeat");
    },
    kMethod};
const Op<Tensor(const Tensor&, const Sizes&)> tile{
    "tile(Tensor self, SymInt[] dims) -> Tensor",
    R"(repeat that repeats dims it is not told of once.)",
    [](const Tensor& self, const Sizes& dims) {
      Sizes repeats = dims;
      auto rank = static_cast<size_t>(self.dim());
      if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), Size(1));
      return repeated(with_rank(self, repeats.size()), repeats, "tile");
    },
    kFunction | kMethod};
const Op<Tensor(const Tensor&, Size, std::optional<Dim>, std::optional<Size>)> repeat_interleave{
    "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? "
    "output_size=None) -> Tensor",
    R"(Each element, or each position of dim, `repeats` times in a row; without dim the tensor is seen as one dim.)",
    [](const Tensor& self, Size repeats, std::optional<Dim> dim, std::optional<Size>) {
      check(repeats >= Size(0), ErrorKind::runtime,
            "repeat_interleave: Repeats must be non-negative, got ", repeats);
      Tensor x = self;
      int64_t d = 0;
      if (!dim || self.dim() == 0) {
        Size n = 1;
        for (Size s : graph::sizes_of(self)) n = n * s;
        x = prim::reshape(self, {n});
      } else {
        d = wrap_dim(*dim, self.dim(), "repeat_interleave");
      }
      Sizes sizes = graph::sizes_of(x), spread = sizes;
      std::vector<int64_t> from;
      for (int64_t k = 0; k < x.dim(); ++k) {
        from.push_back(k);
        if (k == d) from.push_back(-1);
      }
      spread.insert(spread.begin() + d + 1, repeats);
      Size n = sizes[static_cast<size_t>(d)] * repeats;
      sizes[static_cast<size_t>(d)] = n == Size(1) ? Size(1) : n;
      return prim::reshape(prim::broadcast(x, spread, from), sizes);
    },
    kFunction | kMethod};

namespace {

/// Position i repeated repeats[i] times: int64 [sum of repeats].
Tensor repeated_positions(const Tensor& repeats) {
  check(repeats.dim() <= 1, ErrorKind::runtime,
        "repeat_interleave: repeats must be 0-dim or 1-dim tensor");
  check(repeats.dtype() == DType::int64 || repeats.dtype() == DType::int32, ErrorKind::runtime,
        "repeat_interleave: repeats has to be Long or Int tensor, got ", repeats.dtype());
  Tensor counts = contiguous_copy(convert(repeats, DType::int64));
  const auto* n = counts.data_as<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    check(n[i] >= 0, ErrorKind::runtime, "repeats can not be negative, got ", n[i]);
    total += n[i];
  }
  Tensor positions = empty_tensor({total}, DType::int64);
  auto* out = positions.data_as<int64_t>();
  for (int64_t i = 0; i < counts.numel(); ++i) out = std::fill_n(out, n[i], i);
  return positions;
}

}  // namespace

const Op<Tensor(const Tensor&, std::optional<Size>)> repeat_interleave_positions{
    "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    R"(Position i repeats[i] times.)",
    [](const Tensor& repeats, std::optional<Size>) { return repeated_positions(repeats); },
    kFunction | kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, const Tensor&, std::optional<Dim>, std::optional<Size>)>
    repeat_interleave_tensor{
        "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? "
        "output_size=None) -> Tensor",
        R"(Position i of dim, or of the tensor seen as one dim, repeats[i] times. Errors: RuntimeError for as many repeats as there are not positions.)",
        [](const Tensor& self, const Tensor& repeats, std::optional<Dim> dim, std::optional<Size>) {
          Tensor x = dim && self.dim() > 0 ? self : reshape(self, Sizes{Size(-1)});
          int64_t d = dim && self.dim() > 0 ? wrap_dim(*dim, self.dim(), "repeat_interleave") : 0;
          Tensor counts = repeats;
          if (repeats.numel() == 1)
            counts = expand(reshape(repeats, Sizes{Size(1)}), Sizes{Size(x.size(d))});
          check(counts.numel() == x.size(d), ErrorKind::runtime,
                "repeats must have the same size as input along dim, but got repeats.size(0) = ",
                counts.numel(), " and input.size(", d, ") = ", x.size(d));
          return index_select(x, Dim(d), repeated_positions(counts));
        },
        kFunction | kMethod, BodyKind::direct};

// Diagonals.

namespace {

struct Diagonal {
  int64_t first, second;  // dims
  Size length, row, column;
};

Diagonal diagonal_of(const Tensor& self, Size offset, int64_t dim1, int64_t dim2,
                     const char* name) {
  Diagonal d;
  d.first = wrap_dim(dim1, self.dim(), name);
  d.second = wrap_dim(dim2, self.dim(), name);
  check(d.first != d.second, ErrorKind::runtime, name,
        "(): diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  Size rows = graph::size_of(self, d.first), columns = graph::size_of(self, d.second);
  bool upper = offset >= Size(0);
  d.row = upper ? Size(0) : Size(0) - offset;
  d.column = upper ? offset : Size(0);
  Size length = min(rows - d.row, columns - d.column);
  d.length = length <= Size(0) ? Size(0) : length == Size(1) ? Size(1) : length;
  return d;
}

}  // namespace

const Op<Tensor(const Tensor&, Size, Dim, Dim)> diagonal{
    "diagonal(Tensor self, SymInt offset=0, int dim1=0, int dim2=1) -> Tensor",
    R"(The elements where the positions along dim2 and dim1 differ by `offset`, as a last dim; a view.
Errors: RuntimeError where the dims are the same, IndexError where one is out of range.)",
    [](const Tensor& self, Size offset, Dim dim1, Dim dim2) {
      Diagonal d = diagonal_of(self, offset, dim1, dim2, "diagonal");
      if (!self.traced()) {
        Dims sizes = self.sizes(), strides = self.strides();
        int64_t step = strides[d.first] + strides[d.second];
        bool empty = d.length.value == 0;
        int64_t start =
            self.offset() +
            (empty ? 0 : d.row.value * strides[d.first] + d.column.value * strides[d.second]);
        for (int64_t k : {std::max(d.first, d.second), std::min(d.first, d.second)}) {
          sizes.erase(k);
          strides.erase(k);
        }
        sizes.insert(sizes.size(), d.length.value);
        strides.insert(strides.size(), step);
        return view_tensor(self, sizes, strides, start);
      }
      // Brought last, cut to a square, and read along every (length + 1)th element.
      std::vector<int64_t> order;
      for (int64_t k = 0; k < self.dim(); ++k) {
        if (k != d.first && k != d.second) order.push_back(k);
      }
      order.push_back(d.first);
      order.push_back(d.second);
      Tensor x = prim::permute(self, order);
      int64_t last = x.dim() - 1;
      x = prim::slice(prim::slice(x, last - 1, d.row, d.length, 1), last, d.column, d.length, 1);
      Sizes sizes = graph::sizes_of(x);
      sizes.pop_back();
      sizes.back() = d.length * d.length;
      Tensor line = prim::reshape(x, sizes);
      return prim::slice(line, last - 1, 0, d.length, d.length + 1);
    },
    kFunction | kMethod, BodyKind::view};

const Op<Tensor(const Tensor&, Dim)> diag{
    "diag(Tensor self, int diagonal=0) -> Tensor",
    R"(Of a vector: the matrix with it on diagonal number `diagonal`. Of a matrix: that diagonal, copied.)",
    [](const Tensor& self, Dim number) {
      check(self.dim() == 1 || self.dim() == 2, ErrorKind::runtime,
            "diag(): Supports 1D or 2D tensors. Got ", self.dim(), "D");
      if (self.dim() == 2) return diagonal(self, Size(number.value), Dim(0), Dim(1));
      int64_t k = number;
      Size n = graph::size_of(self, 0), side = n + Size(std::abs(k));
      if (side == Size(1)) side = Size(1);
      Sizes sizes{side, side};
      Tensor zero = prim::constant(0, self.dtype());
      Tensor line = prim::pad(self, 0, Size(k < 0 ? -k : 0), side, 1, zero);  // by row
      Tensor spread = prim::broadcast(line, sizes, {0, -1});
      Tensor offset = prim::sub(prim::iota(sizes, 1), prim::iota(sizes, 0));
      return prim::select(prim::eq(offset, prim::constant(k, DType::int64, sizes)), spread,
                          prim::zeros_like(spread));
    }};
const Op<Tensor(const Tensor&)> trace{
    "trace(Tensor self) -> Tensor", R"(Sum of the main diagonal of a matrix; integers in int64.)",
    [](const Tensor& self) {
      check(self.dim() == 2, ErrorKind::runtime,
            "trace: expected a matrix, but got tensor with dim ", self.dim());
      return sum_dims(diagonal(self, Size(0), Dim(0), Dim(1)), std::nullopt, false, std::nullopt);
    },
    kFunction | kMethod};

}  // namespace flambeau::ops
