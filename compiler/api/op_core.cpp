#include "compiler/api/op_core.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>

#include "compiler/api/deciding_symbols.h"
#include "compiler/api/values.h"
#include "compiler/codegen/host_target.h"
#include "compiler/frontend/bind_known.h"
#include "ir/kernel/target.h"
#include "ir/scalar/expr.h"
#include "runtime/host/host_backend.h"
#include "runtime/tensor_state.h"
#include "runtime/trace.h"

namespace corrloom::api {
namespace {

using scalar::Value;

/// Faults of what a call brings along, in contrast to those of the program.
bool is_input_fault(Code code) {
  return (code >= Code::E0240 && code <= Code::E0245) || (code >= Code::E0250 && code <= Code::E0254) ||
         code == Code::E0222 || code >= Code::E0401;
}

OpInfo info_of(const frontend::OpSignature& signature) {
  OpInfo info{signature.name, signature.text, place(signature.span), {}, {}, {}};
  for (const auto& attribute : signature.attributes)
    info.attributes.push_back({attribute.name, attribute.dtype, attribute.default_value});
  for (const auto& parameter : signature.parameters) {
    info.parameters.push_back({parameter.name, parameter.is_tensor, parameter.dtype, parameter.dims,
                               parameter.default_value, parameter.is_owned, parameter.initial_value,
                               parameter.type_parameter});
  }
  for (const auto& result : signature.results)
    info.results.push_back({result.name, result.dtype, result.dims, result.storage_of, result.type_parameter});
  return info;
}

std::size_t mix(std::size_t hash, std::uint64_t value) {
  return (hash ^ (value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2))) * 0x100000001b3u;
}

std::vector<TensorType> types_of(runtime::Operands tensors) {
  std::vector<TensorType> types;
  types.reserve(tensors.size());
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

std::vector<KernelInfo> kernels_of(const kernel::CompiledProgram& program) {
  std::vector<KernelInfo> kernels;
  for (const kernel::Kernel& kernel : program.kernels) {
    kernels.push_back({kernel.name, kernel.op, kernel.blocks.as_constant().value_or(-1), kernel.threads,
                       kernel.shared_bytes, kernel.flops, kernel.bytes, kernel.prepares, kernel.integer_ops,
                       kernel.integer_products, kernel.uses_dots});
  }
  return kernels;
}

/// A type with open extents as the smallest that it may become.
TensorType smallest(TensorType type) {
  std::replace(type.shape.begin(), type.shape.end(), kDynamic, std::int64_t{1});
  return type;
}

bool has_open_extents(std::span<const TensorType> types) {
  return std::any_of(types.begin(), types.end(), [](const TensorType& type) {
    return std::find(type.shape.begin(), type.shape.end(), kDynamic) != type.shape.end();
  });
}

}  // namespace

void throw_diagnostics(const Diagnostics& diagnostics, const std::string& op) {
  const auto& entries = diagnostics.entries();
  CORRLOOM_CHECK(!entries.empty(), "op ", op, " failed without a reason");
  if (std::all_of(entries.begin(), entries.end(), [](const Diagnostic& entry) { return is_input_fault(entry.code); })) {
    throw InputError(diagnostics.render());
  }
  throw CompileError(diagnostics.render());
}

kernel::Target host_target() {
  kernel::Target target = codegen::host_target();
  target.threads = runtime::host_threads();
  return target;
}

kernel::Target target_named(const std::string& name) {
  if (name == "host") return host_target();
  if (const std::optional<kernel::Target> target = kernel::ptx_target(name)) return *target;
  throw InputError("`" + name.substr(0, 80) + "` is no target; there are host, " + kernel::known_ptx_targets());
}

kernel::Target target_of(Device device) {
  const std::string architecture = runtime::backend_of(device)->architecture();
  if (architecture == "host") return host_target();
  if (const std::optional<kernel::Target> target = kernel::ptx_target(architecture)) return *target;
  throw RuntimeError("device " + device.name() + " has the architecture " + architecture +
                     ", for which there is no code; there are " + kernel::known_ptx_targets());
}

runtime::InlineVector<Value, 8> CompiledState::program_scalars(std::span<const Value> scalars) const {
  for (std::size_t k = 0; k < fixed_scalars.size(); ++k) {
    if (!fixed_scalars[k] || *fixed_scalars[k] == scalars[k]) continue;
    throw InputError("op `" + info.name + "`: " + scalar_names[k] + " is " + scalar::to_text(scalars[k]) +
                     "; it was compiled for " + scalar::to_text(*fixed_scalars[k]));
  }
  runtime::InlineVector<Value, 8> out;
  for (const int number : runtime_scalars) out.push_back(scalars[static_cast<std::size_t>(number)]);
  return out;
}

const driver::Compiled& CompiledState::with_low_texts() const {
  const std::lock_guard lock(low_texts_mutex);
  if (!low_texts) low_texts = recompile();
  return *low_texts;
}

SplitArguments split_arguments(const OpInfo& info, std::span<const Argument> arguments) {
  const auto declared = [&] { return "\n  note: it is declared at " + info.place + ": " + info.text; };
  if (arguments.size() > info.parameters.size()) {
    throw InputError("op `" + info.name + "`: found " + counted(arguments.size(), "argument") + "; wanted " +
                     std::to_string(info.parameters.size()) + declared());
  }
  SplitArguments out;
  for (std::size_t k = 0; k < info.parameters.size(); ++k) {
    const ParameterInfo& parameter = info.parameters[k];
    const auto where = [&] { return "op `" + info.name + "`: " + parameter.name; };
    if (k >= arguments.size()) {
      if (!parameter.default_value)
        throw InputError(where() + " is missing; wanted " + parameter.to_string() + declared());
      out.scalars.push_back(*parameter.default_value);
    } else if (arguments[k].is_tensor() != parameter.is_tensor) {
      throw InputError(where() + " is " + (parameter.is_tensor ? "a number" : "a tensor") + "; wanted " +
                       parameter.to_string() + declared());
    } else if (!parameter.is_tensor) {
      const Value& value = arguments[k].scalar();
      out.scalars.push_back(value.dtype == parameter.dtype ? value : convert(value, parameter.dtype, where()));
    } else if (!arguments[k].tensor().is_defined()) {
      throw InputError(where() + " is no tensor (a default-made one); wanted " + parameter.to_string() + declared());
    } else {
      out.tensors.push_back(&arguments[k].tensor());
    }
  }
  return out;
}

OpCore::OpCore(frontend::Program program, std::string name, frontend::OpSignature signature,
               std::map<std::string, Value> attributes, LibraryState& library)
    : program_(std::move(program)),
      name_(std::move(name)),
      signature_(std::move(signature)),
      is_generic_(signature_.is_generic()),
      attributes_(std::move(attributes)),
      library_(library),
      info_(info_of(signature_)) {
  for (const ParameterInfo& parameter : info_.parameters) {
    if (parameter.is_tensor)
      tensor_names_.push_back(parameter.name);
    else
      scalar_parameters_.push_back(&parameter);
    if (parameter.is_tensor && parameter.is_owned && !is_written(parameter.name))
      constant_parameters_.insert(parameter.name);
  }
}

bool OpCore::is_written(const std::string& tensor) const {
  return std::any_of(info_.results.begin(), info_.results.end(),
                     [&](const ResultInfo& result) { return result.in == tensor; });
}

std::set<std::string> OpCore::constants_named(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (std::find(tensor_names_.begin(), tensor_names_.end(), name) == tensor_names_.end())
      throw InputError("op `" + info_.name + "` has no tensor `" + name.substr(0, 80) + "` that could be constant; " +
                       suggestion(name, tensor_names_));
    if (is_written(name))
      throw InputError("op `" + info_.name + "` writes " + name + ", so that it cannot be constant");
  }
  return {names.begin(), names.end()};
}

frontend::Instance OpCore::inferred(std::span<const Argument> arguments) const {
  frontend::Arguments given;
  for (std::size_t k = 0; k < std::min(arguments.size(), info_.parameters.size()); ++k) {
    const std::string& name = info_.parameters[k].name;
    if (!arguments[k].is_tensor()) {
      given.scalars[name] = arguments[k].scalar();
    } else if (arguments[k].tensor().is_defined()) {
      given.tensors[name] = {arguments[k].tensor().dtype(), arguments[k].tensor().shape()};
    }
  }
  return inferred(given);
}

frontend::Instance OpCore::inferred(const frontend::Arguments& arguments) const {
  Diagnostics diagnostics;
  std::optional<frontend::Instance> instance = frontend::infer_instance(signature_, arguments, diagnostics);
  if (!instance) throw_diagnostics(diagnostics, info_.name);
  return *std::move(instance);
}

const OpCore& OpCore::instance_for(std::span<const Argument> arguments) const {
  if (!is_generic_) return *this;
  return library_.instance(name_, inferred(arguments), attributes_);
}

const OpCore& OpCore::instance_for(std::span<const TypeArgument> arguments) const {
  if (!is_generic_) return *this;
  frontend::Arguments given;
  const bool tensors_alone = arguments.size() == tensor_names_.size();
  std::size_t next = 0;
  for (const ParameterInfo& parameter : info_.parameters) {
    if (next >= arguments.size()) break;
    if (tensors_alone && !parameter.is_tensor) continue;
    const TypeArgument& argument = arguments[next++];
    if (argument.is_tensor()) {
      given.tensors[parameter.name] = {argument.type().dtype, argument.type().shape};
    } else {
      given.scalars[parameter.name] = argument.scalar();
    }
  }
  return instance_for(given);
}

const OpCore& OpCore::instance_for(const frontend::Arguments& arguments) const {
  if (!is_generic_) return *this;
  return library_.instance(name_, inferred(arguments), attributes_);
}

const OpCore::Lowered& OpCore::lowered() const {
  if (const Lowered* ready = lowered_ready_.load(std::memory_order_acquire)) return *ready;
  const std::lock_guard lock(lowering_mutex_);
  if (lowered_ == nullptr) {
    Diagnostics diagnostics;
    std::optional<tensor::Graph> graph = program_.lower(name_, attributes_, diagnostics, signature_.instance);
    if (!graph) throw_diagnostics(diagnostics, info_.name);
    const std::set<std::string> deciding = deciding_symbols(*graph);
    auto lowered = std::make_unique<Lowered>();
    lowered->graph = std::make_shared<const tensor::Graph>(*std::move(graph));
    for (std::size_t k = 0; k < scalar_parameters_.size(); ++k) {
      if (deciding.contains(scalar_parameters_[k]->name)) lowered->deciding.push_back(static_cast<int>(k));
    }
    lowered_ = std::move(lowered);
    lowered_ready_.store(lowered_.get(), std::memory_order_release);
  }
  return *lowered_;
}

std::shared_ptr<const tensor::Graph> OpCore::graph() const {
  return lowered().graph;
}

std::pair<std::vector<TensorType>, std::vector<std::optional<Value>>> OpCore::split_types(
    const std::vector<TypeArgument>& arguments) const {
  const std::size_t scalar_count = scalar_parameters_.size();
  const auto is_tensor = [](const TypeArgument& argument) { return argument.is_tensor(); };
  const bool tensors_alone =
      arguments.size() == tensor_names_.size() && std::all_of(arguments.begin(), arguments.end(), is_tensor);
  if (!tensors_alone && arguments.size() != info_.parameters.size()) {
    throw InputError(
        "op `" + info_.name + "`: found " + counted(arguments.size(), "argument") + " to compile for; wanted " +
        std::to_string(info_.parameters.size()) +
        (scalar_count == 0 ? "" : ", or the types of its " + counted(tensor_names_.size(), "tensor") + " alone"));
  }
  std::vector<TensorType> types;
  std::vector<std::optional<Value>> scalars;
  std::size_t next = 0;
  for (const ParameterInfo& parameter : info_.parameters) {
    if (tensors_alone && !parameter.is_tensor) {
      scalars.push_back(parameter.default_value);
      continue;
    }
    const TypeArgument& argument = arguments[next++];
    const std::string where = "op `" + info_.name + "`: " + parameter.name;
    if (argument.is_tensor() != parameter.is_tensor) {
      throw InputError(where + " is " + (parameter.is_tensor ? "a number" : "the type of a tensor") + "; wanted " +
                       parameter.to_string());
    }
    if (parameter.is_tensor)
      types.push_back(argument.type());
    else
      scalars.push_back(convert(argument.scalar(), parameter.dtype, where));
  }
  return {std::move(types), std::move(scalars)};
}

frontend::Arguments OpCore::arguments_of(std::span<const TensorType> types,
                                         std::span<const std::optional<Value>> scalars) const {
  const Lowered& lowered = this->lowered();
  frontend::Arguments arguments;
  for (std::size_t k = 0; k < tensor_names_.size(); ++k) {
    const TensorType least = smallest(types[k]);
    element_count(least.shape, least.dtype);  // an extent below 0, or bytes that nobody can count
    arguments.tensors[tensor_names_[k]] = {types[k].dtype, types[k].shape};
  }
  for (std::size_t k = 0; k < scalar_parameters_.size(); ++k) {
    const ParameterInfo& parameter = *scalar_parameters_[k];
    const bool decides =
        std::find(lowered.deciding.begin(), lowered.deciding.end(), static_cast<int>(k)) != lowered.deciding.end();
    if (!scalars[k] && decides) {
      throw InputError("op `" + info_.name + "`: scalar " + parameter.name +
                       " decides what is read or computed; give its value");
    }
    // The value of one that stays open decides nothing, whatever it is.
    arguments.scalars[parameter.name] = scalars[k].value_or(Value{parameter.dtype, 0});
  }
  return arguments;
}

frontend::SymbolValues OpCore::bind(std::span<const TensorType> types,
                                    std::span<const std::optional<Value>> scalars) const {
  const frontend::Arguments arguments = arguments_of(types, scalars);
  Diagnostics diagnostics;
  const std::optional<frontend::SymbolValues> values =
      frontend::bind(signature_, *lowered().graph, arguments, diagnostics);
  if (!values) throw_diagnostics(diagnostics, info_.name);
  return *values;
}

frontend::SymbolValues OpCore::bind_known(std::span<const TensorType> types,
                                          std::span<const std::optional<Value>> scalars) const {
  static_assert(kDynamic == frontend::kOpenExtent);
  const frontend::Arguments arguments = arguments_of(types, scalars);
  Diagnostics diagnostics;
  const std::optional<frontend::SymbolValues> values =
      frontend::bind_known(signature_, *lowered().graph, arguments, diagnostics);
  if (!values) throw_diagnostics(diagnostics, info_.name);
  return *values;
}

CompiledRef OpCore::compile(std::span<const TensorType> types, std::span<const std::optional<Value>> scalars,
                            const kernel::Target& target, std::optional<Device> device, const std::string& schedule,
                            const std::set<std::string>& constants) const {
  const auto start = std::chrono::steady_clock::now();
  runtime::TraceScope trace("compile", info_.name);
  if (trace.is_active()) trace.add_detail("target", target.name);
  const Lowered& lowered = this->lowered();
  const bool is_open = has_open_extents(types);
  frontend::SymbolValues values = is_open ? bind_known(types, scalars) : bind(types, scalars);
  auto state = std::make_shared<CompiledState>();
  state->fixed_scalars.resize(scalar_parameters_.size());
  std::set<std::string> deciding;
  for (std::size_t k = 0; k < scalar_parameters_.size(); ++k) {
    const bool decides =
        std::find(lowered.deciding.begin(), lowered.deciding.end(), static_cast<int>(k)) != lowered.deciding.end();
    if (decides) {
      state->fixed_scalars[k] = scalars[k];
      deciding.insert(scalar_parameters_[k]->name);
    } else {
      values.erase(scalar_parameters_[k]->name);
    }
  }
  driver::CompileOptions options{
      .target = target, .bindings = std::move(values), .constants = constants, .cache = library_.cache()};
  if (!schedule.empty()) options.schedule = std::make_shared<const SourceFile>("the schedule", schedule);

  const auto run = [graph = lowered.graph, name = info_.name](const driver::CompileOptions& chosen) {
    Diagnostics diagnostics;
    std::optional<driver::Compiled> compiled = driver::compile(*graph, chosen, diagnostics);
    if (!compiled) throw_diagnostics(diagnostics, name);
    return *std::move(compiled);
  };
  state->result = run(options);
  state->recompile = [run, options]() mutable {
    options.keep_llvm = options.keep_assembly = options.keep_reports = true;
    return run(options);
  };
  state->kernels = kernels_of(*state->result.program);
  state->info = info_;
  for (const ParameterInfo* parameter : scalar_parameters_) state->scalar_names.push_back(parameter->name);
  for (const kernel::Symbol& symbol : state->result.program->symbols) {
    if (symbol.dimension) continue;
    const auto parameter = std::find_if(scalar_parameters_.begin(), scalar_parameters_.end(),
                                        [&](const auto* one) { return one->name == symbol.name; });
    CORRLOOM_CHECK(parameter != scalar_parameters_.end(), "the program takes a scalar ", symbol.name, " that op ",
                   info_.name, " does not have");
    state->runtime_scalars.push_back(static_cast<int>(parameter - scalar_parameters_.begin()));
  }
  if (is_open)
    state->judge =
        std::make_unique<const EntryJudge>(signature_, lowered.graph, state->scalar_names, std::move(deciding));
  state->device = device;
  const auto load_start = std::chrono::steady_clock::now();
  if (device) state->loaded.emplace(state->result.program, runtime::backend_of(*device));
  state->result.times.emplace_back("load", std::chrono::steady_clock::now() - load_start);
  state->compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return state;
}

bool OpCore::matches(const Entry& entry, const SplitArguments& arguments, const std::vector<int>& deciding,
                     Setting setting) const {
  if (entry.device != setting.device || entry.constant_parameters != setting.constant_parameters) return false;
  for (std::size_t k = 0; k < entry.types.size(); ++k) {
    const runtime::TensorAccess::State& tensor = runtime::TensorAccess::state(*arguments.tensors[k]);
    if (entry.types[k].dtype != tensor.dtype || !runtime::is_same_shape(entry.types[k].shape, tensor.shape))
      return false;
  }
  for (std::size_t k = 0; k < deciding.size(); ++k) {
    if (entry.deciding[k] != arguments.scalars[static_cast<std::size_t>(deciding[k])]) return false;
  }
  return true;
}

OpCore::EntryRef OpCore::find(std::size_t hash, const SplitArguments& arguments, const std::vector<int>& deciding,
                              Setting setting) const {
  const auto bucket = cache_.find(hash);
  if (bucket == cache_.end()) return nullptr;
  const auto entry = std::find_if(bucket->second.begin(), bucket->second.end(),
                                  [&](const EntryRef& one) { return matches(*one, arguments, deciding, setting); });
  return entry == bucket->second.end() ? nullptr : *entry;
}

void OpCore::forget(std::size_t hash, const EntryRef& entry) const {
  const std::unique_lock lock(cache_mutex_);
  std::erase(cache_[hash], entry);
}

const CompiledState& OpCore::compiled_for(const SplitArguments& arguments, Device device,
                                          bool constant_parameters) const {
  const Entry* const latest = latest_.load(std::memory_order_acquire);
  if (latest != nullptr && matches(*latest, arguments, lowered().deciding, {device, constant_parameters}))
    return *latest->ready.load(std::memory_order_acquire);
  return find_or_compile(arguments, {device, constant_parameters});
}

const CompiledState& OpCore::find_or_compile(const SplitArguments& arguments, Setting setting) const {
  const Device device = setting.device;
  const std::vector<int>& deciding = lowered().deciding;
  std::size_t hash = mix(static_cast<std::size_t>(device.kind()), static_cast<std::uint64_t>(device.index()));
  for (const Tensor& tensor : arguments.operands()) {
    hash = mix(hash, static_cast<std::uint64_t>(tensor.dtype()));
    for (const std::int64_t extent : tensor.shape()) hash = mix(hash, static_cast<std::uint64_t>(extent));
  }
  for (const int number : deciding) hash = mix(hash, arguments.scalars[static_cast<std::size_t>(number)].bits);
  const auto answer = [this](const Entry& entry) -> const CompiledState& {
    // Entries stay as long as this op once their program is there.
    const CompiledState& state = *entry.compiled.get();
    entry.ready.store(&state, std::memory_order_release);
    latest_.store(&entry, std::memory_order_release);
    return state;
  };
  {
    std::shared_lock lock(cache_mutex_);
    if (const EntryRef entry = find(hash, arguments, deciding, setting)) {
      lock.unlock();
      return answer(*entry);
    }
  }

  std::promise<CompiledRef> promise;
  EntryRef entry;
  bool is_mine = false;
  {
    const std::unique_lock lock(cache_mutex_);
    entry = find(hash, arguments, deciding, setting);
    if (entry == nullptr) {
      is_mine = true;
      std::vector<Value> values;
      for (const int number : deciding) values.push_back(arguments.scalars[static_cast<std::size_t>(number)]);
      entry = std::make_shared<const Entry>(device, setting.constant_parameters, types_of(arguments.operands()),
                                            std::move(values), promise.get_future().share());
      cache_[hash].push_back(entry);
    }
  }
  if (!is_mine) return answer(*entry);
  try {
    const std::vector<std::optional<Value>> scalars(arguments.scalars.begin(), arguments.scalars.end());
    promise.set_value(compile(entry->types, scalars, target_of(device), device, {},
                              setting.constant_parameters ? constant_parameters_ : std::set<std::string>()));
  } catch (...) {
    // Those who wait hear the same; the next call tries again.
    forget(hash, entry);
    promise.set_exception(std::current_exception());
  }
  return answer(*entry);
}

}  // namespace corrloom::api
