#include "flambeau/device/cpu/system_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "flambeau/base/files.h"

namespace flambeau::cpu {

namespace {

constexpr size_t kPage = 4096;

// The number that follows `name` and blanks.
std::optional<size_t> number_after(std::string_view content, std::string_view name) {
  size_t at = content.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  content.remove_prefix(at + name.size());
  content.remove_prefix(std::min(content.find_first_not_of(" \t"), content.size()));
  size_t value = 0;
  auto [end, code] = std::from_chars(content.data(), content.data() + content.size(), value);
  if (code != std::errc()) return std::nullopt;
  return value;
}

std::optional<size_t> number_in(const std::string& path) {
  auto content = try_read_file(path);
  return content ? number_after(*content, "") : std::nullopt;
}

// What the control group of a container still allows. Its cached file pages can be given up.
size_t available_in_group() {
  auto limit = number_in("/sys/fs/cgroup/memory.max");  // "max" is no number: no limit
  auto used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return std::numeric_limits<size_t>::max();
  auto statistics = try_read_file("/sys/fs/cgroup/memory.stat");
  size_t cached = statistics ? number_after(*statistics, "inactive_file").value_or(0) : 0;
  size_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

}  // namespace

void* map_memory(size_t bytes, size_t alignment) noexcept {
  bool huge = bytes >= kHugePage;
  alignment = std::max(alignment, huge ? kHugePage : kPage);
  bytes = (bytes + kPage - 1) / kPage * kPage;
  size_t whole = alignment > kPage ? bytes + alignment : bytes;
  void* got = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(got);
  size_t before = (alignment - reinterpret_cast<uintptr_t>(begin) % alignment) % alignment;
  size_t after = whole - before - bytes;
  if (before > 0) ::munmap(begin, before);
  if (after > 0) ::munmap(begin + before + bytes, after);
  if (huge) ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // a wish: refusal does no harm
  return begin + before;
}

void unmap_memory(void* memory, size_t bytes) noexcept {
  ::munmap(memory, (bytes + kPage - 1) / kPage * kPage);
}

size_t available_memory() {
  size_t available = std::numeric_limits<size_t>::max();
  if (auto content = try_read_file("/proc/meminfo")) {
    auto kilobytes = number_after(*content, "MemAvailable:");
    if (kilobytes) {
      available = (*kilobytes + number_after(*content, "SwapFree:").value_or(0)) * 1024;
    }
  }
  return std::min(available, available_in_group());
}

}  // namespace flambeau::cpu
