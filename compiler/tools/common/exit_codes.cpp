#include "compiler/tools/common/exit_codes.h"

#include <exception>
#include <new>

#include "compiler/tools/common/output.h"
#include "ir/base/errors.h"
#include "runtime/io/value.h"

namespace corrloom::tools {
namespace {

int fail(ExitCode code, const std::string& text) {
  write_message(text);
  return static_cast<int>(code);
}

/// Diagnostics come with their place and code in front; other messages get the tool's name.
std::string with_title(const std::string& tool, const std::string& text) {
  return text.find("error[E") != std::string::npos ? text : tool + ": error: " + text;
}

}  // namespace

int run_guarded(const std::string& tool, const std::function<ExitCode()>& body) {
  try {
    return static_cast<int>(body());
  } catch (const io::UsageError& error) {
    return fail(ExitCode::Usage, tool + ": error: " + error.what());
  } catch (const CompileError& error) {
    return fail(ExitCode::WrongProgram, with_title(tool, error.what()));
  } catch (const InputError& error) {
    return fail(ExitCode::WrongProgram, with_title(tool, error.what()));
  } catch (const RuntimeError& error) {
    return fail(ExitCode::MachineFailed, tool + ": error: " + error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::MachineFailed, tool + ": error: out of memory");
  } catch (const std::exception& error) {
    return fail(ExitCode::InternalError, tool + ": internal error: " + error.what());
  }
}

}  // namespace corrloom::tools
