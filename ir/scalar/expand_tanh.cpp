// tanh of f32 and f64.
//
//   a = |x|;  E = exp(2 a) - 1;  tanh(a) = E / (E + 2);  the sign is put back at the end
//
// E comes without cancellation: 2 a = n ln(2) + r, and E = 2^n (exp(r) - 1) + (2^n - 1) with n >= 0, so the sum is of
// terms that agree in sign or of which the second is far larger, and for n = 0 it is exp(r) - 1 itself. One formula
// serves all x. tanh(+-0) = +-0, tanh(+-inf) = +-1, denormals give themselves.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {

template <>
Expr expansion<Opcode::Tanh>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  // From here on the result rounds to 1: 1 - tanh(a) is 2 exp(-2a), less than a quarter of the last place.
  const Expr a = at_most(abs(x), dtype == DType::F32 ? 10 : 20);
  const ReducedExp reduced = reduce_exp(add(a, a));
  const Expr scale = power_of_two(reduced.shifted_n, dtype);
  const Expr e = fma(scale, expm1_polynomial(reduced.r), sub(scale, number(dtype, 1)));
  return with_sign_of(div(e, add(e, number(dtype, 2))), x);
}

}  // namespace corrloom::scalar::parts
