// Tracing: while a Trace is current on a thread, primitives applied to traced tensors add nodes to
// its graph. Traced tensors carry the present sizes beside their symbolic shapes.
#pragma once

#include <utility>
#include <vector>

#include "flambeau/graph/graph.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::graph {

class Trace {
 public:
  /// Makes this the current trace of the thread until destruction; traces nest.
  Trace();
  /// Continues a graph; `input_sizes` are present values of its input sizes.
  Trace(Graph graph, std::vector<int64_t> input_sizes);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  static Trace* current();

  Graph& graph() { return graph_; }
  const std::vector<int64_t>& input_sizes() const { return input_sizes_; }

  /// A new input. Dims of present size 1 are the constant 1 (that is part of every key).
  Tensor add_tensor_input(DType dtype, const Dims& sizes);
  Tensor add_number_input(DType dtype);
  Size add_size_input(int64_t value);

  /// A traced tensor for a value of the graph.
  Tensor tensor(ValueId value);
  void add_output(const Tensor& t) { graph_.outputs.push_back(t.impl()->traced); }

  Size size(SizeId id);
  SizeId id(Size s) { return s.id >= 0 ? s.id : graph_.sizes.constant(s.value); }
  Sizes sizes(const Tensor& t);
  int64_t present(SizeId id);

  /// States that two sizes are equal in every run; false when they are not now. Unlike a comparison
  /// this adds no guard: a run in which they differ is an error with `message`.
  bool require_equal(Size a, Size b, const std::string& message);

 private:
  Graph graph_;
  std::vector<int64_t> input_sizes_;  // present values by number
  std::vector<int64_t> present_;      // present value by size id, filled on demand
  std::vector<Tensor> tensors_;       // handle by value, made on demand
  Trace* outer_;
};

/// Symbolic sizes of a traced tensor, plain ones of a real tensor.
Sizes sizes_of(const Tensor& t);
Size size_of(const Tensor& t, int64_t dim);

}  // namespace flambeau::graph
