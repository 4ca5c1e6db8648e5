#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/base/ids.h"
#include "ir/base/source.h"
#include "ir/scalar/value.h"

namespace corrloom::scalar {

enum class Opcode : std::uint8_t {
#define CORRLOOM_OPCODE(name, text, arity, operands, result, kind, callable, summary) name,
#include "ir/scalar/opcodes.def"
#undef CORRLOOM_OPCODE
};
enum class Operands : std::uint8_t { Any, Number, Integer, IntegerOrBool, Float, Bool };
enum class Result : std::uint8_t { Same, Boolean, Given };
enum class OpcodeKind : std::uint8_t { Primitive, Function };

/// One row of `opcodes.def`.
struct OpcodeInfo {
  Opcode opcode;
  std::string_view text;
  int arity;
  Operands operands;
  Result result;
  OpcodeKind kind;
  bool callable;
  std::string_view summary;
};
const OpcodeInfo& info(Opcode opcode);
std::span<const OpcodeInfo> all_opcodes();
/// The opcode of that IR name, or nothing.
std::optional<Opcode> parse_opcode(std::string_view text);
/// True when `operands` includes the dtype.
bool takes(Operands operands, DType dtype);

using AxisId = Id<struct AxisTag>;      ///< An index variable: of a compute, its reduction, or a view.
using SymbolId = Id<struct SymbolTag>;  ///< A dimension or a scalar argument of the graph or function.
using TensorId = Id<struct TensorTag>;  ///< What a read reads: a value of a tensor graph.

struct Node;
/// An immutable expression; nodes are shared, so a body is a DAG. Never null where a comment does not say so.
using Expr = std::shared_ptr<const Node>;

struct Constant {
  Value value;
};
/// The current value of an index variable, an i64.
struct AxisRef {
  AxisId axis;
};
/// A dimension (an i64) or a scalar argument.
struct SymbolRef {
  SymbolId symbol;
};
/// Inside an accumulator's `step` and a compute's body: accumulator number `index`. Inside `merge`, `other` marks the
/// right-hand side.
struct AccRef {
  int index = 0;
  bool other = false;
};

/// What a read outside its tensor gives: nothing is outside (None), `pad_value`, or an element inside.
enum class PadMode : std::uint8_t { None, Value, Edge, Reflect, Wrap };
/// How "this read stays inside" is established: by proof, or by a test at each element that writes the error slot.
enum class ReadCheck : std::uint8_t { Unchecked, Proven, Runtime };

/// An element of a tensor: one i64 subscript a dimension.
struct Read {
  TensorId source;
  std::vector<Expr> index;
  PadMode pad = PadMode::None;
  Expr pad_value = nullptr;  ///< of the tensor's dtype; only with PadMode::Value
  ReadCheck check = ReadCheck::Unchecked;
  Span span = {};  ///< the read in the user's text, for messages; not part of the IR text
};

/// A primitive or a function applied to its operands.
struct Apply {
  Opcode opcode;
  std::vector<Expr> args;
};

struct Node {
  std::variant<Constant, AxisRef, SymbolRef, AccRef, Read, Apply> kind;
  DType dtype;
  int depth;  ///< longest way to a leaf

  /// Releases the operands in a loop: a deep expression does not exhaust the stack.
  ~Node();
};

/// Deepest expression that the front end builds (it reports a deeper one, E0104) and that passes fold to, so recursion
/// over those is safe. `expand` may go beyond it, since each function becomes a chain of operations: walk expanded
/// expressions with `for_each_node`, which does not recurse.
inline constexpr int kMaxDepth = 4000;

// Builders. Each checks operand dtypes and count with CORRLOOM_CHECK; none of them simplifies.
Expr constant(Value value);
Expr constant_i64(std::int64_t value);
Expr axis(AxisId id);
Expr symbol(SymbolId id, DType dtype);
Expr accumulator(int index, DType dtype, bool other = false);
Expr read(Read read, DType dtype);
/// For opcodes whose result follows from their operands.
Expr apply(Opcode opcode, std::vector<Expr> args);
/// For Cast and Bitcast. `cast` to the dtype it already has gives a Cast node all the same: it is never elided.
Expr cast(Expr operand, DType to);
Expr bitcast(Expr operand, DType to);

/// The constant's value when `expr` is a Constant.
const Value* as_constant(const Expr& expr);
std::optional<std::int64_t> as_i64(const Expr& expr);
const Read* as_read(const Expr& expr);
/// The operands when `expr` applies that opcode.
const Apply* as_apply(const Expr& expr, Opcode opcode);
bool is_constant_i64(const Expr& expr, std::int64_t value);

/// Structural equality and a hash that agrees with it; spans do not count. Linear in the DAG.
bool same(const Expr& a, const Expr& b);
std::size_t hash_of(const Expr& expr);

/// The direct sub-expressions: subscripts, pad value, operands.
std::vector<Expr> children(const Expr& expr);

/// Calls `visit` once for each distinct node, operands first.
void for_each_node(const Expr& expr, const std::function<void(const Expr&)>& visit);

/// Rebuilds an expression from the leaves up; each distinct node is visited once, so sharing is kept. `replace` gets a
/// node whose children are already replaced and returns its replacement, or null to keep it. Untouched sub-expressions
/// keep their identity.
Expr rewrite(const Expr& expr, const std::function<Expr(const Expr&)>& replace);

/// `expr` with the axes given replaced.
Expr substitute_axes(const Expr& expr, const std::function<Expr(AxisId)>& replacement);

/// Folds constants and identities that hold for every value, integer index arithmetic above all: x + 0, x * 1, x * 0
/// (integers), x // 1, x % 1, nested constants, `if`/`select` on a constant condition. Floats are folded only when
/// every operand is constant. Bits never change.
Expr simplify(const Expr& expr);

/// Writes expressions as IR text: `add(%x[i, mul(2:i64, j)], 0.5:f32)`. The functions of `Names` give the whole names,
/// printed as they are.
///
///     expr     = constant | NAME | read | OP "(" expr {"," expr} ")"
///              | ("cast" | "bitcast") "." DTYPE "(" expr ")" | SHARED ["=" expr]
///     constant = "true" | "false" | TEXT ":" DTYPE
///     read     = NAME "[" [expr {"," expr}] "]" ["pad" pad] ["check" ("runtime" | "proven")]
///     pad      = "edge" | "reflect" | "wrap" | constant | "(" expr ")"
///     SHARED   = "$" NUMBER
///
/// TEXT is that of `to_text(Value)`: `2:i64`, `-0.5:f32`, `nan:0x7fc00001:f32`. Numbers of SHARED count from 0 in each
/// text.
///
/// A read or operation with several users is written at its first use, as `$0 = exp(%x[i])`, and is `$0` afterwards, so
/// the text is as long as the DAG and keeps its sharing: `mul($0 = exp(%x[i]), $0)`.
struct Names {
  std::function<std::string(AxisId)> axis;
  std::function<std::string(SymbolId)> symbol;
  std::function<std::string(TensorId)> tensor;
  std::function<std::string(int, bool)> accumulator;
};
std::string to_text(const Expr& expr, const Names& names);

}  // namespace corrloom::scalar
