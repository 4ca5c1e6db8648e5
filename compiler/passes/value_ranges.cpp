#include "compiler/passes/value_ranges.h"

#include <algorithm>

namespace corrloom::passes {

using affine::Interval;
using scalar::Opcode;

namespace {

__extension__ typedef __int128 Wide;

Interval from_wide(Wide low, Wide high) {
  if (low < kAnything.low || high > kAnything.high) return kAnything;
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

Interval product(Interval a, Interval b) {
  const auto corners = {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high};
  return from_wide(std::min(corners), std::max(corners));
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace

Interval result_range(Opcode opcode, Interval a, Interval b) {
  switch (opcode) {
    case Opcode::Add:
      return from_wide(Wide{a.low} + b.low, Wide{a.high} + b.high);
    case Opcode::Sub:
      return from_wide(Wide{a.low} - b.high, Wide{a.high} - b.low);
    case Opcode::Mul:
      return product(a, b);
    case Opcode::FloorDiv:
      if (b.low < 1) return kAnything;
      return {floor_quotient(a.low, a.low < 0 ? b.low : b.high), floor_quotient(a.high, a.high < 0 ? b.high : b.low)};
    case Opcode::Mod:
      if (b.low < 1) return kAnything;
      return a.low >= 0 ? Interval{0, std::min(a.high, b.high - 1)} : Interval{0, b.high - 1};
    case Opcode::Min:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Opcode::Max:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default:
      return kAnything;
  }
}

std::optional<bool> decided(Opcode opcode, Interval a, Interval b) {
  const auto either = [](bool always, bool never) -> std::optional<bool> {
    if (always || never) return always;
    return std::nullopt;
  };
  switch (opcode) {
    case Opcode::Lt:
      return either(a.high < b.low, a.low >= b.high);
    case Opcode::Le:
      return either(a.high <= b.low, a.low > b.high);
    case Opcode::Gt:
      return decided(Opcode::Lt, b, a);
    case Opcode::Ge:
      return decided(Opcode::Le, b, a);
    case Opcode::Eq:
      return either(a.low == a.high && a == b, a.high < b.low || b.high < a.low);
    case Opcode::Ne: {
      const std::optional<bool> equal = decided(Opcode::Eq, a, b);
      return equal ? std::optional(!*equal) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

bool is_far_from_wrapping(Interval range) {
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  return range.low > -kFar && range.high < kFar;
}

}  // namespace corrloom::passes
