#include "compiler/tools/check/movement.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/passes/readers.h"

namespace corrloom::tools {
namespace {

using tensor::AxisId;
using tensor::Expr;
using tensor::SymbolId;
using tensor::TensorId;

bool uses(const Expr& expr, AxisId axis) {
  return passes::uses_axis(expr, [&](AxisId id) { return id == axis; });
}

bool is_symbol(const Expr& expr, SymbolId symbol) {
  const auto* reference = std::get_if<scalar::SymbolRef>(&expr->kind);
  return reference != nullptr && reference->symbol == symbol;
}

bool uses(const Expr& expr, SymbolId symbol) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) { found = found || is_symbol(node, symbol); });
  return found;
}

/// The axes of an op's result.
const std::vector<tensor::Axis>* axes_of(const tensor::Op& op) {
  if (const auto* compute = std::get_if<tensor::Compute>(&op.kind)) return &compute->axes;
  const auto* view = std::get_if<tensor::View>(&op.kind);
  return view == nullptr ? nullptr : &view->axes;
}

class Movements {
 public:
  Movements(const tensor::Graph& graph, TensorId input, std::size_t dimension) : graph_(graph) {
    for (std::size_t k = 0; k < graph.ops.size(); ++k) {
      const tensor::Op& op = graph.ops[k];
      if (static_cast<std::size_t>(input.index) == k) {
        const std::int64_t extent = scalar::as_i64(op.extents[dimension]).value_or(0);
        ops_.push_back({true, Movement{dimension, 1, 0, 0, 0, extent - 1}});
      } else {
        ops_.push_back(of_op(op));
      }
    }
  }

  std::vector<std::optional<Movement>> outputs() const {
    std::vector<std::optional<Movement>> out;
    for (const tensor::Output& output : graph_.outputs) out.push_back(of(output.value).movement);
    return out;
  }

 private:
  /// Of one value. One that does not use the input has no movement.
  struct State {
    bool uses_input = false;
    std::optional<Movement> movement;
  };

  const State& of(TensorId id) const { return ops_[static_cast<std::size_t>(id.index)]; }

  State of_op(const tensor::Op& op) const {
    State state;
    passes::for_each_use(op, [&](TensorId source, const scalar::Read*) {
      state.uses_input = state.uses_input || of(source).uses_input;
    });
    if (!state.uses_input || axes_of(op) == nullptr) return state;
    const std::vector<tensor::Axis>& axes = *axes_of(op);
    for (std::size_t k = 0; k < axes.size() && !state.movement; ++k) state.movement = along(op, axes[k], k);
    return state;
  }

  std::optional<Movement> along(const tensor::Op& op, const tensor::Axis& axis, std::size_t dimension) const {
    const std::int64_t extent = scalar::as_i64(axis.extent).value_or(0);
    Movement movement{dimension, 0, 0, 0, 0, extent - 1};  // of step 0 until a read moves
    const affine::Ranges ranges = passes::ranges_of(op);
    if (const auto* view = std::get_if<tensor::View>(&op.kind)) {
      scalar::Read read;
      read.source = view->source;
      read.index = view->index;
      return take_read(read, axis.id, ranges, movement) && movement.step > 0 ? std::optional(movement) : std::nullopt;
    }
    bool moves = true;
    tensor::for_each_expr(op, [&](const Expr& root) { moves = moves && take_expr(root, axis.id, ranges, movement); });
    return moves && movement.step > 0 ? std::optional(movement) : std::nullopt;
  }

  /// Takes in all reads of an expression; false when something else uses the axis.
  bool take_expr(const Expr& root, AxisId axis, const affine::Ranges& ranges, Movement& movement) const {
    std::vector<Expr> pending{root};
    std::unordered_set<const scalar::Node*> seen;
    while (!pending.empty()) {
      const Expr expr = pending.back();
      pending.pop_back();
      if (!seen.insert(expr.get()).second) continue;
      if (passes::axis_of(expr) == axis) return false;
      const scalar::Read* read = scalar::as_read(expr);
      if (read == nullptr) {
        for (const Expr& child : scalar::children(expr)) pending.push_back(child);
        continue;
      }
      if (!take_read(*read, axis, ranges, movement)) return false;
      if (read->pad_value) pending.push_back(read->pad_value);
    }
    return true;
  }

  /// Takes in what a read means for the movement along an axis; false when nothing moves.
  bool take_read(const scalar::Read& read, AxisId axis, const affine::Ranges& ranges, Movement& movement) const {
    const State& source = of(read.source);
    if (source.uses_input && !source.movement) return false;
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      if (depends_on_input(read.index[k])) return false;
      const bool walks = source.uses_input && k == source.movement->dimension;
      if (walks ? !take_subscript(read.index[k], axis, ranges, *source.movement, movement) : uses(read.index[k], axis))
        return false;
    }
    return true;
  }

  bool depends_on_input(const Expr& expr) const {
    bool depends = false;
    scalar::for_each_node(expr, [&](const Expr& node) {
      const scalar::Read* read = scalar::as_read(node);
      depends = depends || (read != nullptr && of(read->source).uses_input);
    });
    return depends;
  }

  /// The subscript step * i + rest of a value that moves itself.
  static bool take_subscript(const Expr& subscript, AxisId axis, const affine::Ranges& ranges, const Movement& source,
                             Movement& movement) {
    const std::optional<affine::LinearForm> form = affine::linear_form(subscript);
    if (!form) return false;
    const std::int64_t step = form->coefficient_of(axis);
    affine::LinearForm rest = *form;
    std::erase_if(rest.terms, [&](const auto& term) { return passes::axis_of(term.expr) == axis; });
    const Expr others = affine::to_expr(rest);
    const auto bounds = affine::interval_of(others, ranges);
    constexpr std::int64_t kFar = 1 << 20;
    if (step < 1 || step > kFar || uses(others, axis) || !bounds || bounds->low < -kFar || bounds->high > kFar)
      return false;
    const std::int64_t low = source.step * bounds->low + source.low, high = source.step * bounds->high + source.high;
    const bool is_first = movement.step == 0;
    if (!is_first && movement.step != step * source.step) return false;
    movement.step = step * source.step;
    movement.low = is_first ? low : std::min(movement.low, low);
    movement.high = is_first ? high : std::max(movement.high, high);
    // step * i + rest must be an element of the source that is like its others.
    const auto rounded_up = [&](std::int64_t value) {
      return value >= 0 ? (value + step - 1) / step : -(-value / step);
    };
    const auto rounded_down = [&](std::int64_t value) {
      return -(value >= 0 ? -(value / step) : (-value + step - 1) / step);
    };
    movement.first = std::max(movement.first, rounded_up(source.first - bounds->low));
    movement.last = std::min(movement.last, rounded_down(source.last - bounds->high));
    return true;
  }

  const tensor::Graph& graph_;
  std::vector<State> ops_;
};

/// Whether every use of the dimension in an op is the walk of one index.
class FreeDimension {
 public:
  FreeDimension(const tensor::Graph& graph, SymbolId symbol) : graph_(graph), symbol_(symbol) {}

  bool holds() const {
    bool is_used = false;
    for (const tensor::TensorId input : graph_.inputs) is_used = is_used || dimension_of(graph_.op(input), symbol_);
    return is_used &&
           std::all_of(graph_.ops.begin(), graph_.ops.end(), [&](const tensor::Op& op) { return is_walked(op); });
  }

 private:
  bool is_walked(const tensor::Op& op) const {
    const std::optional<std::size_t> own = dimension_of(op, symbol_);
    for (std::size_t k = 0; k < op.extents.size(); ++k) {
      if (own != k && uses(op.extents[k], symbol_)) return false;
    }
    if (const auto* reshape = std::get_if<tensor::Reshape>(&op.kind)) {
      const auto source = dimension_of(graph_.op(reshape->source), symbol_);
      return source == own && own.value_or(0) == 0;
    }
    const std::vector<tensor::Axis>* axes = axes_of(op);
    if (axes == nullptr) return true;
    const AxisId walker = own ? (*axes)[*own].id : AxisId();
    bool walks = true;
    if (const auto* view = std::get_if<tensor::View>(&op.kind)) {
      scalar::Read read;
      read.source = view->source;
      read.index = view->index;
      return is_read_well(read, walker) && std::none_of(view->index.begin(), view->index.end(),
                                                        [&](const Expr& expr) { return uses(expr, symbol_); });
    }
    for (const tensor::Axis& axis : passes::bound_axes(op)) {
      if (axis.id != walker) walks = walks && !uses(axis.extent, symbol_) && !mentions(axis.extent, walker);
      if (axis.origin) walks = walks && !uses(axis.origin, symbol_) && !mentions(axis.origin, walker);
    }
    const auto& compute = std::get<tensor::Compute>(op.kind);
    if (compute.reduction) {
      for (const tensor::Accumulator& one : compute.reduction->accumulators)
        walks = walks && is_body_well(one.init, walker) && is_body_well(one.step, walker);
    }
    return walks && is_body_well(compute.body, walker);
  }

  static bool mentions(const Expr& expr, AxisId walker) { return walker && uses(expr, walker); }

  bool is_body_well(const Expr& body, AxisId walker) const {
    if (uses(body, symbol_) || (walker && passes::axis_of(body) == walker)) return false;
    bool is_well = true;
    scalar::for_each_node(body, [&](const Expr& node) {
      if (const scalar::Read* read = scalar::as_read(node)) {
        is_well = is_well && is_read_well(*read, walker);
      } else if (walker) {
        for (const Expr& child : scalar::children(node)) is_well = is_well && passes::axis_of(child) != walker;
      }
    });
    return is_well;
  }

  /// The walking index stands alone at the dimension, and nowhere else.
  bool is_read_well(const scalar::Read& read, AxisId walker) const {
    const std::optional<std::size_t> split = dimension_of(graph_.op(read.source), symbol_);
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      if (split == k ? !walker || passes::axis_of(read.index[k]) != walker : mentions(read.index[k], walker))
        return false;
    }
    return !read.pad_value || !mentions(read.pad_value, walker);
  }

  const tensor::Graph& graph_;
  SymbolId symbol_;
};

}  // namespace

std::vector<std::optional<Movement>> movements_with(const tensor::Graph& graph, TensorId input, std::size_t dimension) {
  return Movements(graph, input, dimension).outputs();
}

std::optional<std::size_t> dimension_of(const tensor::Op& op, SymbolId symbol) {
  const auto found =
      std::find_if(op.extents.begin(), op.extents.end(), [&](const Expr& extent) { return is_symbol(extent, symbol); });
  if (found == op.extents.end()) return std::nullopt;
  return static_cast<std::size_t>(found - op.extents.begin());
}

bool is_free_dimension(const tensor::Graph& graph, SymbolId dimension) {
  return FreeDimension(graph, dimension).holds();
}

}  // namespace corrloom::tools
