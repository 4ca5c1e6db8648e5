#include <algorithm>
#include <set>

#include "compiler/api/corrloom.h"
#include "compiler/api/module_state.h"
#include "compiler/api/op_core.h"
#include "compiler/api/values.h"
#include "compiler/frontend/entry.h"
#include "runtime/random.h"

namespace corrloom {
namespace {

using api::ModuleState;
using runtime::ParameterSet;
using StateRef = std::shared_ptr<ModuleState>;

/// The parameters of a module and of all its parts, under their full names, in one set.
void gather(const ModuleState& state, const std::string& prefix, ParameterSet& into) {
  into.add_all(prefix, state.parameters);
  for (const auto& [name, part] : state.parts) gather(*part.state(), prefix + name + ".", into);
}
ParameterSet all_parameters(const ModuleState& state) {
  ParameterSet all;
  gather(state, "", all);
  return all;
}

/// Gives every part its tensors out of a set that `all_parameters` made.
void scatter(ModuleState& state, const std::string& prefix, const ParameterSet& from) {
  for (const auto& parameter : state.parameters.parameters()) {
    const Tensor& value = from[prefix + parameter.name].value;
    if (value.is_defined()) state.parameters.set(parameter.name, value);
  }
  state.packed.clear();
  for (const auto& [name, part] : state.parts) scatter(*part.state(), prefix + name + ".", from);
}

void gather_declared(const ModuleState& state, const std::string& prefix, std::map<std::string, Init>& into) {
  for (const auto& [name, init] : state.declared) into.emplace(prefix + name, init);
  for (const auto& [name, part] : state.parts) gather_declared(*part.state(), prefix + name + ".", into);
}

/// Calls the op of a module with all of its arguments. What it owns is packed once as long as it does not change.
std::vector<Tensor> call_with(ModuleState& state, std::span<const Argument> arguments) {
  const api::OpCore& core = state.op->core()->instance_for(arguments);
  std::vector<Tensor> constants;
  for (const ParameterSet::Parameter& parameter : state.parameters.parameters()) {
    if (core.constant_parameters().contains(parameter.name)) constants.push_back(parameter.value);
  }
  if (constants.empty() || !state.packed.are_stable(constants)) return state.op->call(arguments);
  const api::SplitArguments split = api::split_arguments(core.info(), arguments);
  const Device device = runtime::device_of_operands(core.info().name, core.tensor_names(), split.operands(), {});
  const api::CompiledState& compiled = core.compiled_for(split, device, /*constant_parameters=*/true);
  const auto scalars = compiled.program_scalars(split.scalars.span());
  const runtime::PreparedRef prepared = state.packed.prepared_for(compiled, split.operands(), scalars.span());
  return compiled.loaded->run(split.operands(), scalars.span(), prepared.get());
}

/// How a parameter starts that nothing is said of.
Init default_start(const ParameterSet::Parameter& parameter) {
  return parameter.extents.size() >= 2 ? Init::kaiming_uniform() : Init::zeros();
}

/// The declared type, or that of the tensor it has, where the declaration leaves sizes open.
TensorType type_to_make(const ParameterSet::Parameter& parameter) {
  if (parameter.value.is_defined()) return parameter.value.type();
  if (const std::optional<TensorType> type = parameter.type()) return *type;
  throw InputError("parameter `" + parameter.name + "` is " + parameter.declared() +
                   ": give the open sizes to `module`, as in {{\"I\", 784}}");
}

/// The dimensions of `sizes` that are no attributes of the op.
std::map<std::string, std::int64_t> dimensions_of(const OpInfo& info, const tensor::Graph& graph,
                                                  const Attributes& sizes) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, value] : sizes) {
    if (std::any_of(info.attributes.begin(), info.attributes.end(), [&](const auto& one) { return one.name == name; }))
      continue;
    std::vector<std::string> known;
    for (const AttributeInfo& attribute : info.attributes) known.push_back(attribute.name);
    for (const tensor::Symbol& symbol : graph.symbols) {
      if (symbol.kind == tensor::Symbol::Kind::Dimension) known.push_back(symbol.name);
    }
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError("op `" + info.name + "` has no attribute or dimension `" + name + "`; " +
                       api::suggestion(name, known));
    const scalar::Value& size = value.value();
    if (size.dtype != DType::I64 || size.as_i64() < 0)
      throw InputError("op `" + info.name + "`: dimension " + name + " is " + scalar::to_text(size) +
                       "; wanted an int from 0 on");
    out[name] = size.as_i64();
  }
  return out;
}

Attributes attributes_of(const OpInfo& info, const Attributes& sizes) {
  Attributes out;
  for (const AttributeInfo& attribute : info.attributes) {
    const auto given = sizes.find(attribute.name);
    if (given != sizes.end()) out.insert(*given);
  }
  return out;
}

/// An extent for the given dimensions; nothing when one in it is still open or when it cannot be computed.
std::optional<std::int64_t> extent_of(const scalar::Expr& extent, const tensor::Graph& graph,
                                      const std::map<std::string, std::int64_t>& dimensions) {
  const auto lookup = [&](scalar::SymbolId id) -> std::optional<scalar::Value> {
    const auto known = dimensions.find(graph.symbols[static_cast<std::size_t>(id.index)].name);
    return known == dimensions.end() ? std::nullopt : std::optional(scalar::Value::i64(known->second));
  };
  const frontend::EntryValue value = frontend::evaluate_at_entry(extent, lookup);
  if (value.kind != frontend::EntryValue::Kind::Exact || value.value.as_i64() < 0) return std::nullopt;
  return value.value.as_i64();
}

}  // namespace

namespace {

/// What the types and packs of a generic op stand for in its parameters. Packs of other inputs may have any rank in a
/// call; here they have one dimension.
frontend::Instance instance_of(const Op& op, const Attributes& sizes, const std::map<std::string, DType>& types) {
  const frontend::OpSignature& signature = op.core()->signature();
  frontend::Instance instance = frontend::example_instance(signature, 1);
  for (auto& [name, dtype] : instance.types) {
    const auto given = types.find(name);
    dtype = given != types.end()   ? given->second
            : is_float(dtype)      ? DType::F32
            : dtype == DType::Bool ? dtype
                                   : DType::I64;
  }
  for (const auto& [name, dtype] : types) {
    if (instance.types.count(name) == 0)
      throw InputError("op `" + op.name() + "` has no type parameter `" + name + "`\n  note: it is declared at " +
                       op.info().place + ": " + op.info().text);
  }
  for (auto& [pack, rank] : instance.ranks) {
    std::size_t given = 0;
    while (sizes.count(pack + "." + std::to_string(given)) != 0) ++given;
    const std::string written = "..." + pack;
    for (const ParameterInfo& parameter : op.info().parameters) {
      const bool has_pack = std::find(parameter.dims.begin(), parameter.dims.end(), written) != parameter.dims.end();
      if (parameter.is_owned && has_pack && given == 0)
        throw InputError("parameter `" + parameter.name + "` of op `" + op.name() + "` is " + parameter.to_string() +
                         ": give the sizes of `" + written + "`, as in {{\"" + pack + ".0\", 3}}");
    }
    if (given > 0) rank = given;
  }
  return instance;
}

}  // namespace

Module Library::module(const std::string& name, const Attributes& sizes,
                       const std::map<std::string, DType>& types) const {
  const Op plain = (*this)[name];
  const Op op = plain.with(attributes_of(plain.info(), sizes));
  const frontend::Instance instance = instance_of(op, sizes, types);
  const std::shared_ptr<const tensor::Graph> graph =
      op.core()->signature().is_generic()
          ? state_->instance(op.core()->name(), instance, op.core()->attributes()).graph()
          : op.core()->graph();
  const std::map<std::string, std::int64_t> dimensions = dimensions_of(op.info(), *graph, sizes);
  auto state = std::make_shared<ModuleState>();
  std::size_t tensor = 0;
  for (const ParameterInfo& parameter : op.info().parameters) {
    if (!parameter.is_tensor) continue;
    const tensor::Op& input = graph->op(graph->inputs[tensor++]);
    if (!parameter.is_owned) continue;
    ParameterSet::Parameter one{parameter.name, input.dtype, {}, {}};
    for (const scalar::Expr& extent : input.extents) one.extents.push_back(extent_of(extent, *graph, dimensions));
    state->parameters.add(std::move(one));
    if (parameter.initial_value)
      state->declared.emplace(parameter.name, Init::constant(parameter.initial_value->as_f64()));
  }
  if (state->parameters.parameters().empty())
    throw InputError("op `" + op.name() +
                     "` has no `param` input, so a module of it would own nothing\n  note: it is "
                     "declared at " +
                     op.info().place + ": " + op.info().text);
  state->op = op;
  return Module(std::move(state));
}

Module Module::sequential(const Named& modules) {
  if (modules.empty()) throw InputError("a sequence of modules needs at least one");
  auto state = std::make_shared<ModuleState>();
  std::set<std::string> names;
  for (const auto& [name, module] : modules) {
    if (name.empty() || !names.insert(name).second)
      throw InputError("the modules of a sequence need names of their own; found `" + name + "` twice or empty");
    state->parts.emplace_back(name, module);
  }
  return Module(std::move(state));
}

Module Module::sequential(const std::vector<Module>& modules) {
  Named named;
  for (std::size_t k = 0; k < modules.size(); ++k) named.emplace_back(std::to_string(k), modules[k]);
  return sequential(named);
}

std::vector<std::pair<std::string, Tensor>> Module::parameters() const {
  std::vector<std::pair<std::string, Tensor>> out;
  const ParameterSet all = all_parameters(*state_);
  for (const ParameterSet::Parameter& parameter : all.parameters()) out.emplace_back(parameter.name, parameter.value);
  return out;
}

Tensor Module::parameter(const std::string& name) const {
  return all_parameters(*state_)[name].value;
}

void Module::set_parameter(const std::string& name, const Tensor& value) const {
  ParameterSet all = all_parameters(*state_);
  all.set(name, value);
  scatter(*state_, "", all);
}

void Module::init(std::uint64_t seed, const std::map<std::string, Init>& how, Device device) const {
  const ParameterSet old = all_parameters(*state_);
  for (const auto& [name, init] : how) old[name];  // throws for a name that there is not
  std::map<std::string, Init> starts = how;        // what the caller says comes first
  gather_declared(*state_, "", starts);
  ParameterSet all = all_parameters(*state_);
  std::vector<std::pair<Tensor, Tensor>> replaced;  // old tensors with their new ones, for tied names
  std::uint64_t number = 0;
  for (const ParameterSet::Parameter& parameter : old.parameters()) {
    const std::uint64_t own_seed = runtime::draw(seed, number++);
    const bool has_value = parameter.value.is_defined();
    const auto tied = std::find_if(replaced.begin(), replaced.end(), [&](const auto& pair) {
      return has_value && pair.first.is_same_as(parameter.value);
    });
    if (tied != replaced.end()) {
      all.set(parameter.name, tied->second);
      continue;
    }
    const auto start = starts.find(parameter.name);
    const Init init = start != starts.end() ? start->second : default_start(parameter);
    const Tensor value = init.make(type_to_make(parameter), has_value ? parameter.value.device() : device, own_seed);
    if (has_value) replaced.emplace_back(parameter.value, value);
    all.set(parameter.name, value);
  }
  scatter(*state_, "", all);
}

const Module& Module::to(Device device) const {
  ParameterSet all = all_parameters(*state_);
  all.to(device);
  scatter(*state_, "", all);
  return *this;
}

Device Module::device() const {
  return all_parameters(*state_).device();
}

void Module::save(const std::string& path) const {
  all_parameters(*state_).save(path);
}

void Module::load(const std::string& path, const std::map<std::string, std::string>& names) const {
  ParameterSet all = all_parameters(*state_);
  all.load(path, names);
  scatter(*state_, "", all);
}

std::vector<Tensor> Module::call(std::span<const Argument> arguments) const {
  if (!state_->op) {
    std::vector<Tensor> values = state_->parts.front().second.call(arguments);
    for (std::size_t k = 1; k < state_->parts.size(); ++k) {
      const std::vector<Argument> next(values.begin(), values.end());
      values = state_->parts[k].second.call(next);
    }
    return values;
  }
  const OpInfo& info = state_->op->info();
  std::vector<Argument> all;
  all.reserve(info.parameters.size());
  std::size_t next = 0;
  for (const ParameterInfo& parameter : info.parameters) {
    if (parameter.is_owned && parameter.is_tensor) {
      const Tensor& value = state_->parameters[parameter.name].value;
      if (!value.is_defined())
        throw InputError("op `" + info.name + "`: parameter " + parameter.name +
                         " has no value yet; call `init`, `load` or `set_parameter`");
      all.emplace_back(value);
    } else if (next < arguments.size()) {
      all.push_back(arguments[next++]);
    } else if (parameter.default_value) {
      all.emplace_back(*parameter.default_value);
    } else {
      throw InputError("op `" + info.name + "`: " + parameter.name + " is missing; wanted " + parameter.to_string());
    }
  }
  if (next < arguments.size())
    throw InputError("op `" + info.name + "`: found " + api::counted(arguments.size(), "argument") + "; wanted " +
                     std::to_string(next) + " besides the parameters of the module");
  return call_with(*state_, all);
}

Tensor Module::call_for_one(std::span<const Argument> arguments) const {
  std::vector<Tensor> values = call(arguments);
  if (values.size() != 1) throw InputError("the module has " + api::counted(values.size(), "result") + "; use `call`");
  return std::move(values.front());
}

std::string Module::to_string() const {
  std::string out = state_->op ? state_->op->name() : "sequential(";
  for (std::size_t k = 0; k < state_->parts.size(); ++k) {
    const auto& [name, part] = state_->parts[k];
    const std::string kind = part.state()->op ? part.state()->op->name() : "sequential";
    out += (k == 0 ? "" : ", ") + name + ": " + kind;
  }
  if (!state_->op) out += ")";
  const ParameterSet all = all_parameters(*state_);
  for (const ParameterSet::Parameter& parameter : all.parameters()) {
    out += "\n  " + parameter.name + ": " +
           (parameter.value.is_defined() ? parameter.value.type().to_string() + " on " + parameter.value.device().name()
                                         : parameter.declared() + ", no value yet");
  }
  return out;
}

}  // namespace corrloom
