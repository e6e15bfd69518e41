#include "flambeau/emit/source/prelude.h"

namespace flambeau::emit {

// Vectors use the vector extension where it has an operator and a loop over lanes elsewhere. f16
// and bf16 are their bits (u16). A vector of i1 is a vector of i8 with 0 and -1; one i1 is a bool.
// Integers are added in unsigned types, where overflow wraps.
std::string_view source_prelude() {
  return R"prelude(#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"

namespace {

using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f32 = float;
using f64 = double;

template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};
template <class T, int N>
using V = typename VectorOf<T, N>::type;

template <int kBytes>
struct IntegerOf;
template <>
struct IntegerOf<1> {
  using s = i8;
  using u = u8;
};
template <>
struct IntegerOf<2> {
  using s = i16;
  using u = u16;
};
template <>
struct IntegerOf<4> {
  using s = i32;
  using u = u32;
};
template <>
struct IntegerOf<8> {
  using s = i64;
  using u = u64;
};
template <class T>
using S = typename IntegerOf<sizeof(T)>::s;
template <class T>
using U = typename IntegerOf<sizeof(T)>::u;

template <class T, int N>
inline T get(V<T, N> v, int lane) {
  if constexpr (N == 1) {
    return v;
  } else {
    return v[lane];
  }
}
template <class T, int N>
inline void set(V<T, N>& v, int lane, T x) {
  if constexpr (N == 1) {
    v = x;
  } else {
    v[lane] = x;
  }
}
// One lane after the other: f(lane) for each.
template <class T, int N, class F>
inline V<T, N> each(F f) {
  V<T, N> r{};
  for (int i = 0; i < N; ++i) set<T, N>(r, i, f(i));
  return r;
}

template <class T, int N>
inline V<T, N> splat(T x) {
  return each<T, N>([&](int) { return x; });
}
template <class T, int N>
inline V<T, N> iota() {
  return each<T, N>([&](int i) { return static_cast<T>(i); });
}
template <class T, int N>
inline V<T, N> insert(V<T, N> v, T x, int lane) {
  set<T, N>(v, lane, x);
  return v;
}
template <class T, int N, int... kLanes>
inline V<T, sizeof...(kLanes)> shuffle(V<T, N> a, V<T, N> b) {
  constexpr int lanes[] = {kLanes...};
  return each<T, sizeof...(kLanes)>([&](int i) {
    return lanes[i] < N ? get<T, N>(a, lanes[i]) : get<T, N>(b, lanes[i] - N);
  });
}

#define FLAMBEAU_WRAPPING(name, symbol)                                        \
  template <class T, int N>                                                    \
  inline V<T, N> name(V<T, N> a, V<T, N> b) {                                  \
    if constexpr (N == 1) {                                                    \
      return static_cast<T>(static_cast<u64>(a) symbol static_cast<u64>(b));   \
    } else {                                                                   \
      return (V<T, N>)((V<U<T>, N>)a symbol(V<U<T>, N>) b);                    \
    }                                                                          \
  }
FLAMBEAU_WRAPPING(add, +)
FLAMBEAU_WRAPPING(sub, -)
FLAMBEAU_WRAPPING(mul, *)
FLAMBEAU_WRAPPING(shl, <<)
#undef FLAMBEAU_WRAPPING

#define FLAMBEAU_INTEGER(name, symbol, Kind)                                            \
  template <class T, int N>                                                             \
  inline V<T, N> name(V<T, N> a, V<T, N> b) {                                           \
    return each<T, N>([&](int i) {                                                      \
      return static_cast<T>(static_cast<Kind<T>>(get<T, N>(a, i))                       \
                                symbol static_cast<Kind<T>>(get<T, N>(b, i)));          \
    });                                                                                 \
  }
FLAMBEAU_INTEGER(sdiv, /, S)
FLAMBEAU_INTEGER(udiv, /, U)
FLAMBEAU_INTEGER(srem, %, S)
FLAMBEAU_INTEGER(urem, %, U)
FLAMBEAU_INTEGER(lshr, >>, U)
FLAMBEAU_INTEGER(ashr, >>, S)
#undef FLAMBEAU_INTEGER

#define FLAMBEAU_FLOAT(name, builtin)                                          \
  inline f32 name##_of(f32 x) { return builtin##f(x); }                        \
  inline f64 name##_of(f64 x) { return builtin(x); }                           \
  template <class T, int N>                                                    \
  inline V<T, N> name(V<T, N> a) {                                             \
    return each<T, N>([&](int i) { return name##_of(get<T, N>(a, i)); });      \
  }
FLAMBEAU_FLOAT(abs, __builtin_fabs)
FLAMBEAU_FLOAT(sqrt, __builtin_sqrt)
FLAMBEAU_FLOAT(floor, __builtin_floor)
FLAMBEAU_FLOAT(ceil, __builtin_ceil)
FLAMBEAU_FLOAT(trunc, __builtin_trunc)
FLAMBEAU_FLOAT(round_even, __builtin_roundeven)
#undef FLAMBEAU_FLOAT

inline f32 frem_of(f32 a, f32 b) { return __builtin_fmodf(a, b); }
inline f64 frem_of(f64 a, f64 b) { return __builtin_fmod(a, b); }
template <class T, int N>
inline V<T, N> frem(V<T, N> a, V<T, N> b) {
  return each<T, N>([&](int i) { return frem_of(get<T, N>(a, i), get<T, N>(b, i)); });
}
inline f32 fma_of(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f64 fma_of(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
template <class T, int N>
inline V<T, N> fma(V<T, N> a, V<T, N> b, V<T, N> c) {
  return each<T, N>(
      [&](int i) { return fma_of(get<T, N>(a, i), get<T, N>(b, i), get<T, N>(c, i)); });
}
template <class T, int N>
inline V<T, N> neg(V<T, N> a) {
  if constexpr (static_cast<T>(0.5) != 0) {
    return -a;
  } else {
    return sub<T, N>(V<T, N>{}, a);
  }
}

// The result of a vector comparison, and what it selects.
template <int N, class M>
inline V<i8, N> mask(M compared) {
  return __builtin_convertvector(compared, V<i8, N>);
}
template <class T, int N>
inline V<T, N> select(V<i8, N> c, V<T, N> a, V<T, N> b) {
  return __builtin_convertvector(c, V<S<T>, N>) ? a : b;
}

template <class To, class From, int N>
inline V<To, N> convert(V<From, N> a) {
  return each<To, N>([&](int i) { return static_cast<To>(get<From, N>(a, i)); });
}
template <class From, int N>
inline V<i8, N> lowest_bit(V<From, N> a) {
  return each<i8, N>([&](int i) { return static_cast<i8>(-(get<From, N>(a, i) & 1)); });
}
// Towards zero, saturating, NaN becomes 0. The bounds are powers of two, so floats hold them.
template <class To, class From>
inline To saturate(From x) {
  constexpr bool is_signed = static_cast<To>(-1) < 0;
  constexpr int width = 8 * sizeof(To) - is_signed;
  constexpr From limit = static_cast<From>(u64{1} << (width - 1)) * 2;
  constexpr To greatest = static_cast<To>(~u64{0} >> (64 - width));
  constexpr To least = is_signed ? static_cast<To>(-greatest - 1) : 0;
  if (x != x) return 0;
  if (x >= limit) return greatest;
  if (x <= (is_signed ? -limit : 0)) return least;
  return static_cast<To>(x);
}
template <class To, class From, int N>
inline V<To, N> float_to_integer(V<From, N> a) {
  return each<To, N>([&](int i) { return saturate<To, From>(get<From, N>(a, i)); });
}

inline f32 widen_f16(u16 x) { return static_cast<f32>(__builtin_bit_cast(_Float16, x)); }
inline u16 narrow_f16(f32 x) { return __builtin_bit_cast(u16, static_cast<_Float16>(x)); }
inline f32 widen_bf16(u16 x) { return __builtin_bit_cast(f32, static_cast<u32>(x) << 16); }
// To nearest even; a NaN keeps its upper bits and becomes quiet.
inline u16 narrow_bf16(f32 x) {
  const u32 bits = __builtin_bit_cast(u32, x);
  const u32 upper = bits >> 16;
  if (x != x) return static_cast<u16>(upper | 0x40);
  return static_cast<u16>((bits + (upper & 1) + 0x7FFF) >> 16);
}

template <class T, int N>
inline V<T, N> load(const char* p, i64 index) {
  V<T, N> r;
  std::memcpy(&r, p + index * static_cast<i64>(sizeof(T)), sizeof r);
  return r;
}
template <class T, int N>
inline void store(char* p, i64 index, V<T, N> v) {
  std::memcpy(p + index * static_cast<i64>(sizeof(T)), &v, sizeof v);
}
// `at(lane)` is the index of a lane, `on(lane)` whether it takes part.
template <class T, int N, class At, class On>
inline V<T, N> load_lanes(const char* p, At at, On on) {
  return each<T, N>([&](int i) { return on(i) ? load<T, 1>(p, at(i)) : T{}; });
}
template <class T, int N, class At, class On>
inline void store_lanes(char* p, V<T, N> v, At at, On on) {
  for (int i = 0; i < N; ++i) {
    if (on(i)) store<T, 1>(p, at(i), get<T, N>(v, i));
  }
}

}  // namespace

)prelude";
}

}  // namespace flambeau::emit
