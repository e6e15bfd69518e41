#include "flambeau/tensor/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "flambeau/base/error.h"

namespace flambeau {

bool (*release_python_tensor)(TensorImpl*) = nullptr;

void append(std::string& out, const Dims& dims) {
  out.push_back('[');
  for (int64_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    append(out, dims[i]);
  }
  out.push_back(']');
}

DType Scalar::dtype() const {
  switch (kind_) {
    case Kind::boolean:
      return DType::boolean;
    case Kind::integer:
      return DType::int64;
    case Kind::real:
      return default_dtype();
    case Kind::complex:
      return complex_type(default_dtype());
  }
  return DType::int64;
}

void append(std::string& out, const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::boolean:
      append(out, value.boolean());
      break;
    case Scalar::Kind::integer:
      append(out, value.integer());
      break;
    case Scalar::Kind::real:
      append(out, value.real());
      break;
    case Scalar::Kind::complex:
      append(out, text("(", value.real(), value.imag() < 0 ? "" : "+", value.imag(), "j)"));
      break;
  }
}

Storage::Storage(size_t bytes, Device device)
    : data_(static_cast<char*>(allocator(device.type).allocate(bytes))),
      bytes_(bytes),
      device_(device) {}

Storage::Storage(void* memory, size_t bytes, Device device, std::function<void()> release)
    : data_(static_cast<char*>(memory)),
      bytes_(bytes),
      device_(device),
      release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    allocator(device_.type).release(data_, bytes_);
  }
}

namespace {

/// Guards pending_owner_ of all storages: it is read by threads that did not set it, and seldom.
std::mutex& pending_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::shared_ptr<Pending> Storage::pending() const {
  if (!pending_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(pending_mutex());
  return pending_owner_;
}

void Storage::set_pending(std::shared_ptr<Pending> pending) {
  std::lock_guard lock(pending_mutex());
  pending_owner_.swap(pending);
  pending_.store(pending_owner_.get(), std::memory_order_release);
}

void Storage::flush() {
  if (std::shared_ptr<Pending> keep = pending()) keep->flush();
}

void TensorImpl::release() {
  if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (python && release_python_tensor && release_python_tensor(this)) return;
  delete this;
}

void TensorImpl::refresh() {
  numel = checked_numel(sizes);
  contiguous = true;
  int64_t expected = 1;
  for (int64_t d = sizes.size() - 1; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected && numel != 0) contiguous = false;
    expected *= sizes[d];
  }
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int64_t d = sizes.size() - 1; d >= 0; --d) {
    strides[d] = step;
    step *= sizes[d] > 1 ? sizes[d] : 1;
  }
  return strides;
}

int64_t checked_numel(const Dims& sizes) {
  int64_t n = 1;
  bool zero = false, overflow = false;
  for (int64_t s : sizes) {
    check(s >= 0, ErrorKind::runtime, "sizes must not be negative, got ", sizes);
    zero |= s == 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  if (zero) return 0;
  check(!overflow && n <= (int64_t{1} << 58), ErrorKind::runtime,
        "the number of elements of sizes ", sizes, " overflows");
  return n;
}

Tensor empty_tensor(const Dims& sizes, DType dtype, Device device) {
  check(device.type == DeviceType::cpu, ErrorKind::runtime, "device ", device,
        " is not available in this build; available: cpu");
  auto* impl = new TensorImpl;
  Tensor result(impl);
  impl->sizes = sizes;
  impl->numel = checked_numel(sizes);
  impl->strides = contiguous_strides(sizes);
  impl->dtype = dtype;
  impl->device = device;
  impl->storage =
      Pointer<Storage>(new Storage(static_cast<size_t>(impl->numel * itemsize(dtype)), device));
  return result;
}

Tensor view_tensor(const Tensor& base, Dims sizes, Dims strides, int64_t offset, DType dtype) {
  auto* impl = new TensorImpl;
  Tensor result(impl);
  impl->sizes = std::move(sizes);
  impl->strides = std::move(strides);
  impl->offset = offset;
  impl->dtype = dtype;
  impl->device = base.device();
  impl->storage = base.impl()->storage;
  impl->refresh();
  return result;
}

bool has_internal_overlap(const Tensor& t) {
  if (t.is_contiguous()) return false;
  // Sorted by stride, each dim must step over the extent of the smaller ones.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) > 1) dims.emplace_back(std::abs(t.stride(d)), t.size(d));
  }
  std::sort(dims.begin(), dims.end());
  int64_t extent = 0;
  for (auto [stride, size] : dims) {
    if (stride <= extent) return true;
    extent += stride * (size - 1);
  }
  return false;
}

int memory_overlap(const Tensor& a, const Tensor& b) {
  if (!(a.impl()->storage == b.impl()->storage) || a.numel() == 0 || b.numel() == 0) return 0;
  if (a.offset() == b.offset() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
      a.dtype() == b.dtype())
    return 1;
  auto range = [](const Tensor& t) {
    int64_t low = t.offset(), high = t.offset();
    for (int64_t d = 0; d < t.dim(); ++d) {
      int64_t reach = t.stride(d) * (t.size(d) - 1);
      (reach < 0 ? low : high) += reach;
    }
    int64_t bytes = itemsize(t.dtype());
    return std::pair(low * bytes, (high + 1) * bytes);
  };
  auto [a_low, a_high] = range(a);
  auto [b_low, b_high] = range(b);
  return a_low < b_high && b_low < a_high ? 2 : 0;
}

bool view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& sizes,
                  Dims* strides) {
  int64_t numel = 1;
  for (int64_t s : old_sizes) numel *= s;
  if (numel == 0) {
    *strides = contiguous_strides(sizes);
    return true;
  }
  Dims result(sizes.size());
  int64_t view_d = sizes.size() - 1;
  int64_t chunk_stride = old_sizes.empty() ? 1 : old_strides.back();
  int64_t old_count = 1, view_count = 1;
  for (int64_t d = old_sizes.size() - 1; d >= 0; --d) {
    old_count *= old_sizes[d];
    // A chunk of old dims ends where the next stride does not continue it.
    bool ends = d == 0 || (old_sizes[d - 1] != 1 && old_strides[d - 1] != old_count * chunk_stride);
    if (!ends) continue;
    while (view_d >= 0 && (view_count < old_count || sizes[view_d] == 1)) {
      result[view_d] = view_count * chunk_stride;
      view_count *= sizes[view_d];
      --view_d;
    }
    if (view_count != old_count) return false;
    if (d > 0) {
      chunk_stride = old_strides[d - 1];
      old_count = view_count = 1;
    }
  }
  while (view_d >= 0 && sizes[view_d] == 1) result[view_d--] = 1;
  if (view_d != -1) return false;
  *strides = result;
  return true;
}

int64_t wrap_dim(int64_t d, int64_t n, const char* operator_name) {
  int64_t range = n == 0 ? 1 : n;
  check(d >= -range && d < range, ErrorKind::index, operator_name,
        ": Dimension out of range (expected to be in range of [", -range, ", ", range - 1,
        "], but got ", d, ")");
  return d < 0 ? d + range : d;
}

}  // namespace flambeau
