#include "ir/scalar/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "ir/base/errors.h"
#include "mpfr_reference.h"
#include "random_expr.h"

namespace corrloom::scalar {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;
using testing::agree;
using testing::Real;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value run(Opcode opcode, std::vector<Value> operands, DType result) {
  return evaluate(opcode, operands, result);
}
Value run(Opcode opcode, std::vector<Value> operands) {
  return run(opcode, operands, operands.back().dtype);
}

std::string show(Opcode opcode, const std::vector<Value>& operands) {
  std::string text(info(opcode).text);
  for (const Value& operand : operands) text += " " + to_text(operand) + ":" + std::string(name_of(operand.dtype));
  return text;
}

// ---- integers, against exact arithmetic on 128 bits

Wide exact(const Value& value) {
  return value.dtype == DType::U64 ? static_cast<Wide>(value.bits) : static_cast<Wide>(value.as_i64());
}

Value wrapped(DType dtype, Wide value) {
  const Wide modulus = Wide{1} << bit_width(dtype);
  const Wide rest = ((value % modulus) + modulus) % modulus;
  return {dtype, static_cast<std::uint64_t>(rest)};
}

Wide floor_quotient(Wide x, Wide y) {
  // x = y * q + r with r of y's sign: the largest q of the two candidates around the truncated one.
  Wide quotient = x / y;
  if (quotient * y != x && (x < 0) != (y < 0)) quotient -= 1;
  return quotient;
}

Wide bitwise(Opcode opcode, const Value& x, const Value& y) {
  Wide result = 0;
  for (int bit = 0; bit < bit_width(x.dtype); ++bit) {
    const bool a = (x.bits >> bit & 1) != 0;
    const bool b = (y.bits >> bit & 1) != 0;
    const bool set = opcode == Opcode::And ? a && b : opcode == Opcode::Or ? a || b : a != b;
    if (set) result += Wide{1} << bit;
  }
  return result;
}

/// What an operation of integers means; nothing for operations without integers.
std::optional<Value> integer_reference(Opcode opcode, const Value& a, const Value& b) {
  const DType dtype = a.dtype;
  const Wide x = exact(a);
  const Wide y = exact(b);
  const Wide count = static_cast<Wide>(b.bits);
  const int width = bit_width(dtype);
  switch (opcode) {
    case Opcode::Neg:
      return wrapped(dtype, -x);
    case Opcode::Not:
      return wrapped(dtype, -x - 1);
    case Opcode::Abs:
      return wrapped(dtype, x < 0 ? -x : x);
    case Opcode::Add:
      return wrapped(dtype, x + y);
    case Opcode::Sub:
      return wrapped(dtype, x - y);
    case Opcode::Mul:
      return wrapped(dtype, static_cast<Wide>(static_cast<UnsignedWide>(x) * static_cast<UnsignedWide>(y)));
    case Opcode::FloorDiv:
      return wrapped(dtype, y == 0 ? 0 : floor_quotient(x, y));
    case Opcode::Mod:
      return wrapped(dtype, y == 0 ? 0 : x - y * floor_quotient(x, y));
    case Opcode::Shl:
      return wrapped(dtype,
                     count >= width ? 0 : static_cast<Wide>(static_cast<UnsignedWide>(x) << static_cast<int>(count)));
    case Opcode::Shr:
      return wrapped(dtype, floor_quotient(x, Wide{1} << static_cast<int>(std::min<Wide>(count, 100))));
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
      return wrapped(dtype, bitwise(opcode, a, b));
    case Opcode::Min:
      return wrapped(dtype, std::min(x, y));
    case Opcode::Max:
      return wrapped(dtype, std::max(x, y));
    case Opcode::Eq:
      return Value::boolean(x == y);
    case Opcode::Ne:
      return Value::boolean(x != y);
    case Opcode::Lt:
      return Value::boolean(x < y);
    case Opcode::Le:
      return Value::boolean(x <= y);
    case Opcode::Gt:
      return Value::boolean(x > y);
    case Opcode::Ge:
      return Value::boolean(x >= y);
    case Opcode::Sign:
      return wrapped(dtype, x > 0 ? 1 : x < 0 ? -1 : 0);
    default:
      return std::nullopt;
  }
}

std::vector<Value> integer_edges(DType dtype) {
  const int width = bit_width(dtype);
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  std::set<std::uint64_t> bits;
  for (const std::uint64_t base : {std::uint64_t{0}, sign, sign >> 1, std::uint64_t(width)}) {
    for (int offset = -4; offset <= 4; ++offset)
      bits.insert(Value::integer(dtype, static_cast<std::int64_t>(base + offset)).bits);
  }
  std::vector<Value> values;
  for (const std::uint64_t edge : bits) values.push_back({dtype, edge});
  return values;
}

TEST(Evaluate, IntegersAgreeWithExactArithmeticThatWraps) {
  std::set<Opcode> covered;
  for (const DType dtype : kAllDTypes) {
    if (!is_integer(dtype)) continue;
    const std::vector<Value> edges = integer_edges(dtype);
    for (const OpcodeInfo& row : all_opcodes()) {
      for (const Value& x : edges) {
        for (const Value& y : edges) {
          const std::optional<Value> wanted = integer_reference(row.opcode, x, y);
          if (!wanted) break;
          covered.insert(row.opcode);
          const std::vector<Value> operands = row.arity == 1 ? std::vector<Value>{x} : std::vector<Value>{x, y};
          ASSERT_EQ(run(row.opcode, operands, wanted->dtype), *wanted) << show(row.opcode, operands);
        }
      }
    }
  }
  EXPECT_EQ(covered.size(), 22u);
}

TEST(Evaluate, EveryPairOfBytes) {
  for (const DType dtype : {DType::I8, DType::U8}) {
    for (const Opcode opcode : {Opcode::FloorDiv, Opcode::Mod, Opcode::Mul, Opcode::Shl, Opcode::Shr}) {
      for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
        const Value x{dtype, bits & 0xff};
        const Value y{dtype, bits >> 8};
        ASSERT_EQ(run(opcode, {x, y}), *integer_reference(opcode, x, y)) << show(opcode, {x, y});
      }
    }
  }
}

/// As the processor's instruction gives them: seen on hardware.
TEST(Evaluate, ProductsOfHalvesAreAddedOneAfterTheOther) {
  const auto dot = [](std::uint64_t x, std::uint64_t y, float z) {
    return run(Opcode::Dot, {Value{DType::I32, x}, Value{DType::I32, y}, Value::f32(z)}, DType::F32).as_f64();
  };
  constexpr std::uint64_t kOne = 0x3f80, kBig = 0x4c00;  // 1, 2^25
  // The upper halves come first: 1 is lost in -2^25.
  EXPECT_EQ(dot(kOne << 16 | kBig, kOne << 16 | kOne, -0x1p25F), 0);
  EXPECT_EQ(dot(kBig << 16 | kOne, kOne << 16 | kOne, -0x1p25F), 1);
  // Denormal factors and sums count as zeros.
  EXPECT_EQ(dot(0x0001, 0x7f00, 2), 2);
  EXPECT_EQ(dot(0, 0, 0x1p-130F), 0);
  // 2^-126 less 2^-150, 3 * 2^-152 and 2^-151: what rounds to less than 2^-126 is lost, also where a denormal of that
  // size would round up to it.
  constexpr std::uint64_t kLowest = 0x0080;  // 2^-126
  EXPECT_EQ(dot(0xb380, kLowest, 0x1p-126F), 0);
  EXPECT_EQ(dot(0xb340, kLowest, 0x1p-126F), 0);
  EXPECT_EQ(dot(0xb300, kLowest, 0x1p-126F), 0x1p-126);
}

TEST(Evaluate, StatedCasesOfTheLanguage) {
  const auto i8 = [](std::int64_t value) { return Value::integer(DType::I8, value); };
  EXPECT_EQ(run(Opcode::FloorDiv, {i8(-7), i8(2)}), i8(-4));
  EXPECT_EQ(run(Opcode::Mod, {i8(-7), i8(2)}), i8(1));
  EXPECT_EQ(run(Opcode::Mod, {i8(7), i8(-2)}), i8(-1));
  EXPECT_EQ(run(Opcode::FloorDiv, {i8(5), i8(0)}), i8(0));
  EXPECT_EQ(run(Opcode::FloorDiv, {i8(-128), i8(-1)}), i8(-128));
  EXPECT_EQ(run(Opcode::FloorDiv, {Value::i64(std::numeric_limits<std::int64_t>::min()), Value::i64(-1)}),
            Value::i64(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(run(Opcode::Shr, {i8(-128), i8(-1)}), i8(-1));
  EXPECT_EQ(run(Opcode::Shl, {i8(1), i8(8)}), i8(0));
  EXPECT_EQ(run(Opcode::Abs, {i8(-128)}), i8(-128));
}

TEST(Evaluate, Bools) {
  const Value no = Value::boolean(false);
  const Value yes = Value::boolean(true);
  EXPECT_EQ(run(Opcode::Not, {yes}), no);
  EXPECT_EQ(run(Opcode::Not, {no}), yes);
  EXPECT_EQ(run(Opcode::And, {yes, no}), no);
  EXPECT_EQ(run(Opcode::Or, {yes, no}), yes);
  EXPECT_EQ(run(Opcode::Xor, {yes, yes}), no);
  EXPECT_EQ(run(Opcode::LazyAnd, {yes, yes}), yes);
  EXPECT_EQ(run(Opcode::LazyAnd, {yes, no}), no);
  EXPECT_EQ(run(Opcode::LazyOr, {no, no}), no);
  EXPECT_EQ(run(Opcode::LazyOr, {no, yes}), yes);
  EXPECT_EQ(run(Opcode::Lt, {no, yes}), yes);
  EXPECT_EQ(run(Opcode::Eq, {no, yes}), no);
  EXPECT_EQ(run(Opcode::Ge, {yes, yes}), yes);
}

TEST(Evaluate, ChoicesFencesAndBitcasts) {
  const Value x = Value::f32(-0.0f);
  const Value y = Value::f32(2);
  for (const Opcode opcode : {Opcode::If, Opcode::Select}) {
    EXPECT_EQ(run(opcode, {Value::boolean(true), x, y}), x);
    EXPECT_EQ(run(opcode, {Value::boolean(false), x, y}), y);
  }
  EXPECT_EQ(run(Opcode::Fence, {x}), x);
  EXPECT_EQ(run(Opcode::Bitcast, {x}, DType::I32),
            Value::integer(DType::I32, std::numeric_limits<std::int32_t>::min()));
  EXPECT_EQ(run(Opcode::Bitcast, {Value::integer(DType::U16, 0x3f80)}, DType::BF16), Value::floating(DType::BF16, 1));
}

TEST(Evaluate, ScalesByPowersOfTwoWithOneRounding) {
  const auto scaled = [](DType dtype, double x, double y) {
    return run(Opcode::Scale, {Value::floating(dtype, x), Value::floating(dtype, y)});
  };
  EXPECT_EQ(scaled(DType::F32, 1.5, 10), Value::f32(1536));
  EXPECT_EQ(scaled(DType::F32, -1, -149), Value::f32(-0x1p-149f));
  // A product with 2^-75 twice would round twice.
  EXPECT_EQ(scaled(DType::F32, 0x1.000002p0, -150), Value::f32(0x1p-149f));
  EXPECT_EQ(scaled(DType::F32, 1, -150), Value::f32(0));
  EXPECT_EQ(scaled(DType::F32, 2, 128), Value::f32(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(scaled(DType::F64, 0x1.8p0, -1074), Value::floating(DType::F64, 0x1p-1073));
  EXPECT_TRUE(std::isnan(scaled(DType::F64, std::nan(""), 3).as_f64()));
}

// ---- floats, against MPFR

std::vector<Value> float_edges(DType dtype) {
  std::vector<Value> values;
  const std::uint64_t one = Value::floating(dtype, 1).bits;
  const std::uint64_t infinity = Value::floating(dtype, kInfinity).bits;
  const std::uint64_t sign = std::uint64_t{1} << (bit_width(dtype) - 1);
  const std::uint64_t least_normal = dtype == DType::F16    ? 0x400
                                     : dtype == DType::BF16 ? 0x80
                                     : dtype == DType::F32  ? 0x800000
                                                            : std::uint64_t{1} << 52;
  for (const std::uint64_t bits : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, least_normal - 1, least_normal,
                                   least_normal + 1, one - 1, one, one + 1, infinity - 1, infinity}) {
    values.push_back({dtype, bits});
    values.push_back({dtype, bits | sign});
  }
  for (const double x : {0.5, 1.5, 2.5, 3.0, 3.5, 1e4, 0.1, 1.0 / 3, std::nan("")}) {
    values.push_back(Value::floating(dtype, x));
    values.push_back(Value::floating(dtype, -x));
  }
  return values;
}

/// The exact result of an arithmetic operation, at a precision that rounds no sum or product of doubles' operands.
bool compute_exactly(Opcode opcode, Real& result, const Real& x, const Real& y, const Real& z) {
  switch (opcode) {
    case Opcode::Add:
      mpfr_add(result.get(), x.get(), y.get(), MPFR_RNDN);
      return true;
    case Opcode::Sub:
      mpfr_sub(result.get(), x.get(), y.get(), MPFR_RNDN);
      return true;
    case Opcode::Mul:
      mpfr_mul(result.get(), x.get(), y.get(), MPFR_RNDN);
      return true;
    case Opcode::Div:
      mpfr_div(result.get(), x.get(), y.get(), MPFR_RNDN);
      return true;
    case Opcode::Fma:
      mpfr_fma(result.get(), x.get(), y.get(), z.get(), MPFR_RNDN);
      return true;
    case Opcode::Sqrt:
      mpfr_sqrt(result.get(), x.get(), MPFR_RNDN);
      return true;
    case Opcode::Floor:
      mpfr_floor(result.get(), x.get());
      return true;
    case Opcode::Ceil:
      mpfr_ceil(result.get(), x.get());
      return true;
    case Opcode::Round:
      mpfr_rint_roundeven(result.get(), x.get(), MPFR_RNDN);
      return true;
    case Opcode::Trunc:
      mpfr_trunc(result.get(), x.get());
      return true;
    case Opcode::Neg:
      mpfr_neg(result.get(), x.get(), MPFR_RNDN);
      return true;
    case Opcode::Abs:
      mpfr_abs(result.get(), x.get(), MPFR_RNDN);
      return true;
    default:
      return false;
  }
}

Value float_reference(Opcode opcode, const std::vector<Value>& operands) {
  // Wide enough for 1.0 + least denormal of f64 and their products to be exact.
  constexpr mpfr_prec_t kPrecision = 4400;
  Real numbers[3] = {Real(kPrecision), Real(kPrecision), Real(kPrecision)};
  Real result(kPrecision);
  for (std::size_t i = 0; i < operands.size(); ++i) testing::set(numbers[i], operands[i]);
  EXPECT_TRUE(compute_exactly(opcode, result, numbers[0], numbers[1], numbers[2]));
  const DType dtype = operands[0].dtype;
  if (!is_narrow_float(dtype)) return testing::round_to(result, dtype);
  Real in_f32(64);
  testing::set(in_f32, testing::round_to(result, DType::F32));
  return testing::round_to(in_f32, dtype);
}

class FloatArithmetic : public ::testing::TestWithParam<DType> {};

TEST_P(FloatArithmetic, UnaryIsCorrectlyRounded) {
  for (const Opcode opcode :
       {Opcode::Sqrt, Opcode::Floor, Opcode::Ceil, Opcode::Round, Opcode::Trunc, Opcode::Neg, Opcode::Abs}) {
    for (const Value& x : float_edges(GetParam())) {
      ASSERT_TRUE(agree(run(opcode, {x}), float_reference(opcode, {x}))) << show(opcode, {x});
    }
  }
}

TEST_P(FloatArithmetic, BinaryIsCorrectlyRounded) {
  for (const Opcode opcode : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div}) {
    for (const Value& x : float_edges(GetParam())) {
      for (const Value& y : float_edges(GetParam())) {
        ASSERT_TRUE(agree(run(opcode, {x, y}), float_reference(opcode, {x, y}))) << show(opcode, {x, y});
      }
    }
  }
}

TEST_P(FloatArithmetic, FmaIsRoundedOnce) {
  testing::Random random(3);
  const std::vector<Value> edges = float_edges(GetParam());
  for (int i = 0; i < 6000; ++i) {
    std::vector<Value> operands;
    for (int k = 0; k < 3; ++k)
      operands.push_back(random() % 2 == 0 ? edges[random() % edges.size()]
                                           : testing::random_value(random, GetParam()));
    ASSERT_TRUE(agree(run(Opcode::Fma, operands), float_reference(Opcode::Fma, operands)))
        << show(Opcode::Fma, operands);
  }
}

/// -NaN aside, floats in the order -inf ... -0, +0 ... inf: of sign and magnitude.
std::int64_t rank(const Value& x) {
  const std::uint64_t sign = std::uint64_t{1} << (bit_width(x.dtype) - 1);
  const auto magnitude = static_cast<std::int64_t>(x.bits & (sign - 1));
  return (x.bits & sign) != 0 ? -magnitude - 1 : magnitude;
}

bool is_nan(const Value& x) {
  return std::isnan(x.as_f64());
}

TEST_P(FloatArithmetic, MinAndMaxOrderZerosAndTreatNanAsStated) {
  const Value nan = Value::floating(GetParam(), std::nan(""));
  for (const Value& x : float_edges(GetParam())) {
    for (const Value& y : float_edges(GetParam())) {
      const Value lesser = rank(x) <= rank(y) ? x : y;
      const Value greater = rank(x) <= rank(y) ? y : x;
      const bool any = is_nan(x) || is_nan(y);
      const Value other = is_nan(x) ? y : x;
      ASSERT_TRUE(agree(run(Opcode::Min, {x, y}), any ? nan : lesser)) << show(Opcode::Min, {x, y});
      ASSERT_TRUE(agree(run(Opcode::Max, {x, y}), any ? nan : greater)) << show(Opcode::Max, {x, y});
      ASSERT_TRUE(agree(run(Opcode::Fmin, {x, y}), any ? other : lesser)) << show(Opcode::Fmin, {x, y});
      ASSERT_TRUE(agree(run(Opcode::Fmax, {x, y}), any ? other : greater)) << show(Opcode::Fmax, {x, y});
    }
  }
}

TEST_P(FloatArithmetic, ComparisonsAndTests) {
  for (const Value& x : float_edges(GetParam())) {
    for (const Value& y : float_edges(GetParam())) {
      const bool ordered = !is_nan(x) && !is_nan(y);
      const bool zeros = (x.bits | y.bits) << (65 - bit_width(x.dtype)) == 0;
      const bool equal = ordered && (zeros || x.bits == y.bits);
      const bool less = ordered && !zeros && rank(x) < rank(y);
      const std::pair<Opcode, bool> wanted[] = {{Opcode::Eq, equal},
                                                {Opcode::Ne, !equal},
                                                {Opcode::Lt, less},
                                                {Opcode::Le, less || equal},
                                                {Opcode::Gt, ordered && !less && !equal},
                                                {Opcode::Ge, ordered && !less}};
      for (const auto& [opcode, holds] : wanted) {
        ASSERT_EQ(run(opcode, {x, y}, DType::Bool), Value::boolean(holds)) << show(opcode, {x, y});
      }
    }
    const std::uint64_t magnitude = x.bits & ((std::uint64_t{1} << (bit_width(x.dtype) - 1)) - 1);
    const std::uint64_t infinity = Value::floating(GetParam(), kInfinity).bits;
    EXPECT_EQ(run(Opcode::IsNan, {x}, DType::Bool).as_bool(), magnitude > infinity);
    EXPECT_EQ(run(Opcode::IsInf, {x}, DType::Bool).as_bool(), magnitude == infinity);
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, FloatArithmetic, ::testing::Values(DType::F16, DType::BF16, DType::F32, DType::F64),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// ---- casts

Value cast_reference(const Value& value, DType to) {
  Real number(128);
  testing::set(number, value);
  if (to == DType::Bool) return Value::boolean(mpfr_zero_p(number.get()) == 0);
  if (is_float(to)) return testing::round_to(number, to);
  if (!is_float(value.dtype)) return wrapped(to, exact(value));
  if (mpfr_nan_p(number.get())) return {to, 0};
  Real bound(128);
  mpfr_set_ui_2exp(bound.get(), 1, bit_width(to) - (is_signed_integer(to) ? 1 : 0), MPFR_RNDN);
  const Wide highest = (Wide{1} << (bit_width(to) - (is_signed_integer(to) ? 1 : 0))) - 1;
  const Wide lowest = is_signed_integer(to) ? -highest - 1 : 0;
  if (mpfr_cmp(number.get(), bound.get()) >= 0) return wrapped(to, highest);
  if (mpfr_sgn(number.get()) < 0 && (lowest == 0 || mpfr_cmpabs(number.get(), bound.get()) >= 0))
    return wrapped(to, lowest);
  mpfr_trunc(number.get(), number.get());
  return mpfr_sgn(number.get()) < 0 ? wrapped(to, mpfr_get_si(number.get(), MPFR_RNDZ))
                                    : wrapped(to, static_cast<Wide>(mpfr_get_ui(number.get(), MPFR_RNDZ)));
}

std::vector<Value> cast_operands(DType from) {
  testing::Random random(5);
  std::vector<Value> values = from == DType::Bool ? std::vector<Value>{Value::boolean(false), Value::boolean(true)}
                              : is_float(from)    ? float_edges(from)
                                                  : integer_edges(from);
  for (int i = 0; i < 200; ++i) values.push_back(testing::random_value(random, from));
  if (!is_float(from)) return values;
  // Around each bound of each integer dtype.
  for (const int exponent : {7, 8, 15, 16, 31, 32, 63, 64}) {
    const Value bound = Value::floating(from, std::ldexp(1.0, exponent));
    const std::uint64_t sign = std::uint64_t{1} << (bit_width(from) - 1);
    for (std::uint64_t bits = bound.bits - 2; bits <= bound.bits + 2; ++bits) {
      values.push_back({from, bits});
      values.push_back({from, bits | sign});
    }
  }
  return values;
}

TEST(Evaluate, CastsBetweenAllDtypes) {
  for (const DType from : kAllDTypes) {
    for (const Value& x : cast_operands(from)) {
      for (const DType to : kAllDTypes) {
        ASSERT_TRUE(agree(run(Opcode::Cast, {x}, to), cast_reference(x, to)))
            << show(Opcode::Cast, {x}) << " to " << name_of(to) << " gave " << to_text(run(Opcode::Cast, {x}, to));
      }
    }
  }
}

TEST(Evaluate, CastsOfLargeIntegersToNarrowFloatsRoundOnce) {
  // One above a tie of bf16, far below the last place of f64: by way of f64 it would look like the tie.
  const std::int64_t above_tie = (std::int64_t{0x101} << 54) + 1;
  for (const std::int64_t x : {above_tie, above_tie - 1, above_tie - 2, -above_tie, 2 - above_tie}) {
    const Value value = Value::i64(x);
    EXPECT_EQ(run(Opcode::Cast, {value}, DType::BF16), cast_reference(value, DType::BF16)) << x;
  }
}

TEST(Evaluate, NanResultsAreTheQuietNan) {
  const Value odd_nan{DType::F32, 0xffc12345};
  EXPECT_EQ(run(Opcode::Add, {odd_nan, Value::f32(1)}), (Value{DType::F32, 0x7fc00000}));
  EXPECT_EQ(run(Opcode::Cast, {odd_nan}, DType::F16), (Value{DType::F16, 0x7e00}));
}

// ---- expressions

Expr element(int source, Expr index) {
  return read(Read{.source = TensorId{source}, .index = {std::move(index)}}, DType::F32);
}

/// Reads give 10 * source + index, and are counted by source.
struct Recorder {
  std::map<int, int> reads;
  Environment environment;

  Recorder() {
    environment.axis = [](AxisId id) { return Value::i64(id.index); };
    environment.accumulator = [](int index, bool other) {
      return Value::f32(static_cast<float>(index + (other ? 0.5 : 0)));
    };
    environment.read = [this](const Read& read, std::span<const std::int64_t> index) {
      ++reads[read.source.index];
      return Value::f32(static_cast<float>(10 * read.source.index + index[0]));
    };
  }
};

TEST(EvaluateExpr, LeavesAndReads) {
  Recorder recorder;
  const Expr three = axis(AxisId{3});
  EXPECT_EQ(evaluate(element(2, apply(Opcode::Mul, {three, three})), recorder.environment), Value::f32(29));
  EXPECT_EQ(evaluate(accumulator(1, DType::F32, true), recorder.environment), Value::f32(1.5f));
}

TEST(EvaluateExpr, IfReadsOnlyTheTakenBranch) {
  Recorder recorder;
  const Expr zero = axis(AxisId{0});
  const Expr choice = apply(Opcode::If, {apply(Opcode::Eq, {zero, zero}), element(1, zero), element(2, zero)});
  EXPECT_EQ(evaluate(choice, recorder.environment), Value::f32(10));
  EXPECT_EQ(recorder.reads, (std::map<int, int>{{1, 1}}));
}

TEST(EvaluateExpr, SelectReadsBoth) {
  Recorder recorder;
  const Expr zero = axis(AxisId{0});
  evaluate(apply(Opcode::Select, {apply(Opcode::Eq, {zero, zero}), element(1, zero), element(2, zero)}),
           recorder.environment);
  EXPECT_EQ(recorder.reads, (std::map<int, int>{{1, 1}, {2, 1}}));
}

TEST(EvaluateExpr, LazyConnectivesStopWhenDecided) {
  const Expr zero = axis(AxisId{0});
  const auto positive = [&](int source) { return apply(Opcode::Gt, {element(source, zero), constant(Value::f32(0))}); };
  Recorder recorder;
  EXPECT_FALSE(evaluate(apply(Opcode::LazyAnd, {positive(0), positive(1)}), recorder.environment).as_bool());
  EXPECT_TRUE(evaluate(apply(Opcode::LazyOr, {positive(2), positive(3)}), recorder.environment).as_bool());
  EXPECT_EQ(recorder.reads, (std::map<int, int>{{0, 1}, {2, 1}}));
  EXPECT_TRUE(evaluate(apply(Opcode::LazyOr, {positive(0), positive(3)}), recorder.environment).as_bool());
  EXPECT_TRUE(evaluate(apply(Opcode::LazyAnd, {positive(2), positive(3)}), recorder.environment).as_bool());
}

TEST(EvaluateExpr, SharedNodesAreEvaluatedOnceACall) {
  for (const Opcode choice : {Opcode::Select, Opcode::If}) {
    Recorder recorder;
    Expr x = element(0, axis(AxisId{1}));
    const Expr yes = constant(Value::boolean(true));
    for (int i = 0; i < 100; ++i) x = apply(choice, {yes, apply(Opcode::Min, {x, x}), x});
    Evaluator evaluator(x);
    EXPECT_EQ(evaluator(recorder.environment), Value::f32(1));
    EXPECT_EQ(evaluator(recorder.environment), Value::f32(1));
    EXPECT_EQ(recorder.reads[0], 2);
  }
}

TEST(EvaluateExpr, PadValuesAreLeftToTheEnvironment) {
  Recorder recorder;
  const Expr zero = axis(AxisId{0});
  const Expr padded = read(
      Read{.source = TensorId{1}, .index = {zero}, .pad = PadMode::Value, .pad_value = element(2, zero)}, DType::F32);
  EXPECT_EQ(evaluate(padded, recorder.environment), Value::f32(10));
  EXPECT_EQ(recorder.reads, (std::map<int, int>{{1, 1}}));
}

TEST(EvaluateExpr, GoesOnAfterAnEnvironmentThatThrew) {
  Recorder recorder;
  const Expr zero = axis(AxisId{0});
  Evaluator evaluator(apply(Opcode::If, {constant(Value::boolean(true)), element(1, zero), element(2, zero)}));
  Environment failing = recorder.environment;
  failing.read = [](const Read&, std::span<const std::int64_t>) -> Value { throw InputError("outside"); };
  EXPECT_THROW(evaluator(failing), InputError);
  EXPECT_EQ(evaluator(recorder.environment), Value::f32(10));
}

TEST(EvaluateExpr, DeepExpressionsNeedNoStack) {
  Recorder recorder;
  Expr deep = element(1, axis(AxisId{0}));
  const Expr yes = constant(Value::boolean(true));
  for (int i = 0; i < 100000; ++i) deep = apply(Opcode::If, {yes, apply(Opcode::Neg, {deep}), deep});
  EXPECT_EQ(evaluate(deep, recorder.environment), Value::f32(10));
}

}  // namespace
}  // namespace corrloom::scalar
