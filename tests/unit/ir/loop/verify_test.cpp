#include "ir/loop/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/loop/text.h"

namespace corrloom::loop {
namespace {

/// A kernel with a block loop, a thread loop, and a loop that carries a vector.
constexpr const char* kSound = R"(func @sound stage mapped symbols [N] (%X: f32[N, 8], %Y: f32[N] out) {
  %n: i64 = symbol N
  %two: i64 = const 2:i64
  %zero: f32x4 = const 0.0:f32
  for %block below %n block {
    for %thread below %two thread {
      %sum: f32x4 = for %i below %two carry (%s = %zero) {
        %at: i64x4 = ramp %i by 1
        %x: f32x4 = load %X[%block, %at]
        %t: f32x4 = add %s, %x
        yield %t
      }
      %lane: f32 = shuffle %sum [0]
      store %Y[%block] = %lane
    }
  }
}
)";

Function sound() {
  Diagnostics diagnostics;
  const auto source = std::make_shared<const SourceFile>("test.lir", kSound);
  std::optional<Function> function = parse(source, diagnostics);
  EXPECT_TRUE(function.has_value()) << diagnostics.render();
  return *function;
}

/// The distinct rules that the sound kernel breaks after `change`.
std::vector<std::string> broken_by(const std::function<void(Function&)>& change) {
  Function function = sound();
  change(function);
  std::vector<std::string> rules;
  for (const Violation& violation : verify(function)) rules.push_back(violation.rule);
  std::sort(rules.begin(), rules.end());
  rules.erase(std::unique(rules.begin(), rules.end()), rules.end());
  return rules;
}
std::vector<std::string> only(const char* rule) {
  return {rule};
}

For& block_loop(Function& function) {
  return std::get<For>(function.body.instrs.back().kind);
}
For& thread_loop(Function& function) {
  return std::get<For>(block_loop(function).body.instrs.back().kind);
}
std::vector<Instr>& innermost(Function& function) {
  return std::get<For>(thread_loop(function).body.instrs[0].kind).body.instrs;
}
Instr& shuffle(Function& function) {
  return thread_loop(function).body.instrs[1];
}
Instr& store(Function& function) {
  return thread_loop(function).body.instrs[2];
}

TEST(VerifyLoop, AcceptsASoundKernel) {
  EXPECT_TRUE(verify(sound()).empty()) << verify(sound())[0].message;
}

TEST(VerifyLoop, L1ValuesAreDefinedBeforeTheyAreUsed) {
  EXPECT_EQ(broken_by([](Function& f) { std::get<Store>(store(f).kind).value = ValueId{}; }), only("L1"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Store>(store(f).kind).value = ValueId{99}; }), only("L1"));
  // The value of an inner loop, behind it.
  EXPECT_EQ(broken_by([](Function& f) { std::get<Shuffle>(shuffle(f).kind).source = innermost(f)[1].results[0]; }),
            only("L1"));
}

TEST(VerifyLoop, L2ValuesAreDefinedOnce) {
  EXPECT_EQ(broken_by([](Function& f) { f.body.instrs.insert(f.body.instrs.begin(), f.body.instrs[0]); }), only("L2"));
  EXPECT_EQ(broken_by([](Function& f) { f.body.instrs[0].results.push_back(ValueId{99}); }),
            (std::vector<std::string>{"L2", "L4"}));
}

TEST(VerifyLoop, L3OperandsAndResultsHaveTheirTypes) {
  EXPECT_EQ(broken_by([](Function& f) { block_loop(f).extent = f.body.instrs[2].results[0]; }), only("L3"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Ramp>(innermost(f)[0].kind).base = f.body.instrs[2].results[0]; }),
            only("L3"));
}

TEST(VerifyLoop, L4InstructionsHaveTheirNumberOfResults) {
  EXPECT_EQ(broken_by([](Function& f) { store(f).results.push_back(ValueId{}); }),
            (std::vector<std::string>{"L2", "L4"}));
  EXPECT_EQ(broken_by([](Function& f) { f.body.instrs.push_back({{}, Constant{scalar::Value::i64(1)}}); }), only("L4"));
}

TEST(VerifyLoop, L5SymbolsAreTheFunctions) {
  EXPECT_EQ(broken_by([](Function& f) { std::get<Symbol>(f.body.instrs[0].kind).symbol = SymbolId{1}; }), only("L5"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Symbol>(f.body.instrs[0].kind).symbol = SymbolId{}; }), only("L5"));
}

TEST(VerifyLoop, L6OperationsTakeTheirOperands) {
  const auto with = [](Opcode opcode, std::size_t operands) {
    return broken_by([&](Function& f) {
      auto& apply = std::get<Apply>(innermost(f)[2].kind);
      apply.opcode = opcode;
      apply.args.resize(operands, apply.args[0]);
    });
  };
  EXPECT_TRUE(with(Opcode::Mul, 2).empty());
  EXPECT_EQ(with(Opcode::Add, 1), only("L6"));
  EXPECT_EQ(with(Opcode::Mod, 2), only("L6"));
  EXPECT_EQ(with(Opcode::Exp, 1), only("L6"));
  EXPECT_EQ(with(Opcode::LazyAnd, 2), only("L6"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Apply>(innermost(f)[2].kind).args[1] = innermost(f)[0].results[0]; }),
            only("L6"));
}

TEST(VerifyLoop, L7ShufflesTakeLanesThatAreThere) {
  EXPECT_EQ(broken_by([](Function& f) { std::get<Shuffle>(shuffle(f).kind).lanes = {4}; }), only("L7"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Shuffle>(shuffle(f).kind).lanes = {-1}; }), only("L7"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Shuffle>(shuffle(f).kind).lanes = {0, 1}; }), only("L7"));
}

TEST(VerifyLoop, L8AccessesSuitTheirBuffer) {
  EXPECT_EQ(broken_by([](Function& f) { std::get<Store>(store(f).kind).buffer = BufferId{7}; }), only("L8"));
  EXPECT_EQ(broken_by([](Function& f) { f.buffers[1].written = false; }), only("L8"));
  EXPECT_EQ(broken_by([](Function& f) { f.buffers[1].dtype = DType::I32; }), only("L8"));
  EXPECT_EQ(broken_by([](Function& f) { std::get<Load>(innermost(f)[1].kind).index.pop_back(); }), only("L8"));
  EXPECT_EQ(broken_by([](Function& f) { f.stage = Stage::Flat; }), only("L8"));
}

TEST(VerifyLoop, L9CarriedValuesAgree) {
  const auto carrying = [](const std::function<void(For&)>& change) {
    return broken_by([&](Function& f) { change(std::get<For>(thread_loop(f).body.instrs[0].kind)); });
  };
  EXPECT_EQ(carrying([](For& loop) { loop.body.yields.clear(); }), only("L9"));
  EXPECT_EQ(carrying([](For& loop) { loop.inits.clear(); }), only("L9"));
  EXPECT_EQ(carrying([](For& loop) { loop.inits[0] = loop.extent; }), only("L9"));
  EXPECT_EQ(carrying([](For& loop) { loop.body.yields[0] = loop.variable; }), only("L9"));
}

TEST(VerifyLoop, L10OneBlockLoopAndOneThreadLoop) {
  EXPECT_EQ(broken_by([](Function& f) { thread_loop(f).binding = Binding::Block; }), only("L10"));
  EXPECT_EQ(broken_by([](Function& f) { block_loop(f).binding = Binding::Serial; }), only("L10"));
  EXPECT_EQ(broken_by([](Function& f) { std::swap(block_loop(f).binding, thread_loop(f).binding); }), only("L10"));
}

TEST(VerifyLoop, L11ExtentsAreSizes) {
  EXPECT_EQ(broken_by([](Function& f) { f.buffers[0].extents[1] = nullptr; }), only("L11"));
  EXPECT_EQ(broken_by([](Function& f) { f.buffers[0].extents[1] = scalar::constant(scalar::Value::f32(8)); }),
            only("L11"));
  EXPECT_EQ(broken_by([](Function& f) { f.buffers[0].extents[1] = scalar::axis(scalar::AxisId{0}); }), only("L11"));
}

TEST(VerifyLoop, L12ChecksTestIndices) {
  const auto checking = [](const char* check) {
    Diagnostics diagnostics;
    const std::string text =
        std::string("func @checks stage flat symbols [] (%Y: f32[4] out) {\n  %n: i64 = const 3:i64\n") +
        "  %m: i32 = const 3:i32\n  %w: i64x4 = ramp %n by 1\n  %t: bool = const true\n  " + check + "\n}\n";
    const auto function = parse(std::make_shared<const SourceFile>("test.lir", text), diagnostics);
    EXPECT_TRUE(function) << diagnostics.render();
    std::vector<std::string> rules;
    for (const Violation& violation : verify(*function)) rules.push_back(violation.rule);
    return rules;
  };
  EXPECT_EQ(checking("%c: bool = check 0 %n below %n mask %t"), std::vector<std::string>{});
  EXPECT_EQ(checking("%c: boolx4 = check 65534 %w below %n"), std::vector<std::string>{});
  EXPECT_EQ(checking("%c: boolx4 = check 0 %n below %n"), std::vector<std::string>{});
  EXPECT_EQ(checking("%c: bool = check 65535 %n below %n"), only("L12"));
  EXPECT_EQ(checking("%c: bool = check -1 %n below %n"), only("L12"));
  EXPECT_EQ(checking("%c: i64 = check 0 %n below %n"), only("L12"));
  EXPECT_EQ(checking("%c: bool = check 0 %m below %n"), only("L12"));
  EXPECT_EQ(checking("%c: bool = check 0 %w below %n"), only("L12"));
  EXPECT_EQ(checking("%c: bool = check 0 %n below %m"), only("L12"));
  EXPECT_EQ(checking("%c: boolx4 = check 0 %w below %n mask %t"), only("L3"));
}

}  // namespace
}  // namespace corrloom::loop
