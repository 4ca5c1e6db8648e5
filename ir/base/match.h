#pragma once

#include <type_traits>
#include <utility>
#include <variant>

namespace corrloom {

/// A set of lambdas as one callable, one for each alternative of a variant.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

namespace detail {
template <class Callable, class Variant>
struct HandlesAll;
template <class Callable, class... Kinds>
struct HandlesAll<Callable, std::variant<Kinds...>> {
  static constexpr bool value = (std::is_invocable_v<Callable&, Kinds&> && ...);
};
}  // namespace detail

/// Calls the case that takes the alternative held by `node`. A missing case does not compile.
template <class Variant, class... Cases>
decltype(auto) match(Variant&& node, Cases&&... cases) {
  using Callable = Overloaded<std::decay_t<Cases>...>;
  static_assert(detail::HandlesAll<Callable, std::decay_t<Variant>>::value,
                "match: a case for some kind of node is missing");
  return std::visit(Callable{std::forward<Cases>(cases)...}, std::forward<Variant>(node));
}

}  // namespace corrloom
