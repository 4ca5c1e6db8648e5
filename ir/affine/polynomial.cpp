#include "ir/affine/polynomial.h"

#include <algorithm>

namespace corrloom::affine {
namespace {

using scalar::Opcode;

/// Most terms of a polynomial: subscripts have a handful.
constexpr std::size_t kMostTerms = 64;

bool stands_before(const Expr& a, const Expr& b) {
  return compare(a, b) < 0;
}

bool uses_an_axis(const Expr& expr) {
  bool uses = false;
  scalar::for_each_node(expr,
                        [&](const Expr& node) { uses = uses || std::holds_alternative<scalar::AxisRef>(node->kind); });
  return uses;
}

bool is_the_axis(const Expr& expr, AxisId axis) {
  const auto* reference = std::get_if<scalar::AxisRef>(&expr->kind);
  return reference != nullptr && reference->axis == axis;
}

bool mentions(const Expr& expr, AxisId axis) {
  bool uses = false;
  scalar::for_each_node(expr, [&](const Expr& node) { uses = uses || is_the_axis(node, axis); });
  return uses;
}

}  // namespace

bool Polynomial::Before::operator()(const Product& a, const Product& b) const {
  // Long products first: the constant comes last.
  if (a.size() != b.size()) return a.size() > b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), stands_before);
}

Polynomial::Polynomial(std::int64_t constant) {
  if (constant != 0) terms_.emplace(Product{}, constant);
}

bool Polynomial::add(const Product& product, std::int64_t coefficient) {
  const auto [place, is_new] = terms_.emplace(product, 0);
  if (__builtin_add_overflow(place->second, coefficient, &place->second)) return false;
  if (place->second == 0) terms_.erase(place);
  return terms_.size() <= kMostTerms;
}

std::optional<Polynomial> Polynomial::of(const Expr& expr) {
  Known known;
  return expr->dtype == DType::I64 ? of(expr, known) : std::nullopt;
}

const std::optional<Polynomial>& Polynomial::of(const Expr& expr, Known& known) {
  if (const auto found = known.find(expr.get()); found != known.end()) return found->second;
  const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
  const auto operand = [&](std::size_t k) { return of(apply->args[k], known); };
  std::optional<Polynomial> result;
  if (const auto constant = scalar::as_i64(expr)) {
    result = Polynomial(*constant);
  } else if (apply != nullptr && (apply->opcode == Opcode::Add || apply->opcode == Opcode::Sub)) {
    const std::optional<Polynomial> x = operand(0), y = operand(1);
    if (x && y) result = x->plus(*y, apply->opcode == Opcode::Sub ? -1 : 1);
  } else if (apply != nullptr && apply->opcode == Opcode::Mul) {
    const std::optional<Polynomial> x = operand(0), y = operand(1);
    if (x && y) result = x->times(*y);
  } else if (apply != nullptr && apply->opcode == Opcode::Neg) {
    const std::optional<Polynomial> x = operand(0);
    if (x) result = Polynomial().plus(*x, -1);
  } else {
    result.emplace();
    result->terms_.emplace(Product{expr}, 1);
  }
  return known[expr.get()] = std::move(result);
}

std::int64_t Polynomial::constant() const {
  const auto found = terms_.find(Product{});
  return found == terms_.end() ? 0 : found->second;
}

bool Polynomial::is_over_symbols() const {
  return std::none_of(terms_.begin(), terms_.end(),
                      [](const auto& term) { return std::any_of(term.first.begin(), term.first.end(), uses_an_axis); });
}

std::optional<Polynomial> Polynomial::plus(const Polynomial& other, std::int64_t factor) const {
  Polynomial sum = *this;
  for (const auto& [product, coefficient] : other.terms_) {
    std::int64_t scaled = 0;
    if (__builtin_mul_overflow(coefficient, factor, &scaled) || !sum.add(product, scaled)) return std::nullopt;
  }
  return sum;
}

std::optional<Polynomial> Polynomial::times(const Polynomial& other) const {
  Polynomial out;
  for (const auto& [left, a] : terms_) {
    for (const auto& [right, b] : other.terms_) {
      Product product;
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(product), stands_before);
      std::int64_t coefficient = 0;
      if (__builtin_mul_overflow(a, b, &coefficient) || !out.add(product, coefficient)) return std::nullopt;
    }
  }
  return out;
}

Polynomial Polynomial::times(const Product& factors) const {
  Polynomial out;
  for (const auto& [product, coefficient] : terms_) {
    Product longer;
    longer.reserve(product.size() + factors.size());
    std::merge(product.begin(), product.end(), factors.begin(), factors.end(), std::back_inserter(longer),
               stands_before);
    out.terms_.emplace(std::move(longer), coefficient);
  }
  return out;
}

std::optional<Polynomial::Along> Polynomial::along(AxisId axis) const {
  Along out;
  for (const auto& [product, coefficient] : terms_) {
    const auto place =
        std::find_if(product.begin(), product.end(), [&](const Expr& factor) { return is_the_axis(factor, axis); });
    Product others = product;
    if (place != product.end()) others.erase(others.begin() + (place - product.begin()));
    if (std::any_of(others.begin(), others.end(), [&](const Expr& factor) { return mentions(factor, axis); }))
      return std::nullopt;
    Polynomial& part = place != product.end() ? out.slope : out.rest;
    if (!part.add(others, coefficient)) return std::nullopt;
  }
  return out;
}

Polynomial::Divided Polynomial::divided_by(const Product& product, std::int64_t coefficient) const {
  Divided out;
  for (const auto& [factors, count] : terms_) {
    const bool divides = std::includes(factors.begin(), factors.end(), product.begin(), product.end(), stands_before) &&
                         coefficient != 0 && count % coefficient == 0;
    if (!divides) {
      out.rest.terms_.emplace(factors, count);
      continue;
    }
    Product left;
    std::set_difference(factors.begin(), factors.end(), product.begin(), product.end(), std::back_inserter(left),
                        stands_before);
    out.quotient.terms_.emplace(std::move(left), count / coefficient);
  }
  return out;
}

Expr to_expr(const Polynomial& polynomial) {
  Expr sum = nullptr;
  for (const auto& [product, coefficient] : polynomial.terms()) {
    // The lowest integer has no opposite; adding it is as good.
    const bool subtract = sum != nullptr && coefficient < 0 && coefficient != INT64_MIN;
    const std::int64_t factor = subtract ? -coefficient : coefficient;
    Expr term = nullptr;
    for (const Expr& leaf : product) term = term ? scalar::apply(Opcode::Mul, {term, leaf}) : leaf;
    if (!term) {
      term = scalar::constant_i64(factor);
    } else if (factor != 1) {
      term = scalar::apply(Opcode::Mul, {term, scalar::constant_i64(factor)});
    }
    sum = sum ? scalar::apply(subtract ? Opcode::Sub : Opcode::Add, {sum, term}) : term;
  }
  return sum ? sum : scalar::constant_i64(0);
}

}  // namespace corrloom::affine
