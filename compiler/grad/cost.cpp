#include "compiler/grad/cost.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

constexpr int kDivisionFlops = 8;

int flops_of_node(const scalar::Apply& apply) {
  if (scalar::info(apply.opcode).kind == scalar::OpcodeKind::Function) return kFunctionFlops;
  switch (apply.opcode) {
    case Opcode::Div:
    case Opcode::Sqrt:
      return kDivisionFlops;
    case Opcode::Cast:
    case Opcode::Neg:
    case Opcode::Fence:
      return 0;
    default:
      return 1;
  }
}

}  // namespace

int flops_of(const scalar::Expr& expr) {
  int flops = 0;
  scalar::for_each_node(expr, [&](const scalar::Expr& node) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    const bool counts = is_float(node->dtype) || (apply != nullptr && node->dtype == DType::Bool);
    if (apply != nullptr && counts) flops += flops_of_node(*apply);
  });
  return flops;
}

}  // namespace corrloom::grad
