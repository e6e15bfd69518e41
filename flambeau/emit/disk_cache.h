// Machine code kept between processes: one file a module, in a folder that any number of processes
// share. A file holds its whole key, so a hash that collides, a cut-off or a foreign file is a miss
// and never wrong code.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flambeau::emit {

class DiskCache {
 public:
  /// An empty folder name keeps nothing. `max_bytes` bounds the files of the folder, give or take
  /// what is written between two looks at it (a 64th of the bound by one process).
  DiskCache(std::string folder, int64_t max_bytes);
  /// The folder and bound of the settings FLAMBEAU_CACHE_DIR and FLAMBEAU_CACHE_BYTES.
  static DiskCache& of_process();

  /// The object stored under the key, and marks it as used now.
  std::optional<std::string> find(std::string_view key) const;
  /// Keeps the object if the folder can be written to; otherwise does nothing.
  void store(std::string_view key, std::string_view object);
  /// Where the key's file is or would be.
  std::string path(std::string_view key) const;

 private:
  void evict() const;

  std::string folder_;
  int64_t max_bytes_;
  std::atomic<int64_t> written_{0};  // since the last look at the folder
};

}  // namespace flambeau::emit
