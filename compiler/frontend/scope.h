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
/// A type parameter, which is a dtype.
struct TypeName {
  DType dtype = DType::F32;
};
/// `...D` in shapes, `...d` among indices: so many dimensions or index variables, bound by `pack_part` one by one.
struct PackName {
  enum class Holds { Dimensions, Indices };
  Holds holds = Holds::Dimensions;
  std::size_t rank = 0;
};
/// A result whose statement has not come yet.
struct PendingResult {};
/// Something whose definition has an error: using it is no error of its own.
struct PoisonedName {};

struct Binding {
  std::variant<IndexVariable, TensorName, ScalarName, LiteralName, TypeName, PackName, PendingResult, PoisonedName>
      kind;
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
  /// The names as they can be written, parts of packs left out.
  std::vector<std::string> names() const;

 private:
  std::unordered_map<std::string, Binding> names_;
};

/// The names that an expression mentions, each once, in the order of the text.
std::vector<std::string> names_in(const ast::Expr& expr);
/// The name that one part of a pack is bound as; no text of the language spells it.
std::string pack_part(const std::string& pack, std::size_t part);
/// True when the expression mentions the name, as itself or as a pack.
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
