#include <algorithm>
#include <chrono>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Streams, events, host functions.
namespace corrloom::sim::driver {
namespace {

/// A stream whose context may have been lost: synchronising it tells the error.
std::shared_ptr<Stream> find_stream_even_lost(CUstream handle) {
  if (reinterpret_cast<uintptr_t>(handle) > kStreamPerThread) {
    std::shared_ptr<Stream> stream = driver().streams.find(handle);
    require(stream != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return stream;
  }
  return find_stream(handle);
}

/// Puts the stream into the capture in which the event was last recorded, behind the event's nodes.
void join_capture(Stream& stream, Event& event) {
  std::vector<CUgraphNode> nodes;
  const std::shared_ptr<Capture> capture = event.captured(&nodes);
  const std::shared_ptr<Capture> present = stream.capture();
  require(present == nullptr || present == capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  require(stream.kind != Stream::Kind::Legacy, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  const std::lock_guard lock(capture->mutex);
  require(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  require(!capture->ended, CUDA_ERROR_CAPTURED_EVENT);
  std::vector<CUgraphNode>& tail = capture->tail(stream);
  for (const CUgraphNode node : nodes) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  stream.set_capture(capture);
}

/// The recording of an event that has been recorded outside of captures.
std::shared_ptr<Mark> recording(const Event& event) {
  require(event.captured(nullptr) == nullptr, CUDA_ERROR_CAPTURED_EVENT);
  return event.last();
}

CUresult error_of(const Event& event) {
  const std::shared_ptr<Context> context = driver().contexts.find(event.context);
  return context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->error();
}

}  // namespace

CUresult stream_create_with_priority(CUstream* out, unsigned flags, int priority) {
  require(out != nullptr && flags <= CU_STREAM_NON_BLOCKING);
  const std::shared_ptr<Context> context = current_context();
  // Priorities outside the range are brought into it.
  *out = context->create_stream(flags, std::clamp(priority, kGreatestPriority, kLeastPriority))->handle;
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream* out, unsigned flags) {
  return stream_create_with_priority(out, flags, kLeastPriority);
}

CUresult stream_destroy(CUstream handle) {
  require(reinterpret_cast<uintptr_t>(handle) > kStreamPerThread, CUDA_ERROR_INVALID_HANDLE);
  const std::shared_ptr<Stream> stream = driver().streams.find(handle);
  require(stream != nullptr, CUDA_ERROR_INVALID_HANDLE);
  leave_capture(*stream);
  driver().streams.remove(handle);
  stream->context().forget(stream);
  return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream handle) {
  const std::shared_ptr<Stream> stream = find_stream_even_lost(handle);
  forbid_captured(*stream);
  forbid_implicit(*stream);
  // An empty operation waits for what the stream is ordered behind, too.
  if (stream->kind == Stream::Kind::Legacy) {
    stream->context().enqueue(*stream, Nothing{})->wait();
  } else if (const std::shared_ptr<Fence> last = stream->last()) {
    last->wait();
  }
  return stream->context().error();
}

CUresult stream_query(CUstream handle) {
  const std::shared_ptr<Stream> stream = find_stream_even_lost(handle);
  forbid_captured(*stream);
  forbid_implicit(*stream);
  if (stream->context().error() != CUDA_SUCCESS) return stream->context().error();
  return stream->context().idle(*stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult stream_wait_event(CUstream handle, CUevent event_handle, unsigned flags) {
  require(flags <= 1);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const std::shared_ptr<Event> event = find_event(event_handle);
  const bool external = flags == 1;
  require(!external || stream->capture() != nullptr);
  if (event->captured(nullptr) != nullptr && !external) {
    join_capture(*stream, *event);
    return CUDA_SUCCESS;
  }
  if (stream->capture() != nullptr && !external) {
    // An event recorded outside is a dependency on work that the graph does not contain.
    require(event->last() == nullptr, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    return CUDA_SUCCESS;
  }
  submit(*stream, EventWait{event, event_handle});
  return CUDA_SUCCESS;
}

CUresult stream_get_priority(CUstream handle, int* priority) {
  require(priority != nullptr);
  *priority = find_stream(handle)->priority;
  return CUDA_SUCCESS;
}

CUresult stream_get_flags(CUstream handle, unsigned* flags) {
  require(flags != nullptr);
  *flags = find_stream(handle)->flags;
  return CUDA_SUCCESS;
}

CUresult stream_get_id(CUstream handle, unsigned long long* id) {
  require(id != nullptr);
  *id = find_stream(handle)->id;
  return CUDA_SUCCESS;
}

CUresult stream_get_context(CUstream handle, CUcontext* context) {
  require(context != nullptr);
  *context = find_stream(handle)->context().handle;
  return CUDA_SUCCESS;
}

CUresult stream_get_context_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  require(green != nullptr);
  *green = nullptr;
  return stream_get_context(handle, context);
}

CUresult stream_get_device(CUstream handle, CUdevice* device) {
  require(device != nullptr);
  *device = find_stream(handle)->context().device.ordinal;
  return CUDA_SUCCESS;
}

CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags) {
  require(callback != nullptr && flags == 0);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  forbid_captured(*stream);
  submit(*stream, HostCall{nullptr, callback, data, handle});
  return CUDA_SUCCESS;
}

CUresult stream_attach_mem_async(CUstream handle, CUdeviceptr address, size_t, unsigned flags) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const std::optional<Block> block = driver().find_block(address);
  require(block.has_value() && block->kind == MemoryKind::Managed);
  require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE);
  submit(*stream, Nothing{});
  return CUDA_SUCCESS;
}

CUresult launch_host_function(CUstream handle, CUhostFn function, void* data) {
  require(function != nullptr);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  submit(*stream, HostCall{function, nullptr, data, handle});
  return CUDA_SUCCESS;
}

CUresult event_create(CUevent* out, unsigned flags) {
  require(out != nullptr && flags < 8);
  // Events for other processes cannot be timed, and there is no way to hand them over here.
  require((flags & CU_EVENT_INTERPROCESS) == 0, CUDA_ERROR_NOT_SUPPORTED);
  *out = driver().events.insert(std::make_shared<Event>(current_context()->handle, flags));
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent handle) {
  require(driver().events.remove(handle) != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

CUresult event_record_with_flags(CUevent handle, CUstream stream_handle, unsigned flags) {
  require(flags <= 1);
  const std::shared_ptr<Stream> stream = find_stream(stream_handle);
  const std::shared_ptr<Event> event = find_event(handle);
  require(event->context == stream->context().handle, CUDA_ERROR_INVALID_HANDLE);
  const std::shared_ptr<Capture> capture = stream->capture();
  if (capture != nullptr && flags == 0) {
    const std::lock_guard lock(capture->mutex);
    require(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    event->set_captured(capture, capture->tail(*stream));
    return CUDA_SUCCESS;
  }
  require(flags == 0 || capture != nullptr);
  submit(*stream, EventRecord{event, handle});
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream) {
  return event_record_with_flags(event, stream, 0);
}

CUresult event_query(CUevent handle) {
  const std::shared_ptr<Event> event = find_event(handle);
  const std::shared_ptr<Mark> mark = recording(*event);
  if (const CUresult error = error_of(*event); error != CUDA_SUCCESS) return error;
  return mark == nullptr || mark->reached.done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult event_synchronize(CUevent handle) {
  const std::shared_ptr<Event> event = find_event(handle);
  if (const std::shared_ptr<Mark> mark = recording(*event)) mark->reached.wait();
  return error_of(*event);
}

CUresult event_elapsed_time(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  require(milliseconds != nullptr);
  const std::shared_ptr<Event> start = find_event(start_handle), end = find_event(end_handle);
  const auto timed = [](const Event& event) { return (event.flags & CU_EVENT_DISABLE_TIMING) == 0; };
  const std::shared_ptr<Mark> first = recording(*start), last = recording(*end);
  require(timed(*start) && timed(*end) && first != nullptr && last != nullptr, CUDA_ERROR_INVALID_HANDLE);
  for (const Event* event : {start.get(), end.get()}) {
    if (const CUresult error = error_of(*event); error != CUDA_SUCCESS) return error;
  }
  if (!first->reached.done() || !last->reached.done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
