#include "compiler/passes/dot_products.h"

#include <string>

namespace corrloom::passes {
namespace {

using scalar::Apply;
using scalar::Expr;
using scalar::Opcode;
using scalar::Value;

/// The bits of a bf16 -0 in the lower half of a word.
constexpr std::int64_t kMinusZero = 0x8000;

bool has_feature(const kernel::Target& target, const std::string& name) {
  return ("," + target.features + ",").find(",+" + name + ",") != std::string::npos;
}

}  // namespace

bool has_byte_dots(const kernel::Target& target) {
  return target.kind == kernel::TargetKind::Host &&
         (has_feature(target, "avx512vnni") || has_feature(target, "avxvnni"));
}

bool has_pair_dots(const kernel::Target& target) {
  return target.kind == kernel::TargetKind::Host && has_feature(target, "avx512bf16") &&
         has_feature(target, "avx512vl");
}

Expr word_of_second(const Expr& y) {
  return scalar::bitcast(scalar::cast(y, DType::F32), DType::I32);
}

Expr word_of_first(const Expr& x) {
  return scalar::apply(Opcode::Or, {word_of_second(x), scalar::constant(Value::integer(DType::I32, kMinusZero))});
}

Expr word_of_pair(const Expr& lower, const Expr& upper) {
  const auto bits = [](const Expr& half) { return scalar::cast(scalar::bitcast(half, DType::U16), DType::I32); };
  const Expr moved = scalar::apply(Opcode::Shl, {bits(upper), scalar::constant(Value::integer(DType::I32, 16))});
  return scalar::apply(Opcode::Or, {bits(lower), moved});
}

Expr second_in_word(const Expr& word) {
  const Apply* bits = scalar::as_apply(word, Opcode::Bitcast);
  const Apply* cast = bits == nullptr ? nullptr : scalar::as_apply(bits->args[0], Opcode::Cast);
  if (cast == nullptr || bits->args[0]->dtype != DType::F32 || cast->args[0]->dtype != DType::BF16) return nullptr;
  return cast->args[0];
}

Expr first_in_word(const Expr& word) {
  const Apply* joined = scalar::as_apply(word, Opcode::Or);
  const Value* zero = joined == nullptr ? nullptr : scalar::as_constant(joined->args[1]);
  return zero != nullptr && zero->bits == kMinusZero ? second_in_word(joined->args[0]) : nullptr;
}

}  // namespace corrloom::passes
