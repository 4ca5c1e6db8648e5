#include "ir/base/source.h"

#include <algorithm>

namespace corrloom {

SourceFile::SourceFile(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (std::size_t at = 0; at < text_.size(); ++at) {
    const bool crlf = text_[at] == '\r' && at + 1 < text_.size() && text_[at + 1] == '\n';
    if (text_[at] == '\n' || (text_[at] == '\r' && !crlf)) line_starts_.push_back(at + 1);
  }
}

int SourceFile::line_of(std::size_t offset) const {
  return static_cast<int>(std::upper_bound(line_starts_.begin(), line_starts_.end(), offset) - line_starts_.begin());
}

int SourceFile::column_of(std::size_t offset) const {
  return static_cast<int>(offset - line_starts_[line_of(offset) - 1]) + 1;
}

std::string_view SourceFile::line_text(int line) const {
  if (line < 1 || line > static_cast<int>(line_starts_.size())) return {};
  const std::size_t begin = line_starts_[line - 1];
  std::size_t end = line < static_cast<int>(line_starts_.size()) ? line_starts_[line] : text_.size();
  while (end > begin && (text_[end - 1] == '\n' || text_[end - 1] == '\r')) --end;
  return std::string_view(text_).substr(begin, end - begin);
}

std::string_view Span::text() const {
  if (!file || begin > end || end > file->text().size()) return {};
  return std::string_view(file->text()).substr(begin, end - begin);
}

Span cover(const Span& a, const Span& b) {
  if (!a) return b;
  if (!b || a.file != b.file) return a;
  return {a.file, std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

std::string place(const Span& span) {
  if (!span) return {};
  return span.file->name() + ":" + std::to_string(span.file->line_of(span.begin)) + ":" +
         std::to_string(span.file->column_of(span.begin));
}

}  // namespace corrloom
