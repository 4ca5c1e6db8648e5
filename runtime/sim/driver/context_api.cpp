#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Primary contexts, contexts, the stack of current contexts.
namespace corrloom::sim::driver {
namespace {

constexpr unsigned kFirstVersionWithFlags = 4000;

/// Flags a context may be made with.
void check_flags(unsigned flags) {
  require((flags & ~unsigned(CU_CTX_FLAGS_MASK)) == 0);
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  require(schedule == 0 || schedule == 1 || schedule == 2 || schedule == 4);
}

std::shared_ptr<Context> find_context(CUcontext handle, CUresult otherwise = CUDA_ERROR_INVALID_CONTEXT) {
  std::shared_ptr<Context> context = driver().contexts.find(handle);
  require(context != nullptr, otherwise);
  return context;
}

/// The context given, or the current one for nullptr.
std::shared_ptr<Context> context_or_current(CUcontext handle) {
  return handle == nullptr ? current_context_even_lost() : find_context(handle);
}

/// Ends the context a handle names, if it names one.
void destroy(CUcontext handle) {
  // Out of the table last: what is still running needs it.
  if (const std::shared_ptr<Context> context = driver().contexts.find(handle)) {
    context->shut_down();
    driver().contexts.remove(handle);
  }
}

}  // namespace

CUresult primary_retain(CUcontext* out, CUdevice ordinal) {
  require(out != nullptr);
  Device& device = driver().device(ordinal);
  const std::lock_guard lock(device.primary_mutex);
  if (driver().contexts.find(device.primary_handle) == nullptr) {
    driver().contexts.set(device.primary_handle,
                          std::make_shared<Context>(device, device.primary_handle, device.primary_flags, true,
                                                    driver().next_context_id++));
  }
  ++device.primary_references;
  *out = device.primary_handle;
  return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice ordinal) {
  Device& device = driver().device(ordinal);
  const std::lock_guard lock(device.primary_mutex);
  require(device.primary_references > 0, CUDA_ERROR_INVALID_CONTEXT);
  if (--device.primary_references == 0) destroy(device.primary_handle);
  return CUDA_SUCCESS;
}

CUresult primary_reset(CUdevice ordinal) {
  Device& device = driver().device(ordinal);
  const std::lock_guard lock(device.primary_mutex);
  const bool active = driver().contexts.find(device.primary_handle) != nullptr;
  destroy(device.primary_handle);
  // Those who retained it go on with a fresh one.
  if (active && device.primary_references > 0) {
    driver().contexts.set(device.primary_handle,
                          std::make_shared<Context>(device, device.primary_handle, device.primary_flags, true,
                                                    driver().next_context_id++));
  }
  return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice ordinal, unsigned flags) {
  Device& device = driver().device(ordinal);
  check_flags(flags);
  const std::lock_guard lock(device.primary_mutex);
  device.primary_flags = flags;
  if (const std::shared_ptr<Context> context = driver().contexts.find(device.primary_handle)) context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult primary_get_state(CUdevice ordinal, unsigned* flags, int* active) {
  Device& device = driver().device(ordinal);
  require(flags != nullptr && active != nullptr);
  const std::lock_guard lock(device.primary_mutex);
  *flags = device.primary_flags;
  *active = driver().contexts.find(device.primary_handle) != nullptr;
  return CUDA_SUCCESS;
}

CUresult context_create(CUcontext* out, unsigned flags, CUdevice ordinal) {
  require(out != nullptr);
  check_flags(flags);
  Device& device = driver().device(ordinal);
  const CUcontext handle = driver().contexts.reserve();
  driver().contexts.set(handle, std::make_shared<Context>(device, handle, flags, false, driver().next_context_id++));
  this_thread().contexts.push_back(handle);
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult context_create_v3(CUcontext* out, void* affinities, int count, unsigned flags, CUdevice ordinal) {
  require(affinities == nullptr && count == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  return context_create(out, flags, ordinal);
}

CUresult context_create_v4(CUcontext* out, CUctxCreateParams* params, unsigned flags, CUdevice ordinal) {
  if (params != nullptr) {
    require(params->cigParams == nullptr, CUDA_ERROR_NOT_SUPPORTED);
    return context_create_v3(out, params->execAffinityParams, params->numExecAffinityParams, flags, ordinal);
  }
  return context_create(out, flags, ordinal);
}

CUresult context_destroy(CUcontext handle) {
  const std::shared_ptr<Context> context = find_context(handle);
  require(!context->primary);
  destroy(handle);
  std::vector<CUcontext>& stack = this_thread().contexts;
  if (!stack.empty() && stack.back() == handle) stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult context_push_current(CUcontext handle) {
  require(handle != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  find_context(handle);
  this_thread().contexts.push_back(handle);
  return CUDA_SUCCESS;
}

CUresult context_pop_current(CUcontext* out) {
  std::vector<CUcontext>& stack = this_thread().contexts;
  require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
  if (out != nullptr) *out = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult context_set_current(CUcontext handle) {
  std::vector<CUcontext>& stack = this_thread().contexts;
  if (handle == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  find_context(handle);
  if (stack.empty()) {
    stack.push_back(handle);
  } else {
    stack.back() = handle;
  }
  return CUDA_SUCCESS;
}

CUresult context_get_current(CUcontext* out) {
  require(out != nullptr);
  const std::vector<CUcontext>& stack = this_thread().contexts;
  *out = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}

CUresult context_get_device(CUdevice* out) {
  require(out != nullptr);
  *out = current_context_even_lost()->device.ordinal;
  return CUDA_SUCCESS;
}

CUresult context_get_device_v2(CUdevice* out, CUcontext handle) {
  require(out != nullptr);
  *out = context_or_current(handle)->device.ordinal;
  return CUDA_SUCCESS;
}

CUresult context_get_flags(unsigned* flags) {
  require(flags != nullptr);
  *flags = current_context_even_lost()->flags;
  return CUDA_SUCCESS;
}

CUresult context_set_flags(unsigned flags) {
  check_flags(flags);
  current_context()->flags = flags;
  return CUDA_SUCCESS;
}

CUresult context_get_id(CUcontext handle, unsigned long long* id) {
  require(id != nullptr);
  *id = context_or_current(handle)->id;
  return CUDA_SUCCESS;
}

CUresult context_synchronize() {
  return context_synchronize_v2(nullptr);
}

CUresult context_synchronize_v2(CUcontext handle) {
  const std::shared_ptr<Context> context = context_or_current(handle);
  forbid_while_capturing(*context);
  return context->synchronise();
}

CUresult context_set_limit(CUlimit limit, size_t value) {
  return current_context()->set_limit(limit, value);
}

CUresult context_get_limit(size_t* value, CUlimit limit) {
  require(value != nullptr);
  return current_context()->get_limit(limit, *value);
}

CUresult context_get_cache_config(CUfunc_cache* config) {
  require(config != nullptr);
  *config = current_context()->cache_config;
  return CUDA_SUCCESS;
}

CUresult context_set_cache_config(CUfunc_cache config) {
  require(config <= CU_FUNC_CACHE_PREFER_EQUAL);
  current_context()->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult context_get_api_version(CUcontext handle, unsigned* version) {
  require(version != nullptr);
  if (handle != nullptr) find_context(handle);
  *version = kFirstVersionWithFlags;
  return CUDA_SUCCESS;
}

CUresult context_get_stream_priority_range(int* least, int* greatest) {
  current_context();
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult context_reset_persisting_l2_cache() {
  current_context();
  return CUDA_SUCCESS;
}

CUresult context_enable_peer_access(CUcontext handle, unsigned flags) {
  require(flags == 0);
  const std::shared_ptr<Context> context = current_context();
  const std::shared_ptr<Context> peer = find_context(handle);
  require(&peer->device != &context->device, CUDA_ERROR_INVALID_DEVICE);
  return context->enable_peer(*peer);
}

CUresult context_disable_peer_access(CUcontext handle) {
  const std::shared_ptr<Context> context = current_context();
  return context->disable_peer(*find_context(handle));
}

}  // namespace corrloom::sim::driver
