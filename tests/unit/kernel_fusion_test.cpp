// What is written as a composition runs as one launch forward and at most two backward.
#include <gtest/gtest.h>

#include "flambeau/autograd/autograd.h"
#include "flambeau/run/executable.h"
#include "ops_samples.h"

namespace flambeau {
namespace {

struct Launches {
  int64_t forward, backward;
};

Launches launches_of(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                     const std::vector<Tensor>& operands) {
  for (const Tensor& t : operands) {
    if (is_inexact(t.dtype())) autograd::set_requires_grad(t, true);
  }
  int64_t start = run::launch_count();
  Tensor y = f(operands);
  int64_t middle = run::launch_count();
  Tensor seed = samples::random_tensor(y.sizes());
  int64_t before = run::launch_count();
  autograd::backward({y}, {seed}, false, false);
  return {middle - start, run::launch_count() - before};
}

void expect_fused(const char* name, const std::function<Tensor(const std::vector<Tensor>&)>& f,
                  const std::vector<Tensor>& operands) {
  Launches n = launches_of(f, operands);
  EXPECT_EQ(n.forward, 1) << name;
  EXPECT_LE(n.backward, 2) << name;
}

TEST(Fusion, CompositionsAreOneLaunch) {
  for (const auto& s : samples::all()) {
    for (const char* name : {"softmax", "log_softmax", "layer_norm", "gelu", "var"}) {
      if (s.name != name) continue;
      std::vector<Tensor> operands;
      for (const Dims& sizes : s.sizes) operands.push_back(samples::random_tensor(sizes));
      expect_fused(name, s.run, operands);
    }
  }
}

TEST(Fusion, CrossEntropyIsOneLaunch) {
  Tensor target = empty_tensor({6}, DType::int64);
  for (int64_t i = 0; i < 6; ++i) target.data_as<int64_t>()[i] = i % 5;
  expect_fused("cross_entropy",
               [&](const std::vector<Tensor>& x) {
                 return std::get<Tensor>(
                     samples::call_named("nn.functional.cross_entropy", "", {x[0], target}));
               },
               {samples::random_tensor({6, 5})});
}

TEST(Fusion, LinearTakesItsBiasAsEpilogue) {
  for (const auto& s : samples::all()) {
    if (s.name != "linear") continue;
    std::vector<Tensor> operands;
    for (const Dims& sizes : s.sizes) operands.push_back(samples::random_tensor(sizes));
    int64_t start = run::launch_count();
    s.run(operands);
    EXPECT_EQ(run::launch_count() - start, 1);
  }
}

}  // namespace
}  // namespace flambeau
