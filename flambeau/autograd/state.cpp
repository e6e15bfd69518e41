#include "flambeau/autograd/state.h"

#include <algorithm>
#include <array>

#include "flambeau/autograd/nodes.h"
#include "flambeau/base/error.h"

namespace flambeau::autograd {

namespace {

std::string printed_size(const Dims& sizes) { return text("'", sizes, "'"); }

void check_floating(DType dtype) {
  check(is_inexact(dtype), ErrorKind::runtime,
        "only Tensors of floating point and complex dtype can require gradients, got ", dtype);
}

/// Takes the slot of a retained gradient from the node that writes it.
void forget_slot(AutogradState& state) {
  if (!state.retains || !state.grad_fn || !state.grad_fn->hooks()) return;
  auto& retained = state.grad_fn->hooks()->retained;
  std::erase_if(retained, [&](const auto& r) { return r.second == state.slot; });
}

void attach_slot(AutogradState& state) {
  if (!state.retains || !state.grad_fn) return;
  state.grad_fn->make_hooks().retained.emplace_back(state.output_number, state.slot);
}

GradientSlot& slot_of(AutogradState& state) {
  if (!state.slot) state.slot = std::make_shared<GradientSlot>();
  return *state.slot;
}

/// The hooks on the cotangent of a tensor that requires one, and which result it is.
std::pair<std::shared_ptr<Hooks>, int32_t> hooks_of(const Tensor& t) {
  AutogradState& state = make_state(t);
  NodePointer node = grad_fn(t);
  if (!node) return {leaf_hooks(t), 0};
  node->make_hooks();
  const auto& hooks = node->hooks();
  if (std::find(state.hooks.begin(), state.hooks.end(), hooks) == state.hooks.end())
    state.hooks.push_back(hooks);
  return {hooks, state.output_number};
}

}  // namespace

AutogradState& make_state(const Tensor& t) {
  TensorImpl& impl = *t.impl();
  if (!impl.gradient) impl.gradient = std::make_unique<AutogradState>();
  return static_cast<AutogradState&>(*impl.gradient);
}

std::mutex& state_mutex(const TensorImpl* t) {
  static auto* mutexes = new std::array<std::mutex, 64>;
  return (*mutexes)[reinterpret_cast<uintptr_t>(t) / sizeof(TensorImpl) % mutexes->size()];
}

std::shared_ptr<Hooks> leaf_hooks(const Tensor& t) {
  AutogradState& state = make_state(t);
  std::lock_guard lock(state_mutex(t.impl()));
  if (state.hooks.empty()) {
    state.hooks.push_back(std::make_shared<Hooks>());
    if (NodePointer node = state.accumulator.lock())
      static_cast<AccumulateNode&>(*node).share_hooks(state.hooks[0]);
  }
  return state.hooks[0];
}

void replace_history(const Tensor& t, NodePointer node, int32_t index) {
  AutogradState& state = make_state(t);
  forget_slot(state);
  NodePointer old = std::move(state.grad_fn);
  state.requires_grad = true;
  state.grad_fn = std::move(node);
  state.output_number = index;
  attach_slot(state);
  release_node(std::move(old));
}

bool requires_grad(const Tensor& t) { return t.requires_grad(); }

void set_requires_grad(const Tensor& t, bool value) {
  if (value) check_floating(t.dtype());
  if (value == t.requires_grad()) return;
  check(is_leaf(t), ErrorKind::runtime,
        "you can only change requires_grad flags of leaf variables.",
        value ? ""
              : " If you want to use a computed variable in a subgraph that doesn't require "
                "differentiation use "
                "var_no_grad = var.detach().");
  AutogradState& state = make_state(t);
  state.requires_grad = value;
  if (!value) state.base = nullptr;
}

NodePointer grad_fn(const Tensor& t) {
  AutogradState* state = find_state(t);
  if (!state) return nullptr;
  if (state->view) renew_view(t);
  return state->grad_fn;
}

const NodePointer& stored_grad_fn(const Tensor& t) {
  static const NodePointer none;
  AutogradState* state = find_state(t);
  return state ? state->grad_fn : none;
}

bool is_leaf(const Tensor& t) { return !grad_fn(t); }

int32_t output_number(const Tensor& t) {
  NodePointer node = grad_fn(t);
  return node ? find_state(t)->output_number : 0;
}

Edge gradient_edge(const Tensor& t) {
  if (!t.requires_grad()) return {};
  if (NodePointer node = grad_fn(t)) return {std::move(node), find_state(t)->output_number};
  AutogradState& state = *find_state(t);
  std::lock_guard lock(state_mutex(t.impl()));
  NodePointer node = state.accumulator.lock();
  if (!node) {
    auto made = std::make_shared<AccumulateNode>(t);
    if (!state.hooks.empty()) made->share_hooks(state.hooks[0]);
    state.accumulator = made;
    node = std::move(made);
  }
  return {std::move(node), 0};
}

void set_history(const Tensor& t, NodePointer node, int32_t index) {
  check_floating(t.dtype());
  replace_history(t, std::move(node), index);
  AutogradState& state = *find_state(t);
  if (state.view) state.history_version = t.storage().version();
}

Tensor grad(const Tensor& t) {
  AutogradState* state = find_state(t);
  return state && state->slot ? state->slot->grad : Tensor();
}

void set_grad(const Tensor& t, const Tensor& grad) {
  if (!grad.defined()) {
    AutogradState* state = find_state(t);
    if (state && state->slot) state->slot->grad = Tensor();
    return;
  }
  check(!grad.same(t), ErrorKind::runtime, "can't assign Variable as its own grad");
  check(grad.dtype() == t.dtype(), ErrorKind::runtime,
        "attempting to assign a gradient with dtype '", grad.dtype(),
        "' to a tensor with grad_dtype '", t.dtype(),
        "'. The gradient must match the tensor's dtype.");
  check(grad.device().type == t.device().type, ErrorKind::runtime,
        "attempting to assign a gradient with device type '", grad.device(),
        "' to a tensor with device type '", t.device(),
        "'. Please ensure that the gradient and the tensor are on the same device");
  check(grad.sizes() == t.sizes(), ErrorKind::runtime, "attempting to assign a gradient of size ",
        printed_size(grad.sizes()), " to a tensor of size ", printed_size(t.sizes()),
        ". Please ensure that the gradient and the tensor are the same size");
  slot_of(make_state(t)).grad = grad;
}

void retain_grad(const Tensor& t) {
  check(t.requires_grad(), ErrorKind::runtime,
        "can't retain_grad on Tensor that has requires_grad=False");
  if (is_leaf(t)) return;
  AutogradState& state = *find_state(t);
  if (state.retains) return;
  slot_of(state);
  state.retains = true;
  attach_slot(state);
}

bool retains_grad(const Tensor& t) {
  AutogradState* state = find_state(t);
  return state && state->retains && state->grad_fn;
}

Tensor detach(const Tensor& t) { return view_tensor(t, t.sizes(), t.strides(), t.offset()); }

void detach_in_place(const Tensor& t) {
  AutogradState* state = find_state(t);
  if (!state) return;
  check(!state->view, ErrorKind::runtime, "Can't detach views in-place. Use detach() instead.");
  forget_slot(*state);
  state->retains = false;
  state->requires_grad = false;
  state->output_number = 0;
  release_node(std::move(state->grad_fn));
}

Tensor view_base(const Tensor& t) {
  AutogradState* state = find_state(t);
  return state && state->view ? state->view->base : Tensor();
}

uint64_t add_hook(const Tensor& t, Hook hook) {
  check(t.requires_grad(), ErrorKind::runtime,
        "cannot register a hook on a tensor that doesn't require gradient");
  auto [hooks, result] = hooks_of(t);
  uint64_t id = next_hook_id();
  hooks->tensor.push_back({id, std::move(hook), result});
  return id;
}

uint64_t add_post_accumulate_hook(const Tensor& t, std::function<void(const Tensor&)> hook) {
  check(t.requires_grad(), ErrorKind::runtime,
        "cannot register a hook on a tensor that doesn't require gradient");
  check(is_leaf(t), ErrorKind::runtime,
        "post accumulate grad hooks cannot be registered on non-leaf tensors");
  uint64_t id = next_hook_id();
  leaf_hooks(t)->accumulated.push_back({id, std::move(hook)});
  return id;
}

void remove_hook(const Tensor& t, uint64_t id) {
  AutogradState* state = find_state(t);
  if (!state) return;
  for (const auto& hooks : state->hooks) {
    if (hooks->remove(id)) return;
  }
}

void visit_hooks(const Tensor& t, const std::function<void(const Hook&)>& visit) {
  AutogradState* state = find_state(t);
  if (!state) return;
  for (const auto& hooks : state->hooks) {
    for (const auto& e : hooks->tensor) visit(e.hook);
  }
}

void visit_state(const Tensor& t, const std::function<void(const Tensor&)>& visit) {
  AutogradState* state = find_state(t);
  if (!state) return;
  if (state->slot && state->slot->grad.defined()) visit(state->slot->grad);
  if (state->view) visit(state->view->base);
}

void clear(const Tensor& t) {
  AutogradState* state = find_state(t);
  if (!state) return;
  forget_slot(*state);
  state->retains = false;
  state->slot.reset();
  state->hooks.clear();
  state->base = nullptr;
  release_node(std::move(state->grad_fn));
  release_view(std::move(state->view));
}

}  // namespace flambeau::autograd
