#pragma once

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "compiler/frontend/ast.h"
#include "compiler/frontend/parser.h"

namespace corrloom::frontend::testing {

/// A text, its tree and its errors.
struct Parsed {
  ast::File file;
  Diagnostics diagnostics;
};

inline Parsed parse_text(std::string text, std::string name = "test.loom") {
  Parsed parsed;
  parsed.file = parse(std::make_shared<SourceFile>(std::move(name), std::move(text)), parsed.diagnostics);
  return parsed;
}

/// `E0102@3:7` for each error, in order of places, separated by spaces.
inline std::string codes_of(const Diagnostics& diagnostics) {
  std::string out;
  for (const Diagnostic& d : diagnostics.entries()) {
    if (!out.empty()) out += ' ';
    out += std::string(name_of(d.code)) + "@" + std::to_string(d.span.file->line_of(d.span.begin)) + ":" +
           std::to_string(d.span.file->column_of(d.span.begin));
  }
  return out;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace corrloom::frontend::testing
