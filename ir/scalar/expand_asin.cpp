// asin and acos of f32 and f64.
//
//   a = |x| <= 1/2:  asin(a) = a + a^3 P(a^2)
//   a > 1/2:         asin(a) = pi / 2 - 2 asin(s), s = sqrt((1 - a) / 2) <= 1/2
//
// acos(x) is pi / 2 - asin(x), 2 asin(s) or pi - 2 asin(s). Beyond [-1, 1] both are NaN. asin(+-0) = +-0, acos(1) = 0.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// (asin(s) - s) / s^3 as a polynomial in z = s^2. Minimax of s^2 * (P - it) on [0, 1/2]: error 2^-27 (f32), 2^-56
/// (f64); fit_polynomials.py `asin`.
Expr asin_rest(const Expr& z) {
  if (z->dtype == DType::F32) {
    return polynomial(z, {0.166667536, 0.0749523267, 0.045478344, 0.0241409875, 0.0422305502});
  }
  return polynomial(z, {0.16666666666665375, 0.075000000003448017, 0.044642856821975468, 0.030381959395454156,
                        0.02237175193966634, 0.017359795597060017, 0.013884350998693611, 0.01217493853209352,
                        0.006503536482412758, 0.019594297459685956, -0.01632662463187301, 0.031981642546936737});
}

/// pi / 2 in two parts.
Pair half_pi(DType dtype) {
  if (dtype == DType::F32) return {number(dtype, 0x1.921fb6p+0), number(dtype, -0x1.777a5cp-25)};
  return {number(dtype, 0x1.921fb54442d18p+0), number(dtype, 0x1.1a62633145c07p-54)};
}

struct Reduced {
  Expr is_small;  ///< |x| <= 1/2
  Expr s;         ///< |x|, or sqrt((1 - |x|) / 2)
  Expr rest;      ///< asin(s) - s
};

Reduced reduce(const Expr& x) {
  const DType dtype = x->dtype;
  const Expr half = number(dtype, 0.5);
  const Expr a = abs(x);
  const Expr is_small = le(a, half);
  const Expr z = select(is_small, mul(a, a), fma(neg(half), a, half));
  const Expr s = select(is_small, a, sqrt(z));
  return {is_small, s, mul(mul(s, z), asin_rest(z))};
}

}  // namespace

template <>
Expr expansion<Opcode::Asin>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Reduced of = reduce(x);
  const Expr minus_two = number(x->dtype, -2);
  const Pair quarter_turn = half_pi(x->dtype);
  const Pair sum = sum_exact(quarter_turn.high, mul(minus_two, of.s));
  const Expr large = add(sum.high, fma(minus_two, of.rest, add(sum.low, quarter_turn.low)));
  return with_sign_of(select(of.is_small, add(of.s, of.rest), large), x);
}

template <>
Expr expansion<Opcode::Acos>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  const Expr zero = number(dtype, 0);
  const Reduced of = reduce(x);
  const Expr is_negative = lt(x, zero);
  // The angle is base - factor * asin(s), the factor being +-1 or +-2.
  const Pair quarter_turn = half_pi(dtype);
  const auto base = [&](const Expr& part) {
    return select(of.is_small, part, select(is_negative, add(part, part), zero));
  };
  const Expr size = select(of.is_small, number(dtype, 1), number(dtype, -2));
  const Expr factor = select(is_negative, neg(size), size);
  const Pair sum = sum_exact(base(quarter_turn.high), neg(mul(factor, of.s)));
  return add(sum.high, add(fma(neg(factor), of.rest, base(quarter_turn.low)), sum.low));
}

}  // namespace corrloom::scalar::parts
