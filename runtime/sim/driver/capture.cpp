#include "runtime/sim/driver/capture.h"

#include <algorithm>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {
namespace {

/// The captures that streams of the context take part in.
std::vector<std::shared_ptr<Capture>> captures_of(Context& context) {
  std::vector<std::shared_ptr<Capture>> found;
  for (const std::shared_ptr<Stream>& stream : context.streams()) {
    std::shared_ptr<Capture> capture = stream->capture();
    if (capture != nullptr && std::ranges::find(found, capture) == found.end()) found.push_back(std::move(capture));
  }
  return found;
}

void invalidate(Capture& capture) {
  const std::lock_guard lock(capture.mutex);
  capture.invalidated = true;
}

/// Whether a call of this thread that could disturb captures may disturb this one. A thread that captures in relaxed
/// mode, or exchanged its mode for relaxed, may.
bool forbids(const Capture& capture) {
  const CUstreamCaptureMode thread_mode = this_thread().capture_mode;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const bool own = capture.thread == std::this_thread::get_id();
  return own || (capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

}  // namespace

/// The legacy stream waits for all blocking streams, which a capture cannot express.
void forbid_implicit(Stream& stream) {
  if (stream.kind != Stream::Kind::Legacy) return;
  for (const std::shared_ptr<Stream>& other : stream.context().streams()) {
    const std::shared_ptr<Capture> capture = other->blocking() ? other->capture() : nullptr;
    if (capture == nullptr) continue;
    invalidate(*capture);
    throw Failure{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT};
  }
}

std::vector<CUgraphNode>& Capture::tail(const Stream& stream) {
  const auto it = std::ranges::find_if(members, [&](const Member& m) { return m.stream.lock().get() == &stream; });
  if (it != members.end()) return it->tail;
  members.push_back({std::const_pointer_cast<Stream>(stream.shared_from_this()), {}});
  return members.back().tail;
}

void submit(Stream& stream, Operation operation) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (capture == nullptr) {
    forbid_implicit(stream);
    stream.context().enqueue(stream, std::move(operation));
    return;
  }
  const std::lock_guard lock(capture->mutex);
  require(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  std::vector<CUgraphNode>& tail = capture->tail(stream);
  // Staged copies of host memory belong to the moment of the call; a graph reads the memory when it runs.
  if (auto* copy = std::get_if<Copy>(&operation)) copy->staged = nullptr;
  tail = {capture->graph->add(std::move(operation), tail)};
}

CUresult submit_and_wait(Stream& stream, Operation operation) {
  forbid_captured(stream);
  forbid_while_capturing(stream.context());
  forbid_implicit(stream);
  stream.context().enqueue(stream, std::move(operation))->wait();
  return stream.context().error();
}

void forbid_while_capturing(Context& context) {
  for (const std::shared_ptr<Capture>& capture : captures_of(context)) {
    if (!forbids(*capture)) continue;
    invalidate(*capture);
    throw Failure{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
  }
}

void forbid_captured(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (capture == nullptr) return;
  invalidate(*capture);
  throw Failure{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
}

void leave_capture(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (capture == nullptr) return;
  invalidate(*capture);
  stream.set_capture(nullptr);
}

}  // namespace corrloom::sim::driver
