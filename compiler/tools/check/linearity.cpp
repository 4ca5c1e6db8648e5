#include "compiler/tools/check/linearity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/passes/readers.h"

namespace corrloom::tools {
namespace {

using scalar::Apply;
using scalar::Opcode;
using tensor::Expr;
using Kind = Dependence::Kind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Of values that need not be a multiple of anything.
constexpr int kNoGrid = -100000;

double largest_of(DType dtype) {
  return dtype == DType::F16 ? 65504 : dtype == DType::F64 ? std::numeric_limits<double>::max() : 3.3e38;
}

/// The exponent of the lowest bit of a number.
int grid_of(double value) {
  if (value == 0 || !std::isfinite(value)) return value == 0 ? 0 : kNoGrid;
  int exponent = 0;
  auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  while (mantissa % 2 == 0) {
    mantissa /= 2;
    ++exponent;
  }
  return exponent;
}

Dependence constant_of(double value) {
  // A NaN may be anything, as what it is put into becomes one.
  if (std::isnan(value)) return {Kind::Constant, kInfinity, 0, kNoGrid, 0};
  return {Kind::Constant, std::fabs(value), std::fabs(value), grid_of(value), 0};
}

/// What is known of constant elements.
Dependence constant_of(const tensor::Array& array) {
  Dependence all{Kind::Constant, 0, array.count() == 0 ? 0 : kInfinity, 0, 0};
  for (std::int64_t k = 0; k < array.count(); ++k) {
    const Dependence one = constant_of(array.at(k).as_f64());
    all.magnitude = std::max(all.magnitude, one.magnitude);
    all.least = std::min(all.least, one.least);
    all.grid = std::min(all.grid, one.grid);
  }
  return all;
}

/// Takes in the rounding of a result to its dtype.
Dependence rounded(Dependence value, DType dtype) {
  if (!is_float(dtype) || value.kind == Kind::Other) return value;
  if (value.magnitude + value.error > largest_of(dtype)) value.magnitude = kInfinity;
  const int digits = significand_bits(dtype);
  const bool is_exact = value.grid > kNoGrid / 2 && value.magnitude <= std::ldexp(1.0, digits + value.grid);
  if (value.kind != Kind::Constant && !is_exact)
    value.error += std::ldexp(value.magnitude + value.error, -digits) + std::numeric_limits<float>::denorm_min();
  return value;
}

Kind kind_of_sum(const Dependence& a, const Dependence& b) {
  if (a.kind == Kind::Other || b.kind == Kind::Other) return Kind::Other;
  if (a.kind == b.kind || b.is_zero()) return a.kind;
  return a.is_zero() ? b.kind : Kind::Affine;
}

Dependence sum_of(const Dependence& a, const Dependence& b) {
  return {kind_of_sum(a, b), a.magnitude + b.magnitude, 0, std::min(a.grid, b.grid), a.error + b.error};
}

Dependence product_of(const Dependence& a, const Dependence& b) {
  const bool is_finite = a.magnitude < kInfinity && b.magnitude < kInfinity;
  if ((a.is_zero() || b.is_zero()) && is_finite) return {};
  const bool is_product = a.kind == Kind::Constant || b.kind == Kind::Constant;
  const Kind kind = !is_product ? Kind::Other : a.kind == Kind::Constant ? b.kind : a.kind;
  if (!is_finite) return {kind, kInfinity, 0, kNoGrid, kInfinity};
  return {kind, a.magnitude * b.magnitude, a.least * b.least, std::max(a.grid + b.grid, kNoGrid),
          a.error * b.magnitude + b.error * a.magnitude};
}

Dependence quotient_of(const Dependence& a, const Dependence& b) {
  if (b.kind != Kind::Constant) return {Kind::Other};
  const bool is_shift = b.magnitude == b.least && b.magnitude == std::ldexp(1.0, b.grid);
  const bool is_bounded = b.least > 0 && b.least < kInfinity && a.magnitude < kInfinity;
  return {a.kind, is_bounded ? a.magnitude / b.least : kInfinity, 0, is_shift ? a.grid - b.grid : kNoGrid,
          is_bounded ? a.error / b.least : kInfinity};
}

/// One of both.
Dependence either_of(const Dependence& a, const Dependence& b) {
  Dependence both = sum_of(a, b);
  both.magnitude = std::max(a.magnitude, b.magnitude);
  both.error = std::max(a.error, b.error);
  both.least = std::min(a.least, b.least);
  return both;
}

class Analysis {
 public:
  Analysis(const tensor::Graph& graph, tensor::TensorId input, double magnitude,
           const std::vector<tensor::Array>& values)
      : graph_(graph), input_(input), magnitude_(magnitude), values_(values) {}

  std::vector<Dependence> run() {
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      Dependence found = of_op(k);
      if (found.kind == Kind::Constant) found = constant_of(values_[k]);
      ops_.push_back(found);
    }
    std::vector<Dependence> outputs;
    for (const tensor::Output& output : graph_.outputs) outputs.push_back(of(output.value));
    return outputs;
  }

 private:
  using Known = std::map<const scalar::Node*, Dependence>;

  const Dependence& of(tensor::TensorId id) const { return ops_[static_cast<std::size_t>(id.index)]; }

  Dependence of_op(std::size_t number) {
    const tensor::Op& op = graph_.ops[number];
    if (static_cast<std::size_t>(input_.index) == number) return {Kind::Linear, magnitude_, 0, 0, 0};
    if (const auto* reshape = std::get_if<tensor::Reshape>(&op.kind)) return of(reshape->source);
    accumulators_.clear();
    ranges_ = passes::ranges_of(op);
    if (const auto* view = std::get_if<tensor::View>(&op.kind))
      return are_constant(view->index) ? of(view->source) : Dependence{Kind::Other};
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute == nullptr) return {};
    for (const tensor::Axis& axis : compute->axes) {
      if (of_expr(axis.extent).kind != Kind::Constant) return {Kind::Other};
    }
    if (compute->reduction && !take_reduction(*compute->reduction)) return {Kind::Other};
    return of_expr(compute->body);
  }

  bool are_constant(const std::vector<Expr>& exprs) {
    return std::all_of(exprs.begin(), exprs.end(),
                       [&](const Expr& expr) { return of_expr(expr).kind == Kind::Constant; });
  }

  /// Fills in the finished accumulators. False when how many elements there are depends on the input.
  bool take_reduction(const tensor::Reduction& reduction) {
    double count = 1;
    for (const tensor::Axis& axis : reduction.axes) {
      if (of_expr(axis.extent).kind != Kind::Constant) return false;
      const auto extent = affine::interval_of(axis.extent, ranges_);
      count *= extent ? std::max<double>(static_cast<double>(extent->high), 0) : kInfinity;
    }
    std::vector<Dependence> finished;
    for (std::size_t k = 0; k < reduction.accumulators.size(); ++k) {
      const tensor::Accumulator& accumulator = reduction.accumulators[k];
      finished.push_back(sum_over(count, accumulator, static_cast<int>(k)));
    }
    accumulators_ = std::move(finished);
    return true;
  }

  /// The element that a step adds to accumulator `number`; nothing when the step is no sum.
  std::optional<Dependence> added_by(const Expr& step, int number) {
    const auto is_accumulator = [&](const Expr& expr) {
      const auto* reference = std::get_if<scalar::AccRef>(&expr->kind);
      return reference != nullptr && reference->index == number;
    };
    if (const Apply* add = scalar::as_apply(step, Opcode::Add)) {
      if (is_accumulator(add->args[0])) return of_expr(add->args[1]);
      if (is_accumulator(add->args[1])) return of_expr(add->args[0]);
    }
    const Apply* fma = scalar::as_apply(step, Opcode::Fma);
    if (fma == nullptr || !is_accumulator(fma->args[2])) return std::nullopt;
    return product(*fma, of_expr(fma->args[0]), of_expr(fma->args[1]));
  }

  /// Of the first two operands. The machine's dot products of bf16 take denormals for zeros.
  static Dependence product(const Apply& apply, const Dependence& a, const Dependence& b) {
    Dependence value = product_of(a, b);
    const auto is_widened = [](const Expr& factor) {
      const Apply* cast = scalar::as_apply(factor, Opcode::Cast);
      return cast != nullptr && cast->args[0]->dtype == DType::BF16;
    };
    if (value.kind != Kind::Constant && is_widened(apply.args[0]) && is_widened(apply.args[1]))
      value.error += std::numeric_limits<float>::min() * (1 + a.magnitude + b.magnitude);
    return value;
  }

  Dependence sum_over(double count, const tensor::Accumulator& accumulator, int number) {
    accumulators_.assign(static_cast<std::size_t>(number) + 1, {Kind::Other});
    const Dependence first = of_expr(accumulator.init);
    const std::optional<Dependence> element = added_by(accumulator.step, number);
    if (!element) {
      // No sum is constant when no step sees the input.
      const Dependence constant{Kind::Constant, kInfinity, 0, kNoGrid, 0};
      accumulators_.assign(accumulators_.size(), constant);
      const bool is_constant = first.kind == Kind::Constant && of_expr(accumulator.step).kind == Kind::Constant;
      return is_constant ? constant : Dependence{Kind::Other};
    }
    Dependence all = sum_of(first, *element);
    all.magnitude = first.magnitude + (count == 0 ? 0 : count * element->magnitude);
    all.error = first.error + (count == 0 ? 0 : count * element->error);
    const double before = all.error;
    all = rounded(all, accumulator.dtype);
    // Every addition rounds.
    if (all.kind != Kind::Other && all.error > before) all.error = before + count * (all.error - before) * 1.01;
    return all;
  }

  Dependence of_expr(const Expr& expr) {
    Known known;
    scalar::for_each_node(expr, [&](const Expr& node) { known[node.get()] = of_node(node, known); });
    return known.at(expr.get());
  }

  Dependence of_node(const Expr& node, const Known& known) const {
    if (const auto* constant = std::get_if<scalar::Constant>(&node->kind)) return constant_of(constant->value.as_f64());
    if (const auto* accumulator = std::get_if<scalar::AccRef>(&node->kind)) {
      const auto number = static_cast<std::size_t>(accumulator->index);
      return number < accumulators_.size() ? accumulators_[number] : Dependence{Kind::Other};
    }
    if (const scalar::Read* read = scalar::as_read(node)) return of_read(*read, known);
    const auto* apply = std::get_if<Apply>(&node->kind);
    return apply == nullptr ? of_integer(node) : of_apply(node, *apply, known);
  }

  /// A constant integer of which intervals may know something.
  Dependence of_integer(const Expr& node) const {
    Dependence constant{Kind::Constant, kInfinity, 0, is_float(node->dtype) ? kNoGrid : 0, 0};
    if (is_float(node->dtype)) return constant;
    if (const auto bounds = affine::interval_of(node, ranges_))
      constant.magnitude =
          std::max(std::fabs(static_cast<double>(bounds->low)), std::fabs(static_cast<double>(bounds->high)));
    return constant;
  }

  Dependence of_read(const scalar::Read& read, const Known& known) const {
    for (const Expr& subscript : read.index) {
      if (known.at(subscript.get()).kind != Kind::Constant) return {Kind::Other};
    }
    const Dependence& source = of(read.source);
    return read.pad_value ? either_of(source, known.at(read.pad_value.get())) : source;
  }

  Dependence of_apply(const Expr& node, const Apply& apply, const Known& known) const {
    const auto operand = [&](std::size_t k) -> const Dependence& { return known.at(apply.args[k].get()); };
    const bool is_constant = std::all_of(apply.args.begin(), apply.args.end(),
                                         [&](const Expr& arg) { return known.at(arg.get()).kind == Kind::Constant; });
    switch (apply.opcode) {
      case Opcode::Add:
        return rounded(sum_of(operand(0), operand(1)), node->dtype);
      case Opcode::Sub:
        return difference(node, sum_of(operand(0), operand(1)));
      case Opcode::Neg:
        return difference(node, operand(0));
      case Opcode::Mul:
        return rounded(product(apply, operand(0), operand(1)), node->dtype);
      case Opcode::Fma:
        return rounded(sum_of(product(apply, operand(0), operand(1)), operand(2)), node->dtype);
      case Opcode::Div:
        return rounded(quotient_of(operand(0), operand(1)), node->dtype);
      case Opcode::If:
      case Opcode::Select:
        return operand(0).kind == Kind::Constant ? either_of(operand(1), operand(2)) : Dependence{Kind::Other};
      case Opcode::Fence:
        return operand(0);
      case Opcode::Cast:
        return cast(operand(0), apply.args[0]->dtype, node->dtype);
      default:
        return is_constant ? of_function(node, apply) : Dependence{Kind::Other};
    }
  }

  /// Unsigned numbers below 0 wrap, which only arithmetic in their own dtype does not notice.
  static Dependence difference(const Expr& node, Dependence value) {
    if (is_unsigned_integer(node->dtype) && value.kind != Kind::Constant) value.magnitude = kInfinity;
    return rounded(value, node->dtype);
  }

  static Dependence cast(Dependence value, DType from, DType to) {
    if (value.kind == Kind::Constant) return is_float(to) ? value : Dependence{Kind::Constant, value.magnitude, 0, 0};
    if (to == DType::Bool || (!is_float(to) && is_float(from))) return {Kind::Other};
    if (!is_float(from) && from != to) {
      const int bits = 8 * byte_size(from) - (is_unsigned_integer(from) ? 0 : 1);
      const bool narrows = !is_float(to) && byte_size(to) <= byte_size(from);
      if (!narrows && !(value.magnitude < std::ldexp(1.0, bits))) return {Kind::Other};
    }
    return rounded(value, to);
  }

  Dependence of_function(const Expr& node, const Apply& apply) const {
    if (apply.opcode == Opcode::Sin || apply.opcode == Opcode::Cos || apply.opcode == Opcode::Tanh ||
        apply.opcode == Opcode::Erf || apply.opcode == Opcode::Sigmoid)
      return {Kind::Constant, 1, 0, kNoGrid, 0};
    return of_integer(node);
  }

  const tensor::Graph& graph_;
  tensor::TensorId input_;
  double magnitude_;
  const std::vector<tensor::Array>& values_;
  std::vector<Dependence> ops_;
  std::vector<Dependence> accumulators_;
  affine::Ranges ranges_;
};

}  // namespace

std::vector<Dependence> dependences_on(const tensor::Graph& graph, tensor::TensorId input, double magnitude,
                                       const std::vector<tensor::Array>& values) {
  return Analysis(graph, input, magnitude, values).run();
}

}  // namespace corrloom::tools
