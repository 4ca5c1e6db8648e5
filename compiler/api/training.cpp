#include <algorithm>

#include "compiler/api/corrloom.h"
#include "compiler/api/op_core.h"
#include "compiler/api/values.h"

namespace corrloom {
namespace {

/// Parameters that lie behind each other begin at multiples of so many elements, which keeps vectors aligned.
constexpr std::int64_t kAlignedElements = 64;

constexpr const char* kSum =
    "op added<T: float>(A: T[...D], B: T[...D]) -> S: T[...D] in A {\n  S[...d] = A[...d] + B[...d]\n}\n";

AttributeValue attribute_value(const scalar::Value& value) {
  if (value.dtype == DType::Bool) return value.as_bool();
  return is_float(value.dtype) ? AttributeValue(value.as_f64()) : AttributeValue(value.as_i64());
}

/// How an update takes its arguments: the numbers of its parameters.
struct UpdateForm {
  std::vector<std::size_t> tensors;  ///< the parameter, its gradient, what is remembered
  std::vector<std::size_t> targets;  ///< by result: which of `tensors` it takes over
  std::vector<std::size_t> scalars;
};

[[noreturn]] void refuse_update(const OpInfo& info, const std::string& why) {
  throw InputError("op `" + info.name + "` is no update of parameters: " + why + "\n  note: it is declared at " +
                   info.place + ": " + info.text);
}

UpdateForm form_of_update(const Op& update) {
  const OpInfo& info = update.info();
  UpdateForm form;
  for (std::size_t k = 0; k < info.parameters.size(); ++k)
    (info.parameters[k].is_tensor ? form.tensors : form.scalars).push_back(k);
  if (form.tensors.size() < 2) refuse_update(info, "it takes a parameter and its gradient, two tensors");
  for (const ResultInfo& result : info.results) {
    const auto target = std::find_if(form.tensors.begin(), form.tensors.end(),
                                     [&](std::size_t k) { return info.parameters[k].name == result.in; });
    if (result.in.empty() || target == form.tensors.end())
      refuse_update(info, "its result " + result.name + " takes over no argument (`in`)");
    form.targets.push_back(static_cast<std::size_t>(target - form.tensors.begin()));
  }
  return form;
}

/// Parameters lie one behind the other: what combines elements would combine those of several.
void require_elementwise(const Op& update, const std::vector<TypeArgument>& types) {
  const std::shared_ptr<const tensor::Graph> graph = update.core()->instance_for(types).graph();
  for (const tensor::Op& op : graph->ops) {
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute != nullptr && compute->reduction) refuse_update(update.info(), "`" + op.name + "` combines elements");
  }
}

}  // namespace

struct Training::State {
  /// An argument of the loss that is a parameter of the module.
  struct Slot {
    std::string argument, parameter;
    Tensor value, gradient;
    std::optional<std::size_t> tied_to;  ///< an earlier slot with the same tensor
  };
  /// The parameters of one dtype.
  struct Group {
    DType dtype = DType::F32;
    std::int64_t count = 0;
    Tensor values, gradients;
    std::vector<Tensor> remembered;
  };

  State(const Op& loss, const Module& module, const Op& wanted_update, const std::map<std::string, std::string>& names,
        const GradOptions& options)
      : net(module), update(wanted_update), form(form_of_update(wanted_update)), gradient(loss) {
    find_slots(loss, names);
    GradOptions wishes = options;
    wishes.with_values = true;
    std::vector<std::string> wrt;
    for (const Slot& slot : slots) wrt.push_back(slot.argument);
    const api::OpCore& core = *loss.core();
    const Derivative derived = api::derive(core.library().program(), core.name(), wrt, wishes);
    Attributes attributes;
    for (const auto& [name, value] : core.attributes()) attributes.emplace(name, attribute_value(value));
    gradient =
        Library::parse(derived.text, "value and gradients of " + core.info().name)[derived.name].with(attributes);
    lay_out();
    for (const Group& group : groups) require_elementwise(update, update_types(group));
  }

  void find_slots(const Op& loss, const std::map<std::string, std::string>& names) {
    const auto parameters = net.parameters();
    for (const ParameterInfo& argument : loss.info().parameters) {
      const auto other = names.find(argument.name);
      const std::string& wanted = other == names.end() ? argument.name : other->second;
      const auto found =
          std::find_if(parameters.begin(), parameters.end(), [&](const auto& one) { return one.first == wanted; });
      if (found == parameters.end() && other != names.end())
        throw InputError("argument `" + argument.name + "` of op `" + loss.name() + "` is to be parameter `" + wanted +
                         "`, which the module does not have");
      slot_of.push_back(found == parameters.end() ? std::nullopt : std::optional(slots.size()));
      if (found != parameters.end()) slots.push_back({argument.name, wanted, {}, {}, {}});
    }
    for (const auto& [name, parameter] : names) {
      if (loss.info().parameter(name) == nullptr)
        throw InputError("op `" + loss.name() + "` has no argument `" + name + "`, which is to be parameter `" +
                         parameter + "`");
    }
    if (slots.empty())
      throw InputError("no argument of op `" + loss.name() +
                       "` is called as a parameter of the module\n  note: it is " + "declared at " + loss.info().place +
                       ": " + loss.info().text);
  }

  // ---- Where parameters lie ----

  bool is_laid_out() const {
    const auto parameters = net.parameters();
    return std::all_of(slots.begin(), slots.end(), [&](const Slot& slot) {
      return std::any_of(parameters.begin(), parameters.end(), [&](const auto& one) {
        return one.first == slot.parameter && one.second.is_same_as(slot.value);
      });
    });
  }

  /// Puts the parameters one behind the other, on their device, and the module's in their place. What is remembered
  /// stays.
  void lay_out() {
    const Device device = net.device();
    std::vector<Tensor> old;
    std::vector<std::int64_t> begins;
    std::vector<Group> before = std::move(groups);
    groups.clear();
    for (std::size_t k = 0; k < slots.size(); ++k) {
      old.push_back(net.parameter(slots[k].parameter));
      const auto same =
          std::find_if(old.begin(), old.end() - 1, [&](const Tensor& one) { return one.is_same_as(old[k]); });
      slots[k].tied_to =
          same == old.end() - 1 ? std::nullopt : std::optional(static_cast<std::size_t>(same - old.begin()));
      Group& group = group_of(old[k].dtype());
      begins.push_back(group.count);
      if (!slots[k].tied_to)
        group.count += (old[k].element_count() + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
    }
    for (std::size_t k = 0; k < groups.size(); ++k) make(groups[k], k < before.size() ? &before[k] : nullptr, device);
    for (std::size_t k = 0; k < slots.size(); ++k) place(slots[k], old[k], begins[k]);
    results.clear();
  }

  Group& group_of(DType dtype) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return one.dtype == dtype; });
    if (found != groups.end()) return *found;
    groups.push_back({dtype, 0, {}, {}, {}});
    return groups.back();
  }

  void make(Group& group, const Group* before, Device device) const {
    group.values = zeros({group.count}, group.dtype, device);
    group.gradients = zeros({group.count}, group.dtype, device);
    for (std::size_t k = 2; k < form.tensors.size(); ++k) {
      const bool is_known = before != nullptr && before->dtype == group.dtype && before->count == group.count;
      group.remembered.push_back(is_known ? before->remembered[k - 2].to(device)
                                          : zeros({group.count}, group.dtype, device));
    }
  }

  void place(Slot& slot, const Tensor& old, std::int64_t begin) {
    if (slot.tied_to) {
      slot.value = slots[*slot.tied_to].value;
      slot.gradient = zeros(old.shape(), old.dtype(), old.device());
    } else {
      const Group& group = group_of(old.dtype());
      const auto view = [&](const Tensor& whole) {
        return whole.slice(0, begin, begin + old.element_count()).reshape(old.shape());
      };
      slot.value = view(group.values);
      slot.value.copy_from(old);
      slot.gradient = view(group.gradients);
    }
    net.set_parameter(slot.parameter, slot.value);
  }

  // ---- A step ----

  std::vector<Argument> arguments_for(std::span<const Argument> inputs) const {
    const OpInfo& info = gradient.info();
    std::vector<Argument> all;
    std::size_t next = 0;
    for (std::size_t k = 0; k < slot_of.size(); ++k) {
      const ParameterInfo& parameter = info.parameters[k];
      if (slot_of[k])
        all.emplace_back(slots[*slot_of[k]].value);
      else if (next < inputs.size())
        all.push_back(inputs[next++]);
      else
        throw InputError("a step of `" + info.name + "` lacks " + parameter.name + "; wanted " + parameter.to_string());
    }
    if (next < inputs.size())
      throw InputError("a step of `" + info.name + "` got " + api::counted(inputs.size(), "input") + "; wanted " +
                       std::to_string(next) + " besides the parameters of the module");
    return all;
  }

  void compute_gradients(std::span<const Argument> inputs) {
    const std::vector<Argument> arguments = arguments_for(inputs);
    std::vector<TensorType> types;
    for (const Argument& input : inputs) {
      if (input.is_tensor() && input.tensor().is_defined()) types.push_back(input.tensor().type());
    }
    if (results.empty() || types != result_types) {
      // Only a call tells the types of the results.
      std::vector<Tensor> all = gradient.call(arguments);
      for (std::size_t k = slots.size(); k-- > 0;) {
        slots[k].gradient.copy_from(all.back());
        all.pop_back();
      }
      results = std::move(all);
      result_types = std::move(types);
    } else {
      std::vector<Tensor> outputs = results;
      for (const Slot& slot : slots) outputs.push_back(slot.gradient);
      gradient.run_into(arguments, outputs);
    }
    for (const Slot& slot : slots) {
      if (!slot.tied_to) continue;
      const Tensor& sum = slots[*slot.tied_to].gradient;
      added.run_into({sum, slot.gradient}, {sum});
    }
  }

  /// The numbers of the update, in the order of its parameters. `step` is the number of this one.
  std::vector<Argument> numbers(std::int64_t step) const {
    std::vector<Argument> all;
    for (const std::size_t k : form.scalars) {
      const ParameterInfo& parameter = update.info().parameters[k];
      const auto setting = settings.find(parameter.name);
      if (!is_float(parameter.dtype))
        all.emplace_back(step);
      else if (setting != settings.end())
        all.emplace_back(setting->second);
      else if (parameter.default_value)
        all.emplace_back(*parameter.default_value);
      else
        throw InputError("`" + parameter.name + "` of op `" + update.name() + "` has no value yet; call `set`");
    }
    return all;
  }

  void update_parameters(const std::vector<Argument>& given) const {
    for (const Group& group : groups) {
      std::vector<Tensor> tensors{group.values, group.gradients};
      tensors.insert(tensors.end(), group.remembered.begin(), group.remembered.end());
      std::vector<Argument> arguments(update.info().parameters.size(), Argument(0));
      for (std::size_t k = 0; k < tensors.size(); ++k) arguments[form.tensors[k]] = tensors[k];
      for (std::size_t k = 0; k < given.size(); ++k) arguments[form.scalars[k]] = given[k];
      std::vector<Tensor> outputs;
      for (const std::size_t target : form.targets) outputs.push_back(tensors[target]);
      update.run_into(arguments, outputs);
    }
  }

  /// The types of the update's tensors alone.
  std::vector<TypeArgument> update_types(const Group& group) const {
    return std::vector<TypeArgument>(form.tensors.size(), TensorType{group.dtype, {group.count}});
  }

  Module net;
  Op update;
  UpdateForm form;
  Op gradient;
  Op added = Library::parse(kSum, "sum of tied gradients")["added"];
  std::vector<std::optional<std::size_t>> slot_of;  ///< by argument of the loss; the others are inputs
  std::vector<Slot> slots;
  std::vector<Group> groups;
  std::vector<Tensor> results;           ///< of the loss
  std::vector<TensorType> result_types;  ///< of the inputs that they are for
  std::map<std::string, double> settings;
  std::int64_t steps = 0;
};

Training::Training(const Op& loss, const Module& net, const Op& update, const std::map<std::string, std::string>& names,
                   const GradOptions& options)
    : state_(std::make_shared<State>(loss, net, update, names, options)) {}

const Training& Training::set(const std::string& name, double value) const {
  const OpInfo& info = state_->update.info();
  std::vector<std::string> known;
  for (const std::size_t k : state_->form.scalars) {
    if (is_float(info.parameters[k].dtype)) known.push_back(info.parameters[k].name);
  }
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw InputError("op `" + info.name + "` has no number `" + name + "` to set; " + api::suggestion(name, known));
  state_->settings[name] = value;
  return *this;
}

const Training& Training::step_on(std::span<const Argument> inputs) const {
  const std::vector<Argument> numbers = state_->numbers(state_->steps + 1);
  if (!state_->is_laid_out()) state_->lay_out();
  state_->compute_gradients(inputs);
  state_->update_parameters(numbers);
  ++state_->steps;
  return *this;
}

Tensor Training::loss() const {
  return results().front();
}

std::vector<Tensor> Training::results() const {
  if (state_->results.empty()) throw InputError("there is no loss before the first step");
  return state_->results;
}

std::vector<std::pair<std::string, Tensor>> Training::gradients() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const State::Slot& slot : state_->slots)
    all.emplace_back(slot.parameter, slot.tied_to ? state_->slots[*slot.tied_to].gradient : slot.gradient);
  return all;
}

std::int64_t Training::steps() const {
  return state_->steps;
}

const Op& Training::value_and_grad() const {
  return state_->gradient;
}

std::vector<KernelInfo> Training::kernels(const std::vector<TypeArgument>& inputs) const {
  std::vector<TypeArgument> types;
  std::size_t next = 0;
  for (const std::optional<std::size_t>& slot : state_->slot_of) {
    if (!slot && next == inputs.size())
      throw InputError("found " + api::counted(inputs.size(), "type") + " of inputs; wanted more");
    types.push_back(slot ? TypeArgument(state_->slots[*slot].value.type()) : inputs[next++]);
  }
  const Device device = state_->net.device();
  std::vector<KernelInfo> all = state_->gradient.compile(types, device).kernels();
  for (const State::Group& group : state_->groups) {
    const Compiled compiled = state_->update.compile(state_->update_types(group), device);
    all.insert(all.end(), compiled.kernels().begin(), compiled.kernels().end());
  }
  return all;
}

}  // namespace corrloom
