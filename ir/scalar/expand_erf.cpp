// erf of f32 and f64. With a = |x|; the sign is put back at the end:
//
//   a small:  erf(a) = a + a P(a^2)
//   f32, from 9/8 on:  erf(a) = 1 - R(a - 1)^4, R(u) = erfc(1 + u)^(1/4)
//   f64, from 1 on:    erf(a) = 1 - exp(-L(a - 1)), L(u) = -log(erfc(1 + u))
//
// An error of R or L counts as much as erfc, which shrinks fast, so one polynomial serves to where erf rounds to 1. The
// fourth root is flat enough for few terms, and its error counts little from 9/8 on. erf(+-0) = +-0, erf(+-inf) = +-1.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// Where the forms meet, and where erf has come to 1.
double middle_of(DType dtype) {
  return dtype == DType::F32 ? 1.125 : 1;
}
double end_of(DType dtype) {
  return dtype == DType::F32 ? 4 : 6;
}

/// erf(a) / a - 1 as a polynomial in a^2. Minimax on [0, 9/8], error 2^-27 (f32), on [0, 1], 2^-62 (f64);
/// fit_polynomials.py `erf_small`.
Expr small_polynomial(const Expr& square) {
  if (square->dtype == DType::F32) {
    return polynomial(
        square, {0.128379166, -0.376126051, 0.112832867, -0.0268402435, 0.00516175432, -0.000777575129, 7.08819498e-5});
  }
  return polynomial(square, {0.12837916709551259, -0.37612638903183748, 0.11283791670954885, -0.026866170645077871,
                             0.0052239776248283873, -0.00085483269814234496, 0.00012055331132893455,
                             -1.4925595770984906e-5, 1.6461008462973099e-6, -1.6350396106954029e-7,
                             1.4660328191238939e-8, -1.1374954537763103e-9, 5.9606846041747072e-11});
}

/// R as a polynomial in u = a - 1. Minimax of erfc(a)^(3/4) * 4 (P - R) on a in [9/8, 4], error 2^-26;
/// fit_polynomials.py `erf_root`.
Expr root_polynomial(const Expr& u) {
  return polynomial(u, {0.629770577, -0.415506333, 0.00447528902, 0.0502788797, -0.0027185916, -0.00657501677,
                        0.00197689282, -0.000179399431});
}

/// L as a polynomial in u = a - 1. Minimax of erfc(a) * (P - L) on a in [1, 6], error 2^-57; fit_polynomials.py
/// `erf_large`.
Expr log_polynomial(const Expr& u) {
  return polynomial(u, {1.8496055099332482, 2.6389675142347757, 0.84310725635941297, 0.041561098025075419,
                        -0.010033825179085727, 0.0019779012156686919, -0.00023731643458346077, -2.6296326645632526e-5,
                        2.7198971058512943e-5, -9.6713737903344606e-6, 2.1319360563646682e-6, -2.048089022629769e-7,
                        -5.8013306006589125e-8, 3.3391941597164008e-8, -8.5189607821734926e-9, 1.3191372058752137e-9,
                        -1.1932956301765485e-10, 4.8651970990851874e-12});
}

/// 1 - erfc(1 + u).
Expr large_erf(const Expr& u) {
  const DType dtype = u->dtype;
  const Expr one = number(dtype, 1);
  if (dtype == DType::F32) {
    const Expr root = root_polynomial(u);
    const Expr square = mul(root, root);
    return fma(neg(square), square, one);
  }
  const ReducedExp reduced = reduce_exp(neg(log_polynomial(u)));
  return fma(neg(exp_polynomial(reduced.r)), power_of_two(reduced.shifted_n, dtype), one);
}

}  // namespace

template <>
Expr expansion<Opcode::Erf>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  const Expr a = at_most(abs(x), end_of(dtype));
  const Expr small = fma(a, small_polynomial(mul(a, a)), a);
  const Expr large = large_erf(sub(a, number(dtype, 1)));
  return with_sign_of(select(lt(a, number(dtype, middle_of(dtype))), small, large), x);
}

}  // namespace corrloom::scalar::parts
