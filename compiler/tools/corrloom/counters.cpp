#include "compiler/tools/corrloom/counters.h"

#include <fmt/format.h>

#include <vector>

#include "runtime/backend.h"

namespace corrloom::tools {
namespace {

using Json = nlohmann::json;
using JsonFunction = std::size_t (*)(int device, char* buffer, std::size_t bytes);
using ClearFunction = void (*)(int device);

/// `1.23 M`
std::string short_number(double value) {
  const char* suffix = "";
  for (const char* next : {" k", " M", " G"}) {
    if (value < 1e4) break;
    value /= 1e3;
    suffix = next;
  }
  return fmt::format("{:.{}f}{}", value, *suffix == '\0' ? 0 : 1, suffix);
}

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.2f} us", seconds * 1e6) : fmt::format("{:.3f} ms", seconds * 1e3);
}

std::string line_of(const Json& launch) {
  const Json& counters = launch.at("counters");
  const auto count = [&](const char* name) { return counters.at(name).get<double>(); };
  const double instructions = count("warp_instructions");
  const double sectors = count("global_load_sectors") + count("global_store_sectors");
  const double requests = count("global_load_requests") + count("global_store_requests");
  const double memory = launch.at("estimate_memory_seconds").get<double>();
  const double issue = launch.at("estimate_issue_seconds").get<double>();
  return fmt::format("  {:<24} {:>9} {:>7.1f} {:>9} {:>8.1f} {:>9} {:>9} {:>8.0f}% {:>11} {}\n",
                     launch.at("kernel").get<std::string>().substr(0, 24), short_number(instructions),
                     instructions > 0 ? count("thread_instructions") / instructions : 0, short_number(sectors * 32),
                     requests > 0 ? sectors / requests : 0,
                     short_number(count("shared_load_wavefronts") + count("shared_store_wavefronts")),
                     short_number(count("shared_bank_conflicts")),
                     100 * launch.at("resident_warps").get<double>() / launch.at("max_resident_warps").get<double>(),
                     time_text(std::max(memory, issue)), memory >= issue ? "memory" : "issue");
}

}  // namespace

std::optional<Json> count_launches(Device device, const std::function<void()>& run) {
  if (device.is_cpu()) return std::nullopt;
  const auto read = reinterpret_cast<JsonFunction>(runtime::cuda_symbol("corrloom_sim_json"));
  const auto clear = reinterpret_cast<ClearFunction>(runtime::cuda_symbol("corrloom_sim_clear"));
  if (read == nullptr || clear == nullptr) return std::nullopt;
  clear(device.index());
  run();
  synchronise(device);
  std::vector<char> text(read(device.index(), nullptr, 0) + 1);
  read(device.index(), text.data(), text.size());
  const Json report = Json::parse(text.data(), nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("launches")) return std::nullopt;
  return report.at("launches");
}

std::string counters_table(const Json& launches) {
  std::string text = fmt::format(
      "simulated: its times are not a GPU's; what one run counts (estimate: the least time by bandwidth and issue "
      "rate)\n  {:<24} {:>9} {:>7} {:>9} {:>8} {:>9} {:>9} {:>9} {:>11}\n",
      "kernel", "warp inst", "lanes", "bytes", "sect/req", "sh. waves", "conflicts", "occupancy", "estimate");
  for (const Json& launch : launches) text += line_of(launch);
  return text;
}

}  // namespace corrloom::tools
