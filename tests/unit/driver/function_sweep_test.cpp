// The error of f32 functions over all of their inputs, taken at even steps: compiled for the host, whose bits are those
// of every target, against C's functions in f64, and held to the table of docs/functions.md. Functions of two operands
// and those of f64 are swept by tests/unit/ir/scalar/function_error_test.cpp.
//
// CORRLOOM_SWEEP=K takes K times as many inputs; 4096 takes all of them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <ostream>
#include <sstream>

#include "compiler/codegen/host_target.h"
#include "compiler/codegen/loader.h"
#include "compiler/driver/compile.h"
#include "tests/unit/driver/program_testing.h"

namespace corrloom::driver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Function {
  std::string_view name;
  double (*in_f64)(double x);
};

/// For GoogleTest's messages.
void PrintTo(const Function& function, std::ostream* out) {
  *out << function.name;
}

const Function kFunctions[] = {
    {"exp", std::exp},
    {"exp2", std::exp2},
    {"expm1", std::expm1},
    {"log", std::log},
    {"log2", std::log2},
    {"log1p", std::log1p},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"sin", std::sin},
    {"cos", std::cos},
    {"tan", std::tan},
    {"asin", std::asin},
    {"acos", std::acos},
    {"atan", std::atan},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sinh", std::sinh},
    {"cosh", std::cosh},
    {"tanh", std::tanh},
    {"asinh", std::asinh},
    {"acosh", std::acosh},
    {"atanh", std::atanh},
    {"erf", std::erf},
};

/// The bound of f32 in the documentation's table; negative when the function has no row.
double documented_bound(std::string_view function) {
  std::ifstream file(CORRLOOM_TEST_DATA "/../../../docs/functions.md");
  std::string line, bar, name;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    double bound = 0;
    if (cells >> bar >> name >> bar >> bound && name == "`" + std::string(function) + "`") return bound;
  }
  return -1;
}

/// The distance in units of the last place of the exact value; infinite where one of the two is special or has another
/// sign.
double ulps(float computed, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (!std::isfinite(nearest) || !std::isfinite(computed)) {
    const bool agree = std::isnan(nearest) ? std::isnan(computed) : nearest == computed;
    return agree ? 0 : kInfinity;
  }
  if (std::signbit(computed) != std::signbit(nearest)) return kInfinity;
  // Near enough below 2^-149, where the last place is that of the least denormal.
  const int place = exact == 0 ? -149 : std::max(std::ilogb(exact) - 23, -149);
  return std::abs(static_cast<double>(computed) - exact) * std::ldexp(1.0, -place);
}

class FunctionSweep : public ::testing::TestWithParam<Function> {};

TEST_P(FunctionSweep, F32StaysInItsBound) {
  constexpr std::int64_t kChunk = 4096;
  const std::string name(GetParam().name), extent = std::to_string(kChunk);
  const tensor::Graph graph =
      testing::parsed_graph("graph @f(%x: f32[" + extent + "]) -> (%y) {\n  %y: f32[" + extent +
                            "] = compute [i: " + extent + "] {\n    yield " + name + "(%x[i])\n  }\n}\n");
  Diagnostics diagnostics;
  CompileOptions options;
  options.target = codegen::host_target();
  const std::optional<Compiled> compiled = compile(graph, options, diagnostics);
  ASSERT_TRUE(compiled) << diagnostics.render();
  const kernel::CompiledProgram& program = *compiled->program;
  ASSERT_EQ(program.kernels.size(), 1u);
  const codegen::LoadedObject object(program.code);
  std::vector<float> x(kChunk), y(kChunk);
  std::vector<void*> args;
  for (const kernel::Argument& argument : program.kernels[0].arguments) {
    const bool is_input = program.buffers[static_cast<std::size_t>(argument.index)].role == kernel::Buffer::Role::Input;
    args.push_back(is_input ? x.data() : y.data());
  }
  const char* factor = std::getenv("CORRLOOM_SWEEP");
  const std::uint64_t step =
      factor == nullptr ? 4096 : std::max<std::uint64_t>(1, 4096 / std::strtoull(factor, nullptr, 10));
  double worst = 0;
  float worst_at = 0;
  // Inputs lie anywhere in their steps, so that their last bits vary.
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += step * kChunk) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      const std::uint64_t jitter = step == 1 ? 0 : (k * 2654435761u) % step;
      x[k] = std::bit_cast<float>(static_cast<std::uint32_t>(bits + k * step + jitter));
    }
    object.entry(program.kernels[0].name)(args.data(), 0, *program.kernels[0].blocks.as_constant());
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double error = ulps(y[k], GetParam().in_f64(static_cast<double>(x[k])));
      if (!(error > worst)) continue;
      worst = error;
      worst_at = x[k];
    }
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  if (factor != nullptr) std::printf("%-8s f32 %.3f ulp at %.9g\n", name.c_str(), worst, static_cast<double>(worst_at));
  EXPECT_LE(worst, documented_bound(name)) << "at " << worst_at;
}

INSTANTIATE_TEST_SUITE_P(All, FunctionSweep, ::testing::ValuesIn(kFunctions),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace corrloom::driver
