#pragma once

#include <cstddef>
#include <cstdint>

/// The part of the CUDA Driver API that the runtime uses, in our own declarations: building needs no CUDA toolkit.
/// Values and layouts are those of NVIDIA's `cuda.h`; a unit test compares them where that header is installed.
namespace corrloom::runtime::gpu {

/// What every function returns: 0 or the number of an error.
using Result = int;
using DeviceHandle = int;
using DevicePointer = std::uint64_t;
using ContextHandle = struct OpaqueContext*;
using ModuleHandle = struct OpaqueModule*;
using FunctionHandle = struct OpaqueFunction*;
using StreamHandle = struct OpaqueStream*;
using EventHandle = struct OpaqueEvent*;

/// An attribute of a launch: its id, padding, and 64 bytes whose meaning depends on the id.
struct LaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union Value {
    char bytes[64];
    unsigned cluster[3];  ///< of `kAttributeCluster`: blocks of a cluster along each axis
  } value = {};
};
/// A launch with attributes.
struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;
inline constexpr Result kNotReady = 600;
/// After one of these the context is of no use any more: every later call fails with the same.
inline constexpr Result kStickyErrors[] = {
    214,  // uncorrectable ECC error
    220,  // uncorrectable NVLink error
    700,  // illegal address
    702,  // launch timed out
    709,  // context is destroyed
    710,  // assert
    714,  // hardware stack error
    715,  // illegal instruction
    716,  // misaligned address
    717,  // invalid address space
    718,  // invalid program counter
    719,  // launch failed
};

// Attributes of devices.
inline constexpr int kAttributeMaxGridX = 5;
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;
inline constexpr int kAttributeMaxSharedOptIn = 97;
// Attributes of functions and launches.
inline constexpr int kFunctionMaxDynamicShared = 8;
inline constexpr int kLaunchCluster = 4;
// Options of a module's load.
inline constexpr int kJitInfoLog = 3, kJitInfoLogBytes = 4, kJitErrorLog = 5, kJitErrorLogBytes = 6;
// Flags.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0, kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1, kHostDeviceMap = 2;

/// The functions of a driver.
struct FunctionTable {
#define CORRLOOM_CUDA_FUNCTION(name, symbol, parameters) Result(*name) parameters = nullptr;
#include "runtime/cuda/functions.def"
};

}  // namespace corrloom::runtime::gpu
