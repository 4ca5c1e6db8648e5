#include "ir/scalar/value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <tuple>

#include "ir/base/errors.h"

namespace corrloom::scalar {
namespace {

/// Where the fields of an IEEE 754 format lie.
struct Format {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t infinity() const { return ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits; }
  std::uint64_t quiet_nan() const { return infinity() | std::uint64_t{1} << (fraction_bits - 1); }
  std::uint64_t sign() const { return std::uint64_t{1} << (exponent_bits + fraction_bits); }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {5, 10};
    case DType::BF16:
      return {8, 7};
    case DType::F32:
      return {8, 23};
    case DType::F64:
      return {11, 52};
    default:
      break;
  }
  CORRLOOM_CHECK(false, name_of(dtype), " is not a float");
  return {};
}

/// `value >> shift`, rounded to nearest even.
std::uint64_t shift_rounding(std::uint64_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 63) return 0;
  const std::uint64_t kept = value >> shift;
  const std::uint64_t rest = value & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0));
}

/// The bits of a finite or infinite double in a narrower format, rounded once.
std::uint64_t narrow(double value, Format to) {
  const Format from = format_of(DType::F64);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = (bits & from.sign()) != 0 ? to.sign() : 0;
  const std::uint64_t magnitude = bits & ~from.sign();
  if (magnitude == from.infinity()) return sign | to.infinity();
  // Doubles below its normal range lie far below half the least denormal of any narrower format.
  const int exponent = static_cast<int>(magnitude >> from.fraction_bits) - from.bias() + to.bias();
  if (magnitude >> from.fraction_bits == 0) return sign;
  const std::uint64_t fraction =
      (magnitude & ((std::uint64_t{1} << from.fraction_bits) - 1)) | std::uint64_t{1} << from.fraction_bits;
  const int shift = from.fraction_bits - to.fraction_bits;
  // A carry out of the fraction moves on into the exponent, up to infinity, as it should.
  if (exponent <= 0) return sign | shift_rounding(fraction, shift + 1 - exponent);
  const std::uint64_t rounded =
      (static_cast<std::uint64_t>(exponent - 1) << to.fraction_bits) + shift_rounding(fraction, shift);
  return sign | (rounded >= to.infinity() || exponent > 2 * to.bias() ? to.infinity() : rounded);
}

/// The double of bits in a narrower format; exact.
double widen(std::uint64_t bits, Format from) {
  const bool negative = (bits & from.sign()) != 0;
  const std::uint64_t magnitude = bits & (from.sign() - 1);
  const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << from.fraction_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> from.fraction_bits);
  double value = 0;
  if (magnitude > from.infinity()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude == from.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(fraction), 1 - from.bias() - from.fraction_bits);
  } else {
    value = std::ldexp(static_cast<double>(fraction | std::uint64_t{1} << from.fraction_bits),
                       exponent - from.bias() - from.fraction_bits);
  }
  return negative ? -value : value;
}

std::uint64_t width_mask(DType dtype) {
  return ~std::uint64_t{0} >> (64 - 8 * byte_size(dtype));
}

std::string hex(std::uint64_t bits) {
  char buffer[16];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), bits, 16).ptr;
  return "0x" + std::string(buffer, end);
}

/// Shortest text that reads back to the same float, always with a point or an exponent.
template <class Float>
std::string shortest(Float value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  const bool marked = text.find_first_of(".e") != std::string::npos;
  return marked ? text : text + ".0";
}

std::string float_text(const Value& value) {
  const Format format = format_of(value.dtype);
  const std::uint64_t magnitude = value.bits & (format.sign() - 1);
  if (value.bits == format.quiet_nan()) return "nan";
  if (magnitude > format.infinity()) return "nan:" + hex(value.bits);
  if (magnitude == format.infinity()) return magnitude == value.bits ? "inf" : "-inf";
  if (value.dtype == DType::F64) return shortest(value.as_f64());
  return shortest(static_cast<float>(value.as_f64()));
}

/// The unsigned number that is all of `text`, decimal or `0x...`.
bool parse_unsigned(std::string_view text, std::uint64_t& number) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, is_hex ? 16 : 10);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_integer(std::string_view text, DType dtype, Value& value) {
  const bool negative = text.starts_with("-");
  std::uint64_t magnitude = 0;
  if (!parse_unsigned(negative ? text.substr(1) : text, magnitude)) return false;
  const std::uint64_t sign_bit = std::uint64_t{1} << (bit_width(dtype) - 1);
  const std::uint64_t highest = is_signed_integer(dtype) ? sign_bit - 1 : width_mask(dtype);
  const std::uint64_t lowest_magnitude = is_signed_integer(dtype) ? sign_bit : 0;
  if (magnitude > (negative ? lowest_magnitude : highest)) return false;
  value = {dtype, (negative ? 0 - magnitude : magnitude) & width_mask(dtype)};
  return true;
}

/// A decimal number without a sign as 0.DIGITS * 10^exponent; the digits neither begin nor end with a zero, and 0 has
/// none.
struct Decimal {
  std::string digits;
  std::int64_t exponent = 0;
};

/// The exponent of `1.5e-3` and the like, held inside a range that no sum leaves.
std::int64_t written_exponent(std::string_view text) {
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  const bool negative = text.starts_with("-");
  if (negative || text.starts_with("+")) text.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto error = std::from_chars(text.data(), text.data() + text.size(), exponent).ec;
  if (error == std::errc::result_out_of_range || exponent > kFar) exponent = kFar;
  return negative ? -exponent : exponent;
}

/// `text` has the form that std::from_chars reads.
Decimal decimal_of(std::string_view text) {
  const std::size_t mark = std::min(text.find_first_of("eE"), text.size());
  Decimal number;
  if (mark < text.size()) number.exponent = written_exponent(text.substr(mark + 1));
  const std::string_view written = text.substr(0, mark);
  number.digits = std::string(written);
  const std::size_t point = std::min(written.find('.'), written.size());
  if (point < written.size()) number.digits.erase(point, 1);
  const std::size_t first = number.digits.find_first_not_of('0');
  if (first == std::string::npos) return {};
  number.exponent += static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  number.digits = number.digits.substr(first, number.digits.find_last_not_of('0') - first + 1);
  return number;
}

/// Every digit of a finite double that is not negative.
Decimal decimal_of(double value) {
  // The longest one, the greatest double below the normal range, has 767 digits.
  char buffer[800];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific, 770).ptr;
  return decimal_of(std::string_view(buffer, static_cast<std::size_t>(end - buffer)));
}

/// The double nearest to `text`, or where that is not exact the one of its two neighbours whose last bit is 1, which
/// rounds to a narrower float as the text does (rounding to odd).
double round_to_odd(double nearest, std::string_view text) {
  const Decimal wanted = decimal_of(text);
  const Decimal found = decimal_of(nearest);
  const auto key = [](const Decimal& number) { return std::tie(number.exponent, number.digits); };
  const bool is_zero = found.digits.empty() || wanted.digits.empty();
  const bool is_odd = (std::bit_cast<std::uint64_t>(nearest) & 1) != 0;
  if (is_zero || is_odd || key(found) == key(wanted)) return nearest;
  return std::nextafter(nearest, key(wanted) > key(found) ? std::numeric_limits<double>::infinity() : 0.0);
}

/// The decimal number that is all of `text`, without a sign; too small a number is 0.
template <class Float>
bool parse_decimal(std::string_view text, Float& number) {
  const bool begins_like_one = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (!begins_like_one) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size()) return false;
  if (error == std::errc{}) return true;
  number = 0;
  const bool is_small = decimal_of(text).exponent <= 0;
  return error == std::errc::result_out_of_range && is_small;
}

/// A finite number; nothing when it rounds to infinity.
bool parse_finite(std::string_view text, DType dtype, Value& value) {
  if (dtype == DType::F32) {
    // Straight to f32: by way of a double it would be rounded twice.
    float number = 0;
    if (!parse_decimal(text, number)) return false;
    value = Value::f32(number);
  } else {
    double number = 0;
    if (!parse_decimal(text, number)) return false;
    value = Value::floating(dtype, is_narrow_float(dtype) ? round_to_odd(number, text) : number);
  }
  return (value.bits & (format_of(dtype).sign() - 1)) < format_of(dtype).infinity();
}

bool parse_float(std::string_view text, DType dtype, Value& value) {
  const Format format = format_of(dtype);
  if (text.starts_with("nan:")) {
    std::uint64_t bits = 0;
    const bool is_nan = parse_unsigned(text.substr(4), bits) && bits <= width_mask(dtype) &&
                        (bits & (format.sign() - 1)) > format.infinity();
    if (is_nan) value = {dtype, bits};
    return is_nan;
  }
  const bool negative = text.starts_with("-");
  if (negative) text.remove_prefix(1);
  if (text == "inf") {
    value = {dtype, format.infinity()};
  } else if (text == "nan") {
    value = {dtype, format.quiet_nan()};
  } else if (!parse_finite(text, dtype, value)) {
    return false;
  }
  if (negative) value.bits ^= format.sign();
  return true;
}

}  // namespace

Value Value::integer(DType dtype, std::int64_t value) {
  CORRLOOM_CHECK(is_integer(dtype), name_of(dtype), " is not an integer dtype");
  return {dtype, static_cast<std::uint64_t>(value) & width_mask(dtype)};
}

Value Value::f32(float value) {
  return {DType::F32, std::bit_cast<std::uint32_t>(value)};
}

Value Value::f64(double value) {
  return {DType::F64, std::bit_cast<std::uint64_t>(value)};
}

Value Value::floating(DType dtype, double value) {
  const Format format = format_of(dtype);
  if (std::isnan(value)) return {dtype, format.quiet_nan()};
  if (dtype == DType::F64) return f64(value);
  if (dtype == DType::F32) return f32(static_cast<float>(value));
  return {dtype, narrow(value, format)};
}

std::int64_t Value::as_i64() const {
  CORRLOOM_CHECK(!is_float(dtype), "as_i64 of a value of dtype ", name_of(dtype));
  if (!is_signed_integer(dtype)) return static_cast<std::int64_t>(bits);
  const int unused = 64 - bit_width(dtype);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

double Value::as_f64() const {
  switch (dtype) {
    case DType::F32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case DType::F64:
      return std::bit_cast<double>(bits);
    case DType::F16:
    case DType::BF16:
      return widen(bits, format_of(dtype));
    case DType::U64:
      return static_cast<double>(bits);
    default:
      return static_cast<double>(as_i64());
  }
}

std::string to_text(const Value& value) {
  if (value.dtype == DType::Bool) return value.as_bool() ? "true" : "false";
  if (is_float(value.dtype)) return float_text(value);
  if (is_unsigned_integer(value.dtype)) return std::to_string(value.bits);
  return std::to_string(value.as_i64());
}

bool parse_value(const std::string& text, DType dtype, Value& value) {
  if (is_float(dtype)) return parse_float(text, dtype, value);
  if (is_integer(dtype)) return parse_integer(text, dtype, value);
  if (text != "true" && text != "false") return false;
  value = Value::boolean(text == "true");
  return true;
}

}  // namespace corrloom::scalar
