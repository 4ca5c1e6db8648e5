#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/base/errors.h"
#include "ir/base/visibility.h"
#include "ir/scalar/value.h"
#include "runtime/device.h"
#include "runtime/io/file.h"
#include "runtime/parameter_set.h"
#include "runtime/random.h"
#include "runtime/tensor.h"

/// Corrloom: ops in index notation, compiled when they are called.
///
///   Library ops = Library::load("examples/conv.loom");
///   Tensor Y = ops["corr2d"](X, K);
///
/// Errors: `CompileError` for the program, `InputError` for what it is called with, `RuntimeError` for the machine,
/// `InternalError` for our own faults. Every class here is a handle, cheap to copy; all `const` members may be called
/// from any number of threads at once.
namespace corrloom {

namespace api {
class LibraryState;
class OpCore;
struct CompiledState;
struct ModuleState;
}  // namespace api

/// The version of the library, `0.1.0`.
CORRLOOM_API std::string version();

/// How many threads of the host ops spread over; at first CORRLOOM_NUM_THREADS, else the processors that this process
/// may use. Never changes a result.
CORRLOOM_API int thread_count();
/// Changes it, from 1 to 1024. Throws InputError for another number.
CORRLOOM_API void set_thread_count(int threads);

/// The value of an attribute: an int, a float or a bool.
class AttributeValue {
 public:
  template <std::integral T>
  AttributeValue(T value)  // NOLINT(google-explicit-constructor): `{{"stride", 2}}` is the purpose
      : value_(std::is_same_v<T, bool> ? scalar::Value::boolean(static_cast<bool>(value))
                                       : scalar::Value::i64(static_cast<std::int64_t>(value))) {}
  template <std::floating_point T>
  AttributeValue(T value)  // NOLINT(google-explicit-constructor)
      : value_(scalar::Value::f64(static_cast<double>(value))) {}

  /// Of dtype bool, i64 or f64.
  const scalar::Value& value() const { return value_; }

 private:
  scalar::Value value_;
};
using Attributes = std::map<std::string, AttributeValue>;

/// An argument of a call: a tensor, or the value of a scalar parameter.
class Argument {
 public:
  Argument(Tensor tensor)
      : tensor_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor): `op(X, 0.5f)` is the purpose
  /// A number takes the parameter's dtype: integers when they fit exactly, floats when rounding them once to a float
  /// dtype does not overflow.
  template <class T>
  requires std::is_arithmetic_v<T> Argument(T value)
      : scalar_(to_value(value)) {}                  // NOLINT(google-explicit-constructor)
  Argument(scalar::Value value) : scalar_(value) {}  // NOLINT(google-explicit-constructor)

  bool is_tensor() const { return !scalar_.has_value(); }
  const Tensor& tensor() const { return tensor_; }
  const scalar::Value& scalar() const { return *scalar_; }

 private:
  template <class T>
  static scalar::Value to_value(T value) {
    if constexpr (std::is_same_v<T, bool>)
      return scalar::Value::boolean(value);
    else if constexpr (std::is_same_v<T, float>)
      return scalar::Value::f32(value);
    else if constexpr (std::is_floating_point_v<T>)
      return scalar::Value::f64(static_cast<double>(value));
    else if constexpr (std::is_signed_v<T>)
      return scalar::Value::i64(static_cast<std::int64_t>(value));
    else
      return {DType::U64, static_cast<std::uint64_t>(value)};
  }

  Tensor tensor_;
  std::optional<scalar::Value> scalar_;
};

/// In the type that an op is compiled for: an extent that stays open. Every call brings its own.
inline constexpr std::int64_t kDynamic = -1;

/// What an op is compiled for at one parameter: the type of a tensor, or the value of a scalar.
class TypeArgument {
 public:
  TypeArgument(TensorType type)
      : type_(std::move(type)) {
  }  // NOLINT(google-explicit-constructor): `compile({X.type(), K.type()})` is the purpose
  template <class T>
  requires std::is_arithmetic_v<T> TypeArgument(T value)
      : scalar_(Argument(value).scalar()) {}             // NOLINT(google-explicit-constructor)
  TypeArgument(scalar::Value value) : scalar_(value) {}  // NOLINT(google-explicit-constructor)

  bool is_tensor() const { return !scalar_.has_value(); }
  const TensorType& type() const { return type_; }
  const scalar::Value& scalar() const { return *scalar_; }

 private:
  TensorType type_;
  std::optional<scalar::Value> scalar_;
};

/// A parameter as declared. `dims` are as written: `H`, `C // groups`, `3`; a scalar has none.
struct ParameterInfo {
  std::string name;
  bool is_tensor = true;
  DType dtype = DType::F32;
  std::vector<std::string> dims;
  std::optional<scalar::Value> default_value;  ///< of a scalar
  bool is_owned = false;                       ///< a `param`, which a module owns
  std::optional<scalar::Value> initial_value;  ///< of a `param`: what its elements start from
  std::string type_parameter;                  ///< `T`, when its type is one; `dtype` is only one of its class then

  /// `X: f32[H, W]`, `X: T[...D]`
  CORRLOOM_API std::string to_string() const;
};
/// An attribute as declared: dtype i64 for `int`, f64 for `float`, bool for `bool`.
struct AttributeInfo {
  std::string name;
  DType dtype = DType::I64;
  std::optional<scalar::Value> default_value;

  /// `stride: int = 1`
  CORRLOOM_API std::string to_string() const;
};
/// A result as declared; `in` names the input whose storage it takes over.
struct ResultInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::string> dims;
  std::string in;
  std::string type_parameter;  ///< as of a parameter

  /// `Y: f32[H - P + 1, W - Q + 1]`
  CORRLOOM_API std::string to_string() const;
};
/// What a caller sees of an op. One with type parameters or packs (`T[...D]`) is compiled for each set of types and
/// ranks that it is called with.
struct OpInfo {
  std::string name;
  std::string text;   ///< from `op` to the last result, as written
  std::string place;  ///< `file:line:column`
  std::vector<AttributeInfo> attributes;
  std::vector<ParameterInfo> parameters;  ///< tensors and scalars in the order of a call
  std::vector<ResultInfo> results;

  CORRLOOM_API const ParameterInfo* parameter(const std::string& name) const;
};

/// The levels of a compiled op that have a text.
enum class Stage : std::uint8_t { Tensor, Schedule, Loop, Llvm, Asm, Ptx };

/// One launch of a compiled op.
struct KernelInfo {
  std::string name;  ///< of its entry in the code
  std::string op;    ///< the value it computes
  std::int64_t blocks = 0;
  int threads = 1;  ///< of a block
  std::int64_t shared_bytes = 0;
  double flops = 0;       ///< estimate of its floating-point operations
  double bytes = 0;       ///< estimate of what it reads and writes
  bool prepares = false;  ///< makes something of constant operands: a bound call runs it before the first run only
  /// Estimates of its operations on integers that are no subscripts, and of the products among them.
  double integer_ops = 0, integer_products = 0;
  bool uses_dots = false;  ///< it multiplies and adds with an instruction for dot products of bytes or bf16
};

/// A call of a compiled op that is ready to run, as often as wanted. One thread at a time.
class CORRLOOM_API BoundCall {
 public:
  /// Launched asynchronously where the device is. Throws InputError for a data-dependent check that fails, RuntimeError
  /// for the machine.
  void run();
  /// Runs and waits for each kernel: the microseconds that each took, in launch order.
  std::vector<double> run_timed();

  struct State;
  explicit BoundCall(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// An op compiled for types and a device, or for a target without a device.
class CORRLOOM_API Compiled {
 public:
  /// The text of a level. Throws InputError when the target has no such level. `Llvm` and `Asm` are made when they are
  /// asked for first.
  std::string text(Stage stage) const;
  /// In launch order.
  const std::vector<KernelInfo>& kernels() const;
  /// `host`, or the PTX architecture.
  std::string target() const;
  /// Nothing when it was compiled for a target without a device.
  std::optional<Device> device() const;
  double compile_ms() const;
  /// Nanoseconds of each step of the compilation, in order.
  std::vector<std::pair<std::string, std::int64_t>> step_times() const;

  /// Runs on arguments of the types it was compiled for. Throws InputError when they are not, and, with open extents,
  /// for what the op does not accept: each new set of shapes is judged once.
  template <class... Arguments>
  Tensor operator()(const Arguments&... arguments) const {
    const std::array<Argument, sizeof...(Arguments)> all{Argument(arguments)...};
    return call_for_one(all);
  }
  std::vector<Tensor> call(std::span<const Argument> arguments) const;
  /// Runs on the caller's outputs, which must be dense and overlap nothing.
  void run_into(std::span<const Argument> arguments, std::span<const Tensor> outputs) const;
  void run_into(std::initializer_list<Argument> arguments, std::initializer_list<Tensor> outputs) const {
    run_into(std::span(arguments.begin(), arguments.size()), std::span(outputs.begin(), outputs.size()));
  }

  /// The call on those arguments and outputs, checked and laid out once: the path of the lowest latency. Tensors must
  /// be dense; they are kept, and every run uses what they hold then. Of operands that were named as constant, what is
  /// packed serves all runs, until an op or a copy writes one of them; they must not be changed through a pointer.
  BoundCall bind(std::span<const Argument> arguments, std::span<const Tensor> outputs) const;
  BoundCall bind(std::initializer_list<Argument> arguments, std::initializer_list<Tensor> outputs) const {
    return bind(std::span(arguments.begin(), arguments.size()), std::span(outputs.begin(), outputs.size()));
  }

  /// For the project's own tools.
  const std::shared_ptr<const api::CompiledState>& state() const { return state_; }
  explicit Compiled(std::shared_ptr<const api::CompiledState> state) : state_(std::move(state)) {}

 private:
  Tensor call_for_one(std::span<const Argument> arguments) const;

  std::shared_ptr<const api::CompiledState> state_;
};

/// An op of a library with its attributes. Compiled once for each set of types, values that decide ranges, and device;
/// then cached.
class CORRLOOM_API Op {
 public:
  const std::string& name() const;
  const OpInfo& info() const;

  /// The op with attributes given; those left out keep the values they have. Throws InputError for an unknown name and
  /// for a value of another kind.
  Op with(const Attributes& attributes) const;
  /// The op on that device: needed where no operand tells it, checked where one does.
  Op on(Device device) const;

  /// The op's only result. Scalars with a default may be left out at the end. Launched asynchronously where the device
  /// is. Throws InputError when the arguments do not suit, and for an op with several results.
  template <class... Arguments>
  Tensor operator()(const Arguments&... arguments) const {
    const std::array<Argument, sizeof...(Arguments)> all{Argument(arguments)...};
    return call_for_one(all);
  }
  /// Every result, in the order declared.
  template <class... Arguments>
  std::vector<Tensor> all(const Arguments&... arguments) const {
    const std::array<Argument, sizeof...(Arguments)> all{Argument(arguments)...};
    return call(all);
  }
  std::vector<Tensor> call(std::span<const Argument> arguments) const;
  /// Runs on the caller's outputs, which must be dense and overlap nothing (but an input that the op declares with
  /// `in`).
  void run_into(std::span<const Argument> arguments, std::span<const Tensor> outputs) const;
  void run_into(std::initializer_list<Argument> arguments, std::initializer_list<Tensor> outputs) const {
    run_into(std::span(arguments.begin(), arguments.size()), std::span(outputs.begin(), outputs.size()));
  }

  /// Compiles for one argument a parameter, or for the tensors alone. An extent that is `kDynamic` stays open: the
  /// result takes tensors of every extent there that the op accepts, and gives the bits that it gives when compiled for
  /// theirs. A scalar that decides a range or a subscript must be given. `schedule` is the text of a schedule to use
  /// instead of the chosen one. `constants` names tensors that stay the same for many calls: a bound call packs them
  /// once, every other call packs them itself. Throws RuntimeError when the device is not there.
  Compiled compile(const std::vector<TypeArgument>& arguments, Device device, const std::string& schedule = {},
                   const std::vector<std::string>& constants = {}) const;
  /// The same for a target, `host` or a PTX architecture such as `sm_90a`; needs no device, and the result cannot be
  /// called. Throws InputError for an unknown target.
  Compiled compile_for(const std::vector<TypeArgument>& arguments, const std::string& target,
                       const std::string& schedule = {}) const;

  /// For the project's own tools.
  const std::shared_ptr<api::OpCore>& core() const { return core_; }
  Op(std::shared_ptr<api::OpCore> core, std::optional<Device> device) : core_(std::move(core)), device_(device) {}

 private:
  Tensor call_for_one(std::span<const Argument> arguments) const;

  std::shared_ptr<api::OpCore> core_;
  std::optional<Device> device_;
};

class Module;

/// Gives the text that an import names, or nothing to let the file system answer. `path` is `std` or a path resolved
/// against the importing file.
using ImportReader = std::function<std::optional<std::string>(const std::string& path)>;

/// Which intermediates of an op its derivative keeps in memory, and which it computes again: where that costs less than
/// moving them, or as asked for.
enum class Intermediates : std::uint8_t { ByCost, KeepAll, RecomputeAll };
struct GradOptions {
  std::string name = {};     ///< of the derivative; empty: `d_OP`, or `OP_and_grad` with values
  bool with_values = false;  ///< as `Library::value_and_grad` asks for
  Intermediates intermediates = Intermediates::ByCost;
  std::vector<std::string> keep = {}, recompute = {};  ///< by name, whatever `intermediates` says
};
/// A derivative as index notation.
struct Derivative {
  std::string name;
  std::string text;                        ///< a `.loom` file that stands by itself
  std::vector<std::string> intermediates;  ///< what becomes of each, and why
};

/// A checked `.loom` file with everything that it imports.
class CORRLOOM_API Library {
 public:
  /// Throws CompileError with every diagnostic, RuntimeError when the file cannot be read. The path `std` stands for
  /// the standard library.
  static Library load(const std::string& path, const ImportReader& imports = {});
  /// The same for a text; `name` stands for the file in messages, and imports are relative to it.
  static Library parse(const std::string& text, const std::string& name, const ImportReader& imports = {});

  /// The op of that name. Throws InputError, which names those there are, when there is none.
  Op operator[](const std::string& name) const;
  /// The file's own ops, in its order.
  std::vector<std::string> op_names() const;

  /// The derivative of an op by some of its float arguments: an op with the op's arguments and one more for each float
  /// result (`dY` for `Y`), and a result for each of `wrt` (`dX` for `X`). Throws CompileError, with every diagnostic,
  /// when there is none.
  Op grad(const std::string& op, const std::vector<std::string>& wrt, const GradOptions& options = {}) const;
  /// The value and the gradients of a loss in one op: its arguments are the loss's, its results those of the loss, of
  /// which the first is a float of rank 0, and then the derivatives of that number by each of `wrt`. What both need is
  /// computed once. Throws CompileError, with every diagnostic, when there is none.
  Op value_and_grad(const std::string& loss, const std::vector<std::string>& wrt,
                    const GradOptions& options = {}) const;
  /// What each `op d = grad ...` of the file itself stands for, in its order.
  std::vector<Derivative> declared_derivatives() const;
  /// The derivative of an op as text, to be read, edited and loaded.
  Derivative derivative(const std::string& op, const std::vector<std::string>& wrt,
                        const GradOptions& options = {}) const;
  /// The op of that name with tensors for its `param` inputs, which have no values yet. `sizes` gives attributes, and
  /// dimensions of those inputs: `{{"I", 784}, {"O", 10}}`, `{{"D.0", 3}, {"D.1", 4}}` for a pack `...D`. `types` says
  /// what type parameters stand for, those left out for f32 (`integer` ones for i64). Throws InputError for a name that
  /// is none of these, and when a pack of a parameter has no sizes.
  Module module(const std::string& name, const Attributes& sizes = {},
                const std::map<std::string, DType>& types = {}) const;

 private:
  explicit Library(std::shared_ptr<api::LibraryState> state) : state_(std::move(state)) {}

  std::shared_ptr<api::LibraryState> state_;
};

/// An op together with the tensors for its `param` inputs, or several modules one after the other. A handle: copies
/// name the same module. Calls are safe from any number of threads at once while nobody changes the parameters.
///
/// Parameters are packed once into the layout that the kernels want, and again when an op or a copy has written them. A
/// parameter whose memory somebody has a pointer to that may write (`data` of elements that are not const, `address`,
/// `wrap`, DLPack) is packed in every call instead.
class CORRLOOM_API Module {
 public:
  using Named = std::vector<std::pair<std::string, Module>>;

  /// The modules one after the other: each takes what the one before gives. Their parameters are called `NAME.W`.
  /// Throws InputError when there is none or two have one name.
  static Module sequential(const Named& modules);
  /// The same, called `0`, `1`, ...
  static Module sequential(const std::vector<Module>& modules);

  /// Names in the order of the declaration, with their tensors; undefined ones have no value yet.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
  /// Throws InputError when there is no parameter of that name.
  Tensor parameter(const std::string& name) const;
  /// Gives a parameter a tensor, which is shared: two names with one tensor are tied and stay so. Throws InputError
  /// when its type is not the declared one.
  void set_parameter(const std::string& name, const Tensor& value) const;

  /// Gives every parameter a value, the same bits on every device. Those that `how` does not name start from what the
  /// op declares (`param b: f32[O] = 0`), else with `Init::kaiming_uniform` at rank 2 and more and with zeros below.
  /// Tied parameters get one value. Throws InputError when a size is open: give it to `Library::module`.
  void init(std::uint64_t seed, const std::map<std::string, Init>& how = {}, Device device = cpu()) const;
  /// Moves every parameter, or none: then RuntimeError names the one that could not be moved.
  const Module& to(Device device) const;
  /// Where the parameters are. Throws InputError, which lists them, when they are on several devices.
  Device device() const;
  /// Every parameter, in a `.safetensors` or `.npz` file.
  void save(const std::string& path) const;
  /// All parameters or, with an InputError that lists everything that does not suit, none. `names` says how parameters
  /// are called in the file where that differs: `{{"W", "0.weight"}}`.
  void load(const std::string& path, const std::map<std::string, std::string>& names = {}) const;

  /// The op's only result for its remaining inputs, which must be on the module's device.
  template <class... Arguments>
  Tensor operator()(const Arguments&... arguments) const {
    const std::array<Argument, sizeof...(Arguments)> all{Argument(arguments)...};
    return call_for_one(all);
  }
  std::vector<Tensor> call(std::span<const Argument> arguments) const;

  /// `mlp` and one line a parameter.
  std::string to_string() const;

  /// For the project's own tools.
  const std::shared_ptr<api::ModuleState>& state() const { return state_; }
  explicit Module(std::shared_ptr<api::ModuleState> state) : state_(std::move(state)) {}

 private:
  Tensor call_for_one(std::span<const Argument> arguments) const;

  std::shared_ptr<api::ModuleState> state_;
};

/// Trains a module: each step computes a loss and its gradients by all parameters in one op, and changes the parameters
/// where they are. A handle: copies name the same training. One thread at a time.
///
///   Training training(ops["loss"], net, Library::load("std")["adam"]);
///   training.set("rate", 1e-3);
///   for (...) training.step(X, T);
///   std::printf("%g\n", training.loss().item());
///
/// The parameters of one dtype lie one behind the other in a tensor of the training, of which the module's are views;
/// so do their gradients, and what the update remembers. Nothing that stays is allocated after the first step for
/// inputs of the same types, and nothing is waited for.
class CORRLOOM_API Training {
 public:
  /// `loss`: its first result is a float of rank 0, which is derived; its arguments that are called as parameters of
  /// the module are these, the others are the inputs of a step. `names` says which parameter an argument is where they
  /// are called otherwise: `{{"W", "0.W"}}`. `update`: an op on any number of dimensions that acts on each element by
  /// itself, as those of the standard library do: a parameter, its gradient, and tensors that it remembers (zeros at
  /// first), of which every result takes over one (`in`); then numbers, of which an integer one counts the steps
  /// from 1. Throws InputError when one of them has another form, and CompileError when the loss has no derivative.
  Training(const Op& loss, const Module& net, const Op& update, const std::map<std::string, std::string>& names = {},
           const GradOptions& options = {});

  /// Gives a number of the update a value for all steps from now on. Throws InputError for another name.
  const Training& set(const std::string& name, double value) const;
  /// One step for these inputs, which are on the module's device. Throws InputError when they do not suit or when a
  /// number of the update has no value.
  template <class... Arguments>
  const Training& step(const Arguments&... inputs) const {
    const std::array<Argument, sizeof...(Arguments)> all{Argument(inputs)...};
    return step_on(all);
  }
  const Training& step_on(std::span<const Argument> inputs) const;

  /// The loss before the last step changed the parameters, on their device. The next step writes over it.
  Tensor loss() const;
  /// All results of the loss, in its order; as `loss`.
  std::vector<Tensor> results() const;
  /// Of every parameter under its name; as `loss`.
  std::vector<std::pair<std::string, Tensor>> gradients() const;
  std::int64_t steps() const;
  /// The op that computes results and gradients.
  const Op& value_and_grad() const;
  /// What one step for inputs of these types launches.
  std::vector<KernelInfo> kernels(const std::vector<TypeArgument>& inputs) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace corrloom
