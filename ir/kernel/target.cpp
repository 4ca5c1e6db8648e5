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

}  // namespace corrloom::kernel
