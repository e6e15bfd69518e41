// The nodes of the tape: a program's derivative, the accumulation into a leaf, and the small ones
// that in-place writes need.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "flambeau/autograd/autograd.h"
#include "flambeau/autograd/hooks.h"
#include "flambeau/autograd/saved.h"
#include "flambeau/run/program.h"

namespace flambeau::autograd {

/// "log_softmax" -> "LogSoftmaxBackward0".
std::string node_name(const std::string& operator_name);

/// The call of a program.
class DerivativeNode final : public Node {
 public:
  /// `results` as run::Recorder::record gets them. `edges` by element of derivative->wanted.
  DerivativeNode(std::shared_ptr<const run::Derivative> derivative,
                 const std::vector<run::Operand>& operands,
                 const std::vector<int64_t>& forward_sizes, const std::vector<Tensor>& results,
                 std::vector<Edge> edges);

  std::string name() const override { return node_name(derivative_->name); }
  int32_t result_count() const override { return derivative_->outputs; }
  const ResultType* result_type(int32_t index) const override {
    return index == 0 ? &first_type_ : &more_types_[static_cast<size_t>(index) - 1];
  }
  std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool create_graph) override;
  void release() override;
  void visit_saved(const std::function<void(const Tensor&)>& visit) const override;
  /// See SavedTensor.
  void allow_write(const Storage& storage);

 private:
  struct Saved {
    SavedTensor tensor;
    Scalar number;
    bool is_number = false;
  };
  static Saved save(const run::Operand& operand);
  run::Operand unpack(const Saved& saved, bool create_graph);
  std::vector<run::Operand> backward_operands(std::vector<Tensor>& cotangents, bool create_graph);

  std::shared_ptr<const run::Derivative> derivative_;
  ResultType first_type_;  // of one result, the usual case, without a list
  std::vector<ResultType> more_types_;
  std::mutex mutex_;  // of what is saved: backward passes of several threads may meet here
  bool released_ = false;
  std::vector<Saved> saved_;  // by source that is no cotangent
  Dims sizes_;                // by derivative->sizes
  // Only where values inside the program are kept: a second derivative runs the program again to
  // get their history.
  std::vector<Saved> operands_;
  std::vector<int64_t> size_arguments_;
};

/// Adds to the gradient of a leaf.
class AccumulateNode final : public Node {
 public:
  explicit AccumulateNode(const Tensor& leaf);
  std::string name() const override { return "AccumulateGrad"; }
  int32_t result_count() const override { return 1; }
  const ResultType* result_type(int32_t) const override { return &type_; }
  std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool create_graph) override;
  void release() override {}
  void visit_saved(const std::function<void(const Tensor&)>& visit) const override { visit(leaf_); }
  const Tensor& leaf() const { return leaf_; }
  void share_hooks(std::shared_ptr<Hooks> hooks) { hooks_ = std::move(hooks); }

 private:
  Tensor leaf_;
  ResultType type_;
  std::mutex mutex_;
};

/// grad += addend, as the field does: the first one is taken over when nobody else holds it, later
/// ones are added in place unless `create_graph`.
void accumulate(Tensor& grad, Tensor addend, bool create_graph);

/// One operand, one result of the same kind: a copy, or a value that took the operand's place.
class PassNode final : public Node {
 public:
  /// `zero`: the result does not depend on the operand.
  PassNode(std::string name, const Tensor& result, Edge operand, bool zero);
  std::string name() const override { return name_; }
  int32_t result_count() const override { return 1; }
  const ResultType* result_type(int32_t) const override { return &type_; }
  std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool create_graph) override;
  void release() override {}
  void visit_saved(const std::function<void(const Tensor&)>&) const override {}

 private:
  std::string name_;
  ResultType type_;
  bool zero_;
};

}  // namespace flambeau::autograd
