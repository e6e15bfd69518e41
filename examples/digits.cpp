// Trains a convolutional network on handwritten digits through the C++ API; tools/fetch_mnist.py
// fetches them.
//
//   example_digits .data/mnist.npz WEIGHTS.safetensors
#include <flambeau/flambeau.h>

#include <cmath>
#include <cstdio>
#include <map>

namespace fl = flambeau;

namespace {

struct Network {
  fl::Tensor kernel1, offset1, kernel2, offset2, weight1, bias1, weight2, bias2;

  static fl::Tensor uniform(fl::Sizes sizes, double inputs) {
    fl::Tensor t = (fl::rand(sizes) * 2.0 - 1.0) * (1 / std::sqrt(inputs));
    fl::autograd::set_requires_grad(t, true);
    return t;
  }
  Network() {
    kernel1 = uniform({16, 1, 3, 3}, 9);
    offset1 = uniform({16}, 9);
    kernel2 = uniform({32, 16, 3, 3}, 144);
    offset2 = uniform({32}, 144);
    weight1 = uniform({128, 1568}, 1568);
    bias1 = uniform({128}, 1568);
    weight2 = uniform({10, 128}, 128);
    bias2 = uniform({10}, 128);
  }
  fl::TensorList parameters() const {
    return {kernel1, offset1, kernel2, offset2, weight1, bias1, weight2, bias2};
  }
  /// Images [n, 784] to scores [n, 10].
  fl::Tensor operator()(const fl::Tensor& images) const {
    const fl::DimList step{1}, around{1}, pool{2};
    fl::Tensor x = fl::reshape(images, fl::Sizes{images.size(0), 1, 28, 28});
    x = fl::max_pool2d(fl::relu(fl::conv2d(x, kernel1, offset1, step, around)), pool);
    x = fl::max_pool2d(fl::relu(fl::conv2d(x, kernel2, offset2, step, around)), pool);
    x = fl::relu(fl::linear(fl::reshape(x, fl::Sizes{images.size(0), 1568}), weight1, bias1));
    return fl::linear(x, weight2, bias2);
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

double accuracy(const Network& model, const fl::Tensor& images, const fl::Tensor& labels) {
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

  Network model;
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
  const char* names[] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                         "fc1.weight",   "fc1.bias",   "fc2.weight",   "fc2.bias"};
  fl::io::NamedTensors weights;
  for (size_t i = 0; i < parameters.size(); ++i) weights.emplace_back(names[i], parameters[i]);
  fl::io::save_safetensors(weights, argv[2]);
  double result = accuracy(model, digits.at("test_images"), digits.at("test_labels"));
  std::printf("test accuracy %.2f %%, weights in %s\n", 100 * result, argv[2]);
  return result >= 0.985 ? 0 : 1;
}
