#include "compiler/tools/opt/expected_errors.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

namespace corrloom::tools {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// The letters and digits at the front, which are taken off.
std::string take_word(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && std::isalnum(static_cast<unsigned char>(text[length])) != 0) ++length;
  const std::string word(text.substr(0, length));
  text.remove_prefix(length);
  return word;
}

/// The error that a comment announces; `comment` begins behind `#` or `//`.
std::optional<ErrorAtLine> announced_by(std::string_view comment, int line) {
  comment = trimmed(comment);
  if (!comment.starts_with("error")) return std::nullopt;
  comment.remove_prefix(5);
  if (comment.starts_with("[")) {
    comment.remove_prefix(1);
    const std::string id = take_word(comment);
    if (!comment.starts_with("]")) return std::nullopt;
    comment.remove_prefix(1);
    if (comment.starts_with(":")) comment.remove_prefix(1);
    return ErrorAtLine{line, id, std::string(trimmed(comment))};
  }
  if (!comment.starts_with(":")) return std::nullopt;
  comment = trimmed(comment.substr(1));
  const std::string id = take_word(comment);
  return ErrorAtLine{line, id, std::string(trimmed(comment))};
}

bool suits(const ErrorAtLine& announced, const ErrorAtLine& occurred) {
  return announced.id == occurred.id && (occurred.line == 0 || occurred.line == announced.line) &&
         occurred.text.find(announced.text) != std::string::npos;
}

}  // namespace

std::vector<ErrorAtLine> announced_errors(const SourceFile& source) {
  std::vector<ErrorAtLine> errors;
  const int lines = source.line_of(source.text().size());
  for (int line = 1; line <= lines; ++line) {
    const std::string_view text = source.line_text(line);
    // Several errors of one line stand behind each other: `# error[E0201]: a; error[E0203]: b`, or with a `#` each.
    for (std::size_t at = text.find("error"); at != std::string_view::npos; at = text.find("error", at + 1)) {
      std::size_t before = at;
      while (before > 0 && text[before - 1] == ' ') --before;
      const bool in_comment = (before > 0 && (text[before - 1] == '#' || text[before - 1] == ';')) ||
                              (before > 1 && text.substr(before - 2, 2) == "//");
      if (!in_comment) continue;
      const std::size_t end =
          std::min({text.find("; error[", at), text.find(" # error", at), text.find(" // error", at), text.size()});
      if (const auto error = announced_by(text.substr(at, end - at), line)) errors.push_back(*error);
    }
  }
  return errors;
}

std::vector<ErrorAtLine> errors_of(const Diagnostics& diagnostics, const SourceFile& source) {
  std::vector<ErrorAtLine> errors;
  for (const Diagnostic& entry : diagnostics.entries()) {
    const bool is_here = entry.span && entry.span.file->name() == source.name();
    std::string text = entry.title + "; " + entry.label;
    for (const Note& note : entry.notes) text += "; " + note.text;
    errors.push_back(
        {is_here ? source.line_of(entry.span.begin) : 0, std::string(name_of(entry.code)), std::move(text)});
  }
  return errors;
}

std::string compare_errors(const std::vector<ErrorAtLine>& announced, std::vector<ErrorAtLine> occurred,
                           const std::string& file) {
  std::string text;
  for (const ErrorAtLine& wanted : announced) {
    const auto found =
        std::find_if(occurred.begin(), occurred.end(), [&](const ErrorAtLine& one) { return suits(wanted, one); });
    if (found != occurred.end()) {
      occurred.erase(found);
      continue;
    }
    text += file + ":" + std::to_string(wanted.line) + ": announced but did not occur: " + wanted.id +
            (wanted.text.empty() ? "" : ": " + wanted.text) + "\n";
  }
  for (const ErrorAtLine& extra : occurred) {
    text += file + ":" + std::to_string(extra.line) + ": occurred but is not announced: " + extra.id + ": " +
            extra.text + "\n";
  }
  return text;
}

}  // namespace corrloom::tools
