// Memory of tensors. Views share a storage and with it one version number, which every write
// raises.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "flambeau/tensor/device.h"

namespace flambeau {

/// Work that has been recorded but not run. A storage that waits for it is flushed when its memory
/// is asked for.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Runs everything recorded so far, or waits until the thread that does has finished.
  virtual void flush() = 0;
};

class Storage {
 public:
  /// Uninitialised memory of a device; throws out_of_memory.
  Storage(size_t bytes, Device device);
  /// Memory owned by somebody else; `release` is called once, when the last tensor over it dies.
  Storage(void* memory, size_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// The memory, with nothing pending.
  char* data() {
    if (pending_.load(std::memory_order_acquire)) [[unlikely]]
      flush();
    return data_;
  }
  char* unflushed_data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void raise_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  /// Set once memory was handed out (NumPy, DLPack, data_ptr): writes are then never deferred.
  bool exported() const { return exported_.load(std::memory_order_relaxed); }
  void set_exported() { exported_.store(true, std::memory_order_relaxed); }

  std::shared_ptr<Pending> pending() const;
  void set_pending(std::shared_ptr<Pending> pending);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  int64_t references() const { return references_.load(std::memory_order_relaxed); }

 private:
  void flush();

  char* data_;
  size_t bytes_;
  Device device_;
  std::atomic<uint32_t> version_{0};
  std::atomic<bool> exported_{false};
  std::atomic<int64_t> references_{0};
  std::atomic<Pending*> pending_{nullptr};
  std::shared_ptr<Pending> pending_owner_;
  std::function<void()> release_;
};

}  // namespace flambeau
