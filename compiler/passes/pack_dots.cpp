#include "compiler/passes/pack_dots.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

/// Bytes of a word.
constexpr std::int64_t kBytes = 4;
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

bool has_dots(const kernel::Target& target) {
  const std::string all = "," + target.features + ",";
  const auto has = [&](const char* feature) {
    return all.find(",+" + std::string(feature) + ",") != std::string::npos;
  };
  return target.kind == kernel::TargetKind::Host && (has("avx512vnni") || has("avxvnni"));
}

/// One factor: a read, perhaps with padding of zeros around it.
struct Factor {
  Expr expr;
  Expr read;       ///< the node in it
  int plain = -1;  ///< the dimension that the packed axis walks alone, if it does
  bool is_signed() const { return expr->dtype == DType::I8; }
};

std::optional<Factor> factor_of(const Expr& widened) {
  const Apply* cast = scalar::as_apply(widened, Opcode::Cast);
  if (cast == nullptr || !is_byte(cast->args[0]->dtype)) return std::nullopt;
  Factor factor{cast->args[0], cast->args[0]};
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

/// Rewrites one compute.
class Packing {
 public:
  Packing(Graph& graph, TensorId id) : graph_(graph), id_(id), compute_(std::get<Compute>(graph.op(id).kind)) {}

  /// The ops that must stand before the compute, or nothing when it stays as it is.
  std::optional<std::vector<TensorId>> run() {
    if (!find_factors() || !choose_axis()) return std::nullopt;
    rewrite();
    graph_.op(id_).kind = compute_;
    return std::move(added_);
  }

 private:
  bool find_factors() {
    if (!compute_.reduction || compute_.reduction->accumulators.size() != 1) return false;
    if (compute_.numerics.order != tensor::Numerics::OrderMode::Any) return false;
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

  std::optional<std::int64_t> extent_of(const Axis& axis) const { return scalar::as_i64(axis.extent); }

  double points() const {
    double points = 1;
    for (const auto* axes : {&compute_.axes, &compute_.reduction->axes}) {
      for (const Axis& axis : *axes) points *= static_cast<double>(extent_of(axis).value_or(0));
    }
    return points;
  }

  /// The dimension of the factor's tensor that the axis walks alone, or -1 when it stands elsewhere, too.
  static int plain_dimension(const Factor& factor, AxisId axis) {
    const Read& read = *scalar::as_read(factor.read);
    int found = -1;
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      if (!mentions(read.index[k], axis)) continue;
      if (found >= 0 || axis_of(read.index[k]) != axis) return -1;
      found = static_cast<int>(k);
    }
    const Expr elsewhere = scalar::rewrite(
        factor.expr, [&](const Expr& node) -> Expr { return node == factor.read ? zero_byte(node->dtype) : nullptr; });
    return mentions(elsewhere, axis) ? -1 : found;
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
    if (!left || !right || all < kWorthPacking * kBytes * kBytes) return false;
    std::int64_t best = 0;
    bool best_plain = false;
    for (std::size_t k = 0; k < compute_.reduction->axes.size(); ++k) {
      const Axis& axis = compute_.reduction->axes[k];
      const std::int64_t extent = extent_of(axis).value_or(0);
      const int a = plain_dimension(factors_[0], axis.id), b = plain_dimension(factors_[1], axis.id);
      const bool plain = a >= 0 && b >= 0;
      if (extent < kBytes - 1 || (a < 0 && b < 0)) continue;
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

  /// A byte of `expr`'s dtype as the lowest one of a word.
  static Expr as_word(const Expr& byte) {
    const Expr bits = byte->dtype == DType::U8 ? byte : scalar::bitcast(byte, DType::U8);
    return scalar::cast(bits, DType::I32);
  }

  /// Four bytes in a word: `byte_at(4 * axis + t)`, zeros behind the extent.
  template <class Byte>
  static Expr joined(AxisId axis, std::int64_t extent, const Byte& byte_at) {
    Expr joined;
    for (std::int64_t t = 0; t < std::min(kBytes, extent); ++t) {
      const Expr first = binary(Opcode::Mul, scalar::axis(axis), number(kBytes));
      const Expr place = extent <= kBytes ? number(t) : t == 0 ? first : binary(Opcode::Add, first, number(t));
      Expr byte = byte_at(place);
      if (extent > kBytes && extent % kBytes != 0 && t >= extent % kBytes)
        byte = scalar::apply(Opcode::If, {binary(Opcode::Lt, place, number(extent)), byte, zero_byte(byte->dtype)});
      Expr part = as_word(byte);
      if (t > 0) part = binary(Opcode::Shl, part, word(8 * t));
      joined = joined ? binary(Opcode::Or, joined, part) : part;
    }
    return joined;
  }

  /// The factor in words; `flip`: with every sign bit flipped.
  Expr packed(const Factor& factor, bool flip) {
    return factor.plain >= 0 ? packed_ahead(factor, flip) : packed_in_place(factor, flip);
  }

  Expr packed_in_place(const Factor& factor, bool flip) const {
    const Expr joined_bytes = joined(packed_axis().id, *extent_of(packed_axis()), [&](const Expr& place) {
      return scalar::substitute_axes(factor.expr,
                                     [&](AxisId axis) -> Expr { return axis == packed_axis().id ? place : nullptr; });
    });
    return flip ? binary(Opcode::Xor, joined_bytes, word(kSigns)) : joined_bytes;
  }

  Expr packed_ahead(const Factor& factor, bool flip) {
    const Read& read = *scalar::as_read(factor.read);
    const Op source = graph_.op(read.source);
    const std::int64_t extent = *scalar::as_i64(source.extents[static_cast<std::size_t>(factor.plain)]);
    Op op;
    op.name = source.name + ".bytes";
    op.dtype = DType::I32;
    op.span = graph_.op(id_).span;
    op.extents = source.extents;
    op.extents[static_cast<std::size_t>(factor.plain)] = number((extent + kBytes - 1) / kBytes);
    Compute compute;
    Read element = read;
    element.check = scalar::ReadCheck::Proven;
    for (std::size_t k = 0; k < op.extents.size(); ++k) {
      const std::string name = "d" + std::to_string(k);
      compute.axes.push_back({graph_.new_axis(name), name, op.extents[k]});
      element.index[k] = scalar::axis(compute.axes.back().id);
    }
    const AxisId walked = compute.axes[static_cast<std::size_t>(factor.plain)].id;
    compute.body = joined(walked, extent, [&](const Expr& place) {
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

  void rewrite() {
    const bool same = factors_[0].is_signed() == factors_[1].is_signed();
    // The sums of the factor that has fewer of them correct the shift of the other.
    const std::size_t summed = sums_of(factors_[0]) <= sums_of(factors_[1]) ? 0 : 1;
    const std::size_t first = same ? (factors_[0].is_signed() ? 1 - summed : summed) : factors_[0].is_signed() ? 1 : 0;
    const Expr words[] = {packed(factors_[first], same && factors_[first].is_signed()),
                          packed(factors_[1 - first], same && !factors_[1 - first].is_signed())};
    Axis& axis = compute_.reduction->axes[axis_];
    axis.extent = number((*extent_of(axis) + kBytes - 1) / kBytes);
    if (compute_.reduction->order.kind == tensor::Order::Kind::Lanes)
      compute_.reduction->order = {tensor::Order::Kind::Any};
    tensor::Accumulator& sum = compute_.reduction->accumulators[0];
    sum.step = scalar::apply(Opcode::Dot, {words[0], words[1], scalar::accumulator(0, DType::I32)});
    if (!same) return;
    const bool is_first = first == summed;
    correct(is_first ? words[0] : words[1], factors_[summed], is_first);
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
  Compute compute_;
  std::vector<Factor> factors_;
  std::size_t axis_ = 0;
  std::vector<TensorId> added_;
};

}  // namespace

Graph pack_dots(Graph graph, PassContext& ctx) {
  if (!has_dots(ctx.target)) return graph;
  const std::size_t count = graph.ops.size();
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < count; ++k) {
    if (std::holds_alternative<Compute>(graph.ops[k].kind)) {
      if (const auto added = Packing(graph, TensorId{static_cast<std::int32_t>(k)}).run()) {
        for (TensorId id : *added) order.push_back(static_cast<std::size_t>(id.index));
        ctx.count("products of bytes packed");
      }
    }
    order.push_back(k);
  }
  return order.size() == count ? graph : reorder_ops(std::move(graph), order);
}

}  // namespace corrloom::passes
