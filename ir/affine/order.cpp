#include "ir/affine/order.h"

#include <compare>
#include <tuple>

#include "ir/base/match.h"

namespace corrloom::affine {
namespace {

using scalar::Expr;
using scalar::Node;

template <class T>
int sign_of(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

/// What a node is, apart from its children, as numbers.
using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

Key key_of(const Node& node) {
  return match(
      node.kind,
      [](const scalar::Constant& kind) {
        return Key{kind.value.bits, 0, 0};
      },
      [](const scalar::AxisRef& kind) {
        return Key{static_cast<std::uint64_t>(kind.axis.index), 0, 0};
      },
      [](const scalar::SymbolRef& kind) {
        return Key{static_cast<std::uint64_t>(kind.symbol.index), 0, 0};
      },
      [](const scalar::AccRef& kind) {
        return Key{static_cast<std::uint64_t>(kind.index), kind.other, 0};
      },
      [](const scalar::Read& kind) {
        return Key{static_cast<std::uint64_t>(kind.source.index), static_cast<std::uint64_t>(kind.pad),
                   static_cast<std::uint64_t>(kind.check)};
      },
      [](const scalar::Apply& kind) {
        return Key{static_cast<std::uint64_t>(kind.opcode), 0, 0};
      });
}

}  // namespace

int compare(const Expr& a, const Expr& b) {
  // Equal sub-expressions are skipped by `same`, which is linear, so the walk below visits differing paths only.
  if (a == b || scalar::same(a, b)) return 0;
  if (const int depth = sign_of(a->depth > 0, b->depth > 0)) return depth;
  if (const int kind = sign_of(a->kind.index(), b->kind.index())) return kind;
  if (const int dtype = sign_of(a->dtype, b->dtype)) return dtype;
  if (const int key = sign_of(key_of(*a), key_of(*b))) return key;
  const std::vector<Expr> left = scalar::children(a), right = scalar::children(b);
  if (const int count = sign_of(left.size(), right.size())) return count;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (const int child = compare(left[i], right[i])) return child;
  }
  return 0;
}

}  // namespace corrloom::affine
