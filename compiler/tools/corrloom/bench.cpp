#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/codegen/host_target.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/counters.h"
#include "compiler/tools/corrloom/limits.h"
#include "compiler/tools/corrloom/program.h"
#include "compiler/tools/corrloom/quantity.h"

namespace corrloom::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// Times of runs in microseconds, sorted.
struct Samples {
  std::vector<double> sorted_us;

  double min() const { return sorted_us.front(); }
  /// The value below which that part of the samples lies, by the nearest rank.
  double quantile(double part) const {
    const auto last = static_cast<double>(sorted_us.size() - 1);
    return sorted_us[static_cast<std::size_t>(part * last + 0.5)];
  }
  double median() const {
    const std::size_t half = sorted_us.size() / 2;
    return sorted_us.size() % 2 == 1 ? sorted_us[half] : (sorted_us[half - 1] + sorted_us[half]) / 2;
  }
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return Samples{std::move(values)}.median();
}

/// Whether the median has stopped moving: those of the two halves of all samples differ by at most 1 %.
bool is_stable(const std::vector<double>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  const double first = median_of({samples.begin(), middle}), second = median_of({middle, samples.end()});
  return std::abs(first - second) <= 0.01 * std::max(first, second);
}

/// Calls `run` and gives the microseconds until its work was done.
template <class Run>
double measure(const Run& run) {
  const Clock::time_point start = Clock::now();
  run();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Warms up, then measures `repeat` runs; without that number at least a second (the least of 0.2 s moves by 2 % on a
/// busy machine), until the median is stable, but not longer than a few seconds.
template <class Run>
Samples take_samples(const Run& run, int repeat) {
  constexpr double kWarmUpUs = 50e3, kLeastUs = 1e6, kMostUs = 5e6;
  constexpr int kLeastWarmUps = 2;
  constexpr std::size_t kLeastSamples = 10, kMostSamples = 200000;
  double warm_us = 0;
  for (int k = 0; k < kLeastWarmUps || (warm_us < kWarmUpUs && repeat == 0); ++k) warm_us += measure(run);
  std::vector<double> samples;
  double total_us = 0;
  const auto is_enough = [&] {
    if (repeat > 0) return samples.size() >= static_cast<std::size_t>(repeat);
    if (samples.size() >= kMostSamples || (total_us >= kMostUs && samples.size() >= 3)) return true;
    // Judged when the number of samples has doubled, so that judging costs nothing beside measuring.
    const bool doubled = (samples.size() & (samples.size() - 1)) == 0;
    return samples.size() >= kLeastSamples && total_us >= kLeastUs && (doubled || samples.size() < 64) &&
           is_stable(samples);
  };
  while (!is_enough()) {
    samples.push_back(measure(run));
    total_us += samples.back();
  }
  std::sort(samples.begin(), samples.end());
  return {std::move(samples)};
}

/// What one run must do, whatever the program does: operands and results once.
Work work_of(const Compiled& compiled, const std::vector<Argument>& arguments, const std::vector<Tensor>& results) {
  Work work;
  for (const KernelInfo& kernel : compiled.kernels()) work.add(kernel);
  work.on_bf16 = work.on_bytes = true;
  const auto add = [&](const Tensor& tensor, double& bytes) {
    bytes += static_cast<double>(tensor.byte_count());
    work.widen_for(tensor.dtype());
  };
  for (const Argument& argument : arguments) {
    if (!argument.is_tensor()) continue;
    add(argument.tensor(), work.read_bytes);
    work.on_bf16 &= argument.tensor().dtype() == bf16;
    work.on_bytes &= byte_size(argument.tensor().dtype()) == 1;
  }
  for (const Tensor& result : results) add(result, work.written_bytes);
  return work;
}

}  // namespace

ExitCode bench_command(const Options& options) {
  const Device device = find_device(options);
  if (options.threads > 0) set_thread_count(options.threads);
  const Op op = find_op(options);
  const std::vector<Argument> arguments = make_arguments(op, options, device);
  const Compiled compiled =
      op.compile(types_of(op, arguments, options.dynamic), device, read_schedule(options), options.constants);
  const std::vector<Tensor> results = compiled.call(arguments);
  for (const Tensor& result : results) result.wait();

  // Only a bound call remembers what it packed of constants.
  std::optional<BoundCall> call;
  if (!options.constants.empty()) call = compiled.bind(dense_arguments(arguments), results);
  const auto run = [&] { call ? call->run() : compiled.run_into(arguments, results); };
  const Samples samples = take_samples(
      [&] {
        run();
        synchronise(device);
      },
      options.repeat);
  const std::optional<nlohmann::json> launches = count_launches(device, run);
  // Code for open dimensions knows the work of typical sizes only.
  const Compiled sized =
      options.dynamic.empty() ? compiled : op.compile_for(types_of(op, arguments, {}), compiled.target());
  const Work work = work_of(sized, arguments, results);
  const double median_us = samples.median();
  const double gflops = work.flops / median_us / 1e3, gbytes = work.bytes() / median_us / 1e3;
  const double giops = work.integer_ops / median_us / 1e3;
  std::optional<Limit> limit;
  if (device.is_cpu()) limit = HostLimits(codegen::host_target(), thread_count()).of(work);
  const double share = limit ? limit->us() / median_us : 0;
  if (options.json) {
    nlohmann::ordered_json line = {{"op", op.name()},
                                   {"device", device.name()},
                                   {"threads", device.is_cpu() ? thread_count() : 0},
                                   {"median_us", median_us},
                                   {"min_us", samples.min()},
                                   {"p95_us", samples.quantile(0.95)},
                                   {"compile_ms", compiled.compile_ms()},
                                   {"gflops", gflops},
                                   {"gbytes_per_s", gbytes},
                                   {"samples", samples.sorted_us.size()},
                                   {"kernels", compiled.kernels().size()},
                                   {"flops", work.flops},
                                   {"integer_ops", work.integer_ops},
                                   {"integer_gops", giops},
                                   {"bytes", work.bytes()}};
    if (limit) {
      line["limit_us"] = limit->us();
      line["limited_by"] = limit->by();
      line["share"] = share;
    }
    if (launches) line["simulated_launches"] = *launches;
    write_result(line.dump() + "\n");
    return ExitCode::Done;
  }
  const std::string threads =
      device.is_cpu() ? fmt::format(", {} thread{}", thread_count(), thread_count() == 1 ? "" : "s") : "";
  const std::string limit_line =
      limit ? fmt::format("  limit    {} by {}: reached {:.0f} %\n", time_text(limit->us()), limit->by(), 100 * share)
            : "";
  const std::string rates = (work.integer_ops > 0 && work.flops == 0 ? "" : fmt::format("{:.2f} GFLOP/s, ", gflops)) +
                            (work.integer_ops > 0 ? fmt::format("{:.2f} integer Gop/s, ", giops) : "");
  write_result(
      fmt::format(
          "{} on {}{}: {} run{}\n  median   {}\n  min      {}\n  p95      {}\n  compile  {:.2f} ms\n  work     {}, "
          "at least {}: {}{:.2f} GB/s\n",
          op.name(), device.name(), threads, samples.sorted_us.size(), samples.sorted_us.size() == 1 ? "" : "s",
          time_text(median_us), time_text(samples.min()), time_text(samples.quantile(0.95)), compiled.compile_ms(),
          work.operations_text(), bytes_text(work.bytes()), rates, gbytes) +
      limit_line + (launches ? counters_table(*launches) : ""));
  return ExitCode::Done;
}

}  // namespace corrloom::tools
