#include "compiler/driver/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "compiler/codegen/host_target.h"
#include "compiler/codegen/loader.h"
#include "ir/tensor/interpret.h"
#include "ir/tensor/text.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::driver {
namespace {

using kernel::Argument;
using kernel::Buffer;
using kernel::CompiledProgram;
using tensor::Array;

bool is_nan(const scalar::Value& value) {
  return is_float(value.dtype) && value.as_f64() != value.as_f64();
}

std::vector<std::byte> to_bytes(const Array& array) {
  const std::size_t each = static_cast<std::size_t>(byte_size(array.dtype));
  std::vector<std::byte> bytes(array.bits.size() * each);
  for (std::size_t k = 0; k < array.bits.size(); ++k) std::memcpy(bytes.data() + k * each, &array.bits[k], each);
  return bytes;
}

/// Runs a host program the plain way: one array of bytes a buffer, kernels in order.
std::vector<std::vector<std::byte>> run_host(const CompiledProgram& program, const std::vector<Array>& inputs) {
  std::vector<std::vector<std::byte>> memory;
  std::size_t next_input = 0;
  for (const Buffer& buffer : program.buffers) {
    std::int64_t count = 1;
    for (const kernel::SizeExpr& extent : buffer.extents) count *= *extent.as_constant();
    memory.push_back(buffer.role == Buffer::Role::Input ? to_bytes(inputs[next_input++]) : buffer.contents);
    memory.back().resize(static_cast<std::size_t>(count * byte_size(buffer.dtype)), std::byte{0xA5});
  }
  const codegen::LoadedObject object(program.code);
  for (const kernel::Kernel& kernel : program.kernels) {
    std::vector<void*> args;
    for (const Argument& argument : kernel.arguments)
      args.push_back(memory[static_cast<std::size_t>(argument.index)].data());
    object.entry(kernel.name)(args.data(), 0, *kernel.blocks.as_constant());
  }
  std::vector<std::vector<std::byte>> out;
  for (std::size_t k = 0; k < program.buffers.size(); ++k) {
    if (program.buffers[k].role == Buffer::Role::Output) out.push_back(memory[k]);
  }
  return out;
}

void expect_bytes(const Array& want, const std::vector<std::byte>& got, const std::string& what) {
  const std::size_t each = static_cast<std::size_t>(byte_size(want.dtype));
  ASSERT_EQ(want.bits.size() * each, got.size()) << what;
  for (std::size_t k = 0; k < want.bits.size(); ++k) {
    scalar::Value value{want.dtype, 0};
    std::memcpy(&value.bits, got.data() + k * each, each);
    const scalar::Value wanted = want.at(static_cast<std::int64_t>(k));
    ASSERT_TRUE(value == wanted || (is_nan(value) && is_nan(wanted)))
        << what << " element " << k << ": want " << to_text(wanted) << ", got " << to_text(value);
  }
}

std::optional<tensor::Graph> parse(const std::string& text) {
  Diagnostics diagnostics;
  auto graph = tensor::parse(std::make_shared<const SourceFile>("graph.tir", text), diagnostics);
  EXPECT_TRUE(graph) << diagnostics.render() << text;
  return graph;
}

const kernel::Target& host() {
  static const kernel::Target target = codegen::host_target();
  return target;
}

// The final graph defines the bits (contraction and orders are stated in it); the host must give them.
TEST(Compile, HostGivesTheBitsOfTheInterpreter) {
  const char* given = std::getenv("CORRLOOM_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = given != nullptr ? 1 : 60;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("CORRLOOM_SEED=" + std::to_string(seed));
    testing::RandomGraphOptions options;
    options.max_extent = seed % 2 == 0 ? 5 : 40;
    options.ops = seed % 2 == 0 ? 6 : 2;
    options.max_rank = seed % 2 == 0 ? 3 : 2;
    const testing::RandomCase random = testing::random_case(seed, options);
    Diagnostics diagnostics;
    CompileOptions compile_options;
    compile_options.target = host();
    const std::optional<Compiled> compiled = compile(random.graph, compile_options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render() << tensor::print(random.graph);
    const std::optional<tensor::Graph> last = parse(compiled->tensor_text);
    ASSERT_TRUE(last);
    const std::vector<Array> want = tensor::interpret(*last, random.inputs, random.symbols);
    const auto got = run_host(*compiled->program, random.inputs);
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t k = 0; k < want.size(); ++k)
      expect_bytes(want[k], got[k], last->outputs[k].name + "\n" + compiled->tensor_text + compiled->schedule_text);
    if (HasFatalFailure()) return;
  }
}

TEST(Compile, PtxIsMadeForEveryArchitecture) {
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", "sm_121a"}) {
    const testing::RandomCase random = testing::random_case(7);
    Diagnostics diagnostics;
    CompileOptions options;
    options.target = *kernel::ptx_target(arch);
    const std::optional<Compiled> compiled = compile(random.graph, options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render();
    EXPECT_NE(compiled->program->code.find(".target " + std::string(arch)), std::string::npos);
    EXPECT_NE(compiled->program->code.find(".visible .entry " + compiled->program->kernels[0].name), std::string::npos);
  }
}

constexpr const char* kLoopForm = R"(
graph @loops(%X: f32[3, 12, 10], %K: f32[2, 3, 1, 1]) -> (%Y) {
  %Y: f32[2, 12, 10] = compute [o: 2, i: 12, j: 10] reduce [c: 3, p: 1, q: 1] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%X[c, add(i, p), add(j, q)], %K[o, c, p, q])) merge add(%s, %s.other)
    yield %s
  }
}
)";
constexpr const char* kMatmulForm = R"(
graph @loops(%X: f32[3, 12, 10], %K: f32[2, 3, 1, 1]) -> (%Y) {
  %A: f32[2, 3] = reshape %K
  %B: f32[3, 120] = reshape %X
  %C: f32[2, 120] = compute [i: 2, j: 120] reduce [k: 3] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%A[i, k], %B[k, j])) merge add(%s, %s.other)
    yield %s
  }
  %Y: f32[2, 12, 10] = reshape %C
}
)";

TEST(Compile, BothFormsOfThePointwiseConvolutionAreOneKernel) {
  std::vector<std::string> loops, schedules;
  for (const char* text : {kLoopForm, kMatmulForm}) {
    Diagnostics diagnostics;
    CompileOptions options;
    options.target = host();
    const std::optional<Compiled> compiled = compile(*parse(text), options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render();
    EXPECT_EQ(compiled->program->kernels.size(), 1u) << compiled->tensor_text;
    schedules.push_back(compiled->schedule_text);
    loops.push_back(compiled->tensor_text);
  }
  EXPECT_EQ(loops[0], loops[1]);
  EXPECT_EQ(schedules[0], schedules[1]);
}

}  // namespace
}  // namespace corrloom::driver
