#include "compiler/codegen/host_target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace corrloom::codegen {
namespace {

using Features = llvm::StringMap<bool, llvm::MallocAllocator>;

/// `+avx2,-avx512f,...` in the order of the names, so that equal processors give equal text.
std::string feature_text(const Features& features) {
  std::vector<std::string> parts;
  for (const auto& feature : features) parts.push_back((feature.second ? "+" : "-") + feature.first().str());
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.substr(1) < b.substr(1); });
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

/// `48K`, `2048K`, `32M` in bytes; 0 for anything else.
std::int64_t parse_cache_bytes(const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && digits < 12 && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0) return 0;
  const std::int64_t number = std::stoll(text.substr(0, digits));
  const std::string unit = text.substr(digits);
  return unit == "K"    ? number << 10
         : unit == "M"  ? number << 20
         : unit == "G"  ? number << 30
         : unit.empty() ? number
                        : 0;
}

std::string first_word(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// Reads the caches of the first processor; what the system does not tell keeps its default.
void read_caches(kernel::Target& target) {
  const std::filesystem::path folder = "/sys/devices/system/cpu/cpu0/cache";
  for (int index = 0; index < 8; ++index) {
    const std::filesystem::path cache = folder / ("index" + std::to_string(index));
    const std::string level = first_word(cache / "level");
    const std::int64_t bytes = parse_cache_bytes(first_word(cache / "size"));
    if (bytes <= 0 || first_word(cache / "type") == "Instruction") continue;
    if (level == "1") target.l1_bytes = bytes;
    if (level == "2") target.l2_bytes = bytes;
    if (level == "3") target.l3_bytes = bytes;
  }
}

void set_vector_registers(kernel::Target& target, const Features& features) {
  target.vector_bytes = 16;
  target.vector_registers = 16;
  if (features.lookup("neon")) target.vector_registers = 32;
  if (features.lookup("avx")) target.vector_bytes = 32;
  if (features.lookup("avx512f") && features.lookup("avx512vl")) {
    target.vector_bytes = 64;
    target.vector_registers = 32;
  }
}

kernel::Target probe() {
  const Features features = llvm::sys::getHostCPUFeatures();
  kernel::Target target;
  target.kind = kernel::TargetKind::Host;
  target.name = "host";
  target.cpu = llvm::sys::getHostCPUName().str();
  target.features = feature_text(features);
  target.warp_size = 1;
  target.max_threads_per_block = 1;
  target.shared_bytes = 0;
  set_vector_registers(target, features);
  read_caches(target);
  return target;
}

}  // namespace

kernel::Target host_target() {
  static const kernel::Target target = probe();
  return target;
}

}  // namespace corrloom::codegen
