#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/api/corrloom.h"
#include "compiler/api/entry_judge.h"
#include "compiler/driver/compile.h"
#include "compiler/frontend/frontend.h"
#include "runtime/inline_vector.h"
#include "runtime/run.h"

/// What stands behind the handles of `corrloom.h`.
namespace corrloom::api {

/// A compiled op. Immutable but for the texts that are made on demand.
struct CompiledState {
  driver::Compiled result;
  double compile_ms = 0;
  std::vector<KernelInfo> kernels;
  OpInfo info;
  std::vector<std::string> scalar_names;  ///< of the scalar parameters, in order
  std::vector<int> runtime_scalars;  ///< for each scalar that the program takes: its number among the scalar parameters
  std::vector<std::optional<scalar::Value>>
      fixed_scalars;                        ///< by scalar: the value it was compiled for, where that decides something
  std::unique_ptr<const EntryJudge> judge;  ///< of calls, where dimensions are open; else null
  std::optional<Device> device;
  std::optional<runtime::LoadedProgram> loaded;  ///< with a device
  std::function<driver::Compiled()> recompile;   ///< the same again, with the texts of the lowest levels

  /// The program's scalars out of all scalars of the call.
  runtime::InlineVector<scalar::Value, 8> program_scalars(std::span<const scalar::Value> scalars) const;
  /// The texts of the lowest levels, made once.
  const driver::Compiled& with_low_texts() const;

  mutable std::mutex low_texts_mutex;
  mutable std::optional<driver::Compiled> low_texts;
};
using CompiledRef = std::shared_ptr<const CompiledState>;

/// The arguments of a call, told apart. The tensors are the caller's. Scalars have their parameters' dtypes; defaults
/// are filled in.
struct SplitArguments {
  runtime::InlineVector<const Tensor*, 8> tensors;
  runtime::InlineVector<scalar::Value, 8> scalars;

  runtime::Operands operands() const { return tensors.span(); }
};

/// Sorts the arguments of a call by parameter. Throws InputError, which names op, parameter, found and wanted.
SplitArguments split_arguments(const OpInfo& info, std::span<const Argument> arguments);

/// An op of a program with values for all of its attributes: its graph, and what was compiled from it.
class OpCore {
 public:
  /// Throws InputError when an attribute without a default is missing.
  OpCore(frontend::Program program, std::string name, frontend::OpSignature signature,
         std::map<std::string, scalar::Value> attributes, LibraryState& library);

  const OpInfo& info() const { return info_; }
  /// The name that the library finds it by.
  const std::string& name() const { return name_; }
  /// What the arguments say that the types and packs of a generic op stand for. Throws InputError.
  frontend::Instance inferred(std::span<const Argument> arguments) const;
  /// The op itself, or of a generic one the instance for those arguments. Throws InputError when there is none.
  const OpCore& instance_for(std::span<const Argument> arguments) const;
  const OpCore& instance_for(std::span<const TypeArgument> arguments) const;
  const OpCore& instance_for(const frontend::Arguments& arguments) const;
  const std::vector<std::string>& tensor_names() const { return tensor_names_; }
  const std::map<std::string, scalar::Value>& attributes() const { return attributes_; }
  const frontend::OpSignature& signature() const { return signature_; }
  LibraryState& library() const { return library_; }

  /// The graph with symbolic dimensions, lowered when it is asked for first. Throws CompileError.
  std::shared_ptr<const tensor::Graph> graph() const;

  /// The op for those arguments on a device: from the cache, or compiled by exactly one of the threads that ask. Lives
  /// as long as this op.
  /// With `constant_parameters`, what it owns as a module stays the same for many calls.
  const CompiledState& compiled_for(const SplitArguments& arguments, Device device,
                                    bool constant_parameters = false) const;

  /// Compiles for types, whose extents may be `kDynamic`; scalars without a value stay open unless they decide ranges.
  /// `device` is empty for a target without one.
  CompiledRef compile(std::span<const TensorType> types, std::span<const std::optional<scalar::Value>> scalars,
                      const kernel::Target& target, std::optional<Device> device, const std::string& schedule,
                      const std::set<std::string>& constants = {}) const;
  /// Names of tensors that can stay the same for many calls. Throws InputError for one that is no tensor of the op, and
  /// for one that the op writes.
  std::set<std::string> constants_named(const std::vector<std::string>& names) const;
  /// The tensors that a module of the op owns, but for those that it writes.
  const std::set<std::string>& constant_parameters() const { return constant_parameters_; }
  /// One type a tensor and one value a scalar out of the arguments of `Op::compile`.
  std::pair<std::vector<TensorType>, std::vector<std::optional<scalar::Value>>> split_types(
      const std::vector<TypeArgument>& arguments) const;

  /// The values of all symbols of `graph()` for a call. Throws InputError for arguments that do not agree with the
  /// declaration.
  frontend::SymbolValues bind(std::span<const TensorType> types,
                              std::span<const std::optional<scalar::Value>> scalars) const;

 private:
  /// `bind` for types with open extents: what is known.
  frontend::SymbolValues bind_known(std::span<const TensorType> types,
                                    std::span<const std::optional<scalar::Value>> scalars) const;
  frontend::Arguments arguments_of(std::span<const TensorType> types,
                                   std::span<const std::optional<scalar::Value>> scalars) const;

  /// What a compiled op is found by.
  struct Entry {
    Entry(Device on, bool with_constants, std::vector<TensorType> of, std::vector<scalar::Value> values,
          std::shared_future<CompiledRef> result)
        : device(on),
          constant_parameters(with_constants),
          types(std::move(of)),
          deciding(std::move(values)),
          compiled(std::move(result)) {}
    Device device;
    bool constant_parameters;
    std::vector<TensorType> types;
    std::vector<scalar::Value> deciding;  ///< values of the scalars that decide ranges
    std::shared_future<CompiledRef> compiled;
    mutable std::atomic<const CompiledState*> ready = nullptr;  ///< once it is there
  };
  using EntryRef = std::shared_ptr<const Entry>;

  /// The graph, and which scalars (by their number) stand in sizes, ranges, subscripts or conditions.
  struct Lowered {
    std::shared_ptr<const tensor::Graph> graph;
    std::vector<int> deciding;
  };
  const Lowered& lowered() const;
  /// Where a call runs, and whether what a module owns is constant in it.
  struct Setting {
    Device device;
    bool constant_parameters;
  };
  bool matches(const Entry& entry, const SplitArguments& arguments, const std::vector<int>& deciding,
               Setting setting) const;
  EntryRef find(std::size_t hash, const SplitArguments& arguments, const std::vector<int>& deciding,
                Setting setting) const;
  void forget(std::size_t hash, const EntryRef& entry) const;
  const CompiledState& find_or_compile(const SplitArguments& arguments, Setting setting) const;

  frontend::Instance inferred(const frontend::Arguments& arguments) const;
  /// Whether a result takes over the tensor's storage.
  bool is_written(const std::string& tensor) const;

  frontend::Program program_;
  std::string name_;
  frontend::OpSignature signature_;
  bool is_generic_;
  std::map<std::string, scalar::Value> attributes_;
  LibraryState& library_;
  OpInfo info_;
  std::vector<std::string> tensor_names_;
  std::vector<const ParameterInfo*> scalar_parameters_;
  std::set<std::string> constant_parameters_;

  mutable std::mutex lowering_mutex_;
  mutable std::unique_ptr<const Lowered> lowered_;
  mutable std::atomic<const Lowered*> lowered_ready_ = nullptr;  ///< `lowered_` once it is there: calls take no lock
  mutable std::shared_mutex cache_mutex_;
  mutable std::unordered_map<std::size_t, std::vector<EntryRef>> cache_;
  mutable std::atomic<const Entry*> latest_ = nullptr;  ///< what the last call used, if it is ready: the next one most
                                                        ///< often wants the same, and then takes no lock
};

/// A checked program and the ops made from it, which live as long as it does.
class LibraryState : public std::enable_shared_from_this<LibraryState> {
 public:
  explicit LibraryState(frontend::Program program);

  const frontend::Program& program() const { return program_; }
  /// Where compiled code is kept between processes; null when nowhere.
  const std::shared_ptr<const driver::DiskCache>& cache() const { return cache_; }
  /// The op of a name with given attributes (those left out have their defaults). One object for each set of values.
  /// Throws InputError.
  std::shared_ptr<OpCore> op(const std::string& name, const std::map<std::string, scalar::Value>& attributes);
  /// The same for an instance of a generic op.
  const OpCore& instance(const std::string& name, const frontend::Instance& instance,
                         const std::map<std::string, scalar::Value>& attributes);
  /// The same as an op that keeps the library alive.
  std::shared_ptr<OpCore> instance_op(const std::string& name, const frontend::Instance& instance,
                                      const std::map<std::string, scalar::Value>& attributes) {
    return {shared_from_this(), find(name, instance, attributes)};
  }

 private:
  OpCore* find(const std::string& name, const frontend::Instance& instance,
               const std::map<std::string, scalar::Value>& attributes);

  frontend::Program program_;
  std::shared_ptr<const driver::DiskCache> cache_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<OpCore>>> ops_;
};

/// The derivative of an op of a program. Throws CompileError when there is none.
Derivative derive(const frontend::Program& program, const std::string& op, const std::vector<std::string>& wrt,
                  const GradOptions& options);

/// What code for a device is compiled for. Throws RuntimeError when the device is not there.
kernel::Target target_of(Device device);
/// The target of a name. Throws InputError, which lists those there are.
kernel::Target target_named(const std::string& name);

/// Throws InputError when all errors are faults of what a call brings along, else CompileError.
[[noreturn]] void throw_diagnostics(const Diagnostics& diagnostics, const std::string& op);

}  // namespace corrloom::api
