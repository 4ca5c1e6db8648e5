#include "compiler/tools/corrloom/commands.h"

namespace {

using namespace corrloom::tools;

ExitCode run(int argc, char** argv) {
  const std::optional<Options> options = parse_command_line(argc, argv);
  if (!options) return ExitCode::Done;
  switch (options->command) {
    case Command::Run:
      return run_command(*options);
    case Command::Bench:
      return bench_command(*options);
    case Command::Explain:
      return explain_command(*options);
    case Command::Emit:
      return emit_command(*options);
    case Command::Check:
      return check_command(*options);
    case Command::Fmt:
      return fmt_command(*options);
    case Command::Grad:
      return grad_command(*options);
    case Command::Devices:
      return devices_command(*options);
    case Command::CacheList:
      return cache_list_command(*options);
    case Command::CacheClear:
      return cache_clear_command(*options);
    case Command::CacheWhy:
      return cache_why_command(*options);
  }
  return ExitCode::InternalError;
}

}  // namespace

int main(int argc, char** argv) {
  return run_guarded("corrloom", [&] { return run(argc, argv); });
}
