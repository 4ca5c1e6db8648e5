#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/source.h"
#include "ir/scalar/expr.h"

/// Tensor IR: what an op computes, one dense graph of few kinds of ops. No loops, no memory, no target.
namespace corrloom::tensor {

using scalar::AxisId;
using scalar::Expr;
using scalar::SymbolId;
using scalar::TensorId;

/// A size that is not known yet (a dimension, i64) or a scalar argument of the op (any dtype).
struct Symbol {
  enum class Kind : std::uint8_t { Dimension, Scalar };
  std::string name;
  DType dtype = DType::I64;
  Kind kind = Kind::Dimension;
  Span span = {};
};

/// An index variable with range [0, extent). `extent` may use symbols and the axes that stand before it (outer ones,
/// outputs before reductions). A written range a..b is stored as [0, max(b - a, 0)) with the variable shifted in the
/// expressions that use it; `origin` is a (for messages; null: 0).
struct Axis {
  AxisId id;
  std::string name;
  Expr extent;
  Expr origin = nullptr;
};

/// In what order the elements of a reduction are combined. Schedules cannot change it; it decides bits.
struct Order {
  enum class Kind : std::uint8_t {
    Ascending,  ///< lexicographic in the reduction's axes as listed, the last one fastest
    Lanes,  ///< element k (lexicographic number) goes to lane k mod `lanes`, each lane ascending, then a halving tree:
            ///< lane l with lane l + n/2
    Any,    ///< free; also what exact operations (integer sums, min, max, any, all) are given
  };
  Kind kind = Kind::Ascending;
  std::int64_t lanes = 1;  ///< a power of two; for Lanes
  /// Elements of a part, a multiple of the lanes: each run of so many is reduced by itself, and the parts are merged in
  /// ascending order, beginning with the first. 0: all elements are one part.
  std::int64_t part = 0;
  friend bool operator==(const Order&, const Order&) = default;
};

/// One carried value of a reduction. In `step`, AccRef{k} is accumulator k before the element; in `merge`, AccRef{k}
/// and AccRef{k, other} are two partial results, the first of the earlier elements.
struct Accumulator {
  std::string name;
  DType dtype;
  Expr init;
  Expr step;
  Expr merge;
};

struct Reduction {
  std::vector<Axis> axes;  ///< outermost first; their order is the order of `Order`
  std::vector<Accumulator> accumulators;
  Order order = {};
};

/// What a `with` clause fixed for the op that a compute came from.
struct Numerics {
  enum class OrderMode : std::uint8_t { Default, Strict, Any };
  OrderMode order = OrderMode::Default;
  bool fast_math = false;
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

/// An argument of the op, in the order of its signature. `parameter` marks a `param` (owned by a module).
struct Input {
  bool parameter = false;
};
/// Values known at compile time, row-major, of the op's dtype and (constant) extents.
struct Literal {
  std::vector<scalar::Value> values;
};
/// result[axes] = body, where the body may use the finished accumulators of the reduction (AccRef). One axis a
/// dimension, extents equal.
struct Compute {
  std::vector<Axis> axes;
  std::optional<Reduction> reduction;
  Expr body;
  Numerics numerics = {};
};
/// result[axes] = source[index], without arithmetic on elements. One axis a dimension, extents equal.
struct View {
  TensorId source;
  std::vector<Axis> axes;
  std::vector<Expr> index;
};
/// The source's elements in row-major order under other extents. No data moves.
struct Reshape {
  TensorId source;
};

/// One value of the graph. `id.index` is its position in `Graph::ops`; producers stand before readers.
struct Op {
  std::string name;
  DType dtype;
  std::vector<Expr> extents;  ///< i64, over symbols only
  std::variant<Input, Literal, Compute, View, Reshape> kind;
  Span span = {};
};

/// A result: a value under the name and in the order of the op's signature. `storage_of` names the input whose storage
/// it takes over.
struct Output {
  std::string name;
  TensorId value;
  TensorId storage_of = {};
};

/// Something that must hold at entry: a `where` clause, equal dimensions, a size that is not negative. `holds` is a
/// bool over symbols.
struct Condition {
  Expr holds;
  std::string title;  ///< what is wrong when it does not hold, in the user's terms, without a full stop
  Span span = {};
  /// Names to show with their values, most telling first: `H = 3`.
  struct Shown {
    std::string name;
    Expr value;
  };
  std::vector<Shown> shown;
};

struct Graph {
  std::string name;
  std::vector<Symbol> symbols;  ///< SymbolId is the position
  std::vector<std::string>
      axis_names;       ///< AxisId is the position: every axis of the graph has an id of its own, with a display name
  std::vector<Op> ops;  ///< TensorId is the position
  std::vector<TensorId> inputs;  ///< tensor arguments, in signature order
  std::vector<Output> outputs;
  std::vector<Condition> conditions;

  const Op& op(TensorId id) const { return ops[static_cast<std::size_t>(id.index)]; }
  Op& op(TensorId id) { return ops[static_cast<std::size_t>(id.index)]; }
  TensorId add(Op op);
  AxisId new_axis(std::string name);
  SymbolId new_symbol(Symbol symbol);
};

/// The reductions of the language.
enum class ReduceKind : std::uint8_t { Sum, Prod, Min, Max, Any, All, ArgMax, ArgMin };
std::string_view name_of(ReduceKind kind);

/// The accumulators of a reduction over `element` (of the operand's dtype; `variable` is the index of argmax and
/// argmin), and through `result` the value that the reduction has, in terms of the finished accumulators. f16 and bf16
/// sums and products accumulate in f32: then `element` may already be f32
/// (`operand` is the language's dtype) and the result is rounded once. Empty: 0, 1, highest/+inf, lowest/-inf, false,
/// true. argmax/argmin: NaN wins, ties take the lowest index; two accumulators (value, index).
std::vector<Accumulator> accumulators_of(ReduceKind kind, DType operand, const Expr& element, const Expr& variable,
                                         Expr& result);

/// True when combining in any order gives the same bits (integer arithmetic, min, max, and, or): then Order::Any is
/// set.
bool is_order_free(const Reduction& reduction);

/// Calls `visit` for every expression of an op: extents, axis extents, init, step, merge, body, view index.
void for_each_expr(const Op& op, const std::function<void(const Expr&)>& visit);
/// Replaces every expression of an op by `replace(expr)`.
void rewrite_exprs(Op& op, const std::function<Expr(const Expr&)>& replace);

}  // namespace corrloom::tensor
