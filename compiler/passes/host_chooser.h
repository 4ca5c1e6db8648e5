#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/choice.h"
#include "compiler/passes/host_near.h"
#include "compiler/passes/host_reads.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"
#include "ir/kernel/target.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/staging.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes::host {

/// Chooses the loops and copies of one compute (host_schedule.h says how). Its parts: the register tiles that make
/// sense (host_tiles.cpp), what each would cost (host_cost.cpp), and the loops around the cheapest (host_loops.cpp,
/// host_panels.cpp, host_copies.cpp, host_lanes.cpp).
class HostChooser {
 public:
  /// For an op of the graph, perhaps with smaller axes; the arguments are those of `host_stage`.
  HostChooser(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target, bool may_copy,
              const std::vector<bool>& constant, Choice* choice);
  /// The loops and copies of the cheapest tile.
  schedule::Stage run();
  /// Those of a reduction by lanes whose lanes take turns, or nothing where vectors along the reduction are better.
  std::optional<schedule::Stage> lanes_in_turn() const;

 private:
  /// Operations that one block should have at least, so that handing it out costs little.
  static constexpr std::int64_t kBlockOperations = 1 << 15;
  /// Most elements that the lanes of a load may lie apart to be picked from whole vectors.
  static constexpr std::int64_t kMostVectorStride = 4;
  /// Most copies of the body that unrolling a reduction may make.
  static constexpr std::int64_t kMaxUnrolled = 80, kMaxUnrolledWindow = 150;
  /// Elements of a panel must be used that often before packing them pays.
  static constexpr std::int64_t kWorthPacking = 16;

  // ---- what people are told

  /// Keeps the best tile of each kind: of the same axes and copies.
  void note(const Tile& tile) const;
  /// Puts the tile that was taken in front of what else was weighed, and hands all of it over.
  void note_taken(const Tile& taken) const;
  /// `6 rows along i x 4 vectors along j, %B copied`
  std::string in_words(const Tile& tile) const;

  // ---- what the compute reads

  /// Whether the vectors run along the reduction.
  bool by_lanes() const { return compute_.reduction && compute_.reduction->order.kind == tensor::Order::Kind::Lanes; }
  /// True for an axis that needs no block: of one element, or walked by a running reduction.
  bool is_not_shared(const Axis& axis) const { return extent_of(axis) == 1 || axis.id == running_; }
  /// Adds the reads of an expression.
  void add_accesses(const scalar::Expr& root, bool in_step);
  /// Steps of the reduction for one element; what is not known counts as many.
  std::int64_t reduction_size() const;
  /// Lanes of a vector of the widest dtype that the compute works in.
  std::int64_t lanes() const;
  /// True when the range of some reduction axis depends on the output axis: its points would run for different times.
  bool bounds_reduction(const Axis& axis) const;

  // ---- register tiles

  /// The cheapest tile; without a vector axis when there is none.
  Tile best_tile() const;
  /// The innermost reduction axis, or null.
  const Axis* last_reduction() const {
    return compute_.reduction && !compute_.reduction->axes.empty() ? &compute_.reduction->axes.back() : nullptr;
  }
  /// Whether rows of the tile reach elements that the innermost reduction axis reaches, too.
  bool is_window(const Axis& row, const Axis& vector) const;
  /// Whether rows along the axis read rows of the same elements: `x[i, j] + x[i + 1, j]`.
  bool is_stencil(const Axis& row) const;
  /// Whether rows along the axis read the elements between those of a vector: all of them come from the same loads.
  bool picks_between(const Axis& vector, const Axis& row) const;
  /// Different loads that so many rows of the body make, for one vector.
  std::int64_t distinct_loads(const Axis* row, std::int64_t rows) const;
  std::int64_t count_distinct_loads(const Axis* row, std::int64_t rows) const;
  /// How much of the loads and operations of a body is left when the rows of the tile share them.
  double shared_part(const Tile& tile) const;
  /// Divisions of the body and its indices that become floats, where they differ from vector to vector: all of them, or
  /// those that rows along an axis have in common.
  double slow_operations(const Axis& vector, const Axis* row) const;
  /// Rows along the axis use loads together, or are stored together.
  bool shares_loads(const Axis& vector, const Axis& row) const;
  /// Tries all sizes of a tile of these axes; `row` may be null.
  void consider_rows(const Axis& vector, const Axis* row, Tile& best) const;
  /// Whether the rows of the tile are the whole last axis, which is short, and stand between each other in the result.
  bool interleaves(const Tile& tile) const;
  /// Whether the vectors from which lanes two or more apart are picked stay in registers until the last tap is done.
  bool holds_window(const Tile& tile) const;
  /// Vectors of memory from which the lanes of a row are picked that lie two or more apart.
  std::int64_t picked_vectors(const Access& access, const Tile& tile) const;
  /// Whether no loop is left of the reduction.
  bool unrolls_all(const Tile& tile) const;
  /// Tries the tile with each choice of copies.
  void consider_copies(Tile tile, Tile& best) const;
  /// Elements of the copy.
  double elements_of(std::size_t staged) const;
  /// The copy is made before the calls.
  bool is_constant(std::size_t staged) const {
    return !constant_.empty() && constant_[static_cast<std::size_t>(staged_[staged].tensor.index)];
  }
  /// A copy pays only when its elements are used often or would be gathered one by one, or when it is free.
  bool can_stage(std::size_t staged, const Tile& tile) const;
  /// Whether a copy is read in another way: without conditions, or along the vector axis.
  bool changes_loads(std::size_t staged, const Tile& tile) const;
  /// A copy of a window that takes every so manyth element along the axis keeps them apart by their place in a step, so
  /// that each tap reads neighbours: the length of the step, or 1.
  static std::int64_t phases_of(const schedule::Part& part, AxisId axis);
  /// The part of a staged expression that is moved by the axis, or null.
  static const schedule::Part* part_of(const schedule::StagedExpr& staged, AxisId axis);

  // ---- cycles

  /// What is known of the lanes of a read along the axis.
  const std::optional<Near>& known_near(const Access& access, const Axis& vector) const;
  /// The same where the tile has vectors side by side until they lie alike again.
  std::optional<Near> near_of(const Access& access, const Tile& tile) const;
  /// Vectors of a row side by side after which the lanes of all such reads lie alike; 1 where there are none.
  std::int64_t vectors_alike(const Axis& vector) const;
  /// Cycles of one load: along the vector axis when it depends on it.
  double load_cost(const Access& access, const Tile& tile) const;
  /// Whether the reduction moves the vectors by single elements: most of them lie across two lines of the cache.
  bool is_shifted(const Access& access) const;
  /// Whether the rows of the tile lie so far apart that they share few sets of the first-level cache.
  bool rows_collide(const Access& access, const Tile& tile) const;
  /// Cycles that a load takes longer because rows that a window reaches do so.
  double window_collisions(const Access& access, const Tile& tile) const;
  /// Of so many rows, that many bytes apart, those for which a set of that cache has no way left; so many are needed by
  /// others than operands.
  double rows_without_way(std::int64_t rows, std::int64_t bytes_apart, std::int64_t others) const;
  /// How many loads of an access a step of the tile makes.
  double loads_of(const Access& access, const Tile& tile) const;
  /// Operations on values that are not indices.
  static double operations_of(const scalar::Expr& expr);
  /// Operations of the step that rows of a window share with the elements that they read: all that is made of those
  /// alone.
  double window_operations(const Tile& tile) const;
  /// Operations of one step of the tile, on whole vectors.
  double tile_operations(const Tile& tile) const;
  /// Cycles of the whole compute with that tile, copies included.
  double cost(const Tile& tile) const;
  /// Cycles, beside others, until the lines of a window have come near: each row begins and ends in the middle of one.
  double line_cost(const Tile& tile) const;
  /// Cycles for operands in place that lie on another page at each step: their addresses are looked up again.
  double pages_of_step(const Tile& tile) const;
  /// Tiles along the row axis; a last one of few rows costs as much as a whole one at most.
  double row_tiles(const Tile& tile) const;
  /// What more code costs than one body of an unrolled window, as a part of the time that it takes.
  double code_cost(const Tile& tile) const;
  /// Cycles of operations that take long, of which rows have some in common.
  double slow_cycles(const Tile& tile) const;
  /// Cycles to store one vector.
  double store_cost(const Tile& tile) const;
  /// The same for one that is stored element by element; more where the lines share few sets of the cache.
  double scattered_store(const Tile& tile) const;
  /// Cycles in which what a step reads of the vector operand comes from behind the first-level cache: all that the tile
  /// reads, over the whole reduction, is read again by the next tile.
  double far_cycles(const Access& access, const Tile& tile) const;
  /// Cycles in which what the rows of the tile read of another operand comes from behind the second-level cache.
  double rows_far_cycles(const Access& access, const Tile& tile) const;
  /// Elements of a reduction axis that a tile walks before the next one walks them, too; what is not known counts as
  /// many.
  std::int64_t walked_elements(const Axis& reduced, const Tile& tile) const;
  /// Cycles for the copies that are made within the call.
  double copy_cost(const Tile& tile) const;

  // ---- loops

  /// One output element at a time: there is nothing to make vectors of.
  std::vector<schedule::Loop> loops_by_elements() const;
  /// Operands that come from memory along the only reduction axis: one run of them at a time keeps the memory less busy
  /// than it could be, so it is asked for further ahead than the processor does by itself.
  void prefetch_along(schedule::Stage& stage) const;
  /// The axis of the rows of a running reduction that goes along memory in short steps, or null. Each row waits for its
  /// own sums alone, so a few of them keep the processor busy, without vectors across them.
  const Axis* running_rows() const;
  std::vector<schedule::Loop> running_loops(const Axis& row) const;
  /// Inner axes stay within a block until it has enough to do.
  std::vector<schedule::Loop> element_blocks(std::int64_t operations) const;
  /// The loops of the reduction, unrolled where `points` copies of the step and more make sense.
  void add_reduction(std::vector<schedule::Loop>& loops, std::int64_t points, std::int64_t window) const;
  /// All loops around and of the tile, and its copies.
  void tile_loops(const Tile& tile, schedule::Stage& stage) const;
  /// Results that go past the caches through transposes: some vectors of each row are read, so many that they are whole
  /// lines, and many tiles stand beside each other in the result before the next ones.
  void across_loops(const Tile& tile, std::int64_t width, schedule::Stage& stage) const;
  /// Memory order: outer axes one by one, or several short rows to a block, and long pieces of the vector axis. Where
  /// stores are transposed, four tiles stand beside each other in the result before the next vector of the other axis.
  void streaming_loops(const Tile& tile, std::int64_t width, std::vector<schedule::Loop>& loops) const;

  /// Memory order where rows share no more than a window: a band of rows from end to end, then the next. A block has as
  /// many as make it worth a task.
  void window_loops(const Tile& tile, std::int64_t width, std::vector<schedule::Loop>& loops) const;

  // ---- panels

  /// Whether the rows of the tile share an operand of the vector axis.
  bool has_panel(const Tile& tile) const;
  /// Whether few rows meet long panels that are worked on as they lie: then a piece of a panel stays near while all
  /// rows meet it, with the sums in memory between pieces.
  bool sweeps_panels(const Tile& tile) const;
  /// Such loops.
  void swept_panel_loops(const Tile& tile, std::int64_t width, std::vector<schedule::Loop>& loops) const;
  /// Whether what the rows read along a long reduction shares few sets of the second-level cache: then a piece of it
  /// stays there while all rows of a block meet it.
  bool sweeps_pages(const Tile& tile) const;
  /// Such loops.
  void paged_panel_loops(const Tile& tile, std::int64_t width, std::vector<schedule::Loop>& loops,
                         schedule::Stage& stage) const;
  /// Bytes of all that is read there.
  double bytes_of(const Access& access) const;
  /// Panels of the vector axis outside, rows inside: what a panel holds is used again and again.
  void panel_loops(const Tile& tile, std::int64_t width, std::vector<schedule::Loop>& loops,
                   schedule::Stage& stage) const;
  /// Whether the rows leave the last-level cache before the next panels meet them.
  bool leaves_caches(const Tile& tile) const;
  /// Elements of the reduction after which all tiles of a block go on with the next ones, so that a panel stays in the
  /// second-level cache; 0: all of them.
  std::int64_t reduction_piece(const Tile& tile) const;
  /// Elements of the reduction in a piece of either kind; 0: all of them.
  std::int64_t piece_of(const Tile& tile) const;
  /// Panels of sums over several axes that do not fit into the second-level cache: a piece of them, by the first axis,
  /// stays there while all other places of the result meet it.
  struct PanelCut {
    std::int64_t piece = 0;  ///< elements of the first reduction axis
    std::int64_t columns =
        0;                  ///< of the vector axis whose sums are kept; those of a tile where panels are packed ahead
    std::size_t panel = 0;  ///< the staged expression
  };
  std::optional<PanelCut> panel_cut(const Tile& tile) const;
  /// The only staged expression that panels along the vector axis are made of.
  std::optional<std::size_t> cut_panel_of(const Tile& tile, std::int64_t width) const;
  /// The tile, with fewer vectors where such panels are then as wide as all of it: none is left that is copied in part.
  Tile in_whole_panels(Tile tile) const;
  /// Such loops: each piece of a panel is packed where it is used, unless that was done before the call.
  void cut_panel_loops(const Tile& tile, const PanelCut& cut, std::vector<schedule::Loop>& loops,
                       schedule::Stage& stage) const;
  /// Whether each block packs the one panel that it works on: while it is used, it stays in the second-level cache.
  bool packs_in_blocks(const Tile& tile, std::int64_t width) const;
  /// The copy of it, where it is the only one, lies along the vector axis, and has single axes.
  std::optional<schedule::Staging> panel_of_block(const Tile& tile, std::int64_t width) const;
  /// The copy of one panel, where there are no others beside it.
  schedule::Staging only_panel(std::size_t number, const Tile& tile, std::int64_t width) const;
  /// Such loops.
  void packed_panel_loops(const Tile& tile, std::int64_t width, std::vector<schedule::Loop>& loops,
                          schedule::Stage& stage) const;
  /// Whether all panels together stay in the second-level cache, so that each place is better done with all of them at
  /// once.
  bool panels_stay_near(const Tile& tile) const;
  /// Whether what a place of the axis reads beside the panels stays in the second-level cache while all panels stream
  /// past it: panels are read as they lie, the rows element by element.
  bool keeps_rows_near(const Axis& axis, const Tile& tile) const;
  /// The operands that depend on the vector axis depend on this one, too: nothing is used again along it.
  bool is_batch(const Axis& axis, const Axis& vector) const;
  /// Packs the operand of the vector axis where its rows lie far apart and many rows of the tile use it again.
  void add_panel_operand(const Tile& tile, std::int64_t width, schedule::Stage& stage) const;
  /// The copies for that.
  std::vector<schedule::Staging> panel_operands(const Tile& tile, std::int64_t width) const;
  /// Whether a panel of the operand stays near from one row of the tile to the next without a copy.
  bool stays_in_place(const Access& access) const;
  /// The copy of a staged expression: as it lies, with the vector axis innermost in panels as wide as the tile.
  schedule::Staging panel(std::size_t number, const Tile& tile, std::int64_t width) const;

  // ---- copies and results that leave the caches

  /// A copy that leaves the second-level cache is better made block by block: of parts that stay there. Blocks are then
  /// of those axes that choose the part, and what else is walked, is walked in them.
  void copy_in_blocks(const Tile& tile, schedule::Stage& stage) const;
  /// Loops with blocks for such parts.
  struct BlockCut {
    std::vector<schedule::Loop> loops;
    int last_block = -1;
  };
  /// The largest parts that stay near, where `whole` is the bytes of all of the copy; nothing when too much would be
  /// copied twice, or blocks would be few.
  std::optional<BlockCut> cut_for(const Tile& tile, const schedule::Stage& stage, const schedule::Staging& staging,
                                  const schedule::Copy& copy, double whole) const;
  BlockCut with_blocks(const schedule::Stage& stage, const std::vector<const Axis*>& batch, const Axis* window,
                       std::int64_t piece) const;
  /// The copy of a window: parts with rows of their own, some tiles high and a few vectors long, so that rows share no
  /// sets and stay near.
  void copy_windows(const Tile& tile, schedule::Stage& stage) const;
  /// Results that come from memory, in pieces of lines: stores would wait for them.
  void prefetch_results(const Tile& tile, schedule::Stage& stage) const;

  // ---- reductions by lanes

  /// Rows and columns of the result whose vectors run along the reduction: each load of one side meets all of the
  /// other.
  void lanes_loops(schedule::Stage& stage) const;
  /// The axis whose neighbours in the result are one vector apart, and the one along which most is used again; null
  /// where there is none.
  const Axis* lanes_column() const;
  const Axis* lanes_row(const Axis& column) const;
  /// A tile of vectors along the result, and how far the lanes are apart that run together.
  struct TurnTile {
    std::int64_t rows, vectors, apart;
    double cost;  ///< of its work, and of that which is done for nothing
  };
  /// The best one for a reduction of so many elements, if its panels stay near.
  std::optional<TurnTile> turn_tile(const Axis& column, const Axis& row, std::int64_t elements) const;
  /// The staged expression that panels are made of, when nothing else depends on the column.
  std::optional<std::size_t> turn_panel(const Axis& column, const Axis& row) const;
  /// The extent of the axis where the compute is a part of one of the graph.
  std::int64_t whole_extent(const Axis& axis) const;
  /// Turns of long reductions: a panel stays in the second-level cache, and both operands are copied lane by lane.
  std::optional<schedule::Stage> far_turns() const;
  /// That copy, for so many places of the axis together; without a layout where there is none.
  schedule::Staging lane_by_lane(std::size_t number, const Axis& axis, std::int64_t together) const;
  /// Rows of a tile where a result has few.
  static std::int64_t rows_of_tile(const Axis& row);
  /// Whether the result has few rows, and columns that come from behind the second-level cache.
  bool has_few_rows(const Axis& column, const Axis& row) const;
  /// The loops for that: each column is read once, for all rows.
  void few_rows_loops(const Axis& column, const Axis& row, schedule::Stage& stage) const;
  /// A copy in which a vector of each row of a tile stands beside those of the others: long rows may share sets of the
  /// first-level cache.
  void add_rows_side_by_side(const Axis& row, std::int64_t rows, schedule::Stage& stage) const;
  /// The blocks around a tile of rows and columns.
  /// Elements of the reduction in a piece that stays in the first-level cache for all rows of a block; 0: all of them.
  std::int64_t lanes_piece(std::int64_t columns, const Axis* row, std::int64_t rows) const;
  /// Bytes of a sum.
  std::int64_t sum_bytes() const { return byte_size(compute_.reduction->accumulators[0].dtype); }
  /// The blocks where the reduction is cut: as many rows and columns as their sums leave room for.
  void cut_lanes_blocks(const Axis& column, std::int64_t columns, const Axis& row, std::int64_t rows,
                        std::int64_t piece, std::vector<schedule::Loop>& loops) const;
  void lanes_blocks(const Axis& column, std::int64_t columns, const Axis* row, std::int64_t rows,
                    std::vector<schedule::Loop>& loops) const;

  const tensor::Graph& graph_;
  const tensor::Op& op_;
  const tensor::Compute& compute_;
  const kernel::Target& target_;
  const std::vector<bool>& constant_;  ///< by op of the graph, or empty
  std::vector<schedule::StagedExpr> staged_;
  std::vector<Access> accesses_;
  std::vector<double> staged_operations_;
  double step_operations_ = 0, body_operations_ = 0;
  double points_ = 1, reduction_ = 1;
  bool may_sweep_ = false;  ///< sums may lie in memory
  AxisId running_;          ///< that of a running reduction, or none
  Choice* choice_;
  mutable std::vector<Tile> noted_;                                                     ///< when somebody wants to know
  mutable std::map<std::pair<const scalar::Node*, AxisId>, std::optional<Near>> near_;  ///< by read and vector axis
  mutable std::map<AxisId, double> window_operations_;                                  ///< by row axis, as asked for
  mutable std::map<std::pair<AxisId, std::int64_t>, std::int64_t> distinct_loads_;      ///< by row axis and rows
};

}  // namespace corrloom::passes::host
