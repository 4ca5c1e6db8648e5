// Derivatives of random ops against dual numbers.

#include <cstdlib>

#include "derivative_testing.h"
#include "dual_numbers.h"
#include "random_op.h"

namespace corrloom::frontend::testing {
namespace {

using corrloom::testing::DualArray;

tensor::Array uniform(std::vector<std::int64_t> extents, std::mt19937_64& random) {
  std::uniform_real_distribution<double> between(-1, 1);
  tensor::Array array{DType::F64, std::move(extents), {}};
  const std::int64_t count = array.count();
  for (std::int64_t k = 0; k < count; ++k) array.bits.push_back(scalar::Value::f64(between(random)).bits);
  return array;
}

std::vector<double> rates_of(const tensor::Array& array) {
  return values_of(array);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}
double norm(const std::vector<double>& a) {
  return std::sqrt(dot(a, a));
}

/// <dY, J u> from the op on dual numbers against <J^T dY, u> from its derivative, for a random direction u.
void check(std::uint64_t seed) {
  const std::string text = corrloom::testing::random_op(seed);
  SCOPED_TRACE("CORRLOOM_SEED=" + std::to_string(seed) + "\n" + text);
  std::mt19937_64 random(seed);
  const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 5), m = 1 + static_cast<std::int64_t>(random() % 4);
  Diagnostics diagnostics;
  const auto program = Program::load(std::make_shared<const SourceFile>("random.loom", text), {}, diagnostics);
  ASSERT_TRUE(program.has_value()) << diagnostics.render();
  DerivativeOptions options{{"X", "Z"}};
  options.intermediates = static_cast<DerivativeOptions::Intermediates>(seed % 3);
  const auto derived = program->derivative("f", options, diagnostics);
  ASSERT_TRUE(derived.has_value()) << diagnostics.render();
  SCOPED_TRACE(derived->text);
  const auto derivative =
      Program::load(std::make_shared<const SourceFile>("derived.loom", derived->text), {}, diagnostics);
  ASSERT_TRUE(derivative.has_value()) << diagnostics.render();

  Call call{{{"X", uniform({n, m}, random)}, {"Z", uniform({n}, random)}}};
  const tensor::Array dx = uniform({n, m}, random), dz = uniform({n}, random);
  const auto graph = program->lower("f", {}, diagnostics);
  Arguments arguments;
  for (const auto& [name, array] : call.tensors) arguments.tensors[name] = {array.dtype, array.extents};
  const auto symbols = bind(*program->find("f"), *graph, arguments, diagnostics);
  ASSERT_TRUE(symbols.has_value()) << diagnostics.render();
  const std::vector<DualArray> inputs = {{call.tensors.at("X"), rates_of(dx)}, {call.tensors.at("Z"), rates_of(dz)}};
  const auto duals = corrloom::testing::interpret_dual(*graph, inputs, in_symbol_order(*graph, *symbols));

  call.tensors["dY"] = uniform({n, m}, random);
  call.tensors["dV"] = uniform({n}, random);
  const auto found = run(*derivative, derived->name, call);
  const std::vector<double> cy = values_of(call.tensors.at("dY")), cv = values_of(call.tensors.at("dV"));
  const double wanted = dot(cy, duals[0].rate) + dot(cv, duals[1].rate);
  const double here = dot(values_of(found[0]), rates_of(dx)) + dot(values_of(found[1]), rates_of(dz));
  // Rounding in sums of a few hundred terms, each as large as the vectors that are multiplied.
  const double scale = 1 + norm(cy) * norm(duals[0].rate) + norm(cv) * norm(duals[1].rate) +
                       norm(values_of(found[0])) * norm(rates_of(dx)) + norm(values_of(found[1])) * norm(rates_of(dz));
  EXPECT_NEAR(here, wanted, 1e-9 * scale) << "N = " << n << ", M = " << m;
}

TEST(DerivativeOfRandomOps, AgreesWithDualNumbers) {
  // CORRLOOM_SEED=S repeats one case, CORRLOOM_RUNS=N with it runs N from there on.
  const char *given = std::getenv("CORRLOOM_SEED"), *runs = std::getenv("CORRLOOM_RUNS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : given != nullptr ? 1 : 400;
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) check(seed);
}

}  // namespace
}  // namespace corrloom::frontend::testing
