#include "runtime/sim/driver/report.h"

#include <cstdio>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {
namespace {

/// Bytes a second between the chip and its memory: two transfers a clock over the bus.
double memory_bandwidth(const DeviceLimits& limits) {
  return 2e3 * limits.memory_clock_khz * limits.memory_bus_bits / 8;
}

/// Instructions a second that the warp schedulers issue, four on each multiprocessor.
double issue_rate(const DeviceLimits& limits) {
  return 4e3 * limits.multiprocessors * limits.clock_khz;
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
         (launch.assembled ? ", \"registers\": " : ", \"registers_estimate\": ") + std::to_string(launch.registers) +
         (launch.assembled ? ", \"spill_store_bytes\": " + std::to_string(launch.spill_store_bytes) +
                                 ", \"spill_load_bytes\": " + std::to_string(launch.spill_load_bytes)
                           : std::string()) +
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

}  // namespace

double memory_seconds(const Counters& counters, const DeviceLimits& limits) {
  constexpr double kSectorBytes = 32;
  const auto sectors = double(counters.global_load_sectors + counters.global_store_sectors);
  return (sectors * kSectorBytes + double(counters.async_bytes)) / memory_bandwidth(limits);
}

double issue_seconds(const Counters& counters, const DeviceLimits& limits) {
  return double(counters.warp_instructions) / issue_rate(limits);
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

}  // namespace corrloom::sim::driver
