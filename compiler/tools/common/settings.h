#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/api/corrloom.h"

namespace corrloom::tools {

/// `NAME=TEXT` of the command line. Throws UsageError when there is no `=` or no name before it; `form` is what is
/// wanted, for example `NAME=VALUE`.
std::pair<std::string, std::string> split_setting(const std::string& text, const std::string& form);

/// All of them, in order. Throws UsageError also when a name is given twice.
std::vector<std::pair<std::string, std::string>> split_settings(const std::vector<std::string>& texts,
                                                                const std::string& form);

/// `--set ATTR=V`: an int, a float, `true` or `false`. Throws UsageError when it is none of them.
Attributes parse_attributes(const std::vector<std::string>& texts);

}  // namespace corrloom::tools
