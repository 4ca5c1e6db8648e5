#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>

#include "runtime/cuda/pool.h"
#include "runtime/cuda/streams.h"

namespace corrloom::runtime::gpu {

/// A ring of pinned memory between pageable host memory and the device: the driver copies pinned memory on its own,
/// beside kernels and beside the host, and pageable memory only while the host waits. Any thread may call.
class StagingRing {
 public:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;
  /// Large copies go in pieces, so that filling one overlaps with the copy of another.
  static constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

  StagingRing(const Context& context, PinnedPool& pinned) : context_(context), pinned_(pinned) {}
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  /// Enqueues a copy; the host memory is free again on return.
  void copy_from_host(DevicePointer to, const std::byte* from, std::size_t bytes,
                      const std::shared_ptr<StreamState>& stream);
  /// Copies and waits until the bytes are there.
  void copy_to_host(std::byte* to, DevicePointer from, std::size_t bytes, const std::shared_ptr<StreamState>& stream);

 private:
  /// A part of the ring in use: being filled or emptied by a thread, then, for an upload, until a copy has passed.
  struct Region {
    std::size_t begin = 0, end = 0;
    bool is_busy = true;
    Mark until;
  };
  using RegionRef = std::list<Region>::iterator;
  /// A piece of a download that is under way.
  struct Piece {
    RegionRef region;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    Mark arrived;
  };

  /// Waits for room, which a thread must not do while it holds a region itself: then two could wait for each other.
  RegionRef acquire(std::size_t bytes);
  /// Nothing when there is no room at once.
  std::optional<RegionRef> try_acquire(std::size_t bytes);
  void release(RegionRef region, Mark until = {}) noexcept;
  /// Where `bytes` fit beside the regions in use.
  std::optional<std::size_t> free_place(std::size_t bytes) const;
  std::optional<RegionRef> place_locked(std::size_t bytes);
  void drop_passed();
  /// Waits for a piece and hands its bytes over.
  void finish(const Piece& piece);
  Piece start_download(RegionRef region, std::byte* to, DevicePointer from, std::size_t bytes,
                       const std::shared_ptr<StreamState>& stream);
  std::byte* memory_of(RegionRef region) const { return memory_ + region->begin; }

  const Context& context_;
  PinnedPool& pinned_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::byte* memory_ = nullptr;  ///< made when it is needed first
  std::list<Region> regions_;    ///< oldest first
};

}  // namespace corrloom::runtime::gpu
