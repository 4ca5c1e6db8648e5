#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/kernel/target.h"

/// The seam between compiler and runtime: plain data, nothing of LLVM or CUDA.
namespace corrloom::kernel {

/// A size as a small program over the launch's sizes, in postfix order; a constant when the program is specialised.
/// Evaluated with checked 64-bit arithmetic.
struct SizeOp {
  enum class Kind : std::uint8_t {
    Constant,
    Symbol,
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    And,
    Or,
    Not,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Select
  };
  Kind kind = Kind::Constant;
  std::int64_t operand = 0;  ///< the constant, or the number of the symbol
  friend bool operator==(const SizeOp&, const SizeOp&) = default;
};
struct SizeExpr {
  std::vector<SizeOp> code;

  static SizeExpr constant(std::int64_t value) { return {{{SizeOp::Kind::Constant, value}}}; }
  std::optional<std::int64_t> as_constant() const;
  friend bool operator==(const SizeExpr&, const SizeExpr&) = default;
};

/// The value of a size; nothing on overflow or a malformed program. Comparisons give 0 or 1; division and modulo by 0
/// give 0.
std::optional<std::int64_t> evaluate(const SizeExpr& size, const std::vector<std::int64_t>& symbols);

/// A tensor that the program touches.
struct Buffer {
  enum class Role : std::uint8_t { Input, Output, Workspace };
  std::string name;
  Role role = Role::Input;
  DType dtype = DType::F32;
  std::vector<SizeExpr> extents;    ///< as the op's signature has them; row-major, dense
  int storage_of = -1;              ///< the buffer whose storage this one is (an output `in` an input), or -1
  int first_use = 0, last_use = 0;  ///< positions of kernels, for the reuse of workspaces
  std::vector<std::byte> contents;  ///< of a constant workspace; empty otherwise
  bool constant = false;  ///< an input that stays the same for many calls, or what preparing kernels make of such
};

/// A scalar argument of the op, or a dimension that stays symbolic.
struct Symbol {
  std::string name;
  DType dtype = DType::I64;
  bool dimension = false;
  int buffer = -1, axis = -1;  ///< for a dimension: where its value is read from
};

/// What must hold at entry.
struct EntryCheck {
  SizeExpr holds;
  std::string message;  ///< rendered diagnostic
};

/// A place in the program whose data-dependent check can fail; its position is its number.
struct CheckSite {
  /// The rendered diagnostic, with `{value}` for what the check found and, where it depends on symbols, `{extent}`.
  std::string message;
  SizeExpr extent = {};  ///< of the tensor that is read, there
};

/// One argument of a kernel, in the order that the code expects.
struct Argument {
  enum class Kind : std::uint8_t { Buffer, Scalar, Size, ErrorSlot };
  Kind kind = Kind::Buffer;
  int index = 0;       ///< of the buffer or the symbol
  SizeExpr size = {};  ///< for Size
};

/// One launch. On the host the code is `void entry(void* const* args, int64 first_block, int64 last_block)`, where
/// args[k] points at the buffer's data (Buffer), at the word of the error slot (ErrorSlot), or at 8 bytes that hold the
/// value in their low bytes (Scalar, Size). In PTX the arguments are the kernel's parameters in order: buffers and the
/// error slot as 64-bit addresses, scalars in their own dtype (bool as u8), sizes as 64-bit integers; block b of the
/// grid is %ctaid.x.
struct Kernel {
  std::string name;               ///< symbol of the entry in the code, [A-Za-z_][A-Za-z0-9_]*
  std::string op;                 ///< the compute it came from, for messages
  std::string place;              ///< `file:line:column` of that compute; empty when it has none
  SizeExpr blocks;                ///< number of blocks
  int threads = 1;                ///< threads of a block (1 on the host)
  int cluster = 1;                ///< blocks of a cluster
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory
  std::vector<Argument> arguments;
  bool prepares = false;  ///< computes a constant workspace from constant inputs: its result serves many calls
  double flops = 0;       ///< estimate of floating-point operations, for messages and the grain of threads
  double integer_ops = 0, integer_products = 0;  ///< the same for integers; products are among the operations
  bool uses_dots = false;                        ///< its operations are those of an instruction for short dot products
  double bytes = 0;                              ///< estimate of bytes that must move
};

struct CompiledProgram {
  std::string op;
  Target target;
  std::vector<Symbol> symbols;
  std::vector<Buffer> buffers;
  std::vector<EntryCheck> entry_checks;
  std::vector<CheckSite> check_sites;
  std::vector<Kernel> kernels;  ///< in launch order
  std::string code;             ///< host: bytes of a relocatable object; PTX: its text
  int ptx_version = 0;          ///< 63, 70, ...: the `.version` of the text
};

}  // namespace corrloom::kernel
