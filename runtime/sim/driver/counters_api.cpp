#include <algorithm>
#include <cstring>

#include "runtime/sim/driver/corrloom_sim.h"
#include "runtime/sim/driver/state.h"

/// The functions of corrloom_sim.h.
namespace corrloom::sim::driver {
namespace {

Device* find_device(int ordinal) {
  if (!initialised() || ordinal < 0 || ordinal >= int(driver().devices.size())) return nullptr;
  return driver().devices[size_t(ordinal)].get();
}

template <size_t bytes>
void put(char (&target)[bytes], std::string_view text) {
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

void put(uint32_t (&target)[3], const Dim3& value) {
  target[0] = value.x;
  target[1] = value.y;
  target[2] = value.z;
}

corrloom_sim_counters exported(const Counters& counters) {
  corrloom_sim_counters result{};
#define COUNTER(name) result.name = counters.name;
#include "runtime/sim/counters.def"
#undef COUNTER
  return result;
}

/// Bytes a second between the chip and its memory: two transfers a clock over the bus.
double memory_bandwidth(const DeviceLimits& limits) {
  return 2e3 * limits.memory_clock_khz * limits.memory_bus_bits / 8;
}

/// Instructions a second that the warp schedulers issue, four on each multiprocessor.
double issue_rate(const DeviceLimits& limits) {
  return 4e3 * limits.multiprocessors * limits.clock_khz;
}

double memory_seconds(const Counters& counters, const DeviceLimits& limits) {
  constexpr double kSectorBytes = 32;
  const auto sectors = double(counters.global_load_sectors + counters.global_store_sectors);
  return (sectors * kSectorBytes + double(counters.async_bytes)) / memory_bandwidth(limits);
}

double issue_seconds(const Counters& counters, const DeviceLimits& limits) {
  return double(counters.warp_instructions) / issue_rate(limits);
}

/// A string as JSON.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", unsigned(static_cast<unsigned char>(c)));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string json_of(const Dim3& d) {
  return "[" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + "]";
}

std::string json_of(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

std::string json_of(const LaunchRecord& launch, const DeviceLimits& limits) {
  return "{\"number\": " + std::to_string(launch.number) + ", \"kernel\": " + quoted(launch.kernel) +
         ", \"grid\": " + json_of(launch.grid) + ", \"block\": " + json_of(launch.block) +
         ", \"shared_bytes\": " + std::to_string(launch.shared_bytes) +
         ", \"registers_estimate\": " + std::to_string(launch.registers) +
         ", \"resident_blocks\": " + std::to_string(launch.resident_blocks) +
         ", \"resident_warps\": " + std::to_string(launch.resident_warps) +
         ", \"max_resident_warps\": " + std::to_string(launch.max_resident_warps) +
         ", \"error\": " + std::to_string(code_of(launch.error)) +
         ", \"host_seconds\": " + json_of(launch.host_seconds) +
         ", \"estimate_memory_seconds\": " + json_of(memory_seconds(launch.counters, limits)) +
         ", \"estimate_issue_seconds\": " + json_of(issue_seconds(launch.counters, limits)) +
         ", \"counters\": " + launch.counters.json() + "}";
}

std::string json_of(const Finding& finding) {
  return "{\"kind\": " + quoted(finding_name(finding.kind)) + ", \"kernel\": " + quoted(finding.kernel) +
         ", \"ptx_line\": " + std::to_string(finding.ptx_line) + ", \"instruction\": " + quoted(finding.instruction) +
         ", \"block\": " + json_of(finding.block) + ", \"thread\": " + json_of(finding.thread) +
         ", \"address\": " + std::to_string(finding.address) +
         ", \"access_bytes\": " + std::to_string(finding.access_bytes) + ", \"message\": " + quoted(finding.message) +
         ", \"other\": " + quoted(finding.other) + ", \"occurrences\": " + std::to_string(finding.occurrences) + "}";
}

std::string json_of(const Device& device) {
  const Profile& profile = device.profile;
  std::string text = "{\"device\": " + std::to_string(device.ordinal) + ", \"arch\": " + quoted(device.arch.name()) +
                     ", \"launch_count\": " + std::to_string(profile.launches()) + ",\n \"kernels\": [";
  const char* separator = "\n  ";
  for (const std::string& kernel : profile.kernels()) {
    const auto [launches, counters] = profile.total(kernel);
    text += separator + ("{\"kernel\": " + quoted(kernel)) + ", \"launches\": " + std::to_string(launches) +
            ", \"counters\": " + counters.json() + "}";
    separator = ",\n  ";
  }
  text += "],\n \"launches\": [";
  separator = "\n  ";
  for (const LaunchRecord& record : profile.records()) {
    text += separator + json_of(record, device.limits);
    separator = ",\n  ";
  }
  text += "],\n \"findings\": [";
  separator = "\n  ";
  for (const Finding& finding : profile.findings()) {
    text += separator + json_of(finding);
    separator = ",\n  ";
  }
  return text + "]}\n";
}

/// Writes as much of a text as fits.
size_t write(const std::string& text, char* buffer, size_t bytes) {
  if (buffer != nullptr && bytes != 0) {
    const size_t length = std::min(text.size(), bytes - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  return text.size();
}

/// Runs `call` so that nothing is thrown across the border.
template <class T, class Call>
T guarded(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return T{};
  }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED uint64_t corrloom_sim_launch_count(int device) {
  const Device* found = find_device(device);
  return found == nullptr ? 0 : found->profile.launches();
}

EXPORTED int corrloom_sim_get_launch(int device, uint64_t back, corrloom_sim_launch* launch) {
  return guarded<int>([&] {
    const Device* found = find_device(device);
    const std::optional<LaunchRecord> record = found == nullptr ? std::nullopt : found->profile.record(back);
    if (!record || launch == nullptr) return 0;
    *launch = {};
    launch->number = record->number;
    put(launch->kernel, record->kernel);
    put(launch->grid, record->grid);
    put(launch->block, record->block);
    launch->shared_bytes = record->shared_bytes;
    launch->registers = record->registers;
    launch->resident_blocks = record->resident_blocks;
    launch->resident_warps = record->resident_warps;
    launch->max_resident_warps = record->max_resident_warps;
    launch->error = int(code_of(record->error));
    launch->host_seconds = record->host_seconds;
    launch->estimate_memory_seconds = memory_seconds(record->counters, found->limits);
    launch->estimate_issue_seconds = issue_seconds(record->counters, found->limits);
    launch->counters = exported(record->counters);
    return 1;
  });
}

EXPORTED uint64_t corrloom_sim_get_total(int device, const char* kernel, corrloom_sim_counters* counters) {
  return guarded<uint64_t>([&]() -> uint64_t {
    const Device* found = find_device(device);
    if (found == nullptr) return 0;
    const auto [launches, sum] = found->profile.total(kernel == nullptr ? "" : kernel);
    if (counters != nullptr) *counters = exported(sum);
    return launches;
  });
}

EXPORTED uint64_t corrloom_sim_finding_count(int device) {
  return guarded<uint64_t>([&]() -> uint64_t {
    const Device* found = find_device(device);
    return found == nullptr ? 0 : found->profile.findings().size();
  });
}

EXPORTED int corrloom_sim_get_finding(int device, uint64_t index, corrloom_sim_finding* finding) {
  return guarded<int>([&] {
    const Device* found = find_device(device);
    if (found == nullptr || finding == nullptr) return 0;
    const std::vector<Finding> all = found->profile.findings();
    if (index >= all.size()) return 0;
    const Finding& one = all[index];
    *finding = {};
    put(finding->kind, finding_name(one.kind));
    put(finding->kernel, one.kernel);
    put(finding->instruction, one.instruction);
    put(finding->message, one.message);
    put(finding->other, one.other);
    finding->ptx_line = one.ptx_line;
    put(finding->block, one.block);
    put(finding->thread, one.thread);
    finding->address = one.address;
    finding->access_bytes = one.access_bytes;
    finding->occurrences = one.occurrences;
    return 1;
  });
}

EXPORTED size_t corrloom_sim_findings_text(int device, char* buffer, size_t bytes) {
  return guarded<size_t>([&]() -> size_t {
    const Device* found = find_device(device);
    std::string text;
    if (found != nullptr) {
      for (const Finding& finding : found->profile.findings()) text += finding.text();
    }
    return write(text, buffer, bytes);
  });
}

EXPORTED size_t corrloom_sim_json(int device, char* buffer, size_t bytes) {
  return guarded<size_t>([&]() -> size_t {
    const Device* found = find_device(device);
    return write(found == nullptr ? std::string() : json_of(*found), buffer, bytes);
  });
}

EXPORTED void corrloom_sim_clear(int device) {
  if (Device* found = find_device(device)) found->profile.clear();
}

EXPORTED void corrloom_sim_print_findings(int print) {
  if (initialised()) driver().report_to_stderr = print != 0;
}

}  // namespace corrloom::sim::driver
