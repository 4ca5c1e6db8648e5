#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/api/corrloom.h"
#include "ir/kernel/target.h"

namespace corrloom::tools {

/// What running an op in every way showed.
struct Verdict {
  /// Why the call was refused before it ran, everywhere alike; empty when it ran.
  std::string refusal;
  /// The first difference: who, and in what. Empty: all agree.
  std::string difference;
  /// One line a result, for people.
  std::vector<std::string> notes;
  /// The graph that the passes left for the host with known dimensions, the schedule that was chosen for it, and the
  /// loops that it gave.
  std::string graph, schedule, loops;
  /// Whether the schedule that was made of the chosen one compiled.
  bool takes_schedule = false;
};

/// In which orders `judge` runs an op: its own alone, with known dimensions, costs a third.
enum class Orders { StrictAndOwn, Own };

/// How `judge` compiles for the host.
struct HostSetting {
  /// Another machine than this one, on which its code runs all the same.
  std::optional<kernel::Target> target = {};
  /// Makes another schedule of the one that is chosen for known dimensions. It may be refused; else the bits are the
  /// same.
  std::function<std::string(const std::string& chosen)> rewrite = {};
};

/// Runs the op on the arguments (tensors on the host) by the interpreter, and compiled for each device: in strict
/// order, where the bits must be those of the program as written; in its own order, where they must be those of the
/// graph that it was compiled from, also with every dimension left open; three times in a row, on one and on several
/// threads. An input error must appear everywhere or nowhere. Throws CompileError when the op does not compile for
/// these arguments.
Verdict judge(const Op& op, const std::vector<Argument>& arguments, const std::vector<Device>& devices,
              Orders orders = Orders::StrictAndOwn, const HostSetting& host = {});

}  // namespace corrloom::tools
