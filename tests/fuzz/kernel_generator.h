#pragma once

#include <string>

#include "compiler/tools/check/question.h"

namespace corrloom::fuzz {

/// A program of the kinds that schedules do most for: products, windows, rows and columns that are reduced, results
/// across memory, interleaved ones, chains of stencils. Its op is `f`.
std::string random_kernel(tools::Random& random);

}  // namespace corrloom::fuzz
