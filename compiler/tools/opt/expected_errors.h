#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/source.h"

namespace corrloom::tools {

/// An error that occurred, or that a comment announces.
struct ErrorAtLine {
  int line = 0;      ///< from 1; 0 where the place is not known, which suits every line
  std::string id;    ///< `E0207`, `T7`
  std::string text;  ///< of an announced error: a part of its message, or nothing
};

/// What the comments `# error[E0207]: text`, `// error[E0402]: text` and `// error: T7` of a text announce for the
/// lines that they stand on.
std::vector<ErrorAtLine> announced_errors(const SourceFile& source);

/// The diagnostics as errors of lines; those in other files have no line.
std::vector<ErrorAtLine> errors_of(const Diagnostics& diagnostics, const SourceFile& source);

/// One line for each announced error that did not occur and each error that was not announced; empty when both are the
/// same.
std::string compare_errors(const std::vector<ErrorAtLine>& announced, std::vector<ErrorAtLine> occurred,
                           const std::string& file);

}  // namespace corrloom::tools
