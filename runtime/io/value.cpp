#include "runtime/io/value.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "runtime/cast.h"
#include "runtime/io/file.h"
#include "runtime/random.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

using scalar::Value;
using Kind = GeneratedValue::Kind;

/// A generator and the numbers it takes in parentheses.
struct Generator {
  std::string_view name;
  Kind kind;
  std::size_t least, most;
  std::string_view form;  ///< for messages
};
constexpr Generator kGenerators[] = {
    {"zeros", Kind::Zeros, 0, 0, "zeros[2,3]"},
    {"ones", Kind::Ones, 0, 0, "ones[2,3]"},
    {"full", Kind::Full, 1, 1, "full(0.5)[2,3]"},
    {"arange", Kind::Arange, 0, 2, "arange[2,3] or arange(start,step)[2,3]"},
    {"randn", Kind::Randn, 0, 0, "randn[2,3]"},
    {"randint", Kind::Randint, 2, 2, "randint(0,10)[2,3]"},
    {"rand", Kind::Rand, 0, 0, "rand[2,3]"},
    {"extremes", Kind::Extremes, 0, 0, "extremes[2,3]"},
};

constexpr std::string_view kWords[] = {"true", "false", "inf", "nan"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// What a message shows of a text that may be very long.
std::string shown(std::string_view text) {
  constexpr std::size_t kMaxShown = 80;
  return std::string(text.substr(0, kMaxShown)) + (text.size() > kMaxShown ? "..." : "");
}

/// Walks over a text of the command line.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool accept(char wanted) {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("`") + wanted + "`");
  }
  bool next_is(char wanted) { return !at_end() && text_[at_] == wanted; }

  std::string_view word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  /// A number as written: `-3`, `0x1F`, `1_000`, `0.5`, `1e-5`, `inf`, `nan`, `true`, `false`; `_` and a leading `+`
  /// are left out.
  std::string number() {
    skip_space();
    const std::size_t begin = at_;
    std::string sign;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) sign = text_[at_++] == '-' ? "-" : "";
    const std::size_t start = at_;
    const std::string_view named = word();
    if (std::find(std::begin(kWords), std::end(kWords), named) != std::end(kWords)) return sign + std::string(named);
    at_ = start;
    std::string body = text_.substr(at_).starts_with("0x") ? hex_body() : decimal_body();
    if (body.empty() || (at_ < text_.size() && is_word(text_[at_]))) {
      at_ = begin;
      fail("a number");
    }
    return sign + body;
  }

  std::uint64_t unsigned_number(std::string_view what, std::uint64_t highest) {
    skip_space();
    std::uint64_t value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value > highest) fail(detail::concat(what, " from 0 to ", highest));
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  void back_to(std::size_t place) { at_ = place; }
  std::size_t place() const { return at_; }

  [[noreturn]] void fail(const std::string& wanted) {
    skip_space();
    const std::string found = at_ < text_.size() ? "`" + shown(text_.substr(at_, 20)) + "`" : "the end";
    throw UsageError(
        detail::concat("`", shown(text_), "`: wanted ", wanted, " at column ", at_ + 1, ", found ", found));
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  template <class IsDigit>
  std::string digits(IsDigit is_one) {
    std::string found;
    for (; at_ < text_.size() && (is_one(text_[at_]) || (text_[at_] == '_' && !found.empty())); ++at_) {
      if (text_[at_] != '_') found += text_[at_];
    }
    return found;
  }

  std::string hex_body() {
    at_ += 2;
    const std::string found = digits(is_hex_digit);
    return found.empty() ? "" : "0x" + found;
  }

  std::string decimal_body() {
    std::string body = digits(is_digit);
    if (body.empty()) return body;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      ++at_;
      body += '.' + digits(is_digit);
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      body += text_[at_++];
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) body += text_[at_++];
      const std::string exponent = digits(is_digit);
      if (exponent.empty()) fail("the digits of an exponent");
      body += exponent;
    }
    return body;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

DType parse_dtype_word(Cursor& cursor) {
  const std::size_t begin = cursor.place();
  const std::optional<DType> dtype = parse_dtype(cursor.word());
  if (dtype) return *dtype;
  cursor.back_to(begin);
  cursor.fail("a dtype (bool, i8 to i64, u8 to u64, f16, bf16, f32, f64)");
}

GeneratedValue parse_generated(Cursor& cursor, const Generator& generator) {
  GeneratedValue value{.kind = generator.kind};
  const std::string form = "(as in `" + std::string(generator.form) + "`)";
  if (cursor.accept('(')) {
    do {
      value.numbers.push_back(cursor.number());
    } while (cursor.accept(','));
    cursor.expect(')');
  }
  const std::size_t count = value.numbers.size();
  if (count < generator.least || count > generator.most) {
    cursor.fail(detail::concat("before this ", generator.least, generator.most > generator.least ? " or 2" : "",
                               " numbers in parentheses ", form));
  }
  if (!cursor.next_is('[')) cursor.fail("a shape in brackets " + form);
  cursor.expect('[');
  if (!cursor.accept(']')) {
    do {
      value.shape.push_back(static_cast<std::int64_t>(cursor.unsigned_number("an extent", std::uint64_t{INT64_MAX})));
    } while (cursor.accept(','));
    cursor.expect(']');
  }
  bool has_seed = false;
  while (!cursor.at_end()) {
    if (!value.dtype && cursor.accept(':')) {
      value.dtype = parse_dtype_word(cursor);
    } else if (!has_seed && cursor.accept('@')) {
      value.seed = cursor.unsigned_number("a seed", ~std::uint64_t{0});
      has_seed = true;
    } else {
      cursor.fail("`:dtype`, `@seed` or the end");
    }
  }
  return value;
}

bool is_integer_text(const std::string& number) {
  const bool is_hex = number.find("0x") != std::string::npos;
  return is_hex || number.find_first_not_of("-0123456789") == std::string::npos;
}

/// A number in a dtype; a float may be written in hexadecimal as well. Throws InputError.
Value number_in(const std::string& text, DType dtype) {
  std::string written = text;
  const std::size_t hex = text.find("0x");
  if (is_float(dtype) && hex != std::string::npos) {
    std::uint64_t magnitude = 0;
    const auto [stop, error] = std::from_chars(text.data() + hex + 2, text.data() + text.size(), magnitude, 16);
    if (error == std::errc() && stop == text.data() + text.size())
      written = text.substr(0, hex) + std::to_string(magnitude);
  }
  Value value;
  if (scalar::parse_value(written, dtype, value)) return value;
  throw InputError("`" + shown(text) + "` does not suit " + std::string(name_of(dtype)));
}

/// start + k * step for element k: wrapping in integer dtypes, computed in f64 and rounded once in floats.
Tensor make_arange(const GeneratedValue& value, DType dtype) {
  const std::string start = value.numbers.empty() ? "0" : value.numbers[0];
  const std::string step = value.numbers.size() < 2 ? "1" : value.numbers[1];
  if (value.numbers.empty()) return arange(value.shape, dtype);
  if (dtype == DType::Bool) throw InputError("arange(" + start + ", ...) gives numbers; found dtype bool");
  Tensor result = Tensor::empty(value.shape, dtype);
  auto* const elements = static_cast<std::byte*>(runtime::TensorAccess::address(result));
  const Value first = number_in(start, is_float(dtype) ? DType::F64 : dtype),
              by = number_in(step, is_float(dtype) ? DType::F64 : DType::I64);
  for (std::int64_t k = 0; k < result.element_count(); ++k) {
    const Value element =
        is_float(dtype) ? Value::floating(dtype, first.as_f64() + static_cast<double>(k) * by.as_f64())
                        : Value::integer(dtype, static_cast<std::int64_t>(static_cast<std::uint64_t>(first.as_i64()) +
                                                                          static_cast<std::uint64_t>(k) *
                                                                              static_cast<std::uint64_t>(by.as_i64())));
    runtime::write_element(elements + k * byte_size(dtype), element);
  }
  return result;
}

/// The values of a dtype at which arithmetic turns: zeros of both signs, the ends, what lies next to them, and for
/// floats infinities, NaN, denormals and numbers around 1.
std::vector<Value> edge_values(DType dtype) {
  if (dtype == DType::Bool) return {Value::boolean(false), Value::boolean(true)};
  std::vector<Value> values;
  if (!is_float(dtype)) {
    for (const std::int64_t small : {0, 1, 2, 3, -1, -2}) values.push_back(Value::integer(dtype, small));
    const int width = bit_width(dtype);
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - width), top = std::uint64_t{1} << (width - 1);
    for (const std::uint64_t bits : {ones, top, top - 1, ones - 1, top + 1}) values.push_back({dtype, bits & ones});
    return values;
  }
  using Limits = std::numeric_limits<double>;
  for (const double value :
       {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()})
    values.push_back(Value::floating(dtype, value));
  const int width = bit_width(dtype);
  const std::uint64_t infinity = Value::floating(dtype, Limits::infinity()).bits,
                      sign = std::uint64_t{1} << (width - 1);
  const std::uint64_t one = Value::floating(dtype, 1.0).bits;
  // The least denormal, one in their middle, the largest finite number, and the neighbours of 1.
  for (const std::uint64_t bits :
       {std::uint64_t{1}, std::uint64_t{1} | sign, one / 64, infinity - 1, (infinity - 1) | sign, one + 1, one - 1})
    values.push_back({dtype, bits});
  return values;
}

/// One in three elements is one of `edge_values`, the others are ordinary numbers.
Tensor make_extremes(const Shape& shape, DType dtype, std::uint64_t seed) {
  const std::vector<Value> edges = edge_values(dtype);
  Tensor result = Tensor::empty(shape, dtype);
  auto* const elements = static_cast<std::byte*>(runtime::TensorAccess::address(result));
  for (std::int64_t k = 0; k < result.element_count(); ++k) {
    const std::uint64_t bits = runtime::draw(seed, static_cast<std::uint64_t>(k));
    Value value = edges[(bits / 3) % edges.size()];
    if (bits % 3 != 0 && is_float(dtype)) value = Value::floating(dtype, static_cast<double>(bits % 2001) / 250 - 4);
    if (bits % 3 != 0 && is_integer(dtype)) value = Value::integer(dtype, static_cast<std::int64_t>(bits % 10));
    runtime::write_element(elements + k * byte_size(dtype), value);
  }
  return result;
}

Tensor make_generated(const GeneratedValue& value, std::optional<DType> wanted) {
  const DType by_kind = value.kind == Kind::Randint ? DType::I64 : DType::F32;
  const DType dtype = value.dtype ? *value.dtype : wanted.value_or(by_kind);
  switch (value.kind) {
    case Kind::Zeros:
      return zeros(value.shape, dtype);
    case Kind::Ones:
      return ones(value.shape, dtype);
    case Kind::Full:
      return full(value.shape, number_in(value.numbers[0], dtype));
    case Kind::Arange:
      return make_arange(value, dtype);
    case Kind::Rand:
      return rand(value.shape, dtype, cpu(), value.seed);
    case Kind::Randn:
      return randn(value.shape, dtype, cpu(), value.seed);
    case Kind::Randint:
      return randint(number_in(value.numbers[0], DType::I64).as_i64(), number_in(value.numbers[1], DType::I64).as_i64(),
                     value.shape, dtype, cpu(), value.seed);
    case Kind::Extremes:
      return make_extremes(value.shape, dtype, value.seed);
  }
  CORRLOOM_CHECK(false, "a generator without a rule");
}

/// The dtype of a number when nobody wants one.
DType natural_dtype(const std::string& number) {
  if (number == "true" || number == "false") return DType::Bool;
  return is_integer_text(number) ? DType::I64 : DType::F32;
}

}  // namespace

ValueSpec parse_value(std::string_view text) {
  const auto [path, key] = split_key(std::string(text));
  if (has_known_suffix(path)) return FileValue{path, key};
  Cursor cursor(text);
  const std::string_view name = cursor.word();
  for (const Generator& generator : kGenerators) {
    if (name == generator.name) return parse_generated(cursor, generator);
  }
  cursor.back_to(0);
  const bool is_word_number = std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
  const std::size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  const bool begins_number = first < text.size() && (is_digit(text[first]) || text[first] == '-' || text[first] == '+');
  if (!is_word_number && !begins_number) {
    cursor.fail(
        "a file (.npy, .npz:KEY, .safetensors:KEY, .png, .pgm, .ppm), a number, or a generated value such as "
        "`randn[2,3]`");
  }
  NumberValue number{cursor.number()};
  if (!cursor.at_end()) cursor.fail("the end of the number");
  return number;
}

Tensor make_tensor(const ValueSpec& value, std::optional<DType> wanted) {
  return match(
      value, [](const FileValue& file) { return load(file.key.empty() ? file.path : file.path + ":" + file.key); },
      [&](const NumberValue& number) {
        return Tensor::from_scalar(number_in(number.text, wanted.value_or(natural_dtype(number.text))));
      },
      [&](const GeneratedValue& generated) { return make_generated(generated, wanted); });
}

Value make_scalar(const ValueSpec& value, DType dtype) {
  const auto* const number = std::get_if<NumberValue>(&value);
  if (number == nullptr) throw InputError("a scalar operand takes a number, found a tensor");
  return number_in(number->text, dtype);
}

TypeSpec parse_type(std::string_view text) {
  Cursor cursor(text);
  TypeSpec type{.dtype = parse_dtype_word(cursor)};
  cursor.expect('[');
  if (!cursor.accept(']')) {
    do {
      if (cursor.accept('?')) {
        type.extents.emplace_back();
      } else {
        type.extents.emplace_back(
            static_cast<std::int64_t>(cursor.unsigned_number("`?` or an extent", std::uint64_t{INT64_MAX})));
      }
    } while (cursor.accept(','));
    cursor.expect(']');
  }
  if (!cursor.at_end()) cursor.fail("the end of the type");
  return type;
}

}  // namespace corrloom::io
