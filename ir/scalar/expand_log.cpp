// log of f32 and f64.
//
//   x = m * 2^k with sqrt(1/2) <= m < sqrt(2);  f = m - 1;  log(x) = k * ln(2) + log(1 + f)
//
// Denormals are exact in the reduction; log(+-0) = -inf, log of a negative is NaN.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// What splits x, by dtype.
struct Split {
  double least_normal;
  double lift;              ///< brings every denormal into the normal range
  double lift_exponent;     ///< log2(lift)
  std::int64_t lower_bits;  ///< the bits of sqrt(1/2)
};

Split split_of(DType dtype) {
  if (dtype == DType::F32) return {0x1p-126, 0x1p25, 25, 0x3f3504f3};
  return {0x1p-1022, 0x1p54, 54, 0x3fe6a09e667f3bcd};
}

/// The terms for f32: tail = f^3 P(f). P: minimax on [sqrt(1/2) - 1, sqrt(2) - 1], error 2^-30 of log(1 + f) / f;
/// fit_polynomials.py `log_f32`.
LogTerms terms_f32(const Expr& f) {
  const Expr square = mul(f, f);
  const Expr rest = polynomial(f, {0.333333105, -0.249999866, 0.200022265, -0.166692525, 0.142186627, -0.123843342,
                                   0.118729286, -0.11789874, 0.069155477});
  return {mul(number(DType::F32, 0.5), square), mul(mul(square, f), rest)};
}

/// The terms for f64. With s = f / (2 + f): log(1 + f) = 2 atanh(s) = 2 s + s^3 P(s^2) = f - (f^2 / 2 - s (f^2 / 2 +
/// s^2 P(s^2))), the last form with small corrections to an exact f only (the arrangement of fdlibm's e_log.c, 1993).
/// P: minimax, error 2^-58; fit_polynomials.py `log_f64`.
LogTerms terms_f64(const Expr& f) {
  const Expr s = div(f, add(number(DType::F64, 2), f));
  const Expr z = mul(s, s);
  const Expr rest =
      mul(z, polynomial(z, {0.6666666666666734, 0.39999999999414687, 0.2857142874238639, 0.22222198573297916,
                            0.18183564320575377, 0.15314050687227609, 0.14795948416511956}));
  const Expr half_square = mul(number(DType::F64, 0.5), mul(f, f));
  return {half_square, mul(s, add(half_square, rest))};
}

}  // namespace

SplitLog split_log(const Expr& x) {
  const DType dtype = x->dtype;
  const Split by = split_of(dtype);
  const Expr is_small = lt(x, number(dtype, by.least_normal));
  const Expr bits = bits_of(select(is_small, mul(x, number(dtype, by.lift)), x));
  // The difference's exponent field counts the steps of a factor 2 from sqrt(1/2) on; it may be negative.
  const Expr steps = sub(bits, integer(bits->dtype, by.lower_bits));
  const Expr in_place = bit_and(steps, integer(bits->dtype, -(std::int64_t{1} << fraction_bits(dtype))));
  const Expr m = from_bits(sub(bits, in_place));
  // By way of i32: vector units convert from i64 slowly or not at all.
  const Expr count = shr(steps, fraction_bits(dtype));
  const Expr k = cast(count->dtype == DType::I32 ? count : cast(count, DType::I32), dtype);
  return {sub(m, number(dtype, 1)), sub(k, select(is_small, number(dtype, by.lift_exponent), number(dtype, 0)))};
}

LogTerms log_terms(const Expr& f) {
  return f->dtype == DType::F32 ? terms_f32(f) : terms_f64(f);
}

Expr log_sum(const SplitLog& of, const LogTerms& terms) {
  const DType dtype = of.f->dtype;
  const Ln2 ln2 = ln2_of(dtype);
  const Expr low = fma(of.k, number(dtype, ln2.low), terms.tail);
  return fma(of.k, number(dtype, ln2.high), sub(of.f, sub(terms.half_square, low)));
}

Expr log_with_edges(const Expr& x, const Expr& finite) {
  const DType dtype = x->dtype;
  const Expr zero = number(dtype, 0);
  const Expr infinity = number(dtype, std::numeric_limits<double>::infinity());
  const Expr of_positive = select(lt(x, infinity), finite, infinity);
  const Expr of_others = select(eq(x, zero), neg(infinity), number(dtype, std::numeric_limits<double>::quiet_NaN()));
  return select(gt(x, zero), of_positive, of_others);
}

template <>
Expr expansion<Opcode::Log>(const std::vector<Expr>& args) {
  const SplitLog of = split_log(args[0]);
  return log_with_edges(args[0], log_sum(of, log_terms(of.f)));
}

}  // namespace corrloom::scalar::parts
