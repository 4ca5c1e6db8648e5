#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/api/op_core.h"
#include "compiler/api/values.h"
#include "compiler/frontend/parser.h"
#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/lower_to_loops.h"
#include "compiler/passes/pipeline.h"
#include "compiler/tools/common/exit_codes.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/common/settings.h"
#include "compiler/tools/opt/expected_errors.h"
#include "compiler/tools/opt/ir_file.h"
#include "compiler/tools/opt/options.h"
#include "ir/loop/text.h"
#include "ir/loop/verify.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"
#include "runtime/io/bytes.h"
#include "runtime/io/value.h"

namespace {

using namespace corrloom;
using namespace corrloom::tools;

std::string list_passes() {
  std::string text;
  for (const passes::TensorPass& pass : passes::tensor_passes())
    text += fmt::format("{:<22} tensor  {}\n", pass.name, pass.summary);
  for (const passes::LoopPass& pass : passes::loop_passes())
    text += fmt::format("{:<22} loop    {}\n", pass.name, pass.summary);
  return text;
}

/// Runs what the options ask for on one file, and collects what is to be written.
class Session {
 public:
  Session(const OptOptions& options, SourceRef source)
      : options_(options), source_(std::move(source)), target_(api::target_named(options.target)) {
    if (!options.features.empty()) target_.features = options.features;
    observer_.before_tensor = [this](std::string_view pass, const tensor::Graph& graph) {
      show(options_.print_before, "before", pass, graph);
    };
    observer_.after_tensor = [this](std::string_view pass, const tensor::Graph& graph) {
      show(options_.print_after, "after", pass, graph);
    };
    observer_.before_loop = [this](std::string_view pass, const loop::Function& function) {
      show(options_.print_before, "before", pass, function);
    };
    observer_.after_loop = [this](std::string_view pass, const loop::Function& function) {
      show(options_.print_after, "after", pass, function);
    };
    observer_.timed = [this](std::string_view pass, std::chrono::nanoseconds time) { times_.emplace_back(pass, time); };
  }

  /// Everything; errors are collected.
  void run() {
    if (options_.parse_tree) return write_tree();
    std::optional<IrFile> file = parse_ir(source_, options_, diagnostics_);
    if (!file) return;
    require_known_passes(file->is_loop_ir);
    for (tensor::Graph& graph : file->graphs) run_graph(std::move(graph));
    for (loop::Function& function : file->functions) run_function(std::move(function));
  }

  const Diagnostics& diagnostics() const { return diagnostics_; }
  const std::string& text() const { return text_; }
  const std::vector<ErrorAtLine>& violations() const { return violations_; }

  /// One line a pass, and its counters.
  std::string time_report() const {
    std::string text;
    for (const auto& [pass, time] : times_)
      text += fmt::format("{:<22} {:>9.3f} ms\n", pass, static_cast<double>(time.count()) / 1e6);
    for (const auto& [what, count] : counters_) text += fmt::format("{:<22} {:>9}\n", what, count);
    return text;
  }

 private:
  template <class Ir>
  void show(const std::vector<std::string>& wanted, const char* when, std::string_view pass, const Ir& ir) {
    const auto asks = [&](const std::string& name) { return name == pass || name == "all"; };
    if (std::any_of(wanted.begin(), wanted.end(), asks)) text_ += fmt::format("// {} {}\n{}", when, pass, print(ir));
  }

  /// Throws UsageError for a pass that does not exist or that does not suit the level.
  void require_known_passes(bool is_loop_ir) const {
    for (const auto* names : {&options_.passes, &options_.print_before, &options_.print_after}) {
      for (const std::string& name : *names) {
        const bool is_tensor = passes::find_tensor_pass(name) != nullptr,
                   is_loop = passes::find_loop_pass(name) != nullptr;
        if (names != &options_.passes && name == "all") continue;
        if (!is_tensor && !is_loop)
          throw io::UsageError("there is no pass `" + name.substr(0, 80) + "`; " + api::suggestion(name, pass_names()));
        if (names != &options_.passes) continue;
        if (is_tensor && is_loop_ir)
          throw io::UsageError("pass " + name + " is for Tensor IR; " + options_.file + " holds Loop IR");
        if (is_loop && !is_loop_ir && !options_.lower)
          throw io::UsageError("pass " + name + " is for Loop IR; use --lower");
      }
    }
  }

  static std::vector<std::string> pass_names() {
    std::vector<std::string> names;
    for (const passes::TensorPass& pass : passes::tensor_passes()) names.emplace_back(pass.name);
    for (const passes::LoopPass& pass : passes::loop_passes()) names.emplace_back(pass.name);
    return names;
  }

  void write_tree() {
    if (!is_loom(source_->name())) throw io::UsageError("--parse-tree is for .loom files");
    const frontend::ast::File file = frontend::parse(source_, diagnostics_);
    if (!diagnostics_.has_errors()) text_ = frontend::ast::print_tree(file);
  }

  /// `--bind` for the symbols that the graph has, in their dtypes.
  std::map<std::string, scalar::Value> bindings_for(const tensor::Graph& graph) const {
    std::map<std::string, scalar::Value> bindings;
    for (const auto& [name, text] : split_settings(options_.bindings, "--bind NAME=VALUE")) {
      for (const tensor::Symbol& symbol : graph.symbols) {
        if (symbol.name != name) continue;
        scalar::Value value;
        if (!scalar::parse_value(text, symbol.dtype, value)) {
          throw io::UsageError("--bind " + name + "=" + text.substr(0, 80) + ": wanted a value of " +
                               std::string(name_of(symbol.dtype)));
        }
        bindings[name] = value;
      }
    }
    return bindings;
  }

  /// True when a rule is broken, which is noted.
  bool is_broken(const tensor::Graph& graph) {
    const std::vector<tensor::Violation> found = tensor::verify(graph);
    for (const tensor::Violation& violation : found) {
      const auto op = std::find_if(graph.ops.begin(), graph.ops.end(),
                                   [&](const tensor::Op& one) { return "%" + one.name == violation.op; });
      const bool has_place = op != graph.ops.end() && op->span && op->span.file == source_;
      violations_.push_back(
          {has_place ? source_->line_of(op->span.begin) : 0, violation.rule, violation.op + " " + violation.message});
    }
    return !found.empty();
  }
  bool is_broken(const loop::Function& function) {
    const std::vector<loop::Violation> found = loop::verify(function);
    for (const loop::Violation& violation : found)
      violations_.push_back({0, violation.rule, "@" + function.name + " " + violation.where + " " + violation.message});
    return !found.empty();
  }

  void run_graph(tensor::Graph graph) {
    if (is_broken(graph)) return;
    passes::PassContext ctx;
    ctx.target = target_;
    ctx.bindings = bindings_for(graph);
    if (options_.pipeline) graph = passes::run_tensor_passes(std::move(graph), ctx, observer_);
    for (const std::string& name : options_.passes) {
      const passes::TensorPass* pass = passes::find_tensor_pass(name);
      if (pass != nullptr && !ctx.diagnostics.has_errors())
        graph = passes::run_pass(*pass, std::move(graph), ctx, observer_);
    }
    if (!ctx.diagnostics.has_errors()) write_graph(graph, ctx);
    take(ctx);
  }

  void write_graph(const tensor::Graph& graph, passes::PassContext& ctx) {
    if (!options_.lower && !options_.schedule) {
      text_ += tensor::print(graph);
      return;
    }
    const std::optional<schedule::Schedule> schedule = schedule_of(graph, ctx);
    if (!schedule) return;
    if (options_.schedule) text_ += schedule::print(*schedule);
    if (!options_.lower) return;
    for (const passes::LoweredKernel& kernel : passes::lower_to_loops(graph, *schedule, ctx)) {
      passes::require_verified(kernel.function, "lower_to_loops");
      write_function(kernel.function, ctx);
    }
  }

  std::optional<schedule::Schedule> schedule_of(const tensor::Graph& graph, passes::PassContext& ctx) const {
    if (options_.use_schedule.empty()) return passes::choose_schedule(graph, ctx);
    const std::vector<unsigned char> bytes = io::InputFile(options_.use_schedule).read_all(std::uint64_t{4} << 20);
    const auto text =
        std::make_shared<const SourceFile>(options_.use_schedule, std::string(bytes.begin(), bytes.end()));
    std::optional<schedule::Schedule> schedule = schedule::parse(text, ctx.diagnostics);
    if (schedule && !schedule::check(*schedule, graph, ctx.diagnostics)) return std::nullopt;
    return schedule;
  }

  void run_function(loop::Function function) {
    if (is_broken(function)) return;
    passes::PassContext ctx;
    ctx.target = target_;
    write_function(std::move(function), ctx);
    take(ctx);
  }

  void write_function(loop::Function function, passes::PassContext& ctx) {
    for (const std::string& name : options_.passes) {
      if (const passes::LoopPass* pass = passes::find_loop_pass(name))
        function = passes::run_pass(*pass, std::move(function), ctx, observer_);
    }
    text_ += loop::print(function);
  }

  /// What a context collected.
  void take(const passes::PassContext& ctx) {
    for (const Diagnostic& entry : ctx.diagnostics.entries())
      diagnostics_.report(entry.code, entry.span, entry.title, entry.label).notes = entry.notes;
    for (const auto& [what, count] : ctx.counters) counters_[what] += count;
  }

  const OptOptions& options_;
  SourceRef source_;
  kernel::Target target_;
  passes::Observer observer_;
  Diagnostics diagnostics_;
  std::vector<ErrorAtLine> violations_;
  std::vector<std::pair<std::string, std::chrono::nanoseconds>> times_;
  std::map<std::string, std::int64_t> counters_;
  std::string text_;
};

/// Compares the errors that occurred with those that the file announces.
ExitCode judge(const Session& session, const SourceFile& source) {
  std::vector<ErrorAtLine> occurred = errors_of(session.diagnostics(), source);
  occurred.insert(occurred.end(), session.violations().begin(), session.violations().end());
  const std::vector<ErrorAtLine> announced = announced_errors(source);
  const std::string faults = compare_errors(announced, std::move(occurred), source.name());
  if (announced.empty()) throw io::UsageError(source.name() + " announces no error");
  if (faults.empty()) return ExitCode::Done;
  write_message(faults);
  return ExitCode::WrongProgram;
}

ExitCode run(int argc, char** argv) {
  const std::optional<OptOptions> options = parse_opt_command_line(argc, argv);
  if (!options) return ExitCode::Done;
  if (options->list_passes) {
    write_result(list_passes());
    return ExitCode::Done;
  }
  const SourceRef source = read_ir_source(options->file);
  Session session(*options, source);
  session.run();
  if (options->time) write_message(session.time_report());
  if (options->expect_errors) return judge(session, *source);
  write_result(session.text());
  for (const ErrorAtLine& violation : session.violations()) {
    write_message(
        fmt::format("{}:{}: error: rule {}: {}", options->file, violation.line, violation.id, violation.text));
  }
  if (session.diagnostics().has_errors()) write_message(session.diagnostics().render());
  const bool failed = session.diagnostics().has_errors() || !session.violations().empty();
  return failed ? ExitCode::WrongProgram : ExitCode::Done;
}

}  // namespace

int main(int argc, char** argv) {
  return run_guarded("corrloom-opt", [&] { return run(argc, argv); });
}
