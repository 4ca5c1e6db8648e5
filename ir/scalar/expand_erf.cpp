// erf of f32 and f64.
//
//   a = |x|;  a < 1:  erf(a) = a + a P(a^2);  otherwise  erf(a) = 1 - exp(-L(a - 1)), L(u) = -log(erfc(1 + u));  the
//   sign is put back at the end
//
// The error of L is weighted by erfc, which shrinks faster than L grows, so one polynomial serves from 1 to where erf
// rounds to 1. erf(+-0) = +-0, erf(+-inf) = +-1.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// erf(a) / a - 1 as a polynomial in a^2. Minimax on [0, 1], error 2^-29 (f32), 2^-62 (f64); fit_polynomials.py
/// `erf_small`.
Expr small_polynomial(const Expr& square) {
  if (square->dtype == DType::F32) {
    return polynomial(
        square, {0.128379166, -0.37612626, 0.112836003, -0.0268544443, 0.00518953567, -0.000802084513, 7.88913239e-5});
  }
  return polynomial(square, {0.12837916709551259, -0.37612638903183748, 0.11283791670954885, -0.026866170645077871,
                             0.0052239776248283873, -0.00085483269814234496, 0.00012055331132893455,
                             -1.4925595770984906e-5, 1.6461008462973099e-6, -1.6350396106954029e-7,
                             1.4660328191238939e-8, -1.1374954537763103e-9, 5.9606846041747072e-11});
}

/// L as a polynomial in u = a - 1. Minimax of erfc(a) * (P - L) on a in [1, 4] (f32) or [1, 6] (f64), error 2^-29
/// (f32), 2^-57 (f64); fit_polynomials.py `erf_large`.
Expr large_polynomial(const Expr& u) {
  if (u->dtype == DType::F32) {
    return polynomial(u,
                      {1.84960556, 2.6389668, 0.84311831, 0.0415006876, -0.00989089161, 0.0018261635, -0.000185574114});
  }
  return polynomial(u, {1.8496055099332482, 2.6389675142347757, 0.84310725635941297, 0.041561098025075419,
                        -0.010033825179085727, 0.0019779012156686919, -0.00023731643458346077, -2.6296326645632526e-5,
                        2.7198971058512943e-5, -9.6713737903344606e-6, 2.1319360563646682e-6, -2.048089022629769e-7,
                        -5.8013306006589125e-8, 3.3391941597164008e-8, -8.5189607821734926e-9, 1.3191372058752137e-9,
                        -1.1932956301765485e-10, 4.8651970990851874e-12});
}

}  // namespace

template <>
Expr expansion<Opcode::Erf>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  const Expr one = number(dtype, 1);
  const Expr a = at_most(abs(x), dtype == DType::F32 ? 4 : 6);
  const Expr small = fma(a, small_polynomial(mul(a, a)), a);
  const ReducedExp reduced = reduce_exp(neg(large_polynomial(sub(a, one))));
  const Expr large = fma(neg(exp_polynomial(reduced.r)), power_of_two(reduced.shifted_n, dtype), one);
  return with_sign_of(select(lt(a, one), small, large), x);
}

}  // namespace corrloom::scalar::parts
