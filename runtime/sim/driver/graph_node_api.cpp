#include <algorithm>
#include <cstring>

#include "runtime/sim/driver/copy.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/graph_nodes.h"
#include "runtime/sim/driver/launch.h"
#include "runtime/sim/driver/memory_blocks.h"
#include "runtime/sim/driver/state.h"

/// The kinds of graph nodes: adding them, and asking and changing what they do.
namespace corrloom::sim::driver {

CUgraphNodeType type_of(const Operation& operation) {
  if (std::holds_alternative<KernelLaunch>(operation)) return CU_GRAPH_NODE_TYPE_KERNEL;
  if (std::holds_alternative<Copy>(operation)) return CU_GRAPH_NODE_TYPE_MEMCPY;
  if (std::holds_alternative<Fill>(operation)) return CU_GRAPH_NODE_TYPE_MEMSET;
  if (std::holds_alternative<HostCall>(operation)) return CU_GRAPH_NODE_TYPE_HOST;
  if (std::holds_alternative<Subgraph>(operation)) return CU_GRAPH_NODE_TYPE_GRAPH;
  if (std::holds_alternative<EventWait>(operation)) return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  if (std::holds_alternative<EventRecord>(operation)) return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

std::shared_ptr<Graph> graph_of(CUgraphNode node) {
  const std::shared_ptr<GraphNode> found = driver().nodes.find(node);
  std::shared_ptr<Graph> graph = found == nullptr ? nullptr : found->graph.lock();
  require(graph != nullptr);
  return graph;
}

Operation kernel_operation(const CUDA_KERNEL_NODE_PARAMS& p) {
  const CUfunction function = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
  KernelLaunch kernel = make_launch(function, {p.gridDimX, p.gridDimY, p.gridDimZ},
                                    {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes, p.kernelParams, p.extra);
  const std::shared_ptr<Context> context = driver().contexts.find(kernel.function->module->context);
  require(context != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  std::string message;
  const CUresult problem = check(kernel, *context, message);
  require(problem == CUDA_SUCCESS, problem);
  return kernel;
}

Operation copy_operation(const CUDA_MEMCPY3D* params) {
  require(params != nullptr);
  return describe_copy(*params);
}

Operation fill_operation(const CUDA_MEMSET_NODE_PARAMS* p) {
  require(p != nullptr && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4));
  const Fill fill{p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
  if (const std::optional<CUresult> problem = problem_of(fill)) throw Failure{*problem};
  return fill;
}

Operation host_operation(const CUDA_HOST_NODE_PARAMS* params) {
  require(params != nullptr && params->fn != nullptr);
  return HostCall{params->fn, nullptr, params->userData, nullptr};
}

CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  require(p != nullptr);
  return {p->func,      p->gridDimX,       p->gridDimY,     p->gridDimZ, p->blockDimX, p->blockDimY,
          p->blockDimZ, p->sharedMemBytes, p->kernelParams, p->extra,    nullptr,      nullptr};
}

namespace {

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count, Operation operation) {
  require(out != nullptr && (count == 0 || dependencies != nullptr));
  *out = find_graph(handle)->add(std::move(operation), {dependencies, dependencies + count});
  return CUDA_SUCCESS;
}

/// Calls `use` with the node's operation, which must be of kind `T`.
template <class T, class Use>
CUresult with(CUgraphNode node, Use use) {
  const std::shared_ptr<Graph> graph = graph_of(node);
  const std::lock_guard lock(graph->mutex);
  T* operation = std::get_if<T>(&graph->nodes.at(node).operation);
  require(operation != nullptr);
  use(*operation);
  return CUDA_SUCCESS;
}

/// Gives the node another operation of the same kind. Made before the node is looked at: making may fail.
template <class T>
CUresult set(CUgraphNode node, Operation operation) {
  return with<T>(node, [&](T& present) { present = std::move(std::get<T>(operation)); });
}

void fill_side(const CopySide& side, CUmemorytype& type, const void*& host, CUdeviceptr& device, size_t& pitch,
               size_t& rows) {
  type = is_device_address(side.address) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  host = is_device_address(side.address) ? nullptr : reinterpret_cast<const void*>(side.address);
  device = is_device_address(side.address) ? side.address : 0;
  pitch = side.row_pitch;
  rows = side.row_pitch == 0 ? 0 : side.slice_pitch / side.row_pitch;
}

/// Pointers to the arguments of a kernel, which live as long as the node.
void** argument_pointers(CUgraphNode node, KernelLaunch& kernel) {
  std::vector<void*>& pointers = driver().nodes.find(node)->argument_pointers;
  pointers.clear();
  for (const KernelParam& param : kernel.function->info().params)
    pointers.push_back(kernel.params.data() + param.offset);
  return pointers.data();
}

}  // namespace

CUresult graph_add_kernel_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add(out, graph, dependencies, count, kernel_operation(widened(params)));
}

CUresult graph_add_kernel_node_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  const CUDA_KERNEL_NODE_PARAMS* params) {
  require(params != nullptr);
  return add(out, graph, dependencies, count, kernel_operation(*params));
}

CUresult graph_add_memcpy_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_MEMCPY3D* params, CUcontext) {
  return add(out, graph, dependencies, count, copy_operation(params));
}

CUresult graph_add_memset_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return add(out, graph, dependencies, count, fill_operation(params));
}

CUresult graph_add_host_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                             const CUDA_HOST_NODE_PARAMS* params) {
  return add(out, graph, dependencies, count, host_operation(params));
}

CUresult graph_add_empty_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  return add(out, graph, dependencies, count, Nothing{});
}

CUresult graph_add_event_record_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                     CUevent event) {
  return add(out, graph, dependencies, count, EventRecord{find_event(event), event});
}

CUresult graph_add_event_wait_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   CUevent event) {
  return add(out, graph, dependencies, count, EventWait{find_event(event), event});
}

CUresult graph_add_child_graph_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
                                    CUgraph child) {
  const std::shared_ptr<Graph> copy = find_graph(child)->clone();
  copy->embedded = true;
  return add(out, handle, dependencies, count, Subgraph{copy});
}

CUresult graph_child_graph_node_get_graph(CUgraphNode node, CUgraph* out) {
  require(out != nullptr);
  return with<Subgraph>(node, [&](const Subgraph& child) { *out = child.graph->handle; });
}

CUresult graph_event_record_node_get_event(CUgraphNode node, CUevent* out) {
  require(out != nullptr);
  return with<EventRecord>(node, [&](const EventRecord& record) { *out = record.handle; });
}

CUresult graph_event_record_node_set_event(CUgraphNode node, CUevent event) {
  return set<EventRecord>(node, EventRecord{find_event(event), event});
}

CUresult graph_event_wait_node_get_event(CUgraphNode node, CUevent* out) {
  require(out != nullptr);
  return with<EventWait>(node, [&](const EventWait& wait) { *out = wait.handle; });
}

CUresult graph_event_wait_node_set_event(CUgraphNode node, CUevent event) {
  return set<EventWait>(node, EventWait{find_event(event), event});
}

CUresult graph_kernel_node_get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  require(out != nullptr);
  return with<KernelLaunch>(node, [&](KernelLaunch& k) {
    *out = {k.function->handle,
            k.grid.x,
            k.grid.y,
            k.grid.z,
            k.block.x,
            k.block.y,
            k.block.z,
            k.dynamic_shared_bytes,
            argument_pointers(node, k),
            nullptr};
  });
}

CUresult graph_kernel_node_get_params_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  require(out != nullptr);
  CUDA_KERNEL_NODE_PARAMS_v1 params;
  if (const CUresult result = graph_kernel_node_get_params(node, &params); result != CUDA_SUCCESS) return result;
  *out = widened(&params);
  return CUDA_SUCCESS;
}

CUresult graph_kernel_node_set_params(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set<KernelLaunch>(node, kernel_operation(widened(params)));
}

CUresult graph_kernel_node_set_params_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  require(params != nullptr);
  return set<KernelLaunch>(node, kernel_operation(*params));
}

CUresult graph_memcpy_node_get_params(CUgraphNode node, CUDA_MEMCPY3D* out) {
  require(out != nullptr);
  return with<Copy>(node, [&](const Copy& copy) {
    *out = {};
    const void* target = nullptr;
    fill_side(copy.from, out->srcMemoryType, out->srcHost, out->srcDevice, out->srcPitch, out->srcHeight);
    fill_side(copy.to, out->dstMemoryType, target, out->dstDevice, out->dstPitch, out->dstHeight);
    out->dstHost = const_cast<void*>(target);
    out->WidthInBytes = copy.width_bytes;
    out->Height = copy.height;
    out->Depth = copy.depth;
  });
}

CUresult graph_memcpy_node_set_params(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return set<Copy>(node, copy_operation(params));
}

CUresult graph_memset_node_get_params(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  require(out != nullptr);
  return with<Fill>(node, [&](const Fill& fill) {
    *out = {fill.address, fill.pitch, fill.value, fill.element_bytes, fill.width, fill.height};
  });
}

CUresult graph_memset_node_set_params(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return set<Fill>(node, fill_operation(params));
}

CUresult graph_host_node_get_params(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  require(out != nullptr);
  return with<HostCall>(node, [&](const HostCall& call) { *out = {call.function, call.data}; });
}

CUresult graph_host_node_set_params(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return set<HostCall>(node, host_operation(params));
}

}  // namespace corrloom::sim::driver
