#include "ir/scalar/expand.h"

#include "ir/base/errors.h"
#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar {
namespace {

using namespace parts;

/// A function of f32, f64 or, where the function takes them, integers.
Expr expand_wide(Opcode function, const std::vector<Expr>& args) {
  switch (function) {
#define CORRLOOM_EXPANSION_Primitive(name)
#define CORRLOOM_EXPANSION_Function(name) \
  case Opcode::name:                      \
    return expansion<Opcode::name>(args);
#define CORRLOOM_OPCODE(name, text, arity, operands, result, kind, callable, summary) CORRLOOM_EXPANSION_##kind(name)
#include "ir/scalar/opcodes.def"
#undef CORRLOOM_OPCODE
#undef CORRLOOM_EXPANSION_Function
#undef CORRLOOM_EXPANSION_Primitive
    default:
      break;
  }
  CORRLOOM_CHECK(false, info(function).text, " is not a function with an expansion");
  return nullptr;
}

Expr widen(const Expr& x) {
  return is_narrow_float(x->dtype) ? cast(x, DType::F32) : x;
}

std::vector<Expr> widen_all(const std::vector<Expr>& args) {
  std::vector<Expr> wide;
  for (const Expr& arg : args) wide.push_back(widen(arg));
  return wide;
}

/// f32 to bf16, to nearest even: half of the last place kept, less one bit for a tie that is even, is added, and a
/// carry moves up as far as it must.
Expr narrow_to_bf16(const Expr& x) {
  const Expr bits = bitcast(x, DType::U32);
  const Expr is_odd = bit_and(shr(bits, 16), integer(DType::U32, 1));
  const Expr rounded = shr(add(add(bits, integer(DType::U32, 0x7fff)), is_odd), 16);
  // Rounding could carry a NaN's payload into the sign.
  const Expr kept = select(is_nan(x), integer(DType::U32, 0x7fc0), rounded);
  return bitcast(cast(kept, DType::U16), DType::BF16);
}

/// The f32 next to an f64: itself if that is exact, else the neighbour whose last bit is 1. Rounding it again to a
/// narrower float gives what rounding the f64 once would (Boldo and Melquiond, "Emulation of FMA and correctly rounded
/// sums: proved algorithms using rounding to odd", 2008).
Expr round_to_odd_f32(const Expr& x) {
  const Expr nearest = cast(x, DType::F32);
  const Expr back = cast(nearest, DType::F64);
  const Expr bits = bits_of(nearest);
  const Expr one = integer(DType::I32, 1);
  const Expr is_even = eq(bit_and(bits, one), integer(DType::I32, 0));
  const Expr is_inexact = ne(back, x);
  // Neighbouring magnitudes have neighbouring bits. A NaN is "inexact" and stays a NaN either way.
  const Expr odd = select(lt(abs(back), abs(x)), add(bits, one), sub(bits, one));
  return from_bits(select(bit_and(is_inexact, is_even), odd, bits));
}

/// f32 or f64 to f16 or bf16, rounded once.
Expr narrow_float(const Expr& x, DType to) {
  const Expr source = x->dtype == DType::F64 ? round_to_odd_f32(x) : x;
  return to == DType::BF16 ? narrow_to_bf16(source) : cast(source, DType::F16);
}

/// A 64-bit integer whose conversion to f64 is exact and rounds to bf16 as the integer does: what f64 cannot hold is
/// gathered in one bit above it.
Expr round_to_odd_integer(const Expr& x) {
  const DType dtype = x->dtype;
  const Expr dropped = bit_and(x, integer(dtype, 0x7ff));
  const Expr sticky = select(eq(dropped, integer(dtype, 0)), integer(dtype, 0), integer(dtype, 0x800));
  const Expr odd = bit_or(bit_and(x, integer(dtype, -0x800)), sticky);
  const Expr magnitude = is_signed_integer(dtype) ? abs(x) : x;
  // The lowest i64 is its own wrapped magnitude; it is exact in f64.
  return select(lt(magnitude, integer(dtype, std::int64_t{1} << 53)), x, odd);
}

Expr integer_to_narrow(const Expr& x, DType to) {
  // An integer that f32 does not hold is far above the highest f16, so rounding it twice makes no difference.
  if (to == DType::F16 || bit_width(x->dtype) <= 16) return narrow_float(cast(x, DType::F32), to);
  if (bit_width(x->dtype) == 32) return narrow_float(cast(x, DType::F64), to);
  return narrow_float(cast(round_to_odd_integer(x), DType::F64), to);
}

Expr to_bool(const Expr& x) {
  const Expr wide = widen(x);
  const DType dtype = wide->dtype;
  return ne(wide, is_float(dtype) ? number(dtype, 0) : integer(dtype, 0));
}

bool is_lowerable_cast(DType from, DType to) {
  if (from == to || to == DType::Bool) return false;
  if (is_narrow_float(from)) return to == DType::F32;
  if (is_narrow_float(to)) return from == DType::F32 && to == DType::F16;
  return from != DType::Bool || is_integer(to);
}

Expr expand_cast(const Expr& x, DType to) {
  const DType from = x->dtype;
  if (from == to) return apply(Opcode::Fence, {x});
  if (is_lowerable_cast(from, to)) return nullptr;
  if (to == DType::Bool) return to_bool(x);
  if (from == DType::Bool) return select(x, number(to, 1), number(to, 0));
  if (is_integer(from)) return integer_to_narrow(x, to);
  if (is_narrow_float(to)) return narrow_float(widen(x), to);
  return cast(widen(x), to);
}

/// neg and abs of a narrow float touch its sign bit only.
Expr change_sign_bit(Opcode opcode, const Expr& x) {
  const Expr bits = bitcast(x, DType::U16);
  const Expr changed = opcode == Opcode::Neg ? apply(Opcode::Xor, {bits, integer(DType::U16, 0x8000)})
                                             : bit_and(bits, integer(DType::U16, 0x7fff));
  return bitcast(changed, x->dtype);
}

/// Moves values without computing with them.
bool is_transparent(Opcode opcode) {
  return opcode == Opcode::If || opcode == Opcode::Select || opcode == Opcode::Fence || opcode == Opcode::Bitcast;
}

Expr expand_wide(Opcode function, const std::vector<Expr>& args, Functions functions) {
  const Expr approximate = functions == Functions::Approximate ? approximation(function, args) : nullptr;
  return approximate ? approximate : expand_wide(function, args);
}

Expr expand_narrow(Opcode opcode, const std::vector<Expr>& args, Functions functions) {
  if (opcode == Opcode::Neg || opcode == Opcode::Abs) return change_sign_bit(opcode, args[0]);
  const bool is_function = info(opcode).kind == OpcodeKind::Function;
  const std::vector<Expr> wide = widen_all(args);
  const Expr computed = is_function ? expand_wide(opcode, wide, functions) : apply(opcode, wide);
  return is_float(computed->dtype) ? narrow_float(computed, args[0]->dtype) : computed;
}

}  // namespace

Expr expand_function(Opcode function, const std::vector<Expr>& args) {
  const OpcodeInfo& row = info(function);
  CORRLOOM_CHECK(static_cast<int>(args.size()) == row.arity, row.text, " takes ", row.arity, " operands, not ",
                 args.size());
  const DType dtype = args[0]->dtype;
  CORRLOOM_CHECK(takes(row.operands, dtype), row.text, " does not take ", name_of(dtype));
  if (!is_narrow_float(dtype)) return expand_wide(function, args);
  return cast(expand_wide(function, widen_all(args)), dtype);
}

Expr expand(const Expr& expr, Functions functions) {
  return rewrite(expr, [functions](const Expr& node) -> Expr {
    const auto* found = std::get_if<Apply>(&node->kind);
    if (found == nullptr) return nullptr;
    if (found->opcode == Opcode::Cast) return expand_cast(found->args[0], node->dtype);
    if (is_transparent(found->opcode)) return nullptr;
    if (is_narrow_float(found->args[0]->dtype)) return expand_narrow(found->opcode, found->args, functions);
    const bool is_function = info(found->opcode).kind == OpcodeKind::Function;
    return is_function ? expand_wide(found->opcode, found->args, functions) : nullptr;
  });
}

bool is_lowerable(const Expr& node) {
  const auto* found = std::get_if<Apply>(&node->kind);
  if (found == nullptr || is_transparent(found->opcode)) return true;
  const DType from = found->args[0]->dtype;
  if (found->opcode == Opcode::Cast) return is_lowerable_cast(from, node->dtype);
  return info(found->opcode).kind == OpcodeKind::Primitive && !is_narrow_float(from);
}

}  // namespace corrloom::scalar
