#pragma once

#include <vector>

#include "ir/kernel/kernel.h"
#include "ir/tensor/interpret.h"
#include "tests/unit/driver/program_testing.h"

namespace corrloom::testing {

/// Runs a host program the plain way: one array of bytes a buffer, kernels in order.
ProgramRun run_host(const kernel::CompiledProgram& program, const std::vector<tensor::Array>& inputs);

/// Runs a PTX program: buffers in simulated device memory, one launch a kernel, every finding a failure.
ProgramRun run_simulated(const kernel::CompiledProgram& program, const std::vector<tensor::Array>& inputs);

}  // namespace corrloom::testing
