// Operator calls: the key of a call finds its program; a program is traced on first use.
#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "flambeau/base/error.h"
#include "flambeau/graph/trace.h"
#include "flambeau/run/deferred.h"
#include "flambeau/run/executable.h"
#include "flambeau/run/operator.h"
#include "flambeau/run/program.h"

namespace flambeau {

using graph::Trace;
using run::Operand;
using run::ProgramPointer;

namespace {

/// Everything about a call that is structure, as bytes.
class Key {
 public:
  explicit Key(std::string& bytes) : bytes_(bytes) { bytes_.clear(); }
  template <class T>
  void add(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const Tensor& t) {
    if (!t.defined()) return add(char{0});
    add(static_cast<char>(1 + static_cast<int>(t.dtype())));
    add(static_cast<char>(t.dim()));
    for (int64_t d = 0; d < t.dim(); ++d) add(static_cast<char>(t.size(d) == 1));
  }
  void add(const Argument& a) {
    add(static_cast<char>(a.index()));
    std::visit([this](const auto& v) { add_value(v); }, a);
  }

 private:
  void add_value(std::monostate) {}
  void add_value(const Tensor& t) { add(t); }
  void add_value(const TensorList& list) {
    add(list.size());
    for (const Tensor& t : list) add(t);
  }
  void add_value(bool v) { add(v); }
  void add_value(Dim v) { add(v.value); }
  void add_value(Size) {}
  void add_value(const DimList& v) {
    add(v.size());
    for (int64_t d : v) add(d);
  }
  void add_value(const Sizes& v) { add(v.size()); }
  void add_value(const Number& v) { add(static_cast<char>(v.kind())); }
  void add_value(DType v) { add(static_cast<char>(v)); }
  void add_value(const std::string& v) {
    add(v.size());
    bytes_ += v;
  }
  void add_value(Device v) { add(static_cast<char>(v.type)); }

  std::string& bytes_;
};

DType input_dtype(const Number& n) {
  switch (n.kind()) {
    case Scalar::Kind::boolean:
      return DType::boolean;
    case Scalar::Kind::integer:
      return DType::int64;
    case Scalar::Kind::real:
      return DType::float64;
    case Scalar::Kind::complex:
      return DType::complex128;
  }
  return DType::int64;
}

/// What a traced body returned, by kind.
struct ResultKind {
  bool list = false;
  size_t count = 1;
};

struct Traced {
  ProgramPointer program;
  ResultKind result;
};

/// A number that its schema gives as the default is structure, so that a factor of 1 costs nothing;
/// the results are the same.
bool is_default(const Operator& op, size_t i, const Number& n) {
  const SchemaArgument& a = op.schema().arguments[i];
  const auto* given = a.has_default ? std::get_if<Number>(&a.default_value) : nullptr;
  if (!given || given->kind() != n.kind()) return false;
  switch (n.kind()) {
    case Scalar::Kind::complex:
      return false;
    case Scalar::Kind::real:
      return std::bit_cast<int64_t>(given->scalar().real()) ==
             std::bit_cast<int64_t>(n.scalar().real());
    default:
      return given->scalar().integer() == n.scalar().integer();
  }
}

/// Puts inputs in the place of data: tensors, numbers and sizes, in the order of the arguments.
std::vector<Argument> trace_arguments(Trace& trace, const Operator& op,
                                      const std::vector<Argument>& arguments) {
  std::vector<Argument> traced;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (const auto* t = std::get_if<Tensor>(&a)) {
      traced.emplace_back(t->defined() ? trace.add_tensor_input(t->dtype(), t->sizes()) : Tensor());
    } else if (const auto* list = std::get_if<TensorList>(&a)) {
      TensorList inputs;
      for (const Tensor& x : *list)
        inputs.push_back(x.defined() ? trace.add_tensor_input(x.dtype(), x.sizes()) : Tensor());
      traced.emplace_back(std::move(inputs));
    } else if (const auto* n = std::get_if<Number>(&a); n && !is_default(op, i, *n)) {
      traced.emplace_back(Number(n->scalar(), trace.add_number_input(input_dtype(*n))));
    } else if (const auto* s = std::get_if<Size>(&a)) {
      traced.emplace_back(trace.add_size_input(s->value));
    } else if (const auto* sizes = std::get_if<Sizes>(&a)) {
      Sizes inputs;
      for (Size x : *sizes) inputs.push_back(trace.add_size_input(x.value));
      traced.emplace_back(std::move(inputs));
    } else {
      traced.push_back(a);
    }
  }
  return traced;
}

void flatten(const Operator& op, const std::vector<Argument>& arguments,
             std::vector<Operand>& operands, std::vector<int64_t>& sizes) {
  operands.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (const auto* t = std::get_if<Tensor>(&a)) {
      if (t->defined()) operands.emplace_back(*t);
    } else if (const auto* list = std::get_if<TensorList>(&a)) {
      for (const Tensor& x : *list) {
        if (x.defined()) operands.emplace_back(x);
      }
    } else if (const auto* n = std::get_if<Number>(&a)) {
      if (!is_default(op, i, *n)) operands.emplace_back(n->scalar());
    } else if (const auto* s = std::get_if<Size>(&a)) {
      sizes.push_back(s->value);
    } else if (const auto* list_of_sizes = std::get_if<Sizes>(&a)) {
      for (Size x : *list_of_sizes) sizes.push_back(x.value);
    }
  }
}

/// An operator's own derivative rule as a program's: the arguments are rebuilt around the traced
/// inputs.
run::Program::Rule program_rule(const Operator& op, const std::vector<Argument>& arguments) {
  if (!op.rule) return nullptr;
  // Only structure is kept of the arguments; tensors, numbers and sizes are replaced at each use.
  std::vector<Argument> structure = arguments;
  for (Argument& a : structure) {
    if (auto* t = std::get_if<Tensor>(&a); t && t->defined())
      a = Tensor(new TensorImpl);
    else if (auto* list = std::get_if<TensorList>(&a)) {
      for (Tensor& x : *list) x = x.defined() ? Tensor(new TensorImpl) : Tensor();
    }
  }
  std::vector<bool> constant;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* n = std::get_if<Number>(&arguments[i]);
    constant.push_back(n && is_default(op, i, *n));
  }
  return [rule = op.rule, structure, constant](const std::vector<Tensor>& inputs,
                                               const std::vector<Tensor>& results,
                                               const std::vector<Tensor>& cotangents) {
    std::vector<Argument> traced = structure;
    size_t next = 0;
    std::vector<bool> is_tensor;
    for (Argument& a : traced) {
      if (auto* t = std::get_if<Tensor>(&a)) {
        if (t->defined()) {
          *t = inputs[next++];
          is_tensor.push_back(true);
        }
      } else if (auto* list = std::get_if<TensorList>(&a)) {
        for (Tensor& x : *list) {
          if (!x.defined()) continue;
          x = inputs[next++];
          is_tensor.push_back(true);
        }
      } else if (auto* n = std::get_if<Number>(&a);
                 n && !constant[static_cast<size_t>(&a - traced.data())]) {
        a = Number(n->scalar(), inputs[next++]);
        is_tensor.push_back(false);
      }
    }
    std::vector<Tensor> by_tensor = rule(traced, results, cotangents), by_input;
    size_t t = 0;
    for (bool tensor : is_tensor) by_input.push_back(tensor ? by_tensor[t++] : Tensor());
    return by_input;
  };
}

Traced trace_body(const Operator& op, const std::vector<Argument>& arguments) {
  Trace trace;
  std::vector<Argument> traced = trace_arguments(trace, op, arguments);
  Argument result;
  op.run_body(traced.data(), &result);
  Traced made;
  auto output = [&](const Tensor& t) {
    internal_check(t.defined() && t.traced(), op.schema().names[0],
                   ": the body returned a tensor that is not traced");
    trace.add_output(t);
  };
  if (const auto* t = std::get_if<Tensor>(&result)) {
    output(*t);
  } else {
    const auto& list = std::get<TensorList>(result);
    made.result = {true, list.size()};
    for (const Tensor& t : list) output(t);
  }
  graph::Graph g = graph::simplify(trace.graph());
  made.program = std::make_shared<run::Program>(op.schema().names[0], std::move(g),
                                                trace.input_sizes(), program_rule(op, arguments));
  return made;
}

struct Entry {
  std::mutex mutex;
  std::deque<Traced> variants;                    // with different guards; only grows
  std::atomic<const Traced*> unguarded{nullptr};  // the one that always holds
};

class ProgramCache {
 public:
  const Traced& find(const Operator& op, const std::vector<Argument>& arguments,
                     const std::vector<Operand>& operands, const std::vector<int64_t>& sizes) {
    thread_local std::string bytes;
    Key key(bytes);
    key.add(&op);
    key.add(static_cast<char>(default_dtype()));
    for (size_t i = 0; i < arguments.size(); ++i) {
      key.add(arguments[i]);
      if (const auto* n = std::get_if<Number>(&arguments[i])) key.add(is_default(op, i, *n));
    }
    Entry& entry = entry_of(bytes);
    if (const Traced* t = entry.unguarded.load(std::memory_order_acquire)) return *t;
    std::lock_guard lock(entry.mutex);
    for (const Traced& t : entry.variants) {
      if (t.program->graph().guards.empty() ||
          t.program->holds(t.program->evaluate_sizes(operands, sizes)))
        return t;
    }
    const Traced& made = entry.variants.emplace_back(trace_body(op, arguments));
    if (made.program->graph().guards.empty())
      entry.unguarded.store(&made, std::memory_order_release);
    return made;
  }

 private:
  Entry& entry_of(const std::string& key) {
    thread_local std::unordered_map<std::string, Entry*> local;
    if (auto it = local.find(key); it != local.end()) return *it->second;
    Entry* entry;
    {
      std::lock_guard lock(mutex_);
      auto& shared = entries_[key];
      if (!shared) shared = std::make_unique<Entry>();
      entry = shared.get();
    }
    if (local.size() > kLocalEntries) local.clear();
    local.emplace(key, entry);
    return *entry;
  }

  static constexpr size_t kLocalEntries = 8192;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;
};

ProgramCache& programs() {
  static auto* cache = new ProgramCache;
  return *cache;
}

struct Prepared {
  const Traced* traced;
  std::vector<Operand> operands;
  std::vector<int64_t> sizes;
};

Prepared prepare(const Operator& op, const std::vector<Argument>& arguments) {
  Prepared p;
  flatten(op, arguments, p.operands, p.sizes);
  p.traced = &programs().find(op, arguments, p.operands, p.sizes);
  return p;
}

/// A tensor with the sizes and dtype of `t` and no memory.
Tensor shape_of(const Tensor& t) {
  auto* impl = new TensorImpl;
  Tensor shape(impl);
  impl->sizes = t.sizes();
  impl->strides = t.strides();
  impl->dtype = t.dtype();
  impl->device = t.device();
  impl->refresh();
  return shape;
}

Argument package(const ResultKind& kind, std::vector<Tensor> results) {
  if (!kind.list) return Argument(std::move(results[0]));
  return Argument(TensorList(std::move(results)));
}

bool records(const Tensor& t) {
  return run::gradients_enabled() && run::recorder() && t.requires_grad();
}

bool any_requires_grad(const std::vector<Operand>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Operand& o) {
    const auto* t = std::get_if<Tensor>(&o);
    return t && t->requires_grad();
  });
}

/// "result type Float can't be cast to the desired output type Long": a result may only go to its
/// own or a higher category.
void check_result_type(const char* name, DType result, DType wanted) {
  check(category(result) <= category(wanted), ErrorKind::runtime, name, ": result type ", result,
        " can't be cast to the desired output type ", wanted);
}

}  // namespace

Argument call(const Operator& op, std::vector<Argument> arguments) {
  if (Trace::current() || op.kind() == BodyKind::direct) {
    Argument result;
    op.run_body(arguments.data(), &result);
    return result;
  }
  if (op.kind() == BodyKind::view) {
    std::vector<Argument> given = arguments;
    Argument result;
    op.run_body(arguments.data(), &result);
    const Tensor& base = std::get<Tensor>(given[0]);
    const Tensor& view = std::get<Tensor>(result);
    if (run::recorder() && !view.same(base)) {
      Prepared p;
      flatten(op, given, p.operands, p.sizes);
      // The program is found by structure: what finds it must not keep the base alive, which may
      // come to keep it.
      std::vector<Argument> structure = given;
      std::vector<Operand> shapes = p.operands;
      for (Argument& a : structure) {
        if (auto* t = std::get_if<Tensor>(&a); t && t->defined()) *t = shape_of(*t);
      }
      for (Operand& o : shapes) {
        if (auto* t = std::get_if<Tensor>(&o)) *t = shape_of(*t);
      }
      auto program = [&op, structure, shapes, sizes = p.sizes] {
        return programs().find(op, structure, shapes, sizes).program;
      };
      run::recorder()->record_view(base, view, program, p.operands, p.sizes);
    }
    return result;
  }
  Prepared p = prepare(op, arguments);
  return package(p.traced->result, run::execute_recorded(p.traced->program, p.operands, p.sizes));
}

namespace {

/// A write in place that the tape knows about while this lives.
class Write {
 public:
  Write(const Tensor& target, const char* name) {
    if (run::recorder()) run::recorder()->check_write(target, name);
  }
  ~Write() {
    if (run::recorder()) run::recorder()->end_write();
  }
  Write(const Write&) = delete;
};

}  // namespace

Tensor call_inplace(const Operator& op, std::vector<Argument> arguments) {
  Tensor self = std::get<Tensor>(arguments[0]);
  std::string name = op.schema().names[0] + "_";
  internal_check(!Trace::current(), name, ": tensors are not written to while a body is traced");
  if (op.kind() == BodyKind::view) {
    Write write(self, name.c_str());
    bool recorded = records(self);
    Tensor view = std::get<Tensor>(call(op, std::move(arguments)));
    run::flush();  // what is recorded names this tensor with its present sizes
    TensorImpl* to = self.impl();
    to->sizes = view.sizes();
    to->strides = view.strides();
    to->offset = view.offset();
    to->refresh();
    if (recorded) run::recorder()->record_write(self, view);
    return self;
  }
  check(!has_internal_overlap(self), ErrorKind::runtime, name,
        ": unsupported operation: more than one element of the written-to tensor refers to a "
        "single memory location. "
        "Please clone() the tensor before performing the operation.");
  Write write(self, name.c_str());
  auto check_shape = [&](const Dims& sizes) {
    check(sizes == self.sizes(), ErrorKind::runtime, name, ": output with shape ", self.sizes(),
          " doesn't match the broadcast shape ", sizes);
  };
  if (op.kind() == BodyKind::direct) {
    Tensor result = std::get<Tensor>(call(op, std::move(arguments)));
    check_shape(result.sizes());
    check_result_type(name.c_str(), result.dtype(), self.dtype());
    run::copy_into(self, result);
    self.storage().raise_version();
    if (run::gradients_enabled() && run::recorder() &&
        (result.requires_grad() || self.requires_grad()))
      run::recorder()->record_write(self, result);
    return self;
  }
  Prepared p = prepare(op, arguments);
  const graph::Graph& g = p.traced->program->graph();
  graph::ValueId output = g.outputs[0];
  DType result_dtype = g.value(output).dtype;
  check_result_type(name.c_str(), result_dtype, self.dtype());
  std::vector<int64_t> sizes = p.traced->program->evaluate_sizes(p.operands, p.sizes);
  Dims result_sizes;
  for (graph::SizeId s : g.value(output).shape)
    result_sizes.push_back(sizes[static_cast<size_t>(s)]);
  check_shape(result_sizes);
  bool recorded = run::gradients_enabled() && run::recorder() && any_requires_grad(p.operands);
  if (!recorded && result_dtype == self.dtype() && g.outputs.size() == 1) {
    run::execute(p.traced->program, p.operands, p.sizes, {self});
  } else {
    std::vector<Tensor> results = run::execute_recorded(p.traced->program, p.operands, p.sizes);
    run::copy_into(self, results[0]);
    self.storage().raise_version();
    if (recorded || records(self)) run::recorder()->record_write(self, results[0]);
    return self;
  }
  self.storage().raise_version();
  return self;
}

void call_into(const Operator& op, const std::vector<Argument>& arguments,
               const std::vector<Tensor>& destinations) {
  Prepared p = prepare(op, arguments);
  std::string name = op.schema().names[0];
  const graph::Graph& g = p.traced->program->graph();
  internal_check(g.outputs.size() == destinations.size(), name, ": ", g.outputs.size(),
                 " results for ", destinations.size(), " destinations");
  std::vector<int64_t> sizes = p.traced->program->evaluate_sizes(p.operands, p.sizes);
  for (size_t k = 0; k < destinations.size(); ++k) {
    const graph::Value& v = g.value(g.outputs[k]);
    const Tensor& t = destinations[k];
    Dims wanted;
    for (graph::SizeId s : v.shape) wanted.push_back(sizes[static_cast<size_t>(s)]);
    check(t.dtype() == v.dtype && t.sizes() == wanted, ErrorKind::runtime, name, ": expected a ",
          v.dtype, " tensor of shape ", wanted, " to write to, got ", t.dtype(), " ", t.sizes());
    check(!has_internal_overlap(t), ErrorKind::runtime, name,
          ": unsupported operation: more than one element of the written-to tensor refers to a "
          "single memory location. "
          "Please clone() the tensor before performing the operation.");
  }
  run::execute(p.traced->program, p.operands, p.sizes, destinations);
  for (const Tensor& t : destinations) t.storage().raise_version();
}

std::vector<Tensor> call_out(const Operator& op, std::vector<Argument> arguments,
                             std::vector<Tensor> out) {
  std::string name = op.schema().names[0];
  Argument boxed;
  {
    Prepared p;
    flatten(op, arguments, p.operands, p.sizes);
    bool differentiated = run::gradients_enabled() && any_requires_grad(p.operands);
    for (const Tensor& t : out) differentiated |= run::gradients_enabled() && t.requires_grad();
    check(!differentiated, ErrorKind::runtime, name,
          "(): functions with out=... arguments don't support automatic differentiation, but one "
          "of the arguments requires grad.");
  }
  for (const Tensor& t : out) {
    check(!has_internal_overlap(t), ErrorKind::runtime, name,
          ": unsupported operation: more than one element of the written-to tensor refers to a "
          "single memory location. "
          "Please clone() the tensor before performing the operation.");
  }
  std::vector<Tensor> results;
  auto resize = [&](const Tensor& t, const Dims& sizes) {
    if (t.sizes() == sizes) return;
    run::flush();
    TensorImpl* impl = t.impl();
    int64_t needed = checked_numel(sizes);
    impl->sizes = sizes;
    impl->strides = contiguous_strides(sizes);
    impl->refresh();
    auto bytes = static_cast<size_t>((impl->offset + needed) * itemsize(impl->dtype));
    if (bytes > impl->storage->bytes()) {
      impl->offset = 0;
      impl->storage = Pointer<Storage>(
          new Storage(static_cast<size_t>(needed * itemsize(impl->dtype)), impl->device));
    }
  };
  if (op.kind() == BodyKind::composite) {
    Prepared p = prepare(op, arguments);
    const graph::Graph& g = p.traced->program->graph();
    std::vector<int64_t> sizes = p.traced->program->evaluate_sizes(p.operands, p.sizes);
    check(out.size() == g.outputs.size(), ErrorKind::runtime, name, ": expected ", g.outputs.size(),
          " out tensors, got ", out.size());
    std::vector<Tensor> direct(out.size());
    bool overlapping = false;
    for (size_t k = 0; k < out.size(); ++k) {
      check_result_type(name.c_str(), g.value(g.outputs[k]).dtype, out[k].dtype());
      Dims wanted;
      for (graph::SizeId s : g.value(g.outputs[k]).shape)
        wanted.push_back(sizes[static_cast<size_t>(s)]);
      // Growing an out= that is also read would pull the memory from under the operands.
      for (const Operand& o : p.operands) {
        const auto* t = std::get_if<Tensor>(&o);
        overlapping |= t && memory_overlap(*t, out[k]) != 0 && !(out[k].sizes() == wanted);
      }
      if (!overlapping) resize(out[k], wanted);
      if (out[k].dtype() == g.value(g.outputs[k]).dtype) direct[k] = out[k];
    }
    if (overlapping) direct.assign(out.size(), Tensor());
    results = run::execute(p.traced->program, p.operands, p.sizes, direct);
  } else {
    Argument result = call(op, std::move(arguments));
    if (auto* list = std::get_if<TensorList>(&result))
      results = *list;
    else
      results = {std::get<Tensor>(result)};
    check(out.size() == results.size(), ErrorKind::runtime, name, ": expected ", results.size(),
          " out tensors, got ", out.size());
  }
  for (size_t k = 0; k < out.size(); ++k) {
    check_result_type(name.c_str(), results[k].dtype(), out[k].dtype());
    if (!results[k].same(out[k])) {
      resize(out[k], results[k].sizes());
      run::copy_into(out[k], results[k]);
    }
    out[k].storage().raise_version();
  }
  return out;
}

}  // namespace flambeau
