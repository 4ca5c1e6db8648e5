#pragma once

#include <memory>
#include <string>

#include "ir/kernel/kernel.h"
#include "runtime/host/host_backend.h"

/// Small programs whose kernels are C++ functions, so that the runtime is tested without a compiler.
namespace corrloom::runtime::test {

/// The function of a kernel's name, in the form of a host kernel; null for an unknown one.
HostEntry find_kernel(const std::string& name);

/// Lets host backends load the programs below.
void use_test_loader();

kernel::Target host_target();
kernel::Target ptx_target_for_tests();

using ProgramRef = std::shared_ptr<kernel::CompiledProgram>;

/// Y[i] = X[i] + Z[i], f32[n]; blocks of 4 elements. `n` < 0: a dimension read from X.
ProgramRef add_program(const kernel::Target& target, std::int64_t n);
/// Y[i] = s * X[i] by way of two workspaces, with an entry check n >= 1; f32[n] with a symbolic n, s an f32 scalar.
ProgramRef scale_program(const kernel::Target& target);
/// X[i] += 1 in place, f32[n], `Y in X`.
ProgramRef increment_program(const kernel::Target& target, std::int64_t n);
/// Y[i] = X[at[i]] with at: i64[n] checked against X: f32[m]; reports the failing subscript.
ProgramRef gather_program(const kernel::Target& target);

}  // namespace corrloom::runtime::test
