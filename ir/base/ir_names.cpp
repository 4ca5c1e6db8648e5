#include "ir/base/ir_names.h"

namespace corrloom {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// A name without the number that `make_unique` adds.
std::string_view without_number(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && is_digit(name[end - 1])) --end;
  const bool numbered = end < name.size() && end > 1 && name[end - 1] == '.';
  return numbered ? name.substr(0, end - 1) : name;
}

}  // namespace

std::string as_ir_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (!is_letter(c) && !is_digit(c) && c != '.') c = '_';
  }
  if (out.empty() || !is_letter(out[0])) out = "_" + out;
  // `.other` marks the right-hand side of a merge.
  constexpr std::string_view kOther = ".other";
  if (out.ends_with(kOther)) out[out.size() - kOther.size()] = '_';
  return out;
}

IrNames IrNames::with_reserved_words() {
  IrNames names;
  for (const char* word : {"true", "false", "inf", "nan", "edge", "reflect", "wrap"}) names.taken_.insert(word);
  return names;
}

std::string IrNames::make_unique(std::string_view wanted) {
  std::string name = as_ir_name(wanted);
  const std::string base(without_number(name));
  for (int number = 1; !taken_.insert(name).second; ++number) name = base + "." + std::to_string(number);
  return name;
}

}  // namespace corrloom
