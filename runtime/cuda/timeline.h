#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/streams.h"
#include "runtime/trace.h"

namespace corrloom::runtime::gpu {

/// When the work of a device ran, for the trace: every piece stands between two events, which are asked for their times
/// once they have passed. Only made when something is traced.
class Timeline {
 public:
  /// The context is current.
  Timeline(const Context& context, Trace& trace, std::shared_ptr<StreamState> clock_stream);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// The beginning of a piece of work.
  std::shared_ptr<OpaqueEvent> mark(const StreamState& stream);
  /// The piece that was launched since. The context is current, as it is for `mark`.
  void add(std::shared_ptr<OpaqueEvent> start, const StreamState& stream, const char* lane, std::string name,
           const char* category, Trace::Details details = {});
  /// Waits for all pieces and hands them to the trace.
  void collect() noexcept;

 private:
  struct Piece {
    std::shared_ptr<OpaqueEvent> start, end;
    const char* lane;
    std::string name;
    const char* category;
    Trace::Details details;
  };
  /// Lets the device's time and the host's meet: elapsed times are floats, which tell microseconds for some seconds
  /// only.
  void set_origin();
  void hand_over(const Piece& piece);

  const Context& context_;
  Trace& trace_;
  std::shared_ptr<StreamState> clock_stream_;
  std::shared_ptr<EventPool> events_;
  std::mutex mutex_;
  std::shared_ptr<OpaqueEvent> origin_;
  Trace::Clock::time_point origin_time_;
  std::vector<Piece> pieces_;
  int source_ = 0;
};

}  // namespace corrloom::runtime::gpu
