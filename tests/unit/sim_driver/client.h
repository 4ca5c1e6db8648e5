#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"

namespace corrloom::sim::driver {

/// The library, opened once.
inline void* library() {
  static void* const handle = ::dlopen(CORRLOOM_CUDA_SIM, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

/// Every function of the library by the name a client resolves, for example `cu().cuMemAlloc_v2(&p, 16)`.
struct Functions {
#define GLOBAL(base, suffix, version, implementation, ...) CUresult (*base##suffix)(__VA_ARGS__) = find(#base #suffix);
#define CALL(base, suffix, version, implementation, ...) CUresult (*base##suffix)(__VA_ARGS__) = find(#base #suffix);
#define STREAM_CALL(base, suffix, version, implementation, ...) \
  CUresult (*base##suffix)(__VA_ARGS__) = find(#base #suffix);  \
  CUresult (*base##suffix##_ptsz)(__VA_ARGS__) = find(#base #suffix "_ptsz");
#define COPY_CALL(base, suffix, version, implementation, ...)  \
  CUresult (*base##suffix)(__VA_ARGS__) = find(#base #suffix); \
  CUresult (*base##suffix##_ptds)(__VA_ARGS__) = find(#base #suffix "_ptds");
#define ALIAS(symbol, target)
#include "runtime/sim/driver/entry_points.def"
#undef GLOBAL
#undef CALL
#undef STREAM_CALL
#undef COPY_CALL
#undef ALIAS

 private:
  /// An address that becomes any function pointer.
  struct Address {
    void* value;
    template <class F>
    operator F() const {
      return reinterpret_cast<F>(value);
    }
  };
  static Address find(const char* name) {
    void* address = ::dlsym(library(), name);
    EXPECT_NE(address, nullptr) << name;
    return {address};
  }
};

inline const Functions& cu() {
  static const Functions functions;
  return functions;
}

/// What an error code is called, for messages of tests.
inline std::string name_of(CUresult result) {
  const char* text = nullptr;
  cu().cuGetErrorName(result, &text);
  return text == nullptr ? std::to_string(unsigned(result)) : text;
}

#define EXPECT_CU(expected, call)                                     \
  do {                                                                \
    const ::corrloom::sim::driver::CUresult got_ = (call);            \
    EXPECT_EQ(got_, expected) << #call << " gives " << name_of(got_); \
  } while (false)
#define ASSERT_OK(call)                                                                            \
  do {                                                                                             \
    const ::corrloom::sim::driver::CUresult got_ = (call);                                         \
    ASSERT_EQ(got_, ::corrloom::sim::driver::CUDA_SUCCESS) << #call << " gives " << name_of(got_); \
  } while (false)

/// PTX with the usual frame around the body of the kernel `k(.u64 out, .u64 in, .u32 n)`.
inline std::string kernel_text(const std::string& body, const std::string& before = "") {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)\n{\n" + body + "\nret;\n}\n";
}

/// `out[i] = in[i] + n` for the thread's index i.
inline std::string add_kernel() {
  return kernel_text(R"(
    .reg .u32 %r<4>; .reg .u64 %d<5>;
    ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;
    ld.global.u32 %r2, [%d4]; add.u32 %r2, %r2, %r0; st.global.u32 [%d3], %r2;)");
}

/// Writes n to out[0] after going round a loop `in` times.
inline std::string slow_kernel() {
  return kernel_text(R"(
    .reg .u32 %r<3>; .reg .u64 %d<3>; .reg .pred %p;
    ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; ld.param.u32 %r0, [n];
    mov.u64 %d2, 0;
  again:
    add.u64 %d2, %d2, 1; setp.lt.u64 %p, %d2, %d1; @%p bra again;
    st.global.u32 [%d0], %r0;)");
}

/// A device's primary context made current for a test, reset behind it so that no error lasts.
class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(library(), nullptr) << ::dlerror();
    ::setenv("CORRLOOM_SIM_MEMORY", "256M", 0);
    ASSERT_OK(cu().cuInit(0));
    ASSERT_OK(cu().cuDevicePrimaryCtxRetain(&context, 0));
    ASSERT_OK(cu().cuCtxSetCurrent(context));
  }
  void TearDown() override {
    cu().cuDevicePrimaryCtxReset_v2(0);
    cu().cuDevicePrimaryCtxRelease_v2(0);
    cu().cuCtxSetCurrent(nullptr);
  }

  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CU(CUDA_SUCCESS, cu().cuMemAlloc_v2(&address, bytes));
    return address;
  }
  template <class T>
  CUdeviceptr upload(const std::vector<T>& values) {
    const CUdeviceptr address = allocate(values.size() * sizeof(T));
    EXPECT_CU(CUDA_SUCCESS, cu().cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(T)));
    return address;
  }
  template <class T>
  std::vector<T> download(CUdeviceptr address, size_t count) {
    std::vector<T> values(count);
    EXPECT_CU(CUDA_SUCCESS, cu().cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)));
    return values;
  }
  /// The function `name` of a module that must load.
  CUfunction load(const std::string& text, const char* name = "k") {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_CU(CUDA_SUCCESS, cu().cuModuleLoadData(&module, text.c_str()));
    EXPECT_CU(CUDA_SUCCESS, cu().cuModuleGetFunction(&function, module, name));
    return function;
  }
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream handle = nullptr;
    EXPECT_CU(CUDA_SUCCESS, cu().cuStreamCreate(&handle, flags));
    return handle;
  }
  CUevent event(unsigned flags = CU_EVENT_DEFAULT) {
    CUevent handle = nullptr;
    EXPECT_CU(CUDA_SUCCESS, cu().cuEventCreate(&handle, flags));
    return handle;
  }
  /// Launches a kernel with the parameters of `kernel_text`.
  CUresult launch(CUfunction function, unsigned blocks, unsigned threads, CUdeviceptr out, CUdeviceptr in, unsigned n,
                  CUstream on = nullptr, unsigned shared_bytes = 0) {
    void* arguments[] = {&out, &in, &n};
    return cu().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, on, arguments, nullptr);
  }
  /// A handle that was never given out.
  template <class Handle>
  static Handle invented() {
    return reinterpret_cast<Handle>(uintptr_t(0x123456));
  }

  CUcontext context = nullptr;
};

}  // namespace corrloom::sim::driver
