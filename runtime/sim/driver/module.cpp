#include "runtime/sim/driver/module.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {
namespace {

CUresult code_of(LoadStatus status) {
  switch (status) {
    case LoadStatus::Ok:
      return CUDA_SUCCESS;
    case LoadStatus::InvalidPtx:
      return CUDA_ERROR_INVALID_PTX;
    case LoadStatus::UnsupportedPtxVersion:
      return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    case LoadStatus::NoBinaryForGpu:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case LoadStatus::SymbolNotFound:
      return CUDA_ERROR_NOT_FOUND;
    case LoadStatus::OutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_ERROR_UNKNOWN;
}

/// True for machine code: an ELF file, a fat binary, or the wrapper that nvcc puts around one.
bool is_machine_code(const void* image) {
  static constexpr unsigned char kMagics[][4] = {
      {0x7f, 'E', 'L', 'F'}, {0x50, 0xed, 0x55, 0xba}, {0xb1, 0x43, 0x62, 0x46}};
  return std::ranges::any_of(kMagics, [&](const auto& magic) {
    return std::strncmp(static_cast<const char*>(image), reinterpret_cast<const char*>(magic), 4) == 0;
  });
}

/// Puts as much of a log into a client's buffer as fits, with a terminating zero, and says how much that was.
void write_log(const std::string& log, char* buffer, size_t bytes, void** bytes_out) {
  size_t written = 0;
  if (buffer != nullptr && bytes != 0) {
    written = std::min(log.size(), bytes - 1);
    std::memcpy(buffer, log.data(), written);
    buffer[written] = '\0';
  }
  if (bytes_out != nullptr) *bytes_out = reinterpret_cast<void*>(written);
}

}  // namespace

JitOptions read_jit_options(unsigned count, const CUjit_option* options, void** values) {
  JitOptions jit;
  require(count == 0 || (options != nullptr && values != nullptr));
  for (unsigned i = 0; i < count; ++i) {
    const auto number = reinterpret_cast<uintptr_t>(values[i]);
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        jit.info_buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        jit.info_bytes = unsigned(number);
        jit.info_bytes_out = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        jit.error_buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        jit.error_bytes = unsigned(number);
        jit.error_bytes_out = &values[i];
        break;
      case CU_JIT_WALL_TIME:
        jit.wall_time_out = &values[i];
        break;
      case CU_JIT_LOG_VERBOSE:
        jit.verbose = number != 0;
        break;
      default:
        // What steers the real compiler's code has no meaning for an interpreter.
        require(options[i] < CU_JIT_NUM_OPTIONS);
    }
  }
  return jit;
}

void FunctionSettings::take(const FunctionSettings& other) {
  const auto assign = [](std::atomic<int>& to, const std::atomic<int>& from) { to = from.load(); };
  assign(max_dynamic_shared_bytes, other.max_dynamic_shared_bytes);
  assign(shared_carveout, other.shared_carveout);
  assign(non_portable_cluster, other.non_portable_cluster);
  assign(cluster_policy, other.cluster_policy);
  for (int i = 0; i < 3; ++i) assign(cluster[i], other.cluster[i]);
}

FunctionSettings& Kernel::settings_on(int device) {
  driver().device(device);
  const std::lock_guard lock(mutex_);
  return settings_[device];
}

std::unique_ptr<Module> parse_image(Device& device, const void* image, const JitOptions& options) {
  require(image != nullptr);
  const auto started = std::chrono::steady_clock::now();
  LoadResult result;
  if (is_machine_code(image)) {
    result.status = LoadStatus::NoBinaryForGpu;
    result.error_log = "the simulated device runs PTX text only, and was given machine code\n";
  } else {
    LoadOptions load;
    load.verbose = options.verbose;
    result = load_module(static_cast<const char*>(image), device.arch, device.memory, load);
  }
  write_log(result.info_log, options.info_buffer, options.info_bytes, options.info_bytes_out);
  write_log(result.error_log, options.error_buffer, options.error_bytes, options.error_bytes_out);
  if (options.wall_time_out != nullptr) {
    const std::chrono::duration<float, std::milli> taken = std::chrono::steady_clock::now() - started;
    *options.wall_time_out = reinterpret_cast<void*>(uintptr_t(std::bit_cast<uint32_t>(taken.count())));
  }
  require(result.status == LoadStatus::Ok, code_of(result.status));
  return std::move(result.module);
}

LoadedModule::LoadedModule(std::unique_ptr<Module> loaded, CUcontext owner)
    : module(std::move(loaded)), context(owner) {
  for (int i = 0; i < module->kernel_count(); ++i) infos_.push_back(module->kernel(i));
}

const Assembled* LoadedModule::assembled(int index) const {
  const auto found = assembled_.find(infos_[size_t(index)].name);
  return found == assembled_.end() ? nullptr : &found->second;
}

void LoadedModule::take(std::map<std::string, Assembled> kernels) {
  assembled_ = std::move(kernels);
  for (KernelInfo& info : infos_) {
    if (const auto found = assembled_.find(info.name); found != assembled_.end())
      info.registers = found->second.registers;
  }
}

std::shared_ptr<LoadedModule> load_image(Context& context, const void* image, const JitOptions& options) {
  auto module = std::make_shared<LoadedModule>(parse_image(context.device, image, options), context.handle);
  const std::string& ptxas = driver().settings.ptxas;
  if (!ptxas.empty()) module->take(assemble(ptxas, context.device.arch, static_cast<const char*>(image)));
  module->handle = driver().modules.reserve();
  driver().modules.set(module->handle, module);
  return module;
}

void forget_module(const std::shared_ptr<LoadedModule>& module) {
  driver().modules.remove(module->handle);
  driver().functions.remove_if([&](const Function& function) { return function.module == module; });
}

CUfunction function_handle(const std::shared_ptr<LoadedModule>& module, int index) {
  const std::lock_guard lock(module->mutex);
  CUfunction& handle = module->functions[index];
  if (handle == nullptr) {
    auto function = std::make_shared<Function>(module, index);
    function->handle = handle = driver().functions.reserve();
    driver().functions.set(handle, std::move(function));
  }
  return handle;
}

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  std::stringstream text;
  text << file.rdbuf();
  require(!file.bad(), CUDA_ERROR_FILE_NOT_FOUND);
  return text.str();
}

std::shared_ptr<LoadedModule> library_module(Library& library, Context& context) {
  const std::lock_guard lock(library.mutex);
  std::weak_ptr<LoadedModule>& known = library.modules[context.handle];
  if (std::shared_ptr<LoadedModule> module = known.lock()) return module;
  std::shared_ptr<LoadedModule> module = load_image(context, library.text.c_str(), {});
  known = module;
  return module;
}

std::shared_ptr<Function> find_function(CUfunction handle) {
  Driver& all = driver();
  if (std::shared_ptr<Function> function = all.functions.find(handle)) return function;
  const std::shared_ptr<Kernel> kernel = all.kernels.find(reinterpret_cast<CUkernel>(handle));
  require(kernel != nullptr, CUDA_ERROR_INVALID_HANDLE);
  const std::shared_ptr<LoadedModule> module = library_module(*kernel->library, *current_context());
  std::shared_ptr<Function> function = all.functions.find(function_handle(module, kernel->index));
  require(function != nullptr, CUDA_ERROR_INVALID_HANDLE);
  function->settings.take(kernel->settings_on(module->module->memory().device()));
  return function;
}

}  // namespace corrloom::sim::driver
