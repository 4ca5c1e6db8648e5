#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/grad/differentiate.h"

namespace corrloom::grad {

/// Which intermediates of the op the derivative keeps in memory and which it computes again.
struct Intermediates {
  enum class Mode { ByCost, KeepAll, RecomputeAll };
  Mode mode = Mode::ByCost;
  std::set<std::string> keep;  ///< names, whatever the mode says
  std::set<std::string> recompute;
};

/// What was decided about one intermediate, and why.
struct Choice {
  std::string name;
  bool is_kept = false;
  std::string reason;
};

/// Drops statements that no result needs, puts what is cheap or used once in its place, and decides about the op's
/// intermediates: one is computed again where that costs fewer additions than moving its bytes is worth.
std::vector<Choice> reduce_work(Derivative& derivative, const Intermediates& wishes);

}  // namespace corrloom::grad
