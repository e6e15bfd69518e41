// Order: sorting, the largest elements, medians, and search in sorted rows. NaN is the largest.
#include "flambeau/ops/sort.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flambeau/base/error.h"
#include "flambeau/base/threads.h"
#include "flambeau/ops/copy.h"
#include "flambeau/ops/creation.h"
#include "flambeau/ops/indexing.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"

namespace flambeau::ops {

namespace {

template <class T>
bool below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
  }
  return a < b;
}

/// fn<T>(rows) with T one of float, double, int64_t that holds all values.
template <class Fn>
void by_key_type(const Tensor& self, const Fn& fn) {
  DType t = self.dtype();
  if (t == DType::float64)
    fn(double{}, contiguous_copy(self));
  else if (is_float(t))
    fn(float{}, contiguous_copy(convert(self, DType::float32)));
  else
    fn(int64_t{}, contiguous_copy(convert(self, DType::int64)));
}

/// Runs body(first, end) over rows, on all threads when that is worth it.
template <class Body>
void over_rows(int64_t rows, int64_t length, const Body& body) {
  constexpr int64_t kWorth = 4096;
  int64_t grain = std::max<int64_t>(1, kWorth / std::max<int64_t>(length, 1));
  auto run = [](void* context, int64_t begin, int64_t end, int64_t) {
    (*static_cast<const Body*>(context))(begin, end);
  };
  parallel_for(rows, grain, 1, run, const_cast<Body*>(&body));
}

/// The `count` first positions of each row of `self` [rows, length] in ascending or descending
/// order; equal elements keep their order.
Tensor first_positions(const Tensor& self, int64_t count, bool descending) {
  int64_t rows = self.size(0), length = self.size(1);
  Tensor result = empty_tensor({rows, count}, DType::int64);
  by_key_type(self, [&](auto zero, const Tensor& keys) {
    using T = decltype(zero);
    const T* data = keys.data_as<T>();
    auto* out = result.data_as<int64_t>();
    struct Entry {
      T key;
      int64_t position;
    };
    auto body = [&](int64_t begin, int64_t end) {
      std::vector<Entry> row(static_cast<size_t>(length));
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t i = 0; i < length; ++i)
          row[static_cast<size_t>(i)] = {data[r * length + i], i};
        auto before = [descending](const Entry& a, const Entry& b) {
          if (descending ? below(b.key, a.key) : below(a.key, b.key)) return true;
          if (descending ? below(a.key, b.key) : below(b.key, a.key)) return false;
          return a.position < b.position;
        };
        if (count < length / 8)
          std::partial_sort(row.begin(), row.begin() + count, row.end(), before);
        else
          std::sort(row.begin(), row.end(), before);
        for (int64_t i = 0; i < count; ++i)
          out[r * count + i] = row[static_cast<size_t>(i)].position;
      }
    };
    over_rows(rows, length, body);
  });
  return result;
}

struct Rows {
  Tensor x;  // [rows, length]
  std::vector<int64_t> order, inverse;
  Sizes lead;  // sizes of the other dims
};

Rows rows_of(const Tensor& self, int64_t dim) {
  Rows r;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != dim) {
      r.order.push_back(d);
      r.lead.emplace_back(self.size(d));
    }
  }
  r.order.push_back(dim);
  r.inverse.resize(r.order.size());
  for (size_t i = 0; i < r.order.size(); ++i)
    r.inverse[static_cast<size_t>(r.order[i])] = static_cast<int64_t>(i);
  int64_t rows = 1;
  for (Size s : r.lead) rows *= s.value;
  r.x = reshape(permute(self, r.order), Sizes{Size(rows), Size(self.size(dim))});
  return r;
}

/// Positions along dim, ordered, `count` of them.
Tensor ordered(const Tensor& self, int64_t dim, int64_t count, bool descending, const char* name) {
  check(!is_complex(self.dtype()), ErrorKind::runtime, name, ": not implemented for ",
        self.dtype());
  if (self.dim() == 0) {
    Tensor zero = empty_tensor({}, DType::int64);
    *zero.data_as<int64_t>() = 0;
    return zero;
  }
  Rows r = rows_of(self, dim);
  Sizes sizes = r.lead;
  sizes.emplace_back(count);
  return permute(reshape(first_positions(r.x, count, descending), sizes), r.inverse);
}

using Pair2 = std::tuple<Tensor, Tensor>;

Tensor along(const Tensor& self, int64_t dim, const Tensor& positions) {
  return self.dim() == 0 ? clone(self, std::nullopt) : gather(self, Dim(dim), positions, false);
}

int64_t dim_of(const Tensor& self, Dim dim, const char* name) {
  return wrap_dim(dim, self.dim(), name);
}

}  // namespace

const Op<Pair2(const Tensor&, Dim, bool, bool)> sort{
    "sort(Tensor self, int dim=-1, bool descending=False, bool stable=False) -> (Tensor values, "
    "Tensor indices)",
    R"(Elements along `dim` in ascending order, and where they were: int64. Equal elements always keep their order, and NaN is
the largest. Errors: RuntimeError for complex dtypes, IndexError for a dim out of range.)",
    [](const Tensor& self, Dim dim, bool descending, bool) {
      int64_t d = dim_of(self, dim, "sort");
      int64_t length = self.dim() == 0 ? 1 : self.size(d);
      Tensor at = contiguous_copy(ordered(self, d, length, descending, "sort"));
      return std::tuple{along(self, d, at), at};
    },
    kFunction | kMethod | kOut, BodyKind::direct};

const Op<Pair2(const Tensor&, bool, Dim, bool)> sort_stable{
    "sort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> (Tensor "
    "values, "
    "Tensor indices)",
    R"(sort.)",
    [](const Tensor& self, bool stable, Dim dim, bool descending) {
      return sort(self, dim, descending, stable);
    },
    kFunction | kMethod | kOut, BodyKind::direct};

const Op<Tensor(const Tensor&, Dim, bool, bool)> argsort{
    "argsort(Tensor self, int dim=-1, bool descending=False, bool stable=False) -> Tensor",
    R"(The positions that sort gives.)",
    [](const Tensor& self, Dim dim, bool descending, bool) {
      int64_t d = dim_of(self, dim, "argsort");
      int64_t length = self.dim() == 0 ? 1 : self.size(d);
      return contiguous_copy(ordered(self, d, length, descending, "argsort"));
    },
    kFunction | kMethod | kOut, BodyKind::direct};

const Op<Tensor(const Tensor&)> msort{
    "msort(Tensor self) -> Tensor", R"(sort along the first dim, the values.)",
    [](const Tensor& self) { return std::get<0>(sort(self, Dim(0), false, true)); },
    kFunction | kMethod | kOut, BodyKind::direct};

const Op<Pair2(const Tensor&, Size, Dim, bool, bool)> topk{
    "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor "
    "values, Tensor indices)",
    R"(The k largest (or smallest) elements along `dim`, in order, and where they are: int64. NaN is the largest; of equal
elements the first come first. Errors: RuntimeError for k outside the dim, IndexError for a dim out of range.)",
    [](const Tensor& self, Size k, Dim dim, bool largest, bool) {
      int64_t d = dim_of(self, dim, "topk");
      int64_t length = self.dim() == 0 ? 1 : self.size(d);
      check(k.value >= 0 && k.value <= length, ErrorKind::runtime,
            "topk: selected index k out of range: ", k, " of ", length);
      Tensor at = contiguous_copy(ordered(self, d, k.value, largest, "topk"));
      return std::tuple{along(self, d, at), at};
    },
    kFunction | kMethod | kOut, BodyKind::direct};

namespace {

/// The element at place `place` (from 0) of the ascending order.
Pair2 element_at(const Tensor& self, int64_t dim, int64_t place, bool keepdim, const char* name) {
  Tensor order = ordered(self, dim, self.dim() == 0 ? 1 : self.size(dim), false, name);
  if (self.dim() == 0) return {clone(self, std::nullopt), order};
  Tensor at = contiguous_copy(narrow(order, Dim(dim), Size(place), Size(1)));
  Tensor value = gather(self, Dim(dim), at, false);
  if (keepdim) return {value, at};
  return {squeeze_dim(value, Dim(dim)), squeeze_dim(at, Dim(dim))};
}

/// The lower median of each row; a row with NaN has NaN, unless they are left out.
Pair2 median_of(const Tensor& self, Dim dim, bool keepdim, bool without_nan, const char* name) {
  int64_t d = dim_of(self, dim, name);
  check(self.dim() == 0 || self.size(d) > 0, ErrorKind::index, name, "(): Expected reduction dim ",
        d, " to have non-zero size.");
  if (self.dim() == 0) return element_at(self, 0, 0, keepdim, name);
  Rows r = rows_of(self, d);
  Tensor order = first_positions(r.x, self.size(d), false);
  Tensor at = empty_tensor({r.x.size(0), 1}, DType::int64);
  by_key_type(r.x, [&](auto zero, const Tensor& keys) {
    using T = decltype(zero);
    const T* data = keys.data_as<T>();
    int64_t n = self.size(d);
    for (int64_t i = 0; i < r.x.size(0); ++i) {
      int64_t numbers = n;
      if constexpr (std::is_floating_point_v<T>)
        numbers =
            n - std::count_if(data + i * n, data + (i + 1) * n, [](T v) { return std::isnan(v); });
      int64_t place = numbers == n || without_nan ? std::max<int64_t>(numbers - 1, 0) / 2 : numbers;
      at.data_as<int64_t>()[i] = order.data_as<int64_t>()[i * n + place];
    }
  });
  Sizes sizes = r.lead;
  sizes.emplace_back(1);
  Tensor positions = contiguous_copy(permute(reshape(at, sizes), r.inverse));
  Tensor value = gather(self, Dim(d), positions, false);
  if (keepdim) return {value, positions};
  return {squeeze_dim(value, Dim(d)), squeeze_dim(positions, Dim(d))};
}

Tensor median_of_all(const Tensor& self, bool without_nan, const char* name) {
  Tensor x = reshape(self, Sizes{Size(self.numel())});
  if (self.numel() == 0) {
    check(is_float(self.dtype()), ErrorKind::runtime, name, ": needs at least one element");
    return full(Sizes(), Number(std::nan("")), self.dtype());
  }
  return std::get<0>(median_of(x, Dim(0), false, without_nan, name));
}

}  // namespace

const Op<Pair2(const Tensor&, Size, Dim, bool)> kthvalue{
    "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
    "indices)",
    R"(The k-th smallest element along `dim`, from 1, and where it is. Errors: RuntimeError for k outside the dim.)",
    [](const Tensor& self, Size k, Dim dim, bool keepdim) {
      int64_t d = dim_of(self, dim, "kthvalue");
      int64_t length = self.dim() == 0 ? 1 : self.size(d);
      check(length > 0 || self.dim() == 0, ErrorKind::index, "kthvalue(): Expected reduction dim ",
            d, " to have non-zero size.");
      check(k.value >= 1 && k.value <= length, ErrorKind::runtime,
            "kthvalue(): selected number k out of range for dimension ", d);
      return element_at(self, d, k.value - 1, keepdim, "kthvalue");
    },
    kFunction | kMethod | kOut, BodyKind::direct};

const Op<Tensor(const Tensor&)> median{
    "median(Tensor self) -> Tensor",
    R"(The median of all elements, of an even number the lower one; NaN where there is one.)",
    [](const Tensor& self) { return median_of_all(self, false, "median"); },
    kFunction | kMethod | kOut, BodyKind::direct};
const Op<Pair2(const Tensor&, Dim, bool)> median_dim{
    "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    R"(Medians along `dim` and where they are; see median.)",
    [](const Tensor& self, Dim dim, bool keepdim) {
      return median_of(self, dim, keepdim, false, "median");
    },
    kFunction | kMethod | kOut, BodyKind::direct};
const Op<Tensor(const Tensor&)> nanmedian{
    "nanmedian(Tensor self) -> Tensor", R"(The median of the elements that are not NaN.)",
    [](const Tensor& self) { return median_of_all(self, true, "nanmedian"); },
    kFunction | kMethod | kOut, BodyKind::direct};
const Op<Pair2(const Tensor&, Dim, bool)> nanmedian_dim{
    "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    R"(Medians along `dim` of the elements that are not NaN, and where they are.)",
    [](const Tensor& self, Dim dim, bool keepdim) {
      return median_of(self, dim, keepdim, true, "nanmedian");
    },
    kFunction | kMethod | kOut, BodyKind::direct};

namespace {

/// Where `values` belong in ascending `sorted` rows: [.., n] in [.., length].
Tensor searched(const Tensor& sorted, const Tensor& values, bool right, bool int32,
                const char* name) {
  check(
      sorted.dtype() == values.dtype(), ErrorKind::runtime, name,
      "(): boundary tensor and input value tensor should have same dtype, but got boundary dtype ",
      sorted.dtype(), " and input dtype ", values.dtype());
  int64_t length = sorted.size(sorted.dim() - 1), rows = length ? sorted.numel() / length : 0;
  int64_t each = sorted.dim() == 1   ? values.numel()
                 : values.dim() == 0 ? 1
                                     : values.size(values.dim() - 1);
  Tensor result = empty_tensor(values.sizes(), DType::int64);
  by_key_type(sorted, [&](auto zero, const Tensor& keys) {
    using T = decltype(zero);
    by_key_type(values, [&](auto other, const Tensor& wanted) {
      if constexpr (std::is_same_v<decltype(other), T>) {
        const T *data = keys.data_as<T>(), *v = wanted.template data_as<T>();
        auto* out = result.data_as<int64_t>();
        for (int64_t i = 0; i < values.numel(); ++i) {
          const T* row = data + (sorted.dim() == 1 || rows == 0 ? 0 : i / each * length);
          auto less = [](T a, T b) { return below(a, b); };
          out[i] = (right ? std::upper_bound(row, row + length, v[i], less)
                          : std::lower_bound(row, row + length, v[i], less)) -
                   row;
        }
      }
    });
  });
  return int32 ? convert(result, DType::int32) : result;
}

bool goes_right(bool right, const std::optional<std::string>& side, const char* name) {
  if (!side) return right;
  check(*side == "left" || *side == "right", ErrorKind::runtime, name,
        "(): side can only be 'left' or 'right' but got ", *side);
  check(!right || *side == "right", ErrorKind::runtime, name,
        "(): side and right can't be set to opposites, got side of ", *side,
        " while right was True");
  return *side == "right";
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, bool, bool, std::optional<std::string>,
                std::optional<Tensor>)>
    searchsorted{
        "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool "
        "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
        R"(Positions at which the values keep each ascending row in order: the first such, or with right the last.

Shapes: sorted_sequence [length] or [.., length] with the leading sizes of the values. `sorter` has the positions that sort
the sequence. Errors: RuntimeError for sizes or dtypes that do not fit.)",
        [](const Tensor& sorted, const Tensor& self, bool out_int32, bool right,
           std::optional<std::string> side, std::optional<Tensor> sorter) {
          check(sorted.dim() > 0, ErrorKind::runtime,
                "searchsorted(): the sequence must have at least one dim");
          bool fits = sorted.dim() == 1 || sorted.dim() == self.dim();
          for (int64_t d = 0; fits && sorted.dim() > 1 && d + 1 < sorted.dim(); ++d)
            fits = sorted.size(d) == self.size(d);
          check(
              fits, ErrorKind::runtime,
              "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
              "of boundaries tensor and input value tensor must match, but we got boundaries "
              "tensor ",
              sorted.sizes(), " and input value tensor ", self.sizes());
          Tensor rows = sorted;
          if (sorter) {
            check(
                sorter->sizes() == sorted.sizes() && sorter->dtype() == DType::int64,
                ErrorKind::runtime,
                "searchsorted(): boundary and sorter must have the same size and the sorter dtype "
                "int64, but got ",
                sorted.sizes(), " and ", sorter->sizes());
            rows = gather(sorted, Dim(sorted.dim() - 1), *sorter, false);
          }
          return searched(rows, self, goes_right(right, side, "searchsorted"), out_int32,
                          "searchsorted");
        },
        kFunction | kOut, BodyKind::direct};

const Op<Tensor(const Tensor&, const Number&, bool, bool, std::optional<std::string>,
                std::optional<Tensor>)>
    searchsorted_number{
        "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool "
        "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
        R"(searchsorted of one number.)",
        [](const Tensor& sorted, const Number& self, bool out_int32, bool right,
           std::optional<std::string> side, std::optional<Tensor> sorter) {
          return searchsorted(sorted, full(Sizes(), self, sorted.dtype()), out_int32, right, side,
                              sorter);
        },
        kFunction | kOut, BodyKind::direct};

const Op<Tensor(const Tensor&, const Tensor&, bool, bool)> bucketize{
    "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) "
    "-> "
    "Tensor",
    R"(The number of the bucket of each element between ascending boundaries [n]: searchsorted.)",
    [](const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
      check(boundaries.dim() == 1, ErrorKind::runtime,
            "bucketize(): boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(),
            ")");
      return searched(boundaries, self, right, out_int32, "bucketize");
    },
    kFunction | kOut, BodyKind::direct};

const Op<Tensor(const Number&, const Tensor&, bool, bool)> bucketize_number{
    "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) "
    "-> "
    "Tensor",
    R"(bucketize of one number.)",
    [](const Number& self, const Tensor& boundaries, bool out_int32, bool right) {
      return bucketize(full(Sizes(), self, boundaries.dtype()), boundaries, out_int32, right);
    },
    kFunction | kOut, BodyKind::direct};

}  // namespace flambeau::ops
