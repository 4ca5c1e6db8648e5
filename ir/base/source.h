#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace corrloom {

/// One text that diagnostics can point into. Immutable once made.
class SourceFile {
 public:
  SourceFile(std::string name, std::string text);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  /// Line of a byte offset, counted from 1.
  int line_of(std::size_t offset) const;
  /// Column of a byte offset, counted from 1, in bytes.
  int column_of(std::size_t offset) const;
  /// The text of a line (from 1), without its end; `\r\n`, `\n` and a lone `\r` all end lines.
  std::string_view line_text(int line) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
};

using SourceRef = std::shared_ptr<const SourceFile>;

/// A half-open range of bytes of one file. Default: nowhere.
struct Span {
  SourceRef file;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  explicit operator bool() const { return file != nullptr; }
  std::string_view text() const;
};

/// The smallest span that holds both (of the same file; the first one when the files differ).
Span cover(const Span& a, const Span& b);

/// `file:line:column` of the beginning of a span, or an empty string for nowhere.
std::string place(const Span& span);

}  // namespace corrloom
