#pragma once

#include <string>

namespace corrloom::tools {

/// The machine code of a PTX text for an architecture, by the `ptxas` on PATH. Throws RuntimeError when there is none
/// or it refuses the text.
std::string assemble_ptx(const std::string& ptx, const std::string& architecture);

}  // namespace corrloom::tools
