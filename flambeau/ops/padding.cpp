// Padding along the last dims: by a value, or by repeating what is there.
#include "flambeau/ops/padding.h"

#include <algorithm>
#include <optional>
#include <string>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"
#include "flambeau/prim/prim.h"

namespace flambeau::ops {

namespace {

struct Amount {
  int64_t dim, before, behind;
};

/// Pairs for the last dim, the one before it, and so on.
std::vector<Amount> amounts(const Tensor& self, const DimList& pad, const char* name) {
  check(pad.size() % 2 == 0, ErrorKind::runtime, name,
        ": Length of pad must be even but instead it equals ", pad.size());
  check(static_cast<int64_t>(pad.size()) <= 2 * self.dim(), ErrorKind::runtime, name,
        ": Length of pad should be no more than twice the number of dimensions of the input. Pad "
        "length is ",
        pad.size(), " while the input has ", self.dim(), " dimensions.");
  std::vector<Amount> result;
  for (size_t i = 0; i < pad.size(); i += 2) {
    Amount a{self.dim() - 1 - static_cast<int64_t>(i / 2), pad[i], pad[i + 1]};
    int64_t size = self.size(a.dim);
    check(size + a.before + a.behind >= 0, ErrorKind::runtime, name, ": The input size ", size,
          ", plus negative padding ", a.before, " and ", a.behind,
          " resulted in a negative output size, which is invalid. Check dimension ", a.dim,
          " of your input.");
    if (a.before != 0 || a.behind != 0) result.push_back(a);
  }
  return result;
}

/// x without what negative amounts take away; they become 0.
Tensor cropped(const Tensor& x, Amount& a) {
  if (a.before >= 0 && a.behind >= 0) return x;
  Size start = std::max<int64_t>(-a.before, 0), end = std::max<int64_t>(-a.behind, 0);
  a.before = std::max<int64_t>(a.before, 0);
  a.behind = std::max<int64_t>(a.behind, 0);
  return prim::slice(x, a.dim, start, graph::size_of(x, a.dim) - start - end, 1);
}

Tensor repeated(const Tensor& x, int64_t dim, Size position, int64_t count) {
  Tensor one = prim::slice(x, dim, position, 1, 1);
  Sizes sizes = graph::sizes_of(x);
  sizes[static_cast<size_t>(dim)] = Size(count);
  return expand_to(one, sizes);
}

Tensor border(const Tensor& x, int64_t dim, bool last, int64_t count) {
  return repeated(x, dim, last ? graph::size_of(x, dim) - Size(1) : Size(0), count);
}

Tensor extended(const Tensor& self, const std::vector<Amount>& list, const std::string& mode) {
  Tensor x = self;
  for (Amount a : list) {
    Size n = graph::size_of(x, a.dim);
    if (mode == "reflect")
      check(n > Size(std::max(a.before, a.behind)), ErrorKind::runtime,
            "pad: Padding size should be less than the corresponding input dimension, but got: "
            "padding (",
            a.before, ", ", a.behind, ") at dimension ", a.dim, " of input ", self.sizes());
    if (mode == "circular")
      check(n >= Size(std::max(a.before, a.behind)), ErrorKind::runtime,
            "pad: Padding value causes wrapping around more than once: padding (", a.before, ", ",
            a.behind, ") at dimension ", a.dim, " of input ", self.sizes());
    if (mode == "replicate") {
      check(n > Size(0), ErrorKind::runtime,
            "pad: replicate needs at least one element, got input ", self.sizes());
      // Where more is taken away on one side than there is, the border of the other side is left.
      bool none = a.before < 0 && Size(-a.before) > n,
           none_behind = a.behind < 0 && Size(-a.behind) > n;
      if (none || none_behind) {
        x = repeated(x, a.dim, none ? n - Size(1) : Size(0), 1);
        Sizes sizes = graph::sizes_of(x);
        sizes[static_cast<size_t>(a.dim)] = n + Size(a.before + a.behind);
        x = expand_to(x, sizes);
        continue;
      }
    }
    Tensor whole = x;
    x = cropped(x, a);
    n = graph::size_of(x, a.dim);
    TensorList parts;
    if (a.before > 0) {
      if (mode == "replicate") parts.push_back(border(whole, a.dim, false, a.before));
      if (mode == "reflect")
        parts.push_back(prim::reverse(prim::slice(x, a.dim, 1, a.before, 1), {a.dim}));
      if (mode == "circular")
        parts.push_back(prim::slice(x, a.dim, n - Size(a.before), a.before, 1));
    }
    parts.push_back(x);
    if (a.behind > 0) {
      if (mode == "replicate") parts.push_back(border(whole, a.dim, true, a.behind));
      if (mode == "reflect")
        parts.push_back(
            prim::reverse(prim::slice(x, a.dim, n - Size(a.behind + 1), a.behind, 1), {a.dim}));
      if (mode == "circular") parts.push_back(prim::slice(x, a.dim, 0, a.behind, 1));
    }
    if (parts.size() > 1) x = prim::concat(parts, a.dim);
  }
  return x;
}

}  // namespace

const Op<Tensor(const Tensor&, const DimList&, const Number&)> constant_pad_nd{
    "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    R"(`self` with `value` around it: `pad` has pairs (before, behind) for the last dim, the one before it, and so on;
negative numbers take positions away. Errors: RuntimeError for an odd or too long `pad` or a negative size.)",
    [](const Tensor& self, const DimList& pad, const Number& value) {
      Tensor x = self, v = to_tensor(value, self.dtype());
      for (Amount a : amounts(self, pad, "constant_pad_nd")) {
        x = cropped(x, a);
        if (a.before != 0 || a.behind != 0)
          x = prim::pad(x, a.dim, a.before, graph::size_of(x, a.dim) + Size(a.before + a.behind), 1,
                        v);
      }
      return x;
    },
    kFunction};

const Op<Tensor(const Tensor&, const DimList&, const std::string&)> extended_pad{
    "_extended_pad(Tensor self, int[] pad, str mode) -> Tensor",
    R"(pad in one of the modes that repeat what is there.)",
    [](const Tensor& self, const DimList& pad, const std::string& mode) {
      return extended(self, amounts(self, pad, "pad"), mode);
    },
    0};

const Op<Tensor(const Tensor&, const DimList&, const std::string&, std::optional<Number>)> pad{
    "nn.functional.pad(Tensor input, int[] pad, str mode=\"constant\", float? value=None) -> "
    "Tensor",
    R"(Padding of the last dims. Modes: constant (see constant_pad_nd), and for the last one to three dims reflect (the
border is not repeated), replicate (the border is repeated) and circular. Errors: NotImplementedError for another mode or
rank, RuntimeError for amounts that do not fit.)",
    [](const Tensor& input, const DimList& pad, const std::string& mode,
       std::optional<Number> value) {
      if (mode == "constant")
        return constant_pad_nd(input, pad, value ? *value : Number(Scalar(0.0)));
      check(mode == "reflect" || mode == "replicate" || mode == "circular",
            ErrorKind::not_implemented, "pad: Unrecognised padding mode ", mode,
            "; allowed are constant, reflect, replicate and circular");
      check(!value || value->scalar().real() == 0, ErrorKind::value, "pad: Padding mode \"", mode,
            "\" doesn't take in value argument");
      auto dims = static_cast<int64_t>(pad.size() / 2);
      check(dims >= 1 && dims <= 3 && (input.dim() == dims + 1 || input.dim() == dims + 2),
            ErrorKind::not_implemented,
            "pad: Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, got "
            "input ",
            input.sizes(), " and ", pad.size(), " amounts");
      return extended_pad(input, pad, mode);
    },
    kFunction, BodyKind::direct};

}  // namespace flambeau::ops
