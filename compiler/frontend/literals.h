#pragma once

#include <optional>

#include "compiler/frontend/ast.h"
#include "ir/base/diagnostics.h"
#include "ir/scalar/value.h"

namespace corrloom::frontend {

/// What is known of an expression's dtype before its context is: literals take that of the context.
struct Typing {
  enum class Kind {
    Known,    ///< `dtype`
    Integer,  ///< made of integer literals only
    Decimal,  ///< made of literals, some with a fraction
    Unknown,  ///< it has an error, which is reported elsewhere
  };
  Kind kind = Kind::Unknown;
  DType dtype = DType::I64;

  static Typing known(DType dtype) { return {Kind::Known, dtype}; }
  bool is_known() const { return kind == Kind::Known; }
  bool is_literal() const { return kind == Kind::Integer || kind == Kind::Decimal; }
  /// The dtype without a context: i64 for an integer, f32 for a decimal.
  DType dtype_or_default() const;
};

/// The typing of two operands that must have one dtype.
Typing unify(const Typing& a, const Typing& b);
Typing typing_of(const ast::Literal& literal);

/// The value of a literal, with a minus directly before it or not, in a dtype: rounded once.
/// Reports E0211 when it does not suit the dtype. `span` covers the minus too.
std::optional<scalar::Value> value_of(const ast::Literal& literal, bool negative, DType dtype, const Span& span,
                                      Diagnostics& diagnostics);

}  // namespace corrloom::frontend
