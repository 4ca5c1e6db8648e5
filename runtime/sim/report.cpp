#include <algorithm>
#include <cstdio>

#include "runtime/sim/machine.h"

/// Findings and counters as text.
namespace corrloom::sim {
namespace {

std::string coordinates(const Dim3& d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

}  // namespace

std::string_view finding_name(FindingKind kind) {
  static constexpr std::string_view kNames[] = {"out of bounds",
                                                "use after free",
                                                "misaligned address",
                                                "shared memory out of bounds",
                                                "local memory out of bounds",
                                                "constant memory out of bounds",
                                                "write to read-only memory",
                                                "race",
                                                "uninitialised read",
                                                "divergent barrier",
                                                "barrier misuse",
                                                "invalid membermask",
                                                "shuffle from an inactive lane",
                                                "deadlock",
                                                "watchdog",
                                                "trap",
                                                "assertion",
                                                "stack overflow",
                                                "invalid program counter",
                                                "illegal instruction",
                                                "stale read-only load",
                                                "unsynchronised asynchronous copy",
                                                "missing proxy fence"};
  return kNames[size_t(kind)];
}

std::string Finding::text() const {
  std::string text = "simulated device: " + std::string(finding_name(kind)) + ": " + message + "\n";
  text += "  in kernel " + kernel + " at PTX line " + std::to_string(ptx_line) + ": " + instruction + "\n";
  text += "  block " + coordinates(block) + ", thread " + coordinates(thread);
  if (access_bytes != 0 || address != 0) {
    char number[40];
    std::snprintf(number, sizeof(number), "0x%llx", static_cast<unsigned long long>(address));
    text += ", address " + std::string(number);
    if (access_bytes != 0) text += " (" + std::to_string(access_bytes) + " bytes)";
  }
  text += "\n";
  if (!other.empty()) text += (kind == FindingKind::UninitialisedRead ? "  " : "  against the ") + other + "\n";
  if (occurrences > 1) text += "  seen " + std::to_string(occurrences) + " times\n";
  return text;
}

std::string LaunchResult::report() const {
  std::string text;
  for (const Finding& finding : findings) text += finding.text();
  return text;
}

Counters& Counters::operator+=(const Counters& other) {
#define COUNTER(name) name += other.name;
#include "runtime/sim/counters.def"
#undef COUNTER
  return *this;
}

std::string Counters::json() const {
  std::string text;
#define COUNTER(name)                \
  text += text.empty() ? "{" : ", "; \
  text += "\"" #name "\": ";         \
  text += std::to_string(name);
#include "runtime/sim/counters.def"
#undef COUNTER
  return text + "}";
}

std::optional<Checks> Checks::parse(std::string_view text) {
  if (text.empty() || text == "all") return Checks{};
  if (text == "none") return Checks::none();
  Checks checks = Checks::none();
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    if (name == "bounds") {
      checks.bounds = true;
    } else if (name == "races") {
      checks.races = true;
    } else if (name == "uninitialised") {
      checks.uninitialised = true;
    } else if (name == "barriers") {
      checks.barriers = true;
    } else if (name == "shuffles") {
      checks.shuffles = true;
    } else {
      return std::nullopt;
    }
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return checks;
}

}  // namespace corrloom::sim
