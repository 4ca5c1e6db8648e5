#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/context.h"

namespace corrloom::runtime::gpu {

/// Events of the driver, made when they are needed and kept for reuse.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  EventPool(const Context& context, unsigned flags) : context_(context), flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// An event, recorded in the stream; it returns to the pool when nobody refers to it. The context is current.
  std::shared_ptr<OpaqueEvent> record(StreamHandle stream);

 private:
  /// Takes an event back; `record` has made room for it.
  void give_back(EventHandle event) noexcept;

  const Context& context_;
  const unsigned flags_;
  std::mutex mutex_;
  std::vector<EventHandle> kept_;
  std::size_t made_ = 0;
};

/// A stream, and how far it is known to have come. Positions in it are tickets, counted up by `mark`. Most marks are
/// never asked for, so the driver's event is recorded when somebody asks first; it then stands behind more work than it
/// must, which keeps every order.
class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  /// Makes a stream that does not synchronise with the legacy one. The context is current.
  StreamState(const Context& context, std::shared_ptr<EventPool> events);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  const Context& context() const { return context_; }
  StreamHandle handle() const { return handle_; }

  /// The position behind all work of the stream so far.
  std::uint64_t mark() { return submitted_.fetch_add(1) + 1; }
  /// Whether the stream has passed a position. May throw what its work failed with.
  bool has_passed(std::uint64_t ticket);
  /// Waits on the host until it has.
  void wait_until_passed(std::uint64_t ticket);
  /// Waits on the host for all work so far.
  void synchronise();
  /// Lets later work of this stream wait for a position of another one, which may be of another device. The context is
  /// current.
  void wait_for(StreamState& other, std::uint64_t ticket);

 private:
  struct Recorded {
    std::uint64_t ticket = 0;  ///< the event stands behind this and every earlier position
    std::shared_ptr<OpaqueEvent> event;
  };
  bool is_known_passed(std::uint64_t ticket) const { return passed_.load(std::memory_order_acquire) >= ticket; }
  void note_passed(std::uint64_t ticket);
  /// An event at the position or behind it.
  Recorded event_behind(std::uint64_t ticket);

  const Context& context_;
  std::shared_ptr<EventPool> events_;
  StreamHandle handle_ = nullptr;
  std::atomic<std::uint64_t> submitted_{0}, passed_{0};
  std::mutex mutex_;
  Recorded latest_;
};

/// A position in a stream: what `Event::handle` points to.
struct Mark {
  std::shared_ptr<StreamState> stream;
  std::uint64_t ticket = 0;

  bool is_passed() const { return stream->has_passed(ticket); }
};

}  // namespace corrloom::runtime::gpu
