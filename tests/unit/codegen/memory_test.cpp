#include <gtest/gtest.h>

#include "compiler/codegen/host_target.h"
#include "ir/loop/interpret.h"
#include "tests/unit/codegen/kernels.h"

namespace corrloom::testing {
namespace {

using scalar::Value;

/// Distinct small values of a dtype.
tensor::Array counted(DType dtype, std::int64_t count) {
  std::vector<Value> values;
  for (std::int64_t k = 0; k < count; ++k) {
    if (dtype == DType::Bool) values.push_back(Value::boolean(k % 3 == 0));
    if (is_integer(dtype)) values.push_back(Value::integer(dtype, 3 * k + 1));
    if (is_float(dtype)) values.push_back(Value::floating(dtype, 0.25 * static_cast<double>(k) - 1));
  }
  return array_of(dtype, values);
}

/// Runs the function on every host target and compares each buffer with what the interpreter makes of it.
void check(const loop::Function& function, const std::vector<tensor::Array>& inputs, const std::vector<Value>& symbols,
           std::int64_t blocks) {
  std::vector<tensor::Array> wanted = inputs;
  loop::interpret(function, wanted, symbols);
  for (const kernel::Target& target : host_targets()) {
    std::vector<tensor::Array> found = inputs;
    run_on(target, function, found, symbols, blocks);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_EQ(found[k].bits, wanted[k].bits) << target.name << ", buffer " << k << " of " << function.name;
    }
  }
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

class Memory : public ::testing::TestWithParam<DType> {
 protected:
  static std::string with_dtype(const std::string& text) {
    return replace_all(text, "DTYPE", std::string(name_of(GetParam())));
  }
};

TEST_P(Memory, CopiesRunsWithMasks) {
  // Three blocks of 8 lanes over 21 elements, and 2 lanes less at the end of each run.
  const auto function = parse_function(with_dtype(R"(
    func @masked stage flat symbols [] (%X: DTYPE[21], %Y: DTYPE[21] out) {
      %three: i64 = const 3:i64
      %eight: i64 = const 8:i64
      %n: i64x8 = const 19:i64
      for %b below %three block {
        %base: i64 = mul %b, %eight
        %i: i64x8 = ramp %base by 1
        %m: boolx8 = lt %i, %n
        %x: DTYPEx8 = load %X[%i] mask %m
        store %Y[%i] = %x mask %m
      }
    })"));
  check(function, {counted(GetParam(), 21), array_of(GetParam(), std::vector<Value>(21, {GetParam(), 1}))}, {}, 3);
}

TEST_P(Memory, StoresOneLaneAlone) {
  // What is cut to the dtype leaves the neighbours of the only lane as they are.
  const auto function = parse_function(with_dtype(R"(
    func @lane stage flat symbols [] (%X: i32[16], %Y: DTYPE[16] out) {
      %one: i64 = const 1:i64
      %zero: i64 = const 0:i64
      %i: i64x16 = ramp %zero by 1
      %wide: i64x16 = const 1:i64
      %m: boolx16 = lt %i, %wide
      for %b below %one block {
        %x: i32x16 = load %X[%i]
        %y: DTYPEx16 = cast %x
        store %Y[%i] = %y mask %m
      }
    })"));
  if (is_narrow_float(GetParam()) || GetParam() == DType::Bool) return;  // the passes write such casts out
  check(function, {counted(DType::I32, 16), array_of(GetParam(), std::vector<Value>(16, {GetParam(), 1}))}, {}, 1);
}

TEST_P(Memory, GathersAndScattersWithStrides) {
  const auto function = parse_function(with_dtype(R"(
    func @strided stage flat symbols [] (%X: DTYPE[40], %Y: DTYPE[32] out) {
      %two: i64 = const 2:i64
      %one: i64 = const 1:i64
      for %b below %two block {
        %i: i64x4 = ramp %b by 7
        %x: DTYPEx4 = load %X[%i]
        %o: i64x4 = ramp %b by 3
        store %Y[%o] = %x
        %last: i64 = const 30:i64
        %from: i64 = sub %last, %b
        %r: i64x4 = ramp %from by -2
        %w: DTYPEx4 = load %X[%r]
        %sixteen: i64 = const 16:i64
        %to: i64 = add %b, %sixteen
        %s: i64x4 = ramp %to by 4
        store %Y[%s] = %w
      }
    })"));
  check(function, {counted(GetParam(), 40), counted(GetParam(), 32)}, {}, 2);
}

TEST_P(Memory, GathersThroughAnIndexVector) {
  const auto function = parse_function(with_dtype(R"(
    func @indirect stage flat symbols [] (%I: i64[8], %X: DTYPE[16], %Y: DTYPE[16] out) {
      %zero: i64 = const 0:i64
      %k: i64x8 = ramp %zero by 1
      %i: i64x8 = load %I[%k]
      %x: DTYPEx8 = load %X[%i]
      %limit: i64x8 = const 9:i64
      %m: boolx8 = lt %i, %limit
      %some: DTYPEx8 = load %X[%i] mask %m
      store %Y[%i] = %x mask %m
      %eight: i64 = const 8:i64
      %o: i64x8 = ramp %eight by 1
      store %Y[%o] = %some
    })"));
  std::vector<Value> indices;
  // The scatter reaches below 8 only, so that no element is written twice.
  for (std::int64_t i : {3, 15, 0, 7, 11, 2, 5, 14}) indices.push_back(Value::i64(i));
  check(function, {array_of(DType::I64, indices), counted(GetParam(), 16), counted(GetParam(), 16)}, {}, 1);
}

TEST_P(Memory, LoadsOneElementIntoEveryLane) {
  const auto function = parse_function(with_dtype(R"(
    func @broadcast stage flat symbols [] (%X: DTYPE[5], %Y: DTYPE[20] out) {
      %five: i64 = const 5:i64
      %four: i64 = const 4:i64
      for %b below %five block {
        %x: DTYPE = load %X[%b]
        %v: DTYPEx4 = splat %x
        %base: i64 = mul %b, %four
        %i: i64x4 = ramp %base by 1
        store %Y[%i] = %v
      }
    })"));
  check(function, {counted(GetParam(), 5), counted(GetParam(), 20)}, {}, 5);
}

TEST_P(Memory, LeavesAMaskedElementAlone) {
  const auto function = parse_function(with_dtype(R"(
    func @scalar stage flat symbols [] (%X: DTYPE[6], %Y: DTYPE[9] out) {
      %nine: i64 = const 9:i64
      %six: i64 = const 6:i64
      %seven: i64 = const 7:i64
      for %b below %nine block {
        %in: bool = lt %b, %six
        %x: DTYPE = load %X[%b] mask %in
        %out: bool = lt %b, %seven
        store %Y[%b] = %x mask %out
      }
    })"));
  check(function, {counted(GetParam(), 6), counted(GetParam(), 9)}, {}, 9);
}

TEST_P(Memory, ShufflesLanes) {
  const auto function = parse_function(with_dtype(R"(
    func @shuffled stage flat symbols [] (%X: DTYPE[8], %Y: DTYPE[6] out) {
      %zero: i64 = const 0:i64
      %k: i64x8 = ramp %zero by 1
      %x: DTYPEx8 = load %X[%k]
      %some: DTYPEx4 = shuffle %x [7, 0, 0, 3]
      %one: DTYPE = shuffle %x [5]
      %o: i64x4 = ramp %zero by 1
      store %Y[%o] = %some
      %four: i64 = const 4:i64
      store %Y[%four] = %one
    })"));
  check(function, {counted(GetParam(), 8), counted(GetParam(), 6)}, {}, 1);
}

/// A chain whose last steps stand in blocks of their own.
TEST_P(Memory, ShufflesShuffledLanes) {
  const auto function = parse_function(with_dtype(R"(
    func @chained stage flat symbols [] (%X: DTYPE[8], %Y: DTYPE[8] out) {
      %zero: i64 = const 0:i64
      %two: i64 = const 2:i64
      for %b below %two block {
        %k: i64x8 = ramp %zero by 1
        %x: DTYPEx8 = load %X[%k]
        %once: DTYPEx8 = shuffle %x [7, 6, 5, 4, 3, 2, 1, 0]
        %twice: DTYPEx8 = shuffle %once [1, 0, 3, 2, 5, 4, 7, 6]
        %is_first: bool = eq %b, %zero
        %y: DTYPEx4 = if %is_first {
          %low: DTYPEx4 = shuffle %twice [0, 2, 4, 6]
          yield %low
        } else {
          %high: DTYPEx4 = shuffle %twice [1, 3, 5, 7]
          yield %high
        }
        %four: i64 = const 4:i64
        %at: i64 = mul %b, %four
        %o: i64x4 = ramp %at by 1
        store %Y[%o] = %y
      }
    })"));
  check(function, {counted(GetParam(), 8), counted(GetParam(), 8)}, {}, 2);
}

INSTANTIATE_TEST_SUITE_P(DTypes, Memory, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Accesses, FenceTheStepsOfATransposition) {
  const auto function = parse_function(R"(
    func @steps stage flat symbols [] (%X: f32[8], %Y: f32[8] out) {
      %zero: i64 = const 0:i64
      %k: i64x8 = ramp %zero by 1
      %x: f32x8 = load %X[%k]
      %once: f32x8 = shuffle %x [1, 0, 3, 2, 5, 4, 7, 6]
      %twice: f32x8 = shuffle %once [2, 3, 0, 1, 6, 7, 4, 5]
      %thrice: f32x8 = shuffle %twice [4, 5, 6, 7, 0, 1, 2, 3]
      store %Y[%k] = %thrice
    })");
  const auto code = emit_or_fail({source_of(function)}, codegen::host_target(), {.want_llvm = true});
  EXPECT_NE(code.llvm_ir.find("llvm.arithmetic.fence"), std::string::npos) << code.llvm_ir;
  check(function, {counted(DType::F32, 8), counted(DType::F32, 8)}, {}, 1);
}

TEST(Accesses, TakeAConstantSummandAsADisplacement) {
  const auto function = parse_function(R"(
    func @displaced stage flat symbols [] (%X: f32[64], %Y: f32[16] out) {
      %one: i64 = const 1:i64
      for %b below %one block {
        %c: i64 = const 48:i64
        %at: i64 = add %b, %c
        %i: i64x16 = ramp %at by 1
        %x: f32x16 = load %X[%i]
        %o: i64x16 = ramp %b by 1
        store %Y[%o] = %x
      }
    })");
  const auto code = emit_or_fail({source_of(function)}, codegen::host_target(), {.want_llvm = true});
  EXPECT_NE(code.llvm_ir.find(", i64 48\n"), std::string::npos) << code.llvm_ir;
  check(function, {counted(DType::F32, 64), counted(DType::F32, 16)}, {}, 1);
}

}  // namespace
}  // namespace corrloom::testing
