#include <algorithm>
#include <iterator>

#include "compiler/passes/lower_compute.h"
#include "ir/affine/affine.h"
#include "ir/affine/border.h"

/// Loops in place of unrolled rows, where the code of a register tile would take longer to compile than it is worth:
/// in places that few elements belong to, and where a tile has more instructions than any processor's caches of code
/// like.
namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;
using scalar::AxisId;
using scalar::Expr;
using schedule::Bind;

namespace {

/// A tile with more instructions becomes a loop of smaller ones wherever it stands; one of those that compute less than
/// this part of the result from fewer instructions on.
constexpr double kMostInstructions = 2000, kFewInstructions = 64, kSmallPart = 1.0 / 32;
/// A kernel with so many is long: nothing more in it is worth a body of its own that computes less than this part of
/// the result.
constexpr double kLongKernel = 6000, kMainPart = 0.25;
/// What an access costs whose lanes each have an address of their own, and each lane of one that no instruction has.
constexpr double kGather = 8, kNarrowLane = 4;
/// And what one costs that picks lanes from whole vectors, which are at most so far apart.
constexpr double kPicked = 3;
constexpr std::int64_t kMostPicked = 4;
constexpr int kGatheredBytes = 4;

/// A subscript as most tiles have it: what a condition on the place chooses at the border is left out.
Expr inside(Expr subscript) {
  const auto holds_inside = [](const Expr& condition) {
    const auto* apply = std::get_if<scalar::Apply>(&condition->kind);
    return apply != nullptr && (apply->opcode == scalar::Opcode::LazyAnd || affine::not_negative_where(*apply));
  };
  for (const scalar::Apply* choice = scalar::as_apply(subscript, scalar::Opcode::If);
       choice != nullptr && holds_inside(choice->args[0]); choice = scalar::as_apply(subscript, scalar::Opcode::If))
    subscript = choice->args[1];
  return subscript;
}

/// Instructions of an expression, once for the lanes of a vector along the axis.
class Sizing {
 public:
  Sizing(const tensor::Graph& graph, AxisId vector, std::int64_t lanes)
      : graph_(graph), vector_(vector), lanes_(lanes) {}

  double of(const Expr& root) {
    seen_.clear();
    return visit(root);
  }
  /// Whether lanes are picked from whole vectors, where it is known what holds.
  bool picks() const { return picks_; }

 private:
  double visit(const Expr& expr) {
    if (!seen_.insert(expr.get()).second) return 0;
    if (const scalar::Read* read = scalar::as_read(expr)) return visit(*read);
    const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
    if (apply == nullptr) return 0;
    // What holds at the place of a tile is known before, or found out once for all of it.
    const bool is_guard = apply->opcode == scalar::Opcode::LazyAnd || affine::not_negative_where(*apply).has_value();
    if (is_guard) return 0;
    double size = 1;
    for (const Expr& arg : apply->args) size += visit(arg);
    return size;
  }

  double visit(const scalar::Read& read) {
    double subscripts = 0;
    bool apart = false, picked = false;
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      const std::optional<affine::LinearForm> form = affine::linear_form(inside(read.index[k]));
      const bool is_affine = form && form->is_affine();
      if (!is_affine) subscripts += visit(read.index[k]);
      const std::int64_t stride = is_affine && vector_ ? form->coefficient_of(vector_) : 0;
      const bool is_last = k + 1 == read.index.size();
      picked = picked || (is_last && stride > 1 && stride <= kMostPicked);
      apart = apart || !is_affine || (is_last ? stride != 0 && stride != 1 : stride != 0);
    }
    picks_ = picks_ || picked;
    if (!apart || lanes_ == 1) return 1 + subscripts;
    if (picked) return kPicked + subscripts;
    const bool narrow = byte_size(graph_.op(read.source).dtype) < kGatheredBytes;
    return subscripts + (narrow ? kNarrowLane * static_cast<double>(lanes_) : kGather);
  }

  const tensor::Graph& graph_;
  AxisId vector_;
  std::int64_t lanes_;
  std::set<const scalar::Node*> seen_;
  bool picks_ = false;
};

}  // namespace

/// Instructions that one point of a register tile becomes, roughly.
double ComputeLowering::point_size() {
  if (point_size_ > 0) return point_size_;
  const bool has_vector = !levels_.empty() && levels_.back().bind == Bind::Vector;
  Sizing sizing(graph_, has_vector ? levels_.back().axis : AxisId{}, has_vector ? levels_.back().enclosing : 1);
  double taps = 1;
  for (const Level& level : levels_) {
    if (level.reduction && level.bind == Bind::Unroll)
      taps *= static_cast<double>(level.enclosing > 0 ? level.enclosing : reduction_extent(level.axis).value_or(1));
  }
  point_size_ = 1 + sizing.of(compute_.body);
  if (compute_.reduction) {
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
      point_size_ += taps * sizing.of(accumulator.step);
  }
  // Sums in a loop wait for each other unless there are many, and lanes are picked where it is known what holds.
  const bool has_loop = std::any_of(levels_.begin(), levels_.end(),
                                    [](const Level& level) { return level.reduction && level.bind != Bind::Unroll; });
  rolls_small_parts_ = !has_loop && !sizing.picks();
  return point_size_;
}

/// Whether the kernel has bodies enough.
bool ComputeLowering::is_long_kernel() const {
  return kernel_.instructions > kLongKernel;
}

/// The step of the unrolled loop along that axis; 0 without one.
std::int64_t ComputeLowering::unrolled_step(std::size_t level, AxisId axis) const {
  std::int64_t step = 0;
  for (std::size_t k = level; k < levels_.size(); ++k) {
    if (levels_[k].axis == axis && levels_[k].bind == Bind::Unroll && !levels_[k].reduction) step = levels_[k].step;
  }
  return step;
}

/// Walks the tile in a loop of smaller ones when there is too much of it. False when it is fine as it is.
bool ComputeLowering::rolls(std::size_t level, const Tiles& tiles) {
  const bool by_lanes = compute_.reduction && compute_.reduction->order.kind == tensor::Order::Kind::Lanes;
  double size = point_size();
  AxisId longest;
  std::int64_t most = 1;
  for (const auto& [axis, tile] : tiles) {
    const std::int64_t step = unrolled_step(level, axis);
    if (step == 0 || !tile.size || *tile.size % step != 0) continue;
    const std::int64_t count = *tile.size / step;
    size *= static_cast<double>(count);
    if (count > most) {
      most = count;
      longest = axis;
    }
  }
  const bool is_small = (part_ < kSmallPart && rolls_small_parts_) || (part_ < kMainPart && is_long_kernel());
  const double limit = is_small ? kFewInstructions : kMostInstructions;
  if (most == 1 || size <= limit || by_lanes) {
    kernel_.instructions += size;
    return false;
  }
  // The largest part of it that is small enough.
  std::int64_t kept = 1;
  for (std::int64_t count = 1; count < most; ++count) {
    if (most % count == 0 && size * static_cast<double>(count) <= limit * static_cast<double>(most)) kept = count;
  }
  roll(level, tiles, longest, kept * unrolled_step(level, longest));
  return true;
}

/// What is known of the tile holds for its parts; the rest each of them finds out for itself.
void ComputeLowering::roll(std::size_t level, const Tiles& tiles, AxisId axis, std::int64_t size) {
  const Tile tile = tiles.at(axis);
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(axis.index)], builder_.index(*tile.size / size),
                    Binding::Serial, {}, [&](ValueId number, std::span<const ValueId>) {
                      Tiles inner = tiles;
                      inner[axis] = {builder_.add(tile.base, builder_.mul(number, size)), builder_.index(size), size};
                      register_tile(level, inner);
                      return std::vector<ValueId>{};
                    });
}

}  // namespace corrloom::passes
