// The gradient of sum(softmax(x w)^2) by w, once by the library and once by a central difference.
#include <flambeau/flambeau.h>

#include <cmath>
#include <iostream>

namespace fl = flambeau;

namespace {

fl::Tensor loss_of(const fl::Tensor& x, const fl::Tensor& w) {
  fl::Tensor y = fl::softmax(fl::linear(x, w), -1);
  return fl::sum(y * y);
}

double value_of(const fl::Tensor& x) { return fl::item(x).real(); }

}  // namespace

int main() {
  fl::manual_seed(0);
  fl::Tensor x = fl::randn(fl::Sizes{8, 4}), w = fl::randn(fl::Sizes{3, 4});
  fl::Tensor direction = fl::randn(fl::Sizes{3, 4});
  fl::autograd::set_requires_grad(w, true);
  fl::autograd::backward({loss_of(x, w)}, {fl::Tensor()}, false, false);
  double slope = value_of(fl::sum(fl::autograd::grad(w) * direction));

  fl::autograd::set_requires_grad(w, false);
  fl::Tensor step = direction * 0.01;
  double difference = (value_of(loss_of(x, w + step)) - value_of(loss_of(x, w - step))) / 0.02;
  std::cout << "slope " << slope << ", difference " << difference << "\n";
  try {
    fl::matmul(x, x);
    return 2;
  } catch (const fl::Error& error) {  // thrown in the library, caught here
    std::cout << error.what() << "\n";
  }
  return std::abs(slope - difference) < 1e-3 ? 0 : 1;
}
