#pragma once

#include <cstdint>
#include <initializer_list>

#include "ir/scalar/expr.h"

/// What the expansions of functions are written with. Inside ir/scalar only; the way in from outside is expand.h.
namespace corrloom::scalar::parts {

/// A constant of a float dtype, rounded once.
Expr number(DType dtype, double value);
/// A constant of an integer dtype; keeps the low bits.
Expr integer(DType dtype, std::int64_t value);

Expr neg(Expr x);
Expr abs(Expr x);
Expr add(Expr x, Expr y);
Expr sub(Expr x, Expr y);
Expr mul(Expr x, Expr y);
Expr div(Expr x, Expr y);
/// x * y + z, rounded once.
Expr fma(Expr x, Expr y, Expr z);
Expr shl(Expr x, int count);
Expr shr(Expr x, int count);
Expr bit_and(Expr x, Expr y);
Expr bit_or(Expr x, Expr y);
Expr eq(Expr x, Expr y);
Expr ne(Expr x, Expr y);
Expr lt(Expr x, Expr y);
Expr gt(Expr x, Expr y);
Expr is_nan(Expr x);
Expr select(Expr condition, Expr then, Expr otherwise);

/// The lesser of x and a bound; a NaN stays. One machine instruction, unlike `min`.
Expr at_most(Expr x, double bound);
/// The greater of x and a bound; a NaN stays.
Expr at_least(Expr x, double bound);

/// sum_i coefficients[i] * x^i by Horner's rule, each step one fma.
Expr polynomial(const Expr& x, std::initializer_list<double> coefficients);

/// The bits of f32 as i32, of f64 as i64; and back.
Expr bits_of(const Expr& x);
Expr from_bits(const Expr& bits);
/// Bits of the fraction that a float stores: 23 or 52.
int fraction_bits(DType dtype);
/// `magnitude`, not negative, with the sign of x.
Expr with_sign_of(Expr magnitude, const Expr& x);

/// exp(x) in the form exp(r) * 2^n with |r| <= ln(2) / 2, for |x| < 1100 (f64) or |x| < 170 (f32).
struct ReducedExp {
  Expr r;
  /// n, as an integer that stands in the exponent's place: shifted left by `fraction_bits`.
  Expr shifted_n;
};
ReducedExp reduce_exp(const Expr& x);
/// exp(r) for |r| <= ln(2) / 2.
Expr exp_polynomial(const Expr& r);
/// exp(r) - 1 for |r| <= ln(2) / 2, accurate for small r too.
Expr expm1_polynomial(const Expr& r);
/// 2^n of a `shifted_n` whose n lies in the normal range of the dtype.
Expr power_of_two(const Expr& shifted_n, DType dtype);

// One function each, of an f32 or f64. The error bounds stand in the files.
Expr expand_exp(const Expr& x);
Expr expand_log(const Expr& x);
Expr expand_tanh(const Expr& x);
Expr expand_erf(const Expr& x);
/// Of an f32, f64 or integer.
Expr expand_sign(const Expr& x);

}  // namespace corrloom::scalar::parts
