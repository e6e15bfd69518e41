// Which values get memory, which are computed together, and in which order.
//
// Roots are the values that something must be done about: reductions, products, puts, scans,
// results, and operands that a product reads. Every other value is computed where it is used. A
// root joins the earliest frame over its domain that comes after everything it depends on; a
// dependency within the frame is allowed where it is of the same row. A product takes the chain of
// elementwise operations behind it as its epilogue.
#include "flambeau/kernel/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "flambeau/base/error.h"
#include "flambeau/kernel/convolution.h"
#include "flambeau/kernel/frame.h"
#include "flambeau/kernel/matmul.h"
#include "flambeau/prim/prim.h"

namespace flambeau::kernel {

using graph::Graph;
using graph::Node;
using graph::PrimitiveKind;
using graph::Shape;
using graph::SizeId;
using graph::SizeOp;
using graph::ValueId;

Layout layout_of(const Dims& sizes, const Dims& strides) {
  auto rank = static_cast<size_t>(sizes.size());
  Layout layout(rank);
  for (size_t d = 0; d < rank; ++d) {
    auto i = static_cast<int64_t>(d);
    uint8_t flags = 0;
    if (strides[i] == 0) flags |= kStrideZero;
    if (strides[i] == 1) flags |= kStrideOne;
    if (d + 1 < rank && strides[i] == strides[i + 1] * sizes[i + 1]) flags |= kMerges;
    layout[d] = flags;
  }
  return layout;
}

namespace {

/// Row-major without gaps, as far as the flags tell. Dims of size 1 do not matter.
bool is_contiguous(const Graph& g, const Shape& shape, const Layout& layout) {
  bool last = true;
  for (size_t d = shape.size(); d-- > 0;) {
    if (last) {
      if (g.sizes.is_value(shape[d], 1)) continue;
      if (!(layout[d] & kStrideOne)) return false;
      last = false;
    } else if (!(layout[d] & kMerges) && !g.sizes.is_value(shape[d], 1)) {
      return false;
    } else if (g.sizes.is_value(shape[d], 1) && !(layout[d] & kMerges)) {
      // A size-1 dim with a stride of its own breaks the chain of flags of the dim before it.
      if (d > 0 && !g.sizes.is_value(shape[d - 1], 1)) return false;
    }
  }
  return true;
}

struct Placed {
  Frame frame;
  bool product = false;
  ValueId dot = -1;            // of a product
  std::vector<Root> epilogue;  // of a product; empty: the product itself is stored
};

class Scheduler {
 public:
  Scheduler(const Graph& g, const std::vector<Layout>& inputs, const std::vector<Layout>& outputs,
            int vector_bytes)
      : g_(g), input_layouts_(inputs), output_layouts_(outputs), vector_bytes_(vector_bytes) {}

  Schedule run() {
    schedule_.sizes = g_.sizes;
    place_inputs();
    place_outputs();
    find_operands();
    find_epilogues();
    for (const Node& n : g_.nodes) {
      for (ValueId v : n.outputs) {
        if (is_root(v)) place(v);
      }
    }
    for (auto [k, v] : copies_) place_pointwise({v, output_id(k), output_buffer(k)});
    find_overwritable();
    emit();
    return std::move(schedule_);
  }

 private:
  BufferId output_id(size_t k) const { return static_cast<BufferId>(g_.values.size() + k); }
  Buffer output_buffer(size_t k) const {
    const Shape& shape = g_.value(g_.outputs[k]).shape;
    return {output_id(k), is_contiguous(g_, shape, output_layouts_[k]), output_layouts_[k]};
  }
  PrimitiveKind kind(ValueId v) const {
    const Node* n = g_.node_of(v);
    return n ? n->primitive->kind : PrimitiveKind::constant;
  }

  void place_inputs() {
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      if (g_.inputs[i].number) continue;
      ValueId v = g_.inputs[i].value;
      buffers_[v] = {v, is_contiguous(g_, g_.value(v).shape, input_layouts_[i]), input_layouts_[i]};
    }
  }

  void place_outputs() {
    for (size_t k = 0; k < g_.outputs.size(); ++k) {
      ValueId v = g_.outputs[k];
      if (g_.value(v).node < 0 || buffers_.count(v))
        copies_.emplace_back(k, v);
      else
        buffers_[v] = output_buffer(k);
    }
  }

  void give_memory(ValueId v) {
    if (buffers_.count(v)) return;
    buffers_[v] = {v, true, {}};
    schedule_.values.push_back(v);
  }

  /// Operands of products are views of buffers where index maps allow it; else they get memory of
  /// their own.
  void find_operands() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      switch (n.primitive->kind) {
        case PrimitiveKind::dot:
          views_[n.outputs[0]] = {operand_view(n.inputs[0]), operand_view(n.inputs[1])};
          break;
        case PrimitiveKind::convolution: {
          int32_t input = dense_operand(n.inputs[0]), other = dense_operand(n.inputs[1]);
          bool windows_left = n.primitive == &prim::kConvWeightByOuter;
          views_[n.outputs[0]] = windows_left ? std::pair{input, other} : std::pair{other, input};
          break;
        }
        case PrimitiveKind::put:
        case PrimitiveKind::scan:
          give_memory(n.outputs[0]);
          break;
        default:
          break;
      }
    }
  }

  int32_t operand_view(ValueId operand) {
    std::vector<int32_t> nodes;
    ValueId v = operand;
    while (!buffers_.count(v)) {
      const Node* n = g_.node_of(v);
      if (!n) break;
      PrimitiveKind k = n->primitive->kind;
      bool map =
          k == PrimitiveKind::broadcast || k == PrimitiveKind::permute || k == PrimitiveKind::slice;
      if (k == PrimitiveKind::reshape) {
        // A reshape is a view where its operand is contiguous, or where only dims of size 1 come
        // and go.
        ValueId x = n->inputs[0];
        auto it = buffers_.find(x);
        bool contiguous = it != buffers_.end() ? it->second.contiguous : !is_index_map(x);
        map = contiguous || only_ones_differ(g_.value(x).shape, n->attributes.sizes);
      }
      if (!map) break;
      nodes.push_back(g_.value(v).node);
      v = n->inputs[0];
    }
    if (!buffers_.count(v)) give_memory(v);
    std::reverse(nodes.begin(), nodes.end());
    schedule_.views.push_back({buffers_.at(v).id, v, nodes, operand});
    return static_cast<int32_t>(schedule_.views.size()) - 1;
  }

  /// An operand that must be contiguous: a reshape of memory that is, else memory of its own.
  int32_t dense_operand(ValueId operand) {
    std::vector<int32_t> nodes;
    ValueId v = operand;
    while (!buffers_.count(v) && kind(v) == PrimitiveKind::reshape) {
      nodes.push_back(g_.value(v).node);
      v = g_.node_of(v)->inputs[0];
    }
    auto it = buffers_.find(v);
    bool dense = it != buffers_.end() ? it->second.contiguous : is_product(v);
    if (!dense) {
      v = operand;
      nodes.clear();
      dense = buffers_.count(v) == 0;
    }
    if (!dense) {
      // Memory with gaps: the values are copied.
      auto [temporary, added] = dense_copies_.emplace(v, -1);
      if (added) {
        schedule_.temporaries.push_back({g_.value(v).dtype, elements(g_.value(v).shape)});
        temporary->second = static_cast<BufferId>(g_.values.size() + g_.outputs.size() +
                                                  schedule_.temporaries.size() - 1);
      }
      schedule_.views.push_back({temporary->second, v, {}, operand});
    } else {
      if (!buffers_.count(v)) give_memory(v);
      std::reverse(nodes.begin(), nodes.end());
      schedule_.views.push_back({buffers_.at(v).id, v, nodes, operand});
    }
    return static_cast<int32_t>(schedule_.views.size()) - 1;
  }

  SizeId elements(const Shape& shape) {
    SizeId n = schedule_.sizes.constant(1);
    for (SizeId s : shape) n = schedule_.sizes.binary(SizeOp::mul, n, s);
    return n;
  }

  bool is_product(ValueId v) const {
    return kind(v) == PrimitiveKind::dot || kind(v) == PrimitiveKind::convolution;
  }

  bool is_index_map(ValueId v) const {
    PrimitiveKind k = kind(v);
    return k == PrimitiveKind::broadcast || k == PrimitiveKind::permute ||
           k == PrimitiveKind::slice || k == PrimitiveKind::reshape;
  }

  bool only_ones_differ(const Shape& a, const Shape& b) const {
    auto significant = [&](const Shape& s) {
      Shape result;
      for (SizeId id : s) {
        if (!g_.sizes.is_value(id, 1)) result.push_back(id);
      }
      return result;
    };
    return significant(a) == significant(b);
  }

  bool is_root(ValueId v) const {
    if (fused_dots_.count(v)) return false;
    PrimitiveKind k = kind(v);
    if (g_.value(v).node < 0) return false;
    return buffers_.count(v) || k == PrimitiveKind::reduce || is_product(v);
  }

  Access identity_access(ValueId v) const {
    const Shape& shape = g_.value(v).shape;
    Access a(shape.size());
    for (size_t d = 0; d < a.size(); ++d)
      a[d] = g_.sizes.is_value(shape[d], 1) ? kFixed : static_cast<int>(d);
    return a;
  }

  /// A product whose only reader is one elementwise result over the same positions needs no memory.
  void find_epilogues() {
    std::map<ValueId, std::vector<ValueId>> readers;  // product -> roots that read it
    std::set<ValueId> direct;  // products that something but an elementwise root reads
    for (const OperandView& view : schedule_.views) direct.insert(view.base);
    std::map<ValueId, Access> access;
    for (const Node& n : g_.nodes) {
      for (ValueId v : n.outputs) {
        if (!is_root(v) || is_product(v)) continue;
        bool elementwise = kind(v) != PrimitiveKind::reduce && kind(v) != PrimitiveKind::put &&
                           kind(v) != PrimitiveKind::scan;
        walk(g_, v, identity_access(v), [&](ValueId u, const Access& a) {
          if (is_product(u)) {
            readers[u].push_back(v);
            if (!elementwise || readers[u].size() > 1) direct.insert(u);
            access[u] = a;
            return false;
          }
          return u == v || !is_root(u);
        });
      }
    }
    for (auto& [k, v] : copies_) {
      walk(g_, v, identity_access(v), [&](ValueId u, const Access&) {
        if (is_product(u)) direct.insert(u);
        return !is_root(u);
      });
    }
    for (auto& [dot, roots] : readers) {
      if (direct.count(dot) || buffers_.count(dot) || roots.size() != 1) continue;
      // Same positions, and nothing behind the product that is not in memory when the product runs.
      Access identity = identity_access(roots[0]), reached = access[dot];
      auto drop = [](Access a) {
        a.erase(std::remove(a.begin(), a.end(), kFixed), a.end());
        return a;
      };
      if (drop(identity) != drop(reached)) continue;
      bool ready = true;
      int32_t when = g_.value(dot).node;
      walk(g_, roots[0], identity, [&](ValueId u, const Access&) {
        if (u == dot || u == roots[0]) return u == roots[0];
        if (is_root(u)) {
          ready &= g_.value(u).node < when && !fused_roots_.count(u);
          return false;
        }
        return true;
      });
      if (!ready) continue;
      fused_dots_.insert(dot);
      fused_roots_[roots[0]] = dot;
    }
  }

  // Placement.

  struct Dependency {
    ValueId value;
    Access access;
  };

  std::vector<Dependency> dependencies(ValueId start, const Access& access, ValueId self) const {
    std::vector<Dependency> result;
    walk(g_, start, access, [&](ValueId u, const Access& a) {
      if (u != self && placed_.count(u)) {
        result.push_back({u, a});
        return false;
      }
      return true;
    });
    return result;
  }

  /// The first frame after `dependencies`, where those in a frame for which `local` holds may be in
  /// it.
  size_t earliest(const std::vector<Dependency>& dependencies, size_t frame,
                  const std::function<bool(const Dependency&)>& local) const {
    size_t first = 0;
    for (const Dependency& d : dependencies) {
      size_t at = placed_.at(d.value);
      first = std::max(first, at == frame && local(d) ? at : at + 1);
    }
    return first;
  }

  static Access kept_access(const Frame& f, const Graph& g) {
    Access a;
    for (size_t d = 0; d < f.full.size(); ++d) {
      if (!f.reduced[d]) a.push_back(g.sizes.is_value(f.full[d], 1) ? kFixed : static_cast<int>(d));
    }
    return a;
  }
  static Access full_access(const Frame& f, const Graph& g) {
    Access a;
    for (size_t d = 0; d < f.full.size(); ++d)
      a.push_back(g.sizes.is_value(f.full[d], 1) ? kFixed : static_cast<int>(d));
    return a;
  }

  /// Whether a dependency reached at `d.access` from the domain of frame `f` is of the same row.
  bool is_local(const Frame& f, const Dependency& d) const {
    if (f.kind != Frame::Kind::rows) return false;
    if (kind(d.value) == PrimitiveKind::reduce && is_row_result(f, d.value))
      return d.access == kept_access(f, g_);
    const Shape& shape = g_.value(d.value).shape;
    return d.access == (shape == f.full ? full_access(f, g_) : kept_access(f, g_));
  }
  bool is_row_result(const Frame& f, ValueId v) const {
    const Node& n = *g_.node_of(v);
    return g_.value(n.inputs[0]).shape == f.full && reduced_dims(n) == f.reduced;
  }

  std::vector<bool> reduced_dims(const Node& n) const {
    std::vector<bool> reduced(g_.value(n.inputs[0]).shape.size());
    for (size_t i = 1; i < n.attributes.ints.size(); ++i)
      reduced[static_cast<size_t>(n.attributes.ints[i])] = true;
    return reduced;
  }

  void put_in(size_t frame, Root root) {
    frames_[frame].frame.roots.push_back(root);
    placed_[root.value] = frame;
  }

  size_t new_frame(Frame f) {
    frames_.push_back({std::move(f), false, -1, {}});
    return frames_.size() - 1;
  }

  /// What was left in registers of an earlier frame needs memory now.
  void settle(const std::vector<Dependency>& dependencies, size_t frame) {
    for (const Dependency& d : dependencies) {
      size_t at = placed_.at(d.value);
      if (at == frame) continue;
      for (Root& r : frames_[at].frame.roots) {
        if (r.value == d.value && r.buffer < 0) {
          give_memory(d.value);
          r.buffer = d.value;
          r.layout = buffers_.at(d.value);
        }
      }
    }
  }

  void place(ValueId v) {
    const Node& n = *g_.node_of(v);
    auto found = buffers_.find(v);
    Root root{v, found == buffers_.end() ? -1 : found->second.id,
              found == buffers_.end() ? Buffer{-1, true, {}} : found->second};
    if (auto it = fused_roots_.find(v); it != fused_roots_.end()) {
      for (ValueId x : g_.node_of(it->second)->inputs) place_dense_copy(x);
      return place_product(it->second, {root});
    }
    switch (n.primitive->kind) {
      case PrimitiveKind::dot:
      case PrimitiveKind::convolution: {
        for (ValueId x : n.inputs) place_dense_copy(x);
        if (root.buffer < 0) {
          give_memory(v);
          root = {v, v, buffers_.at(v)};
        }
        return place_product(v, {root});
      }
      case PrimitiveKind::put: {
        // The first operand is copied into the result's memory, then positions are written.
        place_pointwise({n.inputs[0], root.buffer, root.layout}, v);
        Frame f{Frame::Kind::put,
                g_.value(v).shape,
                std::vector<bool>(g_.value(v).shape.size()),
                {root}};
        return place_alone(std::move(f), v, {n.inputs[1], n.inputs[2]});
      }
      case PrimitiveKind::scan: {
        Frame f{Frame::Kind::scan,
                g_.value(v).shape,
                std::vector<bool>(g_.value(v).shape.size()),
                {root}};
        return place_alone(std::move(f), v, {n.inputs[0]});
      }
      case PrimitiveKind::reduce:
        return place_reduction(v, root);
      default:
        return place_pointwise(root);
    }
  }

  void place_dense_copy(ValueId v) {
    auto it = dense_copies_.find(v);
    if (it == dense_copies_.end() || !placed_copies_.insert(v).second) return;
    place_pointwise({v, it->second, {it->second, true, {}}});
  }

  void place_alone(Frame f, ValueId v, const std::vector<ValueId>& operands) {
    size_t at = new_frame(std::move(f));
    for (ValueId x : operands) {
      auto deps = dependencies(x, Access(g_.value(x).shape.size(), kUnknown), v);
      if (placed_.count(x)) deps.push_back({x, {}});
      settle(deps, at);
    }
    placed_[v] = at;
  }

  void place_product(ValueId dot, std::vector<Root> epilogue) {
    frames_.push_back({{}, true, dot, epilogue});
    size_t at = frames_.size() - 1;
    for (const Root& r : epilogue) {
      settle(dependencies(r.value, identity_access(r.value), r.value), at);
      placed_[r.value] = at;
    }
    frames_[at].frame.roots = std::move(epilogue);
  }

  void place_reduction(ValueId v, Root root) {
    const Node& n = *g_.node_of(v);
    Frame f{Frame::Kind::rows, g_.value(n.inputs[0]).shape, reduced_dims(n), {}};
    bool everything = true;
    for (size_t d = 0; d < f.full.size(); ++d)
      everything &= f.reduced[d] || g_.sizes.is_value(f.full[d], 1);
    if (everything && f.reduced.back()) {
      f.kind = Frame::Kind::blocks;
      if (root.buffer < 0) {
        give_memory(v);
        root = {v, v, buffers_.at(v)};
      }
    }
    auto deps = dependencies(n.inputs[0], full_access(f, g_), v);
    size_t at = frames_.size();
    for (size_t i = 0; i < frames_.size() && at == frames_.size(); ++i) {
      const Placed& p = frames_[i];
      bool fits = !p.product && p.frame.kind == f.kind && p.frame.full == f.full &&
                  p.frame.reduced == f.reduced;
      if (fits && earliest(deps, i, [&](const Dependency& d) { return is_local(p.frame, d); }) <= i)
        at = i;
    }
    if (at == frames_.size()) at = new_frame(std::move(f));
    settle(deps, at);
    put_in(at, root);
  }

  /// `name`: the value that later reads find in this memory, if it is not the root's own.
  void place_pointwise(Root root, ValueId name = -1) {
    ValueId v = root.value;
    const Shape& shape = g_.value(v).shape;
    size_t at = frames_.size();
    std::vector<Dependency> chosen;
    for (size_t i = 0; i < frames_.size() && at == frames_.size(); ++i) {
      const Placed& p = frames_[i];
      if (p.product || p.frame.kind != Frame::Kind::rows) continue;
      bool reduces =
          std::find(p.frame.reduced.begin(), p.frame.reduced.end(), true) != p.frame.reduced.end();
      bool along = !p.frame.reduced.empty() && p.frame.reduced.back();
      bool full = p.frame.full == shape && (!reduces || along);
      Shape kept;
      for (size_t d = 0; d < p.frame.full.size(); ++d) {
        if (!p.frame.reduced[d]) kept.push_back(p.frame.full[d]);
      }
      bool of_row = reduces && !full && kept == shape;
      if (!full && !of_row) continue;
      auto deps =
          dependencies(v, full ? full_access(p.frame, g_) : kept_access(p.frame, g_),
                       root.buffer == (buffers_.count(v) ? buffers_.at(v).id : -1) ? v : -1);
      auto local = [&](const Dependency& d) { return is_local(p.frame, d); };
      if (earliest(deps, i, local) > i) continue;
      bool depends = std::any_of(deps.begin(), deps.end(),
                                 [&](const Dependency& d) { return placed_.at(d.value) == i; });
      if (reduces && !depends && of_row) continue;
      at = i;
      chosen = std::move(deps);
    }
    if (at == frames_.size()) {
      at = new_frame({Frame::Kind::rows, shape, std::vector<bool>(shape.size()), {}});
      chosen = dependencies(v, identity_access(v),
                            root.buffer == (buffers_.count(v) ? buffers_.at(v).id : -1) ? v : -1);
    }
    settle(chosen, at);
    frames_[at].frame.roots.push_back(root);
    if (name >= 0)
      placed_[name] = at;
    else if (!placed_.count(v) && g_.value(v).node >= 0)
      placed_[v] = at;
  }

  /// Reads of inputs and writes of results, frame by frame.
  void find_overwritable() {
    struct Read {
      size_t frame;
      bool same_place;
    };
    std::vector<std::vector<Read>> reads(g_.inputs.size());
    std::vector<size_t> written(g_.outputs.size(),
                                frames_.size());  // the first frame that writes a result
    std::map<ValueId, size_t> number;
    for (size_t i = 0; i < g_.inputs.size(); ++i) number[g_.inputs[i].value] = i;
    for (size_t f = 0; f < frames_.size(); ++f) {
      const Placed& p = frames_[f];
      if (p.product) {
        auto [left, right] = views_.at(p.dot);
        for (int32_t view : {left, right}) {
          if (auto it = number.find(schedule_.views[static_cast<size_t>(view)].base);
              it != number.end())
            reads[it->second].push_back({f, false});
        }
      }
      std::map<ValueId, Buffer> visible = buffers_of(p.frame);
      for (const Root& r : p.frame.roots) {
        if (r.buffer >= static_cast<BufferId>(g_.values.size())) {
          size_t k = static_cast<size_t>(r.buffer) - g_.values.size();
          if (k < written.size()) written[k] = std::min(written[k], f);
        }
        bool rows = !p.product && p.frame.kind == Frame::Kind::rows;
        const Node* n = g_.node_of(r.value);
        bool reduces =
            rows && n && n->primitive->kind == PrimitiveKind::reduce && visible.count(r.value) == 0;
        Access access = !rows ? Access(g_.value(r.value).shape.size(), kUnknown)
                        : reduces || g_.value(r.value).shape == p.frame.full
                            ? full_access(p.frame, g_)
                            : kept_access(p.frame, g_);
        walk(g_, reduces ? n->inputs[0] : r.value, access, [&](ValueId u, const Access& a) {
          auto it = number.find(u);
          if (it == number.end()) return visible.count(u) == 0;
          // A pass over a row may leave values in the memory of a result that a later pass needs.
          bool single_pass = std::find(p.frame.reduced.begin(), p.frame.reduced.end(), true) ==
                             p.frame.reduced.end();
          bool same_place = rows && single_pass && g_.value(u).shape == p.frame.full &&
                            a == full_access(p.frame, g_);
          reads[it->second].push_back({f, same_place});
          return false;
        });
      }
    }
    for (const auto& of_input : reads) {
      auto& row = schedule_.overwritable.emplace_back();
      for (size_t at : written) {
        row.push_back(std::all_of(of_input.begin(), of_input.end(), [&](const Read& r) {
          return r.frame < at || (r.frame == at && r.same_place);
        }));
      }
    }
  }

  // Emission.

  /// What is in memory when a frame runs: everything but its own roots.
  std::map<ValueId, Buffer> buffers_of(const Frame& f) const {
    std::map<ValueId, Buffer> visible = buffers_;
    for (const Root& r : f.roots) {
      auto it = visible.find(r.value);
      if (it != visible.end() && it->second.id == r.buffer) visible.erase(it);
    }
    return visible;
  }

  void emit() {
    bool open = false;
    for (const Placed& p : frames_) {
      if (p.product) {
        emit_product(p);
        open = false;
        continue;
      }
      if (!open) schedule_.steps.emplace_back();
      open = true;
      emit_frame(g_, p.frame, schedule_, schedule_.steps.back(), buffers_of(p.frame),
                 vector_bytes_);
    }
  }

  void emit_product(const Placed& p) {
    schedule_.steps.emplace_back();
    Step& step = schedule_.steps.back();
    auto [left, right] = views_.at(p.dot);
    step.left = left;
    step.right = right;
    auto slot = [&](Slot::Kind kind, int32_t a, int32_t b) { step.slots.push_back({kind, a, b}); };
    slot(Slot::Kind::view_pointer, left, 0);
    slot(Slot::Kind::view_pointer, right, 0);
    slot(Slot::Kind::scratch, 0, 0);
    slot(Slot::Kind::scratch, 1, 0);
    const Node& n = *g_.node_of(p.dot);
    DType operand = g_.value(n.inputs[0]).dtype;
    ProductSpec spec;
    spec.operand = prim::scalar_of(operand);
    spec.unsigned_operand = operand == DType::uint8;
    spec.accumulator = operand == DType::float64 ? loop::Scalar::f64
                       : operand == DType::int64 ? loop::Scalar::i64
                       : is_integer(operand)     ? loop::Scalar::i32
                                                 : loop::Scalar::f32;
    spec.vector_bytes = vector_bytes_;
    std::map<ValueId, Buffer> visible = buffers_of(p.frame);
    visible.erase(p.dot);
    Epilogue epilogue = [&](loop::Builder& builder, loop::Value value,
                            const std::vector<loop::Value>& place, loop::Value mask) {
      store_product(p, step, visible, builder, value, place, mask);
    };
    if (n.primitive->kind == PrimitiveKind::dot) {
      const Shape &a = g_.value(n.inputs[0]).shape, &b = g_.value(n.inputs[1]).shape;
      for (SizeId s : {a[0], a[1], b[2], a[2]}) slot(Slot::Kind::size, s, 0);
      slot(Slot::Kind::scratch, kTaskTiles, 0);
      for (int32_t d = 0; d < 3; ++d) slot(Slot::Kind::view_stride, left, d);
      for (int32_t d = 0; d < 3; ++d) slot(Slot::Kind::view_stride, right, d);
      for (int32_t i = kPanels; i < kMatmulSlots; ++i) slot(Slot::Kind::scratch, i, 0);
      step.product = build_matmul(step.module, spec, epilogue);
      return;
    }
    ConvolutionSpec convolution{spec,
                                n.primitive == &prim::kConv ? ConvolutionForm::forward
                                : n.primitive == &prim::kConvWeight
                                    ? ConvolutionForm::weight_by_inner
                                    : ConvolutionForm::weight_by_outer,
                                false,
                                {},
                                {},
                                {}};
    const auto& ints = n.attributes.ints;
    auto rank = static_cast<size_t>(ints[0]);
    auto list = [&](size_t which) {
      auto first = ints.begin() + 1 + static_cast<ptrdiff_t>(which * rank);
      return std::vector<int64_t>(first, first + static_cast<ptrdiff_t>(rank));
    };
    convolution.steps = list(0);
    convolution.dilations = list(1);
    convolution.taps = list(2);
    convolution.pairs = ints.back() != 0;
    const Shape &input = g_.value(n.inputs[0]).shape, &other = g_.value(n.inputs[1]).shape;
    bool forward = convolution.form == ConvolutionForm::forward,
         by_inner = convolution.form == ConvolutionForm::weight_by_inner;
    for (int32_t i = kBatch; i < kImages; ++i) slot(Slot::Kind::scratch, i, 0);
    slot(Slot::Kind::size, input[by_inner ? 1 : 0], 0);
    slot(Slot::Kind::size, input[by_inner ? 0 : 1], 0);
    slot(Slot::Kind::size, by_inner ? input.back() : input[2], 0);
    slot(Slot::Kind::size, forward ? other[1] : by_inner ? other[2] : other.back(), 0);
    SizeId one = schedule_.sizes.constant(1);
    size_t window = (by_inner ? 2 : 3) + rank, result = by_inner ? 3 : 2;
    for (size_t d = 0; d < 3; ++d) slot(Slot::Kind::size, d < rank ? input[window + d] : one, 0);
    for (size_t d = 0; d < 3; ++d) {
      SizeId s = d >= rank ? one : forward ? n.attributes.sizes[d] : other[result + d];
      slot(Slot::Kind::size, s, 0);
    }
    for (int32_t i = kLine; i < kConvolutionSlots; ++i) slot(Slot::Kind::scratch, i, 0);
    step.product = build_convolution(step.module, convolution, epilogue);
  }

  void store_product(const Placed& p, Step& step, const std::map<ValueId, Buffer>& visible,
                     loop::Builder& builder, loop::Value value,
                     const std::vector<loop::Value>& place, loop::Value mask) {
    Emitter e(builder, g_, schedule_, step, visible, builder.type(value).lanes);
    // Narrow integers were accumulated in 32 bits and wrap.
    loop::Scalar kept = prim::scalar_of(g_.value(p.dot).dtype);
    if (builder.type(value).scalar != kept) value = builder.cast(loop::Opcode::itrunc, value, kept);
    e.know(p.dot, {value, loop::kNone});
    e.has_some(mask);
    std::vector<Index> used;
    const Shape& shape = g_.value(p.dot).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!g_.sizes.is_value(shape[d], 1))
        used.push_back({place[d], d + 1 == shape.size() ? 1 : 0, loop::kNone});
    }
    std::vector<std::pair<const Root*, Indices>> stores;
    for (const Root& r : p.epilogue) {
      Indices at;
      size_t next = 0;
      for (SizeId s : g_.value(r.value).shape)
        at.push_back(g_.sizes.is_value(s, 1) ? e.zero() : used[next++]);
      stores.emplace_back(&r, at);
    }
    // One column is one lane in use.
    for (auto& [r, at] : stores) {
      Lanes x = e.value(r->value, at, mask);
      e.store(r->layout, r->value, at, x, mask);
    }
  }

  const Graph& g_;
  const std::vector<Layout>& input_layouts_;
  const std::vector<Layout>& output_layouts_;
  int vector_bytes_;
  Schedule schedule_;
  std::map<ValueId, Buffer> buffers_;
  std::vector<std::pair<size_t, ValueId>>
      copies_;  // results that repeat an input or another result
  std::map<ValueId, std::pair<int32_t, int32_t>> views_;
  std::map<ValueId, BufferId> dense_copies_;  // contiguous copies for convolutions
  std::set<ValueId> placed_copies_;
  std::set<ValueId> fused_dots_;
  std::map<ValueId, ValueId> fused_roots_;  // root -> product
  std::vector<Placed> frames_;
  std::map<ValueId, size_t> placed_;
};

}  // namespace

Schedule build_schedule(const Graph& graph, const std::vector<Layout>& inputs,
                        const std::vector<Layout>& outputs, int vector_bytes) {
  return Scheduler(graph, inputs, outputs, vector_bytes).run();
}

}  // namespace flambeau::kernel
