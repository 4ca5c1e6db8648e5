#include "runtime/sim/exec/half.h"

#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/lanes.h"

/// Half precision. Source: PTX ISA, "Half Precision Floating-Point Instructions" and "Mixed Precision Floating-Point
/// Instructions". Results that are NaN are 0x7fff.
namespace corrloom::sim::exec {

float narrow_to_odd(double value) {
  const auto nearest = float(value);
  if (double(nearest) == value || value != value) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(double(nearest)) > std::fabs(value)) --bits;  // towards zero; from infinity to the largest number
  return std::bit_cast<float>(bits | 1);
}

float HalfF16::to_float(uint16_t bits) {
  return decode_f16(bits);
}
uint16_t HalfF16::from_double(double value) {
  return encode_f16(narrow_to_odd(value));
}
float HalfBF16::to_float(uint16_t bits) {
  return decode_bf16(bits);
}
uint16_t HalfBF16::from_double(double value) {
  return encode_bf16(narrow_to_odd(value));
}

namespace {

using ptx::Type;

// Inst::m1: .ftz, m2: .sat (arithmetic) or .NaN (min, max), m3: .relu (1), .oob (2) or .xorsign.abs (1).

enum class HalfOp { Add, Sub, Mul };

template <class H>
uint16_t settle(uint16_t bits, const Inst& inst) {
  if (inst.m1) bits = H::flushed(bits);
  const bool nan = (bits & 0x7FFF) > H::kInfinity;
  if (inst.m2) {
    if (nan || bits >> 15) return 0;
    return std::min(bits, H::kOne);
  }
  return nan ? kHalfNan : bits;
}

template <class H, HalfOp kOp>
uint16_t arithmetic(uint16_t x, uint16_t y, const Inst& inst) {
  if (inst.m1) x = H::flushed(x), y = H::flushed(y);
  const double a = H::to_float(x), b = H::to_float(y);
  const double result = kOp == HalfOp::Add ? a + b : kOp == HalfOp::Sub ? a - b : a * b;
  return settle<H>(H::from_double(result), inst);
}

template <class H>
uint16_t fused(uint16_t x, uint16_t y, uint16_t z, const Inst& inst) {
  // .oob: the special NaN with all bits set marks an element outside a tensor; it makes the result zero.
  if ((inst.m3 & 2) && (x == 0xFFFF || y == 0xFFFF)) return 0;
  if (inst.m1) x = H::flushed(x), y = H::flushed(y), z = H::flushed(z);
  const uint16_t result = settle<H>(H::from_double(fma_to_odd(H::to_float(x), H::to_float(y), H::to_float(z))), inst);
  if ((inst.m3 & 1) && result != kHalfNan && result >> 15) return 0;
  return result;
}

template <class H, bool kMax>
uint16_t choose(uint16_t a, uint16_t b, const Inst& inst) {
  if (inst.m1) a = H::flushed(a), b = H::flushed(b);
  const uint16_t sign = (a ^ b) & 0x8000;
  if (inst.m3) a &= 0x7FFF, b &= 0x7FFF;
  const bool nan_a = (a & 0x7FFF) > H::kInfinity, nan_b = (b & 0x7FFF) > H::kInfinity;
  uint16_t result;
  if (nan_a || nan_b) {
    if (inst.m2 || (nan_a && nan_b)) return kHalfNan;
    result = nan_a ? b : a;
  } else {
    // Signed magnitudes order like integers, and -0 comes before +0.
    const auto key = [](uint16_t v) { return v >> 15 ? -1 - int(v & 0x7FFF) : int(v); };
    result = (key(a) > key(b)) == kMax ? a : b;
  }
  return inst.m3 ? uint16_t((result & 0x7FFF) | sign) : result;
}

template <class H, bool kAbs>
uint16_t sign_operation(uint16_t a, const Inst& inst) {
  if (inst.m1) a = H::flushed(a);
  if ((a & 0x7FFF) > H::kInfinity) return kHalfNan;
  return kAbs ? a & 0x7FFF : a ^ 0x8000;
}

template <class H, bool kTanh>
uint16_t approximation(uint16_t a, const Inst& inst) {
  if (inst.m1) a = H::flushed(a);
  const double x = H::to_float(a);
  const uint16_t result = H::from_double(kTanh ? std::tanh(x) : std::exp2(x));
  return settle<H>(result, inst);
}

uint32_t pack(uint16_t low, uint16_t high) {
  return uint32_t(high) << 16 | low;
}

template <auto kOp>
void one1(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<uint16_t, uint16_t>(warp, inst, mask, [&](uint16_t a) { return kOp(a, inst); });
}
template <auto kOp>
void one2(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<uint32_t, uint32_t>(warp, inst, mask,
                            [&](uint32_t a) { return pack(kOp(uint16_t(a), inst), kOp(uint16_t(a >> 16), inst)); });
}
template <auto kOp>
void two1(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<uint16_t, uint16_t, uint16_t>(warp, inst, mask, [&](uint16_t a, uint16_t b) { return kOp(a, b, inst); });
}
template <auto kOp>
void two2(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<uint32_t, uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a, uint32_t b) {
    return pack(kOp(uint16_t(a), uint16_t(b), inst), kOp(uint16_t(a >> 16), uint16_t(b >> 16), inst));
  });
}
template <auto kOp>
void three1(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<uint16_t, uint16_t, uint16_t, uint16_t>(
      warp, inst, mask, [&](uint16_t a, uint16_t b, uint16_t c) { return kOp(a, b, c, inst); });
}
template <auto kOp>
void three2(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a, uint32_t b, uint32_t c) {
    return pack(kOp(uint16_t(a), uint16_t(b), uint16_t(c), inst),
                kOp(uint16_t(a >> 16), uint16_t(b >> 16), uint16_t(c >> 16), inst));
  });
}

struct HalfType {
  Type type;
  bool bf16, packed;
};

std::optional<HalfType> take_half(Decode& c) {
  static constexpr HalfType kTypes[] = {
      {Type::F16, false, false}, {Type::F16x2, false, true}, {Type::BF16, true, false}, {Type::BF16x2, true, true}};
  for (const HalfType& half : kTypes) {
    if (c.mods.take(ptx::type_name(half.type))) return half;
  }
  return std::nullopt;
}

/// Operands of the half's own width, untyped: registers are .b16, .b32, .f16 or .f16x2.
void half_operands(Decode& c, const HalfType& half, size_t count) {
  c.expect_operands(count);
  c.inst.klass = Class::Fp16;
  c.inst.flops = half.packed ? 2 : 1;
  if (half.packed) c.inst.follow = Follow::SpreadsPairs;
  c.inst.d = c.writes(0, half.type);
  c.inst.a = c.reads(1, half.type);
  if (count > 2) c.inst.b = c.reads(2, half.type);
  if (count > 3) c.inst.c = c.reads(3, half.type);
}

template <HalfOp kOp>
ExecFn arithmetic_for(const HalfType& half) {
  if (half.bf16) return half.packed ? two2<arithmetic<HalfBF16, kOp>> : two1<arithmetic<HalfBF16, kOp>>;
  return half.packed ? two2<arithmetic<HalfF16, kOp>> : two1<arithmetic<HalfF16, kOp>>;
}

// -- f32x2 and mixed precision. m0: Rounding, m1: .ftz, m2: .sat, m3: operation

enum class PairOp : uint8_t { Add, Sub, Mul, Fma };

float single(PairOp op, float a, float b, float c, Rounding rounding, bool ftz, bool sat) {
  if (ftz) a = flush(a), b = flush(b), c = flush(c);
  float result = 0;
  switch (op) {
    case PairOp::Add:
      result = rounding == Rounding::NearestEven ? a + b : add_rounded(a, b, rounding);
      break;
    case PairOp::Sub:
      result = rounding == Rounding::NearestEven ? a - b : add_rounded(a, -b, rounding);
      break;
    case PairOp::Mul:
      result = rounding == Rounding::NearestEven ? a * b : mul_rounded(a, b, rounding);
      break;
    case PairOp::Fma:
      result = rounding == Rounding::NearestEven ? std::fma(a, b, c) : fma_rounded(a, b, c, rounding);
      break;
  }
  if (ftz) result = flush(result);
  if (sat) return result > 0 ? std::min(result, 1.0f) : 0.0f;
  return canonical(result);
}

float word(uint64_t pair, int i) {
  return std::bit_cast<float>(uint32_t(pair >> (32 * i)));
}

void f32_pair(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint64_t* a = warp.at<uint64_t>(inst.a);
  const uint64_t* b = warp.at<uint64_t>(inst.b);
  const uint64_t* c = warp.at<uint64_t>(inst.c);
  uint64_t* d = warp.at<uint64_t>(inst.d);
  for_lanes(mask, [&](int lane) {
    uint64_t result = 0;
    for (int i = 0; i < 2; ++i) {
      const float value = single(PairOp(inst.m3), word(a[lane], i), word(b[lane], i), word(c[lane], i),
                                 Rounding(inst.m0), inst.m1, false);
      result |= uint64_t(std::bit_cast<uint32_t>(value)) << (32 * i);
    }
    d[lane] = result;
  });
}

/// d, c: f32; a, and b of fma: f16 or bf16 (imm).
void mixed(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint16_t* a = warp.at<uint16_t>(inst.a);
  const uint16_t* b = warp.at<uint16_t>(inst.b);
  const float* c = warp.at<float>(inst.c);
  float* d = warp.at<float>(inst.d);
  const auto widen = [&](uint16_t bits) { return inst.imm ? decode_bf16(bits) : decode_f16(bits); };
  const auto op = PairOp(inst.m3);
  for_lanes(mask, [&](int lane) {
    if (op == PairOp::Fma) {
      d[lane] = single(op, widen(a[lane]), widen(b[lane]), c[lane], Rounding(inst.m0), false, inst.m2);
    } else {
      d[lane] = single(op, widen(a[lane]), c[lane], 0, Rounding(inst.m0), false, inst.m2);
    }
  });
}

/// add.f32x2, add.f32.f16 and the like. True when the types are of this kind.
bool decode_pair_or_mixed(Decode& c, PairOp op) {
  const bool pair = c.mods.has("f32x2");
  const bool is_mixed = c.mods.has("f32") && (c.mods.has("f16") || c.mods.has("bf16"));
  if (!pair && !is_mixed) return false;
  c.require(86, 100);
  const int rounding = c.mods.take_one({"rn", "rz", "rm", "rp"});
  if (rounding < 0 && op == PairOp::Fma) c.fail("missing rounding modifier");
  c.inst.m0 = uint8_t(std::max(0, rounding));
  c.inst.m3 = uint8_t(op);
  c.inst.klass = Class::Fp32;
  c.inst.flops = uint8_t((op == PairOp::Fma ? 2 : 1) * (pair ? 2 : 1));
  c.expect_operands(op == PairOp::Fma ? 4 : 3);
  if (pair) {
    c.inst.follow = Follow::SpreadsPairs;
    c.inst.m1 = c.mods.take("ftz");
    c.mods.take("f32x2");
    c.inst.d = c.writes(0, Type::B64);
    c.inst.a = c.reads(1, Type::B64);
    c.inst.b = c.reads(2, Type::B64);
    c.inst.c = op == PairOp::Fma ? c.reads(3, Type::B64) : c.inst.b;
    c.inst.fn = f32_pair;
    return true;
  }
  if (op == PairOp::Mul) c.fail("there is no mixed-precision 'mul'");
  c.inst.m2 = c.mods.take("sat");
  c.inst.imm = c.mods.has("bf16");
  c.mods.take("f32");
  const Type half = c.mods.type();
  c.inst.d = c.writes(0, Type::F32);
  c.inst.a = c.reads(1, half);
  c.inst.b = op == PairOp::Fma ? c.reads(2, half) : c.inst.a;
  c.inst.c = c.reads(op == PairOp::Fma ? 3 : 2, Type::F32);
  c.inst.fn = mixed;
  return true;
}

}  // namespace

bool decode_half_arithmetic(Decode& c) {
  const std::string& name = c.source.opcode;
  if (name == "div") return false;
  if (decode_pair_or_mixed(c, name == "add" ? PairOp::Add : name == "sub" ? PairOp::Sub : PairOp::Mul)) return true;
  const std::optional<HalfType> half = take_half(c);
  if (!half) return false;
  c.mods.take("rn");
  if (half->bf16) c.require(78, 90);
  if (!half->bf16) {
    c.inst.m1 = c.mods.take("ftz");
    c.inst.m2 = c.mods.take("sat");
  }
  half_operands(c, *half, 3);
  c.inst.fn = name == "add"   ? arithmetic_for<HalfOp::Add>(*half)
              : name == "sub" ? arithmetic_for<HalfOp::Sub>(*half)
                              : arithmetic_for<HalfOp::Mul>(*half);
  return true;
}

bool decode_half_fma(Decode& c) {
  if (c.source.opcode == "mad") return false;
  if (decode_pair_or_mixed(c, PairOp::Fma)) return true;
  const std::optional<HalfType> half = take_half(c);
  if (!half) return false;
  if (!c.mods.take("rn")) c.fail("missing .rn");
  if (half->bf16) c.require(70, 80);
  if (!half->bf16) {
    c.inst.m1 = c.mods.take("ftz");
    c.inst.m2 = c.mods.take("sat");
  }
  if (c.mods.take("oob")) {
    c.require(81, 90);
    c.inst.m3 |= 2;
  }
  if (c.mods.take("relu")) {
    c.require(70, 80);
    if (c.inst.m2) c.fail(".relu excludes .sat");
    c.inst.m3 |= 1;
  }
  half_operands(c, *half, 4);
  c.inst.flops *= 2;
  if (half->bf16) {
    c.inst.fn = half->packed ? three2<fused<HalfBF16>> : three1<fused<HalfBF16>>;
  } else {
    c.inst.fn = half->packed ? three2<fused<HalfF16>> : three1<fused<HalfF16>>;
  }
  return true;
}

bool decode_half_min_max(Decode& c, bool is_max) {
  const std::optional<HalfType> half = take_half(c);
  if (!half) return false;
  c.require(70, 80);
  if (!half->bf16) c.inst.m1 = c.mods.take("ftz");
  c.inst.m2 = c.mods.take("NaN");
  if (c.mods.take("xorsign")) {
    if (!c.mods.take("abs")) c.fail(".xorsign goes with .abs");
    c.inst.m3 = 1;
  }
  half_operands(c, *half, 3);
  if (half->bf16) {
    c.inst.fn = half->packed ? (is_max ? two2<choose<HalfBF16, true>> : two2<choose<HalfBF16, false>>)
                             : (is_max ? two1<choose<HalfBF16, true>> : two1<choose<HalfBF16, false>>);
  } else {
    c.inst.fn = half->packed ? (is_max ? two2<choose<HalfF16, true>> : two2<choose<HalfF16, false>>)
                             : (is_max ? two1<choose<HalfF16, true>> : two1<choose<HalfF16, false>>);
  }
  return true;
}

bool decode_half_sign(Decode& c, bool is_abs) {
  const std::optional<HalfType> half = take_half(c);
  if (!half) return false;
  if (!half->bf16) c.inst.m1 = c.mods.take("ftz");
  half_operands(c, *half, 2);
  if (half->bf16) {
    c.inst.fn = half->packed ? (is_abs ? one2<sign_operation<HalfBF16, true>> : one2<sign_operation<HalfBF16, false>>)
                             : (is_abs ? one1<sign_operation<HalfBF16, true>> : one1<sign_operation<HalfBF16, false>>);
  } else {
    c.inst.fn = half->packed ? (is_abs ? one2<sign_operation<HalfF16, true>> : one2<sign_operation<HalfF16, false>>)
                             : (is_abs ? one1<sign_operation<HalfF16, true>> : one1<sign_operation<HalfF16, false>>);
  }
  return true;
}

bool decode_half_approximation(Decode& c) {
  const bool is_tanh = c.source.opcode == "tanh";
  if (!is_tanh && c.source.opcode != "ex2") return false;
  const std::optional<HalfType> half = take_half(c);
  if (!half) return false;
  c.require(70, half->bf16 ? 90 : 75);
  if (half->bf16 && !is_tanh && !c.mods.has("ftz")) c.fail("ex2.approx on bf16 needs .ftz");
  if (!is_tanh && half->bf16) c.inst.m1 = c.mods.take("ftz");
  half_operands(c, *half, 2);
  c.inst.klass = Class::SpecialFunction;
  if (half->bf16) {
    c.inst.fn = half->packed ? (is_tanh ? one2<approximation<HalfBF16, true>> : one2<approximation<HalfBF16, false>>)
                             : (is_tanh ? one1<approximation<HalfBF16, true>> : one1<approximation<HalfBF16, false>>);
  } else {
    c.inst.fn = half->packed ? (is_tanh ? one2<approximation<HalfF16, true>> : one2<approximation<HalfF16, false>>)
                             : (is_tanh ? one1<approximation<HalfF16, true>> : one1<approximation<HalfF16, false>>);
  }
  return true;
}

}  // namespace corrloom::sim::exec
