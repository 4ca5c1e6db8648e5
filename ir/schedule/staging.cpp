#include "ir/schedule/staging.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/base/match.h"

namespace corrloom::schedule {
namespace {

using affine::LinearForm;
using scalar::AxisId;
using scalar::Expr;
using scalar::Node;
using scalar::Opcode;

/// Which nodes of an expression can be (part of) a staged expression.
struct NodeInfo {
  bool plain = false;  ///< no read and no accumulator inside
  bool staged = false;
  scalar::TensorId tensor;
};

/// `expr` with sub-expressions replaced, outermost ones first.
class TopDownReplacement {
 public:
  explicit TopDownReplacement(std::map<const Node*, Expr> done) : done_(std::move(done)) {}

  Expr run(const Expr& expr) {
    const auto found = done_.find(expr.get());
    if (found != done_.end()) return found->second;
    Expr result = match(
        expr->kind,
        [&](const scalar::Apply& apply) {
          std::vector<Expr> args;
          for (const Expr& arg : apply.args) args.push_back(run(arg));
          if (apply.opcode == Opcode::Cast) return scalar::cast(args[0], expr->dtype);
          if (apply.opcode == Opcode::Bitcast) return scalar::bitcast(args[0], expr->dtype);
          return scalar::apply(apply.opcode, std::move(args));
        },
        [&](const scalar::Read& read) {
          scalar::Read changed = read;
          for (Expr& subscript : changed.index) subscript = run(subscript);
          return scalar::read(std::move(changed), expr->dtype);
        },
        [&](const auto&) { return expr; });
    done_.emplace(expr.get(), result);
    return result;
  }

 private:
  std::map<const Node*, Expr> done_;
};

class Finder {
 public:
  Finder(const tensor::Graph& graph, const tensor::Op& op)
      : graph_(graph), compute_(std::get<tensor::Compute>(op.kind)) {
    const auto add = [&](const std::vector<tensor::Axis>& axes) {
      for (const tensor::Axis& axis : axes) extents_[axis.id] = scalar::as_i64(axis.extent);
    };
    add(compute_.axes);
    if (compute_.reduction) add(compute_.reduction->axes);
  }

  std::vector<StagedExpr> run() {
    std::vector<StagedExpr> out;
    if (!compute_.reduction) return out;
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators) {
      for (const Expr& root : roots_of(accumulator.step)) {
        std::optional<StagedExpr> staged = describe(root);
        const bool known = std::any_of(out.begin(), out.end(),
                                       [&](const StagedExpr& other) { return scalar::same(other.expr, root); });
        if (staged && !known) out.push_back(*std::move(staged));
      }
    }
    return out;
  }

 private:
  /// The largest staged sub-expressions.
  std::vector<Expr> roots_of(const Expr& step) {
    std::map<const Node*, NodeInfo> infos;
    std::vector<Expr> nodes;
    scalar::for_each_node(step, [&](const Expr& node) {
      infos[node.get()] = classify(node, infos);
      nodes.push_back(node);
    });
    std::vector<Expr> roots;
    std::set<const Node*> seen;
    const auto add = [&](const Expr& node) {
      if (infos[node.get()].staged && seen.insert(node.get()).second) roots.push_back(node);
    };
    for (const Expr& node : nodes) {
      if (infos[node.get()].staged) continue;
      for (const Expr& child : scalar::children(node)) add(child);
    }
    add(step);
    return roots;
  }

  /// Halves are widened by instructions of their own, once for a copy rather than at each use.
  static bool is_widened_half(const Expr& node) {
    const scalar::Apply* cast = scalar::as_apply(node, Opcode::Cast);
    return cast != nullptr && node->dtype == DType::F32 && cast->args[0]->dtype == DType::F16;
  }

  static NodeInfo classify(const Expr& node, std::map<const Node*, NodeInfo>& infos) {
    NodeInfo info;
    const std::vector<Expr> children = scalar::children(node);
    const bool all_plain =
        std::all_of(children.begin(), children.end(), [&](const Expr& child) { return infos[child.get()].plain; });
    if (const scalar::Read* read = scalar::as_read(node)) {
      info.staged = all_plain && read->check != scalar::ReadCheck::Runtime;
      info.tensor = read->source;
      return info;
    }
    info.plain = all_plain && !std::holds_alternative<scalar::AccRef>(node->kind);
    if (is_widened_half(node)) return infos[children.front().get()];
    if (const scalar::Apply* choice = scalar::as_apply(node, Opcode::If)) {
      const NodeInfo &then = infos[choice->args[1].get()], &otherwise = infos[choice->args[2].get()];
      const bool one = then.staged != otherwise.staged;
      const bool both = then.staged && otherwise.staged && then.tensor == otherwise.tensor;
      info.staged = infos[choice->args[0].get()].plain && (both || (one && (then.plain || otherwise.plain)));
      info.tensor = then.staged ? then.tensor : otherwise.tensor;
    }
    return info;
  }

  std::optional<StagedExpr> describe(const Expr& root) {
    StagedExpr staged{root, {}, {}, {}};
    std::map<const Node*, LinearForm> affine;
    std::vector<Expr> nodes;
    bool fits = true;
    scalar::for_each_node(root, [&](const Expr& node) {
      nodes.push_back(node);
      if (const scalar::Read* read = scalar::as_read(node)) staged.tensor = read->source;
      if (node->dtype != DType::I64 || scalar::as_read(node) != nullptr) return;
      const std::optional<LinearForm> form = affine::linear_form(node);
      if (form && form->is_affine() && !form->terms.empty()) affine[node.get()] = *form;
    });
    // Subscripts first, so that parts stand in the order of the tensor's dimensions.
    std::vector<Expr> tops;
    for (const Expr& node : nodes) {
      if (const scalar::Read* read = scalar::as_read(node))
        tops.insert(tops.end(), read->index.begin(), read->index.end());
    }
    for (const Expr& node : nodes) {
      if (affine.contains(node.get())) continue;
      const std::vector<Expr> children = scalar::children(node);
      tops.insert(tops.end(), children.begin(), children.end());
    }
    for (const Expr& top : tops) {
      const auto found = affine.find(top.get());
      if (found != affine.end()) fits &= add_use(staged, top, found->second);
    }
    for (const Expr& node : nodes) {
      // An axis on its own is affine, so each lies inside some use.
      if (std::holds_alternative<scalar::AxisRef>(node->kind)) fits &= affine.contains(node.get());
    }
    if (!fits || staged.parts.empty() || !reads_inside(staged)) return std::nullopt;
    return staged;
  }

  /// Whether the reads stay inside for all values of the parts: what stands around the expression, or how its axes hang
  /// together, is not known to a copy.
  bool reads_inside(const StagedExpr& staged) const {
    affine::Domain domain;
    std::vector<Expr> values;
    for (std::size_t k = 0; k < staged.parts.size(); ++k) {
      const AxisId axis{static_cast<std::int32_t>(graph_.axis_names.size() + k)};
      domain.axes.push_back({axis, "d" + std::to_string(k), staged.parts[k].count()});
      const Expr low = scalar::constant_i64(staged.parts[k].low);
      values.push_back(scalar::apply(Opcode::Add, {scalar::axis(axis), low}));
    }
    return reads_inside(in_parts(staged, staged.expr, values), domain);
  }

  bool reads_inside(const Expr& expr, const affine::Domain& domain) const {
    if (const scalar::Apply* choice = scalar::as_apply(expr, Opcode::If)) {
      affine::Domain then = domain, otherwise = domain;
      add_conditions(choice->args[0], then.conditions);
      otherwise.conditions.push_back(scalar::apply(Opcode::Not, {choice->args[0]}));
      return reads_inside(choice->args[1], then) && reads_inside(choice->args[2], otherwise);
    }
    if (const scalar::Apply* cast = scalar::as_apply(expr, Opcode::Cast)) return reads_inside(cast->args[0], domain);
    const scalar::Read* read = scalar::as_read(expr);
    if (read == nullptr) return true;
    for (std::size_t k = 0; k < read->index.size(); ++k) {
      const std::optional<std::int64_t> extent = scalar::as_i64(graph_.op(read->source).extents[k]);
      if (!extent || affine::stays_inside(read->index[k], *extent, domain).kind != affine::Verdict::Kind::Inside)
        return false;
    }
    return true;
  }

  static void add_conditions(const Expr& condition, std::vector<Expr>& out) {
    if (const scalar::Apply* both = scalar::as_apply(condition, Opcode::LazyAnd)) {
      add_conditions(both->args[0], out);
      add_conditions(both->args[1], out);
    } else {
      out.push_back(condition);
    }
  }

  bool add_use(StagedExpr& staged, const Expr& node, const LinearForm& form) {
    if (staged.uses.contains(node.get())) return true;
    std::vector<LinearForm::Term> terms = form.terms;
    std::sort(terms.begin(), terms.end(), [](const LinearForm::Term& a, const LinearForm::Term& b) {
      return std::get<scalar::AxisRef>(a.expr->kind).axis < std::get<scalar::AxisRef>(b.expr->kind).axis;
    });
    std::int64_t factor = 0;
    for (const LinearForm::Term& term : terms) factor = std::gcd(factor, term.coefficient);
    if (terms.front().coefficient < 0) factor = -factor;
    for (LinearForm::Term& term : terms) term.coefficient /= factor;
    const auto same_terms = [&](const Part& part) {
      return std::equal(part.terms.begin(), part.terms.end(), terms.begin(), terms.end(),
                        [](const LinearForm::Term& a, const LinearForm::Term& b) {
                          return a.coefficient == b.coefficient && scalar::same(a.expr, b.expr);
                        });
    };
    auto part = std::find_if(staged.parts.begin(), staged.parts.end(), same_terms);
    if (part == staged.parts.end()) {
      std::optional<Part> added = bounded(std::move(terms));
      if (!added) return false;
      part = staged.parts.insert(staged.parts.end(), *std::move(added));
    }
    staged.uses[node.get()] = {static_cast<int>(part - staged.parts.begin()), factor, form.constant};
    return true;
  }

  std::optional<Part> bounded(std::vector<LinearForm::Term> terms) const {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    Part part{std::move(terms), 0, 0};
    for (const LinearForm::Term& term : part.terms) {
      const auto extent = extents_.find(std::get<scalar::AxisRef>(term.expr->kind).axis);
      if (extent == extents_.end() || !extent->second || *extent->second < 1 || *extent->second > kFar)
        return std::nullopt;
      std::int64_t reach = 0;
      if (__builtin_mul_overflow(term.coefficient, *extent->second - 1, &reach) || reach > kFar || reach < -kFar)
        return std::nullopt;
      (reach < 0 ? part.low : part.high) += reach;
    }
    return part;
  }

  const tensor::Graph& graph_;
  const tensor::Compute& compute_;
  std::map<AxisId, std::optional<std::int64_t>> extents_;
};

}  // namespace

std::vector<StagedExpr> staged_exprs(const tensor::Graph& graph, const tensor::Op& op) {
  return Finder(graph, op).run();
}

Expr in_parts(const StagedExpr& staged, const Expr& expr, const std::vector<Expr>& values) {
  std::map<const Node*, Expr> replaced;
  for (const auto& [node, use] : staged.uses) {
    Expr value = values[static_cast<std::size_t>(use.part)];
    if (value == nullptr) continue;
    if (use.factor != 1) value = scalar::apply(Opcode::Mul, {value, scalar::constant_i64(use.factor)});
    if (use.constant != 0) value = scalar::apply(Opcode::Add, {value, scalar::constant_i64(use.constant)});
    replaced.emplace(node, std::move(value));
  }
  return TopDownReplacement(std::move(replaced)).run(expr);
}

std::string to_text(const Part& part, const tensor::Graph& graph) {
  std::string text;
  for (const LinearForm::Term& term : part.terms) {
    const AxisId axis = std::get<scalar::AxisRef>(term.expr->kind).axis;
    const bool minus = term.coefficient < 0;
    const std::int64_t size = minus ? -term.coefficient : term.coefficient;
    text += text.empty() ? "" : minus ? " - " : " + ";
    if (size != 1) text += std::to_string(size) + " * ";
    text += graph.axis_names[static_cast<std::size_t>(axis.index)];
  }
  return text;
}

std::optional<Copy> copy_of(const tensor::Graph& graph, const tensor::Op& op, const Staging& staging,
                            const std::vector<Expr>& taken, std::string& why) {
  std::vector<StagedExpr> found = staged_exprs(graph, op);
  std::erase_if(found, [&](const StagedExpr& staged) {
    const auto is_it = [&](const Expr& expr) { return scalar::same(expr, staged.expr); };
    return graph.op(staged.tensor).name != staging.tensor || std::any_of(taken.begin(), taken.end(), is_it);
  });
  if (found.empty()) {
    why = "is read by no element of its reduction in a way that a copy can stand for";
    return std::nullopt;
  }
  for (StagedExpr& staged : found) {
    Copy copy{std::move(staged), {}};
    std::vector<int> wholes(copy.staged.parts.size()), outers(wholes), inners(wholes);
    std::vector<std::int64_t> blocks(wholes.size());
    bool fits = true;
    for (const Staging::Dim& dim : staging.layout) {
      const auto part = std::find_if(copy.staged.parts.begin(), copy.staged.parts.end(),
                                     [&](const Part& candidate) { return to_text(candidate, graph) == dim.index; });
      if (part == copy.staged.parts.end()) {
        why = "is not addressed by " + dim.index;
        fits = false;
        break;
      }
      const auto number = static_cast<std::size_t>(part - copy.staged.parts.begin());
      copy.parts.push_back(static_cast<int>(number));
      ++(dim.kind == Staging::Dim::Kind::Whole   ? wholes
         : dim.kind == Staging::Dim::Kind::Outer ? outers
                                                 : inners)[number];
      if (dim.kind == Staging::Dim::Kind::Whole) continue;
      if (dim.block < 1 || (blocks[number] != 0 && blocks[number] != dim.block)) fits = false;
      blocks[number] = dim.block;
    }
    for (std::size_t k = 0; k < wholes.size(); ++k) {
      const bool once = wholes[k] == 1 && outers[k] == 0 && inners[k] == 0;
      const bool split = wholes[k] == 0 && outers[k] == 1 && inners[k] == 1;
      if (fits && !once && !split) {
        why = "is not laid out once along " + to_text(copy.staged.parts[k], graph);
        fits = false;
      }
    }
    if (fits) return copy;
  }
  if (why.empty()) why = "has blocks of several sizes";
  return std::nullopt;
}

Expr index_in(const Copy& copy, const Staging& staging, std::size_t dim) {
  using Kind = Staging::Dim::Kind;
  const Part& part = copy.staged.parts[static_cast<std::size_t>(copy.parts[dim])];
  const Expr place = affine::to_expr({-part.low, part.terms});
  if (staging.layout[dim].kind == Kind::Whole) return place;
  const Opcode opcode = staging.layout[dim].kind == Kind::Outer ? Opcode::FloorDiv : Opcode::Mod;
  return scalar::apply(opcode, {place, scalar::constant_i64(staging.layout[dim].block)});
}

std::int64_t extent_in(const Copy& copy, const Staging& staging, std::size_t dim) {
  using Kind = Staging::Dim::Kind;
  const std::int64_t count = copy.staged.parts[static_cast<std::size_t>(copy.parts[dim])].count();
  const std::int64_t block = staging.layout[dim].block;
  if (staging.layout[dim].kind == Kind::Whole) return count;
  return staging.layout[dim].kind == Kind::Outer ? (count + block - 1) / block : block;
}

}  // namespace corrloom::schedule
