#include <algorithm>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Libraries: modules that each context loads for itself, and kernels that stand for a function in whichever is
/// current.
namespace corrloom::sim::driver {
namespace {

std::shared_ptr<Library> find_library(CUlibrary handle) {
  std::shared_ptr<Library> library = driver().libraries.find(handle);
  require(library != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return library;
}

std::shared_ptr<Kernel> find_kernel(CUkernel handle) {
  std::shared_ptr<Kernel> kernel = driver().kernels.find(handle);
  require(kernel != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return kernel;
}

/// A handle of the kernel; made on first use.
CUkernel kernel_handle(const std::shared_ptr<Library>& library, int index) {
  const std::lock_guard lock(library->mutex);
  CUkernel& handle = library->handles[index];
  if (handle == nullptr) handle = driver().kernels.insert(std::make_shared<Kernel>(library, index));
  return handle;
}

CUresult load(CUlibrary* out, const void* image, const JitOptions& jit, const CUlibraryOption* options,
              unsigned count) {
  require(out != nullptr && image != nullptr && (count == 0 || options != nullptr));
  for (unsigned i = 0; i < count; ++i) require(options[i] < CU_LIBRARY_NUM_OPTIONS);
  // Checked once, on the first device, and loaded for good into each context that uses it.
  const LoadedModule probe(parse_image(*driver().devices.front(), image, jit), nullptr);
  auto library = std::make_shared<Library>();
  library->text = static_cast<const char*>(image);
  for (int i = 0; i < probe.module->kernel_count(); ++i) library->kernels.push_back(probe.module->kernel(i));
  *out = driver().libraries.insert(std::move(library));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult library_load_data(CUlibrary* out, const void* image, CUjit_option* jit, void** jit_values, unsigned jit_count,
                           CUlibraryOption* options, void**, unsigned count) {
  return load(out, image, read_jit_options(jit_count, jit, jit_values), options, count);
}

CUresult library_load_from_file(CUlibrary* out, const char* path, CUjit_option* jit, void** jit_values,
                                unsigned jit_count, CUlibraryOption* options, void**, unsigned count) {
  require(path != nullptr);
  return load(out, read_file(path).c_str(), read_jit_options(jit_count, jit, jit_values), options, count);
}

CUresult library_unload(CUlibrary handle) {
  const std::shared_ptr<Library> library = driver().libraries.remove(handle);
  require(library != nullptr, CUDA_ERROR_INVALID_HANDLE);
  driver().kernels.remove_if([&](const Kernel& kernel) { return kernel.library == library; });
  const std::lock_guard lock(library->mutex);
  for (const auto& [context, known] : library->modules) {
    const std::shared_ptr<LoadedModule> module = known.lock();
    if (module != nullptr) forget_module(module);
  }
  return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* out, CUlibrary handle, const char* name) {
  require(out != nullptr && name != nullptr);
  const std::shared_ptr<Library> library = find_library(handle);
  const auto it = std::ranges::find(library->kernels, name, &KernelInfo::name);
  require(it != library->kernels.end(), CUDA_ERROR_NOT_FOUND);
  *out = kernel_handle(library, int(it - library->kernels.begin()));
  return CUDA_SUCCESS;
}

CUresult library_get_kernel_count(unsigned* count, CUlibrary handle) {
  require(count != nullptr);
  *count = unsigned(find_library(handle)->kernels.size());
  return CUDA_SUCCESS;
}

CUresult library_enumerate_kernels(CUkernel* kernels, unsigned count, CUlibrary handle) {
  require(kernels != nullptr);
  const std::shared_ptr<Library> library = find_library(handle);
  for (unsigned i = 0; i < std::min(count, unsigned(library->kernels.size())); ++i)
    kernels[i] = kernel_handle(library, int(i));
  return CUDA_SUCCESS;
}

CUresult library_get_module(CUmodule* out, CUlibrary handle) {
  require(out != nullptr);
  *out = library_module(*find_library(handle), *current_context())->handle;
  return CUDA_SUCCESS;
}

CUresult library_get_global(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
  require(name != nullptr && (address != nullptr || bytes != nullptr));
  const std::shared_ptr<LoadedModule> module = library_module(*find_library(handle), *current_context());
  const std::optional<GlobalVariable> variable = module->module->find_global(name);
  require(variable.has_value(), CUDA_ERROR_NOT_FOUND);
  if (address != nullptr) *address = variable->address;
  if (bytes != nullptr) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

CUresult kernel_get_function(CUfunction* out, CUkernel handle) {
  require(out != nullptr);
  find_kernel(handle);
  *out = find_function(reinterpret_cast<CUfunction>(handle))->handle;
  return CUDA_SUCCESS;
}

CUresult kernel_get_library(CUlibrary* out, CUkernel handle) {
  require(out != nullptr);
  const std::shared_ptr<Library> library = find_kernel(handle)->library;
  for (const auto& [known, object] : driver().libraries.entries()) {
    if (object == library) *out = known;
  }
  return CUDA_SUCCESS;
}

CUresult kernel_get_name(const char** name, CUkernel handle) {
  require(name != nullptr);
  *name = find_kernel(handle)->info().name.c_str();
  return CUDA_SUCCESS;
}

CUresult kernel_get_param_info(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
  return get_param_info(find_kernel(handle)->info(), index, offset, bytes);
}

CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel handle, CUdevice device) {
  const std::shared_ptr<Kernel> kernel = find_kernel(handle);
  return get_attribute(kernel->info(), kernel->settings_on(device), driver().device(device), attribute, value);
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device) {
  const std::shared_ptr<Kernel> kernel = find_kernel(handle);
  set_attribute(kernel->info(), kernel->settings_on(device), driver().device(device), attribute, value);
  return CUDA_SUCCESS;
}

CUresult kernel_set_cache_config(CUkernel handle, CUfunc_cache config, CUdevice device) {
  find_kernel(handle);
  driver().device(device);
  require(config <= CU_FUNC_CACHE_PREFER_EQUAL);
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
