#pragma once

#include <optional>
#include <vector>

#include "compiler/grad/notation.h"
#include "compiler/grad/polynomial.h"

namespace corrloom::grad {

/// For all values of the loops, `value` is added to the element at `read`'s subscripts: how a derivative comes out of
/// the read that it belongs to.
struct Scatter {
  std::vector<Loop> loops;   ///< outermost first
  std::size_t outer = 0;     ///< how many of them are indices of the statement's left side
  const scalar::Read* read;  ///< null for a scalar: then every value is added to it
  Expr value;
};

/// The same sum for one element: the sum of `value` over the loops that are left, where the element's subscripts are
/// given.
struct Gather {
  std::vector<Loop> loops;
  Expr value;
  std::vector<AxisId> hints;   ///< for each subscript the variable that it stands for, to take its name
  std::vector<Expr> required;  ///< what must hold at entry for the solution to be one
};

/// Turns scatters into gathers. For each subscript the equation `subscript = s` is solved for a loop variable where it
/// has one solution or a range of them:
///
///   X[i + p]          i = x - p, where that is an index          X[s*i + p], p < s    i = x // s, p = x % s
///   X[s*i + p]        i = (x - p) // s, where s divides x - p    X[i // d]            i in d*x .. d*x + d
///   X[i % d]          i = d*t + x for every t                    pad edge             the border takes a range
///
/// and where it has not, every value of the loops is tried: `sum(i) (if f(i) == x then ... else 0)`.
class Transposer {
 public:
  /// What is known of the op besides what follows from dimensions: `divisible` are remainders that are 0. New variables
  /// and names are those of `notation`.
  Transposer(Notation& notation, std::vector<Polynomial> nonnegative, std::vector<Expr> nonzero,
             std::vector<Expr> divisible)
      : notation_(notation),
        nonnegative_(std::move(nonnegative)),
        nonzero_(std::move(nonzero)),
        divisible_(std::move(divisible)) {}

  /// `at` are the variables that stand for the element's subscripts. Several gathers when the read is reflected at a
  /// border.
  std::vector<Gather> gathers(const Scatter& scatter, const std::vector<AxisId>& at);

 private:
  Notation& notation_;
  std::vector<Polynomial> nonnegative_;
  std::vector<Expr> nonzero_, divisible_;
};

}  // namespace corrloom::grad
