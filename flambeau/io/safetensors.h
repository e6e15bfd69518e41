// The safetensors format: eight bytes of header length, a JSON header, then the tensors' bytes
// without holes or overlaps. Files are untrusted: whatever is wrong with one is a runtime Error
// that names file and entry, and nothing outside the file's bytes is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flambeau::io {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< the format's name: "F32", "BF16", "I64", "BOOL", ...
  std::vector<int64_t> shape;
  size_t offset = 0;  ///< from the start of the file
  size_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of the header
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Reads and checks the header of a whole file; `path` is for messages.
SafetensorsHeader parse_safetensors(std::string_view file, const std::string& path);

/// Bytes of one element; throws a value Error listing the known names.
size_t safetensors_item_bytes(std::string_view dtype);

/// A tensor to write: contiguous little-endian elements.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
};

/// Replaces the file in one step. The order in the file is by element size, largest first, so that
/// each tensor is aligned to its elements, then by name. Throws a value Error for what does not fit
/// together and a runtime Error when the file cannot be written.
void write_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace flambeau::io
