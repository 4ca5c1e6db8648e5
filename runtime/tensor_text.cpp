#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/cast.h"
#include "runtime/layout.h"
#include "runtime/tensor.h"

namespace corrloom {
namespace {

/// The habits of NumPy: more elements than this are summarised by that many at each end of an axis, lines break at this
/// column, floats have at most so many decimals.
constexpr std::int64_t kSummariseAbove = 1000;
constexpr std::int64_t kEdgeItems = 3;
constexpr std::size_t kLineWidth = 75;
constexpr int kMaxDecimals = 8;

/// The indices of an axis that are shown; -1 stands for the dots.
std::vector<std::int64_t> shown_indices(std::int64_t extent, bool summarise) {
  std::vector<std::int64_t> indices;
  const bool cut = summarise && extent > 2 * kEdgeItems;
  for (std::int64_t i = 0; i < extent; ++i) {
    if (cut && i == kEdgeItems) {
      indices.push_back(-1);
      i = extent - kEdgeItems;
    }
    indices.push_back(i);
  }
  return indices;
}

/// A number with that many decimals, in fixed or scientific form; at least a point stays.
std::string with_decimals(double value, std::chars_format form, int decimals) {
  char buffer[400];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, form, decimals);
  std::string text(buffer, error == std::errc() ? end : buffer);
  if (decimals == 0) text.insert(std::min(text.find('e'), text.size()), ".");
  return text;
}

/// The fewest decimals, up to the limit, that read back as the same element.
int decimals_needed(double value, DType dtype, std::chars_format form) {
  for (int decimals = 0; decimals < kMaxDecimals; ++decimals) {
    const std::string text = with_decimals(value, form, decimals);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (scalar::Value::floating(dtype, back) == scalar::Value::floating(dtype, value)) return decimals;
  }
  return kMaxDecimals;
}

/// How all shown floats are written.
std::chars_format form_of(const std::vector<double>& values) {
  double lowest = INFINITY, highest = 0;
  for (const double value : values) {
    const double magnitude = std::abs(value);
    if (!std::isfinite(value) || magnitude == 0) continue;
    lowest = std::min(lowest, magnitude);
    highest = std::max(highest, magnitude);
  }
  const bool scientific = highest > 0 && (highest >= 1e8 || lowest < 1e-4 || highest / lowest > 1000);
  return scientific ? std::chars_format::scientific : std::chars_format::fixed;
}

std::string special_text(double value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

void pad_left(std::vector<std::string>& texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text.insert(0, width - text.size(), ' ');
}

/// The texts of floats, aligned at their points.
std::vector<std::string> float_texts(const std::vector<double>& values, DType dtype) {
  const std::chars_format form = form_of(values);
  int most = 0;
  for (const double value : values) {
    if (std::isfinite(value)) most = std::max(most, decimals_needed(value, dtype, form));
  }
  std::vector<std::string> texts;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      texts.push_back(special_text(value));
    } else if (form == std::chars_format::scientific) {
      texts.push_back(with_decimals(value, form, most));
    } else {
      const int decimals = decimals_needed(value, dtype, form);
      texts.push_back(with_decimals(value, form, decimals) +
                      std::string(static_cast<std::size_t>(most - decimals), ' '));
    }
  }
  pad_left(texts);
  return texts;
}

std::string exact_text(scalar::Value value) {
  if (value.dtype == DType::Bool) return value.as_bool() ? "true" : "false";
  if (is_unsigned_integer(value.dtype)) return std::to_string(value.bits);
  return std::to_string(value.as_i64());
}

std::vector<std::string> element_texts(const std::vector<scalar::Value>& values, DType dtype) {
  std::vector<std::string> texts;
  if (is_float(dtype)) {
    std::vector<double> numbers;
    for (const scalar::Value& value : values) numbers.push_back(value.as_f64());
    return float_texts(numbers, dtype);
  }
  for (const scalar::Value& value : values) texts.push_back(exact_text(value));
  pad_left(texts);
  return texts;
}

/// What is shown of a tensor's axes from `axis` on, copied into `to`.
void copy_edges(const Tensor& from, const Tensor& to, int axis) {
  if (axis == from.rank()) return to.copy_from(from);
  const std::int64_t extent = from.shape()[static_cast<std::size_t>(axis)];
  if (extent <= 2 * kEdgeItems) return copy_edges(from, to, axis + 1);
  copy_edges(from.slice(axis, 0, kEdgeItems), to.slice(axis, 0, kEdgeItems), axis + 1);
  copy_edges(from.slice(axis, extent - kEdgeItems, extent), to.slice(axis, kEdgeItems, 2 * kEdgeItems), axis + 1);
}

/// The elements that a summary shows, where the tensor is: one copy brings them to the host.
Tensor edges_of(const Tensor& tensor) {
  Shape shape = tensor.shape();
  for (std::int64_t& extent : shape) extent = std::min(extent, 2 * kEdgeItems);
  const Tensor edges = Tensor::empty(shape, tensor.dtype(), tensor.device());
  copy_edges(tensor, edges, 0);
  return edges;
}

/// The shown elements of a tensor, and how they are written.
class View {
 public:
  explicit View(const Tensor& tensor) : shape_(tensor.shape()) {
    const bool summarise = tensor.element_count() > kSummariseAbove;
    for (const std::int64_t extent : shape_) axes_.push_back(shown_indices(extent, summarise));
    const Tensor shown = summarise ? edges_of(tensor).to(cpu()) : tensor.to(cpu());
    std::vector<scalar::Value> values;
    for (std::int64_t k = 0; k < shown.element_count(); ++k) values.push_back(shown.element(k));
    texts_ = element_texts(values, tensor.dtype());
  }

  std::string text() {
    std::string out;
    write(0, out);
    return out;
  }

 private:
  void write(std::size_t axis, std::string& out) {
    if (axis == shape_.size()) {
      out += texts_[next_++];
      return;
    }
    out += '[';
    if (axis + 1 == shape_.size()) {
      write_row(out);
    } else {
      write_parts(axis, out);
    }
    out += ']';
  }

  /// Elements of the last axis; lines that get too long go on below their first element.
  void write_row(std::string& out) {
    std::size_t line_begin = out.rfind('\n') + 1;
    bool first = true;
    for (const std::int64_t index : axes_.back()) {
      const std::string piece = index < 0 ? "..." : texts_[next_++];
      // One column stays for the closing bracket.
      if (!first && out.size() - line_begin + 1 + piece.size() >= kLineWidth) {
        out += '\n';
        line_begin = out.size();
        out.append(shape_.size(), ' ');
      } else if (!first) {
        out += ' ';
      }
      out += piece;
      first = false;
    }
  }

  /// Sub-arrays, with an empty line more between those of each further axis.
  void write_parts(std::size_t axis, std::string& out) {
    const std::string separator = std::string(shape_.size() - axis - 1, '\n') + std::string(axis + 1, ' ');
    bool first = true;
    for (const std::int64_t index : axes_[axis]) {
      if (!first) out += separator;
      if (index < 0) {
        out += "...";
      } else {
        write(axis + 1, out);
      }
      first = false;
    }
  }

  Shape shape_;
  std::vector<std::vector<std::int64_t>> axes_;
  std::vector<std::string> texts_;
  std::size_t next_ = 0;
};

}  // namespace

std::string Tensor::to_string() const {
  if (!is_defined()) return "undefined tensor";
  const std::string head = type().to_string() + " on " + device().name() + "\n";
  if (element_count() == 0) return head + "[]";
  return head + View(*this).text();
}

}  // namespace corrloom
