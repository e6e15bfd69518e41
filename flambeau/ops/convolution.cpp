// Convolutions and transposed convolutions in one to three dims.
#include "flambeau/ops/convolution.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "flambeau/base/error.h"
#include "flambeau/ops/padding.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"

namespace flambeau::ops {

namespace {

using prim::Window;
using Ints = std::vector<int64_t>;

/// A kernel size as a number: it becomes part of what the program was made for.
int64_t specialized(Size s) {
  check(s == Size(s.value), ErrorKind::internal, "a size differs from itself");
  return s.value;
}

DType convolution_type(DType t) {
  if (is_complex(t) || t == DType::int64) return t;
  return is_integer(t) ? DType::int32 : compute_type(t);
}

/// In the type of the computation; bfloat16 denormals become zeros, see docs/design.md.
Tensor operand(const Tensor& x) {
  Tensor y = to_dtype(x, convolution_type(x.dtype()));
  if (x.dtype() != DType::bfloat16) return y;
  Tensor limit = expand_to(prim::constant(0x1p-126, DType::float32), graph::sizes_of(y));
  Tensor zero = prim::zeros_like(y);
  Tensor negative = prim::lt(y, zero);
  Tensor signed_zero = prim::select(negative, prim::neg(zero), zero);
  return prim::select(prim::lt(prim::abs(y), limit), signed_zero, y);
}

/// fn is linear in both.
template <class Fn>
Tensor bilinear(const Tensor& a, const Tensor& b, const Fn& fn) {
  if (!is_complex(a.dtype())) return fn(a, b);
  Pair x = components(a), y = components(b);
  return join(
      {prim::sub(fn(x.re, y.re), fn(x.im, y.im)), prim::add(fn(x.re, y.im), fn(x.im, y.re))});
}

Tensor conjugated(const Tensor& x) { return is_complex(x.dtype()) ? conj(x) : x; }

/// Along each spatial dim of [n, g, c, s...]: `low` zeros in front, `totals` positions.
Tensor zero_padded(const Tensor& x, const Ints& low, const Sizes& totals) {
  Tensor y = x;
  for (size_t d = 0; d < low.size(); ++d) {
    auto dim = static_cast<int64_t>(3 + d);
    Size have = graph::size_of(y, dim);
    if (low[d] == 0 && graph::Trace::current()->id(have) == graph::Trace::current()->id(totals[d]))
      continue;
    Tensor zero = is_float(x.dtype()) ? prim::constant(0.0, x.dtype())
                                      : prim::constant(int64_t{0}, x.dtype());
    y = prim::spread(y, dim, low[d], totals[d], 1, zero);
  }
  return y;
}

/// The arguments of a convolution, checked, with operands as the primitives take them.
struct Convolution {
  const char* name;
  size_t rank;
  Ints stride, padding, output_padding;
  Window window;
  Size groups;
  bool transposed;
  Tensor x;       // [n, g, c, s...]
  Tensor weight;  // [g, o, c, t...], of a transposed one [g, c, o, t...]
  Sizes result;   // y...
  Sizes sizes() const {
    Sizes s{graph::size_of(x, 0), groups, graph::size_of(weight, transposed ? 2 : 1)};
    s.insert(s.end(), result.begin(), result.end());
    return s;
  }
  Sizes spatial() const {
    Sizes s = graph::sizes_of(x);
    return {s.begin() + 3, s.end()};
  }
  Tensor padded_input(const Tensor& real) const {
    Sizes totals;
    for (size_t d = 0; d < rank; ++d)
      totals.push_back(padding[d] == 0 ? graph::size_of(real, static_cast<int64_t>(3 + d))
                                       : graph::size_of(real, static_cast<int64_t>(3 + d)) +
                                             Size(2 * padding[d]));
    return zero_padded(real, padding, totals);
  }
  /// The cotangent of a transposed convolution's result as the input of the opposite one.
  Tensor padded_cotangent(const Tensor& real) const {
    Sizes totals;
    for (size_t d = 0; d < rank; ++d) {
      Size s = graph::size_of(x, static_cast<int64_t>(3 + d));
      totals.push_back((s - Size(1)) * Size(window.steps[d]) +
                       Size((window.taps[d] - 1) * window.dilations[d] + 1));
    }
    return zero_padded(real, padding, totals);
  }
};

Ints spread(const DimList& list, size_t rank, const char* name, const char* argument) {
  Ints values(list.begin(), list.end());
  if (values.size() == 1) values.assign(rank, values[0]);
  check(values.size() == rank, ErrorKind::runtime, name, ": expected ", argument,
        " to be a single integer value or a list of ", rank, " values, but got ", list.size(),
        " values");
  return values;
}

Convolution prepare(const std::vector<Argument>& a) {
  const Tensor &input = std::get<Tensor>(a[0]), &weight = std::get<Tensor>(a[1]);
  Convolution c;
  c.transposed = std::get<bool>(a[6]);
  int64_t dims = weight.dim() - 2;
  c.name = c.transposed ? "conv_transpose" : "conv";
  check(dims >= 1 && dims <= 3, ErrorKind::runtime, c.name,
        ": expected a weight of 3 to 5 dims, got one of ", weight.dim());
  c.rank = static_cast<size_t>(dims);
  check(input.dim() == dims + 2, ErrorKind::runtime, "Expected ", dims + 1, "D (unbatched) or ",
        dims + 2, "D (batched) input to ", c.name, dims,
        "d, but got input of size: ", input.sizes());
  check(input.dtype() == weight.dtype(), ErrorKind::runtime, c.name, ": Input type (",
        input.dtype(), ") and weight type (", weight.dtype(), ") should be the same");
  check(input.dtype() != DType::boolean, ErrorKind::runtime, c.name,
        ": not implemented for 'Bool'");
  c.stride = spread(std::get<DimList>(a[3]), c.rank, c.name, "stride");
  c.padding = spread(std::get<DimList>(a[4]), c.rank, c.name, "padding");
  c.window.dilations = spread(std::get<DimList>(a[5]), c.rank, c.name, "dilation");
  c.output_padding = spread(std::get<DimList>(a[7]), c.rank, c.name, "output_padding");
  c.window.steps = c.stride;
  c.window.pairs = input.dtype() == DType::bfloat16;
  int64_t groups = std::get<Dim>(a[8]);
  check(groups > 0, ErrorKind::runtime, c.name, ": non-positive groups is not supported");
  c.groups = Size(groups);
  for (size_t d = 0; d < c.rank; ++d) {
    check(c.padding[d] >= 0, ErrorKind::runtime, c.name, ": negative padding is not supported");
    check(c.stride[d] > 0, ErrorKind::runtime, c.name, ": non-positive stride is not supported");
    check(c.window.dilations[d] > 0, ErrorKind::runtime, c.name,
          ": dilation should be greater than zero");
    check(!c.transposed || c.output_padding[d] < std::max(c.stride[d], c.window.dilations[d]),
          ErrorKind::runtime, c.name,
          ": output padding must be smaller than either stride or dilation, but got ",
          c.output_padding[d]);
    check(c.output_padding[d] >= 0, ErrorKind::runtime, c.name,
          ": negative output_padding is not supported");
  }
  Sizes in = graph::sizes_of(input), w = graph::sizes_of(weight);
  Size channels = c.transposed ? w[0] : w[1] * c.groups;
  check(w[0].value >= groups && w[0].value % groups == 0, ErrorKind::runtime,
        "Given groups=", groups, ", expected weight to be at least ", groups,
        " at dimension 0 and divisible by it, but got weight of size ", weight.sizes(), " instead");
  check(graph::Trace::current()->require_equal(in[1], channels,
                                               "the input has {a} channels, the weight is for {b}"),
        ErrorKind::runtime, "Given groups=", groups, ", weight of size ", weight.sizes(),
        ", expected input", input.sizes(), " to have ", channels, " channels, but got ", in[1],
        " channels instead");
  Sizes xs{in[0], c.groups, in[1] / c.groups}, ws{c.groups, w[0] / c.groups, w[1]};
  if (groups == 1) xs[2] = in[1], ws[1] = w[0];
  for (size_t d = 0; d < c.rank; ++d) {
    int64_t taps = specialized(w[2 + d]);
    check(taps > 0, ErrorKind::runtime, c.name, ": the kernel size must not be zero, got weight ",
          weight.sizes());
    c.window.taps.push_back(taps);
    ws.emplace_back(taps);
    Size s = in[2 + d];
    xs.push_back(s);
    int64_t reach = (taps - 1) * c.window.dilations[d];
    if (c.transposed) {
      Size y = (s - Size(1)) * Size(c.stride[d]) +
               Size(reach + c.output_padding[d] + 1 - 2 * c.padding[d]);
      check(y > Size(0), ErrorKind::runtime, c.name, ": Given input size per channel: (", s,
            "). Calculated output size per channel: (", y, "). Output size is too small");
      c.result.push_back(y);
    } else {
      Size have = c.padding[d] == 0 ? s : s + Size(2 * c.padding[d]);
      check(have > Size(reach), ErrorKind::runtime, c.name,
            ": Calculated padded input size per channel: (", have, "). Kernel size: (", reach + 1,
            "). Kernel size can't be greater than actual input size");
      c.result.push_back(c.stride[d] == 1 ? have - Size(reach)
                                          : (have - Size(reach + 1)) / Size(c.stride[d]) + Size(1));
    }
  }
  c.x = prim::reshape(operand(input), xs);
  c.weight = prim::reshape(operand(weight), ws);
  return c;
}

Sizes merged_groups(const Sizes& s) {
  Sizes result{s[0],
               graph::Trace::current()->graph().sizes.is_value(graph::Trace::current()->id(s[1]), 1)
                   ? s[2]
                   : s[1] * s[2]};
  result.insert(result.end(), s.begin() + 3, s.end());
  return result;
}

/// Cotangents of input, weight and bias.
std::vector<Tensor> convolution_rule(const std::vector<Argument>& arguments,
                                     const std::vector<Tensor>&,
                                     const std::vector<Tensor>& cotangents) {
  const Tensor &input = std::get<Tensor>(arguments[0]), &weight = std::get<Tensor>(arguments[1]);
  Convolution c = prepare(arguments);
  Tensor ct = prim::reshape(operand(cotangents[0]), c.sizes());
  Tensor of_input, of_weight;
  if (c.transposed) {
    of_input = bilinear(ct, conjugated(c.weight), [&](const Tensor& g, const Tensor& w) {
      return prim::conv(c.padded_cotangent(g), w, c.window);
    });
    of_weight = bilinear(ct, conjugated(c.x), [&](const Tensor& g, const Tensor& x) {
      return prim::conv_weight(c.padded_cotangent(g), x, c.window);
    });
  } else {
    of_input = bilinear(ct, conjugated(c.weight), [&](const Tensor& g, const Tensor& w) {
      return prim::conv_input(g, w, c.spatial(), c.window, c.padding);
    });
    of_weight = bilinear(conjugated(c.x), ct, [&](const Tensor& x, const Tensor& g) {
      return prim::conv_weight(c.padded_input(x), g, c.window);
    });
  }
  std::vector<Tensor> result{
      to_dtype(prim::reshape(of_input, graph::sizes_of(input)), input.dtype()),
      to_dtype(prim::reshape(of_weight, graph::sizes_of(weight)), weight.dtype())};
  if (const auto* bias = std::get_if<Tensor>(&arguments[2])) {
    Ints dims{0};
    for (size_t d = 0; d < c.rank; ++d) dims.push_back(static_cast<int64_t>(2 + d));
    Tensor whole = to_dtype(cotangents[0], compute_type(cotangents[0].dtype()));
    result.push_back(
        to_dtype(prim::reshape(sum(whole, dims), graph::sizes_of(*bias)), bias->dtype()));
  }
  return result;
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, const DimList&, const DimList&,
                const DimList&, bool, const DimList&, Dim)>
    convolution{
        "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
        "dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
        R"(A convolution (correlation) or its transpose in one to three spatial dims.

[n, g*c, s...], [g*o, c, t...], [g*o] -> [n, g*o, y...], y = floor((s + 2 padding - dilation (t - 1) - 1) / stride) + 1;
transposed: [n, g*c, s...], [g*c, o, t...], [g*o] -> [n, g*o, y...], y = (s - 1) stride - 2 padding + dilation (t - 1) +
output_padding + 1. Half types are accumulated in float32 and rounded once, after the bias; integers wrap. Errors:
RuntimeError for sizes, dtypes and options that do not fit.)",
        [](const Tensor& input, const Tensor& weight, std::optional<Tensor> bias,
           const DimList& stride, const DimList& padding, const DimList& dilation, bool transposed,
           const DimList& output_padding, Dim groups) {
          Convolution c = prepare({input, weight, Argument(), stride, padding, dilation, transposed,
                                   output_padding, groups});
          Tensor y = bilinear(c.x, c.weight, [&](const Tensor& x, const Tensor& w) {
            return c.transposed ? prim::conv_input(x, w, c.result, c.window, c.padding)
                                : prim::conv(c.padded_input(x), w, c.window);
          });
          Sizes sizes = c.sizes();
          if (bias) {
            check(bias->dtype() == input.dtype(), ErrorKind::runtime, c.name, ": Input type (",
                  input.dtype(), ") and bias type (", bias->dtype(), ") should be the same");
            Size channels = merged_groups(sizes)[1];
            check(bias->dim() == 1 && graph::Trace::current()->require_equal(
                                          graph::size_of(*bias, 0), channels,
                                          "the bias has {a} elements, the result {b} channels"),
                  ErrorKind::runtime, "Given weight of size ", weight.sizes(),
                  ", expected bias to be 1-dimensional with ", channels,
                  " elements, but got bias of size ", bias->sizes(), " instead");
            Sizes own(sizes.size(), Size(1));
            own[1] = sizes[1];
            own[2] = sizes[2];
            y = add(y, expand_to(prim::reshape(to_dtype(*bias, y.dtype()), own), sizes));
          }
          return prim::reshape(to_dtype(y, input.dtype()), merged_groups(sizes));
        },
        kFunction,
        BodyKind::composite,
        convolution_rule};

namespace {

/// Adds the batch dim that an unbatched input lacks and takes it away again.
Tensor convolved(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                 const DimList& stride, const DimList& padding, const DimList& dilation,
                 bool transposed, const DimList& output_padding, Dim groups, int64_t rank,
                 const char* name) {
  check(weight.dim() == rank + 2, ErrorKind::runtime, name, ": expected a ", rank + 2,
        "-D weight, got one with sizes ", weight.sizes());
  bool batched = input.dim() == rank + 2;
  check(batched || input.dim() == rank + 1, ErrorKind::runtime, "Expected ", rank + 1,
        "D (unbatched) or ", rank + 2, "D (batched) input to ", name,
        ", but got input of size: ", input.sizes());
  Tensor x = batched ? input : unsqueeze(input, 0);
  Tensor y =
      convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  return batched ? y : squeeze_dim(y, 0);
}

/// padding="same": the result has the input's sizes; what an odd total leaves over goes behind.
Tensor convolved_by_name(const Tensor& input, const Tensor& weight,
                         const std::optional<Tensor>& bias, const DimList& stride,
                         const std::string& padding, const DimList& dilation, Dim groups,
                         int64_t rank, const char* name) {
  if (padding == "valid")
    return convolved(input, weight, bias, stride, {0}, dilation, false, {0}, groups, rank, name);
  check(padding == "same", ErrorKind::runtime, name, ": Invalid padding string: '", padding,
        "'; allowed are 'same' and 'valid'");
  check(weight.dim() == rank + 2, ErrorKind::runtime, name, ": expected a ", rank + 2,
        "-D weight, got one with sizes ", weight.sizes());
  Ints steps = spread(stride, static_cast<size_t>(rank), name, "stride"),
       dilations = spread(dilation, static_cast<size_t>(rank), name, "dilation");
  check(std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; }),
        ErrorKind::runtime, name, ": padding='same' is not supported for strided convolutions");
  DimList even, behind;
  bool odd = false;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t total = dilations[static_cast<size_t>(d)] * (weight.size(2 + d) - 1);
    even.push_back(total / 2);
    behind.push_back(total % 2);
    odd |= total % 2 != 0;
  }
  Tensor x = input;
  if (odd) {
    DimList pads;
    for (int64_t d = rank - 1; d >= 0; --d) {
      pads.push_back(0);
      pads.push_back(behind[static_cast<size_t>(d)]);
    }
    x = constant_pad_nd(input, pads, Number(Scalar(0.0)));
  }
  return convolved(x, weight, bias, stride, even, dilation, false, {0}, groups, rank, name);
}

}  // namespace

using ConvByName = Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, const DimList&,
                             const std::string&, const DimList&, Dim)>;
using ConvTranspose = Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, const DimList&,
                                const DimList&, const DimList&, Dim, const DimList&)>;

#define FLAMBEAU_CONV(RANK, SIZES)                                                                 \
  const Conv conv##RANK##d{                                                                        \
      "conv" #RANK "d|nn.functional.conv" #RANK                                                    \
      "d(Tensor input, Tensor weight, Tensor? bias=None, int[" #RANK "] stride=1, int[" #RANK      \
      "] padding=0, int[" #RANK "] dilation=1, int groups=1) -> Tensor",                           \
      R"(Convolution (correlation) over )" SIZES                                                   \
      R"(; the batch dim may be missing. See convolution.)",                                       \
      [](const Tensor& input, const Tensor& weight, std::optional<Tensor> bias,                    \
         const DimList& stride, const DimList& padding, const DimList& dilation, Dim groups) {     \
        return convolved(input, weight, bias, stride, padding, dilation, false, {0}, groups, RANK, \
                         "conv" #RANK "d");                                                        \
      },                                                                                           \
      kFunction, BodyKind::direct};                                                                \
  const ConvByName conv##RANK##d_by_name{                                                          \
      "conv" #RANK "d.padding|nn.functional.conv" #RANK                                            \
      "d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[" #RANK                       \
      "] stride=1, str padding=\"valid\", int[" #RANK "] dilation=1, int groups=1) -> Tensor",     \
      R"(padding "valid" is none, "same" keeps the sizes.)",                                       \
      [](const Tensor& input, const Tensor& weight, std::optional<Tensor> bias,                    \
         const DimList& stride, const std::string& padding, const DimList& dilation, Dim groups) { \
        return convolved_by_name(input, weight, bias, stride, padding, dilation, groups, RANK,     \
                                 "conv" #RANK "d");                                                \
      },                                                                                           \
      kFunction, BodyKind::direct};                                                                \
  const ConvTranspose conv_transpose##RANK##d {                                                    \
    "conv_transpose" #RANK "d|nn.functional.conv_transpose" #RANK                                  \
    "d(Tensor input, Tensor weight, Tensor? bias=None, int[" #RANK "] stride=1, int[" #RANK        \
    "] padding=0, int[" #RANK "] output_padding=0, int groups=1, int[" #RANK                       \
    "] dilation=1) -> Tensor",                                                                     \
        R"(Transposed convolution over )" SIZES R"(: the derivative of conv)" #RANK                \
        R"(d by its input. See convolution.)",                                                     \
        [](const Tensor& input, const Tensor& weight, std::optional<Tensor> bias,                  \
           const DimList& stride, const DimList& padding, const DimList& output_padding,           \
           Dim groups, const DimList& dilation) {                                                  \
          return convolved(input, weight, bias, stride, padding, dilation, true, output_padding,   \
                           groups, RANK, "conv_transpose" #RANK "d");                              \
        },                                                                                         \
        kFunction, BodyKind::direct                                                                \
  }

FLAMBEAU_CONV(1, "[n, c, l]");
FLAMBEAU_CONV(2, "[n, c, h, w]");
FLAMBEAU_CONV(3, "[n, c, d, h, w]");
#undef FLAMBEAU_CONV

}  // namespace flambeau::ops
