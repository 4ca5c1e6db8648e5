#pragma once

#include <vector>

#include "compiler/api/corrloom.h"
#include "compiler/tools/check/laws.h"

namespace corrloom::tools {

/// The laws of an op (an instance of a generic one) on a device, tried on those arguments and on others made from them.
/// An op that gives up exactness (`order = any`, `math = fast`) has none. Throws CompileError.
LawReport laws_of(const Op& op, const std::vector<Argument>& arguments, Device device);

}  // namespace corrloom::tools
