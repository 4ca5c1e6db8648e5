#include "ir/tensor/range_check.h"

#include <algorithm>
#include <set>

#include "ir/affine/affine.h"
#include "ir/tensor/sequence.h"

namespace corrloom::tensor {
namespace {

using scalar::Opcode;

bool uses_accumulators(const Expr& expr) {
  bool uses = false;
  scalar::for_each_node(expr,
                        [&](const Expr& node) { uses = uses || std::holds_alternative<scalar::AccRef>(node->kind); });
  return uses;
}

std::set<AxisId> axes_in(const Expr& expr) {
  std::set<AxisId> axes;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (const auto* axis = std::get_if<scalar::AxisRef>(&node->kind)) axes.insert(axis->axis);
  });
  return axes;
}

/// A read that an evaluation makes, and what has to hold for that besides.
struct MadeRead {
  Expr node;
  std::vector<Expr> conditions;
};

/// What has to hold for a condition to be met by some values of axes that take each value from 0 below an extent of at
/// least 1: the first or the last value, or one below an end. Nothing for other conditions; `axes` loses those that are
/// used up, as a second condition on one of them may ask for another value.
std::optional<std::vector<Expr>> met_by_some(const Expr& condition, std::vector<Axis>& axes) {
  if (const scalar::Apply* both = scalar::as_apply(condition, Opcode::LazyAnd)) {
    std::optional<std::vector<Expr>> first = met_by_some(both->args[0], axes);
    const std::optional<std::vector<Expr>> second = met_by_some(both->args[1], axes);
    if (!first || !second) return std::nullopt;
    first->insert(first->end(), second->begin(), second->end());
    return first;
  }
  const auto* apply = std::get_if<scalar::Apply>(&condition->kind);
  const auto* axis = apply == nullptr ? nullptr : std::get_if<scalar::AxisRef>(&apply->args[0]->kind);
  if (axis == nullptr) return std::nullopt;
  const auto found =
      std::find_if(axes.begin(), axes.end(), [&](const Axis& candidate) { return candidate.id == axis->axis; });
  if (found == axes.end()) return std::nullopt;
  const Expr end = apply->args[1], extent = found->extent, zero = scalar::constant_i64(0);
  axes.erase(found);
  if (apply->opcode == Opcode::Lt) return std::vector<Expr>{scalar::apply(Opcode::Gt, {end, zero})};
  if (apply->opcode != Opcode::Eq) return std::nullopt;
  const Expr last = scalar::simplify(scalar::apply(Opcode::Sub, {extent, scalar::constant_i64(1)}));
  if (scalar::is_constant_i64(end, 0) || scalar::same(scalar::simplify(end), last)) return std::vector<Expr>();
  return std::nullopt;
}

/// The reads that evaluations of the expression make in any case, each once. `inside` are the axes whose values some
/// conditions may select, as far as those of `met_by_some` go.
std::vector<MadeRead> made_reads(const Expr& root, const std::vector<Axis>& inside) {
  struct Place {
    Expr node;
    std::vector<Axis> axes;
    std::vector<Expr> conditions;
  };
  std::vector<MadeRead> reads;
  std::vector<Place> stack{{root, inside, {}}};
  std::set<const scalar::Node*> seen;
  while (!stack.empty()) {
    Place place = std::move(stack.back());
    stack.pop_back();
    if (!seen.insert(place.node.get()).second) continue;
    const auto visit = [&](const Expr& node) { stack.push_back({node, place.axes, place.conditions}); };
    if (const scalar::Read* read = scalar::as_read(place.node)) {
      reads.push_back({place.node, place.conditions});
      std::for_each(read->index.begin(), read->index.end(), visit);
    } else if (const auto* apply = std::get_if<scalar::Apply>(&place.node->kind)) {
      const bool lazy =
          apply->opcode == Opcode::If || apply->opcode == Opcode::LazyAnd || apply->opcode == Opcode::LazyOr;
      std::for_each(apply->args.begin(), lazy ? apply->args.begin() + 1 : apply->args.end(), visit);
      if (apply->opcode != Opcode::If || place.axes.empty()) continue;
      std::optional<std::vector<Expr>> conditions = met_by_some(apply->args[0], place.axes);
      if (!conditions) continue;
      conditions->insert(conditions->end(), place.conditions.begin(), place.conditions.end());
      stack.push_back({apply->args[1], place.axes, *std::move(conditions)});
    }
  }
  return reads;
}

/// `first` and `stride` of a subscript along an axis.
std::optional<std::pair<Expr, std::int64_t>> along(const Expr& subscript, AxisId axis) {
  std::optional<affine::LinearForm> form = affine::linear_form(subscript);
  if (!form) return std::nullopt;
  const std::int64_t stride = form->coefficient_of(axis);
  if (stride < 1) return std::nullopt;
  std::erase_if(form->terms, [&](const affine::LinearForm::Term& term) {
    const auto* ref = std::get_if<scalar::AxisRef>(&term.expr->kind);
    return ref != nullptr && ref->axis == axis;
  });
  return std::pair(affine::to_expr(*form), stride);
}

bool has_elements(const Expr& extent) {
  if (const std::optional<std::int64_t> known = scalar::as_i64(extent)) return *known > 0;
  const scalar::Apply* max = scalar::as_apply(extent, Opcode::Max);
  return max != nullptr && (has_elements(max->args[0]) || has_elements(max->args[1]));
}

/// True when the axes from `first` on have at least one element each, for sure.
bool surely_run(const std::vector<Axis>& axes, std::size_t first) {
  return std::all_of(axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end(),
                     [](const Axis& axis) { return has_elements(axis.extent); });
}

/// All of the conditions; null when there are none.
Expr all_of(const std::vector<Expr>& conditions) {
  Expr all;
  for (const Expr& condition : conditions)
    all = all == nullptr ? condition : scalar::apply(Opcode::And, {all, condition});
  return all;
}

bool is_over(const Expr& expr, const std::set<AxisId>& known) {
  const std::set<AxisId> used = axes_in(expr);
  return !uses_accumulators(expr) && std::includes(known.begin(), known.end(), used.begin(), used.end());
}

}  // namespace

std::vector<RangeCheck> range_checks(const Reduction& reduction) {
  std::vector<RangeCheck> checks;
  const bool in_sequence = is_in_sequence(reduction);
  for (std::size_t position = 0; position < reduction.axes.size(); ++position) {
    const Axis& axis = reduction.axes[position];
    if (scalar::as_i64(axis.extent) || !surely_run(reduction.axes, position + 1)) continue;
    const std::set<AxisId> known = axes_in(axis.extent);
    const std::vector<Axis> inside(reduction.axes.begin() + static_cast<std::ptrdiff_t>(position) + 1,
                                   reduction.axes.end());
    for (const Accumulator& accumulator : reduction.accumulators) {
      std::vector<MadeRead> reads = made_reads(accumulator.step, {});
      if (in_sequence) {
        for (MadeRead& made : made_reads(accumulator.step, inside)) {
          const bool is_known =
              std::any_of(reads.begin(), reads.end(), [&](const MadeRead& one) { return one.node == made.node; });
          if (!is_known) reads.push_back(std::move(made));
        }
      }
      for (const MadeRead& made : reads) {
        const scalar::Read& read = *scalar::as_read(made.node);
        if (read.pad != scalar::PadMode::None || read.check == scalar::ReadCheck::Proven) continue;
        const Expr holds = all_of(made.conditions);
        if (holds != nullptr && !is_over(holds, known)) continue;
        for (std::size_t k = 0; k < read.index.size(); ++k) {
          const auto found = along(read.index[k], axis.id);
          if (found && is_over(found->first, known))
            checks.push_back({position, made.node, k, found->first, found->second, holds});
        }
      }
    }
  }
  return checks;
}

Expr checked_subscript(const RangeCheck& check, const Expr& extent, const Expr& limit) {
  const Expr zero = scalar::constant_i64(0), one = scalar::constant_i64(1);
  const Expr stride = scalar::constant_i64(check.stride);
  const auto apply = [](Opcode opcode, Expr a, Expr b) { return scalar::apply(opcode, {std::move(a), std::move(b)}); };
  // Iteration number `inside` is the first whose subscript is not below the limit.
  const Expr room = apply(Opcode::Max, apply(Opcode::Sub, limit, check.first), zero);
  const Expr inside = apply(Opcode::FloorDiv, apply(Opcode::Add, room, apply(Opcode::Sub, stride, one)), stride);
  const Expr steps = apply(Opcode::Min, inside, apply(Opcode::Sub, extent, one));
  const Expr reached = apply(Opcode::Add, check.first, apply(Opcode::Mul, steps, stride));
  return scalar::apply(Opcode::Select, {apply(Opcode::Lt, check.first, zero), check.first, reached});
}

}  // namespace corrloom::tensor
