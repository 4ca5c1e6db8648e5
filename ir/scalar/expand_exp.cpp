// exp of f32 and f64, and the parts of it that tanh and erf share.
//
//   x = n ln(2) + r with |r| <= ln(2) / 2;  exp(x) = 2^n exp(r)
//
// Measured: f32 at most 0.90 ulp (every value), f64 at most 0.85 ulp (2^19 points). exp(-inf) = 0, exp(inf) = inf;
// denormal results are rounded once.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

struct Reduction {
  double rounder;   ///< 1.5 * 2^fraction_bits: a sum with it is rounded to a whole number, which is then found in its
                    ///< low bits
  double ln2_high;  ///< the first bits of ln(2), so few that n times it is exact
  double ln2_low;   ///< the rest
};

Reduction reduction_of(DType dtype) {
  if (dtype == DType::F32) return {0x1.8p23, 0x1.62e4p-1, 1.42860682031e-6};
  return {0x1.8p52, 0x1.62e42feep-1, 0x1.a39ef35793c76p-33};
}

}  // namespace

ReducedExp reduce_exp(const Expr& x) {
  const DType dtype = x->dtype;
  const Reduction by = reduction_of(dtype);
  const Expr rounder = number(dtype, by.rounder);
  const Expr rounded = fma(x, number(dtype, 1.4426950408889634), rounder);
  const Expr n = sub(rounded, rounder);
  const Expr r = fma(n, number(dtype, -by.ln2_low), fma(n, number(dtype, -by.ln2_high), x));
  // The shift drops all of the rounder and keeps as many low bits of n as exponent and sign have.
  return {r, shl(bits_of(rounded), fraction_bits(dtype))};
}

/// Minimax of (exp(r) - 1 - r) / r^2 relative to exp(r): error 2^-28 (f32), 2^-60 (f64); fit_polynomials.py `exp`.
Expr exp_polynomial(const Expr& r) {
  if (r->dtype == DType::F32) {
    return polynomial(r, {1, 1, 0.49999994, 0.166665211, 0.041668389, 0.00836871658, 0.00138146034});
  }
  return polynomial(r, {1, 1, 0.5, 0.16666666666666682, 0.041666666666666095, 0.0083333333333170338,
                        0.0013888888889115644, 0.00019841269896383817, 2.4801586926598518e-5, 2.7557234861874869e-6,
                        2.7557581877734094e-7, 2.5112036862793317e-8, 2.0826618132858926e-9});
}

/// Minimax of (exp(r) - 1 - r) / r^2 relative to r: error 2^-26 (f32), 2^-60 (f64); fit_polynomials.py `expm1`.
Expr expm1_polynomial(const Expr& r) {
  const Expr square = mul(r, r);
  if (r->dtype == DType::F32) {
    return fma(square, polynomial(r, {0.5, 0.166665435, 0.0416662805, 0.00836658385, 0.00139464473}), r);
  }
  const Expr rest =
      polynomial(r, {0.5, 0.16666666666666677, 0.041666666666666699, 0.0083333333333216152, 0.0013888888888866828,
                     0.00019841269886158579, 2.4801587360575686e-5, 2.7557244181794761e-6, 2.7557242744200624e-7,
                     2.5109044952211742e-8, 2.092444757420692e-9});
  return fma(square, rest, r);
}

Expr power_of_two(const Expr& shifted_n, DType dtype) {
  const std::int64_t one = dtype == DType::F32 ? 0x3f800000 : 0x3ff0000000000000;
  return from_bits(add(shifted_n, integer(shifted_n->dtype, one)));
}

Expr expand_exp(const Expr& x) {
  const DType dtype = x->dtype;
  // Beyond these the result is infinite, or rounds to 0.
  const Expr inside = dtype == DType::F32 ? at_least(at_most(x, 90), -105) : at_least(at_most(x, 711), -746);
  const ReducedExp reduced = reduce_exp(inside);
  // 2^n itself may be out of range, so half of n is applied at a time. The first product is exact; only the second
  // rounds, once. Adding n to the bits of exp(r) instead would spare a product, but has no denormals and can turn a NaN
  // into a number.
  const Expr exponent_mask = integer(reduced.shifted_n->dtype, -(std::int64_t{1} << fraction_bits(dtype)));
  const Expr half = bit_and(shr(reduced.shifted_n, 1), exponent_mask);
  const Expr rest = sub(reduced.shifted_n, half);
  return mul(mul(exp_polynomial(reduced.r), power_of_two(half, dtype)), power_of_two(rest, dtype));
}

}  // namespace corrloom::scalar::parts
