#include <algorithm>

#include "compiler/frontend/library.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

/// Longer names are not compared: the distance costs their product.
constexpr std::size_t kLongestCompared = 64;

/// Number of letters to insert, remove, replace or swap with their neighbour.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

/// The definition of a name in one module, itself or broken.
Global find_in(const Module& module, const std::string& name) {
  const auto found = module.items.find(name);
  if (found != module.items.end()) {
    const auto derived = module.derived.find(found->second);
    if (derived != module.derived.end()) return {Global::Kind::Item, derived->second.first, derived->second.second};
    return {Global::Kind::Item, &module, found->second};
  }
  if (module.broken_names.count(name) != 0) return {Global::Kind::Broken, &module};
  return {};
}

}  // namespace

const ast::Name* name_of(const ast::Item& item) {
  return match(
      item, [](const ast::Import&) -> const ast::Name* { return nullptr; },
      [](const ast::Const& constant) { return &constant.name; }, [](const ast::Fn& fn) { return &fn.name; },
      [](const ast::Op& op) { return &op.name; }, [](const ast::Grad& grad) { return &grad.name; });
}

Global find_global(const Module& module, const std::string& name) {
  const std::size_t dot = name.find('.');
  const std::string alias = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string member = dot == std::string::npos ? name : name.substr(dot + 1);
  if (alias.empty()) {
    Global own = find_in(module, member);
    if (own.kind != Global::Kind::Unknown) return own;
  }
  Global found;
  for (const Module::Link& link : module.links) {
    if (link.alias != alias) continue;
    if (link.module == nullptr) {  // could not be imported: it might define anything
      if (found.kind == Global::Kind::Unknown) found.kind = Global::Kind::Broken;
      continue;
    }
    const Global here = find_in(*link.module, member);
    if (here.kind == Global::Kind::Unknown || here.module == found.module) continue;
    found.candidates.push_back(link.module);
    if (found.module == nullptr) {
      found.kind = here.kind;
      found.module = here.module;
      found.item = here.item;
    } else {
      found.kind = Global::Kind::Ambiguous;
    }
  }
  return found;
}

void report_ambiguous(const ast::Name& name, const Global& global, Diagnostics& diagnostics) {
  std::string modules;
  for (const Module* module : global.candidates) modules += (modules.empty() ? "" : " and ") + module->path;
  diagnostics.report(Code::E0221, name.span, "`" + name.text + "` is given by two imports", modules)
      .help("import one of them `as` a name: `import \"...\" as m` gives `m." + name.text + "`");
}

std::vector<std::string> names_in_scope(const Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, item] : module.items) names.push_back(name);
  for (const Module::Link& link : module.links) {
    if (link.module == nullptr) continue;
    const std::string prefix = link.alias.empty() ? "" : link.alias + ".";
    for (const auto& [name, item] : link.module->items) names.push_back(prefix + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  if (name.size() > kLongestCompared) return {};
  const std::size_t allowed = name.size() <= 2 ? 1 : name.size() <= 5 ? 2 : 3;
  std::optional<std::string> nearest;
  std::size_t least = allowed + 1;
  for (const std::string& candidate : candidates) {
    if (candidate == name || candidate.size() > kLongestCompared) continue;
    const std::size_t distance = edit_distance(name, candidate);
    // A name that shares no letter is no misspelling.
    if (distance >= least || distance >= std::max(name.size(), candidate.size())) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace corrloom::frontend
