// The text form reads back to the same graph, and the verifier accepts what bodies and passes make
// and rejects what is broken.
#include <gtest/gtest.h>

#include "flambeau/base/error.h"
#include "flambeau/graph/primitive.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"
#include "flambeau/run/program.h"
#include "ops_samples.h"

namespace flambeau {
namespace {

using graph::Graph;

/// The graph that an operator's body makes for these operands.
Graph traced(const samples::Sample& s) {
  graph::Trace trace;
  std::vector<Tensor> inputs;
  for (const Dims& sizes : s.sizes) inputs.push_back(trace.add_tensor_input(DType::float32, sizes));
  trace.add_output(s.run(inputs));
  return trace.graph();
}

TEST(GraphText, ReadsBackWhatBodiesMake) {
  for (const auto& s : samples::all()) {
    Graph g = traced(s);
    std::string printed = graph::print(g);
    EXPECT_EQ(graph::print(graph::parse(printed)), printed) << s.name;
    EXPECT_NO_THROW(graph::verify(g)) << s.name << "\n" << printed;
    Graph simple = graph::simplify(g);
    EXPECT_NO_THROW(graph::verify(simple)) << s.name << "\n" << graph::print(simple);
    EXPECT_LE(simple.nodes.size(), g.nodes.size());
    EXPECT_EQ(graph::print(graph::simplify(simple)), graph::print(simple)) << s.name;
  }
}

TEST(GraphText, VerifiesDerivatives) {
  for (const auto& s : samples::all()) {
    graph::Trace trace;
    std::vector<Tensor> inputs;
    for (const Dims& sizes : s.sizes)
      inputs.push_back(trace.add_tensor_input(DType::float32, sizes));
    trace.add_output(s.run(inputs));
    run::Program program(s.name, graph::simplify(trace.graph()), trace.input_sizes());
    auto d = program.derivative(std::vector<bool>(inputs.size(), true));
    EXPECT_NO_THROW(graph::verify(d->forward->graph())) << s.name;
    EXPECT_NO_THROW(graph::verify(d->backward->graph())) << s.name << "\n"
                                                         << graph::print(d->backward->graph());
  }
}

TEST(GraphText, NamesTheLineThatIsWrong) {
  auto message = [](const char* text) -> std::string {
    try {
      graph::parse(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("v0 = input 0 float31 []").find("float31"), std::string::npos);
  EXPECT_NE(message("v0 = input 0 float32 []\nv1 float32 [] = nothing(v0)").find("line 2"),
            std::string::npos);
  EXPECT_NE(message("v0 = input 0 float32 [z3]").find("size"), std::string::npos);
  EXPECT_NE(message("output v7").find("value"), std::string::npos);
  EXPECT_NE(message("size z1 = 4").find("number 0"), std::string::npos);
}

TEST(GraphVerify, RejectsBrokenGraphs) {
  Graph good = graph::simplify(traced(samples::all()[0]));
  ASSERT_NO_THROW(graph::verify(good));
  auto broken = [&](const std::function<void(Graph&)>& change) {
    Graph g = good;
    change(g);
    EXPECT_THROW(graph::verify(g), Error);
  };
  broken([](Graph& g) { g.outputs.push_back(1000); });
  broken([](Graph& g) { g.nodes[0].inputs[0] = static_cast<int32_t>(g.values.size()) - 1; });
  broken([](Graph& g) { g.values.back().dtype = DType::int8; });
  broken([](Graph& g) { g.values.back().shape.push_back(0); });
  broken([](Graph& g) { g.values.back().shape[0] = 99; });
  broken([](Graph& g) { g.inputs.push_back(g.inputs[0]); });
  broken([](Graph& g) { g.size_sources[0].dim = 9; });
}

}  // namespace
}  // namespace flambeau
