#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace corrloom {

/// A typed 32-bit index. Ids of different tags do not mix; a default one names nothing.
template <class Tag>
struct Id {
  std::int32_t index = -1;

  explicit operator bool() const { return index >= 0; }
  friend auto operator<=>(const Id&, const Id&) = default;
};

}  // namespace corrloom

template <class Tag>
struct std::hash<corrloom::Id<Tag>> {
  std::size_t operator()(corrloom::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.index); }
};
