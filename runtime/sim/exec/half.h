#pragma once

#include "runtime/sim/exec/decoder.h"

namespace corrloom::sim::exec {

/// The half-precision, packed and mixed forms of the floating-point instructions. Each returns false, having consumed
/// nothing, when the instruction has none of these types.
bool decode_half_arithmetic(Decode& c);
bool decode_half_fma(Decode& c);
bool decode_half_min_max(Decode& c, bool is_max);
bool decode_half_sign(Decode& c, bool is_abs);
bool decode_half_approximation(Decode& c);

/// double to float, rounded to odd: a later rounding to 22 bits or fewer is then correct.
float narrow_to_odd(double value);

/// The two half formats behind one interface.
struct HalfF16 {
  static float to_float(uint16_t bits);
  static uint16_t from_double(double value);
  static uint16_t flushed(uint16_t bits) { return (bits & 0x7C00) == 0 ? bits & 0x8000 : bits; }
  static constexpr uint16_t kInfinity = 0x7C00, kOne = 0x3C00, kLargest = 0x7BFF;
};
struct HalfBF16 {
  static float to_float(uint16_t bits);
  static uint16_t from_double(double value);
  static uint16_t flushed(uint16_t bits) { return (bits & 0x7F80) == 0 ? bits & 0x8000 : bits; }
  static constexpr uint16_t kInfinity = 0x7F80, kOne = 0x3F80, kLargest = 0x7F7F;
};
inline constexpr uint16_t kHalfNan = 0x7FFF;

}  // namespace corrloom::sim::exec
