#include <algorithm>
#include <set>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Beginning, ending and looking into captures.
namespace corrloom::sim::driver {
namespace {

/// The nodes that are before any of `nodes`, and themselves.
std::set<CUgraphNode> ancestors(const Graph& graph, std::vector<CUgraphNode> nodes) {
  std::set<CUgraphNode> seen;
  while (!nodes.empty()) {
    const CUgraphNode node = nodes.back();
    nodes.pop_back();
    if (!seen.insert(node).second) continue;
    const auto it = graph.nodes.find(node);
    if (it == graph.nodes.end()) continue;
    nodes.insert(nodes.end(), it->second.dependencies.begin(), it->second.dependencies.end());
  }
  return seen;
}

/// True when the work of every stream of the capture comes before what the origin does next.
bool joined(Capture& capture, const Stream& origin) {
  const std::lock_guard lock(capture.graph->mutex);
  const std::set<CUgraphNode> before = ancestors(*capture.graph, capture.tail(origin));
  return std::ranges::all_of(capture.members, [&](const Capture::Member& member) {
    return std::ranges::all_of(member.tail, [&](CUgraphNode node) { return before.contains(node); });
  });
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
               std::vector<CUgraphNode> dependencies) {
  require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  require(stream->kind != Stream::Kind::Legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(stream->capture() == nullptr, CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->id = driver().next_capture_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->into_own_graph = graph == nullptr;
  capture->graph = graph != nullptr ? std::move(graph) : make_graph();
  capture->origin = stream;
  capture->tail(*stream) = std::move(dependencies);
  stream->set_capture(std::move(capture));
  return CUDA_SUCCESS;
}

/// What `cuStreamGetCaptureInfo` tells; everything but the status is optional.
CUresult describe(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, size_t* count) {
  require(status != nullptr);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const std::shared_ptr<Capture> capture = stream->capture();
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (capture == nullptr) return CUDA_SUCCESS;
  const std::lock_guard lock(capture->mutex);
  *status = capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capture->invalidated) return CUDA_SUCCESS;
  const std::vector<CUgraphNode>& tail = capture->tail(*stream);
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = capture->graph->handle;
  if (dependencies != nullptr) *dependencies = tail.data();
  if (count != nullptr) *count = tail.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, const CUgraphNode* nodes, size_t count, unsigned flags) {
  require(flags <= 1 && (count == 0 || nodes != nullptr));
  const bool replace = flags == 1;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const std::shared_ptr<Capture> capture = stream->capture();
  require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  const std::lock_guard lock(capture->mutex);
  require(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  {
    const std::lock_guard graph_lock(capture->graph->mutex);
    for (size_t i = 0; i < count; ++i) require(capture->graph->nodes.contains(nodes[i]));
  }
  std::vector<CUgraphNode>& tail = capture->tail(*stream);
  if (replace) tail.clear();
  for (size_t i = 0; i < count; ++i) {
    if (std::ranges::find(tail, nodes[i]) == tail.end()) tail.push_back(nodes[i]);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult stream_begin_capture(CUstream handle) {
  return begin(handle, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {});
}

CUresult stream_begin_capture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return begin(handle, mode, nullptr, {});
}

CUresult stream_begin_capture_to_graph(CUstream handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                                       const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  std::shared_ptr<Graph> graph = find_graph(graph_handle);
  require(count == 0 || dependencies != nullptr);
  std::vector<CUgraphNode> nodes(dependencies, dependencies + count);
  {
    const std::lock_guard lock(graph->mutex);
    for (const CUgraphNode node : nodes) require(graph->nodes.contains(node));
  }
  return begin(handle, mode, std::move(graph), std::move(nodes));
}

CUresult stream_end_capture(CUstream handle, CUgraph* out) {
  require(out != nullptr);
  *out = nullptr;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const std::shared_ptr<Capture> capture = stream->capture();
  require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  const std::lock_guard lock(capture->mutex);
  require(capture->origin.lock() == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
          CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  const CUresult result = capture->invalidated         ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : !joined(*capture, *stream) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                       : CUDA_SUCCESS;
  capture->ended = true;
  for (const Capture::Member& member : capture->members) {
    const std::shared_ptr<Stream> other = member.stream.lock();
    if (other != nullptr && other->capture() == capture) other->set_capture(nullptr);
  }
  if (result == CUDA_SUCCESS) {
    *out = capture->graph->handle;
  } else if (capture->into_own_graph) {
    forget_graph(*capture->graph);
  }
  return result;
}

CUresult stream_is_capturing(CUstream handle, CUstreamCaptureStatus* status) {
  return describe(handle, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return describe(handle, status, id, nullptr, nullptr, nullptr);
}

CUresult stream_get_capture_info_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                    const CUgraphNode** dependencies, size_t* count) {
  return describe(handle, status, id, graph, dependencies, count);
}

CUresult stream_get_capture_info_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                    const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  // Every edge is a full dependency, which needs no data.
  if (edges != nullptr) *edges = nullptr;
  return describe(handle, status, id, graph, dependencies, count);
}

CUresult stream_update_capture_dependencies(CUstream handle, CUgraphNode* nodes, size_t count, unsigned flags) {
  return update_dependencies(handle, nodes, count, flags);
}

CUresult stream_update_capture_dependencies_v2(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData*,
                                               size_t count, unsigned flags) {
  return update_dependencies(handle, nodes, count, flags);
}

CUresult thread_exchange_stream_capture_mode(CUstreamCaptureMode* mode) {
  require(mode != nullptr && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  std::swap(*mode, this_thread().capture_mode);
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
