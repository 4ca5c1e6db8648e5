#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "ir/base/errors.h"
#include "runtime/trace.h"

namespace corrloom::runtime::gpu {
namespace {

constexpr const char* kSystemDriver = "libcuda.so.1";
constexpr const char* kSimulatedDriver = "libcorrloom_cuda_sim.so";

/// What happened to this process that takes the driver away from it.
struct ProcessState {
  std::atomic<unsigned> forks{0};  ///< by which this process, or a process it comes from, became a child
  std::atomic<bool> ends{false};
};

ProcessState& process_state() {
  static ProcessState state;
  return state;
}

/// Lets fork and exit be noticed. A driver's threads and mappings do not survive a fork, and its own exit handlers run
/// before the destructors of what was made before it.
void watch_process() {
  static const bool watching = [] {
    process_state();
    pthread_atfork(nullptr, nullptr, [] { process_state().forks.fetch_add(1, std::memory_order_relaxed); });
    return true;
  }();
  (void)watching;
}

/// Asks the devices for what the trace does not have yet. On a thread of its own: what a driver keeps for the main
/// thread has ended before exit handlers run.
void collect_trace() noexcept {
  Trace* const trace = Trace::active();
  if (trace == nullptr) return;
  try {
    std::thread([trace] { trace->collect(); }).join();
  } catch (const std::exception&) {
    // Without a thread the trace has what was asked for before.
  }
}

/// The exit handler is set after `cuInit`, so that it runs before the driver's own, and after the trace was made, which
/// so ends later.
void watch_exit() {
  static const bool watching = [] {
    Trace::active();
    std::atexit([] {
      collect_trace();
      process_state().ends.store(true, std::memory_order_relaxed);
    });
    return true;
  }();
  (void)watching;
}

/// Every function of the table by its symbol; the first that is missing, or nothing.
std::optional<std::string> fill_table(void* library, FunctionTable& table) {
#define CORRLOOM_CUDA_FUNCTION(name, symbol, parameters)                        \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, #symbol)); \
  if (table.name == nullptr) return #symbol;
#define CORRLOOM_CUDA_OPTIONAL(name, symbol, parameters) \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, #symbol));
#include "runtime/cuda/functions.def"
  return std::nullopt;
}

/// The text of the loader's last error.
std::string loader_error() {
  const char* const text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

DriverSearch open_driver(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, "cannot load the CUDA driver: " + loader_error()};
  // Never unloaded: a driver has threads and exit handlers of its own.
  const std::shared_ptr<void> library(handle, [](void*) {});
  FunctionTable table;
  if (const std::optional<std::string> missing = fill_table(handle, table)) {
    return {nullptr, path + " is no CUDA driver, or too old a one: it lacks " + *missing};
  }
  return start_driver(table, path, library);
}

/// The simulated driver: beside the file that this code is in, or in the library folder of the same installation.
std::string find_simulated_driver() {
  namespace fs = std::filesystem;
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&find_simulated_driver), &info) == 0 || info.dli_fname == nullptr)
    return kSimulatedDriver;
  fs::path self = fs::canonical(info.dli_fname, error);
  // The name of the main program may be relative to a folder that was left since.
  if (error) self = fs::canonical("/proc/self/exe", error);
  const fs::path folder = self.parent_path();
  for (const fs::path& candidate : {folder, folder / ".." / "lib", folder / ".." / CORRLOOM_LIBRARY_FOLDER}) {
    const fs::path path = candidate / kSimulatedDriver;
    if (fs::exists(path, error)) return path.lexically_normal().string();
  }
  return kSimulatedDriver;
}

DriverSearch search(const std::string& setting) {
  if (setting.empty() || setting == "auto") return open_driver(kSystemDriver);
  if (setting == "off") return {nullptr, "CORRLOOM_CUDA is off"};
  if (setting == "sim") return open_driver(find_simulated_driver());
  if (setting.find('/') == std::string::npos) {
    return {nullptr, "CORRLOOM_CUDA is `" + setting.substr(0, 80) + "`; wanted auto, off, sim or the path of a driver"};
  }
  return open_driver(setting);
}

}  // namespace

Driver::Driver(const FunctionTable& functions, std::string name, std::shared_ptr<void> library)
    : functions_(functions), name_(std::move(name)), library_(std::move(library)) {
  watch_process();
  watch_exit();
  forks_ = process_state().forks.load(std::memory_order_relaxed);
}

void* Driver::symbol(const char* name) const noexcept {
  return library_ == nullptr ? nullptr : dlsym(library_.get(), name);
}

std::string Driver::version() const {
  int version = 0;
  if (functions_.driver_get_version(&version) != kSuccess) return "unknown";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool Driver::is_usable() const noexcept {
  const ProcessState& state = process_state();
  return state.forks.load(std::memory_order_relaxed) == forks_ && !state.ends.load(std::memory_order_relaxed);
}

void Driver::require_usable() const {
  if (is_usable()) return;
  if (process_state().ends.load(std::memory_order_relaxed)) {
    throw RuntimeError("CUDA devices cannot be used any more: the process is ending");
  }
  throw RuntimeError(
      "CUDA devices cannot be used in this process: it was forked after its parent had used them; fork before the "
      "first use, or start a new process");
}

std::string Driver::describe(Result error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  (void)functions_.get_error_name(error, &name);
  (void)functions_.get_error_string(error, &text);
  return std::string(name == nullptr ? "unknown error" : name) + " (" + std::to_string(error) + ")" +
         (text == nullptr ? "" : ": " + std::string(text));
}

DriverSearch start_driver(const FunctionTable& functions, const std::string& name, std::shared_ptr<void> library) {
  watch_process();
  const Result result = functions.init(0);
  const auto driver = std::make_shared<const Driver>(functions, name, std::move(library));
  if (result == kSuccess) return {driver, ""};
  return {nullptr, "cuInit(0) of " + name + ": " + driver->describe(result)};
}

DriverSearch find_driver(const std::string& setting) noexcept {
  try {
    return search(setting);
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace corrloom::runtime::gpu
