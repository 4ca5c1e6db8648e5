#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/sim_driver/client.h"

namespace corrloom::sim::driver {
namespace {

using ::testing::ElementsAre;

class Graphs : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    add = load(add_kernel());
    in = upload<uint32_t>({1, 2});
    out = upload<uint32_t>({0, 0});
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec executable = nullptr;
    EXPECT_CU(CUDA_SUCCESS, cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
  }
  size_t nodes_of(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(CUDA_SUCCESS, cu().cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  /// A graph of one kernel, `out[i] = in[i] + n`.
  CUgraph one_kernel(unsigned n, CUgraphNode* node) {
    CUgraph graph = nullptr;
    EXPECT_CU(CUDA_SUCCESS, cu().cuGraphCreate(&graph, 0));
    void* arguments[] = {&out, &in, &n};
    CUDA_KERNEL_NODE_PARAMS params = {add, 1, 1, 1, 2, 1, 1, 0, arguments, nullptr, nullptr, nullptr};
    EXPECT_CU(CUDA_SUCCESS, cu().cuGraphAddKernelNode_v2(node, graph, nullptr, 0, &params));
    return graph;
  }
  CUfunction add = nullptr;
  CUdeviceptr in = 0, out = 0;
};

TEST_F(Graphs, ACapturedStreamRunsWhenItIsLaunchedNotBefore) {
  const CUstream s = stream();
  CUgraph graph = nullptr;
  ASSERT_OK(cu().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(launch(add, 1, 2, out, in, 1, s));
  ASSERT_OK(launch(add, 1, 2, in, out, 0, s));
  ASSERT_OK(cu().cuStreamEndCapture(s, &graph));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(0, 0));
  EXPECT_EQ(nodes_of(graph), 2u);
  const CUgraphExec executable = instantiate(graph);
  ASSERT_OK(cu().cuGraphUpload(executable, s));
  for (int i = 0; i < 5; ++i) ASSERT_OK(cu().cuGraphLaunch(executable, s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(6, 7));
  ASSERT_OK(cu().cuGraphExecDestroy(executable));
  ASSERT_OK(cu().cuGraphDestroy(graph));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphDestroy(graph));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphLaunch(executable, s));
}

TEST_F(Graphs, ACaptureMayGoOnWithAGraph) {
  CUgraphNode root = nullptr;
  const CUgraph graph = one_kernel(10, &root);  // out = in + 10
  const CUstream s = stream();
  CUgraph captured = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuStreamBeginCaptureToGraph(s, invented<CUgraph>(), nullptr, nullptr, 0,
                                                                       CU_STREAM_CAPTURE_MODE_GLOBAL));
  const auto wrong = invented<CUgraphNode>();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu().cuStreamBeginCaptureToGraph(s, graph, &wrong, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu().cuStreamBeginCaptureToGraph(s, graph, nullptr, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cu().cuStreamBeginCaptureToGraph(s, graph, &root, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(launch(add, 1, 2, in, out, 100, s));  // in = out + 100
  ASSERT_OK(launch(add, 1, 2, out, in, 0, s));
  ASSERT_OK(cu().cuStreamEndCapture(s, &captured));
  EXPECT_EQ(captured, graph);
  EXPECT_EQ(nodes_of(graph), 3u);
  size_t edges = 0, roots = 0;
  ASSERT_OK(cu().cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  ASSERT_OK(cu().cuGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT_EQ(edges, 2u);
  EXPECT_EQ(roots, 1u);
  ASSERT_OK(cu().cuGraphLaunch(instantiate(graph), s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(111, 112));
  // A capture that is spoiled leaves the client's graph alone.
  ASSERT_OK(cu().cuStreamBeginCaptureToGraph(s, graph, &root, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu().cuStreamSynchronize(s));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu().cuStreamEndCapture(s, &captured));
  EXPECT_EQ(nodes_of(graph), 3u);
}

TEST_F(Graphs, ADrawingNamesNodesAndEdges) {
  CUgraphNode kernel = nullptr, empty = nullptr;
  const CUgraph graph = one_kernel(1, &kernel);
  ASSERT_OK(cu().cuGraphAddEmptyNode(&empty, graph, &kernel, 1));
  const std::string path = ::testing::TempDir() + "corrloom_graph.dot";
  ASSERT_OK(cu().cuGraphDebugDotPrint(graph, path.c_str(), 0));
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::remove(path.c_str());
  EXPECT_EQ(text.str(), "digraph cuda_graph {\n  n0 [label=\"k\"];\n  n1 [label=\"empty\"];\n  n0 -> n1;\n}\n");
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphDebugDotPrint(graph, nullptr, 0));
  EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM, cu().cuGraphDebugDotPrint(graph, "/no/such/folder/g.dot", 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphDebugDotPrint(invented<CUgraph>(), path.c_str(), 0));
}

TEST_F(Graphs, EventsSpreadACaptureOverStreams) {
  const CUstream first = stream(), second = stream();
  const CUevent fork = event(), join = event();
  const CUdeviceptr other = upload<uint32_t>({0, 0});
  CUgraph graph = nullptr;
  ASSERT_OK(cu().cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cu().cuMemsetD32Async(in, 10, 2, first));
  ASSERT_OK(cu().cuEventRecord(fork, first));
  ASSERT_OK(cu().cuStreamWaitEvent(second, fork, 0));
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0, other_id = 0;
  ASSERT_OK(cu().cuStreamGetCaptureInfo(second, &status, &id));
  ASSERT_OK(cu().cuStreamGetCaptureInfo(first, &status, &other_id));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(id, other_id);
  ASSERT_OK(launch(add, 1, 2, other, in, 1, second));
  ASSERT_OK(launch(add, 1, 2, out, in, 2, first));
  ASSERT_OK(cu().cuEventRecord(join, second));
  ASSERT_OK(cu().cuStreamWaitEvent(first, join, 0));
  ASSERT_OK(launch(add, 1, 2, out, other, 5, first));
  ASSERT_OK(cu().cuStreamEndCapture(first, &graph));
  ASSERT_OK(cu().cuStreamIsCapturing(second, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(nodes_of(graph), 4u);
  size_t edges = 0;
  ASSERT_OK(cu().cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  EXPECT_EQ(edges, 4u);
  ASSERT_OK(cu().cuGraphLaunch(instantiate(graph), first));
  ASSERT_OK(cu().cuStreamSynchronize(first));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(16, 16));
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cu().cuEventQuery(join));
}

TEST_F(Graphs, AnUnjoinedStreamSpoilsTheCapture) {
  const CUstream first = stream(), second = stream();
  const CUevent fork = event();
  CUgraph graph = nullptr;
  ASSERT_OK(cu().cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cu().cuEventRecord(fork, first));
  ASSERT_OK(cu().cuStreamWaitEvent(second, fork, 0));
  ASSERT_OK(launch(add, 1, 2, out, in, 1, second));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu().cuStreamEndCapture(second, &graph));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu().cuStreamEndCapture(first, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu().cuStreamEndCapture(first, &graph));
  ASSERT_OK(launch(add, 1, 2, out, in, 1, second));
  ASSERT_OK(cu().cuStreamSynchronize(second));
}

TEST_F(Graphs, WhatACaptureForbids) {
  const CUstream s = stream(CU_STREAM_DEFAULT);
  CUgraph graph = nullptr;
  const auto begin = [&] { ASSERT_OK(cu().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL)); };
  const auto spoiled = [&] { EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu().cuStreamEndCapture(s, &graph)); };
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cu().cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  begin();
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu().cuStreamSynchronize(s));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(add, 1, 2, out, in, 1, s));
  spoiled();
  begin();
  CUdeviceptr address = 0;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu().cuMemAlloc_v2(&address, 16));
  spoiled();
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch(add, 1, 2, out, in, 1, nullptr));
  spoiled();
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu().cuCtxSynchronize());
  spoiled();
  begin();
  std::thread([&] {
    cu().cuCtxSetCurrent(context);
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cu().cuStreamEndCapture(s, &graph));
  }).join();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_OK(cu().cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemAlloc_v2(&address, 16));
  ASSERT_OK(cu().cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(CUDA_SUCCESS, cu().cuStreamEndCapture(s, &graph));
  EXPECT_EQ(nodes_of(graph), 0u);
}

TEST_F(Graphs, NodesOfEveryKind) {
  CUgraph graph = nullptr;
  ASSERT_OK(cu().cuGraphCreate(&graph, 0));
  CUgraphNode fill = nullptr, kernel = nullptr, copy = nullptr, host = nullptr, empty = nullptr, child = nullptr;
  std::vector<uint32_t> result(2, 0);
  const CUDA_MEMSET_NODE_PARAMS fill_params = {in, 0, 20, 4, 2, 1};
  ASSERT_OK(cu().cuGraphAddMemsetNode(&fill, graph, nullptr, 0, &fill_params, context));
  unsigned n = 3;
  void* arguments[] = {&out, &in, &n};
  CUDA_KERNEL_NODE_PARAMS kernel_params = {add, 1, 1, 1, 2, 1, 1, 0, arguments, nullptr, nullptr, nullptr};
  ASSERT_OK(cu().cuGraphAddKernelNode_v2(&kernel, graph, &fill, 1, &kernel_params));
  CUDA_MEMCPY3D copy_params = {};
  copy_params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy_params.srcDevice = out;
  copy_params.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy_params.dstHost = result.data();
  copy_params.WidthInBytes = 8;
  copy_params.Height = copy_params.Depth = 1;
  ASSERT_OK(cu().cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &copy_params, context));
  struct Seen {
    std::vector<uint32_t>* result;
    std::atomic<uint32_t> value{0};
  } seen{&result};
  const CUDA_HOST_NODE_PARAMS host_params = {[](void* data) {
                                               auto* seen = static_cast<Seen*>(data);
                                               seen->value = (*seen->result)[1];
                                             },
                                             &seen};
  ASSERT_OK(cu().cuGraphAddHostNode(&host, graph, &copy, 1, &host_params));
  ASSERT_OK(cu().cuGraphAddEmptyNode(&empty, graph, &host, 1));
  CUgraphNode inner = nullptr;
  const CUgraph small = one_kernel(100, &inner);
  ASSERT_OK(cu().cuGraphAddChildGraphNode(&child, graph, &empty, 1, small));
  CUgraphNodeType type{};
  ASSERT_OK(cu().cuGraphNodeGetType(child, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
  ASSERT_OK(cu().cuGraphDestroy(small));  // the node has a copy
  const CUgraphExec executable = instantiate(graph);
  ASSERT_OK(cu().cuGraphLaunch(executable, nullptr));
  ASSERT_OK(cu().cuStreamSynchronize(nullptr));
  EXPECT_THAT(result, ElementsAre(23, 23));
  EXPECT_EQ(seen.value, 23u);
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(120, 120));
  // What the nodes say of themselves.
  CUDA_KERNEL_NODE_PARAMS got = {};
  ASSERT_OK(cu().cuGraphKernelNodeGetParams_v2(kernel, &got));
  EXPECT_EQ(got.func, add);
  EXPECT_EQ(*static_cast<unsigned*>(got.kernelParams[2]), 3u);
  CUDA_MEMSET_NODE_PARAMS got_fill = {};
  ASSERT_OK(cu().cuGraphMemsetNodeGetParams(fill, &got_fill));
  EXPECT_EQ(got_fill.value, 20u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphMemsetNodeGetParams(kernel, &got_fill));
  // A changed copy of the node in the executable graph, and a disabled one.
  n = 4;
  ASSERT_OK(cu().cuGraphExecKernelNodeSetParams_v2(executable, kernel, &kernel_params));
  ASSERT_OK(cu().cuGraphNodeSetEnabled(executable, fill, 0));
  ASSERT_OK(cu().cuMemsetD32_v2(in, 1, 2));
  ASSERT_OK(cu().cuGraphLaunch(executable, nullptr));
  ASSERT_OK(cu().cuStreamSynchronize(nullptr));
  EXPECT_THAT(result, ElementsAre(5, 5));
  // Destroying a node takes its edges along.
  ASSERT_OK(cu().cuGraphDestroyNode(host));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphDestroyNode(host));
  size_t count = 0;
  ASSERT_OK(cu().cuGraphNodeGetDependencies(empty, nullptr, &count));
  EXPECT_EQ(count, 0u);
}

TEST_F(Graphs, AnUpdateTakesOverParametersAndRefusesAnotherShape) {
  CUgraphNode node = nullptr, other = nullptr, extra = nullptr;
  const CUgraph before = one_kernel(1, &node), after = one_kernel(9, &other);
  const CUgraphExec executable = instantiate(before);
  CUgraphExecUpdateResultInfo info = {};
  ASSERT_OK(cu().cuGraphExecUpdate_v2(executable, after, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ASSERT_OK(cu().cuGraphLaunch(executable, nullptr));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(10, 11));
  ASSERT_OK(cu().cuGraphAddEmptyNode(&extra, after, &other, 1));
  EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu().cuGraphExecUpdate_v2(executable, after, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CUgraph empty = nullptr;
  ASSERT_OK(cu().cuGraphCreate(&empty, 0));
  ASSERT_OK(cu().cuGraphAddEmptyNode(&extra, empty, nullptr, 0));
  EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu().cuGraphExecUpdate_v2(executable, empty, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
}

TEST_F(Graphs, CyclesAndForeignNodesAreRefused) {
  CUgraph graph = nullptr, other = nullptr;
  CUgraphNode a = nullptr, b = nullptr, c = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_OK(cu().cuGraphCreate(&graph, 0));
  ASSERT_OK(cu().cuGraphCreate(&other, 0));
  ASSERT_OK(cu().cuGraphAddEmptyNode(&a, graph, nullptr, 0));
  ASSERT_OK(cu().cuGraphAddEmptyNode(&b, graph, &a, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphAddEmptyNode(&c, other, &a, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphAddDependencies(graph, &a, &b, 1));  // twice
  ASSERT_OK(cu().cuGraphAddDependencies(graph, &b, &a, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  ASSERT_OK(cu().cuGraphRemoveDependencies(graph, &b, &a, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphRemoveDependencies(graph, &b, &a, 1));
  EXPECT_CU(CUDA_SUCCESS, cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  CUgraph copy = nullptr;
  CUgraphNode found = nullptr;
  ASSERT_OK(cu().cuGraphClone(&copy, graph));
  ASSERT_OK(cu().cuGraphNodeFindInClone(&found, b, copy));
  size_t count = 1;
  CUgraphNode before = nullptr;
  ASSERT_OK(cu().cuGraphNodeGetDependencies(found, &before, &count));
  ASSERT_OK(cu().cuGraphNodeFindInClone(&found, a, copy));
  EXPECT_EQ(before, found);
}

TEST_F(Graphs, EventNodesAndLaunchesInCaptures) {
  const CUstream s = stream();
  const CUevent done = event();
  CUgraphNode node = nullptr, record = nullptr;
  const CUgraph graph = one_kernel(1, &node);
  ASSERT_OK(cu().cuGraphAddEventRecordNode(&record, graph, &node, 1, done));
  CUevent got = nullptr;
  ASSERT_OK(cu().cuGraphEventRecordNodeGetEvent(record, &got));
  EXPECT_EQ(got, done);
  const CUgraphExec executable = instantiate(graph);
  ASSERT_OK(cu().cuGraphLaunch(executable, s));
  ASSERT_OK(cu().cuEventSynchronize(done));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(2, 3));
  // A launch into a capturing stream becomes a child.
  CUgraph outer = nullptr;
  ASSERT_OK(cu().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cu().cuGraphLaunch(executable, s));
  ASSERT_OK(cu().cuStreamEndCapture(s, &outer));
  CUgraphNodeType type{};
  size_t one = 1;
  ASSERT_OK(cu().cuGraphGetNodes(outer, &node, &one));
  ASSERT_OK(cu().cuGraphNodeGetType(node, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
  ASSERT_OK(cu().cuMemsetD32Async(out, 0, 2, s));
  ASSERT_OK(cu().cuGraphLaunch(instantiate(outer), s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_THAT(download<uint32_t>(out, 2), ElementsAre(2, 3));
}

}  // namespace
}  // namespace corrloom::sim::driver
