// Zip archives, as far as .npz files need them: members stored or deflated, sizes beyond 4 GiB
// (zip64), checksums. Files are untrusted: what is wrong is a runtime Error naming file and member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace flambeau::io {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t checksum = 0;
  size_t offset = 0;  ///< of the member's bytes, from the start of the file
  size_t compressed_bytes = 0;
  size_t bytes = 0;
};

/// The members of a whole archive in its order. Members that overlap, share a name, claim more than
/// deflate can hold, are encrypted or use another method are errors.
std::vector<ZipEntry> parse_zip(std::string_view file, const std::string& path);

/// A member's content, checked against its checksum: a part of the file where it is stored, else
/// decompressed to `storage`.
std::string_view read_zip_entry(std::string_view file, const ZipEntry& entry,
                                const std::string& path, std::unique_ptr<char[]>& storage);

/// Collects members and writes the archive in one step. Content is not copied unless it is
/// compressed: it must live until `write`.
class ZipWriter {
 public:
  explicit ZipWriter(bool compressed) : compressed_(compressed) {}
  /// `head` and `body` together are the content.
  void add(const std::string& name, std::string head, std::string_view body);
  void write(const std::string& path);

 private:
  struct Part {
    std::string owned;
    std::string_view borrowed;
  };
  void add_part(std::string owned, std::string_view borrowed);

  bool compressed_;
  std::vector<Part> parts_;
  std::string directory_;
  uint64_t offset_ = 0;
  uint64_t members_ = 0;
};

}  // namespace flambeau::io
