#pragma once

#include <cstdint>
#include <optional>

#include "compiler/passes/host_reads.h"

namespace corrloom::passes::host {

/// Vectors whose lanes lie at known distances from each other, though not one behind the other: the axis is divided by
/// constants in the subscripts, `x[i // 3]`.
struct Near {
  std::int64_t vectors = 1;  ///< side by side in a tile, after which the distances are the same again
  std::int64_t parts = 1;    ///< whole vectors of memory from which one of them is picked
};

/// How vectors of so many lanes along the axis find what an access reads; nothing where that is affine, far apart or
/// not known before the call.
std::optional<Near> near_lanes(const Access& access, AxisId axis, std::int64_t lanes);

}  // namespace corrloom::passes::host
