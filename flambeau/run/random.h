// State of random number generation. A random value is a function of (seed, offset, index); a call
// reserves its range of offsets in program order, also when it runs later or never.
#pragma once

#include <cstdint>
#include <mutex>

namespace flambeau {

struct Generator {
  uint64_t seed = 67280421310721u;
  uint64_t offset = 0;
  std::mutex mutex;  // guards both
};

/// The generator that calls of this thread draw from: the process's, unless a GeneratorScope is
/// open.
Generator& default_generator();

/// A seed and the first of the offsets reserved under it.
struct RandomRange {
  uint64_t seed;
  uint64_t offset;
};
/// Takes `count` offsets, to be used by nobody else. Thread-safe.
RandomRange reserve_range(Generator& generator, uint64_t count);
inline uint64_t reserve(Generator& generator, uint64_t count) {
  return reserve_range(generator, count).offset;
}

/// Seeds the process's generator and starts its offsets at 0.
void manual_seed(uint64_t seed);
void manual_seed(Generator& generator, uint64_t seed);

/// Calls of this thread draw from `generator` while it lives.
class GeneratorScope {
 public:
  explicit GeneratorScope(Generator& generator);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;

 private:
  Generator* outer_;
};

}  // namespace flambeau
