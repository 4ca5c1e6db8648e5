#include "runtime/device.h"

#include <charconv>
#include <mutex>
#include <shared_mutex>

#include "ir/base/errors.h"
#include "runtime/backend.h"
#include "runtime/host/host_backend.h"

namespace corrloom {
namespace runtime {
namespace {

/// The devices of this process: the only state that all of its tensors share. Tensors keep their device alive, so its
/// end may come before theirs.
struct Registry {
  std::shared_mutex mutex;
  std::vector<BackendRef> backends = {make_host_backend()};
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
  const std::shared_lock lock(all.mutex);
  for (const BackendRef& backend : all.backends) {
    if (backend->device() == device) return backend;
  }
  throw RuntimeError("device " + device.name() + " is not there; this machine has " + list_names(all.backends));
}

std::vector<BackendRef> all_backends() {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  return all.backends;
}

void register_backend(BackendRef backend) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  for (const BackendRef& known : all.backends) {
    CORRLOOM_CHECK(known->device() != backend->device(), backend->device().name(), " is registered twice");
  }
  all.backends.push_back(std::move(backend));
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
  runtime::backend_of(device)->synchronise();
}

}  // namespace corrloom
