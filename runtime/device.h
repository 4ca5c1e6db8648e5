#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/visibility.h"

namespace corrloom {

enum class DeviceKind : std::uint8_t { Cpu, Cuda };

/// The name of a place where tensors live and ops run: `cpu`, `cuda:0`, `cuda:1`. A plain value; whether the device is
/// there shows when it is used.
class Device {
 public:
  /// The host.
  constexpr Device() = default;
  constexpr Device(DeviceKind kind, int index) : kind_(kind), index_(index) {}

  constexpr DeviceKind kind() const { return kind_; }
  /// 0 for the host.
  constexpr int index() const { return index_; }
  constexpr bool is_cpu() const { return kind_ == DeviceKind::Cpu; }
  /// `cpu` or `cuda:N`.
  CORRLOOM_API std::string name() const;

  /// The device of a name: `cpu`, `cuda` (the first one) or `cuda:N`. Throws InputError for any other text.
  CORRLOOM_API static Device parse(std::string_view name);

  friend constexpr auto operator<=>(const Device&, const Device&) = default;

 private:
  DeviceKind kind_ = DeviceKind::Cpu;
  int index_ = 0;
};

/// The host.
constexpr Device cpu() {
  return {};
}
/// GPU number `index`.
constexpr Device cuda(int index = 0) {
  return {DeviceKind::Cuda, index};
}
/// How many GPUs there are; 0 without a driver. The driver is started when somebody asks for a GPU first; which one,
/// CORRLOOM_CUDA says.
CORRLOOM_API int device_count();
/// GPU number `index` if it is there, else the host.
CORRLOOM_API Device try_gpu(int index = 0);
/// All GPUs, or the host alone when there is none.
CORRLOOM_API std::vector<Device> try_all_gpus();
/// Waits until everything launched on the device is done. Throws what it failed with: RuntimeError for the machine,
/// InputError for a data-dependent check that nobody has heard of yet.
CORRLOOM_API void synchronise(Device device);

}  // namespace corrloom
