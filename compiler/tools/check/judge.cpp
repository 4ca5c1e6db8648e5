#include "compiler/tools/check/judge.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <variant>

#include "compiler/api/op_core.h"
#include "compiler/tools/check/arrays.h"
#include "compiler/tools/check/strict.h"
#include "ir/kernel/error_slot.h"
#include "ir/tensor/interpret.h"
#include "runtime/run.h"

namespace corrloom::tools {
namespace {

using tensor::Array;

/// What a run gave: results, or the input error that it ended with.
struct Outcome {
  std::vector<Array> results;
  std::optional<std::string> error;
};

Outcome outcome_of(const std::function<std::vector<Array>()>& run) {
  try {
    return {run(), std::nullopt};
  } catch (const InputError& error) {
    return {{}, error.what()};
  }
}

std::vector<Array> arrays_of(const std::vector<Tensor>& tensors) {
  std::vector<Array> out;
  for (const Tensor& tensor : tensors) out.push_back(to_array(tensor));
  return out;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// An error of the interpreter as kernels report it: without the index values at which it met the fault, and with a
/// subscript as far as the error slot can tell it.
std::string as_reported(const std::string& error) {
  std::string text = error.substr(0, error.find("  note: where "));
  constexpr std::string_view kBefore = "subscript is ";
  const std::size_t found = text.rfind(kBefore);
  if (found == std::string::npos) return text;
  const std::size_t begin = found + kBefore.size();
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (failed != std::errc{}) return text;
  const std::string told = kernel::fault_value_text(kernel::encode_fault(0, value));
  return text.replace(begin, static_cast<std::size_t>(end - text.data()) - begin, told);
}

/// What differs between two outcomes, if anything.
std::optional<std::string> difference_of(const OpInfo& info, const Outcome& found, const Outcome& wanted) {
  if (found.error && wanted.error) {
    const std::string wanted_text = as_reported(*wanted.error);
    if (*found.error == wanted_text) return std::nullopt;
    return "fails with the error\n" + *found.error + "\nwanted\n" + wanted_text;
  }
  if (found.error) return "fails: " + first_line(*found.error);
  if (wanted.error) return "does not fail; wanted the error: " + first_line(*wanted.error);
  for (std::size_t k = 0; k < found.results.size(); ++k) {
    if (const auto fault = difference(found.results[k], wanted.results[k])) return info.results[k].name + ": " + *fault;
  }
  return std::nullopt;
}

/// Restores the number of threads.
class Threads {
 public:
  explicit Threads(int threads) : before_(thread_count()) { set_thread_count(threads); }
  ~Threads() { set_thread_count(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

class Judge {
 public:
  Judge(const Op& op, const std::vector<Argument>& arguments, const HostSetting& host)
      : op_(op),
        arguments_(arguments),
        host_(host),
        core_(op.core()->instance_for(arguments)),
        split_(api::split_arguments(core_.info(), arguments)) {}

  Verdict run(const std::vector<Device>& devices, Orders orders) {
    try {
      bind();
    } catch (const InputError& error) {
      verdict_.refusal = error.what();
      return std::move(verdict_);
    }
    const std::shared_ptr<const tensor::Graph> graph = core_.graph();
    const Outcome written = interpreted(*graph);
    if (written.error) verdict_.notes.push_back("fails everywhere: " + first_line(*written.error));
    for (const Device device : devices) {
      if (orders == Orders::StrictAndOwn) compare_strict(*graph, device, written);
      compare_default(device, written, orders);
    }
    return std::move(verdict_);
  }

 private:
  using Runner = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

  void bind() {
    std::vector<TensorType> types;
    for (const Tensor& tensor : split_.operands()) types.push_back(tensor.type());
    const std::vector<std::optional<scalar::Value>> scalars(split_.scalars.begin(), split_.scalars.end());
    values_ = core_.bind(types, scalars);
  }

  Outcome interpreted(const tensor::Graph& graph) const {
    return outcome_of([&] {
      std::vector<Array> inputs;
      for (const Tensor& tensor : split_.operands()) inputs.push_back(to_array(tensor));
      return tensor::interpret(graph, inputs, frontend::in_symbol_order(graph, values_));
    });
  }

  void compare_strict(const tensor::Graph& graph, Device device, const Outcome& written) {
    const driver::Compiled compiled = compile_strictly(graph, values_, target_for(device));
    auto loaded = std::make_shared<runtime::LoadedProgram>(compiled.program, runtime::backend_of(device));
    compare(device, "in strict order on " + device.name(),
            // What no result needs may go unchecked, and the passes left what one needs.
            written.error ? interpreted(*compiled.graph) : written,
            [loaded](const std::vector<Tensor>& tensors) { return loaded->run(tensors, {}); });
  }

  /// The op as users call it, against the graph that its own passes left.
  void compare_default(Device device, const Outcome& written, Orders orders) {
    std::vector<TypeArgument> types;
    for (const Argument& argument : arguments_)
      types.push_back(argument.is_tensor() ? TypeArgument(argument.tensor().type()) : TypeArgument(argument.scalar()));
    const Compiled compiled = compiled_for(types, device);
    if (device == cpu()) {
      verdict_.graph = compiled.text(Stage::Tensor);
      verdict_.schedule = compiled.text(Stage::Schedule);
      verdict_.loops = compiled.text(Stage::Loop);
    }
    const Runner call = [&](const std::vector<Tensor>& tensors) { return compiled.call(with_tensors(tensors)); };
    const tensor::Graph& left = *compiled.state()->result.graph;
    const Outcome optimised = interpreted(left);
    if (optimised.error && !written.error)
      found("the passes for " + device.name(), "fails: " + first_line(*optimised.error));
    if (is_approximate(left)) return call_only(device, optimised, call);
    // An exact result has one value whatever the order, unless it is made of one that rounds.
    for (std::size_t k = 0; k < optimised.results.size() && !written.error && !rounds_otherwise(left); ++k) {
      if (is_float(optimised.results[k].dtype)) continue;
      if (const auto fault = difference(optimised.results[k], written.results[k]))
        found("the passes for " + device.name(), op_.info().results[k].name + ": " + *fault);
    }
    compare(device, "on " + device.name(), optimised, call);
    if (device == cpu() && host_.rewrite) compare_rewritten(compiled, types, optimised);
    if (orders == Orders::StrictAndOwn) compare_dynamic(device, optimised, written);
    if (!optimised.error && !written.error) note_results(device, optimised, written);
  }

  /// The op compiled with every dimension open, against what it gives when they are known.
  void compare_dynamic(Device device, const Outcome& wanted, const Outcome& written) {
    std::vector<TypeArgument> types;
    bool is_open = false;
    for (const Argument& argument : arguments_) {
      if (!argument.is_tensor()) {
        types.emplace_back(argument.scalar());
        continue;
      }
      TensorType type = argument.tensor().type();
      is_open |= !type.shape.empty();
      std::fill(type.shape.begin(), type.shape.end(), kDynamic);
      types.emplace_back(std::move(type));
    }
    if (!is_open) return;
    const std::string who = "with open dimensions on " + device.name();
    try {
      const Compiled compiled = compiled_for(types, device);
      const Runner call = [&](const std::vector<Tensor>& tensors) { return compiled.call(with_tensors(tensors)); };
      // What no result needs may go unchecked, and is not the same with extents that are known.
      compare(device, who, written.error ? interpreted(*compiled.state()->result.graph) : wanted, call);
    } catch (const CompileError& error) {
      found(who, std::string("does not compile: ") + error.what());
    }
  }

  /// The arguments with other tensors in the places of theirs.
  std::vector<Argument> with_tensors(const std::vector<Tensor>& tensors) const {
    std::vector<Argument> arguments;
    std::size_t next = 0;
    for (const Argument& argument : arguments_)
      arguments.push_back(argument.is_tensor() ? Argument(tensors[next++]) : argument);
    return arguments;
  }

  kernel::Target target_for(Device device) const {
    return device == cpu() && host_.target ? *host_.target : api::target_of(device);
  }

  Compiled compiled_for(const std::vector<TypeArgument>& types, Device device, const std::string& schedule = "") const {
    try {
      const auto [tensors, scalars] = core_.split_types(types);
      return Compiled(core_.compile(tensors, scalars, target_for(device), device, schedule));
    } catch (const InputError& error) {
      throw CompileError(error.what());  // that the extents are given makes it one of the inputs
    }
  }

  /// Another schedule than the chosen one, if the program takes it.
  void compare_rewritten(const Compiled& chosen, const std::vector<TypeArgument>& types, const Outcome& wanted) {
    const std::string schedule = host_.rewrite(chosen.text(Stage::Schedule));
    try {
      const Compiled compiled = compiled_for(types, cpu(), schedule);
      verdict_.takes_schedule = true;
      const std::string found_before = verdict_.difference;
      compare(cpu(), "with another schedule", wanted,
              [&](const std::vector<Tensor>& tensors) { return compiled.call(with_tensors(tensors)); });
      if (verdict_.difference != found_before) verdict_.difference += "\n" + schedule;
    } catch (const CompileError& error) {
      const std::string what = error.what();
      if (what.find("error[") == std::string::npos) found("another schedule", "is refused without a code: " + what);
    } catch (const InternalError& error) {
      found("another schedule", error.what() + ("\n" + schedule));
    }
  }

  /// Whether results may have other bits than the graph's text gives: by `math = fast`, or by an order that is free.
  static bool is_approximate(const tensor::Graph& graph) {
    return std::any_of(graph.ops.begin(), graph.ops.end(), [](const tensor::Op& op) {
      const auto* compute = std::get_if<tensor::Compute>(&op.kind);
      if (compute == nullptr) return false;
      const bool is_free = compute->reduction && compute->reduction->order.kind == tensor::Order::Kind::Any &&
                           !tensor::is_order_free(*compute->reduction);
      return is_free || compute->numerics.fast_math;
    });
  }

  /// Whether floats are summed in another order than the graph's text gives.
  static bool rounds_otherwise(const tensor::Graph& graph) {
    return std::any_of(graph.ops.begin(), graph.ops.end(), [](const tensor::Op& op) {
      const auto* compute = std::get_if<tensor::Compute>(&op.kind);
      if (compute == nullptr || !compute->reduction || tensor::is_order_free(*compute->reduction)) return false;
      const tensor::Order& order = compute->reduction->order;
      const auto& sums = compute->reduction->accumulators;
      return (order.kind != tensor::Order::Kind::Ascending || order.part != 0) &&
             std::any_of(sums.begin(), sums.end(), [](const auto& sum) { return is_float(sum.dtype); });
    });
  }

  /// A call that gives nothing to compare must end well, or in the error that the op has as written.
  void call_only(Device device, const Outcome& wanted, const Runner& run) {
    Outcome outcome = outcome_of([&] { return run_on_copies(device, run); });
    if (!outcome.error && !wanted.error) return;
    if (const auto fault = difference_of(op_.info(), outcome, wanted)) found("on " + device.name(), *fault);
  }

  std::vector<Array> run_on_copies(Device device, const Runner& run) const {
    std::vector<Tensor> tensors;
    // An op may write into the storage of an input.
    for (const Tensor& tensor : split_.operands()) tensors.push_back(tensor.copy().to(device));
    return arrays_of(run(tensors));
  }

  /// Runs three times, the last time on several threads.
  void compare(Device device, const std::string& who, const Outcome& wanted, const Runner& run) {
    for (int call = 1; call <= 3; ++call) {
      const Threads threads(call == 3 ? 4 : 1);
      const Outcome outcome = outcome_of([&] { return run_on_copies(device, run); });
      if (const auto fault = difference_of(op_.info(), outcome, wanted)) {
        found(who + (call == 1 ? "" : ", call " + std::to_string(call)), *fault);
        return;
      }
    }
  }

  void found(const std::string& who, const std::string& what) {
    if (verdict_.difference.empty()) verdict_.difference = who + ": " + what;
  }

  void note_results(Device device, const Outcome& optimised, const Outcome& written) {
    for (std::size_t k = 0; k < optimised.results.size(); ++k) {
      const Array& array = optimised.results[k];
      const auto rounding = difference(array, written.results[k]);
      verdict_.notes.push_back(op_.info().results[k].name + ": " + TensorType{array.dtype, array.extents}.to_string() +
                               " on " + device.name() + " has the bits of the interpreter" +
                               (rounding ? " (strict order rounds otherwise: " + *rounding + ")" : ""));
    }
  }

  const Op& op_;
  const std::vector<Argument>& arguments_;
  const HostSetting& host_;
  const api::OpCore& core_;  ///< the op, or the instance of a generic one
  api::SplitArguments split_;
  frontend::SymbolValues values_;
  Verdict verdict_;
};

}  // namespace

Verdict judge(const Op& op, const std::vector<Argument>& arguments, const std::vector<Device>& devices, Orders orders,
              const HostSetting& host) {
  return Judge(op, arguments, host).run(devices, orders);
}

}  // namespace corrloom::tools
