#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/source.h"

/// The syntax tree of a `.loom` file: the grammar of the language reference, one type for each of its rules.
///
/// Nodes are immutable values; expressions are shared. Every node's span lies in the file and covers its whole text.
/// Nothing is resolved here: `f32(x)` is a `Call`, a dimension, an attribute and a tensor are all a `Read`.
/// No expression is higher than `kMaxHeight` nodes, so recursive functions over the tree are safe.
namespace corrloom::frontend::ast {

struct Expr;
/// Never null, except where a member says that it may be.
using ExprRef = std::shared_ptr<const Expr>;

/// The height of the highest expression that the parser builds; a higher one is an error of the user.
inline constexpr int kMaxHeight = 1000;

/// A name as written. `m.f` is one name; only names that refer to something may be dotted, never a definition.
struct Name {
  std::string text;
  Span span;

  bool is_dotted() const { return text.find('.') != std::string::npos; }
};

/// `...D` in a shape, `...d` in subscripts and index lists (there as `Index::is_pack`).
struct Pack {
  Name name;
};

// ---- Literals ----

/// `1`, `0x1F`, `1_000`, without a sign. `magnitude` is meaningless when the value does not fit 64 bits.
struct Integer {
  std::uint64_t magnitude = 0;
  bool overflows = false;
};
/// `0.5`, `1e-5`, kept as text so that it is rounded once, to the dtype that it takes. Underscores are removed.
struct Decimal {
  std::string digits;
};
/// `inf`
struct Infinity {};
/// `nan`
struct NotANumber {};
/// `true`, `false`
struct Boolean {
  bool value = false;
};

struct Literal {
  std::variant<Integer, Decimal, Infinity, NotANumber, Boolean> value;
  std::string text;  ///< exactly as written
  Span span;
};

// ---- Parts of expressions ----

/// `N` (from 0, then `begin` is null) or `begin .. end`.
struct Range {
  ExprRef begin;
  ExprRef end;
  Span span;
};

/// One entry of a reduction's list or of the left side: `i`, `i: 0..n`, `...d`.
struct Index {
  bool is_pack = false;
  Name name;
  std::optional<Range> range;
  Span span;
};

/// `begin:end:step`; each may be null.
struct Slice {
  ExprRef begin;
  ExprRef end;
  ExprRef step;
};

/// One entry between the brackets of a read.
struct Subscript {
  std::variant<ExprRef, Slice, Pack> kind;
  Span span;
};

enum class PadMode { Edge, Reflect, Wrap };

/// What follows `pad`: a mode, or the value that out-of-range reads give.
struct Padding {
  std::variant<PadMode, ExprRef> kind;
  Span span;  ///< of the mode or the value, without the word `pad`
};

/// An argument of a call or the value of a constant: an expression or a (nested) list `[a, [b, c]]`, never empty.
struct Argument {
  std::variant<ExprRef, std::vector<Argument>> kind;
  Span span;
};

/// `stride = 2` in a call's square brackets.
struct NamedArgument {
  Name name;
  ExprRef value;
  Span span;
};

enum class ReductionKind { Sum, Prod, Max, Min, Any, All, Argmax, Argmin };
enum class UnaryOp { Negate, Not, Complement };
enum class BinaryOp {
  Multiply,
  Divide,
  FloorDivide,
  Modulo,
  Add,
  Subtract,
  ShiftLeft,
  ShiftRight,
  BitAnd,
  BitXor,
  BitOr,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  And,
  Or
};

// ---- Expressions ----

/// `X`, `X[i, j]`, `X[1:, ...d] pad 0`. Without brackets `subscripts` is empty.
struct Read {
  Name name;
  std::vector<Subscript> subscripts;
  std::optional<Padding> padding;
};

/// `f(x)`, `conv2d[stride = 2](X, K)`, `f32(x)`, `max(a, b)`, `reshape(X, [H * W])`.
struct Call {
  Name callee;
  std::vector<NamedArgument> attributes;
  std::vector<Argument> arguments;
};

/// `sum(i, j: 0..n) body`
struct Reduction {
  ReductionKind kind;
  Span kind_span;
  std::vector<Index> indices;
  ExprRef body;
};

/// `-x`, `!x`, `~x`. The minus of `-128` is one of these; its operand is then a `Literal` that is not `parenthesized`.
struct Unary {
  UnaryOp op;
  Span op_span;
  ExprRef operand;
};

struct Binary {
  BinaryOp op;
  Span op_span;
  ExprRef left;
  ExprRef right;
};

/// `if condition then then_value else else_value`
struct If {
  ExprRef condition;
  ExprRef then_value;
  ExprRef else_value;
};

/// `let name = value in body`
struct LetIn {
  Name name;
  ExprRef value;
  ExprRef body;
};

struct Expr {
  std::variant<Literal, Read, Call, Reduction, Unary, Binary, If, LetIn> kind;
  Span span;                   ///< with the parentheses around it, when there are some
  bool parenthesized = false;  ///< at least one pair of parentheses is written around it
  int height = 1;              ///< 1 for a leaf, else one more than the highest operand
};

// ---- Types and signatures ----

/// One entry of a shape.
struct Dim {
  std::variant<ExprRef, Pack> kind;
  Span span;
};

/// `f32[H, W]`, `T[...D]`; a scalar has no dims. `name` is a dtype or a type parameter.
struct Type {
  Name name;
  std::vector<Dim> dims;
  Span span;
};

/// `T: float`
struct TypeParameter {
  Name name;
  Name type_class;
  Span span;
};

/// `stride: int = 1`
struct Attribute {
  Name name;
  Name type;
  ExprRef default_value;  ///< may be null
  Span span;
};

/// `X: f32[N]`, `param W: f32[O, I]`, `gain: f32 = 0.5`
struct Parameter {
  bool is_owned = false;  ///< written with `param`
  Name name;
  Type type;
  std::optional<Literal> default_value;
  Span span;
};

/// `Y: f32[N]`, `W2: f32[O, I] in W`
struct Result {
  Name name;
  Type type;
  std::optional<Name> in;
  Span span;
};

/// `with order = strict`
struct With {
  Name name;
  Name value;
  Span span;
};

// ---- Statements ----

/// `Y[i, j]`, `T[i: N, ...d]`
struct IndexedTarget {
  Name name;
  std::vector<Index> indices;
};
/// `(a, b)`
struct TupleTarget {
  std::vector<Name> names;
};

/// `Y[i] = value`, `let T[i: N] = value`, `let (a, b) = value`, `let h[t, j] along t = value`
struct Statement {
  bool is_let = false;
  std::variant<Name, IndexedTarget, TupleTarget> target;
  Span target_span;
  std::optional<Name> along;
  ExprRef value;
  Span span;
};

// ---- Items ----

/// `import "std"`, `import "filters.loom" as m`
struct Import {
  std::string path;  ///< between the quotation marks
  Span path_span;    ///< with them
  std::optional<Name> alias;
  Span span;
};

/// `const name: type = value`
struct Const {
  Name name;
  std::optional<Type> type;
  Argument value;
  Span span;
};

/// `x: f32` in the list of a scalar function.
struct FnParameter {
  Name name;
  Name type;
  Span span;
};

/// `fn name<T: float>(x: T) -> T = body`
struct Fn {
  Name name;
  std::vector<TypeParameter> type_parameters;
  std::vector<FnParameter> parameters;
  Name result;
  ExprRef body;
  Span span;
};

/// `op name<T: any>[attr: int = 1](X: T[N]) -> Y: T[N] where ... with ... { ... }`
struct Op {
  Name name;
  std::vector<TypeParameter> type_parameters;
  std::vector<Attribute> attributes;
  std::vector<Parameter> parameters;
  std::vector<Result> results;
  std::vector<ExprRef> where;
  std::vector<With> with;
  std::vector<Statement> statements;
  /// Some statement had an error and is left out: what seems to be missing may be in it.
  bool is_broken = false;
  Span signature_span;  ///< from `op` to the last result
  Span span;
};

/// `op name = grad of wrt X, K`
struct Grad {
  Name name;
  Name of;
  std::vector<Name> wrt;
  Span span;
};

using Item = std::variant<Import, Const, Fn, Op, Grad>;

/// A parsed file. Items outside whose statements something was wrong are left out.
struct File {
  SourceRef source;
  std::vector<Item> items;
  /// What the left-out items would have defined: a use of one of these names is no error of its own.
  std::vector<Name> broken_names;
};

/// The spelling in the language: `-`, `!`, `~`.
std::string_view spelling(UnaryOp op);
/// The spelling in the language: `*`, `//`, `&&`, ...
std::string_view spelling(BinaryOp op);
/// The spelling in the language: `sum`, `argmax`, ...
std::string_view spelling(ReductionKind kind);
/// The spelling in the language: `edge`, `reflect`, `wrap`.
std::string_view spelling(PadMode mode);

/// The tree as text, one item, statement or part of a signature a line, each node as `(kind parts...)`.
/// Spans are not in it; equal texts mean equal trees.
std::string print_tree(const File& file);
/// One expression in the form of `print_tree`, on one line.
std::string print_tree(const Expr& expr);

}  // namespace corrloom::frontend::ast
