#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ir/kernel/error_slot.h"
#include "ir/loop/interpret.h"
#include "tests/unit/codegen/kernels.h"

namespace corrloom::testing {
namespace {

using scalar::Value;

/// Y[k] = X[I[k]] where I[k] is not 13, in vectors of 4, two blocks; X has 8 elements.
constexpr const char* kGather = R"(
  func @gather stage flat symbols [] (%I: i64[8], %X: i64[8], %Y: i64[8] out) {
    %two: i64 = const 2:i64
    %four: i64 = const 4:i64
    %eight: i64 = const 8:i64
    %skipped: i64x4 = const 13:i64
    for %b below %two block {
      %base: i64 = mul %b, %four
      %at: i64x4 = ramp %base by 1
      %i: i64x4 = load %I[%at]
      %wanted: boolx4 = ne %i, %skipped
      %inside: boolx4 = check 7 %i below %eight mask %wanted
      %x: i64x4 = load %X[%i] mask %inside
      store %Y[%at] = %x
    }
  })";

/// Y[k] = X[I[k]], one by one.
constexpr const char* kScalarGather = R"(
  func @one_by_one stage flat symbols [] (%I: i64[8], %X: i64[8], %Y: i64[8] out) {
    %eight: i64 = const 8:i64
    for %k below %eight block {
      %i: i64 = load %I[%k]
      %inside: bool = check 65534 %i below %eight
      %x: i64 = load %X[%i] mask %inside
      store %Y[%k] = %x
    }
  })";

tensor::Array numbers(const std::vector<std::int64_t>& values) {
  std::vector<Value> out;
  for (std::int64_t value : values) out.push_back(Value::i64(value));
  return array_of(DType::I64, out);
}

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

class Checks : public ::testing::TestWithParam<std::vector<std::int64_t>> {};

/// What a check finds is what the interpreter finds, on every host, and no access leaves its buffer (`run_entry` guards
/// them).
TEST_P(Checks, ReportTheLowestAndReadNothingOutside) {
  for (const auto& [text, blocks] : {std::pair{kGather, 2}, std::pair{kScalarGather, 8}}) {
    const loop::Function function = parse_function(text);
    const std::vector<tensor::Array> given = {numbers(GetParam()), numbers({10, 11, 12, 13, 14, 15, 16, 17}),
                                              numbers(std::vector<std::int64_t>(8, -1))};
    std::vector<tensor::Array> wanted = given;
    const std::optional<loop::Fault> fault = loop::interpret(function, wanted, {});
    const std::uint64_t word = fault ? kernel::encode_fault(fault->site, fault->index) : kernel::kNoFault;
    for (const kernel::Target& target : host_targets()) {
      std::vector<tensor::Array> found = given;
      EXPECT_EQ(run_on(target, function, found, {}, blocks), word) << function.name << " " << target.cpu;
      EXPECT_EQ(found[2].bits, wanted[2].bits) << function.name << " " << target.cpu;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Indices, Checks,
                         ::testing::Values(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7},
                                           std::vector<std::int64_t>{0, 1, 2, 8, 4, 5, 6, 7},
                                           std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 9, 8},
                                           std::vector<std::int64_t>{13, 1, 2, 3, 4, 5, 13, 7},
                                           std::vector<std::int64_t>{0, 99, 2, -1, 4, -2, 6, 1000},
                                           std::vector<std::int64_t>{kHighest, 0, 0, 0, 0, 0, 0, 0},
                                           std::vector<std::int64_t>{kHighest, 0, 0, 0, 0, kLowest, 0, 0},
                                           std::vector<std::int64_t>{1LL << 32, 1LL << 40, 1LL << 47, 1LL << 48,
                                                                     1LL << 62, 8, 8, 8}));

TEST(Check, WordsOrderBySiteThenValue) {
  EXPECT_LT(kernel::encode_fault(0, 1LL << 46), kernel::encode_fault(1, -5));
  EXPECT_LT(kernel::encode_fault(3, -2), kernel::encode_fault(3, -1));
  EXPECT_LT(kernel::encode_fault(65534, kHighest), kernel::kNoFault);
  EXPECT_EQ(kernel::fault_value(kernel::encode_fault(65534, -7)), -7);
  EXPECT_EQ(kernel::fault_value_text(kernel::encode_fault(2, 7)), "7");
  EXPECT_EQ(kernel::fault_value_text(kernel::encode_fault(2, kHighest)), "140737488355327 or more");
  EXPECT_EQ(kernel::fault_value_text(kernel::encode_fault(2, kLowest)), "-140737488355328 or less");
}

}  // namespace
}  // namespace corrloom::testing
