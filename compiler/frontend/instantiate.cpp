#include <algorithm>

#include "compiler/frontend/library.h"
#include "compiler/frontend/lowering.h"
#include "compiler/frontend/type_classes.h"

namespace corrloom::frontend {
namespace {

/// The pack of a shape, `...D`, without its points; nothing when it has none.
std::optional<std::string> pack_of(const std::vector<std::string>& dims) {
  for (const std::string& dim : dims) {
    if (dim.starts_with("...")) return dim.substr(3);
  }
  return {};
}

/// Compares each argument with its declaration and with those before it.
class Inference {
 public:
  Inference(const OpSignature& signature, const Arguments& arguments, Diagnostics& diagnostics)
      : signature_(signature), arguments_(arguments), diagnostics_(diagnostics) {}

  std::optional<Instance> run() {
    for (const ParameterSignature& parameter : signature_.parameters) {
      if (parameter.is_tensor) take_tensor(parameter);
    }
    // A number takes the dtype that tensors give; only without one it decides, and its default as the last.
    for (const ParameterSignature& parameter : signature_.parameters) {
      const auto given = arguments_.scalars.find(parameter.name);
      if (is_open(parameter) && given != arguments_.scalars.end()) take_dtype(parameter, given->second.dtype);
    }
    for (const ParameterSignature& parameter : signature_.parameters) {
      if (!is_open(parameter)) continue;
      if (parameter.default_value) {
        take_dtype(parameter, parameter.default_value->dtype);
      } else {
        report_missing(parameter);
      }
    }
    if (failed_) return {};
    return instance_;
  }

 private:
  Diagnostic& fail(Code code, const ParameterSignature& parameter, std::string title) {
    failed_ = true;
    return diagnostics_.report(code, parameter.span, std::move(title), "declared as " + declared_text(parameter));
  }

  void report_missing(const ParameterSignature& parameter) {
    fail(Code::E0245, parameter, "the argument " + quoted(parameter.name) + " is not given");
  }

  void take_tensor(const ParameterSignature& parameter) {
    const auto given = arguments_.tensors.find(parameter.name);
    if (given == arguments_.tensors.end()) {
      report_missing(parameter);
      return;
    }
    if (!parameter.type_parameter.empty()) take_dtype(parameter, given->second.dtype);
    if (const auto pack = pack_of(parameter.dims)) take_rank(parameter, *pack, given->second.extents.size());
  }

  /// Whether it is a scalar whose type no argument has given yet.
  bool is_open(const ParameterSignature& parameter) const {
    return !parameter.is_tensor && !parameter.type_parameter.empty() &&
           instance_.types.count(parameter.type_parameter) == 0;
  }

  void take_dtype(const ParameterSignature& parameter, DType dtype) {
    const std::string& name = parameter.type_parameter;
    const auto [known, is_new] = instance_.types.emplace(name, dtype);
    if (!is_new && known->second != dtype) {
      fail(Code::E0241, parameter,
           "the arguments do not agree on the type " + quoted(name) + ": " + std::string(name_of(known->second)) +
               " and " + std::string(name_of(dtype)));
      return;
    }
    const auto declared = std::find_if(signature_.type_parameters.begin(), signature_.type_parameters.end(),
                                       [&](const TypeParameterSignature& one) { return one.name == name; });
    if (!is_new || is_in_class(declared->type_class, dtype)) return;
    fail(Code::E0241, parameter,
         "the argument " + quoted(parameter.name) + " is of " + quoted(dtype) + ", and " + quoted(name) +
             " is of the class " + quoted(declared->type_class));
  }

  void take_rank(const ParameterSignature& parameter, const std::string& pack, std::size_t rank) {
    const std::size_t others = parameter.dims.size() - 1;
    if (rank < others) {
      fail(Code::E0240, parameter,
           "the argument " + quoted(parameter.name) + " has " + counted(rank, "dimension") + ", not " +
               std::to_string(others) + " or more");
      return;
    }
    const auto [known, is_new] = instance_.ranks.emplace(pack, rank - others);
    if (is_new || known->second == rank - others) return;
    fail(Code::E0240, parameter,
         "the arguments do not agree on " + quoted("..." + pack) + ": " + counted(known->second, "dimension") +
             " and " + std::to_string(rank - others));
  }

  const OpSignature& signature_;
  const Arguments& arguments_;
  Diagnostics& diagnostics_;
  Instance instance_;
  bool failed_ = false;
};

}  // namespace

std::string declared_text(const ParameterSignature& parameter) {
  std::string dims;
  for (const std::string& dim : parameter.dims) dims += (dims.empty() ? "" : ", ") + dim;
  const std::string type =
      parameter.type_parameter.empty() ? std::string(name_of(parameter.dtype)) : parameter.type_parameter;
  return parameter.is_tensor ? type + "[" + dims + "]" : type;
}

bool OpSignature::is_generic() const {
  const auto has_pack = [](const auto& one) { return pack_of(one.dims).has_value(); };
  return !type_parameters.empty() || std::any_of(parameters.begin(), parameters.end(), has_pack) ||
         std::any_of(results.begin(), results.end(), has_pack);
}

Instance example_instance(const OpSignature& signature, std::size_t rank) {
  Instance instance;
  for (const TypeParameterSignature& parameter : signature.type_parameters)
    instance.types[parameter.name] = kinds_of_class(parameter.type_class).front();
  for (const ParameterSignature& parameter : signature.parameters) {
    if (const auto pack = pack_of(parameter.dims)) instance.ranks[*pack] = rank;
  }
  return instance;
}

std::optional<Instance> infer_instance(const OpSignature& signature, const Arguments& arguments,
                                       Diagnostics& diagnostics) {
  return Inference(signature, arguments, diagnostics).run();
}

}  // namespace corrloom::frontend
