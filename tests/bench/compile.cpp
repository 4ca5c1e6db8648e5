#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/api/corrloom.h"

/// What compiling the ops of a list of workloads for the host costs in a process that has compiled before, and each
/// step of it: microseconds by step as counters. A line for people has the longest steps only; `--benchmark_out=FILE`
/// and `--benchmark_format=json` have all of them.
///
///     bench_compile [--workloads FILE.json] [options of Google Benchmark]
///
/// The ops are in the file beside the list that ends in `.loom`.
namespace corrloom {
namespace {

using Json = nlohmann::json;

struct Workload {
  std::string name;
  Op op;
  std::vector<TypeArgument> types;
  std::vector<std::string> constants;
};

Workload to_workload(const Library& ops, const Json& row) {
  Attributes attributes;
  for (const auto& [name, value] : row.at("set").items()) attributes.emplace(name, value.get<int>());
  Workload workload{row.at("name"), ops[row.at("op").get<std::string>()].with(attributes), {}, {}};
  for (const ParameterInfo& parameter : workload.op.info().parameters) {
    if (parameter.is_tensor)
      workload.types.emplace_back(TensorType{parameter.dtype, row.at("inputs").at(parameter.name).get<Shape>()});
  }
  workload.constants = row.at("constants").get<std::vector<std::string>>();
  return workload;
}

std::vector<Workload> read_workloads(const std::filesystem::path& list) {
  std::ifstream in(list);
  if (!in) throw InputError("cannot read " + list.string());
  const Library ops = Library::load(std::filesystem::path(list).replace_extension(".loom").string());
  std::vector<Workload> workloads;
  for (const Json& row : Json::parse(in)) workloads.push_back(to_workload(ops, row));
  return workloads;
}

void compile(benchmark::State& state, const Workload& workload) {
  std::map<std::string, double> steps;
  for (auto _ : state) {
    const Compiled compiled = workload.op.compile(workload.types, cpu(), {}, workload.constants);
    for (const auto& [step, ns] : compiled.step_times()) steps[step] += static_cast<double>(ns);
  }
  for (const auto& [step, ns] : steps)
    state.counters[step + " us"] = benchmark::Counter(ns / 1e3, benchmark::Counter::kAvgIterations);
}

/// Shows the longest steps of each run as its label instead of all counters.
class LongestSteps : public benchmark::ConsoleReporter {
 public:
  LongestSteps() : benchmark::ConsoleReporter(OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> shown = runs;
    for (Run& one : shown) {
      std::vector<std::pair<double, std::string>> steps;
      for (const auto& [name, counter] : one.counters) steps.emplace_back(counter.value, name);
      std::sort(steps.rbegin(), steps.rend());
      steps.resize(std::min(steps.size(), kShown));
      for (const auto& [us, name] : steps) {
        char text[32];
        std::snprintf(text, sizeof text, " %.2f ms", us / 1e3);
        one.report_label += (one.report_label.empty() ? "" : ", ") + name.substr(0, name.rfind(' ')) + text;
      }
      one.counters.clear();
    }
    ConsoleReporter::ReportRuns(shown);
  }

 private:
  static constexpr std::size_t kShown = 5;
};

int run(int argc, char** argv) {
  ::setenv("CORRLOOM_CACHE_DIR", "off", 1);
  std::vector<char*> arguments(argv, argv + argc);
  std::filesystem::path list = CORRLOOM_BENCH_WORKLOADS;
  const auto flag = std::find(arguments.begin(), arguments.end(), std::string_view("--workloads"));
  if (flag != arguments.end() && flag + 1 != arguments.end()) {
    list = flag[1];
    arguments.erase(flag, flag + 2);
  }
  for (const Workload& workload : read_workloads(list)) {
    benchmark::RegisterBenchmark(workload.name.c_str(), [workload](benchmark::State& state) {
      compile(state, workload);
    })->Unit(benchmark::kMillisecond);
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  const bool is_for_people = std::none_of(
      argv, argv + argc, [](std::string_view argument) { return argument.starts_with("--benchmark_format"); });
  LongestSteps longest;
  is_for_people ? benchmark::RunSpecifiedBenchmarks(&longest) : benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace corrloom

int main(int argc, char** argv) {
  try {
    return corrloom::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
