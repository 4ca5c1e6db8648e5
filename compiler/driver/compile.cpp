#include "compiler/driver/compile.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string>

#include "compiler/codegen/emit.h"
#include "compiler/driver/size_expr.h"
#include "compiler/passes/apply_staging.h"
#include "compiler/passes/check_bounds.h"
#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/constant_values.h"
#include "compiler/passes/lower_to_loops.h"
#include "compiler/passes/operations.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/specialise.h"
#include "compiler/passes/typical_sizes.h"
#include "ir/base/errors.h"
#include "ir/kernel/error_slot.h"
#include "ir/loop/text.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/check_site.h"
#include "ir/tensor/text.h"

namespace corrloom::driver {
namespace {

using kernel::CompiledProgram;
using tensor::TensorId;
using Clock = std::chrono::steady_clock;

/// Bytes of a value in memory, little-endian.
void append_value(std::vector<std::byte>& out, const scalar::Value& value) {
  for (int k = 0; k < byte_size(value.dtype); ++k)
    out.push_back(static_cast<std::byte>((value.bits >> (8 * k)) & 0xff));
}

/// Turns what the passes left into the program that the runtime takes.
class ProgramBuilder {
 public:
  ProgramBuilder(const tensor::Graph& graph, const std::vector<passes::LoweredKernel>& kernels,
                 const kernel::Target& target, const std::set<std::string>& constants)
      : graph_(graph), sized_(passes::with_typical_sizes(graph)), kernels_(kernels), buffer_of_(graph.ops.size(), -1) {
    if (!constants.empty()) constant_ = passes::constant_values(graph, constants);
    program_.op = graph.name;
    program_.target = target;
  }

  /// Nothing when a condition cannot be tested at entry, which is reported.
  std::optional<CompiledProgram> run(Diagnostics& diagnostics) {
    add_symbols();
    if (!extents_are_sizes(diagnostics)) return std::nullopt;
    for (TensorId input : graph_.inputs) {
      const int number = add_buffer(input, input, kernel::Buffer::Role::Input, graph_.op(input).name);
      program_.buffers[static_cast<std::size_t>(number)].constant =
          !constant_.empty() && constant_[static_cast<std::size_t>(input.index)];
    }
    for (const tensor::Output& output : graph_.outputs) {
      const int number = add_buffer(output.value, passes::storage_root(graph_, output.value),
                                    kernel::Buffer::Role::Output, output.name);
      if (output.storage_of)
        program_.buffers[static_cast<std::size_t>(number)].storage_of = buffer_of(output.storage_of);
    }
    for (const passes::LoweredKernel& kernel : kernels_) inside_.insert(kernel.inside.begin(), kernel.inside.end());
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) add_workspace(TensorId{static_cast<std::int32_t>(k)});
    for (const passes::LoweredKernel& kernel : kernels_) add_kernel(kernel);
    add_check_sites();
    return add_conditions(diagnostics) ? std::optional(std::move(program_)) : std::nullopt;
  }

  /// The kernels' sources for the code generator; `program` must outlive the result.
  static std::vector<codegen::KernelSource> sources(const std::vector<loop::Function>& functions,
                                                    const CompiledProgram& program) {
    std::vector<codegen::KernelSource> out;
    const bool exclusive = std::all_of(program.buffers.begin(), program.buffers.end(),
                                       [](const kernel::Buffer& buffer) { return buffer.storage_of < 0; });
    for (std::size_t k = 0; k < functions.size(); ++k) {
      codegen::KernelSource source;
      source.function = &functions[k];
      source.entry = program.kernels[k].name;
      source.arguments = program.kernels[k].arguments;
      source.exclusive_buffers = exclusive;
      out.push_back(std::move(source));
    }
    return out;
  }

 private:
  int buffer_of(TensorId id) const {
    return buffer_of_[static_cast<std::size_t>(passes::storage_root(graph_, id).index)];
  }

  void add_symbols() {
    for (std::size_t k = 0; k < graph_.symbols.size(); ++k) {
      const tensor::Symbol& symbol = graph_.symbols[k];
      kernel::Symbol added{symbol.name, symbol.dtype, symbol.kind == tensor::Symbol::Kind::Dimension, -1, -1};
      if (added.dimension) find_place(scalar::SymbolId{static_cast<std::int32_t>(k)}, added);
      program_.symbols.push_back(std::move(added));
    }
  }

  /// The axis of an argument that shows the dimension.
  void find_place(scalar::SymbolId symbol, kernel::Symbol& added) const {
    for (std::size_t number = 0; number < graph_.inputs.size(); ++number) {
      const std::vector<scalar::Expr>& extents = graph_.op(graph_.inputs[number]).extents;
      for (std::size_t axis = 0; axis < extents.size(); ++axis) {
        const auto* reference = std::get_if<scalar::SymbolRef>(&extents[axis]->kind);
        if (reference == nullptr || reference->symbol != symbol) continue;
        added.buffer = static_cast<int>(number);
        added.axis = static_cast<int>(axis);
        return;
      }
    }
    CORRLOOM_CHECK(false, "no argument shows the dimension ", added.name);
  }

  /// Reports extents that are no arithmetic over dimensions and i64 arguments.
  bool extents_are_sizes(Diagnostics& diagnostics) const {
    bool are_sizes = true;
    for (const tensor::Op& op : graph_.ops) {
      for (const scalar::Expr& extent : op.extents) {
        if (to_size(extent)) continue;
        are_sizes = false;
        diagnostics.report(Code::E0255, op.span, "an extent of " + op.name + " cannot be computed before the op runs",
                           "not integer arithmetic over dimensions and i64 arguments");
      }
    }
    return are_sizes;
  }

  static kernel::SizeExpr size(const scalar::Expr& expr) {
    std::optional<kernel::SizeExpr> size = to_size(expr);
    CORRLOOM_CHECK(size.has_value(), "an extent is no size");
    return *std::move(size);
  }

  int add_buffer(TensorId shape, TensorId root, kernel::Buffer::Role role, const std::string& name) {
    kernel::Buffer buffer;
    buffer.name = name;
    buffer.role = role;
    buffer.dtype = graph_.op(shape).dtype;
    for (const scalar::Expr& extent : graph_.op(shape).extents) buffer.extents.push_back(size(extent));
    const int number = static_cast<int>(program_.buffers.size());
    program_.buffers.push_back(std::move(buffer));
    buffer_of_[static_cast<std::size_t>(root.index)] = number;
    return number;
  }

  /// Constants, and computes that are no result and that no kernel keeps to itself.
  void add_workspace(TensorId id) {
    if (inside_.contains(id)) return;
    const tensor::Op& op = graph_.op(id);
    const auto* literal = std::get_if<tensor::Literal>(&op.kind);
    const bool compute = std::holds_alternative<tensor::Compute>(op.kind);
    if ((literal == nullptr && !compute) || buffer_of_[static_cast<std::size_t>(id.index)] >= 0) return;
    const int number = add_buffer(id, id, kernel::Buffer::Role::Workspace, op.name);
    if (literal == nullptr) return;
    for (const scalar::Value& value : literal->values)
      append_value(program_.buffers[static_cast<std::size_t>(number)].contents, value);
  }

  void add_kernel(const passes::LoweredKernel& lowered) {
    kernel::Kernel kernel;
    const int number = static_cast<int>(program_.kernels.size());
    kernel.name = codegen::symbol_name(graph_.name + "." + std::to_string(number));
    kernel.op = graph_.op(lowered.compute).name;
    kernel.place = place(graph_.op(lowered.compute).span);
    kernel.blocks = size(lowered.blocks);
    kernel.threads = codegen::thread_count(lowered.function);
    for (TensorId read : lowered.buffers) {
      const int buffer = buffer_of(read);
      kernel.arguments.push_back({kernel::Argument::Kind::Buffer, buffer, {}});
      kernel::Buffer& used = program_.buffers[static_cast<std::size_t>(buffer)];
      if (used.first_use > number || !used_.contains(buffer)) used.first_use = number;
      used.last_use = number;
      used_.insert(buffer);
      kernel.bytes += bytes_of(sized_.op(read));
    }
    for (std::size_t k = 0; k < graph_.symbols.size(); ++k) {
      const auto number_of_symbol = static_cast<int>(k);
      if (graph_.symbols[k].kind == tensor::Symbol::Kind::Dimension) {
        kernel.arguments.push_back(
            {kernel::Argument::Kind::Size, 0, {{{kernel::SizeOp::Kind::Symbol, number_of_symbol}}}});
      } else {
        kernel.arguments.push_back({kernel::Argument::Kind::Scalar, number_of_symbol, {}});
      }
    }
    if (loop::has_checks(lowered.function)) kernel.arguments.push_back({kernel::Argument::Kind::ErrorSlot, 0, {}});
    mark_preparing(lowered, kernel);
    passes::Operations operations = passes::operations_of(sized_.op(lowered.compute));
    for (TensorId inside : lowered.inside) operations.add(1, passes::operations_of(sized_.op(inside)));
    kernel.flops = operations.flops;
    kernel.integer_ops = operations.integer_ops;
    kernel.integer_products = operations.integer_products;
    kernel.uses_dots = operations.uses_dots;
    program_.kernels.push_back(std::move(kernel));
  }

  /// A kernel prepares when its value is constant, though no result, and nothing in it can fail; buffers tell what it
  /// needs. With dimensions left open each call has sizes of its own, and nothing is kept.
  void mark_preparing(const passes::LoweredKernel& lowered, kernel::Kernel& kernel) {
    if (constant_.empty() || !constant_[static_cast<std::size_t>(lowered.compute.index)]) return;
    const bool open = std::any_of(program_.symbols.begin(), program_.symbols.end(),
                                  [](const kernel::Symbol& symbol) { return symbol.dimension; });
    if (open) return;
    kernel::Buffer& result = program_.buffers[static_cast<std::size_t>(buffer_of(lowered.compute))];
    if (result.role != kernel::Buffer::Role::Workspace || loop::has_checks(lowered.function)) return;
    for (TensorId read : lowered.buffers) {
      const kernel::Buffer& buffer = program_.buffers[static_cast<std::size_t>(buffer_of(read))];
      if (&buffer != &result && !buffer.constant && buffer.contents.empty()) return;
    }
    kernel.prepares = result.constant = true;
  }

  static double bytes_of(const tensor::Op& op) {
    double bytes = byte_size(op.dtype);
    for (const scalar::Expr& extent : op.extents) bytes *= static_cast<double>(scalar::as_i64(extent).value_or(1));
    return bytes;
  }

  void add_check_sites() {
    for (tensor::CheckSite site : tensor::check_sites(graph_)) {
      std::optional<kernel::SizeExpr> extent = to_size(site.size);
      if (extent && !extent->as_constant()) site.extent = "{extent}";
      program_.check_sites.push_back(
          {tensor::fault_message(site, "{value}"), extent ? *std::move(extent) : kernel::SizeExpr()});
    }
  }

  bool is_over_dimensions(const scalar::Expr& expr) const {
    bool are_all = true;
    scalar::for_each_node(expr, [&](const scalar::Expr& node) {
      const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
      if (symbol == nullptr) return;
      const tensor::Symbol& used = graph_.symbols[static_cast<std::size_t>(symbol->symbol.index)];
      are_all = are_all && used.kind == tensor::Symbol::Kind::Dimension;
    });
    return are_all;
  }

  bool add_conditions(Diagnostics& diagnostics) {
    const std::size_t before = diagnostics.entries().size();
    for (const tensor::Condition& condition : graph_.conditions) {
      std::optional<kernel::SizeExpr> holds = to_size(condition.holds);
      // Conditions on dimensions are also judged by `check_call`, before the program is asked.
      if (!holds && is_over_dimensions(condition.holds)) continue;
      if (!holds) {
        diagnostics.report(Code::E0255, condition.span, "this condition cannot be tested before the op runs",
                           "not integer arithmetic over dimensions and i64 arguments");
        continue;
      }
      program_.entry_checks.push_back(
          {*std::move(holds), render({Code::E0250, condition.title, condition.span, {}, {}})});
    }
    return diagnostics.entries().size() == before;
  }

  const tensor::Graph& graph_;
  const tensor::Graph sized_;  ///< with typical sizes, for estimates
  const std::vector<passes::LoweredKernel>& kernels_;
  std::vector<int> buffer_of_;  ///< of each root value
  std::set<int> used_;
  std::set<TensorId> inside_;   ///< computed in other computes' kernels
  std::vector<bool> constant_;  ///< by op of the graph; empty when no input is constant
  CompiledProgram program_;
};

/// Reports a graph with more checks than the error slot can tell apart.
void limit_check_sites(const tensor::Graph& graph, Diagnostics& diagnostics) {
  const std::size_t sites = tensor::check_sites(graph).size();
  if (sites <= kernel::kFaultSites) return;
  diagnostics.report(Code::E0301, {}, "the op checks " + std::to_string(sites) + " subscripts while it runs",
                     "at most " + std::to_string(kernel::kFaultSites) + " can be told apart");
}

std::optional<schedule::Schedule> scheduled(const tensor::Graph& graph, const CompileOptions& options,
                                            passes::PassContext& ctx) {
  if (!options.schedule) {
    schedule::Schedule chosen = passes::choose_schedule(graph, ctx);
    Diagnostics faults;
    if (!schedule::check(chosen, graph, faults))
      throw InternalError("the chosen schedule is not legal\n" + faults.render() + schedule::print(chosen) +
                          tensor::print(graph));
    return chosen;
  }
  std::optional<schedule::Schedule> given = schedule::parse(options.schedule, ctx.diagnostics);
  if (!given || !schedule::check(*given, graph, ctx.diagnostics)) return std::nullopt;
  return given;
}

/// What the code depends on. The texts of all levels are in it: each is what the one before becomes by passes of this
/// build, so the later ones only help to say what differs, and catch what no text of an earlier level shows.
CacheKey key_of(const Compiled& compiled, const kernel::Target& target, const CompiledProgram& program) {
  std::string interface;
  for (const kernel::Kernel& kernel : program.kernels) {
    interface += kernel.name + " threads " + std::to_string(kernel.threads);
    if (kernel.prepares) interface += " prepares";
    for (const kernel::Argument& argument : kernel.arguments)
      interface += " " + std::to_string(static_cast<int>(argument.kind)) + "." + std::to_string(argument.index);
    interface += "\n";
  }
  for (const kernel::Buffer& buffer : program.buffers)
    interface += buffer.name + " " + std::to_string(buffer.storage_of) + "\n";
  return {{{"op", program.op},
           {"build", build_id()},
           {"target", kernel::print(target)},
           {"tensor IR", compiled.tensor_text},
           {"schedule", compiled.schedule_text},
           {"loop IR", compiled.loop_text},
           {"interface", std::move(interface)}}};
}

/// The code as the cache keeps it: the lowest PTX version, the spills, a line's end, the bytes.
std::string to_payload(const codegen::EmittedCode& code) {
  return std::to_string(code.ptx_version) + " " + std::to_string(code.spills) + "\n" + code.bytes;
}
std::optional<codegen::EmittedCode> from_payload(const std::string& payload) {
  codegen::EmittedCode code;
  const char* end = payload.data() + payload.size();
  const auto [space, error] = std::from_chars(payload.data(), end, code.ptx_version);
  if (error != std::errc{} || space == end || *space != ' ') return std::nullopt;
  const auto [next, other_error] = std::from_chars(space + 1, end, code.spills);
  if (other_error != std::errc{} || next == end || *next != '\n') return std::nullopt;
  code.bytes.assign(next + 1, end);
  return code;
}

/// Calls `run` and notes how long it took.
template <class Run>
auto timed(Compiled& compiled, const std::string& name, const Run& run) {
  const Clock::time_point start = Clock::now();
  auto result = run();
  compiled.times.emplace_back(name, Clock::now() - start);
  return result;
}

/// The way of a graph that the tensor passes are through with to a program, by one choice of schedule.
class Generation {
 public:
  Generation(const tensor::Graph& graph, const CompileOptions& options, passes::PassContext& ctx,
             const passes::Observer& observer, Compiled& out)
      : graph_(graph), options_(options), ctx_(ctx), observer_(observer), out_(out) {}

  /// The schedule, of which the rest is made. False when the user's is at fault, which is reported.
  bool choose() {
    if (options_.keep_reports) ctx_.choices = &choices_;
    schedule_ = timed(out_, "choose_schedule", [&] { return scheduled(graph_, options_, ctx_); });
    ctx_.choices = nullptr;
    if (ctx_.diagnostics.has_errors() || !schedule_) return false;
    out_.schedule_text = schedule::print(*schedule_);
    return true;
  }

  /// False when the user's program is at fault, which is reported.
  bool run(Diagnostics& diagnostics) {
    const passes::Scheduled staged =
        timed(out_, "apply_staging", [&] { return passes::apply_staging(graph_, *schedule_, ctx_); });
    passes::require_verified(staged.graph, "apply_staging");
    const std::vector<loop::Function> functions = lower(staged);
    std::optional<CompiledProgram> program =
        ProgramBuilder(staged.graph, kernels_, options_.target, options_.constants).run(diagnostics);
    if (!program) return false;
    std::optional<codegen::EmittedCode> code = find_or_emit(functions, *program, diagnostics);
    if (!code) return false;
    spills_ = code->spills;
    program->code = std::move(code->bytes);
    program->ptx_version = code->ptx_version;
    out_.llvm_text = std::move(code->llvm_ir);
    out_.assembly_text = std::move(code->assembly);
    out_.program = std::make_shared<const CompiledProgram>(*std::move(program));
    return true;
  }

  /// Values that the innermost loops store to the stack.
  int spills() const { return spills_; }

 private:
  std::vector<loop::Function> lower(const passes::Scheduled& staged) {
    kernels_ =
        timed(out_, "lower_to_loops", [&] { return passes::lower_to_loops(staged.graph, staged.schedule, ctx_); });
    std::vector<loop::Function> functions;
    for (const passes::LoweredKernel& kernel : kernels_) {
      passes::require_verified(kernel.function, "lower_to_loops");
      functions.push_back(passes::run_loop_passes(kernel.function, ctx_, observer_));
      out_.loop_text += loop::print(functions.back());
      if (options_.keep_reports)
        out_.reports.push_back(passes::report_kernel(staged.graph, staged.schedule, kernel, options_.target, choices_));
    }
    return functions;
  }

  std::optional<codegen::EmittedCode> find_or_emit(const std::vector<loop::Function>& functions,
                                                   const CompiledProgram& program, Diagnostics& diagnostics) {
    out_.cache_key = key_of(out_, options_.target, program);
    const bool wants_texts = options_.keep_llvm || options_.keep_assembly;
    const DiskCache* cache = wants_texts || build_id().empty() ? nullptr : options_.cache.get();
    std::optional<codegen::EmittedCode> code;
    if (cache != nullptr) {
      const std::optional<std::string> payload = timed(out_, "cache", [&] { return cache->find(out_.cache_key); });
      if (payload) code = from_payload(*payload);
      out_.from_cache = code.has_value();
    }
    if (code) return code;
    const codegen::EmitOptions emit_options{options_.keep_llvm, options_.keep_assembly};
    code = timed(out_, "emit", [&] {
      return codegen::emit(ProgramBuilder::sources(functions, program), options_.target, emit_options, diagnostics);
    });
    if (code && cache != nullptr) cache->store(out_.cache_key, to_payload(*code));
    return code;
  }

  const tensor::Graph& graph_;
  const CompileOptions& options_;
  passes::PassContext& ctx_;
  const passes::Observer& observer_;
  Compiled& out_;
  passes::Choices choices_;
  std::optional<schedule::Schedule> schedule_;
  std::vector<passes::LoweredKernel> kernels_;
  int spills_ = 0;
};

/// A register tile that the processor has too few registers for stores more values than that in each step. Fewer are
/// addresses, which cost little.
constexpr int kManySpills = 8;
/// How often a schedule is chosen again, each time as if there were a quarter fewer registers.
constexpr int kMostRetries = 2;

/// Whether a schedule for fewer registers may spill much less: the last one did.
bool is_worth_another(int spills, int least_before) {
  return spills >= kManySpills && spills < least_before - least_before / 4;
}

}  // namespace

std::optional<Compiled> compile(tensor::Graph graph, const CompileOptions& options, Diagnostics& diagnostics) {
  Compiled out;
  passes::PassContext ctx;
  ctx.target = options.target;
  ctx.bindings = options.bindings;
  ctx.constants = options.constants;
  passes::Observer observer = options.observer;
  Compiled* timed_into = &out;
  observer.timed = [&](std::string_view pass, std::chrono::nanoseconds time) {
    timed_into->times.emplace_back(pass, time);
    if (options.observer.timed) options.observer.timed(pass, time);
  };
  const auto report = [&] {
    for (const Diagnostic& entry : ctx.diagnostics.entries())
      diagnostics.report(entry.code, entry.span, entry.title, entry.label).notes = entry.notes;
  };

  passes::require_verified(graph, "lowering the source");
  graph = passes::run_tensor_passes(std::move(graph), ctx, observer);
  if (!ctx.diagnostics.has_errors()) limit_check_sites(graph, ctx.diagnostics);
  if (ctx.diagnostics.has_errors()) return report(), std::nullopt;
  out.tensor_text = tensor::print(graph);
  out.graph = std::make_shared<const tensor::Graph>(graph);

  std::optional<Compiled> best;
  int least_spills = std::numeric_limits<int>::max();
  for (int retry = 0; retry <= kMostRetries; ++retry) {
    Compiled next = out;
    timed_into = &next;
    Generation generation(graph, options, ctx, observer, next);
    if (!generation.choose()) return report(), std::nullopt;
    if (best && next.schedule_text == best->schedule_text) {
      out.times = next.times;
      break;
    }
    if (!generation.run(diagnostics)) return report(), std::nullopt;
    out.times = next.times;
    const bool goes_on = !options.schedule && is_worth_another(generation.spills(), least_spills);
    if (generation.spills() < least_spills) {
      best = std::move(next);
      least_spills = generation.spills();
    }
    if (!goes_on) break;
    ctx.target.vector_registers = ctx.target.vector_registers * 3 / 4;
  }
  best->times = std::move(out.times);
  return best;
}

bool check_call(tensor::Graph graph, const std::map<std::string, scalar::Value>& values, Diagnostics& diagnostics) {
  passes::PassContext ctx;
  ctx.bindings = values;
  graph = passes::specialise(std::move(graph), ctx);
  if (!ctx.diagnostics.has_errors()) passes::check_bounds(std::move(graph), ctx);
  for (const Diagnostic& entry : ctx.diagnostics.entries())
    diagnostics.report(entry.code, entry.span, entry.title, entry.label).notes = entry.notes;
  return !ctx.diagnostics.has_errors();
}

}  // namespace corrloom::driver
