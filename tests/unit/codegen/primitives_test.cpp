#include "tests/unit/codegen/primitives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/codegen/host_target.h"
#include "compiler/codegen/loader.h"
#include "ir/scalar/evaluate.h"
#include "ir/scalar/expand.h"

namespace corrloom::testing {
namespace {

using scalar::Opcode;
using scalar::Value;

class Primitives : public ::testing::TestWithParam<kernel::Target> {};

/// Compares the lowered primitive with its definition on every combination of edge values.
void check(const Primitive& primitive, const loop::Function& function, codegen::HostEntry entry,
           const std::vector<std::vector<Value>>& operands) {
  const auto count = static_cast<std::int64_t>(operands[0].size());
  std::vector<tensor::Array> arrays;
  for (std::size_t k = 0; k < operands.size(); ++k) arrays.push_back(array_of(primitive.operands[k], operands[k]));
  arrays.push_back(array_of(primitive.result, std::vector<Value>(operands[0].size(), {primitive.result, 0})));
  run_entry(entry, function, arrays, {}, count / primitive.lanes);
  int failures = 0;
  for (std::size_t k = 0; k < operands[0].size() && failures < 4; ++k) {
    std::vector<Value> args;
    std::string text;
    for (const auto& operand : operands) args.push_back(operand[k]), text += " " + to_text(operand[k]);
    const Value wanted = scalar::evaluate(primitive.opcode, args, primitive.result);
    const Value found{primitive.result, arrays.back().bits[k]};
    if (same_bits(wanted, found)) continue;
    ++failures;
    ADD_FAILURE() << function.name << text << " gives " << to_text(found) << ", wanted " << to_text(wanted);
  }
}

TEST_P(Primitives, HaveTheBitsOfTheirDefinition) {
  const bool is_host = GetParam().name == "host";
  const std::vector<int> lanes = is_host ? std::vector<int>{1, 4, 8, 16} : std::vector<int>{1, 8};
  for (const std::vector<Primitive>& group : lowerable_primitives(lanes)) {
    std::vector<loop::Function> functions;
    std::vector<std::vector<std::vector<Value>>> operands;
    for (const Primitive& primitive : group) {
      operands.push_back(edge_combinations(primitive));
      functions.push_back(elementwise(primitive.opcode, primitive.operands, primitive.result, primitive.lanes,
                                      static_cast<std::int64_t>(operands.back()[0].size())));
    }
    std::vector<codegen::KernelSource> sources;
    for (const loop::Function& function : functions) sources.push_back(source_of(function));
    const codegen::LoadedObject object(emit_or_fail(sources, GetParam()).bytes);
    for (std::size_t k = 0; k < group.size(); ++k) {
      check(group[k], functions[k], object.entry(sources[k].entry), operands[k]);
    }
  }
}

/// y[c, k] = opcode(x[k], constants[c]), or with its operands the other way round.
loop::Function with_constants(Opcode opcode, DType dtype, DType result, const std::vector<Value>& constants,
                              std::int64_t count, bool is_first, int lanes) {
  FunctionWriter writer(std::string(scalar::info(opcode).text) + "." + std::string(name_of(dtype)) +
                        (is_first ? ".first" : ".second"));
  const loop::BufferId input = writer.buffer("x", dtype, count, false);
  const loop::BufferId output = writer.buffer("y", result, count * static_cast<std::int64_t>(constants.size()), true);
  const loop::ValueId width = writer.index(lanes);
  const loop::ValueId offset = writer.apply(Opcode::Mul, {writer.open_blocks(count / lanes), width}, DType::I64);
  const loop::ValueId x = writer.load(input, writer.ramp(offset, 1, lanes));
  std::int64_t row = 0;
  for (const Value& value : constants) {
    const loop::ValueId c = writer.constant(value, lanes);
    const loop::ValueId y = writer.apply(opcode, is_first ? std::vector{c, x} : std::vector{x, c}, result);
    const loop::ValueId place = writer.apply(Opcode::Add, {offset, writer.index(row)}, DType::I64);
    writer.store(output, writer.ramp(place, 1, lanes), y);
    row += count;
  }
  return writer.finish();
}

void check_with_constants(const kernel::Target& target, Opcode opcode, DType dtype, bool is_first) {
  constexpr int kLanes = 8;
  const DType result = opcode == Opcode::Lt ? DType::Bool : dtype;
  const std::vector<Value> constants = edge_values(dtype);
  std::vector<Value> variable = constants;
  while (variable.size() % kLanes != 0) variable.push_back(variable.front());
  const auto count = static_cast<std::int64_t>(variable.size());
  const loop::Function function = with_constants(opcode, dtype, result, constants, count, is_first, kLanes);
  std::vector<Value> results(variable.size() * constants.size(), Value{result, 0});
  std::vector<tensor::Array> arrays{array_of(dtype, variable), array_of(result, results)};
  run_on(target, function, arrays, {}, count / kLanes);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Value& constant = constants[k / variable.size()];
    const Value& x = variable[k % variable.size()];
    const Value args[2] = {is_first ? constant : x, is_first ? x : constant};
    const Value wanted = scalar::evaluate(opcode, args, result);
    const Value found{result, arrays[1].bits[k]};
    EXPECT_TRUE(same_bits(wanted, found)) << function.name << " " << to_text(args[0]) << " " << to_text(args[1])
                                          << " gives " << to_text(found) << ", wanted " << to_text(wanted);
  }
}

/// A constant operand may take a cheaper way, so each edge value is one once.
TEST_P(Primitives, HaveTheSameBitsWithAConstantOperand) {
  for (Opcode opcode : {Opcode::FloorDiv, Opcode::Mod, Opcode::Shl, Opcode::Shr, Opcode::Min, Opcode::Max, Opcode::Fmin,
                        Opcode::Fmax, Opcode::Mul, Opcode::Lt}) {
    for (DType dtype : kAllDTypes) {
      const bool is_taken = scalar::takes(scalar::info(opcode).operands, dtype);
      if (!is_taken || is_narrow_float(dtype) || dtype == DType::Bool) continue;
      check_with_constants(GetParam(), opcode, dtype, /*is_first=*/true);
      check_with_constants(GetParam(), opcode, dtype, /*is_first=*/false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Primitives, ::testing::ValuesIn(host_targets()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace corrloom::testing
