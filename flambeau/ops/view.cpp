#include "flambeau/ops/view.h"

#include <algorithm>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

Tensor permuted(const Tensor& x, const std::vector<int64_t>& dims) {
  if (x.traced()) return prim::permute(x, dims);
  Dims sizes, strides;
  for (int64_t d : dims) {
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  return view_tensor(x, sizes, strides, x.offset());
}

Tensor sliced(const Tensor& x, int64_t dim, Size start, Size count, Size step) {
  if (x.traced()) return prim::slice(x, dim, start, count, step);
  Dims sizes = x.sizes(), strides = x.strides();
  int64_t offset = x.offset() + (count.value > 0 ? start.value * strides[dim] : 0);
  sizes[dim] = count.value;
  strides[dim] *= step.value;
  return view_tensor(x, sizes, strides, offset);
}

Tensor expanded(const Tensor& x, const Sizes& sizes) {
  if (x.traced()) return expand_to(x, sizes);
  Dims to = values(sizes), strides(to.size());
  int64_t lead = to.size() - x.dim();
  for (int64_t d = 0; d < x.dim(); ++d)
    strides[lead + d] = x.size(d) == 1 && to[lead + d] != 1 ? 0 : x.stride(d);
  for (int64_t d = 0; d < lead; ++d)
    strides[d] = to[d] == 1 && x.dim() > 0 ? x.size(0) * x.stride(0) : 0;
  return view_tensor(x, to, strides, x.offset());
}

Tensor viewed(const Tensor& x, const Sizes& sizes, const char* name) {
  if (x.traced()) return prim::reshape(x, sizes);
  Dims to = values(sizes), strides;
  check(view_strides(x.sizes(), x.strides(), to, &strides), ErrorKind::runtime, name,
        ": view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous "
        "subspaces). Use .reshape(...) instead.");
  return view_tensor(x, to, strides, x.offset());
}

Sizes complete_sizes(const Tensor& x, const Sizes& sizes, const char* name) {
  Size numel = 1, known = 1;
  for (Size s : graph::sizes_of(x)) numel = numel * s;
  int64_t open = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == Size(-1)) {
      check(open < 0, ErrorKind::runtime, name, ": only one dimension can be inferred");
      open = static_cast<int64_t>(d);
      continue;
    }
    check(sizes[d] >= Size(0), ErrorKind::runtime, name, ": invalid shape dimension ", sizes[d]);
    known = known * sizes[d];
  }
  Sizes result = sizes;
  if (open >= 0) {
    check(known != Size(0), ErrorKind::runtime, name, ": cannot reshape tensor of ", numel,
          " elements into shape ", values(sizes),
          " because the unspecified dimension size -1 can be any value and is ambiguous");
    result[static_cast<size_t>(open)] = numel / known;
    known = known * result[static_cast<size_t>(open)];
  }
  check(known.value == numel.value, ErrorKind::runtime, name, ": shape '", values(sizes),
        "' is invalid for input of size ", numel);
  // A size that is 1 now reads as the constant, as keys know it.
  for (Size& s : result) {
    if (s.id >= 0 && s == Size(1)) s = Size(1);
  }
  return result;
}

namespace {

constexpr int kViewForms = kFunction | kMethod;

Tensor drop_dim(const Tensor& x, int64_t dim) {
  if (!x.traced()) {
    Dims sizes = x.sizes(), strides = x.strides();
    sizes.erase(dim);
    strides.erase(dim);
    return view_tensor(x, sizes, strides, x.offset());
  }
  Sizes sizes = graph::sizes_of(x);
  sizes.erase(sizes.begin() + dim);
  return prim::reshape(x, sizes);
}

Tensor insert_dim(const Tensor& x, int64_t dim) {
  if (!x.traced()) {
    Dims sizes = x.sizes(), strides = x.strides();
    int64_t stride = dim < x.dim() ? sizes[dim] * strides[dim] : 1;
    sizes.insert(dim, 1);
    strides.insert(dim, stride);
    return view_tensor(x, sizes, strides, x.offset());
  }
  Sizes sizes = graph::sizes_of(x);
  sizes.insert(sizes.begin() + dim, Size(1));
  return prim::reshape(x, sizes);
}

Tensor squeezed(const Tensor& x, const std::vector<int64_t>& dims) {
  Tensor result = x;
  for (size_t i = dims.size(); i-- > 0;) {
    if (graph::size_of(x, dims[i]) == Size(1)) result = drop_dim(result, dims[i]);
  }
  // A view operator gives a tensor of its own even when nothing changes.
  return result.same(x) && !x.traced() ? view_tensor(x, x.sizes(), x.strides(), x.offset())
                                       : result;
}

/// The value of a 0-d integer tensor.
int64_t item_of(const Tensor& t) {
  switch (t.dtype()) {
    case DType::uint8:
      return *t.data_as<uint8_t>();
    case DType::int8:
      return *t.data_as<int8_t>();
    case DType::int16:
      return *t.data_as<int16_t>();
    case DType::int32:
      return *t.data_as<int32_t>();
    default:
      return *t.data_as<int64_t>();
  }
}

std::vector<int64_t> all_dims(int64_t rank) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  return dims;
}

Tensor swapped(const Tensor& x, int64_t a, int64_t b, const char* name) {
  int64_t i = wrap_dim(a, x.dim(), name), j = wrap_dim(b, x.dim(), name);
  std::vector<int64_t> dims = all_dims(x.dim());
  if (!dims.empty()) std::swap(dims[static_cast<size_t>(i)], dims[static_cast<size_t>(j)]);
  return permuted(x, dims);
}

Sizes sizes_of(const Tensor& x) { return graph::sizes_of(x); }

}  // namespace

const Op<Tensor(const Tensor&, const Sizes&)> view{
    "view(Tensor self, SymInt[] size) -> Tensor",
    R"(The same elements under other sizes, sharing memory. One size may be -1. Errors: RuntimeError when the number of
elements differs or the memory layout does not allow a view.)",
    [](const Tensor& self, const Sizes& size) {
      return viewed(self, complete_sizes(self, size, "view"), "view");
    },
    kMethod, BodyKind::view};

const Op<Tensor(const Tensor&, const Sizes&)> reshape{
    "reshape(Tensor self, SymInt[] shape) -> Tensor",
    R"(The same elements in row-major order under other sizes: a view where the memory allows it, else a copy. One size may
be -1. Errors: RuntimeError when the number of elements differs.)",
    [](const Tensor& self, const Sizes& shape) {
      Sizes sizes = complete_sizes(self, shape, "reshape");
      if (self.traced()) return prim::reshape(self, sizes);
      Dims strides;
      bool possible = view_strides(self.sizes(), self.strides(), values(sizes), &strides);
      return view(possible ? self : contiguous_copy(self), sizes);
    },
    kViewForms, BodyKind::direct};

const Op<Tensor(const Tensor&)> contiguous_copy{"_contiguous_copy(Tensor self) -> Tensor",
                                                R"(A copy in row-major order.)",
                                                [](const Tensor& self) { return self; }, 0};

const Op<Tensor(const Tensor&, const Sizes&, bool)> expand{
    "expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    R"(Dims of size 1 repeated without copying; new dims are added in front; -1 keeps a size. Errors: RuntimeError for any
other change.)",
    [](const Tensor& self, const Sizes& size, bool) {
      auto rank = static_cast<int64_t>(size.size());
      check(rank >= self.dim(), ErrorKind::runtime, "expand: the number of sizes provided (", rank,
            ") must be greater or equal to the number of dimensions in the tensor (", self.dim(),
            ")");
      Sizes result = size, own = sizes_of(self);
      int64_t lead = rank - self.dim();
      for (int64_t d = 0; d < rank; ++d) {
        Size& s = result[static_cast<size_t>(d)];
        if (d < lead) {
          check(s >= Size(0), ErrorKind::runtime, "expand: The expanded size of the tensor (", s,
                ") isn't allowed in a leading, non-existing dimension ", d);
          continue;
        }
        Size o = own[static_cast<size_t>(d - lead)];
        if (s == Size(-1))
          s = o;
        else if (!(o == Size(1)))
          check(s == o, ErrorKind::runtime, "expand: The expanded size of the tensor (", s,
                ") must match the existing size (", o, ") at non-singleton dimension ", d);
      }
      return expanded(self, result);
    },
    kMethod, BodyKind::view};

const Op<Tensor(const Tensor&, const Tensor&)> expand_as{
    "expand_as(Tensor self, Tensor other) -> Tensor", R"(expand to the sizes of `other`.)",
    [](const Tensor& self, const Tensor& other) { return expand(self, sizes_of(other)); }, kMethod,
    BodyKind::direct};

const Op<Tensor(const Tensor&, const Sizes&)> broadcast_to{
    "broadcast_to(Tensor self, SymInt[] size) -> Tensor", R"(expand under another name.)",
    [](const Tensor& self, const Sizes& size) { return expand(self, size); }, kViewForms,
    BodyKind::direct};

const Op<Tensor(const Tensor&, const Tensor&)> view_as{
    "view_as(Tensor self, Tensor other) -> Tensor", R"(view with the sizes of `other`.)",
    [](const Tensor& self, const Tensor& other) { return view(self, sizes_of(other)); }, kMethod,
    BodyKind::direct};

const Op<Tensor(const Tensor&, const Tensor&)> reshape_as{
    "reshape_as(Tensor self, Tensor other) -> Tensor", R"(reshape with the sizes of `other`.)",
    [](const Tensor& self, const Tensor& other) { return reshape(self, sizes_of(other)); }, kMethod,
    BodyKind::direct};

const Op<Tensor(const Tensor&, const DimList&)> permute{
    "permute(Tensor self, int[] dims) -> Tensor",
    R"(Dims in another order. Errors: RuntimeError unless each dim is named once.)",
    [](const Tensor& self, const DimList& dims) {
      check(static_cast<int64_t>(dims.size()) == self.dim(), ErrorKind::runtime,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            "length of the desired ordering of dimensions i.e. input.dim() = ",
            self.dim(), " is not equal to len(dims) = ", dims.size());
      std::vector<int64_t> order;
      for (int64_t d : dims) {
        int64_t wrapped = wrap_dim(d, self.dim(), "permute");
        check(std::find(order.begin(), order.end(), wrapped) == order.end(), ErrorKind::runtime,
              "permute: duplicate dims are not allowed.");
        order.push_back(wrapped);
      }
      return permuted(self, order);
    },
    kViewForms, BodyKind::view};

const Op<Tensor(const Tensor&, Dim, Dim)> transpose{
    "transpose.int|swapaxes.int|swapdims.int(Tensor self, int dim0, int dim1) -> Tensor",
    R"(Two dims exchanged.)",
    [](const Tensor& self, Dim a, Dim b) { return swapped(self, a, b, "transpose"); },
    kViewForms | kInplace, BodyKind::view};

const Op<Tensor(const Tensor&)> t{
    "t(Tensor self) -> Tensor",
    R"(The transpose of a matrix; vectors and 0-d tensors stay. Errors: RuntimeError above two dims.)",
    [](const Tensor& self) {
      check(self.dim() <= 2, ErrorKind::runtime,
            "t() expects a tensor with <= 2 dimensions, but self is ", self.dim(), "D");
      return swapped(self, 0, self.dim() < 2 ? 0 : 1, "t");
    },
    kViewForms | kInplace, BodyKind::view};

const Op<Tensor(const Tensor&, Dim)> unsqueeze{
    "unsqueeze(Tensor self, int dim) -> Tensor", R"(A new dim of size 1 at `dim`.)",
    [](const Tensor& self, Dim dim) {
      return insert_dim(self, wrap_dim(dim, self.dim() + 1, "unsqueeze"));
    },
    kViewForms | kInplace, BodyKind::view};

const Op<Tensor(const Tensor&)> squeeze{
    "squeeze(Tensor self) -> Tensor", R"(Without the dims of size 1.)",
    [](const Tensor& self) { return squeezed(self, all_dims(self.dim())); }, kViewForms | kInplace,
    BodyKind::view};

const Op<Tensor(const Tensor&, Dim)> squeeze_dim{
    "squeeze.dim(Tensor self, int dim) -> Tensor", R"(Without dim `dim` if its size is 1.)",
    [](const Tensor& self, Dim dim) {
      int64_t d = wrap_dim(dim, self.dim(), "squeeze");
      return squeezed(self, self.dim() == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{d});
    },
    kViewForms | kInplace, BodyKind::view};

const Op<Tensor(const Tensor&, const DimList&)> squeeze_dims{
    "squeeze.dims(Tensor self, int[] dim) -> Tensor",
    R"(Without those of the dims whose size is 1.)",
    [](const Tensor& self, const DimList& dims) {
      return squeezed(self, reduced_dims(dims, self.dim(), "squeeze", false));
    },
    kViewForms | kInplace, BodyKind::view};

const Op<Tensor(const Tensor&, Dim, Size)> select{
    "select.int(Tensor self, int dim, SymInt index) -> Tensor",
    R"(Position `index` of dim `dim`, which is removed. Errors: IndexError out of range.)",
    [](const Tensor& self, Dim dim, Size index) {
      check(self.dim() > 0, ErrorKind::index, "select() cannot be applied to a 0-dim tensor.");
      int64_t d = wrap_dim(dim, self.dim(), "select");
      Size n = graph::size_of(self, d);
      check(index.value >= -n.value && index.value < n.value, ErrorKind::index, "select(): index ",
            index, " out of range for tensor of size ", self.sizes(), " at dimension ", d);
      if (index < Size(0)) index = index + n;
      return drop_dim(sliced(self, d, index, 1, 1), d);
    },
    kViewForms, BodyKind::view};

const Op<Tensor(const Tensor&, Dim, std::optional<Size>, std::optional<Size>, Size)> slice{
    "slice.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
    "Tensor",
    R"(Every `step`-th position of dim `dim` from start to before end; both may be negative and are clipped. Errors: RuntimeError for a step below 1.)",
    [](const Tensor& self, Dim dim, std::optional<Size> start, std::optional<Size> end, Size step) {
      check(self.dim() > 0, ErrorKind::runtime, "slice() cannot be applied to a 0-dim tensor.");
      int64_t d = wrap_dim(dim, self.dim(), "slice");
      check(step > Size(0), ErrorKind::runtime, "slice: step must be positive, got ", step);
      Size n = graph::size_of(self, d);
      auto place = [&](std::optional<Size> s, Size otherwise) {
        if (!s) return otherwise;
        if (*s < Size(0)) return max(*s + n, 0);
        return min(*s, n);
      };
      Size first = place(start, 0), last = place(end, n);
      Size count = last < first ? Size(0) : (last - first + step - 1) / step;
      return sliced(self, d, first, count, step);
    },
    0, BodyKind::view};

const Op<Tensor(const Tensor&, Dim, Size, Size)> narrow{
    "narrow(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
    R"(`length` positions of dim `dim` from `start`.)",
    [](const Tensor& self, Dim dim, Size start, Size length) {
      check(self.dim() > 0, ErrorKind::runtime, "narrow() cannot be applied to a 0-dim tensor.");
      check(length >= Size(0), ErrorKind::runtime, "narrow(): length must be non-negative.");
      int64_t d = wrap_dim(dim, self.dim(), "narrow");
      Size n = graph::size_of(self, d);
      check(start.value >= -n.value && start.value <= n.value, ErrorKind::index,
            "narrow: start out of range (expected to be in range of [", -n.value, ", ", n,
            "], but got ", start, ")");
      if (start < Size(0)) start = start + n;
      check(start.value + length.value <= n.value, ErrorKind::runtime, "narrow: start (", start,
            ") + length (", length, ") exceeds dimension size (", n, ").");
      return slice(self, d, start, start + length, 1);
    },
    kViewForms, BodyKind::direct};

const Op<Tensor(const Tensor&, Dim, const Tensor&, Size)> narrow_tensor{
    "narrow.Tensor(Tensor self, int dim, Tensor start, SymInt length) -> Tensor",
    R"(narrow whose start is a 0-d integer tensor, which is read.)",
    [](const Tensor& self, Dim dim, const Tensor& start, Size length) {
      check(start.dim() == 0 && is_integer(start.dtype()), ErrorKind::runtime,
            "narrow: start must be a 0-dim integral Tensor.");
      return narrow(self, dim, Size(item_of(start)), length);
    },
    kViewForms, BodyKind::direct};
const Op<Tensor(const Tensor&, Dim, Dim)> flatten{
    "flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
    R"(The dims from start_dim to end_dim as one.)",
    [](const Tensor& self, Dim start, Dim end) {
      int64_t first = wrap_dim(start, self.dim(), "flatten"),
              last = wrap_dim(end, self.dim(), "flatten");
      check(first <= last, ErrorKind::runtime,
            "flatten() has invalid args: start_dim cannot come after end_dim");
      if (self.dim() == 0) return reshape(self, Sizes{Size(1)});
      if (first == last) return self;
      Sizes own = sizes_of(self), sizes;
      for (int64_t d = 0; d < self.dim(); ++d) {
        if (d <= first || d > last)
          sizes.push_back(own[static_cast<size_t>(d)]);
        else
          sizes.back() = sizes.back() * own[static_cast<size_t>(d)];
      }
      return reshape(self, sizes);
    },
    kViewForms, BodyKind::direct};

const Op<Tensor(const Tensor&)> ravel{
    "ravel(Tensor self) -> Tensor", R"(The elements in row-major order as one dim.)",
    [](const Tensor& self) { return reshape(self, Sizes{Size(-1)}); }, kViewForms,
    BodyKind::direct};

const Op<Tensor(const Tensor&, Dim, const Sizes&)> unflatten{
    "unflatten.int(Tensor self, int dim, SymInt[] sizes) -> Tensor",
    R"(Dim `dim` split into `sizes`, of which one may be -1.)",
    [](const Tensor& self, Dim dim, const Sizes& sizes) {
      int64_t d = wrap_dim(dim, self.dim(), "unflatten");
      check(!sizes.empty(), ErrorKind::runtime, "unflatten: sizes must be non-empty");
      check(self.dim() > 0, ErrorKind::index, "unflatten: Dimension out of range for a 0-d tensor");
      Sizes own = sizes_of(self);
      Size known = 1, n = own[static_cast<size_t>(d)];
      int64_t open = -1;
      Sizes parts = sizes;
      for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == Size(-1))
          open = static_cast<int64_t>(i);
        else
          known = known * parts[i];
      }
      if (open >= 0 && !(known == Size(0))) {
        parts[static_cast<size_t>(open)] = n / known;
        known = known * parts[static_cast<size_t>(open)];
      }
      check(known.value == n.value, ErrorKind::runtime, "unflatten: Provided sizes ", values(sizes),
            " don't multiply up to the size of dim ", d, " (", n, ") in the input tensor");
      Sizes result(own.begin(), own.begin() + d);
      result.insert(result.end(), parts.begin(), parts.end());
      result.insert(result.end(), own.begin() + d + 1, own.end());
      return view(self, result);
    },
    kViewForms, BodyKind::direct};

const Op<Tensor(const Tensor&, const DimList&, const DimList&)> movedim{
    "movedim.intlist|moveaxis.intlist(Tensor self, int[] source, int[] destination) -> Tensor",
    R"(Dims moved to new places, the others keep their order. A single int stands for a list of one.)",
    [](const Tensor& self, const DimList& source, const DimList& destination) {
      check(source.size() == destination.size(), ErrorKind::runtime,
            "movedim: Invalid source or destination dims: source (", source,
            " dims) should contain the same number of dims as destination (", destination,
            " dims)");
      std::vector<int64_t> order(static_cast<size_t>(self.dim()), -1);
      std::vector<bool> used(static_cast<size_t>(self.dim()));
      for (size_t i = 0; i < source.size(); ++i) {
        auto from = static_cast<size_t>(wrap_dim(source[i], self.dim(), "movedim")),
             to = static_cast<size_t>(wrap_dim(destination[i], self.dim(), "movedim"));
        if (self.dim() == 0) continue;
        check(!used[from] && order[to] < 0, ErrorKind::runtime,
              "movedim: repeated dim in `source` or `destination`");
        used[from] = true;
        order[to] = static_cast<int64_t>(from);
      }
      size_t next = 0;
      for (int64_t& d : order) {
        if (d >= 0) continue;
        while (used[next]) ++next;
        d = static_cast<int64_t>(next++);
      }
      return permute(self, order);
    },
    kViewForms, BodyKind::direct};
const Op<Tensor(const Tensor&, Dim, Dim)> movedim_int{
    "movedim.int|moveaxis.int(Tensor self, int source, int destination) -> Tensor",
    R"(One dim moved to a new place.)",
    [](const Tensor& self, Dim source, Dim destination) {
      return movedim(self, DimList{source.value}, DimList{destination.value});
    },
    kViewForms, BodyKind::direct};

// Lists of views.

namespace {

TensorList split_by(const Tensor& self, const Sizes& counts, int64_t dim) {
  TensorList parts;
  Size start = 0;
  for (Size n : counts) {
    parts.push_back(slice(self, dim, start, start + n, 1));
    start = start + n;
  }
  return parts;
}

}  // namespace

const Op<TensorList(const Tensor&, Dim, Dim)> split{
    "split.Tensor|unsafe_split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]",
    R"(Pieces of `split_size` positions along `dim`, the last one may be smaller.)",
    [](const Tensor& self, Dim split_size, Dim dim) {
      check(self.dim() > 0, ErrorKind::runtime, "split expects at least a 1-dimensional tensor");
      check(split_size >= 0, ErrorKind::runtime,
            "split expects split_size be non-negative, but got split_size=", split_size.value);
      int64_t d = wrap_dim(dim, self.dim(), "split");
      int64_t n = graph::size_of(self, d).value;
      check(split_size > 0 || n == 0, ErrorKind::runtime,
            "split_size can only be 0 if dimension size is 0, but got dimension size of ", n);
      Sizes counts;
      for (int64_t at = 0; at < std::max<int64_t>(n, 1); at += std::max<int64_t>(split_size, 1))
        counts.push_back(std::min<int64_t>(split_size, n - at));
      return split_by(self, counts, d);
    },
    kViewForms, BodyKind::direct};

const Op<TensorList(const Tensor&, const Sizes&, Dim)> split_with_sizes{
    "split.sizes|split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    R"(Pieces of the given numbers of positions along `dim`.)",
    [](const Tensor& self, const Sizes& counts, Dim dim) {
      check(self.dim() > 0, ErrorKind::runtime,
            "split_with_sizes expects at least a 1-dimensional tensor");
      int64_t d = wrap_dim(dim, self.dim(), "split_with_sizes");
      int64_t total = 0;
      for (Size s : counts) {
        check(s.value >= 0, ErrorKind::runtime,
              "split_with_sizes expects split_sizes have only non-negative entries, but got "
              "split_sizes=",
              values(counts));
        total += s.value;
      }
      check(total == graph::size_of(self, d).value, ErrorKind::runtime,
            "split_with_sizes expects split_sizes to sum exactly to ", graph::size_of(self, d),
            " (input tensor's size at dimension ", d, "), but got split_sizes=", values(counts));
      return split_by(self, counts, d);
    },
    kViewForms, BodyKind::direct};

const Op<TensorList(const Tensor&, Dim, Dim)> chunk{
    "chunk|unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
    R"(At most `chunks` pieces of equal size along `dim`, the last one may be smaller.)",
    [](const Tensor& self, Dim chunks, Dim dim) {
      check(self.dim() > 0, ErrorKind::runtime, "chunk expects at least a 1-dimensional tensor");
      check(chunks > 0, ErrorKind::runtime,
            "chunk expects `chunks` to be greater than 0, got: ", chunks.value);
      int64_t d = wrap_dim(dim, self.dim(), "chunk");
      int64_t n = graph::size_of(self, d).value, each = (n + chunks - 1) / chunks;
      Sizes counts;
      if (n == 0) counts.assign(static_cast<size_t>(chunks.value), Size(0));
      for (int64_t at = 0; at < n; at += each) counts.push_back(std::min(each, n - at));
      return split_by(self, counts, d);
    },
    kViewForms, BodyKind::direct};

const Op<TensorList(const Tensor&, Dim)> unbind{
    "unbind.int(Tensor self, int dim=0) -> Tensor[]",
    R"(Every position of dim `dim` as a tensor without that dim.)",
    [](const Tensor& self, Dim dim) {
      check(self.dim() > 0, ErrorKind::index, "Dimension specified as ", dim.value,
            " but tensor has no dimensions");
      int64_t d = wrap_dim(dim, self.dim(), "unbind");
      TensorList parts;
      int64_t n = graph::size_of(self, d).value;
      for (int64_t i = 0; i < n; ++i) parts.push_back(select(self, d, i));
      return parts;
    },
    kViewForms, BodyKind::direct};

// Joining.

const Op<Tensor(const TensorList&, Dim)> cat{
    "cat|concat|concatenate(Tensor[] tensors, int dim=0) -> Tensor",
    R"(The tensors one after another along `dim`. All other sizes must match; a 1-d tensor without elements is left out. The dtype is
the promoted one. Errors: RuntimeError for sizes that do not match and for 0-d tensors, ValueError for an empty list.)",
    [](const TensorList& tensors, Dim dim) {
      check(!tensors.empty(), ErrorKind::value, "cat(): expected a non-empty list of Tensors");
      DType dtype = result_type(tensors);
      TensorList parts;
      int64_t rank = -1;
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& x = tensors[i];
        check(x.dim() > 0, ErrorKind::runtime, "zero-dimensional tensor (at position ", i,
              ") cannot be concatenated");
        if (x.dim() == 1 && graph::size_of(x, 0) == Size(0)) continue;
        rank = std::max(rank, x.dim());
      }
      if (rank < 0) rank = 1;
      int64_t d = wrap_dim(dim, rank, "cat");
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& x = tensors[i];
        if (x.dim() == 1 && rank != 1 && graph::size_of(x, 0) == Size(0)) continue;
        check(x.dim() == rank, ErrorKind::runtime,
              "Tensors must have same number of dimensions: got ", rank, " and ", x.dim());
        for (int64_t k = 0; k < rank && !parts.empty(); ++k) {
          check(k == d || x.size(k) == parts[0].size(k), ErrorKind::runtime,
                "Sizes of tensors must match except in dimension ", d, ". Expected size ",
                parts[0].size(k), " but got size ", x.size(k), " for tensor number ", i,
                " in the list.");
        }
        parts.push_back(to_dtype(x, dtype));
      }
      return prim::concat(parts, d);
    },
    kFunction | kOut};

const Op<Tensor(const TensorList&, Dim)> stack{
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    R"(Tensors of equal sizes along a new dim. Errors: RuntimeError for sizes that differ or an empty list.)",
    [](const TensorList& tensors, Dim dim) {
      check(!tensors.empty(), ErrorKind::runtime, "stack expects a non-empty TensorList");
      int64_t d = wrap_dim(dim, tensors[0].dim() + 1, "stack");
      DType dtype = result_type(tensors);
      TensorList parts;
      for (size_t i = 0; i < tensors.size(); ++i) {
        check(tensors[i].sizes() == tensors[0].sizes(), ErrorKind::runtime,
              "stack expects each tensor to be equal size, but got ", tensors[0].sizes(),
              " at entry 0 and ", tensors[i].sizes(), " at entry ", i);
        parts.push_back(insert_dim(to_dtype(tensors[i], dtype), d));
      }
      return prim::concat(parts, d);
    },
    kFunction | kOut};

}  // namespace flambeau::ops
