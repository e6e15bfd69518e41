#include "flambeau/run/random.h"

namespace flambeau {

namespace {
Generator& process_generator() {
  static Generator generator;
  return generator;
}
thread_local Generator* current = nullptr;
}  // namespace

Generator& default_generator() { return current ? *current : process_generator(); }

RandomRange reserve_range(Generator& generator, uint64_t count) {
  std::lock_guard lock(generator.mutex);
  RandomRange range{generator.seed, generator.offset};
  generator.offset += count;
  return range;
}

void manual_seed(uint64_t seed) { manual_seed(process_generator(), seed); }

void manual_seed(Generator& generator, uint64_t seed) {
  std::lock_guard lock(generator.mutex);
  generator.seed = seed;
  generator.offset = 0;
}

GeneratorScope::GeneratorScope(Generator& generator) : outer_(current) { current = &generator; }
GeneratorScope::~GeneratorScope() { current = outer_; }

}  // namespace flambeau
