// Views, writes in place and saved versions.
#include <gtest/gtest.h>

#include "flambeau/autograd/saved.h"
#include "traced_operators.h"

namespace flambeau {
namespace {

using namespace traced;
using V = std::vector<float>;

TEST(AutogradViews, AViewHasAHistoryAndABase) {
  Tensor x = leaf({1, 2, 3});
  Tensor v = part(x, 1, 2), w = part(v, 1, 1);
  EXPECT_TRUE(autograd::view_base(w).same(x));
  EXPECT_EQ(autograd::grad_fn(v)->name(), "SliceBackward0");
  autograd::backward({mul(w, tensor({5}))}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{0, 0, 5}));
  EXPECT_FALSE(autograd::view_base(autograd::detach(v)).defined());
  EXPECT_EQ(&autograd::detach(v).storage(), &x.storage());
}

TEST(AutogradViews, AWriteReplacesTheHistory) {
  Tensor x = leaf({1, 2});
  Tensor y = mul(x, x);
  autograd::retain_grad(y);
  multiply_in_place(y, tensor({3, 3}));
  EXPECT_EQ(values(y), (V{3, 12}));
  autograd::backward({sum(y)}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{6, 12}));
  EXPECT_EQ(values(autograd::grad(y)), (V{1, 1}));
}

TEST(AutogradViews, AConstantCutsTheHistory) {
  Tensor x = leaf({1, 2});
  Tensor y = mul(x, tensor({3, 3}));
  write(y, tensor({0, 0}), "zero_");
  EXPECT_EQ(autograd::grad_fn(y)->name(), "ZeroBackward0");
  autograd::backward({sum(y)}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{0, 0}));
}

TEST(AutogradViews, AWriteThroughAView) {
  Tensor x = leaf({1, 2, 3}), w = leaf({10});
  Tensor y = mul(x, tensor({1, 1, 1}));
  Tensor v = part(y, 0, 2), other = part(y, 1, 2), inner = part(v, 1, 1);
  multiply_in_place(inner, w);
  EXPECT_EQ(values(y), (V{1, 20, 3}));
  EXPECT_EQ(autograd::grad_fn(y)->name(), "CopySlices");
  EXPECT_EQ(autograd::grad_fn(other)->name(), "SliceBackward0");
  EXPECT_EQ(autograd::grad_fn(other)->next_edges().at(0).node, autograd::grad_fn(y));
  autograd::backward({sum(mul(other, tensor({1, 100})))}, {}, true, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{0, 10, 100}));
  EXPECT_EQ(values(autograd::grad(w)), V{2});
  autograd::set_grad(x, Tensor());
  autograd::backward({sum(inner)}, {}, true, false);
  EXPECT_EQ(values(autograd::grad(x)), (V{0, 10, 0}));
}

TEST(AutogradViews, ABaseWithoutGradientsGetsAHistoryThroughItsView) {
  Tensor base = tensor({0, 0, 0}), w = leaf({5});
  Tensor v = part(base, 0, 1), other = part(base, 0, 3);
  EXPECT_FALSE(other.requires_grad());
  write(v, mul(w, w));
  EXPECT_TRUE(base.requires_grad());
  EXPECT_TRUE(other.requires_grad());
  EXPECT_FALSE(autograd::is_leaf(v));
  autograd::backward({sum(mul(other, tensor({2, 3, 4})))}, {}, false, false);
  EXPECT_EQ(values(autograd::grad(w)), V{20});
}

TEST(AutogradViews, SecondDerivativeThroughAWrittenRegion) {
  Tensor x = leaf({1, 2, 3});
  Tensor y = mul(x, x);
  Tensor v = part(y, 0, 1);
  multiply_in_place(v, v);
  // y = {x0^4, x1^2, x2^2}
  Tensor z = mul(y, y);
  Tensor first = autograd::gradients({sum(z)}, {x}, {}, true, true, false)[0];
  EXPECT_EQ(values(first), (V{8, 32, 108}));
  Tensor second = autograd::gradients({sum(first)}, {x}, {}, false, false, false)[0];
  EXPECT_EQ(values(second), (V{56, 48, 108}));
}

TEST(AutogradViews, ForbiddenWrites) {
  Tensor x = leaf({1, 2});
  EXPECT_EQ(error_of([&] { write(x, tensor({1, 1})); }),
            "a leaf Variable that requires grad is being used in an in-place operation.");
  EXPECT_EQ(error_of([&] { write(part(x, 0, 1), tensor({1})); }),
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  Tensor base = tensor({1, 2});
  run::set_gradients_enabled(false);
  write(x, tensor({5, 6}));
  Tensor v = part(base, 0, 1);
  run::set_gradients_enabled(true);
  EXPECT_EQ(values(x), (V{5, 6}));
  EXPECT_EQ(error_of([&] { write(v, mul(part(x, 0, 1), tensor({2}))); })
                .find("A view was created in no_grad mode and is being modified inplace with grad "
                      "mode enabled."),
            0u);
  EXPECT_NE(error_of([&] { autograd::detach_in_place(part(base, 0, 1)); }), "");
  autograd::detach_in_place(x);
  EXPECT_FALSE(x.requires_grad());
}

TEST(AutogradViews, SavedValuesHaveAVersion) {
  Tensor x = leaf({1, 2, 3});
  Tensor a = mul(x, tensor({1, 1, 1}));
  Tensor b = mul(a, a);
  write(a, tensor({0, 0, 0}), "zero_");
  EXPECT_EQ(
      error_of([&] { autograd::backward({sum(b)}, {}, false, false); }),
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: "
      "[FloatTensor [3]], which is output 0 of ZeroBackward0, is at version 1; expected version 0 "
      "instead. Hint: "
      "enable anomaly detection to find the operation that failed to compute its gradient, with "
      "torch.autograd.set_detect_anomaly(True).");
  Tensor factor = tensor({1, 1, 1});
  Tensor c = mul(x, factor);
  run::set_gradients_enabled(false);
  write(factor, tensor({2, 2, 2}));
  run::set_gradients_enabled(true);
  EXPECT_EQ(error_of([&] { autograd::backward({sum(c)}, {}, false, false); })
                .find("one of the variables needed for gradient computation has been modified by "
                      "an inplace operation: "
                      "[FloatTensor [3]] is at version 1; expected version 0 instead."),
            0u);
}

TEST(AutogradViews, HooksStayWithTheValueTheyWereAddedTo) {
  Tensor x = leaf({1});
  Tensor y = mul(x, tensor({2}));
  std::vector<float> seen;
  uint64_t id = autograd::add_hook(y, [&](const Tensor& g) {
    seen.push_back(values(g)[0]);
    return Tensor();
  });
  multiply_in_place(y, tensor({5}));
  autograd::backward({y}, {}, true, false);
  EXPECT_EQ(seen, V{5});
  autograd::remove_hook(y, id);
  autograd::backward({y}, {}, false, false);
  EXPECT_EQ(seen, V{5});
}

TEST(AutogradViews, SavedTensorHooks) {
  Tensor x = leaf({3});
  int packed = 0, unpacked = 0;
  auto hooks = std::make_shared<autograd::SavedTensorHooks>();
  hooks->pack = [&](const Tensor& t) -> std::shared_ptr<void> {
    ++packed;
    return std::make_shared<Tensor>(autograd::detach(t));
  };
  hooks->unpack = [&](const std::shared_ptr<void>& p) {
    ++unpacked;
    return *static_cast<Tensor*>(p.get());
  };
  autograd::push_saved_tensor_hooks(hooks);
  Tensor y = mul(x, x);
  autograd::pop_saved_tensor_hooks();
  EXPECT_GE(packed, 1);
  Tensor first = autograd::gradients({y}, {x}, {}, true, true, false)[0];
  EXPECT_EQ(values(first), V{6});
  EXPECT_EQ(unpacked, packed);
  EXPECT_EQ(values(autograd::gradients({first}, {x}, {}, false, false, false)[0]), V{2});
}

}  // namespace
}  // namespace flambeau
