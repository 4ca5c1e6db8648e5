#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/api/corrloom.h"

/// What compiling the ops of a list of workloads for the host costs in a process that has compiled before, and each
/// step of it: microseconds by step as counters.
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
  benchmark::RunSpecifiedBenchmarks();
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
