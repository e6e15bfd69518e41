// Random tensors. A value is a function of seed, offset and linear index (Philox4x32-10: Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", 2011); a call reserves its offset when it is
// made, so that values depend on the order of calls alone.
#include "flambeau/ops/random.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "flambeau/base/error.h"
#include "flambeau/base/philox.h"
#include "flambeau/ops/creation.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"
#include "flambeau/run/program.h"
#include "flambeau/run/random.h"

#define FACTORY \
  "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False"
#define FACTORY_TYPES \
  std::optional<DType>, std::optional<std::string>, std::optional<Device>, std::optional<bool>
#define FACTORY_ARGUMENTS                                                               \
  std::optional<DType> dtype, std::optional<std::string>, std::optional<Device> device, \
      std::optional<bool>

namespace flambeau::ops {

namespace {

/// A call's place in the stream of random numbers, as arguments of the operators below.
struct Place {
  Number seed, offset;
};
Place reserve_place() {
  RandomRange range = reserve_range(default_generator(), 1);
  return {Number(static_cast<int64_t>(range.seed)), Number(static_cast<int64_t>(range.offset))};
}

Tensor words(const Number& seed, const Number& offset, const Sizes& sizes, int word) {
  return prim::random_bits(to_tensor(seed, DType::int64), to_tensor(offset, DType::int64), sizes,
                           word);
}

/// In [0, 1): 24 random bits, 53 for float64, 11 and 8 for half types, so that no value rounds
/// to 1.
Tensor unit(const Number& seed, const Number& offset, const Sizes& sizes, DType dtype) {
  Tensor w = words(seed, offset, sizes, 0);
  auto shifted = [&](const Tensor& x, int64_t by) {
    return prim::shift_right(x, prim::constant(by, DType::int64, sizes));
  };
  auto scaled = [&](const Tensor& x, DType t, int bits) {
    return prim::mul(prim::cast(x, t), prim::constant(std::ldexp(1.0, -bits), t, sizes));
  };
  if (dtype == DType::float64) {
    Tensor high = prim::shift_left(shifted(w, 5), prim::constant(26, DType::int64, sizes));
    return scaled(prim::bit_or(high, shifted(words(seed, offset, sizes, 1), 6)), DType::float64,
                  53);
  }
  int bits = dtype == DType::float16 ? 11 : dtype == DType::bfloat16 ? 8 : 24;
  return scaled(shifted(w, 32 - bits), DType::float32, bits);
}

/// Standard normal values by the transform of Box and Muller, "A note on the generation of random
/// normal deviates", 1958, in float32 or float64.
Tensor normal_values(const Number& seed, const Number& offset, const Sizes& sizes, DType compute) {
  auto uniform = [&](int word) {
    // In (0, 1]: the logarithm is finite.
    Tensor w = prim::add(words(seed, offset, sizes, word), prim::constant(1, DType::int64, sizes));
    return prim::mul(prim::cast(w, DType::float64), prim::constant(0x1p-32, DType::float64, sizes));
  };
  Tensor u = prim::cast(uniform(0), compute), angle = prim::cast(uniform(1), compute);
  Tensor radius = prim::sqrt(prim::mul(prim::log(u), prim::constant(-2.0, compute, sizes)));
  return prim::mul(
      radius, prim::cos(prim::mul(angle, prim::constant(2 * std::numbers::pi, compute, sizes))));
}

const Op<Tensor(const Sizes&, const Number&, const Number&, const Number&, const Number&, DType)>
    uniform_values{
        "_uniform(SymInt[] size, Scalar seed, Scalar offset, float low, float high, ScalarType "
        "dtype) -> Tensor",
        R"(low + (high - low) u, u in [0, 1).)",
        [](const Sizes& size, const Number& seed, const Number& offset, const Number& low,
           const Number& high, DType dtype) {
          Tensor u = unit(seed, offset, size, dtype);
          Tensor a = expand_to(to_tensor(low, u.dtype()), size),
                 b = expand_to(to_tensor(high, u.dtype()), size);
          return to_dtype(prim::add(prim::mul(u, prim::sub(b, a)), a), dtype);
        },
        0};

const Op<Tensor(const Sizes&, const Number&, const Number&, const Number&, const Number&, DType)>
    normals{
        "_normal(SymInt[] size, Scalar seed, Scalar offset, float mean, float std, ScalarType "
        "dtype) -> Tensor",
        R"(mean + std z, z standard normal.)",
        [](const Sizes& size, const Number& seed, const Number& offset, const Number& mean,
           const Number& std, DType dtype) {
          Tensor z = normal_values(seed, offset, size, compute_type(dtype));
          auto number = [&](const Number& n) { return expand_to(to_tensor(n, z.dtype()), size); };
          return to_dtype(prim::add(prim::mul(z, number(std)), number(mean)), dtype);
        },
        0};

const Op<Tensor(const Sizes&, const Number&, const Number&, const Number&, const Number&, DType)>
    integers{
        "_randint(SymInt[] size, Scalar seed, Scalar offset, Scalar low, Scalar range, ScalarType "
        "dtype) -> Tensor",
        R"(low + (63 random bits modulo range).)",
        [](const Sizes& size, const Number& seed, const Number& offset, const Number& low,
           const Number& range, DType dtype) {
          Tensor high = prim::shift_right(words(seed, offset, size, 1),
                                          prim::constant(1, DType::int64, size));
          Tensor bits = prim::bit_or(prim::shift_left(high, prim::constant(32, DType::int64, size)),
                                     words(seed, offset, size, 0));
          auto number = [&](const Number& n) {
            return expand_to(to_tensor(n, DType::int64), size);
          };
          return to_dtype(prim::add(prim::rem(bits, number(range)), number(low)), dtype);
        },
        0};

const Op<Tensor(const Tensor&, const Number&, const Number&)> bernoulli_values{
    "_bernoulli(Tensor p, Scalar seed, Scalar offset) -> Tensor",
    R"(1 with probability p, else 0.)",
    [](const Tensor& p, const Number& seed, const Number& offset) {
      Tensor x = to_dtype(p, compute_type(p.dtype()));
      Tensor u = unit(seed, offset, graph::sizes_of(x), x.dtype());
      return to_dtype(prim::cast(prim::lt(u, x), x.dtype()), p.dtype());
    },
    0};

const Op<Tensor(const Tensor&, const Number&, const Number&, const Number&)> dropout_values{
    "_dropout(Tensor input, Scalar seed, Scalar offset, float p) -> Tensor",
    R"(Zeros with probability p, other elements divided by 1 - p. The derivative draws the mask again.)",
    [](const Tensor& input, const Number& seed, const Number& offset, const Number& p) {
      Tensor x = to_dtype(input, compute_type(input.dtype()));
      Sizes sizes = graph::sizes_of(x);
      Tensor probability = expand_to(to_tensor(p, x.dtype()), sizes),
             one = prim::constant_like(x, 1);
      Tensor kept = prim::ge(unit(seed, offset, sizes, x.dtype()), probability);
      // With p = 1 everything is dropped; a finite scale keeps the derivative a plain zero.
      Tensor rest = prim::sub(one, probability);
      Tensor scale =
          prim::div(one, prim::select(prim::eq(rest, prim::zeros_like(rest)), one, rest));
      return to_dtype(prim::select(kept, prim::mul(x, scale), prim::zeros_like(x)), input.dtype());
    },
    0};

void check_factory(const Sizes& size, const std::optional<Device>& device, const char* name) {
  check(!device || device->type == DeviceType::cpu, ErrorKind::runtime, name, ": device ",
        device.value_or(Device{}), " is not available in this build; available: cpu");
  for (Size s : size)
    check(s.value >= 0, ErrorKind::runtime, name,
          ": Trying to create tensor with negative dimension ", s, ": ", values(size));
  checked_numel(values(size));
}

DType float_dtype(std::optional<DType> dtype, const char* name) {
  DType t = dtype.value_or(default_dtype());
  check(is_float(t), ErrorKind::not_implemented, name, ": not implemented for ", t,
        "; allowed: floating-point types");
  return t;
}

Tensor uniform_tensor(const Sizes& size, const Number& low, const Number& high, DType dtype) {
  Place at = reserve_place();
  return uniform_values(size, at.seed, at.offset, low, high, dtype);
}
Tensor normal_tensor(const Sizes& size, const Number& mean, const Number& std, DType dtype) {
  Place at = reserve_place();
  return normals(size, at.seed, at.offset, mean, std, dtype);
}
Tensor integer_tensor(const Number& low, const Number& high, const Sizes& size, DType dtype,
                      const char* name) {
  check(low.scalar().is_integral() && high.scalar().is_integral(), ErrorKind::type, name,
        ": low and high must be integers");
  int64_t from = low.scalar().integer(), to = high.scalar().integer();
  check(from < to, ErrorKind::runtime, name,
        ": expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  int64_t range;
  bool overflow = __builtin_sub_overflow(to, from, &range);
  check(!overflow, ErrorKind::runtime, name, ": the range from ", from, " to ", to,
        " is larger than 2^63");
  Place at = reserve_place();
  return integers(size, at.seed, at.offset, Number(from), Number(range), dtype);
}

/// What in-place fills compute: nothing of the old values.
template <class Make>
Tensor replacement(const Tensor& self, const char* name, const Make& make) {
  check(is_float(self.dtype()), ErrorKind::not_implemented, name, ": not implemented for ",
        self.dtype(), "; allowed: floating-point types");
  return make(graph::sizes_of(self), self.dtype());
}

}  // namespace

const Op<Tensor(const Sizes&, FACTORY_TYPES)> rand{
    "rand(SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Uniform values in [0, 1). Without dtype: the default float type.)",
    [](const Sizes& size, FACTORY_ARGUMENTS) {
      check_factory(size, device, "rand");
      return uniform_tensor(size, Number(0.0), Number(1.0), float_dtype(dtype, "rand"));
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Sizes&, FACTORY_TYPES)> randn{
    "randn(SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Standard normal values. Without dtype: the default float type.)",
    [](const Sizes& size, FACTORY_ARGUMENTS) {
      check_factory(size, device, "randn");
      return normal_tensor(size, Number(0.0), Number(1.0), float_dtype(dtype, "randn"));
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Number&, const Sizes&, FACTORY_TYPES)> randint{
    "randint(Scalar high, SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Integers in [0, high). Without dtype: int64.)",
    [](const Number& high, const Sizes& size, FACTORY_ARGUMENTS) {
      check_factory(size, device, "randint");
      return integer_tensor(Number(0), high, size, dtype.value_or(DType::int64), "randint");
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Number&, const Number&, const Sizes&, FACTORY_TYPES)> randint_low{
    "randint.low(Scalar low, Scalar high, SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Integers in [low, high). Errors: RuntimeError for an empty range.)",
    [](const Number& low, const Number& high, const Sizes& size, FACTORY_ARGUMENTS) {
      check_factory(size, device, "randint");
      return integer_tensor(low, high, size, dtype.value_or(DType::int64), "randint");
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Tensor&, FACTORY_TYPES, std::optional<std::string>)> rand_like{
    "rand_like(Tensor self, *, " FACTORY ", MemoryFormat? memory_format=None) -> Tensor",
    R"(rand with the sizes and dtype of self.)",
    [](const Tensor& self, FACTORY_ARGUMENTS, std::optional<std::string>) {
      check_factory({}, device, "rand_like");
      return uniform_tensor(graph::sizes_of(self), Number(0.0), Number(1.0),
                            float_dtype(dtype.value_or(self.dtype()), "rand_like"));
    },
    kFunction, BodyKind::direct};
const Op<Tensor(const Tensor&, FACTORY_TYPES, std::optional<std::string>)> randn_like{
    "randn_like(Tensor self, *, " FACTORY ", MemoryFormat? memory_format=None) -> Tensor",
    R"(randn with the sizes and dtype of self.)",
    [](const Tensor& self, FACTORY_ARGUMENTS, std::optional<std::string>) {
      check_factory({}, device, "randn_like");
      return normal_tensor(graph::sizes_of(self), Number(0.0), Number(1.0),
                           float_dtype(dtype.value_or(self.dtype()), "randn_like"));
    },
    kFunction, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&, const Number&, FACTORY_TYPES,
                std::optional<std::string>)>
    randint_like{"randint_like.low_dtype(Tensor self, Scalar low, Scalar high, *, " FACTORY
                 ", MemoryFormat? memory_format=None) -> Tensor",
                 R"(randint with the sizes and dtype of self.)",
                 [](const Tensor& self, const Number& low, const Number& high, FACTORY_ARGUMENTS,
                    std::optional<std::string>) {
                   check_factory({}, device, "randint_like");
                   return integer_tensor(low, high, graph::sizes_of(self),
                                         dtype.value_or(self.dtype()), "randint_like");
                 },
                 kFunction, BodyKind::direct};
const Op<Tensor(Size, FACTORY_TYPES)> randperm{
    "randperm(SymInt n, *, " FACTORY ") -> Tensor",
    R"(The numbers 0 to n - 1 in random order (Fisher and Yates, 1938). Without dtype: int64.)",
    [](Size n, FACTORY_ARGUMENTS) {
      check_factory({}, device, "randperm");
      check(n.value >= 0, ErrorKind::runtime, "randperm: n must be non-negative, got ", n);
      Tensor order = empty_tensor({n.value}, DType::int64);
      auto* p = order.data_as<int64_t>();
      std::iota(p, p + n.value, 0);
      RandomRange range = reserve_range(default_generator(), 1);
      for (int64_t i = n.value - 1; i > 0; --i) {
        auto w = philox(range.seed, range.offset, static_cast<uint64_t>(i));
        uint64_t bits = (static_cast<uint64_t>(w[1]) << 32) | w[0];
        std::swap(p[i], p[bits % static_cast<uint64_t>(i + 1)]);
      }
      static const Op<Tensor(const Tensor&, DType)> convert{
          "_randperm_dtype(Tensor self, ScalarType dtype) -> Tensor", R"(Another dtype.)",
          [](const Tensor& x, DType to) { return to_dtype(x, to); }, 0};
      return dtype && *dtype != DType::int64 ? convert(order, *dtype) : order;
    },
    kFunction | kOut, BodyKind::direct};

// In place.

const Op<Tensor(const Tensor&, const Number&, const Number&)> uniform{
    "uniform(Tensor self, float from=0.0, float to=1.0) -> Tensor",
    R"(Uniform values in [from, to). Errors: RuntimeError where from is above to.)",
    [](const Tensor& self, const Number& from, const Number& to) {
      check(from.scalar().real() <= to.scalar().real(), ErrorKind::runtime,
            "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
      return replacement(self, "uniform_", [&](const Sizes& size, DType dtype) {
        return uniform_tensor(size, from, to, dtype);
      });
    },
    kInplace, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&, const Number&)> normal_fill{
    "normal(Tensor self, float mean=0.0, float std=1.0) -> Tensor",
    R"(Normal values. Errors: RuntimeError for a negative standard deviation.)",
    [](const Tensor& self, const Number& mean, const Number& std) {
      check(std.scalar().real() >= 0, ErrorKind::runtime,
            "normal_ expects std >= 0.0, but found std ", std);
      return replacement(self, "normal_", [&](const Sizes& size, DType dtype) {
        return normal_tensor(size, mean, std, dtype);
      });
    },
    kInplace, BodyKind::direct};
const Op<Tensor(const Number&, const Number&, const Sizes&, FACTORY_TYPES)> normal_size{
    "normal.float_float(float mean, float std, SymInt[] size, *, " FACTORY ") -> Tensor",
    R"(Normal values.)",
    [](const Number& mean, const Number& std, const Sizes& size, FACTORY_ARGUMENTS) {
      check_factory(size, device, "normal");
      check(std.scalar().real() >= 0, ErrorKind::runtime,
            "normal expects std >= 0.0, but found std ", std);
      return normal_tensor(size, mean, std, float_dtype(dtype, "normal"));
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&)> exponential{
    "exponential(Tensor self, float lambd=1.0) -> Tensor",
    R"(-log(u) / lambd, u uniform in (0, 1]. Errors: RuntimeError for a lambd that is not positive.)",
    [](const Tensor& self, const Number& lambd) {
      check(lambd.scalar().real() > 0, ErrorKind::runtime,
            "exponential_ expects lambda > 0.0, but found lambda=", lambd);
      static const Op<Tensor(const Sizes&, const Number&, const Number&, const Number&, DType)>
          values{
              "_exponential(SymInt[] size, Scalar seed, Scalar offset, float lambd, ScalarType "
              "dtype) -> Tensor",
              R"(exponential_ as a function.)",
              [](const Sizes& size, const Number& seed, const Number& offset, const Number& rate,
                 DType dtype) {
                DType compute = compute_type(dtype);
                Tensor u = prim::sub(prim::constant(1.0, compute, size),
                                     unit(seed, offset, size, compute));
                return to_dtype(
                    prim::div(prim::neg(prim::log(u)), expand_to(to_tensor(rate, compute), size)),
                    dtype);
              },
              0};
      Place at = reserve_place();
      return replacement(self, "exponential_", [&](const Sizes& size, DType dtype) {
        return values(size, at.seed, at.offset, lambd, dtype);
      });
    },
    kInplace, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&, const Number&)> random_from{
    "random.from(Tensor self, Scalar from, Scalar to) -> Tensor",
    R"(Integers in [from, to), of any real dtype.)",
    [](const Tensor& self, const Number& from, const Number& to) {
      return integer_tensor(from, to, graph::sizes_of(self), self.dtype(), "random_");
    },
    kInplace, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&)> random_to{
    "random.to(Tensor self, Scalar to) -> Tensor", R"(Integers in [0, to), of any real dtype.)",
    [](const Tensor& self, const Number& to) {
      return integer_tensor(Number(0), to, graph::sizes_of(self), self.dtype(), "random_");
    },
    kInplace, BodyKind::direct};
const Op<Tensor(const Tensor&)> bernoulli{
    "bernoulli(Tensor self) -> Tensor", R"(1 with the probability that self holds, else 0.)",
    [](const Tensor& self) {
      check(is_float(self.dtype()), ErrorKind::not_implemented, "bernoulli: not implemented for ",
            self.dtype());
      Place at = reserve_place();
      bool before = run::gradients_enabled();
      run::set_gradients_enabled(false);
      Tensor r = bernoulli_values(self, at.seed, at.offset);
      run::set_gradients_enabled(before);
      return r;
    },
    kFunction | kMethod | kOut, BodyKind::direct};
const Op<Tensor(const Tensor&, const Number&)> bernoulli_p{
    "bernoulli.p(Tensor self, float p) -> Tensor",
    R"(1 with probability p, else 0, in the sizes and dtype of self. Errors: RuntimeError for a p outside of [0, 1].)",
    [](const Tensor& self, const Number& p) {
      double value = p.scalar().real();
      check(value >= 0 && value <= 1, ErrorKind::runtime,
            "bernoulli expects p to be in [0, 1], but got p=", value);
      Place at = reserve_place();
      static const Op<Tensor(const Sizes&, const Number&, const Number&, const Number&, DType)>
          values{
              "_bernoulli_p(SymInt[] size, Scalar seed, Scalar offset, float p, ScalarType dtype) "
              "-> Tensor",
              R"(1 with probability p, else 0.)",
              [](const Sizes& size, const Number& seed, const Number& offset,
                 const Number& probability, DType dtype) {
                Tensor u = unit(seed, offset, size, DType::float64);
                return to_dtype(
                    prim::cast(prim::lt(u, expand_to(to_tensor(probability, DType::float64), size)),
                               DType::float32),
                    dtype);
              },
              0};
      return values(graph::sizes_of(self), at.seed, at.offset, p, self.dtype());
    },
    kFunction | kMethod | kInplace, BodyKind::direct};

const Op<Tensor(const Tensor&, const Number&, bool)> dropout{
    "dropout|nn.functional.dropout(Tensor input, float p=0.5, bool training=True) -> Tensor",
    R"(While training: zeros with probability p, other elements divided by 1 - p. Else the input. Source: Srivastava et al.,
"Dropout", 2014. Errors: ValueError for a p outside of [0, 1].)",
    [](const Tensor& input, const Number& p, bool training) {
      double value = p.scalar().real();
      check(value >= 0 && value <= 1, ErrorKind::value,
            "dropout probability has to be between 0 and 1, but got ", value);
      if (!training || value == 0) return input;
      check(is_float(input.dtype()), ErrorKind::runtime,
            "dropout: expected a floating-point input, got ", input.dtype());
      Place at = reserve_place();
      return dropout_values(input, at.seed, at.offset, p);
    },
    kFunction, BodyKind::direct};

}  // namespace flambeau::ops
