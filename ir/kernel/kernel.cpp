#include "ir/kernel/kernel.h"

#include <algorithm>

namespace corrloom::kernel {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

constexpr std::int64_t kBits = 64;

bool is_count(std::int64_t count) {
  return count >= 0 && count < kBits;
}

std::optional<std::int64_t> shifted_left(std::int64_t a, std::int64_t count) {
  if (a == 0 || count == 0) return a;
  if (!is_count(count)) return std::nullopt;
  const auto shifted = static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << count);
  return shifted >> count == a ? std::optional(shifted) : std::nullopt;
}

/// `a op b`, or nothing when the result does not fit.
std::optional<std::int64_t> binary(SizeOp::Kind kind, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (kind) {
    case SizeOp::Kind::Add:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case SizeOp::Kind::Sub:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case SizeOp::Kind::Mul:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case SizeOp::Kind::FloorDiv:
      if (b == 0) return 0;
      if (b == -1) return __builtin_sub_overflow(std::int64_t{0}, a, &result) ? std::nullopt : std::optional(result);
      return floor_div(a, b);
    case SizeOp::Kind::Mod:
      return b == 0 || b == -1 ? 0 : a - b * floor_div(a, b);
    case SizeOp::Kind::Min:
      return std::min(a, b);
    case SizeOp::Kind::Max:
      return std::max(a, b);
    case SizeOp::Kind::Eq:
      return a == b;
    case SizeOp::Kind::Ne:
      return a != b;
    case SizeOp::Kind::Lt:
      return a < b;
    case SizeOp::Kind::Le:
      return a <= b;
    case SizeOp::Kind::And:
      return a != 0 && b != 0;
    case SizeOp::Kind::Or:
      return a != 0 || b != 0;
    case SizeOp::Kind::BitAnd:
      return a & b;
    case SizeOp::Kind::BitOr:
      return a | b;
    case SizeOp::Kind::BitXor:
      return a ^ b;
    case SizeOp::Kind::Shl:
      return shifted_left(a, b);
    case SizeOp::Kind::Shr:
      return a >> (is_count(b) ? b : kBits - 1);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::int64_t> SizeExpr::as_constant() const {
  return evaluate(*this, {});
}

std::optional<std::int64_t> evaluate(const SizeExpr& size, const std::vector<std::int64_t>& symbols) {
  std::vector<std::int64_t> stack;
  const auto pop = [&] {
    const std::int64_t top = stack.back();
    stack.pop_back();
    return top;
  };
  for (const SizeOp& op : size.code) {
    if (op.kind == SizeOp::Kind::Constant) {
      stack.push_back(op.operand);
    } else if (op.kind == SizeOp::Kind::Symbol) {
      if (op.operand < 0 || op.operand >= static_cast<std::int64_t>(symbols.size())) return std::nullopt;
      stack.push_back(symbols[static_cast<std::size_t>(op.operand)]);
    } else if (op.kind == SizeOp::Kind::Not) {
      if (stack.empty()) return std::nullopt;
      stack.push_back(pop() == 0);
    } else if (op.kind == SizeOp::Kind::Select) {
      if (stack.size() < 3) return std::nullopt;
      const std::int64_t otherwise = pop(), then = pop(), condition = pop();
      stack.push_back(condition != 0 ? then : otherwise);
    } else {
      if (stack.size() < 2) return std::nullopt;
      const std::int64_t b = pop(), a = pop();
      const std::optional<std::int64_t> result = binary(op.kind, a, b);
      if (!result) return std::nullopt;
      stack.push_back(*result);
    }
  }
  if (stack.size() != 1) return std::nullopt;
  return stack.back();
}

}  // namespace corrloom::kernel
