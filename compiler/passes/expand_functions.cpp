#include "compiler/passes/expand_functions.h"

#include "ir/scalar/expand.h"

namespace corrloom::passes {
namespace {

using scalar::Functions;

/// Only GPUs have approximate instructions; the host is accurate either way.
Functions functions_of(const tensor::Op& op, const PassContext& ctx) {
  const auto* compute = std::get_if<tensor::Compute>(&op.kind);
  const bool is_fast = compute != nullptr && compute->numerics.fast_math;
  return is_fast && ctx.target.kind == kernel::TargetKind::Ptx ? Functions::Approximate : Functions::Accurate;
}

}  // namespace

tensor::Graph expand_functions(tensor::Graph graph, PassContext& ctx) {
  for (tensor::Op& op : graph.ops) {
    const Functions functions = functions_of(op, ctx);
    tensor::rewrite_exprs(op, [functions](const scalar::Expr& expr) { return scalar::expand(expr, functions); });
  }
  return graph;
}

}  // namespace corrloom::passes
