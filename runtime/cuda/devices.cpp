#include "runtime/cuda/devices.h"

#include <cstdlib>

#include "ir/base/errors.h"
#include "runtime/cuda/backend.h"

namespace corrloom::runtime::gpu {

CudaDevices devices_of(const DriverSearch& search) {
  if (search.driver == nullptr) return {{}, "no CUDA devices: " + search.reason};
  const Driver& driver = *search.driver;
  CudaDevices found{{}, "CUDA driver " + driver.name() + ", version " + driver.version(), search.driver};
  int count = 0;
  const Result result = driver.functions().device_get_count(&count);
  if (result != kSuccess && result != kNoDevice) {
    return {{}, "no CUDA devices: cuDeviceGetCount of " + driver.name() + ": " + driver.describe(result)};
  }
  for (int index = 0; index < count; ++index) {
    try {
      found.backends.push_back(make_cuda_backend(search.driver, index));
    } catch (const RuntimeError& error) {
      found.status += std::string("; device ") + std::to_string(index) + " does not start: " + error.what();
    }
  }
  if (count == 0) found.status = "no CUDA devices: " + driver.name() + " finds none";
  return found;
}

CudaDevices find_cuda_devices() noexcept {
  try {
    const char* const setting = std::getenv("CORRLOOM_CUDA");
    return devices_of(find_driver(setting == nullptr ? "" : setting));
  } catch (const std::exception& error) {
    return {{}, std::string("no CUDA devices: ") + error.what()};
  }
}

}  // namespace corrloom::runtime::gpu
