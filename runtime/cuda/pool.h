#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cuda/streams.h"

namespace corrloom::runtime::gpu {

/// The memory of a device in blocks that are kept and reused in the order of streams. Every block has a home, the
/// stream that it was allocated for. Freed behind work of its home it is reused there at once, because later work of a
/// stream runs later; freed behind another stream it waits until that one has passed. Any thread may call.
class DevicePool {
 public:
  static constexpr std::size_t kAlignment = 256;

  /// `rest` is the stream that inherits the blocks of streams that end.
  DevicePool(const Context& context, std::shared_ptr<StreamState> rest);
  ~DevicePool();
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  /// Memory that work of `home` may use. Throws RuntimeError, with wanted, free and in use, when there is none after
  /// all kept blocks were given back.
  void* allocate(std::size_t bytes, const std::shared_ptr<StreamState>& home);
  /// Takes a block back once the work of `last` so far is done.
  void free(void* memory, const std::shared_ptr<StreamState>& last) noexcept;
  MemoryStats stats() const;
  /// Gives kept blocks back to the driver until at most `keep_bytes` are kept. Waits for the device.
  void trim(std::int64_t keep_bytes);
  void set_limit(std::optional<std::int64_t> bytes);
  /// The stream ends and has no work any more.
  void forget(const std::shared_ptr<StreamState>& stream);

 private:
  using StreamRef = std::shared_ptr<StreamState>;
  struct Block {
    void* memory = nullptr;
    StreamRef home;
    Mark reusable_after;  ///< without a stream: at once
  };
  struct Used {
    std::size_t class_number = 0;
    StreamRef home;
  };

  /// A kept block of the class that work of `home` may use now or behind work of other streams; null: none worth it.
  void* take_kept(std::size_t number, const StreamRef& home);
  /// The same whatever it must wait for and whose it was.
  void* take_any(std::size_t number, const StreamRef& home);
  void* take(std::vector<Block>& blocks, std::size_t position, const StreamRef& home);
  /// New memory of the driver; null when it has none.
  void* new_block(std::size_t bytes);
  void trim_locked(std::int64_t keep_bytes);
  void release(void* memory) noexcept;
  [[noreturn]] void fail(std::size_t bytes, const std::string& reason) const;

  const Context& context_;
  const StreamRef rest_;
  mutable std::mutex mutex_;
  std::vector<std::vector<Block>> kept_;  ///< by class
  std::unordered_map<void*, Used> used_;
  MemoryStats stats_;
  std::optional<std::int64_t> limit_;
};

/// Pinned memory of the host, which all devices reach at the host's address. Blocks are kept and reused. Any thread may
/// call.
class PinnedPool {
 public:
  explicit PinnedPool(const Context& context);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Throws RuntimeError.
  void* allocate(std::size_t bytes);
  /// `bytes` as allocated. No work uses the memory any more.
  void free(void* memory, std::size_t bytes) noexcept;

 private:
  const Context& context_;
  std::mutex mutex_;
  std::vector<std::vector<void*>> kept_;  ///< by class
  std::size_t kept_bytes_ = 0;
};

}  // namespace corrloom::runtime::gpu
