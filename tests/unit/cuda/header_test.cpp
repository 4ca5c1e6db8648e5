#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "runtime/cuda/driver_api.h"

#ifdef CORRLOOM_HAS_CUDA_HEADER
// Declares every version of every function under its own name.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

namespace corrloom::runtime::gpu {
namespace {

/// What a type is to a caller of C: pointers are alike, enumerations are ints.
template <class T, class = void>
struct Machine {
  using Type = T;
};
template <class T>
struct Machine<T, std::enable_if_t<std::is_pointer_v<T>>> {
  using Type = void*;
};
template <class T>
struct Machine<T, std::enable_if_t<std::is_enum_v<T>>> {
  using Type = int;
  static_assert(sizeof(T) == sizeof(int));
};
// The two spellings of a 64-bit address and size.
template <>
struct Machine<unsigned long long> {
  using Type = unsigned long;
};

template <class Function>
struct Signature;
template <class Result, class... Parameters>
struct Signature<Result(Parameters...)> {
  using Type = typename Machine<Result>::Type(typename Machine<Parameters>::Type...);
};
template <class Ours, class Theirs>
constexpr bool same_call = std::is_same_v<typename Signature<std::remove_pointer_t<Ours>>::Type,
                                          typename Signature<std::remove_pointer_t<Theirs>>::Type>;

#define CORRLOOM_CUDA_FUNCTION(name, symbol, parameters) \
  static_assert(same_call<decltype(FunctionTable::name), decltype(&::symbol)>, #symbol);
#include "runtime/cuda/functions.def"

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kInvalidPtx == CUDA_ERROR_INVALID_PTX && kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kStickyErrors[0] == CUDA_ERROR_ECC_UNCORRECTABLE && kStickyErrors[2] == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kAttributeMaxGridX == CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
static_assert(kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kAttributeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kAttributeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kAttributeMaxSharedOptIn == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kFunctionMaxDynamicShared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kLaunchCluster == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(kJitErrorLog == CU_JIT_ERROR_LOG_BUFFER && kJitErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE && kHostDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) && sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));

TEST(CudaHeader, AgreesWithOurDeclarations) {
  EXPECT_EQ(sizeof(DevicePointer), sizeof(CUdeviceptr));
}

}  // namespace
}  // namespace corrloom::runtime::gpu
#else
TEST(CudaHeader, AgreesWithOurDeclarations) {
  GTEST_SKIP() << "no cuda.h on this machine";
}
#endif
