// sigmoid of f32 and f64.
//
//   e = exp(-|x|);  sigmoid(x) = 1 / (1 + e) for x >= 0, e / (1 + e) for x < 0
//
// Neither form overflows or cancels. sigmoid(-inf) = 0, sigmoid(inf) = 1; where the result is denormal it is that of e.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {

template <>
Expr expansion<Opcode::Sigmoid>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr one = number(x->dtype, 1);
  const Expr e = expansion<Opcode::Exp>({neg(abs(x))});
  return div(select(lt(x, number(x->dtype, 0)), e, one), add(one, e));
}

}  // namespace corrloom::scalar::parts
