#include "compiler/grad/polynomial.h"

#include <algorithm>

#include "ir/base/match.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

/// Products of sums grow: an expression beyond this many terms stays an atom.
constexpr std::size_t kMaxTerms = 64;

/// Arithmetic modulo 2^64, as the language's integers have it.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Removes from `atoms` what `part` holds; false when something is missing.
bool remove_atoms(std::vector<Expr>& atoms, const std::vector<Expr>& part) {
  for (const Expr& atom : part) {
    const auto found =
        std::find_if(atoms.begin(), atoms.end(), [&](const Expr& other) { return scalar::same(atom, other); });
    if (found == atoms.end()) return false;
    atoms.erase(found);
  }
  return true;
}

bool same_atoms(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  std::vector<Expr> left = a;
  return remove_atoms(left, b);
}

Expr product_of(const Polynomial::Term& term, std::int64_t coefficient) {
  Expr result;
  if (coefficient == -1 && !term.atoms.empty()) {
    result = scalar::apply(Opcode::Neg, {term.atoms.front()});
    for (std::size_t k = 1; k < term.atoms.size(); ++k) result = scalar::apply(Opcode::Mul, {result, term.atoms[k]});
    return result;
  }
  if (coefficient != 1 || term.atoms.empty()) result = scalar::constant_i64(coefficient);
  for (const Expr& atom : term.atoms) result = result ? scalar::apply(Opcode::Mul, {result, atom}) : atom;
  return result;
}

/// A floor division or modulo with its operands in polynomial form, folded where that is exact.
Polynomial divided(const scalar::Apply& apply, const Expr& expr) {
  const Polynomial left = Polynomial::of(apply.args[0]), right = Polynomial::of(apply.args[1]);
  const bool is_floor = apply.opcode == Opcode::FloorDiv;
  if (const auto divisor = right.constant(); divisor && *divisor > 0) {
    // c*q + r with 0 <= r < c constant: the part that c divides comes out.
    Polynomial whole;
    Polynomial rest;
    for (const Polynomial::Term& term : left.terms()) {
      Polynomial one = term.coefficient;
      for (const Expr& atom : term.atoms) one = one * Polynomial::of(atom);
      if (term.coefficient % *divisor == 0 && !term.atoms.empty())
        whole = whole + *one.divided_by(*divisor);
      else
        rest = rest + one;
    }
    if (const auto constant = rest.constant()) {
      const std::int64_t remainder = ((*constant % *divisor) + *divisor) % *divisor;
      return is_floor ? whole + Polynomial((*constant - remainder) / *divisor) : Polynomial(remainder);
    }
  }
  const Expr a = left.expr(), b = right.expr();
  const bool unchanged = scalar::same(a, apply.args[0]) && scalar::same(b, apply.args[1]);
  const Expr kept = unchanged ? expr : scalar::apply(apply.opcode, {a, b});
  const Expr folded = scalar::simplify(kept);
  if (const auto value = scalar::as_i64(folded)) return *value;
  if (right.constant() == std::optional<std::int64_t>(1)) return is_floor ? left : Polynomial(0);
  return Polynomial::of_atom(kept);
}

}  // namespace

Polynomial::Polynomial(std::int64_t constant) {
  if (constant != 0) terms_.push_back({constant, {}});
}

void Polynomial::add(Term term) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!same_atoms(terms_[k].atoms, term.atoms)) continue;
    terms_[k].coefficient = sum(terms_[k].coefficient, term.coefficient);
    if (terms_[k].coefficient == 0) terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(k));
    return;
  }
  if (term.coefficient != 0) terms_.push_back(std::move(term));
}

Polynomial Polynomial::of(const Expr& expr) {
  if (const auto value = scalar::as_i64(expr); value && expr->dtype == DType::I64) return *value;
  const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
  if (apply != nullptr && expr->dtype == DType::I64) {
    switch (apply->opcode) {
      case Opcode::Add:
        return of(apply->args[0]) + of(apply->args[1]);
      case Opcode::Sub:
        return of(apply->args[0]) - of(apply->args[1]);
      case Opcode::Neg:
        return Polynomial(0) - of(apply->args[0]);
      case Opcode::Mul: {
        const Polynomial left = of(apply->args[0]), right = of(apply->args[1]);
        if (left.terms_.size() * right.terms_.size() <= kMaxTerms) return left * right;
        break;
      }
      case Opcode::FloorDiv:
      case Opcode::Mod:
        return divided(*apply, expr);
      default:
        break;
    }
  }
  return of_atom(expr);
}

Polynomial Polynomial::of_atom(const Expr& expr) {
  Polynomial atom;
  atom.terms_.push_back({1, {expr}});
  return atom;
}

std::optional<std::int64_t> Polynomial::constant() const {
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_.front().atoms.empty()) return terms_.front().coefficient;
  return {};
}

Expr Polynomial::atom() const {
  const bool is_one = terms_.size() == 1 && terms_.front().coefficient == 1 && terms_.front().atoms.size() == 1;
  return is_one ? terms_.front().atoms.front() : nullptr;
}

std::optional<AxisId> Polynomial::axis() const {
  const Expr only = atom();
  const auto* reference = only ? std::get_if<scalar::AxisRef>(&only->kind) : nullptr;
  return reference == nullptr ? std::nullopt : std::optional(reference->axis);
}

bool Polynomial::mentions(AxisId axis) const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return std::any_of(term.atoms.begin(), term.atoms.end(),
                       [&](const Expr& atom) { return grad::mentions(atom, axis); });
  });
}

std::optional<Polynomial::Linear> Polynomial::linear_in(AxisId axis) const {
  Linear linear;
  bool is_there = false;
  for (const Term& term : terms_) {
    Term left{term.coefficient, {}};
    int times = 0;
    for (const Expr& atom : term.atoms) {
      const auto* reference = std::get_if<scalar::AxisRef>(&atom->kind);
      if (reference != nullptr && reference->axis == axis) {
        ++times;
      } else if (grad::mentions(atom, axis)) {
        return {};
      } else {
        left.atoms.push_back(atom);
      }
    }
    if (times > 1) return {};
    is_there = is_there || times == 1;
    (times == 1 ? linear.coefficient : linear.rest).add(std::move(left));
  }
  if (!is_there) return {};
  return linear;
}

std::optional<Polynomial> Polynomial::divided_by(const Polynomial& divisor) const {
  if (divisor.terms_.size() != 1) return {};
  const Term& by = divisor.terms_.front();
  Polynomial quotient;
  for (const Term& term : terms_) {
    Term left = term;
    if (by.coefficient <= 0 || term.coefficient % by.coefficient != 0 || !remove_atoms(left.atoms, by.atoms)) return {};
    left.coefficient /= by.coefficient;
    quotient.add(std::move(left));
  }
  return quotient;
}

Expr Polynomial::expr() const {
  Expr result;
  const auto append = [&](const Term& term) {
    const bool subtracts = result && term.coefficient < 0 && term.coefficient != INT64_MIN;
    const Expr part = product_of(term, subtracts ? -term.coefficient : term.coefficient);
    result = result ? scalar::apply(subtracts ? Opcode::Sub : Opcode::Add, {result, part}) : part;
  };
  for (const Term& term : terms_) {
    if (!term.atoms.empty() && term.coefficient > 0) append(term);
  }
  // `1 - i` reads better than `-i + 1`.
  const bool begins_with_constant = !result;
  for (const Term& term : terms_) {
    if (term.atoms.empty() && begins_with_constant) append(term);
  }
  for (const Term& term : terms_) {
    if (!term.atoms.empty() && term.coefficient < 0) append(term);
  }
  for (const Term& term : terms_) {
    if (term.atoms.empty() && !begins_with_constant) append(term);
  }
  return result ? result : scalar::constant_i64(0);
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  Polynomial result = a;
  for (const Polynomial::Term& term : b.terms_) result.add(term);
  return result;
}

Polynomial operator-(const Polynomial& a, const Polynomial& b) {
  return a + Polynomial(-1) * b;
}

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (const Polynomial::Term& left : a.terms_) {
    for (const Polynomial::Term& right : b.terms_) {
      Polynomial::Term term{product(left.coefficient, right.coefficient), left.atoms};
      term.atoms.insert(term.atoms.end(), right.atoms.begin(), right.atoms.end());
      result.add(std::move(term));
    }
  }
  return result;
}

bool mentions(const Expr& expr, AxisId axis) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) {
    const auto* reference = std::get_if<scalar::AxisRef>(&node->kind);
    found = found || (reference != nullptr && reference->axis == axis);
  });
  return found;
}

Expr tidy_index(const Expr& expr) {
  return expr->dtype == DType::I64 ? Polynomial::of(expr).expr() : expr;
}

}  // namespace corrloom::grad
