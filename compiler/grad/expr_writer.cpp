#include "compiler/grad/expr_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "compiler/grad/cost.h"
#include "ir/base/match.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

/// The spelling of an infix operator and how tightly it binds.
struct Infix {
  Opcode opcode;
  const char* text;
  Binding binding;
};
constexpr Infix kInfix[] = {
    {Opcode::LazyOr, " || ", Binding::Or},     {Opcode::LazyAnd, " && ", Binding::And},
    {Opcode::Eq, " == ", Binding::Comparison}, {Opcode::Ne, " != ", Binding::Comparison},
    {Opcode::Lt, " < ", Binding::Comparison},  {Opcode::Le, " <= ", Binding::Comparison},
    {Opcode::Gt, " > ", Binding::Comparison},  {Opcode::Ge, " >= ", Binding::Comparison},
    {Opcode::Or, " | ", Binding::BitOr},       {Opcode::Xor, " ^ ", Binding::BitXor},
    {Opcode::And, " & ", Binding::BitAnd},     {Opcode::Shl, " << ", Binding::Shift},
    {Opcode::Shr, " >> ", Binding::Shift},     {Opcode::Add, " + ", Binding::Sum},
    {Opcode::Sub, " - ", Binding::Sum},        {Opcode::Mul, " * ", Binding::Term},
    {Opcode::Div, " / ", Binding::Term},       {Opcode::FloorDiv, " // ", Binding::Term},
    {Opcode::Mod, " % ", Binding::Term},
};

Binding tighter(Binding binding) {
  return static_cast<Binding>(static_cast<int>(binding) + 1);
}

/// Products of which no quotient is a part: what the body of a reduction may be without parentheses.
bool is_pure_product(const Expr& expr) {
  const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
  if (apply == nullptr) return true;
  if (apply->opcode == Opcode::Mul) return is_pure_product(apply->args[0]);
  return apply->opcode != Opcode::Div && apply->opcode != Opcode::FloorDiv && apply->opcode != Opcode::Mod;
}

/// The value's name as a fact about its dtype, or null.
const char* fact_of(const scalar::Value& value) {
  const double x = value.as_f64();
  switch (value.dtype) {
    case DType::F64:
      return x == std::numeric_limits<double>::max()       ? "highest"
             : x == -std::numeric_limits<double>::max()    ? "lowest"
             : x == std::numeric_limits<double>::epsilon() ? "epsilon"
                                                           : nullptr;
    case DType::F32:
      return x == std::numeric_limits<float>::max()       ? "highest"
             : x == -std::numeric_limits<float>::max()    ? "lowest"
             : x == std::numeric_limits<float>::epsilon() ? "epsilon"
                                                          : nullptr;
    default:
      return nullptr;
  }
}

/// Sub-expressions that are evaluated in one place whenever it is: not the branches of an `if`.
class Sharing {
 public:
  /// Costly nodes with several users, operands first.
  std::vector<Expr> find(const Expr& root) {
    visit(root);
    for (std::size_t k = 0; k < branches_.size(); ++k) {
      scalar::for_each_node(branches_[k], [&](const Expr& node) {
        const auto user = users_.find(node.get());
        if (user != users_.end()) ++user->second;
      });
    }
    std::vector<Expr> found;
    for (const Expr& node : order_) {
      if (users_.at(node.get()) > 1 && is_float(node->dtype) && flops_of(node) >= kFunctionFlops) found.push_back(node);
    }
    return found;
  }

 private:
  void visit(const Expr& node) {
    if (++users_[node.get()] > 1) return;
    if (const auto* apply = std::get_if<scalar::Apply>(&node->kind)) {
      const bool is_lazy =
          apply->opcode == Opcode::If || apply->opcode == Opcode::LazyAnd || apply->opcode == Opcode::LazyOr;
      for (std::size_t k = 0; k < apply->args.size(); ++k) {
        if (is_lazy && k > 0) {
          branches_.push_back(apply->args[k]);
        } else {
          visit(apply->args[k]);
        }
      }
    }
    order_.push_back(node);
  }

  std::unordered_map<const scalar::Node*, int> users_;
  std::vector<Expr> order_, branches_;
};

}  // namespace

Written ExprWriter::write_value(const Expr& expr) {
  const std::size_t before = shared_.size();
  std::string lets;
  for (const Expr& node : Sharing().find(expr)) {
    const auto has_name = [&](const auto& one) { return one.first == node; };
    if (node == expr || std::any_of(shared_.begin(), shared_.end(), has_name) || !names_.has_dtype(node)) continue;
    const std::string text = write(node).text;
    const std::string name = names_.new_name();
    lets += "let " + name + " = " + text + " in ";
    shared_.emplace_back(node, name);
  }
  Written written = write(expr);
  shared_.resize(before);
  if (lets.empty()) return written;
  return {lets + written.text, Binding::Open, true};
}

std::string ExprWriter::write_body(const Expr& expr) {
  const Written written = write_value(expr);
  const bool is_operand = written.binding >= Binding::Term && written.binding != Binding::Unary &&
                          is_pure_product(expr) && written.text.front() != '-';
  return is_operand ? written.text : "(" + written.text + ")";
}

std::string ExprWriter::write_bound(const Expr& expr) {
  return within(expr, Binding::Sum);
}

std::string ExprWriter::within(const Expr& expr, Binding loosest) {
  const Written written = write(expr);
  return written.binding >= loosest ? written.text : "(" + written.text + ")";
}

Written ExprWriter::write(const Expr& expr) {
  for (const auto& [node, name] : shared_) {
    if (node == expr) return {name};
  }
  return match(
      expr->kind, [&](const scalar::Constant& constant) { return write_constant(constant.value); },
      [&](const scalar::AxisRef& axis) { return Written{names_.axis(axis.axis)}; },
      [&](const scalar::SymbolRef& symbol) { return Written{names_.symbol(symbol.symbol)}; },
      [&](const scalar::AccRef& reduction) {
        return Written{names_.reduction(reduction.index), Binding::Operand, true};
      },
      [&](const scalar::Read& read) { return write_read(read); },
      [&](const scalar::Apply& apply) { return write_apply(apply, expr); });
}

Written ExprWriter::write_constant(const scalar::Value& value) {
  if (value.dtype == DType::I64 && value.as_i64() == std::numeric_limits<std::int64_t>::max()) return {"highest(i64)"};
  if (!is_float(value.dtype)) {
    const std::string text = scalar::to_text(value);
    return {text, text.front() == '-' ? Binding::Unary : Binding::Operand};
  }
  if (std::isnan(value.as_f64())) return {"nan"};
  // What follows from the dtype is asked for by name: it may stand for another one.
  if (const char* fact = fact_of(value)) return {std::string(fact) + "(" + names_.dtype(value.dtype) + ")"};
  std::string text = scalar::to_text(value);
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
  return {text, text.front() == '-' ? Binding::Unary : Binding::Operand};
}

Written ExprWriter::write_read(const scalar::Read& read) {
  std::string text = names_.tensor(read.source);
  for (std::size_t k = 0; k < read.index.size(); ++k) {
    // Integers of any dtype are subscripts.
    const scalar::Apply* cast = scalar::as_apply(read.index[k], Opcode::Cast);
    const bool is_widened = cast != nullptr && is_integer(cast->args[0]->dtype);
    text += (k == 0 ? "[" : ", ") + write(is_widened ? cast->args[0] : read.index[k]).text;
  }
  if (!read.index.empty()) text += "]";
  switch (read.pad) {
    case scalar::PadMode::None:
      return {text};
    case scalar::PadMode::Edge:
      return {text + " pad edge"};
    case scalar::PadMode::Wrap:
      return {text + " pad wrap"};
    case scalar::PadMode::Reflect:
      return {text + " pad reflect"};
    case scalar::PadMode::Value:
      break;
  }
  const bool is_literal = scalar::as_constant(read.pad_value) != nullptr;
  const std::string value = write(read.pad_value).text;
  return {text + " pad " + (is_literal ? value : "(" + value + ")")};
}

Written ExprWriter::write_call(const std::string& name, const std::vector<Expr>& args) {
  std::string text = name + "(";
  for (std::size_t k = 0; k < args.size(); ++k) text += (k == 0 ? "" : ", ") + write(args[k]).text;
  return {text + ")"};
}

Written ExprWriter::write_infix(const scalar::Apply& apply, const char* op, Binding binding) {
  const bool chains = binding != Binding::Comparison;
  // `2*i`, whichever way round it was stored.
  const bool swaps = apply.opcode == Opcode::Mul && is_integer(apply.args[0]->dtype) &&
                     scalar::as_constant(apply.args[1]) != nullptr && scalar::as_constant(apply.args[0]) == nullptr;
  Written left = write(apply.args[swaps ? 1 : 0]);
  const Written right = write(apply.args[swaps ? 0 : 1]);
  const bool is_product = binding == Binding::Term;
  // What follows a reduction would be taken in, or look as if it were.
  if (left.binding < (chains ? binding : tighter(binding)) || (is_product && left.ends_open))
    left = {"(" + left.text + ")"};
  // `(o // g) * c`: integer division does not read well among products.
  const auto* inner = std::get_if<scalar::Apply>(&apply.args[0]->kind);
  if (!swaps && is_product && inner != nullptr && left.text.front() != '(' &&
      (inner->opcode == Opcode::FloorDiv || inner->opcode == Opcode::Mod))
    left = {"(" + left.text + ")"};
  const bool needs_parentheses = right.binding < tighter(binding) || right.text.front() == '-';
  const std::string right_text = needs_parentheses ? "(" + right.text + ")" : right.text;
  return {left.text + op + right_text, binding, right.ends_open && !needs_parentheses};
}

Written ExprWriter::write_apply(const scalar::Apply& apply, const Expr& expr) {
  for (const Infix& infix : kInfix) {
    if (infix.opcode == apply.opcode) return write_infix(apply, infix.text, infix.binding);
  }
  switch (apply.opcode) {
    case Opcode::Neg: {
      const Written operand = write(apply.args[0]);
      // The sign binds tighter: `-a // b` is another number than `-(a // b)`, while `-a * b` is the same.
      const auto* inner = std::get_if<scalar::Apply>(&apply.args[0]->kind);
      const bool rounds = inner != nullptr && (inner->opcode == Opcode::FloorDiv || inner->opcode == Opcode::Mod);
      const bool binds = operand.binding >= Binding::Term && operand.text.front() != '-' && !rounds;
      return {"-" + (binds ? operand.text : "(" + operand.text + ")"),
              operand.binding == Binding::Term && binds ? Binding::Term : Binding::Unary, operand.ends_open && binds};
    }
    case Opcode::Not: {
      const bool is_bool = expr->dtype == DType::Bool;
      return {(is_bool ? "!" : "~") + within(apply.args[0], Binding::Operand), Binding::Unary};
    }
    case Opcode::If: {
      const Written condition = write(apply.args[0]);
      const std::string taken = write_value(apply.args[1]).text, other = write_value(apply.args[2]).text;
      return {"if " + condition.text + " then " + taken + " else " + other, Binding::Open, true};
    }
    case Opcode::Cast:
      return write_call(names_.dtype(expr->dtype), apply.args);
    default:
      return write_call(std::string(scalar::info(apply.opcode).text), apply.args);
  }
}

}  // namespace corrloom::grad
