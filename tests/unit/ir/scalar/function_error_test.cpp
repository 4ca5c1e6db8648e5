// How far each function is from the exact value: measured against MPFR, held to the table of docs/functions.md.
//
// CORRLOOM_SWEEP=K takes K times as many points: 64 gives 2^24 of f32 and 2^21 of f64 a function.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <ostream>
#include <sstream>

#include "ir/scalar/evaluate.h"
#include "ir/scalar/expand.h"
#include "mpfr_reference.h"
#include "random_expr.h"

namespace corrloom::scalar {
namespace {

using testing::agree;
using testing::Random;
using testing::Real;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A function with its exact value and the region that is swept most densely.
struct Function {
  Opcode opcode;
  void (*exact)(mpfr_ptr result, mpfr_srcptr x, mpfr_srcptr y);
  double (*in_f64)(double x, double y);  ///< good to a few parts in 2^53: enough for f32, and fast
  double low, high;                      ///< where the function is neither trivial nor infinite
  double y_low = 0, y_high = 0;          ///< of a second operand
};

/// For GoogleTest's messages.
void PrintTo(const Function& function, std::ostream* out) {
  *out << info(function.opcode).text;
}

/// An MPFR function and a C function of one operand as members of `Function`.
#define CORRLOOM_ONE(of_mpfr, of_c)                                                   \
  [](mpfr_ptr result, mpfr_srcptr x, mpfr_srcptr) { of_mpfr(result, x, MPFR_RNDN); }, \
      [](double x, double) -> double { return of_c(x); }
#define CORRLOOM_TWO(of_mpfr, of_c)                                                        \
  [](mpfr_ptr result, mpfr_srcptr x, mpfr_srcptr y) { of_mpfr(result, x, y, MPFR_RNDN); }, \
      [](double x, double y) -> double { return of_c(x, y); }

void exact_rsqrt(mpfr_ptr result, mpfr_srcptr x, mpfr_srcptr) {
  mpfr_sqrt(result, x, MPFR_RNDN);
  mpfr_ui_div(result, 1, result, MPFR_RNDN);
}

void exact_sigmoid(mpfr_ptr result, mpfr_srcptr x, mpfr_srcptr) {
  mpfr_neg(result, x, MPFR_RNDN);
  mpfr_exp(result, result, MPFR_RNDN);
  mpfr_add_ui(result, result, 1, MPFR_RNDN);
  mpfr_ui_div(result, 1, result, MPFR_RNDN);
}

const Function kFunctions[] = {
    {Opcode::Exp, CORRLOOM_ONE(mpfr_exp, std::exp), -110, 90},
    {Opcode::Exp2, CORRLOOM_ONE(mpfr_exp2, std::exp2), -151, 129},
    {Opcode::Expm1, CORRLOOM_ONE(mpfr_expm1, std::expm1), -4, 4},
    {Opcode::Log, CORRLOOM_ONE(mpfr_log, std::log), 0, 4},
    {Opcode::Log2, CORRLOOM_ONE(mpfr_log2, std::log2), 0, 4},
    {Opcode::Log1p, CORRLOOM_ONE(mpfr_log1p, std::log1p), -1, 4},
    {Opcode::Rsqrt, exact_rsqrt, [](double x, double) { return 1 / std::sqrt(x); }, 0, 4},
    {Opcode::Sin, CORRLOOM_ONE(mpfr_sin, std::sin), -10, 10},
    {Opcode::Cos, CORRLOOM_ONE(mpfr_cos, std::cos), -10, 10},
    {Opcode::Tan, CORRLOOM_ONE(mpfr_tan, std::tan), -10, 10},
    {Opcode::Asin, CORRLOOM_ONE(mpfr_asin, std::asin), -1, 1},
    {Opcode::Acos, CORRLOOM_ONE(mpfr_acos, std::acos), -1, 1},
    {Opcode::Atan, CORRLOOM_ONE(mpfr_atan, std::atan), -4, 4},
    {Opcode::Atan2, CORRLOOM_TWO(mpfr_atan2, std::atan2), -4, 4, -4, 4},
    {Opcode::Sigmoid, exact_sigmoid, [](double x, double) { return 1 / (1 + std::exp(-x)); }, -20, 20},
    {Opcode::Sinh, CORRLOOM_ONE(mpfr_sinh, std::sinh), -10, 10},
    {Opcode::Cosh, CORRLOOM_ONE(mpfr_cosh, std::cosh), -10, 10},
    {Opcode::Tanh, CORRLOOM_ONE(mpfr_tanh, std::tanh), -10, 10},
    {Opcode::Asinh, CORRLOOM_ONE(mpfr_asinh, std::asinh), -10, 10},
    {Opcode::Acosh, CORRLOOM_ONE(mpfr_acosh, std::acosh), 1, 10},
    {Opcode::Atanh, CORRLOOM_ONE(mpfr_atanh, std::atanh), -1, 1},
    {Opcode::Erf, CORRLOOM_ONE(mpfr_erf, std::erf), -6, 6},
    {Opcode::Pow, CORRLOOM_TWO(mpfr_pow, std::pow), 0, 4, -40, 40},
    {Opcode::Fmod, CORRLOOM_TWO(mpfr_fmod, std::fmod), -100, 100, -4, 4},
};

#undef CORRLOOM_TWO
#undef CORRLOOM_ONE

/// The row of a function in the table of the documentation.
struct Bound {
  double f32, f64;
};

std::map<std::string, Bound> documented_bounds() {
  std::ifstream file(CORRLOOM_TEST_DATA "/../../../docs/functions.md");
  std::map<std::string, Bound> bounds;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string bar, name;
    Bound bound{};
    if (cells >> bar >> name >> bar >> bound.f32 >> bar >> bound.f64 && name.size() > 2 && name.front() == '`') {
      bounds[name.substr(1, name.size() - 2)] = bound;
    }
  }
  return bounds;
}

/// An opcode applied to operands, expanded once.
class Computation {
 public:
  Computation(Opcode opcode, DType dtype) : evaluator_(expand(applied(opcode, dtype))) {
    environment_.symbol = [this](SymbolId id) { return operands_[id.index]; };
  }
  Computation(const Computation&) = delete;

  Value operator()(const Value& x, const Value& y) {
    operands_[0] = x;
    operands_[1] = y;
    return evaluator_(environment_);
  }

 private:
  static Expr applied(Opcode opcode, DType dtype) {
    std::vector<Expr> operands = {symbol(SymbolId{0}, dtype), symbol(SymbolId{1}, dtype)};
    operands.resize(static_cast<std::size_t>(info(opcode).arity));
    return apply(opcode, operands);
  }

  Evaluator evaluator_;
  Environment environment_;
  Value operands_[2];
};

/// Points of one sweep: optimised builds take the full set.
std::size_t sweep_points(std::size_t count) {
#ifndef __OPTIMIZE__
  count /= 16;
#endif
  const char* factor = std::getenv("CORRLOOM_SWEEP");
  return factor == nullptr ? count : count * std::max<std::size_t>(1, std::strtoul(factor, nullptr, 10));
}

constexpr double kSpecial[] = {
    0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 1, -1, 2, -2, 3, -3, 0.5, -0.5,
    0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffcp-127, 0x1p-1074, -0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp-1023,
    0x1.fffffep127, -0x1.fffffep127, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023,
    // Where exponentials overflow and vanish.
    88.72283, 88.72284, -87.33654, -87.33655, -103.97207, -103.97208, -103.9, 709.782712893384, 709.7827128933841,
    -708.3964185322641, -745.1332191019411, -745.1332191019412, 89.415985, 710.4758600739439, 128, 1024, -149, -150,
    -1074, -1075,
    // Beside 1 and where logarithms change their exponent.
    0x1.fffffep-1, 0x1.000002p0, 0x1.0000000000001p0, 0x1.fffffffffffffp-1, 0.70710678118654752, 0.70710678118654757,
    1.4142135623730951, -0.29289321881345243, 0.41421356237309509,
    // Where expansions change their form or settle.
    0.34657359, 0.5493061, 3.9, 4, 5.9, 6, 9.01, 10, 19.06, 20, 0x1p24, 0x1p53, 0x1p54, 9007199254740991.0, 0x1p30,
    0x1p60,
    // Multiples of pi / 4, and numbers nearest to a multiple of pi / 2 (of f32 and of f64).
    0.78539816339744828, 1.5707963267948966, 3.1415926535897931, 16367173.0 * 0x1p72, 0x1.6ac5b262ca1ffp849};

/// A number close to a whole multiple of pi / 4.
double near_multiple(Random& random) {
  const int bits = static_cast<int>(random() % 52);
  const double count = std::floor(std::ldexp(1.0, bits) * std::uniform_real_distribution<double>(1, 2)(random));
  return count * 0.78539816339744828;
}

/// Bits at random (every exponent), points near the edges, and points of the interesting range, in turn.
Value sweep_point(Random& random, double low, double high, DType dtype, std::size_t index) {
  const int unused = 64 - bit_width(dtype);
  if (index % 3 == 0) return {dtype, random() >> unused};
  const std::size_t kind = random() % 16;
  if (kind == 0) return Value::floating(dtype, near_multiple(random));
  if (kind == 1) {
    Value near = Value::floating(dtype, kSpecial[random() % std::size(kSpecial)]);
    near.bits += random() % 64 - 32;
    return near;
  }
  // The logarithm of the size evenly, so that small numbers occur.
  if (kind < 5) {
    const double size = std::ldexp(std::max(std::abs(low), std::abs(high)), -static_cast<int>(random() % 30));
    return Value::floating(dtype, std::uniform_real_distribution<double>(low < 0 ? -size : 0, size)(random));
  }
  const double scale = dtype == DType::F64 && std::abs(low) > 80 ? 8.3 : 1;
  return Value::floating(dtype, scale * std::uniform_real_distribution<double>(low, high)(random));
}

struct Point {
  Value x, y;
};

Point sweep_point(Random& random, const Function& function, DType dtype, std::size_t index) {
  const std::size_t specials = std::size(kSpecial);
  const bool is_binary = info(function.opcode).arity == 2;
  if (index < specials * (is_binary ? specials : 1)) {
    return {Value::floating(dtype, kSpecial[index % specials]), Value::floating(dtype, kSpecial[index / specials])};
  }
  const Value x = sweep_point(random, function.low, function.high, dtype, index);
  const std::size_t other = random();
  return {x, is_binary ? sweep_point(random, function.y_low, function.y_high, dtype, other) : x};
}

double ulps_from_f64(const Value& computed, double exact) {
  const float nearest = static_cast<float>(exact);
  const float result = static_cast<float>(computed.as_f64());
  if (std::isnan(nearest) || std::isinf(nearest) || std::isnan(result) || std::isinf(result)) {
    return agree(computed, Value::floating(DType::F32, nearest)) ? 0 : kInfinity;
  }
  if (nearest == 0 && result == 0)
    return std::signbit(nearest) == std::signbit(result) ? std::abs(exact) * 0x1p149 : kInfinity;
  if (exact == 0) return kInfinity;
  return std::abs(static_cast<double>(result) - exact) / std::ldexp(1.0, std::max(std::ilogb(exact) - 23, -149));
}

struct Worst {
  double ulps = 0;
  Point at;

  void take(double error, const Point& point) {
    if (!(error > ulps)) return;
    ulps = error;
    at = point;
  }
};

double exact_ulps(const Function& function, const Point& point, const Value& computed, Real& x, Real& y, Real& exact) {
  testing::set(x, point.x);
  testing::set(y, point.y);
  function.exact(exact.get(), x.get(), y.get());
  return testing::ulps(computed, exact);
}

class FunctionError : public ::testing::TestWithParam<Function> {
 protected:
  static double bound(DType dtype) {
    static const std::map<std::string, Bound> kBounds = documented_bounds();
    const auto found = kBounds.find(std::string(info(GetParam().opcode).text));
    if (found == kBounds.end()) return -1;
    return dtype == DType::F32 ? found->second.f32 : found->second.f64;
  }

  void judge(const Worst& worst, DType dtype) {
    RecordProperty("worst_ulps", std::to_string(worst.ulps));
    if (std::getenv("CORRLOOM_SWEEP") != nullptr) {
      std::printf("%-8s %s %.3f ulp at %s %s\n", std::string(info(GetParam().opcode).text).c_str(),
                  std::string(name_of(dtype)).c_str(), worst.ulps, to_text(worst.at.x).c_str(),
                  info(GetParam().opcode).arity == 2 ? to_text(worst.at.y).c_str() : "");
    }
    EXPECT_LE(worst.ulps, bound(dtype)) << "at " << to_text(worst.at.x) << " and " << to_text(worst.at.y);
    EXPECT_LE(bound(dtype), 4) << "the language promises at most 4 ulp";
  }
};

TEST_P(FunctionError, F32StaysInItsBound) {
  const Function& function = GetParam();
  Computation compute(function.opcode, DType::F32);
  Real x(64), y(64), exact(120);
  Random random(17);
  Worst worst;
  const std::size_t points = sweep_points(std::size_t{1} << 18);
  for (std::size_t i = 0; i < points; ++i) {
    const Point point = sweep_point(random, function, DType::F32, i);
    const Value result = compute(point.x, point.y);
    const double error = ulps_from_f64(result, function.in_f64(point.x.as_f64(), point.y.as_f64()));
    worst.take(error, point);
    // The quick reference is trusted for most points; beside it stands the exact one.
    if (i % 64 != 0 && i > 4096 && error < 1) continue;
    worst.take(exact_ulps(function, point, result, x, y, exact), point);
  }
  judge(worst, DType::F32);
}

TEST_P(FunctionError, F64StaysInItsBound) {
  const Function& function = GetParam();
  Computation compute(function.opcode, DType::F64);
  Real x(64), y(64), exact(160);
  Random random(19);
  Worst worst;
  const std::size_t points = sweep_points(std::size_t{1} << 15);
  for (std::size_t i = 0; i < points; ++i) {
    const Point point = sweep_point(random, function, DType::F64, i);
    worst.take(exact_ulps(function, point, compute(point.x, point.y), x, y, exact), point);
  }
  judge(worst, DType::F64);
}

INSTANTIATE_TEST_SUITE_P(All, FunctionError, ::testing::ValuesIn(kFunctions),
                         [](const auto& param) { return std::string(scalar::info(param.param.opcode).text); });

TEST(FunctionTable, HasARowForEachFunction) {
  const std::map<std::string, Bound> bounds = documented_bounds();
  for (const OpcodeInfo& row : all_opcodes()) {
    if (row.kind == OpcodeKind::Function) {
      EXPECT_EQ(bounds.count(std::string(row.text)), 1u) << row.text << " has no row in docs/functions.md";
    }
  }
}

}  // namespace
}  // namespace corrloom::scalar
