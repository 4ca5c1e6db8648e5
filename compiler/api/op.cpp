#include <algorithm>

#include "compiler/api/corrloom.h"
#include "compiler/api/op_core.h"
#include "compiler/api/values.h"

namespace corrloom {
namespace {

std::string dims_text(const std::vector<std::string>& dims) {
  std::string text;
  for (const std::string& dim : dims) text += (text.empty() ? "" : ", ") + dim;
  return text;
}

/// A rank-0 result is declared like a scalar.
std::string declaration(const std::string& name, DType dtype, const std::string& type_parameter,
                        const std::vector<std::string>& dims) {
  const std::string type = type_parameter.empty() ? std::string(name_of(dtype)) : type_parameter;
  return name + ": " + type + (dims.empty() ? "" : "[" + dims_text(dims) + "]");
}

/// Throws InputError unless the op has exactly one result.
void require_one_result(const OpInfo& info) {
  if (info.results.size() == 1) return;
  std::string names;
  for (const ResultInfo& result : info.results) names += (names.empty() ? "" : ", ") + result.name;
  throw InputError("op `" + info.name + "` has " + api::counted(info.results.size(), "result") + " (" + names +
                   "); use `all`");
}

/// The program for the arguments of a call.
const api::CompiledState& program_for(const api::OpCore& core, std::optional<Device> preferred,
                                      const api::SplitArguments& arguments) {
  const Device device =
      runtime::device_of_operands(core.info().name, core.tensor_names(), arguments.operands(), preferred);
  return core.compiled_for(arguments, device);
}

void require_defined(const OpInfo& info, std::span<const Tensor> outputs) {
  if (outputs.size() != info.results.size()) {
    throw InputError("op `" + info.name + "`: found " + api::counted(outputs.size(), "output") + "; wanted " +
                     std::to_string(info.results.size()));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].is_defined())
      throw InputError("op `" + info.name + "`: output " + info.results[k].name + " is no tensor (a default-made one)");
  }
}

}  // namespace

std::string ParameterInfo::to_string() const {
  const std::string text = declaration(name, dtype, type_parameter, dims);
  return default_value ? text + " = " + scalar::to_text(*default_value) : text;
}
std::string AttributeInfo::to_string() const {
  const std::string text = name + ": " + api::attribute_kind(dtype);
  return default_value ? text + " = " + scalar::to_text(*default_value) : text;
}
std::string ResultInfo::to_string() const {
  return declaration(name, dtype, type_parameter, dims) + (in.empty() ? "" : " in " + in);
}

const ParameterInfo* OpInfo::parameter(const std::string& wanted) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const ParameterInfo& one) { return one.name == wanted; });
  return found == parameters.end() ? nullptr : &*found;
}

const std::string& Op::name() const {
  return info().name;
}
const OpInfo& Op::info() const {
  return core_->info();
}
Op Op::on(Device device) const {
  return Op(core_, device);
}

std::vector<Tensor> Op::call(std::span<const Argument> arguments) const {
  const api::OpCore& core = core_->instance_for(arguments);
  const api::SplitArguments split = api::split_arguments(core.info(), arguments);
  const api::CompiledState& compiled = program_for(core, device_, split);
  return compiled.loaded->run(split.operands(), compiled.program_scalars(split.scalars.span()).span());
}

Tensor Op::call_for_one(std::span<const Argument> arguments) const {
  require_one_result(info());
  return std::move(call(arguments).front());
}

void Op::run_into(std::span<const Argument> arguments, std::span<const Tensor> outputs) const {
  require_defined(info(), outputs);
  const api::OpCore& core = core_->instance_for(arguments);
  const api::SplitArguments split = api::split_arguments(core.info(), arguments);
  const api::CompiledState& compiled = program_for(core, device_, split);
  compiled.loaded->run_into(split.operands(), compiled.program_scalars(split.scalars.span()).span(), outputs);
}

Compiled Op::compile(const std::vector<TypeArgument>& arguments, Device device, const std::string& schedule,
                     const std::vector<std::string>& constants) const {
  const api::OpCore& core = core_->instance_for(arguments);
  const auto [types, scalars] = core.split_types(arguments);
  return Compiled(
      core.compile(types, scalars, api::target_of(device), device, schedule, core.constants_named(constants)));
}

Compiled Op::compile_for(const std::vector<TypeArgument>& arguments, const std::string& target,
                         const std::string& schedule) const {
  const api::OpCore& core = core_->instance_for(arguments);
  const auto [types, scalars] = core.split_types(arguments);
  return Compiled(core.compile(types, scalars, api::target_named(target), std::nullopt, schedule));
}

std::string Compiled::text(Stage stage) const {
  const bool is_host = state_->result.program->target.kind == kernel::TargetKind::Host;
  switch (stage) {
    case Stage::Tensor:
      return state_->result.tensor_text;
    case Stage::Schedule:
      return state_->result.schedule_text;
    case Stage::Loop:
      return state_->result.loop_text;
    case Stage::Llvm:
      return state_->with_low_texts().llvm_text;
    case Stage::Asm:
      return is_host ? state_->with_low_texts().assembly_text : state_->result.program->code;
    case Stage::Ptx:
      if (is_host)
        throw InputError("op `" + state_->info.name +
                         "` is compiled for the host, which has no PTX; compile it for a PTX target such as sm_80");
      return state_->result.program->code;
  }
  throw InternalError("a stage without a text");
}

const std::vector<KernelInfo>& Compiled::kernels() const {
  return state_->kernels;
}
std::string Compiled::target() const {
  return state_->result.program->target.name;
}
std::optional<Device> Compiled::device() const {
  return state_->device;
}
double Compiled::compile_ms() const {
  return state_->compile_ms;
}
std::vector<std::pair<std::string, std::int64_t>> Compiled::step_times() const {
  std::vector<std::pair<std::string, std::int64_t>> times;
  for (const auto& [step, time] : state_->result.times) times.emplace_back(step, time.count());
  return times;
}

namespace {

/// The program on its device. Throws InputError when there is none.
const runtime::LoadedProgram& loaded(const api::CompiledState& state) {
  if (state.loaded) return *state.loaded;
  throw InputError("op `" + state.info.name + "` was compiled for " + state.result.program->target.name +
                   " without a device, so it cannot be called");
}

}  // namespace

std::vector<Tensor> Compiled::call(std::span<const Argument> arguments) const {
  const runtime::LoadedProgram& program = loaded(*state_);
  const api::SplitArguments split = api::split_arguments(state_->info, arguments);
  const auto scalars = state_->program_scalars(split.scalars.span());
  if (state_->judge) state_->judge->admit(split.operands(), split.scalars.span());
  return program.run(split.operands(), scalars.span());
}

Tensor Compiled::call_for_one(std::span<const Argument> arguments) const {
  require_one_result(state_->info);
  return std::move(call(arguments).front());
}

void Compiled::run_into(std::span<const Argument> arguments, std::span<const Tensor> outputs) const {
  require_defined(state_->info, outputs);
  const runtime::LoadedProgram& program = loaded(*state_);
  const api::SplitArguments split = api::split_arguments(state_->info, arguments);
  const auto scalars = state_->program_scalars(split.scalars.span());
  if (state_->judge) state_->judge->admit(split.operands(), split.scalars.span());
  program.run_into(split.operands(), scalars.span(), outputs);
}

/// The call, and the program that it belongs to.
struct BoundCall::State {
  std::shared_ptr<const api::CompiledState> compiled;
  runtime::BoundProgram program;
};

void BoundCall::run() {
  state_->program.launch();
}

std::vector<double> BoundCall::run_timed() {
  return state_->program.launch_timed();
}

BoundCall Compiled::bind(std::span<const Argument> arguments, std::span<const Tensor> outputs) const {
  require_defined(state_->info, outputs);
  const runtime::LoadedProgram& program = loaded(*state_);
  const api::SplitArguments split = api::split_arguments(state_->info, arguments);
  const auto scalars = state_->program_scalars(split.scalars.span());
  if (state_->judge) state_->judge->admit(split.operands(), split.scalars.span());
  return BoundCall(std::make_shared<BoundCall::State>(
      BoundCall::State{state_, program.bind(split.operands(), scalars.span(), outputs)}));
}

}  // namespace corrloom
