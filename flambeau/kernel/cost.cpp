#include "flambeau/kernel/cost.h"

#include <map>
#include <mutex>
#include <tuple>

#include "flambeau/graph/primitive.h"
#include "flambeau/loop/builder.h"
#include "flambeau/prim/lowering.h"

namespace flambeau::kernel {

namespace {

int count(const loop::Block& block) {
  int n = 0;
  for (const loop::Instruction& i : block.instructions) {
    ++n;
    for (const loop::Block& inner : i.blocks) n += count(inner);
  }
  return n;
}

/// Counts what the primitive writes for operands of these types.
int measure(const graph::Graph& g, const graph::Node& node) {
  constexpr int kLanes = 8;
  loop::Builder b("cost");
  std::vector<loop::Value> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    loop::Scalar s = prim::scalar_of(real_type(g.value(node.inputs[i]).dtype));
    operands.push_back(b.load(b.slot(static_cast<int>(i), loop::Scalar::ptr), b.integer(0),
                              {s == loop::Scalar::i1 ? loop::Scalar::i8 : s, kLanes}));
    if (s == loop::Scalar::i1)
      operands.back() =
          b.compare(loop::Opcode::ne, operands.back(), b.integer(0, b.type(operands.back())));
  }
  prim::Lowering lowering{b,
                          operands,
                          real_type(g.value(node.inputs[0]).dtype),
                          real_type(g.value(node.outputs[0]).dtype),
                          kLanes,
                          [](loop::Value, prim::KernelError) {}};
  node.primitive->lower(lowering);
  return count(b.finish().body);
}

}  // namespace

int cost(const graph::Graph& g, const graph::Node& node) {
  if (node.primitive->kind != graph::PrimitiveKind::elementwise || !node.primitive->lower ||
      is_complex(g.value(node.outputs[0]).dtype))
    return 0;
  // Parts of complex numbers are moved, not computed.
  for (graph::ValueId v : node.inputs) {
    if (is_complex(g.value(v).dtype)) return 0;
  }
  using Key = std::tuple<const graph::Primitive*, DType, DType>;
  static std::mutex mutex;
  static std::map<Key, int> known;
  Key key{node.primitive, g.value(node.inputs[0]).dtype, g.value(node.outputs[0]).dtype};
  std::lock_guard lock(mutex);
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, measure(g, node)).first;
  return it->second;
}

}  // namespace flambeau::kernel
