#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "compiler/passes/choice.h"
#include "ir/base/diagnostics.h"
#include "ir/kernel/target.h"
#include "ir/scalar/value.h"

namespace corrloom::passes {

/// What passes may ask and where they report: the target, the value bound to each symbol of the graph, and counters for
/// `--time`.
struct PassContext {
  kernel::Target target;
  /// Constants that `specialise` puts in place of symbols, by symbol name; a symbol that is missing stays symbolic.
  std::map<std::string, scalar::Value> bindings;
  /// Faults of the user's program or of the shapes it is specialised for. A pass that reports here returns its input
  /// unchanged or partly changed.
  Diagnostics diagnostics;
  std::map<std::string, std::int64_t> counters;
  /// Inputs that stay the same for many calls, by name: what is made of them alone costs nothing in a call.
  std::set<std::string> constants;
  /// Where `choose_schedule` notes what it weighed; may be null.
  Choices* choices = nullptr;

  void count(std::string_view what, std::int64_t by = 1) { counters[std::string(what)] += by; }
};

}  // namespace corrloom::passes
