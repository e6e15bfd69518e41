// Calls of operators over many shapes of graph: what tests of graphs, fusion and bits go over.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/run/operator.h"
#include "flambeau/run/random.h"

namespace flambeau::samples {

/// The operator of a name and overload.
inline const Operator& find(const std::string& name, const std::string& overload = "") {
  for (const Operator* op : find_operators(name)) {
    if (op->schema().overload == overload) return *op;
  }
  fail(ErrorKind::internal, "no operator " + name + "." + overload);
}

/// Calls an operator; arguments that are left out come from the schema.
inline Argument call_named(const std::string& name, const std::string& overload,
                           std::vector<Argument> arguments) {
  const Operator& op = find(name, overload);
  const auto& wanted = op.schema().arguments;
  for (size_t i = arguments.size(); i < wanted.size(); ++i)
    arguments.push_back(wanted[i].default_value);
  return call(op, std::move(arguments));
}

inline Tensor random_tensor(const Dims& sizes, DType dtype = DType::float32) {
  Sizes s;
  for (int64_t n : sizes) s.emplace_back(n);
  return std::get<Tensor>(call_named("randn", "", {s, dtype}));
}

struct Sample {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>&)> run;
  std::vector<Dims> sizes;  // of the operands
};

inline std::vector<Sample> all() {
  auto unary = [](const char* name, const char* overload = "", std::vector<Argument> more = {}) {
    return [=](const std::vector<Tensor>& x) {
      std::vector<Argument> arguments{x[0]};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return std::get<Tensor>(call_named(name, overload, arguments));
    };
  };
  auto binary = [](const char* name, const char* overload) {
    return [=](const std::vector<Tensor>& x) {
      return std::get<Tensor>(call_named(name, overload, {x[0], x[1]}));
    };
  };
  auto layer_norm = [](const std::vector<Tensor>& x) {
    return std::get<Tensor>(
        call_named("layer_norm", "", {x[0], Sizes{Size(x[0].size(-1))}, x[1], x[2]}));
  };
  auto convolution = [](DimList stride, DimList padding, DimList dilation, bool transposed,
                        int64_t groups) {
    return [=](const std::vector<Tensor>& x) {
      return std::get<Tensor>(call_named(
          "convolution", "",
          {x[0], x[1], x[2], stride, padding, dilation, transposed, DimList{0}, Dim(groups)}));
    };
  };
  auto pool = [](const char* name) {
    return [=](const std::vector<Tensor>& x) {
      return std::get<Tensor>(
          call_named(name, "", {x[0], DimList{3, 2}, std::monostate(), DimList{1, 0}}));
    };
  };
  return {
      {"conv2d", convolution({1}, {1}, {1}, false, 1), {{2, 3, 9, 11}, {5, 3, 3, 3}, {5}}},
      {"conv2d of many channels",
       convolution({1}, {0}, {1}, false, 1),
       {{1, 40, 6, 7}, {9, 40, 3, 3}, {9}}},
      {"conv2d with steps and groups",
       convolution({2, 1}, {1, 2}, {1, 2}, false, 2),
       {{2, 4, 9, 8}, {6, 2, 3, 2}, {6}}},
      {"conv1d", convolution({3}, {2}, {2}, false, 1), {{2, 3, 30}, {4, 3, 5}, {4}}},
      {"conv3d", convolution({1}, {1}, {1}, false, 1), {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {3}}},
      {"conv_transpose2d", convolution({2}, {1}, {1}, true, 1), {{2, 3, 5, 4}, {3, 2, 3, 3}, {2}}},
      {"max_pool2d", pool("nn.functional.max_pool2d"), {{2, 3, 9, 20}}},
      {"avg_pool2d", pool("nn.functional.avg_pool2d"), {{2, 3, 9, 20}}},
      {"group_norm", unary("nn.functional.group_norm", "", {Dim(2)}), {{3, 4, 5, 6}}},
      {"add", binary("add", "Tensor"), {{7, 33}, {33}}},
      {"mul broadcast both", binary("mul", "Tensor"), {{5, 1, 9}, {4, 1}}},
      {"exp", unary("exp"), {{130}}},
      {"tanh", unary("tanh"), {{3, 17}}},
      {"gelu", unary("nn.functional.gelu"), {{6, 40}}},
      {"softmax", unary("softmax", "int", {Dim(-1)}), {{9, 37}}},
      {"softmax over the first dim", unary("softmax", "int", {Dim(0)}), {{9, 37}}},
      {"log_softmax", unary("log_softmax", "int", {Dim(-1)}), {{4, 5, 100}}},
      {"layer_norm", layer_norm, {{12, 50}, {50}, {50}}},
      {"var", unary("var", "dim", {DimList{1}}), {{8, 65}}},
      {"sum of all", unary("sum"), {{70, 131}}},
      {"sum along", unary("sum", "dim_IntList", {DimList{1}}), {{5, 4099}}},
      {"sum across", unary("sum", "dim_IntList", {DimList{0}}), {{77, 35}}},
      {"sum of the outer dims", unary("sum", "dim_IntList", {DimList{0, 2}}), {{3, 6, 33}}},
      {"mean", unary("mean", "dim", {DimList{0}}), {{31, 8}}},
      {"max", unary("max"), {{300}}},
      {"cumsum", unary("cumsum", "", {Dim(1)}), {{5, 67}}},
      {"flip", unary("flip", "", {DimList{0, 1}}), {{4, 9}}},
      {"matmul", binary("matmul", ""), {{19, 300}, {300, 21}}},
      {"matmul of one row", binary("matmul", ""), {{1, 70}, {70, 50}}},
      {"batched matmul", binary("matmul", ""), {{3, 8, 20}, {3, 20, 9}}},
      {"linear",
       [](const std::vector<Tensor>& x) {
         return std::get<Tensor>(call_named("nn.functional.linear", "", {x[0], x[1], x[2]}));
       },
       {{10, 30}, {17, 30}, {17}}},
  };
}

}  // namespace flambeau::samples
