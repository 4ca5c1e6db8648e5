#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/tensor/graph.h"

/// Statements in index notation: what a graph is taken apart into, what derivatives are made of, and what is printed.
namespace corrloom::grad {

using scalar::AxisId;
using scalar::Expr;
using scalar::SymbolId;
using scalar::TensorId;
using tensor::ReduceKind;

/// An index variable with the range [begin, end), empty when `end` is not above `begin`; `begin` is null for 0. Both
/// may use variables outside of it.
struct Loop {
  AxisId axis;
  Expr begin = nullptr;
  Expr end;
};

/// `sum(p, q) body`, with the language's rules for narrow floats: f16 and bf16 accumulate in f32.
struct Reduce {
  ReduceKind kind = ReduceKind::Sum;
  DType dtype = DType::F32;  ///< of its value
  std::vector<Loop> loops;
  Expr body;
};

/// `target[axes] = body`. In `body`, AccRef k stands for reduction k.
struct Statement {
  TensorId target;
  std::vector<AxisId> axes;  ///< each over the target's extent
  Expr body;                 ///< null for a reshape
  std::vector<Reduce> reductions;
  TensorId reshaped = {};  ///< `target = reshape(reshaped, [extents])`
};

/// What a name of the op stands for.
struct Tensor {
  enum class Kind {
    Input,    ///< an argument of the op, or of its derivative
    Literal,  ///< a constant list
    Local,    ///< defined by a `let`
    Result,   ///< a result of what is printed
  };
  std::string name;
  DType dtype = DType::F32;
  std::vector<Expr> extents;
  Kind kind = Kind::Local;
};

/// An op in index notation. Tensors and axes are numbered across all statements.
struct Notation {
  std::vector<Tensor> tensors;          ///< by TensorId
  std::vector<std::string> axis_names;  ///< by AxisId; wishes, made unique where they are printed
  std::vector<tensor::Symbol> symbols;  ///< by SymbolId
  std::vector<Statement> statements;    ///< producers before readers

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<std::size_t>(id.index)]; }
  Tensor& tensor(TensorId id) { return tensors[static_cast<std::size_t>(id.index)]; }
  const std::string& name(AxisId id) const { return axis_names[static_cast<std::size_t>(id.index)]; }
  TensorId add(Tensor tensor);
  AxisId new_axis(std::string name);
};

/// True for the extent of a pack, `...D` of a signature: a dimension whose name has a point. Its variables are only
/// written as they stand, never in arithmetic, and have no written range.
bool is_pack_extent(const Notation& notation, const Expr& extent);

/// Calls `visit` with every expression of a statement: the body, and bodies and ranges of its reductions.
void for_each_expr(const Statement& statement, const std::function<void(const Expr&)>& visit);

/// `expr` with axes replaced; subscripts, ranges and other integers that change are brought into the form of a
/// polynomial.
Expr substitute(const Expr& expr, const std::function<Expr(AxisId)>& replacement);

/// The element of a tensor at these axes.
Expr element(const Notation& notation, TensorId tensor, const std::vector<AxisId>& axes);

/// The statements of a graph. A reduction that is none of the language's is an internal error.
Notation notation_of(const tensor::Graph& graph);

}  // namespace corrloom::grad
