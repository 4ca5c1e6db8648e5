#include <fmt/format.h>

#include <cstdlib>

#include "compiler/api/op_core.h"
#include "compiler/tools/check/judge.h"
#include "compiler/tools/check/shrink.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/common/settings.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/describe.h"
#include "compiler/tools/corrloom/program.h"
#include "runtime/cuda/driver.h"

namespace corrloom::tools {
namespace {

/// Ranges of a generic op are shown for packs of so many dimensions.
constexpr std::size_t kExampleRank = 2;

/// What an instance stands for, in one line.
std::string described(const frontend::Instance& instance) {
  std::string text;
  for (const auto& [name, dtype] : instance.types)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, name_of(dtype));
  for (const auto& [name, rank] : instance.ranks)
    text += fmt::format("{}...{} of {} dimensions", text.empty() ? "" : ", ", name, rank);
  return "  with " + text + ":\n";
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
  if (!signature.is_generic()) return text + describe(*op.core()->graph());
  const frontend::Instance example = frontend::example_instance(signature, kExampleRank);
  return text + described(example) + describe(*instance_of(op, example).core()->graph());
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

/// `--set stride=2` for every attribute that was given.
std::string attribute_settings(const Options& options) {
  std::string text;
  for (const std::string& attribute : options.attributes) text += " --set " + attribute;
  return text;
}

/// Asks made-up questions; the first that shows a difference is made small and given as a command.
ExitCode check_made_up(const Op& declared, const Options& options) {
  constexpr std::uint64_t kQuestions = 12;
  const std::vector<Device> devices = devices_to_compare(options);
  std::string text = report(declared);
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < kQuestions; ++seed) {
    Random random(seed);
    const Op op = some_instance(declared, random);
    const std::optional<Question> question = make_question(op, random);
    if (!question) break;
    ++accepted;
    if (judge(op, question->arguments(), devices).difference.empty()) continue;
    const Question small = shrink(*question, [&](const Question& candidate) {
      return !judge(op, candidate.arguments(), devices).difference.empty();
    });
    write_result(text + "  differs " + judge(op, small.arguments(), devices).difference +
                 "\n  repeat it with: corrloom check " + options.program + " " + small.settings() +
                 attribute_settings(options) + "\n");
    return ExitCode::InternalError;
  }
  std::string names;
  for (const Device device : devices) names += (names.empty() ? "" : ", ") + device.name();
  text += accepted == 0
              ? "  no arguments were found that suit; give values to compare with the interpreter\n"
              : fmt::format("  {} made-up calls: the interpreter and {} agree bit for bit\n", accepted, names);
  write_result(text);
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
  const Verdict verdict =
      judge(is_generic ? instance_of(op, op.core()->inferred(arguments)) : op, arguments, devices_to_compare(options));
  if (!verdict.refusal.empty()) throw InputError(verdict.refusal);
  std::string text = op.name() + "\n";
  for (const std::string& note : verdict.notes) text += "  " + note + "\n";
  if (!verdict.difference.empty()) text += "  differs " + verdict.difference + "\n";
  write_result(text);
  return verdict.difference.empty() ? ExitCode::Done : ExitCode::InternalError;
}

}  // namespace corrloom::tools
