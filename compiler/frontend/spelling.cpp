#include "compiler/frontend/ast.h"

namespace corrloom::frontend::ast {

std::string_view spelling(UnaryOp op) {
  switch (op) {
    case UnaryOp::Negate:
      return "-";
    case UnaryOp::Not:
      return "!";
    case UnaryOp::Complement:
      return "~";
  }
  return {};
}

std::string_view spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::Multiply:
      return "*";
    case BinaryOp::Divide:
      return "/";
    case BinaryOp::FloorDivide:
      return "//";
    case BinaryOp::Modulo:
      return "%";
    case BinaryOp::Add:
      return "+";
    case BinaryOp::Subtract:
      return "-";
    case BinaryOp::ShiftLeft:
      return "<<";
    case BinaryOp::ShiftRight:
      return ">>";
    case BinaryOp::BitAnd:
      return "&";
    case BinaryOp::BitXor:
      return "^";
    case BinaryOp::BitOr:
      return "|";
    case BinaryOp::Equal:
      return "==";
    case BinaryOp::NotEqual:
      return "!=";
    case BinaryOp::Less:
      return "<";
    case BinaryOp::LessEqual:
      return "<=";
    case BinaryOp::Greater:
      return ">";
    case BinaryOp::GreaterEqual:
      return ">=";
    case BinaryOp::And:
      return "&&";
    case BinaryOp::Or:
      return "||";
  }
  return {};
}

std::string_view spelling(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::Sum:
      return "sum";
    case ReductionKind::Prod:
      return "prod";
    case ReductionKind::Max:
      return "max";
    case ReductionKind::Min:
      return "min";
    case ReductionKind::Any:
      return "any";
    case ReductionKind::All:
      return "all";
    case ReductionKind::Argmax:
      return "argmax";
    case ReductionKind::Argmin:
      return "argmin";
  }
  return {};
}

std::string_view spelling(PadMode mode) {
  switch (mode) {
    case PadMode::Edge:
      return "edge";
    case PadMode::Reflect:
      return "reflect";
    case PadMode::Wrap:
      return "wrap";
  }
  return {};
}

}  // namespace corrloom::frontend::ast
