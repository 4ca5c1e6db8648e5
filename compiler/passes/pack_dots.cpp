#include "compiler/passes/pack_dots.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/dot_products.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"
#include "ir/base/errors.h"

namespace corrloom::passes {
namespace {

using scalar::Apply;
using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using scalar::Read;
using scalar::Value;
using tensor::Axis;
using tensor::Compute;
using tensor::Graph;
using tensor::Op;
using tensor::TensorId;

/// What a word of 32 bits holds: so many elements, the first of them lowest or highest.
struct Layout {
  std::int64_t count;
  int bits;
  bool first_is_high;
  const char* name;
  int shift(std::int64_t element) const {
    return bits * static_cast<int>(first_is_high ? count - 1 - element : element);
  }
};
/// The instruction for bf16 adds the product of the upper halves before that of the lower ones.
constexpr Layout kBytes{4, 8, false, "bytes"}, kHalves{2, 16, true, "pairs"};
/// How often each element of the operands must be used before packing pays.
constexpr double kWorthPacking = 16;
/// The sign bits and the lowest bits of four bytes.
constexpr std::int64_t kSigns = -0x7f7f7f80, kOnes = 0x01010101;

Expr number(std::int64_t value) {
  return scalar::constant_i64(value);
}
Expr word(std::int64_t value) {
  return scalar::constant(Value::integer(DType::I32, value));
}
Expr binary(Opcode opcode, Expr a, Expr b) {
  return scalar::apply(opcode, {std::move(a), std::move(b)});
}

bool mentions(const Expr& expr, AxisId axis) {
  return uses_axis(expr, [&](AxisId used) { return used == axis; });
}

bool is_byte(DType dtype) {
  return dtype == DType::I8 || dtype == DType::U8;
}

/// One factor: a read, perhaps with padding of zeros around it; of halves any expression.
struct Factor {
  Expr expr;
  Expr read;       ///< the node in it, or null
  Expr behind;     ///< what fills the last word
  int plain = -1;  ///< the dimension that the packed axis walks alone, if it does
  bool is_signed() const { return expr->dtype == DType::I8; }
};

std::optional<Factor> factor_of(const Expr& widened) {
  const Apply* cast = scalar::as_apply(widened, Opcode::Cast);
  if (cast == nullptr || !is_byte(cast->args[0]->dtype)) return std::nullopt;
  Factor factor{cast->args[0], cast->args[0], scalar::constant(Value{cast->args[0]->dtype, 0})};
  while (const Apply* choice = scalar::as_apply(factor.read, Opcode::If)) {
    const auto* padding = std::get_if<scalar::Constant>(&choice->args[2]->kind);
    if (padding == nullptr || padding->value.bits != 0) return std::nullopt;
    factor.read = choice->args[1];
  }
  const Read* read = scalar::as_read(factor.read);
  if (read == nullptr || read->check == scalar::ReadCheck::Runtime || read->pad != scalar::PadMode::None)
    return std::nullopt;
  return factor;
}

bool is_checked(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) {
    const Read* read = scalar::as_read(node);
    found |= read != nullptr && read->check == scalar::ReadCheck::Runtime;
  });
  return found;
}

/// A factor of bf16; `behind` are the bits of a zero.
Factor factor_of_halves(const Expr& expr, std::uint64_t behind) {
  const Read* read = scalar::as_read(expr);
  const bool is_plain = read != nullptr && read->pad == scalar::PadMode::None;
  return {expr, is_plain ? expr : nullptr, scalar::constant(Value{DType::BF16, behind})};
}

/// Rewrites one compute.
class Packing {
 public:
  Packing(Graph& graph, TensorId id, const kernel::Target& target)
      : graph_(graph), id_(id), target_(target), compute_(std::get<Compute>(graph.op(id).kind)) {}

  /// The ops that must stand before the compute, or nothing when it stays as it is.
  std::optional<std::vector<TensorId>> run() {
    if (!compute_.reduction || compute_.reduction->accumulators.size() != 1) return std::nullopt;
    if (find_bytes() && choose_axis()) {
      rewrite_bytes();
    } else if (find_halves() && choose_halves()) {
      rewrite_halves();
    } else {
      return std::nullopt;
    }
    graph_.op(id_).kind = compute_;
    return std::move(added_);
  }

 private:
  bool find_bytes() {
    if (!has_byte_dots(target_) || compute_.numerics.order != tensor::Numerics::OrderMode::Any) return false;
    const tensor::Accumulator& sum = compute_.reduction->accumulators[0];
    const Apply* added = scalar::as_apply(sum.step, Opcode::Add);
    if (sum.dtype != DType::I32 || added == nullptr) return false;
    for (std::size_t k : {0u, 1u}) {
      const auto* held = std::get_if<scalar::AccRef>(&added->args[k]->kind);
      const Apply* product = scalar::as_apply(added->args[1 - k], Opcode::Mul);
      if (held == nullptr || product == nullptr) continue;
      const std::optional<Factor> left = factor_of(product->args[0]), right = factor_of(product->args[1]);
      if (!left || !right) return false;
      factors_ = {*left, *right};
      return true;
    }
    return false;
  }

  /// One product a step, as `set_orders` writes it.
  bool find_halves() {
    const tensor::Reduction& reduction = *compute_.reduction;
    const Apply* dot = scalar::as_apply(reduction.accumulators[0].step, Opcode::Dot);
    if (dot == nullptr || reduction.axes.empty() || reduction.order.kind == tensor::Order::Kind::Lanes) return false;
    const Expr x = first_in_word(dot->args[0]), y = second_in_word(dot->args[1]);
    if (x == nullptr || y == nullptr || is_checked(x) || is_checked(y)) return false;
    if (!std::holds_alternative<scalar::AccRef>(dot->args[2]->kind)) return false;
    layout_ = kHalves;
    factors_ = {factor_of_halves(x, 0x8000), factor_of_halves(y, 0)};
    return true;
  }

  /// The order is part of the result, so neighbours along the last axis it is.
  bool choose_halves() {
    axis_ = compute_.reduction->axes.size() - 1;
    if (extent_of(packed_axis()).value_or(0) < layout_.count) return false;
    for (Factor& factor : factors_) {
      const std::optional<double> elements = factor.read ? elements_of(factor) : std::nullopt;
      if (elements && points() >= kWorthPacking * *elements) factor.plain = plain_dimension(factor, packed_axis());
    }
    return true;
  }

  std::optional<std::int64_t> extent_of(const Axis& axis) const { return scalar::as_i64(axis.extent); }

  double points() const {
    double points = 1;
    for (const auto* axes : {&compute_.axes, &compute_.reduction->axes}) {
      for (const Axis& axis : *axes) points *= static_cast<double>(extent_of(axis).value_or(0));
    }
    return points;
  }

  /// The dimension of the factor's tensor that the axis walks alone, or -1 when it stands elsewhere, too, or its last
  /// word would hold elements behind its end.
  int plain_dimension(const Factor& factor, const Axis& walked) const {
    const AxisId axis = walked.id;
    const std::int64_t extent = extent_of(walked).value_or(0);
    const Read& read = *scalar::as_read(factor.read);
    int found = -1;
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      if (!mentions(read.index[k], axis)) continue;
      if (found >= 0 || axis_of(read.index[k]) != axis) return -1;
      found = static_cast<int>(k);
    }
    const Expr elsewhere = scalar::rewrite(
        factor.expr, [&](const Expr& node) -> Expr { return node == factor.read ? zero_byte(node->dtype) : nullptr; });
    if (found < 0 || mentions(elsewhere, axis)) return -1;
    const std::optional<std::int64_t> all =
        scalar::as_i64(graph_.op(read.source).extents[static_cast<std::size_t>(found)]);
    return extent % layout_.count == 0 || all == extent ? found : -1;
  }
  static Expr zero_byte(DType dtype) { return scalar::constant(Value{dtype, 0}); }

  std::optional<double> elements_of(const Factor& factor) const {
    double elements = 1;
    for (const Expr& extent : graph_.op(scalar::as_read(factor.read)->source).extents) {
      const std::optional<std::int64_t> known = scalar::as_i64(extent);
      if (!known) return std::nullopt;
      elements *= static_cast<double>(*known);
    }
    return elements;
  }

  /// A window of the factor along another reduction axis: its words are read again by neighbours.
  bool is_read_again(const Factor& factor, AxisId packed) const {
    const Read& read = *scalar::as_read(factor.read);
    return std::any_of(read.index.begin(), read.index.end(), [&](const Expr& subscript) {
      const bool moves = uses_axis(subscript, [&](AxisId used) {
        return std::any_of(compute_.axes.begin(), compute_.axes.end(), [&](const Axis& a) { return a.id == used; });
      });
      return moves && !mentions(subscript, packed) && uses_axis(subscript, [&](AxisId used) {
               return std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                  [&](const Axis& a) { return a.id == used && extent_of(a).value_or(0) > 1; });
             });
    });
  }

  /// The longest axis that both factors have alone, or else one that one of them has in a window.
  bool choose_axis() {
    const std::optional<double> left = elements_of(factors_[0]), right = elements_of(factors_[1]);
    const double all = points();
    if (!left || !right || all < kWorthPacking * static_cast<double>(layout_.count * layout_.count)) return false;
    std::int64_t best = 0;
    bool best_plain = false;
    for (std::size_t k = 0; k < compute_.reduction->axes.size(); ++k) {
      const Axis& axis = compute_.reduction->axes[k];
      const std::int64_t extent = extent_of(axis).value_or(0);
      const int a = plain_dimension(factors_[0], axis), b = plain_dimension(factors_[1], axis);
      const bool plain = a >= 0 && b >= 0;
      if (extent < layout_.count - 1 || (a < 0 && b < 0)) continue;
      if (plain ? all < kWorthPacking * (*left + *right) : !is_read_again(factors_[a < 0 ? 0 : 1], axis.id)) continue;
      if (std::pair(plain, extent) <= std::pair(best_plain, best)) continue;
      best = extent;
      best_plain = plain;
      axis_ = k;
      factors_[0].plain = a;
      factors_[1].plain = b;
    }
    return best > 0;
  }

  const Axis& packed_axis() const { return compute_.reduction->axes[axis_]; }

  /// An element as the lowest bits of a word.
  static Expr as_word(const Expr& element) {
    const DType bits = bit_width(element->dtype) == 8 ? DType::U8 : DType::U16;
    return scalar::cast(element->dtype == bits ? element : scalar::bitcast(element, bits), DType::I32);
  }

  /// Elements in a word: `element_at(count * axis + t)`, `behind` the extent.
  template <class Element>
  Expr joined(AxisId axis, std::int64_t extent, const Expr& behind, const Element& element_at) const {
    Expr joined;
    for (std::int64_t t = 0; t < std::min(layout_.count, extent); ++t) {
      const Expr first = binary(Opcode::Mul, scalar::axis(axis), number(layout_.count));
      const bool is_only = extent <= layout_.count;
      const Expr place = is_only ? number(t) : t == 0 ? first : binary(Opcode::Add, first, number(t));
      Expr element = element_at(place);
      if (!is_only && extent % layout_.count != 0 && t >= extent % layout_.count)
        element = scalar::apply(Opcode::If, {binary(Opcode::Lt, place, number(extent)), element, behind});
      Expr part = as_word(element);
      if (layout_.shift(t) > 0) part = binary(Opcode::Shl, part, word(layout_.shift(t)));
      joined = joined ? binary(Opcode::Or, joined, part) : part;
    }
    return joined;
  }

  /// The factor in words; `flip`: with every sign bit flipped.
  Expr packed(const Factor& factor, bool flip) {
    return factor.plain >= 0 ? packed_ahead(factor, flip) : packed_in_place(factor, flip);
  }

  Expr packed_in_place(const Factor& factor, bool flip) const {
    const Expr joined_bytes =
        joined(packed_axis().id, *extent_of(packed_axis()), factor.behind, [&](const Expr& place) {
          return scalar::substitute_axes(
              factor.expr, [&](AxisId axis) -> Expr { return axis == packed_axis().id ? place : nullptr; });
        });
    return flip ? binary(Opcode::Xor, joined_bytes, word(kSigns)) : joined_bytes;
  }

  Expr packed_ahead(const Factor& factor, bool flip) {
    const Read& read = *scalar::as_read(factor.read);
    const Op source = graph_.op(read.source);
    const std::int64_t extent = *scalar::as_i64(source.extents[static_cast<std::size_t>(factor.plain)]);
    Op op;
    op.name = source.name + "." + layout_.name;
    op.dtype = DType::I32;
    op.span = graph_.op(id_).span;
    op.extents = source.extents;
    op.extents[static_cast<std::size_t>(factor.plain)] = number((extent + layout_.count - 1) / layout_.count);
    Compute compute;
    Read element = read;
    element.check = scalar::ReadCheck::Proven;
    for (std::size_t k = 0; k < op.extents.size(); ++k) {
      const std::string name = "d" + std::to_string(k);
      compute.axes.push_back({graph_.new_axis(name), name, op.extents[k]});
      element.index[k] = scalar::axis(compute.axes.back().id);
    }
    const AxisId walked = compute.axes[static_cast<std::size_t>(factor.plain)].id;
    compute.body = joined(walked, extent, factor.behind, [&](const Expr& place) {
      Read at = element;
      at.index[static_cast<std::size_t>(factor.plain)] = place;
      return scalar::read(std::move(at), source.dtype);
    });
    if (flip) compute.body = binary(Opcode::Xor, compute.body, word(kSigns));
    op.kind = std::move(compute);
    Read now = read;
    now.source = add(std::move(op));
    return around(factor.expr, factor, scalar::read(std::move(now), DType::I32), word(flip ? kSigns : 0));
  }

  /// The factor's conditions around another read and another padding.
  static Expr around(const Expr& expr, const Factor& factor, const Expr& read, const Expr& padding) {
    if (expr == factor.read) return read;
    const Apply& choice = *scalar::as_apply(expr, Opcode::If);
    return scalar::apply(Opcode::If, {choice.args[0], around(choice.args[1], factor, read, padding), padding});
  }

  TensorId add(Op op) {
    const TensorId id = graph_.add(std::move(op));
    added_.push_back(id);
    return id;
  }

  void rewrite_bytes() {
    const bool same = factors_[0].is_signed() == factors_[1].is_signed();
    // The sums of the factor that has fewer of them correct the shift of the other.
    const std::size_t summed = sums_of(factors_[0]) <= sums_of(factors_[1]) ? 0 : 1;
    const std::size_t first = same ? (factors_[0].is_signed() ? 1 - summed : summed) : factors_[0].is_signed() ? 1 : 0;
    const Expr words[] = {packed(factors_[first], same && factors_[first].is_signed()),
                          packed(factors_[1 - first], same && !factors_[1 - first].is_signed())};
    Axis& axis = compute_.reduction->axes[axis_];
    axis.extent = number((*extent_of(axis) + layout_.count - 1) / layout_.count);
    if (compute_.reduction->order.kind == tensor::Order::Kind::Lanes)
      compute_.reduction->order = {tensor::Order::Kind::Any};
    tensor::Accumulator& sum = compute_.reduction->accumulators[0];
    sum.step = scalar::apply(Opcode::Dot, {words[0], words[1], scalar::accumulator(0, DType::I32)});
    if (!same) return;
    const bool is_first = first == summed;
    correct(is_first ? words[0] : words[1], factors_[summed], is_first);
  }

  void rewrite_halves() {
    const Expr x = packed(factors_[0], false), y = packed(factors_[1], false);
    Axis& axis = compute_.reduction->axes[axis_];
    axis.extent = number((*extent_of(axis) + layout_.count - 1) / layout_.count);
    tensor::Accumulator& sum = compute_.reduction->accumulators[0];
    sum.step = scalar::apply(Opcode::Dot, {x, y, scalar::accumulator(0, DType::F32)});
  }

  /// How many sums over the reduction the factor has.
  double sums_of(const Factor& factor) const {
    double sums = 1;
    for (const Axis& axis : compute_.axes) {
      if (mentions(factor.expr, axis.id)) sums *= static_cast<double>(extent_of(axis).value_or(1));
    }
    return sums;
  }

  /// Takes 128 times the sum of the factor off the result, or adds it.
  void correct(const Expr& words, const Factor& factor, bool is_unsigned) {
    Op op;
    op.name = graph_.op(scalar::as_read(factor.read)->source).name + ".sums";
    op.dtype = DType::I32;
    op.span = graph_.op(id_).span;
    Compute sums;
    sums.numerics = compute_.numerics;
    sums.reduction = compute_.reduction;
    // Any order will do: words that stand beside each other fill vectors.
    const auto last = static_cast<int>(scalar::as_read(factor.read)->index.size()) - 1;
    if (factor.plain == last && sums.reduction->axes.size() == 1 && target_.reduction_lanes > 1)
      sums.reduction->order = {tensor::Order::Kind::Lanes, target_.reduction_lanes};
    std::vector<std::pair<AxisId, AxisId>> names;
    Read read;
    for (const Axis& axis : compute_.axes) {
      if (!mentions(factor.expr, axis.id)) continue;
      read.index.push_back(scalar::axis(axis.id));
      names.emplace_back(axis.id, graph_.new_axis(axis.name));
      sums.axes.push_back({names.back().second, axis.name, axis.extent});
      op.extents.push_back(axis.extent);
    }
    for (Axis& axis : sums.reduction->axes) {
      names.emplace_back(axis.id, graph_.new_axis(axis.name));
      axis.id = names.back().second;
    }
    const Expr moved = scalar::substitute_axes(words, [&](AxisId axis) -> Expr {
      const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == axis; });
      return found == names.end() ? nullptr : scalar::axis(found->second);
    });
    const Expr sum = scalar::accumulator(0, DType::I32);
    tensor::Accumulator& accumulator = sums.reduction->accumulators[0];
    accumulator.init = word(0);
    accumulator.step = is_unsigned ? scalar::apply(Opcode::Dot, {moved, word(kOnes), sum})
                                   : scalar::apply(Opcode::Dot, {word(kOnes), moved, sum});
    sums.body = sum;
    op.kind = std::move(sums);
    read.source = add(std::move(op));
    read.check = scalar::ReadCheck::Proven;
    const Expr shift = binary(Opcode::Shl, scalar::read(std::move(read), DType::I32), word(7));
    const Expr corrected = binary(is_unsigned ? Opcode::Add : Opcode::Sub, sum, shift);
    compute_.body = scalar::rewrite(compute_.body, [&](const Expr& node) -> Expr {
      return std::holds_alternative<scalar::AccRef>(node->kind) ? corrected : nullptr;
    });
  }

  Graph& graph_;
  TensorId id_;
  const kernel::Target& target_;
  Compute compute_;
  Layout layout_ = kBytes;
  std::vector<Factor> factors_;
  std::size_t axis_ = 0;
  std::vector<TensorId> added_;
};

}  // namespace

Graph pack_dots(Graph graph, PassContext& ctx) {
  if (!has_byte_dots(ctx.target) && !has_pair_dots(ctx.target)) return graph;
  const std::size_t count = graph.ops.size();
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < count; ++k) {
    if (std::holds_alternative<Compute>(graph.ops[k].kind)) {
      if (const auto added = Packing(graph, TensorId{static_cast<std::int32_t>(k)}, ctx.target).run()) {
        for (TensorId id : *added) order.push_back(static_cast<std::size_t>(id.index));
        ctx.count("products packed");
      }
    }
    order.push_back(k);
  }
  return order.size() == count ? graph : reorder_ops(std::move(graph), order);
}

}  // namespace corrloom::passes
