#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::grad {

using scalar::AxisId;
using scalar::Expr;

/// An i64 expression as a sum of products: what index arithmetic is solved in. An atom is an axis, a symbol, or an
/// expression that is neither sum nor product (a floor division, a read); dimensions stay symbols, so `stride*i` is a
/// product of two atoms.
class Polynomial {
 public:
  struct Term {
    std::int64_t coefficient = 1;
    std::vector<Expr> atoms;
  };
  /// coefficient * axis + rest; neither of them mentions the axis.
  struct Linear;

  Polynomial() = default;
  Polynomial(std::int64_t constant);  // NOLINT(google-explicit-constructor): `p - 1` is the purpose
  static Polynomial of(const Expr& expr);
  /// The expression as one atom, whatever it is.
  static Polynomial of_atom(const Expr& expr);

  const std::vector<Term>& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  /// The value when there is no atom.
  std::optional<std::int64_t> constant() const;
  /// The atom when there is nothing else; null otherwise.
  Expr atom() const;
  /// The axis when there is nothing else.
  std::optional<AxisId> axis() const;
  bool mentions(AxisId axis) const;
  std::optional<Linear> linear_in(AxisId axis) const;
  /// The quotient by a single positive term, when every term holds it.
  std::optional<Polynomial> divided_by(const Polynomial& divisor) const;

  /// As one would write it: positive terms first, constants last.
  Expr expr() const;

  friend Polynomial operator+(const Polynomial& a, const Polynomial& b);
  friend Polynomial operator-(const Polynomial& a, const Polynomial& b);
  friend Polynomial operator*(const Polynomial& a, const Polynomial& b);
  friend bool operator==(const Polynomial& a, const Polynomial& b) { return (a - b).is_zero(); }

 private:
  void add(Term term);

  std::vector<Term> terms_;  ///< no two with the same atoms, none with coefficient 0
};

struct Polynomial::Linear {
  Polynomial coefficient;
  Polynomial rest;
};

/// True when the expression mentions the axis.
bool mentions(const Expr& expr, AxisId axis);

/// `expr` in the form of a polynomial when it is an i64 expression, as it is otherwise.
Expr tidy_index(const Expr& expr);

}  // namespace corrloom::grad
