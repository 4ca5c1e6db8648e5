#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// An ordinary program of the CUDA Driver API. It declares the few functions it needs, so that it builds without a CUDA
// toolkit, and runs where a GPU is as well as where none is:
//
//     corrloom-sim-run example_driver_api
//     corrloom-sim-run example_driver_api --one-too-many     # a fault, and what the simulator says about it

namespace {

using Result = int;
using Address = unsigned long long;
using Context = void*;
using Module = void*;
using Function = void*;

constexpr const char* kAdd = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 n) {
  .reg .u32 %r<5>; .reg .u64 %d<5>; .reg .f32 %f<4>; .reg .pred %p;
  ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [sum]; ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p, %r4, %r0; @%p bra done;
  mul.wide.u32 %d3, %r4, 4; add.u64 %d0, %d0, %d3; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
  ld.global.f32 %f0, [%d0]; ld.global.f32 %f1, [%d1]; add.f32 %f2, %f0, %f1; st.global.f32 [%d2], %f2;
done:
  ret;
})";

void* driver = nullptr;

/// Calls a function of the driver by its name; ends the program when it fails.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<Result (*)(Arguments...)>(dlsym(driver, name));
  const Result result = function == nullptr ? 500 : function(arguments...);
  if (result == 0) return;
  const auto error_name = reinterpret_cast<Result (*)(Result, const char**)>(dlsym(driver, "cuGetErrorName"));
  const char* text = "?";
  if (error_name != nullptr) error_name(result, &text);
  std::fprintf(stderr, "%s: %s\n", name, text);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const unsigned n = 1000;
  const unsigned told = argc > 1 && std::strcmp(argv[1], "--one-too-many") == 0 ? n + 1 : n;
  std::vector<float> a(n), b(n), sum(n);
  for (unsigned i = 0; i < n; ++i) {
    a[i] = float(i);
    b[i] = float(2 * i);
  }

  int device = 0;
  char name[100];
  Context context = nullptr;
  Module module = nullptr;
  Function function = nullptr;
  Address on_device[3];
  const size_t bytes = n * sizeof(float);
  call("cuInit", 0u);
  call("cuDeviceGet", &device, 0);
  call("cuDeviceGetName", name, int(sizeof(name)), device);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  call("cuModuleLoadData", &module, static_cast<const void*>(kAdd));
  call("cuModuleGetFunction", &function, module, "add");
  for (Address& address : on_device) call("cuMemAlloc_v2", &address, bytes);
  call("cuMemcpyHtoD_v2", on_device[0], static_cast<const void*>(a.data()), bytes);
  call("cuMemcpyHtoD_v2", on_device[1], static_cast<const void*>(b.data()), bytes);
  unsigned count = told;
  void* arguments[] = {&on_device[0], &on_device[1], &on_device[2], &count};
  call("cuLaunchKernel", function, (n + 127) / 128, 1u, 1u, 128u, 1u, 1u, 0u, static_cast<void*>(nullptr), arguments,
       static_cast<void**>(nullptr));
  call("cuCtxSynchronize");
  call("cuMemcpyDtoH_v2", static_cast<void*>(sum.data()), on_device[2], bytes);
  for (unsigned i = 0; i < n; ++i) {
    if (sum[i] != a[i] + b[i]) {
      std::fprintf(stderr, "sum[%u] is %g\n", i, double(sum[i]));
      return 1;
    }
  }
  std::printf("%s: %u sums are right\n", name, n);
  for (const Address address : on_device) call("cuMemFree_v2", address);
  call("cuModuleUnload", module);
  call("cuDevicePrimaryCtxRelease_v2", device);
  return 0;
}
