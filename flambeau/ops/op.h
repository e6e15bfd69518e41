// How operators are defined and called from C++. See docs/add_an_operator.md.
//
//   const Op<Tensor(const Tensor&)> square{"square(Tensor self) -> Tensor", R"(...)",
//                                           [](const Tensor& self) { return self * self; }};
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "flambeau/run/operator.h"

namespace flambeau {

namespace detail {

// Boxing and unboxing by type. optional<T> is None or a T.
template <class T>
struct Box {
  static Argument box(const T& v) { return Argument(v); }
  static T unbox(Argument& a) { return std::get<T>(a); }
};
template <class T>
struct Box<std::optional<T>> {
  static Argument box(const std::optional<T>& v) { return v ? Box<T>::box(*v) : Argument(); }
  static std::optional<T> unbox(Argument& a) {
    if (std::holds_alternative<std::monostate>(a)) return std::nullopt;
    return Box<T>::unbox(a);
  }
};
template <>
struct Box<Argument> {  // a result whose kind depends on the arguments
  static Argument box(const Argument& v) { return v; }
  static Argument unbox(Argument& a) { return a; }
};
template <>
struct Box<double> {
  static Argument box(double v) { return Argument(Number(v)); }
};
template <class... T>
struct Box<std::tuple<T...>> {
  static Argument box(const std::tuple<T...>& v) {
    return Argument(std::apply([](const auto&... t) { return TensorList{t...}; }, v));
  }
  static std::tuple<T...> unbox(Argument& a) {
    auto& list = std::get<TensorList>(a);
    return take(list, std::index_sequence_for<T...>());
  }
  template <size_t... I>
  static std::tuple<T...> take(TensorList& list, std::index_sequence<I...>) {
    return {list[I]...};
  }
};

template <class R, class... A>
struct Thunk {
  using Function = R (*)(A...);
  static void run(const void* function, Argument* arguments, Argument* result) {
    unpack(reinterpret_cast<Function>(const_cast<void*>(function)), arguments, result,
           std::index_sequence_for<A...>());
  }
  template <size_t... I>
  static void unpack(Function f, Argument* arguments, Argument* result, std::index_sequence<I...>) {
    *result = Box<R>::box(f(Box<std::remove_cvref_t<A>>::unbox(arguments[I])...));
  }
};

/// Fills the arguments that a C++ call left out from the schema; throws when one has no default.
void complete_arguments(const Operator& op, std::vector<Argument>& arguments);

}  // namespace detail

template <class Signature>
class Op;

/// One overload. Trailing arguments that a call omits come from the schema.
template <class R, class... A>
class Op<R(A...)> {
 public:
  using Function = R (*)(A...);
  Op(const char* schema, const char* doc, Function function, int forms = kDefaultForms,
     BodyKind kind = BodyKind::composite, Operator::Rule rule = nullptr)
      : operator_(schema, doc, &detail::Thunk<R, A...>::run,
                  reinterpret_cast<const void*>(function), kind, forms) {
    operator_.rule = rule;
  }

  template <class... Given>
    requires(sizeof...(Given) <= sizeof...(A))
  R operator()(const Given&... given) const {
    std::vector<Argument> arguments;
    arguments.reserve(sizeof...(A));
    box<0>(arguments, given...);
    if constexpr (sizeof...(Given) < sizeof...(A)) detail::complete_arguments(operator_, arguments);
    Argument result = call(operator_, std::move(arguments));
    return detail::Box<R>::unbox(result);
  }
  const Operator& definition() const { return operator_; }

 private:
  template <size_t I>
  static void box(std::vector<Argument>&) {}
  template <size_t I, class First, class... Rest>
  static void box(std::vector<Argument>& arguments, const First& first, const Rest&... rest) {
    using Wanted = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<A...>>>;
    arguments.push_back(detail::Box<Wanted>::box(Wanted(first)));
    box<I + 1>(arguments, rest...);
  }
  Operator operator_;
};

}  // namespace flambeau
