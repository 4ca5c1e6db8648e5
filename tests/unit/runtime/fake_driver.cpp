#include "tests/unit/runtime/fake_driver.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime::test {

using namespace gpu;

namespace {

/// The work of a stream: pieces that run when somebody waits for them.
struct Queue {
  std::deque<std::function<void()>> work;
  std::uint64_t done = 0;

  std::uint64_t end() const { return done + work.size(); }
  void run_until(std::uint64_t position) {
    while (done < position && !work.empty()) {
      const std::function<void()> piece = std::move(work.front());
      work.pop_front();
      ++done;
      piece();
    }
  }
};
using QueueRef = std::shared_ptr<Queue>;

struct FakeEvent {
  QueueRef queue;
  std::uint64_t passed_at = 0;
};
struct FakeStream {
  int device = 0;
  QueueRef queue = std::make_shared<Queue>();
};
struct FakeFunction {
  HostEntry entry = nullptr;
  std::string kinds;  ///< by parameter: `p` an address, `s` a value
  int dynamic_shared = 48 << 10;
};
struct FakeModule {
  std::map<std::string, FakeFunction> functions;
};
struct FakeContext {
  int device = 0;
  int retained = 0;
};
struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
};

constexpr std::string_view kAllocate = "cuMemAlloc", kAllocatePinned = "cuMemHostAlloc";

/// A thread's stack of contexts. Without a destructor: calls are made while the process ends, after those of its
/// threads.
struct ContextStack {
  std::array<ContextHandle, 64> contexts;
  std::size_t size;

  bool empty() const { return size == 0; }
  ContextHandle back() const { return contexts[size - 1]; }
  void push_back(ContextHandle context) { contexts.at(size++) = context; }
  void pop_back() { --size; }
  void clear() { size = 0; }
};
thread_local ContextStack context_stack{};

}  // namespace

struct FakeDriver::State {
  Options options;
  std::recursive_mutex mutex;
  std::int64_t calls = 0, fail_at = 0;
  std::int64_t allocation_calls = 0, fail_allocations_from = 0;
  Result error = kSuccess, lost = kSuccess;
  bool has_failed = false;
  std::string failed_call;
  std::vector<FakeContext> contexts;
  FakeContext foreign;
  std::map<DevicePointer, Allocation> allocations;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::set<FakeStream*> streams;
  std::set<FakeEvent*> events;
  std::set<FakeModule*> modules;

  FakeContext* context_of(ContextHandle handle) {
    for (FakeContext& context : contexts) {
      if (reinterpret_cast<ContextHandle>(&context) == handle) return &context;
    }
    return nullptr;
  }
  FakeContext* current() { return context_stack.empty() ? nullptr : context_of(context_stack.back()); }
  bool is_pinned(const void* memory) const {
    auto after = pinned.upper_bound(reinterpret_cast<std::uintptr_t>(memory));
    if (after == pinned.begin()) return false;
    --after;
    return reinterpret_cast<std::uintptr_t>(memory) < after->first + after->second;
  }
  /// Whether the bytes lie in one live allocation of the devices.
  bool is_device_memory(DevicePointer memory, std::size_t bytes) const {
    auto after = allocations.upper_bound(memory);
    if (after == allocations.begin()) return false;
    --after;
    return memory + bytes <= after->first + after->second.bytes;
  }
  void run_all() {
    for (FakeStream* stream : streams) stream->queue->run_until(~std::uint64_t{0});
  }
};

namespace {

FakeDriver::State* active = nullptr;

/// The beginning of every call: the lock, the count, and the failure that was asked for.
class Call {
 public:
  explicit Call(std::string_view name, bool needs_context = false) : lock_(active->mutex) {
    FakeDriver::State& state = *active;
    ++state.calls;
    if (name == kAllocate || name == kAllocatePinned) ++state.allocation_calls;
    const bool is_out_of_memory = (name == kAllocate || name == kAllocatePinned) && state.fail_allocations_from > 0 &&
                                  state.allocation_calls >= state.fail_allocations_from;
    if (is_out_of_memory) {
      state.has_failed = true;
      state.failed_call = name;
      result = kOutOfMemory;
    } else if (state.calls == state.fail_at) {
      state.has_failed = true;
      state.failed_call = name;
      result = state.error;
    } else if (state.lost != kSuccess && needs_context) {
      result = state.lost;
    } else if (needs_context && state.current() == nullptr) {
      result = 201;  // invalid context
    }
  }
  Result result = kSuccess;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

#define FAKE_CALL(name)                            \
  const Call call(name, false);                    \
  if (call.result != kSuccess) return call.result; \
  [[maybe_unused]] FakeDriver::State& state = *active
#define FAKE_CONTEXT_CALL(name)                    \
  const Call call(name, true);                     \
  if (call.result != kSuccess) return call.result; \
  [[maybe_unused]] FakeDriver::State& state = *active

FakeStream* stream_of(StreamHandle handle) {
  auto* const stream = reinterpret_cast<FakeStream*>(handle);
  return active->streams.contains(stream) ? stream : nullptr;
}
FakeEvent* event_of(EventHandle handle) {
  auto* const event = reinterpret_cast<FakeEvent*>(handle);
  return active->events.contains(event) ? event : nullptr;
}
std::byte* bytes_at(DevicePointer memory) {
  return reinterpret_cast<std::byte*>(memory);
}

Result init(unsigned) {
  FAKE_CALL("cuInit");
  return kSuccess;
}
Result driver_get_version(int* version) {
  *version = 13000;
  return kSuccess;
}
Result get_error_name(Result error, const char** text) {
  *text = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == 700        ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                : "CUDA_ERROR";
  return kSuccess;
}
Result get_error_string(Result, const char** text) {
  *text = "a fault that was asked for";
  return kSuccess;
}
Result device_get_count(int* count) {
  FAKE_CALL("cuDeviceGetCount");
  *count = state.options.devices;
  return kSuccess;
}
Result device_get(DeviceHandle* device, int ordinal) {
  FAKE_CALL("cuDeviceGet");
  *device = ordinal;
  return ordinal < state.options.devices ? kSuccess : kInvalidValue;
}
Result device_get_name(char* name, int length, DeviceHandle) {
  FAKE_CALL("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return kSuccess;
}
Result device_total_memory(std::size_t* bytes, DeviceHandle) {
  FAKE_CALL("cuDeviceTotalMem");
  *bytes = state.options.memory;
  return kSuccess;
}
Result device_get_attribute(int* value, int attribute, DeviceHandle) {
  FAKE_CALL("cuDeviceGetAttribute");
  const std::map<int, int> values = {{kAttributeMaxGridX, 2147483647},
                                     {kAttributeMultiprocessors, 2},
                                     {kAttributeMajor, state.options.major},
                                     {kAttributeMinor, state.options.minor},
                                     {kAttributeMaxSharedOptIn, 227 << 10}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}
Result device_can_access_peer(int* can, DeviceHandle, DeviceHandle) {
  FAKE_CALL("cuDeviceCanAccessPeer");
  *can = 1;
  return kSuccess;
}

Result primary_context_retain(ContextHandle* context, DeviceHandle device) {
  FAKE_CALL("cuDevicePrimaryCtxRetain");
  FakeContext& own = state.contexts[static_cast<std::size_t>(device)];
  ++own.retained;
  *context = reinterpret_cast<ContextHandle>(&own);
  return kSuccess;
}
Result primary_context_release(DeviceHandle device) {
  FAKE_CALL("cuDevicePrimaryCtxRelease");
  --state.contexts[static_cast<std::size_t>(device)].retained;
  return kSuccess;
}
Result context_get_current(ContextHandle* context) {
  FAKE_CALL("cuCtxGetCurrent");
  *context = FakeDriver::current_context();
  return kSuccess;
}
Result context_set_current(ContextHandle context) {
  FAKE_CALL("cuCtxSetCurrent");
  FakeDriver::set_current_context(context);
  return kSuccess;
}
Result context_push(ContextHandle context) {
  FAKE_CALL("cuCtxPushCurrent");
  context_stack.push_back(context);
  return kSuccess;
}
Result context_pop(ContextHandle* context) {
  FAKE_CALL("cuCtxPopCurrent");
  if (context_stack.empty()) return 201;
  *context = context_stack.back();
  context_stack.pop_back();
  return kSuccess;
}
Result context_synchronise() {
  FAKE_CONTEXT_CALL("cuCtxSynchronize");
  for (FakeStream* stream : state.streams) {
    if (stream->device == state.current()->device) stream->queue->run_until(~std::uint64_t{0});
  }
  return kSuccess;
}
Result context_enable_peer(ContextHandle, unsigned) {
  FAKE_CONTEXT_CALL("cuCtxEnablePeerAccess");
  return kSuccess;
}

std::size_t used_of(const FakeDriver::State& state, int device) {
  std::size_t used = 0;
  for (const auto& [address, allocation] : state.allocations)
    used += allocation.device == device ? allocation.bytes : 0;
  return used;
}
Result memory_info(std::size_t* free, std::size_t* total) {
  FAKE_CONTEXT_CALL("cuMemGetInfo");
  *total = state.options.memory;
  *free = *total - used_of(state, state.current()->device);
  return kSuccess;
}
Result memory_allocate(DevicePointer* memory, std::size_t bytes) {
  FAKE_CONTEXT_CALL("cuMemAlloc");
  const int device = state.current()->device;
  if (bytes > state.options.memory || used_of(state, device) + bytes > state.options.memory) return kOutOfMemory;
  void* const address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(address, 0xEE, bytes);
  *memory = reinterpret_cast<DevicePointer>(address);
  state.allocations[*memory] = {bytes, device};
  return kSuccess;
}
Result memory_free(DevicePointer memory) {
  FAKE_CONTEXT_CALL("cuMemFree");
  if (!state.allocations.contains(memory)) return kInvalidValue;
  state.run_all();
  state.allocations.erase(memory);
  std::free(reinterpret_cast<void*>(memory));
  return kSuccess;
}
Result host_allocate(void** memory, std::size_t bytes, unsigned) {
  FAKE_CONTEXT_CALL("cuMemHostAlloc");
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  state.pinned[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  return kSuccess;
}
Result host_free(void* memory) {
  FAKE_CONTEXT_CALL("cuMemFreeHost");
  if (state.pinned.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) return kInvalidValue;
  state.run_all();
  std::free(memory);
  return kSuccess;
}

/// Enqueues a copy between places that are there.
Result copy(void* to, const void* from, std::size_t bytes, StreamHandle handle) {
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return 400;
  stream->queue->work.push_back([=] { std::memcpy(to, from, bytes); });
  return kSuccess;
}
Result copy_from_host(DevicePointer to, const void* from, std::size_t bytes, StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuMemcpyHtoDAsync");
  if (!state.is_device_memory(to, bytes)) return kInvalidValue;
  if (state.is_pinned(from)) return copy(bytes_at(to), from, bytes, handle);
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return 400;
  const auto* const begin = static_cast<const std::byte*>(from);
  stream->queue->work.push_back([to, staged = std::vector<std::byte>(begin, begin + bytes)] {
    std::memcpy(bytes_at(to), staged.data(), staged.size());
  });
  return kSuccess;
}
Result copy_to_host(void* to, DevicePointer from, std::size_t bytes, StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuMemcpyDtoHAsync");
  if (!state.is_device_memory(from, bytes)) return kInvalidValue;
  const Result result = copy(to, bytes_at(from), bytes, handle);
  if (result == kSuccess && !state.is_pinned(to)) stream_of(handle)->queue->run_until(~std::uint64_t{0});
  return result;
}
Result copy_within(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuMemcpyDtoDAsync");
  if (!state.is_device_memory(to, bytes) || !state.is_device_memory(from, bytes)) return kInvalidValue;
  return copy(bytes_at(to), bytes_at(from), bytes, handle);
}
Result copy_peer(DevicePointer to, ContextHandle to_context, DevicePointer from, ContextHandle from_context,
                 std::size_t bytes, StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuMemcpyPeerAsync");
  if (state.context_of(to_context) == nullptr || state.context_of(from_context) == nullptr) return kInvalidValue;
  if (!state.is_device_memory(to, bytes) || !state.is_device_memory(from, bytes)) return kInvalidValue;
  return copy(bytes_at(to), bytes_at(from), bytes, handle);
}
Result fill_bytes(DevicePointer to, unsigned char value, std::size_t count, StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuMemsetD8Async");
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return 400;
  if (!state.is_device_memory(to, count)) return kInvalidValue;
  stream->queue->work.push_back([=] { std::memset(bytes_at(to), value, count); });
  return kSuccess;
}

Result module_load(ModuleHandle* module, const void* image, unsigned count, int* options, void** values) {
  FAKE_CONTEXT_CALL("cuModuleLoadDataEx");
  auto made = std::make_unique<FakeModule>();
  const std::string text = static_cast<const char*>(image);
  // The runtime's own PTX: two addresses, and values.
  for (const char* const name : {"corrloom_copy_1", "corrloom_copy_2", "corrloom_copy_4", "corrloom_copy_8"}) {
    if (text.starts_with(".version")) made->functions[name] = {find_kernel(name), "pp" + std::string(19, 's')};
  }
  std::istringstream lines(made->functions.empty() ? text : "");
  for (std::string name, kinds; lines >> name >> kinds;) {
    made->functions[name] = {find_kernel(name), kinds};
    if (made->functions[name].entry != nullptr) continue;
    for (unsigned k = 0; k < count; ++k) {
      if (options[k] == kJitErrorLog) std::strcpy(static_cast<char*>(values[k]), ("no kernel " + name + "\n").c_str());
    }
    return kInvalidPtx;
  }
  state.modules.insert(made.get());
  *module = reinterpret_cast<ModuleHandle>(made.release());
  return kSuccess;
}
Result module_unload(ModuleHandle module) {
  FAKE_CONTEXT_CALL("cuModuleUnload");
  auto* const own = reinterpret_cast<FakeModule*>(module);
  if (state.modules.erase(own) == 0) return kInvalidValue;
  delete own;
  return kSuccess;
}
Result module_get_function(FunctionHandle* function, ModuleHandle module, const char* name) {
  FAKE_CONTEXT_CALL("cuModuleGetFunction");
  auto& functions = reinterpret_cast<FakeModule*>(module)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return 500;
  *function = reinterpret_cast<FunctionHandle>(&found->second);
  return kSuccess;
}
Result function_set_attribute(FunctionHandle function, int attribute, int value) {
  FAKE_CONTEXT_CALL("cuFuncSetAttribute");
  if (attribute != kFunctionMaxDynamicShared || value > (227 << 10)) return kInvalidValue;
  reinterpret_cast<FakeFunction*>(function)->dynamic_shared = value;
  return kSuccess;
}
Result launch_on(FakeFunction& function, unsigned blocks, unsigned shared_bytes, StreamHandle handle,
                 void** parameters) {
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return 400;
  if (static_cast<int>(shared_bytes) > function.dynamic_shared) return kInvalidValue;
  std::vector<std::uint64_t> values;
  for (std::size_t k = 0; k < function.kinds.size(); ++k) values.push_back(*static_cast<std::uint64_t*>(parameters[k]));
  stream->queue->work.push_back([entry = function.entry, kinds = function.kinds, values, blocks]() mutable {
    std::vector<void*> arguments;
    for (std::size_t k = 0; k < values.size(); ++k)
      arguments.push_back(kinds[k] == 'p' ? reinterpret_cast<void*>(values[k]) : &values[k]);
    entry(arguments.data(), 0, blocks);
  });
  return kSuccess;
}
Result launch(FunctionHandle function, unsigned grid_x, unsigned, unsigned, unsigned, unsigned, unsigned,
              unsigned shared_bytes, StreamHandle stream, void** parameters, void**) {
  FAKE_CONTEXT_CALL("cuLaunchKernel");
  return launch_on(*reinterpret_cast<FakeFunction*>(function), grid_x, shared_bytes, stream, parameters);
}
Result launch_extended(const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
  FAKE_CONTEXT_CALL("cuLaunchKernelEx");
  if (config->attribute_count != 1 || config->grid_x % config->attributes[0].value.cluster[0] != 0)
    return kInvalidValue;
  return launch_on(*reinterpret_cast<FakeFunction*>(function), config->grid_x, config->shared_bytes, config->stream,
                   parameters);
}

Result stream_create(StreamHandle* stream, unsigned) {
  FAKE_CONTEXT_CALL("cuStreamCreate");
  auto* const made = new FakeStream{state.current()->device};
  state.streams.insert(made);
  *stream = reinterpret_cast<StreamHandle>(made);
  return kSuccess;
}
Result stream_destroy(StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuStreamDestroy");
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return 400;
  stream->queue->run_until(~std::uint64_t{0});
  state.streams.erase(stream);
  delete stream;
  return kSuccess;
}
Result stream_synchronise(StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuStreamSynchronize");
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return 400;
  stream->queue->run_until(~std::uint64_t{0});
  return kSuccess;
}
Result stream_wait_event(StreamHandle handle, EventHandle event, unsigned) {
  FAKE_CONTEXT_CALL("cuStreamWaitEvent");
  FakeStream* const stream = stream_of(handle);
  FakeEvent* const waited = event_of(event);
  if (stream == nullptr || waited == nullptr) return 400;
  if (waited->queue == nullptr) return kSuccess;
  stream->queue->work.push_back([mark = *waited] { mark.queue->run_until(mark.passed_at); });
  return kSuccess;
}
Result event_create(EventHandle* event, unsigned) {
  FAKE_CONTEXT_CALL("cuEventCreate");
  auto* const made = new FakeEvent;
  state.events.insert(made);
  *event = reinterpret_cast<EventHandle>(made);
  return kSuccess;
}
Result event_destroy(EventHandle event) {
  FAKE_CONTEXT_CALL("cuEventDestroy");
  FakeEvent* const own = event_of(event);
  if (own == nullptr) return 400;
  state.events.erase(own);
  delete own;
  return kSuccess;
}
Result event_record(EventHandle event, StreamHandle handle) {
  FAKE_CONTEXT_CALL("cuEventRecord");
  FakeStream* const stream = stream_of(handle);
  FakeEvent* const own = event_of(event);
  if (stream == nullptr || own == nullptr) return 400;
  *own = {stream->queue, stream->queue->end()};
  return kSuccess;
}
Result event_query(EventHandle event) {
  FAKE_CONTEXT_CALL("cuEventQuery");
  const FakeEvent* const own = event_of(event);
  if (own == nullptr) return 400;
  return own->queue == nullptr || own->queue->done >= own->passed_at ? kSuccess : kNotReady;
}
Result event_synchronise(EventHandle event) {
  FAKE_CONTEXT_CALL("cuEventSynchronize");
  const FakeEvent* const own = event_of(event);
  if (own == nullptr) return 400;
  if (own->queue != nullptr) own->queue->run_until(own->passed_at);
  return kSuccess;
}
Result event_elapsed(float* milliseconds, EventHandle, EventHandle) {
  FAKE_CONTEXT_CALL("cuEventElapsedTime");
  *milliseconds = 0.5F;
  return kSuccess;
}

}  // namespace

FunctionTable FakeDriver::table() {
  FunctionTable made;
#define CORRLOOM_CUDA_FUNCTION(name, symbol, parameters) made.name = test::name;
#include "runtime/cuda/functions.def"
  return made;
}

FakeDriver::FakeDriver(Options options) : state_(std::make_unique<State>()) {
  state_->options = options;
  for (int device = 0; device < options.devices; ++device) state_->contexts.push_back({device});
  previous_ = std::exchange(active, state_.get());
}

FakeDriver::~FakeDriver() {
  state_->run_all();
  for (FakeStream* stream : state_->streams) delete stream;
  for (FakeEvent* event : state_->events) delete event;
  for (FakeModule* module : state_->modules) delete module;
  for (const auto& [address, allocation] : state_->allocations) std::free(reinterpret_cast<void*>(address));
  for (const auto& [address, bytes] : state_->pinned) std::free(reinterpret_cast<void*>(address));
  active = previous_;
  context_stack.clear();
}

std::int64_t FakeDriver::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls;
}
void FakeDriver::fail_call(std::int64_t ahead, Result error) {
  const std::lock_guard lock(state_->mutex);
  state_->fail_at = ahead == 0 ? 0 : state_->calls + ahead;
  state_->error = error;
  state_->fail_allocations_from = 0;
  state_->has_failed = false;
  state_->failed_call.clear();
}
void FakeDriver::fail_allocations(std::int64_t ahead) {
  fail_call(0, kSuccess);
  const std::lock_guard lock(state_->mutex);
  state_->fail_allocations_from = state_->allocation_calls + ahead;
}
bool FakeDriver::has_failed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_failed;
}
std::string FakeDriver::failed_call() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed_call;
}
void FakeDriver::lose_devices(Result error) {
  const std::lock_guard lock(state_->mutex);
  state_->lost = error;
}

std::string FakeDriver::allocations() const {
  const std::lock_guard lock(state_->mutex);
  return std::to_string(state_->allocations.size()) + " allocations, " + std::to_string(state_->modules.size()) +
         " modules";
}

std::string FakeDriver::leaks() const {
  const std::lock_guard lock(state_->mutex);
  int retained = 0;
  for (const FakeContext& context : state_->contexts) retained += context.retained;
  std::string text;
  const std::pair<const char*, std::size_t> kinds[] = {
      {"allocations", state_->allocations.size()}, {"pinned blocks", state_->pinned.size()},
      {"streams", state_->streams.size()},         {"events", state_->events.size()},
      {"modules", state_->modules.size()},         {"contexts", static_cast<std::size_t>(retained)}};
  for (const auto& [kind, count] : kinds) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  }
  return text;
}

ContextHandle FakeDriver::current_context() {
  return context_stack.empty() ? nullptr : context_stack.back();
}
void FakeDriver::set_current_context(ContextHandle context) {
  if (!context_stack.empty()) context_stack.pop_back();
  if (context != nullptr) context_stack.push_back(context);
}
ContextHandle FakeDriver::foreign_context() const {
  return reinterpret_cast<ContextHandle>(&state_->foreign);
}

}  // namespace corrloom::runtime::test
