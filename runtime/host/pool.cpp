#include "runtime/host/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "ir/base/errors.h"
#include "runtime/block_class.h"

namespace corrloom::runtime {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 62;

/// The class of the smallest block that holds `bytes`.
BlockClass class_of(std::size_t bytes) {
  return block_class(bytes, HostPool::kAlignment);
}

/// A new block of the machine, or null.
void* new_block(std::size_t bytes) {
  const bool huge = bytes >= HostPool::kHugeBytes;
  void* memory = std::aligned_alloc(huge ? HostPool::kHugeBytes : HostPool::kAlignment, bytes);
  // Without huge pages everything works, only slower: the answer does not matter.
  if (memory != nullptr && huge) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

/// The number at the start of a file or after `field`, or nothing.
std::optional<std::int64_t> number_in(const char* path, const std::string& field) {
  std::ifstream file(path);
  std::string word;
  while (!field.empty() && file >> word && word != field) {
  }
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// A request this large is first compared with what the machine has: the kernel promises more than it has and kills who
/// uses it.
constexpr std::size_t kLargeBytes = std::size_t{64} << 20;

bool exceeds_machine(std::size_t bytes) {
  if (bytes < kLargeBytes) return false;
  const std::optional<std::int64_t> available = available_host_memory();
  return available && bytes > static_cast<std::size_t>(std::max<std::int64_t>(*available, 0));
}

}  // namespace

std::optional<std::int64_t> available_host_memory() {
  std::optional<std::int64_t> available = number_in("/proc/meminfo", "MemAvailable:");
  if (available) *available *= 1024;
  const std::optional<std::int64_t> group_limit = number_in("/sys/fs/cgroup/memory.max", "");
  const std::optional<std::int64_t> group_used = number_in("/sys/fs/cgroup/memory.current", "");
  if (group_limit && group_used) {
    // The group's use includes file pages, which the kernel drops when it needs to.
    const std::int64_t files = number_in("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0);
    const std::int64_t group_available = *group_limit - *group_used + files;
    available = available ? std::min(*available, group_available) : group_available;
  }
  return available;
}

HostPool::HostPool(std::int64_t max_kept_bytes)
    : max_kept_bytes_(max_kept_bytes), kept_(class_of(kMaxBytes).number + 1) {}

HostPool::~HostPool() {
  trim_locked(0);
}

void* HostPool::take_kept(std::size_t number, std::size_t block_bytes) {
  std::vector<void*>& blocks = kept_[number];
  if (blocks.empty()) return nullptr;
  void* memory = blocks.back();
  blocks.pop_back();
  stats_.reserved -= static_cast<std::int64_t>(block_bytes);
  return memory;
}

void* HostPool::allocate(std::size_t bytes) {
  if (bytes > kMaxBytes) fail(bytes, "more than any machine has");
  const BlockClass chosen = class_of(bytes);
  const std::size_t block_bytes = chosen.bytes;
  const auto block = static_cast<std::int64_t>(block_bytes);
  {
    const std::lock_guard lock(mutex_);
    if (limit_ && stats_.in_use + block > *limit_) {
      trim_locked(0);
      fail(bytes, "over the limit that was set");
    }
    void* memory = take_kept(chosen.number, block_bytes);
    if (memory != nullptr) {
      stats_.in_use += block;
      stats_.reserved += block;
      stats_.peak = std::max(stats_.peak, stats_.in_use);
      return memory;
    }
    // Counted before it is there, so that two threads cannot pass the limit together.
    stats_.in_use += block;
    stats_.reserved += block;
  }
  void* memory = exceeds_machine(block_bytes) ? nullptr : new_block(block_bytes);
  if (memory == nullptr) {
    trim(0);
    if (!exceeds_machine(block_bytes)) memory = new_block(block_bytes);
  }
  const std::lock_guard lock(mutex_);
  if (memory == nullptr) {
    stats_.in_use -= block;
    stats_.reserved -= block;
    fail(bytes, "out of memory");
  }
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return memory;
}

void HostPool::free(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  const BlockClass chosen = class_of(bytes);
  const auto block = static_cast<std::int64_t>(chosen.bytes);
  {
    const std::lock_guard lock(mutex_);
    stats_.in_use -= block;
    if (stats_.reserved - stats_.in_use <= max_kept_bytes_) {
      try {
        kept_[chosen.number].push_back(memory);
        return;
      } catch (const std::bad_alloc&) {
        // No room in the list: the block goes back to the machine below.
      }
    }
    stats_.reserved -= block;
  }
  std::free(memory);
}

MemoryStats HostPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void HostPool::trim(std::int64_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  trim_locked(keep_bytes);
}

void HostPool::trim_locked(std::int64_t keep_bytes) {
  // Largest first: the fewest calls.
  for (std::size_t number = kept_.size(); number-- > 0;) {
    std::vector<void*>& blocks = kept_[number];
    while (!blocks.empty() && stats_.reserved - stats_.in_use > keep_bytes) {
      std::free(blocks.back());
      blocks.pop_back();
      stats_.reserved -= static_cast<std::int64_t>(block_class_bytes(number, kAlignment));
    }
  }
}

void HostPool::set_limit(std::optional<std::int64_t> bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void HostPool::fail(std::size_t bytes, const char* reason) const {
  const std::optional<std::int64_t> available = available_host_memory();
  throw RuntimeError(detail::concat("allocate(", bytes, " bytes) on cpu: ", reason, " (free ",
                                    available ? std::to_string(*available) : "unknown", ", in use ", stats_.in_use,
                                    limit_ ? ", limit " + std::to_string(*limit_) : "", ")"));
}

}  // namespace corrloom::runtime
