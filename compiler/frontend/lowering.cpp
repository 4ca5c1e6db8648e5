#include "compiler/frontend/lowering.h"

#include <algorithm>

#include "compiler/frontend/entry.h"
#include "ir/affine/affine.h"
#include "ir/affine/direction.h"
#include "ir/base/match.h"

namespace corrloom::frontend {

using scalar::Opcode;

AxisId Context::new_axis(const std::string& name, Expr extent) {
  axis_extents.push_back(std::move(extent));
  return graph.new_axis(name);
}

std::string Context::some_extent() const {
  for (const tensor::Symbol& symbol : graph.symbols) {
    if (symbol.kind == tensor::Symbol::Kind::Dimension) return symbol.name;
  }
  return "3";
}

void Context::require(tensor::Condition condition) {
  // Constants are folded here with exact arithmetic only: one that overflows stays, to be reported at entry.
  const EntryValue value = evaluate_at_entry(condition.holds, {});
  if (value.kind == EntryValue::Kind::Exact && value.value.as_bool()) return;
  if (value.kind == EntryValue::Kind::Exact && is_generic) {
    diagnostics.report(Code::E0230, condition.span, condition.title, "this can never hold");
    return;
  }
  graph.conditions.push_back(std::move(condition));
}

void Context::require_equal(const Expr& a, const Expr& b, std::string title, const Span& span,
                            std::vector<tensor::Condition::Shown> shown) {
  if (same_extent(a, b)) return;
  show_symbols(graph, a, shown);
  show_symbols(graph, b, shown);
  require({scalar::apply(Opcode::Eq, {a, b}), std::move(title), span, std::move(shown)});
}

Expr Context::float_attribute(const std::string& name, DType dtype) {
  for (std::size_t k = 0; k < graph.symbols.size(); ++k) {
    const SymbolId id{static_cast<std::int32_t>(k)};
    if (graph.symbols[k].name == name && graph.symbols[k].dtype == dtype) return scalar::symbol(id, dtype);
  }
  return scalar::symbol(graph.new_symbol({name, dtype, tensor::Symbol::Kind::Scalar, {}}), dtype);
}

bool Context::enter(const Span& span) {
  ++depth;
  --nodes_left;
  if (nodes_left > 0 && depth <= kMaxLoweringDepth) return true;
  if (!is_too_large) {
    is_too_large = true;
    const bool deep = depth > kMaxLoweringDepth;
    diagnostics.report(Code::E0104, span, deep ? "the expression is nested too deeply" : "the op is too large",
                       deep ? "with the functions that it calls put in place" : "with all that it calls put in place");
  }
  return false;
}

TensorId Context::constant_tensor(const ast::Const& constant, const ConstantValue& value) {
  const auto known = constant_tensors.find(&constant);
  if (known != constant_tensors.end()) return known->second;
  tensor::Op op{constant.name.text, value.dtype, {}, tensor::Literal{value.values}, constant.name.span};
  for (const std::int64_t extent : value.extents) op.extents.push_back(scalar::constant_i64(extent));
  const TensorId id = graph.add(std::move(op));
  constant_tensors.emplace(&constant, id);
  return id;
}

Diagnostic& report_unsupported(Diagnostics& diagnostics, const Span& span, const std::string& construct) {
  return diagnostics.report(Code::E0290, span, "not supported yet: " + construct);
}

bool same_extent(const Expr& a, const Expr& b) {
  if (scalar::same(a, b)) return true;
  const auto difference = affine::linear_form(scalar::apply(Opcode::Sub, {a, b}));
  return difference && difference->terms.empty() && difference->constant == 0;
}

Expr canonical_extent(const Expr& extent) {
  const auto form = affine::linear_form(extent);
  return form ? scalar::simplify(affine::to_expr(*form)) : extent;
}

Expr collapsed_extent(const Expr& extent) {
  const auto form = affine::linear_form(extent);
  if (!form || form->terms.size() > 1) return extent;
  if (form->terms.empty()) return scalar::constant_i64(form->constant);
  const affine::LinearForm::Term& term = form->terms.front();
  return form->constant == 0 && term.coefficient == 1 ? term.expr : extent;
}

namespace {

/// Most factors that are compared: shared products could have very many.
constexpr std::size_t kMaxFactors = 64;

/// Splits products into factors; constants are multiplied together.
void add_factors(const Expr& expr, std::vector<Expr>& factors, std::int64_t& constant) {
  if (factors.size() > kMaxFactors) return;
  if (const scalar::Apply* product = scalar::as_apply(expr, Opcode::Mul)) {
    for (const Expr& factor : product->args) add_factors(factor, factors, constant);
  } else if (const auto value = scalar::as_i64(expr)) {
    // Wraps as the product itself would: two products that wrap to the same are the same.
    constant = static_cast<std::int64_t>(static_cast<std::uint64_t>(constant) * static_cast<std::uint64_t>(*value));
  } else {
    factors.push_back(expr);
  }
}

}  // namespace

bool same_product(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  std::vector<Expr> left, right;
  std::int64_t left_constant = 1, right_constant = 1;
  for (const Expr& extent : a) add_factors(extent, left, left_constant);
  for (const Expr& extent : b) add_factors(extent, right, right_constant);
  if (left.size() > kMaxFactors || right.size() > kMaxFactors) return false;
  if (left_constant != right_constant || left.size() != right.size()) return false;
  for (const Expr& factor : left) {
    const auto partner =
        std::find_if(right.begin(), right.end(), [&](const Expr& other) { return same_extent(factor, other); });
    if (partner == right.end()) return false;
    right.erase(partner);
  }
  return true;
}

bool is_nonnegative(const tensor::Graph& graph, const Expr& expr) {
  return affine::is_nonnegative(expr, [&](SymbolId symbol) {
    if (graph.symbols[static_cast<std::size_t>(symbol.index)].kind == tensor::Symbol::Kind::Dimension) return true;
    // An attribute that is a dimension of an argument agrees with it.
    return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](TensorId input) {
      const std::vector<Expr>& extents = graph.op(input).extents;
      return std::any_of(extents.begin(), extents.end(), [&](const Expr& extent) {
        const auto* one = std::get_if<scalar::SymbolRef>(&extent->kind);
        return one != nullptr && one->symbol == symbol;
      });
    });
  });
}

bool has_reads(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) { found = found || scalar::as_read(node) != nullptr; });
  return found;
}

bool is_symbolic(const Expr& expr) {
  bool symbolic = true;
  scalar::for_each_node(expr, [&](const Expr& node) {
    symbolic = symbolic && !std::holds_alternative<scalar::AxisRef>(node->kind) &&
               !std::holds_alternative<scalar::AccRef>(node->kind) && scalar::as_read(node) == nullptr;
  });
  return symbolic;
}

std::vector<AxisId> axes_in(const Expr& expr) {
  std::vector<AxisId> axes;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (const auto* axis = std::get_if<scalar::AxisRef>(&node->kind)) axes.push_back(axis->axis);
  });
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

void show_symbols(const tensor::Graph& graph, const Expr& expr, std::vector<tensor::Condition::Shown>& shown) {
  scalar::for_each_node(expr, [&](const Expr& node) {
    const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
    if (symbol == nullptr) return;
    const std::string& name = graph.symbols[static_cast<std::size_t>(symbol->symbol.index)].name;
    const auto same_name = [&](const auto& entry) { return entry.name == name; };
    if (std::none_of(shown.begin(), shown.end(), same_name)) shown.push_back({name, node});
  });
}

Expr at_least_zero(const tensor::Graph& graph, const Expr& expr) {
  return is_nonnegative(graph, expr) ? expr
                                     : scalar::simplify(scalar::apply(Opcode::Max, {expr, scalar::constant_i64(0)}));
}

Expr product_of(const std::vector<Expr>& extents) {
  if (extents.empty()) return scalar::constant_i64(1);
  Expr product = extents.front();
  for (std::size_t k = 1; k < extents.size(); ++k) product = scalar::apply(Opcode::Mul, {product, extents[k]});
  return product;
}

Expr fenced(const Expr& value) {
  const bool may_contract = is_float(value->dtype) && scalar::as_apply(value, Opcode::Mul) != nullptr;
  return may_contract ? scalar::apply(Opcode::Fence, {value}) : value;
}

std::string extent_text(const std::string& tensor, std::size_t axis) {
  return "the extent of " + quoted(tensor) + " along axis " + std::to_string(axis);
}

std::string quoted(const std::string& text) {
  return "`" + text + "`";
}

std::string quoted(DType dtype) {
  return quoted(std::string(name_of(dtype)));
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace corrloom::frontend
