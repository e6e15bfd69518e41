// Files: whole reads, atomic writes, read-only maps. Errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flambeau {

/// The whole file; throws a runtime Error.
std::string read_file(const std::string& path);
/// Nothing when the file is missing or unreadable.
std::optional<std::string> try_read_file(const std::string& path);
/// Writes a temporary file beside `path` and renames it, so that readers see the old or the new
/// content. Throws a runtime Error; nothing is left behind.
void write_file_atomically(const std::string& path, std::string_view content);
/// The same for content in parts, which follow each other in the file.
void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts);
/// Makes the folder and its parents; false when that is not possible.
bool make_folders(const std::string& path);

/// A file mapped read-only and privately (writes to the memory do not reach the file).
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace flambeau
