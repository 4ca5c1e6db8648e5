#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/machine.h"

/// What streams carry out and what graphs consist of.
namespace corrloom::sim::driver {

class Context;
class Event;
class Function;
class Graph;
struct Mark;
struct Plan;

/// A kernel with its arguments.
struct KernelLaunch {
  std::shared_ptr<Function> function;
  Dim3 grid, block;
  std::optional<Dim3> cluster;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t max_dynamic_shared_bytes = 0;  ///< the function's opt-in at the time of the call
  bool cooperative = false;
  std::vector<std::byte> params;
};

/// One side of a copy: the address of the first byte and how rows and slices follow each other.
struct CopySide {
  uint64_t address = 0;
  uint64_t row_pitch = 0;    ///< bytes from a row to the next; unused when the copy has one row
  uint64_t slice_pitch = 0;  ///< bytes from a slice to the next; unused when it has one slice
};

/// A copy of `depth` slices of `height` rows of `width_bytes` between any two places.
struct Copy {
  CopySide to, from;
  uint64_t width_bytes = 0, height = 1, depth = 1;
  std::shared_ptr<const std::vector<std::byte>> staged;  ///< holds the source when it is pageable host memory
};

/// Rows of one value: a memset.
struct Fill {
  DeviceAddress address = 0;
  uint64_t pitch = 0;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  uint64_t width = 0;  ///< elements
  uint64_t height = 1;
};

/// A function of the client's.
struct HostCall {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;  ///< instead of `function`: also runs after an error, which it is told
  void* data = nullptr;
  CUstream stream = nullptr;
};

struct EventRecord {
  std::shared_ptr<Event> event;
  CUevent handle = nullptr;  ///< for those who ask a graph node
};
/// In a stream: wait for the event's recording at the time of the call. In a graph: at the time of the launch.
struct EventWait {
  std::shared_ptr<Event> event;
  CUevent handle = nullptr;
};
/// The end of a stream-ordered allocation.
struct PoolFree {
  DeviceAddress address = 0;
};
struct Nothing {};
/// A child graph; only in graphs.
struct Subgraph {
  std::shared_ptr<Graph> graph;
};
/// All nodes of an executable graph; only in streams.
struct GraphLaunch {
  std::shared_ptr<const Plan> plan;
};

using Operation =
    std::variant<KernelLaunch, Copy, Fill, HostCall, Subgraph, Nothing, EventWait, EventRecord, PoolFree, GraphLaunch>;

/// Carries an operation out on the calling thread, in the order of a stream of `context`. Errors of the device become
/// the context's (`Context::lose`); operations on a lost context do nothing, except those that others wait for. Marks
/// are the recordings of the operation's events, in order.
void run(const Operation& operation, Context& context, std::span<const std::shared_ptr<Mark>> marks);

/// The recordings that `operation` will make, started now.
std::vector<std::shared_ptr<Mark>> start_recordings(const Operation& operation);

/// What a stream must wait for before the operation: the present recordings of the events it waits for.
std::vector<std::shared_ptr<Mark>> awaited(const Operation& operation);

/// The code for how a launch ended.
CUresult code_of(LaunchError error);

/// Checks the sizes of a launch before it is queued: the code of the first rule it breaks, and a sentence about it.
CUresult check(const KernelLaunch& kernel, Context& context, std::string& message);

/// Why a copy or fill cannot be done: a range that is not in one live allocation. Empty when it can.
std::optional<CUresult> problem_of(const Copy& copy);
std::optional<CUresult> problem_of(const Fill& fill);

}  // namespace corrloom::sim::driver
