#include "runtime/sim/ptx/parser.h"

#include <algorithm>

namespace corrloom::sim::ptx {

const Token& Parser::peek(size_t ahead) const {
  return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
}

Token Parser::take() {
  const Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Parser::is(std::string_view punctuation, size_t ahead) const {
  return peek(ahead).kind == TokenKind::Punctuation && peek(ahead).text == punctuation;
}

bool Parser::is_dot(std::string_view name, size_t ahead) const {
  return peek(ahead).kind == TokenKind::Dot && peek(ahead).text == name;
}

bool Parser::accept(std::string_view punctuation) {
  if (!is(punctuation)) return false;
  take();
  return true;
}

bool Parser::accept_dot(std::string_view name) {
  if (!is_dot(name)) return false;
  take();
  return true;
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::End:
      return "end of file";
    case TokenKind::Dot:
      return "'." + std::string(token.text) + "'";
    case TokenKind::String:
      return "a string";
    default:
      return "'" + std::string(token.text) + "'";
  }
}

void Parser::fail(const std::string& message) const {
  throw SyntaxError(peek().line, message);
}

void Parser::expect(std::string_view punctuation) {
  if (!accept(punctuation)) fail("expected '" + std::string(punctuation) + "' before " + describe(peek()));
}

Token Parser::expect_identifier(const char* what) {
  if (peek().kind != TokenKind::Identifier) fail(std::string("expected ") + what + " before " + describe(peek()));
  return take();
}

uint64_t Parser::expect_integer(const char* what) {
  if (peek().kind != TokenKind::Integer) fail(std::string("expected ") + what + " before " + describe(peek()));
  return take().bits;
}

void Parser::report(int line, const std::string& message) {
  if (errors_.size() < kMaxErrors) errors_.push_back({line, message});
}

Module Parser::run() {
  while (peek().kind != TokenKind::End && errors_.size() < kMaxErrors) {
    const size_t before = position_;
    try {
      parse_module_statement();
    } catch (const SyntaxError& error) {
      report(error.line, error.what());
      function_ = nullptr;
      scopes_.clear();
      recover_at_module_scope();
    }
    if (position_ == before) take();
  }
  if (module_.version == 0 && errors_.empty()) report(1, "missing .version directive");
  if (module_.targets.empty() && errors_.empty()) report(1, "missing .target directive");
  return std::move(module_);
}

/// Skips to what looks like the next statement of module scope.
void Parser::recover_at_module_scope() {
  static constexpr std::string_view kStarts[] = {"visible", "extern", "weak",  "entry",
                                                 "func",    "global", "const", "common"};
  while (peek().kind != TokenKind::End) {
    const Token& token = peek();
    if (token.kind == TokenKind::Dot && std::ranges::find(kStarts, token.text) != std::end(kStarts)) return;
    take();
  }
}

Parser::Linkage Parser::parse_linkage() {
  Linkage linkage;
  for (;;) {
    if (accept_dot("extern")) {
      linkage.is_extern = true;
    } else if (accept_dot("visible")) {
      linkage.is_visible = true;
    } else if (accept_dot("weak") || accept_dot("common")) {
      linkage.is_weak = linkage.is_visible = true;
    } else {
      return linkage;
    }
  }
}

void Parser::parse_module_statement() {
  if (accept(";")) return;
  if (peek().kind == TokenKind::Identifier && is(":", 1)) {  // labels between debug sections
    take();
    take();
    return;
  }
  if (peek().kind != TokenKind::Dot) fail("expected a directive before " + describe(peek()));
  if (parse_debug_directive()) return;
  if (is_dot("version")) return parse_version();
  if (module_.version == 0) fail("the first directive must be .version");
  if (is_dot("target")) return parse_target();
  if (accept_dot("address_size")) {
    module_.address_bits = int(expect_integer("32 or 64"));
    if (module_.address_bits != 64) fail(".address_size must be 64");
    return;
  }
  if (module_.targets.empty()) fail("missing .target directive");
  if (is_dot("alias")) return parse_alias();
  const Linkage linkage = parse_linkage();
  if (accept_dot("entry")) return parse_function(true, linkage);
  if (accept_dot("func")) return parse_function(false, linkage);
  Space space = Space::Global;
  if (accept_dot("global")) {
    space = Space::Global;
  } else if (accept_dot("const")) {
    space = Space::Const;
  } else if (accept_dot("shared") || accept_dot("shared::cta")) {
    space = Space::Shared;
  } else {
    fail("unknown directive " + describe(peek()));
  }
  for (Variable& variable : parse_variables(space, linkage)) {
    const auto [known, fresh] = module_variables_.try_emplace(variable.name, int(module_.variables.size()));
    if (fresh) {
      module_.variables.push_back(std::move(variable));
    } else if (module_.variables[size_t(known->second)].is_extern) {
      module_.variables[size_t(known->second)] = std::move(variable);
    } else if (!variable.is_extern) {
      throw SyntaxError(variable.line, "duplicate definition of '" + variable.name + "'");
    }
  }
}

void Parser::parse_version() {
  module_.version_line = take().line;
  const Token number = take();
  const size_t dot = number.text.find('.');
  if (number.kind != TokenKind::Float64 || dot == std::string_view::npos) fail("expected a version such as 7.8");
  const int major = std::atoi(std::string(number.text.substr(0, dot)).c_str());
  const int minor = std::atoi(std::string(number.text.substr(dot + 1)).c_str());
  if (major < 1 || major > 99 || minor < 0 || minor > 9) fail("expected a version such as 7.8");
  module_.version = major * 10 + minor;
}

void Parser::parse_target() {
  module_.target_line = take().line;
  do {
    module_.targets.emplace_back(expect_identifier("a target").text);
  } while (accept(","));
}

void Parser::parse_alias() {
  take();
  const std::string name(expect_identifier("a function").text);
  expect(",");
  const Token aliasee = expect_identifier("a function");
  expect(";");
  module_.aliases[name] = std::string(aliasee.text);
}

/// `.file`, `.loc`, `.section`, `.pragma` and the dwarf data of old compilers: read and dropped.
bool Parser::parse_debug_directive() {
  if (accept_dot("file")) {
    expect_integer("a file number");
    if (peek().kind != TokenKind::String) fail("expected a file name");
    take();
    while (accept(",")) expect_integer("a number");
    return true;
  }
  if (is_dot("loc")) {
    parse_loc();
    return true;
  }
  if (is_dot("section")) {
    skip_section();
    return true;
  }
  if (accept_dot("pragma")) {
    do {
      if (peek().kind != TokenKind::String) fail("expected a string after .pragma");
      take();
    } while (accept(","));
    expect(";");
    return true;
  }
  return false;
}

void Parser::parse_loc() {
  take();
  for (int i = 0; i < 3; ++i) expect_integer("a number");
  while (accept(",")) {
    const Token what = expect_identifier("function_name or inlined_at");
    if (what.text == "function_name") {
      expect_identifier("a label");
      if (accept("+")) expect_integer("an offset");
    } else if (what.text == "inlined_at") {
      for (int i = 0; i < 3; ++i) expect_integer("a number");
    } else {
      throw SyntaxError(what.line, "unexpected '" + std::string(what.text) + "' in .loc");
    }
  }
}

void Parser::skip_section() {
  const int line = take().line;
  while (peek().kind == TokenKind::Dot || peek().kind == TokenKind::Identifier) take();
  expect("{");
  while (!is("}")) {
    if (peek().kind == TokenKind::End) throw SyntaxError(line, "unterminated .section");
    take();
  }
  take();
}

Module parse(std::string_view source, std::vector<Error>& errors) {
  try {
    return Parser(tokenize(source), errors).run();
  } catch (const SyntaxError& error) {
    errors.push_back({error.line, error.what()});
    return {};
  }
}

}  // namespace corrloom::sim::ptx
