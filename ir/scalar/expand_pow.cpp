// pow of f32 and f64.
//
//   |x| = m * 2^k;  L = k ln(2) + log(m), in two parts;  |pow(x, y)| = exp(y L), y L in two parts
//
// The parts carry about 2^-65 (f64) or 2^-37 (f32) of L, so that y L, however large, leaves less than a quarter of the
// last place of the result; results that are exact in the dtype are exact. Special values are those of C's Annex F.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// (2 atanh(s) - 2 s - 2/3 s^3) / s^5 as a polynomial in z = s^2. Minimax of s^4 * (P - it) for s up to
/// (sqrt(2) - 1) / (sqrt(2) + 1): error 2^-36 (f32), 2^-65 (f64); fit_polynomials.py `pow`.
Expr atanh_rest(const Expr& z) {
  if (z->dtype == DType::F32) return polynomial(z, {0.400001526, 0.285471231, 0.234188229});
  return polynomial(z, {0.3999999999999998, 0.28571428571445123, 0.22222222217533535, 0.18181818870675839,
                        0.15384556846291408, 0.13336318371222311, 0.11674799151835222, 0.11989174556189577});
}

Pair two_thirds(DType dtype) {
  if (dtype == DType::F32) return {number(dtype, 0x1.555556p-1), number(dtype, -0x1.555556p-26)};
  return {number(dtype, 0x1.5555555555555p-1), number(dtype, 0x1.5555555555555p-55)};
}

/// log(1 + f) = s (2 + z (2/3 + z P(z))) with s = f / (2 + f) and z = s^2, all but P in two parts.
Pair log_of(const Expr& f) {
  const DType dtype = f->dtype;
  const Expr two = number(dtype, 2);
  const Pair divisor = sum_exact(two, f);
  const Expr inverse = div(number(dtype, 1), divisor.high);
  Pair s = {mul(f, inverse), nullptr};
  const Expr left = fma(neg(s.high), divisor.high, f);
  s.low = mul(fma(neg(s.high), divisor.low, left), inverse);
  const Pair z = product(s, s);
  const Pair constant = two_thirds(dtype);
  Pair factor = sum_exact(constant.high, mul(z.high, atanh_rest(z.high)));
  factor.low = add(factor.low, constant.low);
  const Pair inner = product(z, factor);
  Pair outer = sum_exact(two, inner.high);
  outer.low = add(outer.low, inner.low);
  return product(s, outer);
}

/// log(a) in two parts, for a >= 0; in `high` alone where it is not finite. NaN for NaN.
Pair log_pair(const Expr& a) {
  const DType dtype = a->dtype;
  const Ln2 ln2 = ln2_of(dtype);
  const SplitLog of = split_log(a);
  const Pair log = log_of(of.f);
  Pair sum = sum_exact(mul(of.k, number(dtype, ln2.high)), log.high);
  sum.low = add(sum.low, fma(of.k, number(dtype, ln2.low), log.low));
  const Expr infinity = number(dtype, std::numeric_limits<double>::infinity());
  const Expr at_least_one_side = select(lt(a, infinity), sum.high, a);
  return {select(eq(a, number(dtype, 0)), neg(infinity), at_least_one_side), sum.low};
}

/// exp(p) for any p; p.low is left out of account where the result is 0, infinite or NaN.
Expr exp_pair(const Pair& p) {
  const DType dtype = p.high->dtype;
  const bool is_single = dtype == DType::F32;
  const Ln2 ln2 = ln2_of(dtype);
  const Expr zero = number(dtype, 0);
  const Expr is_inside = lt(abs(p.high), number(dtype, is_single ? 110 : 750));
  const Expr high = is_single ? at_least(at_most(p.high, 90), -105) : at_least(at_most(p.high, 711), -746);
  const ReducedExp reduced = reduce_exp(high);
  // As in reduce_exp, without the low part of ln(2): exact.
  const Expr exact = fma(reduced.n, number(dtype, -ln2.high), high);
  const Expr beside = fma(reduced.n, number(dtype, -ln2.low), select(is_inside, p.low, zero));
  const Pair r = sum_exact(exact, beside);
  const Pair first = sum_exact(number(dtype, 1), r.high);
  const Expr small = fma(mul(r.high, r.high), exp_rest(r.high), add(first.low, r.low));
  return scale(add(first.high, small), reduced.n);
}

}  // namespace

template <>
Expr expansion<Opcode::Pow>(const std::vector<Expr>& args) {
  const Expr &x = args[0], &y = args[1];
  const DType dtype = x->dtype;
  const Expr zero = number(dtype, 0), one = number(dtype, 1), half = number(dtype, 0.5);
  const Expr infinity = number(dtype, std::numeric_limits<double>::infinity());
  const Expr a = abs(x);
  const Pair log = log_pair(a);
  Pair p = product_exact(log.high, y);
  p.low = fma(log.low, y, p.low);
  // |pow|, also where log is 0 and y infinite.
  const Expr magnitude = select(bit_and(eq(a, one), eq(y, y)), one, exp_pair(p));

  const Expr is_whole = eq(trunc(y), y);
  const Expr half_y = mul(half, y);
  const Expr is_odd = bit_and(is_whole, ne(trunc(half_y), half_y));
  const Expr signed_value = select(is_odd, with_sign_of(magnitude, x), magnitude);
  const Expr is_negative = bit_and(lt(x, zero), gt(x, neg(infinity)));
  // A negative number to a power between whole ones.
  const Expr has_no_value = bit_and(is_negative, ne(trunc(y), y));
  const Expr nan = number(dtype, std::numeric_limits<double>::quiet_NaN());
  const Expr value = select(has_no_value, nan, signed_value);
  return select(bit_or(eq(x, one), eq(y, zero)), one, value);
}

}  // namespace corrloom::scalar::parts
