// Values made from nothing (constant, iota), from a random state, and reads and writes at positions
// that are data (take, put).
//
// Attributes: constant ints = {real bits, imaginary bits} of doubles or {integer}, dtype, sizes;
// iota ints = {dim}, sizes; random_bits ints = {word}, sizes; take ints = {dim} or {dim, 1 for
// runtime errors}; put ints = {dim, Combine}.
#include <bit>

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

Tensors no_vjp(const Application& app, const Tensors&) { return Tensors(app.inputs.size()); }
Tensors no_jvp(const Application&, const Tensors&) { return Tensors(1); }

std::vector<graph::SizeId> ids(const Sizes& sizes) {
  std::vector<graph::SizeId> result;
  for (Size s : sizes) result.push_back(Trace::current()->id(s));
  return result;
}

std::vector<Factor> generated_factors(const Graph& g, const graph::Node& n) {
  std::vector<Factor> factors;
  for (size_t d = 0; d < g.value(n.outputs[0]).shape.size(); ++d) {
    factors.push_back({Factor::Kind::whole,
                       std::vector<int32_t>(n.inputs.size(), -1),
                       {static_cast<int32_t>(d)}});
  }
  return factors;
}

ResultTypes infer_take(Graph& g, const Primitive&, const std::vector<ValueId>& x,
                       const Attributes& a) {
  internal_check(x.size() == 2 && g.value(x[1]).dtype == DType::int64,
                 "take: the index must be int64");
  const Shape& from = g.value(x[0]).shape;
  auto dim = static_cast<size_t>(a.ints[0]);
  internal_check(dim < from.size(), "take: no such dim");
  Shape shape(from.begin(), from.begin() + static_cast<ptrdiff_t>(dim));
  shape.insert(shape.end(), g.value(x[1]).shape.begin(), g.value(x[1]).shape.end());
  shape.insert(shape.end(), from.begin() + static_cast<ptrdiff_t>(dim) + 1, from.end());
  return {{g.value(x[0]).dtype, shape}};
}

/// The operand's dims are mapped but for `dim`; those of the index are mapped between index and
/// result.
std::vector<Factor> take_factors(const Graph& g, const graph::Node& n) {
  std::vector<Factor> factors;
  auto dim = static_cast<int32_t>(n.attributes.ints[0]);
  auto rank = static_cast<int32_t>(g.value(n.inputs[0]).shape.size());
  auto index_rank = static_cast<int32_t>(g.value(n.inputs[1]).shape.size());
  for (int32_t d = 0; d < rank; ++d) {
    if (d == dim)
      factors.push_back({Factor::Kind::whole, {d, -1}, {-1}});
    else
      factors.push_back({Factor::Kind::mapped, {d, -1}, {d < dim ? d : d - 1 + index_rank}});
  }
  for (int32_t d = 0; d < index_rank; ++d)
    factors.push_back({Factor::Kind::mapped, {-1, d}, {dim + d}});
  return factors;
}

}  // namespace

const Primitive kConstant({.name = "constant",
                           .kind = Primitive::Kind::constant,
                           .infer = [](Graph&, const Primitive&, const std::vector<ValueId>&,
                                       const Attributes& a) -> ResultTypes {
                             return {{a.dtype, a.sizes}};
                           },
                           .vjp = no_vjp,
                           .jvp = no_jvp,
                           .factors = generated_factors});

const Primitive kIota({.name = "iota",
                       .kind = Primitive::Kind::iota,
                       .infer = [](Graph&, const Primitive&, const std::vector<ValueId>&,
                                   const Attributes& a) -> ResultTypes {
                         return {{DType::int64, a.sizes}};
                       },
                       .vjp = no_vjp,
                       .jvp = no_jvp,
                       .factors = generated_factors});

const Primitive kRandomBits({.name = "random_bits",
                             .kind = Primitive::Kind::random,
                             .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                         const Attributes& a) -> ResultTypes {
                               internal_check(x.size() == 2 &&
                                                  g.value(x[0]).dtype == DType::int64 &&
                                                  g.value(x[1]).dtype == DType::int64,
                                              "random_bits: seed and offset must be int64");
                               return {{DType::int64, a.sizes}};
                             },
                             .vjp = no_vjp,
                             .jvp = no_jvp,
                             .factors = generated_factors});

const Primitive kTake({.name = "take",
                       .kind = Primitive::Kind::take,
                       .infer = infer_take,
                       .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
                         const Tensor& x = app.inputs[0];
                         if (!is_inexact(x.dtype())) return {Tensor(), Tensor()};
                         return {put(zeros_like(x), app.inputs[1], ct[0], app.attributes.ints[0],
                                     Combine::add),
                                 Tensor()};
                       },
                       .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
                         if (!tangents[0].defined()) return {Tensor()};
                         return {take(tangents[0], app.inputs[1], app.attributes.ints[0])};
                       },
                       .factors = take_factors});

const Primitive kPut(
    {.name = "put",
     .kind = Primitive::Kind::put,
     .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                 const Attributes&) -> ResultTypes {
       internal_check(x.size() == 3 && g.value(x[1]).dtype == DType::int64 &&
                          g.value(x[0]).dtype == g.value(x[2]).dtype,
                      "put: the index must be int64 and dtypes equal");
       internal_check(g.value(x[2]).shape.size() + 1 ==
                          g.value(x[0]).shape.size() + g.value(x[1]).shape.size(),
                      "put: ranks do not fit");
       return {{g.value(x[0]).dtype, g.value(x[0]).shape}};
     },
     .vjp = [](const Application& app, const Tensors& ct) -> Tensors {
       if (!is_inexact(app.inputs[0].dtype())) return Tensors(3);
       int64_t dim = app.attributes.ints[0];
       auto combine = static_cast<Combine>(app.attributes.ints[1]);
       check(combine == Combine::set || combine == Combine::add, ErrorKind::not_implemented,
             "put: the derivative is defined for set and add only");
       Tensor g_src = take(ct[0], app.inputs[1], dim);
       if (combine == Combine::add) return {ct[0], Tensor(), g_src};
       return {put(ct[0], app.inputs[1], zeros_like(app.inputs[2]), dim, Combine::set), Tensor(),
               g_src};
     },
     .jvp = [](const Application& app, const Tensors& tangents) -> Tensors {
       if (!tangents[0].defined() && !tangents[2].defined()) return {Tensor()};
       auto combine = static_cast<Combine>(app.attributes.ints[1]);
       check(combine == Combine::set || combine == Combine::add, ErrorKind::not_implemented,
             "put: the derivative is defined for set and add only");
       Tensor x = tangents[0].defined() ? tangents[0] : zeros_like(app.inputs[0]);
       Tensor src = tangents[2].defined() ? tangents[2] : zeros_like(app.inputs[2]);
       return {put(x, app.inputs[1], src, app.attributes.ints[0], combine)};
     },
     .factors =
         [](const Graph& g, const graph::Node& n) {
           std::vector<Factor> factors;
           auto dim = static_cast<int32_t>(n.attributes.ints[0]);
           auto rank = static_cast<int32_t>(g.value(n.inputs[0]).shape.size());
           auto index_rank = static_cast<int32_t>(g.value(n.inputs[1]).shape.size());
           for (int32_t d = 0; d < rank; ++d) {
             if (d == dim)
               factors.push_back({Factor::Kind::whole, {d, -1, -1}, {d}});
             else
               factors.push_back(
                   {Factor::Kind::mapped, {d, -1, d < dim ? d : d - 1 + index_rank}, {d}});
           }
           for (int32_t d = 0; d < index_rank; ++d)
             factors.push_back({Factor::Kind::whole, {-1, d, dim + d}, {-1}});
           return factors;
         }});

Tensor constant(Scalar value, DType dtype, const Sizes& sizes) {
  Attributes a{.sizes = ids(sizes), .dtype = dtype};
  if (is_complex(dtype) || is_float(dtype)) {
    a.ints = {std::bit_cast<int64_t>(value.real()), std::bit_cast<int64_t>(value.imag())};
  } else {
    a.ints = {dtype == DType::boolean ? value.boolean() : value.integer()};
  }
  return apply_one(kConstant, {}, std::move(a));
}

Tensor iota(const Sizes& sizes, int64_t dim) {
  return apply_one(kIota, {}, {.ints = {dim}, .sizes = ids(sizes), .dtype = DType::int64});
}

Tensor random_bits(const Tensor& seed, const Tensor& offset, const Sizes& sizes, int word) {
  return apply_one(kRandomBits, {seed, offset},
                   {.ints = {word}, .sizes = ids(sizes), .dtype = DType::int64});
}

Tensor take(const Tensor& x, const Tensor& index, int64_t dim) {
  return apply_one(kTake, {x, index}, {.ints = {dim}});
}

Tensor check_index(const Tensor& index, Size size, bool runtime_error) {
  // Reading number i at position i changes nothing but reports a position out of range.
  return apply_one(kTake, {iota({size}, 0), index}, {.ints = {0, runtime_error ? 1 : 0}});
}

Tensor put(const Tensor& x, const Tensor& index, const Tensor& src, int64_t dim, Combine combine) {
  return apply_one(kPut, {x, index, src}, {.ints = {dim, static_cast<int64_t>(combine)}});
}

Tensor zeros_like(const Tensor& x) {
  return constant(is_inexact(x.dtype()) ? Scalar(0.0) : Scalar(0), x.dtype(), graph::sizes_of(x));
}

Tensor constant_like(const Tensor& x, double value) {
  return constant(value, x.dtype(), graph::sizes_of(x));
}

}  // namespace flambeau::prim
