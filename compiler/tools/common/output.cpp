#include "compiler/tools/common/output.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "ir/base/errors.h"

namespace corrloom::tools {
namespace {

/// False when the system refuses; `errno` says why.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool messages_in_color() {
  const char* const wish = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool refused =
      (wish != nullptr && *wish != '\0') || (terminal != nullptr && std::strcmp(terminal, "dumb") == 0);
  return !refused && isatty(STDERR_FILENO) == 1;
}

struct Mark {
  std::string_view word;
  std::string_view color;
};
constexpr Mark kMarks[] = {{"error[E", "\x1b[1;31m"},
                           {"internal error:", "\x1b[1;31m"},
                           {"error:", "\x1b[1;31m"},
                           {"note:", "\x1b[1;36m"},
                           {"help:", "\x1b[1;32m"}};
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

std::string colored(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Mark* found = nullptr;
    for (const Mark& mark : kMarks) {
      if (found == nullptr && text.starts_with(mark.word)) found = &mark;
    }
    if (found == nullptr) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::size_t colon = text.find(':');
    const std::size_t length = colon == std::string_view::npos ? found->word.size() : colon + 1;
    out += std::string(found->color) + std::string(text.substr(0, length)) + std::string(kPlain);
    text.remove_prefix(length);
  }
  return out;
}

void write_result(std::string_view text) {
  // A reader that went away is an error like any other, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  if (write_all(STDOUT_FILENO, text)) return;
  const int reason = errno;
  throw RuntimeError("write(standard output, " + std::to_string(text.size()) + " bytes): " + std::strerror(reason));
}

void write_message(std::string_view text) {
  std::string line = messages_in_color() ? colored(text) : std::string(text);
  if (line.empty() || line.back() != '\n') line += '\n';
  // Nobody is left to be told when this fails.
  (void)write_all(STDERR_FILENO, line);
}

bool shows_results() {
  return isatty(STDOUT_FILENO) == 1;
}

}  // namespace corrloom::tools
