#include <cstdio>
#include <cstring>
#include <fstream>

#include "tests/unit/sim_driver/client.h"

namespace corrloom::sim::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Modules : public DriverTest {
 protected:
  CUmodule module(const std::string& text) {
    CUmodule handle = nullptr;
    EXPECT_CU(CUDA_SUCCESS, cu().cuModuleLoadData(&handle, text.c_str()));
    return handle;
  }
};

TEST_F(Modules, ErrorsHaveTheDriversCodesAndALog) {
  char error[512] = "", info[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
  const auto load = [&](const std::string& text) {
    void* values[] = {error, reinterpret_cast<void*>(sizeof(error)), info, reinterpret_cast<void*>(sizeof(info)),
                      reinterpret_cast<void*>(1)};
    CUmodule handle = nullptr;
    const CUresult result = cu().cuModuleLoadDataEx(&handle, text.c_str(), 5, options, values);
    EXPECT_EQ(reinterpret_cast<size_t>(values[1]), std::strlen(error));
    return result;
  };
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, load(kernel_text(".reg .u32 %r; no.such.instruction %r;")));
  EXPECT_THAT(error, HasSubstr("line 6"));
  EXPECT_THAT(error, HasSubstr("unknown instruction 'no'"));
  EXPECT_CU(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, load(".version 99.0\n.target sm_80\n.address_size 64\n"));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, load(".version 9.0\n.target sm_120\n.address_size 64\n"));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, load("\x7f"
                                               "ELF machine code"));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, load("\x50\xed\x55\xba fat"));
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, load("hello"));
  EXPECT_CU(CUDA_SUCCESS, load(add_kernel()));
  EXPECT_STREQ(error, "");
  EXPECT_THAT(info, HasSubstr("registers"));
  CUmodule handle = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuModuleLoadData(&handle, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuModuleLoadDataEx(&handle, add_kernel().c_str(), 1, nullptr, nullptr));
  options[0] = CUjit_option(1000);
  void* value = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuModuleLoadDataEx(&handle, add_kernel().c_str(), 1, options, &value));
}

TEST_F(Modules, ALogIsCutOffToItsBuffer) {
  char error[8] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {error, reinterpret_cast<void*>(sizeof(error))};
  CUmodule handle = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cu().cuModuleLoadDataEx(&handle, "nonsense", 2, options, values));
  EXPECT_EQ(std::strlen(error), 7u);
  EXPECT_EQ(reinterpret_cast<size_t>(values[1]), 7u);
}

TEST_F(Modules, LoadFromAFile) {
  const std::string path = ::testing::TempDir() + "corrloom_module_test.ptx";
  std::ofstream(path) << add_kernel();
  CUmodule handle = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cu().cuModuleLoad(&handle, path.c_str()));
  EXPECT_CU(CUDA_SUCCESS, cu().cuModuleGetFunction(&function, handle, "k"));
  std::remove(path.c_str());
  EXPECT_CU(CUDA_ERROR_FILE_NOT_FOUND, cu().cuModuleLoad(&handle, path.c_str()));
}

TEST_F(Modules, GlobalVariables) {
  const CUmodule handle = module(kernel_text(R"(
    .reg .u32 %r; .reg .u64 %d; ld.param.u64 %d, [out]; ld.global.u32 %r, [v+4]; st.global.u32 [%d], %r;)",
                                             ".visible .global .u32 v[3] = {7, 8, 9};\n"));
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ASSERT_OK(cu().cuModuleGetGlobal_v2(&address, &bytes, handle, "v"));
  EXPECT_EQ(bytes, 12u);
  EXPECT_THAT(download<uint32_t>(address, 3), ElementsAre(7, 8, 9));
  const uint32_t value = 80;
  ASSERT_OK(cu().cuMemcpyHtoD_v2(address + 4, &value, 4));
  CUfunction function = nullptr;
  ASSERT_OK(cu().cuModuleGetFunction(&function, handle, "k"));
  const CUdeviceptr out = allocate(4);
  ASSERT_OK(launch(function, 1, 1, out, 0, 0));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(80));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu().cuModuleGetGlobal_v2(&address, &bytes, handle, "w"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu().cuModuleGetFunction(&function, handle, "w"));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuModuleGetGlobal_v2(&address, &bytes, invented<CUmodule>(), "v"));
}

TEST_F(Modules, UnloadingInvalidatesHandlesAndSparesWhatIsQueued) {
  const CUdeviceptr out = upload<uint32_t>({0});
  const CUmodule handle = module(slow_kernel());
  CUfunction function = nullptr;
  ASSERT_OK(cu().cuModuleGetFunction(&function, handle, "k"));
  ASSERT_OK(launch(function, 1, 1, out, 1'000'000, 4));
  ASSERT_OK(cu().cuModuleUnload(handle));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuModuleUnload(handle));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch(function, 1, 1, out, 1, 4));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(4));
}

TEST_F(Modules, FunctionAttributes) {
  const CUfunction function = load(kernel_text(R"(.shared .b8 s[100]; .reg .u32 %r; ld.shared.u32 %r, [s];)"));
  int value = 0;
  const auto attribute = [&](CUfunction_attribute which) {
    EXPECT_CU(CUDA_SUCCESS, cu().cuFuncGetAttribute(&value, which, function));
    return value;
  };
  EXPECT_EQ(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 100);
  EXPECT_EQ(attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_GT(attribute(CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
  EXPECT_EQ(attribute(CU_FUNC_ATTRIBUTE_PTX_VERSION), 80);
  EXPECT_EQ(attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
  EXPECT_EQ(attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 49152 - 100);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuFuncGetAttribute(&value, CUfunction_attribute(99), function));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 3));
  const char* name = nullptr;
  size_t offset = 99, bytes = 99;
  ASSERT_OK(cu().cuFuncGetName(&name, function));
  EXPECT_STREQ(name, "k");
  ASSERT_OK(cu().cuFuncGetParamInfo(function, 2, &offset, &bytes));
  EXPECT_EQ(offset, 16u);
  EXPECT_EQ(bytes, 4u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuFuncGetParamInfo(function, 3, &offset, &bytes));
}

TEST_F(Modules, Occupancy) {
  const CUfunction function = load(add_kernel());
  int blocks = 0, grid = 0, block = 0;
  ASSERT_OK(cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
  EXPECT_EQ(blocks, 8);
  ASSERT_OK(cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 100'000));
  EXPECT_EQ(blocks, 2);
  ASSERT_OK(cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 1 << 20));
  EXPECT_EQ(blocks, 0);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 0, 0));
  ASSERT_OK(cu().cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 0));
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 264);
  // A block of n threads that needs n KiB of shared memory.
  ASSERT_OK(cu().cuOccupancyMaxPotentialBlockSize(
      &grid, &block, function, [](int threads) { return size_t(threads) * 1024; }, 0, 0));
  EXPECT_EQ(block, 224);
  size_t bytes = 0;
  ASSERT_OK(cu().cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 2, 256));
  ASSERT_OK(cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, bytes));
  EXPECT_EQ(blocks, 2);
  ASSERT_OK(cu().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, bytes + 128));
  EXPECT_EQ(blocks, 1);
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {4, 1, 1};
  CUlaunchConfig config = {8, 1, 1, 1024, 1, 1, 0, nullptr, &cluster, 1};
  int clusters = 0, size = 0;
  ASSERT_OK(cu().cuOccupancyMaxActiveClusters(&clusters, function, &config));
  EXPECT_EQ(clusters, 66);
  ASSERT_OK(cu().cuOccupancyMaxPotentialClusterSize(&size, function, &config));
  EXPECT_EQ(size, 8);
}

TEST_F(Modules, LibrariesAreLoadedPerContext) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr, same = nullptr;
  CUfunction function = nullptr;
  const std::string text = add_kernel();
  ASSERT_OK(cu().cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cu().cuLibraryGetKernel(&kernel, library, "k"));
  ASSERT_OK(cu().cuLibraryEnumerateKernels(&same, 1, library));
  EXPECT_EQ(kernel, same);
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu().cuLibraryGetKernel(&same, library, "none"));
  ASSERT_OK(cu().cuKernelGetFunction(&function, kernel));
  int value = 0;
  ASSERT_OK(cu().cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, kernel, 0));
  ASSERT_OK(cu().cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
  EXPECT_EQ(value, 60000);
  const CUdeviceptr in = upload<uint32_t>({3}), out = allocate(4);
  // A kernel can be launched in place of a function.
  ASSERT_OK(launch(reinterpret_cast<CUfunction>(kernel), 1, 1, out, in, 1, nullptr, 60000));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(4));
  CUmodule handle = nullptr;
  ASSERT_OK(cu().cuLibraryGetModule(&handle, library));
  EXPECT_CU(CUDA_ERROR_NOT_PERMITTED, cu().cuModuleUnload(handle));
  ASSERT_OK(cu().cuLibraryUnload(library));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuLibraryUnload(library));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch(reinterpret_cast<CUfunction>(kernel), 1, 1, out, in, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch(function, 1, 1, out, in, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_PTX,
            cu().cuLibraryLoadData(&library, "no PTX", nullptr, nullptr, 0, nullptr, nullptr, 0));
}

TEST_F(Modules, TheLinkerJoinsTexts) {
  const std::string head = ".version 8.0\n.target sm_80\n.address_size 64\n";
  std::string caller =
      head +
      ".extern .func (.param .b32 r) twice (.param .b32 v);\n"
      ".visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) { .reg .b32 %r; .reg .b64 %d;\n"
      "ld.param.u32 %r, [n]; ld.param.u64 %d, [out]; { .param .b32 v; .param .b32 r;\n"
      "st.param.b32 [v], %r; call.uni (r), twice, (v); ld.param.b32 %r, [r]; }\n"
      "st.global.u32 [%d], %r; ret; }\n";
  std::string callee = head +
                       ".visible .func (.param .b32 r) twice (.param .b32 v) { .reg .b32 %r;\n"
                       "ld.param.b32 %r, [v]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }\n";
  CUlinkState link = nullptr;
  char log[512] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  ASSERT_OK(cu().cuLinkCreate_v2(2, options, values, &link));
  ASSERT_OK(
      cu().cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, caller.data(), caller.size() + 1, "caller", 0, nullptr, nullptr));
  void* image = nullptr;
  size_t bytes = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cu().cuLinkComplete(link, &image, &bytes));
  EXPECT_THAT(std::string(log), HasSubstr("twice"));
  ASSERT_OK(
      cu().cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, callee.data(), callee.size() + 1, "callee", 0, nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU,
            cu().cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, callee.data(), callee.size(), "x", 0, nullptr, nullptr));
  ASSERT_OK(cu().cuLinkComplete(link, &image, &bytes));
  EXPECT_GT(bytes, caller.size());
  CUmodule module = nullptr;
  ASSERT_OK(cu().cuModuleLoadData(&module, image));
  ASSERT_OK(cu().cuLinkDestroy(link));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuLinkComplete(link, &image, &bytes));
  CUfunction function = nullptr;
  ASSERT_OK(cu().cuModuleGetFunction(&function, module, "k"));
  const CUdeviceptr out = allocate(4);
  ASSERT_OK(launch(function, 1, 1, out, out, 21));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(42));
}

}  // namespace
}  // namespace corrloom::sim::driver
