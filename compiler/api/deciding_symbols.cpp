#include "compiler/api/deciding_symbols.h"

#include "ir/scalar/expr.h"

namespace corrloom::api {
namespace {

using scalar::Expr;
using scalar::Opcode;

class Collector {
 public:
  explicit Collector(const tensor::Graph& graph) : graph_(graph) {}

  std::set<std::string> run() {
    for (const tensor::Condition& condition : graph_.conditions) take(condition.holds);
    for (const tensor::Op& op : graph_.ops) take_op(op);
    return std::move(names_);
  }

 private:
  void take(const Expr& expr, bool integers_only = false) {
    if (expr == nullptr) return;
    scalar::for_each_node(expr, [&](const Expr& node) {
      const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
      if (symbol == nullptr || (integers_only && is_float(node->dtype))) return;
      names_.insert(graph_.symbols[static_cast<std::size_t>(symbol->symbol.index)].name);
    });
  }

  void take_axes(const std::vector<tensor::Axis>& axes) {
    for (const tensor::Axis& axis : axes) {
      take(axis.extent);
      take(axis.origin);
    }
  }

  void take_op(const tensor::Op& op) {
    for (const Expr& extent : op.extents) take(extent);
    if (const auto* view = std::get_if<tensor::View>(&op.kind)) {
      take_axes(view->axes);
      for (const Expr& index : view->index) take(index);
    }
    if (const auto* compute = std::get_if<tensor::Compute>(&op.kind)) {
      take_axes(compute->axes);
      if (compute->reduction) take_axes(compute->reduction->axes);
    }
    tensor::for_each_expr(
        op, [&](const Expr& expr) { scalar::for_each_node(expr, [&](const Expr& node) { take_node(node); }); });
  }

  void take_node(const Expr& node) {
    if (const scalar::Read* read = scalar::as_read(node)) {
      for (const Expr& index : read->index) take(index);
    }
    // The condition of a lazy branch bounds the reads in it.
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    const bool lazy = apply != nullptr && (apply->opcode == Opcode::If || apply->opcode == Opcode::LazyAnd ||
                                           apply->opcode == Opcode::LazyOr);
    if (!lazy) return;
    bool reads = false;
    for (std::size_t k = 1; k < apply->args.size(); ++k) {
      scalar::for_each_node(apply->args[k],
                            [&](const Expr& inner) { reads = reads || scalar::as_read(inner) != nullptr; });
    }
    if (reads) take(apply->args[0], true);
  }

  const tensor::Graph& graph_;
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> deciding_symbols(const tensor::Graph& graph) {
  return Collector(graph).run();
}

}  // namespace corrloom::api
