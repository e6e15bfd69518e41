#include "flambeau/run/deferred.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "flambeau/base/error.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"

namespace flambeau::run {

using graph::Graph;
using graph::SizeId;
using graph::ValueId;

namespace {

/// Records after which a recording runs by itself, so that it neither keeps memory nor grows
/// without end.
constexpr size_t kMostRecords = 128;
constexpr size_t kMostFused = 1024;

/// What a program run needs, kept until it runs.
struct Record {
  ProgramPointer program;
  std::vector<Operand> operands;
  std::vector<int64_t> size_arguments;
  std::vector<Tensor> results;  // where they go: new memory, or what the call writes into
  std::vector<bool> written;    // by result: existing memory is overwritten
};

bool same_elements(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}
bool overlaps(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && memory_overlap(a, b) != 0;
}

/// Consecutive records that are compiled as one program: inside it a value that was written is read
/// by exactly the view that was written, so that memory between the records is not needed.
class Segment {
 public:
  bool accepts(const Record& r) const {
    auto fits = [&](const Tensor& t) {
      return std::all_of(written_.begin(), written_.end(), [&](const Written& w) {
        return same_elements(w.target, t) || !overlaps(w.target, t);
      });
    };
    // A segment that finds something wrong is run again record by record: it must not have changed
    // memory that was there before.
    bool writes = std::find(r.written.begin(), r.written.end(), true) != r.written.end();
    if ((writes && may_raise_) || (r.program->may_raise() && writes_)) return false;
    for (const Operand& o : r.operands) {
      if (const auto* t = std::get_if<Tensor>(&o); t && !fits(*t)) return false;
    }
    return std::all_of(r.results.begin(), r.results.end(), fits);
  }

  void add(const Record& r) {
    auto number = static_cast<int32_t>(records_.size());
    for (size_t k = 0; k < r.results.size(); ++k) {
      auto it = std::find_if(written_.begin(), written_.end(), [&](const Written& w) {
        return same_elements(w.target, r.results[k]);
      });
      Written w{r.results[k], number, static_cast<int32_t>(k), r.written[k]};
      if (it == written_.end()) {
        written_.push_back(std::move(w));
      } else {
        w.existed |= it->existed;
        *it = std::move(w);
      }
    }
    records_.push_back(&r);
    may_raise_ |= r.program->may_raise();
    writes_ |= std::find(r.written.begin(), r.written.end(), true) != r.written.end();
  }

  /// Handles of a tensor that the segment itself holds.
  int64_t handles(const TensorImpl* impl) const {
    return std::count_if(written_.begin(), written_.end(),
                         [&](const Written& w) { return w.target.impl() == impl; });
  }

  /// Runs the records and counts those that ran in `done`. `live` tells whether somebody can still
  /// read memory that was made for a result.
  template <class Live>
  void run(const Live& live, size_t& done) {
    if (records_.size() == 1) return run_one_by_one(done);
    try {
      run_fused(live);
      done += records_.size();
    } catch (const Error&) {
      if (!may_raise_ || writes_) throw;
      run_one_by_one(done);
    }
  }

 private:
  void run_one_by_one(size_t& done) {
    for (const Record* r : records_) {
      execute_now(r->program, r->operands, r->size_arguments, r->results);
      ++done;
    }
  }

  template <class Live>
  void run_fused(const Live& live) {
    std::vector<const Written*> outputs;
    for (const Written& w : written_) {
      bool checks = records_[static_cast<size_t>(w.record)]
                        ->program->may_raise();  // its error is wanted, if not its result
      if (w.existed || checks || live(w.target)) outputs.push_back(&w);
    }
    if (outputs.empty()) return;
    number_operands();
    std::string key = key_of(outputs);
    ProgramPointer fused = find(key);
    if (!fused) {
      fused = fuse(outputs);
      keep(std::move(key), fused);
    }
    std::vector<int64_t> size_arguments;
    for (const Record* r : records_)
      size_arguments.insert(size_arguments.end(), r->size_arguments.begin(),
                            r->size_arguments.end());
    std::vector<Tensor> destinations;
    for (const Written* w : outputs) destinations.push_back(w->target);
    execute_now(fused, externals_, size_arguments, destinations);
  }

  struct Written {
    Tensor target;
    int32_t record, result;  // that wrote it last
    bool existed;            // before the segment
  };
  /// Where an operand comes from: result `result` of record `record`, or (record = -1) external
  /// number `result`.
  struct Source {
    int32_t record, result;
  };

  void number_operands() {
    // The state of memory is followed record by record: an operand reads what was written last
    // before it.
    std::vector<Written> now;
    for (size_t i = 0; i < records_.size(); ++i) {
      const Record& r = *records_[i];
      for (const Operand& o : r.operands) sources_.push_back(source_of(o, now));
      for (size_t k = 0; k < r.results.size(); ++k) {
        auto it = std::find_if(now.begin(), now.end(), [&](const Written& w) {
          return same_elements(w.target, r.results[k]);
        });
        if (it != now.end()) now.erase(it);
        now.push_back({r.results[k], static_cast<int32_t>(i), static_cast<int32_t>(k), false});
      }
    }
  }

  Source source_of(const Operand& o, const std::vector<Written>& now) {
    if (const auto* t = std::get_if<Tensor>(&o)) {
      for (const Written& w : now) {
        if (same_elements(w.target, *t)) return {w.record, w.result};
      }
      for (size_t e = 0; e < externals_.size(); ++e) {
        const auto* known = std::get_if<Tensor>(&externals_[e]);
        if (known && same_elements(*known, *t)) return {-1, static_cast<int32_t>(e)};
      }
    }
    externals_.push_back(o);
    return {-1, static_cast<int32_t>(externals_.size() - 1)};
  }

  std::string key_of(const std::vector<const Written*>& outputs) const {
    std::string key;
    auto add = [&key](auto value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (const Record* r : records_) add(r->program.get());
    for (Source s : sources_) {
      add(s.record);
      add(s.result);
    }
    for (const Written* w : outputs) {
      add(w->record);
      add(w->result);
    }
    // Programs are made for operands that have dims of size 1 where they are 1 now.
    for (const Record* r : records_) {
      for (const Tensor& t : r->results) {
        for (int64_t s : t.sizes()) key.push_back(s == 1 ? 1 : 0);
      }
    }
    return key;
  }

  ProgramPointer fuse(const std::vector<const Written*>& outputs) const {
    graph::Trace trace;
    std::vector<ValueId> external_values;
    for (const Operand& o : externals_) {
      if (const auto* t = std::get_if<Tensor>(&o))
        external_values.push_back(trace.add_tensor_input(t->dtype(), t->sizes()).impl()->traced);
      else
        external_values.push_back(
            -1);  // the dtype of a number is that of the program that takes it
    }
    fill_numbers(trace, external_values);
    // Inputs were made with the numbers last; programs name them by position.
    std::vector<std::vector<ValueId>> results;
    size_t next = 0;
    for (const Record* r : records_) {
      std::vector<ValueId> operands;
      for (size_t i = 0; i < r->operands.size(); ++i) {
        Source s = sources_[next++];
        ValueId v = s.record < 0
                        ? external_values[static_cast<size_t>(s.result)]
                        : results[static_cast<size_t>(s.record)][static_cast<size_t>(s.result)];
        operands.push_back(v);
      }
      std::vector<SizeId> sizes;
      for (int64_t s : r->size_arguments) sizes.push_back(trace.id(trace.add_size_input(s)));
      std::vector<ValueId> map =
          graph::inline_graph(trace.graph(), r->program->graph(), operands, sizes);
      std::vector<ValueId> made;
      const auto& program_outputs = r->program->graph().outputs;
      for (size_t k = 0; k < program_outputs.size(); ++k)
        made.push_back(
            with_known_ones(trace, map[static_cast<size_t>(program_outputs[k])], r->results[k]));
      results.push_back(std::move(made));
    }
    for (const Written* w : outputs)
      trace.graph().outputs.push_back(
          results[static_cast<size_t>(w->record)][static_cast<size_t>(w->result)]);
    trace.graph().guards.clear();  // the call of each program looked at them
    std::string name = records_.front()->program->name();
    for (size_t i = 1; i < std::min<size_t>(records_.size(), 4); ++i)
      name += "+" + records_[i]->program->name();
    if (records_.size() > 4) name += "+...";
    return std::make_shared<Program>(name, graph::simplify(trace.graph()), trace.input_sizes());
  }

  void fill_numbers(graph::Trace& trace, std::vector<ValueId>& external_values) const {
    // Graph inputs follow the order of the externals, so tensors and numbers are made again in that
    // order.
    Graph& g = trace.graph();
    std::vector<graph::Input> tensors = g.inputs;
    g.inputs.clear();
    std::vector<std::pair<DType, bool>> wanted(externals_.size());
    size_t next = 0;
    for (const Record* r : records_) {
      for (size_t i = 0; i < r->operands.size(); ++i) {
        Source s = sources_[next++];
        if (s.record < 0)
          wanted[static_cast<size_t>(s.result)].first =
              r->program->graph().value(r->program->graph().inputs[i].value).dtype;
      }
    }
    size_t tensor = 0;
    std::vector<int32_t> position(tensors.size());
    for (size_t e = 0; e < externals_.size(); ++e) {
      if (external_values[e] >= 0) {
        position[tensor] = static_cast<int32_t>(g.inputs.size());
        g.inputs.push_back(tensors[tensor++]);
      } else {
        external_values[e] = g.add_input(wanted[e].first, {}, true);
      }
    }
    for (graph::SizeSource& s : g.size_sources) {
      if (s.input >= 0) s.input = position[static_cast<size_t>(s.input)];
    }
  }

  /// A dim that is 1 now is the constant 1 for the programs that read the value.
  static ValueId with_known_ones(graph::Trace& trace, ValueId v, const Tensor& present) {
    const graph::Shape& shape = trace.graph().value(v).shape;
    Sizes sizes;
    bool changes = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      bool one = present.size(static_cast<int64_t>(d)) == 1;
      changes |= one && !trace.graph().sizes.is_value(shape[d], 1);
      sizes.push_back(one ? Size(1) : trace.size(shape[d]));
    }
    if (!changes) return v;
    return prim::reshape(trace.tensor(v), sizes).impl()->traced;
  }

  struct Fused {
    ProgramPointer program;
    std::vector<ProgramPointer> parts;  // keeps the addresses in the key from being used again
  };
  static std::mutex& fused_mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::unordered_map<std::string, Fused>& fused() {
    static auto* map = new std::unordered_map<std::string, Fused>;
    return *map;
  }
  static ProgramPointer find(const std::string& key) {
    std::lock_guard lock(fused_mutex());
    auto it = fused().find(key);
    return it == fused().end() ? nullptr : it->second.program;
  }
  void keep(std::string key, const ProgramPointer& program) const {
    Fused entry{program, {}};
    for (const Record* r : records_) entry.parts.push_back(r->program);
    std::lock_guard lock(fused_mutex());
    if (fused().size() >= kMostFused) fused().clear();
    fused().emplace(std::move(key), std::move(entry));
  }

  std::vector<const Record*> records_;
  std::vector<Written> written_;
  std::vector<Operand> externals_;
  std::vector<Source> sources_;  // of all operands, record by record
  bool may_raise_ = false, writes_ = false;
};

/// Memory whose contents were never produced: reading it raises what kept it from being produced.
class Poison : public Pending {
 public:
  explicit Poison(std::exception_ptr error) : error_(std::move(error)) {}
  void flush() override { std::rethrow_exception(error_); }

 private:
  std::exception_ptr error_;
};

class ThreadRecording : public Recording,
                        public Pending,
                        public std::enable_shared_from_this<ThreadRecording> {
 public:
  std::vector<Tensor> add(const ProgramPointer& program, const std::vector<Operand>& operands,
                          const std::vector<int64_t>& size_arguments,
                          const std::vector<Tensor>& destinations) override {
    // What other threads recorded for this memory runs first, before this recording is locked: two
    // recordings never wait for each other.
    for (const Operand& o : operands) {
      if (const auto* t = std::get_if<Tensor>(&o)) run_foreign(*t);
    }
    for (const Tensor& t : destinations) {
      if (t.defined()) run_foreign(t);
    }
    std::lock_guard lock(mutex_);
    if (running_ || must_run_now(operands, destinations)) {
      flush();
      return execute_now(program, operands, size_arguments, destinations);
    }
    std::vector<int64_t> sizes = program->evaluate_sizes(operands, size_arguments);
    program->check_requirements(sizes);
    Record r{program, operands, size_arguments, {}, {}};
    const Graph& g = program->graph();
    for (size_t k = 0; k < g.outputs.size(); ++k) {
      bool given = k < destinations.size() && destinations[k].defined();
      if (given) {
        r.results.push_back(destinations[k]);
      } else {
        Dims shape;
        for (SizeId s : g.value(g.outputs[k]).shape) shape.push_back(sizes[static_cast<size_t>(s)]);
        r.results.push_back(empty_tensor(shape, g.value(g.outputs[k]).dtype));
      }
      r.written.push_back(given);
    }
    for (const Tensor& t : r.results) t.storage().set_pending(shared_from_this());
    std::vector<Tensor> results = r.results;
    records_.push_back(std::move(r));
    if (records_.size() >= kMostRecords) flush();
    return results;
  }

  void flush() override {
    std::lock_guard lock(mutex_);
    if (running_ || records_.empty()) return;
    running_ = true;
    std::vector<Record> records = std::move(records_);
    records_.clear();
    size_t done = 0;
    std::exception_ptr error;
    try {
      while (done < records.size()) run_segment(records, done);
    } catch (...) {
      error = std::current_exception();
    }
    release(records, done, error);
    running_ = false;
    if (error) std::rethrow_exception(error);
  }

 private:
  void run_foreign(const Tensor& t) {
    auto pending = t.storage().pending();
    if (pending && pending.get() != this) pending->flush();
  }

  /// Memory that others can read or write without asking is not deferred.
  static bool must_run_now(const std::vector<Operand>& operands,
                           const std::vector<Tensor>& destinations) {
    for (const Operand& o : operands) {
      if (const auto* t = std::get_if<Tensor>(&o); t && t->storage().exported()) return true;
    }
    return std::any_of(destinations.begin(), destinations.end(),
                       [](const Tensor& t) { return t.defined() && t.storage().exported(); });
  }

  void run_segment(const std::vector<Record>& records, size_t& done) {
    Segment segment;
    const size_t first = done;
    size_t end = first;
    while (end < records.size() && (end == first || segment.accepts(records[end])))
      segment.add(records[end++]);
    segment.run([&](const Tensor& t) { return is_live(records, end, segment, t); }, done);
  }

  /// Whether a handle outside of the records, or a later record, can read the memory of `t`.
  static bool is_live(const std::vector<Record>& records, size_t end, const Segment& segment,
                      const Tensor& t) {
    std::map<const TensorImpl*, int64_t> handles;  // over the storage, held by the records
    bool later = false;
    auto count = [&](const Tensor& x, bool after) {
      if (&x.storage() != &t.storage()) return;
      ++handles[x.impl()];
      later |= after;
    };
    for (size_t i = 0; i < records.size(); ++i) {
      for (const Operand& o : records[i].operands) {
        if (const auto* x = std::get_if<Tensor>(&o)) count(*x, i >= end);
      }
      for (const Tensor& x : records[i].results) count(x, i >= end);
    }
    if (later || t.storage().references() != static_cast<int64_t>(handles.size())) return true;
    return std::any_of(handles.begin(), handles.end(), [&](const auto& h) {
      return h.first->references.load() > h.second + segment.handles(h.first);
    });
  }

  void release(const std::vector<Record>& records, size_t done, const std::exception_ptr& error) {
    std::shared_ptr<Pending> poison = error ? std::make_shared<Poison>(error) : nullptr;
    for (const Record& r : records) {
      for (const Tensor& t : r.results) t.storage().set_pending(nullptr);
    }
    for (size_t i = done; i < records.size(); ++i) {
      for (const Tensor& t : records[i].results) t.storage().set_pending(poison);
    }
  }

  std::recursive_mutex mutex_;
  std::vector<Record> records_;
  bool running_ = false;
};

thread_local int depth = 0;
thread_local std::shared_ptr<ThreadRecording> recording;

}  // namespace

Recording* current_recording() { return depth > 0 ? recording.get() : nullptr; }

DeferredScope::DeferredScope() : exceptions_(std::uncaught_exceptions()) {
  if (!recording) recording = std::make_shared<ThreadRecording>();
  ++depth;
}

void DeferredScope::close() {
  open_ = false;
  if (--depth == 0) recording->flush();
}

DeferredScope::~DeferredScope() noexcept(false) {
  if (!open_) return;
  if (std::uncaught_exceptions() == exceptions_) {
    close();
    return;
  }
  // What failed besides the exception under way is raised where its result is read.
  try {
    close();
  } catch (...) {
  }
}

void flush() {
  if (recording) recording->flush();
}

}  // namespace flambeau::run
