// exp of f32 and f64, and the parts of it that other functions share.
//
//   x = n ln(2) + r with |r| <= ln(2) / 2;  exp(x) = 2^n exp(r)
//
// exp(-inf) = 0, exp(inf) = inf; denormal results are rounded once.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// 1.5 * 2^fraction_bits: a sum with it is rounded to a whole number, which is then found in its low bits.
Expr rounder_of(DType dtype) {
  return number(dtype, dtype == DType::F32 ? 0x1.8p23 : 0x1.8p52);
}

/// n that was rounded by the rounder, as a number and in the exponent's place. The shift drops all of the rounder and
/// keeps as many low bits of n as exponent and sign have.
ReducedExp read_rounded(const Expr& rounded) {
  const DType dtype = rounded->dtype;
  return {nullptr, sub(rounded, rounder_of(dtype)), shl(bits_of(rounded), fraction_bits(dtype))};
}

}  // namespace

Ln2 ln2_of(DType dtype) {
  if (dtype == DType::F32) return {0x1.62e4p-1, 1.42860682031e-6};
  return {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};
}

ReducedExp reduce_exp(const Expr& x) {
  const DType dtype = x->dtype;
  const Ln2 ln2 = ln2_of(dtype);
  ReducedExp reduced = read_rounded(fma(x, number(dtype, 1.4426950408889634), rounder_of(dtype)));
  reduced.r = fma(reduced.n, number(dtype, -ln2.low), fma(reduced.n, number(dtype, -ln2.high), x));
  return reduced;
}

ReducedExp reduce_exp2(const Expr& x) {
  ReducedExp reduced = read_rounded(add(x, rounder_of(x->dtype)));
  reduced.r = sub(x, reduced.n);
  return reduced;
}

/// Minimax of (exp(r) - 1 - r) / r^2 relative to exp(r): error 2^-28 (f32), 2^-60 (f64); fit_polynomials.py `exp`.
Expr exp_rest(const Expr& r) {
  if (r->dtype == DType::F32)
    return polynomial(r, {0.49999994, 0.166665211, 0.041668389, 0.00836871658, 0.00138146034});
  return polynomial(r, {0.5, 0.16666666666666682, 0.041666666666666095, 0.0083333333333170338, 0.0013888888889115644,
                        0.00019841269896383817, 2.4801586926598518e-5, 2.7557234861874869e-6, 2.7557581877734094e-7,
                        2.5112036862793317e-8, 2.0826618132858926e-9});
}

Expr exp_polynomial(const Expr& r) {
  const Expr one = number(r->dtype, 1);
  return fma(fma(exp_rest(r), r, one), r, one);
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

Expr scaled(const Expr& m, const Expr& shifted_n) {
  const DType dtype = m->dtype;
  // 2^n itself may be out of range, so half of n is applied at a time. The first product is exact; only the second
  // rounds, once. Adding n to the bits of m instead would spare a product, but has no denormals and can turn a NaN into
  // a number.
  const Expr exponent_mask = integer(shifted_n->dtype, -(std::int64_t{1} << fraction_bits(dtype)));
  const Expr half = bit_and(shr(shifted_n, 1), exponent_mask);
  const Expr rest = sub(shifted_n, half);
  return mul(mul(m, power_of_two(half, dtype)), power_of_two(rest, dtype));
}

template <>
Expr expansion<Opcode::Exp>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  // Beyond these the result is infinite, or rounds to 0.
  const Expr inside = x->dtype == DType::F32 ? at_least(at_most(x, 90), -105) : at_least(at_most(x, 711), -746);
  const ReducedExp reduced = reduce_exp(inside);
  return scale(exp_polynomial(reduced.r), reduced.n);
}

}  // namespace corrloom::scalar::parts
