#include "tests/unit/codegen/primitives.h"

#include <limits>

#include "ir/scalar/expand.h"
#include "ir/scalar/operand_dtypes.h"

namespace corrloom::testing {
namespace {

using scalar::Expr;
using scalar::Opcode;
using scalar::Value;

/// The node that applies the opcode to constants, which knows its dtypes; null when it does not take them.
Expr node_of(Opcode opcode, DType dtype, DType to) {
  const scalar::OpcodeInfo& row = scalar::info(opcode);
  if (!scalar::takes_last(opcode, dtype)) return nullptr;
  const Expr operand = scalar::constant(Value{dtype, 0});
  if (opcode == Opcode::Cast) return scalar::cast(operand, to);
  if (opcode == Opcode::Bitcast) return bit_width(dtype) == bit_width(to) ? scalar::bitcast(operand, to) : nullptr;
  std::vector<Expr> args;
  for (std::size_t k = 0; k < static_cast<std::size_t>(row.arity); ++k)
    args.push_back(scalar::constant(Value{scalar::operand_dtype(opcode, k, dtype), 0}));
  return scalar::apply(opcode, args);
}

/// Two bf16 in a word: zeros, ones, what is not finite, denormals, and values whose products are near the lowest normal
/// number or far below it.
std::vector<Value> words_of_halves() {
  constexpr std::uint64_t kHalves[] = {0,      0x8000, 0x3f80, 0xbf80, 0x7f80, 0x7fc0, 0x0001,
                                       0x807f, 0x0080, 0x1a00, 0x9a00, 0x1980, 0x7f7f, 0x3f83};
  std::vector<Value> words;
  for (std::size_t k = 0; k < std::size(kHalves); ++k) {
    for (const std::size_t distance : {0U, 1U, 5U})
      words.push_back({DType::I32, kHalves[k] << 16 | kHalves[(k + distance) % std::size(kHalves)]});
  }
  return words;
}

bool occurs(Opcode opcode) {
  const bool is_lazy = opcode == Opcode::If || opcode == Opcode::LazyAnd || opcode == Opcode::LazyOr;
  return !is_lazy && scalar::info(opcode).kind == scalar::OpcodeKind::Primitive;
}

/// The operands of Opcode::Scale that have a meaning.
std::vector<Value> scale_operands(DType dtype, bool is_power) {
  std::vector<Value> values;
  const auto add = [&](double value) { values.push_back(Value::floating(dtype, value)); };
  if (is_power) {
    const double last = dtype == DType::F64 ? 2000 : 250;
    for (double power = -last; power <= last; power += dtype == DType::F64 ? 25 : 3) add(power);
    // Where results are normal, denormal and 0.
    for (const double power : {-1.0, 0.0, 1.0, 127.0, 128.0, -126.0, -127.0, -148.0, -149.0, -150.0}) add(power);
    for (const double power : {1023.0, 1024.0, -1022.0, -1023.0, -1073.0, -1074.0, -1075.0}) {
      if (dtype == DType::F64) add(power);
    }
  } else {
    for (const double x :
         {1.0, -1.0, 0.25, 4.0, 1.5, 0x1.fffffep0, 0x1.000002p0, 0x1.8p-1, 0x1.6a09e6p0, -0x1.555556p0})
      add(x);
    add(std::numeric_limits<double>::quiet_NaN());
    values.push_back({dtype, Value::floating(dtype, 1).bits + 1});
  }
  return values;
}

}  // namespace

std::vector<std::vector<Primitive>> lowerable_primitives(const std::vector<int>& lanes) {
  std::vector<std::vector<Primitive>> groups;
  for (const scalar::OpcodeInfo& row : scalar::all_opcodes()) {
    if (!occurs(row.opcode)) continue;
    const bool is_given = row.result == scalar::Result::Given;
    groups.emplace_back();
    for (DType dtype : kAllDTypes) {
      for (DType to : kAllDTypes) {
        if (!is_given && to != DType::Bool) continue;
        const Expr node = node_of(row.opcode, dtype, to);
        if (node == nullptr || !scalar::is_lowerable(node)) continue;
        std::vector<DType> operands;
        for (const Expr& arg : std::get<scalar::Apply>(node->kind).args) operands.push_back(arg->dtype);
        for (int width : lanes) groups.back().push_back({row.opcode, operands, node->dtype, width});
      }
    }
  }
  return groups;
}

std::vector<std::vector<Value>> edge_combinations(const Primitive& primitive) {
  const std::size_t arity = primitive.operands.size();
  std::vector<std::vector<Value>> edges, columns(arity);
  std::size_t count = 1;
  for (DType dtype : primitive.operands) {
    const bool is_words = primitive.opcode == Opcode::Dot && primitive.result == DType::F32 && dtype == DType::I32;
    std::vector<Value> values = is_words                            ? words_of_halves()
                                : primitive.opcode == Opcode::Scale ? scale_operands(dtype, /*is_power=*/!edges.empty())
                                                                    : edge_values(dtype);
    if (arity == 3 && !is_words && values.size() > 2) {
      std::vector<Value> some;
      for (std::size_t k = 0; k < values.size(); k += 5) some.push_back(values[k]);
      some.insert(some.end(), values.end() - 5, values.end());
      values = some;
    }
    count *= values.size();
    edges.push_back(values);
  }
  for (std::size_t k = 0; k < (count + 15) / 16 * 16; ++k) {
    std::size_t rest = k % count;
    for (std::size_t operand = 0; operand < arity; ++operand) {
      columns[operand].push_back(edges[operand][rest % edges[operand].size()]);
      rest /= edges[operand].size();
    }
  }
  return columns;
}

}  // namespace corrloom::testing
