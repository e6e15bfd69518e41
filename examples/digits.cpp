// Trains a two-layer perceptron on handwritten digits through the C++ API; tools/fetch_mnist.py
// fetches them.
//
//   example_digits .data/mnist.npz WEIGHTS.safetensors
#include <flambeau/flambeau.h>

#include <cmath>
#include <cstdio>
#include <map>

namespace fl = flambeau;

namespace {

struct Perceptron {
  fl::Tensor weight1, bias1, weight2, bias2;

  static fl::Tensor uniform(fl::Sizes sizes, double bound) {
    fl::Tensor t = (fl::rand(sizes) * 2.0 - 1.0) * bound;
    fl::autograd::set_requires_grad(t, true);
    return t;
  }
  Perceptron() {
    double one = 1 / std::sqrt(784.0), two = 1 / std::sqrt(256.0);
    weight1 = uniform({256, 784}, one);
    bias1 = uniform({256}, one);
    weight2 = uniform({10, 256}, two);
    bias2 = uniform({10}, two);
  }
  fl::TensorList parameters() const { return {weight1, bias1, weight2, bias2}; }
  fl::Tensor operator()(const fl::Tensor& images) const {
    return fl::linear(fl::relu(fl::linear(images, weight1, bias1)), weight2, bias2);
  }
};

fl::TensorList zeros_like(const fl::TensorList& list) {
  fl::TensorList result;
  for (const fl::Tensor& t : list) {
    fl::Sizes sizes(t.sizes().begin(), t.sizes().end());
    result.push_back(fl::full(sizes, fl::Number(0.0), t.dtype()));
  }
  return result;
}

double accuracy(const Perceptron& model, const fl::Tensor& images, const fl::Tensor& labels) {
  fl::Tensor answers = fl::argmax(model(images), fl::Dim(1));
  int64_t right = 0;
  for (int64_t i = 0; i < labels.numel(); ++i)
    right += answers.data_as<int64_t>()[i] == labels.data_as<int64_t>()[i];
  return static_cast<double>(right) / static_cast<double>(labels.numel());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MNIST.npz WEIGHTS.safetensors\n", argv[0]);
    return 2;
  }
  fl::manual_seed(0);
  std::map<std::string, fl::Tensor> digits;
  for (auto& [name, tensor] : fl::io::load_npz(argv[1])) digits[name] = tensor;
  const fl::Tensor &images = digits.at("train_images"), &labels = digits.at("train_labels");

  Perceptron model;
  fl::TensorList parameters = model.parameters(), first = zeros_like(parameters),
                 second = zeros_like(parameters), steps;
  for (size_t i = 0; i < parameters.size(); ++i)
    steps.push_back(fl::full(fl::Sizes{}, fl::Number(0.0), fl::DType::float32));
  const int64_t batch = 128, batches = images.size(0) / batch;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    fl::Tensor order = fl::randperm(fl::Size(images.size(0)));
    double loss_sum = 0;
    for (int64_t b = 0; b < batches; ++b) {
      fl::Tensor chosen = fl::ops::narrow(order, fl::Dim(0), fl::Size(b * batch), fl::Size(batch));
      fl::Tensor loss = fl::cross_entropy(model(fl::index_select(images, fl::Dim(0), chosen)),
                                          fl::index_select(labels, fl::Dim(0), chosen));
      fl::autograd::backward({loss}, {fl::Tensor()}, false, false);
      fl::TensorList gradients;
      for (const fl::Tensor& p : parameters) {
        gradients.push_back(fl::autograd::grad(p));
        fl::autograd::set_grad(p, fl::Tensor());
      }
      fl::ops::fused_adamw(parameters, gradients, first, second, fl::TensorList(), steps, 2e-3, 0.9,
                           0.999, 0.01, 1e-8, false, false);
      loss_sum += fl::item(loss).real();
    }
    std::printf("epoch %d  loss %.4f\n", epoch, loss_sum / static_cast<double>(batches));
  }
  const char* names[] = {"0.weight", "0.bias", "2.weight", "2.bias"};
  fl::io::NamedTensors weights;
  for (size_t i = 0; i < parameters.size(); ++i) weights.emplace_back(names[i], parameters[i]);
  fl::io::save_safetensors(weights, argv[2]);
  double result = accuracy(model, digits.at("test_images"), digits.at("test_labels"));
  std::printf("test accuracy %.2f %%, weights in %s\n", 100 * result, argv[2]);
  return result >= 0.975 ? 0 : 1;
}
