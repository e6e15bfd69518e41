// The library for C++ programs: tensors, operators, gradients, files.
//
//   #include <flambeau/flambeau.h>
//   namespace fl = flambeau;
//
//   fl::Tensor w = fl::randn({3, 4}), x = fl::randn({8, 4});
//   fl::autograd::set_requires_grad(w, true);
//   fl::Tensor y = fl::softmax(fl::linear(x, w), -1);
//   fl::autograd::backward({fl::sum(y * y)});
//   std::cout << fl::to_string(fl::autograd::grad(w)) << "\n";
//
// Operators are function objects whose omitted trailing arguments come from their schemas; those
// without a header of their own are called by name with `run/operator.h`.
#pragma once

#include <string>
#include <vector>

#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "flambeau/base/threads.h"
#include "flambeau/io/element.h"
#include "flambeau/io/print.h"
#include "flambeau/io/tensor_files.h"
#include "flambeau/ops/activation.h"
#include "flambeau/ops/arithmetic.h"
#include "flambeau/ops/convolution.h"
#include "flambeau/ops/copy.h"
#include "flambeau/ops/creation.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/loss.h"
#include "flambeau/ops/matmul.h"
#include "flambeau/ops/optimizer.h"
#include "flambeau/ops/pooling.h"
#include "flambeau/ops/random.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/softmax.h"
#include "flambeau/ops/view.h"
#include "flambeau/run/deferred.h"
#include "flambeau/run/random.h"

namespace flambeau {

using ops::argmax;
using ops::clone;
using ops::conv1d;
using ops::conv2d;
using ops::conv3d;
using ops::cross_entropy;
using ops::full;
using ops::gelu;
using ops::index_select;
using ops::linear;
using ops::log_softmax;
using ops::matmul;
using ops::permute;
using ops::rand;
using ops::randn;
using ops::randperm;
using ops::relu;
using ops::reshape;
using ops::silu;
using ops::softmax;
using ops::transpose;

/// The largest element of each window of [n, c, h, w]; the stride is the kernel's size.
inline Tensor max_pool2d(const Tensor& x, const DimList& kernel) {
  return std::get<Tensor>(ops::max_pool2d(x, kernel));
}

inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add_tensor(a, b); }
inline Tensor operator+(const Tensor& a, const Number& b) { return ops::add_scalar(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub_tensor(a, b); }
inline Tensor operator-(const Tensor& a, const Number& b) { return ops::sub_scalar(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul_tensor(a, b); }
inline Tensor operator*(const Tensor& a, const Number& b) { return ops::mul_scalar(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div_tensor(a, b); }
inline Tensor operator/(const Tensor& a, const Number& b) { return ops::div_scalar(a, b); }

/// Over all dims.
inline Tensor sum(const Tensor& x) { return ops::sum_dims(x, std::nullopt); }
inline Tensor mean(const Tensor& x) { return ops::mean_dims(x, std::nullopt); }

}  // namespace flambeau
