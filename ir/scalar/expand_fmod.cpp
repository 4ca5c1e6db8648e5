// fmod of f32 and f64, exact for every pair.
//
//   |x| = r * 2^d * 2^e and |y| = m * 2^e with r, m in [1, 2);  r = r * 2^k - q * m, as often as it takes to use up d
//
// Each step multiplies r by 2^k and takes off the nearest multiple q of m; r then lies within +-0.9 m. q has so few
// bits that it is a float, and a whole multiple of the last place of m below 2 is one too, so the fma is exact. A fixed
// number of steps of equal k serves every pair: d is spread over them. fmod(x, inf) = x; of an infinite x or y = 0 it
// is NaN.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

struct Format {
  int steps;  ///< steps by at most `fraction_bits` - 2 use up the largest d
  double least_normal;
  double lift;        ///< brings every denormal into the normal range
  int lift_exponent;  ///< log2(lift)
  int bias;           ///< of the exponent
};

Format format_of(DType dtype) {
  if (dtype == DType::F32) return {14, 0x1p-126, 0x1p25, 25, 127};
  return {43, 0x1p-1022, 0x1p54, 54, 1023};
}

/// A positive finite number as mantissa * 2^exponent; garbage otherwise.
struct Split {
  Expr mantissa;  ///< in [1, 2)
  Expr exponent;  ///< an integer of the width of the number
};

Split split(const Expr& a) {
  const DType dtype = a->dtype;
  const Format format = format_of(dtype);
  const int width = fraction_bits(dtype);
  const Expr is_small = lt(a, number(dtype, format.least_normal));
  const Expr bits = bits_of(select(is_small, mul(a, number(dtype, format.lift)), a));
  const auto whole = [&](std::int64_t value) { return integer(bits->dtype, value); };
  const std::int64_t fraction = (std::int64_t{1} << width) - 1;
  const Expr mantissa = bit_or(bit_and(bits, whole(fraction)), whole(std::int64_t{format.bias} << width));
  const Expr bias = select(is_small, whole(format.bias + format.lift_exponent), whole(format.bias));
  return {from_bits(mantissa), sub(shr(bits, width), bias)};
}

Expr round(const Expr& x) {
  return apply(Opcode::Round, {x});
}

}  // namespace

template <>
Expr expansion<Opcode::Fmod>(const std::vector<Expr>& args) {
  const Expr &x = args[0], &y = args[1];
  const DType dtype = x->dtype;
  const Format format = format_of(dtype);
  const int width = fraction_bits(dtype);
  const Expr zero = number(dtype, 0);
  const Expr a = abs(x), b = abs(y);
  const Split of_x = split(a), of_y = split(b);
  const DType whole = of_x.exponent->dtype;
  // d is at least 0 where it counts. All steps but the first multiply by 2^k; the quotient is computed as a product.
  const Expr d = sub(of_x.exponent, of_y.exponent);
  const int others = format.steps - 1;
  const Expr k = shr(mul(d, integer(whole, (std::int64_t{1} << 20) / others + 1)), 20);
  const Expr first = sub(d, mul(k, integer(whole, others)));
  const Expr m = of_y.mantissa;
  const Expr inverse_m = div(number(dtype, 1), m);
  const auto step = [&](const Expr& r, const Expr& scale) {
    const Expr shifted = mul(r, scale);
    return fma(neg(round(mul(shifted, inverse_m))), m, shifted);
  };
  Expr r = step(of_x.mantissa, power_of_two(shl(first, width), dtype));
  const Expr scale = power_of_two(shl(k, width), dtype);
  for (int count = 0; count < others; ++count) r = step(r, scale);
  const Expr remainder = scaled(select(lt(r, zero), add(r, m), r), shl(of_y.exponent, width));

  // Where |x| < |y| it is x itself, also for infinite y.
  const Expr value = select(lt(a, b), a, remainder);
  const Expr infinity = number(dtype, std::numeric_limits<double>::infinity());
  const Expr has_value = bit_and(bit_and(lt(a, infinity), gt(b, zero)), eq(y, y));
  return with_sign_of(select(has_value, value, number(dtype, std::numeric_limits<double>::quiet_NaN())), x);
}

}  // namespace corrloom::scalar::parts
