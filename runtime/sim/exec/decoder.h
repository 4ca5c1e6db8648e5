#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/sim/exec/program.h"
#include "runtime/sim/machine.h"
#include "runtime/sim/ptx/lexer.h"
#include "runtime/sim/ptx/module.h"

/// Turns parsed PTX into the dense form. Every family of instructions has a file that both checks and executes it.
namespace corrloom::sim::exec {

/// The names a special register has; the order of specials.def.
enum class Special : uint16_t {
#define SPECIAL(id, name, bytes, dynamic) id,
#include "runtime/sim/exec/specials.def"
#undef SPECIAL
};

/// The modifiers of one instruction, consumed one by one; what is left at the end is an error.
class Modifiers {
 public:
  explicit Modifiers(const ptx::Instruction& instruction) : names_(instruction.modifiers), line_(instruction.line) {}
  /// Consumes a modifier if it is there.
  bool take(std::string_view name);
  /// Consumes the first of `names` that is there and returns its index; -1 when there is none.
  int take_one(std::initializer_list<std::string_view> names);
  /// Consumes the first modifier that names a type; throws when there is none.
  ptx::Type type();
  /// Like type(), None when there is none.
  ptx::Type optional_type();
  bool has(std::string_view name) const;
  /// Throws unless all were consumed.
  void finish() const;
  /// What is left; a copy, so that callers may consume while they walk over it.
  std::vector<std::string> rest() const { return names_; }

 private:
  std::vector<std::string> names_;
  int line_;
};

/// Where variables of a module live; made once per module.
struct SymbolTable {
  const ptx::Module* module = nullptr;
  std::vector<DeviceAddress> addresses;  ///< of module variables in memory; 0 for .shared
};

class Decoder;

/// One instruction while it is decoded.
struct Decode {
  Decoder& decoder;
  const ptx::Instruction& source;
  Modifiers mods;
  Inst inst;

  [[noreturn]] void fail(const std::string& message) const;
  size_t operand_count() const { return source.operands.size(); }
  const ptx::Operand& operand(size_t i) const;
  /// Throws unless the instruction has exactly (or between) that many operands.
  void expect_operands(size_t count) const;
  void expect_operands(size_t least, size_t most) const;
  /// Throws unless the module's version and target are at least these; `accelerated` asks for an `a` target.
  void require(int ptx_version, int target, bool accelerated = false) const;
  /// Slots of operand i, with the checks of the ISA's type rules.
  Slot reads(size_t i, ptx::Type type);
  Slot writes(size_t i, ptx::Type type);
  /// The same where the ISA allows registers wider than the type (ld, st, cvt).
  Slot reads_relaxed(size_t i, ptx::Type type);
  Slot writes_relaxed(size_t i, ptx::Type type);
  Slot reads_predicate(size_t i);
  Slot writes_predicate(size_t i);
  /// An operand that must be an integer constant.
  uint64_t constant(size_t i) const;
};

using DecodeFn = void (*)(Decode&);
using OpcodeTable = std::unordered_map<std::string_view, DecodeFn>;

/// The tables of the families; `float_table` is asked first when a modifier names a floating-point type.
void register_integer(OpcodeTable& table);
void register_bits(OpcodeTable& table);
void register_float(OpcodeTable& table);
void register_compare(OpcodeTable& table);
void register_video(OpcodeTable& table);
void register_convert(OpcodeTable& table);
void register_move(OpcodeTable& table);
void register_memory(OpcodeTable& table);
void register_atomic(OpcodeTable& table);
void register_control(OpcodeTable& table);
void register_stack(OpcodeTable& table);
void register_collective(OpcodeTable& table);
void register_async(OpcodeTable& table);
void register_matrix(OpcodeTable& table);

/// Decodes one function of a kernel program.
class Decoder {
 public:
  Decoder(const ptx::Module& module, const SymbolTable& symbols, KernelProgram& program, const Arch& arch,
          std::string_view source_text);

  /// Decodes `entry` and everything it can reach. Errors are appended.
  void decode_kernel(const ptx::Function& entry, std::vector<ptx::Error>& errors);

  // -- for the families --
  Slot read_operand(const ptx::Operand& operand, ptx::Type type, bool relaxed, int line);
  Slot write_operand(const ptx::Operand& operand, ptx::Type type, bool relaxed, int line);
  Slot read_predicate(const ptx::Operand& operand, int line);
  Slot write_predicate(const ptx::Operand& operand, int line);
  Slot write_predicate_register(int index, int line);
  Slot constant_slot(uint64_t bits, uint32_t bytes);
  Slot predicate_constant(bool value);
  Slot temporary(uint32_t bytes);
  Slot carry_slot(bool reads, bool writes);
  /// Fills the address fields (a, imm, wide_address) from an address operand and settles the space.
  void read_address(const ptx::Operand& address, Inst& inst, int line);
  /// A 64-bit register that holds an address operand, its offset included, when the instruction executes.
  Slot address_register(const ptx::Operand& address, Space space, int line);
  /// Whether an address operand is a 32-bit register.
  bool is_narrow(const ptx::Operand& address) const;
  /// The elements of a vector operand, or the operand itself.
  static std::vector<const ptx::Operand*> elements(const ptx::Operand& operand);
  /// Appends slots to the program's list and notes them in the instruction.
  void set_list(Inst& inst, const std::vector<Slot>& slots);
  void emit_before(Inst inst);
  void emit_after(Inst inst);
  const ptx::Function& function() const { return *function_; }
  const ptx::Module& module() const { return *module_; }
  const Arch& arch() const { return arch_; }
  KernelProgram& program() { return program_; }
  /// Index of a function in the program, which will be decoded as well.
  int function_index(const std::string& name, int line);
  /// The simulated address of a function.
  DeviceAddress function_address(const std::string& name, int line);
  /// Space and value of a variable's address: memory address, shared offset, or offset in the local frame.
  struct Place {
    ptx::Space space;
    bool kernel_param;
    uint64_t value;
  };
  Place place(const ptx::Operand& variable, int line);
  uint32_t local_offset(int variable);
  void mark_indirect() { program_.recursive = true; }
  void mark_dynamic_stack() { program_.recursive = program_.dynamic_stack = true; }

 private:
  Slot noted(Slot slot, Operand::Role role);
  void note_helper(Inst& inst);
  uint32_t list_operands(const std::vector<Operand>& operands);
  void decode_function(int index, const ptx::Function& function);
  void decode_instruction(const ptx::Instruction& instruction);
  void find_accumulators(const ptx::Function& function);
  void settle_accumulators(const ptx::Instruction& instruction);
  void lay_out();
  std::vector<int> order_blocks(const std::vector<std::vector<int>>& successors) const;
  void layout_locals(const ptx::Function& function, DecodedFunction& decoded);
  void finish_kernel(const ptx::Function& entry);
  uint64_t shared_offset(const ptx::Variable& variable);
  Slot register_slot(int index);
  Slot special_slot(const std::string& name, int line, uint32_t& bytes);
  uint32_t estimate_registers() const;
  uint32_t deepest_stack(int function, std::vector<int>& state) const;

  const ptx::Module* module_;
  const SymbolTable* symbols_;
  KernelProgram& program_;
  Arch arch_;
  std::string_view text_;
  std::vector<ptx::Error>* errors_ = nullptr;
  OpcodeTable table_, float_table_;

  const ptx::Function* function_ = nullptr;
  DecodedFunction* decoded_ = nullptr;
  std::vector<Inst> code_, after_;
  std::vector<Operand> operands_;                       ///< of the instruction at hand
  std::unordered_map<Slot, uint16_t> register_widths_;  ///< bytes per lane
  std::vector<int> starts_;                             ///< code index of each PTX instruction
  std::vector<Slot> register_slots_;
  uint32_t register_bytes_ = 0;
  Slot carry_ = kNoSlot, frame_base_ = kNoSlot;
  std::vector<uint32_t> local_offsets_;
  std::set<int> accumulators_;    ///< registers of the function that wgmma writes
  bool special_allowed_ = false;  ///< the instruction at hand may read special registers

  std::map<std::pair<uint64_t, uint32_t>, Slot> constants_;
  std::map<const ptx::Variable*, uint64_t> shared_offsets_;
  std::map<uint16_t, uint32_t> special_offsets_;
  std::map<std::string, int> function_indices_;
  std::vector<const ptx::Function*> to_decode_;
  std::vector<std::vector<int>> callees_;
  uint32_t static_shared_ = 0;
  std::vector<const ptx::Variable*> dynamic_shared_;
};

}  // namespace corrloom::sim::exec
