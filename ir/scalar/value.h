#pragma once

#include <cstdint>
#include <string>

#include "ir/base/dtype.h"
#include "ir/base/visibility.h"

namespace corrloom::scalar {

/// One element: its dtype and its bits, in the low `byte_size(dtype)` bytes; the bytes above are zero. A bool is 0
/// or 1.
struct CORRLOOM_API Value {
  DType dtype = DType::I64;
  std::uint64_t bits = 0;

  /// Same dtype and same bits: two NaNs of one pattern are the same, -0 and +0 are not.
  friend bool operator==(const Value&, const Value&) = default;

  static Value boolean(bool value) { return {DType::Bool, value ? 1u : 0u}; }
  static Value i64(std::int64_t value) { return {DType::I64, static_cast<std::uint64_t>(value)}; }
  /// An integer dtype; keeps the low bits.
  static Value integer(DType dtype, std::int64_t value);
  static Value f32(float value);
  static Value f64(double value);
  /// A float dtype, rounded once to nearest even (denormals included; NaN becomes the quiet NaN of the dtype).
  static Value floating(DType dtype, double value);

  /// The value of an integer or bool, sign- or zero-extended. u64 above 2^63 wraps.
  std::int64_t as_i64() const;
  /// The value of any dtype as a double (i64 and u64 round).
  double as_f64() const;
  bool as_bool() const { return bits != 0; }
};

/// Text that `parse_value` reads back to the same bits: `3`, `-1`, `true`, `0.5`, `inf`, `nan`, `-0.0`,
/// `nan:0x7fc00001` for other NaNs.
CORRLOOM_API std::string to_text(const Value& value);

/// The value of such a text in that dtype; false when the text is not one, or does not fit.
CORRLOOM_API bool parse_value(const std::string& text, DType dtype, Value& value);

}  // namespace corrloom::scalar
