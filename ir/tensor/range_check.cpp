#include "ir/tensor/range_check.h"

#include <algorithm>
#include <set>

#include "ir/affine/affine.h"

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

/// The reads that an evaluation of the expression makes in any case, each once.
std::vector<Expr> unconditional_reads(const Expr& root) {
  std::vector<Expr> reads, stack{root};
  std::set<const scalar::Node*> seen;
  while (!stack.empty()) {
    const Expr node = stack.back();
    stack.pop_back();
    if (!seen.insert(node.get()).second) continue;
    if (const scalar::Read* read = scalar::as_read(node)) {
      reads.push_back(node);
      stack.insert(stack.end(), read->index.begin(), read->index.end());
    } else if (const auto* apply = std::get_if<scalar::Apply>(&node->kind)) {
      const bool lazy =
          apply->opcode == Opcode::If || apply->opcode == Opcode::LazyAnd || apply->opcode == Opcode::LazyOr;
      stack.insert(stack.end(), apply->args.begin(), lazy ? apply->args.begin() + 1 : apply->args.end());
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

/// True when the axes from `first` on have at least one element each, for sure.
bool surely_run(const std::vector<Axis>& axes, std::size_t first) {
  return std::all_of(axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end(),
                     [](const Axis& axis) { return scalar::as_i64(axis.extent).value_or(0) > 0; });
}

}  // namespace

std::vector<RangeCheck> range_checks(const Reduction& reduction) {
  std::vector<RangeCheck> checks;
  for (std::size_t position = 0; position < reduction.axes.size(); ++position) {
    const Axis& axis = reduction.axes[position];
    if (scalar::as_i64(axis.extent) || !surely_run(reduction.axes, position + 1)) continue;
    const std::set<AxisId> known = axes_in(axis.extent);
    for (const Accumulator& accumulator : reduction.accumulators) {
      for (const Expr& node : unconditional_reads(accumulator.step)) {
        const scalar::Read& read = *scalar::as_read(node);
        if (read.pad != scalar::PadMode::None || read.check == scalar::ReadCheck::Proven) continue;
        for (std::size_t k = 0; k < read.index.size(); ++k) {
          const auto found = along(read.index[k], axis.id);
          if (!found || uses_accumulators(found->first)) continue;
          const std::set<AxisId> used = axes_in(found->first);
          if (std::includes(known.begin(), known.end(), used.begin(), used.end()))
            checks.push_back({position, node, k, found->first, found->second});
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
