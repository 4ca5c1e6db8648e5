#include "compiler/passes/operations.h"

#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"

namespace corrloom::passes {
namespace {

/// Whether an operation computes nothing: it takes a value over, perhaps in another form.
bool moves_only(scalar::Opcode opcode) {
  return opcode == scalar::Opcode::Cast || opcode == scalar::Opcode::Bitcast || opcode == scalar::Opcode::If;
}

/// Counts the operations of one expression over points of some axes. Nodes are shared: each counts once.
class Counter {
 public:
  explicit Counter(std::vector<tensor::Axis> axes) : axes_(std::move(axes)) {
    for (const tensor::Axis& axis : axes_) all_.insert(axis.id);
  }

  Operations run(const scalar::Expr& root) {
    const std::set<const scalar::Node*> counted = outside_subscripts(root);
    scalar::for_each_node(root, [&](const scalar::Expr& node) {
      Source source;
      for (const scalar::Expr& child : scalar::children(node)) {
        const Source& part = sources_.at(child.get());
        source.elements |= part.elements;
        source.axes.insert(part.axes.begin(), part.axes.end());
      }
      if (const auto* axis = std::get_if<scalar::AxisRef>(&node->kind)) source.axes.insert(axis->axis);
      source.elements |= scalar::as_read(node) != nullptr;
      if (std::holds_alternative<scalar::AccRef>(node->kind)) source = {true, all_};
      const auto* apply = std::get_if<scalar::Apply>(&node->kind);
      if (apply != nullptr && counted.contains(node.get())) count(*apply, node->dtype, source);
      sources_.emplace(node.get(), std::move(source));
    });
    return total_;
  }

 private:
  /// What an expression depends on.
  struct Source {
    bool elements = false;
    std::set<scalar::AxisId> axes = {};
  };

  static std::set<const scalar::Node*> outside_subscripts(const scalar::Expr& root) {
    std::vector<const scalar::Node*> open = {root.get()};
    std::set<const scalar::Node*> seen = {root.get()};
    while (!open.empty()) {
      const scalar::Node* const node = open.back();
      const auto* apply = std::get_if<scalar::Apply>(&node->kind);
      open.pop_back();
      // What joins halves to words is no operation of the op.
      if (apply == nullptr || (apply->opcode == scalar::Opcode::Dot && is_float(node->dtype))) continue;
      for (const scalar::Expr& arg : apply->args) {
        if (seen.insert(arg.get()).second) open.push_back(arg.get());
      }
    }
    return seen;
  }

  double points(const std::set<scalar::AxisId>& wanted) const {
    double points = 1;
    for (const tensor::Axis& axis : axes_) {
      if (wanted.contains(axis.id)) points *= static_cast<double>(elements_of(axis.extent));
    }
    return points;
  }

  /// Of an extent that is the rest of a size where that is less than a constant, the constant.
  static std::int64_t elements_of(const scalar::Expr& extent) {
    if (const scalar::Apply* least = scalar::as_apply(extent, scalar::Opcode::Min)) {
      for (const scalar::Expr& arg : least->args) {
        if (const std::optional<std::int64_t> most = scalar::as_i64(arg)) return *most;
      }
    }
    return scalar::as_i64(extent).value_or(1);
  }

  void count(const scalar::Apply& apply, DType dtype, const Source& source) {
    if (moves_only(apply.opcode)) return;
    // Four products of bytes, or two of bf16, and as many sums.
    const bool is_dot = apply.opcode == scalar::Opcode::Dot;
    const double products = is_dot ? (is_float(dtype) ? 2 : 4) : apply.opcode == scalar::Opcode::Mul ? 1 : 0;
    total_.uses_dots |= is_dot;
    if (is_float(dtype)) {
      total_.flops += points(all_) * (is_dot ? 2 * products : apply.opcode == scalar::Opcode::Fma ? 2 : 1);
      if (apply.opcode == scalar::Opcode::Div && !std::holds_alternative<scalar::Constant>(apply.args[1]->kind))
        total_.divisions += points(source.axes);
      if (apply.opcode == scalar::Opcode::Sqrt) total_.roots += points(source.axes);
    } else if (is_integer(dtype) && (dtype != DType::I64 || source.elements)) {
      total_.integer_ops += points(all_) * (is_dot ? 2 * products : 1);
      total_.integer_products += points(all_) * products;
    }
  }

  const std::vector<tensor::Axis> axes_;
  std::set<scalar::AxisId> all_;
  std::unordered_map<const scalar::Node*, Source> sources_;
  Operations total_;
};

}  // namespace

void Operations::add(double times, const Operations& other) {
  flops += times * other.flops;
  integer_ops += times * other.integer_ops;
  integer_products += times * other.integer_products;
  divisions += times * other.divisions;
  roots += times * other.roots;
  uses_dots |= other.uses_dots;
}

Operations operations_of(const tensor::Op& op) {
  const auto& compute = std::get<tensor::Compute>(op.kind);
  Operations total = Counter(compute.axes).run(compute.body);
  if (!compute.reduction) return total;
  for (const tensor::Accumulator& accumulator : compute.reduction->accumulators)
    total.add(1, Counter(bound_axes(op)).run(accumulator.step));
  return total;
}

}  // namespace corrloom::passes
