#include "ir/kernel/target.h"

namespace corrloom::kernel {
namespace {

/// One PTX architecture.
struct Arch {
  std::string_view name;
  int compute_capability;
};
constexpr Arch kArchs[] = {{"sm_75", 75},    {"sm_80", 80},    {"sm_86", 86},   {"sm_87", 87},    {"sm_88", 88},
                           {"sm_89", 89},    {"sm_90", 90},    {"sm_90a", 90},  {"sm_100", 100},  {"sm_100a", 100},
                           {"sm_103", 103},  {"sm_103a", 103}, {"sm_110", 110}, {"sm_110a", 110}, {"sm_120", 120},
                           {"sm_120a", 120}, {"sm_121", 121},  {"sm_121a", 121}};

}  // namespace

std::optional<Target> ptx_target(std::string_view arch) {
  for (const Arch& known : kArchs) {
    if (known.name != arch) continue;
    Target target;
    target.kind = TargetKind::Ptx;
    target.name = target.cpu = std::string(known.name);
    target.compute_capability = known.compute_capability;
    target.vector_bytes = 16;
    target.reduction_lanes = 1;
    return target;
  }
  return std::nullopt;
}

std::string known_ptx_targets() {
  std::string out;
  for (const Arch& known : kArchs) out += (out.empty() ? "" : " ") + std::string(known.name);
  return out;
}

std::string print(const Target& target) {
  std::string out;
  const auto line = [&](const char* name, const std::string& value) {
    out += std::string(name) + " = " + value + "\n";
  };
  line("kind", target.kind == TargetKind::Host ? "host" : "ptx");
  line("name", target.name);
  line("cpu", target.cpu);
  line("features", target.features);
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"vector_bytes", target.vector_bytes}, {"vector_registers", target.vector_registers},
      {"l1_bytes", target.l1_bytes},         {"l2_bytes", target.l2_bytes},
      {"l3_bytes", target.l3_bytes},         {"threads", target.threads},
      {"miniature", target.miniature},       {"reduction_lanes", target.reduction_lanes},
      {"warp_size", target.warp_size},       {"max_threads_per_block", target.max_threads_per_block},
      {"shared_bytes", target.shared_bytes}, {"compute_capability", target.compute_capability}};
  for (const auto& [name, value] : numbers) line(name, std::to_string(value));
  return out;
}

}  // namespace corrloom::kernel
