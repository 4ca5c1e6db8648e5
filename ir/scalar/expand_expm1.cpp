// expm1 of f32 and f64.
//
//   x = n ln(2) + r with |r| <= ln(2) / 2;  exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1)
//
// The terms of that sum agree in sign or the second is the larger, so nothing cancels. expm1(+-0) = +-0,
// expm1(-inf) = -1, expm1(inf) = inf, denormals give themselves.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {

Expm1Scaled expm1_scaled(const Expr& x) {
  const DType dtype = x->dtype;
  const ReducedExp reduced = reduce_exp(x);
  // 2^n may be just out of range where the result is not: a few of its factors 2 are left for the end. There the -1 is
  // far below the last place.
  const Expr bound = integer(reduced.shifted_n->dtype, (dtype == DType::F32 ? std::int64_t{120} : std::int64_t{1000})
                                                           << fraction_bits(dtype));
  const Expr first = select(gt(reduced.shifted_n, bound), bound, reduced.shifted_n);
  const Expr scale = power_of_two(first, dtype);
  const Expr value = fma(scale, expm1_polynomial(reduced.r), sub(scale, number(dtype, 1)));
  return {value, power_of_two(sub(reduced.shifted_n, first), dtype)};
}

template <>
Expr expansion<Opcode::Expm1>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  // Beyond these the result is infinite, or rounds to -1.
  const Expr inside = x->dtype == DType::F32 ? at_least(at_most(x, 90), -20) : at_least(at_most(x, 711), -40);
  const Expm1Scaled of = expm1_scaled(inside);
  // The sum loses the sign of -0.
  return with_sign_of(mul(of.value, of.scale), x);
}

}  // namespace corrloom::scalar::parts
