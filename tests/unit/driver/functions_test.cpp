// Every function of the language on every float dtype: the host and PTX on the simulated GPU give the interpreter's
// bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "compiler/codegen/host_target.h"
#include "compiler/driver/compile.h"
#include "tests/unit/driver/program_runners.h"
#include "tests/unit/driver/program_testing.h"

namespace corrloom::driver {
namespace {

using scalar::OpcodeInfo;
using scalar::Value;
using tensor::Array;

constexpr std::int64_t kPoints = 2048;

/// Values that expansions treat differently: zeros, denormals, extremes, NaN, ends of ranges; then bits at random and
/// numbers of ordinary size.
Value point(DType dtype, std::mt19937_64& random, std::size_t index) {
  static const double kSpecial[] = {0.0,
                                    -0.0,
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(),
                                    std::nan(""),
                                    1,
                                    -1,
                                    2,
                                    -3,
                                    0.5,
                                    1e-40,
                                    -1e-40,
                                    5e-324,
                                    1.1754943e-38,
                                    3.4028235e38,
                                    -3.4028235e38,
                                    1.7976931348623157e308,
                                    88.7,
                                    -104,
                                    709.7,
                                    -745.1,
                                    0.7071067811865475,
                                    1.4142135623730951,
                                    0.7853981633974483,
                                    6.283185307179586,
                                    16777216,
                                    9007199254740993.0};
  if (index < std::size(kSpecial)) return Value::floating(dtype, kSpecial[index]);
  if (index % 3 == 0) return {dtype, random() >> (64 - bit_width(dtype))};
  const double size = index % 3 == 1 ? 1 : 30;
  return Value::floating(dtype, std::uniform_real_distribution<double>(-size, size)(random));
}

/// Operand number `which` of all points: the special values meet each other.
Array operand(DType dtype, std::size_t which) {
  std::mt19937_64 random(31 + which);
  Array array{dtype, {kPoints}, std::vector<std::uint64_t>(kPoints)};
  for (std::size_t k = 0; k < static_cast<std::size_t>(kPoints); ++k) {
    // Pairs of special values: 27 of one for each of the other.
    const std::size_t at = k < 729 ? (which == 0 ? k % 27 : k / 27) : k;
    array.bits[k] = point(dtype, random, at).bits;
  }
  return array;
}

/// One result: the function of as many inputs as it has operands.
std::string program_text(const OpcodeInfo& row, DType dtype) {
  const std::string type(name_of(dtype));
  std::string parameters, operands;
  for (int k = 0; k < row.arity; ++k) {
    const std::string name = "%x" + std::to_string(k), comma = k == 0 ? "" : ", ";
    parameters += comma + name + ": " + type + "[" + std::to_string(kPoints) + "]";
    operands += comma + name + "[i]";
  }
  const std::string size = "[" + std::to_string(kPoints) + "]", range = "[i: " + std::to_string(kPoints) + "]";
  return "graph @f(" + parameters + ") -> (%y) {\n  %y: " + type + size + " = compute " + range + " {\n    yield " +
         std::string(row.text) + "(" + operands + ")\n  }\n}\n";
}

class Functions : public ::testing::TestWithParam<OpcodeInfo> {};

TEST_P(Functions, HaveTheSameBitsOnEveryTarget) {
  const OpcodeInfo& row = GetParam();
  for (const DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const std::string text = program_text(row, dtype);
    SCOPED_TRACE(text);
    const tensor::Graph graph = testing::parsed_graph(text);
    std::vector<Array> inputs;
    for (int k = 0; k < row.arity; ++k) inputs.push_back(operand(dtype, static_cast<std::size_t>(k)));
    const std::vector<Array> want = tensor::interpret(graph, inputs, {});
    for (const bool on_host : {true, false}) {
      Diagnostics diagnostics;
      CompileOptions options;
      options.target = on_host ? codegen::host_target() : *kernel::ptx_target("sm_80");
      const std::optional<Compiled> compiled = compile(graph, options, diagnostics);
      ASSERT_TRUE(compiled) << diagnostics.render();
      const auto got =
          on_host ? testing::run_host(*compiled->program, inputs) : testing::run_simulated(*compiled->program, inputs);
      ASSERT_EQ(got.outputs.size(), 1u);
      testing::expect_bytes(want[0], got.outputs[0], on_host ? "host" : "ptx");
    }
  }
}

std::vector<OpcodeInfo> functions_of_floats() {
  std::vector<OpcodeInfo> rows;
  for (const OpcodeInfo& row : scalar::all_opcodes()) {
    const bool gives_float = row.result == scalar::Result::Same && row.opcode != scalar::Opcode::Select;
    if (row.callable && gives_float && scalar::takes(row.operands, DType::F32)) rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(All, Functions, ::testing::ValuesIn(functions_of_floats()),
                         [](const auto& param) { return std::string(param.param.text); });

/// The result of the one-input program on PTX, and the PTX itself.
struct PtxRun {
  std::vector<std::byte> bytes;
  std::string code;
};

PtxRun run_ptx(const tensor::Graph& graph, const std::vector<Array>& inputs) {
  Diagnostics diagnostics;
  CompileOptions options;
  options.target = *kernel::ptx_target("sm_80");
  const std::optional<Compiled> compiled = compile(graph, options, diagnostics);
  EXPECT_TRUE(compiled) << diagnostics.render();
  if (!compiled) return {};
  return {testing::run_simulated(*compiled->program, inputs).outputs[0], compiled->program->code};
}

/// A function that `with math = fast` approximates on a GPU, by an instruction; the bound is on the error relative to 1
/// or the result, whichever is larger.
struct Approximation {
  std::string_view name, instruction;
};

TEST(FastMath, UsesTheInstructionsOfAGpu) {
  const Approximation rows[] = {{"exp", "ex2.approx.f32"},   {"exp2", "ex2.approx.f32"},
                                {"log", "lg2.approx.f32"},   {"log2", "lg2.approx.f32"},
                                {"sin", "sin.approx.f32"},   {"cos", "cos.approx.f32"},
                                {"tan", "cos.approx.f32"},   {"rsqrt", "rsqrt.approx.f32"},
                                {"tanh", "tanh.approx.f32"}, {"sigmoid", "ex2.approx.f32"}};
  for (const Approximation& row : rows) {
    for (const DType dtype : {DType::F16, DType::F32}) {
      const OpcodeInfo& function = scalar::info(scalar::parse_opcode(row.name).value());
      const tensor::Graph exact = testing::parsed_graph(program_text(function, dtype));
      tensor::Graph fast = exact;
      for (tensor::Op& op : fast.ops) {
        if (auto* compute = std::get_if<tensor::Compute>(&op.kind)) compute->numerics.fast_math = true;
      }
      Array x{dtype, {kPoints}, std::vector<std::uint64_t>(kPoints)};
      for (std::size_t k = 0; k < x.bits.size(); ++k) {
        x.bits[k] = Value::floating(dtype, 1e-3 + 1.4 * static_cast<double>(k) / kPoints).bits;
      }
      const std::vector<Array> want = tensor::interpret(exact, {x}, {});
      const PtxRun run = run_ptx(fast, {x});
      EXPECT_NE(run.code.find(row.instruction), std::string::npos) << row.name << run.code;
      EXPECT_EQ(run_ptx(exact, {x}).code.find(".approx"), std::string::npos) << row.name;
      const auto each = static_cast<std::size_t>(byte_size(dtype));
      ASSERT_EQ(run.bytes.size(), want[0].bits.size() * each);
      const double bound = dtype == DType::F16 ? 0x1p-9 : 0x1p-10;
      for (std::size_t k = 0; k < want[0].bits.size(); ++k) {
        Value got{dtype, 0};
        std::memcpy(&got.bits, run.bytes.data() + k * each, each);
        const double wanted = want[0].at(static_cast<std::int64_t>(k)).as_f64();
        ASSERT_NEAR(got.as_f64(), wanted, bound * std::max(1.0, std::abs(wanted)))
            << row.name << " of " << x.at(static_cast<std::int64_t>(k)).as_f64();
      }
    }
  }
}

TEST(FastMath, IsAccurateOnTheHost) {
  tensor::Graph graph = testing::parsed_graph(program_text(scalar::info(scalar::Opcode::Tanh), DType::F32));
  for (tensor::Op& op : graph.ops) {
    if (auto* compute = std::get_if<tensor::Compute>(&op.kind)) compute->numerics.fast_math = true;
  }
  const std::vector<Array> inputs = {operand(DType::F32, 0)};
  Diagnostics diagnostics;
  CompileOptions options;
  options.target = codegen::host_target();
  const std::optional<Compiled> compiled = compile(graph, options, diagnostics);
  ASSERT_TRUE(compiled) << diagnostics.render();
  testing::expect_bytes(tensor::interpret(graph, inputs, {})[0],
                        testing::run_host(*compiled->program, inputs).outputs[0], "tanh");
}

}  // namespace
}  // namespace corrloom::driver
