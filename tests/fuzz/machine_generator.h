#pragma once

#include <optional>
#include <string>

#include "compiler/tools/check/question.h"
#include "ir/kernel/target.h"

namespace corrloom::fuzz {

/// Like this machine, but with small caches, other vectors, and everything that is only done for large tensors done for
/// small ones: what comes from memory there does so here for a few hundred elements. Now and then nothing: the machine
/// itself.
std::optional<kernel::Target> random_machine(tools::Random& random);

/// What is not as on this machine, in one line.
std::string in_words(const std::optional<kernel::Target>& machine);

}  // namespace corrloom::fuzz
