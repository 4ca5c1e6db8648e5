#include "compiler/grad/facts.h"

#include <algorithm>

namespace corrloom::grad {
namespace {

using scalar::Opcode;

constexpr int kMaxDepth = 8;

}  // namespace

const Loop* Facts::range_of(const Expr& atom) const {
  const auto* reference = std::get_if<scalar::AxisRef>(&atom->kind);
  if (reference == nullptr) return nullptr;
  for (const Loop& loop : ranges) {
    if (loop.axis == reference->axis) return &loop;
  }
  return nullptr;
}

bool Facts::is_atom_nonnegative(const Expr& atom, int depth) const {
  if (depth > kMaxDepth) return false;
  if (const auto* symbol = std::get_if<scalar::SymbolRef>(&atom->kind))
    return notation.symbols[static_cast<std::size_t>(symbol->symbol.index)].kind == tensor::Symbol::Kind::Dimension;
  if (const Loop* loop = range_of(atom)) return !loop->begin || is_nonnegative(Polynomial::of(loop->begin), depth + 1);
  const auto* apply = std::get_if<scalar::Apply>(&atom->kind);
  if (apply == nullptr) return false;
  const auto is_so = [&](std::size_t k) { return is_nonnegative(Polynomial::of(apply->args[k]), depth + 1); };
  switch (apply->opcode) {
    case Opcode::Mod:
      return is_so(1);
    case Opcode::FloorDiv:
    case Opcode::Min:
      return is_so(0) && is_so(1);
    case Opcode::Max:
      return is_so(0) || is_so(1);
    case Opcode::If:
    case Opcode::Select:
      return is_so(1) && is_so(2);
    default:
      return false;
  }
}

bool Facts::is_nonnegative(const Polynomial& value, int depth) const {
  if (depth > kMaxDepth) return false;
  const auto is_good = [&](const Polynomial::Term& term) {
    return term.coefficient >= 0 && std::all_of(term.atoms.begin(), term.atoms.end(),
                                                [&](const Expr& atom) { return is_atom_nonnegative(atom, depth + 1); });
  };
  const auto all_good = [&](const Polynomial& one) {
    return std::all_of(one.terms().begin(), one.terms().end(), is_good);
  };
  if (all_good(value)) return true;
  for (const Polynomial& fact : nonnegative) {
    if (all_good(value - fact)) return true;
  }
  // x % c is at most c - 1.
  for (const Polynomial::Term& term : value.terms()) {
    const scalar::Apply* modulo = term.atoms.size() == 1 ? scalar::as_apply(term.atoms.front(), Opcode::Mod) : nullptr;
    const auto divisor = modulo != nullptr ? Polynomial::of(modulo->args[1]).constant() : std::nullopt;
    if (!divisor || *divisor <= 0 || term.coefficient >= 0) continue;
    const Polynomial atom = Polynomial::of_atom(term.atoms.front());
    const Polynomial least =
        value - Polynomial(term.coefficient) * atom + Polynomial(term.coefficient) * (*divisor - 1);
    if (is_nonnegative(least, depth + 1)) return true;
  }
  // The worst value of a variable that stands alone: its last where it is subtracted, its first where it is added.
  for (const Polynomial::Term& term : value.terms()) {
    if (term.atoms.size() != 1 || is_good(term)) continue;
    const Loop* loop = range_of(term.atoms.front());
    if (loop == nullptr || (term.coefficient > 0 && !loop->begin)) continue;
    const auto linear = value.linear_in(loop->axis);
    if (!linear || !linear->coefficient.constant()) continue;
    const Polynomial worst = term.coefficient < 0 ? Polynomial::of(loop->end) - 1 : Polynomial::of(loop->begin);
    if (is_nonnegative(linear->coefficient * worst + linear->rest, depth + 1)) return true;
  }
  return false;
}

bool Facts::is_zero_only_with(const Polynomial& value, const std::vector<Polynomial>& extents) const {
  const auto is_extent = [&](const Polynomial& one) {
    return std::any_of(extents.begin(), extents.end(), [&](const Polynomial& extent) { return extent == one; });
  };
  if (is_extent(value)) return true;
  // n // g with n % g == 0 is 0 only when n is.
  const Expr atom = value.atom();
  const scalar::Apply* quotient = atom ? scalar::as_apply(atom, Opcode::FloorDiv) : nullptr;
  if (quotient == nullptr || !is_extent(Polynomial::of(quotient->args[0]))) return false;
  const Expr remainder = scalar::apply(Opcode::Mod, quotient->args);
  return std::any_of(divisible.begin(), divisible.end(), [&](const Expr& one) { return scalar::same(one, remainder); });
}

bool Facts::is_nonzero(const Polynomial& value) const {
  if (const auto constant = value.constant()) return *constant != 0;
  const Expr expr = value.expr();
  return std::any_of(nonzero.begin(), nonzero.end(), [&](const Expr& one) { return scalar::same(one, expr); });
}

}  // namespace corrloom::grad
