#pragma once

#include <string>

namespace corrloom::tools {

/// `12.50 us`, `1.234 ms`, `2.100 s`
std::string time_text(double us);
/// `1.23 M`
std::string count_text(double value);
/// `840 B`, `1.5 KB`, `67.1 MB`: powers of 1000, as bandwidths have them.
std::string bytes_text(double bytes);

}  // namespace corrloom::tools
