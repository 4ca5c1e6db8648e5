// Every function of the table against central differences, on both sides of the ties and kinks of those that have some.

#include "derivative_testing.h"
#include "ir/scalar/expr.h"

namespace corrloom::frontend::testing {
namespace {

/// Arguments from 0.1 to 0.95, none of them near another of any seed: inside the domain of every function but one.
tensor::Array inside_domain(std::uint64_t seed, double above) {
  tensor::Array array = spread({7}, seed);
  for (std::uint64_t& bits : array.bits) {
    const double x = scalar::Value{DType::F64, bits}.as_f64();
    bits = scalar::Value::f64(above + 0.5 + 0.01 * static_cast<double>(seed) + 0.2 * x).bits;
  }
  return array;
}

TEST(DerivativesOfFunctions, AreCentralDifferences) {
  for (const scalar::OpcodeInfo& row : scalar::all_opcodes()) {
    const bool takes_floats = row.operands == scalar::Operands::Float || row.operands == scalar::Operands::Number;
    if (!row.callable || !takes_floats || row.result != scalar::Result::Same) continue;
    const double above = row.text == "acosh" ? 1 : 0;
    const char* arguments[] = {"X[i]", "Z[i]", "V[i]"};
    std::string list;
    for (int k = 0; k < row.arity; ++k) list += std::string(k == 0 ? "" : ", ") + arguments[k];
    const std::string text = "op f(X: f64[N], Z: f64[N], V: f64[N]) -> Y: f64[N] {\n  Y[i] = " + std::string(row.text) +
                             "(" + list + ")\n}\n";
    const Call call{{{"X", inside_domain(1, above)}, {"Z", inside_domain(2, above)}, {"V", inside_domain(3, above)}}};
    expect_central_differences(text, "f", call, {"X", "Z", "V"});
  }
}

TEST(DerivativesOfFunctions, HoldForNegativeArguments) {
  for (const char* name : {"abs", "sign", "tanh", "erf", "floor", "exp"}) {
    const std::string text = "op f(X: f64[N]) -> Y: f64[N] {\n  Y[i] = " + std::string(name) + "(X[i]) * X[i]\n}\n";
    expect_central_differences(text, "f", {{{"X", spread({8}, 3)}}}, {"X"});
  }
}

TEST(DerivativesOfFunctions, TakeTheFirstOfEqualOperands) {
  const char* text = R"(
op f(X: f64[N], Z: f64[N]) -> (A: f64[N], B: f64[N], C: f64, D: f64) {
  A[i] = max(X[i], Z[i])
  B[i] = min(X[i], Z[i])
  C = max(i) X[i]
  D = min(i) Z[i]
}
)";
  Call call{{{"X", doubles({3}, {1, 2, 2})}, {"Z", doubles({3}, {1, 1, 3})}}};
  const std::string derived = derivative_of(text, "f", {"X", "Z"});
  call.tensors["dA"] = doubles({3}, {1, 1, 1});
  call.tensors["dB"] = doubles({3}, {10, 10, 10});
  call.scalars = {{"dC", scalar::Value::f64(100)}, {"dD", scalar::Value::f64(1000)}};
  const auto found = run(load_text(derived), "d_f", call);
  EXPECT_EQ(values_of(found[0]), (std::vector<double>{11, 101, 10})) << derived;
  EXPECT_EQ(values_of(found[1]), (std::vector<double>{1000, 10, 1})) << derived;
}

}  // namespace
}  // namespace corrloom::frontend::testing
