#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/affine/affine.h"
#include "ir/affine/order.h"

namespace corrloom::affine {

/// An i64 expression as a sum of products: integer coefficients, and factors that are axes, symbols, or what is neither
/// sum nor product (a quotient, a maximum, a read). Products of sizes, which linear forms take for one unknown, are
/// told apart here. The arithmetic is that of ideal integers; nothing (an empty optional) where a coefficient leaves 64
/// bits or terms get too many.
class Polynomial {
 public:
  /// The factors of a product, in structural order; none for the constant.
  using Product = std::vector<Expr>;
  struct Before {
    bool operator()(const Product& a, const Product& b) const;
  };
  using Terms = std::map<Product, std::int64_t, Before>;

  Polynomial() = default;
  explicit Polynomial(std::int64_t constant);
  static std::optional<Polynomial> of(const Expr& expr);

  const Terms& terms() const { return terms_; }
  std::int64_t constant() const;
  /// True when no factor has an axis in it.
  bool is_over_symbols() const;

  std::optional<Polynomial> plus(const Polynomial& other, std::int64_t factor = 1) const;
  std::optional<Polynomial> times(const Polynomial& other) const;
  /// Each term times the factors, which are in structural order.
  Polynomial times(const Product& factors) const;
  /// The sum as rest + axis * slope; nothing when the axis occurs in a higher power or inside a factor.
  struct Along;
  std::optional<Along> along(AxisId axis) const;
  /// The terms that a product with this coefficient divides, divided, and the others as they are.
  struct Divided;
  Divided divided_by(const Product& product, std::int64_t coefficient) const;

 private:
  using Known = std::unordered_map<const scalar::Node*, std::optional<Polynomial>>;
  static const std::optional<Polynomial>& of(const Expr& expr, Known& known);
  bool add(const Product& product, std::int64_t coefficient);

  Terms terms_;  ///< without zero coefficients
};

struct Polynomial::Along {
  Polynomial rest, slope;
};
struct Polynomial::Divided {
  Polynomial quotient, rest;
};

/// The expression of a polynomial, one spelling for equal ones.
Expr to_expr(const Polynomial& polynomial);

}  // namespace corrloom::affine
