#pragma once

#include <memory>

#include "runtime/backend.h"
#include "runtime/cuda/driver.h"

namespace corrloom::runtime::gpu {

/// Device number `index` of a driver. Throws RuntimeError when it does not start.
BackendRef make_cuda_backend(std::shared_ptr<const Driver> driver, int index);

}  // namespace corrloom::runtime::gpu
