// Reductions, scans and the contraction, with their derivatives. The order of combination is
// defined in docs/design.md and built in kernel/.
//
// Attributes: reduce ints = {Monoid, dims...}; scan ints = {Monoid, dim}; dot none.
#include <algorithm>

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
using graph::Trace;
using graph::ValueId;
using Tensors = std::vector<Tensor>;

namespace {

bool is_reduced(const Attributes& a, size_t d) {
  return std::find(a.ints.begin() + 1, a.ints.end(), static_cast<int64_t>(d)) != a.ints.end();
}

/// A reduced value repeated over the dims it was reduced along.
Tensor spread(const Tensor& reduced, const Tensor& like, const Attributes& a) {
  std::vector<int64_t> from;
  int64_t next = 0;
  for (int64_t d = 0; d < like.dim(); ++d)
    from.push_back(is_reduced(a, static_cast<size_t>(d)) ? -1 : next++);
  return broadcast(reduced, graph::sizes_of(like), from);
}

/// Product of all elements but the own one along the reduced dims: no division, so zeros are right.
Tensor product_of_others(const Tensor& x, const Attributes& a) {
  // Move the reduced dims last and flatten them: [..., n].
  std::vector<int64_t> kept, reduced;
  for (int64_t d = 0; d < x.dim(); ++d)
    (is_reduced(a, static_cast<size_t>(d)) ? reduced : kept).push_back(d);
  std::vector<int64_t> order = kept;
  order.insert(order.end(), reduced.begin(), reduced.end());
  Tensor moved = permute(x, order);
  Sizes flat, moved_sizes = graph::sizes_of(moved);
  for (size_t i = 0; i < kept.size(); ++i) flat.push_back(moved_sizes[i]);
  Size n = 1;
  for (size_t i = kept.size(); i < moved_sizes.size(); ++i) n = n * moved_sizes[i];
  flat.push_back(n);
  Tensor y = reshape(moved, flat);
  auto last = static_cast<int64_t>(flat.size()) - 1;
  Tensor one = constant(1.0, x.dtype());
  auto exclusive = [&](const Tensor& v) {
    return scan(pad(slice(v, last, 0, max(n - 1, 0), 1), last, min(n, 1), n, 1, one), last,
                Monoid::product);
  };
  Tensor before = exclusive(y), after = reverse(exclusive(reverse(y, {last})), {last});
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return permute(reshape(mul(before, after), moved_sizes), inverse);
}

Tensor derivative_of_extreme(const Application& app, const Tensor& g) {
  // Equal extremes share the cotangent evenly.
  const Tensor& x = app.inputs[0];
  Tensor extreme = spread(app.outputs[0], x, app.attributes);
  Tensor hit = bit_or(eq(x, extreme), bit_and(ne(x, x), ne(extreme, extreme)));
  std::vector<int64_t> dims(app.attributes.ints.begin() + 1, app.attributes.ints.end());
  Tensor count = reduce(cast(hit, x.dtype()), dims, Monoid::sum);
  return select(hit, spread(div(g, count), x, app.attributes), zeros_like(x));
}

}  // namespace

const Primitive kReduce(
    {.name = "reduce",
     .kind = Primitive::Kind::reduce,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes& a) -> ResultTypes {
       DType t = g.value(x[0]).dtype;
       auto monoid = static_cast<Monoid>(a.ints[0]);
       bool logical = monoid == Monoid::all || monoid == Monoid::any;
       internal_check(logical == (t == DType::boolean) || monoid >= Monoid::maximum,
                      "reduce: does not take ", t);
       internal_check(!is_complex(t) && t != DType::float16 && t != DType::bfloat16,
                      "reduce: does not take ", t);
       Shape shape;
       for (size_t d = 0; d < g.value(x[0]).shape.size(); ++d) {
         if (!is_reduced(a, d)) shape.push_back(g.value(x[0]).shape[d]);
       }
       return {{monoid >= Monoid::argmax ? DType::int64 : t, shape}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       const Tensor& x = app.inputs[0];
       if (!is_float(x.dtype())) return {Tensor()};
       switch (static_cast<Monoid>(app.attributes.ints[0])) {
         case Monoid::sum:
           return {spread(ct[0], x, app.attributes)};
         case Monoid::product:
           return {mul(spread(ct[0], x, app.attributes), product_of_others(x, app.attributes))};
         case Monoid::maximum:
         case Monoid::minimum:
           return {derivative_of_extreme(app, ct[0])};
         default:
           return {Tensor()};
       }
     },
     .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
       const Tensor& x = app.inputs[0];
       if (!tangents[0].defined() || !is_float(x.dtype())) return {Tensor()};
       std::vector<int64_t> dims(app.attributes.ints.begin() + 1, app.attributes.ints.end());
       switch (static_cast<Monoid>(app.attributes.ints[0])) {
         case Monoid::sum:
           return {reduce(tangents[0], dims, Monoid::sum)};
         case Monoid::product:
           return {
               reduce(mul(tangents[0], product_of_others(x, app.attributes)), dims, Monoid::sum)};
         case Monoid::maximum:
         case Monoid::minimum: {
           Tensor ones = constant_like(app.outputs[0], 1);
           return {reduce(mul(tangents[0], derivative_of_extreme(app, ones)), dims, Monoid::sum)};
         }
         default:
           return {Tensor()};
       }
     },
     .factors =
         [](const Graph& g, const graph::Node& n) {
           std::vector<Factor> factors;
           int32_t next = 0;
           for (size_t d = 0; d < g.value(n.inputs[0]).shape.size(); ++d) {
             bool reduced = is_reduced(n.attributes, d);
             factors.push_back({reduced ? Factor::Kind::reduced : Factor::Kind::mapped,
                                {static_cast<int32_t>(d)},
                                {reduced ? -1 : next++}});
           }
           return factors;
         }});

const Primitive kScan({.name = "scan",
                       .kind = Primitive::Kind::scan,
                       .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                   const Attributes&) -> ResultTypes {
                         DType t = g.value(x[0]).dtype;
                         internal_check(t == DType::float32 || t == DType::float64 || is_integer(t),
                                        "scan: does not take ", t);
                         return {{t, g.value(x[0]).shape}};
                       },
                       .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                         if (!is_float(app.inputs[0].dtype())) return {Tensor()};
                         int64_t dim = app.attributes.ints[1];
                         auto monoid = static_cast<Monoid>(app.attributes.ints[0]);
                         check(monoid == Monoid::sum, ErrorKind::not_implemented,
                               "scan: the derivative is defined for sums only");
                         return {reverse(scan(reverse(ct[0], {dim}), dim, Monoid::sum), {dim})};
                       },
                       .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
                         if (!tangents[0].defined() || !is_float(app.inputs[0].dtype()))
                           return {Tensor()};
                         auto monoid = static_cast<Monoid>(app.attributes.ints[0]);
                         check(monoid == Monoid::sum, ErrorKind::not_implemented,
                               "scan: the derivative is defined for sums only");
                         return {scan(tangents[0], app.attributes.ints[1], Monoid::sum)};
                       },
                       .factors =
                           [](const Graph& g, const graph::Node& n) {
                             std::vector<Factor> factors;
                             for (size_t d = 0; d < g.value(n.inputs[0]).shape.size(); ++d) {
                               auto i = static_cast<int32_t>(d);
                               factors.push_back({i == n.attributes.ints[1] ? Factor::Kind::whole
                                                                            : Factor::Kind::mapped,
                                                  {i},
                                                  {i}});
                             }
                             return factors;
                           }});

const Primitive kDot(
    {.name = "dot",
     .kind = Primitive::Kind::dot,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes&) -> ResultTypes {
       DType t = g.value(x[0]).dtype;
       internal_check(
           x.size() == 2 && t == g.value(x[1]).dtype && !is_complex(t) && t != DType::boolean,
           "dot: takes two tensors of one real dtype");
       const Shape &a = g.value(x[0]).shape, &b = g.value(x[1]).shape;
       internal_check(a.size() == 3 && b.size() == 3, "dot: takes [batch, m, k] and [batch, k, n]");
       DType result = t == DType::float16 || t == DType::bfloat16 ? DType::float32 : t;
       return {{result, {a[0], a[1], b[2]}}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       const Tensor &a = app.inputs[0], &b = app.inputs[1];
       if (!is_float(a.dtype())) return {Tensor(), Tensor()};
       Tensor g = cast(ct[0], a.dtype());
       return {cast(dot(g, permute(b, {0, 2, 1})), a.dtype()),
               cast(dot(permute(a, {0, 2, 1}), g), b.dtype())};
     },
     .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
       Tensor left = tangents[0].defined() ? dot(tangents[0], app.inputs[1]) : Tensor();
       Tensor right = tangents[1].defined() ? dot(app.inputs[0], tangents[1]) : Tensor();
       return {add_cotangents(left, right)};
     },
     .factors = [](const Graph&, const graph::Node&) -> std::vector<Factor> {
       return {{Factor::Kind::mapped, {0, 0}, {0}},
               {Factor::Kind::mapped, {1, -1}, {1}},
               {Factor::Kind::mapped, {-1, 2}, {2}},
               {Factor::Kind::reduced, {2, 1}, {-1}}};
     }});

namespace {

Tensor apply_reduce(const Tensor& x, const std::vector<int64_t>& dims, Monoid monoid) {
  std::vector<int64_t> ints{static_cast<int64_t>(monoid)};
  ints.insert(ints.end(), dims.begin(), dims.end());
  return apply_one(kReduce, {x}, {.ints = std::move(ints)});
}

}  // namespace

Tensor reduce(const Tensor& x, const std::vector<int64_t>& dims, Monoid monoid) {
  if (monoid != Monoid::argmax && monoid != Monoid::argmin) {
    // Dims apart from each other are reduced one group of neighbours after the other, the last one
    // first.
    for (size_t i = dims.size(); i-- > 1;) {
      if (dims[i - 1] + 1 == dims[i]) continue;
      auto middle = dims.begin() + static_cast<std::ptrdiff_t>(i);
      Tensor inner = apply_reduce(x, {middle, dims.end()}, monoid);
      return reduce(inner, {dims.begin(), middle}, monoid);
    }
  }
  return apply_reduce(x, dims, monoid);
}

Tensor scan(const Tensor& x, int64_t dim, Monoid monoid) {
  return apply_one(kScan, {x}, {.ints = {static_cast<int64_t>(monoid), dim}});
}

Tensor dot(const Tensor& a, const Tensor& b) {
  Trace* trace = Trace::current();
  bool fits = trace->require_equal(graph::size_of(a, 0), graph::size_of(b, 0),
                                   "dot: batch sizes must match") &&
              trace->require_equal(graph::size_of(a, 2), graph::size_of(b, 1),
                                   "dot: inner sizes must match");
  internal_check(fits, "dot: sizes do not fit: ", a.sizes(), " and ", b.sizes());
  return apply_one(kDot, {a, b});
}

}  // namespace flambeau::prim
