#include "runtime/cuda/timeline.h"

#include <utility>

namespace corrloom::runtime::gpu {
namespace {

/// So many pieces are kept before they are asked for their times.
constexpr std::size_t kMostPieces = 4096;

}  // namespace

Timeline::Timeline(const Context& context, Trace& trace, std::shared_ptr<StreamState> clock_stream)
    : context_(context),
      trace_(trace),
      clock_stream_(std::move(clock_stream)),
      events_(std::make_shared<EventPool>(context, kEventDefault)) {
  set_origin();
  source_ = trace_.add_source([this] { collect(); });
}

Timeline::~Timeline() {
  trace_.remove_source(source_);
  collect();
}

void Timeline::set_origin() {
  origin_ = events_->record(clock_stream_->handle());
  context_.check(context_.api().event_synchronise(origin_.get()), "cuEventSynchronize");
  origin_time_ = Trace::Clock::now();
}

std::shared_ptr<OpaqueEvent> Timeline::mark(const StreamState& stream) {
  return events_->record(stream.handle());
}

void Timeline::add(std::shared_ptr<OpaqueEvent> start, const StreamState& stream, const char* lane, std::string name,
                   const char* category, Trace::Details details) {
  std::shared_ptr<OpaqueEvent> end = events_->record(stream.handle());
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    pieces_.push_back({std::move(start), std::move(end), lane, std::move(name), category, std::move(details)});
    is_full = pieces_.size() >= kMostPieces;
  }
  if (is_full) collect();
}

void Timeline::hand_over(const Piece& piece) {
  float until_start = 0, duration = 0;
  context_.check(context_.api().event_synchronise(piece.end.get()), "cuEventSynchronize");
  context_.check(context_.api().event_elapsed(&until_start, origin_.get(), piece.start.get()), "cuEventElapsedTime");
  context_.check(context_.api().event_elapsed(&duration, piece.start.get(), piece.end.get()), "cuEventElapsedTime");
  const auto time = [](float milliseconds) {
    return std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double, std::milli>(milliseconds));
  };
  trace_.add(context_.device().name(), piece.lane, piece.name, piece.category, origin_time_ + time(until_start),
             time(duration), piece.details);
}

void Timeline::collect() noexcept {
  if (!context_.is_usable()) return;
  try {
    const ContextScope scope(context_);
    const std::lock_guard lock(mutex_);
    const std::vector<Piece> pieces = std::exchange(pieces_, {});
    for (const Piece& piece : pieces) hand_over(piece);
    set_origin();
  } catch (const std::exception&) {
    // A device that is lost tells no times.
  }
}

}  // namespace corrloom::runtime::gpu
