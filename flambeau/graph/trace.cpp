#include "flambeau/graph/trace.h"

#include "flambeau/base/error.h"

namespace flambeau::graph {

namespace {
thread_local Trace* current_trace = nullptr;
}

Trace* Trace::current() { return current_trace; }
Trace::Trace() : outer_(current_trace) { current_trace = this; }
Trace::Trace(Graph graph, std::vector<int64_t> input_sizes)
    : graph_(std::move(graph)), input_sizes_(std::move(input_sizes)), outer_(current_trace) {
  current_trace = this;
}
Trace::~Trace() { current_trace = outer_; }

int64_t Trace::present(SizeId id) {
  while (static_cast<int64_t>(present_.size()) <= id) {
    const auto& e = graph_.sizes[static_cast<SizeId>(present_.size())];
    present_.push_back(e.op == SizeOp::constant ? e.value
                       : e.op == SizeOp::input  ? input_sizes_[static_cast<size_t>(e.value)]
                                                : apply(e.op, present_[static_cast<size_t>(e.a)],
                                                        present_[static_cast<size_t>(e.b)]));
  }
  return present_[static_cast<size_t>(id)];
}

Size Trace::size(SizeId id) { return {present(id), id}; }

Tensor Trace::add_tensor_input(DType dtype, const Dims& sizes) {
  Shape shape;
  for (int64_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) {
      shape.push_back(graph_.sizes.constant(1));
      continue;
    }
    input_sizes_.push_back(sizes[d]);
    shape.push_back(graph_.sizes.input(static_cast<int64_t>(graph_.size_sources.size())));
    graph_.size_sources.push_back(
        {static_cast<int32_t>(graph_.inputs.size()), static_cast<int32_t>(d)});
  }
  return tensor(graph_.add_input(dtype, shape, false));
}

Tensor Trace::add_number_input(DType dtype) { return tensor(graph_.add_input(dtype, {}, true)); }

Size Trace::add_size_input(int64_t value) {
  int32_t number = 0;
  for (const auto& s : graph_.size_sources) number += s.input < 0;
  input_sizes_.push_back(value);
  SizeId id = graph_.sizes.input(static_cast<int64_t>(graph_.size_sources.size()));
  graph_.size_sources.push_back({-1, number});
  return {value, id};
}

Tensor Trace::tensor(ValueId value) {
  if (static_cast<size_t>(value) >= tensors_.size())
    tensors_.resize(static_cast<size_t>(value) + 1);
  Tensor& t = tensors_[static_cast<size_t>(value)];
  if (!t.defined()) {
    auto* impl = new TensorImpl;
    t = Tensor(impl);
    const Value& v = graph_.value(value);
    impl->dtype = v.dtype;
    for (SizeId s : v.shape) impl->sizes.push_back(present(s));
    impl->strides = contiguous_strides(impl->sizes);
    impl->refresh();
    impl->traced = value;
  }
  return t;
}

Sizes Trace::sizes(const Tensor& t) {
  Sizes result;
  const Shape shape = graph_.value(t.impl()->traced).shape;
  for (SizeId s : shape) result.push_back(size(s));
  return result;
}

bool Trace::require_equal(Size a, Size b, const std::string& message) {
  if (a.value != b.value) return false;
  SizeId x = id(a), y = id(b);
  if (x != y) graph_.requirements.push_back({x, y, message});
  return true;
}

Sizes sizes_of(const Tensor& t) {
  if (t.traced()) return Trace::current()->sizes(t);
  return Sizes(t.sizes().begin(), t.sizes().end());
}

Size size_of(const Tensor& t, int64_t dim) {
  if (dim < 0) dim += t.dim();
  if (!t.traced()) return t.size(dim);
  Trace* trace = Trace::current();
  return trace->size(trace->graph().value(t.impl()->traced).shape[static_cast<size_t>(dim)]);
}

}  // namespace flambeau::graph

namespace flambeau {

namespace {
using graph::SizeOp;
using graph::Trace;

Size binary(SizeOp op, Size a, Size b) {
  if (a.id < 0 && b.id < 0) return graph::apply(op, a.value, b.value);
  Trace* trace = Trace::current();
  return trace->size(trace->graph().sizes.binary(op, trace->id(a), trace->id(b)));
}

bool decide(graph::Guard::Kind kind, Size a, Size b, bool outcome) {
  if (a.id < 0 && b.id < 0) return outcome;
  Trace* trace = Trace::current();
  graph::SizeId x = trace->id(a), y = trace->id(b);
  auto& g = trace->graph();
  if (x == y || (g.sizes.is_constant(x) && g.sizes.is_constant(y))) return outcome;
  // A dim that is not the constant 1 was not 1 when it was keyed.
  if (kind == graph::Guard::Kind::equal) {
    bool a_is_one = g.sizes.is_value(x, 1), b_is_one = g.sizes.is_value(y, 1);
    auto is_dim = [&](graph::SizeId s) {
      const auto& e = g.sizes[s];
      return e.op == SizeOp::input && g.size_sources[static_cast<size_t>(e.value)].input >= 0;
    };
    if ((a_is_one && is_dim(y)) || (b_is_one && is_dim(x))) return outcome;
  }
  for (const auto& guard : g.guards) {
    if (guard.kind == kind && guard.a == x && guard.b == y) return outcome;
  }
  g.guards.push_back({kind, x, y, outcome});
  return outcome;
}
}  // namespace

Size operator+(Size a, Size b) { return binary(SizeOp::add, a, b); }
Size operator-(Size a, Size b) { return binary(SizeOp::sub, a, b); }
Size operator*(Size a, Size b) { return binary(SizeOp::mul, a, b); }
Size operator/(Size a, Size b) { return binary(SizeOp::div, a, b); }
Size operator%(Size a, Size b) { return binary(SizeOp::mod, a, b); }
Size min(Size a, Size b) { return binary(SizeOp::min, a, b); }
Size max(Size a, Size b) { return binary(SizeOp::max, a, b); }
bool operator==(Size a, Size b) {
  return decide(graph::Guard::Kind::equal, a, b, a.value == b.value);
}
bool operator<(Size a, Size b) { return decide(graph::Guard::Kind::less, a, b, a.value < b.value); }

Dims values(const Sizes& sizes) {
  Dims result;
  for (Size s : sizes) result.push_back(s.value);
  return result;
}

}  // namespace flambeau
