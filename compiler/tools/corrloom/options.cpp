#include "compiler/tools/corrloom/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "compiler/api/corrloom.h"
#include "compiler/api/values.h"
#include "compiler/tools/common/output.h"
#include "runtime/io/value.h"

namespace corrloom::tools {
namespace {

constexpr const char* kValueHelp = R"(
A VALUE is a file (x.npy, w.npz:key, w.safetensors:key, img.png, img.pgm: u8, [H,W] or [C,H,W]), a number, or generated:
randn[3,5], rand[3,5], randint(0,10)[4,4]:i32, arange[6], arange(1,2)[6], zeros[2,3], ones[2,3], full(0.5)[2,3],
extremes[2,3] (infinities, NaN, -0, ends of the range among ordinary numbers); `:dtype` and `@seed` may follow.
)";
constexpr const char* kExitCodes = R"(
Exit codes: 0 done; 1 the program or its inputs are wrong; 2 usage; 3 the machine failed (device, memory, files); 4 internal
error. Results go to standard output, everything else to standard error.
)";

void add_program(CLI::App& command, Options& options) {
  command.add_option("program", options.program, "the file, and the op if it has several")
      ->required()
      ->type_name("FILE.loom[:OP]");
}

void add_settings(CLI::App& command, Options& options, const std::string& form) {
  command.add_option("settings", options.settings, "one for each tensor and scalar parameter")->type_name(form);
}

void add_attributes(CLI::App& command, Options& options) {
  command.add_option("--set", options.attributes, "value of an attribute: an int, a float, true or false")
      ->type_name("ATTR=V")
      ->allow_extra_args(false);
}

void add_schedule(CLI::App& command, Options& options) {
  command
      .add_option("--schedule", options.schedule, "use the schedule in this file (`emit --stage schedule` writes one)")
      ->type_name("FILE");
}

/// What is wrong with a list of names as `N,H`; empty: nothing.
std::string fault_of_names(const std::string& list) {
  std::set<std::string> names;
  std::istringstream parts(list + ",");
  for (std::string name; std::getline(parts, name, ',');) {
    if (name.empty()) return "wanted names as N,H, found `" + list.substr(0, 80) + "`";
    if (!names.insert(name).second) return "`" + name.substr(0, 80) + "` is named twice";
  }
  return "";
}

void add_dynamic(CLI::App& command, Options& options) {
  command
      .add_flag("--dynamic{*}", options.dynamic,
                "leave dimensions open when compiling: all of them, or --dynamic=N,H; results have the same bits")
      ->check(fault_of_names);
}

void add_machine(CLI::App& command, Options& options) {
  command.add_option("--device", options.device, "where to run: cpu, cuda or cuda:N")
      ->capture_default_str()
      ->type_name("DEVICE");
  command
      .add_option("--threads", options.threads,
                  "threads of the host, 1 to 1024 (default: CORRLOOM_NUM_THREADS, else all processors)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
}

void add_constants(CLI::App& command, Options& options) {
  command
      .add_option(
          "--constant", options.constants,
          "tensors that stay the same for many calls, as K or K,b: they are packed before the runs that are measured")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void add_run(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("run", "Run an op and show or save its results");
  add_program(*command, options);
  add_settings(*command, options, "NAME=VALUE");
  command
      ->add_option("-o", options.outputs,
                   "save a result as .npy, .npz, .safetensors, .png, .pgm or .ppm; without -o, results are shown")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false);
  add_attributes(*command, options);
  add_machine(*command, options);
  add_dynamic(*command, options);
  add_schedule(*command, options);
  command->footer(std::string(kValueHelp) + R"(
Examples:
  corrloom run conv.loom:corr2d X=arange[5,7] K=ones[2,3]
  corrloom run conv.loom:conv2d X=img.npy K=w.npz:kernel b=zeros[8] --set stride=2 -o Y=y.npy
  corrloom run edges.loom:edges X=photo.png -o Y=edges.png
)");
}

void add_bench(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("bench", "Measure how long an op takes");
  add_program(*command, options);
  add_settings(*command, options, "NAME=VALUE");
  add_attributes(*command, options);
  add_machine(*command, options);
  command
      ->add_option("--repeat", options.repeat, "measure exactly this many runs (default: until the median is stable)")
      ->check(CLI::Range(1, 1000000000))
      ->type_name("N");
  command->add_flag("--json", options.json, "print one JSON object on one line");
  add_constants(*command, options);
  add_dynamic(*command, options);
  add_schedule(*command, options);
  command->footer(std::string(kValueHelp) + R"(
Examples:
  corrloom bench conv.loom:corr2d_multi_in_out X=randn[3,1920,1080] K=randn[2,3,1,1] --threads 1
  corrloom bench conv.loom:corr2d X=randn[512,512] K=randn[3,3] --repeat 100 --json
  corrloom bench conv.loom:conv X=randn[64,56,56] K=randn[64,64,3,3] --constant K
)");
}

void add_explain(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("explain", "Say where the time of an op goes, and what bounds it");
  add_program(*command, options);
  add_settings(*command, options, "NAME=VALUE");
  add_attributes(*command, options);
  add_machine(*command, options);
  command->add_flag("--json", options.json, "print one JSON object on one line");
  add_constants(*command, options);
  add_schedule(*command, options);
  command->footer(std::string(kValueHelp) + R"(
Runs the op, and measures what the machine does at most. docs/explain.md tells what each line means.

Examples:
  corrloom explain conv.loom:corr2d_multi_in_out X=randn[3,1920,1080] K=randn[2,3,1,1] --threads 1
  corrloom explain std:softmax X=randn[4096,1024]
)");
}

void add_emit(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("emit", "Show what an op becomes: a level of the compiler, assembly or PTX");
  add_program(*command, options);
  add_settings(*command, options, "NAME=TYPE");
  command->add_option("--stage", options.stage, "tensor, schedule, loop, llvm, asm, ptx or cubin")
      ->required()
      ->check(CLI::IsMember({"tensor", "schedule", "loop", "llvm", "asm", "ptx", "cubin"}))
      ->type_name("STAGE");
  command
      ->add_option("--target", options.target, "host, or a PTX architecture (default: host; sm_80 for ptx and cubin)")
      ->check([](const std::string& target) { return std::string(target.empty() ? "wanted host or sm_XX" : ""); })
      ->type_name("host|sm_XX");
  command->add_option("-o", options.output, "write to a file instead of standard output")->type_name("PATH");
  add_attributes(*command, options);
  add_schedule(*command, options);
  command->footer(R"(
A TYPE is a dtype with extents: f32[3,1920,1080]; `?` leaves one open, f32[?,1920], and the code takes any. A scalar
parameter may be given as NAME=NUMBER; it must be when it decides ranges or subscripts. `cubin` needs `ptxas` on PATH. No device is needed.

Examples:
  corrloom emit conv.loom:corr2d X=f32[5,7] K=f32[2,3] --stage tensor
  corrloom emit conv.loom:corr2d X=f32[?,?] K=f32[2,3] --stage ptx --target sm_90a
  corrloom emit conv.loom:corr2d X=f32[5,7] K=f32[2,3] --stage cubin --target sm_86 -o corr2d.cubin
)");
}

void add_check(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("check", "Check a program; with values, compare the interpreter and the compiled op");
  add_program(*command, options);
  add_settings(*command, options, "NAME=VALUE");
  add_attributes(*command, options);
  add_machine(*command, options);
  command->footer(std::string(kValueHelp) + R"(
Without values: reports every error, and shows each op with the ranges of its indices and what must hold at entry; an op that is
named is also run on small values that are made up. The command fails unless the results are those of the interpreter, bit for
bit, and the laws that its definition implies hold. docs/check.md tells what is compared and which laws there are.

Examples:
  corrloom check conv.loom
  corrloom check conv.loom:corr2d
  corrloom check conv.loom:corr2d X=randn[5,7] K=randn[2,3]
)");
}

void add_fmt(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("fmt", "Write a program in its canonical form");
  command->add_option("file", options.program, "the program")->required()->type_name("FILE.loom");
  command->add_flag("-i,--in-place", options.in_place, "change the file instead of writing to standard output");
  command->add_flag("--check", options.only_check, "write nothing; exit code 1 when the file is not in canonical form");
  command->footer(R"(
Examples:
  corrloom fmt conv.loom
  corrloom fmt -i conv.loom
)");
}

void add_grad(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("grad", "Write the derivative of an op as index notation");
  add_program(*command, options);
  const auto add_names = [&](const char* flag, std::vector<std::string>& names, const char* help) {
    command->add_option(flag, names, help)->delimiter(',')->allow_extra_args(false)->type_name("NAME,...");
  };
  add_names("--wrt", options.wrt, "the arguments that it is taken by (default: every float one)");
  command->add_flag("--with-values", options.with_values,
                    "give the results of the op as well, and derive the first of them, a number");
  command->add_option("--name", options.name, "name of the derivative (default: d_OP, with values OP_and_grad)")
      ->type_name("NAME");
  command
      ->add_option("--intermediates", options.intermediates,
                   "what becomes of the op's own intermediates: by cost, all kept, or all computed again")
      ->check(CLI::IsMember({"cost", "keep", "recompute"}))
      ->capture_default_str()
      ->type_name("cost|keep|recompute");
  add_names("--keep", options.keep, "intermediates that are kept, whatever they cost");
  add_names("--recompute", options.recompute, "intermediates that are computed again, whatever they cost");
  command->add_flag("--explain", options.explain, "say on standard error what becomes of each intermediate, and why");
  command->footer(R"(
The derivative takes the arguments of the op and one more for each float result (dY for Y); it has one result for each argument
that it is taken by (dX for X). With values it takes the arguments of the op, and has the results of the op before its own:
what a training step needs of a loss. What is written can be run, edited, and derived again. Without --wrt, an op that the file
declares by `op d = grad ...` is written itself; without an op, all of them are.

Examples:
  corrloom grad conv.loom:corr2d --wrt X,K
  corrloom grad conv.loom:corr2d --wrt K > d_corr2d.loom
  corrloom grad digits.loom:loss --wrt W,b --with-values
  corrloom grad attention.loom:softmax --wrt X --recompute e --explain
)");
}

void add_devices(CLI::App& app) {
  app.add_subcommand("devices", "List the devices of this machine")->footer(R"(
Example:
  corrloom devices
)");
}

void add_cache(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("cache", "Look at the compiled code that is kept on disk");
  command->require_subcommand(1);
  command->add_subcommand("list", "List what is kept, newest first");
  command->add_subcommand("clear", "Delete everything that is kept");
  CLI::App* why = command->add_subcommand("why", "Say whether the code of an op is kept, and what differs if not");
  add_program(*why, options);
  add_settings(*why, options, "NAME=TYPE");
  why->add_option("--target", options.target, "host, or a PTX architecture (default: host)")->type_name("host|sm_XX");
  add_attributes(*why, options);
  add_schedule(*why, options);
  command->footer(R"(
Code is kept in $CORRLOOM_CACHE_DIR, else in `corrloom` below $XDG_CACHE_HOME or ~/.cache; CORRLOOM_CACHE_DIR=off keeps none.
An entry is used only when everything that the code depends on is the same. `why` compiles the op, which also keeps it.

Examples:
  corrloom cache list
  corrloom cache why conv.loom:corr2d X=f32[5,7] K=f32[2,3]
)");
}

std::optional<Command> chosen(const CLI::App& app) {
  if (app.got_subcommand("cache")) {
    const CLI::App& cache = *app.get_subcommand("cache");
    return cache.got_subcommand("list")    ? Command::CacheList
           : cache.got_subcommand("clear") ? Command::CacheClear
                                           : Command::CacheWhy;
  }
  const std::pair<const char*, Command> commands[] = {{"run", Command::Run},         {"bench", Command::Bench},
                                                      {"explain", Command::Explain}, {"emit", Command::Emit},
                                                      {"check", Command::Check},     {"fmt", Command::Fmt},
                                                      {"grad", Command::Grad},       {"devices", Command::Devices}};
  for (const auto& [name, command] : commands) {
    if (app.got_subcommand(name)) return command;
  }
  return std::nullopt;
}

/// Throws UsageError when the first word is no command.
void require_command(const CLI::App& app, int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty()) throw io::UsageError("a command is missing\n  help: see `corrloom --help`");
  if (first.front() == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), first) != names.end()) return;
  throw io::UsageError("there is no command `" + first.substr(0, 80) + "`; " + api::suggestion(first, names) +
                       "\n  help: see `corrloom --help`");
}

/// Throws UsageError for `--dynamic=`, which CLI11 takes for `--dynamic`.
void require_names(int argc, char** argv) {
  if (std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--dynamic="; }))
    throw io::UsageError("--dynamic=: wanted names as --dynamic=N,H, or --dynamic for all dimensions");
}

/// The command whose `--help` answers what went wrong.
std::string help_hint(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) return "corrloom " + command->get_name() + " --help";
  return "corrloom --help";
}

}  // namespace

std::optional<Options> parse_command_line(int argc, char** argv) {
  Options options;
  CLI::App app{"Corrloom compiles ops in index notation to fast host code and PTX, and runs them.", "corrloom"};
  app.set_version_flag("--version", "corrloom " + version(), "Show the version and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  add_run(app, options);
  add_bench(app, options);
  add_explain(app, options);
  add_emit(app, options);
  add_check(app, options);
  add_fmt(app, options);
  add_grad(app, options);
  add_devices(app);
  add_cache(app, options);
  app.footer(std::string(kExitCodes) + R"(
Examples:
  corrloom run conv.loom:corr2d X=arange[5,7] K=ones[2,3]
  corrloom bench conv.loom:corr2d X=randn[512,512] K=randn[3,3]
  corrloom emit conv.loom:corr2d X=f32[5,7] K=f32[2,3] --stage ptx --target sm_90a
)");
  require_command(app, argc, argv);
  require_names(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto commands = app.get_subcommands();
    write_result(commands.empty() ? app.help() : commands.front()->help("corrloom"));
    return std::nullopt;
  } catch (const CLI::CallForVersion& version_text) {
    write_result(std::string(version_text.what()) + "\n");
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw io::UsageError(std::string(error.what()) + "\n  help: see `" + help_hint(app) + "`");
  }
  const std::optional<Command> command = chosen(app);
  if (!command) throw io::UsageError("a command is missing\n  help: see `corrloom --help`");
  options.command = *command;
  return options;
}

}  // namespace corrloom::tools
