// Programs: graphs that can be executed, and their derivatives. A program belongs to a structure;
// sizes and numbers are given at each run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "flambeau/graph/graph.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::run {

/// An input of a program: a tensor or the value of a number.
using Operand = std::variant<Tensor, Scalar>;

class Program;
using ProgramPointer = std::shared_ptr<Program>;

/// The derivative of a program with respect to some of its inputs.
struct Derivative {
  struct Source {
    enum class Kind : uint8_t { input, output, kept, cotangent } kind;
    int32_t index;  // of the forward program's input, output, kept value, or of the output the
                    // cotangent belongs to
  };
  std::string name;  // of the operator, for messages: "MulBackward0" style names derive from it
  ProgramPointer forward;   // results: those of the program, then the kept values
  ProgramPointer backward;  // results: the cotangents of `wanted`, in order; an undefined tensor
                            // where there is none
  std::vector<Source> sources;       // what the backward program's inputs are
  std::vector<int32_t> wanted;       // forward inputs whose cotangents are computed
  std::vector<bool> has_cotangent;   // by element of `wanted`: false where it is always zero
  int32_t outputs = 0;               // of the original program
  std::vector<bool> differentiable;  // by output: false for integers, and where a rule's result is
                                     // a barrier's
  std::vector<graph::SizeId>
      sizes;  // size formulas of the forward program that are the backward's size arguments
};

class Program {
 public:
  /// The derivative of a program where an operator states its own: traced cotangents of the inputs
  /// from traced inputs, results and cotangents of the results.
  using Rule = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs,
                                                 const std::vector<Tensor>& results,
                                                 const std::vector<Tensor>& cotangents)>;

  /// `name` is used in messages and dumps; `example_sizes` are values of the input sizes that
  /// satisfy the guards.
  Program(std::string name, graph::Graph graph, std::vector<int64_t> example_sizes,
          Rule rule = nullptr);
  ~Program();

  const std::string& name() const { return name_; }
  const graph::Graph& graph() const { return graph_; }
  const std::vector<int64_t>& example_sizes() const { return example_sizes_; }
  /// Whether a run can find something wrong with the values of its operands.
  bool may_raise() const { return may_raise_; }
  /// Whether the guards hold for these values of the size formulas.
  bool holds(const std::vector<int64_t>& sizes) const;

  /// The derivative with respect to the inputs where `wanted` is true (by input), made once per
  /// mask. Thread-safe.
  std::shared_ptr<const Derivative> derivative(const std::vector<bool>& wanted);

  /// Values of all size formulas of the graph.
  std::vector<int64_t> evaluate_sizes(const std::vector<Operand>& operands,
                                      const std::vector<int64_t>& size_arguments) const;
  /// Values of the input sizes only.
  std::vector<int64_t> input_sizes(const std::vector<Operand>& operands,
                                   const std::vector<int64_t>& size_arguments) const;
  /// Throws a runtime Error where a requirement does not hold.
  void check_requirements(const std::vector<int64_t>& sizes) const;

  // Kernels and schedules by layout of the operands; kept by execute.cpp.
  struct Executables;
  Executables& executables() { return *executables_; }

 private:
  std::string name_;
  graph::Graph graph_;
  std::vector<int64_t> example_sizes_;
  bool may_raise_ = false;
  Rule rule_;
  std::unique_ptr<Executables> executables_;
  struct Derivatives;
  std::unique_ptr<Derivatives> derivatives_;
};

/// Runs a program: at once, or recorded while a deferred scope is open on this thread.
/// `destination`, where given, has a tensor (or an undefined one) per result: the result is written
/// there instead of to new memory.
std::vector<Tensor> execute(const ProgramPointer& program, const std::vector<Operand>& operands,
                            const std::vector<int64_t>& size_arguments,
                            const std::vector<Tensor>& destinations = {});

/// The same, and puts it on the tape when gradients are enabled and an operand requires one.
std::vector<Tensor> execute_recorded(const ProgramPointer& program,
                                     const std::vector<Operand>& operands,
                                     const std::vector<int64_t>& size_arguments);

/// What the tape does; autograd/ implements it and registers itself at load.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// A program ran: results[i < derivative->outputs] are its outputs, the rest are kept values.
  virtual void record(std::shared_ptr<const Derivative> derivative,
                      const std::vector<Operand>& operands,
                      const std::vector<int64_t>& forward_sizes,
                      const std::vector<Tensor>& results) = 0;
  /// `view` is a view of `base` made by a program (traced from the view operator) with these
  /// operands.
  virtual void record_view(const Tensor& base, const Tensor& view,
                           std::function<ProgramPointer()> program,
                           const std::vector<Operand>& operands,
                           const std::vector<int64_t>& size_arguments) = 0;
  /// Before `target` is written in place: throws where the field forbids it (a leaf that requires
  /// grad, ...).
  virtual void check_write(const Tensor& target, const char* operator_name) = 0;
  /// The write that check_write announced is over, or was not done.
  virtual void end_write() = 0;
  /// The value computed as `value` (with its history) has just been written into `target`: the
  /// history of target, its base and its views follow.
  virtual void record_write(const Tensor& target, const Tensor& value) = 0;
};
void set_recorder(Recorder* recorder);
Recorder* recorder();

/// Per thread. Starts enabled.
bool gradients_enabled();
void set_gradients_enabled(bool enabled);

}  // namespace flambeau::run
