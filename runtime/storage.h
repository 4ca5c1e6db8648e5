#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backend.h"

namespace corrloom::runtime {

/// Work that was launched on a stream: its event, and how to learn whether it failed. Keeps the event until nobody asks
/// for it any more.
class Work {
 public:
  /// Records an event behind the stream's work so far. `check`, which may be empty, is called after the event has
  /// passed and throws what the work failed with.
  Work(BackendRef backend, Stream stream, std::function<void()> check = {});
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  Stream stream() const { return stream_; }
  const BackendRef& backend() const { return backend_; }
  Event event() const { return event_; }
  bool is_done() const { return backend_->is_done(event_); }
  /// Waits, then throws what it failed with.
  void wait() const;

 private:
  BackendRef backend_;
  Stream stream_;
  Event event_;
  std::function<void()> check_;
};
using WorkRef = std::shared_ptr<const Work>;

/// The memory behind tensors: one allocation of a device, or memory of somebody else, and the work in flight that uses
/// it.
class Storage {
 public:
  /// New memory of the device's pool. Throws RuntimeError when there is none.
  static std::shared_ptr<Storage> allocate(BackendRef backend, std::size_t bytes);
  /// Somebody else's memory, until `release` (which may be empty) is called.
  static std::shared_ptr<Storage> wrap(BackendRef backend, void* memory, std::size_t bytes,
                                       std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t byte_count() const { return bytes_; }
  const BackendRef& backend() const { return backend_; }

  /// Lets work that is launched next on `stream` see what was written before, wherever that was.
  void order_read(DeviceBackend& backend, Stream stream) const;
  /// The same, and behind all reads.
  void order_write(DeviceBackend& backend, Stream stream) const;
  /// Remembers work that reads or writes this storage. Only for asynchronous devices.
  void note_read(WorkRef work);
  void note_write(WorkRef work);
  /// Waits for the last write and throws what it failed with.
  void wait() const;

 private:
  Storage(BackendRef backend, std::byte* data, std::size_t bytes, std::function<void()> release, bool owned);

  BackendRef backend_;
  std::byte* data_;
  std::size_t bytes_;
  std::function<void()> release_;
  bool owned_;

  mutable std::mutex mutex_;
  WorkRef last_write_;
  std::vector<WorkRef> reads_;  ///< since the last write
};

}  // namespace corrloom::runtime
