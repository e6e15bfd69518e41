#include "flambeau/tensor/device.h"

#include <array>
#include <atomic>
#include <charconv>
#include <limits>

#include "flambeau/base/error.h"

namespace flambeau {

namespace {

struct TypeName {
  DeviceType type;
  std::string_view name;
};

constexpr std::array<TypeName, 6> kTypeNames = {{{DeviceType::cpu, "cpu"},
                                                 {DeviceType::cuda, "cuda"},
                                                 {DeviceType::opencl, "opencl"},
                                                 {DeviceType::hip, "hip"},
                                                 {DeviceType::mps, "mps"},
                                                 {DeviceType::meta, "meta"}}};

// Constant-initialised, so that static objects of other files may register in any order.
constinit std::array<std::atomic<Allocator*>, 32> allocators{};

std::string_view name_of(DeviceType type) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.type == type) return entry.name;
  }
  fail(ErrorKind::internal,
       text("internal error: no device type has number ", static_cast<int>(type)));
}

std::atomic<Allocator*>& allocator_slot(DeviceType type) {
  size_t number = static_cast<size_t>(type);
  internal_check(number < allocators.size(), "no device type has number ", number);
  return allocators[number];
}

template <class Accept>
std::string names_where(Accept accept) {
  std::string names;
  for (const TypeName& entry : kTypeNames) {
    if (!accept(entry.type)) continue;
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

DeviceType parse_type(std::string_view name, std::string_view whole) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.name == name) return entry.type;
  }
  fail(ErrorKind::runtime, text("Expected one of ", names_where([](DeviceType) { return true; }),
                                " device type at start of device string: ", whole));
}

}  // namespace

Device parse_device(std::string_view whole) {
  check(!whole.empty(), ErrorKind::runtime, "Device string must not be empty");
  size_t colon = whole.find(':');
  Device device{parse_type(whole.substr(0, colon), whole), -1};
  if (colon == std::string_view::npos) return device;
  std::string_view digits = whole.substr(colon + 1);
  int index = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  bool valid = code == std::errc() && end == digits.data() + digits.size() && index >= 0 &&
               digits[0] != '-' && (digits[0] != '0' || digits.size() == 1) &&
               index <= std::numeric_limits<int8_t>::max();
  check(valid, ErrorKind::runtime, "Invalid device string: '", whole,
        "'; expected a device type, or one followed by ':' and an index from 0 to 127, such as "
        "'cuda:0'");
  device.index = static_cast<int8_t>(index);
  return device;
}

std::string to_string(Device device) {
  std::string name(name_of(device.type));
  return device.index < 0 ? name : text(name, ":", device.index);
}

Allocator& allocator(DeviceType type) {
  Allocator* found = allocator_slot(type).load(std::memory_order_acquire);
  if (found == nullptr) [[unlikely]] {
    std::string present = names_where([](DeviceType other) {
      return allocator_slot(other).load(std::memory_order_acquire) != nullptr;
    });
    fail(ErrorKind::runtime,
         text("no memory on device type ", name_of(type), ": this build has memory on ",
              present.empty() ? "none" : present));
  }
  return *found;
}

void register_allocator(DeviceType type, Allocator* allocator) {
  allocator_slot(type).store(allocator, std::memory_order_release);
}

}  // namespace flambeau
