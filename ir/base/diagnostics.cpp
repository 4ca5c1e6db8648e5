#include "ir/base/diagnostics.h"

#include <algorithm>
#include <numeric>

namespace corrloom {
namespace {

constexpr std::string_view kCodeNames[] = {
#define CORRLOOM_CODE(code, summary) #code,
#include "ir/base/diagnostic_codes.def"
#undef CORRLOOM_CODE
};

/// Longest stretch of a source line that is shown; a longer one is cut around the caret.
constexpr std::size_t kShownColumns = 120;

struct Style {
  bool color;
  std::string wrap(std::string_view code, std::string_view text) const {
    if (!color) return std::string(text);
    return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
  }
};

/// Columns a terminal uses for the bytes: continuation bytes of UTF-8 take none.
std::size_t width_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; });
}

/// Control bytes would garble a terminal: tabs become a space, others `?`.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '\t')
      c = ' ';
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = '?';
  }
  return out;
}

/// Longest title, label or note that is shown: one that quotes a huge name is cut.
constexpr std::size_t kShownCharacters = 1000;

std::string clipped(const std::string& text) {
  return text.size() <= kShownCharacters ? text : text.substr(0, kShownCharacters) + "...";
}

/// The source line of a span and a line of carets below it.
std::string excerpt(const Span& span, const std::string& label, const Style& style) {
  const SourceFile& file = *span.file;
  const int line = file.line_of(span.begin);
  std::string_view text = file.line_text(line);
  std::size_t first = std::min<std::size_t>(file.column_of(span.begin) - 1, text.size());
  std::size_t count = std::max<std::size_t>(1, span.end > span.begin ? span.end - span.begin : 1);
  std::string before, after;
  if (text.size() > kShownColumns) {
    const std::size_t start = first > kShownColumns / 2 ? first - kShownColumns / 2 : 0;
    if (start > 0) before = "...";
    if (start + kShownColumns < text.size()) after = "...";
    text = text.substr(start, kShownColumns);
    first -= start;
  }
  count = std::min(count, std::max<std::size_t>(1, text.size() - std::min(first, text.size())));
  const std::string number = std::to_string(line);
  const std::string pad(before.size() + width_of(text.substr(0, first)), ' ');
  const std::string carets(std::max<std::size_t>(1, width_of(text.substr(first, count))), '^');
  std::string out = "  " + number + " | " + before + printable(text) + after + "\n";
  out += "  " + std::string(number.size(), ' ') + " | " + pad + style.wrap("1;31", carets);
  if (!label.empty()) out += " " + clipped(label);
  return out + "\n";
}

}  // namespace

std::string_view name_of(Code code) {
  return kCodeNames[static_cast<std::size_t>(code)];
}

Diagnostic& Diagnostic::note(std::string text, Span where) {
  notes.push_back({std::move(text), false, std::move(where)});
  return *this;
}

Diagnostic& Diagnostic::help(std::string text) {
  notes.push_back({std::move(text), true, {}});
  return *this;
}

Diagnostic& Diagnostics::report(Code code, Span span, std::string title, std::string label) {
  return entries_.emplace_back(Diagnostic{code, std::move(title), std::move(span), std::move(label), {}});
}

std::string render(const Diagnostic& d, bool color) {
  const Style style{color};
  std::string out;
  if (d.span) out += place(d.span) + ": ";
  out += style.wrap("1;31", "error[" + std::string(name_of(d.code)) + "]") + ": " + style.wrap("1", clipped(d.title)) +
         "\n";
  if (d.span) out += excerpt(d.span, d.label, style);
  for (const Note& note : d.notes) {
    out += "  " + style.wrap(note.is_help ? "1;32" : "1;36", note.is_help ? "help" : "note") + ": ";
    if (note.span) out += place(note.span) + ": ";
    out += clipped(note.text) + "\n";
    if (note.span) out += excerpt(note.span, {}, style);
  }
  return out;
}

std::string Diagnostics::render(bool color) const {
  std::vector<std::size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Errors of one file read best from its top; files keep the order in which they were met.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Span &x = entries_[a].span, &y = entries_[b].span;
    return x.file == y.file && x.file && x.begin < y.begin;
  });
  std::string out;
  for (std::size_t k : order) out += corrloom::render(entries_[k], color);
  return out;
}

}  // namespace corrloom
