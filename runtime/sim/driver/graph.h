#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/driver/operation.h"

namespace corrloom::sim::driver {

/// A node of a graph.
struct NodeContent {
  Operation operation;
  std::vector<CUgraphNode> dependencies;  ///< nodes of the same graph that come before
  bool enabled = true;                    ///< a disabled node of an executable graph does nothing
};

/// An acyclic set of operations (CUgraph). Edges only lead between its own nodes.
class Graph : public std::enable_shared_from_this<Graph> {
 public:
  /// Guards the nodes.
  mutable std::mutex mutex;
  /// By handle, which is the order in which they were added.
  std::map<CUgraphNode, NodeContent> nodes;
  CUgraph handle = nullptr;
  bool embedded = false;                           ///< the child of a node, which destroys it
  std::map<CUgraphNode, CUgraphNode> cloned_from;  ///< node of the original -> node of this clone

  /// Adds a node behind others of this graph; fails with INVALID_VALUE when they are not.
  CUgraphNode add(Operation operation, std::vector<CUgraphNode> dependencies);
  /// A copy with new handles; `names` receives the new handle of each node.
  std::shared_ptr<Graph> clone(std::map<CUgraphNode, CUgraphNode>* names = nullptr) const;
  /// Handles in an order that the edges allow; empty when there is none (a cycle).
  std::optional<std::vector<CUgraphNode>> sorted() const;
};

/// What a CUgraphNode names.
class GraphNode {
 public:
  explicit GraphNode(std::weak_ptr<Graph> graph) : graph(std::move(graph)) {}

  const std::weak_ptr<Graph> graph;
  std::vector<void*> argument_pointers;  ///< what cuGraphKernelNodeGetParams hands out
};

/// The nodes of an executable graph in the order they run, children inlined.
struct Plan {
  struct Step {
    CUgraphNode node;
    Operation operation;
    bool enabled;
  };
  std::vector<Step> steps;
};

/// A graph ready to be launched (CUgraphExec). Launches in flight keep the plan they began with.
class ExecutableGraph {
 public:
  std::mutex mutex;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Graph> source;             ///< a private copy of the graph, for updates and for capture
  std::map<CUgraphNode, CUgraphNode> names;  ///< node of the graph it was made from -> node of the copy
  unsigned long long flags = 0;
  std::shared_ptr<Event> order;  ///< the last launch; the next one waits for it
};

/// Handles a graph and makes it known.
std::shared_ptr<Graph> make_graph();
/// Makes the handles of a graph, its nodes and children invalid.
void forget_graph(const Graph& graph);
/// Fails with INVALID_VALUE when the handle names none.
std::shared_ptr<Graph> find_graph(CUgraph handle);

}  // namespace corrloom::sim::driver
