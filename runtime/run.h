#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"
#include "ir/scalar/value.h"
#include "runtime/backend.h"
#include "runtime/operands.h"
#include "runtime/tensor.h"

namespace corrloom::runtime {

class Storage;

/// The one device of an op's operands, `preferred` (or the host) when there are none. Throws InputError, which names
/// every operand with its device and the calls that mend it, when they are on several, and when they are not on
/// `preferred`.
Device device_of_operands(const std::string& op, std::span<const std::string> names, Operands operands,
                          std::optional<Device> preferred = {});

/// What the preparing kernels of a program made of its constant operands: packed copies that serve until an operand
/// changes. It keeps those operands.
class PreparedOperands {
 public:
  /// Whether it is of these operands as they are: the same memory, which no op and no copy has written since. What is
  /// changed through a pointer does not show.
  bool is_current(Operands inputs) const;

 private:
  friend class LoadedProgram;
  friend class BoundProgram;
  struct Constant {
    int input;  ///< position among the inputs
    Tensor operand;
    std::uint64_t version;
  };
  std::vector<Constant> constants_;
  std::shared_ptr<Storage> memory_;
};
using PreparedRef = std::shared_ptr<const PreparedOperands>;

/// A call whose operands are checked and whose arguments are laid out: launching it again costs little more than the
/// kernels. It keeps its operands, and the program must outlive it. One thread at a time.
class BoundProgram {
 public:
  ~BoundProgram();
  BoundProgram(BoundProgram&&) noexcept;

  /// Runs on what the operands hold now; of constant operands, what was prepared of them is used until an op or a copy
  /// writes them. Throws as `run_into` does for what shows at run time.
  void launch();
  /// The same with every kernel waited for: the microseconds that each took.
  std::vector<double> launch_timed();

 private:
  friend class LoadedProgram;
  struct State;
  explicit BoundProgram(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A compiled program whose code is loaded on one device. Immutable: any number of threads may run it at once.
class LoadedProgram {
 public:
  /// Loads the code. Throws RuntimeError when the device cannot take it, InternalError for a malformed program.
  LoadedProgram(std::shared_ptr<const kernel::CompiledProgram> program, BackendRef backend);
  ~LoadedProgram();
  LoadedProgram(LoadedProgram&&) noexcept;

  const kernel::CompiledProgram& program() const;
  const BackendRef& backend() const;
  /// Numbers of the program's input and output buffers, in order.
  const std::vector<int>& inputs() const;
  const std::vector<int>& outputs() const;
  /// Numbers of the symbols that are scalar arguments of the op, in order.
  const std::vector<int>& scalars() const;

  /// Runs on new outputs. An output whose storage is an input's (`in`) is that input. `inputs` are in the order of the
  /// program's input buffers, `scalars` in the order of its symbols that are not dimensions. Strided inputs are copied
  /// to dense ones first. Throws InputError when operands do not suit (number, dtype, shape, device: each named with
  /// found and wanted), when an entry check does not hold or, where the device is synchronous, when a data-dependent
  /// check failed; on an asynchronous one that surfaces when an output is waited for.
  /// `prepared`, if it is not null, must be current for the inputs; without it everything is prepared in the call.
  std::vector<Tensor> run(Operands inputs, std::span<const scalar::Value> scalars = {},
                          const PreparedOperands* prepared = nullptr) const;
  /// Runs on the caller's outputs, which must be dense and overlap neither an input nor one another unless the op says
  /// `in`.
  void run_into(Operands inputs, std::span<const scalar::Value> scalars, Operands outputs,
                const PreparedOperands* prepared = nullptr) const;

  /// Whether the program has preparing kernels.
  bool can_prepare() const;
  /// Runs them. Throws InputError as `run` does for operands that do not suit, and for strided ones.
  PreparedRef prepare(Operands inputs, std::span<const scalar::Value> scalars) const;

  /// Checks a call as `run_into` does and keeps it for many launches. Strided inputs are refused.
  BoundProgram bind(Operands inputs, std::span<const scalar::Value> scalars, Operands outputs) const;

  /// The shapes of the outputs for those inputs, after the same checks.
  std::vector<TensorType> output_types(Operands inputs, std::span<const scalar::Value> scalars = {}) const;

 private:
  friend class BoundProgram;
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace corrloom::runtime
