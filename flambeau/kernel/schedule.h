// From a graph to launches. A schedule is a list of steps; a step runs the functions of one
// compiled module over ranges of tasks, with a barrier after each. Everything that depends on sizes
// is evaluated by the host at each run from the formulas kept here.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flambeau/graph/graph.h"
#include "flambeau/kernel/product.h"
#include "flambeau/loop/ir.h"

namespace flambeau::kernel {

/// What the layout of an input or destination tells a kernel, by dim. Part of a plan's key.
enum LayoutFlag : uint8_t {
  kStrideZero = 1,
  kStrideOne = 2,
  kMerges = 4,  // stride = stride of the next dim * size of the next dim
};
using Layout = std::vector<uint8_t>;
Layout layout_of(const Dims& sizes, const Dims& strides);

/// Memory of a run. Numbers below `values` are the buffers of graph values, then come the graph's
/// outputs, then temporary buffers of the schedule.
using BufferId = int32_t;

/// Where the host finds the value of an argument slot.
struct Slot {
  enum class Kind : uint8_t {
    pointer,  // of buffer `a`
    stride,   // of dim `b` of buffer `a` (inputs and outputs)
    size,     // size formula `a`
    real,     // graph input `a`, a number, as a double
    imaginary,
    integer,       // graph input `a`, a number, as int64
    error,         // the error block of this run
    view_pointer,  // of operand view number `a`
    view_stride,   // of its dim `b`
    scratch,       // scratch memory of the step's product, number `a`
  } kind;
  int32_t a = 0, b = 0;
  friend auto operator<=>(const Slot&, const Slot&) = default;
};

/// A strided view of a buffer: index maps that the host applies to its sizes and strides.
struct OperandView {
  BufferId buffer;
  graph::ValueId base;         // the value that the buffer holds
  std::vector<int32_t> nodes;  // graph nodes, from the base to the operand
  graph::ValueId operand;
};

/// One function of a step's module. Tasks = product of the extents, the last one in units of
/// `unit`, rounded up.
struct Phase {
  int32_t function = 0;
  std::vector<graph::SizeId> extents;
  int64_t unit = 1;
  int64_t align = 1;
  graph::SizeId elements = -1;  // touched by all tasks together: whether threads are worth it
};

struct Step {
  loop::Module module;
  std::vector<Slot> slots;
  std::vector<Phase> phases;                     // of a fused step
  std::shared_ptr<const ProductPhases> product;  // of a product step
  int32_t left = -1, right = -1;                 // its operand views
  bool raises = false;
};

struct Temporary {
  DType dtype;
  graph::SizeId count;
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<OperandView> views;
  std::vector<graph::ValueId> values;  // intermediate values that need contiguous memory
  std::vector<Temporary> temporaries;
  graph::SizeTable sizes;  // those of the graph and what launches need besides
  /// By input, by output: the result may be written over the input, because when it is written the
  /// input is no longer read, or read only at the index that is written.
  std::vector<std::vector<bool>> overwritable;
};

/// Builds the launches of a graph. `inputs` are the layouts of the graph's inputs, `outputs` those
/// of the memory that results are written to.
Schedule build_schedule(const graph::Graph& graph, const std::vector<Layout>& inputs,
                        const std::vector<Layout>& outputs, int vector_bytes);

}  // namespace flambeau::kernel
