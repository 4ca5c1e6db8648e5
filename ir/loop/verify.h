#pragma once

#include <string>
#include <vector>

#include "ir/loop/function.h"

namespace corrloom::loop {

struct Violation {
  std::string rule;     ///< `L4`
  std::string where;    ///< the printed instruction, or the function's name
  std::string message;  ///< found against wanted
};

/// All broken rules of a function at its stage. The rules are numbered and listed in ir/README.md.
std::vector<Violation> verify(const Function& function);

}  // namespace corrloom::loop
