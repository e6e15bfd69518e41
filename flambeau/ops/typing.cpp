#include "flambeau/ops/typing.h"

#include <algorithm>

#include "flambeau/base/error.h"

namespace flambeau::ops {

using graph::Trace;

DType result_type(const std::vector<Tensor>& tensors, const std::vector<Number>& numbers) {
  // Group 0: tensors with dims, 1: 0-d tensors, 2: numbers.
  std::optional<DType> groups[3];
  auto meet = [&](int group, DType t) {
    groups[group] = groups[group] ? promote(*groups[group], t) : t;
  };
  for (const Tensor& t : tensors) {
    if (t.defined()) meet(t.dim() > 0 ? 0 : 1, t.dtype());
  }
  for (const Number& n : numbers) meet(2, n.dtype());
  std::optional<DType> result;
  for (const auto& group : groups) {
    if (!group) continue;
    if (!result) {
      result = group;
    } else if (category(*group) > category(*result)) {
      // A complex number or 0-d tensor takes its precision from the tensor it joins.
      bool from_float = is_complex(*group) && is_float(*result);
      result = from_float ? complex_type(*result) : *group;
    }
  }
  return result.value_or(default_dtype());
}

Tensor to_dtype(const Tensor& x, DType to) {
  DType from = x.dtype();
  if (from == to) return x;
  if (is_complex(from)) {
    if (!is_complex(to)) return prim::cast(prim::real(x), to);
    DType part = real_type(to);
    return prim::make_complex(prim::cast(prim::real(x), part), prim::cast(prim::imag(x), part));
  }
  if (is_complex(to)) {
    Tensor re = prim::cast(x, real_type(to));
    return prim::make_complex(re, prim::zeros_like(re));
  }
  return prim::cast(x, to);
}

Tensor to_tensor(const Number& n, DType dtype) {
  if (n.traced().defined()) return to_dtype(n.traced(), dtype);
  return prim::constant(n.scalar(), dtype);
}

DType compute_type(DType t) {
  return t == DType::float16 || t == DType::bfloat16 ? DType::float32 : t;
}
DType float_type(DType t) { return is_inexact(t) ? t : default_dtype(); }

Sizes broadcast_sizes(const std::vector<Tensor>& tensors, const char* operator_name) {
  size_t rank = 0;
  for (const Tensor& t : tensors) rank = std::max(rank, static_cast<size_t>(t.dim()));
  Sizes result(rank, Size(1));
  std::vector<bool> known(rank);
  for (const Tensor& t : tensors) {
    Sizes sizes = graph::sizes_of(t);
    size_t lead = rank - sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d) {
      size_t at = lead + d;
      if (sizes[d] == Size(1)) continue;
      if (!known[at]) {
        result[at] = sizes[d];
        known[at] = true;
        continue;
      }
      bool equal = Trace::current() ? Trace::current()->require_equal(
                                          result[at], sizes[d],
                                          text("The size of tensor a ({a}) must match the size of "
                                               "tensor b ({b}) at non-singleton dimension ",
                                               at))
                                    : result[at].value == sizes[d].value;
      check(equal, ErrorKind::runtime, operator_name, ": The size of tensor a (", result[at],
            ") must match the size of tensor b (", sizes[d], ") at non-singleton dimension ", at);
    }
  }
  return result;
}

Tensor expand_to(const Tensor& x, const Sizes& sizes) {
  auto rank = static_cast<int64_t>(sizes.size());
  std::vector<int64_t> from(sizes.size(), -1);
  int64_t lead = rank - x.dim();
  // A dim that turned out to be 1 without being known as 1 is read at position 0 through a reshape.
  Sizes own = graph::sizes_of(x), known_ones = own;
  for (size_t d = 0; d < own.size(); ++d) {
    if (own[d] == Size(1)) known_ones[d] = Size(1);
  }
  for (int64_t d = 0; d < x.dim(); ++d) from[static_cast<size_t>(lead + d)] = d;
  return prim::broadcast(prim::reshape(x, known_ones), sizes, from);
}

std::vector<int64_t> reduced_dims(const std::optional<DimList>& dims, int64_t rank,
                                  const char* operator_name, bool none_means_all) {
  std::vector<int64_t> result;
  if (!dims || (dims->empty() && none_means_all)) {
    for (int64_t d = 0; d < rank; ++d) result.push_back(d);
    return result;
  }
  for (int64_t d : *dims) {
    int64_t wrapped = wrap_dim(d, rank, operator_name);
    check(std::find(result.begin(), result.end(), wrapped) == result.end(), ErrorKind::runtime,
          operator_name, ": dim ", wrapped, " appears multiple times in the list of dims");
    if (rank > 0) result.push_back(wrapped);
  }
  std::sort(result.begin(), result.end());
  return result;
}

Tensor keep_dims(const Tensor& reduced, const std::vector<int64_t>& dims, const Sizes& full) {
  Sizes sizes = full;
  for (int64_t d : dims) sizes[static_cast<size_t>(d)] = Size(1);
  return prim::reshape(reduced, sizes);
}

Pair components(const Tensor& x) {
  if (is_complex(x.dtype())) return {prim::real(x), prim::imag(x)};
  return {x, prim::zeros_like(x)};
}
Tensor join(const Pair& p) { return prim::make_complex(p.re, p.im); }

Tensor add(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return prim::add(a, b);
  Pair x = components(a), y = components(b);
  return join({prim::add(x.re, y.re), prim::add(x.im, y.im)});
}
Tensor sub(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return prim::sub(a, b);
  Pair x = components(a), y = components(b);
  return join({prim::sub(x.re, y.re), prim::sub(x.im, y.im)});
}
Tensor mul(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return prim::mul(a, b);
  Pair x = components(a), y = components(b);
  return join({prim::sub(prim::mul(x.re, y.re), prim::mul(x.im, y.im)),
               prim::add(prim::mul(x.re, y.im), prim::mul(x.im, y.re))});
}
Tensor div(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return prim::div(a, b);
  // Smith's algorithm (1962) scales by the larger part of the divisor.
  Pair x = components(a), y = components(b);
  Tensor by_re = prim::ge(prim::abs(y.re), prim::abs(y.im));
  Tensor big = prim::select(by_re, y.re, y.im), small = prim::select(by_re, y.im, y.re);
  Tensor ratio = prim::div(small, big), scale = prim::add(big, prim::mul(small, ratio));
  Tensor re = prim::select(by_re, prim::add(x.re, prim::mul(x.im, ratio)),
                           prim::add(prim::mul(x.re, ratio), x.im));
  Tensor im = prim::select(by_re, prim::sub(x.im, prim::mul(x.re, ratio)),
                           prim::sub(prim::mul(x.im, ratio), x.re));
  return join({prim::div(re, scale), prim::div(im, scale)});
}
Tensor neg(const Tensor& x) {
  if (!is_complex(x.dtype())) return prim::neg(x);
  return join({prim::neg(prim::real(x)), prim::neg(prim::imag(x))});
}
Tensor conj(const Tensor& x) {
  if (!is_complex(x.dtype())) return x;
  return join({prim::real(x), prim::neg(prim::imag(x))});
}
Tensor zeros_like(const Tensor& x) { return prim::zeros_like(x); }

Tensor sum(const Tensor& x, const std::vector<int64_t>& dims) {
  if (dims.empty()) return x;
  if (!is_complex(x.dtype())) return prim::reduce(x, dims, prim::Monoid::sum);
  return join({prim::reduce(prim::real(x), dims, prim::Monoid::sum),
               prim::reduce(prim::imag(x), dims, prim::Monoid::sum)});
}

Tensor binary(const Tensor& a, const Tensor& b, DType dtype, const char* operator_name,
              Tensor (*fn)(const Tensor&, const Tensor&)) {
  Sizes sizes = broadcast_sizes({a, b}, operator_name);
  DType compute = compute_type(dtype);
  // The promoted value is what is computed with: a wider operand is rounded to the dtype first.
  auto ready = [&](const Tensor& x) {
    return to_dtype(expand_to(to_dtype(x, dtype), sizes), compute);
  };
  Tensor r = fn(ready(a), ready(b));
  return r.dtype() == compute ? to_dtype(r, dtype) : r;
}

Tensor unary_float(const Tensor& x, Tensor (*fn)(const Tensor&),
                   Tensor (*complex_fn)(const Tensor&), const char* operator_name) {
  DType dtype = float_type(x.dtype());
  if (is_complex(dtype)) {
    check(complex_fn != nullptr, ErrorKind::runtime, operator_name, ": not implemented for ",
          dtype);
    return complex_fn(x);
  }
  return to_dtype(fn(to_dtype(x, compute_type(dtype))), dtype);
}

}  // namespace flambeau::ops
