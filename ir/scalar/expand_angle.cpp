// The reduction of sin, cos and tan: |x| = q * pi / 2 + r, for every finite x.
//
// Payne and Hanek, "Radian reduction for trigonometric functions" (1983): x is m * 2^e with a whole m, and q matters
// only modulo 4, so of the bits of 2 / pi only a window counts that moves with e. The product of m and the window,
// modulo a power of two, has q in its two upper bits and the fraction below. The windows leave at least 30 (f32) or 60
// (f64) bits to the fraction nearest to 0 that occurs. |x| < pi / 4 is r itself.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

Expr u64(std::uint64_t value) {
  return integer(DType::U64, static_cast<std::int64_t>(value));
}

/// 2 / pi: a word of zeros, then the bits after the point.
constexpr std::uint64_t kTwoOverPi[20] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/// Bits [32 i, 32 i + 64) of that string, zeros shortened to one half word.
constexpr std::uint64_t kTwoOverPiPairs[7] = {0x00000000a2f9836e, 0xa2f9836e4e441529, 0x4e441529fc2757d1,
                                              0xfc2757d1f534ddc0, 0xf534ddc0db629599, 0xdb6295993c439041,
                                              0x3c439041fe5163ab};

struct Fraction {
  Expr high;  ///< q in the two upper bits, then the fraction of q + fraction
  Expr low;   ///< the bits that follow; null of f32
};

/// The mantissa with its leading bit, and the biased exponent less `base`, of a positive normal number.
struct Mantissa {
  Expr whole;
  Expr exponent;
};
Mantissa mantissa_of(const Expr& a, std::int64_t base) {
  const Expr bits = bits_of(a);
  const int width = fraction_bits(a->dtype);
  const std::int64_t implicit = std::int64_t{1} << width;
  const Expr whole = bit_or(bit_and(bits, integer(bits->dtype, implicit - 1)), integer(bits->dtype, implicit));
  return {cast(whole, DType::U64), sub(shr(bits, width), integer(bits->dtype, base))};
}

/// For f32, the window starts at bit E - 120 of the string that has 32 zeros first, E being the biased exponent: 96
/// bits that times the mantissa are q and 94 bits of fraction. The lowest 32 are rounded off.
Fraction fraction_f32(const Expr& a) {
  const Mantissa m = mantissa_of(a, 120);
  Expr upper = u64(kTwoOverPiPairs[0]), lower = u64(kTwoOverPiPairs[2]);
  for (int word = 1; word < 5; ++word) {
    const Expr starts_here_or_later = ge(m.exponent, integer(DType::I32, 32 * word));
    upper = select(starts_here_or_later, u64(kTwoOverPiPairs[word]), upper);
    lower = select(starts_here_or_later, u64(kTwoOverPiPairs[word + 2]), lower);
  }
  const Expr shift = cast(bit_and(m.exponent, integer(DType::I32, 31)), DType::U64);
  const Expr window = bit_or(shl(upper, shift), shr(shr(lower, 32), sub(u64(32), shift)));
  const Expr rest = shr(shl(lower, shift), 32);
  return {add(mul(m.whole, window), shr(mul(m.whole, rest), 32)), nullptr};
}

/// The upper 64 bits of the product of a number below 2^53 and any.
Expr high_product(const Expr& x, const Expr& y) {
  const Expr mask = u64(0xffffffff);
  const Expr x0 = bit_and(x, mask), x1 = shr(x, 32), y0 = bit_and(y, mask), y1 = shr(y, 32);
  const Expr cross = add(mul(x1, y0), shr(mul(x0, y0), 32));
  const Expr middle = add(mul(x0, y1), bit_and(cross, mask));
  return add(add(mul(x1, y1), shr(cross, 32)), shr(middle, 32));
}

/// The word `offset` places on from the one in which the window starts, for each of four: a selection by the bits of
/// the start, the highest first.
std::vector<Expr> four_words(const Expr& start) {
  const auto has_bit = [&](int bit) {
    const Expr mask = integer(DType::I64, std::int64_t{1} << bit);
    return ne(bit_and(start, mask), integer(DType::I64, 0));
  };
  std::vector<Expr> words;
  for (const std::uint64_t word : kTwoOverPi) words.push_back(u64(word));
  // With the highest bit set the window starts at word 16, so 8, 4, 2 and 1 are not.
  const std::vector<Expr> last(words.begin() + 16, words.end());
  for (int step = 8, bit = 9; step >= 1; step /= 2, --bit) {
    const Expr is_later = has_bit(bit);
    std::vector<Expr> chosen;
    // What the smaller steps may still reach: four words from each of `step` starts.
    for (int at = 0; at < step + 3; ++at) {
      chosen.push_back(
          select(is_later, words[static_cast<std::size_t>(at + step)], words[static_cast<std::size_t>(at)]));
    }
    words = chosen;
  }
  const Expr is_last = has_bit(10);
  for (std::size_t at = 0; at < 4; ++at) words[at] = select(is_last, last[at], words[at]);
  return words;
}

/// For f64, the window starts at bit E - 1013 of the string that has 64 zeros first: 192 bits that times the mantissa
/// are q and 190 bits of fraction, of which the lowest 64 are rounded off.
Fraction fraction_f64(const Expr& a) {
  const Mantissa m = mantissa_of(a, 1013);
  const std::vector<Expr> words = four_words(m.exponent);
  const Expr shift = cast(bit_and(m.exponent, integer(DType::I64, 63)), DType::U64);
  const Expr back = sub(u64(63), shift);
  const auto window = [&](std::size_t at) { return bit_or(shl(words[at], shift), shr(shr(words[at + 1], 1), back)); };
  const Expr middle = window(1);
  const Expr product = mul(m.whole, middle);
  const Expr low = add(product, high_product(m.whole, window(2)));
  const Expr carry = cast(lt(low, product), DType::U64);
  return {add(add(mul(m.whole, window(0)), high_product(m.whole, middle)), carry), low};
}

/// The quadrant to which the fraction rounds. What is left of the fraction stands as a signed number above q's bits.
Expr quadrant_of(const Expr& high) {
  return shr(add(high, u64(std::uint64_t{1} << 61)), 62);
}

/// A fraction in units of 2^-64, signed, times pi / 2.
Expr scaled_f32(const Expr& fraction) {
  const Expr f = cast(cast(fraction, DType::I64), DType::F32);
  return fma(f, number(DType::F32, 0x1.921fb6p-64), mul(f, number(DType::F32, -0x1.777a5cp-89)));
}

/// The same of 128 bits, of which 106 are kept below the leading one.
Pair scaled_f64(const Expr& upper, const Expr& lower) {
  const Expr fraction = cast(upper, DType::I64);
  const Expr odd_bits = bit_and(fraction, integer(DType::I64, 0x7ff));
  const Expr first = cast(sub(fraction, odd_bits), DType::F64);
  const Expr lower_high = cast(shr(lower, 22), DType::I64);
  const Expr second = cast(bit_or(shl(odd_bits, 42), lower_high), DType::F64);
  const Expr third = cast(cast(bit_and(lower, u64(0x3fffff)), DType::I64), DType::F64);
  Pair sum = sum_exact(first, mul(second, number(DType::F64, 0x1p-42)));
  sum.low = fma(third, number(DType::F64, 0x1p-64), sum.low);
  return product(sum, {number(DType::F64, 0x1.921fb54442d18p-64), number(DType::F64, 0x1.1a62633145c07p-118)});
}

}  // namespace

Angle reduce_angle(const Expr& x) {
  const DType dtype = x->dtype;
  const bool is_single = dtype == DType::F32;
  const Expr a = abs(x);
  const Fraction fraction = is_single ? fraction_f32(a) : fraction_f64(a);
  const Expr zero = number(dtype, 0);
  const Expr nan = number(dtype, std::numeric_limits<double>::quiet_NaN());
  const Expr is_reduced = lt(a, number(dtype, 0.78539816339744828));
  const Expr is_finite = lt(a, number(dtype, std::numeric_limits<double>::infinity()));
  const DType whole = is_single ? DType::I32 : DType::I64;
  Angle angle;
  const Expr quadrant = cast(quadrant_of(fraction.high), whole);
  angle.quadrant = select(is_reduced, integer(whole, 0), quadrant);
  Expr r;
  if (is_single) {
    r = scaled_f32(shl(fraction.high, 2));
  } else {
    const Pair pair = scaled_f64(bit_or(shl(fraction.high, 2), shr(fraction.low, 62)), shl(fraction.low, 2));
    r = pair.high;
    angle.rest = select(is_reduced, zero, pair.low);
  }
  angle.r = select(is_reduced, a, select(is_finite, r, nan));
  return angle;
}

}  // namespace corrloom::scalar::parts
