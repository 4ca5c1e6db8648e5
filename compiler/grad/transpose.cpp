#include "compiler/grad/transpose.h"

#include <algorithm>
#include <numeric>

#include "compiler/grad/absorb.h"
#include "compiler/grad/algebra.h"
#include "compiler/grad/facts.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

/// `left = right`, where only `left` mentions loop variables. `dimension` is the subscript that it came from.
struct Equation {
  Polynomial left;
  Polynomial right;
  std::size_t dimension = 0;
  bool is_digit = false;  ///< a modulo of which `right` is known to be a value
};

/// A floor division or modulo that is a whole side of an equation.
struct Division {
  Opcode opcode;
  Polynomial operand;
  Polynomial divisor;
};

std::optional<Division> division_of(const Polynomial& side) {
  const Expr atom = side.atom();
  const auto* apply = atom ? std::get_if<scalar::Apply>(&atom->kind) : nullptr;
  if (apply == nullptr || (apply->opcode != Opcode::FloorDiv && apply->opcode != Opcode::Mod)) return {};
  return Division{apply->opcode, Polynomial::of(apply->args[0]), Polynomial::of(apply->args[1])};
}

/// The conditions of `if a && b then ... else 0`, and what stands under them.
void split_conditions(const Expr& value, std::vector<Expr>& conditions, Expr& rest) {
  rest = value;
  const scalar::Apply* choice = scalar::as_apply(value, Opcode::If);
  if (choice == nullptr || !is_number(choice->args[2], 0)) return;
  std::vector<Expr> open = {choice->args[0]};
  while (!open.empty()) {
    const Expr one = open.back();
    open.pop_back();
    if (const scalar::Apply* all = scalar::as_apply(one, Opcode::LazyAnd)) {
      open.push_back(all->args[1]);
      open.push_back(all->args[0]);
    } else {
      conditions.push_back(one);
    }
  }
  rest = choice->args[1];
}

/// Solves the equations of one scatter, one after the other.
class Solver {
 public:
  Solver(Notation& notation, Facts facts, std::vector<Loop> loops, std::size_t outer, Expr value, std::size_t rank)
      : notation_(notation), facts_(std::move(facts)), loops_(std::move(loops)), value_(std::move(value)) {
    for (std::size_t k = 0; k < outer; ++k) outer_.push_back(loops_[k].axis);
    for (const Loop& range : facts_.ranges) extents_.push_back(Polynomial::of(range.end));
    hints_.resize(rank);
  }

  void require(const Polynomial& left, const Polynomial& right, std::size_t dimension, bool is_digit = false) {
    equations_.push_back({left, right, dimension, is_digit});
  }
  void require(const Expr& condition) { conditions_.push_back(condition); }

  /// clamp(left, 0, extent - 1) = element: the first and the last element take all that is beyond them.
  void require_clamped(const Polynomial& left, const Polynomial& element, const Polynomial& extent,
                       std::size_t dimension) {
    const Expr zero = scalar::constant_i64(0), last = (extent - 1).expr(), x = element.expr();
    const auto axis = unit_variable(left);
    if (!axis) {
      const Expr raised = scalar::apply(Opcode::Max, {left.expr(), zero});
      conditions_.push_back(compare(Opcode::Eq, scalar::apply(Opcode::Min, {raised, last}), x));
      return;
    }
    const Loop range = *loop(*axis);
    const Polynomial alone = element - left.linear_in(*axis)->rest;
    Polynomial begin = alone, end = alone + 1;
    if (!facts_.is_nonnegative(left)) {
      const Expr first = range.begin ? range.begin : zero;
      begin = Polynomial::of(scalar::apply(Opcode::If, {compare(Opcode::Eq, x, zero), first, begin.expr()}));
    }
    if (!facts_.is_nonnegative(extent - 1 - left)) {
      end = Polynomial::of(scalar::apply(Opcode::If, {compare(Opcode::Eq, x, last), range.end, end.expr()}));
    }
    narrow(*axis, begin, end);
    if (!hints_[dimension]) hints_[dimension] = *axis;
  }

  Gather run() {
    while (!equations_.empty()) {
      normalise();
      const bool solved = solve_constant() || solve_alone() || solve_digits() || solve_pair() || solve_divisible() ||
                          solve_linear() || solve_floor() || solve_modulo();
      if (!solved) try_all();
    }
    settle_ranges();
    drop_unused();
    return {std::move(loops_), value_, std::move(hints_), std::move(required_)};
  }

 private:
  const Loop* loop(AxisId axis) const {
    const auto found = std::find_if(loops_.begin(), loops_.end(), [&](const Loop& one) { return one.axis == axis; });
    return found == loops_.end() ? nullptr : &*found;
  }
  bool has_loops(const Expr& expr) const {
    return std::any_of(loops_.begin(), loops_.end(), [&](const Loop& one) { return mentions(expr, one.axis); });
  }
  bool has_loops(const Polynomial& value) const {
    return std::any_of(loops_.begin(), loops_.end(), [&](const Loop& one) { return value.mentions(one.axis); });
  }
  bool is_outer(AxisId axis) const { return std::find(outer_.begin(), outer_.end(), axis) != outer_.end(); }

  /// Moves what no loop variable is in to the right.
  void normalise() {
    for (Equation& equation : equations_) {
      Polynomial moved;
      for (const Polynomial::Term& term : equation.left.terms()) {
        Polynomial one = term.coefficient;
        for (const Expr& atom : term.atoms) one = one * Polynomial::of_atom(atom);
        if (!has_loops(one)) moved = moved + one;
      }
      equation.left = equation.left - moved;
      equation.right = equation.right - moved;
    }
  }
  void drop(const Equation& equation) { equations_.erase(equations_.begin() + (&equation - equations_.data())); }

  /// Puts `with` in the place of a loop variable, everywhere.
  void replace(AxisId axis, const Expr& with) {
    const auto replacement = [&](AxisId one) -> Expr { return one == axis ? with : nullptr; };
    value_ = substitute(value_, replacement);
    for (Expr& condition : conditions_) condition = substitute(condition, replacement);
    for (auto& [value, opcode, bound] : bounds_) {
      value = substitute(value, replacement);
      bound = substitute(bound, replacement);
    }
    for (Loop& one : loops_) {
      if (one.begin) one.begin = substitute(one.begin, replacement);
      one.end = substitute(one.end, replacement);
    }
    for (Equation& equation : equations_) {
      equation.left = Polynomial::of(substitute(equation.left.expr(), replacement));
      equation.right = Polynomial::of(substitute(equation.right.expr(), replacement));
    }
    std::erase_if(facts_.ranges, [&](const Loop& one) { return one.axis == axis || loop(one.axis) != nullptr; });
    facts_.ranges.insert(facts_.ranges.end(), loops_.begin(), loops_.end());
  }

  /// The solution `axis = with`, which must lie in the variable's range. Where it does not, the value must vanish: a
  /// read at the variable is padded with 0 where that is enough, else there is a condition.
  void assign(AxisId axis, const Polynomial& with, std::size_t dimension, bool is_inside = false) {
    const Expr expr = with.expr();
    if (!release(axis, with)) {
      conditions_.push_back(compare(Opcode::Eq, scalar::axis(axis), expr));
      return;
    }
    const Loop range = *loop(axis);
    std::erase_if(loops_, [&](const Loop& one) { return one.axis == axis; });
    const Polynomial end = Polynomial::of(range.end);
    const Polynomial begin = range.begin ? Polynomial::of(range.begin) : Polynomial(0);
    const bool is_above = is_inside || facts_.is_nonnegative(with - begin);
    const bool is_below = is_inside || facts_.is_nonnegative(end - 1 - with);
    if (!is_above || !is_below) {
      const Expr padded = range.begin ? nullptr : padded_at(notation_, value_, axis, range.end);
      if (padded) {
        value_ = padded;
      } else {
        if (!is_above) bounds_.push_back({expr, Opcode::Ge, begin.expr()});
        if (!is_below) bounds_.push_back({expr, Opcode::Lt, end.expr()});
      }
    }
    if (dimension < hints_.size() && !hints_[dimension]) hints_[dimension] = axis;
    replace(axis, expr);
  }

  /// Prepares for ranges that use `axis` to use what `with` uses: a variable that `with` itself needs gets a range of
  /// its own, and the one that it had as a bound. False when there is none.
  bool release(AxisId axis, const Polynomial& with) {
    std::vector<Loop> released;
    for (const Loop& one : loops_) {
      const bool uses_axis = (one.begin && mentions(one.begin, axis)) || mentions(one.end, axis);
      if (one.axis == axis || !uses_axis || !depends_on(with, one.axis)) continue;
      const auto begin = one.begin ? extreme(Polynomial::of(one.begin), axis, false) : Polynomial(0);
      const auto end = extreme(Polynomial::of(one.end), axis, true);
      if (!begin || !end) return false;
      released.push_back({one.axis, begin->is_zero() ? nullptr : begin->expr(), end->expr()});
    }
    for (const Loop& wider : released) {
      Loop& one = *std::find_if(loops_.begin(), loops_.end(), [&](const Loop& own) { return own.axis == wider.axis; });
      const Expr variable = scalar::axis(one.axis);
      if (one.begin) bounds_.push_back({variable, Opcode::Ge, one.begin});
      bounds_.push_back({variable, Opcode::Lt, one.end});
      one = wider;
      note_range(one);
    }
    return true;
  }

  /// What is known of a variable follows from the range that it has now.
  void note_range(const Loop& range) {
    for (Loop& known : facts_.ranges) {
      if (known.axis == range.axis) known = range;
    }
  }

  /// The greatest or least value where `axis` is in its range, when the value is linear in it.
  std::optional<Polynomial> extreme(const Polynomial& value, AxisId axis, bool greatest) const {
    if (!value.mentions(axis)) return value;
    const auto linear = value.linear_in(axis);
    const auto coefficient = linear ? linear->coefficient.constant() : std::nullopt;
    if (!coefficient) return {};
    const Loop& range = *loop(axis);
    const Polynomial first = range.begin ? Polynomial::of(range.begin) : Polynomial(0);
    const Polynomial last = Polynomial::of(range.end) - 1;
    return Polynomial(*coefficient) * ((*coefficient > 0) == greatest ? last : first) + linear->rest;
  }

  /// An equation without variables is a condition on the element.
  bool solve_constant() {
    for (const Equation& equation : equations_) {
      if (!equation.left.is_zero()) continue;
      // `x == 0` rather than `x - 0 == 0`: the variable of the element stands alone where it can.
      const Polynomial right = equation.right;
      if (right.constant() != std::optional<std::int64_t>(0)) conditions_.push_back(equality(right));
      drop(equation);
      return true;
    }
    return false;
  }

  /// `value == 0` with one variable moved to its left.
  static Expr equality(const Polynomial& value) {
    for (const Polynomial::Term& term : value.terms()) {
      const bool stands_alone = term.atoms.size() == 1 && (term.coefficient == 1 || term.coefficient == -1) &&
                                std::holds_alternative<scalar::AxisRef>(term.atoms.front()->kind);
      if (!stands_alone) continue;
      const Polynomial alone = Polynomial::of_atom(term.atoms.front());
      const Polynomial rest = term.coefficient == 1 ? alone - value : value + alone;
      return compare(Opcode::Eq, term.atoms.front(), rest.expr());
    }
    return compare(Opcode::Eq, value.expr(), scalar::constant_i64(0));
  }

  /// X[i]
  bool solve_alone() {
    for (const Equation& equation : equations_) {
      const auto axis = equation.left.axis();
      if (!axis || loop(*axis) == nullptr) continue;
      const Equation solved = equation;
      drop(equation);
      assign(*axis, solved.right, solved.dimension);
      return true;
    }
    return false;
  }

  /// X[s*e + v] with v in 0..s: v = x % s, e = x // s.
  bool solve_digits() {
    for (const Equation& equation : equations_) {
      for (const Loop& one : loops_) {
        const auto linear = equation.left.linear_in(one.axis);
        if (one.begin || !linear || linear->coefficient.constant() != std::optional<std::int64_t>(1)) continue;
        if (linear->rest.is_zero()) continue;
        const auto base = base_for(linear->rest, Polynomial::of(one.end));
        if (!base) continue;
        const Equation solved = equation;
        const Polynomial higher = *linear->rest.divided_by(*base);
        const AxisId axis = one.axis;
        const bool fills_base = *base == Polynomial::of(one.end);
        drop(equation);
        const Expr x = solved.right.expr(), s = base->expr();
        need_nonzero(*base);
        const bool is_named = higher.axis() && is_outer(*higher.axis());
        equations_.push_back({higher, Polynomial::of(scalar::apply(Opcode::FloorDiv, {x, s})),
                              is_named ? solved.dimension : hints_.size()});
        const std::size_t named = is_named ? hints_.size() : solved.dimension;
        assign(axis, Polynomial::of(scalar::apply(Opcode::Mod, {x, s})), named, fills_base);
        return true;
      }
    }
    return false;
  }

  /// A base s that divides `rest` and is at least the number of values of the last digit.
  static std::optional<Polynomial> base_for(const Polynomial& rest, const Polynomial& count) {
    if (const auto least = count.constant()) {
      std::int64_t common = 0;
      for (const Polynomial::Term& term : rest.terms()) {
        if (term.coefficient == INT64_MIN) return {};
        common = std::gcd(common, term.coefficient);
      }
      return common >= *least && common > 1 ? std::optional(Polynomial(common)) : std::nullopt;
    }
    const bool divides = count.terms().size() == 1 && count.terms().front().coefficient > 0 && rest.divided_by(count);
    return divides ? std::optional(count) : std::nullopt;
  }

  /// X[e // d, e % d]: e = d*x + y.
  bool solve_pair() {
    for (const Equation& quotient : equations_) {
      const auto floor = division_of(quotient.left);
      if (!floor || floor->opcode != Opcode::FloorDiv) continue;
      for (const Equation& remainder : equations_) {
        const auto modulo = division_of(remainder.left);
        if (!modulo || modulo->opcode != Opcode::Mod) continue;
        const auto whole = undivided(*floor, *modulo);
        if (!whole) continue;
        const Polynomial divisor = modulo->divisor, left = *whole;
        const Polynomial right = divisor * quotient.right + remainder.right;
        bound_digit(remainder.right, divisor);
        const std::size_t dimension = remainder.dimension;
        const auto first = &quotient - equations_.data(), second = &remainder - equations_.data();
        equations_.erase(equations_.begin() + std::max(first, second));
        equations_.erase(equations_.begin() + std::min(first, second));
        equations_.push_back({left, right, dimension});
        return true;
      }
    }
    return false;
  }

  /// What `d*quotient + remainder` is, when the two belong together.
  static std::optional<Polynomial> undivided(const Division& floor, const Division& modulo) {
    if (floor.operand == modulo.operand && floor.divisor == modulo.divisor) return modulo.operand;
    const auto inner = division_of(modulo.operand);
    if (!inner || inner->opcode != Opcode::FloorDiv) return {};
    const bool belong = floor.operand == inner->operand && floor.divisor == inner->divisor * modulo.divisor;
    return belong ? std::optional(modulo.operand) : std::nullopt;
  }

  void bound_digit(const Polynomial& digit, const Polynomial& divisor) {
    if (!facts_.is_nonnegative(digit)) bounds_.push_back({digit.expr(), Opcode::Ge, scalar::constant_i64(0)});
    if (!facts_.is_nonnegative(divisor - 1 - digit)) bounds_.push_back({digit.expr(), Opcode::Lt, divisor.expr()});
  }

  /// X[e // d] under the condition that d divides e: e = d*x.
  bool solve_divisible() {
    std::vector<Expr> conditions;
    Expr rest;
    split_conditions(value_, conditions, rest);
    for (const Equation& equation : equations_) {
      const auto floor = division_of(equation.left);
      if (!floor || floor->opcode != Opcode::FloorDiv) continue;
      const auto divides = [&](const Expr& condition) {
        const scalar::Apply* equal = scalar::as_apply(condition, Opcode::Eq);
        if (equal == nullptr || !scalar::is_constant_i64(equal->args[1], 0)) return false;
        const auto modulo = division_of(Polynomial::of(equal->args[0]));
        return modulo && modulo->opcode == Opcode::Mod && modulo->operand == floor->operand &&
               modulo->divisor == floor->divisor;
      };
      const auto found = std::find_if(conditions.begin(), conditions.end(), divides);
      if (found == conditions.end()) continue;
      need_nonzero(floor->divisor);
      conditions.erase(found);
      Expr left;
      for (const Expr& condition : conditions) left = both(left, condition);
      value_ = choose(left, rest);
      const Equation solved = equation;
      drop(equation);
      equations_.push_back({floor->operand, floor->divisor * solved.right, solved.dimension});
      return true;
    }
    return false;
  }

  void need_nonzero(const Polynomial& value) {
    if (facts_.is_nonzero(value) || facts_.is_zero_only_with(value, extents_)) return;
    const Expr condition = compare(Opcode::Ne, value.expr(), scalar::constant_i64(0));
    const auto is_it = [&](const Expr& one) { return scalar::same(one, condition); };
    if (std::none_of(required_.begin(), required_.end(), is_it)) required_.push_back(condition);
  }
  void need_positive(const Polynomial& value) {
    const Expr atom = value.atom();
    const scalar::Apply* most = atom ? scalar::as_apply(atom, Opcode::Max) : nullptr;
    if (facts_.is_nonnegative(value - 1) || (most != nullptr && scalar::is_constant_i64(most->args[1], 1))) return;
    const bool is_quotient = atom && scalar::as_apply(atom, Opcode::FloorDiv) != nullptr;
    if (facts_.is_nonnegative(value) || (is_quotient && facts_.is_zero_only_with(value, extents_)))
      return need_nonzero(value);
    required_.push_back(compare(Opcode::Gt, value.expr(), scalar::constant_i64(0)));
  }

  /// c*v + rest: indices of the left side first, they have the longest ranges; coefficients 1 before others.
  bool solve_linear() {
    const Equation* best = nullptr;
    AxisId best_axis;
    int best_rank = 4;
    for (const Equation& equation : equations_) {
      for (const Loop& one : loops_) {
        const auto linear = equation.left.linear_in(one.axis);
        if (!linear || has_loops(linear->coefficient)) continue;
        const auto constant = linear->coefficient.constant();
        const bool is_unit = constant && (*constant == 1 || *constant == -1);
        const int rank = (is_outer(one.axis) ? 0 : 2) + (is_unit ? 0 : 1);
        if (rank >= best_rank) continue;
        best = &equation;
        best_axis = one.axis;
        best_rank = rank;
      }
    }
    if (best == nullptr) return false;
    const Equation solved = *best;
    drop(*best);
    const Polynomial::Linear linear = *solved.left.linear_in(best_axis);
    Polynomial numerator = solved.right - linear.rest;
    Polynomial coefficient = linear.coefficient;
    if (const auto constant = coefficient.constant(); constant && *constant < 0 && *constant != INT64_MIN) {
      numerator = Polynomial(-1) * numerator;
      coefficient = -*constant;
    }
    if (coefficient.constant() == std::optional<std::int64_t>(1)) {
      assign(best_axis, numerator, solved.dimension);
      return true;
    }
    need_nonzero(coefficient);
    const Expr over = numerator.expr(), by = coefficient.expr();
    conditions_.push_back(compare(Opcode::Eq, scalar::apply(Opcode::Mod, {over, by}), scalar::constant_i64(0)));
    assign(best_axis, Polynomial::of(scalar::apply(Opcode::FloorDiv, {over, by})), solved.dimension);
    return true;
  }

  /// e // d = x: e lies in d*x .. d*x + d. A variable of e takes that range, or a new one counts it.
  bool solve_floor() {
    for (const Equation& equation : equations_) {
      const auto floor = division_of(equation.left);
      if (!floor || floor->opcode != Opcode::FloorDiv || has_loops(floor->divisor)) continue;
      const Equation solved = equation;
      drop(equation);
      need_positive(floor->divisor);
      const Polynomial first = floor->divisor * solved.right;
      if (const auto axis = unit_variable(floor->operand)) {
        const Polynomial rest = floor->operand.linear_in(*axis)->rest;
        narrow(*axis, first - rest, first - rest + floor->divisor);
        if (solved.dimension < hints_.size() && !hints_[solved.dimension]) hints_[solved.dimension] = *axis;
      } else {
        const AxisId counter = notation_.new_axis("t");
        loops_.push_back({counter, nullptr, floor->divisor.expr()});
        facts_.ranges.push_back(loops_.back());
        equations_.push_back({floor->operand - Polynomial::of_atom(scalar::axis(counter)), first, solved.dimension});
      }
      return true;
    }
    return false;
  }

  /// e % d = x: e = d*t + x for every t that e reaches.
  bool solve_modulo() {
    for (const Equation& equation : equations_) {
      const auto modulo = division_of(equation.left);
      if (!modulo || modulo->opcode != Opcode::Mod || has_loops(modulo->divisor)) continue;
      const auto axis = unit_variable(modulo->operand);
      if (!axis) continue;
      const Equation solved = equation;
      drop(equation);
      need_positive(modulo->divisor);
      if (!solved.is_digit) bound_digit(solved.right, modulo->divisor);
      const Loop range = *loop(*axis);
      const Polynomial rest = modulo->operand.linear_in(*axis)->rest;
      const Polynomial begin = range.begin ? Polynomial::of(range.begin) : Polynomial(0);
      const Polynomial end = Polynomial::of(range.end);
      const AxisId turn = notation_.new_axis("t");
      const Expr d = modulo->divisor.expr();
      const auto quotient = [&](const Polynomial& value) {
        return Polynomial::of(scalar::apply(Opcode::FloorDiv, {value.expr(), d}));
      };
      const Polynomial least = quotient(begin + rest);
      const Polynomial most = quotient(end - 1 + rest + modulo->divisor);
      Loop turns{turn, least.is_zero() ? nullptr : least.expr(), most.expr()};
      loops_.push_back(turns);
      facts_.ranges.push_back(turns);
      const Polynomial t = Polynomial::of_atom(scalar::axis(turn));
      assign(*axis, modulo->divisor * t + solved.right - rest, solved.dimension);
      return true;
    }
    return false;
  }

  /// A loop variable with coefficient 1 in `value`, an index of the left side before others.
  std::optional<AxisId> unit_variable(const Polynomial& value) const {
    std::optional<AxisId> found;
    for (const Loop& one : loops_) {
      const auto linear = value.linear_in(one.axis);
      if (!linear || linear->coefficient.constant() != std::optional<std::int64_t>(1)) continue;
      if (!found || (is_outer(one.axis) && !is_outer(*found))) found = one.axis;
    }
    return found;
  }

  /// Cuts a variable's range down to [begin, end). Outside of the range that it had, the value must vanish.
  void narrow(AxisId axis, const Polynomial& begin, const Polynomial& end) {
    if (!release(axis, begin) || !release(axis, end)) {
      bounds_.push_back({scalar::axis(axis), Opcode::Ge, begin.expr()});
      bounds_.push_back({scalar::axis(axis), Opcode::Lt, end.expr()});
      return;
    }
    Loop& range = *std::find_if(loops_.begin(), loops_.end(), [&](const Loop& one) { return one.axis == axis; });
    const Polynomial old_begin = range.begin ? Polynomial::of(range.begin) : Polynomial(0);
    const Polynomial old_end = Polynomial::of(range.end);
    const bool is_above = facts_.is_nonnegative(begin - old_begin);
    const bool is_below = facts_.is_nonnegative(old_end - end);
    Expr lower = begin.expr(), upper = end.expr();
    if (!is_above || !is_below) {
      const Expr padded = range.begin ? nullptr : padded_at(notation_, value_, axis, range.end);
      if (padded) {
        value_ = padded;
      } else {
        if (!is_above) lower = scalar::apply(Opcode::Max, {lower, old_begin.expr()});
        if (!is_below) upper = scalar::apply(Opcode::Min, {upper, old_end.expr()});
      }
    }
    range.begin = scalar::is_constant_i64(lower, 0) ? nullptr : lower;
    range.end = upper;
    note_range(range);
  }

  /// No solution is known: every value of the variables is tried.
  void try_all() {
    const Equation equation = equations_.front();
    drop(equations_.front());
    conditions_.push_back(compare(Opcode::Eq, equation.left.expr(), equation.right.expr()));
  }

  // ---- What is left of the ranges of variables that are gone ----

  struct Bound {
    Expr value;
    Opcode opcode;  ///< Ge or Lt
    Expr bound;
  };

  /// Each bound is known to hold, or narrows the range of a variable, or becomes a condition.
  void settle_ranges() {
    Expr guard;
    for (const Bound& bound : bounds_) {
      const Polynomial value = Polynomial::of(bound.value), limit = Polynomial::of(bound.bound);
      const Polynomial slack = bound.opcode == Opcode::Ge ? value - limit : limit - 1 - value;
      if (facts_.is_nonnegative(slack) || narrow_by(slack)) continue;
      guard = both(guard, compare(bound.opcode, bound.value, bound.bound));
    }
    for (const Expr& condition : conditions_) guard = both(guard, condition);
    if (guard) value_ = choose(guard, value_);
    order_loops();
  }

  /// `slack >= 0` as a range of one variable that stands in it with coefficient 1 or -1.
  bool narrow_by(const Polynomial& slack) {
    for (Loop& one : loops_) {
      const auto linear = slack.linear_in(one.axis);
      const auto coefficient = linear ? linear->coefficient.constant() : std::nullopt;
      if (!coefficient || (*coefficient != 1 && *coefficient != -1)) continue;
      if (depends_on(linear->rest, one.axis)) continue;
      if (*coefficient == 1) {
        const Polynomial begin = Polynomial(0) - linear->rest;
        const Polynomial old = one.begin ? Polynomial::of(one.begin) : Polynomial(0);
        one.begin =
            facts_.is_nonnegative(begin - old) ? begin.expr() : scalar::apply(Opcode::Max, {old.expr(), begin.expr()});
      } else {
        const Polynomial end = linear->rest + 1, old = Polynomial::of(one.end);
        one.end = facts_.is_nonnegative(old - end) ? end.expr() : scalar::apply(Opcode::Min, {old.expr(), end.expr()});
      }
      note_range(one);
      return true;
    }
    return false;
  }

  /// True when the range of a variable in `value` uses `axis`, directly or through others.
  bool depends_on(const Polynomial& value, AxisId axis) const {
    std::vector<AxisId> open, seen;
    for (const Loop& one : loops_) {
      if (value.mentions(one.axis)) open.push_back(one.axis);
    }
    while (!open.empty()) {
      const AxisId next = open.back();
      open.pop_back();
      if (next == axis) return true;
      if (std::find(seen.begin(), seen.end(), next) != seen.end()) continue;
      seen.push_back(next);
      const Loop& range = *loop(next);
      for (const Loop& one : loops_) {
        if ((range.begin && mentions(range.begin, one.axis)) || mentions(range.end, one.axis)) open.push_back(one.axis);
      }
    }
    return false;
  }

  /// A variable comes behind those that its range uses.
  void order_loops() {
    std::vector<Loop> sorted;
    while (!loops_.empty()) {
      const auto is_free = [&](const Loop& one) {
        return std::none_of(loops_.begin(), loops_.end(), [&](const Loop& other) {
          return other.axis != one.axis &&
                 ((one.begin && mentions(one.begin, other.axis)) || mentions(one.end, other.axis));
        });
      };
      auto next = std::find_if(loops_.begin(), loops_.end(), is_free);
      if (next == loops_.end()) next = loops_.begin();
      sorted.push_back(*next);
      loops_.erase(next);
    }
    loops_ = std::move(sorted);
  }

  /// A sum over a variable that its body does not use is a multiple.
  void drop_unused() {
    for (std::size_t k = loops_.size(); k-- > 0;) {
      const Loop one = loops_[k];
      const bool is_used =
          mentions(value_, one.axis) || std::any_of(loops_.begin(), loops_.end(), [&](const Loop& other) {
            return (other.begin && mentions(other.begin, one.axis)) || mentions(other.end, one.axis);
          });
      if (is_used) continue;
      Polynomial count = Polynomial::of(one.end);
      if (one.begin) count = count - Polynomial::of(one.begin);
      Expr length = count.expr();
      if (!facts_.is_nonnegative(count)) length = scalar::apply(Opcode::Max, {length, scalar::constant_i64(0)});
      const auto known = scalar::as_i64(length);
      const DType dtype = value_->dtype;
      value_ = multiply(known ? number(dtype, static_cast<double>(*known)) : cast_to(length, dtype), value_);
      loops_.erase(loops_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  Notation& notation_;
  Facts facts_;
  std::vector<Loop> loops_;
  std::vector<AxisId> outer_;
  std::vector<Polynomial> extents_;  ///< where one of them is 0, nothing is added to anything
  Expr value_;
  std::vector<AxisId> hints_;
  std::vector<Equation> equations_;
  std::vector<Expr> conditions_;
  std::vector<Bound> bounds_;
  std::vector<Expr> required_;
};

}  // namespace

std::vector<Gather> Transposer::gathers(const Scatter& scatter, const std::vector<AxisId>& at) {
  std::vector<Loop> known = scatter.loops;
  if (scatter.read != nullptr) {
    const std::vector<Expr>& extents = notation_.tensor(scatter.read->source).extents;
    for (std::size_t k = 0; k < at.size(); ++k) known.push_back({at[k], nullptr, extents[k]});
  }
  const Facts facts{notation_, known, nonnegative_, nonzero_, divisible_};
  const auto solver = [&] { return Solver(notation_, facts, scatter.loops, scatter.outer, scatter.value, at.size()); };
  if (scatter.read == nullptr) return {solver().run()};
  const scalar::Read& read = *scatter.read;
  const std::vector<Expr>& extents = notation_.tensor(read.source).extents;
  const auto stays_inside = [&](std::size_t k) {
    const Polynomial index = Polynomial::of(read.index[k]);
    const auto remainder = division_of(index);
    if (remainder && remainder->opcode == Opcode::Mod && remainder->divisor == Polynomial::of(extents[k])) return true;
    return facts.is_nonnegative(index) && facts.is_nonnegative(Polynomial::of(extents[k]) - 1 - index);
  };
  std::vector<std::size_t> reflected;
  for (std::size_t k = 0; k < at.size(); ++k) {
    if (read.pad == scalar::PadMode::Reflect && !stays_inside(k)) reflected.push_back(k);
  }
  std::vector<Gather> result;
  for (std::size_t images = 0; images < (std::size_t{1} << reflected.size()); ++images) {
    Solver one = solver();
    for (std::size_t k = 0; k < at.size(); ++k) {
      const Polynomial index = Polynomial::of(read.index[k]), extent = Polynomial::of(extents[k]);
      const Expr x = scalar::axis(at[k]);
      const Polynomial element = Polynomial::of_atom(x);
      const auto place = std::find(reflected.begin(), reflected.end(), k);
      if (place != reflected.end()) {
        // Periodic with 2*(n - 1), and each inner element has two images; of one element everything is an image.
        const Expr once = (extent + extent - 2).expr();
        const Expr period = scalar::apply(Opcode::Max, {once, scalar::constant_i64(1)});
        const bool is_mirrored = (images >> (place - reflected.begin()) & 1) != 0;
        const Expr wrapped = scalar::apply(Opcode::Mod, {read.index[k], period});
        one.require(Polynomial::of(wrapped), is_mirrored ? extent + extent - 2 - element : element, k, true);
        if (is_mirrored) {
          one.require(compare(Opcode::Gt, x, scalar::constant_i64(0)));
          one.require(compare(Opcode::Lt, x, (extent - 1).expr()));
        }
      } else if (read.pad == scalar::PadMode::Wrap && !stays_inside(k)) {
        one.require(Polynomial::of(scalar::apply(Opcode::Mod, {read.index[k], extents[k]})), element, k, true);
      } else if (read.pad == scalar::PadMode::Edge && !stays_inside(k)) {
        one.require_clamped(index, element, extent, k);
      } else {
        one.require(index, element, k);
      }
    }
    result.push_back(one.run());
  }
  return result;
}

}  // namespace corrloom::grad
