#include <algorithm>
#include <optional>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Modules, their functions and variables.
namespace corrloom::sim::driver {
namespace {

std::shared_ptr<LoadedModule> find_module(CUmodule handle) {
  std::shared_ptr<LoadedModule> module = driver().modules.find(handle);
  require(module != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return module;
}

CUresult load(CUmodule* out, const void* image, const JitOptions& options) {
  require(out != nullptr);
  const std::shared_ptr<Context> context = current_context();
  *out = load_image(*context, image, options)->handle;
  return CUDA_SUCCESS;
}

/// Bytes of dynamic shared memory that a launch may ask for: what was opted in to, or what 48 KiB leave.
int max_dynamic_shared(const KernelInfo& info, const FunctionSettings& settings, const Device& device) {
  const int set = settings.max_dynamic_shared_bytes;
  return set != 0 ? set : std::max(0, device.limits.shared_bytes_per_block - int(info.static_shared_bytes));
}

Device& device_of(const Function& function) {
  return driver().device(function.module->module->memory().device());
}

/// The value of a function attribute.
std::optional<int> attribute_of(const KernelInfo& info, const FunctionSettings& settings, const Device& device,
                                CUfunction_attribute attribute) {
  const auto cluster = [&](size_t i) {
    return info.required_cluster[0] != 0 ? int(info.required_cluster[i]) : settings.cluster[i].load();
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return int(info.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return int(info.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return int(info.const_bytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return int(info.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return int(info.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return info.target;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return device.arch.number;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return max_dynamic_shared(info, settings, device);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return settings.shared_carveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return 0;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return cluster(0);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return cluster(1);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return cluster(2);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return settings.non_portable_cluster;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return settings.cluster_policy;
  }
  return std::nullopt;
}

}  // namespace

void set_attribute(const KernelInfo& info, FunctionSettings& settings, const Device& device,
                   CUfunction_attribute attribute, int value) {
  const DeviceLimits& limits = device.limits;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      require(value >= 0 && value <= limits.shared_bytes_per_block_optin - int(info.static_shared_bytes));
      settings.max_dynamic_shared_bytes = value;
      return;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      require(value >= -1 && value <= 100);
      settings.shared_carveout = value;
      return;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      require(value >= 0 && limits.max_cluster_blocks > 0);
      // What the kernel's text requires cannot be set.
      require(info.required_cluster[0] == 0, CUDA_ERROR_NOT_PERMITTED);
      settings.cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
      return;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      require(value == 0 || value == 1);
      settings.non_portable_cluster = value;
      return;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      require(value >= 0 && value <= 2);
      settings.cluster_policy = value;
      return;
    default:
      throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
}

CUresult get_attribute(const KernelInfo& info, const FunctionSettings& settings, const Device& device,
                       CUfunction_attribute attribute, int* value) {
  require(value != nullptr);
  const std::optional<int> found = attribute_of(info, settings, device, attribute);
  require(found.has_value());
  *value = *found;
  return CUDA_SUCCESS;
}

CUresult get_param_info(const KernelInfo& info, size_t index, size_t* offset, size_t* bytes) {
  require(offset != nullptr && index < info.params.size());
  *offset = info.params[index].offset;
  if (bytes != nullptr) *bytes = info.params[index].bytes;
  return CUDA_SUCCESS;
}

CUresult module_load(CUmodule* out, const char* path) {
  require(out != nullptr && path != nullptr);
  current_context();
  return load(out, read_file(path).c_str(), {});
}

CUresult module_load_data(CUmodule* out, const void* image) {
  return load(out, image, {});
}

CUresult module_load_data_ex(CUmodule* out, const void* image, unsigned count, CUjit_option* options, void** values) {
  return load(out, image, read_jit_options(count, options, values));
}

CUresult module_unload(CUmodule handle) {
  // Work that is queued keeps the module; the handles go at once.
  const std::shared_ptr<Context> context = current_context_even_lost();
  const std::shared_ptr<LoadedModule> module = find_module(handle);
  for (const std::shared_ptr<Library>& library : driver().libraries.find_all()) {
    const std::lock_guard lock(library->mutex);
    const auto it = library->modules.find(module->context);
    // A library's module goes with the library.
    require(it == library->modules.end() || it->second.lock() != module, CUDA_ERROR_NOT_PERMITTED);
  }
  forget_module(module);
  return CUDA_SUCCESS;
}

CUresult module_get_loading_mode(CUmoduleLoadingMode* mode) {
  require(mode != nullptr);
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult module_get_function(CUfunction* out, CUmodule handle, const char* name) {
  require(out != nullptr && name != nullptr);
  current_context();
  const std::shared_ptr<LoadedModule> module = find_module(handle);
  const std::optional<int> index = module->module->find_kernel(name);
  require(index.has_value(), CUDA_ERROR_NOT_FOUND);
  *out = function_handle(module, *index);
  return CUDA_SUCCESS;
}

CUresult module_get_function_count(unsigned* count, CUmodule handle) {
  require(count != nullptr);
  *count = unsigned(find_module(handle)->module->kernel_count());
  return CUDA_SUCCESS;
}

CUresult module_enumerate_functions(CUfunction* functions, unsigned count, CUmodule handle) {
  const std::shared_ptr<LoadedModule> module = find_module(handle);
  require(functions != nullptr);
  for (int i = 0; i < std::min(int(count), module->module->kernel_count()); ++i)
    functions[i] = function_handle(module, i);
  return CUDA_SUCCESS;
}

CUresult module_get_global(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  require(name != nullptr && (address != nullptr || bytes != nullptr));
  current_context();
  const std::optional<GlobalVariable> variable = find_module(handle)->module->find_global(name);
  require(variable.has_value(), CUDA_ERROR_NOT_FOUND);
  if (address != nullptr) *address = variable->address;
  if (bytes != nullptr) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

CUresult function_get_attribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  const std::shared_ptr<Function> function = find_function(handle);
  return get_attribute(function->info(), function->settings, device_of(*function), attribute, value);
}

CUresult function_set_attribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  const std::shared_ptr<Function> function = find_function(handle);
  set_attribute(function->info(), function->settings, device_of(*function), attribute, value);
  return CUDA_SUCCESS;
}

CUresult function_set_cache_config(CUfunction handle, CUfunc_cache config) {
  find_function(handle);
  require(config <= CU_FUNC_CACHE_PREFER_EQUAL);
  return CUDA_SUCCESS;
}

CUresult function_get_module(CUmodule* out, CUfunction handle) {
  require(out != nullptr);
  *out = find_function(handle)->module->handle;
  return CUDA_SUCCESS;
}

CUresult function_get_name(const char** name, CUfunction handle) {
  require(name != nullptr);
  *name = find_function(handle)->info().name.c_str();
  return CUDA_SUCCESS;
}

CUresult function_get_param_info(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  return get_param_info(find_function(handle)->info(), index, offset, bytes);
}

CUresult function_is_loaded(unsigned* state, CUfunction handle) {
  require(state != nullptr);
  find_function(handle);
  *state = 1;
  return CUDA_SUCCESS;
}

CUresult function_load(CUfunction handle) {
  find_function(handle);
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
