#include "ir/tensor/verify.h"

#include <bit>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "ir/base/match.h"
#include "ir/scalar/operand_dtypes.h"
#include "ir/tensor/sequence.h"

namespace corrloom::tensor {
namespace {

using scalar::Node;

/// Most lanes of an order: each holds accumulators of its own.
constexpr std::int64_t kMaxLanes = std::int64_t{1} << 20;

/// What an expression may use, by the place where it stands.
struct Place {
  std::string_view what;  ///< for messages: `body`, `step`
  bool reads = false;
  bool accumulators = false;
  bool others = false;
  /// In `others` and `accumulators`: what the references mean.
  const Reduction* reduction = nullptr;
};

std::string number(std::int64_t value) {
  return std::to_string(value);
}
std::string text(DType dtype) {
  return std::string(name_of(dtype));
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::vector<Violation> run() {
    check_symbols();
    check_inputs();
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) check_op(k);
    op_name_ = "@" + graph_.name;
    for (const Condition& condition : graph_.conditions) check_condition(condition);
    check_outputs();
    return std::move(found_);
  }

 private:
  void broken(std::string rule, std::string message) {
    found_.push_back({std::move(rule), op_name_, std::move(message)});
  }

  bool is_op(TensorId id) const { return id.index >= 0 && static_cast<std::size_t>(id.index) < graph_.ops.size(); }
  bool is_symbol(SymbolId id) const {
    return id.index >= 0 && static_cast<std::size_t>(id.index) < graph_.symbols.size();
  }

  /// T1 for an expression: it is there.
  bool is_present(const Expr& expr, std::string_view what) {
    if (expr) return true;
    broken("T1", "the " + std::string(what) + " is missing");
    return false;
  }

  void check_symbols() {
    op_name_ = "@" + graph_.name;
    for (const Symbol& symbol : graph_.symbols) {
      if (symbol.kind == Symbol::Kind::Dimension && symbol.dtype != DType::I64)
        broken("T13", "the dimension " + symbol.name + " is of " + text(symbol.dtype) + ", not i64");
    }
  }

  void check_inputs() {
    std::vector<int> listed(graph_.ops.size());
    for (const TensorId id : graph_.inputs) {
      if (!is_op(id)) {
        broken("T1",
               "an input is op " + number(id.index) + ", of " + number(static_cast<std::int64_t>(graph_.ops.size())));
        continue;
      }
      ++listed[static_cast<std::size_t>(id.index)];
      if (!std::holds_alternative<Input>(graph_.op(id).kind))
        broken("T3", "%" + graph_.op(id).name + " is listed as an input, but computed");
    }
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      if (std::holds_alternative<Input>(graph_.ops[k].kind) && listed[k] != 1)
        broken("T3", "the input %" + graph_.ops[k].name + " is listed " + number(listed[k]) + " times, not once");
    }
  }

  void check_op(std::size_t at) {
    const Op& op = graph_.ops[at];
    op_name_ = "%" + op.name;
    position_ = at;
    scope_.clear();
    for (const Expr& extent : op.extents) check_extent(extent, "extent", {"extent"});
    match(
        op.kind, [](const Input&) {}, [&](const Literal& literal) { check_literal(op, literal); },
        [&](const Compute& compute) { check_compute(op, compute); }, [&](const View& view) { check_view(op, view); },
        [&](const Reshape& reshape) { check_reshape(op, reshape); });
  }

  /// T4 and what an extent may use.
  void check_extent(const Expr& extent, std::string_view what, const Place& place) {
    if (!is_present(extent, what)) return;
    if (extent->dtype != DType::I64)
      broken("T4", "the " + std::string(what) + " is of " + text(extent->dtype) + ", not i64");
    if (const auto value = scalar::as_i64(extent); value && *value < 0)
      broken("T4", "the " + std::string(what) + " is " + number(*value) + ", which is negative");
    check_expr(extent, place);
  }

  // Expressions.

  void check_expr(const Expr& expr, const Place& place) {
    scalar::for_each_node(expr, [&](const Expr& node) {
      match(
          node->kind, [&](const scalar::Constant&) {},
          [&](const scalar::AxisRef& kind) { check_axis(kind.axis, place); },
          [&](const scalar::SymbolRef& kind) { check_symbol(kind.symbol, node->dtype); },
          [&](const scalar::AccRef& kind) { check_accumulator(kind, node->dtype, place); },
          [&](const scalar::Read& kind) { check_read(kind, node->dtype, place); },
          [&](const scalar::Apply& kind) { check_apply(kind, node->dtype); });
    });
  }

  void check_axis(AxisId id, const Place& place) {
    if (id.index < 0 || static_cast<std::size_t>(id.index) >= graph_.axis_names.size()) {
      broken("T1", "axis " + number(id.index) + " is not one of the graph's " +
                       number(static_cast<std::int64_t>(graph_.axis_names.size())));
    } else if (scope_.count(id) == 0) {
      broken("T8", "the " + std::string(place.what) + " uses the axis " +
                       graph_.axis_names[static_cast<std::size_t>(id.index)] + ", which is not in scope there");
    }
  }

  void check_symbol(SymbolId id, DType dtype) {
    if (!is_symbol(id)) return broken("T1", "symbol " + number(id.index) + " does not exist");
    const Symbol& symbol = graph_.symbols[static_cast<std::size_t>(id.index)];
    if (symbol.dtype != dtype)
      broken("T13", "the symbol " + symbol.name + " of " + text(symbol.dtype) + " is used as " + text(dtype));
  }

  void check_accumulator(const scalar::AccRef& reference, DType dtype, const Place& place) {
    if (!place.accumulators) return broken("T10", "the " + std::string(place.what) + " uses an accumulator");
    if (reference.other && !place.others)
      broken("T10", "the " + std::string(place.what) + " uses the other side of a merge");
    const std::size_t count = place.reduction == nullptr ? 0 : place.reduction->accumulators.size();
    if (reference.index < 0 || static_cast<std::size_t>(reference.index) >= count)
      return broken("T10", "accumulator " + number(reference.index) + " is not one of " +
                               number(static_cast<std::int64_t>(count)));
    const Accumulator& accumulator = place.reduction->accumulators[static_cast<std::size_t>(reference.index)];
    if (accumulator.dtype != dtype)
      broken("T10",
             "the accumulator " + accumulator.name + " of " + text(accumulator.dtype) + " is used as " + text(dtype));
  }

  /// T1 and T2 for what an op uses; false when there is nothing to look at.
  bool check_source(TensorId id) {
    if (!is_op(id)) {
      broken("T1", "op " + number(id.index) + " does not exist");
      return false;
    }
    if (static_cast<std::size_t>(id.index) >= position_) {
      broken("T2", "%" + graph_.op(id).name + " is used before it is defined");
      return false;
    }
    return true;
  }

  void check_read(const scalar::Read& read, DType dtype, const Place& place) {
    if (!place.reads) broken("T7", "the " + std::string(place.what) + " reads a tensor");
    for (const Expr& subscript : read.index) {
      if (is_present(subscript, "subscript") && subscript->dtype != DType::I64)
        broken("T11", "a subscript is of " + text(subscript->dtype) + ", not i64");
    }
    if ((read.pad == scalar::PadMode::Value) != (read.pad_value != nullptr))
      broken("T12", read.pad_value ? "a read has a pad value, but another pad" : "a read has no value to pad with");
    if (!check_source(read.source)) return;
    const Op& source = graph_.op(read.source);
    if (read.index.size() != source.extents.size())
      broken("T11", "a read of %" + source.name + " has " + number(static_cast<std::int64_t>(read.index.size())) +
                        " subscripts, not " + number(static_cast<std::int64_t>(source.extents.size())));
    if (dtype != source.dtype)
      broken("T11", "a read of %" + source.name + " gives " + text(dtype) + ", not " + text(source.dtype));
    if (read.pad_value && read.pad_value->dtype != source.dtype)
      broken("T12", "the pad of a read of %" + source.name + " is of " + text(read.pad_value->dtype) + ", not " +
                        text(source.dtype));
  }

  void check_apply(const scalar::Apply& apply, DType dtype) {
    const scalar::OpcodeInfo& row = scalar::info(apply.opcode);
    if (static_cast<int>(apply.args.size()) != row.arity)
      return broken("T14", std::string(row.text) + " has " + number(static_cast<std::int64_t>(apply.args.size())) +
                               " operands, not " + number(row.arity));
    const DType operand = apply.args.back()->dtype;
    bool suits = scalar::takes_last(apply.opcode, operand);
    for (std::size_t k = 0; k < apply.args.size(); ++k)
      suits = suits && apply.args[k]->dtype == scalar::operand_dtype(apply.opcode, k, operand);
    if (apply.opcode == scalar::Opcode::Bitcast) suits = suits && bit_width(operand) == bit_width(dtype);
    if (!suits) broken("T14", std::string(row.text) + " does not take the dtypes of its operands");
    const DType wanted = row.result == scalar::Result::Boolean ? DType::Bool : operand;
    if (row.result != scalar::Result::Given && dtype != wanted)
      broken("T14", std::string(row.text) + " gives " + text(wanted) + ", not " + text(dtype));
  }

  // Ops.

  /// T5: puts the axes in scope, each seen by those after it.
  void bind_axes(const std::vector<Axis>& axes, const Place& place) {
    for (const Axis& axis : axes) {
      check_extent(axis.extent, "extent of axis " + axis.name, place);
      if (axis.origin) {
        if (axis.origin->dtype != DType::I64)
          broken("T4", "the origin of axis " + axis.name + " is of " + text(axis.origin->dtype) + ", not i64");
        check_expr(axis.origin, place);
      }
      if (axis.id.index < 0 || static_cast<std::size_t>(axis.id.index) >= graph_.axis_names.size())
        broken("T1", "axis " + number(axis.id.index) + " does not exist");
      if (!bound_.insert(axis.id).second) broken("T5", "the axis " + axis.name + " is bound twice in the graph");
      scope_.insert(axis.id);
    }
  }

  /// T6: one axis a dimension, of the same extent.
  void check_domain(const Op& op, const std::vector<Axis>& axes) {
    if (axes.size() != op.extents.size())
      return broken("T6", number(static_cast<std::int64_t>(axes.size())) + " axes for " +
                              number(static_cast<std::int64_t>(op.extents.size())) + " dimensions");
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (axes[k].extent && op.extents[k] && !scalar::same(axes[k].extent, op.extents[k]))
        broken("T6", "the extent of axis " + axes[k].name + " is not that of dimension " +
                         number(static_cast<std::int64_t>(k)));
    }
  }

  void check_literal(const Op& op, const Literal& literal) {
    std::int64_t count = 1;
    for (const Expr& extent : op.extents) {
      const auto value = extent ? scalar::as_i64(extent) : std::nullopt;
      if (!value) return broken("T15", "an extent of a literal is not constant");
      if (__builtin_mul_overflow(count, *value, &count)) return broken("T15", "the extents of a literal overflow");
    }
    if (count != static_cast<std::int64_t>(literal.values.size()))
      broken("T15",
             number(static_cast<std::int64_t>(literal.values.size())) + " values for " + number(count) + " elements");
    for (const scalar::Value& value : literal.values) {
      if (value.dtype != op.dtype)
        return broken("T15", "a value of " + text(value.dtype) + " in a literal of " + text(op.dtype));
    }
  }

  void check_compute(const Op& op, const Compute& compute) {
    bind_axes(compute.axes, {"extent"});
    check_domain(op, compute.axes);
    if (compute.reduction) check_reduction(*compute.reduction, compute.numerics);
    Place body = {"body", true, compute.reduction.has_value(), false,
                  compute.reduction ? &*compute.reduction : nullptr};
    if (!is_present(compute.body, "body")) return;
    if (compute.body->dtype != op.dtype)
      broken("T9", "the body is of " + text(compute.body->dtype) + ", the tensor of " + text(op.dtype));
    check_expr(compute.body, body);
  }

  void check_reduction(const Reduction& reduction, const Numerics& numerics) {
    if (reduction.accumulators.empty()) broken("T10", "a reduction has no accumulators");
    const std::unordered_set<AxisId> outer = scope_;
    bind_axes(reduction.axes, {"extent of a reduction's axis", true});
    const std::unordered_set<AxisId> inner = std::exchange(scope_, outer);
    bool complete = true;
    for (const Accumulator& accumulator : reduction.accumulators) {
      complete = check_part(accumulator, accumulator.init, {"init", true}) && complete;
      complete = check_part(accumulator, accumulator.merge, {"merge", true, true, true, &reduction}) && complete;
      scope_ = inner;
      complete = check_part(accumulator, accumulator.step, {"step", true, true, false, &reduction}) && complete;
      scope_ = outer;
    }
    if (complete) check_order(reduction, numerics);
  }

  /// T9 for init, step or merge; false when it is missing.
  bool check_part(const Accumulator& accumulator, const Expr& expr, const Place& place) {
    if (!is_present(expr, place.what)) return false;
    if (expr->dtype != accumulator.dtype)
      broken("T9", "the " + std::string(place.what) + " of " + accumulator.name + " is of " + text(expr->dtype) +
                       ", not " + text(accumulator.dtype));
    check_expr(expr, place);
    return true;
  }

  static bool is_of_sizes(const std::vector<Axis>& axes) {
    bool plain = true;
    for (const Axis& axis : axes) {
      if (axis.extent == nullptr) continue;
      scalar::for_each_node(axis.extent, [&](const Expr& node) {
        plain &= scalar::as_read(node) == nullptr && !std::holds_alternative<scalar::AxisRef>(node->kind);
      });
    }
    return plain;
  }

  void check_order(const Reduction& reduction, const Numerics& numerics) {
    const Order& order = reduction.order;
    const bool power = order.lanes > 0 && std::has_single_bit(static_cast<std::uint64_t>(order.lanes));
    if (order.kind == Order::Kind::Lanes && (!power || order.lanes > kMaxLanes))
      broken("T16", number(order.lanes) + " lanes: wanted a power of two up to " + number(kMaxLanes));
    if (order.part < 0 || (power && order.part % order.lanes != 0))
      broken("T16", "parts of " + number(order.part) + " elements: wanted a multiple of " + number(order.lanes));
    if (order.part > 0 && (reduction.accumulators.size() != 1 || !is_of_sizes(reduction.axes)))
      broken("T16", "parts of a reduction of several accumulators, or of ranges that do not depend on sizes alone");
    const bool ascending = order.kind == Order::Kind::Ascending && order.part == 0;
    if (!ascending && is_in_sequence(reduction))
      broken("T23", "an accumulator tells where the reduction stands, but the order is not ascending");
    if (ascending || is_order_free(reduction)) return;
    if (order.kind == Order::Kind::Any && numerics.order != Numerics::OrderMode::Any)
      broken("T17", "the order is free, but decides bits");
    if (numerics.order == Numerics::OrderMode::Strict)
      broken("T18", "the order is not ascending, but has to be strict");
  }

  void check_view(const Op& op, const View& view) {
    bind_axes(view.axes, {"extent"});
    check_domain(op, view.axes);
    for (const Expr& subscript : view.index) {
      if (!is_present(subscript, "subscript")) continue;
      if (subscript->dtype != DType::I64) broken("T11", "a subscript is of " + text(subscript->dtype) + ", not i64");
      check_expr(subscript, {"subscript of a view"});
    }
    if (!check_source(view.source)) return;
    const Op& source = graph_.op(view.source);
    if (view.index.size() != source.extents.size())
      broken("T11", "a view of %" + source.name + " has " + number(static_cast<std::int64_t>(view.index.size())) +
                        " subscripts, not " + number(static_cast<std::int64_t>(source.extents.size())));
    check_same_dtype(op, source);
  }

  void check_same_dtype(const Op& op, const Op& source) {
    if (op.dtype != source.dtype)
      broken("T11", "a tensor of " + text(op.dtype) + " shows %" + source.name + " of " + text(source.dtype));
  }

  /// The number of elements, when it is a constant below 2^63.
  static std::optional<std::int64_t> constant_count(const Op& op) {
    std::int64_t count = 1;
    for (const Expr& extent : op.extents) {
      const auto value = extent ? scalar::as_i64(extent) : std::nullopt;
      if (!value || __builtin_mul_overflow(count, *value, &count)) return std::nullopt;
    }
    return count;
  }

  void check_reshape(const Op& op, const Reshape& reshape) {
    if (!check_source(reshape.source)) return;
    const Op& source = graph_.op(reshape.source);
    check_same_dtype(op, source);
    const auto before = constant_count(source), after = constant_count(op);
    if (before && after && *before != *after)
      broken("T19", "a reshape from " + number(*before) + " to " + number(*after) + " elements");
  }

  // The graph.

  void check_condition(const Condition& condition) {
    scope_.clear();
    if (is_present(condition.holds, "condition")) {
      if (condition.holds->dtype != DType::Bool)
        broken("T20", "a condition is of " + text(condition.holds->dtype) + ", not bool");
      check_expr(condition.holds, {"condition"});
    }
    for (const auto& [name, value] : condition.shown) {
      if (is_present(value, "shown value")) check_expr(value, {"shown value"});
    }
  }

  void check_outputs() {
    std::unordered_set<std::string> names;
    std::unordered_set<TensorId> storages;
    for (const Output& output : graph_.outputs) {
      if (!names.insert(output.name).second) broken("T21", "two outputs have the name " + output.name);
      if (!is_op(output.value)) {
        broken("T1", "the output " + output.name + " is op " + number(output.value.index) + ", which does not exist");
        continue;
      }
      if (output.storage_of == TensorId{}) continue;
      if (!is_op(output.storage_of)) {
        broken("T1", "the storage of " + output.name + " is that of op " + number(output.storage_of.index));
        continue;
      }
      if (!storages.insert(output.storage_of).second) broken("T22", "two outputs take over the storage of one input");
      check_storage(output);
    }
  }

  void check_storage(const Output& output) {
    const Op& value = graph_.op(output.value);
    const Op& storage = graph_.op(output.storage_of);
    if (!std::holds_alternative<Input>(storage.kind))
      return broken("T22", "%" + storage.name + ", whose storage is taken over, is not an input");
    if (value.dtype != storage.dtype) broken("T22", text(value.dtype) + " in the storage of " + text(storage.dtype));
    bool same_shape = value.extents.size() == storage.extents.size();
    for (std::size_t k = 0; same_shape && k < value.extents.size(); ++k) {
      const Expr &a = value.extents[k], &b = storage.extents[k];
      same_shape = a && b && scalar::same(a, b);
    }
    if (!same_shape) broken("T22", "%" + value.name + " has not the extents of %" + storage.name);
    if (!found_.empty()) return;  // the walk below needs a graph that is sound otherwise
    const auto is_none = [](const Expr& extent) { return scalar::is_constant_i64(extent, 0); };
    if (std::any_of(storage.extents.begin(), storage.extents.end(), is_none)) return;  // no element to replace
    const std::vector<bool> users = users_of(output.storage_of);
    std::vector<bool> seen(graph_.ops.size());
    std::vector<TensorId> pending = {output.value};
    while (!pending.empty()) {
      const TensorId id = pending.back();
      pending.pop_back();
      const auto at = static_cast<std::size_t>(id.index);
      if (id == output.storage_of || seen[at]) continue;
      seen[at] = true;
      if (!uses_same_element(graph_.op(id), users, pending))
        return broken("T22", "%" + graph_.op(id).name + " uses another element of %" + storage.name +
                                 " than the one it replaces");
    }
  }

  /// Ops whose value depends on `input`, itself included.
  std::vector<bool> users_of(TensorId input) const {
    std::vector<bool> uses(graph_.ops.size());
    uses[static_cast<std::size_t>(input.index)] = true;
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      const auto use = [&](TensorId id) { uses[k] = uses[k] || uses[static_cast<std::size_t>(id.index)]; };
      if (const auto* view = std::get_if<View>(&graph_.ops[k].kind)) use(view->source);
      if (const auto* reshape = std::get_if<Reshape>(&graph_.ops[k].kind)) use(reshape->source);
      for_each_expr(graph_.ops[k], [&](const Expr& expr) {
        scalar::for_each_node(expr, [&](const Expr& node) {
          if (const scalar::Read* read = scalar::as_read(node)) use(read->source);
        });
      });
    }
    return uses;
  }

  /// Whether each element of `op` uses, of the tensors in `users`, only the element at its own place; adds those
  /// tensors to `pending`.
  bool uses_same_element(const Op& op, const std::vector<bool>& users, std::vector<TensorId>& pending) const {
    if (const auto* reshape = std::get_if<Reshape>(&op.kind)) {
      if (users[static_cast<std::size_t>(reshape->source.index)]) pending.push_back(reshape->source);
      return true;
    }
    if (const auto* view = std::get_if<View>(&op.kind)) {
      if (!users[static_cast<std::size_t>(view->source.index)]) return true;
      pending.push_back(view->source);
      return is_own_place(op, view->axes, view->source, view->index);
    }
    const auto* compute = std::get_if<Compute>(&op.kind);
    if (compute == nullptr) return true;
    bool same = true;
    for_each_expr(op, [&](const Expr& expr) {
      scalar::for_each_node(expr, [&](const Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr || !users[static_cast<std::size_t>(read->source.index)]) return;
        pending.push_back(read->source);
        same = same && is_own_place(op, compute->axes, read->source, read->index);
      });
    });
    return same;
  }

  /// Whether the subscripts are the op's axes in order, and the source has the op's extents.
  bool is_own_place(const Op& op, const std::vector<Axis>& axes, TensorId source,
                    const std::vector<Expr>& index) const {
    const std::vector<Expr>& extents = graph_.op(source).extents;
    if (index.size() != axes.size() || extents.size() != axes.size()) return false;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const auto* reference = std::get_if<scalar::AxisRef>(&index[k]->kind);
      if (reference == nullptr || reference->axis != axes[k].id || !scalar::same(extents[k], op.extents[k]))
        return false;
    }
    return true;
  }

  const Graph& graph_;
  std::vector<Violation> found_;
  std::string op_name_;
  std::size_t position_ = 0;          ///< of the op being checked
  std::unordered_set<AxisId> scope_;  ///< axes that an expression may use where it stands
  std::unordered_set<AxisId> bound_;  ///< of the whole graph
};

}  // namespace

std::vector<Violation> verify(const Graph& graph) {
  return Verifier(graph).run();
}

}  // namespace corrloom::tensor
