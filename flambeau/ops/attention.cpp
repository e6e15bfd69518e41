// Scaled dot-product attention.
#include <limits>
#include <optional>

#include "flambeau/base/error.h"
#include "flambeau/ops/matmul.h"
#include "flambeau/ops/random.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;

Size size_from_end(const Tensor& t, int64_t d) { return graph::size_of(t, t.dim() + d); }

/// Heads repeated so that there are as many as `query` has: [.., heads, length, width].
Tensor repeated_heads(const Tensor& x, const Tensor& query) {
  check(x.dim() >= 3 && query.dim() >= 3, ErrorKind::runtime,
        "scaled_dot_product_attention: enable_gqa needs tensors of at least 3 dims [.., heads, "
        "length, width], got ",
        query.sizes(), " and ", x.sizes());
  Sizes sizes = graph::sizes_of(x);
  size_t head = sizes.size() - 3;
  Size wanted = size_from_end(query, -3);
  if (sizes[head] == wanted) return x;
  check(sizes[head] > Size(0) && wanted % sizes[head] == Size(0), ErrorKind::runtime,
        "scaled_dot_product_attention: Number of heads in key and value must divide the number of "
        "heads in query, got ",
        sizes[head], " and ", wanted);
  Sizes split = sizes;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(head) + 1, wanted / sizes[head]);
  std::vector<int64_t> from;
  for (size_t d = 0; d < split.size(); ++d)
    from.push_back(d <= head       ? static_cast<int64_t>(d)
                   : d == head + 1 ? -1
                                   : static_cast<int64_t>(d) - 1);
  sizes[head] = wanted;
  return prim::reshape(prim::broadcast(x, split, from), sizes);
}

Tensor transposed(const Tensor& x) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < x.dim(); ++d) order.push_back(d);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return prim::permute(x, order);
}

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, bool, std::optional<Number>,
                bool)>
    attention_weights{
        "_attention_weights(Tensor query, Tensor key, Tensor? attn_mask, bool is_causal, float? "
        "scale, bool enable_gqa) -> Tensor",
        R"(softmax(query key^T * scale + mask): [.., queries, keys]. Rows in which everything is masked are zeros.)",
        [](const Tensor& query, const Tensor& key, std::optional<Tensor> mask, bool is_causal,
           std::optional<Number> scale, bool enable_gqa) {
          check(query.dim() >= 2 && key.dim() >= 2, ErrorKind::runtime,
                "scaled_dot_product_attention: expected query and key of at least 2 dims, got ",
                query.sizes(), " and ", key.sizes());
          check(is_float(query.dtype()) && query.dtype() == key.dtype(), ErrorKind::runtime,
                "scaled_dot_product_attention: Expected query, key, and value to have the same "
                "floating dtype, but got ",
                query.dtype(), " and ", key.dtype());
          check(!(is_causal && mask), ErrorKind::runtime,
                "scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True");
          Tensor k = enable_gqa ? repeated_heads(key, query) : key;
          DType compute = compute_type(query.dtype());
          Tensor scores = matmul(to_dtype(query, compute), to_dtype(transposed(k), compute));
          Sizes sizes = graph::sizes_of(scores);
          DType t = scores.dtype();
          Tensor factor = scale ? to_tensor(*scale, t)
                                : prim::div(prim::constant(1.0, t),
                                            prim::sqrt(count_of(query, {query.dim() - 1}, t)));
          scores = prim::mul(scores, expand_to(factor, sizes));
          Tensor lowest = prim::constant(-std::numeric_limits<double>::infinity(), t, sizes);
          auto rank = static_cast<int64_t>(sizes.size());
          if (is_causal) {
            // A query sees the keys up to its own position.
            Tensor seen = prim::ge(prim::iota(sizes, rank - 2), prim::iota(sizes, rank - 1));
            scores = prim::select(seen, scores, lowest);
          }
          if (mask) {
            broadcast_sizes({*mask, prim::constant(false, DType::boolean, sizes)},
                            "scaled_dot_product_attention");
            Tensor m = expand_to(*mask, sizes);
            scores = m.dtype() == DType::boolean ? prim::select(m, scores, lowest)
                                                 : prim::add(scores, to_dtype(m, t));
          }
          std::vector<int64_t> last{rank - 1};
          Tensor largest = prim::barrier(reduce_keep(scores, last, Monoid::maximum, true));
          // Nothing seen: the differences would be NaN.
          Tensor zero = prim::zeros_like(largest);
          Tensor none = prim::eq(largest, prim::constant(-std::numeric_limits<double>::infinity(),
                                                         t, graph::sizes_of(largest)));
          largest = prim::select(none, zero, largest);
          Tensor e = prim::exp(prim::sub(scores, expand_to(largest, sizes)));
          Tensor total = reduce_keep(e, last, Monoid::sum, true);
          total = prim::select(none, prim::constant_like(total, 1), total);
          return to_dtype(prim::div(e, expand_to(total, sizes)), query.dtype());
        },
        0};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, bool)> weighted_values{
    "_weighted_values(Tensor weights, Tensor value, Tensor query, bool enable_gqa) -> Tensor",
    R"(weights @ value, with heads repeated as the query has them.)",
    [](const Tensor& weights, const Tensor& value, const Tensor& query, bool enable_gqa) {
      return matmul(weights, enable_gqa ? repeated_heads(value, query) : value);
    },
    0};

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, std::optional<Tensor>, const Number&,
                bool, std::optional<Number>, bool)>
    scaled_dot_product_attention{
        "nn.functional.scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
        "Tensor? "
        "attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool "
        "enable_gqa=False) -> Tensor",
        R"(dropout(softmax(query key^T * scale + mask)) value. Source: Vaswani et al., "Attention is all you need", 2017.

Shapes: query [.., queries, e], key [.., keys, e], value [.., keys, v] -> [.., queries, v]; attn_mask broadcasts to [..,
queries, keys]: bool (true: seen) or added. scale is 1 / sqrt(e) unless given. is_causal: a query sees the keys up to its
position. enable_gqa: heads [.., heads, length, width] of key and value are repeated to those of the query. A query that sees
nothing gives zeros. Dtypes: floats. Errors: RuntimeError for shapes, dtypes and options that do not fit.)",
        [](const Tensor& query, const Tensor& key, const Tensor& value, std::optional<Tensor> mask,
           const Number& dropout_p, bool is_causal, std::optional<Number> scale, bool enable_gqa) {
          check(value.dtype() == query.dtype(), ErrorKind::runtime,
                "scaled_dot_product_attention: Expected query, key, and value to have the same "
                "dtype, but got ",
                query.dtype(), " and ", value.dtype());
          Tensor weights = attention_weights(query, key, mask, is_causal, scale, enable_gqa);
          if (dropout_p.scalar().real() > 0) weights = dropout(weights, dropout_p, true);
          return weighted_values(weights, value, query, enable_gqa);
        },
        kFunction, BodyKind::direct};

}  // namespace flambeau::ops
