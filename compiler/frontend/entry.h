#pragma once

#include <functional>
#include <optional>

#include "ir/scalar/expr.h"

namespace corrloom::frontend {

/// The value of an expression over symbols in exact arithmetic, or why it has none.
struct EntryValue {
  enum class Kind {
    Exact,
    Overflow,     ///< an i64 operation leaves 64 bits
    ZeroDivisor,  ///< a `//` or `%` by zero
    Unknown,      ///< it uses something that has no value: an axis, a read, a symbol without one
  };
  Kind kind = Kind::Unknown;
  scalar::Value value = {};
};

/// Gives the value of a symbol, or nothing.
using SymbolLookup = std::function<std::optional<scalar::Value>(scalar::SymbolId)>;

/// Evaluates an expression; branches that are not taken do not matter.
EntryValue evaluate_at_entry(const scalar::Expr& expr, const SymbolLookup& symbols);

}  // namespace corrloom::frontend
