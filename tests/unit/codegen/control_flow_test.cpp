#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/codegen/host_target.h"
#include "compiler/codegen/loader.h"
#include "ir/loop/interpret.h"
#include "tests/unit/codegen/kernels.h"

namespace corrloom::testing {
namespace {

using scalar::Value;

tensor::Array floats(std::int64_t count, double first = 0.5) {
  std::vector<Value> values;
  for (std::int64_t k = 0; k < count; ++k)
    values.push_back(Value::f32(static_cast<float>(first + 0.37 * static_cast<double>(k))));
  return array_of(DType::F32, values);
}

void check(const loop::Function& function, const std::vector<tensor::Array>& inputs, const std::vector<Value>& symbols,
           std::int64_t blocks) {
  std::vector<tensor::Array> wanted = inputs, found = inputs;
  loop::interpret(function, wanted, symbols);
  run_on(codegen::host_target(), function, found, symbols, blocks);
  for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_EQ(found[k].bits, wanted[k].bits) << "buffer " << k;
}

constexpr const char* kProduct = R"(
  func @product stage flat symbols [n] (%A: f32[3, 5], %B: f32[5, 8], %C: f32[3, 8] out) {
    %three: i64 = const 3:i64
    %five: i64 = const 5:i64
    %eight: i64 = const 8:i64
    %zero: f32x8 = const 0.0:f32
    %first: i64 = const 0:i64
    %n: i64 = symbol n
    for %i below %three block {
      %row: i64 = mul %i, %five
      %sum: f32x8, %steps: i64 = for %k below %n carry (%acc = %zero, %count = %first) {
        %ai: i64 = add %row, %k
        %a: f32 = load %A[%ai]
        %av: f32x8 = splat %a
        %bk: i64 = mul %k, %eight
        %bi: i64x8 = ramp %bk by 1
        %b: f32x8 = load %B[%bi]
        %next: f32x8 = fma %av, %b, %acc
        %one: i64 = const 1:i64
        %more: i64 = add %count, %one
        yield %next, %more
      }
      %s: f32 = cast %steps
      %sv: f32x8 = splat %s
      %scaled: f32x8 = mul %sum, %sv
      %to: i64 = mul %i, %eight
      %ci: i64x8 = ramp %to by 1
      store %C[%ci] = %scaled
    }
  })";

TEST(ControlFlow, CarriesValuesThroughALoop) {
  for (std::int64_t steps : {5, 1, 0}) {
    check(parse_function(kProduct), {floats(15), floats(40, -3), floats(24)}, {Value::i64(steps)}, 3);
  }
}

TEST(ControlFlow, CarriesValuesThroughNests) {
  const auto function = parse_function(R"(
    func @nest stage flat symbols [] (%X: f32[4, 6], %Y: f32[2] out) {
      %two: i64 = const 2:i64
      %three: i64 = const 3:i64
      %six: i64 = const 6:i64
      %zero: f32 = const 0.0:f32
      for %b below %two block {
        %all: f32 = for %p below %three carry (%outer = %zero) {
          %inner: f32 = for %q below %p carry (%acc = %outer) {
            %r: i64 = add %b, %p
            %line: i64 = mul %r, %six
            %at: i64 = add %line, %q
            %x: f32 = load %X[%at]
            %next: f32 = add %acc, %x
            yield %next
          }
          yield %inner
        }
        store %Y[%b] = %all
      }
    })");
  check(function, {floats(24), floats(2)}, {}, 2);
}

TEST(ControlFlow, TakesOneBranchOfNestedIfs) {
  const auto function = parse_function(R"(
    func @branches stage flat symbols [limit: i64] (%X: f32[7], %Y: f32[7] out) {
      %seven: i64 = const 7:i64
      %three: i64 = const 3:i64
      %limit: i64 = symbol limit
      for %b below %seven block {
        %low: bool = lt %b, %limit
        %y: f32, %twice: f32 = if %low {
          %lower: bool = lt %b, %three
          %z: f32 = if %lower {
            %x: f32 = load %X[%b]
            yield %x
          } else {
            %minus: f32 = const -1.0:f32
            yield %minus
          }
          %zz: f32 = add %z, %z
          yield %z, %zz
        } else {
          %c: f32 = const 9.0:f32
          yield %c, %c
        }
        %odd: i64 = const 2:i64
        %m: i64 = mod %b, %odd
        %first: i64 = const 0:i64
        %even: bool = eq %m, %first
        if %even {
          store %Y[%b] = %y
        } else {
          store %Y[%b] = %twice
        }
      }
    })");
  check(function, {floats(7), floats(7)}, {Value::i64(5)}, 7);
}

TEST(ControlFlow, RunsWithoutBlocksInTheFirstBlockOnly) {
  const auto function = parse_function(R"(
    func @single stage flat symbols [] (%X: i32[1], %Y: i32[1] out) {
      %zero: i64 = const 0:i64
      %x: i32 = load %X[%zero]
      %y: i32 = add %x, %x
      store %Y[%zero] = %y
    })");
  const codegen::KernelSource source = source_of(function);
  const codegen::LoadedObject object(emit_or_fail({source}, codegen::host_target()).bytes);
  std::int32_t x = 21, y = 0;
  void* args[] = {&x, &y};
  object.entry(source.entry)(args, 1, 4);
  object.entry(source.entry)(args, 0, 0);
  EXPECT_EQ(y, 0);
  object.entry(source.entry)(args, 0, 1);
  EXPECT_EQ(y, 42);
}

TEST(ControlFlow, RunsOnlyTheBlocksItIsGiven) {
  const auto function = parse_function(R"(
    func @part stage flat symbols [] (%Y: i64[6] out) {
      %six: i64 = const 6:i64
      for %b below %six block {
        store %Y[%b] = %b
      }
    })");
  const codegen::KernelSource source = source_of(function);
  const codegen::LoadedObject object(emit_or_fail({source}, codegen::host_target()).bytes);
  std::int64_t y[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
  void* args[] = {y};
  object.entry(source.entry)(args, 2, 4);
  // Blocks beyond the extent do nothing.
  object.entry(source.entry)(args, 5, 8);
  EXPECT_THAT(y, ::testing::ElementsAre(-1, -1, 2, 3, -1, 5, -1, -1));
}

TEST(ControlFlow, PassesScalarsOfEveryDType) {
  for (DType dtype : kAllDTypes) {
    const std::string name(name_of(dtype));
    const auto function = parse_function("func @scalar." + name + " stage flat symbols [s: " + name + "] (%Y: " + name +
                                         "[2] out) {\n  %two: i64 = const 2:i64\n  %s: " + name +
                                         " = symbol s\n  for %b below %two block {\n    store %Y[%b] = %s\n  }\n}\n");
    const Value value = dtype == DType::Bool ? Value::boolean(true) : edge_values(dtype)[7];
    std::vector<tensor::Array> arrays{array_of(dtype, {{dtype, 0}, {dtype, 0}})};
    run_on(codegen::host_target(), function, arrays, {value}, 2);
    EXPECT_EQ(arrays[0].at(1), value) << name;
  }
}

TEST(ControlFlow, KeepsPrivateArraysApart) {
  const auto function = parse_function(R"(
    func @private stage flat symbols [] (%X: f32[12], %Y: f32[12] out, %T: f32[4] local out) {
      %three: i64 = const 3:i64
      %four: i64 = const 4:i64
      %last: i64 = const 3:i64
      for %b below %three block {
        %base: i64 = mul %b, %four
        for %k below %four {
          %i: i64 = add %base, %k
          %x: f32 = load %X[%i]
          store %T[%k] = %x
        }
        for %j below %four {
          %r: i64 = sub %last, %j
          %t: f32 = load %T[%r]
          %o: i64 = add %base, %j
          store %Y[%o] = %t
        }
      }
    })");
  std::vector<tensor::Array> arrays{floats(12), floats(12, 90)};
  run_on(codegen::host_target(), function, arrays, {}, 3);
  const tensor::Array inputs = floats(12);
  for (std::size_t k = 0; k < 12; ++k) EXPECT_EQ(arrays[1].bits[k], inputs.bits[k / 4 * 4 + 3 - k % 4]);
}

TEST(ControlFlow, RunsThreadsOneAfterTheOtherOnTheHost) {
  const auto function = parse_function(R"(
    func @threads stage flat symbols [] (%X: f32[15], %Y: f32[15] out) {
      %three: i64 = const 3:i64
      %five: i64 = const 5:i64
      for %b below %three block {
        %base: i64 = mul %b, %five
        for %t below %five thread {
          %i: i64 = add %base, %t
          %x: f32 = load %X[%i]
          %y: f32 = mul %x, %x
          store %Y[%i] = %y
        }
      }
    })");
  EXPECT_EQ(codegen::thread_count(function), 5);
  check(function, {floats(15), floats(15)}, {}, 3);
}

/// LLVM must not keep the constants of one nest of loops in registers that another one needs.
TEST(ControlFlow, EmptiesVectorRegistersBetweenNests) {
  const std::string nest = R"(
      for %i below %three {
        for %k below %three {
          %row: i64 = mul %i, %three
          %at: i64 = add %row, %k
          %x: f32 = load %X[%at]
          %y: f32 = add %x, %x
          store %Y[%at] = %y
        }
      })";
  const auto function = [&](const std::string& body) {
    return parse_function(
        "func @nests stage flat symbols [] (%X: f32[9], %Y: f32[9] out, %Z: f32[9] out) {\n%three: i64 = const 3:i64" +
        body + "\n}");
  };
  std::string second = nest;
  for (const std::string name : {"%i", "%k", "%row", "%at", "%x", "%y"}) {
    for (std::size_t at = 0; (at = second.find(name, at)) != std::string::npos; at += name.size() + 1)
      second.insert(at + name.size(), "2");
  }
  second.replace(second.find("%Y["), 3, "%Z[");
  const auto fences = [](const loop::Function& written) {
    const auto code = emit_or_fail({source_of(written)}, codegen::host_target(), {.want_llvm = true});
    int count = 0;
    for (std::size_t at = 0; (at = code.llvm_ir.find("call void asm sideeffect \"\"", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  const bool has_vectors = codegen::host_target().vector_bytes > 16;
  EXPECT_EQ(fences(function(nest)), 0);
  EXPECT_EQ(fences(function(nest + second)), has_vectors ? 2 : 0);
  check(function(nest + second), {floats(9), floats(9), floats(9)}, {}, 1);
}

/// Nothing but `fma` fuses: a product that is added keeps its own rounding.
TEST(ControlFlow, NeverContractsAProductAndASum) {
  const auto function = parse_function(R"(
    func @apart stage flat symbols [] (%X: f32[1], %Y: f32[1] out) {
      %zero: i64 = const 0:i64
      %x: f32 = load %X[%zero]
      %p: f32 = mul %x, %x
      %c: f32 = const -1.0:f32
      %y: f32 = add %p, %c
      store %Y[%zero] = %y
    })");
  // (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24, of which the rounded product loses the last bit.
  std::vector<tensor::Array> arrays{array_of(DType::F32, {Value::f32(1.0f + 0x1p-12f)}),
                                    array_of(DType::F32, {Value::f32(0)})};
  run_on(codegen::host_target(), function, arrays, {}, 1);
  EXPECT_EQ(arrays[1].at(0), Value::f32(0x1p-11f));
}

}  // namespace
}  // namespace corrloom::testing
