#include <algorithm>
#include <fstream>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/graph_nodes.h"
#include "runtime/sim/driver/state.h"

/// Graphs: their nodes and edges.
namespace corrloom::sim::driver {
namespace {

using Nodes = std::vector<CUgraphNode>;

/// Hands out a list as the API does: with a null array only the length; else as many as fit, the rest filled with null.
CUresult hand_out(const Nodes& list, CUgraphNode* nodes, size_t* count) {
  require(count != nullptr);
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < list.size() ? list[i] : nullptr;
    *count = std::min(*count, list.size());
  } else {
    *count = list.size();
  }
  return CUDA_SUCCESS;
}

Nodes dependencies_of(CUgraphNode node) {
  const std::shared_ptr<Graph> graph = graph_of(node);
  const std::lock_guard lock(graph->mutex);
  return graph->nodes.at(node).dependencies;
}

Nodes dependents_of(CUgraphNode node) {
  const std::shared_ptr<Graph> graph = graph_of(node);
  const std::lock_guard lock(graph->mutex);
  Nodes list;
  for (const auto& [other, content] : graph->nodes) {
    if (std::ranges::find(content.dependencies, node) != content.dependencies.end()) list.push_back(other);
  }
  return list;
}

CUresult edges_of(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  require((from == nullptr) == (to == nullptr) && count != nullptr);
  Nodes sources, targets;
  {
    const std::lock_guard lock(graph->mutex);
    for (const auto& [node, content] : graph->nodes) {
      sources.insert(sources.end(), content.dependencies.begin(), content.dependencies.end());
      targets.resize(sources.size(), node);
    }
  }
  size_t room = *count;
  if (from != nullptr) hand_out(sources, from, &room);
  return hand_out(targets, to, count);
}

CUresult add_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  require(count == 0 || (from != nullptr && to != nullptr));
  const std::lock_guard lock(graph->mutex);
  for (size_t i = 0; i < count; ++i) {
    require(graph->nodes.contains(from[i]) && graph->nodes.contains(to[i]) && from[i] != to[i]);
    Nodes& dependencies = graph->nodes[to[i]].dependencies;
    require(std::ranges::find(dependencies, from[i]) == dependencies.end());
    dependencies.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  require(count == 0 || (from != nullptr && to != nullptr));
  const std::lock_guard lock(graph->mutex);
  for (size_t i = 0; i < count; ++i) {
    require(graph->nodes.contains(from[i]) && graph->nodes.contains(to[i]));
    require(std::erase(graph->nodes[to[i]].dependencies, from[i]) != 0);
  }
  return CUDA_SUCCESS;
}

/// What a picture of the graph calls a node.
std::string label_of(const Operation& operation) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&operation)) return kernel->function->info().name;
  static constexpr const char* kNames[] = {"kernel", "memcpy", "memset",     "host",
                                           "graph",  "empty",  "event wait", "event record"};
  return kNames[size_t(type_of(operation))];
}

}  // namespace

CUresult graph_create(CUgraph* out, unsigned flags) {
  require(out != nullptr && flags == 0);
  *out = make_graph()->handle;
  return CUDA_SUCCESS;
}

CUresult graph_destroy(CUgraph handle) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  require(!graph->embedded);
  forget_graph(*graph);
  return CUDA_SUCCESS;
}

CUresult graph_clone(CUgraph* out, CUgraph handle) {
  require(out != nullptr);
  std::map<CUgraphNode, CUgraphNode> names;
  const std::shared_ptr<Graph> copy = find_graph(handle)->clone(&names);
  copy->cloned_from = std::move(names);
  *out = copy->handle;
  return CUDA_SUCCESS;
}

CUresult graph_node_find_in_clone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  require(out != nullptr);
  const std::shared_ptr<Graph> graph = find_graph(handle);
  const auto it = graph->cloned_from.find(original);
  require(it != graph->cloned_from.end());
  *out = it->second;
  return CUDA_SUCCESS;
}

CUresult graph_get_nodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  Nodes list;
  {
    const std::lock_guard lock(graph->mutex);
    for (const auto& [node, content] : graph->nodes) list.push_back(node);
  }
  return hand_out(list, nodes, count);
}

CUresult graph_get_root_nodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  Nodes list;
  {
    const std::lock_guard lock(graph->mutex);
    for (const auto& [node, content] : graph->nodes) {
      if (content.dependencies.empty()) list.push_back(node);
    }
  }
  return hand_out(list, nodes, count);
}

CUresult graph_get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return edges_of(handle, from, to, count);
}

CUresult graph_get_edges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  require(count != nullptr);
  const size_t room = *count;
  const CUresult result = edges_of(handle, from, to, count);
  if (data != nullptr && from != nullptr) std::fill_n(data, room, CUgraphEdgeData{});
  return result;
}

CUresult graph_node_get_dependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return hand_out(dependencies_of(node), nodes, count);
}

CUresult graph_node_get_dependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count) {
  require(count != nullptr);
  if (data != nullptr && nodes != nullptr) std::fill_n(data, *count, CUgraphEdgeData{});
  return hand_out(dependencies_of(node), nodes, count);
}

CUresult graph_node_get_dependent_nodes(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return hand_out(dependents_of(node), nodes, count);
}

CUresult graph_node_get_dependent_nodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count) {
  require(count != nullptr);
  if (data != nullptr && nodes != nullptr) std::fill_n(data, *count, CUgraphEdgeData{});
  return hand_out(dependents_of(node), nodes, count);
}

CUresult graph_add_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return add_edges(handle, from, to, count);
}

CUresult graph_add_dependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData*, size_t count) {
  return add_edges(handle, from, to, count);
}

CUresult graph_remove_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return remove_edges(handle, from, to, count);
}

CUresult graph_remove_dependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData*, size_t count) {
  return remove_edges(handle, from, to, count);
}

CUresult graph_destroy_node(CUgraphNode node) {
  const std::shared_ptr<Graph> graph = graph_of(node);
  const std::lock_guard lock(graph->mutex);
  if (const auto* child = std::get_if<Subgraph>(&graph->nodes.at(node).operation)) forget_graph(*child->graph);
  graph->nodes.erase(node);
  for (auto& [other, content] : graph->nodes) std::erase(content.dependencies, node);
  driver().nodes.remove(node);
  return CUDA_SUCCESS;
}

CUresult graph_node_get_type(CUgraphNode node, CUgraphNodeType* type) {
  require(type != nullptr);
  const std::shared_ptr<Graph> graph = graph_of(node);
  const std::lock_guard lock(graph->mutex);
  *type = type_of(graph->nodes.at(node).operation);
  return CUDA_SUCCESS;
}

CUresult graph_debug_dot_print(CUgraph handle, const char* path, unsigned) {
  require(path != nullptr);
  const std::shared_ptr<Graph> graph = find_graph(handle);
  std::ofstream file(path);
  require(file.good(), CUDA_ERROR_OPERATING_SYSTEM);
  const std::lock_guard lock(graph->mutex);
  std::map<CUgraphNode, size_t> numbers;
  for (const auto& [node, content] : graph->nodes) numbers.emplace(node, numbers.size());
  file << "digraph cuda_graph {\n";
  for (const auto& [node, content] : graph->nodes) {
    file << "  n" << numbers[node] << " [label=\"" << label_of(content.operation) << "\"];\n";
    for (const CUgraphNode dependency : content.dependencies)
      file << "  n" << numbers[dependency] << " -> n" << numbers[node] << ";\n";
  }
  file << "}\n";
  require(file.flush().good(), CUDA_ERROR_OPERATING_SYSTEM);
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
