// Compilation through two caches. The key is the text form of the module with what else decides its
// code: the emitter's version and the target. The memory cache keeps the most recently used
// modules; a module that is being compiled is in it too, so that other threads wait for that one
// and no other.
#include "flambeau/emit/code.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>

#include "flambeau/base/error.h"
#include "flambeau/base/settings.h"
#include "flambeau/emit/disk_cache.h"
#include "flambeau/emit/llvm/codegen.h"
#include "flambeau/emit/object.h"

namespace flambeau::emit {
namespace {

// Raised whenever the same loop IR becomes other machine code or calls other functions.
constexpr int kEmitterVersion = 2;

struct Slot {
  std::shared_ptr<const Code> code;  // null while it is being made
  std::list<const std::string*>::iterator place;
};

// Lives for ever: threads may compile while the process exits.
struct Cache {
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<std::string, Slot> slots;
  std::list<const std::string*> recent;  // keys of finished slots, last used first
  int64_t capacity = 4096;
  int compiling = 0;
  bool forking = false;
  CacheStatistics statistics;
};

// A fork waits until nothing is being compiled (LLVM has locks of its own) and holds the mutex, so
// that the child finds the cache whole. Waiters of the parent do not exist in the child; a
// condition variable that remembers them would wait for them.
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

Cache& cache() {
  static Cache* made = [] {
    auto* fresh = new Cache;
    fresh->capacity = setting_integer("FLAMBEAU_CODE_CACHE_MODULES", fresh->capacity);
    check(fresh->capacity >= 1, ErrorKind::value,
          "FLAMBEAU_CODE_CACHE_MODULES must be at least 1; got ", fresh->capacity);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return fresh;
  }();
  return *made;
}

void before_fork() {
  Cache& c = cache();
  std::unique_lock lock(c.mutex);
  c.forking = true;
  c.changed.wait(lock, [&] { return c.compiling == 0; });
  lock.release();
}

void after_fork_in_parent() {
  Cache& c = cache();
  c.forking = false;
  c.mutex.unlock();
  c.changed.notify_all();
}

void after_fork_in_child() {
  Cache& c = cache();
  new (&c.changed) std::condition_variable;
  c.forking = false;
  c.mutex.unlock();
}

void dump(const loop::Module& module, const Target& target) {
  auto show = [](const char* kind, auto&& make) {
    if (!dump_enabled(kind)) return;
    const std::string form = make();
    std::fwrite(form.data(), 1, form.size(), stderr);
  };
  show("loop", [&] { return loop::print(module); });
  show("llvm", [&] { return print_llvm(module, target); });
  show("asm", [&] { return compile_assembly(module, target); });
  show("source", [&] { return print_source(module); });
}

std::shared_ptr<const Code> load_from_disk(const std::string& key, const loop::Module& module) {
  const std::optional<std::string> object = DiskCache::of_process().find(key);
  if (!object) return nullptr;
  try {
    return load_object(*object, module);
  } catch (const Error& error) {
    // A whole file with an object that does not link is as good as no file.
    if (error.kind() != ErrorKind::internal) throw;
    return nullptr;
  }
}

// Called without the lock; says through `from_disk` where the code came from.
std::shared_ptr<const Code> make(const std::string& key, const loop::Module& module,
                                 const Target& target, bool* from_disk) {
  std::shared_ptr<const Code> code = load_from_disk(key, module);
  *from_disk = code != nullptr;
  if (code == nullptr) loop::verify(module);
  dump(module, target);
  if (code != nullptr) return code;
  const std::string object = compile_object(module, target);
  code = load_object(object, module);
  DiskCache::of_process().store(key, object);
  return code;
}

}  // namespace

std::shared_ptr<const Code> compile(const loop::Module& module) {
  const Target now = target();
  std::string key =
      text("emitter ", kEmitterVersion, "\ntarget ", now.features, ":", now.vector_bytes, "\n");
  key += loop::print(module);

  Cache& c = cache();
  std::unique_lock lock(c.mutex);
  while (true) {
    const auto found = c.slots.find(key);
    if (found == c.slots.end()) {
      if (!c.forking) break;
    } else if (found->second.code != nullptr) {
      ++c.statistics.memory_hits;
      c.recent.splice(c.recent.begin(), c.recent, found->second.place);
      return found->second.code;
    }
    c.changed.wait(lock);
  }
  c.slots.try_emplace(key);
  ++c.compiling;
  lock.unlock();

  std::shared_ptr<const Code> code;
  bool from_disk = false;
  const auto start = std::chrono::steady_clock::now();
  try {
    code = make(key, module, now, &from_disk);
  } catch (...) {
    // Whoever waits for this module finds no slot and meets the error by itself.
    lock.lock();
    c.slots.erase(key);
    --c.compiling;
    c.changed.notify_all();
    throw;
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;

  lock.lock();
  if (from_disk) {
    ++c.statistics.disk_hits;
  } else {
    ++c.statistics.compiled;
    c.statistics.seconds += spent.count();
  }
  const auto slot = c.slots.find(key);
  slot->second.code = code;
  c.recent.push_front(&slot->first);
  slot->second.place = c.recent.begin();
  // The code that goes is unmapped after the lock is released, if nobody uses it.
  std::vector<std::shared_ptr<const Code>> gone;
  while (static_cast<int64_t>(c.recent.size()) > c.capacity) {
    const auto oldest = c.slots.find(*c.recent.back());
    c.recent.pop_back();
    gone.push_back(std::move(oldest->second.code));
    c.slots.erase(oldest);
  }
  --c.compiling;
  c.changed.notify_all();
  lock.unlock();
  return code;
}

CacheStatistics cache_statistics() {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  return c.statistics;
}

}  // namespace flambeau::emit
