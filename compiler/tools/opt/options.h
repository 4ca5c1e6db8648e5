#pragma once

#include <optional>
#include <string>
#include <vector>

namespace corrloom::tools {

/// A command line of `corrloom-opt`.
struct OptOptions {
  std::string file;
  std::string op;                       ///< of a `.loom` file; empty: all of them
  std::vector<std::string> attributes;  ///< `ATTR=V`
  std::vector<std::string> passes;
  std::vector<std::string> print_before, print_after;  ///< names of passes, or `all`
  std::vector<std::string> bindings;                   ///< `NAME=VALUE`
  std::string target = "host";
  std::string features;      ///< of the processor, instead of this machine's: `+avx2,+avx512vnni`
  std::string use_schedule;  ///< path
  bool pipeline = false, lower = false, schedule = false, time = false, list_passes = false, expect_errors = false,
       parse_tree = false;
};

/// Reads a command line. Nothing when it asked for help or the version, which are then written. Throws UsageError.
std::optional<OptOptions> parse_opt_command_line(int argc, char** argv);

}  // namespace corrloom::tools
