#include <algorithm>
#include <cstring>

#include "runtime/sim/driver/corrloom_sim.h"
#include "runtime/sim/driver/report.h"
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
    launch->assembled = record->assembled;
    launch->spill_store_bytes = record->spill_store_bytes;
    launch->spill_load_bytes = record->spill_load_bytes;
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
