#include "ir/tensor/interpret.h"

#include <unordered_map>

#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "ir/scalar/evaluate.h"
#include "ir/tensor/check_site.h"
#include "ir/tensor/compiled_expr.h"
#include "ir/tensor/range_check.h"
#include "ir/tensor/verify.h"

namespace corrloom::tensor {
namespace {

using scalar::Value;

/// Most elements of one tensor, 8 GiB of bits: more is a mistake, and an error is better than the machine's memory
/// gone.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 30;

/// `place: `, or nothing for nowhere.
std::string at(const Span& span) {
  return span ? place(span) + ": " : std::string();
}

/// The number of elements, or nothing when it is negative somewhere or above the limit.
std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& extents) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) return std::nullopt;
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  for (const std::int64_t extent : extents) {
    if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) return std::nullopt;
  }
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& extents) {
  std::string out = "[";
  for (const std::int64_t extent : extents) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

/// The value of an expression over symbols; nothing when i64 arithmetic that it depends on overflows.
std::optional<Value> checked_value(const Expr& expr, std::span<const Value> symbols) {
  struct Known {
    Value value;
    bool exact;
  };
  std::unordered_map<const scalar::Node*, Known> known;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (const auto* constant = std::get_if<scalar::Constant>(&node->kind)) {
      known[node.get()] = {constant->value, true};
    } else if (const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind)) {
      known[node.get()] = {symbols[static_cast<std::size_t>(symbol->symbol.index)], true};
    } else {
      const auto& apply = std::get<scalar::Apply>(node->kind);
      std::vector<Value> values;
      bool exact = true;
      for (const Expr& arg : apply.args) {
        values.push_back(known[arg.get()].value);
        exact = exact && known[arg.get()].exact;
      }
      if (apply.opcode == scalar::Opcode::If || apply.opcode == scalar::Opcode::Select)
        exact = known[apply.args[0].get()].exact && known[apply.args[values[0].as_bool() ? 1 : 2].get()].exact;
      std::int64_t ignored = 0;
      if (node->dtype == DType::I64 && values.size() == 2) {
        const std::int64_t a = values[0].as_i64(), b = values[1].as_i64();
        if (apply.opcode == scalar::Opcode::Add) exact = exact && !__builtin_add_overflow(a, b, &ignored);
        if (apply.opcode == scalar::Opcode::Sub) exact = exact && !__builtin_sub_overflow(a, b, &ignored);
        if (apply.opcode == scalar::Opcode::Mul) exact = exact && !__builtin_mul_overflow(a, b, &ignored);
      }
      known[node.get()] = {scalar::evaluate(apply.opcode, values, node->dtype), exact};
    }
  });
  const Known result = known[expr.get()];
  return result.exact ? std::optional(result.value) : std::nullopt;
}

/// Counts through a box in row-major order: the next index, or false after the last.
bool next_index(std::span<std::int64_t> index, const std::vector<std::int64_t>& extents) {
  for (std::size_t k = extents.size(); k-- > 0;) {
    if (++index[k] < extents[k]) return true;
    index[k] = 0;
  }
  return false;
}

/// The failed check to report: that of the first site, with the lowest subscript there, and where it was met first.
struct Fault {
  CheckSite site;
  std::int64_t value;
  std::string where;
};

/// Evaluates one compute or view.
class OpRun {
 public:
  /// Leaves in `fault` the first of what it holds and what this op meets.
  OpRun(const Graph& graph, const Op& op, std::span<const Value> symbols, const std::vector<const Array*>& tensors,
        std::optional<Fault>& fault)
      : graph_(graph), op_(op), fault_(fault) {
    scope_.symbols = symbols;
    scope_.tensors = tensors;
    scope_.out_of_range = [this](const scalar::Read& read, std::span<const std::int64_t> index, std::size_t dimension) {
      if (read.pad == scalar::PadMode::None) return note_fault(read, dimension, index[dimension]);
      report(read.span ? "the read `" + std::string(read.span.text()) + "`" : "a read of " + name(read.source),
             read.span, read.source, index, dimension);
    };
  }

  void run(const Compute& compute, Array& result) {
    add_axes(compute.axes);
    if (compute.reduction) add_axes(compute.reduction->axes);
    if (compute.reduction) compile(*compute.reduction);
    CompiledExpr body(compute.body, scope_);
    std::size_t linear = 0;
    if (result.bits.empty()) return;
    do {
      if (compute.reduction) reduce(*compute.reduction, compute.axes.size());
      frame_.accumulators = accumulators_;
      in_reduction_ = false;
      result.bits[linear++] = body.run(frame_);
    } while (next_index(std::span(frame_.axes).first(compute.axes.size()), result.extents));
  }

  void run(const View& view, Array& result) {
    add_axes(view.axes);
    std::vector<CompiledExpr> subscripts;
    for (const Expr& subscript : view.index) subscripts.emplace_back(subscript, scope_);
    const Array& source = *scope_.tensors[static_cast<std::size_t>(view.source.index)];
    std::vector<std::int64_t> index(subscripts.size());
    std::size_t linear = 0;
    if (result.bits.empty()) return;
    do {
      std::int64_t from = 0;
      for (std::size_t k = 0; k < subscripts.size(); ++k) index[k] = subscripts[k].run_i64(frame_);
      for (std::size_t k = 0; k < subscripts.size(); ++k) {
        if (index[k] < 0 || index[k] >= source.extents[k])
          report("a view of " + name(view.source), op_.span, view.source, index, k);
        from = from * source.extents[k] + index[k];
      }
      result.bits[linear++] = source.bits[static_cast<std::size_t>(from)];
    } while (next_index(frame_.axes, result.extents));
  }

 private:
  struct CompiledAccumulator {
    CompiledExpr init, step, merge;
  };
  /// A range that is checked before it is walked.
  struct CompiledRange {
    std::size_t axis;  ///< of the reduction
    const scalar::Read* read;
    std::size_t dimension;
    std::int64_t limit;
    CompiledExpr subscript, holds;
  };

  void add_axes(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) {
      scope_.axis_positions[axis.id] = frame_.axes.size();
      frame_.axes.push_back(0);
      axes_.push_back(&axis);
    }
  }

  void compile(const Reduction& reduction) {
    for (const Axis& axis : reduction.axes) extents_.emplace_back(axis.extent, scope_);
    for (const Accumulator& accumulator : reduction.accumulators)
      compiled_.push_back({CompiledExpr(accumulator.init, scope_), CompiledExpr(accumulator.step, scope_),
                           CompiledExpr(accumulator.merge, scope_)});
    for (const RangeCheck& check : range_checks(reduction)) {
      const scalar::Read& read = *scalar::as_read(check.read);
      const std::int64_t limit = source_of(read).extents[check.dimension];
      const Expr subscript = checked_subscript(check, reduction.axes[check.axis].extent, scalar::constant_i64(limit));
      const Expr holds = check.holds ? check.holds : scalar::constant(Value::boolean(true));
      ranges_.push_back(
          {check.axis, &read, check.dimension, limit, CompiledExpr(subscript, scope_), CompiledExpr(holds, scope_)});
    }
    accumulators_.resize(compiled_.size());
    inits_.resize(compiled_.size());
    next_.resize(compiled_.size());
  }

  const Array& source_of(const scalar::Read& read) const {
    return *scope_.tensors[static_cast<std::size_t>(read.source.index)];
  }

  /// Leaves the finished accumulators in `accumulators_`.
  void reduce(const Reduction& reduction, std::size_t first_axis) {
    lanes_ = reduction.order.kind == Order::Kind::Lanes ? static_cast<std::size_t>(reduction.order.lanes) : 1;
    part_ = static_cast<std::uint64_t>(reduction.order.part);
    partial_.resize((lanes_ + 1) * compiled_.size());  // the last one holds the parts that are done
    std::fill(frame_.axes.begin() + static_cast<std::ptrdiff_t>(first_axis), frame_.axes.end(), 0);
    for (std::size_t k = 0; k < compiled_.size(); ++k) inits_[k] = compiled_[k].init.run(frame_);
    begin_part();
    element_ = 0;
    in_reduction_ = true;
    visit_elements(first_axis, 0);
    end_part(part_ != 0 && element_ > part_);
    std::copy_n(lane_values(lanes_).begin(), compiled_.size(), accumulators_.begin());
  }

  void begin_part() {
    for (std::size_t lane = 0; lane < lanes_; ++lane)
      std::copy(inits_.begin(), inits_.end(), lane_values(lane).begin());
  }

  void end_part(bool merged) {
    for (std::size_t half = lanes_ / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) merge(lane, lane + half);
    }
    if (merged) return merge(lanes_, 0);
    std::copy_n(partial_.begin(), compiled_.size(), lane_values(lanes_).begin());
  }

  std::span<std::uint64_t> lane_values(std::size_t lane) {
    return std::span(partial_).subspan(lane * compiled_.size(), compiled_.size());
  }

  /// Walks the axes from `depth` on; an extent may depend on the axes outside it.
  void visit_elements(std::size_t first_axis, std::size_t depth) {
    if (depth == extents_.size()) return add_element();
    std::int64_t& index = frame_.axes[first_axis + depth];
    index = 0;
    std::int64_t extent = extents_[depth].run_i64(frame_);
    if (extent > 0 && !range_stays_inside(depth)) extent = 0;
    for (; index < extent; ++index) visit_elements(first_axis, depth + 1);
    index = 0;
  }

  bool range_stays_inside(std::size_t axis) {
    bool inside = true;
    for (CompiledRange& range : ranges_) {
      if (range.axis != axis || range.holds.run(frame_) == 0) continue;
      const std::int64_t subscript = range.subscript.run_i64(frame_);
      if (subscript >= 0 && subscript < range.limit) continue;
      note_fault(*range.read, range.dimension, subscript);
      inside = false;
    }
    return inside;
  }

  /// Every step sees the accumulators as they were before the element.
  void add_element() {
    if (part_ != 0 && element_ != 0 && element_ % part_ == 0) {
      end_part(element_ > part_);
      begin_part();
    }
    const std::span<std::uint64_t> lane = lane_values(element_++ % lanes_);
    frame_.accumulators = lane;
    for (std::size_t k = 0; k < compiled_.size(); ++k) next_[k] = compiled_[k].step.run(frame_);
    std::copy(next_.begin(), next_.end(), lane.begin());
  }

  void merge(std::size_t into, std::size_t from) {
    frame_.accumulators = lane_values(into);
    frame_.others = lane_values(from);
    for (std::size_t k = 0; k < compiled_.size(); ++k) next_[k] = compiled_[k].merge.run(frame_);
    std::copy(next_.begin(), next_.end(), lane_values(into).begin());
  }

  // What a message shows.

  std::string name(TensorId id) const { return "`" + graph_.op(id).name + "`"; }

  /// Axes in scope with their values, as the user counts them.
  std::string axis_values() {
    const std::size_t shown = in_reduction_ ? axes_.size() : op_.extents.size();
    std::string out;
    for (std::size_t k = 0; k < shown; ++k) {
      std::int64_t value = frame_.axes[k];
      if (axes_[k]->origin) value += CompiledExpr(axes_[k]->origin, scope_).run_i64(frame_);
      out += (out.empty() ? "" : ", ") + axes_[k]->name + " = " + std::to_string(value);
    }
    return out;
  }

  /// A proof that does not hold is no fault of the inputs.
  void note_fault(const scalar::Read& read, std::size_t dimension, std::int64_t value) {
    const std::int64_t extent = source_of(read).extents[dimension];
    CheckSite site = check_site(graph_, read, dimension, std::to_string(extent));
    CORRLOOM_CHECK(read.check != scalar::ReadCheck::Proven, "`", site.read, "` was proven to stay inside, but ", value,
                   " is not in 0..", extent);
    const bool is_first = !fault_ || site < fault_->site || (!(fault_->site < site) && value < fault_->value);
    if (is_first) fault_ = Fault{std::move(site), value, axis_values()};
  }

  [[noreturn]] void report(const std::string& what, const Span& span, TensorId source,
                           std::span<const std::int64_t> index, std::size_t dimension) {
    const Array& array = *scope_.tensors[static_cast<std::size_t>(source.index)];
    std::string message = at(span) + what + " is out of range: subscript " + std::to_string(dimension) + " is " +
                          std::to_string(index[dimension]) + ", the extent is " +
                          std::to_string(array.extents[dimension]);
    const std::vector<std::int64_t> subscripts(index.begin(), index.end());
    message +=
        "\n  it reads " + name(source) + " at " + shape_text(subscripts) + ", of shape " + shape_text(array.extents);
    if (const std::string values = axis_values(); !values.empty()) message += "\n  where " + values;
    throw InputError(message);
  }

  const Graph& graph_;
  const Op& op_;
  std::optional<Fault>& fault_;
  ExprScope scope_;
  ExprFrame frame_;
  std::vector<const Axis*> axes_;
  std::vector<CompiledExpr> extents_;  ///< of the reduction's axes
  std::vector<CompiledAccumulator> compiled_;
  std::vector<CompiledRange> ranges_;
  std::vector<std::uint64_t> accumulators_;  ///< finished
  std::vector<std::uint64_t> inits_;
  std::vector<std::uint64_t> partial_;  ///< lane by lane, then of all parts so far
  std::vector<std::uint64_t> next_;
  std::size_t lanes_ = 1;
  std::uint64_t part_ = 0;  ///< elements of one; 0: all
  std::uint64_t element_ = 0;
  bool in_reduction_ = false;
};

/// Evaluates the ops of a graph that its outputs need.
class GraphRun {
 public:
  GraphRun(const Graph& graph, const std::vector<Array>& inputs, const std::vector<Value>& symbols)
      : graph_(graph), inputs_(inputs), symbols_(symbols), computed_(graph.ops.size()), values_(graph.ops.size()) {}

  std::vector<Array> run() {
    check_symbols();
    check_conditions();
    bind_inputs();
    const std::vector<bool> needed = needed_ops();
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      if (needed[k] && values_[k] == nullptr) compute_op(k);
    }
    if (fault_) {
      const std::string where = fault_->where.empty() ? "" : "  note: where " + fault_->where + "\n";
      throw InputError(fault_message(fault_->site, std::to_string(fault_->value)) + where);
    }
    std::vector<Array> results;
    for (const Output& output : graph_.outputs)
      results.push_back(*values_[static_cast<std::size_t>(output.value.index)]);
    return results;
  }

 private:
  void check_symbols() const {
    CORRLOOM_CHECK(symbols_.size() == graph_.symbols.size(), "the graph has ", graph_.symbols.size(), " symbols, not ",
                   symbols_.size());
    for (std::size_t k = 0; k < symbols_.size(); ++k)
      CORRLOOM_CHECK(symbols_[k].dtype == graph_.symbols[k].dtype, "symbol ", graph_.symbols[k].name, " is of ",
                     name_of(graph_.symbols[k].dtype), ", its value of ", name_of(symbols_[k].dtype));
  }

  Value evaluate_symbols(const Expr& expr) const {
    return scalar::evaluate(expr, {.axis = {},
                                   .symbol = [&](SymbolId id) { return symbols_[static_cast<std::size_t>(id.index)]; },
                                   .accumulator = {},
                                   .read = {}});
  }

  void check_conditions() const {
    for (const Condition& condition : graph_.conditions) {
      if (evaluate_symbols(condition.holds).as_bool()) continue;
      std::string message = at(condition.span) + condition.title, shown;
      for (const auto& [name, value] : condition.shown)
        shown += (shown.empty() ? "" : ", ") + name + " = " + to_text(evaluate_symbols(value));
      if (!shown.empty()) message += "\n  where " + shown;
      throw InputError(message);
    }
  }

  /// The extents of an op, checked.
  std::vector<std::int64_t> extents_of(const Op& op) const {
    std::vector<std::int64_t> extents;
    for (std::size_t k = 0; k < op.extents.size(); ++k) {
      const std::optional<Value> extent = checked_value(op.extents[k], symbols_);
      if (!extent)
        throw InputError(at(op.span) + "extent " + std::to_string(k) + " of `" + op.name + "` overflows 64 bits");
      if (extent->as_i64() < 0)
        throw InputError(at(op.span) + "extent " + std::to_string(k) + " of `" + op.name +
                         "` is negative: " + std::to_string(extent->as_i64()));
      extents.push_back(extent->as_i64());
    }
    if (!element_count(extents))
      throw InputError(at(op.span) + "`" + op.name + "` of shape " + shape_text(extents) + " has too many elements");
    return extents;
  }

  void bind_inputs() {
    if (inputs_.size() != graph_.inputs.size())
      throw InputError("`" + graph_.name + "` takes " + std::to_string(graph_.inputs.size()) + " tensors, not " +
                       std::to_string(inputs_.size()));
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const Op& op = graph_.op(graph_.inputs[k]);
      const Array& array = inputs_[k];
      const std::vector<std::int64_t> wanted = extents_of(op);
      if (array.dtype != op.dtype || array.extents != wanted)
        throw InputError(at(op.span) + "`" + op.name + "` has to be " + std::string(name_of(op.dtype)) +
                         shape_text(wanted) + ", not " + std::string(name_of(array.dtype)) + shape_text(array.extents));
      CORRLOOM_CHECK(static_cast<std::int64_t>(array.bits.size()) == array.count(), "array of ", op.name, " has ",
                     array.bits.size(), " values");
      values_[static_cast<std::size_t>(graph_.inputs[k].index)] = &array;
    }
  }

  /// Ops from which some output is computed: what no result needs is not evaluated, so it cannot fail.
  std::vector<bool> needed_ops() const {
    std::vector<bool> needed(graph_.ops.size());
    const auto need = [&](TensorId id) { needed[static_cast<std::size_t>(id.index)] = true; };
    for (const Output& output : graph_.outputs) need(output.value);
    for (std::size_t k = graph_.ops.size(); k-- > 0;) {
      if (!needed[k]) continue;
      const Op& op = graph_.ops[k];
      if (const auto* view = std::get_if<View>(&op.kind)) need(view->source);
      if (const auto* reshape = std::get_if<Reshape>(&op.kind)) need(reshape->source);
      for_each_expr(op, [&](const Expr& expr) {
        scalar::for_each_node(expr, [&](const Expr& node) {
          if (const scalar::Read* read = scalar::as_read(node)) need(read->source);
        });
      });
    }
    return needed;
  }

  void compute_op(std::size_t at_op) {
    const Op& op = graph_.ops[at_op];
    Array& result = computed_[at_op];
    result.dtype = op.dtype;
    result.extents = extents_of(op);
    result.bits.resize(static_cast<std::size_t>(*element_count(result.extents)));
    match(
        op.kind, [](const Input&) { CORRLOOM_CHECK(false, "an input without a value"); },
        [&](const Literal& literal) {
          for (std::size_t k = 0; k < result.bits.size(); ++k) result.bits[k] = literal.values[k].bits;
        },
        [&](const Compute& compute) { OpRun(graph_, op, symbols_, values_, fault_).run(compute, result); },
        [&](const View& view) { OpRun(graph_, op, symbols_, values_, fault_).run(view, result); },
        [&](const Reshape& reshape) {
          const Array& source = *values_[static_cast<std::size_t>(reshape.source.index)];
          if (source.bits.size() != result.bits.size())
            throw InputError(at(op.span) + "a reshape from " + shape_text(source.extents) + " to " +
                             shape_text(result.extents) + " changes the number of elements");
          result.bits = source.bits;
        });
    values_[at_op] = &result;
  }

  const Graph& graph_;
  const std::vector<Array>& inputs_;
  const std::vector<Value>& symbols_;
  std::optional<Fault> fault_;
  std::vector<Array> computed_;
  std::vector<const Array*> values_;  ///< by op: an input's array or a computed one
};

}  // namespace

std::int64_t Array::count() const {
  const std::optional<std::int64_t> count = element_count(extents);
  CORRLOOM_CHECK(count.has_value(), "an array of shape ", shape_text(extents), " has too many elements");
  return *count;
}

std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs, const std::vector<Value>& symbols) {
  const std::vector<Violation> violations = verify(graph);
  CORRLOOM_CHECK(violations.empty(), "the graph breaks rule ", violations[0].rule, " at ", violations[0].op, ": ",
                 violations[0].message);
  return GraphRun(graph, inputs, symbols).run();
}

}  // namespace corrloom::tensor
