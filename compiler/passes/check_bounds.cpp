#include "compiler/passes/check_bounds.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "compiler/passes/read_paths.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/size_proofs.h"
#include "ir/affine/affine.h"
#include "ir/scalar/evaluate.h"
#include "ir/tensor/check_site.h"

namespace corrloom::passes {
namespace {

using affine::Domain;
using affine::Verdict;
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
using tensor::TensorId;

/// `first`, `second`, ... of a subscript.
std::string ordinal(std::size_t position) {
  static constexpr const char* kWords[] = {"first", "second", "third", "fourth", "fifth", "sixth"};
  if (position < std::size(kWords)) return kWords[position];
  return std::to_string(position + 1) + "th";
}

/// The points of axes. An extent that is not constant counts up to its bound, cut by a condition.
Domain domain_of(const std::vector<Axis>& axes, const affine::Ranges& ranges) {
  Domain domain;
  for (const Axis& axis : axes) {
    if (const auto extent = scalar::as_i64(axis.extent)) {
      domain.axes.push_back({axis.id, axis.name, *extent});
      continue;
    }
    const std::optional<affine::Interval> range = ranges(axis.id);
    domain.axes.push_back({axis.id, axis.name, range ? range->high + 1 : INT64_MAX});
    domain.conditions.push_back(scalar::apply(Opcode::Lt, {scalar::axis(axis.id), axis.extent}));
  }
  return domain;
}

/// Judges the reads of one op and reports those that leave their tensors.
class OpChecker {
 public:
  OpChecker(const Graph& graph, const Op& op, Diagnostics& diagnostics)
      : graph_(graph),
        op_(op),
        ranges_(ranges_of(op)),
        has_open_sizes_(has_dimensions(graph)),
        diagnostics_(diagnostics) {
    for (const Axis& axis : bound_axes(op)) axes_.emplace(axis.id, axis);
  }

  /// `expr` with the check of each of its reads settled, on all points of `axes`.
  Expr settle(const Expr& expr, const std::vector<Axis>& axes) {
    if (!reads_tensor(expr)) return expr;
    const auto extents = [&](TensorId id) -> const std::vector<Expr>& { return graph_.op(id).extents; };
    const std::optional<ReadPaths> paths = paths_to_reads(expr, extents);
    std::map<const scalar::Node*, ReadCheck> checks;
    scalar::for_each_node(expr, [&](const Expr& node) {
      const Read* read = scalar::as_read(node);
      if (read == nullptr) return;
      const std::vector<Path> ways = paths ? paths->at(node.get()) : std::vector<Path>{{}};
      checks[node.get()] = judge(*read, ways, domain_of(axes, ranges_), paths.has_value());
    });
    return with_checks(expr, checks);
  }

  /// Reports an argmax or argmin (told by its index, which starts above every index) whose range is empty somewhere.
  void check_range_of_argument(const Compute& compute) {
    const auto& accumulators = compute.reduction->accumulators;
    const bool picks =
        std::any_of(accumulators.begin(), accumulators.end(), [](const tensor::Accumulator& accumulator) {
          return scalar::is_constant_i64(accumulator.init, INT64_MAX) &&
                 scalar::as_apply(accumulator.step, Opcode::Select) != nullptr;
        });
    if (!picks) return;
    const Domain domain = domain_of(compute.axes, ranges_);
    for (const Axis& axis : compute.reduction->axes) {
      if (uses_open_size(axis.extent)) continue;
      const Expr last = scalar::apply(Opcode::Sub, {axis.extent, scalar::constant_i64(1)});
      const Verdict verdict = affine::stays_inside(last, INT64_MAX, domain);
      if (verdict.kind != Verdict::Kind::Outside) continue;
      Diagnostic& error =
          diagnostics_.report(Code::E0254, op_.span, "argmax and argmin need a range that is not empty");
      const std::string values = values_at(domain, verdict.point, axis.extent);
      error.note("the range of " + axis.name + " is empty" + (values.empty() ? "" : " at " + values));
      return;
    }
  }

  /// Reports a view that leaves its source.
  void check_view(const tensor::View& view) {
    Read read;
    read.source = view.source;
    read.index = view.index;
    read.span = op_.span;
    judge(read, {{}}, domain_of(view.axes, ranges_), true);
  }

 private:
  /// The expression with the checks of its reads replaced, each node by identity.
  static Expr with_checks(const Expr& expr, const std::map<const scalar::Node*, ReadCheck>& checks) {
    // `rewrite` hands out rebuilt nodes, so the originals are matched in the order that both walks share.
    std::vector<ReadCheck> in_order;
    scalar::for_each_node(expr, [&](const Expr& node) {
      if (scalar::as_read(node) != nullptr) in_order.push_back(checks.at(node.get()));
    });
    std::size_t next = 0;
    return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
      const Read* read = scalar::as_read(node);
      if (read == nullptr) return nullptr;
      Read settled = *read;
      settled.check = in_order[next++];
      return settled.check == read->check ? nullptr : scalar::read(std::move(settled), node->dtype);
    });
  }

  ReadCheck judge(const Read& read, const std::vector<Path>& ways, const Domain& domain, bool ways_are_complete) {
    if (read.check == ReadCheck::Proven || read.pad == PadMode::Value) return read.check;
    ReadCheck check = read.pad == PadMode::None ? ReadCheck::Proven : read.check;
    for (const Path& way : ways) {
      Domain points = domain;
      points.conditions.insert(points.conditions.end(), way.begin(), way.end());
      for (std::size_t k = 0; k < read.index.size(); ++k) {
        if (read.pad != PadMode::None) {
          require_elements(read, k, points);
          continue;
        }
        const ReadCheck one = judge_subscript(read, k, points, ways_are_complete);
        if (one != ReadCheck::Proven) check = one;
        if (one == ReadCheck::Unchecked) return one;
      }
    }
    return check;
  }

  /// Proven, Runtime, or Unchecked after a report.
  ReadCheck judge_subscript(const Read& read, std::size_t k, const Domain& domain, bool ways_are_complete) {
    const Expr& limit = graph_.op(read.source).extents[k];
    const std::optional<std::int64_t> extent = scalar::as_i64(limit);
    if (has_open_sizes_ && depends_on_sizes(read.index[k], limit, domain)) return judge_for_all_sizes(read, k, domain);
    if (!extent) return ReadCheck::Runtime;
    const Verdict verdict = affine::stays_inside(read.index[k], *extent, domain);
    if (verdict.kind == Verdict::Kind::Inside) return ReadCheck::Proven;
    if (depends_on_data(read.index[k], domain)) return ReadCheck::Runtime;
    if (verdict.kind == Verdict::Kind::Outside && ways_are_complete) {
      report_outside(read, k, *extent, domain, verdict);
    } else {
      report_undecided(read, k, *extent);
    }
    return ReadCheck::Unchecked;
  }

  /// Where dimensions are symbols: what data decides is checked while the op runs unless it holds for all sizes. All
  /// else is judged at the entry of each call, where the sizes are known: then this pass sees the graph again, with
  /// them in place.
  ReadCheck judge_for_all_sizes(const Read& read, std::size_t k, const Domain& domain) {
    const Expr& limit = graph_.op(read.source).extents[k];
    if (size_proof_of(graph_, op_).stays_inside(read.index[k], limit)) return ReadCheck::Proven;
    if (depends_on_data(read.index[k], domain)) return ReadCheck::Runtime;
    return ReadCheck::Proven;
  }

  bool is_dimension(const scalar::Node& node) const {
    const auto* symbol = std::get_if<scalar::SymbolRef>(&node.kind);
    return symbol != nullptr &&
           graph_.symbols[static_cast<std::size_t>(symbol->symbol.index)].kind == tensor::Symbol::Kind::Dimension;
  }
  bool uses_open_size(const Expr& expr) const {
    bool uses = false;
    scalar::for_each_node(expr, [&](const Expr& node) { uses = uses || is_dimension(*node); });
    return uses;
  }
  bool depends_on_sizes(const Expr& index, const Expr& limit, const Domain& domain) const {
    return uses_open_size(index) || uses_open_size(limit) ||
           std::any_of(domain.conditions.begin(), domain.conditions.end(),
                       [&](const Expr& condition) { return uses_open_size(condition); });
  }

  /// A read that pads with an element inside needs one wherever it may be reached.
  void require_elements(const Read& read, std::size_t k, const Domain& domain) {
    if (!scalar::is_constant_i64(graph_.op(read.source).extents[k], 0)) return;
    const Verdict verdict = affine::stays_inside(scalar::constant_i64(0), 0, domain);
    if (verdict.kind == Verdict::Kind::Inside || !is_first_report_at(read.span, Code::E0252)) return;
    diagnostics_.report(Code::E0252, read.span, "`" + spelling(read) + "` pads with elements of a tensor that has none")
        .note("dimension " + std::to_string(k) + " of " + graph_.op(read.source).name + " has extent 0")
        .help("use `pad` with a value");
  }

  /// True when the subscript, or the points on which it is judged, follow from elements or symbols.
  bool depends_on_data(const Expr& index, const Domain& domain) const {
    const auto is_open = [&](const Expr& expr) {
      bool open = false;
      scalar::for_each_node(expr, [&](const Expr& node) {
        const bool is_symbol = std::holds_alternative<scalar::SymbolRef>(node->kind);
        open = open || scalar::as_read(node) != nullptr || (is_symbol && !is_dimension(*node));
      });
      return open;
    };
    return is_open(index) || std::any_of(domain.conditions.begin(), domain.conditions.end(), is_open);
  }

  std::string spelling(const Read& read) const { return tensor::spelling(graph_, read); }

  /// `i = 3, p = 2`: the values, in the user's numbering, of the axes that the expression uses.
  std::string values_at(const Domain& domain, const std::vector<std::int64_t>& point, const Expr& expr) const {
    scalar::Environment environment;
    environment.axis = [&](AxisId axis) {
      for (std::size_t i = 0; i < domain.axes.size(); ++i) {
        if (domain.axes[i].axis == axis) return scalar::Value::i64(point[i]);
      }
      return scalar::Value::i64(0);
    };
    std::string text;
    for (std::size_t i = 0; i < domain.axes.size() && i < point.size(); ++i) {
      const AxisId id = domain.axes[i].axis;
      if (!uses_axis(expr, [&](AxisId used) { return used == id; })) continue;
      std::int64_t value = point[i];
      const Expr& origin = axes_.at(id).origin;
      if (origin && !reads_tensor(origin)) value += scalar::evaluate(origin, environment).as_i64();
      text += (text.empty() ? "" : ", ") + domain.axes[i].name + " = " + std::to_string(value);
    }
    return text;
  }

  bool is_first_report_at(const Span& span, Code code) const {
    return !span ||
           std::none_of(diagnostics_.entries().begin(), diagnostics_.entries().end(), [&](const Diagnostic& old) {
             return old.code == code && old.span.file == span.file && old.span.begin == span.begin &&
                    old.span.end == span.end;
           });
  }

  std::string zero_of(const Read& read) const {
    const DType dtype = graph_.op(read.source).dtype;
    return dtype == DType::Bool ? "false" : is_float(dtype) ? "0.0" : "0";
  }

  void report_outside(const Read& read, std::size_t k, std::int64_t extent, const Domain& domain,
                      const Verdict& verdict) {
    if (!is_first_report_at(read.span, Code::E0252)) return;
    const std::string& tensor = graph_.op(read.source).name;
    Diagnostic& error =
        diagnostics_.report(Code::E0252, read.span, "`" + spelling(read) + "` reads outside of " + tensor);
    const std::string values = values_at(domain, verdict.point, read.index[k]);
    error.note((values.empty() ? "" : values + ": ") + "the " + ordinal(k) + " subscript is " +
               std::to_string(verdict.value) + ", but " + tensor + " has extent " + std::to_string(extent) + " there");
    if (verdict.always) error.note("every time that it is reached");
    error.help("write `" + spelling(read) + " pad " + zero_of(read) + "` to read " + zero_of(read) +
               " outside, or a `where` clause or range that keeps the subscript " +
               (verdict.value < 0 ? "at least 0" : "below " + std::to_string(extent)));
  }

  void report_undecided(const Read& read, std::size_t k, std::int64_t extent) {
    if (!is_first_report_at(read.span, Code::E0253)) return;
    const std::string& tensor = graph_.op(read.source).name;
    diagnostics_
        .report(Code::E0253, read.span, "cannot decide whether `" + spelling(read) + "` stays inside of " + tensor)
        .note("the " + ordinal(k) + " subscript has to be in 0.." + std::to_string(extent))
        .help("write `" + spelling(read) + " pad " + zero_of(read) +
              "`, or an `if` or `where` that bounds the subscript");
  }

  const Graph& graph_;
  const Op& op_;
  affine::Ranges ranges_;
  bool has_open_sizes_;
  std::map<AxisId, Axis> axes_;
  Diagnostics& diagnostics_;
};

void check_compute(OpChecker& checker, Compute& compute) {
  const std::vector<Axis> outer = compute.axes;
  compute.body = checker.settle(compute.body, outer);
  if (!compute.reduction) return;
  std::vector<Axis> all = outer;
  for (Axis& axis : compute.reduction->axes) {
    axis.extent = checker.settle(axis.extent, all);
    all.push_back(axis);
  }
  for (tensor::Accumulator& accumulator : compute.reduction->accumulators) {
    accumulator.init = checker.settle(accumulator.init, outer);
    accumulator.step = checker.settle(accumulator.step, all);
    accumulator.merge = checker.settle(accumulator.merge, outer);
  }
}

}  // namespace

Graph check_bounds(Graph graph, PassContext& ctx) {
  for (Op& op : graph.ops) {
    const Op before = op;
    OpChecker checker(graph, before, ctx.diagnostics);
    if (auto* compute = std::get_if<Compute>(&op.kind)) {
      check_compute(checker, *compute);
      if (compute->reduction) checker.check_range_of_argument(*compute);
    } else if (const auto* view = std::get_if<tensor::View>(&op.kind)) {
      checker.check_view(*view);
    }
  }
  return graph;
}

}  // namespace corrloom::passes
