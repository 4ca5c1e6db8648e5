// sinh and cosh of f32 and f64.
//
//   E = exp(|x|) - 1:  sinh(|x|) = (E + E / (E + 1)) / 2,  cosh(x) = ((E + 1) + 1 / (E + 1)) / 2
//
// Where exp overflows and the result does not, a power of two stays apart until the end; the quotients are far below
// the last place there. sinh(+-0) = +-0, denormals give themselves.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

Expm1Scaled expm1_of_size(const Expr& x) {
  // From here on both are infinite.
  return expm1_scaled(at_most(abs(x), x->dtype == DType::F32 ? 90 : 711));
}

}  // namespace

template <>
Expr expansion<Opcode::Sinh>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expm1Scaled e = expm1_of_size(x);
  const Expr twice = add(e.value, div(e.value, add(e.value, number(x->dtype, 1))));
  return with_sign_of(mul(mul(twice, number(x->dtype, 0.5)), e.scale), x);
}

template <>
Expr expansion<Opcode::Cosh>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expm1Scaled e = expm1_of_size(x);
  const Expr one = number(x->dtype, 1);
  const Expr exp = add(e.value, one);
  return mul(mul(add(exp, div(one, exp)), number(x->dtype, 0.5)), e.scale);
}

}  // namespace corrloom::scalar::parts
