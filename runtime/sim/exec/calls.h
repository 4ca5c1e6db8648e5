#pragma once

#include <string_view>

#include "runtime/sim/exec/engine.h"

namespace corrloom::sim::exec {

/// Functions that the device's system software provides. Source: CUDA C Programming Guide, "Formatted Output" and
/// "Dynamic Global Memory Allocation"; the PTX Writer's Guide, "System Calls".
enum class Intrinsic { Vprintf, Assertfail, Malloc, Free };

/// The intrinsic of that name; -1 when it is none.
int find_intrinsic(std::string_view name);
/// Runs an intrinsic for lanes whose arguments lie in `frame`'s local memory.
void run_intrinsic(Warp& warp, const Inst& inst, LaneMask mask, const DecodedFunction& function, Frame& frame);

}  // namespace corrloom::sim::exec
