#pragma once

#include "runtime/sim/driver/operation.h"

namespace corrloom::sim::driver {

/// A launch of the function with the arguments copied: from `arguments`, a pointer for each parameter, or from a buffer
/// described by `extra`. Fails with INVALID_HANDLE or INVALID_VALUE.
KernelLaunch make_launch(CUfunction handle, const Dim3& grid, const Dim3& block, unsigned shared_bytes,
                         void** arguments, void** extra);

}  // namespace corrloom::sim::driver
