#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "ir/base/visibility.h"

namespace corrloom {

/// The user's program is wrong; `what()` holds every diagnostic, rendered.
class CORRLOOM_API CompileError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The user's inputs are wrong: shapes, dtypes, entry checks, data-dependent checks.
class CORRLOOM_API InputError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The machine failed: a driver, memory, a file. `what()` names the call, its arguments and the system's answer.
class CORRLOOM_API RuntimeError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Our own fault.
class CORRLOOM_API InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

namespace detail {
/// Throws InternalError with the place, the condition and the message.
[[noreturn]] CORRLOOM_API void check_failed(const char* file, int line, const char* condition,
                                            const std::string& message);

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
}  // namespace detail

}  // namespace corrloom

/// Throws InternalError with the streamed message when `condition` does not hold, in every build.
#define CORRLOOM_CHECK(condition, ...)                                                                           \
  do {                                                                                                           \
    if (!(condition))                                                                                            \
      ::corrloom::detail::check_failed(__FILE__, __LINE__, #condition, ::corrloom::detail::concat(__VA_ARGS__)); \
  } while (false)
