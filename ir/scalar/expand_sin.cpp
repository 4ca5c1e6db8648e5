// sin, cos and tan of f32 and f64.
//
//   |x| = q pi / 2 + r;  sin and cos are +-sin(r) or +-cos(r), by q modulo 4;  tan is their quotient
//
// sin(+-0) = +-0, denormals give themselves; of infinities it is NaN. Every finite x is reduced exactly enough.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// (sin(r) - r) / r^3 as a polynomial in z = r^2. Minimax of r^2 * (P - it) on [0, pi / 4]: error 2^-27 (f32), 2^-57
/// (f64); fit_polynomials.py `sin`.
Expr sin_rest(const Expr& z) {
  if (z->dtype == DType::F32) return polynomial(z, {-0.166666552, 0.008332178, -0.000195172339});
  return polynomial(z, {-0.16666666666666632, 0.0083333333333224131, -0.00019841269829807935, 2.7557313691957391e-6,
                        -2.5050758120817417e-8, 1.5896795942752645e-10});
}

/// (cos(r) - 1 + r^2 / 2) / r^4 as a polynomial in z = r^2. Minimax of r^4 * (P - it) on [0, pi / 4]: error 2^-31
/// (f32), 2^-60 (f64); fit_polynomials.py `cos`.
Expr cos_rest(const Expr& z) {
  if (z->dtype == DType::F32) return polynomial(z, {0.0416666456, -0.00138873665, 2.44383791e-5});
  return polynomial(z, {0.041666666666666602, -0.0013888888888874123, 2.480158728948193e-5, -2.7557314352256257e-7,
                        2.0875723262801099e-9, -1.13596472718345e-11});
}

/// `value` with its sign changed where bit 1 of `quadrant` is set.
Expr turned(const Expr& value, const Expr& quadrant) {
  const int place = bit_width(quadrant->dtype) - 2;
  const Expr half_turn = shl(bit_and(quadrant, integer(quadrant->dtype, 2)), place);
  return from_bits(bit_xor(bits_of(value), half_turn));
}

Expr is_odd(const Expr& quadrant) {
  return ne(bit_and(quadrant, integer(quadrant->dtype, 1)), integer(quadrant->dtype, 0));
}

}  // namespace

Expr sin_of_reduced(const Angle& angle) {
  const Expr z = mul(angle.r, angle.r);
  const Expr cube = mul(z, angle.r);
  if (!angle.rest) return fma(cube, sin_rest(z), angle.r);
  return add(angle.r, fma(cube, sin_rest(z), angle.rest));
}

Expr cos_of_reduced(const Angle& angle) {
  const Expr z = mul(angle.r, angle.r);
  const Expr half = mul(number(z->dtype, 0.5), z);
  const Pair first = sum_exact(number(z->dtype, 1), neg(half));
  Expr small = mul(mul(z, z), cos_rest(z));
  if (angle.rest) small = fma(neg(angle.r), angle.rest, small);
  return add(first.high, add(first.low, small));
}

template <>
Expr expansion<Opcode::Sin>(const std::vector<Expr>& args) {
  const Angle angle = reduce_angle(args[0]);
  const Expr value = select(is_odd(angle.quadrant), cos_of_reduced(angle), sin_of_reduced(angle));
  return from_bits(bit_xor(bits_of(turned(value, angle.quadrant)), sign_bit_of(args[0])));
}

template <>
Expr expansion<Opcode::Cos>(const std::vector<Expr>& args) {
  const Angle angle = reduce_angle(args[0]);
  const Expr value = select(is_odd(angle.quadrant), sin_of_reduced(angle), cos_of_reduced(angle));
  return turned(value, add(angle.quadrant, integer(angle.quadrant->dtype, 1)));
}

template <>
Expr expansion<Opcode::Tan>(const std::vector<Expr>& args) {
  const Angle angle = reduce_angle(args[0]);
  const Expr sin = sin_of_reduced(angle), cos = cos_of_reduced(angle);
  const Expr odd = is_odd(angle.quadrant);
  const Expr quotient = div(select(odd, neg(cos), sin), select(odd, sin, cos));
  return from_bits(bit_xor(bits_of(quotient), sign_bit_of(args[0])));
}

}  // namespace corrloom::scalar::parts
