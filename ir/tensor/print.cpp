#include <string>
#include <unordered_map>
#include <vector>

#include "ir/base/ir_lexer.h"
#include "ir/base/ir_names.h"
#include "ir/base/match.h"
#include "ir/tensor/text.h"

namespace corrloom::tensor {
namespace {

/// `parts` with ", " between them.
std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

/// What a reference to nothing prints as: no name, so the parser refuses it.
std::string unknown(std::int32_t index) {
  return "?" + std::to_string(index);
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) { name_all(); }

  std::string run() {
    out_ += header() + " {\n";
    for (const Condition& condition : graph_.conditions) print_condition(condition);
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      if (!in_header_[k]) print_op(k);
    }
    return out_ + "}\n";
  }

 private:
  /// Symbols first, then tensors in the order of the text, so that names come out the same when the text is read and
  /// printed again.
  void name_all() {
    for (const Symbol& symbol : graph_.symbols) symbol_names_.push_back(words_.make_unique(symbol.name));
    tensor_names_.resize(graph_.ops.size());
    in_header_.resize(graph_.ops.size());
    for (const TensorId input : graph_.inputs) {
      if (!is_op(input)) continue;
      const auto at = static_cast<std::size_t>(input.index);
      if (std::holds_alternative<Input>(graph_.ops[at].kind) && !in_header_[at]) name_tensor(at);
      in_header_[at] = std::holds_alternative<Input>(graph_.ops[at].kind);
    }
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      if (!in_header_[k]) name_tensor(k);
    }
  }

  void name_tensor(std::size_t at) { tensor_names_[at] = tensors_.make_unique(graph_.ops[at].name); }

  bool is_op(TensorId id) const { return id.index >= 0 && static_cast<std::size_t>(id.index) < graph_.ops.size(); }

  std::string tensor(TensorId id) const {
    return "%" + (is_op(id) ? tensor_names_[static_cast<std::size_t>(id.index)] : unknown(id.index));
  }

  std::string text(const Expr& expr) const {
    if (!expr) return unknown(-1);
    return scalar::to_text(
        expr, {.axis =
                   [&](AxisId id) {
                     const auto found = axis_names_.find(id);
                     return found == axis_names_.end() ? unknown(id.index) : found->second;
                   },
               .symbol =
                   [&](SymbolId id) {
                     const bool known = id.index >= 0 && static_cast<std::size_t>(id.index) < symbol_names_.size();
                     return known ? symbol_names_[static_cast<std::size_t>(id.index)] : unknown(id.index);
                   },
               .tensor = [&](TensorId id) { return tensor(id); },
               .accumulator =
                   [&](int index, bool other) {
                     const bool known = index >= 0 && static_cast<std::size_t>(index) < accumulator_names_.size();
                     return "%" + (known ? accumulator_names_[static_cast<std::size_t>(index)] : unknown(index)) +
                            (other ? ".other" : "");
                   }});
  }

  /// A size: an i64 constant stands without its dtype.
  std::string size(const Expr& expr) const {
    const auto constant = expr ? scalar::as_i64(expr) : std::nullopt;
    return constant ? std::to_string(*constant) : text(expr);
  }

  std::string type(const Op& op) const {
    std::vector<std::string> extents;
    for (const Expr& extent : op.extents) extents.push_back(size(extent));
    return std::string(name_of(op.dtype)) + "[" + joined(extents) + "]";
  }

  std::string header() const {
    std::vector<std::string> inputs, outputs, symbols;
    for (const TensorId id : graph_.inputs) {
      if (!is_op(id)) {
        inputs.push_back(tensor(id));
        continue;
      }
      const Op& op = graph_.op(id);
      const auto* input = std::get_if<Input>(&op.kind);
      inputs.push_back((input != nullptr && input->parameter ? "param " : "") + tensor(id) + ": " + type(op));
    }
    for (const Output& output : graph_.outputs) outputs.push_back(output_text(output));
    for (std::size_t k = 0; k < graph_.symbols.size(); ++k) symbols.push_back(symbol_text(k));
    std::string out = "graph @" + as_ir_name(graph_.name) + "(" + joined(inputs) + ") -> (" + joined(outputs) + ")";
    if (!symbols.empty()) out += " symbols [" + joined(symbols) + "]";
    return out;
  }

  /// `%Y`, or `Y = %T` for a result under another name than its value's.
  std::string output_text(const Output& output) const {
    const std::string name = as_ir_name(output.name), value = tensor(output.value);
    std::string out = "%" + name == value ? value : name + " = " + value;
    if (output.storage_of) out += " in " + tensor(output.storage_of);
    return out;
  }

  std::string symbol_text(std::size_t at) const {
    const Symbol& symbol = graph_.symbols[at];
    const bool dimension = symbol.kind == Symbol::Kind::Dimension;
    if (dimension && symbol.dtype == DType::I64) return symbol_names_[at];
    return symbol_names_[at] + ": " + std::string(name_of(symbol.dtype)) + (dimension ? " dimension" : "");
  }

  void print_condition(const Condition& condition) {
    out_ += "  require " + text(condition.holds) + " " + quote_ir(condition.title);
    std::vector<std::string> shown;
    for (const auto& [name, value] : condition.shown) shown.push_back(quote_ir(name) + " = " + text(value));
    if (!shown.empty()) out_ += " showing " + joined(shown);
    out_ += "\n";
  }

  void print_op(std::size_t at) {
    const Op& op = graph_.ops[at];
    out_ += "  %" + tensor_names_[at] + ": " + type(op) + " = ";
    match(
        op.kind, [&](const Input& input) { out_ += input.parameter ? "param\n" : "input\n"; },
        [&](const Literal& literal) { print_literal(literal, op.dtype); },
        [&](const Compute& compute) { print_compute(compute); }, [&](const View& view) { print_view(view); },
        [&](const Reshape& reshape) { out_ += "reshape " + tensor(reshape.source) + "\n"; });
    axis_names_.clear();
    accumulator_names_.clear();
  }

  void print_literal(const Literal& literal, DType dtype) {
    std::vector<std::string> values;
    for (const scalar::Value& value : literal.values) {
      const bool suits = value.dtype == dtype;
      values.push_back(to_text(value) + (suits ? "" : ":" + std::string(name_of(value.dtype))));
    }
    out_ += "literal [" + joined(values) + "]\n";
  }

  /// The list of axes; each is in scope from there on.
  std::string axes_text(const std::vector<Axis>& axes, IrNames& taken) {
    std::vector<std::string> parts;
    for (const Axis& axis : axes) {
      const std::string name = taken.make_unique(axis.name);
      const std::string extent = size(axis.extent);
      parts.push_back(name + ": " + extent + (axis.origin ? " from " + size(axis.origin) : ""));
      axis_names_[axis.id] = name;
    }
    return "[" + joined(parts) + "]";
  }

  void print_view(const View& view) {
    IrNames taken = words_;
    out_ += "view " + axes_text(view.axes, taken);
    std::vector<std::string> index;
    for (const Expr& subscript : view.index) index.push_back(text(subscript));
    out_ += " " + tensor(view.source) + "[" + joined(index) + "]\n";
  }

  static std::string numerics_text(const Numerics& numerics) {
    if (numerics == Numerics{}) return {};
    std::string out = " with";
    if (numerics.order == Numerics::OrderMode::Strict) out += " strict";
    if (numerics.order == Numerics::OrderMode::Any) out += " any";
    return numerics.fast_math ? out + " fast" : out;
  }

  static std::string kind_text(const Order& order) {
    switch (order.kind) {
      case Order::Kind::Ascending:
        return "ascending";
      case Order::Kind::Lanes:
        return "lanes(" + std::to_string(order.lanes) + ")";
      case Order::Kind::Any:
        return "any";
    }
    return "?";
  }

  static std::string order_text(const Order& order) {
    return kind_text(order) + (order.part == 0 ? "" : " parts(" + std::to_string(order.part) + ")");
  }

  void print_compute(const Compute& compute) {
    IrNames taken = words_;
    out_ += "compute " + axes_text(compute.axes, taken) + numerics_text(compute.numerics);
    if (compute.reduction) {
      const Reduction& reduction = *compute.reduction;
      out_ += " reduce " + axes_text(reduction.axes, taken) + " " + order_text(reduction.order);
    }
    out_ += " {\n";
    if (compute.reduction) print_accumulators(*compute.reduction);
    out_ += "    yield " + text(compute.body) + "\n  }\n";
  }

  void print_accumulators(const Reduction& reduction) {
    IrNames taken = tensors_;
    for (const Accumulator& accumulator : reduction.accumulators)
      accumulator_names_.push_back(taken.make_unique(accumulator.name));
    for (std::size_t k = 0; k < reduction.accumulators.size(); ++k) {
      const Accumulator& accumulator = reduction.accumulators[k];
      out_ += "    acc %" + accumulator_names_[k] + ": " + std::string(name_of(accumulator.dtype)) + " = " +
              text(accumulator.init) + " step " + text(accumulator.step) + " merge " + text(accumulator.merge) + "\n";
    }
  }

  const Graph& graph_;
  IrNames words_ = IrNames::with_reserved_words();  ///< taken by bare names: symbols, and an op's axes in a copy
  IrNames tensors_;                                 ///< taken by `%` names
  std::vector<std::string> symbol_names_;
  std::vector<std::string> tensor_names_;
  std::vector<bool> in_header_;
  std::unordered_map<AxisId, std::string> axis_names_;  ///< of the op being printed
  std::vector<std::string> accumulator_names_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph) {
  return Printer(graph).run();
}

}  // namespace corrloom::tensor
