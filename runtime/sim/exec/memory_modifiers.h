#pragma once

#include "runtime/sim/exec/decoder.h"

namespace corrloom::sim::exec {

/// Consumes the state space modifier; Generic when there is none.
Space take_memory_space(Decode& c);
/// Consumes cache operators, eviction priorities, prefetch sizes. True when a cache-policy operand follows.
bool take_cache_modifiers(Decode& c);

/// Ordering qualifiers of a memory instruction.
struct Ordering {
  bool strong = false;
  bool acquire = false;
  bool release = false;
};
/// Consumes .weak .volatile .relaxed .acquire .release .acq_rel .mmio and the scope.
Ordering take_ordering(Decode& c);

}  // namespace corrloom::sim::exec
