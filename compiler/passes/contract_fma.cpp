#include "compiler/passes/contract_fma.h"

namespace corrloom::passes {
namespace {

using scalar::Apply;
using scalar::Opcode;
using tensor::Compute;
using tensor::Expr;
using tensor::Numerics;

Expr negated(const Expr& x) {
  return scalar::apply(Opcode::Neg, {x});
}

Expr fma(const Expr& a, const Expr& b, const Expr& c) {
  return scalar::apply(Opcode::Fma, {a, b, c});
}

/// The fma that a node becomes, or null.
Expr contracted(const Expr& node) {
  const auto* sum = std::get_if<Apply>(&node->kind);
  if (sum == nullptr || !is_float(node->dtype)) return nullptr;
  if (sum->opcode != Opcode::Add && sum->opcode != Opcode::Sub) return nullptr;
  const bool subtracts = sum->opcode == Opcode::Sub;
  const Expr &left = sum->args[0], &right = sum->args[1];
  if (const Apply* product = scalar::as_apply(left, Opcode::Mul))
    return fma(product->args[0], product->args[1], subtracts ? negated(right) : right);
  if (const Apply* product = scalar::as_apply(right, Opcode::Mul))
    return fma(subtracts ? negated(product->args[0]) : product->args[0], product->args[1], left);
  return nullptr;
}

Expr without_fences(const Expr& expr) {
  return scalar::rewrite(expr, [](const Expr& node) -> Expr {
    const Apply* fence = scalar::as_apply(node, Opcode::Fence);
    return fence == nullptr ? nullptr : fence->args[0];
  });
}

}  // namespace

tensor::Graph contract_fma(tensor::Graph graph, PassContext& ctx) {
  for (tensor::Op& op : graph.ops) {
    const auto* compute = std::get_if<Compute>(&op.kind);
    const bool contracts = compute != nullptr && compute->numerics.order != Numerics::OrderMode::Strict;
    tensor::rewrite_exprs(op, [&](const Expr& expr) {
      if (!contracts) return without_fences(expr);
      return without_fences(scalar::rewrite(expr, [&](const Expr& node) {
        const Expr result = contracted(node);
        if (result) ctx.count("products contracted");
        return result;
      }));
    });
  }
  return graph;
}

}  // namespace corrloom::passes
