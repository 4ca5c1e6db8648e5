#include "compiler/passes/lower_padding.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/axis_ranges.h"

namespace corrloom::passes {
namespace {

using scalar::Expr;
using scalar::Opcode;
using scalar::PadMode;
using scalar::Read;

/// Largest extent of which a few can be added up.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;

Expr number(std::int64_t value) {
  return scalar::constant_i64(value);
}

/// `then` where `condition` holds over those ranges, `otherwise` where it does not, or a choice between them.
Expr choice(const Expr& condition, Expr then, Expr otherwise, const affine::Ranges& ranges) {
  const Expr simple = affine::simplify_index(condition, ranges);
  if (const scalar::Value* known = scalar::as_constant(simple)) return known->as_bool() ? then : otherwise;
  return scalar::apply(Opcode::If, {simple, std::move(then), std::move(otherwise)});
}

/// The subscript that a padding mode reads instead, as arithmetic that holds for any subscript and extent.
Expr moved_from_anywhere(const Expr& subscript, const Expr& extent, PadMode mode) {
  const Expr last = scalar::apply(Opcode::Sub, {extent, number(1)});
  if (mode == PadMode::Edge)
    return scalar::apply(Opcode::Min, {scalar::apply(Opcode::Max, {subscript, number(0)}), last});
  if (mode == PadMode::Wrap) return scalar::apply(Opcode::Mod, {subscript, extent});
  const Expr period = scalar::apply(Opcode::Mul, {number(2), last});
  // The period of an extent of 1 is 0, and x % 0 is 0: the only element.
  const Expr within = scalar::apply(Opcode::Mod, {subscript, period});
  return scalar::apply(Opcode::Min, {within, scalar::apply(Opcode::Sub, {period, within})});
}

/// The subscript that a padding mode reads instead. Where it is known to leave the tensor by less than a period, a
/// choice between sums of axes: tiles that do not touch the border then read as if there were no padding.
Expr moved_inside(const Expr& subscript, const Expr& extent, PadMode mode, const affine::Ranges& ranges) {
  const std::optional<std::int64_t> size = scalar::as_i64(extent);
  const std::optional<affine::Interval> reached = affine::interval_of(subscript, ranges);
  if (!size || *size < 1 || *size > kMostExtent || !reached) return moved_from_anywhere(subscript, extent, mode);
  // What moving once may begin with.
  const bool mirrors = mode == PadMode::Reflect;
  const std::int64_t lowest = mirrors ? 1 - *size : -*size, highest = mirrors ? 2 * *size - 2 : 2 * *size - 1;
  if (mode != PadMode::Edge && (reached->low < lowest || reached->high > highest))
    return moved_from_anywhere(subscript, extent, mode);
  Expr below = number(0), above = number(*size - 1);
  if (mirrors) {
    below = scalar::apply(Opcode::Sub, {number(0), subscript});
    above = scalar::apply(Opcode::Sub, {number(highest), subscript});
  } else if (mode == PadMode::Wrap) {
    below = scalar::apply(Opcode::Add, {subscript, extent});
    above = scalar::apply(Opcode::Sub, {subscript, extent});
  }
  const Expr from_below = choice(scalar::apply(Opcode::Ge, {subscript, number(0)}), subscript, below, ranges);
  return choice(scalar::apply(Opcode::Lt, {subscript, extent}), from_below, above, ranges);
}

class PaddingLowering {
 public:
  explicit PaddingLowering(const tensor::Graph& graph, PassContext& ctx)
      : graph_(graph), ctx_(ctx), ranges_(axis_ranges(graph)) {}

  Expr replace(const Expr& node) {
    const Read* read = scalar::as_read(node);
    if (read == nullptr || read->pad == PadMode::None) return nullptr;
    ctx_.count("padded reads");
    const std::vector<Expr>& extents = graph_.op(read->source).extents;
    Read inside = *read;
    inside.pad = PadMode::None;
    inside.pad_value = nullptr;
    inside.check = scalar::ReadCheck::Proven;
    Expr condition;
    for (std::size_t k = 0; k < inside.index.size(); ++k) {
      Expr& subscript = inside.index[k];
      if (read->pad == PadMode::Value) {
        for (const Expr& test :
             {scalar::apply(Opcode::Ge, {subscript, number(0)}), scalar::apply(Opcode::Lt, {subscript, extents[k]})}) {
          const Expr simple = affine::simplify_index(test, lookup(ranges_));
          const scalar::Value* known = scalar::as_constant(simple);
          if (known != nullptr && known->as_bool()) continue;
          condition = condition ? scalar::apply(Opcode::LazyAnd, {condition, simple}) : simple;
        }
      } else {
        subscript =
            affine::simplify_index(moved_inside(subscript, extents[k], read->pad, lookup(ranges_)), lookup(ranges_));
      }
    }
    const Expr element = scalar::read(std::move(inside), node->dtype);
    return condition ? scalar::apply(Opcode::If, {condition, element, read->pad_value}) : element;
  }

 private:
  const tensor::Graph& graph_;
  PassContext& ctx_;
  AxisRanges ranges_;
};

}  // namespace

tensor::Graph lower_padding(tensor::Graph graph, PassContext& ctx) {
  PaddingLowering lowering(graph, ctx);
  std::vector<tensor::Op> ops = graph.ops;
  for (tensor::Op& op : ops) {
    tensor::rewrite_exprs(op, [&](const Expr& expr) {
      return scalar::rewrite(expr, [&](const Expr& node) { return lowering.replace(node); });
    });
  }
  graph.ops = std::move(ops);
  return graph;
}

}  // namespace corrloom::passes
