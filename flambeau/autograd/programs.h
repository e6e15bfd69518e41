// The few programs that the tape itself needs, each traced once per structure. With `record` they
// go on the tape where an operand requires a gradient.
#pragma once

#include "flambeau/autograd/autograd.h"

namespace flambeau::autograd {

Tensor filled(const ResultType& type, double value);
/// One in each component of a complex number.
Tensor ones(const ResultType& type);
/// A copy of its own, contiguous, without a history.
Tensor copied(const Tensor& t);
Tensor added(const Tensor& a, const Tensor& b, bool record);
/// a += b.
void add_in_place(const Tensor& a, const Tensor& b);
/// g where mask is zero, zero elsewhere; by component for complex numbers.
Tensor zeroed_where(const Tensor& mask, const Tensor& g, bool record);
/// g as a cotangent of `type`: summed over the dims that were stretched, converted. Throws unless
/// it can be. `name` and `index` are of the node that made it, for the message.
Tensor conform(const Tensor& g, const ResultType& type, const std::string& name, size_t index,
               bool record);
inline bool conforms(const Tensor& g, const ResultType& type) {
  return g.dtype() == type.dtype && g.sizes() == type.sizes;
}
bool has_nan(const Tensor& t);

}  // namespace flambeau::autograd
