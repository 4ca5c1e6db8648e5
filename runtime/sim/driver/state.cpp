#include "runtime/sim/driver/state.h"

#include <pthread.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "runtime/sim/driver/graph.h"
#include "runtime/sim/driver/report.h"

namespace corrloom::sim::driver {
namespace {

constexpr int kMostDevices = 64;

/// A whole number in `text`, nothing else around it.
std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// Bytes, with an optional suffix K, M, G or T.
std::optional<uint64_t> parse_bytes(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const size_t unit = std::string_view("KMGT").find(char(std::toupper(static_cast<unsigned char>(text.back()))));
    if (unit != std::string_view::npos) {
      shift = 10 * int(unit + 1);
      text.remove_suffix(1);
    }
  }
  const std::optional<uint64_t> value = parse_number(text);
  if (!value || *value > (uint64_t(1) << 40 >> shift)) return std::nullopt;
  return *value << shift;
}

/// Reads the list of checks, of which `leaks` is the driver's own.
bool parse_checks(std::string_view text, Settings& settings) {
  std::string rest;
  bool listed = false;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (name == "leaks") {
      settings.leaks = listed = true;
    } else {
      rest += (rest.empty() ? "" : ",") + std::string(name);
    }
  }
  const std::optional<Checks> checks = listed && rest.empty() ? Checks::none() : Checks::parse(rest);
  if (checks) settings.checks = *checks;
  return checks.has_value();
}

std::atomic<Driver*> the_driver{nullptr};
std::atomic<bool> forked{false};
std::mutex initialise_mutex;

/// Says which blocks nobody freed. The memory of contexts that were destroyed went with them.
void report_leaks(Driver& driver) {
  for (const Block& block : driver.blocks.all()) {
    const bool host = block.kind != MemoryKind::Device;
    std::fprintf(stderr, "simulated device %d: leak: %llu bytes of %s memory at 0x%llx were never %s\n", block.device,
                 static_cast<unsigned long long>(block.bytes),
                 block.kind == MemoryKind::Managed ? "managed"
                 : host                            ? "page-locked"
                                                   : "device",
                 static_cast<unsigned long long>(block.address),
                 block.kind == MemoryKind::RegisteredHost ? "unregistered" : "freed");
  }
}

/// Writes what all devices counted and found.
void write_report(Driver& driver, const char* path) {
  std::ofstream file(path);
  file << "[";
  for (const std::unique_ptr<Device>& device : driver.devices)
    file << (device->ordinal == 0 ? "" : ",\n") << json_of(*device);
  file << "]\n";
  if (!file.flush().good()) std::fprintf(stderr, "simulated device: cannot write the report to %s\n", path);
}

/// Ends running kernels and waits until the stream threads hold still, so that nothing runs while the process takes
/// itself apart. A client's host function that does not return is left alone after two seconds.
void end_of_process() {
  Driver* driver = the_driver.load();
  if (driver == nullptr || forked) return;
  driver->exiting = true;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (driver->busy_workers > 0 && !this_thread().in_callback && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (driver->settings.leaks) report_leaks(*driver);
  if (const char* path = std::getenv("CORRLOOM_SIM_REPORT"); path != nullptr && *path != '\0')
    write_report(*driver, path);
  std::fflush(stdout);
}

}  // namespace

std::string read_settings(Settings& settings) {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? std::string() : std::string(text);
  };
  const auto refuse = [](const std::string& name, const std::string& text, const std::string& wanted) {
    return name + "=" + text + " is not understood; it must be " + wanted;
  };
  if (const std::string text = variable("CORRLOOM_SIM_DEVICES"); !text.empty()) {
    const std::optional<uint64_t> count = parse_number(text);
    if (!count || *count > kMostDevices)
      return refuse("CORRLOOM_SIM_DEVICES", text, "a number of devices from 0 to 64");
    settings.devices = int(*count);
  }
  const std::string arch = variable("CORRLOOM_SIM_ARCH");
  const std::optional<Arch> parsed = parse_arch(arch.empty() ? "sm_90a" : arch);
  if (!parsed || parsed->number < 70)
    return refuse("CORRLOOM_SIM_ARCH", arch, "an architecture such as sm_80 or sm_90a");
  settings.arch = *parsed;
  if (const std::string text = variable("CORRLOOM_SIM_MEMORY"); !text.empty()) {
    const std::optional<uint64_t> bytes = parse_bytes(text);
    if (!bytes || *bytes < (1u << 20) || *bytes > uint64_t(256) << 30)
      return refuse("CORRLOOM_SIM_MEMORY", text, "bytes from 1M to 256G, such as 512M or 2G");
    settings.memory_bytes = *bytes;
  }
  if (const std::string text = variable("CORRLOOM_SIM_WATCHDOG"); !text.empty()) {
    const std::optional<uint64_t> seconds = parse_number(text);
    if (!seconds || *seconds > 1'000'000) return refuse("CORRLOOM_SIM_WATCHDOG", text, "seconds from 0 to 1000000");
    settings.watchdog = std::chrono::seconds(*seconds);
  }
  settings.ptxas = variable("CORRLOOM_SIM_PTXAS");
  if (!settings.ptxas.empty() && ::access(settings.ptxas.c_str(), X_OK) != 0)
    return refuse("CORRLOOM_SIM_PTXAS", settings.ptxas, "the path of an assembler");
  const std::string checks = variable("CORRLOOM_SIM_CHECKS");
  if (!parse_checks(checks, settings)) {
    return refuse("CORRLOOM_SIM_CHECKS", checks,
                  "all, none or a list of bounds, races, uninitialised, barriers, shuffles; and leaks");
  }
  return {};
}

Device::Device(int ordinal, const Settings& settings)
    : ordinal(ordinal),
      arch(settings.arch),
      limits(device_limits(settings.arch)),
      memory(ordinal, settings.memory_bytes) {}

Driver::Driver(const Settings& settings) : settings(settings) {
  for (int i = 0; i < settings.devices; ++i) {
    devices.push_back(std::make_unique<Device>(i, settings));
    Device& device = *devices.back();
    device.primary_handle = contexts.reserve();
    device.default_pool = pools.insert(std::make_shared<MemoryPool>(i, 0, true));
    device.current_pool = device.default_pool;
  }
}

Device& Driver::device(CUdevice ordinal) {
  require(ordinal >= 0 && ordinal < int(devices.size()), CUDA_ERROR_INVALID_DEVICE);
  return *devices[size_t(ordinal)];
}

DeviceMemory* Driver::memory_of(DeviceAddress address) {
  for (const std::unique_ptr<Device>& device : devices) {
    const DeviceMemory::View& arena = device->memory.arena();
    if (address - arena.base < arena.bytes) return &device->memory;
  }
  if (address < kVirtualBase) return nullptr;
  for (const std::unique_ptr<Device>& device : devices) {
    if (device->memory.find(address)) return &device->memory;
  }
  return nullptr;
}

std::byte* Driver::host_pointer(uint64_t address, uint64_t bytes) {
  if (!is_device_address(address)) {
    return is_device_address(address + bytes) ? nullptr : reinterpret_cast<std::byte*>(address);
  }
  const DeviceMemory* memory = memory_of(address);
  return memory == nullptr ? nullptr : memory->host_pointer(address, bytes);
}

std::optional<Block> Driver::find_block(DeviceAddress address) {
  if (std::optional<Block> block = blocks.find(address)) return block;
  const DeviceMemory* memory = memory_of(address);
  if (memory == nullptr) return std::nullopt;
  const std::optional<Allocation> variable = memory->find(address);
  if (!variable) return std::nullopt;
  Block block;
  block.address = variable->address;
  block.bytes = variable->bytes;
  block.device = memory->device();
  return block;
}

ThreadState& this_thread() {
  // Exit handlers of a program may call after the thread's objects are destroyed: a plain pointer is still there, and
  // the state made then is never destroyed.
  thread_local ThreadState* state = nullptr;
  struct Owner {
    ~Owner() { std::unique_ptr<ThreadState>(std::exchange(state, nullptr)); }
  };
  if (state == nullptr) {
    thread_local Owner owner;
    static_cast<void>(&owner);
    state = std::make_unique<ThreadState>().release();
  }
  return *state;
}

CUresult initialise() {
  const std::lock_guard lock(initialise_mutex);
  if (forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (the_driver.load() != nullptr) return CUDA_SUCCESS;
  Settings settings;
  if (const std::string problem = read_settings(settings); !problem.empty()) {
    std::fprintf(stderr, "simulated device: %s\n", problem.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
  // Never destroyed: stream threads use it until the process is gone.
  the_driver = std::make_unique<Driver>(settings).release();
  std::atexit(end_of_process);
  // The threads of the streams do not exist in a forked child, nor does the device of a real driver.
  ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
  return CUDA_SUCCESS;
}

bool initialised() {
  return the_driver.load(std::memory_order_acquire) != nullptr && !forked.load(std::memory_order_relaxed);
}

Driver& driver() {
  return *the_driver.load(std::memory_order_acquire);
}

std::shared_ptr<Context> current_context_even_lost() {
  const std::vector<CUcontext>& stack = this_thread().contexts;
  require(!stack.empty() && stack.back() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  std::shared_ptr<Context> context = driver().contexts.find(stack.back());
  require(context != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context;
}

std::shared_ptr<Context> current_context() {
  std::shared_ptr<Context> context = current_context_even_lost();
  require(context->error() == CUDA_SUCCESS, context->error());
  return context;
}

std::shared_ptr<Stream> find_stream(CUstream handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= kStreamPerThread) {
    const std::shared_ptr<Context> context = current_context();
    const bool own = number == kStreamPerThread || (number == 0 && this_thread().per_thread_default);
    return own ? context->per_thread_stream() : context->legacy_stream();
  }
  std::shared_ptr<Stream> stream = driver().streams.find(handle);
  require(stream != nullptr, CUDA_ERROR_INVALID_HANDLE);
  require(stream->context().error() == CUDA_SUCCESS, stream->context().error());
  return stream;
}

std::shared_ptr<Event> find_event(CUevent handle) {
  std::shared_ptr<Event> event = driver().events.find(handle);
  require(event != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return event;
}

}  // namespace corrloom::sim::driver
