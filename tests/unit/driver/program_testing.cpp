#include "tests/unit/driver/program_testing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "ir/base/errors.h"
#include "ir/tensor/text.h"

namespace corrloom::testing {

using kernel::Buffer;
using tensor::Array;

namespace {

bool is_nan(const scalar::Value& value) {
  return is_float(value.dtype) && value.as_f64() != value.as_f64();
}

}  // namespace

std::vector<std::byte> to_bytes(const Array& array) {
  const std::size_t each = static_cast<std::size_t>(byte_size(array.dtype));
  std::vector<std::byte> bytes(array.bits.size() * each);
  for (std::size_t k = 0; k < array.bits.size(); ++k) std::memcpy(bytes.data() + k * each, &array.bits[k], each);
  return bytes;
}

std::vector<std::vector<std::byte>> memory_of(const kernel::CompiledProgram& program,
                                              const std::vector<Array>& inputs) {
  std::vector<std::vector<std::byte>> memory;
  std::size_t next_input = 0;
  for (const Buffer& buffer : program.buffers) {
    std::int64_t count = 1;
    for (const kernel::SizeExpr& extent : buffer.extents) count *= extent.as_constant().value();
    memory.push_back(buffer.role == Buffer::Role::Input ? to_bytes(inputs[next_input++]) : buffer.contents);
    memory.back().resize(static_cast<std::size_t>(count * byte_size(buffer.dtype)), std::byte{0xA5});
  }
  return memory;
}

std::vector<std::vector<std::byte>> outputs_of(const kernel::CompiledProgram& program,
                                               std::vector<std::vector<std::byte>> memory) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t k = 0; k < program.buffers.size(); ++k) {
    if (program.buffers[k].role == Buffer::Role::Output) out.push_back(std::move(memory[k]));
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

tensor::Graph parsed_graph(const std::string& text) {
  Diagnostics diagnostics;
  auto graph = tensor::parse(std::make_shared<const SourceFile>("graph.tir", text), diagnostics);
  if (!graph) throw std::runtime_error(diagnostics.render() + text);
  return *std::move(graph);
}

tensor::Graph parsed_graph_without_places(const std::string& text) {
  tensor::Graph graph = parsed_graph(text);
  for (tensor::Op& op : graph.ops) {
    tensor::rewrite_exprs(op, [](const scalar::Expr& expr) {
      return scalar::rewrite(expr, [](const scalar::Expr& node) -> scalar::Expr {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr) return nullptr;
        scalar::Read nowhere = *read;
        nowhere.span = {};
        return scalar::read(std::move(nowhere), node->dtype);
      });
    });
  }
  return graph;
}

namespace {

std::string message_of(const kernel::CompiledProgram& program, std::uint64_t word) {
  if (word == kernel::kNoFault) return "";
  std::string message = program.check_sites.at(static_cast<std::size_t>(kernel::fault_site(word))).message;
  const std::string mark = "{value}";
  const std::size_t place = message.find(mark);
  // The interpreter knows values that the word has no room for.
  if (kernel::fault_value_text(word).find(' ') != std::string::npos) return message.substr(0, place);
  return message.replace(place, mark.size(), kernel::fault_value_text(word));
}

}  // namespace

void expect_meaning(const tensor::Graph& final_graph, const kernel::CompiledProgram& program,
                    const std::vector<Array>& inputs, const std::vector<scalar::Value>& symbols, const ProgramRun& run,
                    const std::string& what) {
  const std::string fault = message_of(program, run.error_word);
  std::vector<Array> want;
  try {
    want = tensor::interpret(final_graph, inputs, symbols);
  } catch (const InputError& error) {
    // The interpreter adds where it met the fault.
    ASSERT_EQ(std::string(error.what()).substr(0, fault.size()), fault) << what;
    ASSERT_FALSE(fault.empty()) << error.what() << what;
    return;
  }
  ASSERT_EQ(fault, "") << what;
  ASSERT_EQ(want.size(), run.outputs.size()) << what;
  for (std::size_t k = 0; k < want.size(); ++k)
    expect_bytes(want[k], run.outputs[k], final_graph.outputs[k].name + "\n" + what);
}

}  // namespace corrloom::testing
