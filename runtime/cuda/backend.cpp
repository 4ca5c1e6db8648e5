#include "runtime/cuda/backend.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "ir/kernel/target.h"
#include "runtime/cuda/code.h"
#include "runtime/cuda/pool.h"
#include "runtime/cuda/staging.h"
#include "runtime/cuda/streams.h"
#include "runtime/cuda/timeline.h"

namespace corrloom::runtime::gpu {
namespace {

DevicePointer pointer(const void* memory) {
  return reinterpret_cast<DevicePointer>(memory);
}

/// The architecture to compile for: the device's own with its extra features where that is known, else the newest known
/// one that its code runs on.
std::string architecture_of(int major, int minor) {
  const std::string exact = "sm_" + std::to_string(major) + std::to_string(minor);
  for (const std::string& name : {exact + "a", exact}) {
    if (kernel::ptx_target(name)) return name;
  }
  for (int capability = major * 10 + minor; capability > 0; --capability) {
    const std::string name = "sm_" + std::to_string(capability);
    if (kernel::ptx_target(name)) return name;
  }
  return exact;
}

/// `139.8 GiB`.
std::string size_text(std::size_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text.data();
}

class CudaBackend final : public DeviceBackend {
 public:
  CudaBackend(std::shared_ptr<const Driver> driver, int index) : context_(std::move(driver), index) {
    const ContextScope scope(context_);
    events_ = std::make_shared<EventPool>(context_, kEventDisableTiming);
    const auto make_stream = [&] { return std::make_shared<StreamState>(context_, events_); };
    default_ = make_stream();
    upload_ = make_stream();
    download_ = make_stream();
    pool_ = std::make_unique<DevicePool>(context_, default_);
    pinned_ = std::make_unique<PinnedPool>(context_);
    ring_ = std::make_unique<StagingRing>(context_, *pinned_);
    multiprocessors_ = std::max(1, context_.attribute(kAttributeMultiprocessors));
    architecture_ = architecture_of(context_.attribute(kAttributeMajor), context_.attribute(kAttributeMinor));
    most_blocks_ = std::max(1, context_.attribute(kAttributeMaxGridX));
    if (Trace* const trace = Trace::active()) timeline_ = std::make_unique<Timeline>(context_, *trace, default_);
  }
  ~CudaBackend() override {
    try {
      if (context_.is_usable()) synchronise();
    } catch (const std::exception&) {
      // The device is lost with all its work.
    }
    faults().clear();
    strided_copy().clear();
  }

  Device device() const override { return context_.device(); }
  std::string description() const override;
  std::string architecture() const override { return architecture_; }
  int multiprocessors() const override { return multiprocessors_; }
  bool is_asynchronous() const override { return true; }
  std::size_t alignment() const override { return DevicePool::kAlignment; }

  void* allocate(std::size_t bytes, Stream stream) override { return pool_->allocate(bytes, state_of(stream)); }
  void free(void* memory, std::size_t, Stream stream) noexcept override { pool_->free(memory, state_of(stream)); }
  MemoryStats memory() const override { return pool_->stats(); }
  void trim(std::int64_t keep_bytes) override { pool_->trim(keep_bytes); }
  void set_memory_limit(std::optional<std::int64_t> bytes) override { pool_->set_limit(bytes); }
  void* allocate_pinned(std::size_t bytes) override { return pinned_->allocate(bytes); }
  void free_pinned(void* memory, std::size_t bytes) noexcept override { pinned_->free(memory, bytes); }

  void copy_from_host(void* to, const void* from, std::size_t bytes, Stream stream, HostMemory kind) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream, HostMemory kind) override;
  void copy_within(void* to, const void* from, std::size_t bytes, Stream stream) override;
  void copy_from_peer(void* to, DeviceBackend& peer, const void* from, std::size_t bytes, Stream stream) override;
  void fill(void* to, std::byte value, std::size_t bytes, Stream stream) override;

  std::unique_ptr<LoadedCode> load(const kernel::CompiledProgram& program) override {
    return std::make_unique<LoadedCudaCode>(context_, program);
  }
  void launch(const Launch& launch, Stream stream) override;

  Stream upload_stream() override { return {upload_.get()}; }
  Stream download_stream() override { return {download_.get()}; }
  Stream create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  Event record(Stream stream) override {
    StreamRef state = state_of(stream);
    const std::uint64_t ticket = state->mark();
    return {new Mark{std::move(state), ticket}};
  }
  void destroy_event(Event event) noexcept override { delete static_cast<Mark*>(event.handle); }
  bool is_done(Event event) override { return event.handle == nullptr || mark_of(event).is_passed(); }
  void wait(Stream stream, Event event) override {
    if (event.handle == nullptr) return;
    const Mark& mark = mark_of(event);
    const ContextScope scope(context_);
    state_of(stream)->wait_for(*mark.stream, mark.ticket);
  }
  void synchronise(Event event) override {
    if (event.handle != nullptr) mark_of(event).stream->wait_until_passed(mark_of(event).ticket);
  }
  void synchronise(Stream stream) override { state_of(stream)->synchronise(); }
  void synchronise() override {
    const ContextScope scope(context_);
    context_.check(context_.api().context_synchronise(), "cuCtxSynchronize");
  }

 private:
  using StreamRef = std::shared_ptr<StreamState>;

  StreamRef state_of(Stream stream) const {
    return stream.handle == nullptr ? default_ : static_cast<StreamState*>(stream.handle)->shared_from_this();
  }
  static const Mark& mark_of(Event event) { return *static_cast<const Mark*>(event.handle); }
  void enable_peer(const Context& peer);
  void launch_kernel(const LoadedCudaCode::Entry& entry, unsigned blocks, void** arguments, const StreamState& state);
  const char* lane_of(const StreamState& state) const;
  /// Enqueues work, and traces when it ran. The context is current.
  template <class Enqueue>
  void traced(const StreamState& state, const char* category, const std::string& name, std::size_t bytes,
              Enqueue enqueue) {
    if (timeline_ == nullptr) [[likely]]
      return enqueue();
    std::shared_ptr<OpaqueEvent> start = timeline_->mark(state);
    enqueue();
    Trace::Details details;
    if (bytes > 0) details.emplace_back("bytes", std::to_string(bytes));
    timeline_->add(std::move(start), state, lane_of(state), name, category, std::move(details));
  }

  // In the order that their ends need: what is above is used by what is below.
  Context context_;
  std::shared_ptr<EventPool> events_;
  StreamRef default_, upload_, download_;
  std::unique_ptr<DevicePool> pool_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<StagingRing> ring_;
  std::unique_ptr<Timeline> timeline_;  ///< when something is traced
  int multiprocessors_ = 1;
  std::string architecture_;
  std::int64_t most_blocks_ = 1;

  std::mutex mutex_;
  std::vector<StreamRef> streams_;  ///< made by `create_stream`
  std::set<int> peers_;             ///< devices whose memory this one was allowed to reach, or cannot
};

std::string CudaBackend::description() const {
  std::array<char, 256> name{};
  std::size_t bytes = 0;
  if (context_.api().device_get_name(name.data(), static_cast<int>(name.size()) - 1, context_.handle()) != kSuccess)
    return "a device that does not tell its name";
  (void)context_.api().device_total_memory(&bytes, context_.handle());
  return std::string(name.data()) + ", " + size_text(bytes) + ", " + std::to_string(multiprocessors_) +
         " multiprocessors";
}

const char* CudaBackend::lane_of(const StreamState& state) const {
  if (&state == default_.get()) return "default stream";
  if (&state == upload_.get()) return "upload stream";
  return &state == download_.get() ? "download stream" : "another stream";
}

void CudaBackend::copy_from_host(void* to, const void* from, std::size_t bytes, Stream stream, HostMemory kind) {
  if (bytes == 0) return;
  const StreamRef state = state_of(stream);
  const ContextScope scope(context_);
  traced(*state, "copy", "copy from the host", bytes, [&] {
    if (kind == HostMemory::Pageable)
      return ring_->copy_from_host(pointer(to), static_cast<const std::byte*>(from), bytes, state);
    context_.check(context_.api().copy_from_host(pointer(to), from, bytes, state->handle()), "cuMemcpyHtoDAsync",
                   bytes);
  });
}

void CudaBackend::copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream, HostMemory kind) {
  if (bytes == 0) return;
  const StreamRef state = state_of(stream);
  const ContextScope scope(context_);
  traced(*state, "copy", "copy to the host", bytes, [&] {
    if (kind == HostMemory::Pageable)
      return ring_->copy_to_host(static_cast<std::byte*>(to), pointer(from), bytes, state);
    context_.check(context_.api().copy_to_host(to, pointer(from), bytes, state->handle()), "cuMemcpyDtoHAsync", bytes);
  });
}

void CudaBackend::copy_within(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const StreamRef state = state_of(stream);
  const ContextScope scope(context_);
  traced(*state, "copy", "copy", bytes, [&] {
    context_.check(context_.api().copy_within(pointer(to), pointer(from), bytes, state->handle()), "cuMemcpyDtoDAsync",
                   bytes);
  });
}

void CudaBackend::enable_peer(const Context& peer) {
  const std::lock_guard lock(mutex_);
  if (peers_.contains(peer.handle())) return;
  int can = 0;
  context_.check(context_.api().device_can_access_peer(&can, context_.handle(), peer.handle()), "cuDeviceCanAccessPeer",
                 peer.device().name());
  // Without access the driver copies by way of the host.
  if (can != 0) {
    const Result result = context_.api().context_enable_peer(peer.context(), 0);
    if (result != kPeerAccessAlreadyEnabled) context_.check(result, "cuCtxEnablePeerAccess", peer.device().name());
  }
  peers_.insert(peer.handle());
}

void CudaBackend::copy_from_peer(void* to, DeviceBackend& peer, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  auto* const source = dynamic_cast<CudaBackend*>(&peer);
  CORRLOOM_CHECK(source != nullptr, peer.device().name(), " is no peer of ", device().name());
  if (source == this) return copy_within(to, from, bytes, stream);
  const ContextScope scope(context_);
  if (source->context_.handle() != context_.handle()) enable_peer(source->context_);
  const StreamRef state = state_of(stream);
  traced(*state, "copy", "copy from " + peer.device().name(), bytes, [&] {
    context_.check(context_.api().copy_peer(pointer(to), context_.context(), pointer(from), source->context_.context(),
                                            bytes, state->handle()),
                   "cuMemcpyPeerAsync", bytes);
  });
}

void CudaBackend::fill(void* to, std::byte value, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const ContextScope scope(context_);
  context_.check(
      context_.api().fill_bytes(pointer(to), std::to_integer<unsigned char>(value), bytes, state_of(stream)->handle()),
      "cuMemsetD8Async", bytes);
}

void CudaBackend::launch(const Launch& launch, Stream stream) {
  const LoadedCudaCode::Entry& entry = static_cast<const LoadedCudaCode*>(launch.code)->entry(launch.kernel);
  if (launch.blocks > most_blocks_) {
    throw RuntimeError(detail::concat(*entry.label, " needs ", launch.blocks, " blocks; ", device().name(),
                                      " runs at most ", most_blocks_, " in one launch"));
  }
  const StreamState& state = stream.handle == nullptr ? *default_ : *static_cast<StreamState*>(stream.handle);
  const ContextScope scope(context_);
  traced(state, "kernel", *entry.label, 0, [&] {
    launch_kernel(entry, static_cast<unsigned>(launch.blocks), const_cast<void**>(launch.arguments), state);
  });
  context_.note_launch(entry.label);
}

void CudaBackend::launch_kernel(const LoadedCudaCode::Entry& entry, unsigned blocks, void** arguments,
                                const StreamState& state) {
  Result result = kSuccess;
  if (entry.cluster <= 1) {
    result = context_.api().launch(entry.function, blocks, 1, 1, entry.threads, 1, 1, entry.shared_bytes,
                                   state.handle(), arguments, nullptr);
  } else {
    if (context_.api().launch_extended == nullptr)
      throw RuntimeError(*entry.label + " needs clusters, which the CUDA driver is too old for");
    LaunchAttribute cluster{.id = kLaunchCluster, .value = {.cluster = {entry.cluster, 1, 1}}};
    const LaunchConfig config{.grid_x = blocks,
                              .block_x = entry.threads,
                              .shared_bytes = entry.shared_bytes,
                              .stream = state.handle(),
                              .attributes = &cluster,
                              .attribute_count = 1};
    result = context_.api().launch_extended(&config, entry.function, arguments, nullptr);
  }
  if (result != kSuccess) context_.fail(result, "cuLaunchKernel(" + *entry.label + ")");
}

Stream CudaBackend::create_stream() {
  const ContextScope scope(context_);
  StreamRef state = std::make_shared<StreamState>(context_, events_);
  const std::lock_guard lock(mutex_);
  streams_.push_back(state);
  return {state.get()};
}

void CudaBackend::destroy_stream(Stream stream) noexcept {
  if (stream.handle == nullptr || !context_.driver().is_usable()) return;
  try {
    const StreamRef state = state_of(stream);
    if (context_.is_usable()) state->synchronise();
    pool_->forget(state);
    const std::lock_guard lock(mutex_);
    std::erase(streams_, state);
  } catch (const std::exception&) {
    // Its work cannot be waited for: it stays until the device ends.
  }
}

}  // namespace

BackendRef make_cuda_backend(std::shared_ptr<const Driver> driver, int index) {
  return std::make_shared<CudaBackend>(std::move(driver), index);
}

}  // namespace corrloom::runtime::gpu
