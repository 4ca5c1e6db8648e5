#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "compiler/frontend/ast.h"
#include "compiler/frontend/literals.h"
#include "ir/tensor/graph.h"

namespace corrloom::frontend {

using scalar::AxisId;
using scalar::Expr;
using scalar::SymbolId;
using scalar::TensorId;

/// An index variable: its axis, and its value (the axis, plus where its range begins).
struct IndexVariable {
  AxisId axis;
  Expr value;
};
/// A tensor of the graph: an argument, a local, a result that is defined, a constant list.
struct TensorName {
  TensorId id;
};
/// A value: a dimension, an attribute, a scalar argument, a constant, a name of `let ... in`.
struct ScalarName {
  Expr value;
};
/// A float attribute, which takes the dtype of its context as a literal does.
struct LiteralName {
  ast::Literal literal;
  bool negative = false;
  std::string attribute = {};  ///< its name where it is to stay one (`Context::is_derived`)
};
/// A result whose statement has not come yet.
struct PendingResult {};
/// Something whose definition has an error: using it is no error of its own.
struct PoisonedName {};

struct Binding {
  std::variant<IndexVariable, TensorName, ScalarName, LiteralName, PendingResult, PoisonedName> kind;
  std::string what;  ///< for messages: "the index variable", "the dimension", "the tensor"
  Span span = {};
};

/// The local names at one place of an op, function or shape. A name stands for one thing at a time: nothing hides
/// anything.
class Scope {
 public:
  const Binding* find(const std::string& name) const;
  /// Binds a name that is free, or binds it anew.
  void bind(const std::string& name, Binding binding) { names_.insert_or_assign(name, std::move(binding)); }
  void unbind(const std::string& name) { names_.erase(name); }
  std::vector<std::string> names() const;

 private:
  std::unordered_map<std::string, Binding> names_;
};

/// The names that an expression mentions, each once, in the order of the text.
std::vector<std::string> names_in(const ast::Expr& expr);
/// True when the expression mentions the name.
bool mentions(const ast::Expr& expr, const std::string& name);
/// Calls `visit` with each direct sub-expression, ranges and subscripts included.
void for_each_child(const ast::Expr& expr, const std::function<void(const ast::Expr&)>& visit);

/// The literal and its sign when the expression is one, as `-128`.
struct SignedLiteral {
  const ast::Literal* literal;
  bool negative;
};
std::optional<SignedLiteral> as_literal(const ast::Expr& expr);

}  // namespace corrloom::frontend
