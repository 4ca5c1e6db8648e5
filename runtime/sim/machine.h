#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The simulated GPU as a C++ library: device memory, modules made from PTX text, launches. The exported CUDA Driver
/// API (runtime/sim/driver) is written against this header alone. Nothing here keeps global state; every call may come
/// from any host thread unless it says otherwise.
namespace corrloom::sim {

// ---------------------------------------------------------------- architecture

/// A device architecture such as `sm_90a`.
struct Arch {
  int number = 90;           ///< 75, 80, 86, 89, 90, 100, 120
  bool accelerated = false;  ///< the `a` suffix: architecture-specific instructions (wgmma, setmaxnreg)
  bool family = false;       ///< the `f` suffix

  int major() const { return number / 10; }
  int minor() const { return number % 10; }
  std::string name() const;  ///< `sm_90a`
};

/// Reads `sm_90`, `sm_90a`, `compute_90`, `sm_100f`; empty when the text is none of them or the number is not known.
std::optional<Arch> parse_arch(std::string_view text);

/// What a device of this architecture offers. The figures are those of the largest chip of the architecture
/// (CUDA C Programming Guide, "Technical Specifications per Compute Capability").
struct DeviceLimits {
  int multiprocessors;
  int max_threads_per_block = 1024;
  int max_block_dim[3] = {1024, 1024, 64};
  int64_t max_grid_dim[3] = {2147483647, 65535, 65535};
  int warp_size = 32;
  int max_threads_per_multiprocessor;
  int max_blocks_per_multiprocessor;
  int registers_per_multiprocessor = 65536;
  int registers_per_block = 65536;
  int shared_bytes_per_multiprocessor;
  int shared_bytes_per_block = 49152;  ///< without opting in
  int shared_bytes_per_block_optin;
  int reserved_shared_bytes_per_block;
  int max_cluster_blocks;  ///< 8 portable on sm_90 and later, 0 where clusters do not exist
  int const_bytes = 65536;
  int clock_khz;
  int memory_clock_khz;
  int memory_bus_bits;
  int l2_bytes;
};

/// The limits of an architecture that `parse_arch` accepts.
DeviceLimits device_limits(const Arch& arch);

/// Blocks of a kernel that fit one multiprocessor at the same time: the least of the limits on blocks, threads,
/// registers (allocated per warp in units of 256) and shared memory. 0 when a block does not fit at all.
int occupancy_blocks(const Arch& arch, int threads_per_block, int registers_per_thread, int64_t shared_bytes_per_block);

// ---------------------------------------------------------------- memory

using DeviceAddress = uint64_t;

/// How an address range came to be; answers `cuPointerGetAttribute`.
enum class MemoryKind { Device, Managed, PinnedHost, RegisteredHost };

/// One allocation that is alive.
struct Allocation {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::Device;
  uint64_t serial = 0;  ///< counts allocations of this device, never reused
};

/// A device's memory: addresses, contents, and the shadow state the sanitizer reads.
///
/// Device addresses lie above 2^47, so no host pointer of a user process equals one and a host dereference faults as on
/// a real machine. Managed, pinned and registered memory keeps its host address on the device. Contents are lazily
/// backed: a device of 2 GiB costs what is touched.
class DeviceMemory {
 public:
  /// `device` (0..255) fixes the address range. Throws std::bad_alloc when the address space cannot be reserved.
  DeviceMemory(int device, uint64_t total_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  int device() const { return device_; }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t free_bytes() const;

  /// Allocates `bytes` > 0 aligned to at least 256 bytes; 0 when it does not fit. Contents are uninitialised
  /// (poisoned with 0xFD bytes on first allocation and on reuse).
  DeviceAddress allocate(uint64_t bytes, uint64_t alignment = 256);
  /// Frees the allocation that starts at `address`; false when none does. Later accesses are use-after-free findings
  /// until the range is reused.
  bool release(DeviceAddress address);

  /// Makes host memory accessible from kernels under its own address (managed, pinned, registered memory), or takes it
  /// away again. The caller owns the memory. `initialised` is what the sanitizer assumes of its contents.
  void map_host(void* host, uint64_t bytes, MemoryKind kind, bool initialised);
  bool unmap_host(void* host);

  /// Room for an allocation that lies outside the arena; false when the device has not as much left.
  bool book(uint64_t bytes);
  void unbook(uint64_t bytes);
  struct View;
  /// Lets kernels of this device reach memory outside the arena, whose storage the caller owns. A view that continues
  /// another, also in its storage, makes one stretch with it.
  void add_range(const View& view);
  /// Takes a part of such memory away; later accesses are use-after-free findings until it is reached again.
  void remove_range(DeviceAddress address, uint64_t bytes);

  /// Lets kernels of this device reach the memory of `peer`, which must outlive this object or be removed before.
  void add_peer(DeviceMemory* peer);
  void remove_peer(DeviceMemory* peer);

  /// The live allocation (or mapped host range) that contains `address`.
  std::optional<Allocation> find(DeviceAddress address) const;
  /// All live device allocations in address order, for leak reports.
  std::vector<Allocation> live() const;

  /// Host pointer to `bytes` bytes at a device address, when they all lie in one live allocation or mapped range of
  /// this device or of a peer; nullptr otherwise. What copies and memsets of the driver use.
  std::byte* host_pointer(DeviceAddress address, uint64_t bytes) const;
  /// Tells the sanitizer that the host, or a copy, has written these bytes. Ranges outside the device are ignored.
  void mark_initialised(DeviceAddress address, uint64_t bytes);
  /// Copies the initialised state along with a device-to-device copy.
  void copy_initialised(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  /// First byte of the range that nothing has written, if any (for a DtoH copy of uninitialised memory).
  std::optional<DeviceAddress> first_uninitialised(DeviceAddress address, uint64_t bytes) const;

  // -- what the execution engine uses; not meant for the driver --

  enum Shadow : uint8_t { kAllocated = 1, kInitialised = 2, kFreed = 4 };
  /// Two packed access records for each four-byte word (see exec/race.h).
  struct RaceCell {
    uint64_t write;
    uint64_t read;
  };
  /// A stretch of memory with contiguous host storage and shadow.
  struct View {
    DeviceAddress base = 0;
    uint64_t bytes = 0;
    std::byte* host = nullptr;
    uint8_t* shadow = nullptr;   ///< null: all of it is initialised
    RaceCell* cells = nullptr;   ///< null: races are not looked for
    bool all_allocated = false;  ///< outside the arena: its shadow knows no kAllocated
  };
  /// The whole arena of this device.
  const View& arena() const { return arena_; }
  /// The arena of a peer or the mapped host range that contains `address`; empty when none does.
  std::optional<View> view_of(DeviceAddress address) const;
  /// Whether memory outside the arena was there, and is no more.
  bool was_removed(DeviceAddress address) const;
  /// A tag for the race records of a launch that begins; the records of other launches are stale to it. 0 when none is
  /// to be had because a kernel has been running for long: then the launch leaves no records.
  uint32_t begin_launch();
  void end_launch();

 private:
  struct HostRange {
    struct Unmap {
      uint64_t bytes;
      void operator()(uint8_t* shadow) const;
    };
    Allocation allocation;
    std::unique_ptr<uint8_t[], Unmap> shadow;
  };

  int device_;
  uint64_t total_bytes_;
  View arena_;
  mutable std::shared_mutex mutex_;
  std::map<DeviceAddress, Allocation> live_;
  std::map<uint64_t, uint64_t> holes_;  ///< offset -> bytes of free space, coalesced
  std::map<DeviceAddress, HostRange> host_ranges_;
  std::map<DeviceAddress, View> ranges_;       ///< outside the arena
  std::map<DeviceAddress, uint64_t> removed_;  ///< begin and end of ranges that are gone
  std::vector<DeviceMemory*> peers_;
  uint64_t cursor_ = 0;  ///< where the next search for space begins: freed ranges rest as long as possible
  uint64_t used_bytes_ = 0;
  uint64_t next_serial_ = 1;
  uint64_t used_tags_ = 1;  ///< tags of records since they were cleared last; 0 is no tag
  uint32_t running_ = 0;    ///< launches
};

// ---------------------------------------------------------------- modules

enum class LoadStatus {
  Ok,
  InvalidPtx,             ///< CUDA_ERROR_INVALID_PTX: syntax, types, unknown instruction
  UnsupportedPtxVersion,  ///< CUDA_ERROR_UNSUPPORTED_PTX_VERSION: `.version` newer than this simulator
  NoBinaryForGpu,         ///< CUDA_ERROR_NO_BINARY_FOR_GPU: `.target` newer than, or specific to another, device
  SymbolNotFound,         ///< CUDA_ERROR_NOT_FOUND: an `.extern` that nothing defines
  OutOfMemory,            ///< CUDA_ERROR_OUT_OF_MEMORY for the module's variables
};

/// The newest PTX ISA version that loads, as major * 10 + minor.
inline constexpr int kMaxPtxVersion = 94;

struct KernelParam {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

/// What `cuFuncGetAttribute`, `cuFuncGetParamInfo` and occupancy queries answer from.
struct KernelInfo {
  std::string name;
  std::vector<KernelParam> params;
  uint32_t param_bytes = 0;  ///< end of the last parameter
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;  ///< per thread
  uint32_t const_bytes = 0;  ///< of the module
  /// Registers a thread needs: an estimate by liveness over the PTX (no ptxas is involved), rounded up to 8.
  uint32_t registers = 0;
  uint32_t max_threads = 1024;                 ///< from .maxntid or .reqntid
  std::array<uint32_t, 3> required_block{};    ///< .reqntid, zeros when absent
  std::array<uint32_t, 3> required_cluster{};  ///< .reqnctapercluster, zeros when absent
  uint32_t max_cluster_blocks = 0;             ///< .maxclusterrank, 0 when absent
  int ptx_version = 0;                         ///< 78 for 7.8
  int target = 0;                              ///< 90 for sm_90a
};

namespace exec {
struct Program;
}

/// A module-scope variable that the host can reach by name.
struct GlobalVariable {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
};

/// A loaded PTX module. Immutable after loading; its variables live in the device's memory until it is destroyed.
class Module {
 public:
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Index of an `.entry` by name.
  std::optional<int> find_kernel(std::string_view name) const;
  int kernel_count() const;
  const KernelInfo& kernel(int index) const;
  /// A `.visible` `.global` or `.const` variable.
  std::optional<GlobalVariable> find_global(std::string_view name) const;
  const exec::Program& program() const { return *program_; }
  DeviceMemory& memory() const { return *memory_; }

 private:
  friend struct ModuleLoader;
  Module() = default;
  std::shared_ptr<const exec::Program> program_;
  DeviceMemory* memory_ = nullptr;
  std::vector<DeviceAddress> owned_;
  std::map<std::string, GlobalVariable, std::less<>> globals_;
};

struct LoadOptions {
  bool verbose = false;  ///< registers, shared and local memory of each kernel go to the info log
};

struct LoadResult {
  LoadStatus status = LoadStatus::Ok;
  std::unique_ptr<Module> module;  ///< set when `status` is Ok
  std::string info_log;
  std::string error_log;  ///< one line an error, in ptxas's form: `ptxas application ptx input, line 7; error   : ...`
};

/// Parses, checks and decodes PTX text for a device of architecture `arch`, and places its variables in `memory`, which
/// must outlive the module. Never throws on account of the text.
LoadResult load_module(std::string_view ptx, const Arch& arch, DeviceMemory& memory, const LoadOptions& options = {});

// ---------------------------------------------------------------- launches

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// What the sanitizer looks for; each costs only when on. Access to memory that does not exist is a fault in any case,
/// as it is on a real device; `bounds` makes the test byte exact.
struct Checks {
  bool bounds = true;         ///< global bounds and use after free, byte exact
  bool races = true;          ///< in shared and global memory
  bool uninitialised = true;  ///< reads of memory that nothing wrote
  bool barriers = true;       ///< divergent barriers
  bool shuffles = true;       ///< invalid membermasks and reads from lanes that do not take part
  static Checks none() { return {false, false, false, false, false}; }
  /// `all`, `none`, or a comma-separated list of the names above (`CORRLOOM_SIM_CHECKS`); empty on an unknown name.
  static std::optional<Checks> parse(std::string_view text);
};

/// How a launch ended. The comment is the error a real driver reports.
enum class LaunchError {
  None,
  InvalidLaunch,        ///< CUDA_ERROR_INVALID_VALUE: sizes that no device accepts
  OutOfResources,       ///< CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: threads, registers or shared memory of a block
  InvalidCluster,       ///< CUDA_ERROR_INVALID_CLUSTER_SIZE
  CooperativeTooLarge,  ///< CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
  IllegalAddress,       ///< CUDA_ERROR_ILLEGAL_ADDRESS
  MisalignedAddress,    ///< CUDA_ERROR_MISALIGNED_ADDRESS
  InvalidAddressSpace,  ///< CUDA_ERROR_INVALID_ADDRESS_SPACE
  InvalidPc,            ///< CUDA_ERROR_INVALID_PC: an indirect call or branch to nowhere
  IllegalInstruction,   ///< CUDA_ERROR_ILLEGAL_INSTRUCTION: operands outside what the ISA defines
  Trap,                 ///< CUDA_ERROR_LAUNCH_FAILED: `trap`
  Assert,               ///< CUDA_ERROR_ASSERT: `__assertfail`
  StackOverflow,        ///< CUDA_ERROR_LAUNCH_FAILED: recursion deeper than the stack
  Timeout,              ///< CUDA_ERROR_LAUNCH_TIMEOUT: the watchdog, or a deadlock
  Finding,              ///< CUDA_ERROR_LAUNCH_FAILED: only a sanitizer notices (races, uninitialised reads, ...);
                        ///< the kernel ran to its end
};

enum class FindingKind {
  OutOfBounds,
  UseAfterFree,
  Misaligned,
  SharedOutOfBounds,
  LocalOutOfBounds,
  ConstOutOfBounds,
  ReadOnlyWrite,
  Race,
  UninitialisedRead,
  DivergentBarrier,
  BarrierMisuse,
  InvalidMask,
  InactiveLane,
  Deadlock,
  Watchdog,
  Trap,
  Assert,
  StackOverflow,
  InvalidPc,
  IllegalInstruction,
  StaleReadOnlyLoad,
  UnsynchronisedAsyncCopy,
  MissingProxyFence,
};

/// The name of a kind as reports print it: `out of bounds`.
std::string_view finding_name(FindingKind kind);

/// One thing the sanitizer found. Findings of the same kind at the same PTX line are counted, not repeated.
struct Finding {
  FindingKind kind = FindingKind::OutOfBounds;
  std::string kernel;
  int ptx_line = 0;         ///< 1-based line in the PTX text
  std::string instruction;  ///< the instruction's text
  Dim3 block;               ///< coordinates, from 0
  Dim3 thread;
  DeviceAddress address = 0;
  uint32_t access_bytes = 0;
  std::string message;  ///< one sentence with the values found and wanted
  std::string other;    ///< the second party of a race: line, instruction, block, thread; empty otherwise
  uint64_t occurrences = 1;
  /// The whole finding as text, several lines.
  std::string text() const;
};

/// What a launch did, as a profiler would count it. Sums over the grid.
struct Counters {
  uint64_t warp_instructions = 0;    ///< instructions issued, one a warp
  uint64_t thread_instructions = 0;  ///< lanes active summed over them; 32 * warp_instructions without divergence
  uint64_t divergent_branches = 0;   ///< conditional branches whose lanes went both ways
  uint64_t branches = 0;
  // By class, in warp instructions.
  uint64_t fp16 = 0, fp32 = 0, fp64 = 0, integer = 0, conversion = 0, special_function = 0, control = 0, move = 0;
  uint64_t load_store = 0, barrier = 0, shuffle_vote = 0, atomic = 0, tensor_core = 0, async_copy = 0;
  // Thread-level floating-point operations (fma counts 2), without tensor cores.
  uint64_t flops_fp16 = 0, flops_fp32 = 0, flops_fp64 = 0;
  uint64_t tensor_flops = 0;  ///< multiply-adds of mma and wgmma, times 2
  // Global memory: a request is one warp instruction, a sector 32 bytes.
  uint64_t global_load_requests = 0, global_load_sectors = 0, global_load_bytes = 0;
  uint64_t global_store_requests = 0, global_store_sectors = 0, global_store_bytes = 0;
  uint64_t local_load_requests = 0, local_store_requests = 0;
  // Shared memory: a wavefront serves 32 banks of 4 bytes; conflicts are the wavefronts above the least possible.
  uint64_t shared_load_requests = 0, shared_load_wavefronts = 0;
  uint64_t shared_store_requests = 0, shared_store_wavefronts = 0;
  uint64_t shared_bank_conflicts = 0;
  uint64_t global_atomics = 0, shared_atomics = 0;  ///< thread level
  uint64_t async_bytes = 0;                         ///< moved by cp.async, bulk and tensor copies
  uint64_t blocks = 0, warps = 0, threads = 0;

  Counters& operator+=(const Counters& other);
  /// Every field as one JSON object on one line.
  std::string json() const;
};

struct LaunchRequest {
  const Module* module = nullptr;
  int kernel = 0;
  Dim3 grid, block;
  std::optional<Dim3> cluster;  ///< overrides the kernel's .reqnctapercluster only where that is absent
  uint32_t dynamic_shared_bytes = 0;
  uint32_t max_dynamic_shared_bytes = 0;  ///< the opt-in set on the function; 0: what 48 KiB leaves
  bool cooperative = false;               ///< every block must be resident at once and may wait for the others
  std::span<const std::byte> params;      ///< laid out by KernelInfo::params
};

struct LaunchOptions {
  Arch arch;
  Checks checks;
  bool count = true;
  std::chrono::milliseconds watchdog{30000};  ///< 0: none
  unsigned host_threads = 0;                  ///< 0: as many as the machine has
  uint64_t schedule_seed = 0;                 ///< other seeds visit blocks and warps in other orders
  uint32_t stack_bytes_per_thread = 64 * 1024;
  uint32_t max_findings = 32;  ///< distinct ones kept
  /// Receives the text of device printf, in the order of the calls of each block; nullptr: standard output.
  std::function<void(std::string_view)> print;
  /// Polled now and then; true ends the launch as a timeout (used when a context is destroyed).
  const std::atomic<bool>* cancel = nullptr;
};

struct LaunchResult {
  LaunchError error = LaunchError::None;
  std::string message;            ///< for errors before the first instruction; else the first finding's text
  std::vector<Finding> findings;  ///< the fault that ended the kernel comes first
  Counters counters;              ///< zeros unless asked for
  std::string report() const;     ///< all findings as text, empty when there are none
};

/// Checks the sizes of a launch as `launch` does first, without running anything: `error` and `message` say the first
/// rule that is broken.
LaunchResult check_launch(const LaunchRequest& request, const LaunchOptions& options);

/// Runs a kernel to its end on the calling thread and helpers it starts and joins. After a fault no further block
/// starts, and what ran before stays written, as on a real device.
LaunchResult launch(const LaunchRequest& request, const LaunchOptions& options);

// ---------------------------------------------------------------- tensor maps

/// Element types in the order of CUtensorMapDataType.
enum class TensorType : uint8_t {
  U8,
  U16,
  U32,
  S32,
  U64,
  S64,
  F16,
  F32,
  F64,
  BF16,
  F32Ftz,
  TF32,
  TF32Ftz,
  B4x16Align8,
  B4x16Align16,
  B6x16Align16,
};
enum class TensorInterleave : uint8_t { None, Bytes16, Bytes32 };  ///< CUtensorMapInterleave
enum class TensorSwizzle : uint8_t {
  None,
  Bytes32,
  Bytes64,
  Bytes128,
  Bytes128Atom32,
  Bytes128Atom32Flip8,
  Bytes128Atom64
};                                                            ///< CUtensorMapSwizzle
enum class TensorFill : uint8_t { Zero, NanRequestZeroFma };  ///< CUtensorMapFloatOOBfill

/// What `cuTensorMapEncodeTiled` is given. Dimension 0 is the innermost.
struct TensorMapDescription {
  TensorType type = TensorType::F32;
  uint32_t rank = 1;  ///< 1..5
  DeviceAddress address = 0;
  std::array<uint64_t, 5> extent{};        ///< elements
  std::array<uint64_t, 4> stride_bytes{};  ///< of dimensions 1..rank-1
  std::array<uint32_t, 5> box{};           ///< elements; for im2col: [0] = channels, [1] = pixels
  std::array<uint32_t, 5> element_stride{1, 1, 1, 1, 1};
  TensorInterleave interleave = TensorInterleave::None;
  TensorSwizzle swizzle = TensorSwizzle::None;
  TensorFill fill = TensorFill::Zero;
  bool im2col = false;
  std::array<int32_t, 3> lower_corner{};  ///< im2col: pixel box, dimensions W, H, D
  std::array<int32_t, 3> upper_corner{};
};

/// Bytes of one element of the type.
uint32_t tensor_type_bytes(TensorType type);

/// Checks a description against the rules of the CUDA Driver API's cuTensorMapEncodeTiled/Im2col and writes the
/// simulator's own 128-byte encoding. Returns the first broken rule as a sentence, empty when there is none.
std::string encode_tensor_map(const TensorMapDescription& description, std::span<std::byte, 128> out);
/// The first rule that a description breaks; empty when there is none.
std::string check_tensor_map(const TensorMapDescription& description);
/// Writes the encoding whatever the rules say: a kernel may build a map field by field.
void write_tensor_map(const TensorMapDescription& description, std::span<std::byte, 128> out);
/// The description in an encoded map; empty when the bytes are not one (a kernel was given something else).
std::optional<TensorMapDescription> decode_tensor_map(std::span<const std::byte, 128> bytes);

}  // namespace corrloom::sim
