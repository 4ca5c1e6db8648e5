#pragma once

#include "compiler/tools/common/exit_codes.h"
#include "compiler/tools/corrloom/options.h"

/// The commands of `corrloom`: each takes its options and writes its results to standard output. They throw UsageError,
/// CompileError, InputError, RuntimeError.
namespace corrloom::tools {

/// Runs an op; saves or shows its results.
ExitCode run_command(const Options& options);
/// Measures an op.
ExitCode bench_command(const Options& options);
/// Says where the time of an op goes.
ExitCode explain_command(const Options& options);
/// Writes a level of a compiled op.
ExitCode emit_command(const Options& options);
/// Checks a program, or compares the compiled op with the interpreter.
ExitCode check_command(const Options& options);
/// Writes a program in canonical form.
ExitCode fmt_command(const Options& options);
/// Writes the derivative of an op as index notation.
ExitCode grad_command(const Options& options);
/// Lists the devices.
ExitCode devices_command(const Options& options);
/// Lists the code that is kept on disk.
ExitCode cache_list_command(const Options& options);
/// Deletes it.
ExitCode cache_clear_command(const Options& options);
/// Says whether an op's code is kept, and which part of its key differs from the nearest entry if not.
ExitCode cache_why_command(const Options& options);

}  // namespace corrloom::tools
