#pragma once

#include <optional>
#include <string>
#include <vector>

namespace corrloom::tools {

enum class Command { Run, Bench, Explain, Emit, Check, Fmt, Grad, Devices, CacheList, CacheClear, CacheWhy };

/// A command line as written; nothing is looked up yet.
struct Options {
  Command command = Command::Run;
  std::string program;                  ///< `FILE.loom[:OP]`
  std::vector<std::string> settings;    ///< `NAME=VALUE` or `NAME=TYPE`
  std::vector<std::string> attributes;  ///< `ATTR=V`
  std::vector<std::string> outputs;     ///< `NAME=PATH` (run)
  std::string device = "cpu";
  int threads = 0;  ///< 0: as the environment says
  int repeat = 0;   ///< 0: until the median is stable (bench)
  bool json = false;
  std::string stage;                          ///< (emit)
  std::string target;                         ///< (emit, cache why); empty: what suits the stage, or the host
  std::string output;                         ///< path (emit); empty: standard output
  std::vector<std::string> constants;         ///< tensors that stay the same for many calls (bench, explain)
  std::string dynamic;                        ///< names of open dimensions, or `*` for all (run, bench, check)
  std::string schedule;                       ///< path of a schedule's text; empty: the chosen one
  bool in_place = false, only_check = false;  ///< (fmt)
  std::vector<std::string> wrt;               ///< arguments; empty: every float one (grad)
  std::string name;                           ///< of the derivative; empty: `d_OP` (grad)
  std::string intermediates = "cost";         ///< cost, keep or recompute (grad)
  std::vector<std::string> keep, recompute;   ///< intermediates (grad)
  bool with_values = false;                   ///< the results of the op, too (grad)
  bool explain = false;                       ///< what becomes of intermediates (grad)
};

/// Reads a command line. Nothing when it asked for help or the version, which are then written to standard output.
/// Throws UsageError.
std::optional<Options> parse_command_line(int argc, char** argv);

}  // namespace corrloom::tools
