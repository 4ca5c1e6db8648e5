#include "compiler/passes/host_fusion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/host_schedule.h"
#include "compiler/passes/operations.h"
#include "compiler/passes/readers.h"
#include "ir/schedule/regions.h"

namespace corrloom::passes {
namespace {

using schedule::Bind;
using schedule::Loop;
using schedule::Placement;
using schedule::Region;
using schedule::Regions;
using schedule::Schedule;
using schedule::Stage;
using tensor::Compute;
using tensor::TensorId;

/// Bytes that the tiles of producers may take in a kernel, and which part of the second-level cache: less than a stack.
constexpr double kMostInsideBytes = 448 << 10, kMostOfCache = 0.45;
/// How many times its elements a producer may be computed over all blocks, and how many times its operands read where
/// they leave the second-level cache.
constexpr double kMostRepeated = 1.3, kMostReread = 1.5;
/// By how much a block may grow along one axis, and one of pieces of lines.
constexpr std::int64_t kMostGrowth = 64, kMostPieceGrowth = 1024;
/// By how much a block may grow along another one, and how many blocks there should be then.
constexpr std::int64_t kMostRowGrowth = 16;
constexpr double kLeastBlocks = 16;
/// Operations of producers that are worth a block of its own, and the part of the nearest cache that what blocks have
/// in common may take.
constexpr double kBlockOperations = 1 << 17, kShareOfNearest = 0.25;
/// Rows that are summed side by side, and which part of the second-level cache they may take.
constexpr std::int64_t kRowsTogether = 4;
constexpr double kMostOfRows = 0.45;
/// By how much a block may grow so that panels are walked less often.
constexpr std::int64_t kMostTurnGrowth = 8;
/// What walking them takes of the time of a block that has not grown.
constexpr double kWalkShare = 0.08;
/// Which part of the first-level cache the tiles of producers may take where blocks can be cut into pieces of lines,
/// how much more than that, how long pieces are at least, and how much more may be computed for it.
constexpr double kMostOfNearest = 0.45, kTolerance = 1.1, kMostMoreWork = 1.06;
constexpr std::int64_t kLeastPiece = 192;

/// So many operations, some 20 us of one thread, are worth a kernel of their own, which several threads share.
constexpr double kWorthThreads = 4e6;

double points_of(const std::vector<tensor::Axis>& axes) {
  double points = 1;
  for (const tensor::Axis& axis : axes) points *= static_cast<double>(scalar::as_i64(axis.extent).value_or(1));
  return points;
}

double size_of(const std::vector<Region>& regions) {
  double size = 1;
  for (const Region& region : regions) size *= static_cast<double>(region.size);
  return size;
}

/// A compute that cannot go inside its reader, and why.
struct Misfit {
  TensorId id;
  std::string why;
};

class Placing {
 public:
  Placing(const tensor::Graph& graph, Schedule schedule, const kernel::Target& target,
          const std::vector<bool>& constant, Choices* choices)
      : graph_(graph), schedule_(std::move(schedule)), target_(target), constant_(constant), choices_(choices) {}

  Schedule run() {
    for (std::size_t k = schedule_.stages.size(); k-- > 0;) {
      if (schedule_.stages[k].placement.kind == Placement::Kind::Root) fuse_into(k);
    }
    return std::move(schedule_);
  }

 private:
  const Compute& compute_of(const Stage& stage) const { return std::get<Compute>(graph_.op(id_of(stage)).kind); }
  TensorId id_of(const Stage& stage) const {
    const auto op = std::find_if(graph_.ops.begin(), graph_.ops.end(), [&](const tensor::Op& candidate) {
      return candidate.name == stage.compute && std::holds_alternative<Compute>(candidate.kind);
    });
    return TensorId{static_cast<std::int32_t>(op - graph_.ops.begin())};
  }

  /// Position of the last block loop, or -1.
  static int block_position(const Stage& stage) {
    int position = -1;
    for (std::size_t k = 0; k < stage.loops.size() && stage.loops[k].bind == Bind::Block; ++k)
      position = static_cast<int>(k);
    return position;
  }

  /// Stages at the root that only the consumer and computes inside it read.
  std::vector<std::size_t> candidates(const Schedule& schedule, std::size_t consumer) const {
    std::set<TensorId> inside{id_of(schedule.stages[consumer])};
    std::vector<std::size_t> out;
    for (std::size_t k = consumer; k-- > 0;) {
      const TensorId id = id_of(schedule.stages[k]);
      if (schedule.stages[k].placement.kind == Placement::Kind::Root && !excluded_.contains(id) &&
          only_read_by(id, inside)) {
        inside.insert(id);
        out.push_back(k);
      }
    }
    return out;
  }

  bool only_read_by(TensorId id, const std::set<TensorId>& readers) const {
    for (const tensor::Output& output : graph_.outputs) {
      if (storage_root(graph_, output.value) == id) return false;
    }
    bool read = false;
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      bool here = false;
      for_each_use(graph_.ops[k], [&](TensorId source, const scalar::Read*) { here |= source == id; });
      if (here && !readers.contains(TensorId{static_cast<std::int32_t>(k)})) return false;
      read |= here;
    }
    return read;
  }

  /// Takes in all candidates; as long as one does not fit, tries again without it.
  void fuse_into(std::size_t consumer) {
    if (block_position(schedule_.stages[consumer]) < 0) return;
    excluded_.clear();
    for (std::size_t k = 0; k < constant_.size(); ++k) {
      if (!constant_[k]) continue;
      excluded_.insert(TensorId{static_cast<std::int32_t>(k)});
      note({TensorId{static_cast<std::int32_t>(k)}, "it would be computed in every call"},
           schedule_.stages[consumer].compute);
    }
    for (const schedule::Staging& staging : schedule_.stages[consumer].staging) {
      for (const tensor::Op& op : graph_.ops) {
        if (op.name != staging.tensor) continue;
        const TensorId id{static_cast<std::int32_t>(&op - graph_.ops.data())};
        excluded_.insert(id);
        note({id, "a packed copy of all of it is worked on"}, schedule_.stages[consumer].compute);
      }
    }
    const std::set<std::int64_t> growths = growths_of(consumer);
    for (;;) {
      const std::vector<std::size_t> producers = candidates(schedule_, consumer);
      if (producers.empty()) return;
      Misfit misfit;
      std::optional<Schedule> best = in_blocks_of_producer(consumer, producers);
      if (!best) best = with_turns_grown(consumer, producers);
      if (!best) best = with_producers(schedule_, consumer, producers, misfit);
      for (std::size_t loop = 0; !best && loop < schedule_.stages[consumer].loops.size(); ++loop) {
        for (std::int64_t growth : growths) {
          if (!best) best = with_grown_blocks(consumer, producers, loop, growth);
        }
      }
      for (std::size_t loop = 0; !best && loop < schedule_.stages[consumer].loops.size(); ++loop) {
        for (std::int64_t growth = 2; !best && growth <= kMostPieceGrowth; growth *= 2) {
          best = with_grown_pieces(consumer, producers, loop, growth);
        }
      }
      if (best) {
        std::optional<Schedule> better = with_rows_together(*best, consumer, producers);
        if (!better) better = with_short_pieces(*best, consumer, producers);
        if (!better) better = with_smaller_blocks(*best, consumer, producers);
        if (better) best = std::move(better);
        misfit = left_to_one_thread(*best, consumer, producers);
        if (misfit.why.empty()) {
          schedule_ = *std::move(best);
          return;
        }
      }
      excluded_.insert(misfit.id);
      note(misfit, schedule_.stages[consumer].compute);
    }
  }

  void note(const Misfit& misfit, const std::string& consumer) const {
    if (choices_ == nullptr) return;
    for (Choice& choice : *choices_) {
      if (choice.compute == graph_.op(misfit.id).name) choice.not_inside = "inside " + consumer + " " + misfit.why;
    }
  }

  /// Sums by lanes of a single row wait for one another: blocks of several rows, so that producers take them side by
  /// side, where these rows stay near. Nothing when no producer gains.
  std::optional<Schedule> with_rows_together(const Schedule& schedule, std::size_t consumer,
                                             const std::vector<std::size_t>& producers) const {
    double longest = 0;
    for (std::size_t producer : producers) {
      const Stage& stage = schedule.stages[producer];
      if (waits(stage) && reads_others(stage, schedule, producers)) longest = std::max(longest, bytes_of_row(stage));
    }
    if (longest == 0) return std::nullopt;
    for (std::int64_t rows = kRowsTogether; rows > 1; rows /= 2) {
      if (longest * static_cast<double>(rows) > static_cast<double>(target_.l2_bytes) * kMostOfRows) continue;
      for (std::size_t loop = schedule.stages[consumer].loops.size(); loop-- > 0;) {
        std::optional<Schedule> larger = with_larger_blocks(schedule, consumer, loop, rows);
        if (!larger || blocks_of(larger->stages[consumer]) < static_cast<double>(target_.at_scale(kLeastBlocks)))
          continue;
        larger->stages[consumer].prefetches = schedule_.stages[consumer].prefetches;
        Misfit ignored;
        larger = with_producers(*std::move(larger), consumer, producers, ignored);
        if (!larger) continue;
        const bool gains = std::none_of(producers.begin(), producers.end(), [&](std::size_t producer) {
          return waits(schedule.stages[producer]) && waits(larger->stages[producer]);
        });
        if (gains) return larger;
      }
    }
    return std::nullopt;
  }

  /// Blocks of pieces of lines whose producers' tiles stay in the first-level cache; nothing where whole ones do, or
  /// where pieces would have much in common.
  std::optional<Schedule> with_short_pieces(const Schedule& schedule, std::size_t consumer,
                                            const std::vector<std::size_t>& producers) const {
    const Stage& stage = schedule.stages[consumer];
    const Compute& compute = compute_of(stage);
    const int place = block_position(stage);
    if (compute.axes.empty() || place < 0) return std::nullopt;
    const tensor::Axis& line = compute.axes.back();
    std::int64_t block = 0, inner = 0;  // steps along the line: of blocks, and of the innermost loop around a tile
    std::size_t loop = 0;
    for (std::size_t k = 0; k < stage.loops.size(); ++k) {
      if (stage.loops[k].axis != line.name) continue;
      if (stage.loops[k].bind == Bind::Block) {
        block = stage.loops[k].step;
        loop = k;
      } else if (inner == 0 || stage.loops[k].bind == Bind::Serial) {
        inner = stage.loops[k].step;
      }
    }
    const std::int64_t extent = std::min(block, scalar::as_i64(line.extent).value_or(0));
    const double whole = bytes_inside(schedule, consumer, producers);
    const double most = kMostOfNearest * static_cast<double>(target_.l1_bytes);
    if (inner < 1 || extent < 1 || whole <= most) return std::nullopt;
    const auto fewest = static_cast<std::int64_t>(std::ceil(whole / most));
    for (std::int64_t pieces = fewest; pieces <= 2 * fewest; ++pieces) {
      const std::int64_t piece = (extent + pieces * inner - 1) / (pieces * inner) * inner;
      if (piece < kLeastPiece || piece >= extent) break;
      Schedule cut = schedule;
      std::vector<Loop>& loops = cut.stages[consumer].loops;
      loops[loop].step = piece;
      std::erase_if(loops, [&](const Loop& old) {
        return old.axis == line.name && old.bind == Bind::Serial && (old.step != inner || inner == piece);
      });
      Misfit ignored;
      std::optional<Schedule> found = with_producers(std::move(cut), consumer, producers, ignored);
      if (!found) continue;
      const double bytes = bytes_inside(*found, consumer, producers);
      const double work = bytes * blocks_of(found->stages[consumer]);
      if (bytes <= kTolerance * most && work <= kMostMoreWork * whole * blocks_of(stage)) return found;
    }
    return std::nullopt;
  }

  /// The producers in blocks of short pieces of lines that are so many times as large along one of the consumer's block
  /// loops: a whole line of each would leave the cache. Pieces are as long as they can be.
  std::optional<Schedule> with_grown_pieces(std::size_t consumer, const std::vector<std::size_t>& producers,
                                            std::size_t loop, std::int64_t growth) const {
    const Compute& compute = compute_of(schedule_.stages[consumer]);
    if (compute.axes.empty()) return std::nullopt;
    const tensor::Axis& line = compute.axes.back();
    const std::optional<Schedule> grown = with_larger_blocks(schedule_, consumer, loop, growth);
    if (!grown || schedule_.stages[consumer].loops[loop].axis == line.name) return std::nullopt;
    const std::vector<Loop>& loops = grown->stages[consumer].loops;
    const auto block = std::find_if(loops.begin(), loops.end(), [&](const Loop& candidate) {
      return candidate.axis == line.name && candidate.bind == Bind::Block;
    });
    const auto inner = std::find_if(loops.begin(), loops.end(), [&](const Loop& candidate) {
      return candidate.axis == line.name && candidate.bind == Bind::Serial;
    });
    if (block == loops.end() || inner == loops.end()) return std::nullopt;
    const std::int64_t extent = std::min(block->step, scalar::as_i64(line.extent).value_or(0));
    for (std::int64_t pieces = 2; extent / pieces >= kLeastPiece; pieces *= 2) {
      const std::int64_t piece = (extent + pieces * inner->step - 1) / (pieces * inner->step) * inner->step;
      if (piece >= extent) return std::nullopt;
      Schedule cut = *grown;
      cut.stages[consumer].loops[static_cast<std::size_t>(block - loops.begin())].step = piece;
      std::erase_if(cut.stages[consumer].loops, [&](const Loop& old) {
        return old.axis == line.name && old.bind == Bind::Serial && old.step >= piece;
      });
      Misfit ignored;
      std::optional<Schedule> found = with_producers(std::move(cut), consumer, producers, ignored);
      if (found) return found;
    }
    return std::nullopt;
  }

  /// Bytes of what a block keeps of those producers.
  double bytes_inside(const Schedule& schedule, std::size_t consumer, const std::vector<std::size_t>& producers) const {
    std::string why;
    const Stage& stage = schedule.stages[consumer];
    const std::optional<Regions> regions = regions_at(graph_, schedule, stage, block_position(stage), why);
    double bytes = 0;
    for (std::size_t producer : producers) {
      const TensorId id = id_of(schedule.stages[producer]);
      if (regions && regions->contains(id)) bytes += size_of(regions->at(id)) * byte_size(graph_.op(id).dtype);
    }
    return bytes;
  }

  /// What an elementwise consumer does in the blocks of the only reduction that it reads, which knows better how large
  /// they should be, with full vectors.
  std::optional<Schedule> in_blocks_of_producer(std::size_t consumer, const std::vector<std::size_t>& producers) const {
    const Compute& reader = compute_of(schedule_.stages[consumer]);
    if (reader.reduction || producers.size() != 1 || reader.axes.empty()) return std::nullopt;
    const Stage& producer = schedule_.stages[producers.front()];
    const Compute& read = compute_of(producer);
    if (!read.reduction || read.reduction->order.kind != tensor::Order::Kind::Lanes || !producer.staging.empty() ||
        is_swept(producer) || !reads_own_elements(schedule_.stages[consumer], id_of(producer)))
      return std::nullopt;
    Schedule schedule = schedule_;
    Stage& stage = schedule.stages[consumer];
    stage.loops.clear();
    stage.prefetches.clear();
    const std::int64_t lanes = target_.vector_bytes / std::max(4, byte_size(graph_.op(id_of(stage)).dtype));
    for (const Loop& loop : producer.loops) {
      if (loop.bind != Bind::Block) break;
      const auto axis = std::find_if(read.axes.begin(), read.axes.end(),
                                     [&](const tensor::Axis& candidate) { return candidate.name == loop.axis; });
      stage.loops.push_back(
          {reader.axes[static_cast<std::size_t>(axis - read.axes.begin())].name, loop.step, loop.bind});
    }
    std::map<std::string, std::int64_t> steps;
    for (const Loop& loop : stage.loops) steps[loop.axis] = loop.step;
    const tensor::Axis& last = reader.axes.back();
    for (const tensor::Axis& axis : reader.axes) {
      const bool walked = steps.contains(axis.name) ? steps[axis.name] > 1 : !scalar::is_constant_i64(axis.extent, 1);
      if (&axis != &last && walked) stage.loops.push_back({axis.name, 1, Bind::Serial});
    }
    if (!steps.contains(last.name) || steps[last.name] % lanes != 0) return std::nullopt;
    std::int64_t vectors = std::min<std::int64_t>(4, steps[last.name] / lanes);
    while (steps[last.name] / lanes % vectors != 0) --vectors;
    if (steps[last.name] != vectors * lanes) stage.loops.push_back({last.name, vectors * lanes, Bind::Serial});
    if (vectors > 1) stage.loops.push_back({last.name, lanes, Bind::Unroll});
    stage.loops.push_back({last.name, 1, Bind::Vector});
    Misfit ignored;
    return with_producers(std::move(schedule), consumer, producers, ignored, /*in_own_blocks=*/true);
  }

  bool reads_own_elements(const Stage& stage, TensorId source) const {
    const Compute& reader = compute_of(stage);
    bool own = graph_.op(source).extents.size() == reader.axes.size();
    for_each_use(graph_.op(id_of(stage)), [&](TensorId used, const scalar::Read* read) {
      if (used != source) return;
      own &= read != nullptr && read->index.size() == reader.axes.size();
      for (std::size_t k = 0; own && k < reader.axes.size(); ++k) own &= axis_of(read->index[k]) == reader.axes[k].id;
    });
    return own;
  }

  /// Producers whose lanes take turns walk panels of a whole operand in each block: larger blocks walk them less often.
  std::optional<Schedule> with_turns_grown(std::size_t consumer, const std::vector<std::size_t>& producers) const {
    const auto block = static_cast<std::size_t>(block_position(schedule_.stages[consumer]));
    for (std::int64_t growth : turn_growths(schedule_.stages[consumer], schedule_.stages[consumer].loops[block])) {
      std::optional<Schedule> grown = with_larger_blocks(schedule_, consumer, block, growth);
      if (!grown || blocks_of(grown->stages[consumer]) < static_cast<double>(target_.at_scale(kLeastBlocks))) continue;
      Misfit ignored;
      grown = with_producers(*std::move(grown), consumer, producers, ignored);
      if (!grown) continue;
      const bool turns = std::any_of(producers.begin(), producers.end(),
                                     [&](std::size_t producer) { return takes_turns(grown->stages[producer]); });
      if (!turns) return std::nullopt;
      return grown;
    }
    return std::nullopt;
  }

  /// By how much blocks are tried to grow: powers of two, and groups of elements that share what they read.
  std::set<std::int64_t> growths_of(std::size_t consumer) const {
    std::set<std::int64_t> growths;
    for (std::int64_t growth = 2; growth <= kMostGrowth; growth *= 2) growths.insert(growth);
    tensor::for_each_expr(graph_.op(id_of(schedule_.stages[consumer])), [&](const scalar::Expr& expr) {
      scalar::for_each_node(expr, [&](const scalar::Expr& node) {
        const scalar::Apply* group = scalar::as_apply(node, scalar::Opcode::FloorDiv);
        const std::int64_t size = group == nullptr ? 0 : scalar::as_i64(group->args[1]).value_or(0);
        if (size > 1 && size <= kMostGrowth) growths.insert(size);
      });
    });
    return growths;
  }

  /// Whether the stage sums by lanes, one element of its result at a time.
  bool waits(const Stage& stage) const {
    const Compute& compute = compute_of(stage);
    return compute.reduction && compute.reduction->order.kind == tensor::Order::Kind::Lanes &&
           !tensor::is_order_free(*compute.reduction) &&
           std::none_of(stage.loops.begin(), stage.loops.end(),
                        [](const Loop& loop) { return loop.bind == Bind::Unroll; });
  }

  /// Whether the stage reads what none of those produce: what they do takes longer than to sum it.
  bool reads_others(const Stage& stage, const Schedule& schedule, const std::vector<std::size_t>& producers) const {
    bool found = false;
    for (const tensor::Accumulator& accumulator : compute_of(stage).reduction->accumulators) {
      scalar::for_each_node(accumulator.step, [&](const scalar::Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        found |= read != nullptr && depends_on_axis(*read, compute_of(stage).reduction->axes.back().id) &&
                 std::none_of(producers.begin(), producers.end(),
                              [&](std::size_t producer) { return id_of(schedule.stages[producer]) == read->source; });
      });
    }
    return found;
  }

  static bool depends_on_axis(const scalar::Read& read, scalar::AxisId axis) {
    return std::any_of(read.index.begin(), read.index.end(), [&](const scalar::Expr& subscript) {
      return uses_axis(subscript, [&](scalar::AxisId used) { return used == axis; });
    });
  }

  /// Bytes that one element of the reduction's result is made of, as far as its widest operand tells.
  double bytes_of_row(const Stage& stage) const {
    const tensor::Reduction& reduction = *compute_of(stage).reduction;
    double bytes = 1;
    for (const tensor::Accumulator& accumulator : reduction.accumulators)
      bytes = std::max(bytes, static_cast<double>(byte_size(accumulator.dtype)));
    return bytes * points_of(reduction.axes);
  }

  /// By how much to grow blocks along the loop, best first: the last block is worked out as a whole.
  std::vector<std::int64_t> turn_growths(const Stage& stage, const Loop& loop) const {
    std::vector<std::pair<double, std::int64_t>> costs;
    for (const tensor::Axis& axis : compute_of(stage).axes) {
      if (axis.name != loop.axis) continue;
      const auto extent = static_cast<double>(scalar::as_i64(axis.extent).value_or(1));
      for (std::int64_t growth = 2; growth <= kMostTurnGrowth; ++growth) {
        const auto step = static_cast<double>(loop.step * growth);
        costs.emplace_back(std::ceil(extent / step) * step * (1 + kWalkShare / static_cast<double>(growth)), growth);
      }
    }
    std::sort(costs.begin(), costs.end());
    std::vector<std::int64_t> growths;
    for (const auto& [cost, growth] : costs) growths.push_back(growth);
    return growths;
  }

  /// The producers in blocks that are so many times as large along one of the consumer's block loops. What each block
  /// then walks from end to end, and does not keep near, it had better walk for several steps of another loop at once.
  std::optional<Schedule> with_grown_blocks(std::size_t consumer, const std::vector<std::size_t>& producers,
                                            std::size_t loop, std::int64_t growth) const {
    Misfit ignored;
    const std::optional<Schedule> grown = with_larger_blocks(schedule_, consumer, loop, growth);
    std::optional<Schedule> best =
        grown ? with_producers(*grown, consumer, producers, ignored) : std::optional<Schedule>();
    for (std::size_t other = 0; best && other < schedule_.stages[consumer].loops.size(); ++other) {
      if (other == loop || !walks_afar(schedule_.stages[consumer], loop, other)) continue;
      for (std::int64_t rows = kMostRowGrowth; rows > 1; rows /= 2) {
        std::optional<Schedule> larger = with_larger_blocks(schedule_, consumer, other, rows);
        if (larger) larger = with_larger_blocks(*larger, consumer, loop, growth);
        if (!larger || blocks_of(larger->stages[consumer]) < static_cast<double>(target_.at_scale(kLeastBlocks)))
          continue;
        larger = with_producers(*larger, consumer, producers, ignored);
        if (larger) return larger;
      }
    }
    return best;
  }

  /// Whether steps of the block loop `other` walk the same elements along the axis of `loop`, and more than stay near.
  bool walks_afar(const Stage& stage, std::size_t loop, std::size_t other) const {
    if (stage.loops[other].bind != Bind::Block) return false;
    bool afar = false;
    for_each_use(graph_.op(id_of(stage)), [&](TensorId source, const scalar::Read* read) {
      if (read == nullptr) return;
      afar |= bytes_of(source) > static_cast<double>(target_.l2_bytes) / 2 &&
              depends_on(stage, source, stage.loops[loop].axis) && !depends_on(stage, source, stage.loops[other].axis);
    });
    return afar;
  }

  /// The consumer's blocks so many times as large along one of its block loops; the old steps become a serial loop.
  std::optional<Schedule> with_larger_blocks(const Schedule& schedule, std::size_t consumer, std::size_t loop,
                                             std::int64_t growth) const {
    Schedule grown = schedule;
    std::vector<Loop>& loops = grown.stages[consumer].loops;
    if (loops[loop].bind != Bind::Block) return std::nullopt;
    const Loop old = loops[loop];
    const tensor::Axis* axis = nullptr;
    for (const tensor::Axis& candidate : compute_of(grown.stages[consumer]).axes) {
      if (candidate.name == old.axis) axis = &candidate;
    }
    if (axis == nullptr || old.step * growth / 2 >= scalar::as_i64(axis->extent).value_or(0)) return std::nullopt;
    loops[loop].step = old.step * growth;
    const auto after = loops.begin() + block_position(grown.stages[consumer]) + 1;
    loops.insert(after, {old.axis, old.step, Bind::Serial});
    return grown;
  }

  double blocks_of(const Stage& stage) const {
    double blocks = 1;
    for (const Loop& loop : stage.loops) {
      if (loop.bind != Bind::Block) break;
      blocks *= std::max(1.0, std::ceil(extent_of(stage, loop.axis) / static_cast<double>(loop.step)));
    }
    return blocks;
  }

  /// The extent of an axis of the stage's results; 1 where it is not known.
  double extent_of(const Stage& stage, const std::string& name) const {
    for (const tensor::Axis& axis : compute_of(stage).axes) {
      if (axis.name == name) return static_cast<double>(scalar::as_i64(axis.extent).value_or(1));
    }
    return 1;
  }

  /// The schedule with those producers at the consumer's last block loop, or nothing and the one that does not fit.
  /// Blocks that are the producer's own suit it.
  std::optional<Schedule> with_producers(Schedule schedule, std::size_t consumer,
                                         const std::vector<std::size_t>& producers, Misfit& misfit,
                                         bool in_own_blocks = false) const {
    const int place = block_position(schedule.stages[consumer]);
    for (std::size_t producer : producers) {
      Stage& stage = schedule.stages[producer];
      stage.placement = {Placement::Kind::At, schedule.stages[consumer].compute, place};
    }
    misfit.id = id_of(schedule.stages[producers.back()]);
    const std::optional<Regions> regions = regions_at(graph_, schedule, schedule.stages[consumer], place, misfit.why);
    if (!regions) return std::nullopt;
    const double blocks = blocks_of(schedule.stages[consumer]);
    double bytes = 0;
    // From the consumer outwards, so that the one named is the first that does not fit.
    for (std::size_t producer : producers) {
      Stage& stage = schedule.stages[producer];
      const TensorId id = id_of(stage);
      const auto region = regions->find(id);
      if (region == regions->end()) return std::nullopt;
      bytes += size_of(region->second) * byte_size(graph_.op(id).dtype);
      misfit = {id, in_own_blocks ? "" : why_not(id, region->second, *regions, blocks)};
      if (bytes > most_bytes())
        misfit.why = "a block would keep " + in_kib(bytes) + " of such values; at most " + in_kib(most_bytes());
      if (!misfit.why.empty()) return std::nullopt;
      std::optional<Stage> inner = lanes_in_turn(schedule, id, region->second);
      if (!inner && !stage.staging.empty() && takes_turns(stage)) misfit.why = "its panels serve blocks of its own";
      if (!inner && is_swept(stage)) misfit.why = "its sums lie in memory while pieces of its operands stay near";
      if (!misfit.why.empty()) return std::nullopt;
      stage.loops = inner ? std::move(inner->loops) : inner_loops(graph_, id, region->second, target_);
      stage.staging = inner ? std::move(inner->staging) : std::vector<schedule::Staging>{};
      stage.prefetches.clear();
    }
    add_prefetches(schedule, consumer, producers, *regions);
    Diagnostics faults;
    misfit.why = "its loops would not fit those of the reader";
    if (!schedule::check(schedule, graph_, faults)) return std::nullopt;
    return schedule;
  }

  double most_bytes() const { return std::min(kMostInsideBytes, kMostOfCache * static_cast<double>(target_.l2_bytes)); }

  double bytes_of(TensorId id) const {
    double bytes = byte_size(graph_.op(id).dtype);
    for (const scalar::Expr& extent : graph_.op(id).extents)
      bytes *= static_cast<double>(scalar::as_i64(extent).value_or(1));
    return bytes;
  }

  /// What the steps of a block read from memory one after the other is there after the first of them: while the others
  /// compute, the one with most to do asks for what the next block will read.
  void add_prefetches(Schedule& schedule, std::size_t consumer, const std::vector<std::size_t>& producers,
                      const Regions& regions) const {
    const Loop* block = nullptr;
    for (const Loop& loop : schedule.stages[consumer].loops) {
      for (const tensor::Axis& axis : compute_of(schedule.stages[consumer]).axes) {
        if (loop.bind == Bind::Block && axis.name == loop.axis && loop.step < scalar::as_i64(axis.extent).value_or(0))
          block = &loop;
      }
    }
    if (block == nullptr) return;
    std::vector<std::size_t> steps(producers.rbegin(), producers.rend());
    steps.push_back(consumer);
    std::set<TensorId> inside;
    for (std::size_t step : steps) inside.insert(id_of(schedule.stages[step]));
    std::map<TensorId, std::vector<std::size_t>> readers;
    for (std::size_t step : steps) {
      std::set<TensorId> sources;
      for_each_use(graph_.op(id_of(schedule.stages[step])), [&](TensorId source, const scalar::Read* read) {
        if (read != nullptr && !inside.contains(source)) sources.insert(source);
      });
      for (TensorId source : sources) readers[source].push_back(step);
    }
    for (const auto& [tensor, reading] : readers) {
      if (reading.size() < 2 || bytes_of(tensor) <= static_cast<double>(target_.l2_bytes)) continue;
      const std::size_t busiest = *std::max_element(
          reading.begin() + 1, reading.end(),
          [&](std::size_t a, std::size_t b) { return work_of(schedule.stages[a]) < work_of(schedule.stages[b]); });
      Stage& stage = schedule.stages[busiest];
      const std::optional<Move> move =
          busiest == consumer ? Move{block->axis, block->step} : move_of(schedule, consumer, *block, stage, regions);
      if (move && depends_on(stage, tensor, move->axis))
        stage.prefetches.push_back({graph_.op(tensor).name, move->axis, move->step});
    }
  }

  /// By how much a block further on moves along an axis.
  struct Move {
    std::string axis;
    std::int64_t step;
  };

  /// The axis of the producer that the consumer's blocks move, and how far they do, or nothing.
  std::optional<Move> move_of(const Schedule& schedule, std::size_t consumer, const Loop& block, const Stage& producer,
                              const Regions& regions) const {
    const auto region = regions.find(id_of(producer));
    for (const tensor::Axis& axis : compute_of(schedule.stages[consumer]).axes) {
      if (axis.name != block.axis || region == regions.end()) continue;
      for (std::size_t k = 0; k < region->second.size(); ++k) {
        const Region& moved = region->second[k];
        const auto factor = moved.factors.find(axis.id);
        if (factor != moved.factors.end() && factor->second == 1 && block.step % moved.divisor == 0)
          return Move{compute_of(producer).axes[k].name, block.step / moved.divisor};
      }
    }
    return std::nullopt;
  }

  bool depends_on(const Stage& stage, TensorId tensor, const std::string& name) const {
    bool found = false;
    for (const tensor::Axis& axis : compute_of(stage).axes) {
      if (axis.name != name) continue;
      for_each_use(graph_.op(id_of(stage)), [&](TensorId source, const scalar::Read* read) {
        if (read == nullptr || source != tensor) return;
        for (const scalar::Expr& subscript : read->index)
          found |= uses_axis(subscript, [&](scalar::AxisId used) { return used == axis.id; });
      });
    }
    return found;
  }

  /// Operations of one element.
  double work_of(const Stage& stage) const {
    double operations = 0;
    tensor::for_each_expr(graph_.op(id_of(stage)), [&](const scalar::Expr& expr) {
      scalar::for_each_node(expr, [&](const scalar::Expr& node) {
        operations += std::holds_alternative<scalar::Apply>(node->kind) ? 1 : 0;
      });
    });
    return operations;
  }

  static std::string in_kib(double bytes) { return std::to_string(static_cast<std::int64_t>(bytes / 1024)) + " KiB"; }

  /// Why a compute had better stay outside of blocks that need such a region of it; empty: it may go inside.
  std::string why_not(TensorId id, const std::vector<Region>& region, const Regions& regions, double blocks) const {
    const auto& compute = std::get<Compute>(graph_.op(id).kind);
    const double repeated = size_of(region) * blocks / std::max(points_of(compute.axes), 1.0);
    if (repeated > kMostRepeated)
      return "it would be computed " + std::to_string(static_cast<std::int64_t>(std::ceil(repeated))) +
             " times over all blocks";
    bool near = true;
    for_each_use(graph_.op(id), [&](TensorId source, const scalar::Read* read) {
      const auto used = regions.find(source);
      if (read == nullptr || used == regions.end()) return;
      double all = 1;
      for (const scalar::Expr& extent : graph_.op(source).extents)
        all *= static_cast<double>(scalar::as_i64(extent).value_or(1));
      const double element = byte_size(graph_.op(source).dtype), here = size_of(used->second);
      near &= here * element <= static_cast<double>(target_.l2_bytes) / 3 || here * blocks <= kMostReread * all;
    });
    return near ? "" : "its operands leave the second-level cache, and blocks would read them again";
  }

  /// A block has as many elements as are worth one, by what the consumer does. What is inside may be worth several, and
  /// each read what no other does. Nothing where there are enough, or where blocks would have work in common.
  std::optional<Schedule> with_smaller_blocks(const Schedule& schedule, std::size_t consumer,
                                              const std::vector<std::size_t>& producers) const {
    const Stage& stage = schedule.stages[consumer];
    if (target_.threads == 1) return std::nullopt;
    double operations = 0;
    for (std::size_t producer : producers)
      operations += operations_of(graph_.op(id_of(schedule.stages[producer]))).flops;
    const double wanted = std::floor(std::min(static_cast<double>(target_.at_scale(kLeastBlocks)),
                                              operations / static_cast<double>(target_.at_scale(kBlockOperations))));
    for (std::size_t loop = 0; loop < stage.loops.size() && stage.loops[loop].bind == Bind::Block; ++loop) {
      const double parts = std::ceil(wanted / blocks_of(stage));
      if (parts < 2) return std::nullopt;
      const auto inner = std::find_if(stage.loops.begin() + static_cast<std::ptrdiff_t>(loop) + 1, stage.loops.end(),
                                      [&](const Loop& other) { return other.axis == stage.loops[loop].axis; });
      const double step = inner == stage.loops.end() ? 1 : static_cast<double>(inner->step);
      const double steps = std::ceil(
          std::min(static_cast<double>(stage.loops[loop].step), extent_of(stage, stage.loops[loop].axis)) / step);
      Schedule smaller = schedule;
      smaller.stages[consumer].loops[loop].step = static_cast<std::int64_t>(step * std::ceil(steps / parts));
      smaller.stages[consumer].prefetches = schedule_.stages[consumer].prefetches;
      Misfit ignored;
      std::optional<Schedule> found = with_producers(std::move(smaller), consumer, producers, ignored);
      if (found && blocks_of(found->stages[consumer]) > blocks_of(stage) &&
          have_nothing_in_common(*found, consumer, producers))
        return found;
    }
    return std::nullopt;
  }

  /// The producer whose much work would be in the only block of the consumer, though it has several of its own.
  Misfit left_to_one_thread(const Schedule& schedule, std::size_t consumer,
                            const std::vector<std::size_t>& producers) const {
    if (target_.threads == 1 || blocks_of(schedule.stages[consumer]) > 1) return {};
    for (std::size_t producer : producers) {
      const Stage& own = schedule_.stages[producer];
      if (blocks_of(own) > 1 && operations_of(graph_.op(id_of(own))).flops >= kWorthThreads)
        return {id_of(own), "all its work would be one block, so one thread's"};
    }
    return {};
  }

  /// Whether the consumer's blocks neither compute nor read twice what does not stay near.
  bool have_nothing_in_common(const Schedule& schedule, std::size_t consumer,
                              const std::vector<std::size_t>& producers) const {
    const Stage& stage = schedule.stages[consumer];
    std::string ignored;
    const std::optional<Regions> regions = regions_at(graph_, schedule, stage, block_position(stage), ignored);
    if (!regions) return false;
    const double blocks = blocks_of(stage);
    const auto is_apart = [&](TensorId id) {
      const auto region = regions->find(id);
      if (region == regions->end()) return true;
      const double bytes = size_of(region->second) * byte_size(graph_.op(id).dtype);
      return bytes <= kShareOfNearest * static_cast<double>(target_.l1_bytes) ||
             bytes * blocks <= kTolerance * bytes_of(id);
    };
    bool apart = true;
    for (std::size_t producer : producers) {
      apart = apart && is_apart(id_of(schedule.stages[producer]));
      for_each_use(graph_.op(id_of(schedule.stages[producer])),
                   [&](TensorId source, const scalar::Read*) { apart = apart && is_apart(source); });
    }
    return apart;
  }

  /// Whether a reduction by lanes goes over its results for pieces of its elements.
  bool is_swept(const Stage& stage) const {
    const Compute& compute = compute_of(stage);
    if (!compute.reduction || compute.reduction->order.kind != tensor::Order::Kind::Lanes) return false;
    for (std::size_t k = 0; k < stage.loops.size(); ++k) {
      if (schedule::is_sweep(stage, compute, k)) return true;
    }
    return false;
  }

  bool takes_turns(const Stage& stage) const {
    const Compute& compute = compute_of(stage);
    return compute.reduction && compute.reduction->order.kind == tensor::Order::Kind::Lanes &&
           std::any_of(stage.loops.begin(), stage.loops.end(), [&](const Loop& loop) {
             return loop.bind == Bind::Vector && loop.axis != compute.reduction->axes.back().name;
           });
  }

  /// The loops for a region of a reduction by lanes, and a copy that is made before, of what nobody computes inside.
  std::optional<Stage> lanes_in_turn(const Schedule& schedule, TensorId id, const std::vector<Region>& region) const {
    std::optional<Stage> stage = turns_inside(graph_, id, region, target_);
    if (!stage) return std::nullopt;
    for (const Stage& other : schedule.stages) {
      const bool inside = other.placement.kind == Placement::Kind::At;
      for (const schedule::Staging& staging : stage->staging) {
        if (inside && staging.tensor == other.compute) return std::nullopt;
      }
    }
    return stage;
  }

  const tensor::Graph& graph_;
  Schedule schedule_;
  const kernel::Target& target_;
  const std::vector<bool>& constant_;  ///< by op of the graph, or empty
  std::set<TensorId> excluded_;
  Choices* choices_;
};

}  // namespace

Schedule place_producers(const tensor::Graph& graph, Schedule schedule, const kernel::Target& target,
                         const std::vector<bool>& constant, Choices* choices) {
  return Placing(graph, std::move(schedule), target, constant, choices).run();
}

}  // namespace corrloom::passes
