#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/sim/machine.h"

namespace corrloom::sim::driver {

/// What NVIDIA's assembler says about one kernel.
struct Assembled {
  uint32_t registers = 0;
  uint32_t spill_store_bytes = 0, spill_load_bytes = 0;
};

/// Runs the program `ptxas` on PTX text, whose architecture it must know, and returns what it says about each kernel;
/// empty when it fails.
std::map<std::string, Assembled> assemble(const std::string& ptxas, const Arch& arch, std::string_view text);

/// What ptxas -v printed, read: pieces such as `Compiling entry function 'k'`, `8 bytes spill stores`, `Used 10
/// registers`.
std::map<std::string, Assembled> read_assembler_log(std::string_view log);

}  // namespace corrloom::sim::driver
