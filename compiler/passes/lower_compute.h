#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/passes/evaluate_tile.h"
#include "compiler/passes/function_builder.h"
#include "compiler/passes/tile_guards.h"
#include "ir/affine/affine.h"
#include "ir/schedule/regions.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/check_site.h"
#include "ir/tensor/graph.h"
#include "ir/tensor/range_check.h"

namespace corrloom::passes {

/// The most bytes of a buffer of sums.
inline constexpr std::int64_t kMostOwnBytes = 480 << 10;

/// A kernel while it is built: what its computes share.
struct KernelState {
  const tensor::Graph& graph;
  const schedule::Schedule& schedule;
  const std::vector<tensor::CheckSite>& sites;  ///< of the graph
  FunctionBuilder builder;
  std::map<tensor::TensorId, loop::BufferId> buffers = {};
  /// Of values that the kernel keeps for itself: the element of each dimension with which the buffer begins.
  std::map<tensor::TensorId, std::vector<loop::ValueId>> origins = {};
  scalar::Expr blocks = nullptr;  ///< number of blocks of the launch, over symbols
  /// Bytes of sums between sweeps that have a buffer of their own: rows of a result may share sets of the cache.
  std::int64_t most_own_bytes = kMostOwnBytes;
  double instructions = 0;  ///< of all bodies so far, roughly
};

/// What the loops so far leave of an axis: the elements [base, base + count).
struct Tile {
  loop::ValueId base;
  loop::ValueId count;
  std::optional<std::int64_t> size;    ///< the count, where it is known
  std::int64_t full = 0;               ///< where it is not: it is this, or the rest of the extent by it
  bool is_rest = false;                ///< where it is not: it is the rest
  bool is_masked = false;              ///< a vector at an end: only `count` of `size` exist
  affine::Interval range = kAnything;  ///< of the base, while points are made
};

/// An axis at one point of the register tile: a scalar or a ramp, and the lanes that exist (a default id: all).
struct PointAxis {
  loop::ValueId value;
  loop::ValueId mask;
  int lanes = 1;                       ///< how many exist, or at most exist
  bool is_open = false;                ///< the mask is not known: it depends on an extent
  std::int64_t position = 0;           ///< in an unrolled axis of the tile
  affine::Interval range = kAnything;  ///< of the elements that exist
};
using Point = std::map<scalar::AxisId, PointAxis>;
using Tiles = std::map<scalar::AxisId, Tile>;

/// Builds the loops of one compute.
class ComputeLowering {
 public:
  ComputeLowering(KernelState& kernel, tensor::TensorId id, const schedule::Stage& stage);

  /// The kernel of a compute at the root: its loops over blocks, and everything in them.
  void run_kernel();
  /// Loops over a region of the compute inside another one's: `bases` and sizes of its axes. It stores into the
  /// kernel's own buffer.
  void run_inside(const std::vector<loop::ValueId>& bases, const std::vector<std::int64_t>& sizes);

 private:
  struct Level {
    scalar::AxisId axis;
    std::int64_t step;
    schedule::Bind bind;
    bool reduction;
    std::int64_t enclosing;  ///< step of the next outer loop of the axis, 0 when this is the outermost
  };

  void produce(std::size_t level, const Tiles& tiles);
  void produce_one(tensor::TensorId producer, const std::vector<schedule::Region>& regions, const Tiles& tiles);
  std::vector<loop::ValueId> result_index(std::vector<loop::ValueId> index);
  void thread_loops(std::size_t begin, std::size_t end, Tiles tiles);
  void guard_threads(std::size_t level, std::size_t end, Tiles tiles);
  void serial_loops(std::size_t level, Tiles tiles);
  void rest_of_open_axis(std::size_t level, const Tiles& tiles, loop::ValueId full);
  bool walked_again(std::size_t level) const;
  void outer_serial_loop(std::size_t level, const Tiles& tiles);
  void settle_sizes(std::size_t level, Tiles tiles);
  void settle_open_size(std::size_t level, const Tiles& tiles, scalar::AxisId axis);
  void settle_rest(std::size_t level, const Tiles& tiles, scalar::AxisId axis);
  std::int64_t vector_lanes(scalar::AxisId axis) const;
  /// A condition and whether it holds in the whole tile.
  struct Holding {
    const Guard* guard;
    loop::ValueId holds;
  };
  using Holdings = std::vector<Holding>;
  /// Conditions that hold at every point of the tile, or at none.
  using Known = std::map<const scalar::Node*, bool>;
  void split_guards(std::size_t level, const Tiles& tiles);
  void split_group(std::size_t level, const Tiles& tiles, const std::vector<Holdings>& groups, std::size_t next);
  /// Where tiles begin in which conditions may fail, and how many tiles of that size there are.
  struct Borders {
    scalar::AxisId axis;
    std::vector<std::int64_t> positions;
    std::int64_t tiles;
  };
  bool needs_known_places() const;
  bool masks_are_cheap(std::size_t level, const Tiles& tiles, const std::vector<Holdings>& groups) const;
  bool add_open_forms(const Guard& guard, const Point& point,
                      std::set<std::pair<const Guard*, std::int64_t>>& open) const;
  static std::optional<scalar::AxisId> moving_axis(const Holdings& group, const Tiles& tiles);
  std::size_t bodies_of(const std::vector<Holdings>& groups, const Tiles& tiles) const;
  std::optional<Borders> borders(const Holdings& group, scalar::AxisId axis, const Tile& tile) const;
  void split_borders(std::size_t level, const Tiles& tiles, const std::vector<Holdings>& groups, std::size_t next,
                     Borders borders);
  std::optional<std::int64_t> least_at(const Guard& guard, scalar::AxisId axis, std::int64_t base,
                                       std::int64_t size) const;
  std::optional<loop::ValueId> bound_in(const Guard& guard, const Tiles& tiles, bool least);
  std::optional<loop::ValueId> holds_in(const Guard& guard, const Tiles& tiles);
  loop::ValueId fails_in(const Guard& guard, const Tiles& tiles);
  std::optional<std::int64_t> reduction_extent(scalar::AxisId axis) const;
  double point_size();
  std::int64_t unrolled_step(std::size_t level, scalar::AxisId axis) const;
  bool is_long_kernel() const;
  bool rolls(std::size_t level, const Tiles& tiles);
  void roll(std::size_t level, const Tiles& tiles, scalar::AxisId axis, std::int64_t size);
  /// Runs `write` for places that hold that part of those around them.
  template <class Write>
  void in_part(double part, const Write& write) {
    const double before = part_;
    part_ *= part;
    write();
    part_ = before;
  }
  void register_tile(std::size_t level, const Tiles& tiles);
  int unaligned_lanes(std::size_t level, const Tiles& tiles) const;
  void aligned_pieces(std::size_t level, const Tiles& tiles, int lanes);
  void sweep(std::size_t level, const Tiles& tiles);
  void add_sums(std::size_t level, const Tiles& tiles);
  int sum_lanes() const;
  void swept_tile(std::size_t level, const Tiles& tiles);
  std::vector<loop::ValueId> swept_index(const Point& point);
  void order_sums(bool in_result);
  std::vector<Point> points_of(std::size_t level, Tiles tiles) const;
  void add_points(std::size_t level, const Tiles& tiles, Point point, std::vector<Point>& out) const;

  /// What one point of the tile becomes.
  struct Result {
    Point point;
    loop::ValueId value;
  };
  void store(const std::vector<Result>& results);
  void store_one(const Result& result);
  bool stands_between(std::size_t rows, const tensor::Axis& vector) const;
  void store_interleaved(const std::vector<const Result*>& rows, scalar::AxisId vector);
  void store_transposed(const std::vector<const Result*>& results, scalar::AxisId vector, int lanes);

  using Accumulators = std::vector<std::vector<loop::ValueId>>;  ///< by point, then accumulator
  Accumulators reduce(std::size_t level, std::vector<Point>& tile_points, Accumulators accumulators);
  Accumulators reduce_loop(const Level& level, std::vector<Point>& tile_points, Accumulators accumulators,
                           std::size_t next);
  /// The elements [base, base + count) of a reduction axis.
  struct Part {
    loop::ValueId base, count;
  };
  Part part_of(scalar::AxisId axis, const Point& point);
  Accumulators reduce_parts(const Level& level, std::vector<Point>& tile_points, Accumulators accumulators,
                            std::size_t next);
  bool needs_turned_lanes() const;
  std::optional<std::int64_t> elements_of_short_rows() const;
  Accumulators reduce_short_rows(std::int64_t elements, std::vector<Point>& tile_points, Accumulators accumulators);
  Accumulators reduce_rows(std::size_t depth, loop::ValueId row, std::vector<Point>& tile_points,
                           Accumulators accumulators);
  Accumulators reduce_lanes(std::vector<Point>& tile_points, Accumulators accumulators);
  /// A reduction to the largest or smallest of such elements.
  struct Extreme {
    bool is_max;
    scalar::Expr element;
  };
  std::optional<Extreme> extreme_of_step() const;
  loop::ValueId bits_of(loop::ValueId value);
  std::vector<loop::ValueId> tracked(loop::ValueId extreme);
  std::vector<loop::ValueId> with_element(const Extreme& extreme, const std::vector<loop::ValueId>& before,
                                          loop::ValueId element);
  loop::ValueId untracked(const std::vector<loop::ValueId>& state);
  Accumulators lanes_step(const Point& at, loop::ValueId mask, const std::vector<Point>& tile_points,
                          const Accumulators& before, const std::optional<Extreme>& extreme);
  std::size_t independent_copies(std::size_t points) const;
  using StepAt = std::function<Accumulators(loop::ValueId number, loop::ValueId mask, const Accumulators& before)>;
  Accumulators reduce_copies(const std::string& name, loop::ValueId rounds, std::int64_t copies, int lanes,
                             const Accumulators& start, const Accumulators& fresh, const StepAt& step_at,
                             bool is_tracked);
  static std::vector<loop::ValueId> flatten(const Accumulators& accumulators);
  Accumulators unflatten(std::span<const loop::ValueId> flat) const;
  static Accumulators unflatten(std::span<const loop::ValueId> flat, std::size_t each);
  Accumulators step(std::vector<Point>& tile_points, const Accumulators& accumulators);
  std::vector<loop::ValueId> step(const Point& point, const std::vector<loop::ValueId>& accumulators);
  void place_single_steps(std::size_t level, std::vector<Point>& tile_points) const;
  Accumulators reduce_window(scalar::AxisId axis, loop::ValueId base, std::int64_t taps,
                             std::vector<Point>& tile_points, Accumulators accumulators);
  /// An output axis that stands in a subscript beside the reduction axis: an element further along one is as far as so
  /// many along the other.
  struct Window {
    scalar::AxisId axis;
    std::int64_t step = 1;  ///< of the output axis
    std::int64_t tap = 1;   ///< of the reduction axis
  };
  Window window_of(scalar::AxisId reduced) const;
  void merge_lanes(std::vector<Point>& points, Accumulators& accumulators);
  bool lanes_take_turns() const;
  Accumulators reduce_in_turn(std::vector<Point>& tile_points);
  Accumulators turn(loop::ValueId number, std::int64_t turns, loop::ValueId rounds, std::vector<Point>& tile_points,
                    const Accumulators& start);
  std::vector<loop::ValueId> merged_parts(std::vector<std::vector<loop::ValueId>> parts, const Point& point, int width);
  void forget_reduction(std::vector<Point>& tile_points) const;
  loop::BufferId turn_buffer(DType dtype, std::int64_t turns, std::size_t values, int width);
  std::vector<loop::ValueId> merged(std::vector<std::vector<loop::ValueId>> run, const Point& point);
  std::vector<std::vector<std::size_t>> runs_of(const std::vector<Point>& points) const;
  Accumulators initial(const std::vector<Point>& tile_points);
  bool runs_along(std::size_t level) const;
  void running_tile(std::size_t level, const Tiles& tiles);
  std::vector<loop::ValueId> running_place(std::size_t level, std::vector<Point>& tile_points,
                                           std::span<const loop::ValueId> carried);
  void store_tile(const std::vector<Point>& tile_points, const Accumulators& accumulators);
  scalar::AxisId axis_named(const std::string& name) const;
  void prefetch(const scalar::Expr& root, const std::vector<Point>& points);
  void prefetch_results(const std::vector<Point>& points);
  std::optional<std::vector<loop::ValueId>> prefetched(const scalar::Read& read, const Point& point);

  /// At a point, which is kept, as the values are.
  TileEvaluator evaluator(const Point& point, const std::vector<loop::ValueId>& accumulators,
                          const std::vector<loop::ValueId>& others);
  loop::ValueId evaluate(const scalar::Expr& expr, const Point& point, const std::vector<loop::ValueId>& accumulators,
                         const std::vector<loop::ValueId>& others, loop::ValueId guard);
  std::optional<bool> truth_of(const scalar::Expr& condition, const Point& point) const;
  affine::Interval base_range(scalar::AxisId axis, const Tile& tile) const;
  loop::ValueId mask_of(const Point& point);
  std::optional<std::int64_t> known_extent(scalar::AxisId axis) const;
  void single_elements(const Tile& tile, scalar::AxisId axis, const std::function<void(const Tile&)>& run);
  loop::ValueId extent_of(scalar::AxisId axis, const Point& point);
  loop::ValueId trips_of(scalar::AxisId axis, const Point& point);
  bool may_leave(const scalar::Read& read, std::size_t dimension) const;
  bool is_checked_as_range(const scalar::Expr& read, std::size_t dimension) const;
  int site_of(const scalar::Read& read, std::size_t dimension) const;
  std::optional<TileEvaluator::Check> check_of(const scalar::Expr& read, std::size_t dimension);

  KernelState& kernel_;
  const tensor::Graph& graph_;
  const schedule::Stage& stage_;
  tensor::TensorId id_;
  const tensor::Op& op_;
  const tensor::Compute& compute_;
  affine::Ranges ranges_;
  std::vector<tensor::RangeCheck> range_checks_;
  scalar::AxisId running_;  ///< the axis of a running reduction, or none
  std::vector<Level> levels_;
  FunctionBuilder& builder_;
  std::map<scalar::AxisId, loop::ValueId> extents_;  ///< of the output axes: of the compute, or of the region
  std::vector<Guard> guards_;
  std::set<scalar::AxisId> from_zero_;    ///< axes along which tiles begin at multiples of their loops' steps
  Known assumed_;                         ///< of the tile at hand
  double part_ = 1;                       ///< of the result, which the places at hand make up
  double point_size_ = 0;                 ///< 0 until it is asked for
  bool rolls_small_parts_ = false;        ///< known with it
  std::map<scalar::AxisId, Part> parts_;  ///< of reduction axes that are cut
  /// What a tile does of a sweep: all for itself, or begin, go on with, or finish the sums that lie in memory. Of two
  /// parts the first begins them and the last finishes them.
  enum class Sweep : std::uint8_t { None, Begin, Add, Finish, First, Last };
  Sweep sweep_ = Sweep::None;
  std::vector<loop::BufferId> sums_;       ///< of each accumulator, while there are sweeps
  std::vector<std::size_t> sum_axes_;      ///< the output axes in the order of their dimensions
  std::vector<loop::ValueId> sum_origin_;  ///< the element of each of these with which they begin
  /// Holds what the turns of lanes leave of so many vectors.
  struct TurnBuffer {
    DType dtype;
    int width;
    std::size_t values;
    loop::BufferId id;
  };
  std::vector<TurnBuffer> turn_buffers_;
};

}  // namespace corrloom::passes
