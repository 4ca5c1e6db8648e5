#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compiler/api/corrloom.h"
#include "compiler/api/op_core.h"

namespace corrloom::api {

/// What was packed of a module's parameters, for the programs of its latest calls. Any thread may ask.
class PackedParameters {
 public:
  /// Whether the parameters look as if they stayed the same: nobody can change them without a trace, and nothing has
  /// since the last call. A module in training answers no from its second call on.
  bool are_stable(const std::vector<Tensor>& parameters);
  /// What the program made of the operands of a call, made when it is not there or not current. Null when the program
  /// makes nothing.
  runtime::PreparedRef prepared_for(const CompiledState& compiled, runtime::Operands operands,
                                    std::span<const scalar::Value> scalars);
  /// Forgets everything: the parameters are other tensors now.
  void clear();

 private:
  /// Programs of so many shapes and devices are kept at a time: each has a copy of the parameters.
  static constexpr std::size_t kKept = 4;
  struct Kept {
    const CompiledState* compiled;
    runtime::PreparedRef prepared;
  };

  std::mutex mutex_;
  std::vector<Kept> kept_;                                        ///< used last at the end
  std::vector<std::pair<const void*, std::uint64_t>> last_seen_;  ///< memory and version of each parameter
};

/// What stands behind a `Module`: an op with its tensors, or several modules one after the other, which hold theirs.
struct ModuleState {
  std::optional<Op> op;
  runtime::ParameterSet parameters;      ///< of the op
  std::map<std::string, Init> declared;  ///< how parameters of the op start, where the declaration says it
  Module::Named parts;
  PackedParameters packed = {};
};

}  // namespace corrloom::api
