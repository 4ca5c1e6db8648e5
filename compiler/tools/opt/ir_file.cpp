#include "compiler/tools/opt/ir_file.h"

#include <map>

#include "compiler/api/values.h"
#include "compiler/frontend/frontend.h"
#include "compiler/tools/common/settings.h"
#include "ir/loop/text.h"
#include "ir/tensor/text.h"
#include "runtime/io/bytes.h"
#include "runtime/io/value.h"

namespace corrloom::tools {
namespace {

/// Generic ops are shown for packs of so many dimensions, and for the first dtype of each class.
constexpr std::size_t kPackRank = 2;
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

/// The values of `--set` that the op has, in its dtypes. Throws InputError for a value of another kind.
std::map<std::string, scalar::Value> attributes_for(const frontend::OpSignature& op, const Attributes& given) {
  std::map<std::string, scalar::Value> values;
  for (const frontend::AttributeSignature& attribute : op.attributes) {
    const auto found = given.find(attribute.name);
    if (found == given.end()) continue;
    values[attribute.name] = api::convert_attribute(found->second.value(), attribute.dtype,
                                                    "op `" + op.name + "`: attribute " + attribute.name);
  }
  return values;
}

std::optional<IrFile> lower_program(const SourceRef& source, const OptOptions& options, Diagnostics& diagnostics) {
  const std::optional<frontend::Program> program =
      frontend::Program::load(source, frontend::read_imports_from_disk(), diagnostics);
  if (!program) return std::nullopt;
  if (!options.op.empty() && program->find(options.op) == nullptr) {
    throw InputError("there is no op `" + options.op + "`; " + api::suggestion(options.op, program->op_names()));
  }
  const Attributes given = parse_attributes(options.attributes);
  IrFile file;
  const std::vector<frontend::OpSignature> ops =
      options.op.empty() ? program->ops() : std::vector{*program->find(options.op)};
  for (const frontend::OpSignature& op : ops) {
    std::optional<tensor::Graph> graph =
        program->lower(op.name, attributes_for(op, given), diagnostics, frontend::example_instance(op, kPackRank));
    if (graph) file.graphs.push_back(*std::move(graph));
  }
  return diagnostics.has_errors() ? std::nullopt : std::optional(std::move(file));
}

}  // namespace

bool is_loom(const std::string& path) {
  return path.ends_with(".loom");
}

SourceRef read_ir_source(const std::string& path) {
  if (!is_loom(path) && !path.ends_with(".tir") && !path.ends_with(".lir")) {
    throw io::UsageError("`" + path.substr(0, 200) + "`: wanted a file that ends in .loom, .tir or .lir");
  }
  const std::vector<unsigned char> bytes = io::InputFile(path).read_all(kMaxBytes);
  return std::make_shared<const SourceFile>(path, std::string(bytes.begin(), bytes.end()));
}

std::optional<IrFile> parse_ir(const SourceRef& source, const OptOptions& options, Diagnostics& diagnostics) {
  if (is_loom(source->name())) return lower_program(source, options, diagnostics);
  IrFile file;
  if (source->name().ends_with(".lir")) {
    std::optional<std::vector<loop::Function>> functions = loop::parse_all(source, diagnostics);
    if (!functions) return std::nullopt;
    file.functions = *std::move(functions);
    file.is_loop_ir = true;
    return file;
  }
  std::optional<std::vector<tensor::Graph>> graphs = tensor::parse_all(source, diagnostics);
  if (!graphs) return std::nullopt;
  file.graphs = *std::move(graphs);
  return file;
}

}  // namespace corrloom::tools
