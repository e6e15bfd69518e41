#include "flambeau/emit/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/base/hash.h"
#include "flambeau/base/settings.h"

namespace flambeau::emit {
namespace {

constexpr char kMagic[8] = {'F', 'L', 'A', 'M', 'C', 'O', 'D', '1'};
constexpr const char* kSuffix = ".code";
constexpr int64_t kDefaultBytes = 256 << 20;

// Followed by the key and the object.
struct Header {
  char magic[8];
  uint64_t key_size;
  uint64_t object_size;
  uint64_t checksum;  // of key and object
};

uint64_t checksum(std::string_view key, std::string_view object) {
  return hash_text(object, hash_text(key));
}

std::string default_folder() {
  const std::string cache = setting("XDG_CACHE_HOME", "");
  if (!cache.empty()) return cache + "/flambeau";
  const std::string home = setting("HOME", "");
  return home.empty() ? "" : home + "/.cache/flambeau";
}

}  // namespace

DiskCache::DiskCache(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {}

DiskCache& DiskCache::of_process() {
  static auto* cache = [] {
    const std::string named = setting("FLAMBEAU_CACHE_DIR", "");
    return new DiskCache(named == "off"  ? ""
                         : named.empty() ? default_folder()
                                         : named,
                         setting_integer("FLAMBEAU_CACHE_BYTES", kDefaultBytes));
  }();
  return *cache;
}

std::string DiskCache::path(std::string_view key) const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (uint64_t seed : {0, 1}) {
    const uint64_t hash = hash_text(key, seed);
    for (int shift = 60; shift >= 0; shift -= 4) name.push_back(kDigits[(hash >> shift) & 15]);
  }
  return folder_ + "/" + name + kSuffix;
}

std::optional<std::string> DiskCache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string file = path(key);
  std::optional<std::string> content = try_read_file(file);
  Header header;
  if (!content || content->size() < sizeof header) return std::nullopt;
  std::memcpy(&header, content->data(), sizeof header);
  const std::string_view rest = std::string_view(*content).substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_size != key.size() ||
      rest.size() < key.size() || header.object_size != rest.size() - key.size() ||
      rest.substr(0, key.size()) != key) {
    return std::nullopt;
  }
  const std::string_view object = rest.substr(key.size());
  if (header.checksum != checksum(key, object)) return std::nullopt;
  // What was used last is removed last. A folder that is read-only needs no such order.
  utimensat(AT_FDCWD, file.c_str(), nullptr, 0);
  return std::string(object);
}

void DiskCache::store(std::string_view key, std::string_view object) {
  if (folder_.empty() || !make_folders(folder_)) return;
  Header header{{}, key.size(), object.size(), checksum(key, object)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content.append(key).append(object);
  try {
    write_file_atomically(path(key), content);
  } catch (const Error&) {
    return;  // a folder that cannot be written to, or a full disk: the code runs all the same
  }
  // Looking at the folder takes milliseconds when it is full, so this process looks once in a
  // while, and many short processes together look about once in 64 files.
  const auto size = static_cast<int64_t>(content.size());
  const bool due = written_.fetch_add(size) + size > max_bytes_ / 64;
  if (due || hash_text(key) % 64 == 0) {
    written_ = 0;
    evict();
  }
}

void DiskCache::evict() const {
  namespace fs = std::filesystem;
  struct File {
    fs::file_time_type used;
    int64_t size;
    fs::path path;
  };
  std::vector<File> files;
  int64_t total = 0;
  const auto abandoned = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;  // another process may remove files at the same time
    const fs::path& path = at->path();
    const auto size = static_cast<int64_t>(at->file_size(ignored));
    if (ignored) continue;
    const fs::file_time_type used = at->last_write_time(ignored);
    if (ignored) continue;
    if (path.extension() == ".tmp" && path.filename().string().find(kSuffix) != std::string::npos) {
      // Left by a process that was killed while it wrote.
      if (used < abandoned) fs::remove(path, ignored);
    } else if (path.extension() == kSuffix) {
      files.push_back({used, size, path});
      total += size;
    }
  }
  if (total <= max_bytes_) return;
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  // Some room, so that the next store finds it.
  const int64_t wanted = max_bytes_ - max_bytes_ / 8;
  for (const File& file : files) {
    if (total <= wanted) break;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    total -= file.size;
  }
}

}  // namespace flambeau::emit
