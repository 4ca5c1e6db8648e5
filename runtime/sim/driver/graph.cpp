#include "runtime/sim/driver/graph.h"

#include <algorithm>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {

CUgraphNode Graph::add(Operation operation, std::vector<CUgraphNode> dependencies) {
  const std::lock_guard lock(mutex);
  require(std::ranges::all_of(dependencies, [&](CUgraphNode node) { return nodes.contains(node); }));
  const CUgraphNode node = driver().nodes.insert(std::make_shared<GraphNode>(weak_from_this()));
  nodes[node] = {std::move(operation), std::move(dependencies), true};
  return node;
}

std::shared_ptr<Graph> Graph::clone(std::map<CUgraphNode, CUgraphNode>* names) const {
  std::map<CUgraphNode, CUgraphNode> own_names;
  if (names == nullptr) names = &own_names;
  const std::shared_ptr<Graph> copy = make_graph();
  const std::lock_guard lock(mutex);
  for (const auto& [node, content] : nodes) (*names)[node] = driver().nodes.insert(std::make_shared<GraphNode>(copy));
  for (const auto& [node, content] : nodes) {
    NodeContent& made = copy->nodes[names->at(node)];
    made.operation = content.operation;
    made.enabled = content.enabled;
    for (const CUgraphNode dependency : content.dependencies) made.dependencies.push_back(names->at(dependency));
    if (auto* child = std::get_if<Subgraph>(&made.operation)) {
      child->graph = child->graph->clone();
      child->graph->embedded = true;
    }
  }
  return copy;
}

std::optional<std::vector<CUgraphNode>> Graph::sorted() const {
  std::vector<CUgraphNode> order;
  std::map<CUgraphNode, size_t> missing;
  std::map<CUgraphNode, std::vector<CUgraphNode>> followers;
  for (const auto& [node, content] : nodes) {
    missing[node] = content.dependencies.size();
    if (content.dependencies.empty()) order.push_back(node);
    for (const CUgraphNode dependency : content.dependencies) followers[dependency].push_back(node);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const CUgraphNode follower : followers[order[next]]) {
      if (--missing[follower] == 0) order.push_back(follower);
    }
  }
  return order.size() == nodes.size() ? std::optional(order) : std::nullopt;
}

std::shared_ptr<Graph> make_graph() {
  auto graph = std::make_shared<Graph>();
  graph->handle = driver().graphs.reserve();
  driver().graphs.set(graph->handle, graph);
  return graph;
}

void forget_graph(const Graph& graph) {
  driver().graphs.remove(graph.handle);
  const std::lock_guard lock(graph.mutex);
  for (const auto& [node, content] : graph.nodes) {
    driver().nodes.remove(node);
    if (const auto* child = std::get_if<Subgraph>(&content.operation)) forget_graph(*child->graph);
  }
}

std::shared_ptr<Graph> find_graph(CUgraph handle) {
  std::shared_ptr<Graph> graph = driver().graphs.find(handle);
  require(graph != nullptr);
  return graph;
}

}  // namespace corrloom::sim::driver
