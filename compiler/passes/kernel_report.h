#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/passes/choice.h"
#include "compiler/passes/lower_to_loops.h"
#include "ir/kernel/target.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// What a kernel does with one tensor. Bytes beyond a level are those that must come from behind it as long as the
/// level holds what the loops inside work on: an estimate from index maps and loops, for the host only.
struct OperandReport {
  enum class Use : std::uint8_t { Read, Written, Inside };
  std::string tensor;
  DType dtype = DType::F32;
  Use use = Use::Read;  ///< Inside: a tile of it is computed in the kernel and never leaves the caches
  std::string view_of;  ///< the operand whose elements it is under other extents, if it is one
  double bytes = 0;     ///< of all its elements, once; of the tile, for Inside
  double touched = 0;   ///< of them at most so many are read or written
  double loads = 0;     ///< bytes that the innermost loop loads, over the whole kernel; 0 where that is not known
  double beyond_l1 = 0, beyond_l2 = 0, beyond_l3 = 0;
  std::string reread_from;  ///< `L1`, `L2`, `L3` or `memory`: what serves its reads after the first, `nothing` where
                            ///< there are none; empty where only computes inside read it
  std::string why_outside;  ///< of a tensor that another kernel computes: why not this one
};

/// What is known of a kernel without running it.
struct KernelReport {
  std::string compute;              ///< the value it is named after
  std::vector<std::string> inside;  ///< values that are computed in its loops
  std::string tile;                 ///< `6 of i x 4 vectors of 16 along j`
  double lane_use = 1;              ///< lanes that hold elements, of all lanes of all vectors (threads, on a GPU)
  int element_bytes = 4;            ///< of the widest dtype that it computes in
  double least_bytes = 0;           ///< of the elements that it reads and writes, once each
  double divisions = 0, roots = 0;  ///< of floats; see operations.h
  std::vector<OperandReport> operands;
  std::vector<Choice> choices;  ///< of the compute and of those inside
};

/// Describes one kernel of a schedule whose copies are made. `choices` are those that `choose_schedule` noted.
KernelReport report_kernel(const tensor::Graph& graph, const schedule::Schedule& schedule, const LoweredKernel& kernel,
                           const kernel::Target& target, const Choices& choices);

}  // namespace corrloom::passes
