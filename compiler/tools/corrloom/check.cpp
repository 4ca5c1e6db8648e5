#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "compiler/api/op_core.h"
#include "compiler/tools/check/judge.h"
#include "compiler/tools/check/op_laws.h"
#include "compiler/tools/check/shrink.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/common/settings.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/describe.h"
#include "compiler/tools/corrloom/program.h"
#include "runtime/backend.h"
#include "runtime/cuda/driver.h"

namespace corrloom::tools {
namespace {

/// Ranges of a generic op are shown for packs of so many dimensions.
constexpr std::size_t kExampleRank = 2;

/// What the ranges are shown for, in one line: the values of attributes, and the dtypes of an example. Empty: anything.
std::string described(const api::OpCore& core) {
  std::string text;
  const auto add = [&](const std::string& name, std::string_view value) {
    text += (text.empty() ? "" : ", ") + name + " = " + std::string(value);
  };
  for (const auto& [name, value] : core.attributes()) add(name, scalar::to_text(value));
  for (const auto& [name, dtype] : core.signature().instance.types) add(name, name_of(dtype));
  return text.empty() ? "" : "  with " + text + ":\n";
}

Op instance_of(const Op& op, const frontend::Instance& instance) {
  const api::OpCore& core = *op.core();
  return Op(core.library().instance_op(core.name(), instance, core.attributes()), std::nullopt);
}

/// The op, or an instance of a generic one with packs of some number of dimensions.
Op some_instance(const Op& op, Random& random) {
  constexpr std::int64_t kLargestRank = 3;
  const frontend::OpSignature& signature = op.core()->signature();
  if (!signature.is_generic()) return op;
  const auto rank = static_cast<std::size_t>(random.between(0, kLargestRank));
  return instance_of(op, frontend::example_instance(signature, rank));
}

/// The op's signature, ranges and conditions.
std::string report(const Op& op) {
  std::string text = op.info().text + "\n";
  std::string open;
  for (const AttributeInfo& attribute : op.info().attributes) {
    if (op.core()->attributes().contains(attribute.name)) continue;
    open += (open.empty() ? "" : ", ") + attribute.name;
  }
  if (!open.empty()) return text + "  give the values of " + open + " with --set to see ranges\n";
  const frontend::OpSignature& signature = op.core()->signature();
  const Op shown = signature.is_generic() ? instance_of(op, frontend::example_instance(signature, kExampleRank)) : op;
  return text + described(*shown.core()) + describe(*shown.core()->graph());
}

/// On a machine without a GPU a simulated one takes its place, where its library is found and CORRLOOM_CUDA says
/// nothing. Before the first use of a device.
void simulate_missing_gpu() {
  namespace gpu = runtime::gpu;
  if (std::getenv("CORRLOOM_CUDA") != nullptr || gpu::find_driver("auto").driver != nullptr) return;
  if (gpu::find_driver("sim").driver != nullptr) ::setenv("CORRLOOM_CUDA", "sim", 1);
}

/// The devices to compare: the one that is asked for, else the host and the first GPU.
std::vector<Device> devices_to_compare(const Options& options) {
  if (options.device != Options().device) return {find_device(options)};
  std::vector<Device> devices{cpu()};
  if (device_count() > 0) devices.push_back(cuda(0));
  return devices;
}

/// A line that says so where a GPU among the devices is simulated.
std::string simulation_line(const std::vector<Device>& devices) {
  if (runtime::cuda_symbol("corrloom_sim_json") == nullptr) return "";
  std::string text;
  for (const Device device : devices) {
    if (!device.is_cpu()) text += "  " + device.name() + " is simulated (no GPU takes part)\n";
  }
  return text;
}

/// `--set stride=2` for every attribute that was given.
std::string attribute_settings(const Options& options) {
  std::string text;
  for (const std::string& attribute : options.attributes) text += " --set " + attribute;
  return text;
}

/// The first law that one of the devices breaks; empty: none. `laws` takes in those that hold.
std::string broken_law(const Op& op, const std::vector<Argument>& arguments, const std::vector<Device>& devices,
                       std::set<std::string>& laws) {
  for (const Device device : devices) {
    const LawReport report = laws_of(op, arguments, device);
    if (!report.broken.empty()) return "breaks a law on " + device.name() + ": " + report.broken;
    laws.insert(report.held.begin(), report.held.end());
  }
  return "";
}

/// What is wrong with an op on those arguments; empty: nothing.
std::string fault_of(const Op& op, const std::vector<Argument>& arguments, const std::vector<Device>& devices,
                     std::set<std::string>& laws) {
  const Verdict verdict = judge(op, arguments, devices);
  return verdict.difference.empty() ? broken_law(op, arguments, devices, laws) : "differs " + verdict.difference;
}

/// Lines for the laws that hold, each of them once.
std::string law_lines(const std::set<std::string>& laws) {
  std::string text;
  for (const std::string& law : laws) text += "  " + law + "\n";
  return text;
}

/// Asks made-up questions; the first that shows a fault is made small and given as a command.
ExitCode check_made_up(const Op& declared, const Options& options) {
  constexpr std::uint64_t kQuestions = 12;
  const std::vector<Device> devices = devices_to_compare(options);
  std::string text = report(declared);
  std::set<std::string> laws;
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < kQuestions; ++seed) {
    Random random(seed);
    const Op op = some_instance(declared, random);
    const std::optional<Question> question = make_question(op, random);
    if (!question) break;
    ++accepted;
    if (fault_of(op, question->arguments(), devices, laws).empty()) continue;
    const Question small = shrink(*question, [&](const Question& candidate) {
      return !fault_of(op, candidate.arguments(), devices, laws).empty();
    });
    write_result(text + "  " + fault_of(op, small.arguments(), devices, laws) + "\n  repeat it with: corrloom check " +
                 options.program + " " + small.settings() + attribute_settings(options) + "\n");
    return ExitCode::InternalError;
  }
  std::string names;
  for (const Device device : devices) names += (names.empty() ? "" : ", ") + device.name();
  if (accepted == 0) {
    write_result(text);
    throw InputError("op `" + declared.name() + "`: no arguments were found that suit; give values as NAME=VALUE");
  }
  text += fmt::format("  {} made-up calls: the interpreter and {} agree bit for bit\n", accepted, names);
  write_result(text + law_lines(laws) + simulation_line(devices));
  return ExitCode::Done;
}

/// Every op of the file, or the one that is named and its comparisons.
ExitCode check_without_values(const Options& options) {
  const ProgramName name = split_program(options.program);
  if (!name.op.empty()) return check_made_up(find_op(options), options);
  const Library library = Library::load(name.file);
  std::string text;
  for (const std::string& op : library.op_names()) text += report(library[op]);
  write_result(text);
  return ExitCode::Done;
}

}  // namespace

ExitCode check_command(const Options& options) {
  simulate_missing_gpu();
  if (options.threads > 0) set_thread_count(options.threads);
  if (options.settings.empty()) return check_without_values(options);
  const Op op = find_op(options);
  const std::vector<Argument> arguments = make_arguments(op, options, cpu());
  const bool is_generic = op.core()->signature().is_generic();
  const std::vector<Device> devices = devices_to_compare(options);
  const Op instance = is_generic ? instance_of(op, op.core()->inferred(arguments)) : op;
  const Verdict verdict = judge(instance, arguments, devices);
  if (!verdict.refusal.empty()) throw InputError(verdict.refusal);
  std::string text = op.name() + "\n";
  for (const std::string& note : verdict.notes) text += "  " + note + "\n";
  std::set<std::string> laws;
  const std::string fault =
      verdict.difference.empty() ? broken_law(instance, arguments, devices, laws) : "differs " + verdict.difference;
  write_result(text + law_lines(laws) + simulation_line(devices) + (fault.empty() ? "" : "  " + fault + "\n"));
  return fault.empty() ? ExitCode::Done : ExitCode::InternalError;
}

}  // namespace corrloom::tools
