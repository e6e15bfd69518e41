#include <algorithm>
#include <atomic>
#include <mutex>

#include "flambeau/autograd/hooks.h"
#include "flambeau/autograd/state.h"
#include "flambeau/base/error.h"

namespace flambeau::autograd {

namespace {

std::atomic<uint64_t> sequence{0};
std::atomic<uint64_t> hook_ids{0};

struct AnomalyState {
  std::mutex mutex;
  Anomaly mode;
  std::function<std::string()> location;
  std::function<void(const std::string&)> report;
};
AnomalyState& anomaly_state() {
  static auto* state = new AnomalyState;  // nodes may outlive static destruction
  return *state;
}
std::atomic<bool> anomaly_enabled{false};

struct Waiting {
  std::vector<NodePointer> nodes;
  std::vector<std::unique_ptr<ViewInfo>> views;
};
// What waits to be released on this thread; null while nothing is being released.
thread_local Waiting* waiting = nullptr;

/// Releases one object, then what its destruction and that of the following ones put on the list:
/// the depth of the stack does not grow with the tape.
template <class P>
void release_all(P first) {
  Waiting list;
  waiting = &list;
  first.reset();
  while (!list.nodes.empty() || !list.views.empty()) {
    if (!list.nodes.empty()) {
      NodePointer next = std::move(list.nodes.back());
      list.nodes.pop_back();
      next.reset();
    } else {
      std::unique_ptr<ViewInfo> next = std::move(list.views.back());
      list.views.pop_back();
      next.reset();
    }
  }
  waiting = nullptr;
}

template <class Entries>
bool remove_from(Entries& entries, uint64_t id) {
  auto it =
      std::find_if(entries.begin(), entries.end(), [id](const auto& e) { return e.id == id; });
  if (it == entries.end()) return false;
  entries.erase(it);
  return true;
}

}  // namespace

void release_node(NodePointer node) {
  if (!node) return;
  if (node.use_count() > 1)
    node.reset();
  else if (waiting)
    waiting->nodes.push_back(std::move(node));
  else
    release_all(std::move(node));
}

void release_view(std::unique_ptr<ViewInfo> view) {
  if (!view) return;
  if (waiting)
    waiting->views.push_back(std::move(view));
  else
    release_all(std::move(view));
}

Node::Node() : sequence_number_(sequence.fetch_add(1, std::memory_order_relaxed)) {
  if (!anomaly_enabled.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::function<std::string()> location;
  {
    std::lock_guard lock(anomaly_state().mutex);
    location = anomaly_state().location;
  }
  if (location) location_ = std::make_unique<std::string>(location());
}

Node::~Node() {
  for (auto& edge : edges_) release_node(std::move(edge.node));
}

Hooks& Node::make_hooks() {
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  return *hooks_;
}

void clear(Node& node) {
  node.release();
  std::vector<Edge> edges = std::move(node.edges_);
  node.edges_.clear();
  node.hooks_.reset();
  for (auto& edge : edges) release_node(std::move(edge.node));
}

void visit_hooks(const Node& node, const std::function<void(const Hook&)>& hook,
                 const std::function<void(const NodePreHook&)>& before,
                 const std::function<void(const NodeHook&)>& after) {
  if (!node.hooks()) return;
  for (const auto& e : node.hooks()->tensor) hook(e.hook);
  for (const auto& e : node.hooks()->before) before(e.hook);
  for (const auto& e : node.hooks()->after) after(e.hook);
}

uint64_t next_hook_id() { return hook_ids.fetch_add(1, std::memory_order_relaxed); }

bool Hooks::remove(uint64_t id) {
  return remove_from(tensor, id) || remove_from(before, id) || remove_from(after, id) ||
         remove_from(accumulated, id);
}

uint64_t add_hook(Node& node, NodeHook hook) {
  uint64_t id = next_hook_id();
  node.make_hooks().after.push_back({id, std::move(hook)});
  return id;
}

uint64_t add_pre_hook(Node& node, NodePreHook hook) {
  uint64_t id = next_hook_id();
  node.make_hooks().before.push_back({id, std::move(hook)});
  return id;
}

void remove_hook(Node& node, uint64_t id) {
  if (node.hooks()) node.hooks()->remove(id);
}

void run_tensor_hooks(const Hooks& hooks, std::vector<Tensor>& cotangents) {
  // A hook may add or remove hooks: the list of this pass is that of its start.
  for (const auto& entry : std::vector(hooks.tensor)) {
    Tensor& g = cotangents[static_cast<size_t>(entry.result)];
    if (!g.defined()) continue;
    Tensor replaced = entry.hook(g);
    if (!replaced.defined()) continue;
    check(replaced.sizes() == g.sizes(), ErrorKind::runtime,
          "hook has changed the size of value: from ", g.sizes(), " to ", replaced.sizes());
    g = replaced;
  }
  for (const auto& [result, slot] : hooks.retained) {
    const Tensor& g = cotangents[static_cast<size_t>(result)];
    // With one owner the tensor that retains is gone.
    if (!g.defined() || slot.use_count() == 1) continue;
    slot->grad = slot->grad.defined() ? add_gradients(slot->grad, g, g.requires_grad()) : g;
  }
}

Anomaly anomaly() {
  std::lock_guard lock(anomaly_state().mutex);
  return anomaly_state().mode;
}

void set_anomaly(Anomaly mode) {
  std::lock_guard lock(anomaly_state().mutex);
  anomaly_state().mode = mode;
  anomaly_enabled.store(mode.enabled, std::memory_order_relaxed);
}

void set_anomaly_callbacks(std::function<std::string()> location,
                           std::function<void(const std::string&)> report) {
  std::lock_guard lock(anomaly_state().mutex);
  anomaly_state().location = std::move(location);
  anomaly_state().report = std::move(report);
}

bool anomaly_mode_on() { return anomaly_enabled.load(std::memory_order_relaxed); }

void report_anomaly(const Node& node) {
  std::function<void(const std::string&)> report;
  {
    std::lock_guard lock(anomaly_state().mutex);
    report = anomaly_state().report;
  }
  if (!report) return;
  std::string where = node.location();
  report(where.empty() ? text("Error detected in ", node.name(),
                              ". No forward pass information available. Enable "
                              "detect anomaly during forward pass for more information.")
                       : text("Error detected in ", node.name(),
                              ". Traceback of forward call that caused the error:\n", where));
}

}  // namespace flambeau::autograd
