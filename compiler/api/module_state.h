#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/api/corrloom.h"

namespace corrloom::api {

/// What stands behind a `Module`: an op with its tensors, or several modules one after the other, which hold theirs.
struct ModuleState {
  std::optional<Op> op;
  runtime::ParameterSet parameters;      ///< of the op
  std::map<std::string, Init> declared;  ///< how parameters of the op start, where the declaration says it
  Module::Named parts;
};

}  // namespace corrloom::api
