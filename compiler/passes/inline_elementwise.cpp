#include "compiler/passes/inline_elementwise.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/read_paths.h"
#include "compiler/passes/readers.h"
#include "ir/affine/affine.h"
#include "ir/affine/border.h"

namespace corrloom::passes {
namespace {

using scalar::Opcode;
using scalar::PadMode;
using scalar::Read;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::TensorId;

/// Deepest body that is worth repeating for each reader instead of storing its result.
constexpr int kMaxRepeatedDepth = 16;
/// Largest body, and most rows of it, that a reader evaluates again rather than load.
constexpr int kMaxRepeatedSize = 8;
constexpr std::size_t kMaxRepeatedRows = 5;
/// The same of a body that is evaluated for each neighbour along a line: an operation on two elements takes no longer
/// than to store its result and to load it.
constexpr int kMaxNeighbourSize = 3;
constexpr std::size_t kMaxNeighbours = 3;

/// True when the body passes on an element or a constant: whatever else it has is integer arithmetic for subscripts.
bool passes_on_an_element(const Expr& body) {
  if (body->depth > kMaxRepeatedDepth) return false;
  int reads = 0;
  bool moves = true;
  scalar::for_each_node(body, [&](const Expr& node) {
    if (scalar::as_read(node) != nullptr) ++reads;
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    if (apply == nullptr) return;
    const bool chooses = apply->opcode == Opcode::If || apply->opcode == Opcode::Select;
    const bool is_index = node->dtype == DType::I64 || node->dtype == DType::Bool;
    moves = moves && (chooses || (is_index && !is_float(apply->args[0]->dtype)));
  });
  return moves && reads <= 1;
}

/// True when the points of the axes go to distinct elements: each axis of more than one value is a subscript by itself.
bool visits_each_element_once(const Read& read, const std::vector<Axis>& axes) {
  std::set<AxisId> alone;
  for (const Expr& subscript : read.index) alone.insert(axis_of(subscript));
  return std::all_of(axes.begin(), axes.end(), [&](const Axis& axis) {
    return alone.count(axis.id) != 0 || scalar::is_constant_i64(axis.extent, 1);
  });
}

/// Where an op reads `source`: the different places, and whether each of them visits an element once.
struct Places {
  std::vector<Expr> reads;
  bool once = true;
};
void look_at(const Expr& expr, TensorId source, const std::vector<Axis>& axes, Places& places) {
  scalar::for_each_node(expr, [&](const Expr& node) {
    const Read* read = scalar::as_read(node);
    if (read == nullptr || read->source != source) return;
    places.once = places.once && visits_each_element_once(*read, axes);
    const bool known = std::any_of(places.reads.begin(), places.reads.end(),
                                   [&](const Expr& other) { return scalar::same(other, node); });
    if (!known) places.reads.push_back(node);
  });
}

bool reads_once(const Op& op, const Compute& consumer, TensorId source) {
  Places places;
  look_at(consumer.body, source, consumer.axes, places);
  if (consumer.reduction) {
    const std::vector<Axis> all = bound_axes(op);
    for (const Axis& axis : consumer.reduction->axes) look_at(axis.extent, source, all, places);
    for (const tensor::Accumulator& accumulator : consumer.reduction->accumulators) {
      look_at(accumulator.init, source, consumer.axes, places);
      look_at(accumulator.step, source, all, places);
      look_at(accumulator.merge, source, all, places);
    }
  }
  return places.reads.size() <= 1 && places.once;
}

/// Operations and reads of a body, subscripts aside.
int size_of(const Expr& body) {
  int size = 0;
  scalar::for_each_node(body, [&](const Expr& node) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    const bool is_element = node->dtype != DType::I64 && node->dtype != DType::Bool;
    if (scalar::as_read(node) != nullptr) ++size;
    if (apply != nullptr && is_element)
      size += scalar::info(apply->opcode).kind == scalar::OpcodeKind::Function ? kMaxRepeatedSize + 1 : 1;
  });
  return size;
}

/// True when the subscript is one axis and a constant, borders aside.
bool is_shifted_axis(const Expr& subscript) {
  const std::optional<affine::LinearForm> form = affine::linear_form(affine::away_from_borders(subscript));
  return form && form->terms.size() == 1 && form->terms[0].coefficient == 1 && axis_of(form->terms[0].expr);
}

/// True when the consumer reads a few rows of a short body, one above the other: a tile of rows evaluates each once, in
/// registers. Of a very short one it may read neighbours along a line, too.
bool reads_rows_of(const Compute& consumer, TensorId source, const Compute& producer) {
  const int size = size_of(producer.body);
  if (consumer.reduction || consumer.axes.size() < 2 || size > kMaxRepeatedSize) return false;
  Places places;
  look_at(consumer.body, source, consumer.axes, places);
  if (places.reads.empty() || places.reads.size() > kMaxRepeatedRows) return false;
  const std::vector<Expr>& first = scalar::as_read(places.reads.front())->index;
  const bool may_neighbour = size <= kMaxNeighbourSize && places.reads.size() <= kMaxNeighbours;
  return std::all_of(places.reads.begin(), places.reads.end(), [&](const Expr& node) {
    const std::vector<Expr>& index = scalar::as_read(node)->index;
    return !index.empty() && (may_neighbour || scalar::same(index.back(), first.back())) &&
           std::all_of(index.begin(), index.end(), is_shifted_axis);
  });
}

/// Deepest expression that is folded. Folding writes a body anew, so a chain of n values costs n times this at most;
/// what one more pass over memory costs does not show after so many operations.
constexpr int kMostDepth = scalar::kMaxDepth / 8;

/// The producer's body at the place of the read; null when the read has to stay: one that is checked at run time, that
/// pads with an element, or that would make the expression too deep.
Expr body_at(const Read& read, const Op& producer, const Compute& compute, int depth_of_reader) {
  const bool pads_inside = read.pad != PadMode::None && read.pad != PadMode::Value;
  if (pads_inside || read.check == scalar::ReadCheck::Runtime) return nullptr;
  int depth = 0;
  for (const Expr& subscript : read.index) depth = std::max(depth, subscript->depth);
  if (depth_of_reader + depth + compute.body->depth > kMostDepth) return nullptr;
  const Expr body = scalar::substitute_axes(compute.body, [&](AxisId id) -> Expr {
    for (std::size_t k = 0; k < compute.axes.size(); ++k) {
      if (compute.axes[k].id == id) return read.index[k];
    }
    return nullptr;
  });
  if (read.pad == PadMode::None) return body;
  return scalar::apply(Opcode::If, {is_inside(read.index, producer.extents), body, read.pad_value});
}

class Inliner {
 public:
  Inliner(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx), readers_(count_readers(graph)) {}

  void run(Op& op) {
    const auto* consumer = std::get_if<Compute>(&op.kind);
    if (consumer == nullptr) return;
    const std::set<TensorId> sources = sources_to_fold(op, *consumer);
    if (sources.empty()) return;
    tensor::rewrite_exprs(op, [&](const Expr& expr) {
      const int depth = expr->depth;
      // Equal reads share a body: sizes do not double from one op to the next.
      std::vector<std::pair<Expr, Expr>> folded;
      return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
        const Read* read = scalar::as_read(node);
        if (read == nullptr || sources.count(read->source) == 0) return nullptr;
        for (const auto& [known, body] : folded) {
          if (scalar::same(known, node)) return body;
        }
        const Op& producer = graph_.op(read->source);
        const Expr body = body_at(*read, producer, std::get<Compute>(producer.kind), depth);
        if (!body) return nullptr;
        ctx_.count("reads folded");
        folded.emplace_back(node, body);
        return body;
      });
    });
  }

 private:
  std::set<TensorId> sources_to_fold(const Op& op, const Compute& consumer) const {
    std::set<TensorId> sources;
    for_each_use(op, [&](TensorId source, const Read*) {
      const auto* producer = std::get_if<Compute>(&graph_.op(source).kind);
      if (producer == nullptr || producer->reduction) return;
      if (producer->numerics.fast_math != consumer.numerics.fast_math) return;
      const bool only_reader = readers_[static_cast<std::size_t>(source.index)] == 1;
      if (passes_on_an_element(producer->body) ||
          (only_reader && (reads_once(op, consumer, source) || reads_rows_of(consumer, source, *producer))))
        sources.insert(source);
    });
    return sources;
  }

  Graph& graph_;
  PassContext& ctx_;
  std::vector<int> readers_;
};

}  // namespace

Graph inline_elementwise(Graph graph, PassContext& ctx) {
  // Producers stand before readers, so a chain a -> b -> c is folded in this one sweep: b already holds a's body by the
  // time c is visited. A fold moves the reads of its producer to one reader, so the counts stay true.
  Inliner inliner(graph, ctx);
  for (Op& op : graph.ops) inliner.run(op);
  return graph;
}

}  // namespace corrloom::passes
