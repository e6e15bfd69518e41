// NumPy's files: .npy (one array) and .npz (arrays by name in a zip archive). Files are untrusted:
// headers are parsed, never evaluated, and what is wrong is a runtime Error naming file and entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flambeau/base/files.h"
#include "flambeau/io/zip.h"

namespace flambeau::io {

/// What a .npy header says.
struct NpyHeader {
  std::string dtype;  ///< "bool", "int8" to "int64", "uint8" to "uint64", "float16" to "float64",
                      ///< "complex64", "complex128"
  std::vector<int64_t> shape;
  bool fortran_order = false;  ///< the first dim is the fastest
  bool big_endian = false;
  size_t item_bytes = 0;
  size_t offset = 0;  ///< of the elements, from the start of the file
  size_t bytes = 0;   ///< of the elements
};

/// Reads the header of a whole .npy file (versions 1.0 to 3.0) and checks that its elements are
/// there; `name` is for messages. Bytes after the elements are ignored, as NumPy does.
NpyHeader parse_npy(std::string_view file, const std::string& name);

/// Copies the elements to `out` (header.bytes bytes) in row-major order and this machine's byte
/// order.
void copy_npy_elements(const NpyHeader& header, std::string_view file, void* out);

/// An array to write: contiguous, row-major. dtype is a name of NpyHeader.
struct NpyArray {
  std::string name;  ///< for .npz
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
};

/// Replace the file in one step. Throw a value Error for a dtype that the format lacks, and a
/// runtime Error when the file cannot be written.
void write_npy(const std::string& path, const NpyArray& array);
void write_npz(const std::string& path, const std::vector<NpyArray>& arrays, bool compressed);

/// A .npz file to read.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path);
  /// The arrays' names, without ".npy", in the order of the archive.
  const std::vector<std::string>& names() const { return names_; }
  /// The .npy file of one array; `storage` holds it when it had to be decompressed. Throws an index
  /// Error for an unknown name.
  std::string_view read(const std::string& name, std::unique_ptr<char[]>& storage) const;

 private:
  std::string path_;
  MappedFile file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::string> names_;
};

}  // namespace flambeau::io
