#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace corrloom::kernel {

enum class TargetKind : std::uint8_t { Host, Ptx };

/// What a compiler and a schedule need to know of a machine. Plain data: filled for the host from the running
/// processor, for PTX from the architecture's name.
struct Target {
  TargetKind kind = TargetKind::Host;
  std::string name;           ///< `host` or the PTX architecture: `sm_80`, `sm_90a`
  std::string cpu;            ///< LLVM's name of the processor: `znver4`, `sm_90a`
  std::string features;       ///< LLVM's feature string, complete
  int vector_bytes = 16;      ///< width of a vector register (host)
  int vector_registers = 16;  ///< how many there are (host)
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;
  std::int64_t l3_bytes = 8 << 20;
  int threads = 1;  ///< that share the blocks of a kernel (host)
  /// The sizes of tensors from which on schedules do something else are divided by it: so tests see in small tensors
  /// what is done for large ones. It changes no bit.
  std::int64_t miniature = 1;
  /// Lanes of the order of a reduction along memory, 1: ascending. It decides bits, so it is the same on every machine
  /// of a kind: on the host one 64-byte vector of f32; one thread computes an element on PTX.
  int reduction_lanes = 16;
  int warp_size = 32;                    ///< lanes of a warp (PTX)
  int max_threads_per_block = 1024;      ///< (PTX)
  std::int64_t shared_bytes = 48 << 10;  ///< shared memory that a block may use without asking (PTX)
  int compute_capability = 0;            ///< 75, 80, ..., 121 (PTX)

  /// A size from which on schedules do something else.
  std::int64_t at_scale(std::int64_t size) const { return std::max<std::int64_t>(size / miniature, 1); }

  friend bool operator==(const Target&, const Target&) = default;
};

/// A PTX target by its architecture's name, `sm_75` to `sm_121a`; nothing when LLVM or the project does not know it.
std::optional<Target> ptx_target(std::string_view arch);

/// Every field, one a line: `name = value`. Targets are equal exactly when their texts are.
std::string print(const Target& target);

/// The PTX architectures that `ptx_target` knows, for messages.
std::string known_ptx_targets();

}  // namespace corrloom::kernel
