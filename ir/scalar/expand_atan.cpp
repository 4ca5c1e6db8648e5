// atan and atan2 of f32 and f64.
//
//   of a quotient n / d >= 0:  atan(n / d) = atan(n / d)                       below tan(pi / 8)
//                                          = pi / 4 + atan((n - d) / (n + d))  up to 1 / tan(pi / 8)
//                                          = pi / 2 + atan(-d / n)             above
//
// so one division gives a t with |t| <= tan(pi / 8). atan2(y, x) takes n = |y|, d = |x|, and the angle from pi where x
// is negative; it has C's values at zeros and infinities. Denormals give themselves.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// (atan(t) - t) / t^3 as a polynomial in z = t^2. Minimax of t^2 * (P - it) on [0, tan(pi / 8)]: error 2^-29 (f32),
/// 2^-58 (f64); fit_polynomials.py `atan`.
Expr atan_rest(const Expr& z) {
  if (z->dtype == DType::F32) {
    return polynomial(z, {-0.333333164, 0.199984893, -0.142438471, 0.105959848, -0.06083408});
  }
  return polynomial(z, {-0.33333333333333198, 0.19999999999954077, -0.14285714280247824, 0.11111110786099768,
                        -0.090908978352631883, 0.076920616146386109, -0.066631201148254174, 0.058480068727097163,
                        -0.050398359652975656, 0.038078070821570102, -0.017921997928852695});
}

struct Range {
  Expr is_middle, is_upper;
  /// The multiple of pi / 4 that the range starts from, in units of pi / 4 and in two parts.
  Pair base;
};

Expr by_range(const Range& range, const Expr& lower, const Expr& middle, const Expr& upper) {
  return select(range.is_upper, upper, select(range.is_middle, middle, lower));
}

/// pi / 4 in two parts, times a power of two.
Pair quarter_pi(DType dtype, double times) {
  if (dtype == DType::F32) return {number(dtype, times * 0x1.921fb6p-1), number(dtype, times * -0x1.777a5cp-26)};
  return {number(dtype, times * 0x1.921fb54442d18p-1), number(dtype, times * 0x1.1a62633145c07p-55)};
}

/// atan(n / d) for n, d >= 0, not both 0 and not both infinite: `high` + `low`.
Pair atan_of_quotient(const Expr& n, const Expr& d) {
  const DType dtype = n->dtype;
  const Expr zero = number(dtype, 0);
  const Expr tangent = number(dtype, 0.41421356237309503);
  Range range;
  range.is_middle = gt(n, mul(tangent, d));
  range.is_upper = gt(mul(n, tangent), d);
  const Expr t = div(by_range(range, n, sub(n, d), neg(d)), by_range(range, d, add(n, d), n));
  const Pair quarter = quarter_pi(dtype, 1), half = quarter_pi(dtype, 2);
  const Expr z = mul(t, t);
  const Expr rest = fma(mul(z, t), atan_rest(z), by_range(range, zero, quarter.low, half.low));
  const Pair sum = sum_exact(by_range(range, zero, quarter.high, half.high), t);
  return {sum.high, add(sum.low, rest)};
}

}  // namespace

template <>
Expr expansion<Opcode::Atan>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Pair angle = atan_of_quotient(abs(x), number(x->dtype, 1));
  return with_sign_of(add(angle.high, angle.low), x);
}

template <>
Expr expansion<Opcode::Atan2>(const std::vector<Expr>& args) {
  const Expr &y = args[0], &x = args[1];
  const DType dtype = x->dtype;
  const Expr zero = number(dtype, 0), one = number(dtype, 1);
  const Expr infinity = number(dtype, std::numeric_limits<double>::infinity());
  // Where one is very large, both shrink, so that the sum of the two is finite; what the smaller may lose is too small
  // to matter then. Where both are very small, they grow out of the denormals, which round the bounds of the ranges.
  const bool is_single = dtype == DType::F32;
  const Expr large = number(dtype, is_single ? 0x1p100 : 0x1p1000),
             tiny = number(dtype, is_single ? 0x1p-64 : 0x1p-512);
  Expr n = abs(y), d = abs(x);
  const Expr grown = select(bit_and(lt(n, tiny), lt(d, tiny)), number(dtype, is_single ? 0x1p64 : 0x1p512), one);
  const Expr factor = select(bit_or(gt(n, large), gt(d, large)), number(dtype, 0.25), grown);
  n = mul(n, factor);
  d = mul(d, factor);
  // Two infinities stand in the proportion of 1 to 1, two zeros in that of 0 to 1.
  const Expr both_infinite = bit_and(eq(n, infinity), eq(d, infinity));
  n = select(both_infinite, one, n);
  d = select(bit_or(both_infinite, bit_and(eq(n, zero), eq(d, zero))), one, d);
  const Pair angle = atan_of_quotient(n, d);
  const Pair pi = quarter_pi(dtype, 4);
  const Pair from_pi = sum_exact(pi.high, neg(angle.high));
  const Expr behind = add(from_pi.high, add(from_pi.low, sub(pi.low, angle.low)));
  const Expr sign = sign_bit_of(x);
  const Expr is_behind = ne(sign, integer(sign->dtype, 0));
  return with_sign_of(select(is_behind, behind, add(angle.high, angle.low)), y);
}

}  // namespace corrloom::scalar::parts
