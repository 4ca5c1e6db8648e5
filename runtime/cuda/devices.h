#pragma once

#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cuda/driver.h"

namespace corrloom::runtime::gpu {

/// The CUDA devices of this machine, and in a line which driver they come from or why there are none.
struct CudaDevices {
  std::vector<BackendRef> backends;
  std::string status;
  std::shared_ptr<const Driver> driver = nullptr;
};

/// Looks for devices as CORRLOOM_CUDA says. Never throws: a driver that does not start, and a device that does not,
/// are reasons in the status.
CudaDevices find_cuda_devices() noexcept;
/// The same with a driver that was found.
CudaDevices devices_of(const DriverSearch& search);

}  // namespace corrloom::runtime::gpu
