#include "tests/unit/ir/tensor/random_graph.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace corrloom::testing {
namespace {

using scalar::Expr;
using scalar::Opcode;
using scalar::TensorId;
using tensor::Axis;
using tensor::Op;
using tensor::ReduceKind;

/// Steele, Lea, Flood 2014 (SplitMix64): the standard library's distributions differ between machines.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  /// A whole number from `low` to `high`, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(int count) { return between(1, count) == 1; }
  template <class Items>
  auto pick(const Items& items) {
    return items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(items)) - 1))];
  }

 private:
  std::uint64_t state_;
};

scalar::Value random_value(Random& random, DType dtype) {
  using Limits = std::numeric_limits<double>;
  if (dtype == DType::Bool) return scalar::Value::boolean(random.one_in(2));
  if (!is_float(dtype)) {
    if (random.one_in(16)) return {dtype, random.bits() >> (64 - bit_width(dtype))};
    return scalar::Value::integer(dtype, random.between(is_signed_integer(dtype) ? -4 : 0, 5));
  }
  const double specials[] = {-0.0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), 1e-40, 3e38};
  if (random.one_in(16)) return scalar::Value::floating(dtype, random.pick(specials));
  return scalar::Value::floating(dtype, static_cast<double>(random.between(-40, 40)) / (random.one_in(3) ? 7.0 : 8.0));
}

/// An index variable and the range that it runs over.
struct Variable {
  Axis axis;
  std::int64_t extent;
};

/// The extent of a variable whose range is made of data.
constexpr std::int64_t kOpen = -1;

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  RandomCase run() {
    result_.graph.name = "random";
    const std::int64_t inputs = random_.between(1, 3);
    for (std::int64_t k = 0; k < inputs; ++k) add_input();
    for (int k = 0; k < options_.ops; ++k) add_op();
    add_outputs();
    return std::move(result_);
  }

 private:
  tensor::Graph& graph() { return result_.graph; }

  // Shapes.

  std::vector<std::int64_t> random_extents() {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(random_.between(0, options_.max_rank)));
    for (std::int64_t& extent : extents) extent = random_.one_in(24) ? 0 : random_.between(1, options_.max_extent);
    return extents;
  }

  /// The expression of an extent: a constant, or a symbol with that value (an existing one as often as not).
  Expr extent_expr(std::int64_t extent, bool may_be_new) {
    if (!options_.symbolic) return scalar::constant_i64(extent);
    for (std::size_t k = 0; k < result_.symbols.size(); ++k) {
      if (result_.symbols[k].as_i64() == extent && !(may_be_new && random_.one_in(3)))
        return scalar::symbol(scalar::SymbolId{static_cast<std::int32_t>(k)}, DType::I64);
    }
    if (!may_be_new) return scalar::constant_i64(extent);
    result_.symbols.push_back(scalar::Value::i64(extent));
    return scalar::symbol(graph().new_symbol({"N" + std::to_string(result_.symbols.size())}), DType::I64);
  }

  std::vector<Expr> extent_exprs(const std::vector<std::int64_t>& extents, bool may_be_new = false) {
    std::vector<Expr> exprs;
    for (std::int64_t extent : extents) exprs.push_back(extent_expr(extent, may_be_new));
    return exprs;
  }

  TensorId add(Op op, std::vector<std::int64_t> extents) {
    shapes_.push_back(std::move(extents));
    return graph().add(std::move(op));
  }

  const std::vector<std::int64_t>& shape(TensorId id) const { return shapes_[static_cast<std::size_t>(id.index)]; }
  TensorId any_tensor() {
    return TensorId{static_cast<std::int32_t>(random_.between(0, static_cast<std::int64_t>(shapes_.size()) - 1))};
  }
  std::string fresh_name() { return "t" + std::to_string(shapes_.size()); }

  DType random_dtype() {
    constexpr DType kUsual[] = {DType::F32,  DType::F32, DType::F32,  DType::I64, DType::I32, DType::F16,
                                DType::BF16, DType::F64, DType::Bool, DType::I8,  DType::U8,  DType::U32};
    return random_.pick(kUsual);
  }

  void add_input() {
    const DType dtype = random_dtype();
    const std::vector<std::int64_t> extents = random_extents();
    const std::vector<Expr> exprs = extent_exprs(extents, true);
    graph().inputs.push_back(add({fresh_name(), dtype, exprs, tensor::Input{random_.one_in(4)}}, extents));
    result_.inputs.push_back(random_array(random_.bits(), dtype, extents));
  }

  void add_op() {
    const std::int64_t kind = random_.between(0, 9);
    if (kind == 0) return add_literal();
    if (kind == 1) return add_view();
    if (kind == 2) return add_reshape();
    add_compute();
  }

  void add_literal() {
    const DType dtype = random_dtype();
    const std::vector<std::int64_t> extents = random_extents();
    std::vector<Expr> exprs;
    std::int64_t count = 1;
    for (std::int64_t extent : extents) {
      exprs.push_back(scalar::constant_i64(extent));
      count *= extent;
    }
    tensor::Literal literal;
    for (std::int64_t k = 0; k < count; ++k) literal.values.push_back(random_value(random_, dtype));
    add({fresh_name(), dtype, exprs, std::move(literal)}, extents);
  }

  void add_reshape() {
    const TensorId source = any_tensor();
    std::vector<std::int64_t> extents = shape(source);
    std::vector<Expr> exprs = graph().op(source).extents;
    if (options_.symbolic) {
      // A unit dimension more keeps the count whatever the symbols are.
      const auto at = random_.between(0, static_cast<std::int64_t>(extents.size()));
      extents.insert(extents.begin() + at, 1);
      exprs.insert(exprs.begin() + at, scalar::constant_i64(1));
    } else {
      std::int64_t count = 1;
      for (std::int64_t extent : extents) count *= extent;
      const std::int64_t rows = count % 2 == 0 && count > 0 ? 2 : 1;
      extents = {rows, count / rows};
      exprs = extent_exprs(extents);
    }
    add({fresh_name(), graph().op(source).dtype, exprs, tensor::Reshape{source}}, extents);
  }

  std::vector<Variable> new_variables(const std::vector<std::int64_t>& extents, const std::vector<Expr>& exprs,
                                      const std::string& prefix) {
    std::vector<Variable> variables;
    for (std::size_t k = 0; k < extents.size(); ++k) {
      const std::string name = prefix + std::to_string(k);
      variables.push_back({{graph().new_axis(name), name, exprs[k]}, extents[k]});
    }
    return variables;
  }

  static std::vector<Axis> axes_of(const std::vector<Variable>& variables) {
    std::vector<Axis> axes;
    for (const Variable& variable : variables) axes.push_back(variable.axis);
    return axes;
  }

  void add_view() {
    const TensorId source = any_tensor();
    const std::vector<std::int64_t> extents = readable_domain(source);
    const std::vector<Expr> exprs = extent_exprs(extents);
    tensor::View view = {source, {}, {}};
    const std::vector<Variable> variables = new_variables(extents, exprs, "v");
    view.axes = axes_of(variables);
    for (std::int64_t extent : shape(source)) view.index.push_back(inside(extent, variables));
    add({fresh_name(), graph().op(source).dtype, exprs, std::move(view)}, extents);
  }

  /// Extents for a compute or view over `source`: without elements when it has none to read.
  std::vector<std::int64_t> readable_domain(TensorId source) {
    std::vector<std::int64_t> extents = random_extents();
    const std::vector<std::int64_t>& read = shape(source);
    if (std::find(read.begin(), read.end(), 0) != read.end()) {
      if (extents.empty()) extents.push_back(0);
      extents[0] = 0;
    }
    return extents;
  }

  // Expressions.

  Expr number(std::int64_t value) { return scalar::constant_i64(value); }

  Expr variable(const Variable& chosen) { return scalar::axis(chosen.axis.id); }

  /// An i64 over the variables that lies in [0, extent) for every point with an extent above 0.
  Expr inside(std::int64_t extent, const std::vector<Variable>& variables) {
    if (variables.empty() || extent == 0) return number(extent == 0 ? 0 : random_.between(0, extent - 1));
    const Variable first = random_.pick(variables), second = random_.pick(variables);
    const std::int64_t spare = extent - first.extent;
    const Expr at = variable(first);
    switch (random_.between(0, 6)) {
      case 0:
      case 1:
      case 2:
        if (spare >= 0)
          return spare == 0 || random_.one_in(2) ? at
                                                 : scalar::apply(Opcode::Add, {at, number(random_.between(0, spare))});
        break;
      case 3:
        if (first.extent + second.extent - 1 <= extent && first.extent > 0 && second.extent > 0 &&
            first.axis.id != second.axis.id)
          return scalar::apply(Opcode::Add, {at, variable(second)});
        break;
      case 4:
        if (spare >= 0 && first.extent > 0) return scalar::apply(Opcode::Sub, {number(first.extent - 1), at});
        break;
      case 5: {
        const std::int64_t divisor = first.extent / extent + 1;
        return scalar::apply(Opcode::FloorDiv, {at, number(divisor)});
      }
      default:
        break;
    }
    const Expr scaled =
        scalar::apply(Opcode::Add, {scalar::apply(Opcode::Mul, {at, number(random_.between(1, 3))}), variable(second)});
    return scalar::apply(Opcode::Mod, {scaled, number(extent)});
  }

  /// An i64 made of an element: some inside [0, extent) for sure, some not.
  Expr gathered(std::int64_t extent, const std::vector<Variable>& variables) {
    const int depth = std::exchange(gather_depth_, gather_depth_ + 1);
    const Expr read = random_read(variables);
    gather_depth_ = depth;
    // A subscript that is known would be judged at compile time.
    if (scalar::as_read(read) == nullptr) return inside(extent, variables);
    const Expr element = to_dtype(read, DType::I64), last = number(extent - 1);
    const Expr small = scalar::apply(Opcode::Mod, {element, number(97)});
    switch (random_.between(0, 5)) {
      case 0:
        return scalar::apply(Opcode::Min, {scalar::apply(Opcode::Max, {element, number(0)}), last});
      case 1:
      case 2:
        return scalar::apply(Opcode::Mod, {element, number(extent)});
      case 3:
        // Inside too, but its bounds do not show that.
        return scalar::apply(Opcode::Select, {scalar::apply(Opcode::Le, {small, last}), small, number(0)});
      case 4:
        return random_.one_in(4) ? element : scalar::apply(Opcode::Mod, {element, number(extent)});
      default:
        return scalar::apply(Opcode::Mod, {element, number(random_.one_in(4) ? extent + 1 : extent)});
    }
  }

  /// A read of any tensor, or a constant where none has elements to read.
  Expr random_read(const std::vector<Variable>& variables) {
    const TensorId source = any_tensor();
    const DType dtype = graph().op(source).dtype;
    const std::vector<std::int64_t>& extents = shape(source);
    if (std::find(extents.begin(), extents.end(), 0) != extents.end())
      return scalar::constant(random_value(random_, dtype));
    scalar::Read read = {source, {}};
    const bool pads = options_.pads && random_.one_in(4);
    bool gathers = false;
    for (std::int64_t extent : extents) {
      const bool gather = options_.gathers && gather_depth_ < 2 && random_.one_in(4);
      const Expr index = gather ? gathered(extent, variables) : inside(extent, variables);
      gathers = gathers || gather;
      read.index.push_back(pads ? scalar::apply(Opcode::Sub, {index, number(random_.between(-2, 3))}) : index);
    }
    if (!pads) {
      read.check = gathers || gather_depth_ > 0 || in_data_range_ ? scalar::ReadCheck::Runtime
                   : random_.one_in(4)                            ? scalar::ReadCheck::Proven
                                                                  : scalar::ReadCheck::Unchecked;
      return scalar::read(std::move(read), dtype);
    }
    constexpr scalar::PadMode kModes[] = {scalar::PadMode::Value, scalar::PadMode::Value, scalar::PadMode::Edge,
                                          scalar::PadMode::Reflect, scalar::PadMode::Wrap};
    read.pad = random_.pick(kModes);
    if (read.pad == scalar::PadMode::Value) read.pad_value = scalar::constant(random_value(random_, dtype));
    return scalar::read(std::move(read), dtype);
  }

  Expr to_dtype(Expr expr, DType dtype) { return expr->dtype == dtype ? expr : scalar::cast(std::move(expr), dtype); }

  Expr leaf(DType dtype, const std::vector<Variable>& variables) {
    const std::int64_t kind = random_.between(0, 5);
    if (kind == 0) return scalar::constant(random_value(random_, dtype));
    if (kind == 1 && !variables.empty()) return to_dtype(variable(random_.pick(variables)), dtype);
    return to_dtype(random_read(variables), dtype);
  }

  Expr condition(const std::vector<Variable>& variables, int depth) {
    const DType dtype = random_.one_in(2) ? DType::I64 : random_dtype();
    constexpr Opcode kComparisons[] = {Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge, Opcode::Eq, Opcode::Ne};
    const Opcode comparison = random_.pick(kComparisons);
    Expr result = scalar::apply(comparison, {value(dtype, variables, depth - 1), value(dtype, variables, 0)});
    if (random_.one_in(4)) {
      const Opcode lazy = random_.one_in(2) ? Opcode::LazyAnd : Opcode::LazyOr;
      result = scalar::apply(lazy, {result, value(DType::Bool, variables, 0)});
    }
    return result;
  }

  Expr value(DType dtype, const std::vector<Variable>& variables, int depth) {
    if (depth <= 0) return leaf(dtype, variables);
    if (random_.one_in(5)) {
      const Opcode choice = random_.one_in(2) ? Opcode::If : Opcode::Select;
      return scalar::apply(choice, {condition(variables, depth), value(dtype, variables, depth - 1),
                                    value(dtype, variables, depth - 1)});
    }
    const Expr left = value(dtype, variables, depth - 1);
    if (random_.one_in(8)) return scalar::apply(left->dtype == DType::Bool ? Opcode::Xor : Opcode::Mul, {left, left});
    const Expr right = value(dtype, variables, depth - 1);
    constexpr Opcode kBool[] = {Opcode::And, Opcode::Or, Opcode::Xor, Opcode::LazyAnd, Opcode::LazyOr};
    constexpr Opcode kInteger[] = {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::FloorDiv, Opcode::Mod,
                                   Opcode::Min, Opcode::Max, Opcode::And, Opcode::Shl};
    constexpr Opcode kFloat[] = {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div,
                                 Opcode::Min, Opcode::Max, Opcode::Fmax};
    if (dtype == DType::Bool) return scalar::apply(random_.pick(kBool), {left, right});
    if (is_integer(dtype)) return scalar::apply(random_.pick(kInteger), {left, right});
    if (random_.one_in(6)) return scalar::apply(Opcode::Fma, {left, right, leaf(dtype, variables)});
    if (random_.one_in(8)) return scalar::apply(random_.one_in(2) ? Opcode::Neg : Opcode::Abs, {left});
    return scalar::apply(random_.pick(kFloat), {left, right});
  }

  // Computes.

  void add_compute() {
    const std::vector<std::int64_t> extents = random_extents();
    const std::vector<Expr> exprs = extent_exprs(extents);
    const std::vector<Variable> outer = new_variables(extents, exprs, "i");
    tensor::Compute compute;
    compute.axes = axes_of(outer);
    const Expr reduced = random_.one_in(2) ? add_reduction(compute, outer) : nullptr;
    const DType dtype = reduced ? reduced->dtype : random_dtype();
    compute.body = reduced ? reduced : value(dtype, outer, 2);
    if (reduced && random_.one_in(3) && dtype != DType::Bool)
      compute.body = scalar::apply(Opcode::Add, {reduced, value(dtype, outer, 1)});
    add({fresh_name(), dtype, exprs, std::move(compute)}, extents);
  }

  /// Draws a reduction; the value it has, in terms of its accumulators.
  Expr add_reduction(tensor::Compute& compute, const std::vector<Variable>& outer) {
    constexpr ReduceKind kKinds[] = {ReduceKind::Sum, ReduceKind::Sum,    ReduceKind::Prod,
                                     ReduceKind::Min, ReduceKind::Max,    ReduceKind::Any,
                                     ReduceKind::All, ReduceKind::ArgMax, ReduceKind::ArgMin};
    const ReduceKind kind = random_.pick(kKinds);
    const bool picks = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
    std::vector<std::int64_t> extents(picks ? 1 : static_cast<std::size_t>(random_.between(1, 2)));
    for (std::int64_t& extent : extents) extent = random_.between(picks ? 1 : 0, options_.max_extent);
    std::vector<Variable> inner = new_variables(extents, extent_exprs(extents), "r");
    const std::optional<Variable> end = make_triangular(inner[0], outer, picks);
    if (!picks) make_ragged(inner.back(), outer);
    std::vector<Variable> all = outer;
    // A running reduction uses the variable that its range ends with for nothing else.
    if (end && random_.one_in(2)) std::erase_if(all, [&](const Variable& one) { return one.axis.id == end->axis.id; });
    all.insert(all.end(), inner.begin(), inner.end());
    DType dtype = kind == ReduceKind::Any || kind == ReduceKind::All ? DType::Bool : random_dtype();
    if (dtype == DType::Bool && kind != ReduceKind::Any && kind != ReduceKind::All) dtype = DType::I32;
    tensor::Reduction reduction;
    reduction.axes = axes_of(inner);
    Expr result;
    in_data_range_ = inner.back().extent == kOpen;
    if (in_data_range_) all.back().extent = options_.max_extent;
    const Expr element =
        in_data_range_ && random_.one_in(2) ? to_dtype(ragged_read(inner.back(), outer), dtype) : value(dtype, all, 1);
    in_data_range_ = false;
    reduction.accumulators = tensor::accumulators_of(kind, dtype, element, variable(inner[0]), result);
    choose_order(reduction, compute.numerics);
    compute.reduction = std::move(reduction);
    return result;
  }

  /// Now and then the range ends with an outer variable: r < i + 1, r < i // 2. Gives that variable.
  std::optional<Variable> make_triangular(Variable& variable, const std::vector<Variable>& outer, bool picks) {
    if (outer.empty() || !random_.one_in(3)) return {};
    const Variable end = random_.pick(outer);
    variable.axis.extent = scalar::axis(end.axis.id);
    variable.extent = std::max<std::int64_t>(end.extent - 1, 0);
    if (picks) {
      variable.axis.extent = scalar::apply(Opcode::Add, {variable.axis.extent, number(1)});
      variable.extent = end.extent;
    } else if (random_.one_in(4)) {
      variable.axis.extent = scalar::apply(Opcode::FloorDiv, {variable.axis.extent, number(2)});
      variable.extent /= 2;
    }
    return end;
  }

  /// Now and then the range ends with an element, and no bound of it is known.
  void make_ragged(Variable& variable, const std::vector<Variable>& outer) {
    if (!options_.gathers || !random_.one_in(3)) return;
    const Expr read = random_read(outer);
    if (scalar::as_read(read) == nullptr) return;
    // Narrow, so that no range is too long to walk.
    const Expr element = scalar::cast(scalar::cast(read, DType::I8), DType::I64);
    variable.axis.extent = scalar::apply(Opcode::Max, {element, number(0)});
    variable.extent = kOpen;
  }

  /// A read that walks a tensor with the ragged axis, from a place made of data.
  Expr ragged_read(const Variable& ragged, const std::vector<Variable>& outer) {
    const TensorId source = any_tensor();
    const DType dtype = graph().op(source).dtype;
    if (shape(source).empty() || *std::min_element(shape(source).begin(), shape(source).end()) == 0)
      return scalar::constant(random_value(random_, dtype));
    scalar::Read read = {source, {}};
    for (std::int64_t extent : shape(source)) read.index.push_back(inside(extent, outer));
    Expr& subscript = random_.one_in(2) ? read.index.front() : read.index.back();
    subscript = scalar::apply(Opcode::Mul, {variable(ragged), number(random_.between(1, 2))});
    if (random_.one_in(2)) subscript = scalar::apply(Opcode::Add, {subscript, number(random_.between(-1, 1))});
    read.check = scalar::ReadCheck::Runtime;
    return scalar::read(std::move(read), dtype);
  }

  void choose_order(tensor::Reduction& reduction, tensor::Numerics& numerics) {
    if (tensor::is_order_free(reduction)) {
      if (random_.one_in(2)) reduction.order = {tensor::Order::Kind::Any, 1};
    } else if (options_.lanes && random_.one_in(3)) {
      reduction.order = {tensor::Order::Kind::Lanes, std::int64_t{1} << random_.between(0, 3)};
    } else if (random_.one_in(4)) {
      numerics.order = tensor::Numerics::OrderMode::Strict;
      return;
    }
    const bool plain = std::all_of(reduction.axes.begin(), reduction.axes.end(), [](const tensor::Axis& axis) {
      bool of_sizes = true;
      scalar::for_each_node(axis.extent, [&](const Expr& node) {
        of_sizes &= scalar::as_read(node) == nullptr && !std::holds_alternative<scalar::AxisRef>(node->kind);
      });
      return of_sizes;
    });
    if (options_.parts && plain && reduction.accumulators.size() == 1 && random_.one_in(2))
      reduction.order.part = reduction.order.lanes * random_.between(1, 4);
  }

  /// The last op and every op that nothing reads, up to a few.
  void add_outputs() {
    const auto count = static_cast<std::int32_t>(shapes_.size());
    for (std::int32_t k = std::max(0, count - 3); k < count; ++k)
      graph().outputs.push_back({graph().ops[static_cast<std::size_t>(k)].name, TensorId{k}});
  }

  Random random_;
  RandomGraphOptions options_;
  RandomCase result_;
  int gather_depth_ = 0;                           ///< subscripts made of elements around the read that is drawn
  bool in_data_range_ = false;                     ///< some variable in scope has a range made of data
  std::vector<std::vector<std::int64_t>> shapes_;  ///< the values of the extents, by op
};

}  // namespace

RandomCase random_case(std::uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).run();
}

tensor::Array random_array(std::uint64_t seed, DType dtype, std::vector<std::int64_t> extents) {
  Random random(seed);
  tensor::Array array = {dtype, std::move(extents), {}};
  const std::int64_t count = array.count();
  for (std::int64_t k = 0; k < count; ++k) array.bits.push_back(random_value(random, dtype).bits);
  return array;
}

}  // namespace corrloom::testing
