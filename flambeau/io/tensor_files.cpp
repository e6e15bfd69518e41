#include "flambeau/io/tensor_files.h"

#include <cstring>
#include <memory>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/io/element.h"
#include "flambeau/io/npy.h"
#include "flambeau/io/png.h"
#include "flambeau/io/safetensors.h"

namespace flambeau::io {

namespace {

struct FormatName {
  const char* name;
  DType dtype;
};
constexpr FormatName kSafetensorsNames[] = {
    {"BOOL", DType::boolean}, {"U8", DType::uint8},      {"I8", DType::int8},
    {"I16", DType::int16},    {"I32", DType::int32},     {"I64", DType::int64},
    {"F16", DType::float16},  {"BF16", DType::bfloat16}, {"F32", DType::float32},
    {"F64", DType::float64},  {"C64", DType::complex64},
};

const char* safetensors_name(DType dtype) {
  for (const FormatName& f : kSafetensorsNames) {
    if (f.dtype == dtype) return f.name;
  }
  fail(ErrorKind::type, text("safetensors files cannot hold ", dtype));
}
DType safetensors_dtype(const std::string& name, const std::string& path,
                        const std::string& entry) {
  for (const FormatName& f : kSafetensorsNames) {
    if (name == f.name) return f.dtype;
  }
  fail(ErrorKind::runtime,
       text(path, ": tensor '", entry, "' has dtype ", name, ", which this build does not have"));
}

std::string_view content(const MappedFile& file) { return {file.data(), file.size()}; }

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.numel() * itemsize(t.dtype())); }

/// The tensor itself, or a row-major copy.
Tensor row_major(const Tensor& t) {
  if (t.is_contiguous()) return t;
  Tensor copy = empty_tensor(t.sizes(), t.dtype());
  char* out = copy.data();
  auto size = static_cast<size_t>(itemsize(t.dtype()));
  for_each_element(t, [&](const char* element) {
    std::memcpy(out, element, size);
    out += size;
  });
  return copy;
}

NamedTensors row_major(const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, t] : tensors) result.emplace_back(name, row_major(t));
  return result;
}

const void* memory(const Tensor& t) { return t.numel() ? t.data() : nullptr; }

Tensor tensor_from_npy(std::string_view file, const std::string& name) {
  NpyHeader header = parse_npy(file, name);
  DType dtype;
  try {
    dtype = parse_dtype(header.dtype);
  } catch (const Error&) {
    fail(ErrorKind::type, text(name, ": arrays of ", header.dtype, " are not supported"));
  }
  Tensor t = empty_tensor(Dims(header.shape), dtype);
  if (header.bytes) copy_npy_elements(header, file, t.data());
  return t;
}

NpyArray npy_array(const std::string& name, const Tensor& t) {
  return {name, std::string(flambeau::name(t.dtype())), t.sizes().vector(), memory(t), bytes_of(t)};
}

}  // namespace

NamedTensors load_safetensors(const std::string& path, Texts* metadata) {
  MappedFile file(path);
  SafetensorsHeader header = parse_safetensors(content(file), path);
  NamedTensors tensors;
  for (const auto& entry : header.entries) {
    Tensor t = empty_tensor(Dims(entry.shape), safetensors_dtype(entry.dtype, path, entry.name));
    check(bytes_of(t) == entry.bytes, ErrorKind::runtime, path, ": tensor '", entry.name,
          "' has a wrong number of bytes");
    if (entry.bytes) std::memcpy(t.data(), content(file).data() + entry.offset, entry.bytes);
    tensors.emplace_back(entry.name, t);
  }
  if (metadata) *metadata = header.metadata;
  return tensors;
}

void save_safetensors(const NamedTensors& tensors, const std::string& path, const Texts& metadata) {
  NamedTensors kept = row_major(tensors);
  std::vector<SafetensorsTensor> entries;
  for (const auto& [name, t] : kept)
    entries.push_back(
        {name, safetensors_name(t.dtype()), t.sizes().vector(), memory(t), bytes_of(t)});
  write_safetensors(path, entries, metadata);
}

Tensor load_npy(const std::string& path) {
  MappedFile file(path);
  return tensor_from_npy(content(file), path);
}

void save_npy(const Tensor& tensor, const std::string& path) {
  Tensor t = row_major(tensor);
  write_npy(path, npy_array("", t));
}

NamedTensors load_npz(const std::string& path) {
  NpzFile file(path);
  NamedTensors tensors;
  for (const std::string& name : file.names()) {
    std::unique_ptr<char[]> storage;
    tensors.emplace_back(name, tensor_from_npy(file.read(name, storage), path + ": " + name));
  }
  return tensors;
}

void save_npz(const NamedTensors& tensors, const std::string& path, bool compressed) {
  NamedTensors kept = row_major(tensors);
  std::vector<NpyArray> arrays;
  for (const auto& [name, t] : kept) arrays.push_back(npy_array(name, t));
  write_npz(path, arrays, compressed);
}

void save_png(const Tensor& image, const std::string& path) {
  Tensor t = row_major(image);
  check(t.dtype() == DType::uint8 &&
            (t.dim() == 2 || (t.dim() == 3 && (t.size(2) == 1 || t.size(2) == 3))),
        ErrorKind::value,
        "save_png(): expected a uint8 tensor of sizes [height, width] or [height, width, 1 or 3], "
        "got ",
        t.dtype(), " of sizes ", t.sizes());
  write_png(path, t.size(1), t.size(0), t.dim() == 3 ? t.size(2) : 1,
            reinterpret_cast<const uint8_t*>(t.data()));
}

}  // namespace flambeau::io
