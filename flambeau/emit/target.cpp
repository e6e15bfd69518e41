// The target of this process: chosen at first use, and one number, so that readers need no lock (a
// fork may happen at any time).
#include <atomic>

#include "flambeau/base/error.h"
#include "flambeau/base/settings.h"
#include "flambeau/emit/code.h"

namespace flambeau::emit {
namespace {

// 0 until it is chosen; else the vector bytes, plus kV4 for x86-64-v4.
std::atomic<int> current{0};
constexpr int kV4 = 1024;

int encode(const Target& target) {
  return target.vector_bytes + (target.features == "x86-64-v4" ? kV4 : 0);
}

bool cpu_has(const std::string& features) {
  __builtin_cpu_init();
  if (features == "x86-64-v4") return __builtin_cpu_supports("x86-64-v4");
  return __builtin_cpu_supports("x86-64-v3");
}

void check_target(const Target& target) {
  check(target.features == "x86-64-v3" || target.features == "x86-64-v4", ErrorKind::value,
        "target features must be x86-64-v3 or x86-64-v4; got '", target.features, "'");
  const int bytes = target.vector_bytes;
  check(bytes == 16 || bytes == 32 || bytes == 64, ErrorKind::value,
        "target vector bytes must be 16, 32 or 64; got ", bytes);
  check(cpu_has(target.features), ErrorKind::value, "this CPU lacks features of ", target.features);
}

Target default_target() {
  const std::string named = setting("FLAMBEAU_TARGET", "");
  Target target;
  if (named.empty()) {
    if (cpu_has("x86-64-v4")) target = {"x86-64-v4", 64};
    return target;
  }
  const size_t colon = named.find(':');
  target.features = named.substr(0, colon);
  if (target.features == "x86-64-v4") target.vector_bytes = 64;
  if (colon != std::string::npos) {
    const std::string bytes = named.substr(colon + 1);
    check(bytes == "16" || bytes == "32" || bytes == "64", ErrorKind::value,
          "FLAMBEAU_TARGET must be x86-64-v3 or x86-64-v4, optionally with :16, :32 or :64; got '",
          named, "'");
    target.vector_bytes = std::stoi(bytes);
  }
  return target;
}

}  // namespace

int target_number() {
  int known = current.load(std::memory_order_relaxed);
  if (known == 0) {
    const Target chosen = default_target();
    check_target(chosen);
    const int made = encode(chosen);
    // Unless another thread was first.
    if (current.compare_exchange_strong(known, made, std::memory_order_relaxed)) known = made;
  }
  return known;
}

Target target() {
  const int number = target_number();
  return {number >= kV4 ? "x86-64-v4" : "x86-64-v3", number % kV4};
}

void set_target(const Target& target) {
  check_target(target);
  current.store(encode(target), std::memory_order_relaxed);
}

}  // namespace flambeau::emit
