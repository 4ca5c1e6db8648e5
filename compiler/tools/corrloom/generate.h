#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/api/corrloom.h"

namespace corrloom::tools {

/// Small arguments for an op, made from a seed: extents and scalars with which every entry condition holds, and random
/// elements. Nothing when none were found.
std::optional<std::vector<Argument>> generate_arguments(const Op& op, std::uint64_t seed);

}  // namespace corrloom::tools
