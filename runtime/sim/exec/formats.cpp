#include "runtime/sim/exec/formats.h"

#include <cfenv>

// Compiled with -frounding-math: the compiler must not move arithmetic over a change of the rounding mode.
namespace corrloom::sim::exec {
namespace {

/// Sets the host's rounding mode for its lifetime.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : before_(std::fegetround()) {
    static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(kModes[int(rounding)]);
  }
  ~RoundingScope() { std::fesetround(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  int before_;
};

/// Keeps a value opaque, so that operations on it stay where they are.
template <class T>
T opaque(T value) {
  asm volatile("" : "+m"(value) : : "memory");
  return value;
}

/// Whether a magnitude with these discarded bits rounds away from zero.
bool rounds_up(uint64_t kept, uint64_t discarded, uint64_t half, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::NearestEven:
      return discarded > half || (discarded == half && (kept & 1));
    case Rounding::NearestAway:
      return discarded >= half;
    case Rounding::Zero:
      return false;
    case Rounding::Down:
      return negative && discarded != 0;
    case Rounding::Up:
      return !negative && discarded != 0;
  }
  return false;
}

}  // namespace

uint32_t encode(double value, const Format& format, Rounding rounding, bool saturate_finite) {
  const int e = format.exponent_bits, m = format.mantissa_bits;
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63;
  const uint32_t sign = uint32_t(negative) << (e + m);
  if (value != value) return format.nan;
  const uint32_t infinity = ((1u << e) - 1) << m;
  const uint32_t largest = format.has_infinity ? infinity - 1 : infinity + (1u << m) - 2;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) {
    if (saturate_finite) return sign | largest;
    return format.has_infinity ? sign | infinity : sign | format.nan;
  }
  if (magnitude == 0) return sign;
  const int bias = (1 << (e - 1)) - 1;
  int exponent = 0;
  const auto fraction = uint64_t(std::ldexp(std::frexp(magnitude, &exponent), 53));  // 1.f scaled to 53 bits
  const int unbiased = exponent - 1;
  int drop = 52 - m;
  int64_t biased = unbiased + bias;
  if (biased <= 0) {
    drop += int(1 - biased);
    biased = 0;
  }
  uint64_t kept = 0, discarded = 1, half = 2;  // far below the least denormal
  if (drop < 54) {
    kept = fraction >> drop;
    discarded = fraction & ((uint64_t(1) << drop) - 1);
    half = uint64_t(1) << (drop - 1);
  }
  if (rounds_up(kept, discarded, half, negative, rounding)) ++kept;
  // Normal numbers carry their implicit one into the exponent; a denormal that rounds up becomes normal by itself.
  const uint64_t encoded = biased > 0 ? (uint64_t(biased - 1) << m) + kept : kept;
  if (encoded > largest) {
    const bool to_largest = saturate_finite || rounding == Rounding::Zero ||
                            (rounding == Rounding::Down && !negative) || (rounding == Rounding::Up && negative);
    if (to_largest) return sign | largest;
    return format.has_infinity ? sign | infinity : sign | format.nan;
  }
  return sign | uint32_t(encoded);
}

double decode(uint32_t bits, const Format& format) {
  const int e = format.exponent_bits, m = format.mantissa_bits;
  const double sign = bits >> (e + m) & 1 ? -1.0 : 1.0;
  const auto exponent = int(bits >> m & ((1u << e) - 1));
  const uint32_t mantissa = bits & ((1u << m) - 1);
  const int bias = (1 << (e - 1)) - 1;
  if (exponent == (1 << e) - 1) {
    if (format.has_infinity) return mantissa == 0 ? sign * INFINITY : NAN;
    if (mantissa == (1u << m) - 1) return NAN;
  }
  if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - bias - m);
  return sign * std::ldexp(double(mantissa | 1u << m), exponent - bias - m);
}

double fma_to_odd(double a, double b, double c) {
  // Round down and up; when they differ the result is inexact and the odd one of the two is it.
  double down, up;
  {
    const RoundingScope scope(Rounding::Zero);
    down = opaque(std::fma(opaque(a), opaque(b), opaque(c)));
  }
  if (!std::isfinite(down)) return down;
  up = opaque(std::fma(opaque(a), opaque(b), opaque(c)));
  double other;
  {
    const RoundingScope scope(down < 0 || (down == 0 && std::signbit(down)) ? Rounding::Down : Rounding::Up);
    other = opaque(std::fma(opaque(a), opaque(b), opaque(c)));
  }
  if (other == down) return up;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(down) | 1);
}

#define CORRLOOM_ROUNDED(T)                                   \
  T add_rounded(T a, T b, Rounding rounding) {                \
    const RoundingScope scope(rounding);                      \
    return opaque(opaque(a) + opaque(b));                     \
  }                                                           \
  T mul_rounded(T a, T b, Rounding rounding) {                \
    const RoundingScope scope(rounding);                      \
    return opaque(opaque(a) * opaque(b));                     \
  }                                                           \
  T div_rounded(T a, T b, Rounding rounding) {                \
    const RoundingScope scope(rounding);                      \
    return opaque(opaque(a) / opaque(b));                     \
  }                                                           \
  T sqrt_rounded(T a, Rounding rounding) {                    \
    const RoundingScope scope(rounding);                      \
    return opaque(std::sqrt(opaque(a)));                      \
  }                                                           \
  T fma_rounded(T a, T b, T c, Rounding rounding) {           \
    const RoundingScope scope(rounding);                      \
    return opaque(std::fma(opaque(a), opaque(b), opaque(c))); \
  }
CORRLOOM_ROUNDED(float)
CORRLOOM_ROUNDED(double)
#undef CORRLOOM_ROUNDED

float narrow_rounded(double value, Rounding rounding) {
  const RoundingScope scope(rounding);
  return opaque(float(opaque(value)));
}

float float_from(int64_t value, Rounding rounding) {
  const RoundingScope scope(rounding);
  return opaque(float(opaque(value)));
}

float float_from(uint64_t value, Rounding rounding) {
  // The compiler's sequence for unsigned operands halves large ones with a sticky bit, exact under every mode.
  const RoundingScope scope(rounding);
  return opaque(float(opaque(value)));
}

double double_from(int64_t value, Rounding rounding) {
  const RoundingScope scope(rounding);
  return opaque(double(opaque(value)));
}

double double_from(uint64_t value, Rounding rounding) {
  const RoundingScope scope(rounding);
  return opaque(double(opaque(value)));
}

}  // namespace corrloom::sim::exec
