#include "ir/tensor/graph.h"

#include <utility>

#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::tensor {
namespace {

/// Calls `visit` with a reference to every expression that an op owns. `AnyOp` is `Op` or `const Op`.
template <class AnyOp, class Visit>
void visit_exprs(AnyOp& op, const Visit& visit) {
  const auto visit_axes = [&](auto& axes) {
    for (auto& axis : axes) {
      visit(axis.extent);
      if (axis.origin) visit(axis.origin);
    }
  };
  for (auto& extent : op.extents) visit(extent);
  match(
      op.kind, [](const Input&) {}, [](const Literal&) {},
      [](const Reshape&) {}, [&](auto& compute) requires requires { compute.body; } {
        visit_axes(compute.axes);
        if (compute.reduction) {
          visit_axes(compute.reduction->axes);
          for (auto& accumulator : compute.reduction->accumulators) {
            visit(accumulator.init);
            visit(accumulator.step);
            visit(accumulator.merge);
          }
        }
        visit(compute.body);
      },
      [&](auto& view) requires requires { view.index; } {
        visit_axes(view.axes);
        for (auto& index : view.index) visit(index);
      });
}

}  // namespace

TensorId Graph::add(Op op) {
  ops.push_back(std::move(op));
  return TensorId{static_cast<std::int32_t>(ops.size()) - 1};
}

AxisId Graph::new_axis(std::string name) {
  axis_names.push_back(std::move(name));
  return AxisId{static_cast<std::int32_t>(axis_names.size()) - 1};
}

SymbolId Graph::new_symbol(Symbol symbol) {
  symbols.push_back(std::move(symbol));
  return SymbolId{static_cast<std::int32_t>(symbols.size()) - 1};
}

std::string_view name_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return "sum";
    case ReduceKind::Prod:
      return "prod";
    case ReduceKind::Min:
      return "min";
    case ReduceKind::Max:
      return "max";
    case ReduceKind::Any:
      return "any";
    case ReduceKind::All:
      return "all";
    case ReduceKind::ArgMax:
      return "argmax";
    case ReduceKind::ArgMin:
      return "argmin";
  }
  return "?";
}

void for_each_expr(const Op& op, const std::function<void(const Expr&)>& visit) {
  visit_exprs(op, [&](const Expr& expr) {
    if (expr) visit(expr);
  });
}

void rewrite_exprs(Op& op, const std::function<Expr(const Expr&)>& replace) {
  visit_exprs(op, [&](Expr& expr) {
    if (expr) expr = replace(expr);
  });
}

}  // namespace corrloom::tensor
