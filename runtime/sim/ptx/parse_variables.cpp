#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/sim/ptx/parser.h"

namespace corrloom::sim::ptx {
namespace {

/// No variable of a module may be larger; keeps a mutated size from exhausting the machine.
constexpr uint64_t kMaxVariableBytes = uint64_t(1) << 32;
constexpr uint64_t kMaxInitialBytes = uint64_t(1) << 28;

/// Binary operators of constant expressions, loosest first.
constexpr std::string_view kOperators[][4] = {
    {"||"},       {"&&"},     {"|"},           {"^"}, {"&"}, {"==", "!="}, {"<", "<=", ">", ">="},
    {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"},
};
constexpr int kLevels = int(std::size(kOperators));

std::optional<uint64_t> apply(std::string_view op, uint64_t a, uint64_t b) {
  const auto sa = int64_t(a), sb = int64_t(b);
  if (op == "||") return a || b;
  if (op == "&&") return a && b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "&") return a & b;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return sa < sb;
  if (op == "<=") return sa <= sb;
  if (op == ">") return sa > sb;
  if (op == ">=") return sa >= sb;
  if (op == "<<") return b < 64 ? a << b : 0;
  if (op == ">>") return uint64_t(sa >> std::min<uint64_t>(b, 63));
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (b == 0) return std::nullopt;
  if (sb == -1) return op == "/" ? uint64_t(0) - a : 0;  // the quotient of the least integer does not fit
  return uint64_t(op == "/" ? sa / sb : sa % sb);
}

}  // namespace

uint64_t Parser::parse_unary(int depth) {
  if (depth > kMaxDepth) fail("expression nested too deeply");
  if (accept("-")) return uint64_t(0) - parse_unary(depth + 1);
  if (accept("+")) return parse_unary(depth + 1);
  if (accept("~")) return ~parse_unary(depth + 1);
  if (accept("!")) return parse_unary(depth + 1) == 0;
  if (accept("(")) {
    if (accept_dot("s64") || accept_dot("u64")) {
      expect(")");
      return parse_unary(depth + 1);
    }
    const uint64_t value = parse_constant(depth + 1);
    expect(")");
    return value;
  }
  if (peek().kind == TokenKind::Identifier && peek().text == "WARP_SZ") {
    take();
    return 32;
  }
  return expect_integer("an integer");
}

uint64_t Parser::parse_binary(int level, int depth) {
  if (level == kLevels) return parse_unary(depth + 1);
  uint64_t value = parse_binary(level + 1, depth);
  for (;;) {
    std::string_view found;
    for (const std::string_view op : kOperators[level]) {
      if (!op.empty() && is(op)) found = op;
    }
    if (found.empty()) return value;
    take();
    const std::optional<uint64_t> result = apply(found, value, parse_binary(level + 1, depth));
    if (!result) fail("division by zero in a constant expression");
    value = *result;
  }
}

uint64_t Parser::parse_constant(int depth) {
  if (depth > kMaxDepth) fail("expression nested too deeply");
  const uint64_t condition = parse_binary(0, depth);
  if (!accept("?")) return condition;
  const uint64_t yes = parse_constant(depth + 1);
  expect(":");
  const uint64_t no = parse_constant(depth + 1);
  return condition ? yes : no;
}

void Parser::parse_attributes() {
  expect("(");
  for (int depth = 1; depth > 0;) {
    if (peek().kind == TokenKind::End) fail("unterminated .attribute");
    if (is("(")) ++depth;
    if (is(")")) --depth;
    take();
  }
}

std::vector<Variable> Parser::parse_variables(Space space, Linkage linkage) {
  Variable prototype;
  prototype.space = space;
  prototype.is_extern = linkage.is_extern;
  prototype.is_visible = linkage.is_visible || linkage.is_weak;
  prototype.is_weak = linkage.is_weak;
  uint32_t vector_width = 1;
  bool explicit_alignment = false;
  for (;;) {
    if (accept_dot("align")) {
      const uint64_t alignment = expect_integer("an alignment");
      if (!std::has_single_bit(alignment) || alignment > 1024) fail("the alignment must be a power of two up to 1024");
      prototype.alignment = uint32_t(alignment);
      explicit_alignment = true;
    } else if (accept_dot("attribute")) {
      parse_attributes();
    } else if (accept_dot("v2")) {
      vector_width = 2;
    } else if (accept_dot("v4")) {
      vector_width = 4;
    } else {
      break;
    }
  }
  if (peek().kind != TokenKind::Dot || type_of(peek().text) == Type::None)
    fail("expected a type before " + describe(peek()));
  prototype.type = type_of(take().text);
  if (prototype.type == Type::Pred) fail("predicates live in registers only");
  std::vector<Variable> variables;
  do {
    Variable variable = prototype;
    variable.line = peek().line;
    variable.name = std::string(expect_identifier("a name").text);
    parse_declarator(variable, vector_width, explicit_alignment);
    variables.push_back(std::move(variable));
  } while (accept(","));
  expect(";");
  return variables;
}

void Parser::parse_declarator(Variable& variable, uint32_t vector_width, bool explicit_alignment) {
  const uint32_t element = uint32_t(type_bits(variable.type)) / 8 * vector_width;
  if (!explicit_alignment) variable.alignment = element;
  uint64_t elements = 1;
  bool unsized = false;
  while (accept("[")) {
    variable.is_array = true;
    if (accept("]")) {
      unsized = true;
      continue;
    }
    const uint64_t extent = parse_constant();
    expect("]");
    if (extent > kMaxVariableBytes) fail("array too large");
    elements *= extent;
    if (elements > kMaxVariableBytes) fail("array too large");
  }
  variable.bytes = unsized ? 0 : elements * element;
  if (variable.bytes > kMaxVariableBytes) fail("array too large");
  if (is("=")) {
    take();
    if (variable.space != Space::Global && variable.space != Space::Const)
      fail("only .global and .const take initialisers");
    parse_initializer(variable, element / vector_width);
  }
}

void Parser::parse_initializer(Variable& variable, uint32_t element_bytes) {
  if (variable.bytes > kMaxInitialBytes) fail("initialised array too large");
  const bool unsized = variable.bytes == 0;
  variable.initial.assign(variable.bytes, std::byte(0));
  uint64_t offset = 0;
  parse_initializer_value(variable, offset, element_bytes, 0);
  if (unsized) variable.bytes = variable.initial.size();
}

void Parser::parse_initializer_value(Variable& variable, uint64_t& offset, uint32_t element_bytes, int depth) {
  if (depth > kMaxDepth) fail("initialiser nested too deeply");
  if (accept("{")) {
    if (accept("}")) return;
    do {
      parse_initializer_value(variable, offset, element_bytes, depth + 1);
    } while (accept(","));
    return expect("}");
  }
  if (offset + element_bytes > variable.initial.size()) {
    if (variable.bytes != 0 || variable.initial.size() > kMaxInitialBytes)
      fail("too many initialisers for '" + variable.name + "'");
    variable.initial.resize(offset + element_bytes);
  }
  if (parse_initializer_symbol(variable, offset, element_bytes)) return;
  uint64_t bits = 0;
  const bool negative = is("-") && peek(1).kind != TokenKind::Integer && peek(1).kind != TokenKind::Punctuation;
  if (negative) take();
  if (peek().kind == TokenKind::Float32 || peek().kind == TokenKind::Float64) {
    const bool single = peek().kind == TokenKind::Float32;
    bits = take().bits;
    const double value = single ? double(std::bit_cast<float>(uint32_t(bits))) : std::bit_cast<double>(bits);
    if (element_bytes == 4) {
      bits = single ? bits : std::bit_cast<uint32_t>(float(value));
      if (negative) bits ^= 0x80000000u;
    } else {
      bits = std::bit_cast<uint64_t>(negative ? -value : value);
    }
  } else {
    bits = parse_constant();
  }
  for (uint32_t i = 0; i < element_bytes && i < 8; ++i) variable.initial[offset + i] = std::byte(bits >> (8 * i));
  offset += element_bytes;
}

/// `name`, `name+4`, `generic(name)+4`, and the byte-wise form `0xFF00(name)`.
bool Parser::parse_initializer_symbol(Variable& variable, uint64_t& offset, uint32_t element_bytes) {
  SymbolReference reference;
  reference.line = peek().line;
  reference.byte_offset = offset;
  reference.bytes = int(element_bytes);
  bool masked = false;
  if (peek().kind == TokenKind::Integer && is("(", 1)) {
    const uint64_t mask = take().bits;
    if (mask == 0) fail("empty mask in an initialiser");
    take();
    masked = true;
    reference.mask_shift = std::countr_zero(mask);
  }
  if (peek().kind != TokenKind::Identifier || peek().text == "WARP_SZ") {
    if (masked) fail("expected a name after the mask");
    return false;
  }
  Token name = take();
  if (name.text == "generic" && accept("(")) {
    reference.generic = true;
    name = expect_identifier("a name");
    expect(")");
  }
  reference.name = std::string(name.text);
  if (is("+") || is("-")) {
    const bool minus = take().text == "-";
    const uint64_t addend = parse_unary(0);
    reference.addend = int64_t(minus ? uint64_t(0) - addend : addend);
  }
  if (masked) expect(")");
  variable.references.push_back(std::move(reference));
  offset += element_bytes;
  return true;
}

/// `.param .u64 .ptr .global .align 16 name`, `.param .align 8 .b8 name[16]`, `.reg .b32 %r`.
Variable Parser::parse_parameter() {
  Variable variable;
  variable.line = peek().line;
  if (accept_dot("param")) {
    variable.space = Space::Param;
  } else if (accept_dot("reg")) {
    variable.space = Space::Reg;
  } else {
    fail("expected .param or .reg before " + describe(peek()));
  }
  bool explicit_alignment = false;
  const auto parse_alignment = [&] {
    const uint64_t alignment = expect_integer("an alignment");
    if (!std::has_single_bit(alignment) || alignment > 1024) fail("the alignment must be a power of two up to 1024");
    return uint32_t(alignment);
  };
  if (accept_dot("align")) {
    variable.alignment = parse_alignment();
    explicit_alignment = true;
  }
  if (peek().kind != TokenKind::Dot || type_of(peek().text) == Type::None)
    fail("expected a type before " + describe(peek()));
  variable.type = type_of(take().text);
  if (variable.type == Type::Pred && variable.space != Space::Reg) fail("predicates live in registers only");
  if (accept_dot("ptr")) {
    static constexpr std::string_view kSpaces[] = {"global", "shared", "const", "local"};
    for (const std::string_view space : kSpaces) accept_dot(space);
    if (accept_dot("align")) parse_alignment();
  }
  if (peek().kind == TokenKind::Identifier) {
    variable.name = std::string(take().text);
  } else {
    accept("_");
  }
  if (variable.space == Space::Reg) {
    variable.bytes = std::max(1, type_bits(variable.type) / 8);
  } else {
    parse_declarator(variable, 1, explicit_alignment);
  }
  return variable;
}

}  // namespace corrloom::sim::ptx
