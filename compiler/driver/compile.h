#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/disk_cache.h"
#include "compiler/passes/kernel_report.h"
#include "compiler/passes/pipeline.h"
#include "ir/base/diagnostics.h"
#include "ir/kernel/kernel.h"
#include "ir/tensor/graph.h"

namespace corrloom::driver {

struct CompileOptions {
  kernel::Target target;
  std::map<std::string, scalar::Value> bindings;  ///< constants for symbols, by name; other symbols stay arguments
  SourceRef schedule;                             ///< a schedule's text to use instead of the chosen one; may be null
  /// Inputs that stay the same for many calls, by name: kernels that only need those become preparing ones, and
  /// schedules take what they do for free.
  std::set<std::string> constants = {};
  bool keep_llvm = false;                       ///< also give the LLVM IR
  bool keep_assembly = false;                   ///< also give the host's assembly
  bool keep_reports = false;                    ///< also say what is known of each kernel, and what was weighed
  std::shared_ptr<const DiskCache> cache = {};  ///< where compiled code is kept; may be null. Not asked for the texts.
  passes::Observer observer = {};
};

/// A program and the texts of its levels.
struct Compiled {
  std::shared_ptr<const kernel::CompiledProgram> program;
  std::shared_ptr<const tensor::Graph> graph;  ///< what the tensor passes left
  std::string tensor_text, schedule_text, loop_text, llvm_text, assembly_text;
  std::vector<std::pair<std::string, std::chrono::nanoseconds>> times;  ///< of each step, in order
  std::vector<passes::KernelReport> reports;                            ///< by kernel, where they were asked for
  CacheKey cache_key;                                                   ///< what the code depends on
  bool from_cache = false;                                              ///< the code was compiled earlier
};

/// From a graph to a program for one target: tensor passes, schedule, loops, code. A program with dimensions that are
/// not bound takes calls that `check_call` accepts. Nothing when the user's program or
/// shapes are at fault, which is reported. Throws InternalError for our own faults.
std::optional<Compiled> compile(tensor::Graph graph, const CompileOptions& options, Diagnostics& diagnostics);

/// Judges a call of a program with open dimensions: reports what `compile` would report for the graph with these
/// values in place, its entry conditions and the bounds of its reads. False when there was an error.
bool check_call(tensor::Graph graph, const std::map<std::string, scalar::Value>& values, Diagnostics& diagnostics);

}  // namespace corrloom::driver
