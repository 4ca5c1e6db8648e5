#include "runtime/run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <optional>

#include "ir/base/errors.h"
#include "ir/kernel/error_slot.h"
#include "runtime/inline_vector.h"
#include "runtime/plan.h"
#include "runtime/storage.h"
#include "runtime/tensor_state.h"
#include "runtime/trace.h"

namespace corrloom::runtime {
namespace {

using kernel::Argument;
using kernel::Buffer;
using kernel::CompiledProgram;

/// The call that moves an operand, as a user writes it.
std::string move_call(const std::string& name, Device target) {
  return name + ".to(" + (target.is_cpu() ? "cpu()" : "cuda(" + std::to_string(target.index()) + ")") + ")";
}

std::string op_prefix(const CompiledProgram& program) {
  return "op `" + program.op + "`: ";
}

void check_number(const CompiledProgram& program, std::size_t found, std::size_t wanted, const char* what) {
  if (found == wanted) return;
  throw InputError(detail::concat(op_prefix(program), "found ", found, " ", what, "; wanted ", wanted));
}

/// Only called with tensors that do not suit: says in which way.
[[noreturn]] void reject(const CompiledProgram& program, const Buffer& buffer, const Tensor& tensor,
                         const Shape* wanted, const BackendRef& backend) {
  const std::string name =
      op_prefix(program) + buffer.name + " is " + tensor.type().to_string() + " on " + tensor.device().name();
  if (tensor.storage()->backend() != backend) {
    throw InputError(name + ", but the op runs on " + backend->device().name() + "; use `" +
                     move_call(buffer.name, backend->device()) + "`");
  }
  std::string type = std::string(name_of(buffer.dtype)) + "[";
  for (std::size_t axis = 0; axis < buffer.extents.size(); ++axis) {
    type += (axis > 0 ? ", " : "") + (wanted == nullptr ? std::string("?") : std::to_string((*wanted)[axis]));
  }
  if (tensor.dtype() != buffer.dtype || wanted == nullptr || tensor.shape() != *wanted)
    throw InputError(name + "; wanted " + type + "]");
  throw InputError(name + " with strides; an output must be dense");
}

struct Bytes {
  const std::byte* begin;
  std::int64_t count;
};
Bytes bytes_of(const Tensor& tensor) {
  const TensorAccess::State& state = TensorAccess::state(tensor);
  return {state.address(), state.count * byte_size(state.dtype)};
}
bool overlap(Bytes a, Bytes b) {
  return a.count > 0 && b.count > 0 && a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

}  // namespace

Device device_of_operands(const std::string& op, std::span<const std::string> names, Operands operands,
                          std::optional<Device> preferred) {
  if (operands.empty()) return preferred.value_or(cpu());
  const DeviceBackend* const backend = TensorAccess::state(operands.front()).storage->backend().get();
  const Device first = backend->device();
  bool is_common = !preferred || *preferred == first;
  for (const Tensor& operand : operands)
    is_common = is_common && TensorAccess::state(operand).storage->backend().get() == backend;
  if (is_common) return first;
  const auto elsewhere = [&](const Tensor& operand) { return operand.device() != preferred.value_or(first); };
  bool is_mixed = false;
  for (const Tensor& operand : operands) is_mixed |= elsewhere(operand);
  if (!is_mixed) return first;

  const Device target = preferred.value_or(first);
  std::string places, calls;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::string name = k < names.size() ? names[k] : "operand " + std::to_string(k);
    places += (k > 0 ? ", " : "") + name + " is on " + operands[k].device().name();
    if (elsewhere(operands[k])) calls += (calls.empty() ? "`" : "` and `") + move_call(name, target);
  }
  throw InputError("op `" + op + "` needs its operands on one device" + (preferred ? ", " + target.name() : "") + ": " +
                   places + "\n  help: use " + calls + "`");
}

struct LoadedProgram::State {
  std::shared_ptr<const CompiledProgram> program;
  BackendRef backend;
  std::unique_ptr<LoadedCode> code;
  std::vector<int> inputs, outputs, scalars;
  std::vector<int> roots;                ///< by buffer
  std::vector<int> input_number;         ///< by buffer: its position among the inputs, or -1
  std::vector<int> output_number;        ///< by buffer: its position among the outputs, or -1
  std::vector<Tensor> constants;         ///< by buffer: contents on the device, or undefined
  std::optional<Plan> plan;              ///< when no size depends on a symbol
  std::size_t argument_count = 0;        ///< of all kernels together
  std::vector<std::size_t> error_slots;  ///< which of all arguments are error slots
  std::vector<int> constant_inputs;      ///< positions of the inputs that preparing kernels read; empty without such

  /// What one call computes with.
  struct Call {
    Operands inputs;
    std::span<const scalar::Value> scalars;
    Operands outputs;
    const Plan& plan;
    std::span<const std::int64_t> symbols = {};  ///< of dimensions; empty when there are none
    Storage* prepared = nullptr;                 ///< where the results of preparing kernels are
  };
  /// Which kernels of the program are launched.
  enum class Part : std::uint8_t { All, Preparing, Rest };

  /// The launches of one call with the arguments of all kernels, which point into each other.
  struct Arguments {
    explicit Arguments(std::size_t count) : values(count), pointers(count) {}
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;
    InlineVector<std::uint64_t, 32> values;
    InlineVector<void*, 32> pointers;
    InlineVector<Launch, 4> launches;
    std::vector<std::int64_t> symbols;  ///< for messages of checks; empty when no size depends on them
  };

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    // The code must not go while launches of it wait in their stream. A device that is lost has none.
    if (backend == nullptr || code == nullptr || !backend->is_asynchronous()) return;
    try {
      backend->synchronise(Stream{});
    } catch (const RuntimeError&) {
    }
  }

  const Buffer& buffer(int number) const { return program->buffers[static_cast<std::size_t>(number)]; }
  void check_program() const;
  void find_constant_inputs();
  void upload_constants();
  /// Whether the operands are dense and those that the plan is made for; if not, the checks below find out why.
  bool suits_plan(Operands tensors) const;
  void check_scalars(std::span<const scalar::Value> values) const;
  void check_inputs(Operands tensors) const;
  void check_shapes(Operands tensors, const Plan& plan) const;
  void check_outputs(Operands in, Operands out, const Plan& plan) const;
  std::vector<std::int64_t> symbol_values(Operands in, std::span<const scalar::Value> values) const;
  void find_addresses(const Call& call, const Storage* arena, std::byte** addresses) const;
  void fill_arguments(const Call& call, std::byte* const* addresses, Part part, Arguments& out) const;
  void set_error_slot(Arguments& arguments, std::uint64_t* slot) const;
  /// Throws InputError for a strided view.
  void require_dense(const Tensor& input, const char* what) const;
  void launch(const Call& call, Part part) const;
  void launch(const Call& call, const PreparedOperands* prepared, Storage* memory) const;
  /// `times`, if there are any, get the microseconds of each kernel, which is waited for then.
  void launch(Operands in, Operands out, Arguments& arguments, Storage* arena, Storage* prepared,
              std::vector<double>* times = nullptr) const;
  void launch_on_host(Operands in, Operands out, Arguments& arguments, std::vector<double>* times) const;
  WorkRef launch_on_gpu(Operands in, Operands out, Arguments& arguments, std::vector<double>* times) const;
  void launch_kernels(const Arguments& arguments, std::vector<double>* times) const;

  /// Checks everything, then calls `body(inputs, plan, symbols)` with inputs that are dense.
  template <class Body>
  void with_plan(Operands tensors, std::span<const scalar::Value> values, Body body) const;
};

void LoadedProgram::State::check_program() const {
  const CompiledProgram& p = *program;
  const int buffers = static_cast<int>(p.buffers.size()), symbols = static_cast<int>(p.symbols.size());
  for (const kernel::Symbol& symbol : p.symbols) {
    if (!symbol.dimension) continue;
    CORRLOOM_CHECK(symbol.buffer >= 0 && symbol.buffer < buffers && buffer(symbol.buffer).role == Buffer::Role::Input &&
                       symbol.axis >= 0 && symbol.axis < static_cast<int>(buffer(symbol.buffer).extents.size()),
                   "op ", p.op, ": the place of dimension ", symbol.name, " is no axis of an input");
  }
  for (int number = 0; number < buffers; ++number) {
    const int root = roots[static_cast<std::size_t>(number)];
    const Buffer::Role role = buffer(number).role;
    const bool is_lent =
        role == Buffer::Role::Output
            ? buffer(root).role == Buffer::Role::Input || (buffer(root).role == Buffer::Role::Output && root <= number)
        : role == Buffer::Role::Input ? root == number
                                      : true;
    CORRLOOM_CHECK(is_lent, "op ", p.op, ": ", buffer(number).name, " cannot have its storage from ",
                   buffer(root).name);
  }
  for (const kernel::Kernel& kernel : p.kernels) {
    for (const Argument& argument : kernel.arguments) {
      const int bound = argument.kind == Argument::Kind::Buffer   ? buffers
                        : argument.kind == Argument::Kind::Scalar ? symbols
                                                                  : 1;
      const bool has_index = argument.kind == Argument::Kind::Buffer || argument.kind == Argument::Kind::Scalar;
      CORRLOOM_CHECK(!has_index || (argument.index >= 0 && argument.index < bound), "op ", p.op,
                     ": an argument of kernel ", kernel.name, " has index ", argument.index);
    }
  }
}

void LoadedProgram::State::find_constant_inputs() {
  std::vector<bool> read(program->buffers.size(), false);
  for (const kernel::Kernel& kernel : program->kernels) {
    if (!kernel.prepares) continue;
    CORRLOOM_CHECK(plan.has_value(), "op ", program->op, " prepares operands of sizes that are not known");
    for (const Argument& argument : kernel.arguments) {
      CORRLOOM_CHECK(argument.kind != Argument::Kind::ErrorSlot, "op ", program->op, ": ", kernel.name,
                     " prepares operands, and its checks can fail");
      if (argument.kind == Argument::Kind::Buffer) read[static_cast<std::size_t>(argument.index)] = true;
    }
  }
  for (std::size_t k = 0; k < read.size(); ++k) {
    if (!read[k] || buffer(static_cast<int>(k)).role != Buffer::Role::Input) continue;
    CORRLOOM_CHECK(program->buffers[k].constant, "op ", program->op, " prepares ", program->buffers[k].name,
                   ", which is no constant");
    constant_inputs.push_back(input_number[k]);
  }
}

void LoadedProgram::State::upload_constants() {
  constants.resize(program->buffers.size());
  for (std::size_t k = 0; k < constants.size(); ++k) {
    const Buffer& constant = program->buffers[k];
    if (constant.contents.empty()) continue;
    Shape shape;
    for (const kernel::SizeExpr& extent : constant.extents) {
      const std::optional<std::int64_t> value = extent.as_constant();
      CORRLOOM_CHECK(value, "op ", program->op, ": constant ", constant.name, " has no constant shape");
      shape.push_back(*value);
    }
    const std::int64_t bytes = element_count(shape, constant.dtype) * byte_size(constant.dtype);
    CORRLOOM_CHECK(bytes == static_cast<std::int64_t>(constant.contents.size()), "op ", program->op, ": constant ",
                   constant.name, " has ", constant.contents.size(), " bytes instead of ", bytes);
    constants[k] = Tensor::from_data(constant.contents.data(), shape, constant.dtype, backend->device());
  }
}

void LoadedProgram::State::check_scalars(std::span<const scalar::Value> values) const {
  check_number(*program, values.size(), scalars.size(), "scalars");
  for (std::size_t k = 0; k < values.size(); ++k) {
    const kernel::Symbol& symbol = program->symbols[static_cast<std::size_t>(scalars[k])];
    if (values[k].dtype == symbol.dtype) continue;
    throw InputError(op_prefix(*program) + "scalar " + symbol.name + " is " + std::string(name_of(values[k].dtype)) +
                     "; wanted " + std::string(name_of(symbol.dtype)));
  }
}

bool LoadedProgram::State::suits_plan(Operands tensors) const {
  if (!plan || tensors.size() != inputs.size()) return false;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const TensorAccess::State& tensor = TensorAccess::state(tensors[k]);
    const auto number = static_cast<std::size_t>(inputs[k]);
    if (tensor.dtype != program->buffers[number].dtype || !tensor.dense || tensor.storage->backend() != backend ||
        !is_same_shape(tensor.shape, plan->shapes[number]))
      return false;
  }
  return true;
}

void LoadedProgram::State::check_inputs(Operands tensors) const {
  check_number(*program, tensors.size(), inputs.size(), "tensors");
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& tensor = tensors[k];
    const Buffer& wanted = buffer(inputs[k]);
    if (tensor.dtype() != wanted.dtype || tensor.shape().size() != wanted.extents.size() ||
        tensor.storage()->backend() != backend) {
      reject(*program, wanted, tensor, plan ? &plan->shapes[static_cast<std::size_t>(inputs[k])] : nullptr, backend);
    }
  }
}

void LoadedProgram::State::check_shapes(Operands tensors, const Plan& wanted) const {
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const Shape& shape = wanted.shapes[static_cast<std::size_t>(inputs[k])];
    if (tensors[k].shape() != shape) reject(*program, buffer(inputs[k]), tensors[k], &shape, backend);
  }
}

void LoadedProgram::State::check_outputs(Operands in, Operands out, const Plan& wanted) const {
  check_number(*program, out.size(), outputs.size(), "outputs");
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto number = static_cast<std::size_t>(outputs[k]);
    const TensorAccess::State& tensor = TensorAccess::state(out[k]);
    if (tensor.dtype != program->buffers[number].dtype || !is_same_shape(tensor.shape, wanted.shapes[number]) ||
        !tensor.dense || tensor.storage->backend() != backend) {
      reject(*program, program->buffers[number], out[k], &wanted.shapes[number], backend);
    }
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    const int root = roots[static_cast<std::size_t>(outputs[k])];
    const Bytes bytes = bytes_of(out[k]);
    for (std::size_t other = 0; other < in.size(); ++other) {
      if (inputs[other] == root) {
        if (bytes.count == 0 || TensorAccess::state(out[k]).address() == TensorAccess::state(in[other]).address())
          continue;
        throw InputError(op_prefix(*program) + "output " + buffer(outputs[k]).name +
                         " is written in the place of input " + buffer(inputs[other]).name +
                         "; pass that tensor for both");
      }
      if (!overlap(bytes, bytes_of(in[other]))) continue;
      throw InputError(op_prefix(*program) + "output " + buffer(outputs[k]).name + " overlaps input " +
                       buffer(inputs[other]).name + "; use a tensor of its own");
    }
    for (std::size_t other = 0; other < k; ++other) {
      if (outputs[other] == root && TensorAccess::state(out[other]).address() == TensorAccess::state(out[k]).address())
        continue;
      if (outputs[other] != root && !overlap(bytes, bytes_of(out[other]))) continue;
      if (outputs[other] == root) {
        throw InputError(op_prefix(*program) + "output " + buffer(outputs[k]).name +
                         " is written in the place of output " + buffer(root).name + "; pass one tensor for both");
      }
      throw InputError(op_prefix(*program) + "outputs " + buffer(outputs[other]).name + " and " +
                       buffer(outputs[k]).name + " overlap; use tensors of their own");
    }
  }
}

std::vector<std::int64_t> LoadedProgram::State::symbol_values(Operands in,
                                                              std::span<const scalar::Value> values) const {
  std::vector<std::int64_t> symbols(program->symbols.size(), 0);
  for (std::size_t k = 0; k < symbols.size(); ++k) {
    const kernel::Symbol& symbol = program->symbols[k];
    if (!symbol.dimension) continue;
    const int position = input_number[static_cast<std::size_t>(symbol.buffer)];
    symbols[k] = in[static_cast<std::size_t>(position)].shape()[static_cast<std::size_t>(symbol.axis)];
  }
  for (std::size_t k = 0; k < values.size(); ++k) {
    // Sizes are integers; a float scalar takes no part in them.
    if (!is_float(values[k].dtype)) symbols[static_cast<std::size_t>(scalars[k])] = values[k].as_i64();
  }
  return symbols;
}

template <class Body>
void LoadedProgram::State::with_plan(Operands tensors, std::span<const scalar::Value> values, Body body) const {
  if (suits_plan(tensors)) {
    check_scalars(values);
    if (!plan->failed_check.empty()) throw InputError(plan->failed_check);
    return body(tensors, *plan, std::span<const std::int64_t>());
  }
  check_inputs(tensors);
  check_scalars(values);
  std::vector<std::int64_t> symbols;
  std::optional<Plan> made;
  if (!plan) {
    symbols = symbol_values(tensors, values);
    made = make_plan(*program, roots, symbols);
  }
  const Plan& current = plan ? *plan : *made;
  check_shapes(tensors, current);
  if (!current.failed_check.empty()) throw InputError(current.failed_check);
  bool all_dense = true;
  for (const Tensor& tensor : tensors) all_dense &= tensor.is_contiguous();
  if (all_dense) return body(tensors, current, std::span<const std::int64_t>(symbols));

  std::vector<Tensor> dense;
  for (const Tensor& tensor : tensors) dense.push_back(tensor);
  for (std::size_t k = 0; k < dense.size(); ++k) {
    if (dense[k].is_contiguous()) continue;
    for (const int output : outputs) {
      if (roots[static_cast<std::size_t>(output)] != inputs[k]) continue;
      throw InputError(op_prefix(*program) + "input " + buffer(inputs[k]).name +
                       " is a strided view, and its memory takes the result; use `.contiguous()` first");
    }
    dense[k] = dense[k].contiguous();
  }
  body(Operands(dense), current, std::span<const std::int64_t>(symbols));
}

void LoadedProgram::State::find_addresses(const Call& call, const Storage* arena, std::byte** addresses) const {
  for (std::size_t k = 0; k < program->buffers.size(); ++k) {
    const auto root = static_cast<std::size_t>(roots[k]);
    if (constants[root].is_defined()) {
      addresses[k] = TensorAccess::state(constants[root]).address();
    } else if (input_number[root] >= 0) {
      addresses[k] = TensorAccess::state(call.inputs[static_cast<std::size_t>(input_number[root])]).address();
    } else if (output_number[root] >= 0) {
      // Preparing kernels come without outputs.
      const auto number = static_cast<std::size_t>(output_number[root]);
      addresses[k] = call.outputs.empty() ? nullptr : TensorAccess::state(call.outputs[number]).address();
    } else if (program->buffers[root].constant) {
      addresses[k] = call.prepared == nullptr ? nullptr : call.prepared->data() + call.plan.arena_offset[root];
    } else {
      // A workspace without elements has no arena; its address is never used.
      addresses[k] = arena == nullptr ? nullptr : arena->data() + call.plan.arena_offset[root];
    }
  }
}

void LoadedProgram::State::fill_arguments(const Call& call, std::byte* const* addresses, Part part,
                                          Arguments& out) const {
  // The host's kernels take the address of a buffer as it is, PTX takes the address of the parameter that holds it.
  const bool direct = program->target.kind == kernel::TargetKind::Host;
  std::size_t next = 0, next_size = 0;
  if (!error_slots.empty()) out.symbols.assign(call.symbols.begin(), call.symbols.end());
  for (std::size_t number = 0; number < program->kernels.size(); ++number) {
    const kernel::Kernel& kernel = program->kernels[number];
    const std::size_t first = next;
    for (const Argument& argument : kernel.arguments) {
      const auto index = static_cast<std::size_t>(argument.index);
      void* address = nullptr;
      std::uint64_t value = 0;
      switch (argument.kind) {
        case Argument::Kind::Buffer:
          address = addresses[index];
          break;
        case Argument::Kind::ErrorSlot:
          break;  // `set_error_slot`
        case Argument::Kind::Size:
          value = static_cast<std::uint64_t>(call.plan.sizes[next_size++]);
          break;
        case Argument::Kind::Scalar: {
          const auto place = std::find(scalars.begin(), scalars.end(), argument.index);
          value = place == scalars.end() ? static_cast<std::uint64_t>(call.symbols[index])
                                         : call.scalars[static_cast<std::size_t>(place - scalars.begin())].bits;
          break;
        }
      }
      const bool is_address = argument.kind == Argument::Kind::Buffer;
      out.values[next] = is_address ? reinterpret_cast<std::uint64_t>(address) : value;
      out.pointers[next] = is_address && direct ? address : &out.values[next];
      ++next;
    }
    if (call.plan.blocks[number] <= 0) continue;
    if (part != Part::All && kernel.prepares != (part == Part::Preparing)) continue;
    out.launches.push_back({.code = code.get(),
                            .kernel = static_cast<int>(number),
                            .blocks = call.plan.blocks[number],
                            .arguments = out.pointers.data() + first,
                            .argument_count = static_cast<int>(next - first),
                            .flops = call.plan.work[number].flops,
                            .bytes = call.plan.work[number].bytes});
  }
}

void LoadedProgram::State::require_dense(const Tensor& input, const char* what) const {
  if (input.is_contiguous()) return;
  throw InputError(op_prefix(*program) + what + " must be dense, and " + input.type().to_string() + " on " +
                   input.device().name() + " is a strided view; use `.contiguous()` first");
}

void LoadedProgram::State::set_error_slot(Arguments& arguments, std::uint64_t* slot) const {
  const bool direct = program->target.kind == kernel::TargetKind::Host;
  for (const std::size_t place : error_slots) {
    arguments.values[place] = reinterpret_cast<std::uint64_t>(slot);
    if (direct) arguments.pointers[place] = slot;
  }
}

void LoadedProgram::State::launch(const Call& call, const PreparedOperands* prepared, Storage* memory) const {
  if (prepared != nullptr) {
    Call with = call;
    with.prepared = memory;
    return launch(with, Part::Rest);
  }
  if (call.plan.prepared_bytes == 0) return launch(call, Part::All);
  const std::shared_ptr<Storage> own = Storage::allocate(backend, static_cast<std::size_t>(call.plan.prepared_bytes));
  Call with = call;
  with.prepared = own.get();
  launch(with, Part::All);
}

void LoadedProgram::State::launch(const Call& call, Part part) const {
  std::shared_ptr<Storage> arena;
  if (call.plan.arena_bytes > 0 && part != Part::Preparing)
    arena = Storage::allocate(backend, static_cast<std::size_t>(call.plan.arena_bytes));
  InlineVector<std::byte*, 32> addresses(program->buffers.size());
  find_addresses(call, arena.get(), addresses.data());
  Arguments arguments(argument_count);
  fill_arguments(call, addresses.data(), part, arguments);
  // Preparing kernels write no output.
  launch(call.inputs, part == Part::Preparing ? Operands() : call.outputs, arguments, arena.get(), call.prepared);
}

void LoadedProgram::State::launch(Operands in, Operands out, Arguments& arguments, Storage* arena, Storage* prepared,
                                  std::vector<double>* times) const {
  const TraceScope trace(backend->is_asynchronous() ? "launch" : "run", program->op);
  if (!backend->is_asynchronous()) return launch_on_host(in, out, arguments, times);
  const WorkRef work = launch_on_gpu(in, out, arguments, times);
  if (arena != nullptr) arena->note_write(work);
  if (prepared != nullptr) prepared->note_write(work);
}

void LoadedProgram::State::launch_kernels(const Arguments& arguments, std::vector<double>* times) const {
  if (times == nullptr) {
    for (const Launch& one : arguments.launches) backend->launch(one);
    return;
  }
  using Clock = std::chrono::steady_clock;
  times->assign(program->kernels.size(), 0);
  backend->synchronise();
  for (const Launch& one : arguments.launches) {
    const Clock::time_point start = Clock::now();
    backend->launch(one);
    backend->synchronise();
    (*times)[static_cast<std::size_t>(one.kernel)] =
        std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
}

void LoadedProgram::State::launch_on_host(Operands in, Operands out, Arguments& arguments,
                                          std::vector<double>* times) const {
  for (const Tensor& input : in) TensorAccess::state(input).storage->wait();
  for (const Tensor& output : out) {
    Storage& storage = *TensorAccess::state(output).storage;
    storage.wait_for_all();
    storage.note_change();
  }
  std::uint64_t error_word = kernel::kNoFault;
  set_error_slot(arguments, &error_word);
  launch_kernels(arguments, times);
  if (error_word != kernel::kNoFault) throw InputError(fault_message(*program, error_word, arguments.symbols));
}

WorkRef LoadedProgram::State::launch_on_gpu(Operands in, Operands out, Arguments& arguments,
                                            std::vector<double>* times) const {
  std::vector<FaultCheckRef> checks;
  for (const Tensor& input : in) {
    input.storage()->order_read(*backend, {});
    input.storage()->collect_checks(checks);
  }
  for (const Tensor& output : out) output.storage()->order_write(*backend, {});
  FaultCheckRef check;
  if (!error_slots.empty()) {
    check = std::make_shared<FaultCheck>(*backend, program, arguments.symbols);
    set_error_slot(arguments, check->slot());
  }
  std::exception_ptr failure;
  try {
    launch_kernels(arguments, times);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  // Also when only some kernels were launched: those use the operands and write the slot.
  if (check != nullptr) {
    check->note_launched({});
    backend->faults().add(check);
    checks.push_back(std::move(check));
  }
  auto work = std::make_shared<const Work>(backend, Stream{}, std::move(checks));
  for (const Tensor& input : in) input.storage()->note_read(work);
  for (const Tensor& output : out) output.storage()->note_write(work);
  if (failure != nullptr) std::rethrow_exception(failure);
  return work;
}

LoadedProgram::LoadedProgram(std::shared_ptr<const CompiledProgram> program, BackendRef backend) {
  auto state = std::make_unique<State>();
  state->program = std::move(program);
  state->backend = std::move(backend);
  state->roots = storage_roots(*state->program);
  state->check_program();

  const std::vector<Buffer>& buffers = state->program->buffers;
  state->input_number.assign(buffers.size(), -1);
  state->output_number.assign(buffers.size(), -1);
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    if (buffers[k].role == Buffer::Role::Workspace) continue;
    const bool is_input = buffers[k].role == Buffer::Role::Input;
    std::vector<int>& list = is_input ? state->inputs : state->outputs;
    (is_input ? state->input_number : state->output_number)[k] = static_cast<int>(list.size());
    list.push_back(static_cast<int>(k));
  }
  for (std::size_t k = 0; k < state->program->symbols.size(); ++k) {
    if (!state->program->symbols[k].dimension) state->scalars.push_back(static_cast<int>(k));
  }
  for (const kernel::Kernel& kernel : state->program->kernels) {
    for (const Argument& argument : kernel.arguments) {
      if (argument.kind == Argument::Kind::ErrorSlot) state->error_slots.push_back(state->argument_count);
      ++state->argument_count;
    }
  }
  if (has_constant_sizes(*state->program)) {
    state->plan =
        make_plan(*state->program, state->roots, std::vector<std::int64_t>(state->program->symbols.size(), 0));
  }
  state->find_constant_inputs();
  state->upload_constants();
  state->code = state->backend->load(*state->program);
  state_ = std::move(state);
}

LoadedProgram::~LoadedProgram() = default;
LoadedProgram::LoadedProgram(LoadedProgram&&) noexcept = default;

const CompiledProgram& LoadedProgram::program() const {
  return *state_->program;
}
const BackendRef& LoadedProgram::backend() const {
  return state_->backend;
}
const std::vector<int>& LoadedProgram::inputs() const {
  return state_->inputs;
}
const std::vector<int>& LoadedProgram::outputs() const {
  return state_->outputs;
}
const std::vector<int>& LoadedProgram::scalars() const {
  return state_->scalars;
}

std::vector<Tensor> LoadedProgram::run(Operands inputs, std::span<const scalar::Value> scalars,
                                       const PreparedOperands* prepared) const {
  const State& state = *state_;
  std::vector<Tensor> outputs;
  state.with_plan(inputs, scalars, [&](Operands dense, const Plan& plan, std::span<const std::int64_t> symbols) {
    for (const int number : state.outputs) {
      const int root = state.roots[static_cast<std::size_t>(number)];
      const Shape& shape = plan.shapes[static_cast<std::size_t>(number)];
      const int input = state.input_number[static_cast<std::size_t>(root)];
      const int output = state.output_number[static_cast<std::size_t>(root)];
      if (input >= 0) {
        outputs.push_back(dense[static_cast<std::size_t>(input)].reshape(shape));
      } else if (output >= 0 && output < static_cast<int>(outputs.size())) {
        outputs.push_back(outputs[static_cast<std::size_t>(output)].reshape(shape));
      } else {
        outputs.push_back(Tensor::empty(shape, state.buffer(number).dtype, state.backend->device()));
      }
    }
    state.check_outputs(dense, outputs, plan);
    state.launch({dense, scalars, outputs, plan, symbols}, prepared,
                 prepared == nullptr ? nullptr : prepared->memory_.get());
  });
  return outputs;
}

void LoadedProgram::run_into(Operands inputs, std::span<const scalar::Value> scalars, Operands outputs,
                             const PreparedOperands* prepared) const {
  const State& state = *state_;
  state.with_plan(inputs, scalars, [&](Operands dense, const Plan& plan, std::span<const std::int64_t> symbols) {
    state.check_outputs(dense, outputs, plan);
    state.launch({dense, scalars, outputs, plan, symbols}, prepared,
                 prepared == nullptr ? nullptr : prepared->memory_.get());
  });
}

bool PreparedOperands::is_current(Operands inputs) const {
  return std::all_of(constants_.begin(), constants_.end(), [&](const Constant& constant) {
    const TensorAccess::State& then = TensorAccess::state(constant.operand);
    const TensorAccess::State& now = TensorAccess::state(inputs[static_cast<std::size_t>(constant.input)]);
    return now.storage == then.storage && now.byte_offset == then.byte_offset &&
           now.storage->version() == constant.version;
  });
}

bool LoadedProgram::can_prepare() const {
  return !state_->constant_inputs.empty();
}

PreparedRef LoadedProgram::prepare(Operands inputs, std::span<const scalar::Value> scalars) const {
  const State& state = *state_;
  for (const Tensor& input : inputs) state.require_dense(input, "operands to prepare");
  auto prepared = std::make_shared<PreparedOperands>();
  for (const int input : state.constant_inputs) {
    const Tensor& operand = inputs[static_cast<std::size_t>(input)];
    prepared->constants_.push_back({input, operand, operand.storage()->version()});
  }
  state.with_plan(inputs, scalars, [&](Operands dense, const Plan& plan, std::span<const std::int64_t> symbols) {
    prepared->memory_ = Storage::allocate(state.backend, static_cast<std::size_t>(plan.prepared_bytes));
    state.launch({dense, scalars, {}, plan, symbols, prepared->memory_.get()}, State::Part::Preparing);
  });
  return prepared;
}

struct BoundProgram::State {
  State(const LoadedProgram::State& of, std::size_t arguments_of_all)
      : program(of), arguments(arguments_of_all), preparing(arguments_of_all) {}

  const LoadedProgram::State& program;
  std::vector<Tensor> inputs, outputs;
  std::shared_ptr<Storage> arena;
  LoadedProgram::State::Arguments arguments;
  /// Of constant operands: prepared before the first launch, and again when one was written.
  std::shared_ptr<PreparedOperands> prepared;
  LoadedProgram::State::Arguments preparing;
  bool is_prepared = false;

  void prepare();
  Storage* prepared_memory() const { return prepared == nullptr ? nullptr : prepared->memory_.get(); }
};

void BoundProgram::State::prepare() {
  if (prepared == nullptr || (is_prepared && prepared->is_current(inputs))) return;
  for (PreparedOperands::Constant& constant : prepared->constants_)
    constant.version = constant.operand.storage()->version();
  is_prepared = false;
  program.launch(inputs, {}, preparing, nullptr, prepared->memory_.get());
  is_prepared = true;
}

BoundProgram::BoundProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
BoundProgram::~BoundProgram() = default;
BoundProgram::BoundProgram(BoundProgram&&) noexcept = default;

void BoundProgram::launch() {
  state_->prepare();
  state_->program.launch(state_->inputs, state_->outputs, state_->arguments, state_->arena.get(),
                         state_->prepared_memory());
}

std::vector<double> BoundProgram::launch_timed() {
  state_->prepare();
  std::vector<double> times;
  state_->program.launch(state_->inputs, state_->outputs, state_->arguments, state_->arena.get(),
                         state_->prepared_memory(), &times);
  return times;
}

BoundProgram LoadedProgram::bind(Operands inputs, std::span<const scalar::Value> scalars, Operands outputs) const {
  const State& state = *state_;
  for (const Tensor& input : inputs) state.require_dense(input, "operands to bind");
  auto bound = std::make_unique<BoundProgram::State>(state, state.argument_count);
  state.with_plan(inputs, scalars, [&](Operands dense, const Plan& plan, std::span<const std::int64_t> symbols) {
    state.check_outputs(dense, outputs, plan);
    for (const Tensor& input : dense) bound->inputs.push_back(input);
    for (const Tensor& output : outputs) bound->outputs.push_back(output);
    if (plan.arena_bytes > 0)
      bound->arena = Storage::allocate(state.backend, static_cast<std::size_t>(plan.arena_bytes));
    if (!state.constant_inputs.empty()) {
      bound->prepared = std::make_shared<PreparedOperands>();
      for (const int input : state.constant_inputs)
        bound->prepared->constants_.push_back({input, bound->inputs[static_cast<std::size_t>(input)], 0});
      bound->prepared->memory_ = Storage::allocate(state.backend, static_cast<std::size_t>(plan.prepared_bytes));
    }
    const State::Call call{bound->inputs, scalars, bound->outputs, plan, symbols, bound->prepared_memory()};
    InlineVector<std::byte*, 32> addresses(state.program->buffers.size());
    state.find_addresses(call, bound->arena.get(), addresses.data());
    const bool prepares = bound->prepared != nullptr;
    state.fill_arguments(call, addresses.data(), prepares ? State::Part::Rest : State::Part::All, bound->arguments);
    if (prepares) state.fill_arguments(call, addresses.data(), State::Part::Preparing, bound->preparing);
  });
  return BoundProgram(std::move(bound));
}

std::vector<TensorType> LoadedProgram::output_types(Operands inputs, std::span<const scalar::Value> scalars) const {
  std::vector<TensorType> types;
  state_->with_plan(inputs, scalars, [&](Operands, const Plan& plan, std::span<const std::int64_t>) {
    for (const int number : state_->outputs) {
      types.push_back({state_->buffer(number).dtype, plan.shapes[static_cast<std::size_t>(number)]});
    }
  });
  return types;
}

}  // namespace corrloom::runtime
