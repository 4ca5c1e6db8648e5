#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backend.h"
#include "runtime/faults.h"

namespace corrloom::runtime {

/// Work that was launched on a stream: its event, and the data-dependent checks that it and what it depends on have
/// open. Keeps the event until nobody asks for it any more.
class Work {
 public:
  /// Records an event behind the stream's work so far.
  explicit Work(BackendRef backend, Stream stream = {}, std::vector<FaultCheckRef> checks = {});
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  Stream stream() const { return stream_; }
  const BackendRef& backend() const { return backend_; }
  Event event() const { return event_; }
  const std::vector<FaultCheckRef>& checks() const { return checks_; }
  bool is_done() const { return backend_->is_done(event_); }
  /// Waits, then throws what it, or work that it depends on, failed with.
  void wait() const;

 private:
  BackendRef backend_;
  Stream stream_;
  std::vector<FaultCheckRef> checks_;
  Event event_;
};
using WorkRef = std::shared_ptr<const Work>;

/// The memory behind tensors: one allocation of a device, or memory of somebody else, and the work in flight that uses
/// it. Memory of the host has work in flight too when a GPU copies from or to it.
class Storage {
 public:
  /// New memory of the device's pool, which work of `home` may use at once. Throws RuntimeError when there is none.
  static std::shared_ptr<Storage> allocate(BackendRef backend, std::size_t bytes, Stream home = {});
  /// Host memory that a GPU copies to and from beside other work.
  static std::shared_ptr<Storage> allocate_pinned(BackendRef host, BackendRef gpu, std::size_t bytes);
  /// Somebody else's memory, until `release` (which may be empty) is called.
  static std::shared_ptr<Storage> wrap(BackendRef backend, void* memory, std::size_t bytes,
                                       std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t byte_count() const { return bytes_; }
  const BackendRef& backend() const { return backend_; }
  HostMemory host_memory() const { return host_memory_; }

  /// How often something was written here by ops and copies since it was made; counted when such work is launched.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void note_change() { version_.fetch_add(1, std::memory_order_acq_rel); }
  /// Whether somebody was given a pointer through which contents may change without a count.
  bool is_exposed() const { return exposed_.load(std::memory_order_acquire); }
  void note_exposed() { exposed_.store(true, std::memory_order_release); }

  /// Lets work that is launched next on `stream` see what was written before, wherever that was. Work of the host is
  /// launched when this returns: it waits.
  void order_read(DeviceBackend& backend, Stream stream) const;
  /// The same, and behind all reads.
  void order_write(DeviceBackend& backend, Stream stream) const;
  /// Remembers work that reads or writes this storage.
  void note_read(WorkRef work);
  void note_write(WorkRef work);
  /// The checks that are open for what was written last are added, each once.
  void collect_checks(std::vector<FaultCheckRef>& checks) const;
  /// Waits for the last write and throws what it failed with.
  void wait() const {
    if (has_work()) wait_for_write();
  }
  /// Waits for all work that uses the storage.
  void wait_for_all() const {
    if (has_work()) wait_for_work();
  }

 private:
  Storage(BackendRef backend, std::size_t bytes, Stream home)
      : backend_(std::move(backend)), bytes_(bytes), home_(home) {}

  bool has_work() const { return has_work_.load(std::memory_order_acquire); }
  void wait_for_write() const;
  void wait_for_work() const;
  /// Lets one stream of the device be behind all work in flight, and gives that stream.
  Stream stream_behind_all() const;
  /// Whether the work in flight could be waited for.
  bool is_idle_after_all() const noexcept;

  BackendRef backend_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  Stream home_;
  HostMemory host_memory_ = HostMemory::Pageable;
  std::function<void()> release_;
  bool is_owned_ = false;

  std::atomic<std::uint64_t> version_{0};
  std::atomic<bool> exposed_{false};
  std::atomic<bool> has_work_{false};  ///< false: nothing was ever noted, and no lock is needed to know it
  mutable std::mutex mutex_;
  WorkRef last_write_;
  std::vector<WorkRef> reads_;  ///< since the last write
};

}  // namespace corrloom::runtime
