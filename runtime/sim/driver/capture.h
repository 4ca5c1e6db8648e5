#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/sim/driver/graph.h"
#include "runtime/sim/driver/stream.h"

/// Recording the work of streams as a graph.
namespace corrloom::sim::driver {

/// One capture sequence: the graph it fills and the streams that take part.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::shared_ptr<Graph> graph;
  bool into_own_graph = true;  ///< the graph was made for this capture
  std::weak_ptr<Stream> origin;

  std::mutex mutex;
  bool invalidated = false;
  bool ended = false;
  /// The streams of the sequence, each with the nodes that its next operation depends on.
  struct Member {
    std::weak_ptr<Stream> stream;
    std::vector<CUgraphNode> tail;
  };
  std::vector<Member> members;

  /// What the next operation of `stream` depends on.
  std::vector<CUgraphNode>& tail(const Stream& stream);
};

/// Queues an operation in a stream, or adds it to the graph that the stream is captured into. Fails with
/// STREAM_CAPTURE_IMPLICIT when it would tie the legacy stream to a capture, STREAM_CAPTURE_INVALIDATED after a
/// failure.
void submit(Stream& stream, Operation operation);
/// The same, and waits until it is done. Not allowed in a capture.
CUresult submit_and_wait(Stream& stream, Operation operation);

/// Fails with STREAM_CAPTURE_UNSUPPORTED, and spoils the captures concerned, when the calling thread may not make calls
/// that could disturb a capture.
void forbid_while_capturing(Context& context);
/// Fails with STREAM_CAPTURE_UNSUPPORTED, and spoils the capture, when the stream is part of one.
void forbid_captured(Stream& stream);

/// Fails with STREAM_CAPTURE_IMPLICIT, and spoils the capture, when the stream is the legacy stream and would wait for
/// a captured one.
void forbid_implicit(Stream& stream);
/// Spoils the capture that a stream takes part in, as the stream ends.
void leave_capture(Stream& stream);

}  // namespace corrloom::sim::driver
