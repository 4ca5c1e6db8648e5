#pragma once

#include "runtime/sim/driver/graph.h"

/// Between the descriptions of nodes that clients give and operations.
namespace corrloom::sim::driver {

CUgraphNodeType type_of(const Operation& operation);

/// The graph that a node is in. Fails with INVALID_VALUE.
std::shared_ptr<Graph> graph_of(CUgraphNode node);

/// From a client's description; fails with INVALID_VALUE, INVALID_HANDLE or the code of the rule that is broken.
Operation kernel_operation(const CUDA_KERNEL_NODE_PARAMS& params);
Operation copy_operation(const CUDA_MEMCPY3D* params);
Operation fill_operation(const CUDA_MEMSET_NODE_PARAMS* params);
Operation host_operation(const CUDA_HOST_NODE_PARAMS* params);

/// The newer description of a kernel node.
CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1* params);

}  // namespace corrloom::sim::driver
