// Devices and the interface through which memory is had. Numbers are those of the field (c10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flambeau {

enum class DeviceType : int8_t { cpu = 0, cuda = 1, opencl = 5, hip = 6, mps = 13, meta = 14 };

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = -1;  // -1: the current one
  friend bool operator==(Device, Device) = default;
};

/// "cpu", "cuda:0"; throws a runtime Error naming what is allowed.
Device parse_device(std::string_view text);
std::string to_string(Device device);
inline void append(std::string& out, Device device) { out += to_string(device); }

struct MemoryStatistics {
  int64_t allocated_bytes = 0;       ///< in use now
  int64_t peak_allocated_bytes = 0;  ///< largest so far or since the last reset
  int64_t cached_bytes = 0;          ///< held for reuse
  int64_t allocations = 0;           ///< calls
  int64_t system_allocations = 0;    ///< calls that had to ask the system
};

/// Memory of one device type. The implementation is found through `allocator`.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// At least `bytes` bytes, 64-byte aligned, not initialised. Throws out_of_memory naming the
  /// size.
  virtual void* allocate(size_t bytes) = 0;
  /// `bytes` as given to allocate. From any thread.
  virtual void release(void* memory, size_t bytes) noexcept = 0;
  virtual MemoryStatistics statistics() const = 0;
  virtual void reset_peak() = 0;
  /// Gives cached memory back to the system.
  virtual void empty_cache() = 0;
  /// Allocations beyond `bytes` in use fail with out_of_memory; 0: no limit.
  virtual void set_limit(int64_t bytes) = 0;
};

/// The allocator of a device type; throws a runtime Error when this build has none.
Allocator& allocator(DeviceType type);
/// Called by a device folder when it is loaded.
void register_allocator(DeviceType type, Allocator* allocator);

}  // namespace flambeau
