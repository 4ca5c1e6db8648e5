#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

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
Expr sqrt(Expr x);
Expr trunc(Expr x);
Expr shl(Expr x, int count);
Expr shr(Expr x, int count);
Expr shl(Expr x, Expr count);
Expr shr(Expr x, Expr count);
Expr bit_and(Expr x, Expr y);
Expr bit_or(Expr x, Expr y);
Expr bit_xor(Expr x, Expr y);
Expr eq(Expr x, Expr y);
Expr ne(Expr x, Expr y);
Expr lt(Expr x, Expr y);
Expr gt(Expr x, Expr y);
Expr ge(Expr x, Expr y);
Expr le(Expr x, Expr y);
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
/// The sign bit of x alone, as an integer.
Expr sign_bit_of(const Expr& x);

/// A number in two parts, which give together about twice the precision: `low` is at most about a last place of `high`.
struct Pair {
  Expr high;
  Expr low;
};
/// x + y exactly, where x is 0 or |x| >= |y|.
Pair sum_exact(const Expr& x, const Expr& y);
/// x * y exactly.
Pair product_exact(const Expr& x, const Expr& y);
/// Their product, to about twice the precision of one part.
Pair product(const Pair& x, const Pair& y);

/// exp(x) in the form exp(r) * 2^n with |r| <= ln(2) / 2, for |x| < 1100 (f64) or |x| < 170 (f32).
struct ReducedExp {
  Expr r;
  Expr n;  ///< as a float
  /// n, as an integer that stands in the exponent's place: shifted left by `fraction_bits`.
  Expr shifted_n;
};
ReducedExp reduce_exp(const Expr& x);
/// x, rounded to a whole number n, and n: for |x| < 2048 (f64) or |x| < 256 (f32).
ReducedExp reduce_exp2(const Expr& x);
/// exp(r) for |r| <= ln(2) / 2.
Expr exp_polynomial(const Expr& r);
/// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, relative to exp(r).
Expr exp_rest(const Expr& r);
/// exp(r) - 1 for |r| <= ln(2) / 2, accurate for small r too.
Expr expm1_polynomial(const Expr& r);
/// exp(x) - 1 as value * scale, for x from -80 to 90 (f32) or from -700 to 711 (f64). The scale is 1 up to 2^120 or
/// 2^1000 and a power of two beyond, where 1 is far below the last place of `value`.
struct Expm1Scaled {
  Expr value;
  Expr scale;
};
Expm1Scaled expm1_scaled(const Expr& x);
/// 2^n of a `shifted_n` whose n lies in the normal range of the dtype.
Expr power_of_two(const Expr& shifted_n, DType dtype);
/// m * 2^n for any n; a denormal result is rounded once.
Expr scaled(const Expr& m, const Expr& shifted_n);
/// The same for an m from 1/4 to 4 and n as a float, which vector machines have an instruction for.
Expr scale(const Expr& m, const Expr& n);
/// ln(2) in two parts: `high` has so few bits that n times it is exact.
struct Ln2 {
  double high, low;
};
Ln2 ln2_of(DType dtype);

/// x = (1 + f) * 2^k with sqrt(1/2) <= 1 + f < sqrt(2), for finite x > 0; garbage otherwise.
struct SplitLog {
  Expr f;
  Expr k;  ///< as a float
};
SplitLog split_log(const Expr& x);
/// log(1 + f) as f - `half_square` + `tail`.
struct LogTerms {
  Expr half_square;
  Expr tail;
};
LogTerms log_terms(const Expr& f);
/// k * ln(2) + log(1 + f).
Expr log_sum(const SplitLog& of, const LogTerms& terms);
/// `finite` for finite x > 0; -inf for zeros, inf for inf, else NaN.
Expr log_with_edges(const Expr& x, const Expr& finite);
/// log(1 + x) + k * ln(2), right for x in (-1, inf) and a k >= 0; not for other x.
Expr log1p_core(const Expr& x, const Expr& k);

/// |x| = q * pi / 2 + r with |r| <= pi / 4, for every finite x.
struct Angle {
  Expr r;
  Expr rest;      ///< what r lacks, of f64; null of f32. NaN of x is in r.
  Expr quadrant;  ///< q modulo 4, an integer of the width of x
};
Angle reduce_angle(const Expr& x);
/// sin(r) and cos(r) of a reduced angle.
Expr sin_of_reduced(const Angle& angle);
Expr cos_of_reduced(const Angle& angle);

/// One function of f32 or f64 (`sign` also of integers) in terms of primitives. Each is specialised in the file that
/// bears its name, where its method stands; one that lacks its file does not link.
template <Opcode opcode>
Expr expansion(const std::vector<Expr>& args);

#define CORRLOOM_EXPANSION_Primitive(name)
#define CORRLOOM_EXPANSION_Function(name) \
  template <>                             \
  Expr expansion<Opcode::name>(const std::vector<Expr>& args);
#define CORRLOOM_OPCODE(name, text, arity, operands, result, kind, callable, summary) CORRLOOM_EXPANSION_##kind(name)
#include "ir/scalar/opcodes.def"
#undef CORRLOOM_OPCODE
#undef CORRLOOM_EXPANSION_Function
#undef CORRLOOM_EXPANSION_Primitive

/// A function of f32 by means of the approximable ones, or null when it is better computed accurately.
Expr approximation(Opcode function, const std::vector<Expr>& args);

}  // namespace corrloom::scalar::parts
