// Pooling: the largest element or the mean of windows, over the last one to three dims.
#include "flambeau/ops/pooling.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "flambeau/base/error.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"
#include "flambeau/prim/prim.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;
using Ints = std::vector<int64_t>;

/// Up to so many taps are written out one after the other.
constexpr int64_t kFewTaps = 64;

/// Windows over the last dims.
struct Pool {
  const char* name;
  size_t rank;
  Ints kernel, stride, padding, dilation;
  Sizes in, out;  // of the last dims

  int64_t dim(const Tensor& x, size_t d) const {
    return x.dim() - static_cast<int64_t>(rank) + static_cast<int64_t>(d);
  }
  int64_t taps() const {
    int64_t n = 1;
    for (int64_t k : kernel) n *= k;
    return n;
  }
  Ints tap(int64_t number) const {  // row-major
    Ints t(rank);
    for (size_t d = rank; d-- > 0;) {
      t[d] = number % kernel[d];
      number /= kernel[d];
    }
    return t;
  }
  Sizes result_sizes(const Tensor& x) const {
    Sizes s = graph::sizes_of(x);
    for (size_t d = 0; d < rank; ++d) s[static_cast<size_t>(dim(x, d))] = out[d];
    return s;
  }
  bool disjoint() const {
    bool all = true;
    for (size_t d = 0; d < rank; ++d) all &= stride[d] == kernel[d] && dilation[d] == 1;
    return all;
  }
};

Ints spread_list(const DimList& list, size_t rank, const char* name, const char* argument) {
  Ints values(list.begin(), list.end());
  if (values.size() == 1) values.assign(rank, values[0]);
  check(values.size() == rank, ErrorKind::runtime, name, ": ", argument,
        " must either be a single int, or a tuple of ", rank, " ints, got ", list.size(),
        " values");
  return values;
}

Pool pool_of(const Tensor& x, const DimList& kernel, const DimList& stride, const DimList& padding,
             const DimList& dilation, bool ceil_mode, int64_t rank, const char* name) {
  Pool p{name, static_cast<size_t>(rank), {}, {}, {}, {}, {}, {}};
  check(x.dim() == rank + 1 || x.dim() == rank + 2, ErrorKind::runtime, name, "() Expected ",
        rank + 1, "D or ", rank + 2, "D input tensor, but got input of sizes: ", x.sizes());
  p.kernel = spread_list(kernel, p.rank, name, "kernel_size");
  p.stride = stride.empty() ? p.kernel : spread_list(stride, p.rank, name, "stride");
  p.padding = spread_list(padding, p.rank, name, "padding");
  p.dilation = spread_list(dilation, p.rank, name, "dilation");
  for (int64_t d = x.dim() == rank + 2 ? 1 : 0; d < x.dim(); ++d)
    check(graph::size_of(x, d).value != 0, ErrorKind::runtime, name,
          "(): Expected input to have non-zero size for non-batch dimensions, but got ", x.sizes());
  for (size_t d = 0; d < p.rank; ++d) {
    check(p.kernel[d] > 0, ErrorKind::runtime, name,
          "(): kernel size should be greater than zero, but got ", p.kernel[d]);
    check(p.stride[d] > 0, ErrorKind::runtime, name,
          "(): stride should be greater than zero, but got ", p.stride[d]);
    check(p.dilation[d] > 0, ErrorKind::runtime, name,
          "(): dilation should be greater than zero, but got ", p.dilation[d]);
    check(p.padding[d] >= 0, ErrorKind::runtime, name,
          "(): pad must be non-negative, but got pad: ", p.padding[d]);
    check(p.padding[d] <= ((p.kernel[d] - 1) * p.dilation[d] + 1) / 2, ErrorKind::runtime, name,
          "(): pad should be at most half of effective kernel size, but got pad=", p.padding[d],
          ", kernel_size=", p.kernel[d], " and dilation=", p.dilation[d]);
    Size s = graph::size_of(x, p.dim(x, d));
    int64_t reach = p.dilation[d] * (p.kernel[d] - 1) + 1;
    Size whole = s + Size(2 * p.padding[d] - reach);
    check(whole >= Size(0) || (ceil_mode && whole + Size(p.stride[d] - 1) >= Size(0)),
          ErrorKind::runtime, name, "(): Given input size: ", x.sizes(),
          ". Calculated output size is too small for kernel size ", p.kernel[d]);
    Size count = ceil_mode ? (whole + Size(p.stride[d] - 1)) / Size(p.stride[d]) + Size(1)
                           : whole / Size(p.stride[d]) + Size(1);
    // The last window begins inside the input or the padding before it.
    if (ceil_mode && (count - Size(1)) * Size(p.stride[d]) >= s + Size(p.padding[d]))
      count = count - Size(1);
    p.in.push_back(s);
    p.out.push_back(count);
  }
  return p;
}

/// x with `value` around it, as far as windows reach.
Tensor surrounded(const Tensor& x, const Pool& p, const Tensor& value, bool ceil_mode) {
  Tensor y = x;
  for (size_t d = 0; d < p.rank; ++d) {
    if (p.padding[d] == 0 && !ceil_mode) continue;
    Size total =
        (p.out[d] - Size(1)) * Size(p.stride[d]) + Size((p.kernel[d] - 1) * p.dilation[d] + 1);
    y = prim::spread(y, p.dim(x, d), p.padding[d], total, 1, value);
  }
  return y;
}

/// What every window has at tap `t`, of surrounded x.
Tensor at_tap(const Tensor& x, const Pool& p, const Ints& t) {
  Tensor y = x;
  for (size_t d = 0; d < p.rank; ++d)
    y = prim::slice(y, p.dim(x, d), t[d] * p.dilation[d], p.out[d], p.stride[d]);
  return y;
}

/// Positions [.., out, kernel, ..] of windows along one dim of surrounded x.
Tensor windows(const Tensor& x, int64_t dim, Size out, int64_t kernel, int64_t stride,
               int64_t dilation) {
  Sizes sizes{out, Size(kernel)};
  auto scaled = [&](const Tensor& t, int64_t by) {
    return prim::mul(t, expand_to(prim::constant(by, DType::int64), sizes));
  };
  Tensor index =
      prim::add(scaled(prim::iota(sizes, 0), stride), scaled(prim::iota(sizes, 1), dilation));
  return prim::take(x, index, dim);
}

/// Windows of surrounded x with all taps as the last dim.
Tensor all_windows(const Tensor& x, const Pool& p) {
  Tensor y = x;
  auto rank = static_cast<int64_t>(p.rank);
  int64_t lead = x.dim() - rank;
  for (int64_t d = rank - 1; d >= 0; --d) {
    auto i = static_cast<size_t>(d);
    y = windows(y, lead + d, p.out[i], p.kernel[i], p.stride[i], p.dilation[i]);
  }
  Ints order;
  for (int64_t d = 0; d < lead; ++d) order.push_back(d);
  for (int64_t d = 0; d < rank; ++d) order.push_back(lead + 2 * d);
  for (int64_t d = 0; d < rank; ++d) order.push_back(lead + 2 * d + 1);
  Sizes sizes = p.result_sizes(x);
  sizes.emplace_back(p.taps());
  return prim::reshape(prim::permute(y, order), sizes);
}

Tensor lowest(DType t) {
  if (is_float(t)) return prim::constant(-std::numeric_limits<double>::infinity(), t);
  int64_t low = t == DType::uint8 ? 0 : -(int64_t{1} << (8 * itemsize(t) - 2)) * 2;
  return prim::constant(low, t);
}

struct Largest {
  Tensor value, tap;  // tap: int32
};

/// The largest element of each window and the number of its first tap; NaN is the largest.
Largest largest(const Tensor& x, const Pool& p, bool ceil_mode) {
  Tensor whole = surrounded(x, p, lowest(x.dtype()), ceil_mode);
  if (p.taps() > kFewTaps) {
    Tensor w = all_windows(whole, p);
    return {prim::reduce(w, {w.dim() - 1}, Monoid::maximum),
            prim::cast(prim::reduce(w, {w.dim() - 1}, Monoid::argmax), DType::int32)};
  }
  Largest best;
  for (int64_t t = 0; t < p.taps(); ++t) {
    Tensor v = at_tap(whole, p, p.tap(t));
    Tensor number = prim::constant(t, DType::int32, graph::sizes_of(v));
    if (t == 0) {
      best = {v, number};
      continue;
    }
    Tensor better = prim::gt(v, best.value);
    if (is_float(v.dtype()))
      better =
          prim::bit_or(better, prim::bit_and(prim::ne(v, v), prim::eq(best.value, best.value)));
    best = {prim::select(better, v, best.value), prim::select(better, number, best.tap)};
  }
  return best;
}

Pool max_pool_arguments(const std::vector<Argument>& a) {
  return pool_of(std::get<Tensor>(a[0]), std::get<DimList>(a[1]), std::get<DimList>(a[2]),
                 std::get<DimList>(a[3]), std::get<DimList>(a[4]), std::get<bool>(a[5]),
                 std::get<Dim>(a[6]), "max_pool");
}

/// The position in x, of one dim for all pooled ones, that the tap of each window is.
Tensor flat_positions(const Tensor& x, const Pool& p, const Tensor& tap) {
  Sizes sizes = graph::sizes_of(tap);
  auto filled = [&](int64_t v) { return prim::constant(v, DType::int64, sizes); };
  Tensor rest = prim::cast(tap, DType::int64), position;
  Tensor scale;
  for (size_t d = p.rank; d-- > 0;) {
    Tensor t = prim::rem(rest, filled(p.kernel[d]));
    rest = prim::div(rest, filled(p.kernel[d]));
    Tensor at = prim::sub(prim::add(prim::mul(prim::iota(sizes, p.dim(x, d)), filled(p.stride[d])),
                                    prim::mul(t, filled(p.dilation[d]))),
                          filled(p.padding[d]));
    position = d + 1 == p.rank ? at : prim::add(position, prim::mul(at, scale));
    Tensor size = expand_to(size_value(x, p.dim(x, d)), sizes);
    scale = d + 1 == p.rank ? size : prim::mul(scale, size);
  }
  return position;
}

/// Every cotangent goes to the tap that was the largest.
std::vector<Tensor> max_pool_rule(const std::vector<Argument>& arguments,
                                  const std::vector<Tensor>& results,
                                  const std::vector<Tensor>& cotangents) {
  const Tensor& x = std::get<Tensor>(arguments[0]);
  Pool p = max_pool_arguments(arguments);
  const Tensor& tap = results[1];
  Tensor c = to_dtype(cotangents[0], compute_type(x.dtype()));
  Tensor zero = prim::constant(0.0, c.dtype());
  Sizes sizes = graph::sizes_of(c);
  if (p.disjoint()) {
    // [.., out, kernel, ..]: each position belongs to one window.
    Sizes split, whole = graph::sizes_of(x);
    Ints from;
    size_t lead = sizes.size() - p.rank;
    for (size_t d = 0; d < lead; ++d) {
      split.push_back(sizes[d]);
      from.push_back(static_cast<int64_t>(d));
    }
    for (size_t d = 0; d < p.rank; ++d) {
      split.push_back(p.out[d]);
      split.emplace_back(p.kernel[d]);
      from.push_back(static_cast<int64_t>(lead + d));
      from.push_back(-1);
      whole[lead + d] = p.out[d] * Size(p.kernel[d]);
    }
    Tensor number;
    int64_t scale = 1;
    for (size_t d = p.rank; d-- > 0;) {
      Tensor i = prim::mul(prim::iota(split, static_cast<int64_t>(lead + 2 * d + 1)),
                           prim::constant(scale, DType::int64, split));
      number = number.defined() ? prim::add(number, i) : i;
      scale *= p.kernel[d];
    }
    Tensor mine = prim::eq(prim::broadcast(tap, split, from), prim::cast(number, DType::int32));
    Tensor g = prim::select(mine, prim::broadcast(c, split, from), expand_to(zero, split));
    g = prim::reshape(g, whole);
    for (size_t d = 0; d < p.rank; ++d)
      g = prim::spread(g, p.dim(x, d), -p.padding[d], p.in[d], 1, zero);
    return {to_dtype(g, x.dtype())};
  }
  if (p.taps() <= kFewTaps) {
    Tensor total;
    for (int64_t t = 0; t < p.taps(); ++t) {
      Tensor mine = prim::eq(tap, prim::constant(t, DType::int32, sizes));
      Tensor g = prim::select(mine, c, expand_to(zero, sizes));
      Ints at = p.tap(t);
      for (size_t d = 0; d < p.rank; ++d)
        g = prim::spread(g, p.dim(x, d), at[d] * p.dilation[d] - p.padding[d], p.in[d], p.stride[d],
                         zero);
      total = t == 0 ? g : prim::add(total, g);
    }
    return {to_dtype(total, x.dtype())};
  }
  // Rows of all pooled dims together.
  Size rows = 1, in = 1, out = 1;
  Sizes xs = graph::sizes_of(x);
  for (size_t d = 0; d < xs.size() - p.rank; ++d) rows = rows * xs[d];
  for (size_t d = 0; d < p.rank; ++d) {
    in = in * p.in[d];
    out = out * p.out[d];
  }
  Tensor position = prim::reshape(flat_positions(x, p, tap), {rows, out});
  Tensor size = size_value(prim::reshape(x, {rows, in}), 1);
  Tensor linear =
      prim::add(prim::mul(prim::iota({rows, out}, 0), expand_to(size, {rows, out})), position);
  Tensor g =
      prim::put(prim::constant(0.0, c.dtype(), {rows * in}), prim::reshape(linear, {rows * out}),
                prim::reshape(c, {rows * out}), 0, prim::Combine::add);
  return {to_dtype(prim::reshape(g, xs), x.dtype())};
}

const Op<std::tuple<Tensor, Tensor>(const Tensor&, const DimList&, const DimList&, const DimList&,
                                    const DimList&, bool, Dim)>
    max_pool{
        "_max_pool(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] "
        "dilation, bool ceil_mode, int rank) -> (Tensor values, Tensor taps)",
        R"(The largest element of each window over the last `rank` dims, and the number of its first tap, int32.)",
        [](const Tensor& self, const DimList& kernel, const DimList& stride, const DimList& padding,
           const DimList& dilation, bool ceil_mode, Dim rank) {
          check(self.dtype() != DType::boolean && !is_complex(self.dtype()), ErrorKind::runtime,
                "max_pool: not implemented for ", self.dtype());
          Pool p = pool_of(self, kernel, stride, padding, dilation, ceil_mode, rank, "max_pool");
          Largest l = largest(to_dtype(self, compute_type(self.dtype())), p, ceil_mode);
          return std::tuple{to_dtype(l.value, self.dtype()), l.tap};
        },
        0,
        BodyKind::composite,
        max_pool_rule};

const Op<Tensor(const Tensor&, const Tensor&, const DimList&, const DimList&, const DimList&,
                const DimList&, bool, Dim)>
    pool_positions{
        "_pool_positions(Tensor self, Tensor taps, int[] kernel_size, int[] stride, int[] padding, "
        "int[] dilation, bool ceil_mode, int rank) -> Tensor",
        R"(Positions in the pooled dims of self, seen as one, of the taps of _max_pool.)",
        [](const Tensor& self, const Tensor& taps, const DimList& kernel, const DimList& stride,
           const DimList& padding, const DimList& dilation, bool ceil_mode, Dim rank) {
          Pool p = pool_of(self, kernel, stride, padding, dilation, ceil_mode, rank, "max_pool");
          return flat_positions(self, p, taps);
        },
        0};

Argument max_pooled(const Tensor& input, const DimList& kernel, const DimList& stride,
                    const DimList& padding, const DimList& dilation, bool ceil_mode,
                    bool return_indices, int64_t rank) {
  auto [values, taps] = max_pool(input, kernel, stride, padding, dilation, ceil_mode, Dim(rank));
  if (!return_indices) return Argument(values);
  return Argument(TensorList{values, pool_positions(input, taps, kernel, stride, padding, dilation,
                                                    ceil_mode, Dim(rank))});
}

/// How many positions of each window along one dim count: [out], int64.
Tensor window_counts(const Tensor& x, const Pool& p, size_t d, bool count_include_pad) {
  Sizes sizes{p.out[d]};
  auto filled = [&](int64_t v) { return prim::constant(v, DType::int64, sizes); };
  Tensor n = expand_to(size_value(x, p.dim(x, d)), sizes);
  Tensor start =
      prim::sub(prim::mul(prim::iota(sizes, 0), filled(p.stride[d])), filled(p.padding[d]));
  Tensor end =
      prim::minimum(prim::add(start, filled(p.kernel[d])), prim::add(n, filled(p.padding[d])));
  if (count_include_pad) return prim::sub(end, start);
  return prim::sub(prim::minimum(end, n), prim::maximum(start, filled(0)));
}

Tensor mean_pooled(const Tensor& self, const DimList& kernel, const DimList& stride,
                   const DimList& padding, bool ceil_mode, bool count_include_pad,
                   std::optional<Dim> divisor, int64_t rank, const char* name) {
  check(is_inexact(self.dtype()) || self.dtype() == DType::int64, ErrorKind::runtime, name,
        ": not implemented for ", self.dtype());
  check(!divisor || *divisor != 0, ErrorKind::runtime, name, ": divisor must be not zero");
  Pool p = pool_of(self, kernel, stride, padding, {1}, ceil_mode, rank, name);
  Tensor x = to_dtype(self, compute_type(self.dtype()));
  Tensor zero =
      is_float(x.dtype()) ? prim::constant(0.0, x.dtype()) : prim::constant(int64_t{0}, x.dtype());
  Tensor whole = surrounded(x, p, zero, ceil_mode), total;
  if (p.taps() > kFewTaps) {
    Tensor w = all_windows(whole, p);
    total = prim::reduce(w, {w.dim() - 1}, Monoid::sum);
  } else {
    for (int64_t t = 0; t < p.taps(); ++t) {
      Tensor v = at_tap(whole, p, p.tap(t));
      total = t == 0 ? v : prim::add(total, v);
    }
  }
  Sizes sizes = graph::sizes_of(total);
  bool padded = std::any_of(p.padding.begin(), p.padding.end(), [](int64_t v) { return v > 0; });
  Tensor count;
  if (divisor || (!ceil_mode && (!padded || count_include_pad))) {
    int64_t n = divisor ? static_cast<int64_t>(*divisor) : p.taps();
    count = is_float(x.dtype()) ? prim::constant(static_cast<double>(n), x.dtype(), sizes)
                                : prim::constant(n, x.dtype(), sizes);
  } else {
    for (size_t d = 0; d < p.rank; ++d) {
      Ints from(sizes.size(), -1);
      from[static_cast<size_t>(p.dim(x, d))] = 0;
      Tensor n = prim::broadcast(window_counts(x, p, d, count_include_pad), sizes, from);
      count = d == 0 ? n : prim::mul(count, n);
    }
    count = prim::cast(count, x.dtype());
  }
  return to_dtype(prim::div(total, count), self.dtype());
}

/// Windows that divide a dim into `out` parts: [.., out, most, ..] and which positions are inside.
struct Parts {
  Tensor values, inside, count;  // inside [out, most], count [out]
};

Parts parts_of(const Tensor& x, int64_t dim, Size out) {
  Size n = graph::size_of(x, dim);
  Size most = n / out + Size(2);
  Sizes sizes{out, most};
  auto filled = [&](const Tensor& t) { return expand_to(t, sizes); };
  Tensor size = size_value(x, dim), o = size_value(prim::iota({out}, 0), 0);
  Tensor i = prim::iota(sizes, 0), one = prim::constant(int64_t{1}, DType::int64);
  Tensor start = prim::div(prim::mul(i, filled(size)), filled(o));
  Tensor next = prim::mul(prim::add(i, filled(one)), filled(size));
  Tensor end = prim::div(prim::sub(prim::add(next, filled(o)), filled(one)), filled(o));
  Tensor at = prim::add(start, prim::iota(sizes, 1));
  Tensor inside = prim::lt(at, end);
  Tensor last = filled(prim::sub(size, one));
  Tensor values = prim::take(x, prim::minimum(at, last), dim);
  return {values, inside, prim::reshape(prim::slice(prim::sub(end, start), 1, 0, 1, 1), {out})};
}

void check_adaptive(const Tensor& x, const Sizes& output, int64_t rank, const char* name) {
  check(static_cast<int64_t>(output.size()) == rank, ErrorKind::runtime, name,
        "(): output_size must be ", rank, " values, got ", output.size());
  check(x.dim() == rank + 1 || x.dim() == rank + 2, ErrorKind::runtime, name, "(): Expected ",
        rank + 1, "D or ", rank + 2, "D tensor, but got ", x.sizes());
  for (Size s : output)
    check(s >= Size(0), ErrorKind::runtime, name,
          "(): elements of output_size must be greater than or equal to 0 but received ", s);
  for (int64_t d = x.dim() - rank; d < x.dim(); ++d)
    check(graph::size_of(x, d) > Size(0), ErrorKind::runtime, name,
          "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
          x.sizes());
}

Tensor without_elements(const Tensor& x, const Sizes& output) {
  Sizes sizes = graph::sizes_of(x);
  for (size_t d = 0; d < output.size(); ++d) sizes[sizes.size() - output.size() + d] = output[d];
  return prim::constant(Scalar(0.0), x.dtype(), sizes);
}

bool has_zero(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](Size s) { return s == Size(0); });
}

const Op<Tensor(const Tensor&, const Sizes&, Dim)> adaptive_mean{
    "_adaptive_avg_pool(Tensor self, SymInt[] output_size, int rank) -> Tensor",
    R"(Means of the parts into which each of the last `rank` dims is divided.)",
    [](const Tensor& self, const Sizes& output, Dim rank) {
      check_adaptive(self, output, rank, "adaptive_avg_pool");
      check(is_float(self.dtype()), ErrorKind::runtime, "adaptive_avg_pool: not implemented for ",
            self.dtype());
      if (has_zero(output)) return without_elements(self, output);
      Tensor x = to_dtype(self, compute_type(self.dtype()));
      Sizes sizes = graph::sizes_of(x), split(sizes.begin(), sizes.end() - rank);
      if (std::all_of(output.begin(), output.end(), [](Size s) { return s == Size(1); })) {
        Ints last;
        for (int64_t d = x.dim() - rank; d < x.dim(); ++d) last.push_back(d);
        return to_dtype(mean_of(x, last, true), self.dtype());
      }
      bool even = true;
      Ints reduced;
      for (size_t d = 0; d < output.size(); ++d) {
        Size n = sizes[sizes.size() - output.size() + d];
        even = even && n % output[d] == Size(0);
        split.push_back(output[d]);
        split.push_back(n / output[d]);
        reduced.push_back(static_cast<int64_t>(split.size()) - 1);
      }
      if (even) {
        Tensor y = mean_of(prim::reshape(x, split), reduced, false);
        return to_dtype(y, self.dtype());
      }
      for (int64_t d = x.dim() - rank, i = 0; d < x.dim(); ++d, ++i) {
        Parts p = parts_of(x, d, output[static_cast<size_t>(i)]);
        Sizes full = graph::sizes_of(p.values);
        Tensor inside = prim::broadcast(p.inside, full, [&] {
          Ints from(full.size(), -1);
          from[static_cast<size_t>(d)] = 0;
          from[static_cast<size_t>(d) + 1] = 1;
          return from;
        }());
        Tensor kept = prim::select(inside, p.values, prim::zeros_like(p.values));
        Tensor total = prim::reduce(kept, {d + 1}, Monoid::sum);
        Ints from(static_cast<size_t>(x.dim()), -1);
        from[static_cast<size_t>(d)] = 0;
        Tensor count =
            prim::broadcast(prim::cast(p.count, x.dtype()), graph::sizes_of(total), from);
        x = prim::div(total, count);
      }
      return to_dtype(x, self.dtype());
    },
    0};

/// Every cotangent goes to the position that was the largest.
std::vector<Tensor> adaptive_max_rule(const std::vector<Argument>& arguments,
                                      const std::vector<Tensor>& results,
                                      const std::vector<Tensor>& cotangents) {
  const Tensor& x = std::get<Tensor>(arguments[0]);
  auto rank = static_cast<size_t>(std::get<Dim>(arguments[2]).value);
  Sizes xs = graph::sizes_of(x), ys = graph::sizes_of(cotangents[0]);
  Size rows = 1, in = 1, out = 1;
  for (size_t d = 0; d < xs.size(); ++d) {
    if (d < xs.size() - rank) {
      rows = rows * xs[d];
    } else {
      in = in * xs[d];
      out = out * ys[d];
    }
  }
  Tensor c = to_dtype(cotangents[0], compute_type(x.dtype()));
  Sizes flat_sizes{rows, out};
  Tensor size = size_value(prim::reshape(x, {rows, in}), 1);
  Tensor linear = prim::add(prim::mul(prim::iota(flat_sizes, 0), expand_to(size, flat_sizes)),
                            prim::reshape(results[1], flat_sizes));
  Tensor g =
      prim::put(prim::constant(0.0, c.dtype(), {rows * in}), prim::reshape(linear, {rows * out}),
                prim::reshape(c, {rows * out}), 0, prim::Combine::add);
  return {to_dtype(prim::reshape(g, xs), x.dtype())};
}

const Op<std::tuple<Tensor, Tensor>(const Tensor&, const Sizes&, Dim)> adaptive_largest{
    "_adaptive_max_pool(Tensor self, SymInt[] output_size, int rank) -> (Tensor values, Tensor "
    "indices)",
    R"(The largest elements of the parts into which each of the last `rank` dims is divided, and their positions.)",
    [](const Tensor& self, const Sizes& output, Dim rank) {
      check_adaptive(self, output, rank, "adaptive_max_pool");
      check(self.dtype() != DType::boolean && !is_complex(self.dtype()), ErrorKind::runtime,
            "adaptive_max_pool: not implemented for ", self.dtype());
      if (has_zero(output)) {
        Tensor none = without_elements(self, output);
        return std::tuple{none, prim::cast(none, DType::int64)};
      }
      Tensor x = to_dtype(self, compute_type(self.dtype()));
      // The position of every element, divided as the elements are.
      Sizes sizes = graph::sizes_of(x), spatial(sizes.end() - rank, sizes.end());
      Size all = 1;
      for (Size s : spatial) all = all * s;
      Tensor position = prim::reshape(prim::iota({all}, 0), spatial);
      int64_t lead = x.dim() - rank;
      Tensor low = lowest(x.dtype());
      for (int64_t d = rank - 1; d >= 0; --d) {
        Parts p = parts_of(x, lead + d, output[static_cast<size_t>(d)]);
        Parts q = parts_of(position, d, output[static_cast<size_t>(d)]);
        Sizes full = graph::sizes_of(p.values);
        Ints from(full.size(), -1);
        from[static_cast<size_t>(lead + d)] = 0;
        from[static_cast<size_t>(lead + d) + 1] = 1;
        x = prim::select(prim::broadcast(p.inside, full, from), p.values, expand_to(low, full));
        position = q.values;
      }
      Ints order, position_order;
      Sizes result(sizes.begin(), sizes.end() - rank), own;
      Size most = 1;
      for (int64_t d = 0; d < lead; ++d) order.push_back(d);
      for (int64_t side = 0; side < 2; ++side) {
        for (int64_t d = 0; d < rank; ++d) {
          order.push_back(lead + 2 * d + side);
          position_order.push_back(2 * d + side);
        }
      }
      for (int64_t d = 0; d < rank; ++d) {
        result.push_back(output[static_cast<size_t>(d)]);
        own.push_back(output[static_cast<size_t>(d)]);
        most = most * graph::size_of(x, lead + 2 * d + 1);
      }
      Sizes rows = result;
      rows.push_back(most);
      own.push_back(most);
      Tensor w = prim::reshape(prim::permute(x, order), rows);
      Tensor where = prim::reduce(w, {w.dim() - 1}, Monoid::argmax);
      Tensor value = prim::reduce(w, {w.dim() - 1}, Monoid::maximum);
      // position[out..., where]
      Size cells = 1;
      for (Size s : output) cells = cells * s;
      Tensor table = prim::reshape(prim::permute(position, position_order), {cells * most});
      Tensor cell = prim::reshape(prim::iota({cells}, 0), output);
      Ints from;
      for (int64_t d = 0; d < lead; ++d) from.push_back(-1);
      for (int64_t d = 0; d < rank; ++d) from.push_back(d);
      Tensor row = prim::broadcast(cell, result, from);
      Tensor count = expand_to(size_value(w, w.dim() - 1), result);
      Tensor at = prim::add(prim::mul(row, count), where);
      return std::tuple{to_dtype(value, self.dtype()), prim::take(table, at, 0)};
    },
    0,
    BodyKind::composite,
    adaptive_max_rule};

}  // namespace

using AdaptiveMean = Op<Tensor(const Tensor&, const Sizes&)>;
using AdaptiveMax = Op<Argument(const Tensor&, const Sizes&, bool)>;

#define FLAMBEAU_POOL(RANK)                                                                                 \
  const MaxPool max_pool##RANK##d{                                                                          \
      "max_pool" #RANK "d|nn.functional.max_pool" #RANK "d(Tensor input, int[" #RANK                        \
      "] kernel_size, int[" #RANK "]? stride=None, int[" #RANK "] padding=0, int[" #RANK                    \
      "] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor",                           \
      R"(The largest element of each window over the last dims; NaN counts as largest. Shapes: [n, c, s...] or [c, s...].
The stride is the kernel's size unless given. With return_indices also the positions of the elements in the pooled dims,
seen as one, int64. Errors: RuntimeError for sizes and options that do not fit.)",                          \
      [](const Tensor& input, const DimList& kernel, std::optional<DimList> stride,                         \
         const DimList& padding, const DimList& dilation, bool ceil_mode, bool return_indices) {            \
        return max_pooled(input, kernel, stride.value_or(DimList{}), padding, dilation, ceil_mode,          \
                          return_indices, RANK);                                                            \
      },                                                                                                    \
      kFunction, BodyKind::direct};                                                                         \
  const AdaptiveMean adaptive_avg_pool##RANK##d{                                                            \
      "_adaptive_avg_pool" #RANK "d(Tensor input, SymInt[" #RANK "] output_size) -> Tensor",                \
      R"(Means of parts: part i of s positions is from floor(i s / out) to before ceil((i + 1) s / out).)", \
      [](const Tensor& input, const Sizes& output) {                                                        \
        return adaptive_mean(input, Sizes(output.size() == 1 ? Sizes(RANK, output[0]) : output),            \
                             Dim(RANK));                                                                    \
      },                                                                                                    \
      kFunction, BodyKind::direct};                                                                         \
  const AdaptiveMax adaptive_max_pool##RANK##d {                                                            \
    "_adaptive_max_pool" #RANK "d(Tensor input, SymInt[" #RANK                                              \
    "] output_size, bool return_indices=False) -> Tensor",                                                  \
        R"(The largest elements of parts, see adaptive_avg_pool.)",                                         \
        [](const Tensor& input, const Sizes& output, bool return_indices) {                                 \
          auto [values, indices] = adaptive_largest(                                                        \
              input, Sizes(output.size() == 1 ? Sizes(RANK, output[0]) : output), Dim(RANK));               \
          return return_indices ? Argument(TensorList{values, indices}) : Argument(values);                 \
        },                                                                                                  \
        kFunction, BodyKind::direct                                                                         \
  }

FLAMBEAU_POOL(1);
FLAMBEAU_POOL(2);
FLAMBEAU_POOL(3);
#undef FLAMBEAU_POOL

const Op<Tensor(const Tensor&, const DimList&, std::optional<DimList>, const DimList&, bool, bool)>
    avg_pool1d{
        "avg_pool1d|nn.functional.avg_pool1d(Tensor input, int[1] kernel_size, int[1]? "
        "stride=None, int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> "
        "Tensor",
        R"(Means of windows over the last dim; see avg_pool2d.)",
        [](const Tensor& input, const DimList& kernel, std::optional<DimList> stride,
           const DimList& padding, bool ceil_mode, bool count_include_pad) {
          return mean_pooled(input, kernel, stride.value_or(DimList{}), padding, ceil_mode,
                             count_include_pad, std::nullopt, 1, "avg_pool1d");
        },
        kFunction};

#define FLAMBEAU_AVG_POOL(RANK)                                                                \
  const Op<Tensor(const Tensor&, const DimList&, std::optional<DimList>, const DimList&, bool, \
                  bool, std::optional<Dim>)>                                                   \
      avg_pool##RANK##d {                                                                      \
    "nn.functional.avg_pool" #RANK "d(Tensor input, int[" #RANK "] kernel_size, int[" #RANK    \
    "]? stride=None, int[" #RANK                                                               \
    "] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? "                    \
    "divisor_override=None) -> Tensor",                                                        \
        R"(Means of windows over the last dims: sums divided by the positions of the window, without those of the padding
unless count_include_pad, or by divisor_override. Shapes and errors: see max_pool2d.)",        \
        [](const Tensor& input, const DimList& kernel, std::optional<DimList> stride,          \
           const DimList& padding, bool ceil_mode, bool count_include_pad,                     \
           std::optional<Dim> divisor) {                                                       \
          return mean_pooled(input, kernel, stride.value_or(DimList{}), padding, ceil_mode,    \
                             count_include_pad, divisor, RANK, "avg_pool" #RANK "d");          \
        },                                                                                     \
        kFunction | kOut                                                                       \
  }

FLAMBEAU_AVG_POOL(2);
FLAMBEAU_AVG_POOL(3);
#undef FLAMBEAU_AVG_POOL

}  // namespace flambeau::ops
