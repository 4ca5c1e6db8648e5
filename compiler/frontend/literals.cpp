#include "compiler/frontend/literals.h"

#include <cmath>
#include <limits>
#include <string>

#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Value;

/// Greatest magnitude that the dtype holds on that side of zero.
std::uint64_t limit_of(DType dtype, bool negative) {
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bit_width(dtype));
  if (!is_signed_integer(dtype)) return negative ? 0 : ones;
  return negative ? (ones >> 1) + 1 : ones >> 1;
}

std::string range_text(DType dtype) {
  const std::string low = is_signed_integer(dtype) ? "-" + std::to_string(limit_of(dtype, true)) : "0";
  return std::string(name_of(dtype)) + " holds " + low + " to " + std::to_string(limit_of(dtype, false));
}

/// Reads the text of a number into a float dtype; nothing when it is too large for it.
std::optional<Value> float_value(const std::string& digits, DType dtype) {
  Value value;
  if (!scalar::parse_value(digits, dtype, value) || !std::isfinite(value.as_f64())) return {};
  return value;
}

Value with_sign(Value value, bool negative) {
  if (negative) value.bits ^= std::uint64_t{1} << (bit_width(value.dtype) - 1);
  return value;
}

class Reader {
 public:
  Reader(const ast::Literal& literal, bool negative, DType dtype, const Span& span, Diagnostics& diagnostics)
      : negative_(negative), dtype_(dtype), span_(span), diagnostics_(diagnostics) {
    text_ = (negative ? "-" : "") + literal.text;
  }

  std::optional<Value> operator()(const ast::Integer& integer) {
    if (is_float(dtype_)) {
      if (integer.overflows) return too_large("an integer literal has at most 64 bits; write a decimal");
      const auto value = float_value(std::to_string(integer.magnitude), dtype_);
      if (!value) return too_large("");
      return with_sign(*value, negative_);
    }
    if (dtype_ == DType::Bool) return wrong_kind("write `true` or `false`");
    if (integer.overflows || integer.magnitude > limit_of(dtype_, negative_)) return too_large(range_text(dtype_));
    const auto magnitude = static_cast<std::int64_t>(integer.magnitude);
    return Value::integer(dtype_, negative_ ? static_cast<std::int64_t>(0 - integer.magnitude) : magnitude);
  }
  std::optional<Value> operator()(const ast::Decimal& decimal) {
    if (!is_float(dtype_)) return wrong_kind("a literal with a fraction suits a float only");
    const auto value = float_value(decimal.digits, dtype_);
    if (!value) return too_large("");
    return with_sign(*value, negative_);
  }
  std::optional<Value> operator()(const ast::Infinity&) {
    if (!is_float(dtype_)) return wrong_kind("`inf` suits a float only");
    return with_sign(Value::floating(dtype_, std::numeric_limits<double>::infinity()), negative_);
  }
  std::optional<Value> operator()(const ast::NotANumber&) {
    if (!is_float(dtype_)) return wrong_kind("`nan` suits a float only");
    return with_sign(Value::floating(dtype_, std::numeric_limits<double>::quiet_NaN()), negative_);
  }
  std::optional<Value> operator()(const ast::Boolean& boolean) {
    if (negative_) return wrong_kind("a bool has no sign");
    return Value::boolean(boolean.value);
  }

 private:
  std::optional<Value> too_large(const std::string& note) {
    return fail("`" + text_ + "` does not fit " + std::string(name_of(dtype_)), note);
  }
  std::optional<Value> wrong_kind(const std::string& note) {
    return fail("`" + text_ + "` stands where " + std::string(name_of(dtype_)) + " is wanted", note);
  }
  std::optional<Value> fail(std::string title, const std::string& note) {
    Diagnostic& error =
        diagnostics_.report(Code::E0211, span_, std::move(title), "takes the dtype " + std::string(name_of(dtype_)));
    if (!note.empty()) error.note(note);
    return {};
  }

  bool negative_;
  DType dtype_;
  Span span_;
  std::string text_;
  Diagnostics& diagnostics_;
};

}  // namespace

DType Typing::dtype_or_default() const {
  if (kind == Kind::Decimal) return DType::F32;
  return kind == Kind::Known ? dtype : DType::I64;
}

Typing unify(const Typing& a, const Typing& b) {
  if (a.is_known()) return a;
  if (b.is_known()) return b;
  if (a.kind == Typing::Kind::Unknown || b.kind == Typing::Kind::Unknown) return {};
  return a.kind == Typing::Kind::Decimal ? a : b;
}

Typing typing_of(const ast::Literal& literal) {
  return match(
      literal.value, [](const ast::Integer&) { return Typing{Typing::Kind::Integer}; },
      [](const ast::Decimal&) { return Typing{Typing::Kind::Decimal}; },
      [](const ast::Infinity&) { return Typing{Typing::Kind::Decimal}; },
      [](const ast::NotANumber&) { return Typing{Typing::Kind::Decimal}; },
      [](const ast::Boolean&) { return Typing::known(DType::Bool); });
}

std::optional<scalar::Value> value_of(const ast::Literal& literal, bool negative, DType dtype, const Span& span,
                                      Diagnostics& diagnostics) {
  Reader reader(literal, negative, dtype, span, diagnostics);
  return std::visit(reader, literal.value);
}

}  // namespace corrloom::frontend
