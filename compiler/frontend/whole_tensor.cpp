#include <algorithm>

#include "compiler/frontend/lower_op.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;

constexpr std::string_view kWholeFunctions[] = {"matmul", "reshape", "transpose", "concat", "pad"};

bool has_slice(const ast::Read& read) {
  return std::any_of(read.subscripts.begin(), read.subscripts.end(), [](const ast::Subscript& subscript) {
    return std::holds_alternative<ast::Slice>(subscript.kind);
  });
}

}  // namespace

bool OpLowering::is_whole_call(const ast::Call& call) {
  const Global global = find_global(module_, call.callee.text);
  if (global.op() != nullptr || global.grad() != nullptr) return true;
  const bool is_builtin = global.kind == Global::Kind::Unknown;
  return is_builtin && std::find(std::begin(kWholeFunctions), std::end(kWholeFunctions), call.callee.text) !=
                           std::end(kWholeFunctions);
}

/// True for what gives a tensor by itself: a name, a slice, a call of an op or of a function of whole tensors.
bool OpLowering::is_leaf(const ast::Expr& expr) {
  if (const auto* call = std::get_if<ast::Call>(&expr.kind)) return is_whole_call(*call);
  const auto* read = std::get_if<ast::Read>(&expr.kind);
  if (read == nullptr) return false;
  if (has_slice(*read)) return true;
  if (!read->subscripts.empty()) return false;
  const auto tensor = expressions(ExprLowering::Place::Statement, nullptr).tensor_named(read->name.text);
  return tensor && context_.rank(*tensor) > 0;
}

/// True when the expression combines whole tensors rather than elements.
bool OpLowering::is_whole(const ast::Expr& expr) {
  if (is_leaf(expr)) return true;
  if (std::holds_alternative<ast::Read>(expr.kind)) return false;  // subscripts are about elements
  bool whole = false;
  for_each_child(expr, [&](const ast::Expr& child) { whole = whole || is_whole(child); });
  return whole;
}

std::vector<tensor::Axis> OpLowering::axes_over(const std::vector<Expr>& extents) {
  std::vector<tensor::Axis> axes;
  for (const Expr& extent : extents) {
    const std::string name = "d" + std::to_string(axes.size());
    axes.push_back({context_.new_axis(name, extent), name, extent});
  }
  return axes;
}

std::optional<TensorId> OpLowering::lower_whole(const ast::Expr& expr, std::optional<DType> wanted,
                                                const std::string& name) {
  if (is_leaf(expr)) {
    const auto tensor = lower_leaf(expr, name);
    if (!tensor) return {};
    const DType found = context_.graph.op(*tensor).dtype;
    if (!wanted || found == *wanted) return tensor;
    context_.diagnostics
        .report(Code::E0212, expr.span, quoted(found) + " stands where " + quoted(*wanted) + " is wanted",
                "this is " + std::string(name_of(found)))
        .help("conversions are written: " + quoted(std::string(name_of(*wanted)) + "(...)"));
    return {};
  }
  std::unordered_map<const ast::Expr*, TensorId> leaves;
  std::vector<std::pair<const ast::Expr*, TensorId>> in_order;
  if (!collect_leaves(expr, name, leaves, in_order)) return {};
  const auto extents = common_extents(in_order, expr);
  if (!extents) return {};
  std::vector<tensor::Axis> axes = axes_over(*extents);
  Site site{name, {}, numerics_};
  std::vector<Expr> element;
  for (const tensor::Axis& axis : axes) {
    site.axes.push_back(axis.id);
    element.push_back(scalar::axis(axis.id));
  }
  ExprLowering body = expressions(ExprLowering::Place::Statement, &site);
  body.set_leaves(&leaves, std::move(element));
  const Expr value = wanted ? body.lower_as(expr, *wanted) : body.lower(expr, std::nullopt);
  return add_compute(std::move(site), std::move(axes), value, expr.span);
}

/// Evaluates the tensors that an elementwise expression combines, in the order of the text.
bool OpLowering::collect_leaves(const ast::Expr& expr, const std::string& name,
                                std::unordered_map<const ast::Expr*, TensorId>& leaves,
                                std::vector<std::pair<const ast::Expr*, TensorId>>& in_order) {
  if (is_leaf(expr)) {
    const auto tensor = lower_leaf(expr, name + "." + std::to_string(in_order.size()));
    if (!tensor) return false;
    leaves.emplace(&expr, *tensor);
    in_order.emplace_back(&expr, *tensor);
    return true;
  }
  if (std::holds_alternative<ast::Reduction>(expr.kind)) {
    context_.diagnostics
        .report(Code::E0218, expr.span, "a reduction stands among whole tensors", "reductions take elements")
        .help("name it first: `let s = ...`, or write the statement with indices");
    return false;
  }
  if (const auto* read = std::get_if<ast::Read>(&expr.kind); read != nullptr && !read->subscripts.empty()) return true;
  bool is_sound = true;
  for_each_child(expr,
                 [&](const ast::Expr& child) { is_sound = collect_leaves(child, name, leaves, in_order) && is_sound; });
  return is_sound;
}

std::optional<std::vector<Expr>> OpLowering::common_extents(
    const std::vector<std::pair<const ast::Expr*, TensorId>>& leaves, const ast::Expr& expr) {
  const ast::Expr* first = nullptr;
  std::vector<Expr> extents;
  for (const auto& [leaf, tensor] : leaves) {
    const std::vector<Expr> own = context_.extents(tensor);
    if (own.empty()) continue;
    if (first == nullptr) {
      first = leaf;
      extents = own;
      continue;
    }
    if (own.size() != extents.size()) {
      context_.diagnostics
          .report(Code::E0218, expr.span,
                  quoted(text_of(*first)) + " has " + counted(extents.size(), "dimension") + ", " +
                      quoted(text_of(*leaf)) + " has " + std::to_string(own.size()),
                  "whole tensors of equal shape combine")
          .help("write the statement with indices: it says which dimension is repeated");
      return {};
    }
    for (std::size_t axis = 0; axis < own.size(); ++axis) {
      context_.require_equal(
          extents[axis], own[axis],
          quoted(text_of(*first)) + " and " + quoted(text_of(*leaf)) + " have different extents along axis " +
              std::to_string(axis),
          expr.span,
          {{extent_text(text_of(*first), axis), extents[axis]}, {extent_text(text_of(*leaf), axis), own[axis]}});
    }
  }
  return extents;
}

std::optional<TensorId> OpLowering::lower_leaf(const ast::Expr& expr, const std::string& name) {
  const bool may_enter = context_.enter(expr.span);
  std::optional<TensorId> value;
  if (const auto* call = std::get_if<ast::Call>(&expr.kind); may_enter && call != nullptr) {
    const Global global = find_op(call->callee);
    if (global.kind == Global::Kind::Broken) {
      // What is wrong with the definition has been reported.
    } else if (global.op() == nullptr) {
      value = lower_whole_function(*call, expr.span, name);
    } else if (const auto results = lower_op_call(*call, expr.span, name)) {
      if (results->size() == 1) {
        value = results->front();
      } else {
        context_.diagnostics
            .report(Code::E0216, expr.span, quoted(call->callee.text) + " gives " + counted(results->size(), "result"),
                    "wanted one")
            .help("take them apart: `let (a, b) = " + call->callee.text + "(...)`");
      }
    }
  } else if (may_enter) {
    const auto& read = std::get<ast::Read>(expr.kind);
    if (read.padding) {
      context_.diagnostics
          .report(Code::E0218, expr.span, "a whole tensor is read with a pad", "only reads of elements are padded")
          .help("`pad(X, [[lo, hi], ...], v)` makes a larger tensor");
    } else if (has_slice(read)) {
      value = lower_slice(read, expr.span, name);
    } else {
      value = expressions(ExprLowering::Place::Statement, nullptr).tensor_named(read.name.text);
    }
  }
  context_.leave();
  return value;
}

// ---- Slices ----

/// A bound of a slice: no value when it is left out, null inside after an error.
std::optional<Expr> OpLowering::lower_slice_bound(const ast::ExprRef& expr, const std::string& what) {
  if (!expr) return std::nullopt;
  const auto literal = as_literal(*expr);
  if (literal && literal->negative) {
    context_.diagnostics
        .report(Code::E0223, expr->span, "the " + what + " of a slice is negative", "is not counted from the end")
        .help("write the extent: `N - 1`");
    return Expr();
  }
  ExprLowering bounds = expressions(ExprLowering::Place::Statement, nullptr);
  std::vector<Divisor> divisors;
  bounds.note_divisors(&divisors);
  const Expr bound = bounds.lower_index(*expr);
  if (!bound) return Expr();
  bounds.require_divisors(divisors);
  if (!is_symbolic(bound)) {
    report_unsupported(context_.diagnostics, expr->span, "a slice whose " + what + " is read from a tensor");
    return Expr();
  }
  return bound;
}

std::optional<TensorId> OpLowering::lower_slice(const ast::Read& read, const Span& span, const std::string& name) {
  ExprLowering names = expressions(ExprLowering::Place::Statement, nullptr);
  const auto source = names.tensor_named(read.name.text);
  if (!source) {
    ast::Read bare{read.name, {}, {}};
    if (names.lower(ast::Expr{bare, read.name.span}, std::nullopt) != nullptr)
      context_.diagnostics.report(Code::E0229, read.name.span, quoted(read.name.text) + " is no tensor",
                                  "has no slices");
    return {};
  }
  const std::vector<Expr> extents = context_.extents(*source);
  if (read.subscripts.size() != extents.size()) {
    context_.diagnostics
        .report(Code::E0207, span,
                quoted(read.name.text) + " has " + counted(extents.size(), "dimension") + ", not " +
                    std::to_string(read.subscripts.size()),
                "sliced with " + counted(read.subscripts.size(), "subscript"))
        .note("declared here", context_.graph.op(*source).span);
    return {};
  }
  tensor::View view{*source, {}, {}};
  tensor::Op op{name, context_.graph.op(*source).dtype, {}, {}, span};
  bool is_sound = true;
  const Expr zero = scalar::constant_i64(0), one = scalar::constant_i64(1);
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const ast::Subscript& subscript = read.subscripts[axis];
    const std::string place = extent_text(read.name.text, axis);
    const std::string title = "the slice " + quoted(std::string(subscript.span.text())) + " of " +
                              quoted(read.name.text) + " along axis " + std::to_string(axis);
    const auto require = [&](Opcode opcode, const Expr& a, const Expr& b, const std::string& what,
                             std::vector<tensor::Condition::Shown> shown) {
      show_symbols(context_.graph, a, shown);
      show_symbols(context_.graph, b, shown);
      context_.require({scalar::apply(opcode, {a, b}), title + " " + what, subscript.span, std::move(shown)});
    };
    if (std::holds_alternative<ast::Pack>(subscript.kind)) {
      report_unsupported(context_.diagnostics, subscript.span, "`...` in subscripts");
      is_sound = false;
      continue;
    }
    if (const auto* expr = std::get_if<ast::ExprRef>(&subscript.kind)) {
      const Expr at = lower_slice_bound(*expr, "subscript").value_or(nullptr);
      is_sound = is_sound && at;
      if (!at) continue;
      require(Opcode::Ge, at, zero, "begins before the tensor", {{"subscript", at}});
      require(Opcode::Lt, at, extents[axis], "lies beyond the tensor", {{"subscript", at}, {place, extents[axis]}});
      view.index.push_back(at);
      continue;
    }
    const auto& slice = std::get<ast::Slice>(subscript.kind);
    const Expr begin = lower_slice_bound(slice.begin, "start").value_or(zero);
    const Expr end = lower_slice_bound(slice.end, "stop").value_or(extents[axis]);
    const Expr step = lower_slice_bound(slice.step, "step").value_or(one);
    is_sound = is_sound && begin && end && step;
    if (!begin || !end || !step) continue;
    if (const auto value = scalar::as_i64(step); value && *value < 1) {
      context_.diagnostics.report(Code::E0223, slice.step->span, "the step of a slice is not positive",
                                  "wanted 1 or more");
      is_sound = false;
      continue;
    }
    if (slice.begin) require(Opcode::Ge, begin, zero, "begins before the tensor", {{"start", begin}});
    if (slice.begin || slice.end)
      require(Opcode::Le, begin, end, "stops before it starts", {{"start", begin}, {"stop", end}});
    if (slice.end)
      require(Opcode::Le, end, extents[axis], "stops beyond the tensor", {{"stop", end}, {place, extents[axis]}});
    if (!scalar::as_i64(step)) require(Opcode::Ge, step, one, "has a step that is not positive", {{"step", step}});
    Expr length = scalar::apply(Opcode::Sub, {end, begin});
    const bool is_dense = scalar::is_constant_i64(step, 1);
    if (!is_dense) {
      const Expr rounded = scalar::apply(Opcode::Add, {length, scalar::apply(Opcode::Sub, {step, one})});
      length = scalar::apply(Opcode::FloorDiv, {canonical_extent(rounded), step});
    }
    length = canonical_extent(length);
    const std::string axis_name = "d" + std::to_string(view.axes.size());
    const AxisId id = context_.new_axis(axis_name, length);
    view.axes.push_back({id, axis_name, length});
    op.extents.push_back(length);
    const Expr stepped = is_dense ? scalar::axis(id) : scalar::apply(Opcode::Mul, {scalar::axis(id), step});
    view.index.push_back(scalar::simplify(scalar::apply(Opcode::Add, {stepped, begin})));
  }
  if (!is_sound) return {};
  op.kind = std::move(view);
  return context_.graph.add(std::move(op));
}

}  // namespace corrloom::frontend
