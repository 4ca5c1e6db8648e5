#include <algorithm>
#include <charconv>

#include "runtime/sim/ptx/parser.h"

namespace corrloom::sim::ptx {
namespace {

constexpr uint32_t kMaxRangeRegisters = 1u << 24;

/// Splits `%r12` into `%r` and 12; the number is empty when there is none or it has a leading zero.
std::pair<std::string_view, std::optional<uint32_t>> split_number(std::string_view name) {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  if (digits == name.size()) return {name, std::nullopt};
  if (name[digits] == '0' && digits + 1 < name.size()) return {name, std::nullopt};
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), number);
  if (error != std::errc()) return {name, std::nullopt};
  return {name.substr(0, digits), number};
}

}  // namespace

bool is_special_register(std::string_view name) {
  static constexpr std::string_view kNames[] = {"%tid",
                                                "%ntid",
                                                "%laneid",
                                                "%warpid",
                                                "%nwarpid",
                                                "%ctaid",
                                                "%nctaid",
                                                "%smid",
                                                "%nsmid",
                                                "%gridid",
                                                "%is_explicit_cluster",
                                                "%clusterid",
                                                "%nclusterid",
                                                "%cluster_ctaid",
                                                "%cluster_nctaid",
                                                "%cluster_ctarank",
                                                "%cluster_nctarank",
                                                "%lanemask_eq",
                                                "%lanemask_le",
                                                "%lanemask_lt",
                                                "%lanemask_ge",
                                                "%lanemask_gt",
                                                "%clock",
                                                "%clock_hi",
                                                "%clock64",
                                                "%globaltimer",
                                                "%globaltimer_lo",
                                                "%globaltimer_hi",
                                                "%total_smem_size",
                                                "%aggr_smem_size",
                                                "%dynamic_smem_size",
                                                "%reserved_smem_offset_begin",
                                                "%reserved_smem_offset_end",
                                                "%reserved_smem_offset_cap",
                                                "%current_graph_exec",
                                                "WARP_SZ"};
  if (std::ranges::find(kNames, name) != std::end(kNames)) return true;
  const auto [prefix, number] = split_number(name);
  if (!number) return false;
  if (prefix == "%envreg") return *number < 32;
  if (prefix == "%pm") return *number < 8;
  return prefix == "%reserved_smem_offset_" && *number < 2;
}

void Parser::parse_parameter_list(Function& function, std::vector<int>& into) {
  expect("(");
  if (accept(")")) return;
  do {
    Variable parameter = parse_parameter();
    if (parameter.space == Space::Reg) {
      parameter.register_index = int(function.registers.size());
      function.registers.push_back({parameter.name, parameter.type});
    }
    into.push_back(int(function.variables.size()));
    function.variables.push_back(std::move(parameter));
  } while (accept(","));
  expect(")");
}

void Parser::parse_performance_directives(Function& function) {
  const auto parse_dims = [&](std::array<uint32_t, 3>& dims) {
    dims = {1, 1, 1};
    int axis = 0;
    do {
      const uint64_t extent = expect_integer("a size");
      if (axis >= 3 || extent == 0 || extent > 1u << 20) fail("expected up to three positive sizes");
      dims[size_t(axis++)] = uint32_t(extent);
    } while (accept(","));
  };
  for (;;) {
    if (accept_dot("maxntid")) {
      parse_dims(function.max_block);
    } else if (accept_dot("reqntid")) {
      parse_dims(function.required_block);
    } else if (accept_dot("minnctapersm")) {
      function.min_blocks = uint32_t(expect_integer("a count"));
    } else if (accept_dot("maxnctapersm")) {
      expect_integer("a count");
    } else if (accept_dot("maxnreg")) {
      function.max_registers = uint32_t(expect_integer("a count"));
    } else if (accept_dot("reqnctapercluster")) {
      parse_dims(function.required_cluster);
    } else if (accept_dot("maxclusterrank")) {
      function.max_cluster_blocks = uint32_t(expect_integer("a count"));
    } else if (accept_dot("explicitcluster")) {
      function.explicit_cluster = true;
    } else if (accept_dot("blocksareclusters")) {
    } else if (accept_dot("noreturn")) {
      function.no_return = true;
    } else if (accept_dot("unique")) {
    } else if (accept_dot("abi_preserve") || accept_dot("abi_preserve_control")) {
      expect_integer("a count");
    } else if (is_dot("pragma")) {
      parse_debug_directive();
    } else {
      return;
    }
  }
}

void Parser::parse_function(bool is_entry, Linkage linkage) {
  Function function;
  function.line = peek().line;
  function.is_entry = is_entry;
  function.is_extern = linkage.is_extern;
  function.is_visible = linkage.is_visible;
  function.is_weak = linkage.is_weak;
  if (accept_dot("attribute")) parse_attributes();
  if (!is_entry && is("(")) parse_parameter_list(function, function.returns);
  function.name = std::string(expect_identifier("a function name").text);
  if (is("(")) parse_parameter_list(function, function.params);
  parse_performance_directives(function);
  if (!accept(";")) {
    function.has_body = true;
    function_names_[function.name] = int(module_.functions.size());  // a function may call itself
    parse_body(function);
  }
  for (const Function& known : module_.functions) {
    if (known.name == function.name && known.has_body && function.has_body) {
      throw SyntaxError(function.line, "duplicate definition of '" + function.name + "'");
    }
  }
  function_names_[function.name] = int(module_.functions.size());
  module_.functions.push_back(std::move(function));
}

void Parser::parse_body(Function& function) {
  function_ = &function;
  range_registers_.clear();
  scopes_.assign(1, {});
  for (size_t i = 0; i < function.variables.size(); ++i) {
    const Variable& variable = function.variables[i];
    if (variable.register_index >= 0) {
      scopes_[0].registers[variable.name] = variable.register_index;
    } else {
      scopes_[0].variables[variable.name] = int(i);
    }
  }
  expect("{");
  scopes_.push_back({});
  while (scopes_.size() > 1) {
    if (peek().kind == TokenKind::End) fail("missing '}' at the end of '" + function.name + "'");
    if (errors_.size() >= kMaxErrors) fail("too many errors");
    try {
      parse_statement();
    } catch (const SyntaxError& error) {
      report(error.line, error.what());
      while (peek().kind != TokenKind::End && !is(";") && !is("}")) take();
      accept(";");
    }
  }
  close_scope();
  function_ = nullptr;
}

void Parser::parse_statement() {
  if (accept(";")) return;
  if (accept("{")) {
    if (scopes_.size() > size_t(kMaxDepth)) fail("blocks nested too deeply");
    scopes_.push_back({});
    return;
  }
  if (accept("}")) return close_scope();
  if (peek().kind == TokenKind::Dot) return parse_body_directive();
  if (peek().kind == TokenKind::Identifier && is(":", 1)) {
    const Token name = take();
    take();
    return declare_label(name);
  }
  parse_instruction();
}

void Parser::declare_label(const Token& name) {
  const int index = int(function_->labels.size());
  Label label;
  label.name = std::string(name.text);
  label.instruction = int(function_->instructions.size());
  label.line = name.line;
  const bool fresh = scopes_.back().labels.emplace(label.name, index).second;
  function_->labels.push_back(std::move(label));
  if (!fresh) throw SyntaxError(name.line, "duplicate label '" + std::string(name.text) + "'");
  parse_label_directive(index);
}

std::vector<Variable> Parser::parse_prototype_list() {
  std::vector<Variable> list;
  expect("(");
  if (accept(")")) return list;
  do {
    list.push_back(parse_parameter());
  } while (accept(","));
  expect(")");
  return list;
}

void Parser::parse_label_directive(int label) {
  const auto index = size_t(label);
  if (accept_dot("branchtargets")) {
    function_->labels[index].is_table = true;
    do {
      const Token target = expect_identifier("a label");
      const int slot = int(function_->labels[index].targets.size());
      function_->labels[index].targets.push_back(-1);
      scopes_.back().pending_targets.push_back({std::string(target.text), label, slot, target.line});
    } while (accept(","));
    expect(";");
  } else if (accept_dot("calltargets")) {
    function_->labels[index].is_table = true;
    do {
      function_->labels[index].callees.emplace_back(expect_identifier("a function").text);
    } while (accept(","));
    expect(";");
  } else if (accept_dot("callprototype")) {
    Label& prototype = function_->labels[index];
    prototype.is_prototype = true;
    if (is("(")) prototype.returns = parse_prototype_list();
    if (peek().kind == TokenKind::Identifier) take();  // `_`
    if (is("(")) prototype.params = parse_prototype_list();
    accept_dot("noreturn");
    while (accept_dot("abi_preserve") || accept_dot("abi_preserve_control")) expect_integer("a count");
    expect(";");
  }
}

void Parser::parse_body_directive() {
  if (parse_debug_directive()) return;
  if (accept_dot("reg")) return parse_registers();
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"local", Space::Local}, {"shared", Space::Shared}, {"shared::cta", Space::Shared},
      {"param", Space::Param}, {"global", Space::Global}, {"const", Space::Const}};
  const Linkage linkage = parse_linkage();
  for (const auto& [name, space] : kSpaces) {
    if (!accept_dot(name)) continue;
    for (Variable& variable : parse_variables(space, linkage)) {
      const int line = variable.line;
      const bool fresh = scopes_.back().variables.emplace(variable.name, int(function_->variables.size())).second;
      if (!fresh) throw SyntaxError(line, "duplicate definition of '" + variable.name + "'");
      function_->variables.push_back(std::move(variable));
    }
    return;
  }
  fail("unknown directive " + describe(peek()));
}

void Parser::parse_registers() {
  if (is_dot("align")) fail("registers take no alignment");
  if (is_dot("v2") || is_dot("v4")) fail("vector registers are not supported; use vector operands {a, b}");
  if (peek().kind != TokenKind::Dot || type_of(peek().text) == Type::None)
    fail("expected a type before " + describe(peek()));
  const Type type = type_of(take().text);
  do {
    const Token name = expect_identifier("a register name");
    Scope& scope = scopes_.back();
    bool fresh = false;
    if (accept("<")) {
      const uint64_t count = expect_integer("a count");
      expect(">");
      if (count == 0 || count > kMaxRangeRegisters) fail("the number of registers must be 1 to 2^24");
      fresh = scope.ranges.emplace(std::string(name.text), Range{next_range_++, uint32_t(count), type}).second;
    } else {
      fresh = scope.registers.emplace(std::string(name.text), int(function_->registers.size())).second;
      function_->registers.push_back({std::string(name.text), type});
    }
    if (!fresh) throw SyntaxError(name.line, "duplicate register '" + std::string(name.text) + "'");
  } while (accept(","));
  expect(";");
}

/// The register of that name in the innermost scope that has one; -1 otherwise.
int Parser::find_register(std::string_view name) {
  const auto [prefix, number] = split_number(name);
  for (size_t i = scopes_.size(); i-- > 0;) {
    const Scope& scope = scopes_[i];
    if (const auto it = scope.registers.find(name); it != scope.registers.end()) return it->second;
    if (!number) continue;
    const auto range = scope.ranges.find(prefix);
    if (range == scope.ranges.end() || *number >= range->second.count) continue;
    const auto [slot, fresh] =
        range_registers_.try_emplace({range->second.first, *number}, int(function_->registers.size()));
    if (fresh) function_->registers.push_back({std::string(name), range->second.type});
    return slot->second;
  }
  return -1;
}

int Parser::expect_register(const char* what) {
  const Token name = expect_identifier(what);
  const int index = find_register(name.text);
  if (index < 0) throw SyntaxError(name.line, "unknown register '" + std::string(name.text) + "'");
  return index;
}

void Parser::parse_instruction() {
  Instruction instruction;
  instruction.line = peek().line;
  instruction.text_begin = peek().begin;
  if (accept("@")) {
    instruction.guard_negated = accept("!");
    instruction.guard = expect_register("a predicate");
    if (function_->registers[size_t(instruction.guard)].type != Type::Pred) fail("the guard must be a predicate");
  }
  const Token opcode = expect_identifier("an instruction");
  instruction.line = opcode.line;
  instruction.opcode = std::string(opcode.text);
  while (peek().kind == TokenKind::Dot) instruction.modifiers.emplace_back(take().text);
  if (!is(";")) {
    do {
      instruction.operands.push_back(parse_operand(0));
    } while (accept(","));
  }
  instruction.text_end = peek().end;
  expect(";");
  note_labels(instruction);
  function_->instructions.push_back(std::move(instruction));
}

void Parser::parse_operand_list(Operand& list, std::string_view close, int depth) {
  if (accept(close)) return;
  do {
    list.elements.push_back(parse_operand(depth + 1));
  } while (accept(","));
  expect(close);
}

Operand Parser::parse_operand(int depth) {
  if (depth > kMaxDepth) fail("operand nested too deeply");
  Operand operand;
  if (accept("{")) {
    operand.kind = OperandKind::Vector;
    parse_operand_list(operand, "}", depth);
    return operand;
  }
  if (is("(") && depth == 0) {
    // Only `call` takes parenthesised lists; elsewhere this is a constant expression.
    const Token& inside = peek(1);
    if (inside.kind == TokenKind::Identifier || is(")", 1)) {
      take();
      operand.kind = OperandKind::List;
      parse_operand_list(operand, ")", depth);
      return operand;
    }
    size_t ahead = 1;
    while (peek(ahead).kind == TokenKind::Integer || peek(ahead).kind == TokenKind::Float32 ||
           peek(ahead).kind == TokenKind::Float64 || is("-", ahead)) {
      ++ahead;
    }
    if (is(",", ahead) || (is(")", ahead) && (is(",", ahead + 1) || is(";", ahead + 1)))) {
      take();
      operand.kind = OperandKind::List;
      parse_operand_list(operand, ")", depth);
      return operand;
    }
  }
  if (is("[")) return parse_address(depth);
  if (accept("!")) {
    operand = parse_name_operand(depth);
    if (operand.kind != OperandKind::Register) fail("expected a predicate after '!'");
    operand.negated = true;
    return operand;
  }
  if (is("-") && peek(1).kind == TokenKind::Identifier && peek(1).text != "WARP_SZ") {
    take();
    operand = parse_name_operand(depth);
    if (operand.kind != OperandKind::Register) fail("expected a register after '-'");
    operand.negative = true;
    return operand;
  }
  if (peek().kind == TokenKind::Identifier && peek().text != "WARP_SZ") return parse_name_operand(depth);
  return parse_number_operand();
}

Operand Parser::parse_number_operand() {
  Operand operand;
  const bool negative_float = is("-") && (peek(1).kind == TokenKind::Float32 || peek(1).kind == TokenKind::Float64);
  if (negative_float) take();
  if (peek().kind == TokenKind::Float32) {
    operand.kind = OperandKind::Float32;
    operand.bits = take().bits ^ (negative_float ? 0x80000000u : 0u);
  } else if (peek().kind == TokenKind::Float64) {
    operand.kind = OperandKind::Float64;
    operand.bits = take().bits ^ (negative_float ? uint64_t(1) << 63 : 0u);
  } else {
    operand.kind = OperandKind::Integer;
    operand.is_unsigned = peek().is_unsigned;
    operand.bits = parse_constant();
  }
  return operand;
}

Operand Parser::parse_name_operand(int) {
  Operand operand;
  const Token name = expect_identifier("an operand");
  operand.name = std::string(name.text);
  if (name.text == "_") {
    operand.kind = OperandKind::Sink;
  } else {
    resolve_name(operand);
  }
  if (peek().kind == TokenKind::Dot && operand.kind == OperandKind::Special) {
    operand.name += "." + std::string(take().text);
  } else if (peek().kind == TokenKind::Dot && operand.kind == OperandKind::Register) {
    operand.selector = std::string(take().text);
  }
  if (operand.kind == OperandKind::Variable && (is("+") || is("-"))) {
    const bool minus = take().text == "-";
    const uint64_t offset = parse_unary(0);
    operand.offset = int64_t(minus ? uint64_t(0) - offset : offset);
  }
  if (operand.kind == OperandKind::Variable && accept("[")) {
    operand.offset += int64_t(parse_constant());
    expect("]");
  }
  if (accept("|")) {
    if (peek().text == "_") {
      take();
      operand.paired = -2;
    } else {
      operand.paired = expect_register("a predicate");
    }
  }
  return operand;
}

/// `[base]`, `[base+4]`, `[base, {x, y}]`, `[64]`.
Operand Parser::parse_address(int depth) {
  expect("[");
  Operand address;
  address.kind = OperandKind::Address;
  Operand base;
  if (peek().kind == TokenKind::Identifier && peek().text != "WARP_SZ") {
    base.name = std::string(take().text);
    resolve_name(base);
    if (base.kind == OperandKind::Label) fail("unknown symbol '" + base.name + "'");
    while (is("+") || is("-")) {
      const bool minus = take().text == "-";
      const uint64_t offset = parse_unary(0);
      address.offset = int64_t(uint64_t(address.offset) + (minus ? uint64_t(0) - offset : offset));
    }
  } else {
    base.kind = OperandKind::Integer;
    base.bits = parse_constant();
  }
  address.elements.push_back(std::move(base));
  while (accept(",")) address.elements.push_back(parse_operand(depth + 1));
  expect("]");
  return address;
}

/// Register, special register, variable or function; what is none of them is taken for a label.
void Parser::resolve_name(Operand& operand) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (const auto it = scopes_[i].variables.find(operand.name); it != scopes_[i].variables.end()) {
      operand.kind = OperandKind::Variable;
      operand.is_local = true;
      operand.index = it->second;
      return;
    }
  }
  if (const int index = find_register(operand.name); index >= 0) {
    operand.kind = OperandKind::Register;
    operand.index = index;
  } else if (is_special_register(operand.name)) {
    operand.kind = OperandKind::Special;
  } else if (const auto variable = module_variables_.find(operand.name); variable != module_variables_.end()) {
    operand.kind = OperandKind::Variable;
    operand.index = variable->second;
  } else if (function_names_.contains(operand.name) || module_.aliases.contains(operand.name)) {
    operand.kind = OperandKind::Function;
  } else {
    operand.kind = OperandKind::Label;
  }
}

void Parser::note_labels(const Instruction& instruction) {
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    std::vector<int> path{int(i)};
    note_labels_in(instruction.operands[i], path, instruction.line);
  }
}

void Parser::note_labels_in(const Operand& operand, std::vector<int>& path, int line) {
  if (operand.kind == OperandKind::Label) {
    scopes_.back().pending.push_back({operand.name, int(function_->instructions.size()), path, line});
  }
  for (size_t i = 0; i < operand.elements.size(); ++i) {
    path.push_back(int(i));
    note_labels_in(operand.elements[i], path, line);
    path.pop_back();
  }
}

/// Binds the label references of the innermost scope; what it does not define goes to the scope around it.
void Parser::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  const bool outermost = scopes_.empty();
  for (auto& pending : scope.pending) {
    const auto label = scope.labels.find(pending.name);
    if (label != scope.labels.end()) {
      Operand* operand = &function_->instructions[size_t(pending.instruction)].operands[size_t(pending.path[0])];
      for (size_t i = 1; i < pending.path.size(); ++i) operand = &operand->elements[size_t(pending.path[i])];
      operand->index = label->second;
    } else if (outermost) {
      report(pending.line, "unknown symbol '" + pending.name + "'");
    } else {
      scopes_.back().pending.push_back(std::move(pending));
    }
  }
  for (auto& pending : scope.pending_targets) {
    const auto label = scope.labels.find(pending.name);
    if (label != scope.labels.end()) {
      function_->labels[size_t(pending.table)].targets[size_t(pending.slot)] = label->second;
    } else if (outermost) {
      report(pending.line, "unknown label '" + pending.name + "'");
    } else {
      scopes_.back().pending_targets.push_back(std::move(pending));
    }
  }
}

}  // namespace corrloom::sim::ptx
