#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"
#include "runtime/tensor.h"

namespace corrloom::runtime {

/// A program's sizes for given values of its symbols: everything that a launch needs besides addresses.
struct Plan {
  std::vector<Shape> shapes;         ///< by buffer
  std::vector<std::int64_t> blocks;  ///< by kernel
  /// Estimates of what a kernel does for these sizes, where the program's own are for typical ones.
  struct Work {
    double flops = 0, bytes = 0;
  };
  std::vector<Work> work;           ///< by kernel
  std::vector<std::int64_t> sizes;  ///< values of the Size arguments, in the order of kernels and arguments
  std::vector<std::int64_t>
      arena_offset;  ///< by buffer: where a workspace lies in the arena; -1 for every other buffer
  std::int64_t arena_bytes = 0;
  std::int64_t prepared_bytes = 0;  ///< of what preparing kernels make, whose `arena_offset` is in memory of its own
  std::string failed_check;         ///< message of the first entry check that does not hold; empty: all hold
};

/// The buffer whose storage each buffer is in the end. Throws InternalError for a chain that does not end.
std::vector<int> storage_roots(const kernel::CompiledProgram& program);

/// Whether no size of the program depends on a symbol.
bool has_constant_sizes(const kernel::CompiledProgram& program);

/// Evaluates every size. Throws InputError when one overflows or an extent is negative.
Plan make_plan(const kernel::CompiledProgram& program, const std::vector<int>& roots,
               const std::vector<std::int64_t>& symbols);

}  // namespace corrloom::runtime
