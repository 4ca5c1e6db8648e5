#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/base/errors.h"
#include "ir/scalar/evaluate.h"
#include "ir/scalar/expand.h"

namespace corrloom::scalar {
namespace {

// ---- integers and bools

std::uint64_t low_bits(std::uint64_t bits, DType dtype) {
  return dtype == DType::Bool ? bits & 1 : bits & (~std::uint64_t{0} >> (64 - bit_width(dtype)));
}

/// -1, 0 or 1 for x below, equal to or above y.
int compare_integers(const Value& x, const Value& y) {
  if (is_signed_integer(x.dtype)) return x.as_i64() < y.as_i64() ? -1 : x.as_i64() > y.as_i64();
  return x.bits < y.bits ? -1 : x.bits > y.bits;
}

std::uint64_t floor_divide(const Value& x, const Value& y) {
  if (y.bits == 0) return 0;
  if (!is_signed_integer(x.dtype)) return x.bits / y.bits;
  const std::int64_t dividend = x.as_i64();
  const std::int64_t divisor = y.as_i64();
  // The machine traps on the lowest integer by -1; the wrapped negation is the quotient for every dividend.
  if (divisor == -1) return 0 - x.bits;
  const std::int64_t quotient = dividend / divisor;
  const bool rounded_up = dividend % divisor != 0 && (dividend < 0) != (divisor < 0);
  return static_cast<std::uint64_t>(rounded_up ? quotient - 1 : quotient);
}

std::uint64_t modulo(const Value& x, const Value& y) {
  return y.bits == 0 ? 0 : x.bits - y.bits * floor_divide(x, y);
}

std::uint64_t shift_right(const Value& x, const Value& y) {
  const bool is_signed = is_signed_integer(x.dtype);
  const bool is_beyond = y.bits >= static_cast<std::uint64_t>(bit_width(x.dtype));
  if (is_signed) return static_cast<std::uint64_t>(x.as_i64() >> (is_beyond ? 63 : y.bits));
  return is_beyond ? 0 : x.bits >> y.bits;
}

std::uint64_t shift_left(const Value& x, const Value& y) {
  return y.bits >= static_cast<std::uint64_t>(bit_width(x.dtype)) ? 0 : x.bits << y.bits;
}

/// z and the products of bytes in the same places of x, unsigned, and y, signed.
std::uint64_t dot_of_bytes(const Value& x, const Value& y, const Value& z) {
  std::uint64_t sum = z.bits;
  for (int place = 0; place < bit_width(x.dtype); place += 8) {
    const auto left = static_cast<std::uint8_t>(x.bits >> place);
    const auto right = static_cast<std::int8_t>(y.bits >> place);
    sum += static_cast<std::uint64_t>(static_cast<std::int64_t>(left) * right);
  }
  return sum;
}

/// One step of a product of halves: both factors in the upper 16 bits of words.
float fma_of_halves(std::uint32_t x, std::uint32_t y, float z) {
  const auto flushed = [](float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
  };
  const float a = flushed(std::bit_cast<float>(x)), b = flushed(std::bit_cast<float>(y)), c = flushed(z);
  const float sum = std::fma(a, b, c);
  // What rounds to less than the lowest normal number, had it all exponents, is lost. Products of halves are exact, and
  // so are sums with them as near to that number as it matters.
  const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
  return std::abs(exact) < 0x1.ffffffp-127 ? std::copysign(0.0F, sum) : sum;
}

Value dot_of_halves(const Value& x, const Value& y, const Value& z) {
  const auto left = static_cast<std::uint32_t>(x.bits), right = static_cast<std::uint32_t>(y.bits);
  const float upper = fma_of_halves(left & 0xffff0000, right & 0xffff0000, static_cast<float>(z.as_f64()));
  return Value::f32(fma_of_halves(left << 16, right << 16, upper));
}

/// The bits of an integer operation before they are cut to their width.
std::uint64_t integer_bits(Opcode opcode, const Value& x, const Value& y) {
  switch (opcode) {
    case Opcode::Neg:
      return 0 - x.bits;
    case Opcode::Not:
      return ~x.bits;
    case Opcode::Abs:
      return is_signed_integer(x.dtype) && x.as_i64() < 0 ? 0 - x.bits : x.bits;
    case Opcode::Add:
      return x.bits + y.bits;
    case Opcode::Sub:
      return x.bits - y.bits;
    case Opcode::Mul:
      return x.bits * y.bits;
    case Opcode::FloorDiv:
      return floor_divide(x, y);
    case Opcode::Mod:
      return modulo(x, y);
    case Opcode::Shl:
      return shift_left(x, y);
    case Opcode::Shr:
      return shift_right(x, y);
    case Opcode::And:
      return x.bits & y.bits;
    case Opcode::Or:
      return x.bits | y.bits;
    case Opcode::Xor:
      return x.bits ^ y.bits;
    case Opcode::Min:
      return compare_integers(x, y) <= 0 ? x.bits : y.bits;
    case Opcode::Max:
      return compare_integers(x, y) >= 0 ? x.bits : y.bits;
    default:
      break;
  }
  CORRLOOM_CHECK(false, info(opcode).text, " does not take ", name_of(x.dtype));
  return 0;
}

bool compare_order(Opcode opcode, int order) {
  switch (opcode) {
    case Opcode::Eq:
      return order == 0;
    case Opcode::Ne:
      return order != 0;
    case Opcode::Lt:
      return order < 0;
    case Opcode::Le:
      return order <= 0;
    case Opcode::Gt:
      return order > 0;
    case Opcode::Ge:
      return order >= 0;
    default:
      break;
  }
  CORRLOOM_CHECK(false, info(opcode).text, " is not a comparison");
  return false;
}

// ---- floats

/// The lesser of two floats that are not NaN, -0 below +0.
template <class Float>
Float lesser(Float x, Float y) {
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}
template <class Float>
Float greater(Float x, Float y) {
  if (x == y) return std::signbit(x) ? y : x;
  return x > y ? x : y;
}

/// An operation of f32 or f64 whose result is of the same dtype. Unused operands are 0.
template <class Float>
Float compute_float(Opcode opcode, Float x, Float y, Float z) {
  constexpr Float kNan = std::numeric_limits<Float>::quiet_NaN();
  switch (opcode) {
    case Opcode::Add:
      return x + y;
    case Opcode::Sub:
      return x - y;
    case Opcode::Mul:
      return x * y;
    case Opcode::Div:
      return x / y;
    case Opcode::Fma:
      return std::fma(x, y, z);
    case Opcode::Scale:
      // Behind the clamp a finite x has come to 0 or infinity.
      return std::isnan(y) ? y : std::ldexp(x, static_cast<int>(std::clamp<Float>(y, -4000, 4000)));
    case Opcode::Sqrt:
      return std::sqrt(x);
    case Opcode::Floor:
      return std::floor(x);
    case Opcode::Ceil:
      return std::ceil(x);
    case Opcode::Round:
      return std::nearbyint(x);
    case Opcode::Trunc:
      return std::trunc(x);
    case Opcode::Min:
      return std::isnan(x) || std::isnan(y) ? kNan : lesser(x, y);
    case Opcode::Max:
      return std::isnan(x) || std::isnan(y) ? kNan : greater(x, y);
    case Opcode::Fmin:
      return std::isnan(x) ? y : std::isnan(y) ? x : lesser(x, y);
    case Opcode::Fmax:
      return std::isnan(x) ? y : std::isnan(y) ? x : greater(x, y);
    default:
      break;
  }
  CORRLOOM_CHECK(false, info(opcode).text, " does not take a float");
  return 0;
}

/// A comparison or test of floats; f16, bf16 and f32 are exact in f64.
bool test_float(Opcode opcode, double x, double y) {
  switch (opcode) {
    case Opcode::Eq:
      return x == y;
    case Opcode::Ne:
      return x != y;
    case Opcode::Lt:
      return x < y;
    case Opcode::Le:
      return x <= y;
    case Opcode::Gt:
      return x > y;
    case Opcode::Ge:
      return x >= y;
    case Opcode::IsNan:
      return std::isnan(x);
    case Opcode::IsInf:
      return std::isinf(x);
    default:
      break;
  }
  CORRLOOM_CHECK(false, info(opcode).text, " is not a test of a float");
  return false;
}

double as_operand(std::span<const Value> operands, std::size_t index) {
  return index < operands.size() ? operands[index].as_f64() : 0.0;
}

Value compute_on_floats(Opcode opcode, std::span<const Value> operands, DType result) {
  const DType dtype = operands[0].dtype;
  const std::uint64_t sign = std::uint64_t{1} << (bit_width(dtype) - 1);
  if (opcode == Opcode::Neg) return {dtype, operands[0].bits ^ sign};
  if (opcode == Opcode::Abs) return {dtype, operands[0].bits & ~sign};
  const double x = as_operand(operands, 0);
  const double y = as_operand(operands, 1);
  const double z = as_operand(operands, 2);
  if (result == DType::Bool) return Value::boolean(test_float(opcode, x, y));
  if (dtype == DType::F64) return Value::floating(result, compute_float<double>(opcode, x, y, z));
  const float computed =
      compute_float<float>(opcode, static_cast<float>(x), static_cast<float>(y), static_cast<float>(z));
  return Value::floating(result, computed);
}

// ---- casts

/// An i64 or u64 as a double whose rounding to bf16 is that of the integer: a double that is not exact gets a last bit
/// of 1 (rounding to odd; Boldo and Melquiond 2008), so it never looks like a tie that it is not.
double round_to_odd(const Value& value) {
  constexpr int kDropped = 11;
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kDropped) - 1;
  const std::uint64_t magnitude = is_signed_integer(value.dtype) && value.as_i64() < 0 ? 0 - value.bits : value.bits;
  if (magnitude >> 53 == 0) return value.as_f64();
  const bool is_exact = (value.bits & kMask) == 0;
  const std::uint64_t odd = (value.bits & ~kMask) | (is_exact ? 0 : kMask + 1);
  return Value{value.dtype, odd}.as_f64();
}

Value integer_to_float(const Value& value, DType to) {
  const bool is_unsigned = value.dtype == DType::U64;
  if (to == DType::F32) {
    return Value::f32(is_unsigned ? static_cast<float>(value.bits) : static_cast<float>(value.as_i64()));
  }
  // Integers that are not exact in f64 are far above the highest f16, so only bf16 could be rounded twice.
  return Value::floating(to, to == DType::BF16 && bit_width(value.dtype) == 64 ? round_to_odd(value) : value.as_f64());
}

Value float_to_integer(double value, DType to) {
  if (std::isnan(value)) return {to, 0};
  const bool is_signed = is_signed_integer(to);
  const double above_highest = std::ldexp(1.0, bit_width(to) - (is_signed ? 1 : 0));
  const std::uint64_t sign = std::uint64_t{1} << (bit_width(to) - 1);
  if (value >= above_highest) return {to, is_signed ? sign - 1 : low_bits(~std::uint64_t{0}, to)};
  if (is_signed && value <= -above_highest) return {to, sign};
  if (!is_signed && value <= 0) return {to, 0};
  const std::uint64_t whole =
      is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
  return {to, low_bits(whole, to)};
}

Value convert(const Value& value, DType to) {
  if (is_float(value.dtype)) {
    const double number = value.as_f64();
    if (to == DType::Bool) return Value::boolean(number != 0);
    return is_float(to) ? Value::floating(to, number) : float_to_integer(number, to);
  }
  if (to == DType::Bool) return Value::boolean(value.bits != 0);
  if (is_float(to)) return integer_to_float(value, to);
  return {to, low_bits(static_cast<std::uint64_t>(value.as_i64()), to)};
}

/// A function through its expansion, on constants.
Value evaluate_function(Opcode opcode, std::span<const Value> operands) {
  std::vector<Expr> args;
  for (const Value& operand : operands) args.push_back(constant(operand));
  return evaluate(expand_function(opcode, args), Environment{});
}

bool is_comparison(Opcode opcode) {
  return opcode >= Opcode::Eq && opcode <= Opcode::Ge;
}

}  // namespace

Value evaluate(Opcode opcode, std::span<const Value> operands, DType result) {
  const OpcodeInfo& row = info(opcode);
  CORRLOOM_CHECK(static_cast<int>(operands.size()) == row.arity, row.text, " takes ", row.arity, " operands, not ",
                 operands.size());
  if (row.kind == OpcodeKind::Function) return evaluate_function(opcode, operands);
  switch (opcode) {
    case Opcode::If:
    case Opcode::Select:
      return operands[0].as_bool() ? operands[1] : operands[2];
    case Opcode::LazyAnd:
      return Value::boolean(operands[0].as_bool() && operands[1].as_bool());
    case Opcode::LazyOr:
      return Value::boolean(operands[0].as_bool() || operands[1].as_bool());
    case Opcode::Fence:
      return operands[0];
    case Opcode::Bitcast:
      return {result, operands[0].bits};
    case Opcode::Cast:
      return convert(operands[0], result);
    default:
      break;
  }
  if (is_float(operands[0].dtype)) return compute_on_floats(opcode, operands, result);
  const Value& second = operands.size() > 1 ? operands[1] : operands[0];
  if (is_comparison(opcode)) return Value::boolean(compare_order(opcode, compare_integers(operands[0], second)));
  if (opcode == Opcode::Dot && result == DType::F32) return dot_of_halves(operands[0], operands[1], operands[2]);
  if (opcode == Opcode::Dot) return {result, low_bits(dot_of_bytes(operands[0], operands[1], operands[2]), result)};
  return {result, low_bits(integer_bits(opcode, operands[0], second), result)};
}

}  // namespace corrloom::scalar
