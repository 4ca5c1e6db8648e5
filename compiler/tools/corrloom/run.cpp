#include <algorithm>
#include <map>

#include "compiler/api/values.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/common/settings.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/program.h"

namespace corrloom::tools {
namespace {

using Outputs = std::vector<std::pair<std::string, std::string>>;

/// `-o NAME=PATH` as written. Throws UsageError for a suffix that no format has.
Outputs parse_outputs(const Options& options) {
  Outputs outputs = split_settings(options.outputs, "-o NAME=PATH");
  for (const auto& [name, path] : outputs) {
    if (io::has_known_suffix(path)) continue;
    throw io::UsageError("-o " + name + "=" + path.substr(0, 200) +
                         ": wanted a path that ends in .npy, .npz, .safetensors, .png, .pgm or .ppm");
  }
  return outputs;
}

/// Throws InputError unless every output is a result of the op.
void check_names(const OpInfo& info, const Outputs& outputs) {
  std::vector<std::string> results;
  for (const ResultInfo& result : info.results) results.push_back(result.name);
  for (const auto& [name, path] : outputs) {
    if (std::find(results.begin(), results.end(), name) != results.end()) continue;
    throw InputError("-o " + name + "=" + path + ": op `" + info.name + "` has no result `" + name + "`; " +
                     api::suggestion(name, results));
  }
}

/// Saves results; those that go into one archive are written together.
void save_results(const io::NamedTensors& results, const Outputs& outputs) {
  std::map<std::string, io::NamedTensors> by_path;
  for (const auto& [name, path] : outputs) {
    const auto result = std::find_if(results.begin(), results.end(),
                                     [&, wanted = name](const auto& one) { return one.first == wanted; });
    const auto [file, key] = io::split_key(path);
    by_path[file].emplace_back(key.empty() ? name : key, result->second);
  }
  for (const auto& [file, tensors] : by_path) {
    if (tensors.size() > 1)
      io::save_all(file, tensors);
    else
      io::save(file, tensors.front().second, tensors.front().first);
  }
}

std::vector<Tensor> call(const Op& op, const std::vector<Argument>& arguments, Device device, const Options& options) {
  const std::string schedule = read_schedule(options);
  if (schedule.empty() && options.dynamic.empty()) return op.on(device).call(arguments);
  return op.compile(types_of(op, arguments, options.dynamic), device, schedule).call(arguments);
}

}  // namespace

ExitCode run_command(const Options& options) {
  const Outputs outputs = parse_outputs(options);
  const Device device = find_device(options);
  if (options.threads > 0) set_thread_count(options.threads);
  const Op op = find_op(options);
  check_names(op.info(), outputs);
  const std::vector<Argument> arguments = make_arguments(op, options, device);
  const std::vector<Tensor> tensors = call(op, arguments, device, options);

  io::NamedTensors results;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    tensors[k].wait();
    results.emplace_back(op.info().results[k].name, tensors[k]);
  }
  if (!outputs.empty()) {
    save_results(results, outputs);
    return ExitCode::Done;
  }
  std::string text;
  for (const auto& [name, tensor] : results) text += name + ": " + tensor.to_string() + "\n";
  write_result(text);
  return ExitCode::Done;
}

}  // namespace corrloom::tools
