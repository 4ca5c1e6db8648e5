#include <fmt/format.h>

#include "compiler/api/op_core.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/common/settings.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/compare.h"
#include "compiler/tools/corrloom/describe.h"
#include "compiler/tools/corrloom/generate.h"
#include "compiler/tools/corrloom/program.h"
#include "ir/tensor/text.h"

namespace corrloom::tools {
namespace {

/// The op's signature, ranges and conditions.
std::string report(const Op& op) {
  std::string text = op.info().text + "\n";
  std::string open;
  for (const AttributeInfo& attribute : op.info().attributes) {
    if (op.core()->attributes().contains(attribute.name)) continue;
    open += (open.empty() ? "" : ", ") + attribute.name;
  }
  if (!open.empty()) return text + "  give the values of " + open + " with --set to see ranges\n";
  return text + describe(*op.core()->graph());
}

/// The graph that the passes left for the op, with every size known.
tensor::Graph optimised_graph(const Compiled& compiled) {
  Diagnostics diagnostics;
  const auto text = std::make_shared<const SourceFile>("tensor text", compiled.text(Stage::Tensor));
  std::optional<tensor::Graph> graph = tensor::parse(text, diagnostics);
  CORRLOOM_CHECK(graph.has_value(), "the tensor text does not parse:\n", diagnostics.render());
  return *std::move(graph);
}

/// What the interpreter gives for a graph, with the call's scalars where the graph still has them.
std::vector<tensor::Array> interpreted(const tensor::Graph& graph, const api::SplitArguments& arguments,
                                       const frontend::SymbolValues& values) {
  std::vector<tensor::Array> inputs;
  for (const Tensor& tensor : arguments.tensors) inputs.push_back(to_array(tensor));
  return tensor::interpret(graph, inputs, frontend::in_symbol_order(graph, values));
}

/// What a comparison found.
struct Comparison {
  bool all_same = true;
  std::string text;
};

/// One line on a result: whether it has the bits of both interpreters. The compiled op must give the bits of the graph
/// that it was made from. The program as written is summed in the order that it is written in, so only exact results
/// can be compared with it bit for bit.
void compare_result(const std::string& name, const tensor::Array& found, const tensor::Array& optimised,
                    const tensor::Array& written, Comparison& out) {
  const std::optional<std::string> fault = difference(found, optimised);
  const std::optional<std::string> rounding = difference(found, written);
  const bool same = !fault && (!rounding || is_float(found.dtype));
  out.all_same = out.all_same && same;
  if (!same) {
    out.text += fmt::format("  {} differs from the interpreter: {}\n", name, fault ? *fault : *rounding);
  } else if (rounding) {
    out.text +=
        fmt::format("  {} has the bits of the interpreter (in strict order, without fma, the last bits differ: {})\n",
                    name, *rounding);
  } else {
    out.text += fmt::format("  {} has the bits of the interpreter, those of strict order too\n", name);
  }
}

/// Runs the op and its interpreters.
Comparison compare(const Op& op, const std::vector<Argument>& arguments, Device device) {
  const api::SplitArguments split = api::split_arguments(op.info(), arguments);
  std::vector<TypeArgument> type_arguments;
  std::vector<TensorType> types;
  for (const Argument& argument : arguments) {
    type_arguments.push_back(argument.is_tensor() ? TypeArgument(argument.tensor().type())
                                                  : TypeArgument(argument.scalar()));
    if (argument.is_tensor()) types.push_back(argument.tensor().type());
  }
  const std::vector<std::optional<scalar::Value>> scalars(split.scalars.begin(), split.scalars.end());
  const frontend::SymbolValues values = op.core()->bind(types, scalars);
  const Compiled compiled = op.compile(type_arguments, device);
  // Before the op runs: it may write into the storage of an input.
  const std::vector<tensor::Array> written = interpreted(*op.core()->graph(), split, values);
  const std::vector<tensor::Array> optimised = interpreted(optimised_graph(compiled), split, values);
  const std::vector<Tensor> results = compiled.call(arguments);
  Comparison out;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const std::string name = op.info().results[k].name + ": " + results[k].type().to_string() + " on " + device.name();
    compare_result(name, to_array(results[k]), optimised[k], written[k], out);
  }
  return out;
}

/// Comparisons on arguments that are made up; a read that leaves its tensor makes them unsuitable.
Comparison compare_on_generated(const Op& op, Device device) {
  constexpr std::uint64_t kSeeds = 20;
  constexpr int kWanted = 3;
  Comparison out;
  int done = 0;
  for (std::uint64_t seed = 0; seed < kSeeds && done < kWanted; ++seed) {
    const std::optional<std::vector<Argument>> made = generate_arguments(op, seed);
    if (!made) break;
    std::vector<Argument> arguments;
    for (const Argument& argument : *made) {
      arguments.push_back(argument.is_tensor() ? Argument(argument.tensor().to(device)) : argument);
    }
    try {
      const Comparison one = compare(op, arguments, device);
      out.all_same = out.all_same && one.all_same;
      out.text += one.text;
      ++done;
    } catch (const InputError&) {
    }
  }
  if (done == 0) out.text += "  no small arguments were found that suit; give values to compare with the interpreter\n";
  return out;
}

ExitCode answer(const std::string& text, bool all_same) {
  write_result(text);
  return all_same ? ExitCode::Done : ExitCode::InternalError;
}

/// Every op of the file, or the one that is named and its comparisons.
ExitCode check_without_values(const Options& options) {
  const ProgramName name = split_program(options.program);
  if (!name.op.empty()) {
    const Op op = find_op(options);
    const Comparison comparison = compare_on_generated(op, find_device(options));
    return answer(report(op) + comparison.text, comparison.all_same);
  }
  const Library library = Library::load(name.file);
  std::string text;
  for (const std::string& op : library.op_names()) text += report(library[op]);
  return answer(text, true);
}

}  // namespace

ExitCode check_command(const Options& options) {
  if (options.threads > 0) set_thread_count(options.threads);
  if (options.settings.empty()) return check_without_values(options);
  const Device device = find_device(options);
  const Op op = find_op(options);
  const Comparison comparison = compare(op, make_arguments(op.info(), options, device), device);
  return answer(op.name() + "\n" + comparison.text, comparison.all_same);
}

}  // namespace corrloom::tools
