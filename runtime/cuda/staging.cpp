#include "runtime/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace corrloom::runtime::gpu {
namespace {

/// Regions begin at multiples of this, which every element's size divides.
constexpr std::size_t kRegionAlignment = 64;

}  // namespace

StagingRing::~StagingRing() {
  if (context_.driver().is_usable()) pinned_.free(memory_, kBytes);
}

std::optional<std::size_t> StagingRing::free_place(std::size_t bytes) const {
  if (regions_.empty()) return 0;
  const std::size_t oldest = regions_.front().begin, newest = regions_.back().end;
  if (newest > oldest) {
    if (newest + bytes <= kBytes) return newest;
    return bytes <= oldest ? std::optional<std::size_t>(0) : std::nullopt;
  }
  // The newest regions have wrapped round; the two never meet, so that equal ends mean a full ring.
  return newest + bytes <= oldest ? std::optional(newest) : std::nullopt;
}

void StagingRing::drop_passed() {
  while (!regions_.empty() && !regions_.front().is_busy) {
    const Mark& until = regions_.front().until;
    if (until.stream != nullptr && !until.is_passed()) return;
    regions_.pop_front();
  }
}

std::optional<StagingRing::RegionRef> StagingRing::place_locked(std::size_t bytes) {
  if (memory_ == nullptr) memory_ = static_cast<std::byte*>(pinned_.allocate(kBytes));
  drop_passed();
  const std::size_t rounded = (bytes + kRegionAlignment - 1) / kRegionAlignment * kRegionAlignment;
  const std::optional<std::size_t> place = free_place(rounded);
  if (!place) return std::nullopt;
  regions_.push_back({*place, *place + rounded});
  return std::prev(regions_.end());
}

std::optional<StagingRing::RegionRef> StagingRing::try_acquire(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return place_locked(bytes);
}

StagingRing::RegionRef StagingRing::acquire(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (const std::optional<RegionRef> region = place_locked(bytes)) return *region;
    // Regions end in their order: the oldest one makes room.
    const Region& oldest = regions_.front();
    if (oldest.is_busy)
      released_.wait(lock);
    else
      oldest.until.stream->wait_until_passed(oldest.until.ticket);
  }
}

void StagingRing::release(RegionRef region, Mark until) noexcept {
  {
    const std::lock_guard lock(mutex_);
    region->is_busy = false;
    region->until = std::move(until);
  }
  released_.notify_all();
}

void StagingRing::copy_from_host(DevicePointer to, const std::byte* from, std::size_t bytes,
                                 const std::shared_ptr<StreamState>& stream) {
  for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, bytes - done);
    const RegionRef region = acquire(piece);
    try {
      std::memcpy(memory_of(region), from + done, piece);
      const ContextScope scope(context_);
      context_.check(context_.api().copy_from_host(to + done, memory_of(region), piece, stream->handle()),
                     "cuMemcpyHtoDAsync", piece);
    } catch (...) {
      release(region);
      throw;
    }
    release(region, {stream, stream->mark()});
  }
}

StagingRing::Piece StagingRing::start_download(RegionRef region, std::byte* to, DevicePointer from, std::size_t bytes,
                                               const std::shared_ptr<StreamState>& stream) {
  try {
    const ContextScope scope(context_);
    context_.check(context_.api().copy_to_host(memory_of(region), from, bytes, stream->handle()), "cuMemcpyDtoHAsync",
                   bytes);
  } catch (...) {
    release(region);
    throw;
  }
  return {region, to, bytes, {stream, stream->mark()}};
}

void StagingRing::finish(const Piece& piece) {
  try {
    piece.arrived.stream->wait_until_passed(piece.arrived.ticket);
    std::memcpy(piece.to, memory_of(piece.region), piece.bytes);
  } catch (...) {
    // The copy may still be under way.
    release(piece.region, piece.arrived);
    throw;
  }
  release(piece.region);
}

void StagingRing::copy_to_host(std::byte* to, DevicePointer from, std::size_t bytes,
                               const std::shared_ptr<StreamState>& stream) {
  // One piece is emptied while the next is under way.
  std::optional<Piece> previous;
  const auto finish_previous = [&] {
    if (const std::optional<Piece> piece = std::exchange(previous, std::nullopt)) finish(*piece);
  };
  try {
    for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
      const std::size_t count = std::min(kPieceBytes, bytes - done);
      std::optional<RegionRef> region = try_acquire(count);
      if (!region) {
        finish_previous();
        region = acquire(count);
      }
      const Piece piece = start_download(*region, to + done, from + done, count, stream);
      const std::optional<Piece> last = std::exchange(previous, piece);
      if (last) finish(*last);
    }
    finish_previous();
  } catch (...) {
    if (previous) release(previous->region, previous->arrived);
    throw;
  }
}

}  // namespace corrloom::runtime::gpu
