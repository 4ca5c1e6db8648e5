#include <utility>

#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/assemble.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/program.h"
#include "ir/kernel/target.h"
#include "runtime/io/bytes.h"

namespace corrloom::tools {
namespace {

bool is_ptx_stage(const std::string& stage) {
  return stage == "ptx" || stage == "cubin";
}

/// Throws UsageError for a word that names no target and for a stage that the target does not have.
std::string find_target(const Options& options) {
  const std::string target = !options.target.empty() ? options.target : is_ptx_stage(options.stage) ? "sm_80" : "host";
  const bool is_host = target == "host";
  if (!is_host && !kernel::ptx_target(target)) {
    throw io::UsageError("--target " + target.substr(0, 80) + ": there are host, " + kernel::known_ptx_targets());
  }
  if (is_host && is_ptx_stage(options.stage))
    throw io::UsageError("--stage " + options.stage + " needs a PTX target, for example --target sm_80");
  return target;
}

std::string text_of(const Compiled& compiled, const std::string& stage, const std::string& target) {
  constexpr std::pair<const char*, Stage> kStages[] = {{"tensor", Stage::Tensor}, {"schedule", Stage::Schedule},
                                                       {"loop", Stage::Loop},     {"llvm", Stage::Llvm},
                                                       {"asm", Stage::Asm},       {"ptx", Stage::Ptx}};
  for (const auto& [name, value] : kStages) {
    if (stage == name) return compiled.text(value);
  }
  return assemble_ptx(compiled.text(Stage::Ptx), target);
}

}  // namespace

ExitCode emit_command(const Options& options) {
  const std::string target = find_target(options);
  if (options.stage == "cubin" && options.output.empty() && shows_results()) {
    throw io::UsageError("--stage cubin writes binary code; give a file with -o");
  }
  const Op op = find_op(options);
  const Compiled compiled = op.compile_for(make_types(op.info(), options), target, read_schedule(options));
  const std::string text = text_of(compiled, options.stage, target);
  if (options.output.empty()) {
    write_result(text);
    return ExitCode::Done;
  }
  io::OutputFile file(options.output);
  file.write(text.data(), text.size());
  file.commit();
  return ExitCode::Done;
}

}  // namespace corrloom::tools
