#pragma once

#include <functional>
#include <string>

namespace corrloom::tools {

/// What the process answers; part of the contract with scripts.
enum class ExitCode { Done = 0, WrongProgram = 1, Usage = 2, MachineFailed = 3, InternalError = 4 };

/// Runs `body` and gives the code for what it throws, which is shown on standard error: UsageError 2; CompileError and
/// InputError 1; RuntimeError and lack of memory 3; everything else 4. `tool` is the program's name.
int run_guarded(const std::string& tool, const std::function<ExitCode()>& body);

}  // namespace corrloom::tools
