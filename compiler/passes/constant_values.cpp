#include "compiler/passes/constant_values.h"

#include <variant>

#include "compiler/passes/readers.h"

namespace corrloom::passes {
namespace {

/// Whether an expression of the op takes a symbol, or reads with a check that can fail.
bool depends_on_call(const tensor::Op& op) {
  bool depends = false;
  tensor::for_each_expr(op, [&](const scalar::Expr& root) {
    scalar::for_each_node(root, [&](const scalar::Expr& node) {
      depends |= std::holds_alternative<scalar::SymbolRef>(node->kind);
      if (const scalar::Read* read = scalar::as_read(node)) depends |= read->check == scalar::ReadCheck::Runtime;
    });
  });
  return depends;
}

}  // namespace

std::vector<bool> constant_values(const tensor::Graph& graph, const std::set<std::string>& inputs) {
  std::vector<bool> constant(graph.ops.size(), false);
  // Ops stand in front of their readers.
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    const tensor::Op& op = graph.ops[k];
    if (std::holds_alternative<tensor::Input>(op.kind)) {
      constant[k] = inputs.contains(op.name);
      continue;
    }
    bool known = std::holds_alternative<tensor::Literal>(op.kind) || !depends_on_call(op);
    for_each_use(op, [&](tensor::TensorId source, const scalar::Read*) {
      known = known && constant[static_cast<std::size_t>(source.index)];
    });
    constant[k] = known;
  }
  return constant;
}

}  // namespace corrloom::passes
