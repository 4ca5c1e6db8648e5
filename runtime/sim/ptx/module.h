#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What PTX text says, before anything is decided about how to run it.
namespace corrloom::sim::ptx {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  TF32,
  F32,
  F32x2,
  F64,
  E4M3,
  E5M2,
  E4M3x2,
  E5M2x2,
};

/// Bits of a value of the type; 1 for predicates, 0 for None.
int type_bits(Type type);
bool is_float(Type type);     ///< F16..E5M2x2
bool is_signed(Type type);    ///< S8..S64
bool is_unsigned(Type type);  ///< U8..U64
bool is_untyped(Type type);   ///< B8..B128
/// The type a modifier such as `f32` names; None when it names none.
Type type_of(std::string_view name);
std::string_view type_name(Type type);

enum class Space : uint8_t { Generic, Reg, Const, Global, Local, Param, Shared, SharedCta, SharedCluster };

/// The place of an initialiser that holds an address.
struct SymbolReference {
  uint64_t byte_offset = 0;  ///< in the variable
  int bytes = 8;
  std::string name;
  int64_t addend = 0;
  bool generic = false;  ///< wrapped in generic()
  int mask_shift = 0;    ///< for 0xFF(name)-style bytes: bits to shift right before storing one byte
  int line = 0;
};

/// A variable outside registers, or a parameter.
struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::B8;
  uint32_t alignment = 1;
  uint64_t bytes = 0;  ///< 0 for `[]`
  bool is_extern = false;
  bool is_visible = false;
  bool is_weak = false;
  bool is_array = false;
  int register_index = -1;         ///< for .reg parameters of functions
  std::vector<std::byte> initial;  ///< empty: zeros
  std::vector<SymbolReference> references;
  int line = 0;
};

enum class OperandKind : uint8_t {
  Register,
  Special,
  Integer,
  Float32,
  Float64,
  Variable,
  Function,
  Label,
  Vector,
  List,
  Address,
  Sink,
};

/// One operand. What the fields mean depends on `kind`.
struct Operand {
  OperandKind kind = OperandKind::Sink;
  bool negated = false;  ///< `!%p`
  bool is_unsigned = false;
  int index = -1;                 ///< register, label, or variable index; see `is_local`
  bool is_local = false;          ///< Variable: index is into Function::variables, else Module::variables
  uint64_t bits = 0;              ///< numbers: two's complement or the bit pattern
  int64_t offset = 0;             ///< Variable, Address: bytes added
  int paired = -1;                ///< register after `|`; -2 for `|_`
  std::string name;               ///< Special (`%tid.x`), Function, Label
  std::string selector;           ///< Register: `b0` of `%r1.b0`, on operands of video instructions
  bool negative = false;          ///< Register: `-%r1`, on operands of vmad
  std::vector<Operand> elements;  ///< Vector, List; Address: base first, then what follows commas
};

/// One instruction as written.
struct Instruction {
  std::string opcode;                  ///< `add`
  std::vector<std::string> modifiers;  ///< `rn`, `f32`
  std::vector<Operand> operands;
  int guard = -1;  ///< register index
  bool guard_negated = false;
  int line = 0;
  uint32_t text_begin = 0, text_end = 0;  ///< byte range in the source
};

/// Where a label stands, and for `.branchtargets`, `.calltargets` and `.callprototype` what it lists.
struct Label {
  std::string name;
  int instruction = -1;  ///< index of the instruction that follows
  bool is_table = false;
  std::vector<int> targets;          ///< labels of .branchtargets
  std::vector<std::string> callees;  ///< of .calltargets
  bool is_prototype = false;
  std::vector<Variable> returns, params;  ///< of .callprototype
  int line = 0;
};

struct Register {
  std::string name;
  Type type = Type::B32;
};

/// A kernel or a function.
struct Function {
  std::string name;
  bool is_entry = false;
  bool is_extern = false;
  bool is_visible = false;
  bool is_weak = false;
  bool has_body = false;
  bool no_return = false;
  std::vector<int> returns, params;  ///< into `variables`
  std::vector<Variable> variables;   ///< parameters and variables of the body, scopes resolved
  std::vector<Register> registers;   ///< only those that are used
  std::vector<Instruction> instructions;
  std::vector<Label> labels;
  std::array<uint32_t, 3> max_block{}, required_block{}, required_cluster{};
  uint32_t max_cluster_blocks = 0, min_blocks = 0, max_registers = 0;
  bool explicit_cluster = false;
  int line = 0;
};

struct Module {
  int version = 0;  ///< 78 for 7.8
  std::vector<std::string> targets;
  int address_bits = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<std::string, std::string, std::less<>> aliases;
  int target_line = 0, version_line = 0;

  const Function* find_function(std::string_view name) const;
};

/// An error in the text. `line` is 1-based.
struct Error {
  int line = 0;
  std::string message;
};

/// Parses PTX text and resolves names. On errors the module is incomplete and `errors` is not empty; never throws on
/// account of the text.
Module parse(std::string_view source, std::vector<Error>& errors);

}  // namespace corrloom::sim::ptx
