// Functions of f32 by means of those that a GPU approximates in one instruction. The rest, whose error would grow
// beyond use (pow, expm1 and the like near 0), stays accurate.

#include "ir/scalar/expand.h"
#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar {

bool is_approximable(Opcode opcode, DType dtype) {
  switch (opcode) {
    case Opcode::Exp2:
    case Opcode::Log2:
    case Opcode::Sin:
    case Opcode::Cos:
    case Opcode::Rsqrt:
    case Opcode::Tanh:
      return dtype == DType::F32;
    default:
      return false;
  }
}

bool is_approximable(const Expr& node) {
  const auto* found = std::get_if<Apply>(&node->kind);
  return found != nullptr && is_approximable(found->opcode, node->dtype);
}

namespace parts {
namespace {

Expr exp2_of_product(const Expr& x, double factor) {
  return apply(Opcode::Exp2, {mul(x, number(DType::F32, factor))});
}

}  // namespace

Expr approximation(Opcode function, const std::vector<Expr>& args) {
  if (args[0]->dtype != DType::F32) return nullptr;
  if (is_approximable(function, DType::F32)) return apply(function, args);
  constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.69314718055994529;
  const Expr& x = args[0];
  switch (function) {
    case Opcode::Exp:
      return exp2_of_product(x, kLog2E);
    case Opcode::Log:
      return mul(apply(Opcode::Log2, {x}), number(DType::F32, kLn2));
    case Opcode::Tan:
      return div(apply(Opcode::Sin, {x}), apply(Opcode::Cos, {x}));
    case Opcode::Sigmoid:
      return div(number(DType::F32, 1), add(number(DType::F32, 1), exp2_of_product(x, -kLog2E)));
    default:
      return nullptr;
  }
}

}  // namespace parts
}  // namespace corrloom::scalar
