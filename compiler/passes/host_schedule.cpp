#include "compiler/passes/host_schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "compiler/passes/host_reads.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "compiler/passes/strides.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"
#include "ir/schedule/staging.h"

namespace corrloom::passes {
namespace {

using host::Access;
using host::ceil_div;
using host::extent_of;
using host::mentions;
using host::Tile;
using scalar::AxisId;
using scalar::Expr;
using schedule::Bind;
using schedule::Loop;
using schedule::Staging;
using tensor::Axis;
using tensor::Compute;
using tensor::TensorId;

/// Elements of the vector axis in a piece that one block works through: a few pages, so that blocks are worth a task
/// each.
constexpr std::int64_t kPieceElements = 16384;
/// Operations that one block should have at least, so that handing it out costs little.
constexpr std::int64_t kBlockOperations = 1 << 15;
/// Most copies of the body that unrolling a reduction may make.
constexpr std::int64_t kMaxUnrolled = 80, kMaxUnrolledWindow = 150;
/// Most rows of a register tile, and most vectors in a row: of one that shares rows, and of one that walks memory.
constexpr std::int64_t kMaxRows = 14, kMaxVectors = 6, kMaxStreamVectors = 16;
/// Most operations of the points of a tile whose rows share what they read.
constexpr double kMostStencil = 256;
/// Elements that a block of short rows should have at least.
constexpr std::int64_t kBlockElements = 4096;
/// Operations of a body of which one vector at a time is enough.
constexpr double kLongBody = 24;
/// Cycles until a sum can be added to again.
constexpr double kLatency = 4;
/// Cycles that a turn of a loop costs beside its body.
constexpr double kLoop = 0.25;
/// Loads and arithmetic of whole vectors in a cycle.
constexpr double kLoadsPerCycle = 2, kArithmeticPerCycle = 2;
/// Bytes of a line of the caches.
constexpr double kLineBytes = 64;
/// Bytes in a cycle from the second-level cache, and from what lies behind it.
constexpr double kNearBytesPerCycle = 48, kFarBytesPerCycle = 16;
/// Most elements that the lanes of a load may lie apart to be picked from whole vectors.
constexpr std::int64_t kMostVectorStride = 4;
/// Cycles: of a load under a mask, which bodies of their own have at borders only, of one element that is gathered, of
/// a vector that is stored through a transpose, of one that is scattered, of an element that is copied along memory or
/// across it.
constexpr double kMaskedLoad = 0.5, kGatheredElement = 1, kTransposedStore = 5, kScatteredStore = 24;
constexpr double kCopiedElement = 0.25, kTransposedElement = 0.6;
/// What a load costs when more rows share a set of the first-level cache than it has ways.
constexpr double kCollision = 4;
/// How much of their time loads, and what comes from behind the first-level cache, add to a step that they do not
/// bound.
constexpr double kLoadShare = 0.25, kFarShare = 0.05;
/// Cycles of a step to another page.
constexpr double kPageStep = 1;
/// Taps of a long window that are unrolled together.
constexpr std::int64_t kLongWindow = 6;
/// A page of memory, and what one way of the first-level cache holds: rows of a tile that many bytes apart share a set.
constexpr std::int64_t kPageBytes = 4096;
/// Elements of a panel must be used that often before packing them pays.
constexpr std::int64_t kWorthPacking = 16;
/// Columns of a result that are worked on together when operands leave the last-level cache.
constexpr std::int64_t kFarColumns = 1024;

class HostChooser {
 public:
  HostChooser(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target, bool may_copy,
              const std::vector<bool>& constant, Choice* choice)
      : graph_(graph),
        op_(op),
        compute_(std::get<Compute>(op.kind)),
        target_(target),
        constant_(constant),
        may_sweep_(may_copy),
        choice_(choice) {
    running_ = running_axis(graph, compute_);
    if (may_copy) staged_ = schedule::staged_exprs(graph, op);
    if (compute_.reduction) {
      for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
        add_accesses(accumulator.step, true);
    }
    add_accesses(compute_.body, false);
    for (const schedule::StagedExpr& staged : staged_) staged_operations_.push_back(operations_of(staged.expr));
    if (compute_.reduction) {
      for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
        step_operations_ += operations_of(accumulator.step);
    }
    body_operations_ = operations_of(compute_.body);
    points_ = 1;
    for (const Axis& axis : compute_.axes) points_ *= static_cast<double>(extent_of(axis));
    reduction_ = static_cast<double>(reduction_size());
  }

  schedule::Stage run() {
    schedule::Stage stage;
    stage.compute = op_.name;
    if (by_lanes()) {
      lanes_loops(stage);
      return stage;
    }
    const Tile tile = best_tile();
    if (tile.vector == nullptr) {
      stage.loops = loops_by_elements();
    } else {
      tile_loops(tile, stage);
      note_taken(tile);
    }
    return stage;
  }

 private:
  // ---- what people are told

  /// Keeps the best tile of each kind: of the same axes and copies.
  void note(const Tile& tile) const {
    if (choice_ == nullptr) return;
    for (Tile& kept : noted_) {
      if (kept.vector != tile.vector || kept.row != tile.row || kept.staged != tile.staged) continue;
      if (tile.cycles < kept.cycles) kept = tile;
      return;
    }
    noted_.push_back(tile);
  }

  void note_taken(const Tile& taken) const {
    if (choice_ == nullptr) return;
    std::erase_if(noted_, [&](const Tile& tile) {
      return tile.vector == taken.vector && tile.row == taken.row && tile.staged == taken.staged;
    });
    std::stable_sort(noted_.begin(), noted_.end(), [](const Tile& a, const Tile& b) { return a.cycles < b.cycles; });
    noted_.insert(noted_.begin(), taken);
    for (const Tile& tile : noted_) choice_->considered.push_back({in_words(tile), tile.cycles});
  }

  /// `6 rows along i x 4 vectors along j, %B copied`
  std::string in_words(const Tile& tile) const {
    std::string words = tile.rows > 1 ? std::to_string(tile.rows) + " rows along " + tile.row->name + " x " : "";
    words +=
        std::to_string(tile.vectors) + (tile.vectors == 1 ? " vector" : " vectors") + " along " + tile.vector->name;
    if (tile.window > 1) words += ", " + std::to_string(tile.window) + " taps of the window at once";
    for (std::size_t k = 0; k < tile.staged.size(); ++k) {
      if (tile.staged[k]) words += ", " + graph_.op(staged_[k].tensor).name + " copied";
    }
    return words;
  }

  bool by_lanes() const { return compute_.reduction && compute_.reduction->order.kind == tensor::Order::Kind::Lanes; }

  /// True for an axis that needs no block: of one element, or walked by a running reduction.
  bool is_not_shared(const Axis& axis) const { return extent_of(axis) == 1 || axis.id == running_; }

  // ---- what the compute reads

  void add_accesses(const Expr& root, bool in_step) {
    std::map<const scalar::Node*, bool> guarded;
    scalar::for_each_node(root, [&](const Expr& node) {
      const auto* apply = std::get_if<scalar::Apply>(&node->kind);
      if (apply == nullptr || apply->opcode != scalar::Opcode::If) return;
      for (std::size_t k : {1u, 2u}) {
        scalar::for_each_node(apply->args[k], [&](const Expr& inner) { guarded[inner.get()] = true; });
      }
    });
    scalar::for_each_node(root, [&](const Expr& node) {
      const scalar::Read* read = scalar::as_read(node);
      if (read == nullptr) return;
      Access access;
      access.read = read;
      access.node = node.get();
      access.in_step = in_step;
      access.guarded = guarded.contains(node.get());
      access.element_bytes = byte_size(graph_.op(read->source).dtype);
      access.offset = affine::linear_form(linear_position(read->index, graph_.op(read->source).extents));
      for (const Expr& subscript : read->index) {
        uses_axis(subscript, [&](AxisId used) {
          access.axes.insert(used);
          return false;
        });
      }
      for (std::size_t k = 0; in_step && k < staged_.size(); ++k) {
        scalar::for_each_node(staged_[k].expr, [&](const Expr& inner) {
          if (inner == node) access.staged = static_cast<int>(k);
        });
      }
      accesses_.push_back(std::move(access));
    });
  }

  std::int64_t reduction_size() const {
    std::int64_t size = 1;
    if (!compute_.reduction) return size;
    for (const Axis& axis : compute_.reduction->axes) {
      const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
      if (!extent || __builtin_mul_overflow(size, *extent, &size)) return std::int64_t{1} << 40;
    }
    return std::max<std::int64_t>(size, 1);
  }

  /// Lanes of a vector of the widest dtype that the compute works in.
  std::int64_t lanes() const {
    int widest = byte_size(op_.dtype);
    if (compute_.reduction) {
      for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
        widest = std::max(widest, byte_size(accumulator.dtype));
    }
    return std::max(1, target_.vector_bytes / std::max(widest, 4));
  }

  /// True when the range of some reduction axis depends on the output axis: its points would run for different times.
  bool bounds_reduction(const Axis& axis) const {
    return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                             [&](const Axis& reduced) { return mentions(reduced.extent, axis.id); });
  }

  // ---- register tiles

  Tile best_tile() const {
    Tile best;
    for (const Axis& vector : compute_.axes) {
      if (extent_of(vector) <= 1 || bounds_reduction(vector)) continue;
      consider_rows(vector, nullptr, best);
      for (const Axis& row : compute_.axes) {
        if (&row != &vector && extent_of(row) > 1 && !bounds_reduction(row) && shares_loads(vector, row))
          consider_rows(vector, &row, best);
      }
    }
    return best;
  }

  const Axis* last_reduction() const {
    return compute_.reduction && !compute_.reduction->axes.empty() ? &compute_.reduction->axes.back() : nullptr;
  }

  bool is_window(const Axis& row, const Axis& vector) const {
    const Axis* last = last_reduction();
    return last != nullptr && scalar::as_i64(last->extent) &&
           std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
             const std::int64_t taps = std::min<std::int64_t>(*scalar::as_i64(last->extent), 8);
             const bool loads = access.in_step && access.depends_on(vector.id);
             const std::int64_t reached = loads ? access.window(row.id, 8, last->id, taps) : 0;
             return reached > 0 && reached < 8 * taps;
           });
  }

  /// Whether rows along the axis read rows of the same elements: `x[i, j] + x[i + 1, j]`.
  bool is_stencil(const Axis& row) const {
    constexpr std::int64_t kRows = 8;
    const std::int64_t same_for_all = distinct_loads(&row, 0);
    return distinct_loads(&row, kRows) - same_for_all < (distinct_loads(&row, 1) - same_for_all) * kRows;
  }

  /// Different loads that so many rows of the body make, for one vector.
  std::int64_t distinct_loads(const Axis* row, std::int64_t rows) const {
    std::set<std::tuple<TensorId, std::vector<std::int64_t>, std::int64_t>> loads;
    std::int64_t others = 0;
    for (const Access& access : accesses_) {
      if (access.in_step) continue;
      const std::int64_t stride = row == nullptr ? 0 : access.stride(row->id);
      if (!access.is_affine() || (row != nullptr && stride == 0)) {
        others += rows;  // a load that all rows share saves nothing else
        continue;
      }
      std::vector<std::int64_t> strides;
      for (const Axis& axis : compute_.axes) strides.push_back(access.stride(axis.id));
      for (std::int64_t r = 0; r < rows; ++r)
        loads.emplace(access.read->source, strides, access.offset->constant + r * stride);
    }
    return static_cast<std::int64_t>(loads.size()) + others;
  }

  /// How much of the loads and operations of a body is left when the rows of the tile share them.
  double shared_part(const Tile& tile) const {
    if (compute_.reduction || tile.row == nullptr || tile.rows < 2) return 1;
    return static_cast<double>(distinct_loads(tile.row, tile.rows)) /
           static_cast<double>(distinct_loads(tile.row, 1) * tile.rows);
  }

  /// Rows along the axis use loads together, or are stored together.
  bool shares_loads(const Axis& vector, const Axis& row) const {
    if (&row == &compute_.axes.back()) return true;
    if (compute_.reduction ? is_window(row, vector) : is_stencil(row)) return true;
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      return access.depends_on(vector.id) && !access.depends_on(row.id);
    });
  }

  void consider_rows(const Axis& vector, const Axis* row, Tile& best) const {
    const std::int64_t width = lanes(), fitting = ceil_div(extent_of(vector), width);
    // Without a reduction more vectors only make the body longer.
    const std::int64_t streams = compute_.reduction ? kMaxStreamVectors : body_operations_ > kLongBody ? 1 : 4;
    const std::int64_t most_vectors = std::min(fitting, row == nullptr ? streams : kMaxVectors);
    const std::int64_t most_rows = row == nullptr ? 1 : std::min(extent_of(*row), std::max(kMaxRows, width));
    const bool window = row != nullptr && compute_.reduction && is_window(*row, vector);
    const bool stencil = row != nullptr && !compute_.reduction && &vector == &compute_.axes.back() && is_stencil(*row);
    // Without a reduction a load that rows share is one from the nearest cache: a longer body is only worth a window's.
    if (!compute_.reduction && row != nullptr && row != &compute_.axes.back() && !stencil) return;
    for (std::int64_t rows = 1; rows <= most_rows; ++rows) {
      for (std::int64_t vectors = 1; vectors <= most_vectors; ++vectors) {
        if (rows * vectors + vectors + 1 >= target_.vector_registers &&
            !(vectors == 1 && rows <= width && !compute_.reduction))
          continue;
        if (rows > 1 && row == nullptr) continue;
        if (stencil && static_cast<double>(rows * vectors) * body_operations_ > kMostStencil) continue;
        Tile tile{&vector, row, rows, vectors, 0, {}, 0};
        consider_copies(tile, best);
        if (!window || rows * vectors > target_.vector_registers / 2) continue;
        const std::int64_t taps = *scalar::as_i64(last_reduction()->extent);
        tile.window = taps <= 11 ? taps : kLongWindow;
        if (rows > 1 && rows * vectors * tile.window <= kMaxUnrolledWindow + 30) consider_copies(tile, best);
      }
    }
  }

  void consider_copies(Tile tile, Tile& best) const {
    const std::size_t choices = std::size_t{1} << std::min<std::size_t>(staged_.size(), 3);
    for (std::size_t choice = 0; choice < choices; ++choice) {
      tile.staged.assign(staged_.size(), false);
      bool possible = true;
      for (std::size_t k = 0; k < std::min<std::size_t>(staged_.size(), 3); ++k) {
        tile.staged[k] = (choice >> k & 1) != 0;
        possible &= !tile.staged[k] || (can_stage(k) && changes_loads(k, tile));
      }
      if (!possible) continue;
      tile.cycles = cost(tile);
      note(tile);
      if (tile.cycles < best.cycles * 0.999) best = tile;
    }
  }

  double elements_of(std::size_t staged) const {
    double elements = 1;
    for (const schedule::Part& part : staged_[staged].parts) elements *= static_cast<double>(part.count());
    return elements;
  }

  /// The copy is made before the calls.
  bool is_constant(std::size_t staged) const {
    return !constant_.empty() && constant_[static_cast<std::size_t>(staged_[staged].tensor.index)];
  }

  /// A copy pays only when its elements are used often, or when it is free.
  bool can_stage(std::size_t staged) const {
    const bool pays = is_constant(staged) || elements_of(staged) * kWorthPacking <= points_ * reduction_;
    return pays && elements_of(staged) < 1e10;
  }

  /// Whether a copy is read in another way: without conditions, or along the vector axis.
  bool changes_loads(std::size_t staged, const Tile& tile) const {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      return access.staged == static_cast<int>(staged) && (access.guarded || access.depends_on(tile.vector->id));
    });
  }

  /// The part of a staged expression that is moved by the axis, or null.
  static const schedule::Part* part_of(const schedule::StagedExpr& staged, AxisId axis) {
    const schedule::Part* found = nullptr;
    for (const schedule::Part& part : staged.parts) {
      for (const affine::LinearForm::Term& term : part.terms) {
        if (axis_of(term.expr) == axis) found = found == nullptr ? &part : found;
      }
    }
    return found;
  }

  /// Cycles of one load: along the vector axis when it depends on it.
  double load_cost(const Access& access, const Tile& tile) const {
    const bool copied = access.staged >= 0 && tile.staged[static_cast<std::size_t>(access.staged)];
    const double guard = access.guarded && !copied ? kMaskedLoad : 0;
    if (!access.depends_on(tile.vector->id)) return 1 + guard * 18 + (rows_collide(access, tile) ? kCollision : 0);
    if (copied) {
      const schedule::Part* part = part_of(staged_[static_cast<std::size_t>(access.staged)], tile.vector->id);
      const bool along = part != nullptr && std::all_of(part->terms.begin(), part->terms.end(), [&](const auto& term) {
                           return axis_of(term.expr) != tile.vector->id || term.coefficient == 1;
                         });
      if (!along) return static_cast<double>(lanes()) * kGatheredElement;
      return part->terms.size() > 1 && is_shifted(access) ? 2 : 1;  // windows are copied as they lie
    }
    const std::int64_t stride = access.stride(tile.vector->id);
    if (stride == 1) return (is_shifted(access) ? 2 : 1) + guard;
    if (stride > 1 && stride <= kMostVectorStride) return static_cast<double>(stride) + guard;
    return static_cast<double>(lanes()) * kGatheredElement + guard;
  }

  /// Whether the reduction moves the vectors by single elements: most of them lie across two lines of the cache.
  bool is_shifted(const Access& access) const {
    return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                             [&](const Axis& axis) { return access.stride(axis.id) % lanes() != 0; });
  }

  /// Whether the rows of the tile lie so far apart that they share few sets of the first-level cache.
  bool rows_collide(const Access& access, const Tile& tile) const {
    const std::int64_t ways = target_.l1_bytes / kPageBytes;
    return tile.row != nullptr && tile.rows > ways && access.depends_on(tile.row->id) &&
           std::abs(access.stride(tile.row->id)) * access.element_bytes >= kPageBytes / 2;
  }

  /// How many loads of an access a step of the tile makes.
  double loads_of(const Access& access, const Tile& tile) const {
    const bool on_vector = access.depends_on(tile.vector->id),
               on_row = tile.row != nullptr && access.depends_on(tile.row->id);
    const auto rows = static_cast<double>(tile.rows), vectors = static_cast<double>(tile.vectors);
    double count = on_vector ? vectors : 1;
    if (!on_row) return count;
    const std::int64_t reached =
        tile.window > 1 ? access.window(tile.row->id, tile.rows, last_reduction()->id, tile.window) : 0;
    return count * (reached > 0 ? static_cast<double>(reached) / static_cast<double>(tile.window) : rows);
  }

  static double operations_of(const Expr& expr) {
    double operations = 0;
    scalar::for_each_node(expr, [&](const Expr& node) {
      if (const auto* apply = std::get_if<scalar::Apply>(&node->kind);
          apply != nullptr && node->dtype != DType::I64 && node->dtype != DType::Bool)
        ++operations;
    });
    return operations;
  }

  /// Operations of the step that rows of a window share with the elements that they read: all that is made of those
  /// alone.
  double window_operations(const Tile& tile) const {
    if (tile.row == nullptr || tile.window < 2) return 0;
    const auto found = window_operations_.find(tile.row->id);
    if (found != window_operations_.end()) return found->second;
    std::map<const scalar::Node*, bool> moves;  // reads, and whether a window moves them
    for (const Access& access : accesses_)
      moves[access.node] = access.window(tile.row->id, 2, last_reduction()->id, 2) > 0;
    double operations = 0;
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators) {
      scalar::for_each_node(accumulator.step, [&](const Expr& node) {
        if (!std::holds_alternative<scalar::Apply>(node->kind) || operations_of(node) == 0) return;
        bool reads = false, shared = true;
        scalar::for_each_node(node, [&](const Expr& inner) {
          reads |= moves.contains(inner.get());
          if (const auto read = moves.find(inner.get()); read != moves.end()) shared &= read->second;
          shared &= !std::holds_alternative<scalar::AccRef>(inner->kind);
        });
        operations += reads && shared && node->dtype != DType::I64 && node->dtype != DType::Bool ? 1 : 0;
      });
    }
    return window_operations_[tile.row->id] = operations;
  }

  /// Operations of one step of the tile, on whole vectors.
  double tile_operations(const Tile& tile) const {
    const auto points = static_cast<double>(tile.rows * tile.vectors);
    double operations = step_operations_, shared = window_operations(tile);
    for (std::size_t k = 0; k < staged_.size(); ++k) {
      if (!tile.staged[k]) continue;
      operations -= staged_operations_[k];
      shared = std::max(0.0, shared - staged_operations_[k]);
    }
    double reached = 1;
    for (const Access& access : accesses_) {
      if (shared == 0 || !access.in_step) continue;
      const std::int64_t elements = access.window(tile.row->id, tile.rows, last_reduction()->id, tile.window);
      if (elements > 0) reached = static_cast<double>(elements) / static_cast<double>(tile.rows * tile.window);
    }
    return (operations - shared + shared * reached) * points;
  }

  /// Cycles of the whole compute with that tile, copies included.
  double cost(const Tile& tile) const {
    const auto rows = static_cast<double>(tile.rows), vectors = static_cast<double>(tile.vectors);
    double step_loads = 0, body_loads = 0, far = 0;
    for (const Access& access : accesses_) {
      const double cycles = load_cost(access, tile) * loads_of(access, tile);
      (access.in_step ? step_loads : body_loads) += cycles;
      if (access.in_step && access.depends_on(tile.vector->id)) far += far_cycles(access, tile);
    }
    double step = 0;
    if (compute_.reduction) {
      const double loads = step_loads / kLoadsPerCycle;
      step = kLoop + std::max({tile_operations(tile) / kArithmeticPerCycle, loads, kLatency, far}) +
             kLoadShare * loads + kFarShare * far + pages_of_step(tile);
    }
    const double body = std::max(body_operations_ * rows * vectors / kArithmeticPerCycle, body_loads / kLoadsPerCycle) *
                        shared_part(tile);
    const double outer = points_ / static_cast<double>(extent_of(*tile.vector)) /
                         (tile.row == nullptr ? 1 : static_cast<double>(extent_of(*tile.row)));
    const double tiles =
        outer * static_cast<double>(ceil_div(extent_of(*tile.vector), lanes() * tile.vectors)) * row_tiles(tile);
    return tiles * (step * reduction_ + body + rows * vectors * store_cost(tile) + line_cost(tile) + 4) +
           copy_cost(tile);
  }

  /// Cycles, beside others, until the lines of a window have come near: each row begins and ends in the middle of one.
  double line_cost(const Tile& tile) const {
    double lines = 0;
    for (const Access& access : accesses_) {
      if (!access.in_step || tile.row == nullptr || access.stride(tile.vector->id) != 1) continue;
      const std::optional<std::int64_t> taps = scalar::as_i64(last_reduction()->extent);
      const std::int64_t rows = access.window(tile.row->id, tile.rows, last_reduction()->id,
                                              std::clamp<std::int64_t>(taps.value_or(1), 1, 32));
      lines += static_cast<double>(rows) * (static_cast<double>(tile.vectors * access.element_bytes) / 4 + 1);
    }
    return lines * kLineBytes / kNearBytesPerCycle / 2;
  }

  /// Cycles for operands in place that lie on another page at each step: their addresses are looked up again.
  double pages_of_step(const Tile& tile) const {
    const Axis* last = last_reduction();
    double pages = 0;
    for (const Access& access : accesses_) {
      const bool broadcast = access.in_step && !access.depends_on(tile.vector->id);
      if (broadcast && last != nullptr && std::abs(access.stride(last->id)) * access.element_bytes >= kPageBytes)
        pages += kPageStep;
    }
    return pages;
  }

  /// Tiles along the row axis; a last one of few rows costs as much as a whole one at most.
  double row_tiles(const Tile& tile) const {
    if (tile.row == nullptr) return 1;
    const std::int64_t extent = extent_of(*tile.row), rest = extent % tile.rows;
    const auto rows = static_cast<double>(tile.rows);
    return static_cast<double>(extent / tile.rows) +
           (rest == 0 ? 0 : std::min(1.0, std::max(static_cast<double>(rest) / rows, std::min(4.0, rows) / rows)));
  }

  double store_cost(const Tile& tile) const {
    if (tile.vector == &compute_.axes.back()) return 1;
    if (tile.row != &compute_.axes.back() || tile.rows < 4) return kScatteredStore;
    return kTransposedStore * static_cast<double>(lanes()) / static_cast<double>(std::min(tile.rows, lanes()));
  }

  /// Cycles in which what a step reads of the vector operand comes from behind the first-level cache: all that the tile
  /// reads, over the whole reduction, is read again by the next tile.
  double far_cycles(const Access& access, const Tile& tile) const {
    const double bytes = loads_of(access, tile) * target_.vector_bytes * static_cast<double>(access.element_bytes) / 4;
    double all = bytes;
    for (const Axis& axis : compute_.reduction->axes) {
      // A step of a few elements stays in the same lines.
      const bool in_place = access.stride(tile.vector->id) == 1;
      const bool moves = in_place ? std::abs(access.stride(axis.id)) >= lanes() : access.depends_on(axis.id);
      if (moves) all *= static_cast<double>(std::max<std::int64_t>(scalar::as_i64(axis.extent).value_or(1024), 1));
    }
    if (all <= static_cast<double>(target_.l1_bytes) / 2) return 0;
    return bytes / (all <= 0.6 * static_cast<double>(target_.l2_bytes) ? kNearBytesPerCycle : kFarBytesPerCycle);
  }

  double copy_cost(const Tile& tile) const {
    double cycles = 0;
    for (std::size_t k = 0; k < staged_.size(); ++k) {
      if (!tile.staged[k] || is_constant(k)) continue;
      bool across = false;
      for (const Access& access : accesses_) {
        if (access.staged == static_cast<int>(k) && access.depends_on(tile.vector->id) &&
            access.stride(tile.vector->id) != 1)
          across = true;
      }
      cycles += elements_of(k) * (across ? kTransposedElement : kCopiedElement);
    }
    return cycles;
  }

  // ---- loops

  /// One output element at a time: there is nothing to make vectors of.
  std::vector<Loop> loops_by_elements() const {
    std::vector<Loop> loops = element_blocks(reduction_size());
    add_reduction(loops, 1, 0);
    return loops;
  }

  /// Inner axes stay within a block until it has enough to do.
  std::vector<Loop> element_blocks(std::int64_t operations) const {
    std::vector<Loop> loops, serial;
    for (auto axis = compute_.axes.rbegin(); axis != compute_.axes.rend(); ++axis) {
      if (is_not_shared(*axis)) continue;
      const std::int64_t wanted = std::max<std::int64_t>(1, kBlockOperations / std::max<std::int64_t>(operations, 1));
      const std::int64_t piece = std::min(std::max<std::int64_t>(extent_of(*axis), 1), wanted);
      loops.insert(loops.begin(), {axis->name, piece, Bind::Block});
      if (piece > 1) serial.insert(serial.begin(), {axis->name, 1, Bind::Serial});
      if (__builtin_mul_overflow(operations, piece, &operations)) operations = kBlockOperations;
    }
    loops.insert(loops.end(), serial.begin(), serial.end());
    return loops;
  }

  void add_reduction(std::vector<Loop>& loops, std::int64_t points, std::int64_t window) const {
    if (!compute_.reduction) return;
    for (const Axis& axis : compute_.axes) {
      if (axis.id == running_ && extent_of(axis) != 1) loops.push_back({axis.name, 1, Bind::Serial});
    }
    const std::vector<Axis>& axes = compute_.reduction->axes;
    // From the last axis outwards, as many as unrolling can take.
    std::vector<bool> unrolled(axes.size(), false);
    std::int64_t copies = points;
    for (std::size_t k = axes.size(); k-- > 0 && !by_lanes();) {
      const std::optional<std::int64_t> extent = scalar::as_i64(axes[k].extent);
      if (!extent || __builtin_mul_overflow(copies, *extent, &copies) ||
          copies > (window > 1 ? kMaxUnrolledWindow : kMaxUnrolled))
        break;
      unrolled[k] = true;
    }
    // Part of a nest is unrolled only for the loads that its taps share.
    const bool all = !unrolled.empty() && unrolled.front();
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const bool last = k + 1 == axes.size();
      if (last && by_lanes()) {
        loops.push_back({axes[k].name, 1, Bind::Vector});
      } else if (last && window > 1) {
        if (*scalar::as_i64(axes[k].extent) > window) loops.push_back({axes[k].name, window, Bind::Serial});
        loops.push_back({axes[k].name, 1, Bind::Unroll});
      } else {
        loops.push_back({axes[k].name, 1, all ? Bind::Unroll : Bind::Serial});
      }
    }
  }

  void tile_loops(const Tile& tile, schedule::Stage& stage) const {
    const host::Reads reads{graph_, compute_, accesses_, target_, lanes()};
    if (may_sweep_ && !running_ && host::sweeps(reads, tile)) return host::sweep_loops(reads, tile, stage);
    const std::int64_t width = lanes() * tile.vectors;
    for (std::size_t k = 0; k < staged_.size(); ++k) {
      if (tile.staged[k]) stage.staging.push_back(panel(k, tile, width));
    }
    std::vector<Loop>& loops = stage.loops;
    if (!compute_.reduction) {
      streaming_loops(tile, width, loops);
      host::prefetch_across(reads, tile, width, stage);
    } else if (tile.row != nullptr && !has_panel(tile)) {
      window_loops(tile, width, loops);
    } else {
      panel_loops(tile, width, loops, stage);
    }
    add_reduction(loops, tile.rows * tile.vectors, tile.window);
    host::add_tile(tile, lanes(), loops);
  }

  /// Memory order: outer axes one by one, or several short rows to a block, and long pieces of the vector axis. Where
  /// stores are transposed, four tiles stand beside each other in the result before the next vector of the other axis.
  void streaming_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops) const {
    const std::int64_t piece = std::max(width, kPieceElements / tile.rows / width * width);
    const bool across = tile.row != nullptr && tile.vector != &compute_.axes.back() && tile.rows > 1;
    const Axis* next = nullptr;
    for (const Axis& axis : compute_.axes) {
      if (&axis != tile.vector && extent_of(axis) > 1) next = &axis;
    }
    const std::int64_t short_rows = kBlockElements / std::max<std::int64_t>(extent_of(*tile.vector), 1);
    const auto together = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(
        tile.row != nullptr || next == nullptr ? 1 : std::clamp<std::int64_t>(short_rows, 1, extent_of(*next)))));
    for (const Axis& axis : compute_.axes) {
      if (&axis == tile.vector || extent_of(axis) == 1) continue;
      const std::int64_t rows = &axis == next ? together : 1;
      loops.push_back({axis.name, &axis != tile.row ? rows : across ? tile.rows * 4 : tile.rows, Bind::Block});
    }
    loops.push_back({tile.vector->name, piece, Bind::Block});
    if (together > 1) loops.push_back({next->name, 1, Bind::Serial});
    if (piece != width) loops.push_back({tile.vector->name, width, Bind::Serial});
    if (across) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
  }

  /// Whether the rows of the tile share an operand of the vector axis.
  bool has_panel(const Tile& tile) const {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      return access.in_step && access.depends_on(tile.vector->id) && !access.depends_on(tile.row->id);
    });
  }

  /// Memory order where rows share no more than a window: a band of rows from end to end, then the next. A block has as
  /// many as make it worth a task.
  void window_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops) const {
    std::vector<Loop> serial;
    double operations = reduction_;
    const auto add = [&](const Axis& axis, std::int64_t step, double wanted) {
      const std::int64_t steps = ceil_div(extent_of(axis), step);
      const std::int64_t piece = step * static_cast<std::int64_t>(std::clamp(wanted, 1.0, static_cast<double>(steps)));
      loops.insert(loops.begin(), {axis.name, piece, Bind::Block});
      if (piece != step) serial.insert(serial.begin(), {axis.name, step, Bind::Serial});
      operations *= static_cast<double>(std::min(piece, extent_of(axis)));
    };
    const auto worth = [&](std::int64_t step) {
      return static_cast<double>(kBlockOperations) / operations / static_cast<double>(step);
    };
    add(*tile.vector, width, static_cast<double>(kPieceElements / width));
    add(*tile.row, tile.rows, worth(tile.rows));
    for (auto axis = compute_.axes.rbegin(); axis != compute_.axes.rend(); ++axis) {
      if (&*axis != tile.vector && &*axis != tile.row && !is_not_shared(*axis)) add(*axis, 1, worth(1));
    }
    loops.insert(loops.end(), serial.begin(), serial.end());
  }

  /// Panels of the vector axis outside, rows inside: what a panel holds is used again and again.
  void panel_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops, schedule::Stage& stage) const {
    const double row_operations = reduction_ * static_cast<double>(tile.rows * width);
    const auto worth = [&](double operations) {
      return static_cast<std::int64_t>(
          std::max(1.0, static_cast<double>(kBlockOperations) / std::max(operations, 1.0)));
    };
    std::int64_t columns = width, rows = tile.rows;
    if (tile.row != nullptr) {
      const double row_bytes = reduction_ * 4;
      if (static_cast<double>(extent_of(*tile.row)) * row_bytes > static_cast<double>(target_.l3_bytes) / 4 &&
          extent_of(*tile.vector) > kFarColumns && extent_of(*tile.row) > 8 * tile.rows) {
        columns = ceil_div(kFarColumns, width) * width;
        const double fitting = static_cast<double>(target_.l3_bytes) / 16 / row_bytes / static_cast<double>(tile.rows);
        rows = tile.rows * std::max<std::int64_t>(4, static_cast<std::int64_t>(fitting));
      } else {
        rows = tile.rows * std::min(worth(row_operations), ceil_div(extent_of(*tile.row), tile.rows));
      }
    } else {
      columns = width * std::min(worth(row_operations), ceil_div(extent_of(*tile.vector), width));
    }
    add_panel_operand(tile, width, stage);
    std::vector<Loop> inner_blocks;
    for (const Axis& axis : compute_.axes) {
      if (&axis == tile.vector || &axis == tile.row || is_not_shared(axis)) continue;
      (is_batch(axis, *tile.vector) ? loops : inner_blocks).push_back({axis.name, 1, Bind::Block});
    }
    const Loop panels{tile.vector->name, columns, Bind::Block};
    if (!panels_stay_near(tile)) loops.push_back(panels);
    loops.insert(loops.end(), inner_blocks.begin(), inner_blocks.end());
    if (panels_stay_near(tile)) loops.push_back(panels);
    if (tile.row != nullptr) loops.push_back({tile.row->name, rows, Bind::Block});
    if (columns != width) loops.push_back({tile.vector->name, width, Bind::Serial});
    if (rows != tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
  }

  /// Whether all panels together stay in the second-level cache, so that each place is better done with all of them at
  /// once.
  bool panels_stay_near(const Tile& tile) const {
    double bytes = 0;
    for (const Access& access : accesses_) {
      if (!access.in_step || !access.depends_on(tile.vector->id)) continue;
      double elements = access.element_bytes;
      for (const Expr& extent : graph_.op(access.read->source).extents)
        elements *= static_cast<double>(scalar::as_i64(extent).value_or(1 << 20));
      bytes += elements;
    }
    return bytes <= static_cast<double>(target_.l2_bytes) / 4;
  }

  /// The operands that depend on the vector axis depend on this one, too: nothing is used again along it.
  bool is_batch(const Axis& axis, const Axis& vector) const {
    return std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      return !access.in_step || !access.depends_on(vector.id) || access.depends_on(axis.id);
    });
  }

  /// Packs the operand of the vector axis where its rows lie far apart and many rows of the tile use it again.
  void add_panel_operand(const Tile& tile, std::int64_t width, schedule::Stage& stage) const {
    const bool reused = tile.row != nullptr && extent_of(*tile.row) >= kWorthPacking * tile.rows;
    for (const Access& access : accesses_) {
      if (access.staged < 0 || tile.staged[static_cast<std::size_t>(access.staged)] || access.guarded) continue;
      const auto number = static_cast<std::size_t>(access.staged);
      if (!reused && !is_constant(number)) continue;
      const schedule::Part* part = part_of(staged_[number], tile.vector->id);
      const bool alone = part != nullptr && part->terms.size() == 1;
      const bool large =
          elements_of(number) * static_cast<double>(access.element_bytes) > static_cast<double>(target_.l2_bytes) / 2;
      const bool moved = tile.row != nullptr && access.depends_on(tile.row->id);
      if (alone && large && !moved && extent_of(*tile.vector) > width)
        stage.staging.push_back(panel(number, tile, width));
    }
  }

  /// The copy of a staged expression: as it lies, with the vector axis innermost in panels as wide as the tile.
  Staging panel(std::size_t number, const Tile& tile, std::int64_t width) const {
    using Kind = Staging::Dim::Kind;
    const schedule::StagedExpr& staged = staged_[number];
    Staging out;
    out.tensor = graph_.op(staged.tensor).name;
    const schedule::Part* vector = part_of(staged, tile.vector->id);
    const bool in_panels = vector != nullptr && vector->terms.size() == 1;
    const std::string along = vector == nullptr ? "" : to_text(*vector, graph_);
    if (in_panels) out.layout.push_back({along, Kind::Outer, width});
    for (const schedule::Part& part : staged.parts) {
      if (&part != vector) out.layout.push_back({to_text(part, graph_)});
    }
    if (in_panels) {
      out.layout.push_back({along, Kind::Inner, width});
    } else if (vector != nullptr) {
      out.layout.push_back({along});
    }
    return out;
  }

  // ---- reductions by lanes

  /// Rows and columns of the result whose vectors run along the reduction: each load of one side meets all of the
  /// other.
  void lanes_loops(schedule::Stage& stage) const {
    const Axis* column = nullptr;
    for (const Axis& axis : compute_.axes) {
      if (extent_of(axis) > 1 && !bounds_reduction(axis)) column = &axis;
    }
    const Axis* row = nullptr;
    for (const Axis& axis : compute_.axes) {
      if (column == nullptr || &axis == column || extent_of(axis) <= 1 || bounds_reduction(axis)) continue;
      const bool reuses = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
        return access.in_step && access.depends_on(column->id) && !access.depends_on(axis.id);
      });
      if (reuses && (row == nullptr || extent_of(axis) > extent_of(*row))) row = &axis;
    }
    if (column == nullptr || compute_.reduction->accumulators.size() > 1) {
      stage.loops = element_blocks(reduction_size());
      add_reduction(stage.loops, 1, 0);
      return;
    }
    const bool wide = target_.vector_registers >= 32;
    const std::int64_t most = row == nullptr ? 4 : wide ? 8 : 4;
    const auto columns =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(most, extent_of(*column)))));
    const std::int64_t rows = row == nullptr ? 1 : std::min<std::int64_t>(wide ? 3 : 2, extent_of(*row));
    lanes_blocks(*column, columns, row, rows, stage.loops);
    add_reduction(stage.loops, 1, 0);
    // Columns outside: the few loads of the rows stay in registers beside the sums.
    if (columns > 1) stage.loops.push_back({column->name, 1, Bind::Unroll});
    if (rows > 1) stage.loops.push_back({row->name, 1, Bind::Unroll});
  }

  void lanes_blocks(const Axis& column, std::int64_t columns, const Axis* row, std::int64_t rows,
                    std::vector<Loop>& loops) const {
    for (const Axis& axis : compute_.axes) {
      if (&axis != &column && &axis != row && !is_not_shared(axis)) loops.push_back({axis.name, 1, Bind::Block});
    }
    const double tile_operations = reduction_ * static_cast<double>(rows * columns);
    const auto tiles =
        static_cast<std::int64_t>(std::max(1.0, 4 * static_cast<double>(kBlockOperations) / tile_operations));
    std::int64_t row_piece = rows, column_piece = columns;
    if (row != nullptr) {
      // Rows that pass by stay in the second-level cache for the next columns.
      const double fitting = static_cast<double>(target_.l2_bytes) / 4 / (reduction_ * 4) / static_cast<double>(rows);
      row_piece =
          rows * std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, ceil_div(extent_of(*row), rows));
      column_piece =
          columns * std::min<std::int64_t>(ceil_div(tiles * rows, row_piece), ceil_div(extent_of(column), columns));
      loops.push_back({row->name, row_piece, Bind::Block});
    } else {
      column_piece = columns * std::min(tiles, ceil_div(extent_of(column), columns));
    }
    loops.push_back({column.name, column_piece, Bind::Block});
    if (column_piece != columns) loops.push_back({column.name, columns, Bind::Serial});
    if (row != nullptr && row_piece != rows) loops.push_back({row->name, rows, Bind::Serial});
  }

  const tensor::Graph& graph_;
  const tensor::Op& op_;
  const Compute& compute_;
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
  mutable std::vector<Tile> noted_;                     ///< when somebody wants to know
  mutable std::map<AxisId, double> window_operations_;  ///< by row axis, as asked for
};

}  // namespace

schedule::Stage host_stage(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target,
                           bool may_copy, const std::vector<bool>& constant, Choice* choice) {
  return HostChooser(graph, op, target, may_copy, constant, choice).run();
}

}  // namespace corrloom::passes
