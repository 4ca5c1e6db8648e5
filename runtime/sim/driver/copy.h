#pragma once

#include "runtime/sim/driver/operation.h"

namespace corrloom::sim::driver {

/// The copy that a description asks for. Fails with INVALID_VALUE, or NOT_SUPPORTED for arrays.
Copy describe_copy(const CUDA_MEMCPY3D& description);

}  // namespace corrloom::sim::driver
