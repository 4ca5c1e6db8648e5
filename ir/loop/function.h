#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "ir/scalar/expr.h"
#include "ir/tensor/graph.h"

/// Loop IR: one kernel as structured loops over static single-assignment values. Values are scalars or short vectors;
/// loops carry values (accumulators) instead of going through memory.
namespace corrloom::loop {

using scalar::Expr;
using scalar::Opcode;
using scalar::SymbolId;
using scalar::Value;

using ValueId = Id<struct ValueTag>;
using BufferId = Id<struct BufferTag>;

/// A scalar (lanes 1) or a vector of `lanes` elements. Index values are i64, masks are bool.
struct Type {
  DType dtype = DType::I64;
  int lanes = 1;
  friend bool operator==(const Type&, const Type&) = default;
};

/// Where a buffer lives: in device memory, shared by the threads of a block, or private to a thread.
enum class Space : std::uint8_t { Global, Shared, Local };

/// A dense row-major array that the function reads or writes. Global ones are arguments, in order.
struct Buffer {
  std::string name;
  DType dtype;
  std::vector<Expr> extents;  ///< i64 over symbols
  Space space = Space::Global;
  bool written = false;  ///< some store of the function writes it; loads of others are pure
};

/// The same value in every lane.
struct Constant {
  Value value;
};
/// A dimension or a scalar argument of the program.
struct Symbol {
  SymbolId symbol;
};
/// A primitive, lane by lane. The result's type gives Cast and Bitcast their dtype. `if`, `land`, `lor` do not occur:
/// they became select, and, or.
struct Apply {
  Opcode opcode;
  std::vector<ValueId> args;
};
/// A scalar in every lane.
struct Splat {
  ValueId scalar;
};
/// base + k * stride in lane k (i64).
struct Ramp {
  ValueId base;
  std::int64_t stride = 1;
};
/// Lane k of the result is lane `lanes[k]` of the source, or of the source and `other` (same type) one behind the
/// other. One lane gives a scalar.
struct Shuffle {
  ValueId source;
  std::vector<int> lanes;
  ValueId other = {};
};
/// Elements of a buffer. Stage Mapped: one i64 index a dimension, of which any may be a vector; stage Flat: one element
/// offset. Where `mask` (bool, same lanes) is false nothing is touched and the lane is 0; a default id means all lanes.
struct Load {
  BufferId buffer;
  std::vector<ValueId> index;
  ValueId mask = {};
};
/// Writes elements; indices and mask as for Load. Two lanes never write one element. `streaming`: what is written is
/// not read soon, and had better not displace what the caches hold.
struct Store {
  BufferId buffer;
  std::vector<ValueId> index;
  ValueId value;
  ValueId mask = {};
  bool streaming = false;
};
/// The element is going to be read: brings its line nearer. Indices are scalars and may lie outside.
struct Prefetch {
  BufferId buffer;
  std::vector<ValueId> index;
};
/// Where the index is one of 0 .. extent-1 (bool): true there, so that it can mask an access. Elsewhere it is false,
/// and the site and the index go to the error slot of the launch, which keeps the smallest site with the lowest index.
/// Where `mask` is false the result is false and nothing is reported. Checks of the same site are idempotent, so one
/// for all is as good as each.
struct Check {
  int site;        ///< 0 to 65534: the number of the message
  ValueId index;   ///< i64; a scalar stands for every lane
  ValueId extent;  ///< a scalar i64
  ValueId mask = {};
};

struct Instr;
/// A sequence of instructions; `yields` are handed to the enclosing For or If.
struct Block {
  std::vector<Instr> instrs;
  std::vector<ValueId> yields;
};

/// Who runs the iterations of a loop: one after the other, the blocks of the launch, or the threads of a block.
enum class Binding : std::uint8_t { Serial, Block, Thread };

/// body for variable = 0 .. extent-1. `carried[k]` is the body's name of a value that starts as `inits[k]`, becomes
/// `body.yields[k]` after each iteration, and is result k in the end. Only Serial loops carry values.
struct For {
  ValueId variable;
  ValueId extent;
  Binding binding = Binding::Serial;
  std::vector<ValueId> carried;
  std::vector<ValueId> inits;
  Block body;
};
/// Runs one of two blocks; their yields are the results.
struct If {
  ValueId condition;
  Block then;
  Block otherwise;
};

struct Instr {
  std::vector<ValueId> results;
  std::variant<Constant, Symbol, Apply, Splat, Ramp, Shuffle, Load, Store, Prefetch, Check, For, If> kind;
};

/// What is legal at a stage. Both: at most one Block loop, in no other loop, and below it at most one Thread loop, in
/// no other loop, of constant extent.
///   Mapped  one index for each dimension of an access
///   Flat    one offset for each access
enum class Stage : std::uint8_t { Mapped, Flat };

struct ValueInfo {
  Type type;
  std::string name;  ///< for display; empty: numbered
};

struct Function {
  std::string name;
  Stage stage = Stage::Mapped;
  std::vector<tensor::Symbol> symbols;  ///< SymbolId is the position; those of the graph
  std::vector<Buffer> buffers;          ///< BufferId is the position
  std::vector<ValueInfo> values;        ///< ValueId is the position
  Block body;

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<std::size_t>(id.index)]; }
  const ValueInfo& value(ValueId id) const { return values[static_cast<std::size_t>(id.index)]; }
  Type type(ValueId id) const { return value(id).type; }
};

/// Calls `visit` for each block, outermost first.
void for_each_block(const Block& block, const std::function<void(const Block&)>& visit);
/// True when some check of the function may report to the error slot.
bool has_checks(const Function& function);
/// The values an instruction uses (not those used inside its blocks).
std::vector<ValueId> operands(const Instr& instr);

}  // namespace corrloom::loop
