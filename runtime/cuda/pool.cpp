#include "runtime/cuda/pool.h"

#include <algorithm>
#include <utility>

#include "runtime/block_class.h"

namespace corrloom::runtime::gpu {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 62;
/// So many blocks of a class may wait for another stream before one of them is worth waiting for.
constexpr int kMostPending = 4;
/// Pinned memory is taken from the whole machine: little of it is kept.
constexpr std::size_t kMostPinnedKept = std::size_t{256} << 20;
constexpr std::size_t kPinnedAlignment = 64;

DevicePointer address_of(void* memory) {
  return reinterpret_cast<DevicePointer>(memory);
}

}  // namespace

DevicePool::DevicePool(const Context& context, StreamRef rest)
    : context_(context), rest_(std::move(rest)), kept_(block_class(kMaxBytes, kAlignment).number + 1) {}

DevicePool::~DevicePool() {
  if (!context_.is_usable()) return;
  for (const std::vector<Block>& blocks : kept_) {
    for (const Block& block : blocks) release(block.memory);
  }
}

void* DevicePool::allocate(std::size_t bytes, const StreamRef& home) {
  context_.require_usable();
  const ContextScope scope(context_);
  const std::lock_guard lock(mutex_);
  if (bytes > kMaxBytes) fail(bytes, "more than any device has");
  const BlockClass chosen = block_class(bytes, kAlignment);
  const auto block = static_cast<std::int64_t>(chosen.bytes);
  if (limit_ && stats_.in_use + block > *limit_) {
    trim_locked(0);
    fail(bytes, "over the limit that was set");
  }
  void* memory = take_kept(chosen.number, home);
  if (memory == nullptr) {
    memory = new_block(chosen.bytes);
    if (memory == nullptr) memory = take_any(chosen.number, home);
    if (memory == nullptr) {
      trim_locked(0);
      memory = new_block(chosen.bytes);
    }
    if (memory == nullptr) fail(bytes, "out of memory");
  }
  try {
    used_.emplace(memory, Used{chosen.number, home});
  } catch (...) {
    stats_.reserved -= block;
    release(memory);
    throw;
  }
  stats_.in_use += block;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return memory;
}

void* DevicePool::take(std::vector<Block>& blocks, std::size_t position, const StreamRef& home) {
  const Block block = blocks[position];
  if (block.reusable_after.stream != nullptr) {
    home->wait_for(*block.reusable_after.stream, block.reusable_after.ticket);
  } else if (block.home != home) {
    home->wait_for(*block.home, block.home->mark());
  }
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(position));
  return block.memory;
}

void* DevicePool::take_kept(std::size_t number, const StreamRef& home) {
  std::vector<Block>& blocks = kept_[number];
  int pending = 0;
  std::optional<std::size_t> oldest;
  for (std::size_t k = blocks.size(); k-- > 0;) {
    const Block& block = blocks[k];
    if (block.home != home) continue;
    const Mark& after = block.reusable_after;
    if (after.stream == nullptr || after.stream == home || after.is_passed()) return take(blocks, k, home);
    ++pending;
    oldest = k;
  }
  return pending >= kMostPending ? take(blocks, *oldest, home) : nullptr;
}

void* DevicePool::take_any(std::size_t number, const StreamRef& home) {
  std::vector<Block>& blocks = kept_[number];
  return blocks.empty() ? nullptr : take(blocks, 0, home);
}

void* DevicePool::new_block(std::size_t bytes) {
  DevicePointer memory = 0;
  const Result result = context_.api().memory_allocate(&memory, bytes);
  if (result == kOutOfMemory) return nullptr;
  context_.check(result, "cuMemAlloc", bytes);
  stats_.reserved += static_cast<std::int64_t>(bytes);
  return reinterpret_cast<void*>(memory);
}

void DevicePool::release(void* memory) noexcept {
  try {
    const ContextScope scope(context_);
    (void)context_.api().memory_free(address_of(memory));
  } catch (const RuntimeError&) {
    // A lost device has no memory to give back.
  }
}

void DevicePool::free(void* memory, const StreamRef& last) noexcept {
  // In a child of fork the lock may be held by a thread that is not there.
  if (memory == nullptr || !context_.driver().is_usable()) return;
  const std::lock_guard lock(mutex_);
  const auto entry = used_.find(memory);
  if (entry == used_.end()) return;
  const Used used = std::move(entry->second);
  used_.erase(entry);
  stats_.in_use -= static_cast<std::int64_t>(block_class_bytes(used.class_number, kAlignment));
  Mark mark;
  if (last != used.home) mark = {last, last->mark()};
  try {
    kept_[used.class_number].push_back({memory, used.home, std::move(mark)});
  } catch (const std::bad_alloc&) {
    // No room in the list. The driver waits for the work that uses the block before it takes it.
    stats_.reserved -= static_cast<std::int64_t>(block_class_bytes(used.class_number, kAlignment));
    release(memory);
  }
}

MemoryStats DevicePool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void DevicePool::trim(std::int64_t keep_bytes) {
  const ContextScope scope(context_);
  const std::lock_guard lock(mutex_);
  trim_locked(keep_bytes);
}

void DevicePool::trim_locked(std::int64_t keep_bytes) {
  if (stats_.reserved - stats_.in_use <= keep_bytes) return;
  // Work that still uses kept blocks has to be over.
  context_.check(context_.api().context_synchronise(), "cuCtxSynchronize");
  // Largest first: the fewest calls.
  for (std::size_t number = kept_.size(); number-- > 0;) {
    std::vector<Block>& blocks = kept_[number];
    while (!blocks.empty() && stats_.reserved - stats_.in_use > keep_bytes) {
      release(blocks.back().memory);
      blocks.pop_back();
      stats_.reserved -= static_cast<std::int64_t>(block_class_bytes(number, kAlignment));
    }
  }
}

void DevicePool::set_limit(std::optional<std::int64_t> bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void DevicePool::forget(const StreamRef& stream) {
  const std::lock_guard lock(mutex_);
  for (auto& [memory, used] : used_) {
    if (used.home == stream) used.home = rest_;
  }
  for (std::vector<Block>& blocks : kept_) {
    for (Block& block : blocks) {
      if (block.reusable_after.stream == stream) block.reusable_after = {};
      if (block.home == stream) block.home = rest_;
    }
  }
}

void DevicePool::fail(std::size_t bytes, const std::string& reason) const {
  std::size_t available = 0, total = 0;
  const bool known = context_.api().memory_info(&available, &total) == kSuccess;
  throw RuntimeError(detail::concat("allocate(", bytes, " bytes) on ", context_.device().name(), ": ", reason,
                                    " (free ", known ? std::to_string(available) : "unknown", ", in use ",
                                    stats_.in_use, limit_ ? ", limit " + std::to_string(*limit_) : "", ")"));
}

PinnedPool::PinnedPool(const Context& context)
    : context_(context), kept_(block_class(kMaxBytes, kPinnedAlignment).number + 1) {}

PinnedPool::~PinnedPool() {
  if (!context_.is_usable()) return;
  try {
    const ContextScope scope(context_);
    for (const std::vector<void*>& blocks : kept_) {
      for (void* memory : blocks) (void)context_.api().host_free(memory);
    }
  } catch (const RuntimeError&) {
    // It stays until the process ends.
  }
}

void* PinnedPool::allocate(std::size_t bytes) {
  context_.require_usable();
  CORRLOOM_CHECK(bytes <= kMaxBytes, "pinned memory of ", bytes, " bytes is asked for");
  const BlockClass chosen = block_class(bytes, kPinnedAlignment);
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& blocks = kept_[chosen.number];
    if (!blocks.empty()) {
      void* const memory = blocks.back();
      blocks.pop_back();
      kept_bytes_ -= chosen.bytes;
      return memory;
    }
  }
  const ContextScope scope(context_);
  void* memory = nullptr;
  constexpr unsigned kFlags = kHostPortable | kHostDeviceMap;
  context_.check(context_.api().host_allocate(&memory, chosen.bytes, kFlags), "cuMemHostAlloc", chosen.bytes);
  return memory;
}

void PinnedPool::free(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr || !context_.is_usable()) return;
  const BlockClass chosen = block_class(bytes, kPinnedAlignment);
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + chosen.bytes <= kMostPinnedKept) {
      try {
        kept_[chosen.number].push_back(memory);
        kept_bytes_ += chosen.bytes;
        return;
      } catch (const std::bad_alloc&) {
        // No room in the list: back to the machine below.
      }
    }
  }
  try {
    const ContextScope scope(context_);
    (void)context_.api().host_free(memory);
  } catch (const RuntimeError&) {
    // A lost device keeps its mappings until the process ends.
  }
}

}  // namespace corrloom::runtime::gpu
