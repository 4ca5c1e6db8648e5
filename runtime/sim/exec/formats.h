#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Floating-point formats narrower than a host type, and the rules of PTX about NaN, denormals and saturation.
namespace corrloom::sim::exec {

enum class Rounding : uint8_t { NearestEven, Zero, Down, Up, NearestAway };

/// A binary format with an implicit leading one.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< false: the largest exponent holds numbers, all ones is NaN (e4m3)
  uint32_t nan;       ///< the canonical NaN
};
inline constexpr Format kF16{5, 10, true, 0x7FFF};
inline constexpr Format kBF16{8, 7, true, 0x7FFF};
inline constexpr Format kE4M3{4, 3, false, 0x7F};
inline constexpr Format kE5M2{5, 2, true, 0x7F};
inline constexpr Format kTF32{8, 10, true, 0x3FFFF};

/// Rounds a double to a format. Overflow gives infinity or the largest finite number as the rounding mode says;
/// `saturate_finite` gives the largest finite number always.
uint32_t encode(double value, const Format& format, Rounding rounding, bool saturate_finite = false);
/// The value of an encoded number; exact.
double decode(uint32_t bits, const Format& format);

inline constexpr uint32_t kNanF32 = 0x7FFFFFFF;

inline float decode_bf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// f16 to f32 by integer arithmetic; exact. Signalling NaNs become quiet.
inline float decode_f16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t rest = bits & 0x7FFF;
  if (rest >= 0x7C00)
    return std::bit_cast<float>(sign | 0x7F800000 | (rest & 0x3FF) << 13 | (rest > 0x7C00 ? 0x400000 : 0));
  if (rest >= 0x400) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000));
  const float magnitude = float(rest) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// Nearest even from f32.
inline uint16_t encode_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return 0x7FFF;
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// Nearest even from f32.
inline uint16_t encode_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return 0x7FFF;
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | uint16_t(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return sign | uint16_t((rounded - 0x38000000) >> 13);
}

inline float canonical(float value) {
  return value != value ? std::bit_cast<float>(kNanF32) : value;
}
inline double canonical(double value) {
  return value;
}

inline float flush(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7F800000) == 0 ? std::bit_cast<float>(bits & 0x80000000) : value;
}

/// a * b + c in double, rounded to odd, so that a later rounding to at most 51 bits is the only one that counts.
double fma_to_odd(double a, double b, double c);

/// Arithmetic under a rounding mode other than the host's.
float add_rounded(float a, float b, Rounding rounding);
float mul_rounded(float a, float b, Rounding rounding);
float div_rounded(float a, float b, Rounding rounding);
float sqrt_rounded(float a, Rounding rounding);
float fma_rounded(float a, float b, float c, Rounding rounding);
double add_rounded(double a, double b, Rounding rounding);
double mul_rounded(double a, double b, Rounding rounding);
double div_rounded(double a, double b, Rounding rounding);
double sqrt_rounded(double a, Rounding rounding);
double fma_rounded(double a, double b, double c, Rounding rounding);
/// double to float.
float narrow_rounded(double value, Rounding rounding);
/// Integers to floating point.
float float_from(int64_t value, Rounding rounding);
float float_from(uint64_t value, Rounding rounding);
double double_from(int64_t value, Rounding rounding);
double double_from(uint64_t value, Rounding rounding);

}  // namespace corrloom::sim::exec
