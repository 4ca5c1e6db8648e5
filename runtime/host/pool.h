#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/backend.h"

namespace corrloom::runtime {

/// Host memory in blocks that are kept and reused: a fresh block costs a page fault for every page, a reused one
/// nothing. Blocks are multiples of 64 bytes aligned to 64 bytes; from 2 MiB on, multiples of 2 MiB aligned to 2 MiB,
/// with huge pages asked for. Any thread may call.
class HostPool {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kHugeBytes = std::size_t{2} << 20;

  /// Keeps at most `max_kept_bytes` of freed blocks.
  explicit HostPool(std::int64_t max_kept_bytes);
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  /// Throws RuntimeError when the machine or the limit does not allow it; nothing has changed then except that kept
  /// blocks were given back.
  void* allocate(std::size_t bytes);
  void free(void* memory, std::size_t bytes) noexcept;
  MemoryStats stats() const;
  void trim(std::int64_t keep_bytes);
  void set_limit(std::optional<std::int64_t> bytes);

 private:
  /// A block from the free list of its class, or null.
  void* take_kept(std::size_t number, std::size_t block_bytes);
  [[noreturn]] void fail(std::size_t bytes, const char* reason) const;
  void trim_locked(std::int64_t keep_bytes);

  const std::int64_t max_kept_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::vector<void*>> kept_;  ///< by size class
  MemoryStats stats_;
  std::optional<std::int64_t> limit_;
};

/// Bytes that this process could still take without swapping, as the kernel and the control group say; nothing when
/// they do not say.
std::optional<std::int64_t> available_host_memory();

}  // namespace corrloom::runtime
