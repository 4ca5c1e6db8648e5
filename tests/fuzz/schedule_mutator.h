#pragma once

#include <string>

#include "compiler/tools/check/question.h"

namespace corrloom::fuzz {

/// The text of a schedule with some of its numbers, lines and words changed: often another legal one.
std::string mutated_schedule(const std::string& text, tools::Random& random);

}  // namespace corrloom::fuzz
