// The backward pass: order, sums, hooks, errors, depth, threads.
#include <gtest/gtest.h>

#include <thread>

#include "traced_operators.h"

namespace flambeau {
namespace {

using namespace traced;
using autograd::Edge;
using autograd::NodePointer;
using V = std::vector<float>;

/// A call with `count` operands and one result that notes when its backward runs.
class NotingNode : public autograd::Node {
 public:
  NotingNode(std::string name, std::vector<Edge> edges, std::vector<std::string>* log)
      : name_(std::move(name)), log_(log) {
    edges_ = std::move(edges);
    ++alive;
  }
  ~NotingNode() override { --alive; }
  std::string name() const override { return name_; }
  int32_t result_count() const override { return 1; }
  std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool) override {
    if (log_) log_->push_back(name_);
    return std::vector<Tensor>(edges_.size(), cotangents[0]);
  }
  void release() override {}
  void visit_saved(const std::function<void(const Tensor&)>&) const override {}
  static inline std::atomic<int64_t> alive{0};

 private:
  std::string name_;
  std::vector<std::string>* log_;
};

Tensor noted(const char* name, const std::vector<Tensor>& operands, std::vector<std::string>* log) {
  std::vector<Edge> edges;
  for (const auto& t : operands) edges.push_back(autograd::gradient_edge(t));
  Tensor result = autograd::detach(operands[0]);
  autograd::set_history(result, std::make_shared<NotingNode>(name, std::move(edges), log), 0);
  return result;
}

TEST(AutogradEngine, LeafAndHistory) {
  Tensor x = leaf({1, 2, 3});
  EXPECT_TRUE(autograd::is_leaf(x));
  EXPECT_EQ(autograd::grad_fn(x), nullptr);
  Tensor y = mul(x, tensor({4, 5, 6}));
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(autograd::is_leaf(y));
  EXPECT_EQ(autograd::grad_fn(y)->name(), "MulBackward0");
  EXPECT_EQ(autograd::output_number(y), 0);
  EXPECT_EQ(autograd::grad_fn(y)->next_edges().at(0).node->name(), "AccumulateGrad");
  EXPECT_FALSE(mul(tensor({1}), tensor({2})).impl()->gradient);
  autograd::backward({sum(y)}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{4, 5, 6}));
  EXPECT_FALSE(autograd::grad(y).defined());
}

TEST(AutogradEngine, GradientsAddUpInPlace) {
  Tensor x = leaf({1, 2});
  autograd::backward({sum(mul(x, x))}, {}, false, false);
  Tensor first = autograd::grad(x);
  EXPECT_EQ(values(first), (V{2, 4}));
  autograd::backward({sum(mul(x, x))}, {}, false, false);
  EXPECT_TRUE(autograd::grad(x).same(first));
  EXPECT_EQ(values(first), (V{4, 8}));
  EXPECT_EQ(first.storage().version(), 1u);
}

TEST(AutogradEngine, AGivenCotangentIsNotTakenOver) {
  Tensor x = leaf({1, 2}), g = tensor({3, 4});
  autograd::backward({x}, {g}, false, false);
  EXPECT_FALSE(&autograd::grad(x).storage() == &g.storage());
  EXPECT_EQ(values(autograd::grad(x)), (V{3, 4}));
  // One cotangent for two leaves: neither gradient is the other's memory.
  Tensor a = leaf({1, 1}), b = leaf({1, 1});
  autograd::backward({add(a, b)}, {g}, false, false);
  EXPECT_FALSE(&autograd::grad(a).storage() == &autograd::grad(b).storage());
}

TEST(AutogradEngine, DescendingOrder) {
  std::vector<std::string> log;
  Tensor x = leaf({1});
  Tensor a = noted("a", {x}, &log);
  Tensor b = noted("b", {a}, &log);
  Tensor c = noted("c", {a}, &log);
  Tensor d = noted("d", {b, c, x}, &log);
  autograd::backward({d}, {}, true, false);
  EXPECT_EQ(log, (std::vector<std::string>{"d", "c", "b", "a"}));
  EXPECT_EQ(values(autograd::grad(x)), V{3});
}

TEST(AutogradEngine, OnlyWhatIsAskedForRuns) {
  std::vector<std::string> log;
  Tensor x = leaf({1}), y = leaf({1});
  Tensor a = noted("a", {x}, &log), b = noted("b", {y}, &log);
  Tensor c = noted("c", {a, b}, &log);
  auto g = autograd::gradients({c}, {y}, {}, true, false, false);
  EXPECT_EQ(log, (std::vector<std::string>{"c", "b"}));
  EXPECT_EQ(values(g[0]), V{1});
  EXPECT_FALSE(autograd::grad(y).defined());
  // A result in the middle: what lies below it does not run.
  log.clear();
  EXPECT_EQ(values(autograd::gradients({c}, {a}, {}, true, false, false)[0]), V{1});
  EXPECT_EQ(log, (std::vector<std::string>{"c"}));
  // Of the output itself.
  EXPECT_EQ(values(autograd::gradients({c}, {c}, {}, true, false, false)[0]), V{1});
  log.clear();
  autograd::backward({c}, {}, true, false, {x, b});
  EXPECT_EQ(log, (std::vector<std::string>{"c", "a"}));
  EXPECT_EQ(values(autograd::grad(x)), V{1});
  EXPECT_EQ(values(autograd::grad(b)), V{1});
  EXPECT_FALSE(autograd::grad(y).defined());
}

TEST(AutogradEngine, SeveralOutputs) {
  Tensor x = leaf({2});
  Tensor y = mul(x, x), z = mul(y, x);
  auto g = autograd::gradients({y, z}, {x, y}, {tensor({10}), Tensor()}, false, false, false);
  EXPECT_EQ(values(g[0]), V{52});
  EXPECT_EQ(values(g[1]), V{12});
}

TEST(AutogradEngine, Errors) {
  Tensor x = leaf({1, 2}), unused = leaf({1});
  Tensor y = mul(x, x);
  auto error = [](auto f) { return error_of(f); };
  EXPECT_EQ(error([&] { autograd::backward({y}, {}, false, false); }),
            "grad can be implicitly created only for scalar outputs");
  EXPECT_EQ(error([&] { autograd::backward({sum(y), tensor({1})}, {}, false, false); }),
            "element 1 of tensors does not require grad and does not have a grad_fn");
  EXPECT_EQ(error([&] { autograd::backward({y}, {tensor({1, 2, 3})}, false, false); }),
            "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a "
            "shape of "
            "torch.Size([2]).");
  EXPECT_EQ(error([&] { autograd::gradients({sum(y)}, {unused}, {}, true, false, false); }),
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if "
            "this is the desired behavior.");
  EXPECT_FALSE(autograd::gradients({sum(y)}, {unused}, {}, true, false, true)[0].defined());
  EXPECT_EQ(error([&] { autograd::gradients({sum(y)}, {tensor({1})}, {}, true, false, false); }),
            "One of the differentiated Tensors does not require grad");
  autograd::backward({sum(y)}, {}, false, false);
  EXPECT_EQ(error([&] { autograd::backward({sum(y)}, {}, false, false); })
                .find("Trying to backward through the graph a second time (or directly access "
                      "saved tensors"),
            0u);
  EXPECT_EQ(error([&] { autograd::set_requires_grad(mul(x, x), false); }),
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a "
            "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  EXPECT_NE(error([&] { autograd::set_requires_grad(empty_tensor({1}, DType::int64), true); }), "");
  EXPECT_EQ(error([&] { autograd::retain_grad(tensor({1})); }),
            "can't retain_grad on Tensor that has requires_grad=False");
  EXPECT_EQ(error([&] { autograd::add_hook(tensor({1}), nullptr); }),
            "cannot register a hook on a tensor that doesn't require gradient");
  EXPECT_EQ(error([&] { autograd::add_post_accumulate_hook(y, nullptr); }),
            "post accumulate grad hooks cannot be registered on non-leaf tensors");
  EXPECT_EQ(error([&] { autograd::set_grad(x, x); }), "can't assign Variable as its own grad");
  EXPECT_EQ(error([&] { autograd::set_grad(x, tensor({1})); }),
            "attempting to assign a gradient of size '[1]' to a tensor of size '[2]'. Please "
            "ensure that the gradient "
            "and the tensor are the same size");
}

TEST(AutogradEngine, ANodeThatSavedNothingRunsTwice) {
  Tensor x = leaf({1, 2});
  Tensor y = add(x, x);
  autograd::backward({y}, {tensor({1, 1})}, false, false);
  autograd::backward({y}, {tensor({1, 1})}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{4, 4}));
}

TEST(AutogradEngine, RetainedGraphRunsAgain) {
  Tensor x = leaf({3});
  Tensor y = mul(x, x);
  autograd::backward({y}, {}, true, false);
  autograd::backward({y}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), V{12});
}

TEST(AutogradEngine, HooksRunBeforeTheGradientIsPassedOn) {
  Tensor x = leaf({1, 2});
  Tensor y = mul(x, tensor({10, 10}));
  std::vector<std::string> order;
  autograd::retain_grad(y);
  EXPECT_TRUE(autograd::retains_grad(y));
  autograd::add_hook(y, [&](const Tensor& g) {
    order.push_back("y");
    return mul(g, tensor({2, 2}));
  });
  uint64_t removed = autograd::add_hook(y, [&](const Tensor&) {
    order.push_back("removed");
    return Tensor();
  });
  autograd::remove_hook(y, removed);
  autograd::add_hook(x, [&](const Tensor& g) {
    EXPECT_FALSE(autograd::grad(x).defined());
    order.push_back("x");
    return add(g, tensor({1, 1}));
  });
  autograd::add_post_accumulate_hook(x, [&](const Tensor& t) {
    EXPECT_EQ(values(autograd::grad(t)), (V{21, 41}));
    order.push_back("accumulated");
  });
  autograd::backward({y}, {tensor({1, 2})}, false, false);
  EXPECT_EQ(order, (std::vector<std::string>{"y", "x", "accumulated"}));
  EXPECT_EQ(values(autograd::grad(y)), (V{2, 4}));
  EXPECT_EQ(values(autograd::grad(x)), (V{21, 41}));
}

TEST(AutogradEngine, AHookMayNotChangeSizes) {
  Tensor x = leaf({1, 2});
  autograd::add_hook(x, [](const Tensor&) { return tensor({1}); });
  EXPECT_EQ(error_of([&] { autograd::backward({sum(x)}, {}, false, false); }),
            "hook has changed the size of value: from [2] to [1]");
}

TEST(AutogradEngine, NodeHooks) {
  Tensor x = leaf({1}), y = mul(x, tensor({3}));
  NodePointer node = autograd::grad_fn(y);
  autograd::add_pre_hook(*node, [](const std::vector<Tensor>& g) {
    return std::vector<Tensor>{mul(g[0], tensor({2}))};
  });
  uint64_t id = autograd::add_hook(
      *node, [](const std::vector<Tensor>& results, const std::vector<Tensor>& given) {
        EXPECT_EQ(values(given[0]), V{2});
        EXPECT_EQ(values(results[0]), V{6});
        return std::vector<Tensor>{tensor({7})};
      });
  autograd::backward({y}, {}, true, false);
  EXPECT_EQ(values(autograd::grad(x)), V{7});
  autograd::remove_hook(*node, id);
  autograd::set_grad(x, Tensor());
  autograd::backward({y}, {}, true, false);
  EXPECT_EQ(values(autograd::grad(x)), V{6});
}

TEST(AutogradEngine, ResultsAreMadeToFit) {
  // A node that hands back a cotangent of the stretched size: it is summed; one that cannot fit is
  // an error.
  Tensor x = leaf({1}), wide = tensor({1, 2, 3});
  Tensor y = noted("Stretch", {x}, nullptr);
  auto node = autograd::grad_fn(y);
  Tensor z = autograd::detach(wide);
  autograd::set_history(z, node, 0);
  autograd::backward({z}, {tensor({1, 2, 4})}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), V{7});
  Tensor two = leaf({1, 2});
  Tensor w = autograd::detach(wide);
  autograd::set_history(
      w,
      std::make_shared<NotingNode>("Bad", std::vector<Edge>{autograd::gradient_edge(two)}, nullptr),
      0);
  EXPECT_EQ(error_of([&] { autograd::backward({w}, {tensor({1, 2, 4})}, false, false); }),
            "Function Bad returned an invalid gradient at index 0 - got [3] but expected shape "
            "compatible with [2]");
}

TEST(AutogradEngine, CotangentsOfAnotherType) {
  Tensor x = leaf({1, 2});
  Tensor g = empty_tensor({2}, DType::float64);
  g.data_as<double>()[0] = 3;
  g.data_as<double>()[1] = 4;
  autograd::backward({x}, {g}, false, false);
  EXPECT_EQ(autograd::grad(x).dtype(), DType::float32);
  EXPECT_EQ(values(autograd::grad(x)), (V{3, 4}));
}

TEST(AutogradEngine, DeepChainsNeedNoStack) {
  constexpr int kDepth = 100'000;
  int64_t before = NotingNode::alive;
  Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < kDepth; ++i) y = noted("n", {y}, nullptr);
    EXPECT_EQ(NotingNode::alive, before + kDepth);
    autograd::backward({y}, {}, false, false);
    EXPECT_EQ(values(autograd::grad(x)), V{1});
  }
  EXPECT_EQ(NotingNode::alive, before);
  // Nodes that hold tensors that hold nodes.
  Tensor y = x, factor = leaf({1});
  for (int i = 0; i < kDepth; ++i) y = mul(y, factor);
  autograd::backward({y}, {}, true, false);
  EXPECT_EQ(values(autograd::grad(factor)), V{kDepth});
  NodePointer last = autograd::grad_fn(y);
  y = Tensor();
  last.reset();
  // A chain of views.
  y = twice(x);
  for (int i = 0; i < 10'000; ++i) y = part(y, 0, 1);
  y = tensor({1});
  for (int i = 0; i < kDepth; ++i) y = part(y, 0, 1);
}

TEST(AutogradEngine, AResultThatIsSavedDoesNotKeepItselfAlive) {
  Tensor x = leaf({1});
  std::weak_ptr<autograd::Node> node;
  {
    Tensor y = exp(mul(x, x));
    node = autograd::grad_fn(y);
  }
  EXPECT_TRUE(node.expired());
}

TEST(AutogradEngine, ThreadsAddToOneLeaf) {
  Tensor x = leaf({0, 0, 0});
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        Tensor y = noted("a", {noted("b", {x}, nullptr)}, nullptr);
        autograd::backward({y}, {tensor({1, 2, 3})}, false, false);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(values(autograd::grad(x)), (V{800, 1600, 2400}));
}

TEST(AutogradEngine, BackwardInsideBackward) {
  Tensor x = leaf({3}), inner = leaf({2});
  Tensor y = mul(x, x);
  autograd::add_hook(y, [&](const Tensor&) {
    run::set_gradients_enabled(true);
    autograd::backward({mul(inner, inner)}, {}, false, false);
    run::set_gradients_enabled(false);
    return autograd::grad(inner);
  });
  autograd::backward({y}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), V{24});
  EXPECT_TRUE(run::gradients_enabled());
}

TEST(AutogradEngine, AnomalyMode) {
  autograd::set_anomaly({.enabled = true});
  std::vector<std::string> reports;
  autograd::set_anomaly_callbacks([] { return std::string("here.py:7"); },
                                  [&](const std::string& text) { reports.push_back(text); });
  Tensor x = leaf({1}), y = mul(x, tensor({__builtin_nanf("")}));
  EXPECT_EQ(autograd::grad_fn(y)->location(), "here.py:7");
  EXPECT_EQ(error_of([&] { autograd::backward({y}, {}, false, false); }),
            "Function 'MulBackward0' returned nan values in its 0th output.");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0],
            "Error detected in MulBackward0. Traceback of forward call that caused the "
            "error:\nhere.py:7");
  autograd::set_anomaly({});
  autograd::set_anomaly_callbacks(nullptr, nullptr);
}

TEST(AutogradEngine, SecondDerivatives) {
  Tensor x = leaf({2, 3});
  Tensor y = mul(mul(x, x), x);
  Tensor first = autograd::gradients({sum(y)}, {x}, {}, true, true, false)[0];
  EXPECT_EQ(values(first), (V{12, 27}));
  Tensor second = autograd::gradients({sum(first)}, {x}, {}, true, true, false)[0];
  EXPECT_EQ(values(second), (V{12, 18}));
  Tensor third = autograd::gradients({sum(second)}, {x}, {}, false, false, false)[0];
  EXPECT_EQ(values(third), (V{6, 6}));
  EXPECT_FALSE(third.requires_grad());
  // With create_graph a leaf's gradient has a history, also the first one.
  autograd::backward({sum(mul(x, x))}, {}, true, true);
  EXPECT_TRUE(autograd::grad(x).requires_grad());
  EXPECT_EQ(values(autograd::gradients({sum(autograd::grad(x))}, {x}, {}, false, false, false)[0]),
            (V{2, 2}));
  autograd::set_grad(x, Tensor());
}

TEST(AutogradEngine, ResultsWithoutADerivative) {
  Tensor x = leaf({1.5, 2.5});
  // A step function has the derivative zero, and so has a fill, whatever was there.
  Tensor y = call("floor", {x}, [](const auto& in) { return prim::barrier(in[0]); });
  EXPECT_TRUE(y.requires_grad());
  autograd::backward({sum(y)}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{0, 0}));
  Tensor z = call("zero", {x}, [](const auto& in) { return prim::zeros_like(in[0]); });
  EXPECT_TRUE(z.requires_grad());
}

TEST(AutogradEngine, SecondDerivativesOfKeptValues) {
  // y = x * sum(x): the sum is kept by the node, and is a function of x in the second derivative.
  Tensor x = leaf({1, 2, 4});
  Tensor y = call("scaled", {x}, [](const auto& in) {
    Tensor s = prim::reduce(in[0], {0}, prim::Monoid::sum);
    return prim::mul(in[0], prim::broadcast(s, graph::sizes_of(in[0]), {-1}));
  });
  Tensor weights = tensor({1, 10, 100});
  Tensor first = autograd::gradients({y}, {x}, {weights}, true, true, false)[0];
  // w_i * sum(x) + sum(w * x)
  EXPECT_EQ(values(first), (V{428, 491, 1121}));
  Tensor second = autograd::gradients({first}, {x}, {tensor({1, 0, 0})}, true, true, false)[0];
  EXPECT_EQ(values(second), (V{2, 11, 101}));
}

TEST(AutogradEngine, ClearingBreaksCycles) {
  Tensor x = leaf({1});
  Tensor y = mul(x, x);
  NodePointer node = autograd::grad_fn(y);
  int seen = 0;
  node->visit_saved([&](const Tensor& t) { seen += t.same(x); });
  EXPECT_GE(seen, 1);
  autograd::add_hook(y, [y](const Tensor&) { return y; });
  std::weak_ptr<autograd::Node> weak = node;
  autograd::clear(*node);
  node->visit_saved([](const Tensor&) { FAIL(); });
  EXPECT_TRUE(node->next_edges().empty());
  autograd::clear(y);
  node.reset();
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace flambeau
