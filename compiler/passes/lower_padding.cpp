#include "compiler/passes/lower_padding.h"

#include <utility>
#include <vector>

#include "compiler/passes/axis_ranges.h"

namespace corrloom::passes {
namespace {

using scalar::Expr;
using scalar::Opcode;
using scalar::PadMode;
using scalar::Read;

Expr number(std::int64_t value) {
  return scalar::constant_i64(value);
}

/// The subscript that a padding mode reads instead.
Expr moved_inside(const Expr& subscript, const Expr& extent, PadMode mode) {
  const Expr last = scalar::apply(Opcode::Sub, {extent, number(1)});
  if (mode == PadMode::Edge)
    return scalar::apply(Opcode::Min, {scalar::apply(Opcode::Max, {subscript, number(0)}), last});
  if (mode == PadMode::Wrap) return scalar::apply(Opcode::Mod, {subscript, extent});
  const Expr period = scalar::apply(Opcode::Mul, {number(2), last});
  // The period of an extent of 1 is 0, and x % 0 is 0: the only element.
  const Expr within = scalar::apply(Opcode::Mod, {subscript, period});
  return scalar::apply(Opcode::Min, {within, scalar::apply(Opcode::Sub, {period, within})});
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
        subscript = affine::simplify_index(moved_inside(subscript, extents[k], read->pad), lookup(ranges_));
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
