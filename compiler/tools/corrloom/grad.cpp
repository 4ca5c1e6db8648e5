#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/program.h"

namespace corrloom::tools {
namespace {

Intermediates intermediates_of(const Options& options) {
  if (options.intermediates == "keep") return Intermediates::KeepAll;
  if (options.intermediates == "recompute") return Intermediates::RecomputeAll;
  return Intermediates::ByCost;
}

/// Every float argument.
std::vector<std::string> float_arguments(const OpInfo& info) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : info.parameters) {
    if (is_float(parameter.dtype)) names.push_back(parameter.name);
  }
  if (names.empty()) throw InputError("op `" + info.name + "` has no float argument to be derived by");
  return names;
}

/// Writes what the file declares by `op d = grad ...`: all of it, or the one of that name. False when there is none.
bool write_declared(const Library& library, const std::string& name) {
  std::string text;
  for (const Derivative& declared : library.declared_derivatives()) {
    if (name.empty() || declared.name == name) text += (text.empty() ? "" : "\n") + declared.text;
  }
  if (!text.empty()) write_result(text);
  return !text.empty();
}

}  // namespace

ExitCode grad_command(const Options& options) {
  const ProgramName program = split_program(options.program);
  const Library library = Library::load(program.file);
  if (options.wrt.empty() && !options.with_values && write_declared(library, program.op)) return ExitCode::Done;
  const Op op = find_op(options);
  GradOptions wishes;
  wishes.name = options.name;
  wishes.with_values = options.with_values;
  wishes.intermediates = intermediates_of(options);
  wishes.keep = options.keep;
  wishes.recompute = options.recompute;
  const Derivative derivative =
      library.derivative(op.name(), options.wrt.empty() ? float_arguments(op.info()) : options.wrt, wishes);
  write_result(derivative.text);
  for (const std::string& line : derivative.intermediates) {
    if (options.explain) write_message(line);
  }
  return ExitCode::Done;
}

}  // namespace corrloom::tools
