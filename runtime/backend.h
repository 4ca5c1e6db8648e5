#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"
#include "runtime/device.h"
#include "runtime/strided_copy.h"

/// What a kind of device implements. Everything above it (tensors, run, io) is written against this and nothing else.
namespace corrloom::runtime {

/// An order of work on one device. The default one is null and always there.
struct Stream {
  void* handle = nullptr;
  friend bool operator==(const Stream&, const Stream&) = default;
};

/// A point in a stream. Null: already passed.
struct Event {
  void* handle = nullptr;
};

/// Bytes of the device's pool.
struct MemoryStats {
  std::int64_t in_use = 0;    ///< handed out, rounded to the pool's blocks
  std::int64_t reserved = 0;  ///< in use, and kept for reuse
  std::int64_t peak = 0;      ///< highest `in_use` so far
};

/// What a copy may expect of memory of the host.
enum class HostMemory : std::uint8_t {
  Pageable,  ///< any memory; the copy is done with it on return
  Pinned     ///< of `allocate_pinned`; it must stay as it is until the stream has passed the copy
};

class FaultCheck;

/// The launches of a device whose data-dependent checks nobody has asked about yet.
class FaultList {
 public:
  void add(std::shared_ptr<FaultCheck> check);
  /// Throws InputError for the earliest failed one that was not reported yet, and forgets all that are done.
  void raise();
  /// Forgets all; their launches are done.
  void clear() noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<FaultCheck>> checks_;
};

/// A program's code on one device; unloaded when destroyed, which its owner does only once all launches of it are done.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
};

/// One launch of kernel number `kernel` of loaded code.
struct Launch {
  const LoadedCode* code = nullptr;
  int kernel = 0;
  std::int64_t blocks = 0;  ///< at least 1
  /// One pointer for each argument of the kernel. Host: to the buffer's data, or to the 8-byte slot of a scalar or
  /// size. PTX: to the parameter's value (for a buffer, to the word that holds its address). Read before `launch`
  /// returns.
  void* const* arguments = nullptr;
  int argument_count = 0;
  double flops = 0, bytes = 0;  ///< estimates (flops: operations on integers, too), which decide whether threads pay
};

/// A device. All functions may be called from any thread at once. Functions that take a stream may return before the
/// work is done; errors of such work surface at the latest at the next synchronisation. All throw RuntimeError (call,
/// arguments, the machine's answer) unless they are noexcept.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual Device device() const = 0;
  /// The hardware in words, for `corrloom devices`.
  virtual std::string description() const = 0;
  /// What code for it is compiled for: `host`, or a PTX architecture such as `sm_90a`.
  virtual std::string architecture() const = 0;
  virtual int multiprocessors() const = 0;
  /// False when every call is complete on return; streams and events mean nothing then.
  virtual bool is_asynchronous() const = 0;
  /// Bytes that every allocation's address is a multiple of.
  virtual std::size_t alignment() const = 0;

  /// Memory that work of `stream` may use, never null, also for 0 bytes. Contents are whatever was there. Out of
  /// memory: gives the pool's kept blocks back and tries once more before it throws.
  virtual void* allocate(std::size_t bytes, Stream stream = {}) = 0;
  /// Takes memory back once the work of `stream` so far is done. `bytes` as allocated.
  virtual void free(void* memory, std::size_t bytes, Stream stream = {}) noexcept = 0;
  virtual MemoryStats memory() const = 0;
  /// Gives back kept blocks until at most `keep_bytes` are kept.
  virtual void trim(std::int64_t keep_bytes = 0) = 0;
  /// Lets allocation fail once `in_use` would exceed this; nothing lifts the limit.
  virtual void set_memory_limit(std::optional<std::int64_t> bytes) = 0;

  /// Host memory that copies to and from this device need not stage, and that kernels of it reach at the same address.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  /// `bytes` as allocated. No work uses the memory any more.
  virtual void free_pinned(void* memory, std::size_t bytes) noexcept = 0;

  virtual void copy_from_host(void* to, const void* from, std::size_t bytes, Stream stream = {},
                              HostMemory kind = HostMemory::Pageable) = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream = {},
                            HostMemory kind = HostMemory::Pageable) = 0;
  /// Between two places of this device, which do not overlap.
  virtual void copy_within(void* to, const void* from, std::size_t bytes, Stream stream = {}) = 0;
  /// From a device of the same kind to this one.
  virtual void copy_from_peer(void* to, DeviceBackend& peer, const void* from, std::size_t bytes,
                              Stream stream = {}) = 0;
  /// Sets every byte.
  virtual void fill(void* to, std::byte value, std::size_t bytes, Stream stream = {}) = 0;

  /// Makes a program's code callable. The program outlives the result.
  virtual std::unique_ptr<LoadedCode> load(const kernel::CompiledProgram& program) = 0;
  virtual void launch(const Launch& launch, Stream stream = {}) = 0;

  /// Streams for copies that run beside the work of the default one; the default one where copies have none.
  virtual Stream upload_stream() { return {}; }
  virtual Stream download_stream() { return {}; }
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  /// An event behind all work of the stream so far; the caller destroys it.
  virtual Event record(Stream stream = {}) = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual bool is_done(Event event) = 0;
  /// Lets later work of `stream` wait for the event, which may be of another device of the same kind.
  virtual void wait(Stream stream, Event event) = 0;
  virtual void synchronise(Event event) = 0;
  virtual void synchronise(Stream stream) = 0;
  /// Waits for all streams.
  virtual void synchronise() = 0;

  /// Every class that implements this clears it before it ends.
  FaultList& faults() { return faults_; }
  /// Copies between layouts, of GPUs. Every class whose `load` gives code for a GPU clears it before it ends.
  StridedCopy& strided_copy() { return strided_copy_; }

 private:
  FaultList faults_;
  StridedCopy strided_copy_;
};

using BackendRef = std::shared_ptr<DeviceBackend>;

/// The device itself. Throws RuntimeError, with what there is instead, when it is not there.
BackendRef backend_of(Device device);
/// Every device of this machine, the host first.
std::vector<BackendRef> all_backends();

/// In a line, which CUDA driver there is, or why there is none.
std::string cuda_status();

/// A function of the CUDA driver's library by name, or null: how tools ask a simulated driver for what it counted. The
/// library stays loaded.
void* cuda_symbol(const char* name);

/// Adds a device by hand, before the first use of any GPU: the machine's own are not looked for then.
void register_backend(BackendRef backend);

}  // namespace corrloom::runtime
