// A few operators for tests of the tape: programs traced from primitives, run through run/ alone.
#pragma once

#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "flambeau/autograd/autograd.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"
#include "flambeau/run/program.h"

namespace flambeau::traced {

inline Tensor tensor(std::initializer_list<float> values, Dims sizes = {}) {
  if (sizes.empty()) sizes = Dims{static_cast<int64_t>(values.size())};
  Tensor t = empty_tensor(sizes, DType::float32);
  std::memcpy(t.data(), values.begin(), values.size() * sizeof(float));
  return t;
}

inline Tensor number(float value) {
  Tensor t = empty_tensor({}, DType::float32);
  *t.data_as<float>() = value;
  return t;
}

inline Tensor leaf(std::initializer_list<float> values, Dims sizes = {}) {
  Tensor t = tensor(values, sizes);
  autograd::set_requires_grad(t, true);
  return t;
}

/// The elements in row-major order.
inline std::vector<float> values(const Tensor& t) {
  std::vector<float> result;
  Dims at(t.dim());
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t offset = 0;
    for (int64_t d = 0; d < t.dim(); ++d) offset += at[d] * t.stride(d);
    result.push_back(t.data_as<float>()[offset]);
    for (int64_t d = t.dim() - 1; d >= 0 && ++at[d] == t.size(d); --d) at[d] = 0;
  }
  return result;
}

template <class Body>
run::ProgramPointer trace(const char* name, const std::vector<Tensor>& operands,
                          const std::vector<int64_t>& sizes, const Body& body) {
  graph::Trace trace;
  std::vector<Tensor> inputs;
  for (const auto& t : operands) inputs.push_back(trace.add_tensor_input(t.dtype(), t.sizes()));
  std::vector<Size> arguments;
  for (int64_t s : sizes) arguments.push_back(trace.add_size_input(s));
  trace.add_output(body(inputs, arguments));
  return std::make_shared<run::Program>(name, trace.graph(), trace.input_sizes());
}

/// Traced once per name, ranks and dims of size 1.
template <class Body>
Tensor call(const char* name, const std::vector<Tensor>& operands, const Body& body) {
  static std::map<std::string, run::ProgramPointer> programs;
  std::string key = name;
  for (const auto& t : operands) {
    key += "|";
    for (int64_t s : t.sizes()) key += s == 1 ? "1" : "n";
  }
  auto& program = programs[key];
  if (!program)
    program = trace(name, operands, {}, [&](const auto& x, const auto&) { return body(x); });
  return run::execute_recorded(program, {operands.begin(), operands.end()}, {})[0];
}

inline Tensor add(const Tensor& a, const Tensor& b) {
  return call("add", {a, b}, [](const auto& x) { return prim::add(x[0], x[1]); });
}
inline Tensor mul(const Tensor& a, const Tensor& b) {
  return call("mul", {a, b}, [](const auto& x) { return prim::mul(x[0], x[1]); });
}
inline Tensor twice(const Tensor& a) {
  return call("twice", {a}, [](const auto& x) { return prim::add(x[0], x[0]); });
}
inline Tensor exp(const Tensor& a) {
  return call("exp", {a}, [](const auto& x) { return prim::exp(x[0]); });
}
inline Tensor sum(const Tensor& a) {
  return call("sum", {a}, [](const auto& x) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < x[0].dim(); ++d) dims.push_back(d);
    return prim::reduce(x[0], dims, prim::Monoid::sum);
  });
}

/// a[start : start + count] of a vector, as a view.
inline Tensor part(const Tensor& a, int64_t start, int64_t count) {
  Tensor view = view_tensor(a, {count}, a.strides(), a.offset() + start * a.stride(0));
  // As operator calls do: the base would keep a program that keeps the base.
  Tensor shape(new TensorImpl);
  shape.impl()->sizes = a.sizes();
  shape.impl()->strides = a.strides();
  shape.impl()->dtype = a.dtype();
  auto program = [shape, start, count] {
    return trace("slice", {shape}, {start, count},
                 [](const auto& x, const auto& n) { return prim::slice(x[0], 0, n[0], n[1], 1); });
  };
  run::recorder()->record_view(a, view, program, {a}, {start, count});
  return view;
}

/// Writes the value that `make` computes over `target`, as an in-place operator does.
template <class Make>
void write(const Tensor& target, const char* name, const Make& make) {
  run::recorder()->check_write(target, name);
  Tensor value = make();
  std::vector<float> from = values(value);
  int64_t stride = target.dim() ? target.stride(0) : 1;
  for (int64_t i = 0; i < target.numel(); ++i)
    target.data_as<float>()[i * stride] = from[static_cast<size_t>(i)];
  target.storage().raise_version();
  run::recorder()->record_write(target, value);
}
inline void write(const Tensor& target, const Tensor& value, const char* name = "copy_") {
  write(target, name, [&] { return value; });
}
inline void multiply_in_place(const Tensor& target, const Tensor& factor) {
  write(target, "mul_", [&] { return mul(target, factor); });
}

/// What is thrown, "" when nothing is.
template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace flambeau::traced
