#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../frontend/lowering_testing.h"

namespace corrloom::frontend::testing {

/// The text of an op's derivative; the errors when there is none.
inline std::string derivative_of(const std::string& text, const std::string& op, const std::vector<std::string>& wrt,
                                 DerivativeOptions options = {}) {
  Diagnostics diagnostics;
  options.wrt = wrt;
  const auto derived = load_text(text).derivative(op, options, diagnostics);
  return derived ? derived->text : diagnostics.render();
}

inline tensor::Array doubles(std::vector<std::int64_t> extents, const std::vector<double>& values) {
  tensor::Array array{DType::F64, std::move(extents), {}};
  for (const double value : values) array.bits.push_back(scalar::Value::f64(value).bits);
  return array;
}

inline double dot(const tensor::Array& a, const tensor::Array& b) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.count(); ++k) sum += a.at(k).as_f64() * b.at(k).as_f64();
  return sum;
}

/// Compares every element of a derivative in f64 with central differences: for random cotangents, the change of
/// <Y, dY> when one element of an argument changes. `call` has the op's arguments, all of whose results are f64.
/// Kinks must be farther from the values than the step.
inline void expect_central_differences(const std::string& text, const std::string& op, const Call& call,
                                       const std::vector<std::string>& wrt, double tolerance = 1e-6,
                                       DerivativeOptions options = {}) {
  SCOPED_TRACE(text);
  constexpr double kStep = 1e-5;
  const Program program = load_text(text);
  Diagnostics diagnostics;
  options.wrt = wrt;
  const auto derived = program.derivative(op, options, diagnostics);
  ASSERT_TRUE(derived.has_value()) << diagnostics.render();
  SCOPED_TRACE(derived->text);
  const Program derivative = load_text(derived->text);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const std::vector<tensor::Array> results = run(program, op, call);
  std::vector<tensor::Array> cotangents;
  Call full = call;
  std::size_t at = 0;
  for (const ResultSignature& result : program.find(op)->results) {
    const tensor::Array& value = results[at++];
    cotangents.push_back(doubles(value.extents, std::vector<double>(static_cast<std::size_t>(value.count()))));
    if (!is_float(value.dtype)) continue;
    for (std::uint64_t& bits : cotangents.back().bits) bits = scalar::Value::f64(uniform(random)).bits;
    full.tensors["d" + result.name] = cotangents.back();
  }
  // A cotangent of rank 0 is a scalar argument.
  for (auto one = full.tensors.begin(); one != full.tensors.end();) {
    const ParameterSignature* parameter = derivative.find(derived->name)->parameter(one->first);
    ASSERT_NE(parameter, nullptr) << one->first;
    if (!parameter->is_tensor) {
      full.scalars[one->first] = one->second.at(0);
      one = full.tensors.erase(one);
    } else {
      ++one;
    }
  }
  const std::vector<tensor::Array> found = run(derivative, derived->name, full);
  const auto value_at = [&](const Call& changed) {
    const std::vector<tensor::Array> values = run(program, op, changed);
    double sum = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (is_float(values[k].dtype)) sum += dot(values[k], cotangents[k]);
    }
    return sum;
  };
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    for (std::int64_t element = 0; element < found[k].count(); ++element) {
      Call more = call, less = call;
      const auto move = [&](Call& changed, double by) {
        const auto scalar = changed.scalars.find(wrt[k]);
        std::uint64_t& bits = scalar != changed.scalars.end()
                                  ? scalar->second.bits
                                  : changed.tensors.at(wrt[k]).bits[static_cast<std::size_t>(element)];
        bits = scalar::Value::f64(scalar::Value{DType::F64, bits}.as_f64() + by).bits;
      };
      move(more, kStep);
      move(less, -kStep);
      const double wanted = (value_at(more) - value_at(less)) / (2 * kStep);
      const double here = found[k].at(element).as_f64();
      EXPECT_NEAR(here, wanted, tolerance * std::max(1.0, std::abs(wanted)))
          << "d" << wrt[k] << ", element " << element;
    }
  }
}

/// Values between -2 and 2 that are far from each other and from whole numbers, in an order that a seed decides.
inline tensor::Array spread(std::vector<std::int64_t> extents, std::uint64_t seed) {
  tensor::Array array{DType::F64, std::move(extents), {}};
  const std::int64_t count = array.count();
  std::vector<double> values;
  for (std::int64_t k = 0; k < count; ++k)
    values.push_back(-2 + 4 * (static_cast<double>(k) + 0.37) / static_cast<double>(count));
  std::mt19937_64 random(seed);
  std::shuffle(values.begin(), values.end(), random);
  for (const double value : values) array.bits.push_back(scalar::Value::f64(value).bits);
  return array;
}

}  // namespace corrloom::frontend::testing
