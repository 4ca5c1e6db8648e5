// rsqrt of f32 and f64: 1 / sqrt(x), each step rounded, so at most 1 ulp. rsqrt(+-0) = +-inf, rsqrt(inf) = 0, of a
// negative it is NaN.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {

template <>
Expr expansion<Opcode::Rsqrt>(const std::vector<Expr>& args) {
  return div(number(args[0]->dtype, 1), sqrt(args[0]));
}

}  // namespace corrloom::scalar::parts
