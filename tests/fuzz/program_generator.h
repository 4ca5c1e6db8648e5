#pragma once

#include <cstdint>
#include <string>

namespace corrloom::fuzz {

/// A random program in the language with one op `f`, the same for a seed on every machine. Most compile; those that do
/// not must be refused with an error of the program.
std::string random_program(std::uint64_t seed);

}  // namespace corrloom::fuzz
