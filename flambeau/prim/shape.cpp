// Index maps: the value at an index of the result is the value at a function of that index of an
// operand. All are linear, so the jvp applies the same map to the tangent.
//
// Attributes: broadcast ints = operand dim of each result dim or -1, sizes = result; permute ints =
// dims; reshape sizes = result; slice ints = {dim}, sizes = {start, count, step}; pad ints = {dim},
// sizes = {low, total, step}; reverse ints = dims; concat ints = {dim}.
#include <algorithm>
#include <numeric>

#include "flambeau/base/error.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"

namespace flambeau::prim {

using graph::Application;
using graph::apply_one;
using graph::Attributes;
using graph::Factor;
using graph::Graph;
using graph::Primitive;
using graph::ResultTypes;
using graph::Shape;
using graph::SizeId;
using graph::SizeOp;
using graph::Trace;
using graph::ValueId;
using Tensors = std::vector<Tensor>;

namespace {

const Shape& shape_of(const Graph& g, ValueId v) { return g.value(v).shape; }

std::vector<SizeId> ids(const Sizes& sizes) {
  std::vector<SizeId> result;
  for (Size s : sizes) result.push_back(Trace::current()->id(s));
  return result;
}

Sizes sizes_from(const std::vector<SizeId>& ids) {
  Sizes result;
  for (SizeId s : ids) result.push_back(Trace::current()->size(s));
  return result;
}

std::vector<int32_t> numbers(size_t count, int32_t value) {
  return std::vector<int32_t>(count, value);
}

/// Factors where result dim d is operand dim `from[d]`; dims of the operand that no result dim has
/// are whole.
std::vector<Factor> mapped(const std::vector<int64_t>& from, size_t operand_rank, size_t operands) {
  std::vector<Factor> factors;
  std::vector<bool> used(operand_rank);
  for (size_t d = 0; d < from.size(); ++d) {
    Factor f{Factor::Kind::mapped, numbers(operands, -1), {static_cast<int32_t>(d)}};
    if (from[d] >= 0) {
      f.input_dims[0] = static_cast<int32_t>(from[d]);
      used[static_cast<size_t>(from[d])] = true;
    }
    factors.push_back(f);
  }
  for (size_t d = 0; d < operand_rank; ++d) {
    if (used[d]) continue;
    Factor f{Factor::Kind::whole, numbers(operands, -1), {-1}};
    f.input_dims[0] = static_cast<int32_t>(d);
    factors.push_back(f);
  }
  return factors;
}

/// All dims mapped, but for those listed, of which the whole extent is needed.
std::vector<Factor> mapped_except(const Graph& g, const graph::Node& n,
                                  const std::vector<int64_t>& whole, bool first_operand_only) {
  std::vector<Factor> factors;
  for (size_t d = 0; d < shape_of(g, n.outputs[0]).size(); ++d) {
    bool is_whole = std::find(whole.begin(), whole.end(), static_cast<int64_t>(d)) != whole.end();
    Factor f{is_whole ? Factor::Kind::whole : Factor::Kind::mapped,
             numbers(n.inputs.size(), static_cast<int32_t>(d)),
             {static_cast<int32_t>(d)}};
    if (first_operand_only) {
      for (size_t i = 1; i < f.input_dims.size(); ++i) f.input_dims[i] = -1;
    }
    factors.push_back(f);
  }
  return factors;
}

Tensors linear_jvp(const Application& a, const Tensors& tangents) {
  if (!tangents[0].defined()) return Tensors(1);
  Tensors operands = a.inputs;
  operands[0] = tangents[0];
  return graph::apply(*a.primitive, operands, a.attributes);
}

bool has_gradient(const Tensor& t) { return is_inexact(t.dtype()); }

Tensor add_any(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return add(a, b);
  return make_complex(add(real(a), real(b)), add(imag(a), imag(b)));
}

Tensor sum_any(const Tensor& x, const std::vector<int64_t>& dims) {
  if (!is_complex(x.dtype()))
    return is_float(x.dtype()) && itemsize(x.dtype()) == 2
               ? cast(reduce(cast(x, DType::float32), dims, Monoid::sum), x.dtype())
               : reduce(x, dims, Monoid::sum);
  return make_complex(reduce(real(x), dims, Monoid::sum), reduce(imag(x), dims, Monoid::sum));
}

}  // namespace

const Primitive kBroadcast(
    {.name = "broadcast",
     .kind = Primitive::Kind::broadcast,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes& a) -> ResultTypes {
       internal_check(a.ints.size() == a.sizes.size(), "broadcast: as many operand dims as sizes");
       for (int64_t from : a.ints)
         internal_check(from < static_cast<int64_t>(shape_of(g, x[0]).size()),
                        "broadcast: no such operand dim");
       return {{g.value(x[0]).dtype, a.sizes}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       if (!has_gradient(app.inputs[0])) return {Tensor()};
       // Sum over the dims that are new or were stretched from size 1.
       Trace* trace = Trace::current();
       std::vector<int64_t> reduced, kept;
       for (size_t d = 0; d < app.attributes.ints.size(); ++d) {
         int64_t from = app.attributes.ints[d];
         bool stretched =
             from >= 0 &&
             trace->id(graph::size_of(app.inputs[0], from)) != app.attributes.sizes[d] &&
             graph::size_of(app.inputs[0], from) == Size(1);
         if (from < 0 || stretched)
           reduced.push_back(static_cast<int64_t>(d));
         else
           kept.push_back(from);
       }
       Tensor g = reduced.empty() ? ct[0] : sum_any(ct[0], reduced);
       std::vector<int64_t> order(kept.size());
       std::iota(order.begin(), order.end(), 0);
       std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
         return kept[static_cast<size_t>(a)] < kept[static_cast<size_t>(b)];
       });
       return {reshape(permute(g, order), graph::sizes_of(app.inputs[0]))};
     },
     .jvp = linear_jvp,
     .factors =
         [](const Graph& g, const graph::Node& n) {
           std::vector<int64_t> from = n.attributes.ints;
           for (size_t d = 0; d < from.size(); ++d) {
             if (from[d] >= 0 &&
                 shape_of(g, n.inputs[0])[static_cast<size_t>(from[d])] != n.attributes.sizes[d])
               from[d] = -1;
           }
           return mapped(from, shape_of(g, n.inputs[0]).size(), 1);
         }});

const Primitive kPermute({.name = "permute",
                          .kind = Primitive::Kind::permute,
                          .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                      const Attributes& a) -> ResultTypes {
                            Shape shape;
                            internal_check(a.ints.size() == shape_of(g, x[0]).size(),
                                           "permute: as many dims as the operand has");
                            for (int64_t d : a.ints)
                              shape.push_back(shape_of(g, x[0]).at(static_cast<size_t>(d)));
                            return {{g.value(x[0]).dtype, shape}};
                          },
                          .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                            std::vector<int64_t> inverse(app.attributes.ints.size());
                            for (size_t d = 0; d < inverse.size(); ++d)
                              inverse[static_cast<size_t>(app.attributes.ints[d])] =
                                  static_cast<int64_t>(d);
                            return {permute(ct[0], inverse)};
                          },
                          .jvp = linear_jvp,
                          .factors =
                              [](const Graph& g, const graph::Node& n) {
                                return mapped(n.attributes.ints, shape_of(g, n.inputs[0]).size(),
                                              1);
                              }});

const Primitive kReshape({.name = "reshape",
                          .kind = Primitive::Kind::reshape,
                          .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                      const Attributes& a) -> ResultTypes {
                            return {{g.value(x[0]).dtype, a.sizes}};
                          },
                          .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                            return {reshape(ct[0], graph::sizes_of(app.inputs[0]))};
                          },
                          .jvp = linear_jvp,
                          .factors =
                              [](const Graph& g, const graph::Node& n) {
                                return mapped(std::vector<int64_t>(n.attributes.sizes.size(), -1),
                                              shape_of(g, n.inputs[0]).size(), 1);
                              }});

const Primitive kSlice({.name = "slice",
                        .kind = Primitive::Kind::slice,
                        .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                    const Attributes& a) -> ResultTypes {
                          Shape shape = shape_of(g, x[0]);
                          shape.at(static_cast<size_t>(a.ints[0])) = a.sizes.at(1);
                          return {{g.value(x[0]).dtype, shape}};
                        },
                        .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                          if (!has_gradient(app.inputs[0])) return {Tensor()};
                          Sizes s = sizes_from(app.attributes.sizes);
                          int64_t dim = app.attributes.ints[0];
                          return {pad(ct[0], dim, s[0], graph::size_of(app.inputs[0], dim), s[2],
                                      constant(0.0, ct[0].dtype()))};
                        },
                        .jvp = linear_jvp,
                        .factors =
                            [](const Graph& g, const graph::Node& n) {
                              return mapped_except(g, n, {n.attributes.ints[0]}, false);
                            }});

const Primitive kPad({.name = "pad",
                      .kind = Primitive::Kind::pad,
                      .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                  const Attributes& a) -> ResultTypes {
                        internal_check(x.size() == 2 && shape_of(g, x[1]).empty() &&
                                           g.value(x[0]).dtype == g.value(x[1]).dtype,
                                       "pad: the value must be 0-d and of the operand's dtype");
                        Shape shape = shape_of(g, x[0]);
                        shape.at(static_cast<size_t>(a.ints[0])) = a.sizes.at(1);
                        return {{g.value(x[0]).dtype, shape}};
                      },
                      .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                        if (!has_gradient(app.inputs[0])) return {Tensor(), Tensor()};
                        Sizes s = sizes_from(app.attributes.sizes);
                        int64_t dim = app.attributes.ints[0];
                        // The padding value is a number of the caller: no cotangent is asked of it.
                        return {slice(ct[0], dim, s[0], graph::size_of(app.inputs[0], dim), s[2]),
                                Tensor()};
                      },
                      .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
                        if (!tangents[0].defined()) return {Tensor()};
                        return graph::apply(*app.primitive,
                                            {tangents[0], constant(0.0, tangents[0].dtype())},
                                            app.attributes);
                      },
                      .factors =
                          [](const Graph& g, const graph::Node& n) {
                            return mapped_except(g, n, {n.attributes.ints[0]}, true);
                          }});

const Primitive kReverse({.name = "reverse",
                          .kind = Primitive::Kind::reverse,
                          .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                      const Attributes&) -> ResultTypes {
                            return {{g.value(x[0]).dtype, shape_of(g, x[0])}};
                          },
                          .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                            return {reverse(ct[0], app.attributes.ints)};
                          },
                          .jvp = linear_jvp,
                          .factors =
                              [](const Graph& g, const graph::Node& n) {
                                return mapped_except(g, n, n.attributes.ints, false);
                              }});

const Primitive kConcat(
    {.name = "concat",
     .kind = Primitive::Kind::concat,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes& a) -> ResultTypes {
       internal_check(!x.empty(), "concat: needs operands");
       Shape shape = shape_of(g, x[0]);
       auto dim = static_cast<size_t>(a.ints[0]);
       for (size_t i = 1; i < x.size(); ++i) {
         internal_check(
             g.value(x[i]).dtype == g.value(x[0]).dtype && shape_of(g, x[i]).size() == shape.size(),
             "concat: dtypes and ranks must match");
         shape.at(dim) = g.sizes.binary(SizeOp::add, shape[dim], shape_of(g, x[i])[dim]);
       }
       return {{g.value(x[0]).dtype, shape}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       Tensors result;
       int64_t dim = app.attributes.ints[0];
       Size start = 0;
       for (const auto& x : app.inputs) {
         Size count = graph::size_of(x, dim);
         result.push_back(has_gradient(x) ? slice(ct[0], dim, start, count, 1) : Tensor());
         start = start + count;
       }
       return result;
     },
     .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
       Tensors parts;
       for (size_t i = 0; i < tangents.size(); ++i)
         parts.push_back(tangents[i].defined() ? tangents[i] : zeros_like(app.inputs[i]));
       return graph::apply(*app.primitive, parts, app.attributes);
     },
     .factors =
         [](const Graph& g, const graph::Node& n) {
           return mapped_except(g, n, {n.attributes.ints[0]}, false);
         }});

Tensor broadcast(const Tensor& x, const Sizes& sizes, const std::vector<int64_t>& from) {
  // The identity needs no node.
  Trace* trace = Trace::current();
  bool same = static_cast<int64_t>(from.size()) == x.dim();
  for (size_t d = 0; same && d < from.size(); ++d) {
    same = from[d] == static_cast<int64_t>(d) &&
           trace->id(graph::size_of(x, from[d])) == trace->id(sizes[d]);
  }
  return same ? x : apply_one(kBroadcast, {x}, {.ints = from, .sizes = ids(sizes)});
}

Tensor permute(const Tensor& x, const std::vector<int64_t>& dims) {
  bool same = true;
  for (size_t d = 0; d < dims.size(); ++d) same &= dims[d] == static_cast<int64_t>(d);
  return same ? x : apply_one(kPermute, {x}, {.ints = dims});
}

Tensor reshape(const Tensor& x, const Sizes& sizes) {
  std::vector<SizeId> shape = ids(sizes);
  Trace* trace = Trace::current();
  if (trace->graph().value(x.impl()->traced).shape == shape) return x;
  return apply_one(kReshape, {x}, {.sizes = shape});
}

Tensor slice(const Tensor& x, int64_t dim, Size start, Size count, Size step) {
  return apply_one(kSlice, {x}, {.ints = {dim}, .sizes = ids({start, count, step})});
}

Tensor pad(const Tensor& x, int64_t dim, Size low, Size total, Size step, const Tensor& value) {
  return apply_one(kPad, {x, value}, {.ints = {dim}, .sizes = ids({low, total, step})});
}

Tensor spread(const Tensor& x, int64_t dim, int64_t low, Size total, int64_t step,
              const Tensor& value) {
  Size count = graph::size_of(x, dim);
  int64_t skipped = low < 0 ? (-low + step - 1) / step : 0;
  low += skipped * step;
  Size room = (max(total - Size(low), 0) + Size(step - 1)) / Size(step);
  Size kept = min(skipped > 0 ? max(count - Size(skipped), 0) : count, room);
  Tensor inside = slice(x, dim, skipped > 0 ? min(Size(skipped), count) : Size(0), kept, 1);
  return pad(inside, dim, low, total, step, value);
}

Tensor reverse(const Tensor& x, const std::vector<int64_t>& dims) {
  return dims.empty() ? x : apply_one(kReverse, {x}, {.ints = dims});
}

Tensor concat(const std::vector<Tensor>& xs, int64_t dim) {
  Trace* trace = Trace::current();
  for (size_t i = 1; i < xs.size(); ++i) {
    for (int64_t d = 0; d < xs[0].dim(); ++d) {
      if (d == dim) continue;
      bool equal = trace->require_equal(graph::size_of(xs[0], d), graph::size_of(xs[i], d),
                                        "concat: sizes except along the dim must match");
      internal_check(equal, "concat: sizes differ: ", xs[0].sizes(), " and ", xs[i].sizes());
    }
  }
  return xs.size() == 1 ? xs[0] : apply_one(kConcat, xs, {.ints = {dim}});
}

Tensor add_cotangents(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  bool half = a.dtype() == DType::float16 || a.dtype() == DType::bfloat16;
  return half ? cast(add(cast(a, DType::float32), cast(b, DType::float32)), a.dtype())
              : add_any(a, b);
}

}  // namespace flambeau::prim
