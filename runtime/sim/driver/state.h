#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/sim/driver/context.h"
#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/driver/handles.h"
#include "runtime/sim/driver/memory_blocks.h"
#include "runtime/sim/driver/memory_pool.h"
#include "runtime/sim/driver/module.h"
#include "runtime/sim/driver/profile.h"
#include "runtime/sim/driver/stream.h"
#include "runtime/sim/driver/virtual_memory.h"
#include "runtime/sim/machine.h"

/// The state of the driver in this process. The Driver API names no object that could carry it, so there is one, made
/// by `cuInit` and alive until the process ends.
namespace corrloom::sim::driver {

class Graph;
class GraphNode;
class ExecutableGraph;

/// What cuDriverGetVersion says: the CUDA release that brought the newest PTX this machine takes (9.0 came with 13.0).
inline constexpr int kDriverVersion = 13000 + (kMaxPtxVersion - 90) * 10;

/// Ends a call with an error code; caught where the call came in.
struct Failure {
  CUresult code;
};

/// Ends the call with `code` unless `condition` holds.
inline void require(bool condition, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!condition) throw Failure{code};
}

/// The priorities of streams; smaller numbers go first on a real device, and have no effect on this one.
inline constexpr int kLeastPriority = 0, kGreatestPriority = -5;

/// What the environment says about the devices.
struct Settings {
  int devices = 2;                            ///< CORRLOOM_SIM_DEVICES, 0..64
  Arch arch;                                  ///< CORRLOOM_SIM_ARCH
  uint64_t memory_bytes = uint64_t(2) << 30;  ///< CORRLOOM_SIM_MEMORY, of each device
  std::chrono::milliseconds watchdog{30000};  ///< CORRLOOM_SIM_WATCHDOG, in seconds; 0: none
  Checks checks;                              ///< CORRLOOM_SIM_CHECKS
  std::string ptxas;                          ///< CORRLOOM_SIM_PTXAS, the assembler to ask for registers; empty: none
  bool leaks = false;                         ///< `leaks` in CORRLOOM_SIM_CHECKS: report what is not freed at exit
};

/// Reads the settings; returns a sentence about the first variable that makes no sense, empty when all do.
std::string read_settings(Settings& settings);

/// One simulated device.
class Device {
 public:
  Device(int ordinal, const Settings& settings);

  const int ordinal;
  const Arch arch;
  const DeviceLimits limits;
  DeviceMemory memory;
  Profile profile;

  // The primary context. Its handle stays the same when it is reset and made again.
  std::mutex primary_mutex;
  CUcontext primary_handle = nullptr;
  unsigned primary_references = 0;
  unsigned primary_flags = 0;

  CUmemoryPool default_pool = nullptr;
  std::atomic<CUmemoryPool> current_pool{nullptr};
};

/// Everything the handles of this process name.
class Driver {
 public:
  explicit Driver(const Settings& settings);

  const Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  MemoryBlocks blocks;
  HandleTable<Context, CUcontext> contexts{1};
  HandleTable<Stream, CUstream> streams{2};
  HandleTable<Event, CUevent> events{3};
  HandleTable<LoadedModule, CUmodule> modules{4};
  HandleTable<Function, CUfunction> functions{5};
  HandleTable<Library, CUlibrary> libraries{6};
  HandleTable<Kernel, CUkernel> kernels{7};
  HandleTable<MemoryPool, CUmemoryPool> pools{8};
  HandleTable<Graph, CUgraph> graphs{9};
  HandleTable<GraphNode, CUgraphNode> nodes{10};
  HandleTable<ExecutableGraph, CUgraphExec> executables{11};

  HandleTable<LinkState, CUlinkState> links{12};
  HandleTable<PhysicalMemory, PhysicalMemory*> physical{13};
  VirtualMemory virtual_memory;

  std::atomic<uint64_t> next_context_id{1};
  std::atomic<uint64_t> next_stream_id{1};
  std::atomic<uint64_t> next_capture_id{1};
  std::atomic<int> busy_workers{0};          ///< stream threads that carry something out
  std::atomic<bool> report_to_stderr{true};  ///< findings are printed as they come
  std::atomic<bool> exiting{false};          ///< the process ends: stop kernels, start no operation, report no more

  /// The device of an ordinal; fails with INVALID_DEVICE.
  Device& device(CUdevice ordinal);
  /// The memory of the device in whose address range `address` lies; nullptr for other addresses.
  DeviceMemory* memory_of(DeviceAddress address);
  /// Where the bytes are, when they lie in one live allocation (or module variable) or in host memory; nullptr
  /// otherwise.
  std::byte* host_pointer(uint64_t address, uint64_t bytes);
  /// The block that contains the address; module variables of a device count as blocks.
  std::optional<Block> find_block(DeviceAddress address);
};

/// What belongs to the calling thread.
struct ThreadState {
  std::vector<CUcontext> contexts;  ///< the stack of current contexts, the top last
  bool per_thread_default = false;  ///< the call came in through a `_ptsz` name: stream 0 is the thread's own
  bool in_callback = false;         ///< inside a host function of a stream, where no call may be made
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
ThreadState& this_thread();

/// Makes the driver from the environment (cuInit).
CUresult initialise();
/// True after `initialise` succeeded, and not in a child process forked since.
bool initialised();
/// The driver; only after `initialise`.
Driver& driver();

/// The current context of the thread. Fails with INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED, or the error that
/// made the context unusable.
std::shared_ptr<Context> current_context();
/// The same for a context that may be lost (synchronisation and destruction still work on it).
std::shared_ptr<Context> current_context_even_lost();
/// The stream a handle names for the calling thread, with the handles 0, 1 and 2 resolved. Fails with INVALID_HANDLE.
std::shared_ptr<Stream> find_stream(CUstream handle);
std::shared_ptr<Event> find_event(CUevent handle);

}  // namespace corrloom::sim::driver
