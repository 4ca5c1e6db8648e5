#include <algorithm>
#include <functional>
#include <set>

#include "runtime/sim/exec/calls.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/matrix.h"

namespace corrloom::sim::exec {
namespace {

using ptx::OperandKind;

constexpr uint32_t align_up(uint32_t value, uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
constexpr uint32_t kMaxLocalBytes = 1u << 20;

/// Calls `visit` for an operand and everything inside it.
void visit_operands(const ptx::Operand& operand, const std::function<void(const ptx::Operand&)>& visit) {
  visit(operand);
  for (const ptx::Operand& element : operand.elements) visit_operands(element, visit);
}

/// Instructions of the ISA that are refused with a reason of their own; README.md says why for each.
constexpr std::string_view kUnsupported[] = {
    "tcgen05", "tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep", "multimem", "clusterlaunchcontrol",
};

bool names_float_type(const ptx::Instruction& instruction) {
  return std::ranges::any_of(instruction.modifiers,
                             [](const std::string& m) { return ptx::is_float(ptx::type_of(m)); });
}

/// Arithmetic passes undefined values on; what touches memory, control or other threads uses them.
Follow follow_by_class(const Inst& inst) {
  switch (inst.klass) {
    case Class::Fp16:
    case Class::Fp32:
    case Class::Fp64:
    case Class::Integer:
    case Class::Conversion:
    case Class::SpecialFunction:
    case Class::Move:
      return Follow::Spreads;
    case Class::ShuffleVote:
      return Follow::SpreadsWide;
    default:
      return Follow::Uses;
  }
}

}  // namespace

Decoder::Decoder(const ptx::Module& module, const SymbolTable& symbols, KernelProgram& program, const Arch& arch,
                 std::string_view source_text)
    : module_(&module), symbols_(&symbols), program_(program), arch_(arch), text_(source_text) {
  register_integer(table_);
  register_bits(table_);
  register_compare(table_);
  register_video(table_);
  register_convert(table_);
  register_move(table_);
  register_memory(table_);
  register_atomic(table_);
  register_control(table_);
  register_stack(table_);
  register_collective(table_);
  register_async(table_);
  register_matrix(table_);
  register_float(float_table_);
}

int Decoder::function_index(const std::string& name, int line) {
  const ptx::Function* found = module_->find_function(name);
  if (found == nullptr) throw ptx::SyntaxError(line, "unknown function '" + name + "'");
  const auto [it, fresh] = function_indices_.try_emplace(found->name, int(to_decode_.size()));
  if (fresh) {
    to_decode_.push_back(found);
    callees_.emplace_back();
  }
  return it->second;
}

DeviceAddress Decoder::function_address(const std::string& name, int line) {
  const ptx::Function* found = module_->find_function(name);
  if (found == nullptr) throw ptx::SyntaxError(line, "unknown function '" + name + "'");
  size_t ordinal = 0;
  while (module_->functions[ordinal].name != found->name) ++ordinal;
  return kFunctionWindow + 16 * (ordinal + 1);
}

/// Places the shared variables that the kernel can reach: static ones first, in order of use, then the dynamic array.
void Decoder::decode_kernel(const ptx::Function& entry, std::vector<ptx::Error>& errors) {
  errors_ = &errors;
  program_.info.name = entry.name;
  program_.info.ptx_version = module_->version;
  uint32_t offset = 0;
  for (const int index : entry.params) {
    const ptx::Variable& param = entry.variables[size_t(index)];
    offset = align_up(offset, param.alignment);
    program_.info.params.push_back({offset, uint32_t(param.bytes)});
    offset += uint32_t(param.bytes);
    if (param.bytes > 32764 || offset > 32764) {
      errors.push_back({param.line, "the parameters of '" + entry.name + "' exceed 32764 bytes"});
      return;
    }
  }
  program_.info.param_bytes = offset;

  std::set<const ptx::Function*> seen{&entry};
  std::vector<const ptx::Function*> work{&entry};
  bool indirect = false;
  for (size_t i = 0; i < work.size(); ++i) {
    const ptx::Function& function = *work[i];
    const auto reach = [&](const std::string& name) {
      const ptx::Function* found = module_->find_function(name);
      if (found != nullptr && seen.insert(found).second) work.push_back(found);
    };
    const auto note_shared = [&](const ptx::Variable& variable) {
      if (variable.space != ptx::Space::Shared || shared_offsets_.contains(&variable)) return;
      if (variable.is_extern || variable.bytes == 0) {
        dynamic_shared_.push_back(&variable);
        shared_offsets_[&variable] = 0;
        return;
      }
      static_shared_ = align_up(static_shared_, variable.alignment);
      shared_offsets_[&variable] = static_shared_;
      static_shared_ += uint32_t(std::min<uint64_t>(variable.bytes, 1u << 24));
    };
    for (const ptx::Instruction& instruction : function.instructions) {
      for (const ptx::Operand& operand : instruction.operands) {
        visit_operands(operand, [&](const ptx::Operand& o) {
          if (o.kind == OperandKind::Variable) {
            note_shared(o.is_local ? function.variables[size_t(o.index)] : module_->variables[size_t(o.index)]);
          } else if (o.kind == OperandKind::Function) {
            reach(o.name);
          }
        });
      }
      if (instruction.opcode == "call") {
        for (const ptx::Operand& operand : instruction.operands) indirect |= operand.kind == OperandKind::Register;
      }
    }
    // An indirect call may reach any function whose address is taken; taking them all is simpler and safe.
    if (indirect && i + 1 == work.size()) {
      for (const ptx::Function& candidate : module_->functions) {
        if (candidate.has_body && !candidate.is_entry && seen.insert(&candidate).second) work.push_back(&candidate);
      }
      indirect = false;
      program_.recursive = true;
    }
  }
  if (static_shared_ > 1u << 23) {
    errors.push_back({entry.line, "too much shared data in '" + entry.name + "'"});
    return;
  }
  program_.info.static_shared_bytes = static_shared_;
  for (const ptx::Variable* variable : dynamic_shared_) {
    program_.dynamic_shared_alignment = std::max(program_.dynamic_shared_alignment, variable->alignment);
  }
  program_.dynamic_shared_offset = align_up(static_shared_, program_.dynamic_shared_alignment);
  for (const ptx::Variable* variable : dynamic_shared_) shared_offsets_[variable] = program_.dynamic_shared_offset;

  function_index(entry.name, entry.line);
  if (program_.recursive) {
    for (const ptx::Function* function : work) function_index(function->name, function->line);
  }
  for (size_t i = 0; i < to_decode_.size() && errors.size() < 20; ++i) {
    program_.functions.emplace_back();
    decode_function(int(i), *to_decode_[i]);
  }
  finish_kernel(entry);
}

void Decoder::finish_kernel(const ptx::Function& entry) {
  KernelInfo& info = program_.info;
  info.required_block = entry.required_block;
  info.required_cluster = entry.required_cluster;
  info.max_cluster_blocks = entry.max_cluster_blocks;
  const auto product = [](const std::array<uint32_t, 3>& dims) { return uint64_t(dims[0]) * dims[1] * dims[2]; };
  if (product(entry.required_block) != 0) {
    info.max_threads = uint32_t(std::min<uint64_t>(1024, product(entry.required_block)));
  } else if (product(entry.max_block) != 0) {
    info.max_threads = uint32_t(std::min<uint64_t>(1024, product(entry.max_block)));
  }
  // An assembler keeps to what the largest block allows.
  if (product(entry.required_block) != 0 || product(entry.max_block) != 0) {
    info.registers = std::min(info.registers, std::max(16u, 65536 / info.max_threads / 8 * 8));
  }
  if (entry.max_registers != 0) info.registers = std::min(info.registers, entry.max_registers);
  for (size_t i = 0; i < to_decode_.size(); ++i) {
    program_.function_addresses[function_address(to_decode_[i]->name, 0)] = int(i);
  }
  std::vector<int> state(program_.functions.size(), 0);
  const uint32_t depth = program_.functions.empty() ? 0 : deepest_stack(0, state);
  program_.stack_bytes = program_.recursive ? 0 : depth;
  info.local_bytes = program_.functions.empty() ? 0 : program_.functions[0].local_bytes;
}

/// Stack of a call tree; notes recursion. state: 0 unvisited, 1 on the path, 2 done.
uint32_t Decoder::deepest_stack(int function, std::vector<int>& state) const {
  // Depth-first with an explicit stack: a chain of calls may be as long as the module.
  struct Visit {
    int function;
    size_t next = 0;
    uint32_t deepest = 0;
  };
  std::vector<uint32_t> known(state.size(), 0);
  std::vector<Visit> path{{function}};
  state[size_t(function)] = 1;
  for (;;) {
    Visit& visit = path.back();
    const std::vector<int>& callees = callees_[size_t(visit.function)];
    if (visit.next < callees.size()) {
      const int callee = callees[visit.next++];
      if (state[size_t(callee)] == 1) {
        program_.recursive = true;
      } else if (state[size_t(callee)] == 2) {
        visit.deepest = std::max(visit.deepest, known[size_t(callee)]);
      } else {
        state[size_t(callee)] = 1;
        path.push_back({callee});
      }
      continue;
    }
    const uint32_t total = program_.functions[size_t(visit.function)].local_bytes + visit.deepest;
    state[size_t(visit.function)] = 2;
    known[size_t(visit.function)] = total;
    path.pop_back();
    if (path.empty()) return total;
    path.back().deepest = std::max(path.back().deepest, total);
  }
}

void Decoder::layout_locals(const ptx::Function& function, DecodedFunction& decoded) {
  local_offsets_.assign(function.variables.size(), 0);
  uint32_t offset = 0;
  for (size_t i = 0; i < function.variables.size(); ++i) {
    const ptx::Variable& variable = function.variables[i];
    const bool kernel_param = function.is_entry && std::ranges::find(function.params, int(i)) != function.params.end();
    if ((variable.space != ptx::Space::Local && variable.space != ptx::Space::Param) || kernel_param) continue;
    offset = align_up(offset, variable.alignment);
    local_offsets_[i] = offset;
    if (variable.bytes > kMaxLocalBytes || offset + variable.bytes > kMaxLocalBytes) {
      throw ptx::SyntaxError(variable.line, "too much local memory in '" + function.name + "'");
    }
    offset += uint32_t(variable.bytes);
  }
  decoded.local_bytes = align_up(offset, 16);
  const auto passed = [&](const std::vector<int>& indices, std::vector<Passed>& into) {
    for (const int index : indices) {
      const ptx::Variable& variable = function.variables[size_t(index)];
      const bool in_register = variable.register_index >= 0;
      into.push_back({in_register ? register_slot(variable.register_index) : kNoSlot, local_offsets_[size_t(index)],
                      variable.type == ptx::Type::Pred ? 0 : uint32_t(variable.bytes)});
    }
  };
  passed(function.params, decoded.params);
  passed(function.returns, decoded.returns);
}

void Decoder::decode_function(int index, const ptx::Function& function) {
  DecodedFunction decoded;
  decoded.name = function.name;
  function_ = &function;
  decoded_ = &decoded;
  register_slots_.assign(function.registers.size(), kNoSlot);
  register_bytes_ = 0;
  register_widths_.clear();
  carry_ = kNoSlot;
  code_.clear();
  starts_.clear();
  frame_base_ = temporary(4);  // make_frame relies on its being the first
  try {
    layout_locals(function, decoded);
  } catch (const ptx::SyntaxError& error) {
    errors_->push_back({error.line, error.what()});
    program_.functions[size_t(index)] = std::move(decoded);
    return;
  }
  if (!function.has_body) {
    decoded.intrinsic = find_intrinsic(function.name);
    if (decoded.intrinsic < 0) errors_->push_back({function.line, "undefined function '" + function.name + "'"});
    decoded.register_bytes = register_bytes_;
    program_.functions[size_t(index)] = std::move(decoded);
    return;
  }
  find_accumulators(function);
  for (const ptx::Instruction& instruction : function.instructions) {
    starts_.push_back(int(code_.size()));
    try {
      settle_accumulators(instruction);
      decode_instruction(instruction);
    } catch (const ptx::SyntaxError& error) {
      after_.clear();
      errors_->push_back({error.line, error.what()});
      if (errors_->size() >= 20) return;
    }
  }
  starts_.push_back(int(code_.size()));
  Inst end;  // control that runs off the end leaves the function
  end.flow = function.is_entry ? Flow::Exit : Flow::Return;
  end.line = function.instructions.empty() ? function.line : function.instructions.back().line;
  code_.push_back(end);
  program_.functions[size_t(index)] = decoded;
  decoded_ = &program_.functions[size_t(index)];
  if (errors_->empty()) lay_out();
  if (index == 0) program_.info.registers = estimate_registers();
  decoded_->register_bytes = register_bytes_;
}

void Decoder::find_accumulators(const ptx::Function& function) {
  accumulators_.clear();
  for (const ptx::Instruction& instruction : function.instructions) {
    if (instruction.opcode != "wgmma" || instruction.operands.empty()) continue;
    visit_operands(instruction.operands[0], [&](const ptx::Operand& operand) {
      if (operand.kind == OperandKind::Register) accumulators_.insert(operand.index);
    });
  }
}

/// An assembler puts a wait in front of what touches accumulators of products in flight, so that compilers may move
/// values between registers there. Frames must not go while products write to their registers, either.
void Decoder::settle_accumulators(const ptx::Instruction& instruction) {
  if (accumulators_.empty() || instruction.opcode == "wgmma") return;
  bool touches = instruction.opcode == "ret" && !function_->is_entry;
  for (const ptx::Operand& operand : instruction.operands) {
    visit_operands(operand, [&](const ptx::Operand& inner) {
      touches |= inner.kind == OperandKind::Register && accumulators_.contains(inner.index);
    });
  }
  if (!touches) return;
  Inst settle;
  settle.fn = land_products;
  settle.line = instruction.line;
  emit_before(settle);
}

void Decoder::decode_instruction(const ptx::Instruction& instruction) {
  DecodeFn decode = nullptr;
  if (names_float_type(instruction)) {
    if (const auto it = float_table_.find(instruction.opcode); it != float_table_.end()) decode = it->second;
  }
  if (decode == nullptr) {
    if (const auto it = table_.find(instruction.opcode); it != table_.end()) decode = it->second;
  }
  if (decode == nullptr) {
    if (float_table_.contains(instruction.opcode)) {
      throw ptx::SyntaxError(instruction.line, "instruction '" + instruction.opcode + "' has no such type");
    }
    const bool known = std::ranges::find(kUnsupported, instruction.opcode) != std::end(kUnsupported);
    throw ptx::SyntaxError(instruction.line,
                           (known ? "instruction not supported by this simulator: '" : "unknown instruction '") +
                               instruction.opcode + "'");
  }
  special_allowed_ = instruction.opcode == "mov" || instruction.opcode == "cvt";
  Decode context{*this, instruction, Modifiers(instruction), {}};
  context.inst.line = instruction.line;
  context.inst.text = uint32_t(program_.texts.size());
  operands_.clear();
  decode(context);
  context.mods.finish();
  Inst& inst = context.inst;
  if (inst.follow == Follow::ByClass) inst.follow = follow_by_class(inst);
  inst.operands = list_operands(operands_);
  if (instruction.guard >= 0) {
    inst.guard = register_slot(instruction.guard);
    inst.guard_negated = instruction.guard_negated;
  }
  program_.texts.emplace_back(text_.substr(instruction.text_begin, instruction.text_end - instruction.text_begin));
  code_.push_back(inst);
  if (inst.flow == Flow::Call && inst.target >= 0) {
    callees_[size_t(function_indices_.at(function_->name))].push_back(program_.calls[size_t(inst.target)].function);
  }
  for (Inst& extra : after_) {
    extra.guard = inst.guard;
    extra.guard_negated = inst.guard_negated;
    extra.text = inst.text;
    code_.push_back(extra);
  }
  after_.clear();
}

/// Registers by the length of live ranges over the text, stretched over loops: what an allocator without spilling
/// needs.
uint32_t Decoder::estimate_registers() const {
  const auto& instructions = function_->instructions;
  std::vector<int> first(function_->registers.size(), -1), last(function_->registers.size(), -1);
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (const ptx::Operand& operand : instructions[i].operands) {
      visit_operands(operand, [&](const ptx::Operand& o) {
        if (o.kind != OperandKind::Register || o.index < 0) return;
        if (first[size_t(o.index)] < 0) first[size_t(o.index)] = int(i);
        last[size_t(o.index)] = int(i);
      });
    }
  }
  for (size_t i = instructions.size(); i-- > 0;) {
    if (instructions[i].opcode != "bra" || instructions[i].operands.empty() || instructions[i].operands[0].index < 0)
      continue;
    const int target = function_->labels[size_t(instructions[i].operands[0].index)].instruction;
    if (target < 0 || target > int(i)) continue;
    for (size_t r = 0; r < first.size(); ++r) {
      if (first[r] >= 0 && first[r] < target && last[r] >= target && last[r] < int(i)) last[r] = int(i);
    }
  }
  std::vector<int> change(instructions.size() + 2, 0);
  for (size_t r = 0; r < first.size(); ++r) {
    if (first[r] < 0) continue;
    const int words = std::max(0, (ptx::type_bits(function_->registers[r].type) + 30) / 32);
    change[size_t(first[r])] += words;
    change[size_t(last[r])] -= words;
  }
  int live = 0, most = 0;
  for (const int delta : change) most = std::max(most, live += delta);
  return uint32_t(std::clamp((most + 10 + 7) / 8 * 8, 16, 255));
}

}  // namespace corrloom::sim::exec
