#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/frontend/library.h"
#include "compiler/frontend/scope.h"
#include "ir/tensor/graph.h"

/// Inside of the front end: what everything that is lowered into one graph shares.
namespace corrloom::frontend {

/// Most nodes of syntax that one graph is made of, calls included, and how deep calls and expressions nest.
inline constexpr int kMaxLoweredNodes = 500'000;
inline constexpr int kMaxLoweringDepth = 1200;
inline constexpr int kMaxCallDepth = 64;

/// One graph under construction. Functions that lower return null, or nothing, after an error, which is reported.
struct Context {
  Context(const Library& library, Diagnostics& diagnostics) : library(library), diagnostics(diagnostics) {}

  const Library& library;
  Diagnostics& diagnostics;
  tensor::Graph graph = {};
  /// Whether a callee may be used; reports what is wrong with it the first time.
  std::function<bool(const Module&, const ast::Item&, const Span& use)> is_sound = [](const Module&, const ast::Item&,
                                                                                      const Span&) { return true; };
  /// The value of a constant, or null when it has none.
  std::function<const ConstantValue*(const Module&, const ast::Const&, const Span& use)> find_constant;
  const ConstantValue* constant_value(const Module& module, const ast::Const& constant, const Span& use = {}) const {
    return find_constant(module, constant, use);
  }
  /// True while an op is checked for all values of its attributes, which are symbols then.
  bool is_generic = false;
  /// True while statements are left out because of errors in them: what seems to be missing may be there.
  bool has_gaps = false;
  /// True while a graph is made to be differentiated: float attributes are symbols then, too.
  bool is_derived = false;
  std::unordered_set<SymbolId> attribute_symbols = {};
  std::vector<Expr> axis_extents = {};  ///< by AxisId

  std::unordered_map<const ast::Const*, TensorId> constant_tensors = {};
  int nodes_left = kMaxLoweredNodes;
  int depth = 0;
  int call_depth = 0;
  bool is_too_large = false;

  AxisId new_axis(const std::string& name, Expr extent);
  /// An extent to propose in a message: a dimension of the op, or a number where it has none.
  std::string some_extent() const;
  const std::vector<Expr>& extents(TensorId id) const { return graph.op(id).extents; }
  std::size_t rank(TensorId id) const { return extents(id).size(); }
  /// Adds a condition, unless it holds for sure. Reports E0230 when it cannot hold for any arguments.
  void require(tensor::Condition condition);
  /// Requires two extents to be equal; `what` begins the title.
  void require_equal(const Expr& a, const Expr& b, std::string title, const Span& span,
                     std::vector<tensor::Condition::Shown> shown);
  /// The symbol for a float attribute in the dtype that it takes.
  Expr float_attribute(const std::string& name, DType dtype);
  /// Counts one node. False, with one E0104 a graph, when there are too many or they are nested too deeply.
  bool enter(const Span& span);
  void leave() { --depth; }
  /// The graph's tensor for a constant list.
  TensorId constant_tensor(const ast::Const& constant, const ConstantValue& value);
};

/// Reports E0290.
Diagnostic& report_unsupported(Diagnostics& diagnostics, const Span& span, const std::string& construct);

// ---- Facts about expressions ----

/// True when two extents are the same for all values of the symbols.
bool same_extent(const Expr& a, const Expr& b);
/// An extent with sums and multiples of symbols collected.
Expr canonical_extent(const Expr& extent);
/// The extent, or the constant or symbol that it comes to: `H - 1 + 1` is `H`.
Expr collapsed_extent(const Expr& extent);
/// True when two products of extents are the same for all values of the symbols.
bool same_product(const std::vector<Expr>& a, const std::vector<Expr>& b);
/// True when the expression cannot be negative, as dimensions and axes are not (overflow aside).
bool is_nonnegative(const tensor::Graph& graph, const Expr& expr);
/// True for what conditions and extents of tensors may use: symbols and constants, no axes and no reads.
bool is_symbolic(const Expr& expr);
bool has_reads(const Expr& expr);
/// The axes that an expression uses, in the order of their ids.
std::vector<AxisId> axes_in(const Expr& expr);
/// Symbols of the expressions with their names, to be shown in an error.
void show_symbols(const tensor::Graph& graph, const Expr& expr, std::vector<tensor::Condition::Shown>& shown);
/// max(expr, 0), or the expression where that is the same.
Expr at_least_zero(const tensor::Graph& graph, const Expr& expr);
/// The product of extents.
Expr product_of(const std::vector<Expr>& extents);
/// `value` behind a Fence where a contraction could otherwise cross the end of a `let`, function or call.
Expr fenced(const Expr& value);
/// `the extent of `Y` along axis 1`
std::string extent_text(const std::string& tensor, std::size_t axis);
/// A name in quotes of code.
std::string quoted(const std::string& text);
std::string quoted(DType dtype);
/// "1 subscript", "2 subscripts"
std::string counted(std::size_t count, const std::string& noun);

}  // namespace corrloom::frontend
