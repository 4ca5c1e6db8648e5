#include "compiler/passes/read_paths.h"

#include <set>
#include <tuple>
#include <utility>

namespace corrloom::passes {
namespace {

using scalar::Apply;
using scalar::Expr;
using scalar::Node;
using scalar::Opcode;

/// Visits of nodes, each on one way, that one expression may take.
constexpr int kMostVisits = 200'000;

Expr negation(const Expr& condition) {
  return scalar::apply(Opcode::Not, {condition});
}

class PathFinder {
 public:
  explicit PathFinder(const std::function<const std::vector<Expr>&(scalar::TensorId)>& extents_of)
      : extents_of_(extents_of) {}

  std::optional<ReadPaths> run(const Expr& root) {
    visit(root, 0);
    if (visits_ > kMostVisits) return std::nullopt;
    return std::move(found_);
  }

 private:
  /// A way is a list of conditions, each linked to the one around it; 0 is the empty way.
  struct Link {
    int outer;
    Expr condition;
  };

  /// The way `outer`, then `condition`: the same number for the same conditions, so that shared nodes are visited once.
  int under(int outer, const Expr& condition, bool holds) {
    const auto key = std::tuple(outer, condition.get(), holds);
    const auto known = numbers_.find(key);
    if (known != numbers_.end()) return known->second;
    links_.push_back({outer, holds ? condition : negation(condition)});
    return numbers_[key] = static_cast<int>(links_.size()) - 1;
  }

  Path path_of(int way) const {
    Path path;
    for (; way != 0; way = links_[static_cast<std::size_t>(way)].outer)
      path.insert(path.begin(), links_[static_cast<std::size_t>(way)].condition);
    return path;
  }

  void visit(const Expr& node, int way) {
    if (visits_ > kMostVisits || !seen_.insert({node.get(), way}).second) return;
    ++visits_;
    if (const scalar::Read* read = scalar::as_read(node)) return visit_read(*node, *read, way);
    const auto* apply = std::get_if<Apply>(&node->kind);
    if (apply == nullptr) return;
    switch (apply->opcode) {
      case Opcode::If:
        visit(apply->args[0], way);
        visit(apply->args[1], under(way, apply->args[0], true));
        visit(apply->args[2], under(way, apply->args[0], false));
        return;
      case Opcode::LazyAnd:
      case Opcode::LazyOr:
        visit(apply->args[0], way);
        visit(apply->args[1], under(way, apply->args[0], apply->opcode == Opcode::LazyAnd));
        return;
      default:
        for (const Expr& arg : apply->args) visit(arg, way);
    }
  }

  void visit_read(const Node& node, const scalar::Read& read, int way) {
    found_[&node].push_back(path_of(way));
    for (const Expr& subscript : read.index) visit(subscript, way);
    if (!read.pad_value || read.pad_value->depth == 0) return;
    Expr& inside = inside_[&node];
    if (!inside) inside = is_inside(read.index, extents_of_(read.source));
    visit(read.pad_value, under(way, inside, false));
  }

  const std::function<const std::vector<Expr>&(scalar::TensorId)>& extents_of_;
  ReadPaths found_;
  std::map<const Node*, Expr> inside_;
  std::vector<Link> links_ = {{0, nullptr}};
  std::map<std::tuple<int, const Node*, bool>, int> numbers_;
  std::set<std::pair<const Node*, int>> seen_;
  int visits_ = 0;
};

}  // namespace

std::optional<ReadPaths> paths_to_reads(const Expr& expr,
                                        const std::function<const std::vector<Expr>&(scalar::TensorId)>& extents_of) {
  return PathFinder(extents_of).run(expr);
}

Expr is_inside(const std::vector<Expr>& index, const std::vector<Expr>& extents) {
  Expr inside = nullptr;
  for (std::size_t k = 0; k < index.size(); ++k) {
    const Expr low = scalar::apply(Opcode::Ge, {index[k], scalar::constant_i64(0)});
    const Expr both = scalar::apply(Opcode::LazyAnd, {low, scalar::apply(Opcode::Lt, {index[k], extents[k]})});
    inside = inside ? scalar::apply(Opcode::LazyAnd, {inside, both}) : both;
  }
  return inside ? inside : scalar::constant(scalar::Value::boolean(true));
}

}  // namespace corrloom::passes
