#include "flambeau/ops/matmul.h"

#include <string_view>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

void check_types(const Tensor& a, const Tensor& b, const char* name) {
  check(a.dtype() == b.dtype(), ErrorKind::runtime, name,
        ": expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  check(a.dtype() != DType::boolean, ErrorKind::runtime, name, ": not implemented for 'Bool'");
}

void check_inner(Size a, Size b, const Tensor& x, const Tensor& y, const char* name) {
  bool equal = graph::Trace::current()->require_equal(
      a, b, "mat1 and mat2 shapes cannot be multiplied: the inner sizes are {a} and {b}");
  check(equal, ErrorKind::runtime, name, ": mat1 and mat2 shapes cannot be multiplied (", x.sizes(),
        " and ", y.sizes(), ")");
}

/// [batch, m, k] x [batch, k, n] in the accumulation type (float32 for half types).
Tensor product(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return prim::dot(a, b);
  Pair x = components(a), y = components(b);
  return join({prim::sub(prim::dot(x.re, y.re), prim::dot(x.im, y.im)),
               prim::add(prim::dot(x.re, y.im), prim::dot(x.im, y.re))});
}

Tensor lead(const Tensor& x) {
  Sizes s = graph::sizes_of(x);
  s.insert(s.begin(), Size(1));
  return prim::reshape(x, s);
}

/// [m, k] x [k, n] -> [m, n] in the accumulation type.
Tensor product_2d(const Tensor& a, const Tensor& b, const char* name) {
  check_types(a, b, name);
  check_inner(graph::size_of(a, 1), graph::size_of(b, 0), a, b, name);
  return prim::reshape(product(lead(a), lead(b)), {graph::size_of(a, 0), graph::size_of(b, 1)});
}

/// beta * input + alpha * product, rounded once; a beta of 0 ignores the input, NaN included.
Tensor blended(const Tensor& input, const Tensor& product, const Number& beta, const Number& alpha,
               DType dtype, const char* name) {
  // Products with a vector and batches convert the factors to the tensors' type, as the field does.
  bool strict = std::string_view(name) == "addmm";
  check(
      !strict || is_inexact(dtype) || (category(alpha.dtype()) <= 1 && category(beta.dtype()) <= 1),
      ErrorKind::runtime, name,
      ": For integral input tensors, argument alpha must not be a floating point number.");
  DType compute = compute_type(dtype);
  Sizes sizes = graph::sizes_of(product);
  Tensor b = expand_to(to_tensor(beta, compute), sizes),
         a = expand_to(to_tensor(alpha, compute), sizes);
  Tensor x = expand_to(to_dtype(input, compute), sizes);
  auto is_one = [](const Number& n) {
    return !n.traced().defined() && n.kind() == Scalar::Kind::integer && n.scalar().integer() == 1;
  };
  Tensor scaled = is_one(alpha) ? to_dtype(product, compute) : mul(a, to_dtype(product, compute));
  Tensor kept = is_one(beta) ? x : mul(b, x);
  if (!is_one(beta)) {
    Tensor re = is_complex(compute) ? prim::real(b) : b, zero = prim::zeros_like(re);
    Tensor none = prim::eq(re, zero);
    if (is_complex(compute)) none = prim::bit_and(none, prim::eq(prim::imag(b), zero));
    kept = prim::select(none, prim::zeros_like(kept), kept);
  }
  return to_dtype(add(kept, scaled), dtype);
}

std::vector<int64_t> swap_last(int64_t rank) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[static_cast<size_t>(rank - 1)], order[static_cast<size_t>(rank - 2)]);
  return order;
}

void check_dims(const Tensor& t, int64_t rank, const char* name, const char* argument) {
  check(t.dim() == rank, ErrorKind::runtime, name, ": expected ", argument, " to be a ", rank,
        "-D tensor, got ", t.dim(), "-D with sizes ", t.sizes());
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&)> mm{
    "mm(Tensor self, Tensor mat2) -> Tensor",
    R"(Product of two matrices: [m, k] x [k, n] -> [m, n]. One dtype; half types are accumulated in float32
and rounded once, integers wrap. Errors: RuntimeError for other ranks, sizes or mixed dtypes.)",
    [](const Tensor& a, const Tensor& b) {
      check_dims(a, 2, "mm", "self");
      check_dims(b, 2, "mm", "mat2");
      return to_dtype(product_2d(a, b, "mm"), a.dtype());
    }};

const Op<Tensor(const Tensor&, const Tensor&)> bmm{
    "bmm(Tensor self, Tensor mat2) -> Tensor",
    R"(Products of matrices: [b, m, k] x [b, k, n] -> [b, m, n]. See mm.)",
    [](const Tensor& a, const Tensor& b) {
      check_dims(a, 3, "bmm", "self");
      check_dims(b, 3, "bmm", "mat2");
      check_types(a, b, "bmm");
      bool batch = graph::Trace::current()->require_equal(
          graph::size_of(a, 0), graph::size_of(b, 0), "bmm: batch sizes must match");
      check(batch, ErrorKind::runtime,
            "bmm: Expected size for first two dimensions of batch2 tensor to be: [",
            graph::size_of(a, 0), ", ", graph::size_of(a, 2), "] but got: ", b.sizes());
      check_inner(graph::size_of(a, 2), graph::size_of(b, 1), a, b, "bmm");
      return to_dtype(product(a, b), a.dtype());
    }};

const Op<Tensor(const Tensor&, const Tensor&)> matmul{
    "matmul|linalg.matmul|__matmul__(Tensor self, Tensor other) -> Tensor",
    R"(Product of matrices with broadcast leading dims; 1-d operands are a row on the left and a column on the right, and that dim is
dropped from the result. Errors: RuntimeError for 0-d operands, sizes that do not fit and mixed dtypes.)",
    [](const Tensor& self, const Tensor& other) {
      check(self.dim() > 0 && other.dim() > 0, ErrorKind::runtime,
            "both arguments to matmul need to be at least 1D, but they are ", self.dim(), "D and ",
            other.dim(), "D");
      check_types(self, other, "matmul");
      Tensor a = self, b = other;
      bool row = a.dim() == 1, column = b.dim() == 1;
      if (row) a = lead(a);
      if (column) b = prim::reshape(b, {graph::size_of(b, 0), Size(1)});
      check_inner(graph::size_of(a, -1), graph::size_of(b, -2), self, other, "matmul");
      Sizes as = graph::sizes_of(a), bs = graph::sizes_of(b);
      Size m = as[as.size() - 2], k = as.back(), n = bs.back();
      Sizes batch;
      Tensor r;
      if (b.dim() == 2) {
        // Leading dims of the left side are rows.
        Size rows = 1;
        batch = Sizes(as.begin(), as.end() - 2);
        for (Size s : batch) rows = rows * s;
        r = product(prim::reshape(a, {Size(1), rows * m, k}), lead(b));
      } else {
        Sizes ab(as.begin(), as.end() - 2), bb(bs.begin(), bs.end() - 2);
        auto only = [](const Tensor& like, const Sizes& s) {
          return prim::constant(false, DType::boolean, s);
        };
        batch = broadcast_sizes({only(a, ab), only(b, bb)}, "matmul");
        Size count = 1;
        for (Size s : batch) count = count * s;
        Sizes full_a = batch, full_b = batch;
        full_a.insert(full_a.end(), {m, k});
        full_b.insert(full_b.end(), {bs[bs.size() - 2], n});
        r = product(prim::reshape(expand_to(a, full_a), {count, m, k}),
                    prim::reshape(expand_to(b, full_b), {count, bs[bs.size() - 2], n}));
      }
      Sizes sizes = batch;
      if (!row) sizes.push_back(m);
      if (!column) sizes.push_back(n);
      return to_dtype(prim::reshape(r, sizes), self.dtype());
    }};

const Op<Tensor(const Tensor&, const Tensor&)> mv{
    "mv(Tensor self, Tensor vec) -> Tensor", R"(Matrix times vector: [m, k] x [k] -> [m]. See mm.)",
    [](const Tensor& a, const Tensor& v) {
      check(a.dim() == 2 && v.dim() == 1, ErrorKind::runtime,
            "vector + matrix @ vector expected, got 1, ", a.dim(), ", ", v.dim());
      Tensor r = product_2d(a, prim::reshape(v, {graph::size_of(v, 0), Size(1)}), "mv");
      return to_dtype(prim::reshape(r, {graph::size_of(a, 0)}), a.dtype());
    }};

const Op<Tensor(const Tensor&, const Tensor&)> dot{
    "dot(Tensor self, Tensor tensor) -> Tensor",
    R"(Sum of products of two vectors of one length. Errors: RuntimeError for other ranks, lengths or mixed dtypes.)",
    [](const Tensor& a, const Tensor& b) {
      check(a.dim() == 1 && b.dim() == 1, ErrorKind::runtime, "1D tensors expected, but got ",
            a.dim(), "D and ", b.dim(), "D tensors");
      check(a.dtype() == b.dtype(), ErrorKind::runtime,
            "dot : expected both vectors to have same dtype, but found ", a.dtype(), " and ",
            b.dtype());
      check(a.numel() == b.numel(), ErrorKind::runtime,
            "inconsistent tensor size, expected tensor [", a.numel(), "] and src [", b.numel(),
            "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
            " elements respectively");
      Tensor r = product_2d(lead(a), prim::reshape(b, {graph::size_of(b, 0), Size(1)}), "dot");
      return to_dtype(prim::reshape(r, {}), a.dtype());
    }};

const Op<Tensor(const Tensor&, const Tensor&)> vdot{
    "vdot(Tensor self, Tensor other) -> Tensor", R"(dot with the left vector conjugated.)",
    [](const Tensor& a, const Tensor& b) {
      check(a.dim() == 1 && b.dim() == 1, ErrorKind::runtime, "1D tensors expected, but got ",
            a.dim(), "D and ", b.dim(), "D tensors");
      check(a.dtype() == b.dtype(), ErrorKind::runtime,
            "vdot : expected both vectors to have same dtype, but found ", a.dtype(), " and ",
            b.dtype());
      check(a.numel() == b.numel(), ErrorKind::runtime,
            "inconsistent tensor size, expected tensor [", a.numel(), "] and src [", b.numel(),
            "] to have the same number of elements");
      Tensor r =
          product_2d(lead(conj(a)), prim::reshape(b, {graph::size_of(b, 0), Size(1)}), "vdot");
      return to_dtype(prim::reshape(r, {}), a.dtype());
    }};

const Op<Tensor(const Tensor&, const Tensor&)> outer{
    "outer|ger(Tensor self, Tensor vec2) -> Tensor",
    R"(Products of all pairs: [m] x [n] -> [m, n].)", [](const Tensor& a, const Tensor& b) {
      check(a.dim() == 1 && b.dim() == 1, ErrorKind::runtime,
            "outer: Expected 1-D argument self, but got ", a.dim(), "-D and ", b.dim(), "-D");
      DType dtype = result_type({a, b});
      Sizes sizes{graph::size_of(a, 0), graph::size_of(b, 0)};
      Tensor x = expand_to(
          prim::reshape(to_dtype(to_dtype(a, dtype), compute_type(dtype)), {sizes[0], Size(1)}),
          sizes);
      Tensor y = expand_to(to_dtype(to_dtype(b, dtype), compute_type(dtype)), sizes);
      return to_dtype(dtype == DType::boolean ? prim::bit_and(x, y) : mul(x, y), dtype);
    }};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Number&, const Number&)> addmm{
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    R"(beta * self + alpha * (mat1 @ mat2); self broadcasts to [m, n]. With beta 0 self is ignored. Rounded once.)",
    [](const Tensor& self, const Tensor& a, const Tensor& b, const Number& beta,
       const Number& alpha) {
      check(a.dim() == 2 && b.dim() == 2, ErrorKind::runtime,
            "mat1 and mat2 must be matrices, got ", a.dim(), "-D and ", b.dim(), "-D");
      check(self.dtype() == a.dtype(), ErrorKind::runtime,
            "self and mat2 must have the same dtype, but got ", self.dtype(), " and ", b.dtype());
      return blended(self, product_2d(a, b, "addmm"), beta, alpha, self.dtype(), "addmm");
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Number&, const Number&)> addmv{
    "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    R"(beta * self + alpha * (mat @ vec).)",
    [](const Tensor& self, const Tensor& a, const Tensor& v, const Number& beta,
       const Number& alpha) {
      check(a.dim() == 2 && v.dim() == 1 && self.dim() <= 1, ErrorKind::runtime,
            "vector + matrix @ vector expected, got ", self.dim(), ", ", a.dim(), ", ", v.dim());
      Tensor r = product_2d(a, prim::reshape(v, {graph::size_of(v, 0), Size(1)}), "addmv");
      return blended(self, prim::reshape(r, {graph::size_of(a, 0)}), beta, alpha, self.dtype(),
                     "addmv");
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Number&, const Number&)> baddbmm{
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
    "Tensor",
    R"(beta * self + alpha * (batch1 @ batch2) for batches of matrices.)",
    [](const Tensor& self, const Tensor& a, const Tensor& b, const Number& beta,
       const Number& alpha) {
      check_dims(a, 3, "baddbmm", "batch1");
      check_dims(b, 3, "baddbmm", "batch2");
      check_types(a, b, "baddbmm");
      bool batch = graph::Trace::current()->require_equal(
          graph::size_of(a, 0), graph::size_of(b, 0), "baddbmm: batch sizes must match");
      check(batch, ErrorKind::runtime, "baddbmm: batch sizes differ: ", a.sizes(), " and ",
            b.sizes());
      check_inner(graph::size_of(a, 2), graph::size_of(b, 1), a, b, "baddbmm");
      return blended(self, product(a, b), beta, alpha, self.dtype(), "baddbmm");
    },
    kElementwiseForms};

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>)> linear{
    "nn.functional.linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    R"(input @ weight.T + bias: [..., k], [n, k] or [k], [n] or [] -> [..., n] or [...]. Half types are accumulated in float32 and rounded once, after the bias.)",
    [](const Tensor& input, const Tensor& weight, std::optional<Tensor> bias) {
      check(weight.dim() == 1 || weight.dim() == 2, ErrorKind::runtime,
            "linear: weight must be 1-D or 2-D, got ", weight.dim(), "-D");
      check(input.dim() > 0, ErrorKind::runtime,
            "linear: both arguments need to be at least 1D, but input is 0D");
      check_types(input, weight, "linear");
      Sizes in = graph::sizes_of(input);
      Size rows = 1, k = in.back();
      for (size_t d = 0; d + 1 < in.size(); ++d) rows = rows * in[d];
      Tensor w = weight.dim() == 2 ? prim::permute(weight, swap_last(2))
                                   : prim::reshape(weight, {graph::size_of(weight, 0), Size(1)});
      check_inner(k, graph::size_of(w, 0), input, weight, "linear");
      Tensor r = product(prim::reshape(input, {Size(1), rows, k}), lead(w));
      Sizes out(in.begin(), in.end() - 1);
      if (weight.dim() == 2) out.push_back(graph::size_of(weight, 0));
      r = prim::reshape(r, out);
      if (bias) {
        check(bias->dtype() == input.dtype(), ErrorKind::runtime,
              "linear: expected bias to have dtype ", input.dtype(), ", got ", bias->dtype());
        r = add(r, expand_to(to_dtype(*bias, r.dtype()), out));
      }
      return to_dtype(r, input.dtype());
    },
    kFunction | kOut};

}  // namespace flambeau::ops
