#include "runtime/sim/driver/context.h"

#include <algorithm>

#include "runtime/sim/driver/memory.h"
#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {

Context::Context(Device& device, CUcontext handle, unsigned flags, bool primary, uint64_t id)
    : device(device), handle(handle), primary(primary), id(id), flags(flags) {}

void Context::lose(CUresult error) {
  CUresult none = CUDA_SUCCESS;
  error_.compare_exchange_strong(none, error);
}

std::shared_ptr<Stream> Context::make_stream(Stream::Kind kind, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>(shared_from_this(), kind, flags, priority, driver().next_stream_id++);
  streams_.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Context::legacy_stream() {
  const std::lock_guard lock(mutex_);
  if (legacy_ == nullptr) legacy_ = make_stream(Stream::Kind::Legacy, CU_STREAM_DEFAULT, 0);
  return legacy_;
}

std::shared_ptr<Stream> Context::per_thread_stream() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Stream>& stream = per_thread_[std::this_thread::get_id()];
  if (stream == nullptr) stream = make_stream(Stream::Kind::PerThread, CU_STREAM_DEFAULT, 0);
  return stream;
}

std::shared_ptr<Stream> Context::create_stream(unsigned stream_flags, int priority) {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = make_stream(Stream::Kind::Created, stream_flags, priority);
  }
  stream->handle = driver().streams.reserve();
  driver().streams.set(stream->handle, stream);
  return stream;
}

void Context::forget(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  // What a stream left behind still orders the legacy stream.
  if (const std::shared_ptr<Fence> last = stream->last(); last != nullptr && !last->done() && stream->blocking()) {
    if (legacy_ == nullptr) legacy_ = make_stream(Stream::Kind::Legacy, CU_STREAM_DEFAULT, 0);
    legacy_->push(Nothing{}, {last}, {});
  } else if (last != nullptr && !last->done()) {
    unfinished_.push_back(last);
  }
  std::erase(streams_, stream);
  stream->close();
}

std::vector<std::shared_ptr<Stream>> Context::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

std::shared_ptr<Fence> Context::enqueue(Stream& stream, Operation operation) {
  std::vector<std::shared_ptr<Fence>> after;
  const auto add = [&](std::shared_ptr<Fence> fence) {
    if (fence != nullptr && !fence->done()) after.push_back(std::move(fence));
  };
  const std::lock_guard lock(mutex_);
  if (stream.kind == Stream::Kind::Legacy) {
    for (const std::shared_ptr<Stream>& other : streams_) {
      if (other->blocking()) add(other->last());
    }
  } else if (stream.blocking() && legacy_ != nullptr) {
    add(legacy_->last());
  }
  for (const std::shared_ptr<Mark>& mark : awaited(operation)) {
    add(std::shared_ptr<Fence>(mark, &mark->reached));
  }
  std::vector<std::shared_ptr<Mark>> marks = start_recordings(operation);
  return stream.push(std::move(operation), std::move(after), std::move(marks));
}

bool Context::idle(const Stream& stream) const {
  const auto finished = [](const Stream& one) {
    const std::shared_ptr<Fence> last = one.last();
    return last == nullptr || last->done();
  };
  if (stream.kind != Stream::Kind::Legacy) return finished(stream);
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(
      streams_, [&](const auto& other) { return (!other->blocking() && other.get() != &stream) || finished(*other); });
}

CUresult Context::synchronise() {
  std::vector<std::shared_ptr<Fence>> fences;
  {
    const std::lock_guard lock(mutex_);
    fences = std::move(unfinished_);
    unfinished_.clear();
    for (const std::shared_ptr<Stream>& stream : streams_) {
      if (std::shared_ptr<Fence> last = stream->last()) fences.push_back(std::move(last));
    }
  }
  for (const std::shared_ptr<Fence>& fence : fences) fence->wait();
  return error();
}

CUresult Context::enable_peer(Context& peer) {
  const std::lock_guard lock(mutex_);
  if (!peers_.insert(peer.device.ordinal).second) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  device.memory.add_peer(&peer.device.memory);
  return CUDA_SUCCESS;
}

CUresult Context::disable_peer(Context& peer) {
  const std::lock_guard lock(mutex_);
  if (peers_.erase(peer.device.ordinal) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  device.memory.remove_peer(&peer.device.memory);
  return CUDA_SUCCESS;
}

CUresult Context::get_limit(CUlimit limit, size_t& value) const {
  const std::lock_guard lock(mutex_);
  if (const auto it = limits_.find(limit); it != limits_.end()) {
    value = it->second;
    return CUDA_SUCCESS;
  }
  // What a driver of this version starts with.
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      value = 1024;
      break;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      value = 7 << 20;
      break;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      value = 8 << 20;
      break;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      value = 64;
      break;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      value = 0;
      break;
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  return CUDA_SUCCESS;
}

CUresult Context::set_limit(CUlimit limit, size_t value) {
  size_t present = 0;
  if (const CUresult known = get_limit(limit, present); known != CUDA_SUCCESS) return known;
  if (limit == CU_LIMIT_STACK_SIZE && value > (size_t(512) << 10)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(mutex_);
  limits_[limit] = value;
  return CUDA_SUCCESS;
}

uint32_t Context::stack_bytes() const {
  // PTX does not say how large a frame the real compiler makes, so small limits are not taken literally.
  constexpr uint32_t kLeast = 64 << 10;
  const std::lock_guard lock(mutex_);
  const auto it = limits_.find(CU_LIMIT_STACK_SIZE);
  return it == limits_.end() ? kLeast : std::max(kLeast, uint32_t(it->second));
}

void Context::shut_down() {
  synchronise();
  Driver& all = driver();
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = std::move(streams_);
    streams_.clear();
    legacy_ = nullptr;
    per_thread_.clear();
    for (const int peer : peers_) device.memory.remove_peer(&all.device(peer).memory);
    peers_.clear();
  }
  for (const std::shared_ptr<Stream>& stream : streams) {
    if (stream->handle != nullptr) all.streams.remove(stream->handle);
    stream->close();
  }
  all.events.remove_if([&](const Event& event) { return event.context == handle; });
  all.functions.remove_if([&](const Function& function) { return function.module->context == handle; });
  all.modules.remove_if([&](const LoadedModule& module) { return module.context == handle; });
  for (const Block& block : all.blocks.all()) {
    if (block.context == handle) free_block(block);
  }
}

}  // namespace corrloom::sim::driver
