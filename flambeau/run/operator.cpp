// The list of operators. Constructors of static objects push onto it in any order and from any
// translation unit, so its head is constant-initialised; names are indexed at first use.
#include "flambeau/run/operator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace flambeau {

namespace {

constinit std::atomic<const Operator*> head{nullptr};

/// What the list held when it began at `first`.
struct Index {
  const Operator* first = nullptr;
  std::vector<const Operator*> sorted;
  std::map<std::string, std::vector<const Operator*>, std::less<>>
      by_name;  // in order of definition
};

std::unique_ptr<const Index> make_index(const Operator* first) {
  auto index = std::make_unique<Index>();
  index->first = first;
  std::vector<const Operator*> defined;
  for (const Operator* op = first; op; op = op->next) defined.push_back(op);
  std::reverse(defined.begin(), defined.end());
  for (const Operator* op : defined) {
    for (const std::string& name : op->schema().names) index->by_name[name].push_back(op);
  }
  index->sorted = std::move(defined);
  std::sort(index->sorted.begin(), index->sorted.end(), [](const Operator* a, const Operator* b) {
    const Schema &x = a->schema(), &y = b->schema();
    return std::tie(x.names[0], x.overload) < std::tie(y.names[0], y.overload);
  });
  return index;
}

/// Callers hold references into an index, so one that became outdated is kept.
const Index& current_index() {
  static std::atomic<const Index*> current{nullptr};
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const Index>> all;
  const Operator* first = head.load(std::memory_order_acquire);
  const Index* index = current.load(std::memory_order_acquire);
  if (index && index->first == first) return *index;
  std::lock_guard lock(mutex);
  index = current.load(std::memory_order_relaxed);
  if (!index || index->first != first) {
    all.push_back(make_index(head.load(std::memory_order_acquire)));
    index = all.back().get();
    current.store(index, std::memory_order_release);
  }
  return *index;
}

}  // namespace

Operator::Operator(const char* schema, const char* doc, Body body, const void* function,
                   BodyKind kind, int forms)
    : schema_text(schema), doc_(doc), body_(body), function_(function), kind_(kind), forms_(forms) {
  next = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(next, this, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

const Schema& Operator::schema() const {
  const Schema* parsed = schema_.load(std::memory_order_acquire);
  if (parsed) return *parsed;
  auto* made = new Schema(parse_schema(schema_text));
  if (!schema_.compare_exchange_strong(parsed, made, std::memory_order_acq_rel)) {
    delete made;
    return *parsed;
  }
  return *made;
}

const std::vector<const Operator*>& all_operators() { return current_index().sorted; }

std::vector<const Operator*> find_operators(std::string_view name) {
  const Index& index = current_index();
  auto found = index.by_name.find(name);
  return found == index.by_name.end() ? std::vector<const Operator*>() : found->second;
}

}  // namespace flambeau
