#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compiler/api/corrloom.h"
#include "ir/kernel/target.h"
#include "runtime/host/limits.h"

namespace corrloom::tools {

/// What must be done at least.
struct Work {
  double flops = 0;
  double integer_ops = 0, integer_products = 0;  ///< products are among the operations
  double divisions = 0, roots = 0;               ///< among the flops
  int element_bytes = 1;                         ///< 8 halves the rate of arithmetic, as vectors hold half as many
  bool on_bf16 = false;                          ///< all of its operands are bf16, or it works on pairs of them
  bool on_bytes = false;                         ///< all of its operands are of one byte, or it works on quads of them
  double read_bytes = 0, written_bytes = 0;
  double bytes() const { return read_bytes + written_bytes; }
  /// Adds what a kernel computes.
  void add(const KernelInfo& kernel);
  /// Takes note of the dtype of an operand or a result: the widest decides how many of them a vector holds.
  void widen_for(DType dtype);
  /// `268.4 M flops`, `2.15 G integer operations`, or both
  std::string operations_text() const;
};

/// The least time for some work on this machine.
struct Limit {
  double arithmetic_us = 0, divisions_us = 0, memory_us = 0;
  std::string memory;  ///< what holds the operands: `L1`, `L2`, `L3` or `memory`
  double us() const { return std::max({arithmetic_us, divisions_us, memory_us}); }
  std::string by() const {
    if (memory_us >= std::max(arithmetic_us, divisions_us)) return memory;
    return arithmetic_us >= divisions_us ? "arithmetic" : "divisions";
  }
};

/// The rates of the host with so many threads, each measured when it is asked for first.
class HostLimits {
 public:
  HostLimits(const kernel::Target& target, int threads) : target_(target), threads_(threads) {}

  /// In a nanosecond.
  double flops_per_ns(runtime::Arithmetic kind = runtime::Arithmetic::F32);
  /// What memory of so many bytes gives; the mix decides whether reading, writing or copying is the measure.
  double bytes_per_ns(double read_bytes, double written_bytes);
  /// Of reading what lies in a level: 1 to 3, 4 for memory.
  double level_bytes_per_ns(int level);
  /// Of arithmetic by the instructions that suit the operands, of divisions and roots, and of the smallest level that
  /// holds all bytes.
  Limit of(const Work& work);
  /// The smallest level that holds so many bytes: `L1`, `L2`, `L3` or `memory`.
  std::string level_of(double bytes) const;

 private:
  double integers_us(const Work& work);
  double measured(runtime::Traffic traffic, std::int64_t bytes);

  kernel::Target target_;
  int threads_;
  std::map<runtime::Arithmetic, double> flops_per_ns_;
  std::map<std::pair<runtime::Traffic, std::int64_t>, double> rates_;
};

}  // namespace corrloom::tools
