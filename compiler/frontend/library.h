#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/frontend/ast.h"
#include "compiler/frontend/frontend.h"

/// Inside of the front end: files, what they define and import, and the look-up of names across them.
namespace corrloom::frontend {

/// One parsed file, or all files of the standard library. Items are referred to by address: a module never moves once
/// made.
struct Module {
  struct Link {
    const Module* module = nullptr;
    std::string alias;  ///< empty: its names are used as they are
    ast::Import import;
  };

  std::string path;
  ast::File file;
  /// Ships with the compiler, and its tests check it: a program checks only what it uses.
  bool is_standard = false;
  std::vector<Link> links;
  std::unordered_map<std::string, const ast::Item*> items;
  /// What `op d = grad ...` stands for, once it is derived: the op in a file of its own.
  std::unordered_map<const ast::Item*, std::pair<const Module*, const ast::Item*>> derived;
  /// Names whose definitions had an error: using them is no error of its own.
  std::unordered_set<std::string> broken_names;
};

/// The value of a `const`: one element a place, row-major; no extents for a scalar.
struct ConstantValue {
  DType dtype = DType::I64;
  std::vector<std::int64_t> extents;
  std::vector<scalar::Value> values;
};

/// A file and all that it imports.
struct Library {
  std::vector<std::unique_ptr<Module>> modules;  ///< the file itself first
  std::vector<std::unique_ptr<Module>> derived;  ///< one for each derivative
  std::unordered_map<const ast::Const*, ConstantValue> constants;
  std::vector<OpSignature> ops;                           ///< of the file itself
  std::unordered_map<std::string, OpSignature> imported;  ///< of imports, by each name that finds them

  const Module& root() const { return *modules.front(); }
};

/// What a name stands for at the level of files.
struct Global {
  enum class Kind { Unknown, Broken, Ambiguous, Item };
  Kind kind = Kind::Unknown;
  const Module* module = nullptr;  ///< where the item stands
  const ast::Item* item = nullptr;
  std::vector<const Module*> candidates = {};  ///< of an ambiguous name

  const ast::Op* op() const { return item == nullptr ? nullptr : std::get_if<ast::Op>(item); }
  const ast::Fn* fn() const { return item == nullptr ? nullptr : std::get_if<ast::Fn>(item); }
  const ast::Const* constant() const { return item == nullptr ? nullptr : std::get_if<ast::Const>(item); }
  const ast::Grad* grad() const { return item == nullptr ? nullptr : std::get_if<ast::Grad>(item); }
};

/// Looks a name up: a definition in the file wins over an imported one. A derivative is found as the op that it is,
/// once it is derived.
Global find_global(const Module& module, const std::string& name);
/// Reports E0221 for a use of an ambiguous name.
void report_ambiguous(const ast::Name& name, const Global& global, Diagnostics& diagnostics);
/// The names that are of use in a module: its own, and those that it imports as they are written there; sorted.
std::vector<std::string> names_in_scope(const Module& module);
/// The name that an item defines, or null for an import.
const ast::Name* name_of(const ast::Item& item);

/// Parses the file and everything that it imports. Reports E01xx, E0202 and E0220.
std::unique_ptr<Library> load_modules(const SourceRef& source, const ImportResolver& resolver,
                                      Diagnostics& diagnostics);
/// The standard library alone.
std::unique_ptr<Library> load_standard_modules(Diagnostics& diagnostics);

/// Checks every definition of every module, those of the standard library as far as they are used, and computes the
/// constants. Reports E02xx.
void check_library(Library& library, Diagnostics& diagnostics);

/// The signature of a checked op, as declared or, with an instance, with types and packs put in place.
OpSignature signature_of(const Library& library, const Module& module, const ast::Op& op,
                         const Instance* instance = nullptr);

/// The type of a parameter as it is declared: `f32[H, W]`.
std::string declared_text(const ParameterSignature& parameter);

/// The candidate nearest to a misspelt name, if one is near enough to be meant.
std::optional<std::string> nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace corrloom::frontend
