// The value and the gradients of a loss in one op.

#include <gmock/gmock.h>

#include "derivative_testing.h"

namespace corrloom::frontend::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLoss = R"(
op loss(X: f64[N, I], T: i64[N], W: f64[O, I], b: f64[O]) -> (L: f64, Y: f64[N, O], best: i64[N]) {
  Y[n, o] = b[o] + sum(i) X[n, i] * W[o, i]
  let top[n] = max(o) Y[n, o]
  let total[n] = sum(o) exp(Y[n, o] - top[n])
  let right[n] = sum(o: O) (if o == T[n] then Y[n, o] else 0)
  L = sum(n) (log(total[n]) + top[n] - right[n]) / f64(N)
  best[n] = argmax(o) Y[n, o]
}
)";

TEST(ValueAndGrad, HasTheResultsAndTheDerivativeOfTheFirst) {
  Call call{{{"X", spread({3, 2}, 1)}, {"W", spread({4, 2}, 2)}, {"b", spread({4}, 3)}}};
  call.tensors["T"] = integers(DType::I64, {3}, {1, 3, 0});
  DerivativeOptions both;
  both.with_values = true;
  const std::string text = derivative_of(kLoss, "loss", {"W", "b"}, both);
  EXPECT_THAT(text, HasSubstr("op loss_and_grad(X: f64[N, I], T: i64[N], W: f64[O, I], b: f64[O])"));
  EXPECT_THAT(text, HasSubstr("-> (L: f64, Y: f64[N, O], best: i64[N], dW: f64[O, I], db: f64[O])"));
  const auto found = run(load_text(text), "loss_and_grad", call);
  const auto values = run(load_text(kLoss), "loss", call);
  call.scalars["dL"] = scalar::Value::f64(1);
  call.tensors["dY"] = doubles({3, 4}, std::vector<double>(12));
  const auto gradients = run(load_text(derivative_of(kLoss, "loss", {"W", "b"})), "d_loss", call);
  ASSERT_EQ(found.size(), 5u);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(found[k].bits, values[k].bits) << text;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::vector<double> here = values_of(found[3 + k]), there = values_of(gradients[k]);
    ASSERT_EQ(here.size(), there.size());
    // Sums of a few terms in two orders.
    for (std::size_t n = 0; n < here.size(); ++n) EXPECT_NEAR(here[n], there[n], 1e-14) << text;
  }
}

TEST(ValueAndGrad, CopiesAResultThatIsAnArgument) {
  DerivativeOptions both;
  both.with_values = true;
  const std::string text =
      derivative_of("op f(X: f64[N]) -> (L: f64, Y: f64[N]) {\n  L = sum(i) X[i] * X[i]\n  Y = X\n}", "f", {"X"}, both);
  const auto found = run(load_text(text), "f_and_grad", {{{"X", doubles({2}, {3, 4})}}});
  EXPECT_EQ(values_of(found[0]), (std::vector<double>{25}));
  EXPECT_EQ(values_of(found[1]), (std::vector<double>{3, 4}));
  EXPECT_EQ(values_of(found[2]), (std::vector<double>{6, 8}));
}

TEST(ValueAndGrad, WantsOneNumber) {
  DerivativeOptions both;
  both.with_values = true;
  EXPECT_THAT(derivative_of("op f(X: f64[N]) -> Y: f64[N] {\n  Y[i] = X[i]\n}", "f", {"X"}, both),
              HasSubstr("its first result is not the one number"));
}

}  // namespace
}  // namespace corrloom::frontend::testing
