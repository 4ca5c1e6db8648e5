#include <algorithm>

#include "compiler/frontend/format.h"
#include "compiler/frontend/parser.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/commands.h"
#include "ir/base/errors.h"
#include "runtime/io/bytes.h"

namespace corrloom::tools {
namespace {

std::string read_text(const std::string& path) {
  const io::InputFile file(path);
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(file.byte_count(), frontend::kMaxSourceBytes + 1)),
                   '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  io::OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace

ExitCode fmt_command(const Options& options) {
  const auto source = std::make_shared<const SourceFile>(options.program, read_text(options.program));
  Diagnostics diagnostics;
  const frontend::ast::File file = frontend::parse(source, diagnostics);
  if (diagnostics.has_errors()) throw CompileError(diagnostics.render());
  const std::string text = frontend::format(file);
  const bool changed = text != source->text();
  if (options.only_check) {
    if (changed) write_message(options.program + " is not in canonical form");
    return changed ? ExitCode::WrongProgram : ExitCode::Done;
  }
  if (!options.in_place)
    write_result(text);
  else if (changed)
    write_text(options.program, text);
  return ExitCode::Done;
}

}  // namespace corrloom::tools
