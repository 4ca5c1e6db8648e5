#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/driver/operation.h"

namespace corrloom::sim::driver {

class Context;
struct Capture;

/// Something that happens once and can be waited for.
class Fence {
 public:
  void complete();
  bool done() const;
  void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
};

/// One recording of an event: when the stream reached it.
struct Mark {
  Fence reached;
  std::chrono::steady_clock::time_point time;  ///< valid once `reached`
};

/// An event (CUevent): its last recording, if any.
class Event {
 public:
  Event(CUcontext context, unsigned flags) : context(context), flags(flags) {}

  const CUcontext context;
  const unsigned flags;

  /// Starts a recording: the stream operation that ends it completes the mark returned.
  std::shared_ptr<Mark> start_recording();
  /// The last recording; nullptr when there was none.
  std::shared_ptr<Mark> last() const;
  /// Remembers that the event was recorded in a capturing stream, at these nodes of its graph.
  void set_captured(std::shared_ptr<Capture> capture, std::vector<CUgraphNode> nodes);
  /// The capture that last recorded the event, or nullptr; its nodes go to `nodes`.
  std::shared_ptr<Capture> captured(std::vector<CUgraphNode>* nodes) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
  std::shared_ptr<Capture> capture_;
  std::vector<CUgraphNode> captured_nodes_;
};

/// A queue of operations that one host thread carries out in order: a CUstream.
///
/// The thread starts with the first operation and ends when the stream is closed. Streams of a context are ordered by
/// `Context::enqueue`, which knows about the legacy stream.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind { Legacy, PerThread, Created };

  Stream(std::shared_ptr<Context> context, Kind kind, unsigned flags, int priority, uint64_t id)
      : kind(kind), flags(flags), priority(priority), id(id), context_(std::move(context)) {}

  const Kind kind;
  const unsigned flags;
  const int priority;
  const uint64_t id;
  CUstream handle = nullptr;

  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& shared_context() const { return context_; }
  /// True for streams that the legacy stream waits for and that wait for it.
  bool blocking() const { return kind != Kind::Legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
  /// Completes when everything that was enqueued so far has run; nullptr when nothing was.
  std::shared_ptr<Fence> last() const;
  /// Adds an operation that starts after those enqueued before and after the fences `after`.
  std::shared_ptr<Fence> push(Operation operation, std::vector<std::shared_ptr<Fence>> after,
                              std::vector<std::shared_ptr<Mark>> marks);
  /// Lets the thread end when the queue is empty.
  void close();

  /// The capture this stream takes part in, or nullptr. Guarded by the capture's own mutex (capture.h).
  std::shared_ptr<Capture> capture() const;
  void set_capture(std::shared_ptr<Capture> capture);

 private:
  struct Task {
    Operation operation;
    std::vector<std::shared_ptr<Fence>> after;
    std::vector<std::shared_ptr<Mark>> marks;
    std::shared_ptr<Fence> done;
  };
  void work();

  const std::shared_ptr<Context> context_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::shared_ptr<Fence> last_;
  std::shared_ptr<Capture> capture_;
  bool running_ = false;
  bool closing_ = false;
};

}  // namespace corrloom::sim::driver
