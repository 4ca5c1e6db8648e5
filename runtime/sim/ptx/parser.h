#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/sim/ptx/lexer.h"
#include "runtime/sim/ptx/module.h"

namespace corrloom::sim::ptx {

/// The parser's state and the pieces shared by its source files. Use `parse` of module.h instead.
class Parser {
 public:
  Parser(std::vector<Token> tokens, std::vector<Error>& errors) : tokens_(std::move(tokens)), errors_(errors) {}
  Module run();

 private:
  // parser.cpp: tokens and errors
  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool is(std::string_view punctuation, size_t ahead = 0) const;
  bool is_dot(std::string_view name, size_t ahead = 0) const;
  bool accept(std::string_view punctuation);
  bool accept_dot(std::string_view name);
  void expect(std::string_view punctuation);
  Token expect_identifier(const char* what);
  uint64_t expect_integer(const char* what);
  [[noreturn]] void fail(const std::string& message) const;
  void report(int line, const std::string& message);
  std::string describe(const Token& token) const;

  // parser.cpp: module scope
  void parse_directive();
  void parse_version();
  void parse_target();
  void parse_module_statement();
  void recover_at_module_scope();
  void skip_section();
  void parse_alias();
  bool parse_debug_directive();
  void parse_loc();
  struct Linkage {
    bool is_extern = false, is_visible = false, is_weak = false;
  };
  Linkage parse_linkage();

  // parse_variables.cpp
  std::vector<Variable> parse_variables(Space space, Linkage linkage);
  Variable parse_parameter();
  void parse_declarator(Variable& variable, uint32_t vector_width, bool explicit_alignment);
  void parse_initializer(Variable& variable, uint32_t element_bytes);
  void parse_initializer_value(Variable& variable, uint64_t& offset, uint32_t element_bytes, int depth);
  bool parse_initializer_symbol(Variable& variable, uint64_t& offset, uint32_t element_bytes);
  void parse_attributes();
  uint64_t parse_constant(int depth = 0);
  uint64_t parse_binary(int level, int depth);
  uint64_t parse_unary(int depth);

  // parse_functions.cpp
  struct Range {
    int first = 0;
    uint32_t count = 0;
    Type type = Type::B32;
  };
  struct Scope {
    std::map<std::string, int, std::less<>> registers;  ///< name -> index in Function::registers
    std::map<std::string, Range, std::less<>> ranges;   ///< prefix -> numbered registers
    std::map<std::string, int, std::less<>> variables;  ///< name -> index in Function::variables
    std::map<std::string, int, std::less<>> labels;     ///< name -> index in Function::labels
    struct PendingLabel {
      std::string name;
      int instruction;
      std::vector<int> path;  ///< operand, then element indices
      int line;
    };
    std::vector<PendingLabel> pending;
    struct PendingTarget {
      std::string name;
      int table;
      int slot;
      int line;
    };
    std::vector<PendingTarget> pending_targets;
  };
  void parse_function(bool is_entry, Linkage linkage);
  void parse_parameter_list(Function& function, std::vector<int>& into);
  void parse_performance_directives(Function& function);
  void parse_body(Function& function);
  void parse_statement();
  void parse_body_directive();
  void parse_registers();
  void parse_label_directive(int label);
  void declare_label(const Token& name);
  void parse_instruction();
  Operand parse_operand(int depth);
  Operand parse_name_operand(int depth);
  Operand parse_number_operand();
  Operand parse_address(int depth);
  void parse_operand_list(Operand& list, std::string_view close, int depth);
  int find_register(std::string_view name);
  int expect_register(const char* what);
  void resolve_name(Operand& operand);
  void note_labels(const Instruction& instruction);
  void note_labels_in(const Operand& operand, std::vector<int>& path, int line);
  void close_scope();
  std::vector<Variable> parse_prototype_list();

  std::vector<Token> tokens_;
  std::vector<Error>& errors_;
  size_t position_ = 0;
  Module module_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::map<std::string, int, std::less<>> module_variables_;
  std::map<std::string, int, std::less<>> function_names_;
  std::map<std::pair<int, uint32_t>, int> range_registers_;  ///< (range id, number) -> register index
  int next_range_ = 0;
};

/// True for the names the ISA predefines: `%tid`, `%laneid`, `WARP_SZ`, ...
bool is_special_register(std::string_view name);

/// Errors kept before parsing gives up.
inline constexpr size_t kMaxErrors = 20;
/// Nesting of scopes, expressions and initialisers that is accepted.
inline constexpr int kMaxDepth = 100;

}  // namespace corrloom::sim::ptx
