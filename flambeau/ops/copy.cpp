// Copies, conversions between dtypes, and writes into tensors.
#include "flambeau/ops/copy.h"

#include <cstring>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"
#include "flambeau/run/executable.h"

namespace flambeau::ops {

const Op<Tensor(const Tensor&, DType)> convert{
    "_to_dtype(Tensor self, ScalarType dtype) -> Tensor",
    R"(Another dtype; complex to real keeps the real part.)",
    [](const Tensor& x, DType to) { return to_dtype(x, to); }, 0};

const Op<Tensor(const Tensor&, std::optional<std::string>)> clone{
    "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    R"(A copy in memory of its own, row-major.)",
    [](const Tensor& self, std::optional<std::string>) { return self; }, kFunction | kMethod};
const Op<Tensor(const Tensor&, std::optional<std::string>)> contiguous{
    "contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format) -> Tensor",
    R"(The tensor itself if it is row-major without gaps, else a copy that is.)",
    [](const Tensor& self, std::optional<std::string>) {
      return self.traced() || self.is_contiguous() ? self : contiguous_copy(self);
    },
    kMethod, BodyKind::direct};

namespace {

Tensor converted(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
                 bool copy) {
  check(!device || device->type == DeviceType::cpu, ErrorKind::runtime, "to: device ",
        device.value_or(Device{}), " is not available in this build; available: cpu");
  if (dtype && *dtype != self.dtype()) return convert(self, *dtype);
  return copy ? clone(self) : self;
}

}  // namespace

const Op<Tensor(const Tensor&, std::optional<DType>, std::optional<std::string>,
                std::optional<Device>, std::optional<bool>, bool, bool, std::optional<std::string>)>
    to_layout{
        "to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
        "device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, "
        "MemoryFormat? memory_format=None) -> Tensor",
        R"(Another dtype or device; the tensor itself when nothing changes, unless `copy`.)",
        [](const Tensor& self, std::optional<DType> dtype, std::optional<std::string>,
           std::optional<Device> device, std::optional<bool>, bool, bool copy,
           std::optional<std::string>) { return converted(self, dtype, device, copy); },
        kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, Device, std::optional<DType>, bool, bool,
                std::optional<std::string>)>
    to_device{
        "to.device(Tensor self, Device device, ScalarType? dtype=None, bool non_blocking=False, "
        "bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
        R"(Another device and dtype.)",
        [](const Tensor& self, Device device, std::optional<DType> dtype, bool, bool copy,
           std::optional<std::string>) { return converted(self, dtype, device, copy); },
        kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, DType, bool, bool, std::optional<std::string>)> to_dtype_op{
    "to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor",
    R"(Another dtype.)",
    [](const Tensor& self, DType dtype, bool, bool copy, std::optional<std::string>) {
      return converted(self, dtype, std::nullopt, copy);
    },
    kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, const Tensor&, bool, bool, std::optional<std::string>)> to_other{
    "to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? "
    "memory_format=None) -> Tensor",
    R"(The dtype and device of another tensor.)",
    [](const Tensor& self, const Tensor& other, bool, bool copy, std::optional<std::string>) {
      return converted(self, other.dtype(), other.device(), copy);
    },
    kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&)> cpu{
    "cpu(Tensor self) -> Tensor", R"(The tensor in memory of the CPU: itself, where it is there.)",
    [](const Tensor& self) {
      return converted(self, std::nullopt, Device{DeviceType::cpu}, false);
    },
    kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, const Tensor&)> type_as{
    "type_as(Tensor self, Tensor other) -> Tensor", R"(The dtype of another tensor.)",
    [](const Tensor& self, const Tensor& other) {
      return converted(self, other.dtype(), std::nullopt, false);
    },
    kMethod, BodyKind::direct};

#define CONVERSION(symbol, schema_name, type)                                \
  const Op<Tensor(const Tensor&, std::optional<std::string>)> to_##symbol {  \
    schema_name "(Tensor self, MemoryFormat? memory_format=None) -> Tensor", \
        R"(to() with the dtype that the name says.)",                        \
        [](const Tensor& self, std::optional<std::string>) {                 \
          return converted(self, type, std::nullopt, false);                 \
        },                                                                   \
        kMethod, BodyKind::direct                                            \
  }
CONVERSION(float, "float", DType::float32);
CONVERSION(double, "double", DType::float64);
CONVERSION(half, "half", DType::float16);
CONVERSION(bfloat16, "bfloat16", DType::bfloat16);
CONVERSION(bool, "bool", DType::boolean);
CONVERSION(byte, "byte", DType::uint8);
CONVERSION(char, "char", DType::int8);
CONVERSION(short, "short", DType::int16);
CONVERSION(int, "int", DType::int32);
CONVERSION(long, "long", DType::int64);
CONVERSION(cfloat, "cfloat", DType::complex64);
CONVERSION(cdouble, "cdouble", DType::complex128);
#undef CONVERSION

// Writes. Each is the in-place form of an operator that gives what is written.

const Op<Tensor(const Tensor&, const Tensor&, bool)> copy{
    "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    R"(src with the sizes and dtype of self; copy_ writes it into self. Errors: RuntimeError when src does not broadcast to self.)",
    [](const Tensor& self, const Tensor& src, bool) {
      Sizes sizes = broadcast_sizes({self, src}, "copy_");
      check(values(sizes) == self.sizes(), ErrorKind::runtime, "copy_: The size of tensor src ",
            src.sizes(), " does not broadcast to ", self.sizes());
      return expand_to(to_dtype(src, self.dtype()), graph::sizes_of(self));
    },
    kMethod | kInplace};
const Op<Tensor(const Tensor&, const Number&)> fill_scalar{
    "fill.Scalar(Tensor self, Scalar value) -> Tensor",
    R"(One value with the sizes and dtype of self.)",
    [](const Tensor& self, const Number& value) {
      return expand_to(to_tensor(value, self.dtype()), graph::sizes_of(self));
    },
    kFunction | kMethod | kInplace};
const Op<Tensor(const Tensor&, const Tensor&)> fill_tensor{
    "fill.Tensor(Tensor self, Tensor value) -> Tensor",
    R"(The value of a 0-d tensor with the sizes and dtype of self.)",
    [](const Tensor& self, const Tensor& value) {
      check(value.dim() == 0, ErrorKind::runtime,
            "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
            " dimensions.");
      return expand_to(to_dtype(value, self.dtype()), graph::sizes_of(self));
    },
    kFunction | kMethod | kInplace};
const Op<Tensor(const Tensor&)> zero{
    "zero(Tensor self) -> Tensor", R"(Zeros with the sizes and dtype of self.)",
    [](const Tensor& self) { return zeros_like(self); }, kFunction | kMethod | kInplace};

// Complex numbers and their parts.

const Op<Tensor(const Tensor&, const Tensor&)> complex_op{
    "complex(Tensor real, Tensor imag) -> Tensor",
    R"(re + i im from two float32 or float64 tensors. Errors: RuntimeError for other or mixed dtypes.)",
    [](const Tensor& re, const Tensor& im) {
      check(re.dtype() == im.dtype(), ErrorKind::runtime, "Expected object of scalar type ",
            re.dtype(), " but got scalar type ", im.dtype(), " for second argument");
      check(re.dtype() == DType::float32 || re.dtype() == DType::float64, ErrorKind::runtime,
            "Expected both inputs to be Half, Float or Double tensors but got ", re.dtype(),
            " and ", im.dtype());
      Sizes sizes = broadcast_sizes({re, im}, "complex");
      return prim::make_complex(expand_to(re, sizes), expand_to(im, sizes));
    },
    kFunction | kOut};

namespace {

const Op<Tensor(const Tensor&)> real_part{"_real(Tensor self) -> Tensor", R"(The real part.)",
                                          [](const Tensor& self) { return prim::real(self); }, 0};
const Op<Tensor(const Tensor&)> imaginary_part{
    "_imag(Tensor self) -> Tensor", R"(The imaginary part.)",
    [](const Tensor& self) { return prim::imag(self); }, 0};

}  // namespace

const Op<Tensor(const Tensor&)> real_op{
    "real(Tensor self) -> Tensor", R"(The real part; a real tensor is returned itself.)",
    [](const Tensor& self) { return is_complex(self.dtype()) ? real_part(self) : self; }, kFunction,
    BodyKind::direct};
const Op<Tensor(const Tensor&)> imag_op{
    "imag(Tensor self) -> Tensor", R"(The imaginary part. Errors: RuntimeError for real tensors.)",
    [](const Tensor& self) {
      check(is_complex(self.dtype()), ErrorKind::runtime,
            "imag is not implemented for tensors with non-complex dtypes.");
      return imaginary_part(self);
    },
    kFunction, BodyKind::direct};

const Op<Tensor(const Tensor&, DType)> view_dtype{
    "view.dtype(Tensor self, ScalarType dtype) -> Tensor",
    R"(The same bytes as another dtype of the same size, or of another size that divides the last dim's bytes. Errors: RuntimeError where it does not.)",
    [](const Tensor& self, DType dtype) {
      int64_t from = itemsize(self.dtype()), to = itemsize(dtype);
      Dims sizes = self.sizes(), strides = self.strides();
      int64_t offset = self.offset();
      if (from != to) {
        check(self.dim() > 0, ErrorKind::runtime, "self.dim() cannot be 0 to view ", self.dtype(),
              " as ", dtype, " (different element sizes)");
        check(strides.back() == 1, ErrorKind::runtime, "self.stride(-1) must be 1 to view ",
              self.dtype(), " as ", dtype, " (different element sizes), but got ", strides.back());
        int64_t last = sizes.size() - 1;
        check((sizes[last] * from) % to == 0 && (offset * from) % to == 0, ErrorKind::runtime,
              "self.size(-1) must be divisible by ", to / from, " to view ", self.dtype(), " as ",
              dtype, ", but got ", sizes[last]);
        sizes[last] = sizes[last] * from / to;
        for (int64_t d = 0; d < last; ++d) {
          check((strides[d] * from) % to == 0, ErrorKind::runtime, "self.stride(", d,
                ") must be divisible by ", to / from, " to view ", self.dtype(), " as ", dtype);
          strides[d] = strides[d] * from / to;
        }
        offset = offset * from / to;
      }
      return view_tensor(self, sizes, strides, offset, dtype);
    },
    kMethod, BodyKind::direct};

const Op<Number(const Tensor&)> item{
    "item(Tensor self) -> Scalar",
    R"(The value of a tensor with one element as a Python number. Errors: RuntimeError for any other number of elements.)",
    [](const Tensor& self) -> Number {
      check(self.numel() == 1, ErrorKind::runtime, "a Tensor with ", self.numel(),
            " elements cannot be converted to Scalar");
      if (is_complex(self.dtype())) {
        Tensor wide = self.dtype() == DType::complex128 ? self : convert(self, DType::complex128);
        const double* p = wide.data_as<double>();
        return Number(Scalar(std::complex<double>(p[0], p[1])));
      }
      if (is_float(self.dtype())) {
        Tensor wide = self.dtype() == DType::float64 ? self : convert(self, DType::float64);
        return Number(*wide.data_as<double>());
      }
      if (self.dtype() == DType::boolean) return Number(*self.data_as<uint8_t>() != 0);
      Tensor wide = self.dtype() == DType::int64 ? self : convert(self, DType::int64);
      return Number(*wide.data_as<int64_t>());
    },
    kMethod, BodyKind::direct};

}  // namespace flambeau::ops
