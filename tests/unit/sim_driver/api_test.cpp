#include <cstring>

#include "runtime/sim/driver/corrloom_sim.h"
#include "tests/unit/sim_driver/client.h"

/// What is around the calls: names, handles, error texts, counters, launch attributes, printf, tensor maps.
namespace corrloom::sim::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Api = DriverTest;

TEST_F(Api, GetProcAddressFindsTheVersionAsked) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  const auto find = [&](const char* name, int version, cuuint64_t flags = 0) {
    EXPECT_CU(CUDA_SUCCESS, cu().cuGetProcAddress_v2(name, &function, version, flags, &status));
    return function;
  };
  const auto symbol = [](const char* name) { return ::dlsym(library(), name); };
  EXPECT_EQ(find("cuMemAlloc", 12000), symbol("cuMemAlloc_v2"));
  EXPECT_EQ(find("cuMemAlloc_v2", 12000), symbol("cuMemAlloc_v2"));
  EXPECT_EQ(find("cuCtxCreate", 11000), symbol("cuCtxCreate_v2"));
  EXPECT_EQ(find("cuCtxCreate", 13000), symbol("cuCtxCreate_v4"));
  EXPECT_EQ(find("cuGraphInstantiate", 12000), symbol("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(find("cuGraphInstantiate", 11000), symbol("cuGraphInstantiate_v2"));
  EXPECT_EQ(find("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            symbol("cuLaunchKernel_ptsz"));
  EXPECT_EQ(find("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), symbol("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(find("cuInit", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), symbol("cuInit"));
  EXPECT_EQ(find("cuLibraryLoadData", 11000), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(find("cuNoSuchThing", 12000), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_CU(CUDA_SUCCESS, cu().cuGetProcAddress("cuInit", &function, 12000, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGetProcAddress(nullptr, &function, 12000, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGetProcAddress("cuInit", &function, 99000, 0));
}

TEST_F(Api, PlainNamesAreThoseOfTheSecondVersions) {
  for (const char* name : {"cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuCtxDestroy", "cuStreamDestroy"})
    EXPECT_EQ(::dlsym(library(), name), ::dlsym(library(), (std::string(name) + "_v2").c_str())) << name;
}

TEST_F(Api, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  ASSERT_OK(cu().cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_OK(cu().cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGetErrorName(CUresult(12345), &text));
  EXPECT_EQ(text, nullptr);
}

TEST_F(Api, InventedHandlesAreErrors) {
  CUcontext c = nullptr;
  CUfunction f = nullptr;
  CUgraph g = nullptr;
  CUgraphExec e = nullptr;
  CUevent ev = nullptr;
  int i = 0;
  unsigned u = 0;
  size_t n = 0;
  float ms = 0;
  cuuint64_t v = 0;
  CUstreamCaptureStatus status{};
  CUgraphNodeType type{};
  const auto stream = invented<CUstream>();
  const auto ok = event();
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamSynchronize(stream));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamQuery(stream));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamDestroy_v2(stream));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamDestroy_v2(nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamGetCtx(stream, &c));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamIsCapturing(stream, &status));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamEndCapture(stream, &g));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventRecord(ok, stream));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventRecord(invented<CUevent>(), nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamWaitEvent(nullptr, invented<CUevent>(), 0));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventSynchronize(invented<CUevent>()));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventDestroy_v2(invented<CUevent>()));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventElapsedTime(&ms, ok, invented<CUevent>()));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuModuleUnload(invented<CUmodule>()));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuModuleGetFunction(&f, invented<CUmodule>(), "k"));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuFuncGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, invented<CUfunction>()));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&i, invented<CUfunction>(), 32, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuLibraryUnload(invented<CUlibrary>()));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuKernelGetFunction(&f, invented<CUkernel>()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu().cuMemPoolGetAttribute(invented<CUmemoryPool>(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemPoolDestroy(invented<CUmemoryPool>()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphGetNodes(invented<CUgraph>(), nullptr, &n));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphInstantiateWithFlags(&e, invented<CUgraph>(), 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphNodeGetType(invented<CUgraphNode>(), &type));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphLaunch(invented<CUgraphExec>(), nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuGraphEventRecordNodeGetEvent(invented<CUgraphNode>(), &ev));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuCtxSetCurrent(invented<CUcontext>()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemHostGetFlags(&u, &u));
  // A handle of one kind is not one of another.
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamSynchronize(reinterpret_cast<CUstream>(ok)));
  // None of this has hurt the context.
  EXPECT_CU(CUDA_SUCCESS, cu().cuCtxSynchronize());
}

TEST_F(Api, NullOutputsAreErrors) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuDeviceGetCount(nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuStreamCreate(nullptr, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuEventCreate(nullptr, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuModuleLoadData(nullptr, "x"));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuLaunchKernelEx(nullptr, nullptr, nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuLaunchHostFunc(nullptr, nullptr, nullptr));
}

/// Writes, for each block, its rank in its cluster plus n.
std::string cluster_kernel() {
  std::string text = kernel_text(R"(
    .reg .u32 %r<3>; .reg .u64 %d<2>;
    ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x;
    add.u32 %r1, %r1, %r0; mul.wide.u32 %d1, %r2, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r1;)");
  return text.replace(text.find("sm_80"), 5, "sm_90");
}

TEST_F(Api, LaunchAttributesSayClusterAndCooperative) {
  const CUfunction function = load(cluster_kernel());
  const CUdeviceptr out = upload(std::vector<uint32_t>(4));
  CUdeviceptr in = 0;
  unsigned n = 10;
  void* arguments[] = {const_cast<CUdeviceptr*>(&out), &in, &n};
  CUlaunchAttribute attributes[3] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {2, 1, 1};
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[1].value.programmaticStreamSerializationAllowed = 1;
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[2].value.cooperative = 1;
  CUlaunchConfig config = {4, 1, 1, 1, 1, 1, 0, nullptr, attributes, 3};
  ASSERT_OK(cu().cuLaunchKernelEx(&config, function, arguments, nullptr));
  EXPECT_THAT(download<uint32_t>(out, 4), ElementsAre(10, 11, 10, 11));
  attributes[0].value.clusterDim = {3, 1, 1};
  EXPECT_CU(CUDA_ERROR_INVALID_CLUSTER_SIZE, cu().cuLaunchKernelEx(&config, function, arguments, nullptr));
  config.gridDimX = 16;
  attributes[0].value.clusterDim = {16, 1, 1};
  EXPECT_CU(CUDA_ERROR_INVALID_CLUSTER_SIZE, cu().cuLaunchKernelEx(&config, function, arguments, nullptr));
  EXPECT_CU(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cu().cuLaunchCooperativeKernel(function, 1 << 20, 1, 1, 1, 1, 1, 0, nullptr, arguments));
  EXPECT_CU(CUDA_SUCCESS, cu().cuCtxSynchronize());
}

TEST_F(Api, PrintfGoesToStandardOutput) {
  const CUfunction function = load(kernel_text(R"(
    .reg .u64 %d<3>; .reg .u32 %r;
    .local .align 8 .b8 arguments[8];
    ld.param.u32 %r, [n]; st.local.u32 [arguments], %r;
    cvta.global.u64 %d0, format; mov.u64 %d1, arguments; cvta.local.u64 %d1, %d1;
    { .param .b64 p0; .param .b64 p1; .param .b32 r0;
      st.param.b64 [p0], %d0; st.param.b64 [p1], %d1; call.uni (r0), vprintf, (p0, p1); })",
                                               ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
                                               ".global .align 1 .b8 format[7] = {110, 61, 37, 100, 33, 10, 0};\n"));
  testing::internal::CaptureStdout();
  ASSERT_OK(launch(function, 1, 1, 0, 0, 42));
  ASSERT_OK(cu().cuCtxSynchronize());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "n=42!\n");
}

TEST_F(Api, TensorMapsAreCheckedWhenEncoded) {
  const CUdeviceptr data = allocate(64 * 64 * 4);
  CUtensorMap map;
  const cuuint64_t extents[] = {64, 64}, strides[] = {256};
  cuuint32_t box[] = {32, 8};
  const cuuint32_t steps[] = {1, 1};
  const auto encode = [&](uint64_t address) {
    return cu().cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, reinterpret_cast<void*>(address),
                                       extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                       CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_CU(CUDA_SUCCESS, encode(data));
  EXPECT_CU(CUDA_SUCCESS, cu().cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(data + 1024)));
  testing::internal::CaptureStderr();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, encode(data + 4));
  box[0] = 257;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, encode(data));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("tensor map"));
  std::memset(&map, 1, sizeof(map));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(data)));
}

TEST_F(Api, CountersOfLaunches) {
  const auto find = [](const char* name) { return ::dlsym(library(), name); };
  const auto count = reinterpret_cast<decltype(&corrloom_sim_launch_count)>(find("corrloom_sim_launch_count"));
  const auto get = reinterpret_cast<decltype(&corrloom_sim_get_launch)>(find("corrloom_sim_get_launch"));
  const auto total = reinterpret_cast<decltype(&corrloom_sim_get_total)>(find("corrloom_sim_get_total"));
  const auto json = reinterpret_cast<decltype(&corrloom_sim_json)>(find("corrloom_sim_json"));
  const auto clear = reinterpret_cast<decltype(&corrloom_sim_clear)>(find("corrloom_sim_clear"));
  clear(0);
  const uint64_t before = count(0);
  const CUdeviceptr in = upload(std::vector<uint32_t>(128, 1)), out = allocate(512);
  const CUfunction add = load(add_kernel());
  ASSERT_OK(launch(add, 2, 64, out, in, 1));
  ASSERT_OK(launch(add, 1, 32, out, in, 1));
  ASSERT_OK(cu().cuCtxSynchronize());
  EXPECT_EQ(count(0) - before, 2u);
  corrloom_sim_launch one = {};
  ASSERT_EQ(get(0, 1, &one), 1);
  EXPECT_STREQ(one.kernel, "k");
  EXPECT_EQ(one.grid[0], 2u);
  EXPECT_EQ(one.counters.threads, 128u);
  EXPECT_EQ(one.counters.global_load_requests, 4u);
  EXPECT_EQ(one.counters.global_load_sectors, 16u);
  EXPECT_EQ(one.counters.global_store_bytes, 512u);
  EXPECT_EQ(one.max_resident_warps, 64);
  EXPECT_EQ(one.resident_warps, 64);
  EXPECT_GT(one.estimate_memory_seconds, 0);
  EXPECT_EQ(get(0, 2, &one), 0);
  EXPECT_EQ(get(7, 0, &one), 0);
  corrloom_sim_counters sum = {};
  EXPECT_EQ(total(0, "k", &sum), 2u);
  EXPECT_EQ(sum.threads, 160u);
  EXPECT_EQ(total(0, "other", &sum), 0u);
  std::string text(json(0, nullptr, 0), ' ');
  EXPECT_EQ(json(0, text.data(), text.size() + 1), text.size());
  EXPECT_THAT(text, HasSubstr("\"kernel\": \"k\", \"launches\": 2"));
  EXPECT_THAT(text, HasSubstr("\"estimate_memory_seconds\""));
}

TEST_F(Api, WhatIsMissingSaysSo) {
  // Resolved by name or by cuGetProcAddress, with whatever arguments.
  for (const char* name : {"cuArrayCreate_v2", "cuTexObjectCreate", "cuMipmappedArrayCreate", "cuIpcGetMemHandle",
                           "cuMulticastCreate", "cuGetExportTable", "cuGraphConditionalHandleCreate"}) {
    const auto function = reinterpret_cast<CUresult (*)(void*, void*, void*)>(::dlsym(library(), name));
    ASSERT_NE(function, nullptr) << name;
    EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, function(nullptr, nullptr, nullptr));
  }
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  ASSERT_OK(cu().cuGetProcAddress_v2("cuTexObjectCreate", &found, 13000, 0, &status));
  EXPECT_EQ(found, ::dlsym(library(), "cuTexObjectCreate"));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
}

}  // namespace
}  // namespace corrloom::sim::driver
