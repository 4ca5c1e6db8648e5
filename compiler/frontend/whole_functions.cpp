#include <algorithm>
#include <functional>

#include "compiler/frontend/entry.h"
#include "compiler/frontend/lower_op.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;

}  // namespace

std::optional<TensorId> OpLowering::lower_whole_function(const ast::Call& call, const Span& span,
                                                         const std::string& name) {
  if (!call.attributes.empty()) {
    context_.diagnostics.report(Code::E0222, call.attributes.front().span,
                                quoted(call.callee.text) + " has no attributes", "only ops have attributes");
    return {};
  }
  if (call.callee.text == "matmul") return lower_matmul(call, span, name);
  if (call.callee.text == "reshape") return lower_reshape(call, span, name);
  if (call.callee.text == "transpose") return lower_transpose(call, span, name);
  if (call.callee.text == "concat") return lower_concat(call, span, name);
  return lower_pad(call, span, name);
}

// ---- Arguments ----

bool OpLowering::has_arguments(const ast::Call& call, std::size_t least, std::size_t most) {
  const std::size_t given = call.arguments.size();
  if (least <= given && given <= most) return true;
  const std::string wanted =
      least == most ? counted(least, "argument") : std::to_string(least) + " to " + counted(most, "argument");
  context_.diagnostics.report(Code::E0216, call.callee.span, quoted(call.callee.text) + " takes " + wanted,
                              "is given " + std::to_string(given));
  return false;
}

std::optional<TensorId> OpLowering::tensor_argument(const ast::Call& call, std::size_t at, const std::string& name) {
  const ast::Argument& argument = call.arguments[at];
  const auto* expr = std::get_if<ast::ExprRef>(&argument.kind);
  if (expr != nullptr && is_whole(**expr)) return lower_whole(**expr, {}, name + "." + std::to_string(at));
  // A name that nothing defines is told as such.
  if (expr != nullptr && std::holds_alternative<ast::Read>((*expr)->kind)) {
    Site site{name, {}, numerics_};
    if (!expressions(ExprLowering::Place::Function, &site).lower(**expr, {})) return {};
  }
  context_.diagnostics.report(Code::E0218, argument.span, quoted(call.callee.text) + " takes a whole tensor here",
                              "this is none");
  return {};
}

const std::vector<ast::Argument>* OpLowering::list_argument(const ast::Call& call, std::size_t at,
                                                            const std::string& what) {
  const auto* list = std::get_if<std::vector<ast::Argument>>(&call.arguments[at].kind);
  if (list != nullptr) return list;
  context_.diagnostics.report(Code::E0218, call.arguments[at].span, quoted(call.callee.text) + " takes a list here",
                              "wanted " + what + " in brackets");
  return nullptr;
}

/// A value over dimensions, attributes and constants.
Expr OpLowering::extent_argument(const ast::Argument& argument, const std::string& what) {
  const auto* expr = std::get_if<ast::ExprRef>(&argument.kind);
  if (expr == nullptr) {
    context_.diagnostics.report(Code::E0218, argument.span, "a list stands where " + what + " is wanted",
                                "wanted an integer");
    return nullptr;
  }
  ExprLowering shapes = expressions(ExprLowering::Place::Shape, nullptr);
  std::vector<Divisor> divisors;
  shapes.note_divisors(&divisors);
  const Expr value = shapes.lower_index(**expr);
  if (value) shapes.require_divisors(divisors);
  if (!value || is_symbolic(value)) return value;
  context_.diagnostics.report(Code::E0227, argument.span, what + " depends on a tensor",
                              "wanted dimensions, attributes and constants");
  return nullptr;
}

/// A number that does not depend on shapes. Of attributes in a generic context it is not known: then nothing is
/// reported either.
std::optional<std::int64_t> OpLowering::fixed_argument(const ast::Argument& argument, const std::string& what) {
  const Expr value = extent_argument(argument, what);
  if (!value) return {};
  const EntryValue known = evaluate_at_entry(value, {});
  if (known.kind == EntryValue::Kind::Exact) return known.value.as_i64();
  bool is_attribute = context_.is_generic;
  scalar::for_each_node(value, [&](const Expr& node) {
    const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
    if (symbol != nullptr) is_attribute = is_attribute && context_.attribute_symbols.count(symbol->symbol) != 0;
  });
  if (!is_attribute) {
    context_.diagnostics.report(Code::E0227, argument.span, what + " is not known at compile time",
                                "wanted literals, attributes and constants");
  }
  return {};
}

// ---- Functions ----

/// y[b..., i, j] = sum(k) a[b..., i, k] * b[b..., k, j]
std::optional<TensorId> OpLowering::lower_matmul(const ast::Call& call, const Span& span, const std::string& name) {
  if (!has_arguments(call, 2, 2)) return {};
  const auto left = tensor_argument(call, 0, name), right = tensor_argument(call, 1, name);
  if (!left || !right) return {};
  const std::vector<Expr> a = context_.extents(*left), b = context_.extents(*right);
  const DType dtype = context_.graph.op(*left).dtype, other = context_.graph.op(*right).dtype;
  const std::string left_text(call.arguments[0].span.text()), right_text(call.arguments[1].span.text());
  if (a.size() != b.size() || a.size() < 2) {
    context_.diagnostics.report(
        Code::E0218, span,
        "`matmul` is given tensors of " + std::to_string(a.size()) + " and " + counted(b.size(), "dimension"),
        "wanted two of equal rank, 2 or more");
    return {};
  }
  if (dtype != other || dtype == DType::Bool) {
    context_.diagnostics.report(dtype != other ? Code::E0213 : Code::E0214, span,
                                "`matmul` is given " + quoted(dtype) + " and " + quoted(other),
                                "wanted numbers of one dtype");
    return {};
  }
  const std::size_t batch = a.size() - 2;
  const auto agree = [&](std::size_t left_axis, std::size_t right_axis) {
    context_.require_equal(
        a[left_axis], b[right_axis],
        "`matmul` of " + quoted(left_text) + " and " + quoted(right_text) + ": the extents to be multiplied differ",
        span,
        {{extent_text(left_text, left_axis), a[left_axis]}, {extent_text(right_text, right_axis), b[right_axis]}});
  };
  for (std::size_t axis = 0; axis < batch; ++axis) agree(axis, axis);
  agree(batch + 1, batch);
  std::vector<Expr> extents(a.begin(), a.end() - 1);
  extents.push_back(b.back());
  std::vector<tensor::Axis> axes = axes_over(extents);
  const AxisId inner = context_.new_axis("k", a.back());
  scalar::Read left_read{*left, {}}, right_read{*right, {}};
  for (std::size_t axis = 0; axis < batch; ++axis) {
    left_read.index.push_back(scalar::axis(axes[axis].id));
    right_read.index.push_back(scalar::axis(axes[axis].id));
  }
  left_read.index.push_back(scalar::axis(axes[batch].id));
  left_read.index.push_back(scalar::axis(inner));
  right_read.index.push_back(scalar::axis(inner));
  right_read.index.push_back(scalar::axis(axes[batch + 1].id));
  left_read.span = call.arguments[0].span;
  right_read.span = call.arguments[1].span;
  Expr left_factor = scalar::read(std::move(left_read), dtype),
       right_factor = scalar::read(std::move(right_read), dtype);
  if (is_narrow_float(dtype)) {
    left_factor = scalar::cast(left_factor, DType::F32);
    right_factor = scalar::cast(right_factor, DType::F32);
  }
  tensor::Reduction reduction;
  reduction.axes.push_back({inner, "k", a.back()});
  Expr result;
  reduction.accumulators = tensor::accumulators_of(
      tensor::ReduceKind::Sum, dtype, scalar::apply(Opcode::Mul, {left_factor, right_factor}), nullptr, result);
  Site site{name, {}, numerics_};
  site.attached = std::move(reduction);
  return add_compute(std::move(site), std::move(axes), result, span);
}

std::optional<TensorId> OpLowering::lower_reshape(const ast::Call& call, const Span& span, const std::string& name) {
  if (!has_arguments(call, 2, 2)) return {};
  const auto source = tensor_argument(call, 0, name);
  const auto* list = list_argument(call, 1, "the new extents");
  if (!source || list == nullptr) return {};
  tensor::Op op{name, context_.graph.op(*source).dtype, {}, tensor::Reshape{*source}, span};
  for (const ast::Argument& argument : *list) {
    const Expr extent = extent_argument(argument, "an extent");
    if (!extent) return {};
    if (!is_nonnegative(context_.graph, extent)) {
      const std::string text(argument.span.text());
      std::vector<tensor::Condition::Shown> shown = {{quoted(text), extent}};
      show_symbols(context_.graph, extent, shown);
      context_.require({scalar::apply(Opcode::Ge, {extent, scalar::constant_i64(0)}),
                        "the extent " + quoted(text) + " of a reshape is negative", argument.span, std::move(shown)});
    }
    op.extents.push_back(extent);
  }
  const std::vector<Expr> before = context_.extents(*source);
  if (!same_product(before, op.extents)) {
    const std::string text(call.arguments[0].span.text());
    std::vector<tensor::Condition::Shown> shown = {
        {"elements of " + quoted(text), product_of(before)},
        {"elements of " + quoted(std::string(call.arguments[1].span.text())), product_of(op.extents)}};
    show_symbols(context_.graph, product_of(before), shown);
    show_symbols(context_.graph, product_of(op.extents), shown);
    context_.require({scalar::apply(Opcode::Eq, {product_of(before), product_of(op.extents)}),
                      "the reshape of " + quoted(text) + " changes the number of elements", span, std::move(shown)});
  }
  return context_.graph.add(std::move(op));
}

std::optional<TensorId> OpLowering::lower_transpose(const ast::Call& call, const Span& span, const std::string& name) {
  if (!has_arguments(call, 1, 2)) return {};
  const auto source = tensor_argument(call, 0, name);
  if (!source) return {};
  const std::vector<Expr> before = context_.extents(*source);
  const auto rank = static_cast<std::int64_t>(before.size());
  std::vector<std::int64_t> order;  // the source's axis for each axis of the result
  if (call.arguments.size() == 1) {
    for (std::int64_t axis = rank - 1; axis >= 0; --axis) order.push_back(axis);
  } else {
    const auto* list = list_argument(call, 1, "the axes");
    if (list == nullptr) return {};
    for (const ast::Argument& argument : *list) {
      const auto axis = fixed_argument(argument, "an axis");
      if (!axis) return {};
      if (*axis < 0 || *axis >= rank || std::find(order.begin(), order.end(), *axis) != order.end()) {
        context_.diagnostics.report(
            Code::E0218, argument.span,
            "the axis " + std::to_string(*axis) + " is given twice or is not one of " + std::to_string(rank),
            "wanted each of 0 to " + std::to_string(rank - 1) + " once");
        return {};
      }
      order.push_back(*axis);
    }
    if (static_cast<std::int64_t>(order.size()) != rank) {
      context_.diagnostics.report(Code::E0218, call.arguments[1].span,
                                  "`transpose` is given " + std::to_string(order.size()) + " axes",
                                  "the tensor has " + std::to_string(rank));
      return {};
    }
  }
  tensor::Op op{name, context_.graph.op(*source).dtype, {}, {}, span};
  for (const std::int64_t axis : order) op.extents.push_back(before[static_cast<std::size_t>(axis)]);
  tensor::View view{*source, axes_over(op.extents), std::vector<Expr>(before.size())};
  for (std::size_t k = 0; k < order.size(); ++k)
    view.index[static_cast<std::size_t>(order[k])] = scalar::axis(view.axes[k].id);
  op.kind = std::move(view);
  return context_.graph.add(std::move(op));
}

/// The parts of a `concat`, of one dtype and rank; nothing after an error.
std::optional<std::vector<OpLowering::Part>> OpLowering::concat_parts(const ast::Call& call,
                                                                      const std::vector<ast::Argument>& list,
                                                                      const std::string& name) {
  std::vector<Part> parts;
  bool is_sound = true;
  for (const ast::Argument& argument : list) {
    const ast::Call one{call.callee, {}, {argument}};
    const auto tensor = tensor_argument(one, 0, name + "." + std::to_string(parts.size()));
    is_sound = is_sound && tensor;
    if (tensor) parts.push_back({*tensor, std::string(argument.span.text()), argument.span});
  }
  if (!is_sound) return {};
  const std::size_t rank = context_.rank(parts.front().tensor);
  const DType dtype = context_.graph.op(parts.front().tensor).dtype;
  for (const Part& part : parts) {
    const std::size_t own_rank = context_.rank(part.tensor);
    const DType own_dtype = context_.graph.op(part.tensor).dtype;
    if (own_rank == rank && own_dtype == dtype) continue;
    context_.diagnostics.report(own_dtype != dtype ? Code::E0213 : Code::E0218, part.span,
                                "`concat` is given " + quoted(dtype) + " with " + counted(rank, "dimension") + " and " +
                                    quoted(own_dtype) + " with " + std::to_string(own_rank),
                                "wanted one dtype and rank");
    return {};
  }
  return parts;
}

/// The extents of the parts joined along one axis; the others are required to agree.
std::vector<Expr> OpLowering::joined_extents(const std::vector<Part>& parts, std::size_t axis, const Span& span) {
  const std::vector<Expr> first = context_.extents(parts.front().tensor);
  std::vector<Expr> extents = first;
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const std::vector<Expr> own = context_.extents(parts[k].tensor);
    for (std::size_t other = 0; other < own.size(); ++other) {
      if (other == axis) continue;
      context_.require_equal(
          first[other], own[other],
          "`concat` of " + quoted(parts[0].text) + " and " + quoted(parts[k].text) + ": the extents along axis " +
              std::to_string(other) + " differ",
          span, {{extent_text(parts[0].text, other), first[other]}, {extent_text(parts[k].text, other), own[other]}});
    }
    extents[axis] = canonical_extent(scalar::apply(Opcode::Add, {extents[axis], own[axis]}));
  }
  return extents;
}

/// y[..., i, ...] is the part that i lies in. The parts are told apart by halves, so that a read is under few
/// conditions however many there are.
std::optional<TensorId> OpLowering::lower_concat(const ast::Call& call, const Span& span, const std::string& name) {
  if (!has_arguments(call, 2, 2)) return {};
  const auto* list = list_argument(call, 0, "the tensors");
  const auto joined = fixed_argument(call.arguments[1], "the axis");
  if (list == nullptr) return {};
  const auto parts = concat_parts(call, *list, name);
  if (!parts || !joined) return {};
  const std::size_t rank = context_.rank(parts->front().tensor);
  if (*joined < 0 || *joined >= static_cast<std::int64_t>(rank)) {
    context_.diagnostics.report(Code::E0218, call.arguments[1].span,
                                "there is no axis " + std::to_string(*joined) + " to join along",
                                "the tensors have " + counted(rank, "dimension"));
    return {};
  }
  const auto axis = static_cast<std::size_t>(*joined);
  std::vector<tensor::Axis> axes = axes_over(joined_extents(*parts, axis, span));
  std::vector<Expr> begins = {scalar::constant_i64(0)};
  for (const Part& part : *parts)
    begins.push_back(
        canonical_extent(scalar::apply(Opcode::Add, {begins.back(), context_.extents(part.tensor)[axis]})));
  const Expr position = scalar::axis(axes[axis].id);
  const auto element = [&](std::size_t k) {
    scalar::Read read{(*parts)[k].tensor, {}};
    for (const tensor::Axis& one : axes) read.index.push_back(scalar::axis(one.id));
    if (k > 0) read.index[axis] = scalar::apply(Opcode::Sub, {position, begins[k]});
    read.span = (*parts)[k].span;
    return scalar::read(std::move(read), context_.graph.op((*parts)[k].tensor).dtype);
  };
  const std::function<Expr(std::size_t, std::size_t)> among = [&](std::size_t first, std::size_t last) {
    if (first + 1 == last) return element(first);
    const std::size_t middle = first + (last - first) / 2;
    const Expr is_before = scalar::apply(Opcode::Lt, {position, begins[middle]});
    return scalar::apply(Opcode::If, {is_before, among(first, middle), among(middle, last)});
  };
  return add_compute({name, {}, numerics_}, std::move(axes), among(0, parts->size()), span);
}

/// y[i, ...] = x[i - lo, ...] pad v
std::optional<TensorId> OpLowering::lower_pad(const ast::Call& call, const Span& span, const std::string& name) {
  if (!has_arguments(call, 3, 3)) return {};
  const auto source = tensor_argument(call, 0, name);
  const auto* list = list_argument(call, 1, "a pair for each dimension");
  if (!source || list == nullptr) return {};
  const std::vector<Expr> before = context_.extents(*source);
  const DType dtype = context_.graph.op(*source).dtype;
  const auto* written = std::get_if<ast::ExprRef>(&call.arguments[2].kind);
  const auto value = written == nullptr ? std::nullopt : scalar_argument(**written, dtype, name + ".value");
  if (written == nullptr)
    context_.diagnostics.report(Code::E0218, call.arguments[2].span, "a list stands where a value is wanted",
                                "wanted a value");
  if (list->size() != before.size()) {
    context_.diagnostics.report(
        Code::E0218, call.arguments[1].span,
        "`pad` is given " + counted(list->size(), "pair") + " for " + counted(before.size(), "dimension"),
        "wanted one for each dimension");
    return {};
  }
  std::vector<Expr> extents, begins;
  for (std::size_t axis = 0; axis < before.size(); ++axis) {
    const auto* pair = std::get_if<std::vector<ast::Argument>>(&(*list)[axis].kind);
    if (pair == nullptr || pair->size() != 2) {
      context_.diagnostics.report(Code::E0218, (*list)[axis].span, "`pad` takes a pair for each dimension",
                                  "wanted `[before, after]`");
      return {};
    }
    const Expr low = extent_argument((*pair)[0], "a padding"), high = extent_argument((*pair)[1], "a padding");
    if (!low || !high) return {};
    const Expr sum = scalar::apply(Opcode::Add, {scalar::apply(Opcode::Add, {low, before[axis]}), high});
    const Expr extent = canonical_extent(sum);
    if (!is_nonnegative(context_.graph, extent)) {
      std::vector<tensor::Condition::Shown> shown = {
          {"the padded extent", sum}, {extent_text(std::string(call.arguments[0].span.text()), axis), before[axis]}};
      show_symbols(context_.graph, sum, shown);
      context_.require({scalar::apply(Opcode::Ge, {sum, scalar::constant_i64(0)}),
                        "the padded extent along axis " + std::to_string(axis) + " is negative", (*list)[axis].span,
                        std::move(shown)});
    }
    extents.push_back(extent);
    begins.push_back(low);
  }
  if (!value) return {};
  std::vector<tensor::Axis> axes = axes_over(extents);
  scalar::Read read{*source, {}, scalar::PadMode::Value, value->scalar};
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    read.index.push_back(scalar::simplify(scalar::apply(Opcode::Sub, {scalar::axis(axes[axis].id), begins[axis]})));
  read.span = span;
  return add_compute({name, {}, numerics_}, std::move(axes), scalar::read(std::move(read), dtype), span);
}

}  // namespace corrloom::frontend
