#include <numeric>
#include <optional>

#include "ir/affine/affine.h"
#include "ir/affine/intervals.h"
#include "ir/base/errors.h"

namespace corrloom::affine {
namespace {

using scalar::Apply;
using scalar::Opcode;
using Term = LinearForm::Term;

/// Bounds within which a form of 64-bit coefficients never wraps.
bool never_wraps(const WideInterval& bounds) {
  return bounds.inside(range_of(DType::I64));
}

std::int64_t floor_div64(std::int64_t x, std::int64_t positive) {
  return static_cast<std::int64_t>(floor_div(x, positive));
}

/// A form as multiple * d + rest, with the constant's remainder in the rest.
struct Split {
  LinearForm multiple;
  LinearForm rest;
};
Split split_by(const LinearForm& form, std::int64_t d) {
  Split split;
  split.multiple.constant = floor_div64(form.constant, d);
  split.rest.constant = form.constant - split.multiple.constant * d;
  for (const Term& term : form.terms) {
    if (term.coefficient % d == 0) {
      split.multiple.terms.push_back({term.expr, term.coefficient / d});
    } else {
      split.rest.terms.push_back(term);
    }
  }
  return split;
}

/// The k for which every value of the bounds lies in [k * d, k * d + d); nothing when there are several.
std::optional<std::int64_t> block_of(const WideInterval& bounds, std::int64_t d) {
  if (bounds.empty() || floor_div(bounds.low, d) != floor_div(bounds.high, d)) return std::nullopt;
  return static_cast<std::int64_t>(floor_div(bounds.low, d));
}

Expr apply_to(Opcode opcode, const LinearForm& form, std::int64_t d) {
  return scalar::apply(opcode, {to_expr(form), scalar::constant_i64(d)});
}

Expr sum_of(const LinearForm& form, const Expr& expr) {
  LinearForm sum = form;
  sum.terms.push_back({expr, 1});
  const std::optional<LinearForm> merged = linear_form(to_expr(sum));
  return merged ? to_expr(*merged) : to_expr(sum);
}

/// Simplifies one operation at a time, operands first.
class IndexSimplifier {
 public:
  explicit IndexSimplifier(const Ranges& ranges) : intervals_(ranges) {}

  Expr simplify_node(const Expr& node) {
    const auto* apply = std::get_if<Apply>(&node->kind);
    if (apply == nullptr || is_float(node->dtype)) return nullptr;
    if (const Expr value = known_value(node)) return value;
    if (is_float(apply->args[0]->dtype)) return nullptr;
    if (node->dtype == DType::I64) return simplify_i64(node, *apply);
    return nullptr;
  }

  /// The choice that an `if` of any dtype makes whenever it is reached.
  Expr simplify_choice(const Expr& node) {
    const auto* apply = std::get_if<Apply>(&node->kind);
    if (apply == nullptr || (apply->opcode != Opcode::If && apply->opcode != Opcode::Select)) return nullptr;
    const WideInterval condition = intervals_.of(apply->args[0]);
    return condition.is_point() ? apply->args[condition.low != 0 ? 1 : 2] : nullptr;
  }

 private:
  /// A constant, when the bounds leave one value. (An empty domain has no value to give.)
  Expr known_value(const Expr& node) {
    WideInterval bounds = intervals_.of(node);
    const auto& apply = std::get<Apply>(node->kind);
    if (!bounds.is_point() && apply.opcode >= Opcode::Eq && apply.opcode <= Opcode::Ge) bounds = compare_forms(apply);
    if (!bounds.is_point()) return nullptr;
    return scalar::constant(
        {node->dtype, scalar::Value::integer(DType::I64, static_cast<std::int64_t>(bounds.low)).bits &
                          (~std::uint64_t{0} >> (64 - 8 * byte_size(node->dtype)))});
  }

  /// A comparison through the bounds of the difference of its sides, which may cancel what both share.
  WideInterval compare_forms(const Apply& apply) {
    const WideInterval undecided = {0, 1};
    const std::optional<WideInterval> difference = difference_of(apply.args[0], apply.args[1]);
    if (!difference) return undecided;
    const auto truth = [](bool value) { return value ? WideInterval{1, 1} : WideInterval{0, 0}; };
    const bool below = difference->high<0, above = difference->low> 0;
    const bool not_above = difference->high <= 0, not_below = difference->low >= 0;
    switch (apply.opcode) {
      case Opcode::Lt:
        return below || not_below ? truth(below) : undecided;
      case Opcode::Le:
        return not_above || above ? truth(not_above) : undecided;
      case Opcode::Gt:
        return above || not_above ? truth(above) : undecided;
      case Opcode::Ge:
        return not_below || below ? truth(not_below) : undecided;
      case Opcode::Eq:
        return below || above ? truth(false) : (not_above && not_below ? truth(true) : undecided);
      default:
        return below || above ? truth(true) : (not_above && not_below ? truth(false) : undecided);
    }
  }

  /// Bounds of x - y as ideal integers; nothing when a side may wrap or the bounds are empty.
  std::optional<WideInterval> difference_of(const Expr& x, const Expr& y) {
    const std::optional<LinearForm> left = ideal_form(x), right = ideal_form(y);
    if (!left || !right) return std::nullopt;
    const std::optional<LinearForm> form = linear_form(scalar::apply(Opcode::Sub, {to_expr(*left), to_expr(*right)}));
    if (!form) return std::nullopt;
    const WideInterval bounds = intervals_.of(*form);
    return bounds.empty() ? std::nullopt : std::optional(bounds);
  }

  /// The linear form of an expression whose value it is as an ideal integer, too.
  std::optional<LinearForm> ideal_form(const Expr& expr) {
    std::optional<LinearForm> form = linear_form(expr);
    if (!form) return std::nullopt;
    const WideInterval bounds = intervals_.of(*form);
    return !bounds.empty() && never_wraps(bounds) ? form : std::nullopt;
  }

  Expr simplify_i64(const Expr& node, const Apply& apply) {
    switch (apply.opcode) {
      case Opcode::Add:
      case Opcode::Sub:
      case Opcode::Neg:
      case Opcode::Mul:
        return simplify_sum(node);
      case Opcode::FloorDiv:
      case Opcode::Mod: {
        const std::optional<std::int64_t> divisor = scalar::as_i64(apply.args[1]);
        const std::optional<LinearForm> form = ideal_form(apply.args[0]);
        if (!divisor || *divisor <= 0 || !form) return nullptr;
        return apply.opcode == Opcode::FloorDiv ? floor_division(*form, *divisor) : modulo(*form, *divisor);
      }
      case Opcode::Min:
      case Opcode::Max: {
        const std::optional<WideInterval> difference = difference_of(apply.args[0], apply.args[1]);
        if (!difference) return nullptr;
        const bool first_is_less = difference->high <= 0, second_is_less = difference->low >= 0;
        if (!first_is_less && !second_is_less) return nullptr;
        return apply.args[first_is_less == (apply.opcode == Opcode::Min) ? 0 : 1];
      }
      case Opcode::Cast:
        return simplify_cast(apply.args[0]);
      case Opcode::Abs:
        return intervals_.of(apply.args[0]).low >= 0 ? apply.args[0] : nullptr;
      default:
        return nullptr;
    }
  }

  /// A cast to i64 of an i64, or of a cast from i64 that kept the value.
  Expr simplify_cast(const Expr& operand) {
    if (operand->dtype == DType::I64) return operand;
    const Apply* inner = scalar::as_apply(operand, Opcode::Cast);
    if (inner == nullptr || inner->args[0]->dtype != DType::I64 || !is_integer(operand->dtype)) return nullptr;
    return intervals_.of(inner->args[0]).inside(range_of(operand->dtype)) ? inner->args[0] : nullptr;
  }

  Expr simplify_sum(const Expr& node) {
    std::optional<LinearForm> form = linear_form(node);
    if (!form) return nullptr;
    while (recombine(*form)) {
      form = linear_form(to_expr(*form));
      if (!form) return nullptr;
    }
    return to_expr(*form);
  }

  /// Replaces x // d * (c * d) + x % d * c by x * c, and (x // d) % e * (c * d) + x % d * c by x % (d * e) * c, once.
  bool recombine(LinearForm& form) {
    for (std::size_t low = 0; low < form.terms.size(); ++low) {
      const Apply* remainder = scalar::as_apply(form.terms[low].expr, Opcode::Mod);
      if (remainder == nullptr) continue;
      const std::optional<std::int64_t> d = scalar::as_i64(remainder->args[1]);
      std::int64_t wanted;
      if (!d || *d <= 0 || __builtin_mul_overflow(form.terms[low].coefficient, *d, &wanted)) continue;
      for (std::size_t high = 0; high < form.terms.size(); ++high) {
        if (form.terms[high].coefficient != wanted) continue;
        const Expr whole = whole_of(form.terms[high].expr, remainder->args[0], *d);
        if (!whole) continue;
        form.terms[low].expr = whole;
        form.terms.erase(form.terms.begin() + static_cast<std::ptrdiff_t>(high));
        return true;
      }
    }
    return false;
  }

  /// What `quotient` * d + x % d is, when `quotient` is x // d or (x // d) % e; null otherwise. x // d may stand
  /// merged, as y // (c * d) for x = y // c.
  Expr whole_of(const Expr& quotient, const Expr& x, std::int64_t d) {
    const Expr plain = simplify_division(x, d);
    if (scalar::same(quotient, plain)) return x;
    const Apply* outer = scalar::as_apply(quotient, Opcode::Mod);
    if (outer == nullptr || !scalar::same(outer->args[0], plain)) return nullptr;
    const std::optional<std::int64_t> e = scalar::as_i64(outer->args[1]);
    std::int64_t both;
    if (!e || *e <= 0 || __builtin_mul_overflow(*e, d, &both)) return nullptr;
    return scalar::apply(Opcode::Mod, {x, scalar::constant_i64(both)});
  }

  Expr simplify_division(const Expr& x, std::int64_t d) {
    const std::optional<LinearForm> form = ideal_form(x);
    if (form) return floor_division(*form, d);
    return scalar::apply(Opcode::FloorDiv, {x, scalar::constant_i64(d)});
  }

  /// A divisor g of d, 1 < g < d, such that the terms not divisible by g (and the constant's remainder) sum to a value
  /// in [0, g): then they do not touch (form // g) and the division goes through g. 0 when there is none.
  std::int64_t coarse_divisor(const LinearForm& form, std::int64_t d) {
    std::int64_t best = 0;
    for (const Term& term : form.terms) {
      const std::int64_t g = term.coefficient == INT64_MIN ? 1 : std::gcd(term.coefficient, d);
      if (g <= 1 || g >= d || g <= best) continue;
      const std::optional<std::int64_t> block = block_of(intervals_.of(split_by(form, g).rest), g);
      if (block && *block == 0) best = g;
    }
    return best;
  }

  /// form // d for an ideal form and d > 0.
  Expr floor_division(const LinearForm& form, std::int64_t d) {
    if (d == 1) return to_expr(form);
    Split split = split_by(form, d);
    if (const auto block = block_of(intervals_.of(split.rest), d)) {
      split.multiple.constant += *block;
      return to_expr(split.multiple);
    }
    if (const std::int64_t g = coarse_divisor(split.rest, d)) {
      return sum_of(split.multiple, floor_division(split_by(split.rest, g).multiple, d / g));
    }
    return sum_of(split.multiple, nested_division(split.rest, d));
  }

  /// rest // d, where rest may be a division itself: (x // c) // d = x // (c * d).
  Expr nested_division(const LinearForm& rest, std::int64_t d) {
    const Apply* inner = rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].coefficient == 1
                             ? scalar::as_apply(rest.terms[0].expr, Opcode::FloorDiv)
                             : nullptr;
    if (inner == nullptr) return apply_to(Opcode::FloorDiv, rest, d);
    const std::optional<std::int64_t> c = scalar::as_i64(inner->args[1]);
    std::int64_t both;
    if (!c || *c <= 0 || __builtin_mul_overflow(*c, d, &both)) return apply_to(Opcode::FloorDiv, rest, d);
    return scalar::apply(Opcode::FloorDiv, {inner->args[0], scalar::constant_i64(both)});
  }

  /// form % d for an ideal form and d > 0.
  Expr modulo(const LinearForm& form, std::int64_t d) {
    if (d == 1) return scalar::constant_i64(0);
    LinearForm rest = split_by(form, d).rest;
    const WideInterval bounds = intervals_.of(rest);
    if (const auto block = block_of(bounds, d)) {
      rest.constant -= *block * d;
      return to_expr(rest);
    }
    if (const std::int64_t g = coarse_divisor(rest, d)) {
      const Split fine = split_by(rest, g);
      LinearForm sum = fine.rest;
      sum.terms.push_back({modulo(fine.multiple, d / g), g});
      const std::optional<LinearForm> merged = linear_form(to_expr(sum));
      return to_expr(merged ? *merged : sum);
    }
    return nested_modulo(rest, d);
  }

  /// rest % d, where rest may be a modulo itself: (x % c) % d = x % d when d divides c.
  Expr nested_modulo(const LinearForm& rest, std::int64_t d) {
    const Apply* inner = rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].coefficient == 1
                             ? scalar::as_apply(rest.terms[0].expr, Opcode::Mod)
                             : nullptr;
    const std::optional<std::int64_t> c = inner == nullptr ? std::nullopt : scalar::as_i64(inner->args[1]);
    if (c && *c > 0 && *c % d == 0) return scalar::apply(Opcode::Mod, {inner->args[0], scalar::constant_i64(d)});
    return apply_to(Opcode::Mod, rest, d);
  }

  Intervals intervals_;
};

}  // namespace

Expr simplify_index(const Expr& expr, const Ranges& ranges) {
  IndexSimplifier simplifier(ranges);
  return scalar::rewrite(scalar::simplify(expr), [&](const Expr& node) -> Expr {
    if (const Expr chosen = simplifier.simplify_choice(node)) return chosen;
    return simplifier.simplify_node(node);
  });
}

}  // namespace corrloom::affine
