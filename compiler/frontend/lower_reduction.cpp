#include <algorithm>
#include <limits>
#include <unordered_set>

#include "compiler/frontend/extremes.h"
#include "compiler/frontend/lower_expr.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;
using tensor::ReduceKind;

ReduceKind kind_of(ast::ReductionKind kind) {
  switch (kind) {
    case ast::ReductionKind::Sum:
      return ReduceKind::Sum;
    case ast::ReductionKind::Prod:
      return ReduceKind::Prod;
    case ast::ReductionKind::Max:
      return ReduceKind::Max;
    case ast::ReductionKind::Min:
      return ReduceKind::Min;
    case ast::ReductionKind::Any:
      return ReduceKind::Any;
    case ast::ReductionKind::All:
      return ReduceKind::All;
    case ast::ReductionKind::Argmax:
      return ReduceKind::ArgMax;
    case ast::ReductionKind::Argmin:
      return ReduceKind::ArgMin;
  }
  return ReduceKind::Sum;
}

bool takes_truth(ReduceKind kind) {
  return kind == ReduceKind::Any || kind == ReduceKind::All;
}
bool gives_index(ReduceKind kind) {
  return kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
}

/// Calls `visit` with every expression of a reduction.
void for_each_expr(const tensor::Reduction& reduction, const std::function<void(const Expr&)>& visit) {
  for (const tensor::Axis& axis : reduction.axes) {
    visit(axis.extent);
    if (axis.origin) visit(axis.origin);
  }
  for (const tensor::Accumulator& accumulator : reduction.accumulators) {
    visit(accumulator.init);
    visit(accumulator.step);
    visit(accumulator.merge);
  }
}

/// The axes that a reduction uses but does not bind, in the order of their ids, which is outermost first.
std::vector<AxisId> outer_axes(const tensor::Reduction& reduction) {
  std::vector<AxisId> used;
  for_each_expr(reduction, [&](const Expr& expr) {
    for (const AxisId axis : axes_in(expr)) used.push_back(axis);
  });
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::erase_if(used, [&](AxisId axis) {
    return std::any_of(reduction.axes.begin(), reduction.axes.end(), [&](const auto& own) { return own.id == axis; });
  });
  return used;
}

/// Sums of dimensions and their small multiples stay within 64 bits; other products may not.
bool may_leave_64_bits(const Expr& expr) {
  constexpr std::int64_t kSmall = 1 << 16;
  const auto is_small = [](const Expr& factor) {
    const auto value = scalar::as_i64(factor);
    return value && *value >= -kSmall && *value <= kSmall;
  };
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    if (apply == nullptr) return;
    const bool multiplies = apply->opcode == Opcode::Mul && !is_small(apply->args[0]) && !is_small(apply->args[1]);
    found = found || multiplies || apply->opcode == Opcode::Shl;
  });
  return found;
}

Expr conjunction(const std::vector<Expr>& conditions) {
  Expr all = conditions.front();
  for (std::size_t k = 1; k < conditions.size(); ++k) all = scalar::apply(Opcode::LazyAnd, {all, conditions[k]});
  return all;
}

/// end - begin, and for ends that are made of data the largest extent where that leaves 64 bits, so that a wild range
/// is not taken for an empty one.
Expr distance(const Expr& begin, const Expr& end) {
  const Expr difference = scalar::apply(Opcode::Sub, {end, begin});
  const bool is_exact = !affine::may_wrap(difference, [](AxisId) { return std::nullopt; });
  if (is_exact || (!has_reads(begin) && !has_reads(end))) return difference;
  const Expr zero = scalar::constant_i64(0);
  const Expr wraps = scalar::apply(Opcode::Lt, {difference, zero});
  const Expr above = scalar::apply(Opcode::Select, {wraps, scalar::constant_i64(INT64_MAX), difference});
  return scalar::apply(Opcode::Select, {scalar::apply(Opcode::Lt, {begin, end}), above, zero});
}

/// `seen` are the functions that were looked into.
bool may_reduce(const Module& module, const ast::Expr& expr, std::unordered_set<const ast::Fn*>& seen) {
  if (std::holds_alternative<ast::Reduction>(expr.kind)) return true;
  const auto* call = std::get_if<ast::Call>(&expr.kind);
  const Global global = call == nullptr ? Global{} : find_global(module, call->callee.text);
  const ast::Fn* fn = global.fn();
  bool found = fn != nullptr && seen.insert(fn).second && may_reduce(*global.module, *fn->body, seen);
  for_each_child(expr, [&](const ast::Expr& child) { found = found || may_reduce(module, child, seen); });
  return found;
}

}  // namespace

bool may_reduce(const Module& module, const ast::Expr& expr) {
  std::unordered_set<const ast::Fn*> seen;
  return may_reduce(module, expr, seen);
}

bool ExprLowering::may_declare(const ast::Name& name) {
  Span other;
  std::string what;
  if (const Binding* binding = scope_.find(name.text)) {
    what = binding->what;
    other = binding->span;
  } else {
    const Global global = find_global(module_, name.text);
    // What an import brings along may have any name; only a constant would be hidden, since calls look different.
    const bool hides = global.kind == Global::Kind::Item && (global.module == &module_ || global.constant() != nullptr);
    if (!hides) return true;
    what = "the definition";
    other = name_of(*global.item)->span;
  }
  context_.diagnostics
      .report(Code::E0204, name.span, quoted(name.text) + " hides " + what + " of that name", "wanted a new name")
      .note("declared here", other);
  return false;
}

Expr ExprLowering::lower_reduction(const ast::Reduction& reduction, const ast::Expr& expr,
                                   std::optional<DType> wanted) {
  const ReduceKind kind = kind_of(reduction.kind);
  const std::string name(tensor::name_of(kind));
  if (site_ == nullptr) {
    context_.diagnostics.report(Code::E0227, expr.span, "a reduction stands where none can be",
                                "wanted a value that is known at entry");
    return nullptr;
  }
  if (gives_index(kind) && (reduction.indices.size() != 1 || reduction.indices.front().is_pack)) {
    const std::size_t given = reduction.indices.size();
    context_.diagnostics.report(
        Code::E0225, reduction.kind_span,
        quoted(name) + " takes one variable, not " + (given == 1 ? "a pack of them" : std::to_string(given)),
        "gives the value of one variable");
    return nullptr;
  }
  const Typing found = typing_of_body(reduction);
  const DType dtype = takes_truth(kind)                       ? DType::Bool
                      : found.is_known() || gives_index(kind) ? found.dtype_or_default()
                                                              : operand_dtype(found, wanted);
  tensor::Reduction node;
  std::vector<std::string> bound;
  ++site_->reduction_depth;
  const bool is_bound = bind_indices(reduction, node.axes, bound);
  site_->open.emplace_back(node.axes);
  Expr element = lower_element(reduction, dtype);
  const NestedReductions nested = std::move(site_->open.back());
  site_->open.pop_back();
  const Binding* variable = is_bound && gives_index(kind) ? scope_.find(bound.front()) : nullptr;
  const Expr index = variable == nullptr ? nullptr : std::get<IndexVariable>(variable->kind).value;
  for (const std::string& one : bound) scope_.unbind(one);
  --site_->reduction_depth;
  if (!is_bound || !element) return nullptr;
  if (node.axes.empty()) {  // over a pack of no dimensions: one element
    const Expr one = scalar::constant_i64(1);
    node.axes.push_back({context_.new_axis("one", one), "one", one});
  }
  const bool is_number = dtype != DType::Bool;
  if (!takes_truth(kind) && !is_number) {
    context_.diagnostics
        .report(Code::E0214, reduction.body->span, quoted(name) + " does not take " + quoted(dtype),
                "takes integers and floats")
        .help("count with `sum(...) i32(x)`, or use `any` and `all`");
    return nullptr;
  }
  if (gives_index(kind)) require_not_empty(node.axes.front(), reduction);
  Expr result;
  node.accumulators = tensor::accumulators_of(kind, dtype, element, index, result);
  if (!nested.is_empty()) node = nested.put_into(context_, std::move(node));
  return place_reduction(std::move(node), std::move(result), expr);
}

/// `any` and `all` of something else than bools are told from other wrong dtypes by what the user may have meant.
Expr ExprLowering::lower_element(const ast::Reduction& reduction, DType dtype) {
  const bool adds = reduction.kind == ast::ReductionKind::Sum || reduction.kind == ast::ReductionKind::Prod;
  if (adds && is_narrow_float(dtype)) return lower_product_in_f32(*reduction.body, dtype);
  return lower_as(*reduction.body, dtype);
}

/// A product that is the operand of a narrow sum: each factor in its dtype, multiplied from left to right in f32.
Expr ExprLowering::lower_product_in_f32(const ast::Expr& expr, DType dtype) {
  const auto* product = std::get_if<ast::Binary>(&expr.kind);
  const bool is_leaf = leaves_ != nullptr && leaves_->count(&expr) != 0;
  if (product == nullptr || product->op != ast::BinaryOp::Multiply || is_leaf) {
    const Expr factor = lower_as(expr, dtype);
    return factor ? scalar::cast(factor, DType::F32) : nullptr;
  }
  const Expr left = lower_product_in_f32(*product->left, dtype);
  const Expr right = lower_as(*product->right, dtype);
  if (!left || !right) return nullptr;
  return scalar::apply(Opcode::Mul, {left, scalar::cast(right, DType::F32)});
}

/// Puts the index variables in scope. Those that could not get a range are bound as poisoned.
bool ExprLowering::bind_indices(const ast::Reduction& reduction, std::vector<tensor::Axis>& axes,
                                std::vector<std::string>& bound) {
  bool is_sound = true;
  for (const ast::Index& index : reduction.indices) is_sound = bind_index(reduction, index, axes, bound) && is_sound;
  return is_sound;
}

bool ExprLowering::bind_index(const ast::Reduction& reduction, const ast::Index& index, std::vector<tensor::Axis>& axes,
                              std::vector<std::string>& bound) {
  const std::string& name = index.name.text;
  if (!may_declare(index.name)) return false;
  bound.push_back(name);
  scope_.bind(name, {PoisonedName{}, "the index variable", index.name.span});
  if (!mentions(*reduction.body, name)) {
    context_.diagnostics
        .report(Code::E0205, index.name.span, "the index " + quoted(name) + " is not used in the body",
                "would only repeat it")
        .help("remove it, or multiply by its extent to repeat the value");
    return false;
  }
  if (index.is_pack) {
    const auto extents = pack_extents(*reduction.body, index);
    if (extents) bind_pack(index.name, *extents, axes, bound);
    return extents.has_value();
  }
  Expr begin, extent;
  if (index.range) {
    const auto range = written_range(*index.range);
    if (!range) return false;
    begin = range->first;
    extent = range->second;
  } else {
    extent = extent_from(range_sources(*reduction.body, name), name);
    if (!extent && has_unknown_sources_) return false;
    if (!extent) {
      context_.diagnostics
          .report(Code::E0206, index.name.span, "the range of the index " + quoted(name) + " is not known",
                  "never stands alone as a subscript of a plain read")
          .help("write its range: " + quoted(name + ": 0.." + context_.some_extent()));
      return false;
    }
  }
  const AxisId axis = context_.new_axis(name, extent);
  const Expr value = begin ? scalar::apply(Opcode::Add, {scalar::axis(axis), begin}) : scalar::axis(axis);
  axes.push_back({axis, name, extent, begin});
  scope_.bind(name, {IndexVariable{axis, value}, "the index variable", index.name.span});
  return true;
}

/// Where a range begins (null for 0) and its extent.
std::optional<std::pair<Expr, Expr>> ExprLowering::written_range(const ast::Range& range) {
  std::vector<Divisor> divisors;
  std::vector<Divisor>* const outer = std::exchange(divisors_, &divisors);
  Expr begin = range.begin ? lower_range_end(*range.begin) : nullptr;
  const bool failed = range.begin && !begin;
  const Expr end = lower_range_end(*range.end);
  divisors_ = outer;
  if (failed || !end) return {};
  require_divisors(divisors);
  if (begin && scalar::is_constant_i64(begin, 0)) begin = nullptr;
  const Expr length = begin ? scalar::simplify(distance(begin, end)) : end;
  return std::pair(begin, at_least_zero(context_.graph, length));
}

/// An end of a range. One that leaves 64 bits is an error at entry: wrapped, it would be a range that nobody wrote.
Expr ExprLowering::lower_range_end(const ast::Expr& expr) {
  const Expr exact = lower_integer(expr);
  if (!exact) return nullptr;
  const bool may_overflow = exact->dtype == DType::I64 && may_leave_64_bits(exact);
  for (const bool greatest : {false, true}) {
    const Expr extreme = may_overflow ? extreme_of(context_, exact, greatest) : nullptr;
    if (extreme == nullptr || scalar::as_constant(extreme) != nullptr) continue;
    const Expr lowest = scalar::constant_i64(std::numeric_limits<std::int64_t>::min());
    context_.require({scalar::apply(Opcode::Ge, {extreme, lowest}),
                      "the range end " + quoted(std::string(expr.span.text())) + " leaves 64 bits", expr.span,
                      shown_names(expr)});
    if (axes_in(exact).empty()) break;
  }
  return scalar::simplify(exact->dtype == DType::I64 ? exact : scalar::cast(exact, DType::I64));
}

/// An empty argmax has no value: an error at entry, unless there is nothing to compute at all.
void ExprLowering::require_not_empty(const tensor::Axis& axis, const ast::Reduction& reduction) {
  const std::string name(ast::spelling(reduction.kind));
  Expr least = is_symbolic(axis.extent) ? axis.extent : extreme_of(context_, axis.extent, false);
  if (least != nullptr) least = scalar::simplify(least);
  if (least == nullptr) {
    report_unsupported(context_.diagnostics, reduction.indices.front().span,
                       quoted(name) + " over a range whose least extent does not follow from dimensions");
    return;
  }
  const Expr zero = scalar::constant_i64(0);
  Expr holds = scalar::apply(Opcode::Gt, {least, zero});
  for (const AxisId outer : site_->axes) {
    const Expr& extent = context_.axis_extents[static_cast<std::size_t>(outer.index)];
    if (!scalar::as_i64(extent))
      holds = scalar::apply(Opcode::LazyOr, {holds, scalar::apply(Opcode::Le, {extent, zero})});
  }
  const std::string which = is_symbolic(axis.extent) ? "the extent of " : "the least extent of ";
  std::vector<tensor::Condition::Shown> shown = {{which + quoted(axis.name), least}};
  show_symbols(context_.graph, least, shown);
  context_.require({holds, quoted(name) + " over " + quoted(axis.name) + " has no elements to choose from",
                    reduction.kind_span, std::move(shown)});
}

/// Makes the reduction the compute's own where that repeats no work, and a compute of its own elsewhere.
Expr ExprLowering::place_reduction(tensor::Reduction reduction, Expr result, const ast::Expr& expr) {
  const bool is_outermost = site_->reduction_depth == 0 && site_->shared_depth == 0 && site_->conditions.empty();
  std::vector<AxisId> outer = outer_axes(reduction);
  const auto is_used_or_one = [&](AxisId axis) {
    return std::find(outer.begin(), outer.end(), axis) != outer.end() ||
           scalar::is_constant_i64(context_.axis_extents[static_cast<std::size_t>(axis.index)], 1);
  };
  if (is_outermost && !site_->attached && std::all_of(site_->axes.begin(), site_->axes.end(), is_used_or_one)) {
    site_->attached = std::move(reduction);
    return result;
  }
  const bool is_guarded = !site_->conditions.empty() && !has_values_everywhere(reduction);
  if (is_guarded) {
    guard(reduction, conjunction(site_->conditions));
    outer = outer_axes(reduction);
  }
  if (uses_placeholders(reduction)) {
    report_unsupported(context_.diagnostics, expr.span,
                       "a reduction that uses the value of another one, inside of one over a range that has no bound "
                       "which follows from dimensions")
        .help("compute it before, by a `let` with a written range, and read it here");
    return nullptr;
  }
  const Expr hoisted = hoist(std::move(reduction), std::move(result), std::move(outer), expr);
  if (hoisted && is_guarded)
    site_->guarded.push_back(TensorId{static_cast<std::int32_t>(context_.graph.ops.size()) - 1});
  return hoisted;
}

/// True when every read stays inside for sure, with plain axes of just its extents as subscripts, and of values that
/// are there: infinities where a reduction is guarded have no influence, but must not be computed with.
bool ExprLowering::has_values_everywhere(const tensor::Reduction& reduction) const {
  bool inside = true;
  for_each_expr(reduction, [&](const Expr& expr) {
    scalar::for_each_node(expr, [&](const Expr& node) {
      const scalar::Read* read = scalar::as_read(node);
      if (read == nullptr) return;
      inside = inside && std::count(site_->guarded.begin(), site_->guarded.end(), read->source) == 0;
      if (read->pad != scalar::PadMode::None) return;
      const std::vector<Expr>& extents = context_.extents(read->source);
      for (std::size_t k = 0; k < read->index.size(); ++k) {
        const auto* axis = std::get_if<scalar::AxisRef>(&read->index[k]->kind);
        inside = inside && axis != nullptr &&
                 scalar::same(context_.axis_extents[static_cast<std::size_t>(axis->axis.index)], extents[k]);
      }
    });
  });
  return inside;
}

/// A reduction under conditions is computed for all values of its outer variables; where the conditions do not hold its
/// reads must not happen, and its value does not matter.
void ExprLowering::guard(tensor::Reduction& reduction, const Expr& condition) {
  for (tensor::Axis& axis : reduction.axes) {
    if (has_reads(axis.extent))
      axis.extent = scalar::apply(Opcode::If, {condition, axis.extent, scalar::constant_i64(0)});
  }
  for (std::size_t k = 0; k < reduction.accumulators.size(); ++k) {
    tensor::Accumulator& accumulator = reduction.accumulators[k];
    const Expr unchanged = scalar::accumulator(static_cast<int>(k), accumulator.dtype);
    accumulator.step = scalar::apply(Opcode::If, {condition, accumulator.step, unchanged});
  }
}

/// Makes a box of the outer axes whose ranges depend on others: each gets its greatest extent over them all. Where that
/// is not met exactly, or those others are outer axes anyway, what lies beyond the range is not computed. False when
/// one has no greatest extent that follows from dimensions.
bool ExprLowering::box_outer_axes(tensor::Reduction& reduction, std::vector<AxisId>& outer,
                                  std::unordered_map<AxisId, Expr>& extents) {
  std::vector<Expr> inside;
  for (std::size_t k = 0; k < outer.size(); ++k) {
    const AxisId axis = outer[k];
    const Expr extent = context_.axis_extents[static_cast<std::size_t>(axis.index)];
    if (is_symbolic(extent)) {
      extents[axis] = extent;
      continue;
    }
    const auto is_outer = [&](AxisId used) { return std::find(outer.begin(), outer.end(), used) != outer.end(); };
    const std::vector<AxisId> used = axes_in(extent);
    const bool is_known_to_all = std::all_of(used.begin(), used.end(), is_outer);
    Expr greatest = is_known_to_all ? nullptr : extreme_of(context_, extent, true);
    if (greatest == nullptr) {
      greatest = bound_of(context_, extent, true);
      inside.push_back(scalar::apply(Opcode::Lt, {scalar::axis(axis), extent}));
      for (const AxisId other : used) {
        if (!is_outer(other)) outer.push_back(other);
      }
    }
    if (greatest == nullptr) return false;
    extents[axis] = at_least_zero(context_.graph, only_if_not_empty(scalar::simplify(greatest), used));
  }
  std::sort(outer.begin(), outer.end());
  if (!inside.empty()) guard(reduction, conjunction(inside));
  return true;
}

/// The extent, or 0 when one of the axes has no values: then nothing asks for an element.
Expr ExprLowering::only_if_not_empty(Expr extent, const std::vector<AxisId>& axes) {
  const Expr zero = scalar::constant_i64(0);
  for (const AxisId axis : axes) {
    const Expr other = context_.axis_extents[static_cast<std::size_t>(axis.index)];
    if (!is_symbolic(other)) continue;  // it depends on axes that are asked about too
    const Expr has_values = scalar::apply(Opcode::Gt, {other, zero});
    extent = scalar::simplify(scalar::apply(Opcode::Select, {has_values, extent, zero}));
  }
  return extent;
}

/// Lets the reduction run in the loops of the one around it.
Expr ExprLowering::nest(tensor::Reduction reduction, const Expr& result, const ast::Expr& expr) {
  std::vector<AxisId> known = site_->axes;
  for (const NestedReductions& around : site_->open) {
    for (const tensor::Axis& axis : around.axes()) known.push_back(axis.id);
  }
  const std::vector<AxisId> outer = outer_axes(reduction);
  const bool is_in_loops = std::all_of(outer.begin(), outer.end(), [&](AxisId axis) {
    return std::find(known.begin(), known.end(), axis) != known.end();
  });
  if (site_->open.empty() || !is_in_loops) {
    report_unsupported(context_.diagnostics, expr.span,
                       "a reduction in a range, that uses a variable whose range has no bound which follows from "
                       "dimensions")
        .help("compute it before, by a `let` with a written range, and read it here");
    return nullptr;
  }
  return site_->open.back().add(std::move(reduction), result, site_->placeholders);
}

/// A compute over just the outer variables that the reduction uses; gives the read of its element.
Expr ExprLowering::hoist(tensor::Reduction reduction, Expr result, std::vector<AxisId> outer, const ast::Expr& expr) {
  std::unordered_map<AxisId, Expr> extents;
  if (!box_outer_axes(reduction, outer, extents)) return nest(std::move(reduction), result, expr);
  tensor::Op op{site_->name + "." + std::string(ast::spelling(std::get<ast::Reduction>(expr.kind).kind)),
                result->dtype,
                {},
                {},
                expr.span};
  tensor::Compute compute;
  compute.numerics = site_->numerics;
  scalar::Read read{{}, {}};
  std::unordered_map<AxisId, Expr> renamed;
  for (const AxisId axis : outer) {
    const std::string name = context_.graph.axis_names[static_cast<std::size_t>(axis.index)];
    const Expr& extent = extents.at(axis);
    const AxisId own = context_.new_axis(name, extent);
    renamed[axis] = scalar::axis(own);
    compute.axes.push_back({own, name, extent});
    op.extents.push_back(extent);
    read.index.push_back(scalar::axis(axis));
  }
  const auto rename = [&](const Expr& old) {
    return scalar::substitute_axes(old, [&](AxisId axis) -> Expr {
      const auto found = renamed.find(axis);
      return found == renamed.end() ? nullptr : found->second;
    });
  };
  for (tensor::Axis& axis : reduction.axes) {
    axis.extent = rename(axis.extent);
    if (axis.origin) axis.origin = rename(axis.origin);
  }
  for (tensor::Accumulator& accumulator : reduction.accumulators) {
    accumulator.init = rename(accumulator.init);
    accumulator.step = rename(accumulator.step);
    accumulator.merge = rename(accumulator.merge);
  }
  compute.reduction = std::move(reduction);
  compute.body = std::move(result);
  op.kind = std::move(compute);
  read.source = context_.graph.add(std::move(op));
  read.span = expr.span;
  const DType dtype = context_.graph.op(read.source).dtype;
  return scalar::read(std::move(read), dtype);
}

}  // namespace corrloom::frontend
