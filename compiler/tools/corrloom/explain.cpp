#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/api/op_core.h"
#include "compiler/api/values.h"
#include "compiler/passes/kernel_report.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/counters.h"
#include "compiler/tools/corrloom/limits.h"
#include "compiler/tools/corrloom/program.h"
#include "compiler/tools/corrloom/quantity.h"

namespace corrloom::tools {
namespace {

using Json = nlohmann::ordered_json;
using passes::KernelReport;
using passes::OperandReport;
using Use = OperandReport::Use;

/// The most alternatives of a kernel that are shown to a person.
constexpr std::size_t kShownAlternatives = 6;

/// One part of a kernel's work, and the least time that it takes by itself.
struct Bound {
  std::string what;
  double us = 0;
};

struct Kernel {
  KernelInfo info;
  KernelReport report;
  double us = 0;  ///< of the fastest run
  Work work;
  std::optional<Limit> limit;  ///< on the host
  std::vector<Bound> bounds;   ///< of this schedule, the largest first
};

/// Microseconds of each kernel in the fastest of some runs.
std::vector<double> time_kernels(BoundCall& call) {
  using Clock = std::chrono::steady_clock;
  constexpr int kLeastRuns = 5, kMostRuns = 2000;
  constexpr std::chrono::milliseconds kLongest{400};
  std::vector<double> best = call.run_timed();
  const Clock::time_point start = Clock::now();
  for (int run = 0; run < kMostRuns && (run < kLeastRuns || Clock::now() - start < kLongest); ++run) {
    const std::vector<double> times = call.run_timed();
    for (std::size_t k = 0; k < best.size(); ++k) best[k] = std::min(best[k], times[k]);
    if (run > 0 && Clock::now() - start > 10 * kLongest) break;
  }
  return best;
}

Work work_of(const KernelInfo& info, const KernelReport& report) {
  Work work;
  work.add(info);
  work.element_bytes = info.flops > 0 ? std::max(4, report.element_bytes) : report.element_bytes;
  work.divisions = report.divisions;
  work.roots = report.roots;
  work.on_bf16 = work.on_bytes = true;
  for (const OperandReport& operand : report.operands) {
    if (operand.use == Use::Read) work.on_bf16 &= operand.dtype == DType::BF16;
    if (operand.use == Use::Read) work.on_bytes &= byte_size(operand.dtype) == 1;
    if (operand.use == Use::Read) work.read_bytes += operand.touched;
    if (operand.use == Use::Written) work.written_bytes += operand.touched;
  }
  work.on_bf16 |= info.uses_dots;
  work.on_bytes |= info.uses_dots;
  return work;
}

/// What the parts of the kernel take by themselves as it is scheduled. A level counts only what lies behind it.
std::vector<Bound> bounds_of(const Kernel& kernel, HostLimits& limits) {
  std::vector<Bound> bounds;
  const auto add = [&](std::string what, double us) {
    if (us > 0) bounds.push_back({std::move(what), us});
  };
  const double lanes = kernel.report.lane_use > 0 ? kernel.report.lane_use : 1;
  add(lanes < 0.995 ? "arithmetic with empty lanes" : "arithmetic", kernel.limit->arithmetic_us / lanes);
  add("divisions and roots", kernel.limit->divisions_us / lanes);
  const auto sum = [&](double OperandReport::*part) {
    double bytes = 0;
    for (const OperandReport& operand : kernel.report.operands) bytes += operand.*part;
    return bytes;
  };
  const double all = kernel.work.bytes();
  const double behind[] = {sum(&OperandReport::loads), sum(&OperandReport::beyond_l1), sum(&OperandReport::beyond_l2),
                           sum(&OperandReport::beyond_l3)};
  const char* const names[] = {"loads from L1", "traffic from L2", "traffic from L3", "traffic from memory"};
  const std::string home = limits.level_of(all);
  const int last = home == "L1" ? 1 : home == "L2" ? 2 : home == "L3" ? 3 : 4;
  for (int level = 1; level < last; ++level)
    add(names[level - 1], behind[level - 1] / limits.level_bytes_per_ns(level) / 1e3);
  // What holds everything is read and written; the levels before it are mostly read.
  add(names[last - 1], behind[last - 1] / limits.bytes_per_ns(kernel.work.read_bytes, kernel.work.written_bytes) / 1e3);
  std::stable_sort(bounds.begin(), bounds.end(), [](const Bound& a, const Bound& b) { return a.us > b.us; });
  return bounds;
}

// ---- for people

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string operand_line(const OperandReport& operand, std::size_t width) {
  const auto cell = [](double bytes) { return bytes > 0 ? bytes_text(bytes) : std::string("-"); };
  const std::string view =
      operand.view_of.empty() || operand.use == Use::Inside ? "" : "; " + operand.view_of + " in another shape";
  const std::string again = operand.use == Use::Written        ? "written once"
                            : operand.use == Use::Inside       ? "a tile, computed here"
                            : operand.reread_from.empty()      ? "read by what is computed inside"
                            : operand.reread_from == "nothing" ? "read once"
                                                               : "again from " + operand.reread_from;
  return fmt::format("    {:<{}} {:>10} {:>10} {:>10} {:>10} {:>10}  {}\n", operand.tensor, width, cell(operand.bytes),
                     cell(operand.loads), cell(operand.beyond_l1), cell(operand.beyond_l2), cell(operand.beyond_l3),
                     again + view);
}

std::string operands_text(const KernelReport& report) {
  std::size_t width = 10;
  for (const OperandReport& operand : report.operands) width = std::max(width, operand.tensor.size());
  std::string text = fmt::format("  {:<{}} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "operands", width + 2, "size",
                                 "loaded", "into L1", "into L2", "into L3");
  for (const OperandReport& operand : report.operands) text += operand_line(operand, width);
  return text;
}

std::string outside_text(const KernelReport& report) {
  std::string text;
  for (const OperandReport& operand : report.operands) {
    if (!operand.why_outside.empty())
      text += fmt::format("  outside    {} has a kernel of its own: {}\n", operand.tensor, operand.why_outside);
  }
  return text;
}

std::string choices_text(const KernelReport& report) {
  std::string text;
  for (const passes::Choice& choice : report.choices) {
    if (choice.considered.size() < 2) continue;
    text += fmt::format("  weighed    for {}, in cycles by the model of the processor:\n", choice.compute);
    const std::size_t shown = std::min(choice.considered.size(), kShownAlternatives);
    for (std::size_t k = 0; k < shown; ++k) {
      const auto& [what, cycles] = choice.considered[k];
      text += fmt::format("    {} {:>9}  {}\n", k == 0 ? "taken   " : "rejected", count_text(cycles), what);
    }
    if (shown < choice.considered.size()) text += fmt::format("    and {} more\n", choice.considered.size() - shown);
  }
  return text;
}

std::string kernel_text(const Kernel& kernel, std::size_t number, std::size_t count, double all_us, bool simulated) {
  const KernelReport& report = kernel.report;
  std::string text = fmt::format("\nkernel {} of {}: {}", number, count, report.compute);
  if (!report.inside.empty()) text += ", with " + list_of(report.inside) + " computed inside";
  text += "\n";
  if (kernel.info.prepares) {
    text += "  time       none in a call: of constants alone, made before the first one\n";
  } else if (!simulated) {
    text += fmt::format("  time       {}, {:.0f} % of all\n", time_text(kernel.us),
                        all_us > 0 ? 100 * kernel.us / all_us : 0);
  }
  text += fmt::format("  work       {}, at least {}\n", kernel.work.operations_text(), bytes_text(kernel.work.bytes()));
  if (kernel.limit) {
    text += fmt::format("  limit      {} by {}: reached {:.0f} %\n", time_text(kernel.limit->us()), kernel.limit->by(),
                        kernel.us > 0 ? 100 * kernel.limit->us() / kernel.us : 0);
    std::string parts;
    for (const Bound& bound : kernel.bounds)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", bound.what, time_text(bound.us));
    if (!parts.empty()) text += "  parts      " + parts + "\n";
    text += fmt::format("  registers  {}; {:.0f} % of the lanes are used\n", report.tile, 100 * report.lane_use);
    text += operands_text(report);
  } else if (!kernel.info.prepares) {
    text += fmt::format(
        "  grid       {} blocks of {} threads; {:.0f} % of the threads have elements; {} of shared memory\n",
        kernel.info.blocks, kernel.info.threads, 100 * report.lane_use,
        bytes_text(static_cast<double>(kernel.info.shared_bytes)));
  }
  return text + outside_text(report) + choices_text(report);
}

// ---- for programs

Json operand_json(const OperandReport& operand) {
  const char* const uses[] = {"read", "written", "inside"};
  Json json = {{"tensor", operand.tensor}, {"use", uses[static_cast<int>(operand.use)]}, {"bytes", operand.bytes}};
  if (operand.use == Use::Read && !operand.reread_from.empty()) {
    json["loaded_bytes"] = operand.loads;
    json["reread_from"] = operand.reread_from;
  }
  if (operand.beyond_l1 > 0) {
    json["bytes_into_l1"] = operand.beyond_l1;
    json["bytes_into_l2"] = operand.beyond_l2;
    json["bytes_into_l3"] = operand.beyond_l3;
  }
  if (!operand.why_outside.empty()) json["why_outside"] = operand.why_outside;
  return json;
}

Json kernel_json(const Kernel& kernel) {
  const KernelReport& report = kernel.report;
  Json json = {{"kernel", kernel.info.name},
               {"computes", report.compute},
               {"inside", report.inside},
               {"time_us", kernel.us},
               {"flops", kernel.work.flops},
               {"integer_ops", kernel.work.integer_ops},
               {"least_bytes", kernel.work.bytes()},
               {"lane_use", report.lane_use},
               {"register_tile", report.tile},
               {"blocks", kernel.info.blocks},
               {"threads", kernel.info.threads},
               {"shared_bytes", kernel.info.shared_bytes},
               {"prepares", kernel.info.prepares}};
  if (kernel.limit) {
    json["limit_us"] = kernel.limit->us();
    json["limited_by"] = kernel.limit->by();
    json["share"] = kernel.us > 0 ? kernel.limit->us() / kernel.us : 0;
    for (const Bound& bound : kernel.bounds) json["parts"].push_back({{"what", bound.what}, {"us", bound.us}});
  }
  for (const OperandReport& operand : report.operands) json["operands"].push_back(operand_json(operand));
  for (const passes::Choice& choice : report.choices) {
    Json weighed = {{"computes", choice.compute}};
    for (std::size_t k = 0; k < choice.considered.size(); ++k) {
      const auto& [what, cycles] = choice.considered[k];
      weighed["alternatives"].push_back({{"what", what}, {"cycles", cycles}, {"taken", k == 0}});
    }
    json["weighed"].push_back(std::move(weighed));
  }
  return json;
}

}  // namespace

ExitCode explain_command(const Options& options) {
  const Device device = find_device(options);
  if (options.threads > 0) set_thread_count(options.threads);
  const Op op = find_op(options);
  const std::vector<Argument> arguments = make_arguments(op, options, device);
  std::vector<TypeArgument> types;
  for (const Argument& argument : arguments) {
    types.push_back(argument.is_tensor() ? TypeArgument(argument.tensor().type()) : TypeArgument(argument.scalar()));
  }
  const Compiled compiled = op.compile(types, device, read_schedule(options), options.constants);
  std::vector<Tensor> results = compiled.call(arguments);
  for (const Tensor& result : results) result.wait();
  BoundCall call = compiled.bind(dense_arguments(arguments), results);
  const std::vector<double> times = time_kernels(call);
  const auto launches = count_launches(device, [&] { call.run(); });

  HostLimits limits(compiled.state()->result.program->target, thread_count());
  const std::vector<KernelReport>& reports = compiled.state()->with_low_texts().reports;
  std::vector<Kernel> kernels;
  double all_us = 0, limit_us = 0;
  for (std::size_t k = 0; k < compiled.kernels().size(); ++k) {
    Kernel kernel{.info = compiled.kernels()[k], .report = reports.at(k), .us = times[k]};
    kernel.work = work_of(kernel.info, kernel.report);
    if (device.is_cpu() && !kernel.info.prepares) {
      kernel.limit = limits.of(kernel.work);
      kernel.bounds = bounds_of(kernel, limits);
      limit_us += kernel.limit->us();
    }
    all_us += kernel.us;
    kernels.push_back(std::move(kernel));
  }
  if (options.json) {
    Json json = {{"op", op.name()},
                 {"device", device.name()},
                 {"threads", device.is_cpu() ? thread_count() : 0},
                 {"time_us", all_us}};
    if (device.is_cpu()) json["peak_gflops"] = limits.flops_per_ns();
    json["kernels"] = Json::array();
    for (const Kernel& kernel : kernels) json["kernels"].push_back(kernel_json(kernel));
    if (launches) json["simulated_launches"] = *launches;
    write_result(json.dump() + "\n");
    return ExitCode::Done;
  }
  std::string text = fmt::format("{} on {}", op.name(), device.name());
  if (device.is_cpu()) {
    text += fmt::format(", {}: {} in {}\n", api::counted(static_cast<std::size_t>(thread_count()), "thread"),
                        time_text(all_us), api::counted(kernels.size(), "kernel"));
    text += fmt::format(
        "  this machine, measured now: {:.1f} GFLOP/s in f32; reading {:.0f} GB/s in L1, {:.0f} in L2, {:.0f} in "
        "L3, {:.0f} in memory\n",
        limits.flops_per_ns(), limits.level_bytes_per_ns(1), limits.level_bytes_per_ns(2), limits.level_bytes_per_ns(3),
        limits.level_bytes_per_ns(4));
    text += fmt::format("  its kernels could take {}, reached {:.0f} %\n", time_text(limit_us),
                        all_us > 0 ? 100 * limit_us / all_us : 0);
  } else if (launches) {
    text += fmt::format(", simulated, in {}\n", api::counted(kernels.size(), "kernel"));
  } else {
    text += fmt::format(": {} in {}; the limits of a GPU are not measured\n", time_text(all_us),
                        api::counted(kernels.size(), "kernel"));
  }
  for (std::size_t k = 0; k < kernels.size(); ++k)
    text += kernel_text(kernels[k], k + 1, kernels.size(), all_us, launches.has_value());
  if (launches) text += "\n" + counters_table(*launches);
  write_result(text);
  return ExitCode::Done;
}

}  // namespace corrloom::tools
