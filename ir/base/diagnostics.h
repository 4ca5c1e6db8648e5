#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/source.h"

namespace corrloom {

/// Stable error codes, one for each row of `diagnostic_codes.def`. A code is never reused.
enum class Code {
#define CORRLOOM_CODE(code, summary) code,
#include "ir/base/diagnostic_codes.def"
#undef CORRLOOM_CODE
};

/// `E0203` for `Code::E0203`.
std::string_view name_of(Code code);

/// A remark below an error; `is_help` marks what the reader can do about it. `span` may be nowhere.
struct Note {
  std::string text;
  bool is_help = false;
  Span span = {};
};

/// One error of the user's program: the title is one line without a full stop, the label stands beside the caret.
struct Diagnostic {
  Code code;
  std::string title;
  Span span;
  std::string label = {};
  std::vector<Note> notes = {};

  Diagnostic& note(std::string text, Span where = {});
  Diagnostic& help(std::string text);
};

/// Collects errors; the functions that fill it go on with what is independent.
class Diagnostics {
 public:
  /// Adds an error and returns it, so that notes can be added. The reference holds until the next report.
  Diagnostic& report(Code code, Span span, std::string title, std::string label = {});

  bool has_errors() const { return !entries_.empty(); }
  const std::vector<Diagnostic>& entries() const { return entries_; }

  /// All errors in the order of their places, each with its source line, caret, notes and helps; ends with a newline.
  std::string render(bool color = false) const;

 private:
  std::vector<Diagnostic> entries_;
};

/// One diagnostic in the form of `Diagnostics::render`.
std::string render(const Diagnostic& diagnostic, bool color = false);

}  // namespace corrloom
