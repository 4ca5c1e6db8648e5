#include "compiler/passes/strides.h"

namespace corrloom::passes {

using scalar::Expr;
using scalar::Opcode;

Expr linear_position(const std::vector<Expr>& index, const std::vector<Expr>& extents) {
  Expr position = scalar::constant_i64(0);
  for (std::size_t k = 0; k < index.size(); ++k) {
    position = scalar::apply(Opcode::Add, {scalar::apply(Opcode::Mul, {position, extents[k]}), index[k]});
  }
  return position;
}

std::vector<Expr> index_at(const Expr& position, const std::vector<Expr>& extents) {
  std::vector<Expr> index(extents.size());
  Expr stride = scalar::constant_i64(1);
  for (std::size_t k = extents.size(); k-- > 0;) {
    index[k] = scalar::apply(Opcode::FloorDiv, {position, stride});
    // The first dimension has no modulo: positions are inside.
    if (k > 0) index[k] = scalar::apply(Opcode::Mod, {index[k], extents[k]});
    stride = scalar::apply(Opcode::Mul, {stride, extents[k]});
  }
  return index;
}

}  // namespace corrloom::passes
