// Softmax and its logarithm along one dim.
#include "flambeau/ops/softmax.h"

#include "flambeau/base/error.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;

/// x less its largest element along dim, which the exponentials need and the result does not depend
/// on.
Tensor centered(const Tensor& x, int64_t dim) {
  Sizes sizes = graph::sizes_of(x);
  Tensor largest = prim::barrier(reduce_keep(x, {dim}, Monoid::maximum, true));
  return prim::sub(x, expand_to(largest, sizes));
}

struct Prepared {
  Tensor x;  // in the compute type, at least 1-d
  int64_t dim;
  DType dtype;
};

Prepared prepare(const Tensor& self, Dim dim, std::optional<DType> dtype, const char* name) {
  DType result = dtype.value_or(self.dtype());
  check(is_float(result), ErrorKind::runtime, name, ": not implemented for ", result,
        "; pass dtype=");
  int64_t d = wrap_dim(dim, self.dim(), name);
  Tensor x = to_dtype(self, compute_type(result));
  if (dtype) x = to_dtype(to_dtype(self, result), compute_type(result));
  if (x.dim() == 0) x = prim::reshape(x, {Size(1)});
  return {x, d, result};
}

Tensor finish(const Tensor& y, const Tensor& self, DType dtype) {
  return prim::reshape(to_dtype(y, dtype), graph::sizes_of(self));
}

/// Cotangent from the result: y (c - sum(c y)).
std::vector<Tensor> softmax_rule(const std::vector<Argument>& arguments,
                                 const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& cotangents) {
  const Tensor& self = std::get<Tensor>(arguments[0]);
  Prepared p = prepare(self, std::get<Dim>(arguments[1]), results[0].dtype(), "softmax");
  Sizes sizes = graph::sizes_of(p.x);
  auto ready = [&](const Tensor& t) { return prim::reshape(to_dtype(t, p.x.dtype()), sizes); };
  Tensor y = ready(results[0]), c = ready(cotangents[0]);
  Tensor inner = reduce_keep(prim::mul(c, y), {p.dim}, Monoid::sum, true);
  Tensor g = prim::mul(y, prim::sub(c, expand_to(inner, sizes)));
  return {finish(to_dtype(g, self.dtype()), self, self.dtype())};
}

/// Cotangent from the result: c - exp(y) sum(c).
std::vector<Tensor> log_softmax_rule(const std::vector<Argument>& arguments,
                                     const std::vector<Tensor>& results,
                                     const std::vector<Tensor>& cotangents) {
  const Tensor& self = std::get<Tensor>(arguments[0]);
  Prepared p = prepare(self, std::get<Dim>(arguments[1]), results[0].dtype(), "log_softmax");
  Sizes sizes = graph::sizes_of(p.x);
  auto ready = [&](const Tensor& t) { return prim::reshape(to_dtype(t, p.x.dtype()), sizes); };
  Tensor y = ready(results[0]), c = ready(cotangents[0]);
  Tensor total = reduce_keep(c, {p.dim}, Monoid::sum, true);
  Tensor g = prim::sub(c, prim::mul(prim::exp(y), expand_to(total, sizes)));
  return {finish(to_dtype(g, self.dtype()), self, self.dtype())};
}

using Softmax = Op<Tensor(const Tensor&, Dim, std::optional<DType>)>;

}  // namespace

Tensor log_normalized(const Tensor& x, int64_t dim) {
  Tensor z = centered(x, dim);
  Tensor total = reduce_keep(prim::exp(z), {dim}, Monoid::sum, true);
  return prim::sub(z, expand_to(prim::log(total), graph::sizes_of(x)));
}

const Softmax softmax{
    "softmax.int|nn.functional.softmax.int|special.softmax.int(Tensor self, int dim, ScalarType? "
    "dtype=None) -> Tensor",
    R"(Exponentials of `self` along `dim`, scaled to sum to one.

Shapes: any, kept. Dtypes: floats, kept, or `dtype`, to which `self` is converted first; half types are computed in
float32. Errors: RuntimeError for other dtypes, IndexError for a dim out of range. The largest element is subtracted
first, so that nothing overflows.)",
    [](const Tensor& self, Dim dim, std::optional<DType> dtype) {
      Prepared p = prepare(self, dim, dtype, "softmax");
      Tensor e = prim::exp(centered(p.x, p.dim));
      Tensor total = reduce_keep(e, {p.dim}, Monoid::sum, true);
      return finish(prim::div(e, expand_to(total, graph::sizes_of(e))), self, p.dtype);
    },
    kDefaultForms,
    BodyKind::composite,
    softmax_rule};

const Softmax log_softmax{
    "log_softmax.int|nn.functional.log_softmax.int|special.log_softmax.int(Tensor self, int dim, "
    "ScalarType? dtype=None) -> Tensor",
    R"(The logarithm of softmax: x - max - log(sum(exp(x - max))). Shapes, dtypes and errors: see softmax.)",
    [](const Tensor& self, Dim dim, std::optional<DType> dtype) {
      Prepared p = prepare(self, dim, dtype, "log_softmax");
      return finish(log_normalized(p.x, p.dim), self, p.dtype);
    },
    kDefaultForms,
    BodyKind::composite,
    log_softmax_rule};

const Softmax softmin{
    "nn.functional.softmin.int(Tensor input, int dim, ScalarType? dtype=None) -> Tensor",
    R"(softmax of -input.)",
    [](const Tensor& input, Dim dim, std::optional<DType> dtype) {
      Prepared p =
          prepare(input.dtype() == DType::boolean
                      ? input
                      : to_dtype(neg(to_dtype(input, compute_type(input.dtype()))), input.dtype()),
                  dim, dtype, "softmin");
      Tensor e = prim::exp(centered(p.x, p.dim));
      Tensor total = reduce_keep(e, {p.dim}, Monoid::sum, true);
      return finish(prim::div(e, expand_to(total, graph::sizes_of(e))), input, p.dtype);
    },
    kFunction};

}  // namespace flambeau::ops
