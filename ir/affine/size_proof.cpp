#include "ir/affine/size_proof.h"

#include <algorithm>

namespace corrloom::affine {
namespace {

using scalar::Apply;
using scalar::Opcode;

/// How many facts one proof may add up, and how many combinations it may try.
constexpr int kMostFacts = 5, kMostTries = 400;

Expr minus(const Expr& a, const Expr& b) {
  return scalar::apply(Opcode::Sub, {a, b});
}

/// Where the box has points, an extent is above 0: max(x, 0) is x.
Expr where_it_counts(const Expr& extent) {
  const Apply* apply = scalar::as_apply(extent, Opcode::Max);
  if (apply == nullptr) return extent;
  if (scalar::is_constant_i64(apply->args[1], 0)) return apply->args[0];
  return scalar::is_constant_i64(apply->args[0], 0) ? apply->args[1] : extent;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

SizeProof::SizeProof(std::vector<SizedAxis> axes, NeverNegative symbols)
    : axes_(std::move(axes)), symbols_(std::move(symbols)) {
  for (SizedAxis& axis : axes_) {
    axis.extent = where_it_counts(axis.extent);
    std::optional<Polynomial> extent = Polynomial::of(axis.extent);
    if (extent) extent = extent->plus(Polynomial(-1));
    if (extent && extent->is_over_symbols()) facts_.push_back(*std::move(extent));
  }
}

/// A factor that is not negative by its form alone.
bool SizeProof::is_plainly_never_negative(const Expr& factor) const {
  return is_nonnegative(factor, symbols_);
}

/// Bounds of a quotient, remainder, minimum or maximum in terms of its operands.
void SizeProof::add_facts_of(const Expr& factor, std::vector<Polynomial>& facts) const {
  const auto* apply = std::get_if<Apply>(&factor->kind);
  if (apply == nullptr || apply->args.size() != 2) return;
  const auto add = [&](const Expr& never_negative) {
    if (const auto fact = Polynomial::of(never_negative)) facts.push_back(*fact);
  };
  const Expr &x = apply->args[0], &y = apply->args[1];
  const std::optional<std::int64_t> divisor = scalar::as_i64(y);
  const bool divides = divisor && *divisor > 0;
  switch (apply->opcode) {
    case Opcode::FloorDiv: {
      if (!divides) return;
      const Expr rest = minus(x, scalar::apply(Opcode::Mul, {factor, y}));
      add(rest);
      add(minus(minus(y, scalar::constant_i64(1)), rest));
      return;
    }
    case Opcode::Mod:
      // A remainder by 0 is 0, too.
      if (divides || is_plainly_never_negative(y)) add(factor);
      if (divides) add(minus(minus(y, scalar::constant_i64(1)), factor));
      return;
    case Opcode::Min:
    case Opcode::Max: {
      const bool is_min = apply->opcode == Opcode::Min;
      for (const Expr& operand : {x, y}) add(is_min ? minus(operand, factor) : minus(factor, operand));
      return;
    }
    default:
      return;
  }
}

/// Over symbols: as a sum of facts, each so many times, and of what is not negative by its form.
bool SizeProof::is_sum_of_facts(const Polynomial& polynomial, int depth, int& budget) const {
  const auto plain = [&](const Expr& factor) { return is_plainly_never_negative(factor); };
  const Polynomial::Product* worst = nullptr;
  std::int64_t lack = 0;
  for (const auto& [product, coefficient] : polynomial.terms()) {
    const bool never_negative = coefficient > 0 && std::all_of(product.begin(), product.end(), plain);
    if (never_negative) continue;
    worst = &product;
    lack = coefficient;
    break;
  }
  if (worst == nullptr) return true;
  if (depth == kMostFacts || budget <= 0) return false;
  std::vector<Polynomial> facts = facts_;
  for (const auto& [product, coefficient] : polynomial.terms()) {
    for (const Expr& factor : product) add_facts_of(factor, facts);
  }
  for (const Polynomial& fact : facts) {
    for (const auto& [product, coefficient] : fact.terms()) {
      // The fact, times further sizes, has a term that takes this one away.
      if ((coefficient < 0) != (lack < 0)) continue;
      if (lack == INT64_MIN || coefficient == INT64_MIN) continue;
      Polynomial term;
      if (product.size() > worst->size()) continue;
      const std::optional<Polynomial> whole = [&]() -> std::optional<Polynomial> {
        Polynomial::Product others = *worst;
        for (const Expr& factor : product) {
          const auto place = std::find_if(others.begin(), others.end(),
                                          [&](const Expr& other) { return scalar::same(other, factor); });
          if (place == others.end()) return std::nullopt;
          others.erase(place);
        }
        if (!std::all_of(others.begin(), others.end(), plain)) return std::nullopt;
        return fact.times(others);
      }();
      if (!whole || --budget < 0) continue;
      const std::int64_t times = ceil_div(std::abs(lack), std::abs(coefficient));
      const std::optional<Polynomial> left = polynomial.plus(*whole, -times);
      if (left && is_sum_of_facts(*left, depth + 1, budget)) return true;
    }
  }
  return false;
}

/// From the innermost axis outwards: a sum is least at one end of an axis when its slope along it has one sign.
bool SizeProof::holds(Polynomial polynomial) const {
  for (std::size_t k = axes_.size(); k-- > 0;) {
    const std::optional<Polynomial::Along> along = polynomial.along(axes_[k].axis);
    if (!along) return false;
    if (along->slope.terms().empty()) continue;
    const std::optional<Polynomial> fall = Polynomial().plus(along->slope, -1);
    if (holds(along->slope)) {
      polynomial = along->rest;
    } else if (fall && holds(*fall)) {
      const std::optional<Polynomial> extent = Polynomial::of(axes_[k].extent);
      const std::optional<Polynomial> last = extent ? extent->plus(Polynomial(-1)) : std::nullopt;
      const std::optional<Polynomial> added = last ? along->slope.times(*last) : std::nullopt;
      const std::optional<Polynomial> least = added ? along->rest.plus(*added) : std::nullopt;
      if (!least) return false;
      polynomial = *least;
    } else {
      return false;
    }
  }
  if (!polynomial.is_over_symbols()) return false;
  int budget = kMostTries;
  return is_sum_of_facts(polynomial, 0, budget);
}

bool SizeProof::is_never_negative(const Expr& expr) const {
  const std::optional<Polynomial> polynomial = Polynomial::of(expr);
  return polynomial && holds(*polynomial);
}

bool SizeProof::stays_inside(const Expr& index, const Expr& extent) const {
  return is_never_negative(index) && is_never_negative(minus(minus(extent, index), scalar::constant_i64(1)));
}

/// x // d or x % d where d is a product of sizes and the part of x that d does not divide is in [0, d); null otherwise.
Expr SizeProof::simplify_division(const Apply& apply) const {
  const std::optional<Polynomial> x = Polynomial::of(apply.args[0]), d = Polynomial::of(apply.args[1]);
  if (!x || !d || d->terms().size() != 1 || scalar::as_i64(apply.args[1])) return nullptr;
  const auto& [product, coefficient] = *d->terms().begin();
  const Polynomial::Divided divided = x->divided_by(product, coefficient);
  const std::optional<Polynomial> room = d->plus(divided.rest, -1);
  const std::optional<Polynomial> above = room ? room->plus(Polynomial(-1)) : std::nullopt;
  if (!above || !holds(divided.rest) || !holds(*above)) return nullptr;
  return to_expr(apply.opcode == Opcode::FloorDiv ? divided.quotient : divided.rest);
}

Expr SizeProof::simplify(const Expr& expr) const {
  return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
    const auto* apply = std::get_if<Apply>(&node->kind);
    if (apply == nullptr || node->dtype != DType::I64) return nullptr;
    if (apply->opcode != Opcode::FloorDiv && apply->opcode != Opcode::Mod) return nullptr;
    return simplify_division(*apply);
  });
}

}  // namespace corrloom::affine
