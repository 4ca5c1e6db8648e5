#include <fmt/format.h>

#include "compiler/api/op_core.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/common/settings.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/compare.h"
#include "compiler/tools/corrloom/describe.h"
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
tensor::Graph optimised(const Compiled& compiled) {
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

/// Runs the op and its interpreters. The compiled op must give the bits of the graph that it was made from; the program
/// as written is summed in the order that it is written in, so only exact results can be compared with it bit for bit.
ExitCode compare(const Op& op, const Options& options) {
  const Device device = find_device(options);
  const std::vector<Argument> arguments = make_arguments(op.info(), options, device);
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
  const std::vector<Tensor> results = compiled.call(arguments);
  const std::vector<tensor::Array> written = interpreted(*op.core()->graph(), split, values);
  const std::vector<tensor::Array> wanted = interpreted(optimised(compiled), split, values);

  bool all_same = true;
  std::string text;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const tensor::Array found = to_array(results[k]);
    const std::string name = op.info().results[k].name + ": " + results[k].type().to_string();
    const std::optional<std::string> fault = difference(found, wanted[k]);
    const std::optional<std::string> rounding = difference(found, written[k]);
    const bool same = !fault && (!rounding || is_float(found.dtype));
    all_same = all_same && same;
    if (!same)
      text +=
          fmt::format("{} on {} differs from the interpreter: {}\n", name, device.name(), fault ? *fault : *rounding);
    else if (rounding)
      text += fmt::format("{} on {} has the bits of the interpreter; in the order as written, {}\n", name,
                          device.name(), *rounding);
    else
      text +=
          fmt::format("{} on {} has the bits of the interpreter, in the order as written too\n", name, device.name());
  }
  write_result(text);
  return all_same ? ExitCode::Done : ExitCode::InternalError;
}

}  // namespace

ExitCode check_command(const Options& options) {
  if (options.threads > 0) set_thread_count(options.threads);
  const ProgramName name = split_program(options.program);
  if (!options.settings.empty()) return compare(find_op(options), options);
  const Attributes attributes = parse_attributes(options.attributes);
  const Library library = Library::load(name.file);
  std::string text;
  for (const std::string& op : name.op.empty() ? library.op_names() : std::vector<std::string>{name.op}) {
    const Op found = library[op];
    text += report(name.op.empty() ? found : found.with(attributes));
  }
  write_result(text);
  return ExitCode::Done;
}

}  // namespace corrloom::tools
