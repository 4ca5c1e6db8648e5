#include <algorithm>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/graph_nodes.h"
#include "runtime/sim/driver/state.h"

/// Executable graphs: made from graphs, changed, launched.
namespace corrloom::sim::driver {
namespace {

constexpr unsigned long long kInstantiateFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

std::shared_ptr<ExecutableGraph> find_executable(CUgraphExec handle) {
  std::shared_ptr<ExecutableGraph> executable = driver().executables.find(handle);
  require(executable != nullptr);
  return executable;
}

/// Appends the nodes of a graph in an order its edges allow, those of children in place. False when there is a cycle.
bool append(const Graph& graph, Plan& plan) {
  const std::lock_guard lock(graph.mutex);
  const std::optional<std::vector<CUgraphNode>> order = graph.sorted();
  if (!order) return false;
  for (const CUgraphNode node : *order) {
    const NodeContent& content = graph.nodes.at(node);
    const auto* child = std::get_if<Subgraph>(&content.operation);
    if (child == nullptr) {
      plan.steps.push_back({node, content.operation, content.enabled});
    } else if (!append(*child->graph, plan)) {
      return false;
    }
  }
  return true;
}

/// The plan of a graph that has no cycles.
std::shared_ptr<const Plan> plan_of(const Graph& graph) {
  auto plan = std::make_shared<Plan>();
  require(append(graph, *plan));
  return plan;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  require(out != nullptr && (flags & ~kInstantiateFlags) == 0);
  require((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0, CUDA_ERROR_NOT_SUPPORTED);
  const std::shared_ptr<Graph> graph = find_graph(handle);
  auto executable = std::make_shared<ExecutableGraph>();
  executable->flags = flags;
  executable->plan = plan_of(*graph);
  executable->source = graph->clone(&executable->names);
  executable->plan = plan_of(*executable->source);
  executable->order = std::make_shared<Event>(nullptr, CU_EVENT_DISABLE_TIMING);
  *out = driver().executables.insert(executable);
  return CUDA_SUCCESS;
}

/// Changes the copy of a node in an executable graph. Launches in flight keep what they began with.
template <class Change>
CUresult change(CUgraphExec handle, CUgraphNode node, Change change_node) {
  const std::shared_ptr<ExecutableGraph> executable = find_executable(handle);
  const std::lock_guard lock(executable->mutex);
  const auto it = executable->names.find(node);
  require(it != executable->names.end());
  {
    const std::lock_guard graph_lock(executable->source->mutex);
    change_node(executable->source->nodes.at(it->second));
  }
  executable->plan = plan_of(*executable->source);
  return CUDA_SUCCESS;
}

/// Gives a node another operation of the same kind.
CUresult replace(CUgraphExec handle, CUgraphNode node, Operation operation) {
  return change(handle, node, [&](NodeContent& content) {
    require(content.operation.index() == operation.index());
    content.operation = std::move(operation);
  });
}

/// How two graphs differ in a way that an update cannot bridge.
struct Difference {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  CUgraphNode node = nullptr;
};

/// Compares nodes in the order they were added; `names` maps those of `fresh` to those of `present`.
Difference compare(const Graph& present, const Graph& fresh, std::map<CUgraphNode, CUgraphNode>& names) {
  if (present.nodes.size() != fresh.nodes.size()) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr};
  auto old = present.nodes.begin();
  for (const auto& [node, content] : fresh.nodes) names[node] = (old++)->first;
  for (const auto& [node, content] : fresh.nodes) {
    const NodeContent& known = present.nodes.at(names[node]);
    if (known.operation.index() != content.operation.index())
      return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node};
    std::vector<CUgraphNode> renamed, wanted = known.dependencies;
    for (const CUgraphNode dependency : content.dependencies) renamed.push_back(names[dependency]);
    std::ranges::sort(renamed);
    std::ranges::sort(wanted);
    if (renamed != wanted) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node};
    const auto* child = std::get_if<Subgraph>(&known.operation);
    if (child != nullptr) {
      std::map<CUgraphNode, CUgraphNode> inner;
      const Difference below = compare(*child->graph, *std::get<Subgraph>(content.operation).graph, inner);
      if (below.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return {below.result, node};
    }
  }
  return {};
}

/// Takes the operations of a graph of the same shape over.
CUresult update(CUgraphExec handle, CUgraph graph_handle, Difference& difference) {
  const std::shared_ptr<ExecutableGraph> executable = find_executable(handle);
  const std::shared_ptr<Graph> graph = find_graph(graph_handle);
  const std::lock_guard lock(executable->mutex);
  std::map<CUgraphNode, CUgraphNode> names;
  {
    const std::scoped_lock graph_locks(graph->mutex, executable->source->mutex);
    difference = compare(*executable->source, *graph, names);
  }
  if (difference.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  std::map<CUgraphNode, CUgraphNode> copies;
  const std::shared_ptr<Graph> source = graph->clone(&copies);
  // Nodes of the graphs before still name the nodes they match.
  std::map<CUgraphNode, CUgraphNode> replaced;
  for (const auto& [node, old] : names) replaced[old] = copies.at(node);
  for (auto& [node, copy] : executable->names) copy = replaced.at(copy);
  executable->names.insert(copies.begin(), copies.end());
  forget_graph(*executable->source);
  executable->source = source;
  executable->plan = plan_of(*source);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult graph_instantiate_with_flags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}

CUresult graph_instantiate_with_log(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                    size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) log[0] = '\0';
  return instantiate(out, graph, 0);
}

CUresult graph_instantiate_with_params(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  require(params != nullptr);
  params->hErrNode_out = nullptr;
  params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  if ((params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) find_stream(params->hUploadStream);
  const CUresult result = instantiate(out, graph, params->flags);
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return result;
}

CUresult graph_exec_get_flags(CUgraphExec handle, cuuint64_t* flags) {
  require(flags != nullptr);
  *flags = find_executable(handle)->flags;
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec handle) {
  const std::shared_ptr<ExecutableGraph> executable = driver().executables.remove(handle);
  require(executable != nullptr);
  forget_graph(*executable->source);
  return CUDA_SUCCESS;
}

CUresult graph_exec_update(CUgraphExec handle, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* update_result) {
  require(update_result != nullptr);
  Difference difference{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr};
  const CUresult result = update(handle, graph, difference);
  *update_result = difference.result;
  if (error_node != nullptr) *error_node = difference.node;
  return result;
}

CUresult graph_exec_update_v2(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  require(info != nullptr);
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  return graph_exec_update(handle, graph, &info->errorNode, &info->result);
}

CUresult graph_exec_kernel_node_set_params(CUgraphExec handle, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return replace(handle, node, kernel_operation(widened(params)));
}

CUresult graph_exec_kernel_node_set_params_v2(CUgraphExec handle, CUgraphNode node,
                                              const CUDA_KERNEL_NODE_PARAMS* params) {
  require(params != nullptr);
  return replace(handle, node, kernel_operation(*params));
}

CUresult graph_exec_memcpy_node_set_params(CUgraphExec handle, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                           CUcontext) {
  return replace(handle, node, copy_operation(params));
}

CUresult graph_exec_memset_node_set_params(CUgraphExec handle, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                                           CUcontext) {
  return replace(handle, node, fill_operation(params));
}

CUresult graph_exec_host_node_set_params(CUgraphExec handle, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return replace(handle, node, host_operation(params));
}

CUresult graph_exec_event_record_node_set_event(CUgraphExec handle, CUgraphNode node, CUevent event) {
  return replace(handle, node, EventRecord{find_event(event), event});
}

CUresult graph_exec_event_wait_node_set_event(CUgraphExec handle, CUgraphNode node, CUevent event) {
  return replace(handle, node, EventWait{find_event(event), event});
}

CUresult graph_node_set_enabled(CUgraphExec handle, CUgraphNode node, unsigned enabled) {
  return change(handle, node, [&](NodeContent& content) {
    require(type_of(content.operation) <= CU_GRAPH_NODE_TYPE_MEMSET);  // kernels, copies, memsets
    content.enabled = enabled != 0;
  });
}

CUresult graph_node_get_enabled(CUgraphExec handle, CUgraphNode node, unsigned* enabled) {
  require(enabled != nullptr);
  return change(handle, node, [&](const NodeContent& content) { *enabled = content.enabled; });
}

CUresult graph_upload(CUgraphExec handle, CUstream stream) {
  find_executable(handle);
  submit(*find_stream(stream), Nothing{});
  return CUDA_SUCCESS;
}

CUresult graph_launch(CUgraphExec handle, CUstream stream_handle) {
  const std::shared_ptr<ExecutableGraph> executable = find_executable(handle);
  const std::shared_ptr<Stream> stream = find_stream(stream_handle);
  const std::lock_guard lock(executable->mutex);
  if (stream->capture() != nullptr) {
    const std::shared_ptr<Graph> child = executable->source->clone();
    child->embedded = true;
    submit(*stream, Subgraph{child});
    return CUDA_SUCCESS;
  }
  // Launches of one executable graph follow each other, whatever their streams.
  submit(*stream, EventWait{executable->order, nullptr});
  submit(*stream, GraphLaunch{executable->plan});
  submit(*stream, EventRecord{executable->order, nullptr});
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
