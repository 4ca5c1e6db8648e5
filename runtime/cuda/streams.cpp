#include "runtime/cuda/streams.h"

#include <utility>

namespace corrloom::runtime::gpu {

EventPool::~EventPool() {
  if (!context_.is_usable()) return;
  try {
    const ContextScope scope(context_);
    for (const EventHandle event : kept_) (void)context_.api().event_destroy(event);
  } catch (const RuntimeError&) {
    // They stay until the process ends.
  }
}

std::shared_ptr<OpaqueEvent> EventPool::record(StreamHandle stream) {
  EventHandle event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) {
      kept_.reserve(made_ + 1);
      context_.check(context_.api().event_create(&event, flags_), "cuEventCreate", flags_);
      ++made_;
    } else {
      event = kept_.back();
      kept_.pop_back();
    }
  }
  // Calls the deleter too when it throws itself.
  std::shared_ptr<OpaqueEvent> shared(event, [self = shared_from_this()](EventHandle used) { self->give_back(used); });
  context_.check(context_.api().event_record(event, stream), "cuEventRecord");
  return shared;
}

void EventPool::give_back(EventHandle event) noexcept {
  // In a child of fork the lock may be held by a thread that is not there.
  if (!context_.driver().is_usable()) return;
  const std::lock_guard lock(mutex_);
  kept_.push_back(event);
}

StreamState::StreamState(const Context& context, std::shared_ptr<EventPool> events)
    : context_(context), events_(std::move(events)) {
  context.check(context.api().stream_create(&handle_, kStreamNonBlocking), "cuStreamCreate");
}

StreamState::~StreamState() {
  if (!context_.is_usable()) return;
  try {
    const ContextScope scope(context_);
    (void)context_.api().stream_destroy(handle_);
  } catch (const RuntimeError&) {
    // It stays until the process ends.
  }
}

void StreamState::note_passed(std::uint64_t ticket) {
  std::uint64_t seen = passed_.load(std::memory_order_relaxed);
  while (seen < ticket && !passed_.compare_exchange_weak(seen, ticket, std::memory_order_acq_rel)) {
  }
}

StreamState::Recorded StreamState::event_behind(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (latest_.event == nullptr || latest_.ticket < ticket) {
    const ContextScope scope(context_);
    const std::uint64_t position = submitted_.load();
    latest_ = {position, events_->record(handle_)};
  }
  return latest_;
}

bool StreamState::has_passed(std::uint64_t ticket) {
  if (is_known_passed(ticket)) return true;
  const ContextScope scope(context_);
  const Recorded recorded = event_behind(ticket);
  const Result result = context_.api().event_query(recorded.event.get());
  if (result == kNotReady) return false;
  context_.check(result, "cuEventQuery");
  note_passed(recorded.ticket);
  return true;
}

void StreamState::wait_until_passed(std::uint64_t ticket) {
  if (is_known_passed(ticket)) return;
  const ContextScope scope(context_);
  const Recorded recorded = event_behind(ticket);
  context_.check(context_.api().event_synchronise(recorded.event.get()), "cuEventSynchronize");
  note_passed(recorded.ticket);
}

void StreamState::synchronise() {
  const std::uint64_t position = submitted_.load();
  const ContextScope scope(context_);
  context_.check(context_.api().stream_synchronise(handle_), "cuStreamSynchronize");
  note_passed(position);
}

void StreamState::wait_for(StreamState& other, std::uint64_t ticket) {
  if (this == &other || other.is_known_passed(ticket)) return;
  const Recorded recorded = other.event_behind(ticket);
  context_.check(context_.api().stream_wait_event(handle_, recorded.event.get(), 0), "cuStreamWaitEvent");
}

}  // namespace corrloom::runtime::gpu
