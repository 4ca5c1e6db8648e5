#include "compiler/tools/common/settings.h"

#include <cctype>
#include <set>

#include "runtime/io/value.h"

namespace corrloom::tools {
namespace {

/// What a message shows of a text that may be very long.
std::string shown(const std::string& text) {
  constexpr std::size_t kMost = 80;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

bool is_name(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) return false;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

AttributeValue parse_attribute(const std::string& name, const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  scalar::Value value;
  if (scalar::parse_value(text, DType::I64, value)) return value.as_i64();
  if (scalar::parse_value(text, DType::F64, value)) return value.as_f64();
  throw io::UsageError("--set " + name + "=" + shown(text) + ": wanted an int, a float, `true` or `false`");
}

}  // namespace

std::pair<std::string, std::string> split_setting(const std::string& text, const std::string& form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || !is_name(text.substr(0, equals)))
    throw io::UsageError("`" + shown(text) + "`: wanted " + form);
  if (equals + 1 == text.size()) throw io::UsageError("`" + shown(text) + "`: nothing after `=`; wanted " + form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> split_settings(const std::vector<std::string>& texts,
                                                                const std::string& form) {
  std::vector<std::pair<std::string, std::string>> settings;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    settings.push_back(split_setting(text, form));
    const std::string& name = settings.back().first;
    if (!names.insert(name).second) throw io::UsageError("`" + shown(name) + "` is given twice");
  }
  return settings;
}

Attributes parse_attributes(const std::vector<std::string>& texts) {
  Attributes attributes;
  for (const auto& [name, text] : split_settings(texts, "--set ATTRIBUTE=VALUE"))
    attributes.emplace(name, parse_attribute(name, text));
  return attributes;
}

}  // namespace corrloom::tools
