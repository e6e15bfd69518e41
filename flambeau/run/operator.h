// An operator overload: schema, documentation and body together. Constructing one links it into the
// only list of operators there is.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "flambeau/run/schema.h"

namespace flambeau {

/// How a call runs.
enum class BodyKind : uint8_t {
  composite,  // traced once per structure; one plan, one tape node, at most one kernel where fusion
              // allows
  view,       // changes only sizes, strides and offset of `self`; traced for derivatives
  direct,     // plain code that calls other operators; they are what is recorded
};

/// Which names of the field follow from the functional form.
enum Forms : uint8_t {
  kFunction = 1,  // flambeau.NAME
  kMethod = 2,    // Tensor.NAME
  kInplace = 4,   // Tensor.NAME_ and flambeau.NAME_
  kOut = 8,       // out=
  kDefaultForms = kFunction | kMethod | kOut,
  kElementwiseForms = kDefaultForms | kInplace,
};

class Operator {
 public:
  using Body = void (*)(const void* function, Argument* arguments, Argument* result);
  /// Cotangents of the tensor arguments, flattened in order (undefined where there is none),
  /// traced. A rule of an operator's own where the one derived from the body would keep more or
  /// round worse.
  using Rule = std::vector<Tensor> (*)(const std::vector<Argument>& arguments,
                                       const std::vector<Tensor>& results,
                                       const std::vector<Tensor>& cotangents);

  Operator(const char* schema, const char* doc, Body body, const void* function, BodyKind kind,
           int forms);
  Operator(const Operator&) = delete;

  const Schema& schema() const;
  const char* doc() const { return doc_; }
  BodyKind kind() const { return kind_; }
  int forms() const { return forms_; }
  Rule rule = nullptr;
  void run_body(Argument* arguments, Argument* result) const {
    body_(function_, arguments, result);
  }

  const char* schema_text;
  const Operator* next = nullptr;

 private:
  const char* doc_;
  Body body_;
  const void* function_;
  BodyKind kind_;
  int forms_;
  mutable std::atomic<const Schema*> schema_{nullptr};
};

/// Every overload, sorted by name and overload name. Operators added later appear at the next call.
const std::vector<const Operator*>& all_operators();
/// The overloads that have `name` as a name or alias, in order of definition.
std::vector<const Operator*> find_operators(std::string_view name);

/// Calls an operator with all arguments of its schema, in order.
Argument call(const Operator& op, std::vector<Argument> arguments);
/// self = op(self, ...): writes the result into the first argument and returns it.
Tensor call_inplace(const Operator& op, std::vector<Argument> arguments);
/// Writes the results into `out` (resized when they have no elements or another shape), returns
/// them.
std::vector<Tensor> call_out(const Operator& op, std::vector<Argument> arguments,
                             std::vector<Tensor> out);
/// Writes the results of a composite operator over `destinations`, which have the results' shapes
/// and dtypes and may be arguments; nothing is recorded for gradients.
void call_into(const Operator& op, const std::vector<Argument>& arguments,
               const std::vector<Tensor>& destinations);

}  // namespace flambeau
