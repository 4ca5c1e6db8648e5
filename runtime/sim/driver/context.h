#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/driver/stream.h"

namespace corrloom::sim::driver {

class Device;

/// A context: the streams and objects a client made on one device, and whether an error has made it unusable.
class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(Device& device, CUcontext handle, unsigned flags, bool primary, uint64_t id);

  Device& device;
  const CUcontext handle;
  const bool primary;
  const uint64_t id;
  std::atomic<unsigned> flags;
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};

  /// The error that made the context unusable, CUDA_SUCCESS while there is none.
  CUresult error() const { return error_.load(); }
  /// Makes the context unusable; the first error stays.
  void lose(CUresult error);

  std::shared_ptr<Stream> legacy_stream();
  /// The default stream of the calling thread.
  std::shared_ptr<Stream> per_thread_stream();
  /// Makes a stream with a handle of its own.
  std::shared_ptr<Stream> create_stream(unsigned flags, int priority);
  /// Forgets a stream; what it still has to do is done.
  void forget(const std::shared_ptr<Stream>& stream);

  /// The streams that live now.
  std::vector<std::shared_ptr<Stream>> streams() const;

  /// Queues an operation behind everything it must wait for: its own stream, the legacy stream if `stream` is blocking,
  /// all blocking streams if it is the legacy stream, and the events it awaits.
  std::shared_ptr<Fence> enqueue(Stream& stream, Operation operation);
  /// True when the stream has nothing left to do, and nothing to wait for.
  bool idle(const Stream& stream) const;
  /// Waits for everything enqueued in all streams; returns the context's error.
  CUresult synchronise();

  /// Makes the memory of another context's device accessible to kernels of this one; PEER_ACCESS_ALREADY_ENABLED.
  CUresult enable_peer(Context& peer);
  CUresult disable_peer(Context& peer);

  /// Value of a limit that has been set or is known; UNSUPPORTED_LIMIT otherwise.
  CUresult get_limit(CUlimit limit, size_t& value) const;
  CUresult set_limit(CUlimit limit, size_t value);
  /// Bytes of stack for each thread of a kernel.
  uint32_t stack_bytes() const;

  /// Ends all work and gives back what the context owns: streams, events, modules, memory.
  void shut_down();

 private:
  std::shared_ptr<Stream> make_stream(Stream::Kind kind, unsigned flags, int priority);

  std::atomic<CUresult> error_{CUDA_SUCCESS};
  mutable std::mutex mutex_;  ///< guards the lists, and orders what is enqueued
  std::vector<std::shared_ptr<Stream>> streams_;
  std::shared_ptr<Stream> legacy_;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_;
  std::vector<std::shared_ptr<Fence>> unfinished_;  ///< of streams that were destroyed with work left
  std::set<int> peers_;
  std::map<CUlimit, size_t> limits_;
};

}  // namespace corrloom::sim::driver
