#include "runtime/device.h"

#include <charconv>
#include <mutex>
#include <shared_mutex>

#include "ir/base/errors.h"
#include "runtime/backend.h"
#include "runtime/cuda/devices.h"
#include "runtime/host/host_backend.h"

namespace corrloom {
namespace runtime {
namespace {

/// The devices of this process: the only state that all of its tensors share. Tensors keep their device alive, so its
/// end may come before theirs. GPUs are looked for when somebody asks for one first: a program that uses none does not
/// pay for starting a driver.
struct Registry {
  std::shared_mutex mutex;
  std::vector<BackendRef> backends = {make_host_backend()};
  std::string cuda_status;
  std::shared_ptr<const gpu::Driver> cuda_driver;
  std::once_flag searched;
  bool is_set_by_hand = false;

  void find_gpus() {
    std::call_once(searched, [this] {
      {
        const std::shared_lock lock(mutex);
        if (is_set_by_hand) return;
      }
      gpu::CudaDevices found = gpu::find_cuda_devices();
      const std::unique_lock lock(mutex);
      cuda_status = std::move(found.status);
      cuda_driver = std::move(found.driver);
      backends.insert(backends.end(), found.backends.begin(), found.backends.end());
    });
  }
};

Registry& registry() {
  static Registry instance;
  return instance;
}

/// `cpu, cuda:0, cuda:1`.
std::string list_names(const std::vector<BackendRef>& backends) {
  std::string names;
  for (const BackendRef& backend : backends) names += (names.empty() ? "" : ", ") + backend->device().name();
  return names;
}

}  // namespace

BackendRef backend_of(Device device) {
  Registry& all = registry();
  if (!device.is_cpu()) all.find_gpus();
  const std::shared_lock lock(all.mutex);
  for (const BackendRef& backend : all.backends) {
    if (backend->device() == device) return backend;
  }
  throw RuntimeError("device " + device.name() + " is not there; this machine has " + list_names(all.backends) +
                     (all.cuda_status.empty() ? "" : " (" + all.cuda_status + ")"));
}

std::vector<BackendRef> all_backends() {
  Registry& all = registry();
  all.find_gpus();
  const std::shared_lock lock(all.mutex);
  return all.backends;
}

std::string cuda_status() {
  Registry& all = registry();
  all.find_gpus();
  const std::shared_lock lock(all.mutex);
  return all.cuda_status;
}

void* cuda_symbol(const char* name) {
  Registry& all = registry();
  all.find_gpus();
  const std::shared_lock lock(all.mutex);
  return all.cuda_driver == nullptr ? nullptr : all.cuda_driver->symbol(name);
}

void register_backend(BackendRef backend) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  for (const BackendRef& known : all.backends) {
    CORRLOOM_CHECK(known->device() != backend->device(), backend->device().name(), " is registered twice");
  }
  all.backends.push_back(std::move(backend));
  all.is_set_by_hand = true;
}

}  // namespace runtime

std::string Device::name() const {
  return is_cpu() ? "cpu" : "cuda:" + std::to_string(index_);
}

Device Device::parse(std::string_view name) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda(0);
  constexpr std::string_view kPrefix = "cuda:";
  if (name.starts_with(kPrefix)) {
    const char* const end = name.data() + name.size();
    int index = 0;
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, index);
    if (error == std::errc() && stop == end && index >= 0 && name[kPrefix.size()] != '-') return cuda(index);
  }
  throw InputError("`" + std::string(name.substr(0, 80)) + "` is no device; wanted `cpu`, `cuda` or `cuda:N`");
}

int device_count() {
  return static_cast<int>(runtime::all_backends().size()) - 1;
}

Device try_gpu(int index) {
  for (const runtime::BackendRef& backend : runtime::all_backends()) {
    if (backend->device() == cuda(index)) return cuda(index);
  }
  return cpu();
}

std::vector<Device> try_all_gpus() {
  std::vector<Device> devices;
  for (const runtime::BackendRef& backend : runtime::all_backends()) {
    if (!backend->device().is_cpu()) devices.push_back(backend->device());
  }
  if (devices.empty()) devices.push_back(cpu());
  return devices;
}

void synchronise(Device device) {
  const runtime::BackendRef backend = runtime::backend_of(device);
  backend->synchronise();
  backend->faults().raise();
}

}  // namespace corrloom
