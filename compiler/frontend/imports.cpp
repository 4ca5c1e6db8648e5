#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "compiler/frontend/library.h"
#include "compiler/frontend/parser.h"
#include "compiler/std/standard_library.h"

namespace corrloom::frontend {
namespace {

namespace fs = std::filesystem;

/// How many files may import each other in a chain, and how many there may be.
constexpr std::size_t kMaxImportDepth = 64;
constexpr std::size_t kMaxModules = 1000;
/// What stands for the standard library where a path could stand.
constexpr const char* kStandard = "std";

/// The path of an import as seen from the importing file.
std::string resolved_path(const std::string& importer, const std::string& path) {
  if (path == kStandard) return path;
  const fs::path written(path);
  if (written.is_absolute()) return written.lexically_normal().string();
  return (fs::path(importer).parent_path() / written).lexically_normal().string();
}

/// Loads modules depth first; a module that is still being loaded closes a cycle.
class Loader {
 public:
  Loader(const ImportResolver& resolver, Diagnostics& diagnostics) : resolver_(resolver), diagnostics_(diagnostics) {}

  std::unique_ptr<Library> run(const SourceRef& source) {
    const std::string path = fs::path(source->name()).lexically_normal().string();
    load(source, path);
    return std::move(library_);
  }

  std::unique_ptr<Library> run_standard() {
    load_standard();
    return std::move(library_);
  }

 private:
  Module& add_module(const std::string& path) {
    library_->modules.push_back(std::make_unique<Module>());
    Module& module = *library_->modules.back();
    module.path = path;
    by_path_[path] = &module;
    return module;
  }

  const Module* load(const SourceRef& source, const std::string& path) {
    Module& module = add_module(path);
    module.file = parse(source, diagnostics_);
    loading_.push_back(path);
    define_all(module);
    for (const ast::Item& item : module.file.items) {
      if (const auto* import = std::get_if<ast::Import>(&item)) link(module, *import);
    }
    loading_.pop_back();
    return &module;
  }

  const Module* load_standard() {
    Module& module = add_module(kStandard);
    module.is_standard = true;
    for (const EmbeddedFile& embedded : standard_library()) {
      const auto source = std::make_shared<const SourceFile>(std::string(embedded.name), std::string(embedded.text));
      ast::File file = parse(source, diagnostics_);
      std::move(file.items.begin(), file.items.end(), std::back_inserter(module.file.items));
      std::move(file.broken_names.begin(), file.broken_names.end(), std::back_inserter(module.file.broken_names));
    }
    define_all(module);
    return &module;
  }

  void define_all(Module& module) {
    for (const ast::Name& name : module.file.broken_names) module.broken_names.insert(name.text);
    for (const ast::Item& item : module.file.items) define(module, item);
  }

  void define(Module& module, const ast::Item& item) {
    const ast::Name* name = name_of(item);
    if (name == nullptr) return;
    // `f32(x)` is a cast everywhere.
    if (parse_dtype(name->text))
      diagnostics_.report(Code::E0204, name->span, "`" + name->text + "` hides the dtype of that name",
                          "wanted a new name");
    const auto [place, is_new] = module.items.emplace(name->text, &item);
    if (is_new) return;
    diagnostics_.report(Code::E0202, name->span, "`" + name->text + "` is defined twice", "second definition")
        .note("the first definition is here", name_of(*place->second)->span);
  }

  void link(Module& module, const ast::Import& import) {
    Module::Link link{nullptr, import.alias ? import.alias->text : "", import};
    const std::string path = resolved_path(module.path, import.path);
    if (import.path.empty()) {
      diagnostics_.report(Code::E0220, import.path_span, "the import names no file", "empty")
          .help("write the path of a file relative to this one, or `std`");
    } else if (const auto cycle = cycle_through(path)) {
      diagnostics_.report(Code::E0220, import.path_span, "the imports go round in a circle", *cycle)
          .help("move what both files need to a third one");
    } else if (const auto known = by_path_.find(path); known != by_path_.end()) {
      link.module = known->second;
    } else {
      link.module = load_import(path, import);
    }
    module.links.push_back(std::move(link));
  }

  const Module* load_import(const std::string& path, const ast::Import& import) {
    if (loading_.size() >= kMaxImportDepth || library_->modules.size() >= kMaxModules) {
      diagnostics_.report(Code::E0220, import.path_span, "too many imports",
                          "at most " + std::to_string(kMaxImportDepth) + " files import each other in a chain");
      return nullptr;
    }
    const std::optional<SourceRef> source = resolver_ ? resolver_(path) : std::nullopt;
    if (source && *source) return load(*source, path);
    if (path == kStandard) return load_standard();
    diagnostics_.report(Code::E0220, import.path_span, "`" + import.path + "` cannot be read", "looked for " + path);
    return nullptr;
  }

  /// `a imports b imports a` when the path is being loaded already.
  std::optional<std::string> cycle_through(const std::string& path) const {
    std::string text;
    for (const std::string& open : loading_) {
      if (text.empty() && open != path) continue;
      text += (text.empty() ? "" : " imports ") + open;
    }
    if (text.empty()) return {};
    return text + " imports " + path;
  }

  const ImportResolver& resolver_;
  Diagnostics& diagnostics_;
  std::unique_ptr<Library> library_ = std::make_unique<Library>();
  std::map<std::string, const Module*> by_path_;
  std::vector<std::string> loading_;
};

std::optional<SourceRef> read_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  // One byte more than the parser accepts, so that it can say that the file is too large.
  std::string text(kMaxSourceBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return {};
  text.resize(static_cast<std::size_t>(in.gcount()));
  return std::make_shared<const SourceFile>(path, std::move(text));
}

}  // namespace

ImportResolver read_imports_from_disk() {
  return [](const std::string& path) { return path == kStandard ? std::nullopt : read_file(path); };
}

std::unique_ptr<Library> load_modules(const SourceRef& source, const ImportResolver& resolver,
                                      Diagnostics& diagnostics) {
  return Loader(resolver, diagnostics).run(source);
}

std::unique_ptr<Library> load_standard_modules(Diagnostics& diagnostics) {
  return Loader({}, diagnostics).run_standard();
}

std::optional<Program> Program::load_file(const std::string& path, Diagnostics& diagnostics) {
  const std::optional<SourceRef> source = read_file(path);
  if (source) return load(*source, read_imports_from_disk(), diagnostics);
  diagnostics.report(Code::E0220, {}, "`" + path + "` cannot be read");
  return {};
}

}  // namespace corrloom::frontend
