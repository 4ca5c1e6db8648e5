#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "frontend_testing.h"
#include "ir/tensor/interpret.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"

namespace corrloom::frontend::testing {

/// Loads a text that must be right.
inline Program load_text(const std::string& text, const ImportResolver& imports = {}) {
  Diagnostics diagnostics;
  auto program = Program::load(std::make_shared<const SourceFile>("test.loom", text), imports, diagnostics);
  if (!program) throw std::runtime_error(diagnostics.render());
  return *program;
}

/// The codes and places of a text's errors.
inline std::string errors_of(const std::string& text, const ImportResolver& imports = {}) {
  Diagnostics diagnostics;
  Program::load(std::make_shared<const SourceFile>("test.loom", text), imports, diagnostics);
  return codes_of(diagnostics);
}

inline tensor::Array floats(std::vector<std::int64_t> extents, const std::vector<float>& values) {
  tensor::Array array{DType::F32, std::move(extents), {}};
  for (const float value : values) array.bits.push_back(scalar::Value::f32(value).bits);
  return array;
}

inline tensor::Array integers(DType dtype, std::vector<std::int64_t> extents, const std::vector<std::int64_t>& values) {
  tensor::Array array{dtype, std::move(extents), {}};
  for (const std::int64_t value : values) array.bits.push_back(scalar::Value::integer(dtype, value).bits);
  return array;
}

inline std::vector<double> values_of(const tensor::Array& array) {
  std::vector<double> values;
  for (std::int64_t k = 0; k < array.count(); ++k) values.push_back(array.at(k).as_f64());
  return values;
}

/// One call of an op: what it is given.
struct Call {
  std::map<std::string, tensor::Array> tensors;
  std::map<std::string, scalar::Value> scalars = {};
  std::map<std::string, scalar::Value> attributes = {};
};

/// Lowers, verifies, binds and interprets an op; all of it must succeed.
inline std::vector<tensor::Array> run(const Program& program, const std::string& op, const Call& call) {
  Diagnostics diagnostics;
  const auto graph = program.lower(op, call.attributes, diagnostics);
  if (!graph) throw std::runtime_error(diagnostics.render());
  for (const tensor::Violation& violation : tensor::verify(*graph))
    ADD_FAILURE() << violation.rule << " " << violation.op << ": " << violation.message << "\n"
                  << tensor::print(*graph);
  Arguments arguments;
  arguments.scalars = call.scalars;
  std::vector<tensor::Array> inputs;
  for (const auto& [name, array] : call.tensors) arguments.tensors[name] = {array.dtype, array.extents};
  for (const auto id : graph->inputs) inputs.push_back(call.tensors.at(graph->op(id).name));
  const auto values = bind(*program.find(op), *graph, arguments, diagnostics);
  if (!values) throw std::runtime_error(diagnostics.render());
  return tensor::interpret(*graph, inputs, in_symbol_order(*graph, *values));
}

/// What `bind` says of a call, rendered.
inline std::string entry_errors(const Program& program, const std::string& op, const Call& call) {
  Diagnostics diagnostics;
  const auto graph = program.lower(op, call.attributes, diagnostics);
  if (!graph) return diagnostics.render();
  Arguments arguments;
  arguments.scalars = call.scalars;
  for (const auto& [name, array] : call.tensors) arguments.tensors[name] = {array.dtype, array.extents};
  bind(*program.find(op), *graph, arguments, diagnostics);
  return diagnostics.render();
}

/// The text of an op's graph.
inline std::string graph_text(const std::string& text, const std::string& op,
                              const std::map<std::string, scalar::Value>& attributes = {}) {
  Diagnostics diagnostics;
  const auto graph = load_text(text).lower(op, attributes, diagnostics);
  return graph ? tensor::print(*graph) : diagnostics.render();
}

}  // namespace corrloom::frontend::testing
