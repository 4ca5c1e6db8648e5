#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/opt/options.h"
#include "ir/base/diagnostics.h"
#include "ir/loop/function.h"
#include "ir/tensor/graph.h"

namespace corrloom::tools {

/// What a file holds: graphs of a `.tir` or `.loom` file, or functions of a `.lir` file.
struct IrFile {
  std::vector<tensor::Graph> graphs;
  std::vector<loop::Function> functions;
  bool is_loop_ir = false;
};

/// Throws UsageError for another suffix, RuntimeError when the file cannot be read.
SourceRef read_ir_source(const std::string& path);
bool is_loom(const std::string& path);

/// Parses the text; ops of a `.loom` file are lowered. Nothing after an error.
std::optional<IrFile> parse_ir(const SourceRef& source, const OptOptions& options, Diagnostics& diagnostics);

}  // namespace corrloom::tools
