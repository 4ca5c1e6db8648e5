#include "ir/affine/intervals.h"

#include <algorithm>
#include <initializer_list>

#include "ir/base/match.h"

namespace corrloom::affine {
namespace {

using scalar::Apply;
using scalar::Opcode;

constexpr WideInterval kNothing = {0, -1};
constexpr WideInterval kTruth = {0, 1};

WideInterval hull(const WideInterval& a, const WideInterval& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

WideInterval hull_of(std::initializer_list<Int128> values) {
  return {std::min(values), std::max(values)};
}

WideInterval intersection(const WideInterval& a, const WideInterval& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

/// Bounds so wide that no dtype holds them, for products beyond 128 bits.
WideInterval unbounded() {
  const Int128 huge = Int128{1} << 100;
  return {-huge, huge};
}

WideInterval product(const WideInterval& x, const WideInterval& y) {
  WideInterval bounds = kNothing;
  for (Int128 a : {x.low, x.high}) {
    for (Int128 b : {y.low, y.high}) {
      Int128 corner;
      if (__builtin_mul_overflow(a, b, &corner)) return unbounded();
      bounds = hull(bounds, {corner, corner});
    }
  }
  return bounds;
}

/// Bounds of floor(x / y) where y has one sign: the quotient is monotone in each operand, so corners bound it.
WideInterval quotient_of_one_sign(const WideInterval& x, const WideInterval& y) {
  if (x.empty() || y.empty()) return kNothing;
  return hull_of(
      {floor_div(x.low, y.low), floor_div(x.low, y.high), floor_div(x.high, y.low), floor_div(x.high, y.high)});
}

/// The part of an interval below and above 0.
WideInterval negative_part(const WideInterval& x) {
  return intersection(x, {x.low, -1});
}
WideInterval positive_part(const WideInterval& x) {
  return intersection(x, {1, x.high});
}

WideInterval quotient(const WideInterval& x, const WideInterval& y) {
  WideInterval bounds = hull(quotient_of_one_sign(x, negative_part(y)), quotient_of_one_sign(x, positive_part(y)));
  if (y.low <= 0 && 0 <= y.high) bounds = hull(bounds, {0, 0});
  return bounds;
}

/// Bounds of x mod y for positive y.
WideInterval modulo_positive(const WideInterval& x, const WideInterval& y) {
  if (x.empty() || y.empty()) return kNothing;
  if (y.is_point() && floor_div(x.low, y.low) == floor_div(x.high, y.low)) {
    const Int128 base = y.low * floor_div(x.low, y.low);
    return {x.low - base, x.high - base};
  }
  if (x.low >= 0 && x.high < y.low) return x;
  const Int128 highest = y.high - 1;
  return {0, x.low >= 0 ? std::min(highest, x.high) : highest};
}

WideInterval modulo(const WideInterval& x, const WideInterval& y) {
  // For a negative divisor x mod y = -(-x mod -y).
  const WideInterval mirrored = modulo_positive({-x.high, -x.low}, {-negative_part(y).high, -negative_part(y).low});
  const WideInterval below = mirrored.empty() ? kNothing : WideInterval{-mirrored.high, -mirrored.low};
  WideInterval bounds = hull(below, modulo_positive(x, positive_part(y)));
  if (y.low <= 0 && 0 <= y.high) bounds = hull(bounds, {0, 0});
  return bounds;
}

WideInterval shifted_left(const WideInterval& x, const WideInterval& count, DType dtype) {
  if (!count.is_point() || count.low < 0 || count.low >= bit_width(dtype)) return unbounded();
  return product(x, {Int128{1} << static_cast<int>(count.low), Int128{1} << static_cast<int>(count.low)});
}

WideInterval shifted_right(const WideInterval& x, const WideInterval& count, DType dtype) {
  if (count.is_point() && count.low >= 0 && count.low < bit_width(dtype)) {
    const Int128 divisor = Int128{1} << static_cast<int>(count.low);
    return {floor_div(x.low, divisor), floor_div(x.high, divisor)};
  }
  // Any shift moves a value towards 0 or -1.
  return {std::min<Int128>(x.low, 0), std::max<Int128>(x.high, x.low < 0 ? -1 : 0)};
}

WideInterval bitwise_and(const WideInterval& x, const WideInterval& y, DType dtype) {
  if (x.low >= 0 && y.low >= 0) return {0, std::min(x.high, y.high)};
  if (x.low >= 0) return {0, x.high};
  if (y.low >= 0) return {0, y.high};
  return range_of(dtype);
}

/// Bounds of bitwise or and exclusive or: no bit above the highest of both operands is set.
WideInterval bitwise_or(const WideInterval& x, const WideInterval& y, DType dtype) {
  if (x.low < 0 || y.low < 0) return range_of(dtype);
  Int128 mask = 1;
  while (mask <= std::max(x.high, y.high)) mask <<= 1;
  return {0, mask - 1};
}

WideInterval truth(bool value) {
  return value ? WideInterval{1, 1} : WideInterval{0, 0};
}

/// `x < y`, as far as the bounds decide it.
WideInterval less(const WideInterval& x, const WideInterval& y) {
  if (x.high < y.low) return truth(true);
  if (x.low >= y.high) return truth(false);
  return kTruth;
}

WideInterval negation(const WideInterval& truth) {
  return {1 - truth.high, 1 - truth.low};
}

WideInterval equal(const WideInterval& x, const WideInterval& y) {
  if (x.high < y.low || y.high < x.low) return truth(false);
  if (x.is_point() && y.is_point() && x.low == y.low) return truth(true);
  return kTruth;
}

bool is_float_node(const Expr& expr) {
  return is_float(expr->dtype);
}

/// The comparison that holds exactly where this one (of integers) does not.
std::optional<Opcode> opposite(Opcode opcode) {
  switch (opcode) {
    case Opcode::Eq:
      return Opcode::Ne;
    case Opcode::Ne:
      return Opcode::Eq;
    case Opcode::Lt:
      return Opcode::Ge;
    case Opcode::Le:
      return Opcode::Gt;
    case Opcode::Gt:
      return Opcode::Le;
    case Opcode::Ge:
      return Opcode::Lt;
    default:
      return std::nullopt;
  }
}

}  // namespace

Int128 floor_div(Int128 x, Int128 y) {
  const Int128 quotient = x / y;
  return quotient - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
}

WideInterval range_of(DType dtype) {
  if (dtype == DType::Bool) return kTruth;
  const int width = bit_width(dtype);
  if (is_unsigned_integer(dtype)) return {0, (Int128{1} << width) - 1};
  return {-(Int128{1} << (width - 1)), (Int128{1} << (width - 1)) - 1};
}

WideInterval Intervals::narrowed(const Expr& expr, WideInterval bounds) const {
  for (const auto& [subject, limits] : assumed_) {
    if (scalar::same(subject, expr)) bounds = intersection(bounds, limits);
  }
  return bounds;
}

WideInterval Intervals::of(const Expr& expr) {
  const auto found = known_.find(expr.get());
  if (found != known_.end()) return found->second.second;
  WideInterval bounds = unwrapped(expr);
  const WideInterval limits = range_of(expr->dtype);
  if (!bounds.empty() && !bounds.inside(limits)) bounds = limits;
  if (!assumed_.empty()) bounds = narrowed(expr, bounds);
  known_.emplace(expr.get(), std::pair(expr, bounds));
  return bounds;
}

WideInterval Intervals::unwrapped(const Expr& expr) {
  return match(
      expr->kind,
      [&](const scalar::Constant& constant) {
        if (constant.value.dtype == DType::U64)
          return WideInterval{Int128{constant.value.bits}, Int128{constant.value.bits}};
        return WideInterval{constant.value.as_i64(), constant.value.as_i64()};
      },
      [&](const scalar::AxisRef& reference) {
        const std::optional<Interval> range = ranges_(reference.axis);
        return range ? WideInterval{range->low, range->high} : range_of(expr->dtype);
      },
      [&](const scalar::SymbolRef&) { return range_of(expr->dtype); },
      [&](const scalar::AccRef&) { return range_of(expr->dtype); },
      [&](const scalar::Read&) { return range_of(expr->dtype); },
      [&](const Apply& apply) { return of_apply(apply, expr->dtype); });
}

WideInterval Intervals::of_comparison(const Apply& apply) {
  if (is_float_node(apply.args[0])) return kTruth;
  const WideInterval x = of(apply.args[0]), y = of(apply.args[1]);
  if (x.empty() || y.empty()) return kNothing;
  switch (apply.opcode) {
    case Opcode::Eq:
      return equal(x, y);
    case Opcode::Ne:
      return negation(equal(x, y));
    case Opcode::Lt:
      return less(x, y);
    case Opcode::Ge:
      return negation(less(x, y));
    case Opcode::Gt:
      return less(y, x);
    default:
      return negation(less(y, x));
  }
}

WideInterval Intervals::of_apply(const Apply& apply, DType dtype) {
  if (apply.opcode >= Opcode::Eq && apply.opcode <= Opcode::Ge) return of_comparison(apply);
  if (apply.opcode == Opcode::If || apply.opcode == Opcode::Select) {
    const WideInterval condition = of(apply.args[0]);
    if (condition.empty()) return kNothing;
    if (condition.is_point()) return of(apply.args[condition.low != 0 ? 1 : 2]);
    return hull(of(apply.args[1]), of(apply.args[2]));
  }
  if (is_float_node(apply.args[0])) return range_of(dtype);  // casts, comparisons and tests of floats
  const WideInterval x = of(apply.args[0]);
  const WideInterval y = apply.args.size() > 1 ? of(apply.args[1]) : WideInterval{0, 0};
  if (x.empty() || y.empty()) return kNothing;
  switch (apply.opcode) {
    case Opcode::Neg:
      return {-x.high, -x.low};
    case Opcode::Not: {
      const Int128 ones = is_signed_integer(dtype) ? -1 : range_of(dtype).high;
      return {ones - x.high, ones - x.low};
    }
    case Opcode::Add:
      return {x.low + y.low, x.high + y.high};
    case Opcode::Sub:
      return {x.low - y.high, x.high - y.low};
    case Opcode::Mul:
      return product(x, y);
    case Opcode::FloorDiv:
      return quotient(x, y);
    case Opcode::Mod:
      return modulo(x, y);
    case Opcode::Shl:
      return shifted_left(x, y, dtype);
    case Opcode::Shr:
      return shifted_right(x, y, dtype);
    case Opcode::And:
    case Opcode::LazyAnd:
      return bitwise_and(x, y, dtype);
    case Opcode::Or:
    case Opcode::LazyOr:
      return dtype == DType::Bool ? WideInterval{std::max(x.low, y.low), std::max(x.high, y.high)}
                                  : bitwise_or(x, y, dtype);
    case Opcode::Xor:
      return bitwise_or(x, y, dtype);
    case Opcode::Abs:
      if (x.low >= 0) return x;
      return {x.high < 0 ? -x.high : 0, std::max(-x.low, x.high)};
    case Opcode::Min:
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case Opcode::Max:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case Opcode::Sign:
      return {x.low > 0 ? 1 : x.low == 0 ? 0 : -1, x.high < 0 ? -1 : x.high == 0 ? 0 : 1};
    case Opcode::Cast:
      if (dtype != DType::Bool) return x;
      return negation(equal(x, {0, 0}));
    case Opcode::Fence:
      return x;
    default:
      return range_of(dtype);
  }
}

WideInterval Intervals::of(const LinearForm& form) {
  WideInterval sum = {form.constant, form.constant};
  for (const LinearForm::Term& term : form.terms) {
    const WideInterval bounds = of(term.expr);
    if (bounds.empty()) return kNothing;
    const WideInterval scaled = product(bounds, {term.coefficient, term.coefficient});
    sum = {sum.low + scaled.low, sum.high + scaled.high};
    if (!sum.inside(unbounded())) return unbounded();
  }
  return sum;
}

void Intervals::narrow(const Expr& expr, WideInterval bounds) {
  if (scalar::as_constant(expr) != nullptr) return;
  assumed_.emplace_back(expr, bounds);
  known_.clear();
  if (of(expr).empty()) contradictory_ = true;
}

void Intervals::assume_comparison(Opcode opcode, const Expr& x, const Expr& y) {
  const WideInterval left = of(x), right = of(y);
  const WideInterval all = unbounded();
  if (left.empty() || right.empty()) return;
  switch (opcode) {
    case Opcode::Eq:
      narrow(x, right);
      narrow(y, left);
      return;
    case Opcode::Lt:
      narrow(x, {all.low, right.high - 1});
      narrow(y, {left.low + 1, all.high});
      return;
    case Opcode::Le:
      narrow(x, {all.low, right.high});
      narrow(y, {left.low, all.high});
      return;
    case Opcode::Gt:
      return assume_comparison(Opcode::Lt, y, x);
    case Opcode::Ge:
      return assume_comparison(Opcode::Le, y, x);
    default:
      return;
  }
}

void Intervals::assume(const Expr& condition) {
  const WideInterval decided = of(condition);
  if (decided.high < 1) contradictory_ = true;
  const auto* apply = std::get_if<Apply>(&condition->kind);
  if (apply == nullptr) return;
  if (apply->opcode == Opcode::LazyAnd || apply->opcode == Opcode::And) {
    assume(apply->args[0]);
    assume(apply->args[1]);
  } else if (apply->opcode >= Opcode::Eq && apply->opcode <= Opcode::Ge && !is_float_node(apply->args[0])) {
    assume_comparison(apply->opcode, apply->args[0], apply->args[1]);
  } else if (apply->opcode == Opcode::Not) {
    const Expr& inner = apply->args[0];
    const auto* denied = std::get_if<Apply>(&inner->kind);
    if (denied == nullptr) return;
    if (denied->opcode == Opcode::LazyOr || denied->opcode == Opcode::Or) {
      for (const Expr& part : denied->args) assume(scalar::apply(Opcode::Not, {part}));
    } else if (denied->opcode == Opcode::Not) {
      assume(denied->args[0]);
    } else if (const auto other = opposite(denied->opcode); other && !is_float_node(denied->args[0])) {
      assume_comparison(*other, denied->args[0], denied->args[1]);
    }
  }
}

std::optional<Interval> interval_of(const Expr& expr, const Ranges& ranges) {
  if (is_float(expr->dtype)) return std::nullopt;
  const WideInterval bounds = Intervals(ranges).of(expr);
  if (bounds.empty()) return Interval{0, -1};
  const WideInterval all = range_of(DType::I64);
  if (!bounds.inside(all) || (bounds.low == all.low && bounds.high == all.high)) return std::nullopt;
  return Interval{static_cast<std::int64_t>(bounds.low), static_cast<std::int64_t>(bounds.high)};
}

bool may_wrap(const Expr& expr, const Ranges& ranges) {
  Intervals intervals(ranges);
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) {
    found = found || (is_integer(node->dtype) && !intervals.of(node).empty() && !intervals.is_exact(node));
  });
  return found;
}

}  // namespace corrloom::affine
