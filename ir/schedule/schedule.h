#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/tensor/graph.h"

/// How the computes of a graph become kernels: plain data. A schedule changes no bit of any result.
namespace corrloom::schedule {

/// Who runs the iterations of a loop. Unroll: one copy of the body each. Vector: the lanes of vectors.
enum class Bind : std::uint8_t { Serial, Block, Thread, Unroll, Vector };

/// One loop: walks the enclosing tile of `axis` in steps of `step`. The outermost loop of an axis walks its whole
/// extent; the innermost one has step 1. Steps of one axis divide each other, outer by inner.
struct Loop {
  std::string axis;  ///< of the result or the reduction
  std::int64_t step = 1;
  Bind bind = Bind::Serial;
  friend bool operator==(const Loop&, const Loop&) = default;
};

/// Where a compute happens: as a kernel of its own, inside its readers, or at a loop of a consumer.
struct Placement {
  enum class Kind : std::uint8_t { Root, Inline, At };
  Kind kind = Kind::Root;
  std::string consumer;  ///< name of the compute (At)
  int loop = -1;         ///< position in the consumer's loops below which it is computed (At)
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// A copy of what the elements of a reduction read of a tensor, padding included: packed panels on the host, shared
/// memory on a GPU. It is addressed by the combinations of axes that stand in the subscripts, `i + p`.
struct Staging {
  /// One dimension of the copy: a combination of axes, or the number of its block of so many elements and the place
  /// inside.
  struct Dim {
    enum class Kind : std::uint8_t { Whole, Outer, Inner };
    std::string index;  ///< `o`, `i + p`, `2 * i + p`: as `to_text(Part)` writes it
    Kind kind = Kind::Whole;
    std::int64_t block = 0;  ///< for Outer and Inner
    friend bool operator==(const Dim&, const Dim&) = default;
  };
  std::string tensor;
  int loop = -1;            ///< position in the loops below which the part that is read there is copied, the last block
                            ///< loop or a serial one over results; -1: all of it before the loops
  bool shared = false;      ///< in shared memory (GPU) instead of memory private to the block (host)
  std::vector<Dim> layout;  ///< outermost first
  std::int64_t pitch = 0;   ///< elements between rows; 0: dense
  int stages = 1;           ///< copies in flight
  friend bool operator==(const Staging&, const Staging&) = default;
};

/// While a tile reads its elements of a tensor, or writes those of the result, those are brought nearer that it would
/// read or write with the axis so much further on.
struct Prefetch {
  std::string tensor;
  std::string axis;  ///< of the result or the reduction
  std::int64_t distance = 1;
  friend bool operator==(const Prefetch&, const Prefetch&) = default;
};

/// The schedule of one compute. `loops` are outermost first: outputs' Block and Thread loops, then Serial ones, then
/// the reduction's loops, and below them only Unroll and Vector loops of output axes: the register tile. With
/// Order::Lanes the last loop of the reduction is the Vector loop of its last axis. Or the vectors run along the
/// result, and the loops of the reduction, which has one axis, walk the lanes of the order: `k by 8 unroll`, `k by 1`:
/// those 8 apart together, the others taking turns. A Serial loop in steps of the first reduction axis may stand before
/// Serial loops of outputs: a sweep over the results for each step, with the sums kept in memory between sweeps.
struct Stage {
  std::string compute;
  Placement placement = {};
  bool streaming = false;  ///< at the root: the result goes past the caches where the machine can do that
  std::vector<Loop> loops;
  std::vector<Staging> staging;
  std::vector<Prefetch> prefetches = {};
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Whether the loop at that position is one of sweeps.
bool is_sweep(const Stage& stage, const tensor::Compute& compute, std::size_t loop);
/// The size of the tile that the loops before that one leave of each output axis, where it is known.
std::vector<std::optional<std::int64_t>> swept_sizes(const Stage& stage, const tensor::Compute& compute,
                                                     std::size_t loop);

/// Whether sums that lie in memory between sweeps can lie in the result itself: they are all that it holds, and it has
/// storage of its own.
bool sums_are_results(const tensor::Graph& graph, const tensor::Op& op);

struct Schedule {
  std::string graph;
  std::string target;
  std::vector<Stage> stages;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// The text form:
///
///   schedule @corr2d target host {
///     %Y root streaming {
///       i by 1 block
///       j by 64
///       p by 1
///       j by 16 unroll
///       j by 1 vector
///       stage %X at 2 shared [i + p, j] pitch 68 stages 2
///       stage %K [o / 32, p, o mod 32]
///       prefetch %X i + 4
///     }
///   }
std::string print(const Schedule& schedule);

/// Reads exactly what `print` writes, plus `//` comments. Reports E04xx and returns nothing on an error.
std::optional<Schedule> parse(const SourceRef& text, Diagnostics& diagnostics);

/// Reports (E0501) everything in the schedule that does not fit the graph: unknown computes or axes, steps that do not
/// divide, loops out of order, an order of reduction axes that would change bits, placements or stagings that the
/// lowering cannot do.
bool check(const Schedule& schedule, const tensor::Graph& graph, Diagnostics& diagnostics);

}  // namespace corrloom::schedule
