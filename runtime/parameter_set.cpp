#include "runtime/parameter_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "ir/base/errors.h"
#include "runtime/io/file.h"
#include "runtime/random.h"
#include "runtime/tensor_state.h"

namespace corrloom {
namespace {

struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(const Shape& shape) {
  if (shape.empty()) return {};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double window = 1;
  for (std::size_t axis = 2; axis < shape.size(); ++axis) window *= static_cast<double>(shape[axis]);
  return {static_cast<double>(shape[1]) * window, static_cast<double>(shape[0]) * window};
}

/// scale * source + offset, element by element, computed in f64 and rounded once.
Tensor scaled(const Tensor& source, double scale, double offset, DType dtype, Device device) {
  const Tensor wide = source.to(f64).contiguous();
  Tensor out = Tensor::empty(wide.shape(), f64);
  const auto* from = static_cast<const double*>(runtime::TensorAccess::address(wide));
  auto* to = static_cast<double*>(runtime::TensorAccess::address(out));
  for (std::int64_t k = 0; k < wide.element_count(); ++k) to[k] = std::fma(scale, from[k], offset);
  return out.to(dtype).to(device);
}

/// A deviation for a fan; an empty tensor has no elements, so any will do.
double deviation(double gain, double fan) {
  return fan > 0 ? gain / std::sqrt(fan) : 0;
}

}  // namespace

Tensor Init::make(const TensorType& type, Device device, std::uint64_t seed) const {
  if (kind_ == Kind::Constant) {
    if (!is_float(type.dtype) && std::trunc(a_) != a_)
      throw InputError(type.to_string() + " cannot start as " + std::to_string(a_));
    return full(type.shape, a_, type.dtype, device);
  }
  if (!is_float(type.dtype))
    throw InputError(type.to_string() + " cannot start as random fractions; give it a constant or set it");
  // Rounding a uniform number of f64 to a narrower dtype could give the upper end; it is harmless in a weight.
  const auto uniform_of = [&](double low, double high) {
    return scaled(rand(type.shape, f64, cpu(), seed), high - low, low, type.dtype, device);
  };
  const auto normal_of = [&](double mean, double sigma) {
    return scaled(randn(type.shape, f64, cpu(), seed), sigma, mean, type.dtype, device);
  };
  const Fans fans = fans_of(type.shape);
  const double kaiming = deviation(a_, fans.in), xavier = deviation(a_, (fans.in + fans.out) / 2);
  switch (kind_) {
    case Kind::Uniform:
      return uniform_of(a_, b_);
    case Kind::Normal:
      return normal_of(a_, b_);
    case Kind::KaimingUniform:  // a uniform number in [-c, c) has the deviation c / sqrt(3)
      return uniform_of(-std::sqrt(3.0) * kaiming, std::sqrt(3.0) * kaiming);
    case Kind::KaimingNormal:
      return normal_of(0, kaiming);
    case Kind::XavierUniform:
      return uniform_of(-std::sqrt(3.0) * xavier, std::sqrt(3.0) * xavier);
    case Kind::XavierNormal:
      return normal_of(0, xavier);
    case Kind::Constant:
      break;
  }
  throw InternalError("an initialisation without a case");
}

namespace runtime {
namespace {

using Parameter = ParameterSet::Parameter;

bool suits(const Parameter& parameter, const TensorType& type) {
  if (parameter.dtype != type.dtype || parameter.extents.size() != type.shape.size()) return false;
  for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
    if (parameter.extents[axis] && *parameter.extents[axis] != type.shape[axis]) return false;
  }
  return true;
}

/// For each parameter the number of the first one with the same tensor: itself unless it is tied.
std::vector<std::size_t> first_of_tied(const std::vector<Parameter>& parameters) {
  std::vector<std::size_t> first(parameters.size());
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    first[k] = k;
    for (std::size_t other = 0; other < k && parameters[k].value.is_defined(); ++other) {
      if (!parameters[other].value.is_defined() || !parameters[other].value.is_same_as(parameters[k].value)) continue;
      first[k] = other;
      break;
    }
  }
  return first;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  const Tensor left = a.to(cpu()).contiguous(), right = b.to(cpu()).contiguous();
  left.wait();
  right.wait();
  return left.byte_count() == right.byte_count() &&
         std::memcmp(runtime::TensorAccess::address(left), runtime::TensorAccess::address(right),
                     static_cast<std::size_t>(left.byte_count())) == 0;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "\n  " + line;
  return out;
}

/// Which tensor of a file goes to which parameter, and what does not suit.
class Matching {
 public:
  Matching(const std::vector<Parameter>& parameters, const std::map<std::string, std::string>& names,
           const io::NamedTensors& file)
      : parameters_(parameters), names_(names) {
    for (const auto& [name, tensor] : file) by_name_.emplace(name, &tensor);
    std::set<std::string> wanted;
    for (const Parameter& parameter : parameters_) wanted.insert(name_in_file(parameter));
    for (const auto& [name, tensor] : file) {
      if (!wanted.contains(name)) fault("extra: `" + name + "`, " + tensor.type().to_string());
    }
  }

  /// The tensor for parameter `k`; null when it is missing or has a wrong type, which is a fault.
  const Tensor* find(std::size_t k) {
    const auto found = by_name_.find(name_in_file(parameters_[k]));
    if (found == by_name_.end()) return nullptr;
    const TensorType type = found->second->type();
    if (suits(parameters_[k], type)) return found->second;
    wrong_types_.insert(k);
    fault("wrong type: " + shown(k) + " is " + type.to_string() + "; wanted " + parameters_[k].declared());
    return nullptr;
  }
  bool has_wrong_type(std::size_t k) const { return wrong_types_.contains(k); }
  /// A parameter as a message calls it.
  std::string shown(std::size_t k) const {
    const std::string wanted = name_in_file(parameters_[k]);
    return "`" + wanted + "`" + (wanted == parameters_[k].name ? "" : " for `" + parameters_[k].name + "`");
  }
  void fault(std::string text) { faults_.push_back(std::move(text)); }
  /// Throws InputError with every fault.
  void require_sound(const std::string& path) const {
    if (!faults_.empty()) throw InputError(path + " does not suit, and nothing was loaded:" + joined(faults_));
  }

 private:
  std::string name_in_file(const Parameter& parameter) const {
    const auto renamed = names_.find(parameter.name);
    return renamed == names_.end() ? parameter.name : renamed->second;
  }

  const std::vector<Parameter>& parameters_;
  const std::map<std::string, std::string>& names_;
  std::map<std::string, const Tensor*> by_name_;
  std::set<std::size_t> wrong_types_;
  std::vector<std::string> faults_;
};

}  // namespace

struct ParameterSet::State {
  std::vector<Parameter> parameters;
};

std::string ParameterSet::Parameter::declared() const {
  std::string out(name_of(dtype));
  out += "[";
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    out += (axis == 0 ? "" : ", ") + (extents[axis] ? std::to_string(*extents[axis]) : "?");
  return out + "]";
}

std::optional<TensorType> ParameterSet::Parameter::type() const {
  TensorType out{dtype, {}};
  for (const std::optional<std::int64_t>& extent : extents) {
    if (!extent) return std::nullopt;
    out.shape.push_back(*extent);
  }
  return out;
}

ParameterSet::ParameterSet() : state_(std::make_shared<State>()) {}

const std::vector<Parameter>& ParameterSet::parameters() const {
  return state_->parameters;
}

void ParameterSet::add(Parameter parameter) {
  for (const Parameter& known : state_->parameters) {
    if (known.name == parameter.name) throw InputError("there are two parameters `" + parameter.name + "`");
  }
  state_->parameters.push_back(std::move(parameter));
}

void ParameterSet::add_all(const std::string& prefix, const ParameterSet& other) {
  const std::vector<Parameter> added = other.parameters();  // `other` may be this set
  for (Parameter parameter : added) {
    parameter.name = prefix + parameter.name;
    add(std::move(parameter));
  }
}

const Parameter& ParameterSet::operator[](const std::string& name) const {
  std::string names;
  for (const Parameter& parameter : state_->parameters) {
    if (parameter.name == name) return parameter;
    names += (names.empty() ? "`" : ", `") + parameter.name + "`";
  }
  throw InputError("there is no parameter `" + name.substr(0, 80) + "`; there are " + (names.empty() ? "none" : names));
}

void ParameterSet::set(const std::string& name, Tensor value) {
  const Parameter& found = (*this)[name];
  if (!value.is_defined()) throw InputError("parameter `" + name + "`: the value is no tensor");
  if (!suits(found, value.type())) {
    throw InputError("parameter `" + name + "`: found " + value.type().to_string() + "; wanted " + found.declared());
  }
  const auto at = static_cast<std::size_t>(&found - state_->parameters.data());
  state_->parameters[at].value = std::move(value);
}

void ParameterSet::to(Device device) {
  std::vector<Parameter> moved = state_->parameters;
  const std::vector<std::size_t> first = first_of_tied(moved);
  for (std::size_t k = 0; k < moved.size(); ++k) {
    if (!moved[k].value.is_defined()) continue;
    try {
      moved[k].value = first[k] == k ? moved[k].value.to(device) : moved[first[k]].value;
    } catch (const RuntimeError& error) {
      throw RuntimeError("parameter `" + moved[k].name + "` could not be moved to " + device.name() +
                         ", and all stay where they were: " + error.what());
    }
  }
  state_->parameters = std::move(moved);
}

Device ParameterSet::device() const {
  std::set<Device> devices;
  std::vector<std::string> lines;
  for (const Parameter& parameter : state_->parameters) {
    if (!parameter.value.is_defined()) throw InputError("parameter `" + parameter.name + "` has no value yet");
    devices.insert(parameter.value.device());
    lines.push_back(parameter.name + " is on " + parameter.value.device().name());
  }
  if (devices.empty()) return cpu();
  if (devices.size() > 1) throw InputError("the parameters are on several devices:" + joined(lines));
  return *devices.begin();
}

void ParameterSet::save(const std::string& path) const {
  io::NamedTensors tensors;
  for (const Parameter& parameter : state_->parameters) {
    if (!parameter.value.is_defined()) throw InputError("parameter `" + parameter.name + "` has no value to save");
    tensors.emplace_back(parameter.name, parameter.value);
  }
  io::save_all(path, tensors);
}

void ParameterSet::load(const std::string& path, const std::map<std::string, std::string>& names, Device device) {
  for (const auto& [name, in_file] : names) (*this)[name];  // throws for one that there is not
  const io::NamedTensors file = io::load_all(path);
  std::vector<Parameter> loaded = state_->parameters;
  Matching matching(loaded, names, file);
  const std::vector<std::size_t> first = first_of_tied(loaded);
  std::vector<const Tensor*> chosen(loaded.size(), nullptr);  // of each first one: what the file has for it
  for (std::size_t k = 0; k < loaded.size(); ++k) {
    const Tensor* found = matching.find(k);
    const Tensor*& of_first = chosen[first[k]];
    if (found != nullptr && of_first != nullptr && !same_elements(*found, *of_first))
      matching.fault("not equal: " + matching.shown(k) + " is tied to `" + loaded[first[k]].name + "`");
    if (found != nullptr) of_first = found;
  }
  for (std::size_t k = 0; k < loaded.size(); ++k) {
    // A tied tensor may be in the file under one of its names only.
    if (chosen[first[k]] == nullptr && !matching.has_wrong_type(k))
      matching.fault("missing: " + matching.shown(k) + ", " + loaded[k].declared());
  }
  matching.require_sound(path);
  for (std::size_t k = 0; k < loaded.size(); ++k) {
    const Tensor& old = loaded[k].value;
    loaded[k].value = first[k] == k ? chosen[k]->to(old.is_defined() ? old.device() : device) : loaded[first[k]].value;
  }
  state_->parameters = std::move(loaded);
}

}  // namespace runtime
}  // namespace corrloom
