#include <fmt/format.h>

#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/commands.h"
#include "runtime/backend.h"

namespace corrloom::tools {

ExitCode devices_command(const Options&) {
  std::string text;
  for (const runtime::BackendRef& backend : runtime::all_backends()) {
    text += fmt::format("{:<8} {} ({})\n", backend->device().name(), backend->description(), backend->architecture());
  }
  const std::string status = runtime::cuda_status();
  if (!status.empty()) text += status + "\n";
  write_result(text);
  return ExitCode::Done;
}

}  // namespace corrloom::tools
