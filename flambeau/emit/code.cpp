// Compilation through the memory cache.
#include "flambeau/emit/code.h"

#include <chrono>
#include <mutex>
#include <unordered_map>

#include "flambeau/base/error.h"
#include "flambeau/emit/llvm/codegen.h"
#include "flambeau/emit/object.h"

namespace flambeau::emit {
namespace {
std::mutex mutex;
Target current;
CacheStatistics statistics;
std::unordered_map<std::string, std::shared_ptr<const Code>> cache;
}  // namespace

Target target() {
  std::lock_guard lock(mutex);
  return current;
}
void set_target(const Target& target) {
  std::lock_guard lock(mutex);
  current = target;
}
CacheStatistics cache_statistics() {
  std::lock_guard lock(mutex);
  return statistics;
}

std::shared_ptr<const Code> compile(const loop::Module& module) {
  std::lock_guard lock(mutex);
  std::string key = text(current.features, ":", current.vector_bytes, "\n", loop::print(module));
  if (auto found = cache.find(key); found != cache.end()) {
    ++statistics.memory_hits;
    return found->second;
  }
  loop::verify(module);
  const auto start = std::chrono::steady_clock::now();
  auto code = load_object(compile_object(module, current), module);
  ++statistics.compiled;
  statistics.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cache[key] = code;
  return code;
}

}  // namespace flambeau::emit
