#include "compiler/frontend/constants.h"

#include "compiler/frontend/entry.h"
#include "compiler/frontend/lower_expr.h"
#include "ir/base/match.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::frontend {
namespace {

/// Evaluates the expressions of one constant and checks that nested lists are boxes.
class Evaluator {
 public:
  Evaluator(Context& context, const Module& module, const ast::Const& constant)
      : context_(context),
        constant_(constant),
        expressions_(context, module, nothing_, ExprLowering::Place::Constant, nullptr) {}

  std::optional<ConstantValue> run() {
    if (!read_type()) return {};
    find_extents(constant_.value);
    if (!declared_dtype_) value_.dtype = typing_of(constant_.value).dtype_or_default();
    const bool is_complete = add_values(constant_.value, 0);
    if (!is_complete || !agrees_with_type()) return {};
    return std::move(value_);
  }

 private:
  bool read_type() {
    if (!constant_.type) return true;
    declared_dtype_ = parse_dtype(constant_.type->name.text);
    if (declared_dtype_) {
      value_.dtype = *declared_dtype_;
      return true;
    }
    context_.diagnostics.report(Code::E0232, constant_.type->name.span,
                                "there is no dtype " + quoted(constant_.type->name.text),
                                "wanted `f32`, `i64`, `bool` or another dtype");
    return false;
  }

  static const std::vector<ast::Argument>* as_list(const ast::Argument& argument) {
    return std::get_if<std::vector<ast::Argument>>(&argument.kind);
  }

  /// The shape is that of the first entries; the others are compared with it.
  void find_extents(const ast::Argument& argument) {
    for (const auto* list = as_list(argument); list != nullptr; list = as_list(list->front()))
      value_.extents.push_back(static_cast<std::int64_t>(list->size()));
  }

  Typing typing_of(const ast::Argument& argument) {
    const auto* list = as_list(argument);
    if (list == nullptr) return expressions_.typing(*std::get<ast::ExprRef>(argument.kind));
    Typing all = typing_of(list->front());
    for (const ast::Argument& entry : *list) all = unify(all, typing_of(entry));
    return all;
  }

  bool add_values(const ast::Argument& argument, std::size_t depth) {
    const auto* list = as_list(argument);
    const std::size_t found = list == nullptr ? 0 : list->size();
    const bool wants_list = depth < value_.extents.size();
    if (wants_list != (list != nullptr) || (wants_list && static_cast<std::int64_t>(found) != value_.extents[depth])) {
      context_.diagnostics.report(
          Code::E0228, argument.span, "the list of " + quoted(constant_.name.text) + " is not a box",
          wants_list ? "has " + std::to_string(found) + " entries, wanted " + std::to_string(value_.extents[depth])
                     : "wanted a value");
      return false;
    }
    if (list == nullptr) return add_value(*std::get<ast::ExprRef>(argument.kind));
    bool is_sound = true;
    for (const ast::Argument& entry : *list) {
      is_sound = add_values(entry, depth + 1) && is_sound;
      if (context_.is_too_large) return false;
    }
    return is_sound;
  }

  bool add_value(const ast::Expr& expr) {
    const Expr lowered = expressions_.lower_as(expr, value_.dtype);
    if (!lowered) return false;
    const EntryValue known = evaluate_at_entry(lowered, {});
    if (known.kind == EntryValue::Kind::Exact) {
      value_.values.push_back(known.value);
      return true;
    }
    const bool overflows = known.kind == EntryValue::Kind::Overflow;
    context_.diagnostics.report(Code::E0227, expr.span, "the constant " + quoted(constant_.name.text) + " has no value",
                                overflows                                     ? "leaves 64 bits"
                                : known.kind == EntryValue::Kind::ZeroDivisor ? "divides by zero"
                                                                              : "cannot be computed");
    return false;
  }

  bool agrees_with_type() {
    if (!constant_.type) return true;
    const std::vector<ast::Dim>& dims = constant_.type->dims;
    std::string wanted;
    bool agrees = dims.size() == value_.extents.size();
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const auto* expr = std::get_if<ast::ExprRef>(&dims[axis].kind);
      if (expr == nullptr) {
        report_unsupported(context_.diagnostics, dims[axis].span, "`...` in the shape of a constant");
        return false;
      }
      const Expr extent = expressions_.lower_index(**expr);
      const EntryValue known = extent ? evaluate_at_entry(extent, {}) : EntryValue{};
      if (known.kind != EntryValue::Kind::Exact) {
        if (extent)
          context_.diagnostics.report(Code::E0227, dims[axis].span, "an extent of a constant cannot be computed",
                                      "wanted literals and constants");
        return false;
      }
      wanted += (axis == 0 ? "" : ", ") + std::to_string(known.value.as_i64());
      agrees = agrees && known.value.as_i64() == value_.extents[axis];
    }
    if (agrees) return true;
    std::string found;
    for (const std::int64_t extent : value_.extents) found += (found.empty() ? "" : ", ") + std::to_string(extent);
    context_.diagnostics.report(Code::E0228, constant_.value.span,
                                "the value of " + quoted(constant_.name.text) + " has the shape [" + found + "]",
                                "declared as [" + wanted + "]");
    return false;
  }

  Context& context_;
  const ast::Const& constant_;
  Scope nothing_;
  ExprLowering expressions_;
  ConstantValue value_;
  std::optional<DType> declared_dtype_;
};

}  // namespace

std::optional<ConstantValue> evaluate_constant(Context& context, const Module& module, const ast::Const& constant) {
  return Evaluator(context, module, constant).run();
}

}  // namespace corrloom::frontend
