// The target of this process: chosen at first use, replaced as a whole, so that readers need no lock
// (a fork may happen at any time).
#include <atomic>

#include "flambeau/base/error.h"
#include "flambeau/base/settings.h"
#include "flambeau/emit/code.h"

namespace flambeau::emit {
namespace {

std::atomic<const Target*> current{nullptr};

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

Target target() {
  const Target* known = current.load(std::memory_order_acquire);
  if (known == nullptr) {
    const Target chosen = default_target();
    check_target(chosen);
    const auto* made = new Target(chosen);
    if (current.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
      known = made;
    } else {
      delete made;
    }
  }
  return *known;
}

void set_target(const Target& target) {
  check_target(target);
  // The old one stays: another thread may be reading it.
  current.store(new Target(target), std::memory_order_release);
}

}  // namespace flambeau::emit
