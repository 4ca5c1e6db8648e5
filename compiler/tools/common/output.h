#pragma once

#include <string>
#include <string_view>

namespace corrloom::tools {

/// Writes results to standard output, at once and whole. Throws RuntimeError when that fails (a full disk, a closed
/// pipe).
void write_result(std::string_view text);
/// Writes a message to standard error, ending the line; in colour where `error`, `note` and `help` stand, if that is a
/// terminal and NO_COLOR is not set.
void write_message(std::string_view text);
/// Whether standard output is a terminal.
bool shows_results();

/// The text with colours at `error[E0102]`, `error:`, `note:` and `help:`.
std::string colored(std::string_view text);

}  // namespace corrloom::tools
