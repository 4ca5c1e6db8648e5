#include "compiler/frontend/scope.h"

#include <algorithm>
#include <functional>

#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using Visit = std::function<void(const ast::Expr&)>;

void visit_if_present(const ast::ExprRef& expr, const Visit& visit) {
  if (expr) visit(*expr);
}

void visit_argument(const ast::Argument& argument, const Visit& visit) {
  match(
      argument.kind, [&](const ast::ExprRef& expr) { visit_if_present(expr, visit); },
      [&](const std::vector<ast::Argument>& list) {
        for (const ast::Argument& entry : list) visit_argument(entry, visit);
      });
}

void visit_read(const ast::Read& read, const Visit& visit) {
  for (const ast::Subscript& subscript : read.subscripts) {
    match(
        subscript.kind, [&](const ast::ExprRef& expr) { visit_if_present(expr, visit); },
        [&](const ast::Slice& slice) {
          visit_if_present(slice.begin, visit);
          visit_if_present(slice.end, visit);
          visit_if_present(slice.step, visit);
        },
        [](const ast::Pack&) {});
  }
  if (!read.padding) return;
  if (const auto* value = std::get_if<ast::ExprRef>(&read.padding->kind)) visit_if_present(*value, visit);
}

void collect_names(const ast::Expr& expr, std::vector<std::string>& names) {
  if (const auto* read = std::get_if<ast::Read>(&expr.kind)) {
    if (std::find(names.begin(), names.end(), read->name.text) == names.end()) names.push_back(read->name.text);
  }
  for_each_child(expr, [&](const ast::Expr& child) { collect_names(child, names); });
}

}  // namespace

const Binding* Scope::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

std::vector<std::string> Scope::names() const {
  std::vector<std::string> list;
  list.reserve(names_.size());
  for (const auto& [name, binding] : names_) {
    if (name.find('.') == std::string::npos) list.push_back(name);
  }
  std::sort(list.begin(), list.end());
  return list;
}

void for_each_child(const ast::Expr& expr, const Visit& visit) {
  match(
      expr.kind, [](const ast::Literal&) {}, [&](const ast::Read& read) { visit_read(read, visit); },
      [&](const ast::Call& call) {
        for (const ast::NamedArgument& attribute : call.attributes) visit_if_present(attribute.value, visit);
        for (const ast::Argument& argument : call.arguments) visit_argument(argument, visit);
      },
      [&](const ast::Reduction& reduction) {
        for (const ast::Index& index : reduction.indices) {
          if (!index.range) continue;
          visit_if_present(index.range->begin, visit);
          visit_if_present(index.range->end, visit);
        }
        visit_if_present(reduction.body, visit);
      },
      [&](const ast::Unary& unary) { visit(*unary.operand); },
      [&](const ast::Binary& binary) {
        visit(*binary.left);
        visit(*binary.right);
      },
      [&](const ast::If& choice) {
        visit(*choice.condition);
        visit(*choice.then_value);
        visit(*choice.else_value);
      },
      [&](const ast::LetIn& let) {
        visit(*let.value);
        visit(*let.body);
      });
}

std::vector<std::string> names_in(const ast::Expr& expr) {
  std::vector<std::string> names;
  collect_names(expr, names);
  return names;
}

std::string pack_part(const std::string& pack, std::size_t part) {
  return pack + "." + std::to_string(part);
}

bool mentions(const ast::Expr& expr, const std::string& name) {
  const auto* read = std::get_if<ast::Read>(&expr.kind);
  bool found = false;
  if (read != nullptr) {
    const auto is_pack = [&](const ast::Subscript& subscript) {
      const auto* pack = std::get_if<ast::Pack>(&subscript.kind);
      return pack != nullptr && pack->name.text == name;
    };
    found = read->name.text == name || std::any_of(read->subscripts.begin(), read->subscripts.end(), is_pack);
  }
  if (!found) for_each_child(expr, [&](const ast::Expr& child) { found = found || mentions(child, name); });
  return found;
}

std::optional<SignedLiteral> as_literal(const ast::Expr& expr) {
  if (const auto* literal = std::get_if<ast::Literal>(&expr.kind)) return SignedLiteral{literal, false};
  const auto* unary = std::get_if<ast::Unary>(&expr.kind);
  if (unary == nullptr || unary->op != ast::UnaryOp::Negate || unary->operand->parenthesized) return {};
  const auto* literal = std::get_if<ast::Literal>(&unary->operand->kind);
  if (literal == nullptr || std::holds_alternative<ast::Boolean>(literal->value)) return {};
  return SignedLiteral{literal, true};
}

}  // namespace corrloom::frontend
