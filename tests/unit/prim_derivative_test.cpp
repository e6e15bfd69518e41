// Every primitive's vjp against its jvp by transposition, <w, jvp(t)> = <vjp(w), t>, and the jvp
// against differences, in float64. The factors of every primitive fit its shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "flambeau/graph/primitive.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"
#include "flambeau/run/deferred.h"
#include "flambeau/run/program.h"
#include "ops_samples.h"

namespace flambeau {
namespace {

using Body = std::function<Tensor(const std::vector<Tensor>&)>;

struct Sample {
  std::string name;
  Body body;
  std::vector<Dims> sizes;
  double low = -2, high = 2;  // where the operands are
  bool smooth = true;         // differences make sense
};

std::vector<Sample> samples_of_primitives() {
  std::vector<Sample> all;
  auto one = [&](const char* name, Tensor (*f)(const Tensor&), double low = -2, double high = 2,
                 bool smooth = true) {
    all.push_back(
        {name, [f](const std::vector<Tensor>& x) { return f(x[0]); }, {{7}}, low, high, smooth});
  };
  auto two = [&](const char* name, Tensor (*f)(const Tensor&, const Tensor&), double low = -2,
                 double high = 2, bool smooth = true) {
    all.push_back({name,
                   [f](const std::vector<Tensor>& x) { return f(x[0], x[1]); },
                   {{2, 3}, {2, 3}},
                   low,
                   high,
                   smooth});
  };
  one("neg", prim::neg);
  one("abs", prim::abs);
  one("floor", prim::floor, -2, 2, false);
  one("ceil", prim::ceil, -2, 2, false);
  one("trunc", prim::trunc, -2, 2, false);
  one("round", prim::round, -2, 2, false);
  one("sqrt", prim::sqrt, 0.5, 3);
  one("exp", prim::exp);
  one("exp2", prim::exp2);
  one("expm1", prim::expm1);
  one("log", prim::log, 0.5, 3);
  one("log2", prim::log2, 0.5, 3);
  one("log10", prim::log10, 0.5, 3);
  one("log1p", prim::log1p, -0.5, 3);
  one("sin", prim::sin);
  one("cos", prim::cos);
  one("tan", prim::tan, -1, 1);
  one("asin", prim::asin, -0.8, 0.8);
  one("acos", prim::acos, -0.8, 0.8);
  one("atan", prim::atan);
  one("sinh", prim::sinh);
  one("cosh", prim::cosh);
  one("tanh", prim::tanh);
  one("asinh", prim::asinh);
  one("acosh", prim::acosh, 1.5, 3);
  one("atanh", prim::atanh, -0.8, 0.8);
  one("erf", prim::erf);
  one("erfc", prim::erfc);
  one("erfinv", prim::erfinv, -0.8, 0.8);
  one("lgamma", prim::lgamma, 0.5, 4);
  one("digamma", prim::digamma, -1.8, 4);
  two("add", prim::add);
  two("sub", prim::sub);
  two("mul", prim::mul);
  two("div", prim::div, 0.5, 2);
  two("rem", prim::rem, 0.5, 2, false);
  two("pow", prim::pow, 0.5, 2);
  two("atan2", prim::atan2, 0.5, 2);
  two("maximum", prim::maximum);
  two("minimum", prim::minimum);
  auto add = [&](const char* name, Body body, std::vector<Dims> sizes, bool smooth = true) {
    all.push_back({name, std::move(body), std::move(sizes), 0.5, 2, smooth});
  };
  add("select",
      [](const std::vector<Tensor>& x) {
        return prim::select(prim::gt(x[0], prim::constant_like(x[0], 1.2)), x[0], x[1]);
      },
      {{9}, {9}});
  add("broadcast",
      [](const std::vector<Tensor>& x) { return prim::broadcast(x[0], {4, 3, 2}, {-1, 0, 1}); },
      {{3, 2}});
  add("permute", [](const std::vector<Tensor>& x) { return prim::permute(x[0], {2, 0, 1}); },
      {{2, 3, 4}});
  add("reshape", [](const std::vector<Tensor>& x) { return prim::reshape(x[0], {6, 2}); },
      {{3, 4}});
  add("slice", [](const std::vector<Tensor>& x) { return prim::slice(x[0], 1, 1, 2, 2); },
      {{2, 5}});
  add("pad",
      [](const std::vector<Tensor>& x) {
        return prim::pad(x[0], 0, 1, 7, 2, prim::constant(3.0, DType::float64));
      },
      {{3, 2}});
  add("reverse", [](const std::vector<Tensor>& x) { return prim::reverse(x[0], {0, 1}); },
      {{3, 2}});
  add("concat", [](const std::vector<Tensor>& x) { return prim::concat({x[0], x[1]}, 1); },
      {{2, 3}, {2, 1}});
  auto index = [](int64_t n, int64_t modulus) {
    return prim::rem(prim::iota({Size(n)}, 0), prim::constant(modulus, DType::int64, {Size(n)}));
  };
  add("take", [=](const std::vector<Tensor>& x) { return prim::take(x[0], index(5, 3), 0); },
      {{3, 2}});
  add("put add",
      [=](const std::vector<Tensor>& x) {
        return prim::put(x[0], index(5, 3), x[1], 0, prim::Combine::add);
      },
      {{3, 2}, {5, 2}});
  add("put set",
      [=](const std::vector<Tensor>& x) {
        return prim::put(x[0], index(2, 3), x[1], 0, prim::Combine::set);
      },
      {{3, 2}, {2, 2}});
  for (auto [name, monoid] :
       {std::pair("sum", prim::Monoid::sum), std::pair("product", prim::Monoid::product),
        std::pair("maximum", prim::Monoid::maximum), std::pair("minimum", prim::Monoid::minimum)}) {
    for (std::vector<int64_t> dims :
         {std::vector<int64_t>{0}, std::vector<int64_t>{1}, std::vector<int64_t>{0, 1}}) {
      add(("reduce " + std::string(name)).c_str(),
          [=, m = monoid](const std::vector<Tensor>& x) { return prim::reduce(x[0], dims, m); },
          {{3, 4}});
    }
  }
  add("scan", [](const std::vector<Tensor>& x) { return prim::scan(x[0], 1, prim::Monoid::sum); },
      {{3, 4}});
  add("dot", [](const std::vector<Tensor>& x) { return prim::dot(x[0], x[1]); },
      {{2, 3, 4}, {2, 4, 5}});
  for (int64_t step : {1, 2}) {
    prim::Window w{{step, 1}, {1, 2}, {2, 2}};
    add("conv", [w](const std::vector<Tensor>& x) { return prim::conv(x[0], x[1], w); },
        {{2, 1, 2, 5, 4}, {1, 3, 2, 2, 2}});
    add("conv_weight_by_outer",
        [w](const std::vector<Tensor>& x) { return prim::conv_weight(x[0], x[1], w); },
        {{2, 1, 2, 5, 4}, {2, 1, 3, step == 1 ? 4 : 2, 2}});
  }
  add("conv_weight",
      [](const std::vector<Tensor>& x) { return prim::conv_weight(x[0], x[1], {{1}, {1}, {2}}); },
      {{1, 1, 24, 3}, {1, 1, 2, 2}});
  return all;
}

Tensor uniform(const Dims& sizes, double low, double high) {
  Sizes s;
  for (int64_t n : sizes) s.emplace_back(n);
  Tensor u = std::get<Tensor>(samples::call_named("rand", "", {s, DType::float64}));
  for (int64_t i = 0; i < u.numel(); ++i)
    u.data_as<double>()[i] = low + (high - low) * u.data_as<double>()[i];
  return u;
}

double inner(const Tensor& a, const Tensor& b) {
  double total = 0;
  for (int64_t i = 0; i < a.numel(); ++i) total += a.data_as<double>()[i] * b.data_as<double>()[i];
  return total;
}

/// Results of a body, and of what `more` adds to the trace.
std::vector<Tensor> run_traced(
    const std::vector<Tensor>& operands,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body) {
  graph::Trace trace;
  std::vector<Tensor> inputs;
  std::vector<run::Operand> given;
  for (const Tensor& t : operands) {
    inputs.push_back(trace.add_tensor_input(t.dtype(), t.sizes()));
    given.emplace_back(t);
  }
  for (const Tensor& t : body(inputs)) trace.add_output(t);
  auto program =
      std::make_shared<run::Program>("test", graph::simplify(trace.graph()), trace.input_sizes());
  return run::execute_now(program, given, {});
}

/// The tangent of the body's result, node by node.
Tensor push_forward(graph::Trace& trace, size_t first_node, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& tangents, const Tensor& result) {
  std::map<graph::ValueId, Tensor> tangent;
  for (size_t i = 0; i < inputs.size(); ++i) tangent[inputs[i].impl()->traced] = tangents[i];
  size_t last = trace.graph().nodes.size();
  for (size_t i = first_node; i < last; ++i) {
    const graph::Node n = trace.graph().nodes[i];
    std::vector<Tensor> in, out, t;
    bool any = false;
    for (graph::ValueId v : n.inputs) {
      in.push_back(trace.tensor(v));
      auto it = tangent.find(v);
      t.push_back(it == tangent.end() ? Tensor() : it->second);
      any |= t.back().defined();
    }
    for (graph::ValueId v : n.outputs) out.push_back(trace.tensor(v));
    if (!any || !n.primitive->jvp || !is_inexact(out[0].dtype())) continue;
    std::vector<Tensor> pushed = n.primitive->jvp({n.primitive, n.attributes, in, out}, t);
    for (size_t o = 0; o < n.outputs.size(); ++o) tangent[n.outputs[o]] = pushed[o];
  }
  auto it = tangent.find(result.impl()->traced);
  return it == tangent.end() || !it->second.defined() ? prim::zeros_like(result) : it->second;
}

TEST(Primitives, DerivativesAgree) {
  for (const Sample& s : samples_of_primitives()) {
    std::vector<Tensor> operands, tangents, all;
    for (const Dims& sizes : s.sizes) {
      operands.push_back(uniform(sizes, s.low, s.high));
      tangents.push_back(uniform(sizes, -1, 1));
    }
    all = operands;
    all.insert(all.end(), tangents.begin(), tangents.end());
    size_t n = operands.size();
    // jvp
    std::vector<Tensor> pushed = run_traced(all, [&](const std::vector<Tensor>& x) {
      std::vector<Tensor> in(x.begin(), x.begin() + static_cast<ptrdiff_t>(n)),
          t(x.begin() + static_cast<ptrdiff_t>(n), x.end());
      size_t first = graph::Trace::current()->graph().nodes.size();
      Tensor y = s.body(in);
      return std::vector<Tensor>{y, push_forward(*graph::Trace::current(), first, in, t, y)};
    });
    Tensor w = uniform(pushed[0].sizes(), -1, 1);
    // vjp, through the derivative of a program
    auto program = [&] {
      graph::Trace trace;
      std::vector<Tensor> inputs;
      for (const Tensor& t : operands)
        inputs.push_back(trace.add_tensor_input(t.dtype(), t.sizes()));
      trace.add_output(s.body(inputs));
      return std::make_shared<run::Program>(s.name, graph::simplify(trace.graph()),
                                            trace.input_sizes());
    }();
    auto d = program->derivative(std::vector<bool>(n, true));
    std::vector<run::Operand> given(operands.begin(), operands.end());
    std::vector<Tensor> forward = run::execute_now(d->forward, given, {});
    std::vector<int64_t> sizes = program->evaluate_sizes(given, {}), size_arguments;
    for (graph::SizeId id : d->sizes)
      size_arguments.push_back(id < 0 ? 0 : sizes[static_cast<size_t>(id)]);
    std::vector<run::Operand> sources;
    for (const auto& source : d->sources) {
      using Kind = run::Derivative::Source::Kind;
      auto at = static_cast<size_t>(source.index);
      switch (source.kind) {
        case Kind::input:
          sources.emplace_back(operands[at]);
          break;
        case Kind::output:
          sources.emplace_back(forward[at]);
          break;
        case Kind::kept:
          sources.emplace_back(forward[static_cast<size_t>(d->outputs) + at]);
          break;
        case Kind::cotangent:
          sources.emplace_back(w);
          break;
      }
    }
    std::vector<Tensor> back = run::execute_now(d->backward, sources, size_arguments);
    double left = inner(w, pushed[1]), right = 0;
    size_t next = 0;
    for (size_t i = 0; i < d->wanted.size(); ++i) {
      if (d->has_cotangent[i])
        right += inner(back[next++], tangents[static_cast<size_t>(d->wanted[i])]);
    }
    EXPECT_NEAR(left, right, 1e-9 * (1 + std::abs(left))) << s.name;
    if (!s.smooth) continue;
    auto moved = [&](double step) {
      std::vector<Tensor> x;
      for (size_t i = 0; i < n; ++i) {
        Tensor t = std::get<Tensor>(samples::call_named("clone", "", {operands[i]}));
        for (int64_t e = 0; e < t.numel(); ++e)
          t.data_as<double>()[e] += step * tangents[i].data_as<double>()[e];
        x.push_back(t);
      }
      return inner(w, run_traced(x, [&](const std::vector<Tensor>& v) {
                     return std::vector<Tensor>{s.body(v)};
                   })[0]);
    };
    double step = 1e-5, difference = (moved(step) - moved(-step)) / (2 * step);
    EXPECT_NEAR(left, difference, 1e-5 * (1 + std::abs(left))) << s.name;
  }
}

TEST(Primitives, FactorsNameEveryDimOnce) {
  int checked = 0;
  for (const Sample& s : samples_of_primitives()) {
    graph::Trace trace;
    std::vector<Tensor> inputs;
    for (const Dims& sizes : s.sizes)
      inputs.push_back(trace.add_tensor_input(DType::float64, sizes));
    s.body(inputs);
    const graph::Graph& g = trace.graph();
    for (const graph::Node& n : g.nodes) {
      if (!n.primitive->factors) continue;
      std::vector<graph::Factor> factors = n.primitive->factors(g, n);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        std::vector<int> named(g.value(n.inputs[i]).shape.size());
        for (const graph::Factor& f : factors) {
          int32_t d = f.input_dims[i];
          if (d < 0) continue;
          ASSERT_LT(static_cast<size_t>(d), named.size()) << n.primitive->name;
          ++named[static_cast<size_t>(d)];
        }
        for (int count : named) EXPECT_EQ(count, 1) << n.primitive->name << ", operand " << i;
      }
      for (const graph::Factor& f : factors) {
        if (f.kind == graph::Factor::Kind::reduced) {
          for (int32_t d : f.output_dims) EXPECT_LT(d, 0) << n.primitive->name;
        }
        if (f.kind != graph::Factor::Kind::mapped) continue;
        // A mapped dim has one size in every operand and result.
        std::optional<int64_t> size;
        auto same = [&](graph::ValueId v, int32_t d) {
          if (d < 0) return;
          int64_t here = trace.present(g.value(v).shape[static_cast<size_t>(d)]);
          EXPECT_EQ(size.value_or(here), here) << n.primitive->name;
          size = here;
        };
        for (size_t i = 0; i < n.inputs.size(); ++i) same(n.inputs[i], f.input_dims[i]);
        for (size_t o = 0; o < n.outputs.size(); ++o) same(n.outputs[o], f.output_dims[o]);
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

TEST(Primitives, ThereAreAtMost120) {
  EXPECT_LE(graph::all_primitives().size(), 120u);
  for (const graph::Primitive* p : graph::all_primitives())
    EXPECT_EQ(graph::find_primitive(p->name), p);
}

}  // namespace
}  // namespace flambeau
