#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

namespace corrloom::sim::exec {
namespace {

using ptx::OperandKind;
using ptx::Type;

struct SpecialRow {
  std::string_view name;
  uint32_t bytes;  ///< 0: a predicate
  bool dynamic;
};
constexpr SpecialRow kSpecials[] = {
#define SPECIAL(id, name, bytes, dynamic) {name, bytes, dynamic},
#include "runtime/sim/exec/specials.def"
#undef SPECIAL
};

/// The ISA's rule for operands of instructions that are not ld, st or cvt: equal sizes, and no mixing of integers with
/// floating point; untyped bits go with everything. Source: PTX ISA, "Operand Size Exceeding Instruction-Type Size" and
/// "Type checking rules".
bool fits(Type instruction, Type operand, bool relaxed) {
  if (instruction == Type::Pred || operand == Type::Pred) return instruction == operand;
  const int wanted = ptx::type_bits(instruction), found = ptx::type_bits(operand);
  if (relaxed ? found < wanted : found != wanted) return false;
  if (ptx::is_untyped(instruction) || ptx::is_untyped(operand)) return true;
  if (relaxed && !ptx::is_float(instruction) && !ptx::is_float(operand)) return true;
  const bool float_wanted = ptx::is_float(instruction), float_found = ptx::is_float(operand);
  return float_wanted == float_found && (!float_wanted || instruction == operand);
}

template <class To, class From>
void widen(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<To, From>(warp, inst, mask, [](From value) { return To(value); });
}

template <class To>
ExecFn widen_from(uint32_t from_bytes, bool is_signed) {
  switch (from_bytes) {
    case 1:
      return is_signed ? widen<To, int8_t> : widen<To, uint8_t>;
    case 2:
      return is_signed ? widen<To, int16_t> : widen<To, uint16_t>;
    case 4:
      return is_signed ? widen<To, int32_t> : widen<To, uint32_t>;
    default:
      return widen<To, uint64_t>;
  }
}

/// Copies an integer register into one of another width.
ExecFn resize(uint32_t to_bytes, uint32_t from_bytes, bool is_signed) {
  switch (to_bytes) {
    case 1:
      return widen_from<uint8_t>(from_bytes, is_signed);
    case 2:
      return widen_from<uint16_t>(from_bytes, is_signed);
    case 4:
      return widen_from<uint32_t>(from_bytes, is_signed);
    default:
      return widen_from<uint64_t>(from_bytes, is_signed);
  }
}

void read_clock(Warp& warp, const Inst& inst, LaneMask mask) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ns = uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  const uint64_t cycles = warp.issued;
  uint64_t value = 0;
  switch (Special(inst.m0)) {
    case Special::Clock:
      value = uint32_t(cycles);
      break;
    case Special::ClockHi:
      value = cycles >> 32;
      break;
    case Special::Clock64:
      value = cycles;
      break;
    case Special::GlobalTimer:
      value = ns;
      break;
    case Special::GlobalTimerLo:
      value = uint32_t(ns);
      break;
    default:
      value = ns >> 32;
      break;
  }
  if (inst.bytes == 8) {
    for_lanes(mask, [&](int lane) { warp.at<uint64_t>(inst.d)[lane] = value; });
  } else {
    for_lanes(mask, [&](int lane) { warp.at<uint32_t>(inst.d)[lane] = uint32_t(value); });
  }
}

void not_predicate(Warp& warp, const Inst& inst, LaneMask mask) {
  set_predicate(warp, inst.d, mask, ~warp.predicate(inst.a));
}

}  // namespace

bool Modifiers::take(std::string_view name) {
  const auto it = std::ranges::find(names_, name);
  if (it == names_.end()) return false;
  names_.erase(it);
  return true;
}

bool Modifiers::has(std::string_view name) const {
  return std::ranges::find(names_, name) != names_.end();
}

int Modifiers::take_one(std::initializer_list<std::string_view> names) {
  int index = 0;
  for (const std::string_view name : names) {
    if (take(name)) return index;
    ++index;
  }
  return -1;
}

Type Modifiers::optional_type() {
  for (auto it = names_.begin(); it != names_.end(); ++it) {
    if (const Type type = ptx::type_of(*it); type != Type::None) {
      names_.erase(it);
      return type;
    }
  }
  return Type::None;
}

Type Modifiers::type() {
  const Type type = optional_type();
  if (type == Type::None) throw ptx::SyntaxError(line_, "missing type modifier");
  return type;
}

void Modifiers::finish() const {
  if (!names_.empty()) throw ptx::SyntaxError(line_, "unknown or illegal modifier '." + names_.front() + "'");
}

void Decode::fail(const std::string& message) const {
  throw ptx::SyntaxError(source.line, message);
}

const ptx::Operand& Decode::operand(size_t i) const {
  if (i >= source.operands.size()) fail("too few operands for instruction '" + source.opcode + "'");
  return source.operands[i];
}

void Decode::expect_operands(size_t count) const {
  expect_operands(count, count);
}

void Decode::expect_operands(size_t least, size_t most) const {
  if (operand_count() < least) fail("too few operands for instruction '" + source.opcode + "'");
  if (operand_count() > most) fail("too many operands for instruction '" + source.opcode + "'");
}

void Decode::require(int ptx_version, int target, bool accelerated) const {
  const ptx::Module& module = decoder.module();
  std::string what = source.opcode;
  for (const std::string& modifier : source.modifiers) what += "." + modifier;
  if (module.version < ptx_version) {
    fail("'" + what + "' requires PTX ISA .version " + std::to_string(ptx_version / 10) + "." +
         std::to_string(ptx_version % 10) + " or later");
  }
  const std::optional<Arch> declared = parse_arch(module.targets.front());
  if (!declared || declared->number < target || (accelerated && !declared->accelerated)) {
    fail("'" + what + "' requires .target sm_" + std::to_string(target) + (accelerated ? "a" : "") + " or higher");
  }
}

Slot Decode::reads(size_t i, Type type) {
  return decoder.read_operand(operand(i), type, false, source.line);
}
Slot Decode::writes(size_t i, Type type) {
  return decoder.write_operand(operand(i), type, false, source.line);
}
Slot Decode::reads_relaxed(size_t i, Type type) {
  return decoder.read_operand(operand(i), type, true, source.line);
}
Slot Decode::writes_relaxed(size_t i, Type type) {
  return decoder.write_operand(operand(i), type, true, source.line);
}
Slot Decode::reads_predicate(size_t i) {
  return decoder.read_predicate(operand(i), source.line);
}
Slot Decode::writes_predicate(size_t i) {
  return decoder.write_predicate(operand(i), source.line);
}

uint64_t Decode::constant(size_t i) const {
  if (operand(i).kind != OperandKind::Integer)
    fail("operand " + std::to_string(i + 1) + " must be an integer constant");
  return operand(i).bits;
}

Slot Decoder::constant_slot(uint64_t bits, uint32_t bytes) {
  if (bytes < 8) bits &= (uint64_t(1) << (8 * bytes)) - 1;
  const auto [it, fresh] = constants_.try_emplace({bits, bytes}, 0);
  if (fresh) {
    std::vector<std::byte>& pool = program_.constants;
    it->second = make_slot(Base::Constant, uint32_t(pool.size()));
    for (int lane = 0; lane < kLanes; ++lane) {
      for (uint32_t i = 0; i < bytes; ++i) pool.push_back(i < 8 ? std::byte(bits >> (8 * i)) : std::byte(0));
    }
    pool.resize((pool.size() + 63) / 64 * 64);
  }
  return it->second;
}

Slot Decoder::predicate_constant(bool value) {
  return constant_slot(value ? 0xFFFFFFFFu : 0, 4);
}

Slot Decoder::temporary(uint32_t bytes) {
  const Slot slot = make_slot(Base::Frame, register_bytes_);
  register_widths_[slot] = uint16_t(bytes);
  register_bytes_ += bytes == 0 ? 64 : bytes * kLanes;
  register_bytes_ = (register_bytes_ + 63) / 64 * 64;
  if (register_bytes_ > kSlotOffsetMask / 2) throw ptx::SyntaxError(function_->line, "too many registers");
  return slot;
}

Slot Decoder::carry_slot(bool reads, bool writes) {
  if (carry_ == kNoSlot) carry_ = temporary(0);
  if (reads) noted(carry_, Operand::Role::Read);
  if (writes) noted(carry_, Operand::Role::Write);
  return carry_;
}

Slot Decoder::register_slot(int index) {
  Slot& slot = register_slots_[size_t(index)];
  if (slot == kNoSlot) slot = temporary(uint32_t(ptx::type_bits(function_->registers[size_t(index)].type)) / 8);
  return slot;
}

Slot Decoder::special_slot(const std::string& name, int line, uint32_t& bytes) {
  if (name == "WARP_SZ") {
    bytes = 4;
    return constant_slot(32, 4);
  }
  for (size_t i = 0; i < std::size(kSpecials); ++i) {
    const SpecialRow& row = kSpecials[i];
    if (row.name != name) continue;
    bytes = row.bytes;
    if (name.starts_with("%reserved_smem")) program_.uses_reserved_shared = true;
    if (row.dynamic) {
      Inst inst;
      inst.fn = read_clock;
      inst.m0 = uint8_t(i);
      inst.bytes = uint16_t(row.bytes);
      inst.d = temporary(row.bytes);
      inst.line = line;
      emit_before(inst);
      return inst.d;
    }
    const auto [it, fresh] = special_offsets_.try_emplace(uint16_t(i), program_.special_bytes);
    if (fresh) {
      program_.specials.push_back({uint16_t(i), program_.special_bytes});
      program_.special_bytes += row.bytes == 0 ? 64 : (row.bytes * kLanes + 63) / 64 * 64;
    }
    return make_slot(Base::Special, it->second);
  }
  if (name.starts_with("%envreg") || name.starts_with("%pm") || name == "%current_graph_exec") {
    bytes = name.ends_with("_64") || name == "%current_graph_exec" ? 8 : 4;
    return constant_slot(0, bytes);
  }
  throw ptx::SyntaxError(line, "unknown special register '" + name + "'");
}

namespace {

/// Selectors and signs mean something to the instructions that take them off their operands, and to no other.
void require_plain(const ptx::Operand& operand, int line) {
  if (!operand.selector.empty()) throw ptx::SyntaxError(line, "illegal selector '." + operand.selector + "'");
  if (operand.negative) throw ptx::SyntaxError(line, "illegal '-' before a register");
}

}  // namespace

Slot Decoder::read_operand(const ptx::Operand& operand, Type type, bool relaxed, int line) {
  const auto bytes = uint32_t(ptx::type_bits(type)) / 8;
  require_plain(operand, line);
  switch (operand.kind) {
    case OperandKind::Register: {
      const ptx::Register& reg = function_->registers[size_t(operand.index)];
      if (operand.negated) throw ptx::SyntaxError(line, "'!' applies to predicates only");
      if (!fits(type, reg.type, relaxed)) {
        throw ptx::SyntaxError(line, "register '" + reg.name + "' of type ." + std::string(ptx::type_name(reg.type)) +
                                         " does not fit an operand of type ." + std::string(ptx::type_name(type)));
      }
      const auto found = uint32_t(ptx::type_bits(reg.type)) / 8;
      if (found == bytes || found > 8) return noted(register_slot(operand.index), Operand::Role::Read);
      Inst inst;
      inst.fn = resize(bytes, found, false);
      inst.follow = Follow::Moves;
      inst.a = register_slot(operand.index);
      inst.d = temporary(bytes);
      inst.line = line;
      emit_before(inst);
      return noted(inst.d, Operand::Role::Read);
    }
    case OperandKind::Integer:
      if (ptx::is_float(type) || type == Type::Pred) {
        throw ptx::SyntaxError(line, "integer constant for an operand of type ." + std::string(ptx::type_name(type)));
      }
      if (bytes == 16) throw ptx::SyntaxError(line, "there are no 128-bit constants");
      return constant_slot(operand.bits, bytes);
    case OperandKind::Float32:
      if (type == Type::F64) {
        return constant_slot(std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(operand.bits)))), 8);
      }
      if (bytes != 4 || ptx::is_signed(type) || ptx::is_unsigned(type)) {
        throw ptx::SyntaxError(line,
                               "floating-point constant for an operand of type ." + std::string(ptx::type_name(type)));
      }
      return constant_slot(operand.bits, 4);
    case OperandKind::Float64:
      if (type == Type::F32)
        return constant_slot(std::bit_cast<uint32_t>(float(std::bit_cast<double>(operand.bits))), 4);
      if (bytes != 8 || ptx::is_signed(type) || ptx::is_unsigned(type)) {
        throw ptx::SyntaxError(line,
                               "floating-point constant for an operand of type ." + std::string(ptx::type_name(type)));
      }
      return constant_slot(operand.bits, 8);
    case OperandKind::Special: {
      uint32_t found = 0;
      const Slot slot = special_slot(operand.name, line, found);
      if (operand.name != "WARP_SZ" && !special_allowed_) {
        throw ptx::SyntaxError(line, "'" + operand.name + "' can be read by mov and cvt only");
      }
      // Narrower reads are legal, a relic of when these registers were narrower.
      if (ptx::is_float(type) || (found != bytes && !(found == 4 && bytes == 2) && !(found == 8 && bytes == 4))) {
        throw ptx::SyntaxError(
            line, "'" + operand.name + "' does not fit an operand of type ." + std::string(ptx::type_name(type)));
      }
      if (found == bytes) return slot;
      Inst inst;
      inst.fn = resize(bytes, found, false);
      inst.follow = Follow::Moves;
      inst.a = slot;
      inst.d = temporary(bytes);
      inst.line = line;
      emit_before(inst);
      return inst.d;
    }
    default:
      throw ptx::SyntaxError(line, operand.kind == OperandKind::Vector ? "unexpected vector operand"
                                                                       : "illegal operand '" + operand.name + "'");
  }
}

Slot Decoder::write_operand(const ptx::Operand& operand, Type type, bool relaxed, int line) {
  const auto bytes = uint32_t(ptx::type_bits(type)) / 8;
  require_plain(operand, line);
  if (operand.kind == OperandKind::Sink) return noted(temporary(bytes), Operand::Role::Write);
  if (operand.kind != OperandKind::Register || operand.negated)
    throw ptx::SyntaxError(line, "the destination must be a register");
  const ptx::Register& reg = function_->registers[size_t(operand.index)];
  if (!fits(type, reg.type, relaxed)) {
    throw ptx::SyntaxError(line, "register '" + reg.name + "' of type ." + std::string(ptx::type_name(reg.type)) +
                                     " does not fit a result of type ." + std::string(ptx::type_name(type)));
  }
  const auto found = uint32_t(ptx::type_bits(reg.type)) / 8;
  if (found == bytes || found > 8) return noted(register_slot(operand.index), Operand::Role::Write);
  // A wider destination is sign- or zero-extended after the instruction, as its type says.
  Inst inst;
  inst.fn = resize(found, bytes, ptx::is_signed(type));
  inst.follow = Follow::Moves;
  inst.a = temporary(bytes);
  inst.d = register_slot(operand.index);
  inst.line = line;
  emit_after(inst);
  return noted(inst.a, Operand::Role::Write);
}

Slot Decoder::read_predicate(const ptx::Operand& operand, int line) {
  if (operand.kind == OperandKind::Integer) return predicate_constant(operand.bits != 0);
  if (operand.kind == OperandKind::Special && operand.name == "%is_explicit_cluster") {
    uint32_t bytes = 0;
    return special_slot(operand.name, line, bytes);
  }
  if (operand.kind != OperandKind::Register || function_->registers[size_t(operand.index)].type != Type::Pred) {
    throw ptx::SyntaxError(line, "expected a predicate");
  }
  const Slot slot = register_slot(operand.index);
  if (!operand.negated) return noted(slot, Operand::Role::Read);
  Inst inst;
  inst.fn = not_predicate;
  inst.a = slot;
  inst.d = temporary(0);
  inst.line = line;
  emit_before(inst);
  return noted(inst.d, Operand::Role::Read);
}

Slot Decoder::write_predicate(const ptx::Operand& operand, int line) {
  if (operand.kind == OperandKind::Sink) return noted(temporary(0), Operand::Role::Write);
  if (operand.kind != OperandKind::Register || operand.negated) throw ptx::SyntaxError(line, "expected a predicate");
  return write_predicate_register(operand.index, line);
}

Slot Decoder::write_predicate_register(int index, int line) {
  if (index < 0) return noted(temporary(0), Operand::Role::Write);
  if (function_->registers[size_t(index)].type != Type::Pred) throw ptx::SyntaxError(line, "expected a predicate");
  return noted(register_slot(index), Operand::Role::Write);
}

Slot Decoder::noted(Slot slot, Operand::Role role) {
  const auto width = register_widths_.find(slot);
  if (width != register_widths_.end()) operands_.push_back({slot, width->second, role});
  return slot;
}

uint32_t Decoder::list_operands(const std::vector<Operand>& operands) {
  if (operands.empty()) return 0;
  const auto start = uint32_t(program_.operands.size());
  program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
  program_.operands.emplace_back();
  return start;
}

/// Notes the registers of an instruction that the decoder made up.
void Decoder::note_helper(Inst& inst) {
  std::vector<Operand> operands = std::exchange(operands_, {});
  for (const Slot slot : {inst.a, inst.b, inst.c}) noted(slot, Operand::Role::Read);
  noted(inst.d, Operand::Role::Write);
  inst.operands = list_operands(operands_);
  operands_ = std::move(operands);
}

void Decoder::emit_before(Inst inst) {
  note_helper(inst);
  code_.push_back(inst);
}

void Decoder::emit_after(Inst inst) {
  note_helper(inst);
  after_.push_back(inst);
}

Slot Decoder::address_register(const ptx::Operand& address, Space space, int line) {
  Inst add;
  add.space = space;
  read_address(address, add, line);
  add.line = line;
  add.d = temporary(8);
  add.fn = [](Warp& warp, const Inst& inst, LaneMask mask) {
    for_lanes(mask, [&](int lane) { warp.at<uint64_t>(inst.d)[lane] = lane_address(warp, inst, lane); });
  };
  emit_before(add);
  return noted(add.d, Operand::Role::Address);
}

bool Decoder::is_narrow(const ptx::Operand& address) const {
  if (address.kind != OperandKind::Address || address.elements[0].kind != OperandKind::Register) return false;
  return ptx::type_bits(function_->registers[size_t(address.elements[0].index)].type) == 32;
}

std::vector<const ptx::Operand*> Decoder::elements(const ptx::Operand& operand) {
  std::vector<const ptx::Operand*> list;
  if (operand.kind != OperandKind::Vector) return {&operand};
  for (const ptx::Operand& element : operand.elements) list.push_back(&element);
  return list;
}

void Decoder::set_list(Inst& inst, const std::vector<Slot>& slots) {
  inst.list = uint32_t(program_.slots.size());
  inst.list_size = uint16_t(slots.size());
  program_.slots.insert(program_.slots.end(), slots.begin(), slots.end());
}

Decoder::Place Decoder::place(const ptx::Operand& variable, int line) {
  if (variable.is_local) {
    const ptx::Variable& found = function_->variables[size_t(variable.index)];
    const bool own_param = std::ranges::find(function_->params, variable.index) != function_->params.end();
    switch (found.space) {
      case ptx::Space::Shared:
        return {ptx::Space::Shared, false, shared_offset(found)};
      case ptx::Space::Param:
        if (own_param && function_->is_entry) {
          for (size_t i = 0; i < function_->params.size(); ++i) {
            if (function_->params[i] == variable.index)
              return {ptx::Space::Param, true, program_.info.params[i].offset};
          }
        }
        return {ptx::Space::Param, false, local_offsets_[size_t(variable.index)]};
      case ptx::Space::Local:
        return {ptx::Space::Local, false, local_offsets_[size_t(variable.index)]};
      default:
        throw ptx::SyntaxError(line, "'" + found.name + "' cannot be addressed");
    }
  }
  const ptx::Variable& found = module_->variables[size_t(variable.index)];
  if (found.space == ptx::Space::Shared) return {ptx::Space::Shared, false, shared_offset(found)};
  return {found.space, false, symbols_->addresses[size_t(variable.index)]};
}

uint64_t Decoder::shared_offset(const ptx::Variable& variable) {
  return shared_offsets_.at(&variable);
}

void Decoder::read_address(const ptx::Operand& address, Inst& inst, int line) {
  if (address.kind != OperandKind::Address) throw ptx::SyntaxError(line, "expected an address in brackets");
  const ptx::Operand& base = address.elements.front();
  inst.imm = address.offset;
  inst.wide_address = true;
  switch (base.kind) {
    case OperandKind::Register: {
      const ptx::Register& reg = function_->registers[size_t(base.index)];
      const int bits = ptx::type_bits(reg.type);
      if ((bits != 64 && bits != 32) || ptx::is_float(reg.type)) {
        throw ptx::SyntaxError(line, "register '" + reg.name + "' cannot hold an address");
      }
      inst.a = noted(register_slot(base.index), Operand::Role::Address);
      inst.wide_address = bits == 64;
      if (bits == 32 && (inst.space == Space::Global || inst.space == Space::Const || inst.space == Space::Generic)) {
        throw ptx::SyntaxError(line, "an address in this state space needs a 64-bit register");
      }
      return;
    }
    case OperandKind::Integer:
      if (inst.space != Space::Local) throw ptx::SyntaxError(line, "immediate addresses are for .local only");
      inst.a = constant_slot(base.bits, 8);
      return;
    case OperandKind::Variable: {
      const Place where = place(base, line);
      inst.imm += int64_t(where.value);
      const bool in_frame =
          where.space == ptx::Space::Local || (where.space == ptx::Space::Param && !where.kernel_param);
      const auto check = [&](bool matches) {
        if (!matches) throw ptx::SyntaxError(line, "'" + base.name + "' is not in the state space of the instruction");
      };
      switch (inst.space) {
        case Space::Param:
        case Space::KernelParam:
          check(where.space == ptx::Space::Param);
          inst.space = where.kernel_param ? Space::KernelParam : Space::Param;
          break;
        case Space::Shared:
        case Space::SharedCluster:
          check(where.space == ptx::Space::Shared);
          break;
        case Space::Local:
          check(where.space == ptx::Space::Local || in_frame);
          break;
        case Space::Global:
          check(where.space == ptx::Space::Global);
          break;
        case Space::Const:
          check(where.space == ptx::Space::Const);
          break;
        case Space::Generic:
          check(where.space == ptx::Space::Global || where.space == ptx::Space::Const);
          break;
      }
      inst.wide_address = !in_frame;
      inst.a = in_frame ? frame_base_ : constant_slot(0, 8);
      return;
    }
    default:
      throw ptx::SyntaxError(line, "illegal address");
  }
}

}  // namespace corrloom::sim::exec
