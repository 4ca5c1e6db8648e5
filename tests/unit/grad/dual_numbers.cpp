#include "dual_numbers.h"

#include <cmath>
#include <stdexcept>
#include <unordered_map>

#include "ir/base/match.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::testing {
namespace {

using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using scalar::Value;

struct Dual {
  Value value;
  double rate = 0;
};

/// The rate of an operation from those of its operands.
double rate_of(Opcode opcode, const std::vector<Dual>& args, const Value& result) {
  const auto x = [&](std::size_t k) { return args[k].value.as_f64(); };
  const auto dx = [&](std::size_t k) { return args[k].rate; };
  const double y = result.as_f64();
  const std::string_view name = scalar::info(opcode).text;
  if (name == "neg") return -dx(0);
  if (name == "add") return dx(0) + dx(1);
  if (name == "sub") return dx(0) - dx(1);
  if (name == "mul") return dx(0) * x(1) + x(0) * dx(1);
  if (name == "div") return (dx(0) - y * dx(1)) / x(1);
  if (name == "fma") return dx(0) * x(1) + x(0) * dx(1) + dx(2);
  if (name == "cast" || name == "fence") return is_float(args[0].value.dtype) ? dx(0) : 0;
  if (name == "abs") return x(0) > 0 ? dx(0) : x(0) < 0 ? -dx(0) : 0;
  if (name == "min") return x(0) <= x(1) ? dx(0) : dx(1);
  if (name == "max") return x(0) >= x(1) ? dx(0) : dx(1);
  if (name == "sqrt") return dx(0) / (2 * y);
  if (name == "exp") return dx(0) * y;
  if (name == "log") return dx(0) / x(0);
  if (name == "tanh") return dx(0) / (std::cosh(x(0)) * std::cosh(x(0)));
  if (name == "erf") return dx(0) * 2 / std::sqrt(std::acos(-1.0)) * std::exp(-x(0) * x(0));
  if (name == "sign" || name == "floor" || name == "ceil" || name == "round" || name == "trunc") return 0;
  throw std::runtime_error("no rate of " + std::string(name));
}

class Interpreter {
 public:
  Interpreter(const tensor::Graph& graph, const std::vector<Value>& symbols) : graph_(graph), symbols_(symbols) {}

  std::vector<DualArray> run(const std::vector<DualArray>& inputs) {
    arrays_.resize(graph_.ops.size());
    for (std::size_t k = 0; k < inputs.size(); ++k)
      arrays_[static_cast<std::size_t>(graph_.inputs[k].index)] = inputs[k];
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) compute(k);
    std::vector<DualArray> results;
    for (const tensor::Output& output : graph_.outputs)
      results.push_back(arrays_[static_cast<std::size_t>(output.value.index)]);
    return results;
  }

 private:
  void compute(std::size_t at) {
    const tensor::Op& op = graph_.ops[at];
    if (std::holds_alternative<tensor::Input>(op.kind)) return;
    DualArray out;
    out.value.dtype = op.dtype;
    for (const Expr& extent : op.extents) out.value.extents.push_back(evaluate(extent).value.as_i64());
    match(
        op.kind, [](const tensor::Input&) {},
        [&](const tensor::Literal& literal) {
          for (const Value& value : literal.values) push(out, {value});
        },
        [&](const tensor::Reshape& reshape) {
          const DualArray& source = arrays_[static_cast<std::size_t>(reshape.source.index)];
          out.value.bits = source.value.bits;
          out.rate = source.rate;
        },
        [&](const tensor::View& view) {
          loop(view.axes, 0, [&] { push(out, evaluate(scalar::read({view.source, view.index}, op.dtype))); });
        },
        [&](const tensor::Compute& compute) {
          loop(compute.axes, 0, [&] {
            if (compute.reduction) reduce(*compute.reduction);
            push(out, evaluate(compute.body));
          });
        });
    arrays_[at] = std::move(out);
  }

  static void push(DualArray& array, const Dual& element) {
    array.value.bits.push_back(element.value.bits);
    array.rate.push_back(is_float(array.value.dtype) ? element.rate : 0);
  }

  template <class Body>
  void loop(const std::vector<tensor::Axis>& axes, std::size_t depth, const Body& body) {
    if (depth == axes.size()) return body();
    const std::int64_t extent = evaluate(axes[depth].extent).value.as_i64();
    for (std::int64_t k = 0; k < extent; ++k) {
      axes_[axes[depth].id] = k;
      loop(axes, depth + 1, body);
    }
  }

  void reduce(const tensor::Reduction& reduction) {
    accumulators_.clear();
    std::vector<Dual> current;
    for (const tensor::Accumulator& one : reduction.accumulators) current.push_back(evaluate(one.init));
    accumulators_ = current;
    loop(reduction.axes, 0, [&] {
      for (std::size_t k = 0; k < current.size(); ++k) current[k] = evaluate(reduction.accumulators[k].step);
      accumulators_ = current;
    });
  }

  Dual evaluate(const Expr& expr) {
    return match(
        expr->kind, [](const scalar::Constant& constant) { return Dual{constant.value}; },
        [&](const scalar::AxisRef& axis) { return Dual{Value::i64(axes_.at(axis.axis))}; },
        [&](const scalar::SymbolRef& symbol) { return Dual{symbols_[static_cast<std::size_t>(symbol.symbol.index)]}; },
        [&](const scalar::AccRef& accumulator) { return accumulators_[static_cast<std::size_t>(accumulator.index)]; },
        [&](const scalar::Read& read) { return evaluate_read(read); },
        [&](const scalar::Apply& apply) { return evaluate_apply(apply, expr->dtype); });
  }

  Dual evaluate_apply(const scalar::Apply& apply, DType dtype) {
    const bool chooses = apply.opcode == Opcode::If || apply.opcode == Opcode::Select;
    if (chooses) return evaluate(apply.args[evaluate(apply.args[0]).value.as_bool() ? 1 : 2]);
    if (apply.opcode == Opcode::LazyAnd || apply.opcode == Opcode::LazyOr) {
      const Dual left = evaluate(apply.args[0]);
      return left.value.as_bool() == (apply.opcode == Opcode::LazyOr) ? left : evaluate(apply.args[1]);
    }
    std::vector<Dual> args;
    std::vector<Value> values;
    for (const Expr& arg : apply.args) {
      args.push_back(evaluate(arg));
      values.push_back(args.back().value);
    }
    Dual result{scalar::evaluate(apply.opcode, values, dtype)};
    if (is_float(dtype)) result.rate = rate_of(apply.opcode, args, result.value);
    return result;
  }

  static std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return ((a % b) + b) % b; }

  Dual evaluate_read(const scalar::Read& read) {
    const DualArray& source = arrays_[static_cast<std::size_t>(read.source.index)];
    std::int64_t linear = 0;
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      const std::int64_t extent = source.value.extents[k];
      std::int64_t index = evaluate(read.index[k]).value.as_i64();
      switch (read.pad) {
        case scalar::PadMode::None:
          if (index < 0 || index >= extent) throw std::runtime_error("a read leaves its tensor");
          break;
        case scalar::PadMode::Value:
          if (index < 0 || index >= extent) return evaluate(read.pad_value);
          break;
        case scalar::PadMode::Edge:
          index = std::max<std::int64_t>(0, std::min(index, extent - 1));
          break;
        case scalar::PadMode::Wrap:
          index = floor_mod(index, extent);
          break;
        case scalar::PadMode::Reflect: {
          const std::int64_t period = std::max<std::int64_t>(1, 2 * (extent - 1));
          index = floor_mod(index, period);
          index = index < extent ? index : period - index;
          break;
        }
      }
      linear = linear * extent + index;
    }
    return {source.value.at(linear), source.rate[static_cast<std::size_t>(linear)]};
  }

  const tensor::Graph& graph_;
  const std::vector<Value>& symbols_;
  std::vector<DualArray> arrays_;
  std::unordered_map<AxisId, std::int64_t> axes_;
  std::vector<Dual> accumulators_;
};

}  // namespace

std::vector<DualArray> interpret_dual(const tensor::Graph& graph, const std::vector<DualArray>& inputs,
                                      const std::vector<scalar::Value>& symbols) {
  return Interpreter(graph, symbols).run(inputs);
}

}  // namespace corrloom::testing
