#include "compiler/tools/corrloom/program.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "compiler/api/op_core.h"
#include "compiler/api/values.h"
#include "compiler/tools/common/settings.h"
#include "runtime/io/bytes.h"

namespace corrloom::tools {
namespace {

constexpr std::uint64_t kMaxScheduleBytes = std::uint64_t{4} << 20;

bool is_op_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

std::vector<std::string> names_of(const OpInfo& info) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : info.parameters) names.push_back(parameter.name);
  return names;
}

std::string declared(const OpInfo& info) {
  return "\n  note: it is declared at " + info.place + ": " + info.text;
}

/// Whether the value says itself which dtype it has: a file does, and what names one.
bool names_dtype(const io::ValueSpec& value) {
  const auto* generated = std::get_if<io::GeneratedValue>(&value);
  return std::holds_alternative<io::FileValue>(value) || (generated != nullptr && generated->dtype);
}

/// The value of one parameter. Without a dtype it takes that of its kind. InputErrors get the parameter's name.
Argument make_argument(const ParameterInfo& parameter, const io::ValueSpec& value, std::optional<DType> dtype,
                       Device device) {
  try {
    if (!parameter.is_tensor) return io::make_scalar(value, dtype ? *dtype : io::make_tensor(value).dtype());
    return io::make_tensor(value, dtype).to(device);
  } catch (const InputError& error) {
    throw InputError(parameter.name + ": " + error.what());
  }
}

/// A `?` is an extent that stays open.
TensorType type_of(const io::TypeSpec& spec) {
  TensorType type{spec.dtype, {}};
  for (const std::optional<std::int64_t>& extent : spec.extents) type.shape.push_back(extent.value_or(kDynamic));
  return type;
}

/// The names in a dimension as it is declared: `(H - P) // 2` has H and P.
std::vector<std::string> names_in(const std::string& dimension) {
  std::vector<std::string> names;
  std::string name;
  for (const char c : dimension + " ") {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '_') {
      name += c;
    } else if (!name.empty()) {
      names.push_back(std::exchange(name, {}));
    }
  }
  return names;
}

}  // namespace

ProgramName split_program(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, ""};
  const std::string op = text.substr(colon + 1);
  if (colon > 0 && is_op_name(op)) return {text.substr(0, colon), op};
  if (colon == 0 || op.empty()) throw io::UsageError("`" + text.substr(0, 80) + "`: wanted FILE.loom or FILE.loom:OP");
  return {text, ""};
}

Op find_op(const Options& options) {
  const ProgramName name = split_program(options.program);
  const Attributes attributes = parse_attributes(options.attributes);
  const Library library = Library::load(name.file);
  if (!name.op.empty()) return library[name.op].with(attributes);
  const std::vector<std::string> ops = library.op_names();
  if (ops.empty()) throw InputError(name.file + " defines no op");
  if (ops.size() == 1) return library[ops.front()].with(attributes);
  std::string list;
  for (const std::string& op : ops) list += "\n  " + name.file + ":" + op;
  throw io::UsageError(name.file + " has several ops; name one:" + list);
}

Device find_device(const Options& options) {
  try {
    return Device::parse(options.device);
  } catch (const InputError& error) {
    throw io::UsageError("--device " + std::string(error.what()));
  }
}

std::vector<std::optional<std::string>> match_parameters(
    const OpInfo& info, const std::vector<std::pair<std::string, std::string>>& settings, const std::string& form,
    bool required_scalars) {
  std::vector<std::optional<std::string>> texts(info.parameters.size());
  std::string unknown;
  for (const auto& [name, text] : settings) {
    const ParameterInfo* parameter = info.parameter(name);
    if (parameter != nullptr) {
      texts[static_cast<std::size_t>(parameter - info.parameters.data())] = text;
      continue;
    }
    const bool is_attribute = std::any_of(info.attributes.begin(), info.attributes.end(),
                                          [&, wanted = name](const AttributeInfo& one) { return one.name == wanted; });
    if (unknown.empty())
      unknown = "op `" + info.name + "` has no parameter `" + name.substr(0, 80) + "`; " +
                (is_attribute ? "it is an attribute: use `--set " + name + "=" + text.substr(0, 80) + "`"
                              : api::suggestion(name, names_of(info))) +
                declared(info);
  }
  std::string missing;
  for (std::size_t k = 0; k < texts.size(); ++k) {
    const ParameterInfo& parameter = info.parameters[k];
    const bool needed = parameter.is_tensor || (required_scalars && !parameter.default_value);
    if (texts[k] || !needed) continue;
    missing += (missing.empty() ? "" : ", ") + parameter.to_string();
  }
  // A wrong name is told before what is missing, which it was probably meant for; only the latter is a matter of usage.
  if (!unknown.empty() && missing.empty()) throw InputError(unknown);
  if (!unknown.empty()) throw io::UsageError(unknown);
  if (!missing.empty())
    throw io::UsageError("op `" + info.name + "` needs " + missing + "; give each as " + form + declared(info));
  return texts;
}

std::vector<Argument> make_arguments(const Op& op, const Options& options, Device device) {
  const OpInfo& info = op.info();
  const std::vector<std::optional<std::string>> texts =
      match_parameters(info, split_settings(options.settings, "NAME=VALUE"), "NAME=VALUE", true);
  std::vector<std::optional<io::ValueSpec>> values;
  for (std::size_t k = 0; k < texts.size(); ++k) {
    values.push_back(texts[k] ? std::optional(io::parse_value(*texts[k])) : std::nullopt);
  }
  // Values that name a dtype come first: they say what a type parameter stands for; then tensors.
  std::map<std::string, DType> types;
  std::vector<std::optional<Argument>> made(values.size());
  for (const int round : {0, 1, 2}) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      const ParameterInfo& parameter = info.parameters[k];
      if (made[k] || !values[k]) continue;
      if (round == 0 ? !names_dtype(*values[k]) : round == 1 && !parameter.is_tensor) continue;
      std::optional<DType> dtype;
      if (parameter.type_parameter.empty()) {
        dtype = parameter.dtype;
      } else if (const auto known = types.find(parameter.type_parameter); known != types.end()) {
        dtype = known->second;
      }
      made[k] = make_argument(parameter, *values[k], dtype, device);
      if (!parameter.type_parameter.empty()) {
        types.emplace(parameter.type_parameter,
                      made[k]->is_tensor() ? made[k]->tensor().dtype() : made[k]->scalar().dtype);
      }
    }
  }
  // The defaults are those of the instance.
  frontend::Arguments given;
  for (std::size_t k = 0; k < made.size(); ++k) {
    const std::string& name = info.parameters[k].name;
    if (made[k] && made[k]->is_tensor()) given.tensors[name] = {made[k]->tensor().dtype(), made[k]->tensor().shape()};
    if (made[k] && !made[k]->is_tensor()) given.scalars[name] = made[k]->scalar();
  }
  const OpInfo& instance = op.core()->instance_for(given).info();
  std::vector<Argument> arguments;
  for (std::size_t k = 0; k < made.size(); ++k)
    arguments.push_back(made[k] ? *made[k] : Argument(*instance.parameters[k].default_value));
  return arguments;
}

std::vector<Argument> dense_arguments(const std::vector<Argument>& arguments) {
  std::vector<Argument> dense;
  for (const Argument& argument : arguments)
    dense.push_back(argument.is_tensor() ? Argument(argument.tensor().contiguous()) : argument);
  return dense;
}

std::vector<TypeArgument> types_of(const Op& op, const std::vector<Argument>& arguments, const std::string& open) {
  const bool all = open == "*";
  const std::vector<std::string> wanted = all ? std::vector<std::string>() : names_in(open);
  std::vector<std::string> known;
  const OpInfo& info = op.core()->instance_for(arguments).info();
  std::vector<TypeArgument> types;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (!arguments[k].is_tensor()) {
      types.emplace_back(arguments[k].scalar());
      continue;
    }
    TensorType type = arguments[k].tensor().type();
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      // A tensor of another rank than the declared one is refused when the op is compiled for it.
      const std::vector<std::string>& dims = info.parameters[k].dims;
      const std::vector<std::string> names = axis < dims.size() ? names_in(dims[axis]) : std::vector<std::string>();
      known.insert(known.end(), names.begin(), names.end());
      const bool is_named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
      });
      if (all || is_named) type.shape[axis] = kDynamic;
    }
    types.emplace_back(std::move(type));
  }
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError("--dynamic: op `" + info.name + "` has no dimension `" + name.substr(0, 80) + "`" +
                       declared(info));
  }
  return types;
}

std::string read_schedule(const Options& options) {
  if (options.schedule.empty()) return {};
  const std::vector<unsigned char> bytes = io::InputFile(options.schedule).read_all(kMaxScheduleBytes);
  return {bytes.begin(), bytes.end()};
}

std::vector<TypeArgument> make_types(const OpInfo& info, const Options& options) {
  const auto texts = match_parameters(info, split_settings(options.settings, "NAME=TYPE"), "NAME=TYPE", false);
  std::vector<TypeArgument> types;
  std::string open;
  bool gives_scalars = false;
  for (std::size_t k = 0; k < texts.size(); ++k) {
    const ParameterInfo& parameter = info.parameters[k];
    if (parameter.is_tensor) {
      types.emplace_back(type_of(io::parse_type(*texts[k])));
    } else if (texts[k]) {
      gives_scalars = true;
      const io::ValueSpec value = io::parse_value(*texts[k]);
      const bool is_typed = parameter.type_parameter.empty();
      types.emplace_back(io::make_scalar(value, is_typed ? parameter.dtype : io::make_tensor(value).dtype()));
    } else if (parameter.default_value && parameter.type_parameter.empty()) {
      types.emplace_back(*parameter.default_value);
    } else {
      open += (open.empty() ? "" : ", ") + parameter.name;
    }
  }
  if (gives_scalars && !open.empty())
    throw io::UsageError("op `" + info.name + "`: give " + open + " too, or no scalar at all");
  if (open.empty()) return types;
  std::erase_if(types, [](const TypeArgument& type) { return !type.is_tensor(); });
  return types;
}

}  // namespace corrloom::tools
