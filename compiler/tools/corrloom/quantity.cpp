#include "compiler/tools/corrloom/quantity.h"

#include <fmt/format.h>

namespace corrloom::tools {
namespace {

/// With a prefix for thousands, and three digits at least where there is one.
std::string scaled(double value, const char* unit) {
  const char* prefix = "";
  for (const char* next : {"K", "M", "G", "T"}) {
    if (value < 1e3) break;
    value /= 1e3;
    prefix = next;
  }
  return fmt::format("{:.{}f} {}{}", value, *prefix == '\0' ? 0 : value < 10 ? 2 : 1, prefix, unit);
}

}  // namespace

std::string time_text(double us) {
  if (us < 1) return fmt::format("{:.1f} ns", us * 1e3);
  if (us < 1e3) return fmt::format("{:.2f} us", us);
  return us < 1e6 ? fmt::format("{:.3f} ms", us / 1e3) : fmt::format("{:.3f} s", us / 1e6);
}

std::string count_text(double value) {
  std::string text = scaled(value, "");
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string bytes_text(double bytes) {
  return scaled(bytes, "B");
}

}  // namespace corrloom::tools
