#include <algorithm>

#include "compiler/frontend/lower_op.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;

constexpr std::string_view kWholeFunctions[] = {"matmul", "reshape", "transpose", "concat", "pad"};

}  // namespace

/// True for `X[1:, 0]` and `X[...D, 0]`, which take parts of whole dimensions.
bool OpLowering::is_slice(const ast::Read& read) const {
  return std::any_of(read.subscripts.begin(), read.subscripts.end(), [&](const ast::Subscript& subscript) {
    const auto* pack = std::get_if<ast::Pack>(&subscript.kind);
    return pack != nullptr ? is_pack_of_dimensions(pack->name) : std::holds_alternative<ast::Slice>(subscript.kind);
  });
}

bool OpLowering::is_pack_of_dimensions(const ast::Name& name) const {
  const Binding* binding = scope_.find(name.text);
  const auto* pack = binding == nullptr ? nullptr : std::get_if<PackName>(&binding->kind);
  return pack != nullptr && pack->holds == PackName::Holds::Dimensions;
}

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
  if (is_slice(*read)) return true;
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
    } else if (is_slice(read)) {
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
        .report(Code::E0223, expr->span, "the " + what + " of a slice is negative",
                what == "step" ? "slices go forward" : "is not counted from the end")
        .help(what == "step" ? "read backwards by index notation: `Y[i] = X[N - 1 - i]`" : "write the extent: `N - 1`");
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

/// The tensor that a slice is of; nothing after an error.
std::optional<TensorId> OpLowering::sliced_tensor(const ast::Read& read) {
  ExprLowering names = expressions(ExprLowering::Place::Statement, nullptr);
  const auto source = names.tensor_named(read.name.text);
  if (source) return source;
  const ast::Read bare{read.name, {}, {}};
  if (names.lower(ast::Expr{bare, read.name.span}, std::nullopt) != nullptr)
    context_.diagnostics.report(Code::E0229, read.name.span, quoted(read.name.text) + " is no tensor", "has no slices");
  return {};
}

/// One subscript for each dimension: a pack of dimensions takes all of those that it stands for.
std::optional<std::vector<ast::Subscript>> OpLowering::slice_subscripts(const ast::Read& read, std::size_t rank,
                                                                        const Span& span, const Span& declared) {
  std::vector<ast::Subscript> subscripts;
  for (const ast::Subscript& subscript : read.subscripts) {
    const auto* pack = std::get_if<ast::Pack>(&subscript.kind);
    if (pack == nullptr) {
      subscripts.push_back(subscript);
    } else if (is_pack_of_dimensions(pack->name)) {
      const std::size_t count = std::get<PackName>(scope_.find(pack->name.text)->kind).rank;
      subscripts.insert(subscripts.end(), count, {ast::Slice{}, subscript.span});
    } else {
      context_.diagnostics
          .report(Code::E0218, subscript.span, quoted("..." + pack->name.text) + " is no pack of dimensions",
                  "wanted one that a shape of an argument declares")
          .help("whole dimensions are taken by `:`");
      return {};
    }
  }
  if (subscripts.size() == rank) return subscripts;
  context_.diagnostics
      .report(
          Code::E0207, span,
          quoted(read.name.text) + " has " + counted(rank, "dimension") + ", not " + std::to_string(subscripts.size()),
          "sliced with " + counted(subscripts.size(), "subscript"))
      .note("declared here", declared);
  return {};
}

std::optional<TensorId> OpLowering::lower_slice(const ast::Read& read, const Span& span, const std::string& name) {
  const auto source = sliced_tensor(read);
  if (!source) return {};
  const std::vector<Expr> extents = context_.extents(*source);
  const auto subscripts = slice_subscripts(read, extents.size(), span, context_.graph.op(*source).span);
  if (!subscripts) return {};
  SliceBuilder slice{{name, context_.graph.op(*source).dtype, {}, {}, span}, {*source, {}, {}}};
  bool is_sound = true;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    is_sound = add_slice(slice, read, (*subscripts)[axis], axis, extents[axis]) && is_sound;
  if (!is_sound) return {};
  slice.op.kind = std::move(slice.view);
  return context_.graph.add(std::move(slice.op));
}

/// A condition on the subscript of one dimension of a slice, with its values.
void OpLowering::require_of_slice(const ast::Read& read, const ast::Subscript& subscript, std::size_t axis,
                                  const std::string& fault, Opcode opcode, const SliceBound& left,
                                  const SliceBound& right) {
  std::vector<tensor::Condition::Shown> shown;
  for (const SliceBound* bound : {&left, &right}) {
    if (!bound->name.empty()) shown.push_back({bound->name, bound->value});
  }
  show_symbols(context_.graph, left.value, shown);
  show_symbols(context_.graph, right.value, shown);
  context_.require({scalar::apply(opcode, {left.value, right.value}),
                    "the slice " + quoted(std::string(subscript.span.text())) + " of " + quoted(read.name.text) +
                        " along axis " + std::to_string(axis) + " " + fault,
                    subscript.span, std::move(shown)});
}

/// Adds one dimension of the source: one place of it, or a range of places that becomes a dimension of the slice.
bool OpLowering::add_slice(SliceBuilder& out, const ast::Read& read, const ast::Subscript& subscript, std::size_t axis,
                           const Expr& extent) {
  const SliceBound zero{"", scalar::constant_i64(0)}, one{"", scalar::constant_i64(1)};
  const SliceBound whole{extent_text(read.name.text, axis), extent};
  const auto require = [&](const std::string& fault, Opcode opcode, const SliceBound& left, const SliceBound& right) {
    require_of_slice(read, subscript, axis, fault, opcode, left, right);
  };
  if (const auto* expr = std::get_if<ast::ExprRef>(&subscript.kind)) {
    const SliceBound at{"subscript", lower_slice_bound(*expr, "subscript").value_or(nullptr)};
    if (!at.value) return false;
    require("begins before the tensor", Opcode::Ge, at, zero);
    require("lies beyond the tensor", Opcode::Lt, at, whole);
    out.view.index.push_back(at.value);
    return true;
  }
  const auto& slice = std::get<ast::Slice>(subscript.kind);
  const SliceBound begin{"start", lower_slice_bound(slice.begin, "start").value_or(zero.value)};
  const SliceBound end{"stop", lower_slice_bound(slice.end, "stop").value_or(extent)};
  const SliceBound step{"step", lower_slice_bound(slice.step, "step").value_or(one.value)};
  if (!begin.value || !end.value || !step.value) return false;
  if (const auto value = scalar::as_i64(step.value); value && *value < 1) {
    context_.diagnostics.report(Code::E0223, slice.step->span, "the step of a slice is not positive",
                                "wanted 1 or more");
    return false;
  }
  if (slice.begin) require("begins before the tensor", Opcode::Ge, begin, zero);
  if (slice.begin || slice.end) require("stops before it starts", Opcode::Le, begin, end);
  if (slice.end) require("stops beyond the tensor", Opcode::Le, end, whole);
  if (!scalar::as_i64(step.value)) require("has a step that is not positive", Opcode::Ge, step, one);
  add_slice_axis(out, begin.value, end.value, step.value);
  return true;
}

/// A dimension of the slice over the places `begin`, `begin + step`, ... below `end`.
void OpLowering::add_slice_axis(SliceBuilder& out, const Expr& begin, const Expr& end, const Expr& step) {
  Expr length = scalar::apply(Opcode::Sub, {end, begin});
  const bool is_dense = scalar::is_constant_i64(step, 1);
  if (!is_dense) {
    const Expr above = scalar::apply(Opcode::Sub, {step, scalar::constant_i64(1)});
    const Expr rounded = scalar::apply(Opcode::Add, {length, above});
    length = scalar::apply(Opcode::FloorDiv, {canonical_extent(rounded), step});
  }
  length = canonical_extent(length);
  const std::string name = "d" + std::to_string(out.view.axes.size());
  const AxisId id = context_.new_axis(name, length);
  out.view.axes.push_back({id, name, length});
  out.op.extents.push_back(length);
  const Expr stepped = is_dense ? scalar::axis(id) : scalar::apply(Opcode::Mul, {scalar::axis(id), step});
  out.view.index.push_back(scalar::simplify(scalar::apply(Opcode::Add, {stepped, begin})));
}

}  // namespace corrloom::frontend
