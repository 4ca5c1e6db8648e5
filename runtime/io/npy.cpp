#include "runtime/io/npy.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ir/base/errors.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// A header that is longer describes no tensor.
constexpr std::uint32_t kMaxHeaderBytes = 1 << 20;
constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kAlignment = 64;

/// What the header says.
struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

/// Parses the Python dictionary of a header: strings, True, False, tuples of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.descr = string();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = shape();
        has_shape = true;
      } else {
        fail("an unknown or repeated key `" + key.substr(0, 40) + "`");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) fail("not all of the keys `descr`, `fortran_order` and `shape`");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(name_ + ": the header of the .npy array has " + what);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool accept(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("no `") + wanted + "` at byte " + std::to_string(at_));
  }

  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      fail("no string at byte " + std::to_string(at_) + (quote == '[' ? "; arrays of records are no tensors" : ""));
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string without an end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::string(inside);
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("neither True nor False for `fortran_order`");
  }

  Shape shape() {
    Shape extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(extent());
      if (extents.size() > kMaxRank) fail("more than " + std::to_string(kMaxRank) + " axes");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return extents;
  }

  std::int64_t extent() {
    skip_space();
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0)
      fail("an extent at byte " + std::to_string(at_) + " that is no number from 0 to 2^63 - 1");
    at_ = static_cast<std::size_t>(stop - text_.data());
    // Python 2 wrote long integers as `3L`.
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

/// NumPy's letter and size for a dtype, without the byte order; empty for bf16.
std::string_view code_of(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "b1";
    case DType::I8:
      return "i1";
    case DType::I16:
      return "i2";
    case DType::I32:
      return "i4";
    case DType::I64:
      return "i8";
    case DType::U8:
      return "u1";
    case DType::U16:
      return "u2";
    case DType::U32:
      return "u4";
    case DType::U64:
      return "u8";
    case DType::F16:
      return "f2";
    case DType::F32:
      return "f4";
    case DType::F64:
      return "f8";
    case DType::BF16:
      return "";
  }
  return "";
}

struct Elements {
  DType dtype;
  bool big_endian;
};

Elements elements_of(const std::string& descr, const std::string& name) {
  if (descr.size() == 3 && std::string_view("<>|=").find(descr[0]) != std::string_view::npos) {
    for (const DType dtype : kAllDTypes) {
      if (code_of(dtype) == std::string_view(descr).substr(1)) return {dtype, descr[0] == '>'};
    }
  }
  throw InputError(name + ": the elements of the .npy array are `" + descr.substr(0, 40) +
                   "`; wanted bool, integers of 8 to 64 bits or floats of 16, 32 or 64 bits" +
                   (descr == "<V2" || descr == "|V2" ? " (bf16 has no .npy form; use .safetensors)" : ""));
}

std::uint32_t read_header_bytes(ByteSource& source) {
  unsigned char start[8] = {};
  if (source.remaining() < sizeof start) throw InputError(source.name() + ": no .npy array: too short");
  source.read(start, sizeof start);
  if (!std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const char*>(start))) {
    throw InputError(source.name() + ": no .npy array: it does not begin with \\x93NUMPY");
  }
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0) {
    throw InputError(
        detail::concat(source.name(), ": .npy version ", version, ".", int{start[7]}, "; wanted 1.0, 2.0 or 3.0"));
  }
  unsigned char length[4] = {};
  source.read(length, version == 1 ? 2 : 4);
  return length[0] | length[1] << 8 | length[2] << 16 | static_cast<std::uint32_t>(length[3]) << 24;
}

void swap_bytes(std::byte* elements, std::int64_t count, int bytes) {
  for (std::int64_t k = 0; k < count; ++k) std::reverse(elements + k * bytes, elements + (k + 1) * bytes);
}

}  // namespace

Tensor read_npy(ByteSource& source) {
  const std::uint32_t header_bytes = read_header_bytes(source);
  if (header_bytes > kMaxHeaderBytes) {
    throw InputError(detail::concat(source.name(), ": the .npy header has ", header_bytes, " bytes; at most ",
                                    kMaxHeaderBytes, " are read"));
  }
  if (header_bytes > source.remaining()) throw InputError(source.name() + ": the file ends inside the .npy header");
  std::string text(header_bytes, '\0');
  source.read(text.data(), text.size());
  Header header = HeaderParser(text, source.name()).parse();
  const Elements elements = elements_of(header.descr, source.name());

  const int element_bytes = byte_size(elements.dtype);
  const std::int64_t count = element_count(header.shape, elements.dtype);
  const auto bytes = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(element_bytes);
  if (bytes > source.remaining()) {
    throw InputError(detail::concat(source.name(),
                                    ": the file ends early: ", TensorType{elements.dtype, header.shape}.to_string(),
                                    " takes ", bytes, " bytes, found ", source.remaining()));
  }
  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  Tensor result = Tensor::empty(header.shape, elements.dtype);
  auto* const memory = static_cast<std::byte*>(runtime::TensorAccess::address(result));
  source.read(memory, static_cast<std::size_t>(bytes));
  if (elements.big_endian) swap_bytes(memory, count, element_bytes);
  if (elements.dtype == DType::Bool) {
    std::transform(memory, memory + count, memory, [](std::byte b) { return std::byte{b != std::byte{0}}; });
  }
  return header.fortran_order ? result.transpose().contiguous() : result;
}

std::string npy_header(const TensorType& type) {
  const std::string_view code = code_of(type.dtype);
  if (code.empty()) throw InputError(std::string(name_of(type.dtype)) + " has no .npy form; write it as .safetensors");
  std::string text = std::string("{'descr': '") + (byte_size(type.dtype) == 1 ? '|' : '<') + std::string(code) +
                     "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : type.shape) text += std::to_string(extent) + ", ";
  // A tuple of one keeps its comma, a longer one does not need it.
  if (type.shape.size() > 1) text.resize(text.size() - 2);
  if (type.shape.size() == 1) text.pop_back();
  text += "), }";
  const auto padded = [&](std::size_t prefix) {
    std::string body = text;
    body.append((kAlignment - (prefix + text.size() + 1) % kAlignment) % kAlignment, ' ');
    return body + '\n';
  };
  constexpr std::size_t kPrefix1 = 10, kPrefix2 = 12;
  std::string body = padded(kPrefix1);
  const bool is_long = body.size() > 0xFFFF;
  if (is_long) body = padded(kPrefix2);
  std::string header(kMagic);
  header += {static_cast<char>(is_long ? 2 : 1), '\0'};
  for (int k = 0; k < (is_long ? 4 : 2); ++k) header += static_cast<char>(body.size() >> (8 * k) & 0xFF);
  return header + body;
}

}  // namespace corrloom::io
