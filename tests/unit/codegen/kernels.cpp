#include "tests/unit/codegen/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/codegen/host_target.h"
#include "compiler/codegen/loader.h"
#include "ir/kernel/error_slot.h"
#include "ir/loop/text.h"
#include "ir/loop/verify.h"

namespace corrloom::testing {

using loop::ValueId;
using scalar::Opcode;
using scalar::Value;

loop::BufferId FunctionWriter::buffer(const std::string& name, DType dtype, std::int64_t count, bool written) {
  function_.buffers.push_back({name, dtype, {scalar::constant_i64(count)}, loop::Space::Global, written});
  return {static_cast<std::int32_t>(function_.buffers.size()) - 1};
}

void FunctionWriter::append(loop::Instr instr) {
  (is_open_ ? blocks_.body : body_).instrs.push_back(std::move(instr));
}

ValueId FunctionWriter::define(loop::Type type, decltype(loop::Instr::kind) kind) {
  const ValueId id{static_cast<std::int32_t>(function_.values.size())};
  function_.values.push_back({type, {}});
  append({{id}, std::move(kind)});
  return id;
}

ValueId FunctionWriter::constant(Value value, int lanes) {
  return define({value.dtype, lanes}, loop::Constant{value});
}

ValueId FunctionWriter::apply(Opcode opcode, std::vector<ValueId> args, DType result) {
  const int lanes = function_.type(args[0]).lanes;
  return define({result, lanes}, loop::Apply{opcode, std::move(args)});
}

ValueId FunctionWriter::ramp(ValueId base, std::int64_t stride, int lanes) {
  return define({DType::I64, lanes}, loop::Ramp{base, stride});
}

ValueId FunctionWriter::load(loop::BufferId buffer, ValueId index, ValueId mask) {
  const loop::Type type{function_.buffer(buffer).dtype, function_.type(index).lanes};
  return define(type, loop::Load{buffer, {index}, mask});
}

void FunctionWriter::store(loop::BufferId buffer, ValueId index, ValueId value, ValueId mask) {
  append({{}, loop::Store{buffer, {index}, value, mask}});
}

ValueId FunctionWriter::open_blocks(std::int64_t extent) {
  blocks_.extent = index(extent);
  blocks_.binding = loop::Binding::Block;
  blocks_.variable = {static_cast<std::int32_t>(function_.values.size())};
  function_.values.push_back({{DType::I64, 1}, "b"});
  is_open_ = true;
  return blocks_.variable;
}

loop::Function FunctionWriter::finish() {
  if (is_open_) body_.instrs.push_back({{}, std::move(blocks_)});
  function_.body = std::move(body_);
  return std::move(function_);
}

loop::Function elementwise(Opcode opcode, const std::vector<DType>& operands, DType result, int lanes,
                           std::int64_t count) {
  std::string name = std::string(scalar::info(opcode).text) + "." + std::string(name_of(operands.back())) + "." +
                     std::string(name_of(result)) + ".x" + std::to_string(lanes);
  FunctionWriter writer(name);
  std::vector<loop::BufferId> inputs;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    inputs.push_back(writer.buffer("x" + std::to_string(k), operands[k], count, false));
  }
  const loop::BufferId output = writer.buffer("y", result, count, true);
  const ValueId width = writer.index(lanes);
  const ValueId block = writer.open_blocks(count / lanes);
  ValueId offset = writer.apply(Opcode::Mul, {block, width}, DType::I64);
  if (lanes > 1) offset = writer.ramp(offset, 1, lanes);
  std::vector<ValueId> args;
  for (loop::BufferId input : inputs) args.push_back(writer.load(input, offset));
  writer.store(output, offset, writer.apply(opcode, args, result));
  return writer.finish();
}

loop::Function parse_function(const std::string& text) {
  Diagnostics diagnostics;
  const auto function = loop::parse(std::make_shared<const SourceFile>("test", text), diagnostics);
  EXPECT_TRUE(function) << diagnostics.render();
  if (!function) return {};
  for (const loop::Violation& violation : loop::verify(*function)) {
    ADD_FAILURE() << violation.rule << " " << violation.where << ": " << violation.message;
  }
  return *function;
}

tensor::Array array_of(DType dtype, const std::vector<Value>& values) {
  tensor::Array array{dtype, {static_cast<std::int64_t>(values.size())}, {}};
  for (const Value& value : values) array.bits.push_back(value.bits);
  return array;
}

codegen::KernelSource source_of(const loop::Function& function) {
  return {&function, codegen::symbol_name(function.name), codegen::all_arguments(function)};
}

codegen::EmittedCode emit_or_fail(const std::vector<codegen::KernelSource>& sources, const kernel::Target& target,
                                  codegen::EmitOptions options) {
  Diagnostics diagnostics;
  const auto code = codegen::emit(sources, target, options, diagnostics);
  EXPECT_TRUE(code) << diagnostics.render();
  return code.value_or(codegen::EmittedCode{});
}

namespace {

/// An array in memory, guarded on both sides by bytes that must survive.
struct Memory {
  static constexpr std::size_t kGuard = 256;
  std::vector<unsigned char> bytes;
  std::size_t element_bytes;

  explicit Memory(const tensor::Array& array) : element_bytes(static_cast<std::size_t>(byte_size(array.dtype))) {
    bytes.assign(2 * kGuard + array.bits.size() * element_bytes, 0xa5);
    for (std::size_t k = 0; k < array.bits.size(); ++k) std::memcpy(at(k), &array.bits[k], element_bytes);
  }
  unsigned char* at(std::size_t k) { return bytes.data() + kGuard + k * element_bytes; }

  void copy_to(tensor::Array& array) {
    for (std::size_t k = 0; k < array.bits.size(); ++k) {
      array.bits[k] = 0;
      std::memcpy(&array.bits[k], at(k), element_bytes);
    }
    for (std::size_t k = 0; k < kGuard; ++k) {
      const bool is_intact = bytes[k] == 0xa5 && bytes[bytes.size() - 1 - k] == 0xa5;
      EXPECT_TRUE(is_intact) << "wrote outside a buffer";
      if (!is_intact) return;
    }
  }
};

}  // namespace

std::uint64_t run_entry(void (*entry)(void* const*, std::int64_t, std::int64_t), const loop::Function& function,
                        std::vector<tensor::Array>& arrays, const std::vector<Value>& symbols, std::int64_t blocks) {
  std::uint64_t error_word = kernel::kNoFault;
  EXPECT_NE(entry, nullptr) << function.name;
  if (entry == nullptr) return error_word;
  std::vector<Memory> memory(arrays.begin(), arrays.end());
  std::vector<std::uint64_t> slots;
  for (const Value& value : symbols) slots.push_back(value.bits);
  std::vector<void*> args;
  for (Memory& buffer : memory) args.push_back(buffer.at(0));
  for (std::uint64_t& slot : slots) args.push_back(&slot);
  if (loop::has_checks(function)) args.push_back(&error_word);
  // In two parts, as threads would share the work.
  const std::int64_t half = blocks / 2;
  entry(args.data(), half, blocks);
  if (half > 0) entry(args.data(), 0, half);
  for (std::size_t k = 0; k < arrays.size(); ++k) memory[k].copy_to(arrays[k]);
  return error_word;
}

std::uint64_t run_on(const kernel::Target& target, const loop::Function& function, std::vector<tensor::Array>& arrays,
                     const std::vector<Value>& symbols, std::int64_t blocks) {
  const codegen::KernelSource source = source_of(function);
  const codegen::EmittedCode code = emit_or_fail({source}, target);
  const codegen::LoadedObject object(code.bytes);
  return run_entry(object.entry(source.entry), function, arrays, symbols, blocks);
}

bool same_bits(const Value& a, const Value& b) {
  if (a.dtype != b.dtype) return false;
  const bool both_nan = is_float(a.dtype) && std::isnan(a.as_f64()) && std::isnan(b.as_f64());
  return both_nan || a.bits == b.bits;
}

namespace {

std::vector<Value> integer_edges(DType dtype) {
  const int width = bit_width(dtype);
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  std::vector<Value> values;
  for (std::int64_t value : {0, 1, 2, 3, 5, 7, 8, 10, width - 1, width, width + 1, 100, -1, -2, -3, -7, -8, -10}) {
    values.push_back(Value::integer(dtype, value));
  }
  for (std::uint64_t bits : {sign, sign + 1, sign - 1, sign - 2, sign / 2, sign / 3, sign + sign / 3}) {
    values.push_back(Value::integer(dtype, static_cast<std::int64_t>(bits)));
  }
  return values;
}

std::vector<Value> float_edges(DType dtype) {
  std::vector<Value> values;
  const double denormal = dtype == DType::F64 ? 0x1p-1074 : dtype == DType::F32 ? 0x1p-149 : 0x1p-24;
  const double highest = dtype == DType::F64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  for (double value : {0.0,
                       1.0,
                       0.5,
                       1.5,
                       2.5,
                       0.49999997,
                       3.0,
                       0x1p-14,
                       0x1p-15,
                       denormal,
                       3 * denormal,
                       0x1p-126,
                       0x1.fffffcp-127,
                       highest,
                       127.5,
                       255.5,
                       65504.0,
                       65519.0,
                       65520.0,
                       2147483520.0,
                       2147483648.0,
                       4294967040.0,
                       4294967296.0,
                       0x1.fffffep62,
                       0x1p63,
                       0x1.fffffep63,
                       0x1p64,
                       8388607.5,
                       8388609.0,
                       0x1.004p0,
                       0x1.00201p0,
                       std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()}) {
    values.push_back(Value::floating(dtype, value));
    values.push_back(Value::floating(dtype, -value));
  }
  const std::uint64_t payload = dtype == DType::F64 ? 0xfff8000000000123 : dtype == DType::F32 ? 0xffc01234 : 0xfe12;
  values.push_back({dtype, dtype == DType::BF16 ? 0xffd1 : payload});
  return values;
}

}  // namespace

std::vector<Value> edge_values(DType dtype) {
  if (dtype == DType::Bool) return {Value::boolean(false), Value::boolean(true)};
  return is_float(dtype) ? float_edges(dtype) : integer_edges(dtype);
}

std::vector<kernel::Target> host_targets() {
  const kernel::Target host = codegen::host_target();
  std::vector<kernel::Target> targets{host};
#if defined(__x86_64__)
  kernel::Target baseline = host;
  baseline.name = "x86-64";
  baseline.cpu = "x86-64";
  baseline.features = "";
  targets.push_back(baseline);
  if (host.features.find("+avx2,") != std::string::npos && host.features.find("+f16c,") != std::string::npos) {
    kernel::Target haswell = host;
    haswell.name = haswell.cpu = "haswell";
    haswell.features = "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+sse4.2";
    targets.push_back(haswell);
  }
#endif
  return targets;
}

}  // namespace corrloom::testing
