// New tensors without random content. `dtype`, `layout`, `device`, `pin_memory` and `requires_grad`
// are the field's: only strided CPU tensors exist here, other requests are errors.
#include "flambeau/ops/creation.h"

#include <algorithm>
#include <cmath>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"
#include "flambeau/run/program.h"

#define FACTORY \
  "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False"
#define FACTORY_TYPES \
  std::optional<DType>, std::optional<std::string>, std::optional<Device>, std::optional<bool>
#define FACTORY_ARGUMENTS                                                               \
  std::optional<DType> dtype, std::optional<std::string>, std::optional<Device> device, \
      std::optional<bool>

namespace flambeau::ops {

namespace {

void check_device(const std::optional<Device>& device) {
  check(!device || device->type == DeviceType::cpu, ErrorKind::runtime, "device ",
        device.value_or(Device{}), " is not available in this build; available: cpu");
}

void check_sizes(const Sizes& sizes, const char* name) {
  for (Size s : sizes) {
    check(s.value >= 0, ErrorKind::runtime, name,
          ": Trying to create tensor with negative dimension ", s, ": ", values(sizes));
  }
  checked_numel(values(sizes));
}

Tensor filled(const Sizes& sizes, const Number& value, DType dtype, const char* name) {
  check_sizes(sizes, name);
  return expand_to(to_tensor(value, dtype), sizes);
}

}  // namespace

const Op<Tensor(const Sizes&, const Number&, std::optional<DType>)> full{
    "_full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
    R"(A tensor of one value.)",
    [](const Sizes& size, const Number& value, std::optional<DType> dtype) {
      return filled(size, value, dtype.value_or(value.dtype()), "full");
    },
    0};

const Op<Tensor(const Sizes&, const Number&, FACTORY_TYPES)> full_op{
    "full(SymInt[] size, Scalar fill_value, *, " FACTORY ") -> Tensor",
    R"(A tensor of `size` with `fill_value` everywhere. Without dtype: that of the number.)",
    [](const Sizes& size, const Number& value, FACTORY_ARGUMENTS) {
      check_device(device);
      return full(size, value, dtype);
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Sizes&, FACTORY_TYPES)> zeros{
    "zeros(SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Zeros. Without dtype: the default float type.)",
    [](const Sizes& size, FACTORY_ARGUMENTS) {
      check_device(device);
      return full(size, Number(0), dtype.value_or(default_dtype()));
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Sizes&, FACTORY_TYPES)> ones{
    "ones(SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Ones. Without dtype: the default float type.)",
    [](const Sizes& size, FACTORY_ARGUMENTS) {
      check_device(device);
      return full(size, Number(1), dtype.value_or(default_dtype()));
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Sizes&, FACTORY_TYPES, std::optional<std::string>)> empty{
    "empty.memory_format(SymInt[] size, *, " FACTORY
    ", MemoryFormat? memory_format=None) -> Tensor",
    R"(Memory that is not initialised. Without dtype: the default float type.)",
    [](const Sizes& size, FACTORY_ARGUMENTS, std::optional<std::string>) {
      check_device(device);
      check_sizes(size, "empty");
      return empty_tensor(values(size), dtype.value_or(default_dtype()));
    },
    kFunction, BodyKind::direct};
const Op<Tensor(const Sizes&, const Sizes&, FACTORY_TYPES)> empty_strided{
    "empty_strided(SymInt[] size, SymInt[] stride, *, " FACTORY ") -> Tensor",
    R"(Memory that is not initialised, with the given strides.)",
    [](const Sizes& size, const Sizes& stride, FACTORY_ARGUMENTS) {
      check_device(device);
      check_sizes(size, "empty_strided");
      check(size.size() == stride.size(), ErrorKind::runtime,
            "empty_strided: size and stride must have the same length, got ", size.size(), " and ",
            stride.size());
      Dims sizes = values(size), strides = values(stride);
      int64_t extent = 1;
      for (int64_t d = 0; d < sizes.size(); ++d) {
        check(strides[d] >= 0, ErrorKind::runtime,
              "empty_strided: strides must not be negative, got ", strides);
        extent += sizes[d] == 0 ? 0 : strides[d] * (sizes[d] - 1);
      }
      Tensor memory =
          empty_tensor({checked_numel(sizes) == 0 ? 0 : extent}, dtype.value_or(default_dtype()));
      return view_tensor(memory, sizes, strides, 0);
    },
    kFunction, BodyKind::direct};

#define LIKE(symbol, schema_name, value)                                                       \
  const Op<Tensor(const Tensor&, FACTORY_TYPES, std::optional<std::string>)> symbol##_like_op{ \
      schema_name "_like(Tensor self, *, " FACTORY                                             \
                  ", MemoryFormat? memory_format=None) -> Tensor",                             \
      R"(A tensor with the sizes and dtype of `self`.)",                                       \
      [](const Tensor& self, FACTORY_ARGUMENTS, std::optional<std::string>) {                  \
        check_device(device);                                                                  \
        return full(graph::sizes_of(self), Number(value), dtype.value_or(self.dtype()));       \
      },                                                                                       \
      kFunction, BodyKind::direct};                                                            \
  const Op<Tensor(const Tensor&, const Sizes&, FACTORY_TYPES)> new_##symbol {                  \
    "new_" schema_name "(Tensor self, SymInt[] size, *, " FACTORY ") -> Tensor",               \
        R"(A tensor of `size` with the dtype of `self`.)",                                     \
        [](const Tensor& self, const Sizes& size, FACTORY_ARGUMENTS) {                         \
          check_device(device);                                                                \
          return full(size, Number(value), dtype.value_or(self.dtype()));                      \
        },                                                                                     \
        kMethod, BodyKind::direct                                                              \
  }
LIKE(zeros, "zeros", 0);
LIKE(ones, "ones", 1);
#undef LIKE
const Op<Tensor(const Tensor&, FACTORY_TYPES, std::optional<std::string>)> empty_like{
    "empty_like(Tensor self, *, " FACTORY ", MemoryFormat? memory_format=None) -> Tensor",
    R"(Memory that is not initialised, with the sizes and dtype of `self`.)",
    [](const Tensor& self, FACTORY_ARGUMENTS, std::optional<std::string>) {
      check_device(device);
      return empty_tensor(self.sizes(), dtype.value_or(self.dtype()));
    },
    kFunction, BodyKind::direct};
const Op<Tensor(const Tensor&, const Sizes&, FACTORY_TYPES)> new_empty{
    "new_empty(Tensor self, SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Memory that is not initialised, with the dtype of `self`.)",
    [](const Tensor& self, const Sizes& size, FACTORY_ARGUMENTS) {
      check_device(device);
      check_sizes(size, "new_empty");
      return empty_tensor(values(size), dtype.value_or(self.dtype()));
    },
    kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&, FACTORY_TYPES, std::optional<std::string>)> full_like{
    "full_like(Tensor self, Scalar fill_value, *, " FACTORY
    ", MemoryFormat? memory_format=None) -> Tensor",
    R"(A tensor with the sizes and dtype of `self` and one value.)",
    [](const Tensor& self, const Number& value, FACTORY_ARGUMENTS, std::optional<std::string>) {
      check_device(device);
      return full(graph::sizes_of(self), value, dtype.value_or(self.dtype()));
    },
    kFunction, BodyKind::direct};
const Op<Tensor(const Tensor&, const Sizes&, const Number&, FACTORY_TYPES)> new_full{
    "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, " FACTORY ") -> Tensor",
    R"(A tensor of `size` with one value and the dtype of `self`.)",
    [](const Tensor& self, const Sizes& size, const Number& value, FACTORY_ARGUMENTS) {
      check_device(device);
      return full(size, value, dtype.value_or(self.dtype()));
    },
    kMethod, BodyKind::direct};
const Op<Tensor(const Number&, FACTORY_TYPES)> scalar_tensor{
    "scalar_tensor(Scalar s, *, " FACTORY ") -> Tensor",
    R"(A 0-d tensor. Without dtype: the default float type.)",
    [](const Number& value, FACTORY_ARGUMENTS) {
      check_device(device);
      return full(Sizes{}, value, dtype.value_or(default_dtype()));
    },
    kFunction, BodyKind::direct};

namespace {

const Op<Tensor(const Tensor&, DType)> converted{
    "_convert(Tensor self, ScalarType dtype) -> Tensor", R"(Another dtype.)",
    [](const Tensor& x, DType to) { return to_dtype(x, to); }, 0};

}  // namespace

// Ranges.

namespace {

const Op<Tensor(Size, const Number&, const Number&, DType)> range{
    "_range(SymInt count, Scalar start, Scalar step, ScalarType dtype) -> Tensor",
    R"(start + i * step; integers exactly, floats in float64.)",
    [](Size count, const Number& start, const Number& step, DType dtype) {
      Sizes sizes{count};
      Tensor i = prim::iota(sizes, 0);
      if (is_float(dtype)) {
        auto number = [&](const Number& n) {
          return expand_to(to_tensor(n, DType::float64), sizes);
        };
        return to_dtype(
            prim::add(number(start), prim::mul(prim::cast(i, DType::float64), number(step))),
            dtype);
      }
      auto number = [&](const Number& n) { return expand_to(to_tensor(n, DType::int64), sizes); };
      return to_dtype(prim::add(number(start), prim::mul(i, number(step))), dtype);
    },
    0};

Tensor arange(const Number& start, const Number& end, const Number& step,
              std::optional<DType> wanted) {
  bool integral =
      start.scalar().is_integral() && end.scalar().is_integral() && step.scalar().is_integral();
  DType dtype = wanted.value_or(integral ? DType::int64 : default_dtype());
  check(start.kind() != Scalar::Kind::complex && end.kind() != Scalar::Kind::complex,
        ErrorKind::runtime, "arange: complex bounds are not supported");
  double a = start.scalar().real(), b = end.scalar().real(), s = step.scalar().real();
  check(s != 0, ErrorKind::runtime, "step must be nonzero");
  check(std::isfinite(a) && std::isfinite(b), ErrorKind::runtime, "unsupported range: ", a, " -> ",
        b);
  check((s > 0 && b >= a) || (s < 0 && b <= a), ErrorKind::runtime,
        "upper bound and lower bound inconsistent with step sign");
  int64_t count;
  if (integral) {
    int64_t d = end.scalar().integer() - start.scalar().integer(), t = step.scalar().integer();
    count = (d + t - (t > 0 ? 1 : -1)) / t;
  } else {
    double n = std::ceil((b - a) / s);
    check(n >= 0 && n < 0x1p58, ErrorKind::runtime, "arange: invalid size, possible overflow");
    count = static_cast<int64_t>(n);
  }
  return range(Size(count), start, step, dtype);
}

}  // namespace

const Op<Tensor(const Number&, FACTORY_TYPES)> arange_end{
    "arange(Scalar end, *, " FACTORY ") -> Tensor", R"(0, 1, ... below `end`.)",
    [](const Number& end, FACTORY_ARGUMENTS) {
      check_device(device);
      return arange(Number(0), end, Number(1), dtype);
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Number&, const Number&, const Number&, FACTORY_TYPES)> arange_step{
    "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " FACTORY ") -> Tensor",
    R"(start, start + step, ... before `end`: integers give int64, else the default float type. Errors: RuntimeError for a step of 0 or of the wrong sign.)",
    [](const Number& start, const Number& end, const Number& step, FACTORY_ARGUMENTS) {
      check_device(device);
      return arange(start, end, step, dtype);
    },
    kFunction | kOut, BodyKind::direct};

namespace {

const Op<Tensor(Size, const Number&, const Number&, DType)> line{
    "_line(SymInt steps, Scalar start, Scalar end, ScalarType dtype) -> Tensor",
    R"(`steps` values from start to end; the second half counts from the end.)",
    [](Size steps, const Number& start, const Number& end, DType dtype) {
      Sizes sizes{steps};
      DType compute = is_complex(dtype) ? DType::complex128 : DType::float64;
      Tensor i = prim::iota(sizes, 0);
      auto number = [&](const Number& n) { return expand_to(to_tensor(n, compute), sizes); };
      Tensor count = prim::iota({steps + 1}, 0);
      Tensor n = prim::reshape(prim::slice(count, 0, steps, 1, 1), {});
      Tensor last = expand_to(prim::sub(n, prim::constant(1, DType::int64)), sizes);
      Tensor a = number(start), b = number(end), one = prim::constant(1, DType::int64, sizes);
      Tensor intervals = prim::maximum(last, one);
      Tensor step = div(sub(b, a), to_dtype(intervals, compute));
      Tensor low = add(a, mul(step, to_dtype(i, compute))),
             high = sub(b, mul(step, to_dtype(prim::sub(last, i), compute)));
      Tensor half = prim::div(expand_to(n, sizes), prim::constant(2, DType::int64, sizes));
      Tensor single = prim::eq(last, prim::constant(0, DType::int64, sizes));
      return to_dtype(prim::select(prim::bit_or(single, prim::lt(i, half)), low, high), dtype);
    },
    0};

}  // namespace

const Op<Tensor(const Number&, const Number&, Size, FACTORY_TYPES)> linspace{
    "linspace(Scalar start, Scalar end, SymInt steps, *, " FACTORY ") -> Tensor",
    R"(`steps` equally spaced values from start to end inclusive, computed in float64. Errors: RuntimeError for negative steps.)",
    [](const Number& start, const Number& end, Size steps, FACTORY_ARGUMENTS) {
      check_device(device);
      check(steps.value >= 0, ErrorKind::runtime, "number of steps must be non-negative");
      bool complex = start.kind() == Scalar::Kind::complex || end.kind() == Scalar::Kind::complex;
      return line(steps, start, end,
                  dtype.value_or(complex ? complex_type(default_dtype()) : default_dtype()));
    },
    kFunction | kOut, BodyKind::direct};

namespace {

/// The value of a 0-d tensor.
Number number_of(const Tensor& t) {
  check(t.dim() == 0, ErrorKind::runtime,
        "linspace only supports 0-dimensional start and end tensors, but got tensor with ", t.dim(),
        " dimension(s).");
  if (is_complex(t.dtype())) {
    Tensor z = converted(t, DType::complex128);
    const auto* parts = z.data_as<double>();
    return Number(Scalar(std::complex<double>(parts[0], parts[1])));
  }
  if (is_float(t.dtype())) return Number(*converted(t, DType::float64).data_as<double>());
  return Number(*converted(t, DType::int64).data_as<int64_t>());
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, Size, FACTORY_TYPES)> linspace_tensors{
    "linspace.Tensor_Tensor(Tensor start, Tensor end, SymInt steps, *, " FACTORY ") -> Tensor",
    R"(linspace with 0-d tensors, which are read.)",
    [](const Tensor& start, const Tensor& end, Size steps, FACTORY_ARGUMENTS) {
      return linspace(number_of(start), number_of(end), steps, dtype, std::nullopt, device);
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&, Size, FACTORY_TYPES)> linspace_tensor_scalar{
    "linspace.Tensor_Scalar(Tensor start, Scalar end, SymInt steps, *, " FACTORY ") -> Tensor",
    R"(linspace with a 0-d tensor, which is read.)",
    [](const Tensor& start, const Number& end, Size steps, FACTORY_ARGUMENTS) {
      return linspace(number_of(start), end, steps, dtype, std::nullopt, device);
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Number&, const Tensor&, Size, FACTORY_TYPES)> linspace_scalar_tensor{
    "linspace.Scalar_Tensor(Scalar start, Tensor end, SymInt steps, *, " FACTORY ") -> Tensor",
    R"(linspace with a 0-d tensor, which is read.)",
    [](const Number& start, const Tensor& end, Size steps, FACTORY_ARGUMENTS) {
      return linspace(start, number_of(end), steps, dtype, std::nullopt, device);
    },
    kFunction | kOut, BodyKind::direct};

namespace {

const Op<Tensor(Size, Size, DType)> identity{
    "_eye(SymInt n, SymInt m, ScalarType dtype) -> Tensor", R"(Ones on the diagonal.)",
    [](Size n, Size m, DType dtype) {
      Sizes sizes{n, m};
      return to_dtype(prim::eq(prim::iota(sizes, 0), prim::iota(sizes, 1)), dtype);
    },
    0};

Tensor eye(Size n, Size m, std::optional<DType> dtype) {
  check(n.value >= 0, ErrorKind::runtime, "n must be greater or equal to 0, got ", n);
  check(m.value >= 0, ErrorKind::runtime, "m must be greater or equal to 0, got ", m);
  return identity(n, m, dtype.value_or(default_dtype()));
}

Tensor triangle(const Tensor& self, const Number& diagonal, bool lower) {
  check(self.dim() >= 2, ErrorKind::runtime, lower ? "tril" : "triu",
        ": input tensor must have at least 2 dimensions");
  Sizes sizes = graph::sizes_of(self);
  Tensor row = prim::iota(sizes, self.dim() - 2), column = prim::iota(sizes, self.dim() - 1);
  Tensor shift = expand_to(to_tensor(diagonal, DType::int64), sizes),
         offset = prim::sub(column, row);
  return prim::select(lower ? prim::le(offset, shift) : prim::ge(offset, shift), self,
                      zeros_like(self));
}

}  // namespace

const Op<Tensor(Size, FACTORY_TYPES)> eye_square{"eye(SymInt n, *, " FACTORY ") -> Tensor",
                                                 R"(The n x n identity.)",
                                                 [](Size n, FACTORY_ARGUMENTS) {
                                                   check_device(device);
                                                   return eye(n, n, dtype);
                                                 },
                                                 kFunction | kOut, BodyKind::direct};
const Op<Tensor(Size, Size, FACTORY_TYPES)> eye_rectangle{
    "eye.m(SymInt n, SymInt m, *, " FACTORY ") -> Tensor", R"(n x m with ones on the diagonal.)",
    [](Size n, Size m, FACTORY_ARGUMENTS) {
      check_device(device);
      return eye(n, m, dtype);
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&)> tril{
    "tril(Tensor self, Scalar diagonal=0) -> Tensor",
    R"(The part of each matrix on and below diagonal number `diagonal`, zeros elsewhere.)",
    [](const Tensor& self, const Number& diagonal) { return triangle(self, diagonal, true); },
    kElementwiseForms};
const Op<Tensor(const Tensor&, const Number&)> triu{
    "triu(Tensor self, Scalar diagonal=0) -> Tensor",
    R"(The part of each matrix on and above diagonal number `diagonal`, zeros elsewhere.)",
    [](const Tensor& self, const Number& diagonal) { return triangle(self, diagonal, false); },
    kElementwiseForms};

Tensor from_values(const std::vector<double>& values, const Dims& sizes, DType dtype) {
  check(checked_numel(sizes) == static_cast<int64_t>(values.size()), ErrorKind::value,
        "from_values: ", values.size(), " values for sizes ", sizes);
  Tensor staged = empty_tensor(sizes, DType::float64);
  std::copy(values.begin(), values.end(), staged.data_as<double>());
  return dtype == DType::float64 ? staged : converted(staged, dtype);
}

}  // namespace flambeau::ops
