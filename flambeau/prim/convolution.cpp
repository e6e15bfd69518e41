// Convolutions. The input is split by phases: along a spatial dim with step s, position p is at
// [p % s, p / s], so that a window moves by one position.
//
// conv: input [n, g, c, s..., q...], weight [g, o, c * t...]; the result
//   y[n, g, o, y...] = sum over c, t of weight[g, o, c, t] input[n, g, c, (t d) % s, y + (t d) / s]
// in ascending order of (c, t...), with dims [n, g, o, y...], or [n, g, y1, o, y2, y3] for three.
// conv_weight: input [g, n, s..., q..., c], cotangent [n, g, o, y...]; the result
//   w[g, o, c, t] = sum over n, y of cotangent[n, g, o, y] input[g, n, (t d) % s, y + (t d) / s, c]
// in ascending order of (n, y...), with dims [g, t1..., o, t, c] where step and dilation of the
// last dim are 1, else [g, t..., o, c].
// conv_weight_by_outer: the same with input [n, g, c, s..., q...] and cotangent [n, g, y..., o] as
// [g, c * t..., o], for few channels.
//
// Attributes: ints = {rank, steps..., dilations..., taps..., pairs}; sizes of conv = those of the
// result. `pairs`: operands were bfloat16, see kernel/convolution.h.
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
using graph::Trace;
using graph::ValueId;
using Tensors = std::vector<Tensor>;
using Ints = std::vector<int64_t>;

namespace {

Ints part(const Attributes& a, size_t which) {
  auto rank = static_cast<ptrdiff_t>(a.ints[0]);
  auto first = a.ints.begin() + 1 + static_cast<ptrdiff_t>(which) * rank;
  return {first, first + rank};
}

Window window_of(const Attributes& a) {
  return {part(a, 0), part(a, 1), part(a, 2), a.ints.back() != 0};
}

Attributes attributes_of(const Window& w) {
  Attributes a{.ints = {static_cast<int64_t>(w.steps.size())}};
  for (const Ints* list : {&w.steps, &w.dilations, &w.taps})
    a.ints.insert(a.ints.end(), list->begin(), list->end());
  a.ints.push_back(w.pairs);
  return a;
}

void check_operands(const Graph& g, const char* name, const std::vector<ValueId>& x,
                    const Attributes& a) {
  DType t = g.value(x[0]).dtype;
  internal_check(!a.ints.empty() && a.ints[0] >= 1 && a.ints[0] <= 3 &&
                     a.ints.size() == 2 + 3 * static_cast<size_t>(a.ints[0]),
                 name, ": attributes for 1 to 3 dims");
  internal_check(t == g.value(x[1]).dtype && (t == DType::float32 || t == DType::float64 ||
                                              t == DType::int32 || t == DType::int64),
                 name, ": takes two tensors of float32, float64, int32 or int64");
  internal_check(g.value(x[0]).shape.size() == 3 + 2 * static_cast<size_t>(a.ints[0]), name,
                 ": the input has 3 dims and two for each spatial one");
  for (size_t i = 1; i + 1 < a.ints.size(); ++i)
    internal_check(a.ints[i] >= 1, name, ": steps, dilations and taps are positive");
}

Tensor zero_of(DType t) { return constant(is_float(t) ? Scalar(0.0) : Scalar(int64_t{0}), t); }

/// Input sizes q with which windows neither leave the input nor leave some of it out.
Sizes window_sizes(const Sizes& result, const Window& w) {
  Sizes q;
  for (size_t d = 0; d < w.steps.size(); ++d)
    q.push_back(result[d] + Size((w.taps[d] - 1) * w.dilations[d] / w.steps[d]));
  return q;
}

/// [n, g, c, s...] -> [n, g, c, phases..., q...].
Tensor split(const Tensor& x, const Sizes& q, const Window& w) {
  Sizes sizes = graph::sizes_of(x);
  size_t rank = w.steps.size();
  Tensor y = x;
  Sizes split_sizes(sizes.begin(), sizes.begin() + 3);
  Ints order{0, 1, 2};
  for (size_t d = 0; d < rank; ++d) {
    auto dim = static_cast<int64_t>(3 + d);
    Size have = sizes[3 + d], want = q[d] * Size(w.steps[d]);
    if (w.steps[d] > 1) {
      y = slice(y, dim, 0, min(have, want), 1);
      y = pad(y, dim, 0, want, 1, zero_of(y.dtype()));
    }
    split_sizes.push_back(w.steps[d] > 1 ? q[d] : have);
    split_sizes.push_back(w.steps[d]);
    order.push_back(static_cast<int64_t>(4 + 2 * d));
  }
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(3 + 2 * d));
  Tensor parts = reshape(y, split_sizes);
  // One phase in every dim: nothing moves.
  bool moves = std::any_of(w.steps.begin(), w.steps.end(), [](int64_t s) { return s > 1; });
  if (moves) return permute(parts, order);
  Sizes sorted;
  for (int64_t d : order) sorted.push_back(graph::size_of(parts, d));
  return reshape(parts, sorted);
}

/// The inverse of split, for inputs whose sizes are q * steps.
Tensor joined(const Tensor& x, const Window& w) {
  Sizes sizes = graph::sizes_of(x);
  size_t rank = w.steps.size();
  Sizes whole(sizes.begin(), sizes.begin() + 3);
  Ints order{0, 1, 2};
  for (size_t d = 0; d < rank; ++d) {
    order.push_back(static_cast<int64_t>(3 + rank + d));
    order.push_back(static_cast<int64_t>(3 + d));
    whole.push_back(sizes[3 + rank + d] * Size(w.steps[d]));
  }
  return reshape(permute(x, order), whole);
}

/// Phased input with channels in front to that of conv_weight: [n, g, c, ...] -> [g, n, ..., c].
Tensor channels_last(const Tensor& x) {
  Ints order{1, 0};
  for (int64_t d = 3; d < x.dim(); ++d) order.push_back(d);
  order.push_back(2);
  return permute(x, order);
}
Tensor channels_first(const Tensor& x) {
  Ints order{1, 0, x.dim() - 1};
  for (int64_t d = 2; d + 1 < x.dim(); ++d) order.push_back(d);
  return permute(x, order);
}

/// Results of conv in three dims have the rows behind the first spatial dim.
Tensor rows_third(const Tensor& y) { return y.dim() == 6 ? permute(y, {0, 1, 3, 2, 4, 5}) : y; }

/// [g, t..., o, c] or [g, t1..., o, t, c] and back from [g, o, c, t...].
Ints weight_order(const Window& w) {
  auto rank = static_cast<int64_t>(w.steps.size());
  bool merged = w.steps.back() == 1 && w.dilations.back() == 1;
  int64_t before = rank - (merged ? 1 : 0);
  Ints order{0, 1 + before, 2 + rank};
  for (int64_t d = 0; d < before; ++d) order.push_back(1 + d);
  if (merged) order.push_back(2 + before);
  return order;
}
Sizes spatial(const Tensor& t) {
  Sizes s = graph::sizes_of(t);
  return {s.begin() + 3, s.end()};
}

/// conv of a phased input.
Tensor apply_conv(const Attributes& a, const Tensor& x, const Tensor& flat, const Sizes& result);

Tensor whole_weight(const Tensor& flat, Size inner, const Window& w) {
  Sizes sizes{graph::size_of(flat, 0), graph::size_of(flat, 1), inner};
  for (int64_t t : w.taps) sizes.emplace_back(t);
  return reshape(flat, sizes);
}

Tensor flat_weight(const Tensor& weight, const Window& w) {
  Size depth = graph::size_of(weight, 2);
  for (int64_t t : w.taps) depth = depth * Size(t);
  return reshape(weight, {graph::size_of(weight, 0), graph::size_of(weight, 1), depth});
}

/// Every spatial dim needs its whole extent; groups are mapped.
std::vector<Factor> window_factors(const Graph& g, const graph::Node& n, int32_t input_group,
                                   int32_t other_group) {
  std::vector<Factor> factors;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t d = 0; d < g.value(n.inputs[i]).shape.size(); ++d) {
      bool group = static_cast<int32_t>(d) == (i == 0 ? input_group : other_group);
      if (group) continue;
      Factor f{Factor::Kind::whole, {-1, -1}, {-1}};
      f.input_dims[i] = static_cast<int32_t>(d);
      factors.push_back(f);
    }
  }
  return factors;
}

Tensors bilinear_jvp(const Application& app, const Tensors& tangents) {
  Tensors terms(2);
  for (size_t i = 0; i < 2; ++i) {
    if (!tangents[i].defined()) continue;
    Tensors operands = app.inputs;
    operands[i] = tangents[i];
    terms[i] = apply_one(*app.primitive, operands, app.attributes);
  }
  return {add_cotangents(terms[0], terms[1])};
}

/// Cotangents of the operands of a weight's cotangent: phased input [n, g, c, ...] and [n, g, o,
/// y...] from [g, o, c, t...].
struct Operands {
  Tensor input, cotangent;
};
Operands weight_vjp(const Tensor& phased, const Tensor& cotangent, const Tensor& weight,
                    const Window& w) {
  Tensor input = joined(phased, w);
  auto rank = static_cast<int64_t>(w.steps.size());
  Sizes q;
  for (int64_t d = 0; d < rank; ++d) q.push_back(graph::size_of(phased, 3 + rank + d));
  Tensor of_input = conv_input(cotangent, weight, spatial(input), w);
  return {split(of_input, q, w),
          apply_conv(attributes_of(w), phased, flat_weight(weight, w), spatial(cotangent))};
}

/// [n, g, o, y...] -> [n, g, y..., o] and back.
Tensor outer_last(const Tensor& x) {
  Ints order{0, 1};
  for (int64_t d = 3; d < x.dim(); ++d) order.push_back(d);
  order.push_back(2);
  return permute(x, order);
}
Tensor outer_third(const Tensor& x) {
  Ints order{0, 1, x.dim() - 1};
  for (int64_t d = 2; d + 1 < x.dim(); ++d) order.push_back(d);
  return permute(x, order);
}

/// [g, c * t..., o] -> [g, o, c, t...].
Tensor unflattened(const Tensor& y, Size inner, const Window& w) {
  Sizes sizes{graph::size_of(y, 0), inner};
  for (int64_t t : w.taps) sizes.emplace_back(t);
  sizes.push_back(graph::size_of(y, 2));
  Ints order{0, static_cast<int64_t>(sizes.size()) - 1};
  for (size_t d = 1; d + 1 < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  return permute(reshape(y, sizes), order);
}

}  // namespace

const Primitive kConv(
    {.name = "conv",
     .kind = Primitive::Kind::convolution,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes& a) -> ResultTypes {
       check_operands(g, "conv", x, a);
       const Shape &in = g.value(x[0]).shape, &weight = g.value(x[1]).shape;
       auto rank = static_cast<size_t>(a.ints[0]);
       internal_check(weight.size() == 3 && a.sizes.size() == rank,
                      "conv: the weight has 3 dims, the result has a size for each spatial dim");
       Shape shape{in[0], in[1]};
       if (rank == 3) shape.push_back(a.sizes[0]);
       shape.push_back(weight[1]);
       shape.insert(shape.end(), a.sizes.begin() + (rank == 3 ? 1 : 0), a.sizes.end());
       return {{g.value(x[0]).dtype, shape}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       const Tensor &x = app.inputs[0], &flat = app.inputs[1];
       if (!is_float(x.dtype())) return {Tensor(), Tensor()};
       Window w = window_of(app.attributes);
       Tensor c = rows_third(ct[0]), input = joined(x, w);
       Tensor weight = whole_weight(flat, graph::size_of(x, 2), w);
       Tensor of_input = conv_input(c, weight, spatial(input), w);
       auto rank = static_cast<int64_t>(w.steps.size());
       Sizes q;
       for (int64_t d = 0; d < rank; ++d) q.push_back(graph::size_of(x, 3 + rank + d));
       return {split(of_input, q, w), flat_weight(conv_weight(input, c, w), w)};
     },
     .jvp = bilinear_jvp,
     .factors =
         [](const Graph& g, const graph::Node& n) {
           int32_t rows = n.attributes.ints[0] == 3 ? 3 : 2;
           std::vector<Factor> factors = window_factors(g, n, 1, 0);
           // Images and channels are not whole after all.
           std::erase_if(factors, [](const Factor& f) {
             return f.input_dims[0] == 0 || f.input_dims[1] == 1;
           });
           factors.push_back({Factor::Kind::mapped, {0, -1}, {0}});
           factors.push_back({Factor::Kind::mapped, {1, 0}, {1}});
           factors.push_back({Factor::Kind::mapped, {-1, 1}, {rows}});
           return factors;
         }});

const Primitive kConvWeight(
    {.name = "conv_weight",
     .kind = Primitive::Kind::convolution,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes& a) -> ResultTypes {
       check_operands(g, "conv_weight", x, a);
       const Shape &in = g.value(x[0]).shape, &ct = g.value(x[1]).shape;
       Window w = window_of(a);
       internal_check(ct.size() == 3 + w.taps.size(), "conv_weight: the cotangent is that of conv");
       bool merged = w.steps.back() == 1 && w.dilations.back() == 1;
       Shape shape{in[0]};
       for (size_t d = 0; d + (merged ? 1 : 0) < w.taps.size(); ++d)
         shape.push_back(g.sizes.constant(w.taps[d]));
       shape.push_back(ct[2]);
       if (merged) shape.push_back(g.sizes.constant(w.taps.back()));
       shape.push_back(in.back());
       return {{g.value(x[0]).dtype, shape}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       if (!is_float(app.inputs[0].dtype())) return {Tensor(), Tensor()};
       Window w = window_of(app.attributes);
       Operands of = weight_vjp(channels_first(app.inputs[0]), app.inputs[1],
                                permute(ct[0], weight_order(w)), w);
       return {channels_last(of.input), of.cotangent};
     },
     .jvp = bilinear_jvp,
     .factors =
         [](const Graph& g, const graph::Node& n) {
           auto channel = static_cast<int32_t>(g.value(n.inputs[0]).shape.size()) - 1;
           auto last = static_cast<int32_t>(g.value(n.outputs[0]).shape.size()) - 1;
           Window w = window_of(n.attributes);
           bool merged = w.steps.back() == 1 && w.dilations.back() == 1;
           std::vector<Factor> factors = window_factors(g, n, 0, 1);
           std::erase_if(factors, [&](const Factor& f) {
             return f.input_dims[0] == channel || f.input_dims[0] == 1 || f.input_dims[1] == 0 ||
                    f.input_dims[1] == 2;
           });
           factors.push_back({Factor::Kind::mapped, {0, 1}, {0}});
           factors.push_back({Factor::Kind::reduced, {1, 0}, {-1}});
           factors.push_back({Factor::Kind::mapped, {-1, 2}, {last - (merged ? 2 : 1)}});
           factors.push_back({Factor::Kind::mapped, {channel, -1}, {last}});
           return factors;
         }});

const Primitive kConvWeightByOuter(
    {.name = "conv_weight_by_outer",
     .kind = Primitive::Kind::convolution,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes& a) -> ResultTypes {
       check_operands(g, "conv_weight_by_outer", x, a);
       const Shape &in = g.value(x[0]).shape, &ct = g.value(x[1]).shape;
       Window w = window_of(a);
       internal_check(ct.size() == 3 + w.taps.size(),
                      "conv_weight_by_outer: the cotangent is that of conv");
       SizeId rows = in[2];
       for (int64_t t : w.taps)
         rows = g.sizes.binary(graph::SizeOp::mul, rows, g.sizes.constant(t));
       return {{g.value(x[0]).dtype, {in[1], rows, ct.back()}}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       if (!is_float(app.inputs[0].dtype())) return {Tensor(), Tensor()};
       Window w = window_of(app.attributes);
       Operands of = weight_vjp(app.inputs[0], outer_third(app.inputs[1]),
                                unflattened(ct[0], graph::size_of(app.inputs[0], 2), w), w);
       return {of.input, outer_last(of.cotangent)};
     },
     .jvp = bilinear_jvp,
     .factors =
         [](const Graph& g, const graph::Node& n) {
           auto outer = static_cast<int32_t>(g.value(n.inputs[1]).shape.size()) - 1;
           std::vector<Factor> factors = window_factors(g, n, 1, 1);
           std::erase_if(factors, [&](const Factor& f) {
             return f.input_dims[0] == 0 || f.input_dims[1] == 0 || f.input_dims[1] == outer;
           });
           factors.push_back({Factor::Kind::reduced, {0, 0}, {-1}});
           factors.push_back({Factor::Kind::mapped, {1, 1}, {0}});
           factors.push_back({Factor::Kind::mapped, {-1, outer}, {2}});
           return factors;
         }});

namespace {

Tensor apply_conv(const Attributes& a, const Tensor& x, const Tensor& flat, const Sizes& result) {
  Attributes attributes = a;
  for (Size s : result) attributes.sizes.push_back(Trace::current()->id(s));
  return rows_third(apply_one(kConv, {x, flat}, attributes));
}

}  // namespace

Tensor conv(const Tensor& x, const Tensor& weight, const Window& w) {
  Sizes in = spatial(x), result;
  for (size_t d = 0; d < w.steps.size(); ++d) {
    Size reach((w.taps[d] - 1) * w.dilations[d]);
    result.push_back(w.steps[d] == 1 ? in[d] - reach
                                     : (in[d] - reach - Size(1)) / Size(w.steps[d]) + Size(1));
  }
  return apply_conv(attributes_of(w), split(x, window_sizes(result, w), w), flat_weight(weight, w),
                    result);
}

Tensor conv_weight(const Tensor& x, const Tensor& cotangent, const Window& w) {
  Tensor phased = split(x, window_sizes(spatial(cotangent), w), w);
  // Below that the taps of a line of channels do not fill a tile's columns.
  constexpr int64_t kFewColumns = 48;
  Size inner = graph::size_of(x, 2);
  if (inner < Size((kFewColumns + w.taps.back() - 1) / w.taps.back())) {
    Tensor y = apply_one(kConvWeightByOuter, {phased, outer_last(cotangent)}, attributes_of(w));
    return unflattened(y, inner, w);
  }
  Tensor y = apply_one(kConvWeight, {channels_last(phased), cotangent}, attributes_of(w));
  return permute(y, weight_order(w));
}

Tensor conv_input(const Tensor& cotangent, const Tensor& weight, const Sizes& sizes,
                  const Window& w, const Ints& cropped) {
  Tensor c = cotangent;
  Tensor zero = zero_of(c.dtype());
  size_t rank = w.steps.size();
  Ints spatial_dims(rank);
  std::iota(spatial_dims.begin(), spatial_dims.end(), 3);
  for (size_t d = 0; d < rank; ++d) {
    auto dim = static_cast<int64_t>(3 + d);
    int64_t reach = (w.taps[d] - 1) * w.dilations[d];
    int64_t low = reach - (cropped.empty() ? 0 : cropped[d]);
    if (low == 0 && reach == 0 && w.steps[d] == 1) continue;
    Size total = sizes[d] + Size(reach);
    c = cropped.empty() ? pad(c, dim, low, total, w.steps[d], zero)
                        : spread(c, dim, low, total, w.steps[d], zero);
  }
  // [g, o, c, t...] -> [g, c, o, t reversed...]
  Ints order{0, 2, 1};
  order.insert(order.end(), spatial_dims.begin(), spatial_dims.end());
  Window unit = w;
  std::fill(unit.steps.begin(), unit.steps.end(), 1);
  return conv(c, reverse(permute(weight, order), spatial_dims), unit);
}

}  // namespace flambeau::prim
