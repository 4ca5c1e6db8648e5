#include "ir/base/errors.h"

#include <string_view>

namespace corrloom::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  // Only the part below the source root, so that messages are the same on every machine.
  std::string_view path = file;
  for (std::string_view top : {"ir/", "compiler/", "runtime/"}) {
    if (const auto at = path.rfind(top); at != std::string_view::npos && (at == 0 || path[at - 1] == '/'))
      path = path.substr(at);
  }
  throw InternalError(concat(path, ":", line, ": ", message.empty() ? "check failed" : message, " (", condition, ")"));
}

}  // namespace corrloom::detail
