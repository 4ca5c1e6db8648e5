#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/pipeline.h"
#include "ir/base/diagnostics.h"
#include "ir/kernel/kernel.h"
#include "ir/tensor/graph.h"

namespace corrloom::driver {

struct CompileOptions {
  kernel::Target target;
  std::map<std::string, scalar::Value> bindings;  ///< constants for symbols, by name; dimensions must all be bound
  SourceRef schedule;                             ///< a schedule's text to use instead of the chosen one; may be null
  bool keep_llvm = false;                         ///< also give the LLVM IR
  bool keep_assembly = false;                     ///< also give the host's assembly
  passes::Observer observer = {};
};

/// A program and the texts of its levels.
struct Compiled {
  std::shared_ptr<const kernel::CompiledProgram> program;
  std::string tensor_text, schedule_text, loop_text, llvm_text, assembly_text;
  std::vector<std::pair<std::string, std::chrono::nanoseconds>> times;  ///< of each step, in order
};

/// From a graph to a program for one target: tensor passes, schedule, loops, code. Nothing when the user's program or
/// shapes are at fault, which is reported. Throws InternalError for our own faults.
std::optional<Compiled> compile(tensor::Graph graph, const CompileOptions& options, Diagnostics& diagnostics);

}  // namespace corrloom::driver
