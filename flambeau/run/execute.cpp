// Running a program now: layouts are the key to machine code, sizes are evaluated, memory is
// allocated, steps run.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <tuple>

#include "flambeau/base/error.h"
#include "flambeau/base/threads.h"
#include "flambeau/graph/primitive.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/lowering.h"
#include "flambeau/prim/prim.h"
#include "flambeau/run/deferred.h"
#include "flambeau/run/executable.h"

namespace flambeau::run {

using graph::Graph;
using graph::PrimitiveKind;
using graph::SizeId;
using graph::ValueId;
using kernel::BufferId;
using kernel::Slot;

namespace {

std::atomic<int64_t> launches{0};

/// Elements below which a second thread costs more than it gives.
constexpr int64_t kSerialElements = 32768;
constexpr int64_t kErrorLanes = 64;

void append_layout(std::string& key, const Dims& sizes, const Dims& strides) {
  int64_t rank = sizes.size();
  for (int64_t d = 0; d < rank; ++d) {
    char flags = 0;
    if (strides[d] == 0) flags |= kernel::kStrideZero;
    if (strides[d] == 1) flags |= kernel::kStrideOne;
    if (d + 1 < rank && strides[d] == strides[d + 1] * sizes[d + 1]) flags |= kernel::kMerges;
    key.push_back(flags);
  }
  key.push_back(static_cast<char>(0x7F));
}

/// Row-major strides as kernels see them: products of sizes, whatever the sizes are.
Dims dense_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int64_t d = sizes.size() - 1; d >= 0; --d) {
    strides[d] = step;
    step *= sizes[d];
  }
  return strides;
}

struct View {
  char* pointer;
  Dims strides;
};

/// Memory of a run, which later runs of the thread use again. Runs nest: a copy within a run has
/// its own.
struct Workspace {
  std::vector<int64_t> inputs, sizes, errors;
  std::string key;
  std::vector<char*> pointers;
  std::vector<const Dims*> strides;
  std::vector<Tensor> outputs, temporaries;
  std::vector<View> views;
  std::vector<std::pair<Tensor, Tensor>> copies;

  void clear() {
    inputs.clear();
    sizes.clear();
    errors.clear();
    key.clear();
    outputs.clear();
    temporaries.clear();
    views.clear();
    copies.clear();
  }
};

class WorkspaceLease {
 public:
  WorkspaceLease() {
    if (unused().empty()) {
      workspace_ = std::make_unique<Workspace>();
    } else {
      workspace_ = std::move(unused().back());
      unused().pop_back();
    }
  }
  ~WorkspaceLease() {
    workspace_->clear();
    unused().push_back(std::move(workspace_));
  }
  WorkspaceLease(const WorkspaceLease&) = delete;
  Workspace& operator*() { return *workspace_; }

 private:
  static std::vector<std::unique_ptr<Workspace>>& unused() {
    thread_local std::vector<std::unique_ptr<Workspace>> list;
    return list;
  }
  std::unique_ptr<Workspace> workspace_;
};

class Run {
 public:
  Run(const ProgramPointer& program, const std::vector<Operand>& operands,
      const std::vector<int64_t>& size_arguments, const std::vector<Tensor>& destinations)
      : program_(*program), g_(program->graph()), operands_(operands) {
    for (graph::SizeSource source : g_.size_sources) {
      inputs_.push_back(
          source.input < 0
              ? size_arguments[static_cast<size_t>(source.dim)]
              : std::get<Tensor>(operands[static_cast<size_t>(source.input)]).size(source.dim));
    }
    outputs_.resize(g_.outputs.size());
    for (size_t k = 0; k < std::min(destinations.size(), outputs_.size()); ++k)
      outputs_[k] = destinations[k];
    results_ = outputs_;
    find_executable();
  }

  std::vector<Tensor> run() {
    const auto& schedule = executable_->schedule;
    allocate();
    for (size_t i = 0; i < schedule.steps.size(); ++i)
      run_step(schedule.steps[i], *executable_->code[i]);
    for (auto& [destination, result] : copies_) copy_into(destination, result);
    return std::move(results_);
  }

 private:
  Dims sizes_of(const graph::Shape& shape) const {
    Dims result;
    for (SizeId s : shape) result.push_back(sizes_[static_cast<size_t>(s)]);
    return result;
  }

  void evaluate(const graph::SizeTable& table) {
    sizes_.resize(static_cast<size_t>(table.size()));
    table.evaluate(inputs_.data(), sizes_.data());
  }

  void find_executable() {
    std::string& key = (*lease_).key;
    for (const Operand& o : operands_) {
      if (const auto* t = std::get_if<Tensor>(&o)) append_layout(key, t->sizes(), t->strides());
    }
    // A destination that is not laid out as new memory would be is part of the key.
    for (const Tensor& t : outputs_) {
      bool plain = !t.defined() || t.is_contiguous();
      key.push_back(plain ? 0 : 1);
      if (!plain) append_layout(key, t.sizes(), t.strides());
    }
    int target = emit::target_number();
    key.append(reinterpret_cast<const char*>(&target), sizeof target);
    auto& cache = program_executables();
    if (const auto* recent = cache.recent.load(std::memory_order_acquire);
        recent && recent->first == key) {
      executable_ = recent->second.get();
    } else {
      executable_ = find_or_make(cache, key);
    }
    // The schedule's formulas extend those of the graph.
    evaluate(executable_->schedule.sizes);
    program_.check_requirements(sizes_);
  }

  const Executable* find_or_make(Program::Executables& cache, const std::string& key) {
    {
      std::lock_guard lock(cache.mutex);
      if (auto it = cache.by_layout.find(key); it != cache.by_layout.end()) {
        cache.recent.store(&*it, std::memory_order_release);
        return it->second.get();
      }
    }
    evaluate(g_.sizes);
    program_.check_requirements(sizes_);
    auto made = make(emit::target().vector_bytes);
    std::lock_guard lock(cache.mutex);
    auto it = cache.by_layout.emplace(key, std::move(made)).first;
    cache.recent.store(&*it, std::memory_order_release);
    return it->second.get();
  }

  Program::Executables& program_executables() const {
    return const_cast<Program&>(program_).executables();
  }

  std::unique_ptr<const Executable> make(int vector_bytes) const {
    std::vector<kernel::Layout> inputs, outputs;
    for (const Operand& o : operands_) {
      const auto* t = std::get_if<Tensor>(&o);
      inputs.push_back(t ? kernel::layout_of(t->sizes(), t->strides()) : kernel::Layout());
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      bool plain = !outputs_[k].defined() || outputs_[k].is_contiguous();
      if (plain) {
        Dims sizes(static_cast<int64_t>(g_.value(g_.outputs[k]).shape.size()), 2);
        outputs.push_back(kernel::layout_of(sizes, dense_strides(sizes)));
      } else {
        outputs.push_back(kernel::layout_of(outputs_[k].sizes(), outputs_[k].strides()));
      }
    }
    auto e = std::make_unique<Executable>();
    e->schedule = kernel::build_schedule(g_, inputs, outputs, vector_bytes);
    for (const auto& step : e->schedule.steps) e->code.push_back(emit::compile(step.module));
    return e;
  }

  /// Whether writing `destination` while the program reads its operands could read what was
  /// written.
  bool must_copy(const Tensor& destination, size_t output) const {
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto* t = std::get_if<Tensor>(&operands_[i]);
      if (!t) continue;
      int overlap = memory_overlap(destination, *t);
      if (overlap == 2 || (overlap == 1 && !executable_->schedule.overwritable[i][output]))
        return true;
    }
    return false;
  }

  void allocate() {
    const auto& schedule = executable_->schedule;
    size_t values = g_.values.size();
    pointers_.assign(values + g_.outputs.size() + schedule.temporaries.size(), nullptr);
    strides_.assign(values + g_.outputs.size(), nullptr);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto* t = std::get_if<Tensor>(&operands_[i]);
      if (!t) continue;
      auto v = static_cast<size_t>(g_.inputs[i].value);
      pointers_[v] = t->data();
      strides_[v] = &t->strides();
    }
    for (size_t k = 0; k < g_.outputs.size(); ++k) {
      const graph::Value& v = g_.value(g_.outputs[k]);
      if (!outputs_[k].defined()) {
        outputs_[k] = results_[k] = empty_tensor(sizes_of(v.shape), v.dtype);
      } else if (must_copy(outputs_[k], k)) {
        // The layout of the kernel is that of the destination; a twin with the same strides takes
        // the result.
        Tensor twin = twin_of(outputs_[k]);
        copies_.emplace_back(outputs_[k], twin);
        outputs_[k] = twin;
      }
      pointers_[values + k] = outputs_[k].data();
      strides_[values + k] = &outputs_[k].strides();
    }
    for (ValueId v : schedule.values) {
      const graph::Value& value = g_.value(v);
      temporaries_.push_back(empty_tensor(sizes_of(value.shape), value.dtype));
      pointers_[static_cast<size_t>(v)] = temporaries_.back().data();
    }
    for (size_t i = 0; i < schedule.temporaries.size(); ++i) {
      const auto& t = schedule.temporaries[i];
      temporaries_.push_back(empty_tensor({sizes_[static_cast<size_t>(t.count)]}, t.dtype));
      pointers_[values + g_.outputs.size() + i] = temporaries_.back().data();
    }
    for (const auto& view : schedule.views) views_.push_back(resolve(view));
  }

  static Tensor twin_of(const Tensor& t) {
    int64_t extent = 1;
    for (int64_t d = 0; d < t.dim(); ++d) extent += t.stride(d) * (t.size(d) - 1);
    Tensor memory = empty_tensor({t.numel() == 0 ? 0 : extent}, t.dtype());
    return view_tensor(memory, t.sizes(), t.strides(), 0);
  }

  /// Applies the index maps of a view to the sizes and strides of its buffer.
  View resolve(const kernel::OperandView& view) const {
    Dims sizes = sizes_of(g_.value(view.base).shape);
    const Dims* given = static_cast<size_t>(view.buffer) < strides_.size()
                            ? strides_[static_cast<size_t>(view.buffer)]
                            : nullptr;
    Dims strides = given ? *given : dense_strides(sizes);
    int64_t offset = 0;
    for (int32_t number : view.nodes) {
      const graph::Node& n = g_.nodes[static_cast<size_t>(number)];
      Dims to = sizes_of(g_.value(n.outputs[0]).shape), next(to.size());
      switch (n.primitive->kind) {
        case PrimitiveKind::broadcast:
          for (int64_t d = 0; d < to.size(); ++d) {
            int64_t from = n.attributes.ints[static_cast<size_t>(d)];
            next[d] = from < 0 || (sizes[from] == 1 && to[d] != 1) ? 0 : strides[from];
          }
          break;
        case PrimitiveKind::permute:
          for (int64_t d = 0; d < to.size(); ++d)
            next[d] = strides[n.attributes.ints[static_cast<size_t>(d)]];
          break;
        case PrimitiveKind::slice: {
          next = strides;
          int64_t d = n.attributes.ints[0];
          offset += sizes_[static_cast<size_t>(n.attributes.sizes[0])] * strides[d];
          next[d] = strides[d] * sizes_[static_cast<size_t>(n.attributes.sizes[2])];
          break;
        }
        default: {
          bool viewable = view_strides(sizes, strides, to, &next);
          internal_check(viewable, "an operand of a product is no view of its buffer");
        }
      }
      sizes = to;
      strides = next;
    }
    return {
        pointers_[static_cast<size_t>(view.buffer)] + offset * itemsize(g_.value(view.base).dtype),
        strides};
  }

  int64_t slot_value(const Slot& s) {
    switch (s.kind) {
      case Slot::Kind::pointer:
        return reinterpret_cast<int64_t>(pointers_[static_cast<size_t>(s.a)]);
      case Slot::Kind::stride:
        return (*strides_[static_cast<size_t>(s.a)])[s.b];
      case Slot::Kind::size:
        return sizes_[static_cast<size_t>(s.a)];
      case Slot::Kind::real:
        return std::bit_cast<int64_t>(std::get<Scalar>(operands_[static_cast<size_t>(s.a)]).real());
      case Slot::Kind::imaginary:
        return std::bit_cast<int64_t>(std::get<Scalar>(operands_[static_cast<size_t>(s.a)]).imag());
      case Slot::Kind::integer:
        return std::get<Scalar>(operands_[static_cast<size_t>(s.a)]).integer();
      case Slot::Kind::error:
        return reinterpret_cast<int64_t>(error_block());
      case Slot::Kind::view_pointer:
        return reinterpret_cast<int64_t>(views_[static_cast<size_t>(s.a)].pointer);
      case Slot::Kind::view_stride:
        return views_[static_cast<size_t>(s.a)].strides[s.b];
      case Slot::Kind::scratch:
        return 0;  // see run_product
    }
    return 0;
  }

  int64_t* error_block() {
    if (errors_.empty()) errors_.assign(3 * kErrorLanes, 0);
    return errors_.data();
  }

  struct Launch {
    loop::Entry entry;
    const int64_t* slots;
    static void body(void* context, int64_t begin, int64_t end, int64_t worker) {
      auto* l = static_cast<Launch*>(context);
      l->entry(l->slots, begin, end, worker);
    }
  };

  static void launch(loop::Entry entry, const int64_t* slots, int64_t tasks, int64_t grain,
                     int64_t align) {
    if (tasks <= 0) return;
    if (tasks <= grain) return entry(slots, 0, tasks, 0);
    Launch l{entry, slots};
    parallel_for(tasks, grain, align, &Launch::body, &l);
  }

  void run_step(const kernel::Step& step, const emit::Code& code) {
    launches.fetch_add(1, std::memory_order_relaxed);
    constexpr size_t kInlineSlots = 48;
    int64_t inline_slots[kInlineSlots];
    std::vector<int64_t> many;
    int64_t* slots = inline_slots;
    if (step.slots.size() > kInlineSlots) {
      many.resize(step.slots.size());
      slots = many.data();
    }
    for (size_t i = 0; i < step.slots.size(); ++i) slots[i] = slot_value(step.slots[i]);
    if (step.product) run_product(*step.product, code, slots);
    for (const kernel::Phase& p : step.phases) {
      int64_t tasks = 1;
      for (size_t i = 0; i < p.extents.size(); ++i)
        tasks *= sizes_[static_cast<size_t>(p.extents[i])];
      if (p.unit > 1) tasks = (tasks + p.unit - 1) / p.unit;
      int64_t elements = p.elements >= 0 ? sizes_[static_cast<size_t>(p.elements)] : 1;
      int64_t grain =
          elements <= kSerialElements || tasks <= 1
              ? tasks
              : std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(kSerialElements / 2) *
                                                          static_cast<double>(tasks) /
                                                          static_cast<double>(elements)));
      launch(code.entries()[static_cast<size_t>(p.function)], slots, tasks, grain, p.align);
    }
    if (step.raises) raise_errors();
  }

  static void run_product(const kernel::ProductPhases& product, const emit::Code& code,
                          int64_t* slots) {
    Tensor scratch[2];
    for (int i = 0; i < 2; ++i) {
      int64_t bytes = product.scratch_bytes(i, slots);
      if (bytes > 0) scratch[i] = empty_tensor({bytes}, DType::uint8);
      slots[kernel::kLeftScratch + i] =
          bytes > 0 ? reinterpret_cast<int64_t>(scratch[i].data()) : 0;
    }
    product.run(code.entries(), slots);
  }

  void raise_errors() {
    for (int64_t i = 0; i < kErrorLanes && !errors_.empty(); ++i) {
      auto error = static_cast<prim::KernelError>(errors_[static_cast<size_t>(i)]);
      if (error == prim::KernelError::none) continue;
      int64_t detail = errors_[static_cast<size_t>(kErrorLanes + i)],
              limit = errors_[static_cast<size_t>(2 * kErrorLanes + i)];
      switch (error) {
        case prim::KernelError::division_by_zero:
          fail(ErrorKind::runtime,
               text(program_.name(), ": ZeroDivisionError: integer division by zero"));
        case prim::KernelError::index_out_of_range:
          fail(ErrorKind::index, text(program_.name(), ": index ", detail,
                                      " is out of bounds for a dimension with size ", limit));
        case prim::KernelError::position_out_of_range:
          fail(ErrorKind::runtime, text(program_.name(), ": index ", detail,
                                        " is out of bounds for a dimension with size ", limit));
        default:
          fail(ErrorKind::runtime,
               text(program_.name(), ": Integers to negative integer powers are not allowed."));
      }
    }
  }

  const Program& program_;
  const Graph& g_;
  const std::vector<Operand>& operands_;
  const Executable* executable_ = nullptr;
  std::vector<Tensor> results_;
  WorkspaceLease lease_;
  std::vector<int64_t>&inputs_ = (*lease_).inputs, &sizes_ = (*lease_).sizes,
  &errors_ = (*lease_).errors;
  std::vector<Tensor>&outputs_ = (*lease_).outputs, &temporaries_ = (*lease_).temporaries;
  std::vector<char*>& pointers_ = (*lease_).pointers;
  std::vector<const Dims*>& strides_ = (*lease_).strides;
  std::vector<View>& views_ = (*lease_).views;
  std::vector<std::pair<Tensor, Tensor>>& copies_ = (*lease_).copies;
};

}  // namespace

int64_t launch_count() { return launches.load(); }

std::vector<Tensor> execute_now(const ProgramPointer& program, const std::vector<Operand>& operands,
                                const std::vector<int64_t>& size_arguments,
                                const std::vector<Tensor>& destinations) {
  return Run(program, operands, size_arguments, destinations).run();
}

std::vector<Tensor> execute(const ProgramPointer& program, const std::vector<Operand>& operands,
                            const std::vector<int64_t>& size_arguments,
                            const std::vector<Tensor>& destinations) {
  if (Recording* recording = current_recording())
    return recording->add(program, operands, size_arguments, destinations);
  return execute_now(program, operands, size_arguments, destinations);
}

void copy_into(const Tensor& dst, const Tensor& src) {
  // One program per pair of dtypes and per set of dims of size 1, which are structure.
  using Key = std::tuple<DType, DType, std::vector<bool>>;
  static std::mutex mutex;
  static std::map<Key, ProgramPointer> programs;
  std::vector<bool> ones;
  for (int64_t s : src.sizes()) ones.push_back(s == 1);
  ProgramPointer program;
  {
    std::lock_guard lock(mutex);
    auto& entry = programs[{dst.dtype(), src.dtype(), ones}];
    if (!entry) {
      graph::Trace trace;
      Tensor x = trace.add_tensor_input(src.dtype(), src.sizes());
      if (is_complex(src.dtype()) && src.dtype() != dst.dtype()) {
        DType part = real_type(is_complex(dst.dtype()) ? dst.dtype() : real_type(src.dtype()));
        Tensor re = prim::cast(prim::real(x), part), im = prim::cast(prim::imag(x), part);
        x = is_complex(dst.dtype()) ? prim::make_complex(re, im) : prim::cast(re, dst.dtype());
      } else if (is_complex(dst.dtype()) && src.dtype() != dst.dtype()) {
        Tensor re = prim::cast(x, real_type(dst.dtype()));
        x = prim::make_complex(re, prim::zeros_like(re));
      } else if (src.dtype() != dst.dtype()) {
        x = prim::cast(x, dst.dtype());
      }
      trace.add_output(x);
      entry =
          std::make_shared<Program>("copy_", graph::simplify(trace.graph()), trace.input_sizes());
    }
    program = entry;
  }
  execute(program, {src}, {}, {dst});
}

}  // namespace flambeau::run
