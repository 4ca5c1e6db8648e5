#include "compiler/tools/opt/options.h"

#include <CLI/CLI.hpp>

#include "compiler/api/corrloom.h"
#include "compiler/tools/common/output.h"
#include "runtime/io/value.h"

namespace corrloom::tools {

std::optional<OptOptions> parse_opt_command_line(int argc, char** argv) {
  OptOptions options;
  CLI::App app{
      "corrloom-opt runs passes by name on the text of a program or of an IR level, and writes what comes out.",
      "corrloom-opt"};
  app.set_version_flag("--version", "corrloom-opt " + version(), "Show the version and exit");
  app.add_option("file", options.file, "a program (.loom), Tensor IR (.tir) or Loop IR (.lir)")->type_name("FILE");
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* help) {
    app.add_option(name, values, help)->type_name("NAME")->allow_extra_args(false);
  };
  list("--pass", options.passes, "run this pass; give it several times for several passes, in order");
  list("--print-before", options.print_before, "show the IR before this pass (`all`: before each)");
  list("--print-after", options.print_after, "show the IR after this pass (`all`: after each)");
  app.add_option("--bind", options.bindings, "put a constant in place of a dimension or scalar")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--set", options.attributes, "value of an attribute of a .loom op")
      ->type_name("ATTR=V")
      ->allow_extra_args(false);
  app.add_option("--op", options.op, "only this op of a .loom file")->type_name("NAME");
  app.add_option("--target", options.target, "host, or a PTX architecture")
      ->capture_default_str()
      ->type_name("host|sm_XX");
  app.add_option("--features", options.features, "the processor's features instead of this machine's")
      ->type_name("+NAME,...");
  app.add_flag("--pipeline", options.pipeline, "run all Tensor IR passes, before those of --pass");
  app.add_flag("--lower", options.lower, "schedule the graphs and lower them to Loop IR");
  app.add_flag("--schedule", options.schedule, "write the schedule instead of the graph");
  app.add_option("--use-schedule", options.use_schedule, "lower with the schedule in this file")->type_name("FILE");
  app.add_flag("--time", options.time, "say on standard error how long each pass took and what it counted");
  app.add_flag("--list-passes", options.list_passes, "list the passes and exit");
  app.add_flag("--parse-tree", options.parse_tree, "write the syntax tree of a .loom file");
  app.add_flag("--expect-errors", options.expect_errors,
               "succeed when exactly the errors occur that comments on the guilty lines announce: `# error[E0207]: "
               "text`, `// error: T7`");
  app.footer(R"(
Examples:
  corrloom-opt conv.loom --op corr2d --bind H=5 --bind W=7 --bind P=2 --bind Q=3 --pipeline
  corrloom-opt fold.tir --pass=compose_views --pass=remove_dead_ops
  corrloom-opt window.tir --pipeline --lower --pass=flatten_indices --target sm_80
)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_result(app.help());
    return std::nullopt;
  } catch (const CLI::CallForVersion& text) {
    write_result(std::string(text.what()) + "\n");
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw io::UsageError(std::string(error.what()) + "\n  help: see `corrloom-opt --help`");
  }
  if (options.file.empty() && !options.list_passes)
    throw io::UsageError("a file is missing\n  help: see `corrloom-opt --help`");
  return options;
}

}  // namespace corrloom::tools
