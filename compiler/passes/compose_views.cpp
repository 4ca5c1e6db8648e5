#include "compiler/passes/compose_views.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/read_paths.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/size_proofs.h"
#include "compiler/passes/view_places.h"
#include "ir/affine/affine.h"

namespace corrloom::passes {
namespace {

using scalar::Opcode;
using scalar::PadMode;
using scalar::Read;
using scalar::ReadCheck;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::Reshape;
using tensor::TensorId;
using tensor::View;

/// True when the view shows its source dimension by dimension, in another order at most: then the edges of both agree.
bool permutes_dimensions(const Graph& graph, const Op& op) {
  const auto* view = std::get_if<View>(&op.kind);
  if (view == nullptr || view->index.size() != view->axes.size()) return false;
  std::set<AxisId> used;
  for (std::size_t k = 0; k < view->index.size(); ++k) {
    const AxisId axis = axis_of(view->index[k]);
    if (!axis || !used.insert(axis).second) return false;
    std::size_t place = 0;
    while (view->axes[place].id != axis) ++place;
    if (!scalar::same(op.extents[place], graph.op(view->source).extents[k])) return false;
  }
  return true;
}

/// The subscript inside [0, extent) that a pad mode other than a value reads.
Expr padded_subscript(PadMode pad, const Expr& index, const Expr& extent) {
  const Expr zero = scalar::constant_i64(0), one = scalar::constant_i64(1);
  const Expr last = scalar::apply(Opcode::Sub, {extent, one});
  if (pad == PadMode::Wrap) return scalar::apply(Opcode::Mod, {index, extent});
  if (pad == PadMode::Edge) return scalar::apply(Opcode::Max, {scalar::apply(Opcode::Min, {index, last}), zero});
  // Reflect: up and down again with period 2 * (extent - 1); one element alone has period 0, and modulo 0 is 0.
  const Expr period = scalar::apply(Opcode::Mul, {last, scalar::constant_i64(2)});
  const Expr phase = scalar::apply(Opcode::Mod, {index, period});
  return scalar::apply(Opcode::Min, {phase, scalar::apply(Opcode::Sub, {period, phase})});
}

/// The read of a virtual value as a read of what it shows.
Expr composed(const Graph& graph, const Read& read, DType dtype) {
  const Op& op = graph.op(read.source);
  Read inner = read;
  if (read.pad == PadMode::None || permutes_dimensions(graph, op)) {
    const auto* view = std::get_if<View>(&op.kind);
    Place place = view != nullptr ? Place{view->source, index_in_source(*view, read.index)}
                                  : resolve(graph, {read.source, read.index});
    inner.source = place.source;
    inner.index = std::move(place.index);
    const Expr result = scalar::read(inner, dtype);
    return is_virtual(graph, inner.source) ? composed(graph, inner, dtype) : result;
  }
  inner.pad = PadMode::None;
  inner.pad_value = nullptr;
  inner.check = ReadCheck::Proven;
  if (read.pad != PadMode::Value) {
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      inner.index[k] = padded_subscript(read.pad, read.index[k], op.extents[k]);
      const std::optional<std::int64_t> extent = scalar::as_i64(op.extents[k]);
      if (!extent || *extent == 0) inner.check = ReadCheck::Unchecked;
    }
    return composed(graph, inner, dtype);
  }
  const Expr element = composed(graph, inner, dtype);
  return scalar::apply(Opcode::If, {is_inside(read.index, op.extents), element, read.pad_value});
}

/// A tensor with the view's elements.
Op copy_of(Graph& graph, const Op& op) {
  const View view = std::get<View>(op.kind);
  Op copy = op;
  Compute compute;
  std::map<AxisId, Expr> renamed;
  for (const Axis& axis : view.axes) {
    compute.axes.push_back(axis);
    compute.axes.back().id = graph.new_axis(axis.name);
    renamed[axis.id] = scalar::axis(compute.axes.back().id);
  }
  Read read;
  read.source = view.source;
  for (const Expr& subscript : view.index)
    read.index.push_back(scalar::substitute_axes(subscript, [&](AxisId id) { return renamed[id]; }));
  read.check = ReadCheck::Proven;
  read.span = op.span;
  compute.body = scalar::read(std::move(read), op.dtype);
  copy.kind = std::move(compute);
  return copy;
}

/// True when the view shows its source with every dimension in its place: an error may name one by its place.
bool keeps_places(const Graph& graph, const Op& op) {
  if (!permutes_dimensions(graph, op)) return false;
  const auto& view = std::get<View>(op.kind);
  for (std::size_t k = 0; k < view.index.size(); ++k) {
    if (axis_of(view.index[k]) != view.axes[k].id) return false;
  }
  return true;
}

/// The views that need memory, because a read of them is checked at run time against their own extents, or a result is
/// they or a reshape of them. Reshapes stand for the views that they reshape.
std::set<TensorId> views_to_copy(const Graph& graph) {
  std::set<TensorId> views;
  const auto add = [&](TensorId id) {
    while (const auto* reshape = std::get_if<Reshape>(&graph.op(id).kind)) id = reshape->source;
    if (is_view(graph.op(id))) views.insert(id);
  };
  for (const tensor::Output& output : graph.outputs) add(output.value);
  for (const Op& op : graph.ops) {
    for_each_use(op, [&](TensorId source, const Read* read) {
      if (read == nullptr || read->check != ReadCheck::Runtime || read->pad == PadMode::Value) return;
      // Through a view that keeps the place of every dimension the check can move to the source; behind one there may
      // be another view.
      while (keeps_places(graph, graph.op(source))) source = std::get<View>(graph.op(source).kind).source;
      if (is_virtual(graph, source)) add(source);
    });
  }
  return views;
}

void compose_op(const Graph& graph, Op& op) {
  if (auto* view = std::get_if<View>(&op.kind)) {
    std::vector<Expr> index;
    for (const Axis& axis : view->axes) index.push_back(scalar::axis(axis.id));
    Place place = resolve(graph, {view->source, index_in_source(*view, index)});
    view->source = place.source;
    view->index = std::move(place.index);
  } else if (auto* reshape = std::get_if<Reshape>(&op.kind)) {
    const auto* inner = std::get_if<Reshape>(&graph.op(reshape->source).kind);
    if (inner != nullptr) reshape->source = inner->source;
    return;
  }
  const affine::Ranges ranges = ranges_of(op);
  const bool is_open = has_dimensions(graph);
  const affine::SizeProof proof = size_proof_of(graph, op);
  tensor::rewrite_exprs(op, [&](const Expr& expr) {
    const Expr result = scalar::rewrite(expr, [&](const Expr& node) -> Expr {
      const Read* read = scalar::as_read(node);
      return read != nullptr && is_virtual(graph, read->source) ? composed(graph, *read, node->dtype) : nullptr;
    });
    if (result == expr) return expr;
    const Expr open = is_open ? with_simple_subscripts(result, proof) : result;
    return scalar::simplify(affine::simplify_index(open, ranges));
  });
}

/// Puts a copy behind each of those views and lets every use of the view be one of the copy.
Graph with_copies(Graph graph, const std::set<TensorId>& views) {
  for (TensorId id : views) {
    Op copy = copy_of(graph, graph.op(id));
    graph.op(id) = std::move(copy);
  }
  return graph;
}

}  // namespace

Graph compose_views(Graph graph, PassContext& ctx) {
  const std::set<TensorId> views = views_to_copy(graph);
  ctx.count("views copied", static_cast<std::int64_t>(views.size()));
  graph = with_copies(std::move(graph), views);
  // Producers stand before readers: what a view shows has been resolved when its readers are visited.
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    Op op = std::move(graph.ops[k]);
    compose_op(graph, op);
    graph.ops[k] = std::move(op);
  }
  return graph;
}

}  // namespace corrloom::passes
