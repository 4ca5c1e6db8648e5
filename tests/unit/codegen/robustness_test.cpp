#include <gtest/gtest.h>

#include <thread>

#include "compiler/codegen/host_target.h"
#include "compiler/codegen/llvm_session.h"
#include "compiler/codegen/loader.h"
#include "ir/base/errors.h"
#include "tests/unit/codegen/kernels.h"

namespace corrloom::testing {
namespace {

using scalar::Opcode;
using scalar::Value;

loop::Function doubled(int lanes) {
  return elementwise(Opcode::Add, {DType::F32, DType::F32}, DType::F32, lanes, 32);
}

void expect_doubling_works() {
  const loop::Function function = doubled(8);
  std::vector<Value> ones(32, Value::f32(1.5f));
  std::vector<tensor::Array> arrays(3, array_of(DType::F32, ones));
  run_on(codegen::host_target(), function, arrays, {}, 4);
  EXPECT_EQ(arrays[2].at(31), Value::f32(3));
}

/// The message of the InternalError that compiling and loading for the target ends in.
std::string failure_on(const kernel::Target& target) {
  const loop::Function function = elementwise(Opcode::Sqrt, {DType::F64}, DType::F64, 1, 32);
  Diagnostics diagnostics;
  try {
    const auto code = codegen::emit(std::vector{source_of(function)}, target, {}, diagnostics);
    const codegen::LoadedObject object(code.value().bytes);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

#if defined(__x86_64__)
/// LLVM finds out in the middle of its pipeline, and leaves through its fatal-error handler.
TEST(Robustness, TurnsAFatalErrorOfACompilationIntoOurs) {
  kernel::Target target = codegen::host_target();
  target.cpu = "i686";
  target.features = "";
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_NE(failure_on(target).find("64-bit code requested"), std::string::npos) << failure_on(target);
    expect_doubling_works();
  }
}

/// A processor without floats calls a routine that is not offered: the loader says so.
TEST(Robustness, NamesARoutineThatIsMissing) {
  kernel::Target target = codegen::host_target();
  target.cpu = "x86-64";
  target.features = "-sse2,-sse,-x87,+soft-float";
  EXPECT_NE(failure_on(target).find("sqrt"), std::string::npos) << failure_on(target);
  expect_doubling_works();
}
#endif

TEST(Robustness, SurvivesAFatalErrorOfLlvm) {
  const loop::Function function = elementwise(Opcode::Add, {DType::F32, DType::F32}, DType::F32, 4, 32);
  kernel::Target target = kernel::ptx_target("sm_80").value();
  codegen::KernelSource source = source_of(function);
  for (int attempt = 0; attempt < 3; ++attempt) {
    Diagnostics diagnostics;
    const auto message = codegen::run_guarded([] { codegen::fail_inside_llvm("on purpose"); });
    ASSERT_TRUE(message);
    EXPECT_NE(message->find("on purpose"), std::string::npos);
    EXPECT_TRUE(codegen::emit(std::vector{source}, target, {}, diagnostics));
    expect_doubling_works();
  }
}

TEST(Robustness, PassesOurOwnExceptionsOn) {
  EXPECT_THROW((void)codegen::run_guarded([] { throw InternalError("ours"); }), InternalError);
}

TEST(Robustness, RefusesAFunctionThatWasNotExpanded) {
  FunctionWriter writer("exp");
  const auto x = writer.buffer("x", DType::F32, 1, false);
  const auto y = writer.buffer("y", DType::F32, 1, true);
  const auto zero = writer.index(0);
  writer.store(y, zero, writer.apply(Opcode::Exp, {writer.load(x, zero)}, DType::F32));
  const loop::Function function = writer.finish();
  Diagnostics diagnostics;
  EXPECT_THROW(codegen::emit(std::vector{source_of(function)}, codegen::host_target(), {}, diagnostics), InternalError);
}

TEST(Robustness, RefusesArgumentsThatDoNotFit) {
  const loop::Function function = doubled(8);
  codegen::KernelSource source = source_of(function);
  source.arguments.pop_back();
  Diagnostics diagnostics;
  EXPECT_THROW(codegen::emit(std::vector{source}, codegen::host_target(), {}, diagnostics), InternalError);
  source = source_of(function);
  source.arguments.push_back({kernel::Argument::Kind::Scalar, 7});
  EXPECT_THROW(codegen::emit(std::vector{source}, codegen::host_target(), {}, diagnostics), InternalError);
}

TEST(Robustness, RefusesAnEntryThatIsNoWordOrStandsTwice) {
  const loop::Function function = doubled(8);
  codegen::KernelSource source = source_of(function);
  Diagnostics diagnostics;
  EXPECT_THROW(codegen::emit(std::vector{source, source}, codegen::host_target(), {}, diagnostics), InternalError);
  source.entry = "a.b";
  EXPECT_THROW(codegen::emit(std::vector{source}, codegen::host_target(), {}, diagnostics), InternalError);
  EXPECT_EQ(codegen::symbol_name("a.b-3 ü"), "loom_a_b_3___");
}

TEST(Robustness, RefusesATargetThatItDoesNotKnow) {
  const loop::Function function = doubled(8);
  kernel::Target target = kernel::ptx_target("sm_80").value();
  target.name = target.cpu = "sm_10";
  Diagnostics diagnostics;
  EXPECT_THROW(codegen::emit(std::vector{source_of(function)}, target, {}, diagnostics), InternalError);
}

TEST(Robustness, RefusesBytesThatAreNoObject) {
  EXPECT_THROW(codegen::LoadedObject("not an object"), InternalError);
  EXPECT_THROW(codegen::LoadedObject(""), InternalError);
  const loop::Function function = doubled(8);
  const std::string bytes = emit_or_fail({source_of(function)}, codegen::host_target()).bytes;
  EXPECT_THROW(codegen::LoadedObject(bytes.substr(0, bytes.size() / 2)), InternalError);
  EXPECT_EQ(codegen::LoadedObject(bytes).find("loom_nothing"), nullptr);
}

TEST(Robustness, MakesTheSameBytesEachTime) {
  const loop::Function function = doubled(16);
  const auto bytes = emit_or_fail({source_of(function)}, codegen::host_target()).bytes;
  EXPECT_EQ(emit_or_fail({source_of(function)}, codegen::host_target()).bytes, bytes);
}

TEST(Robustness, KeepsCodeWhileItsObjectMoves) {
  const loop::Function function = doubled(1);
  const codegen::KernelSource source = source_of(function);
  codegen::LoadedObject first(emit_or_fail({source}, codegen::host_target()).bytes);
  const codegen::HostEntry entry = first.entry(source.entry);
  const codegen::LoadedObject second = std::move(first);
  EXPECT_EQ(second.entry(source.entry), entry);
  float x[32] = {1}, y[32] = {2}, z[32] = {};
  void* args[] = {x, y, z};
  entry(args, 0, 32);
  EXPECT_EQ(z[0], 3.0f);
}

TEST(Robustness, CompilesOnManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([thread] {
      for (int round = 0; round < 3; ++round) {
        if ((thread + round) % 2 == 0) {
          expect_doubling_works();
        } else {
          const loop::Function function = doubled(4);
          EXPECT_NE(emit_or_fail({source_of(function)}, kernel::ptx_target("sm_90").value()).bytes, "");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Options, GiveTheTextsThatAreAskedFor) {
  const loop::Function function = doubled(8);
  const auto plain = emit_or_fail({source_of(function)}, codegen::host_target());
  EXPECT_EQ(plain.llvm_ir + plain.assembly, "");
  EXPECT_EQ(plain.ptx_version, 0);
  const auto full = emit_or_fail({source_of(function)}, codegen::host_target(), {true, true});
  EXPECT_EQ(full.bytes, plain.bytes);
  EXPECT_NE(full.llvm_ir.find("define void @loom_add"), std::string::npos);
  EXPECT_NE(full.assembly.find("loom_add"), std::string::npos);
  const auto ptx = emit_or_fail({source_of(function)}, kernel::ptx_target("sm_80").value(), {false, true});
  EXPECT_EQ(ptx.assembly, ptx.bytes);
  EXPECT_EQ(ptx.ptx_version, 70);
}

TEST(HostTarget, KnowsItsProcessor) {
  const kernel::Target target = codegen::host_target();
  EXPECT_NE(target.cpu, "");
  EXPECT_NE(target.features, "");
  EXPECT_GE(target.l2_bytes, target.l1_bytes);
  EXPECT_EQ(target, codegen::host_target());
}

}  // namespace
}  // namespace corrloom::testing
