#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

/// The error slot: one 64-bit word of device memory that a launch's data-dependent checks report into. Its argument
/// (`Argument::Kind::ErrorSlot`) is the word's address. It starts as `kNoFault`; a check that fails does one unsigned
/// atomic minimum with `encode_fault(site, value)`, so that the lowest site and, within it, the lowest offending value
/// win, whatever the order of the threads.
namespace corrloom::kernel {

inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
/// Sites are 16 bits (65535 is not one), values 48 bits with a bias.
inline constexpr std::size_t kFaultSites = 65535;
inline constexpr int kFaultValueBits = 48;
inline constexpr std::int64_t kFaultValueBias = std::int64_t{1} << (kFaultValueBits - 1);

/// The word for a failed check: `site` in [0, 65534]; `value`, what the message names (the subscript that left its
/// range), is clamped to 48 signed bits.
constexpr std::uint64_t encode_fault(std::int64_t site, std::int64_t value) {
  const std::int64_t clamped = std::clamp(value, -kFaultValueBias, kFaultValueBias - 1);
  return (static_cast<std::uint64_t>(site) << kFaultValueBits) | static_cast<std::uint64_t>(clamped + kFaultValueBias);
}
constexpr std::int64_t fault_site(std::uint64_t word) {
  return static_cast<std::int64_t>(word >> kFaultValueBits);
}
constexpr std::int64_t fault_value(std::uint64_t word) {
  return static_cast<std::int64_t>(word & ((std::uint64_t{1} << kFaultValueBits) - 1)) - kFaultValueBias;
}

/// The value as a message shows it; one at the end of what the word can say may have been beyond it.
inline std::string fault_value_text(std::uint64_t word) {
  const std::int64_t value = fault_value(word);
  const bool is_least = value == -kFaultValueBias, is_most = value == kFaultValueBias - 1;
  return std::to_string(value) + (is_least ? " or less" : is_most ? " or more" : "");
}

}  // namespace corrloom::kernel
