#include "runtime/cast.h"

#include <cmath>
#include <cstring>

namespace corrloom::runtime {
namespace {

using scalar::Value;

/// A magnitude as a double that rounds to any narrower float as the magnitude itself would: bits that do not fit leave
/// a mark in the last one that does.
double round_to_odd(std::uint64_t magnitude) {
  constexpr std::uint64_t kLost = (std::uint64_t{1} << 11) - 1;
  if (magnitude >> 53 != 0 && (magnitude & kLost) != 0) magnitude = (magnitude & ~kLost) | (kLost + 1);
  return static_cast<double>(magnitude);
}

Value integer_to_float(Value value, DType to) {
  const bool negative = is_signed_integer(value.dtype) && value.as_i64() < 0;
  const auto bits = static_cast<std::uint64_t>(value.as_i64());
  const std::uint64_t magnitude = negative ? 0 - bits : bits;
  // The conversion itself rounds to f64; narrower floats are rounded from a double that kept a sticky bit.
  const double exact = to == DType::F64 ? static_cast<double>(magnitude) : round_to_odd(magnitude);
  return Value::floating(to, negative ? -exact : exact);
}

Value float_to_integer(double value, DType to) {
  if (std::isnan(value)) return Value::integer(to, 0);
  const int width = bit_width(to);
  if (is_unsigned_integer(to)) {
    const double limit = std::ldexp(1.0, width);
    if (value <= -1.0 || value < 0.0) return Value::integer(to, 0);
    const std::uint64_t highest = ~std::uint64_t{0} >> (64 - width);
    return {to, value >= limit ? highest : static_cast<std::uint64_t>(value)};
  }
  const double limit = std::ldexp(1.0, width - 1);
  const std::int64_t highest = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - width));
  if (value >= limit) return Value::integer(to, highest);
  if (value < -limit) return Value::integer(to, -highest - 1);
  return Value::integer(to, static_cast<std::int64_t>(value));
}

}  // namespace

Value cast(Value value, DType to) {
  if (value.dtype == to) return value;
  if (to == DType::Bool) {
    return Value::boolean(is_float(value.dtype) ? value.as_f64() != 0.0 : value.bits != 0);
  }
  if (is_float(value.dtype)) {
    return is_float(to) ? Value::floating(to, value.as_f64()) : float_to_integer(value.as_f64(), to);
  }
  return is_float(to) ? integer_to_float(value, to) : Value::integer(to, value.as_i64());
}

Value read_element(const void* from, DType dtype) {
  Value value{dtype, 0};
  std::memcpy(&value.bits, from, static_cast<std::size_t>(byte_size(dtype)));
  if (dtype == DType::Bool) value.bits = value.bits != 0;
  return value;
}

void write_element(void* to, Value value) {
  std::memcpy(to, &value.bits, static_cast<std::size_t>(byte_size(value.dtype)));
}

}  // namespace corrloom::runtime
