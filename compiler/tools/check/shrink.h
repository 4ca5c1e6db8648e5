#pragma once

#include <functional>

#include "compiler/tools/check/question.h"

namespace corrloom::tools {

/// Whether a question still shows what was found.
using StillFails = std::function<bool(const Question&)>;

/// The question with extents as small, and elements as plain, as they get while it still fails. Asks at most a few
/// hundred times.
Question shrink(Question question, const StillFails& still_fails);

}  // namespace corrloom::tools
