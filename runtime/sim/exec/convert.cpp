#include <cmath>
#include <limits>
#include <utility>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"

/// cvt. Source: PTX ISA, "Data Movement and Conversion Instructions: cvt" and "cvt.pack".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

// Inst::m0: Rounding; m1 bit 0: .ftz, bit 1: .relu, bit 2: .satfinite, bit 3: rounds to an integral value; m2: .sat.
constexpr uint8_t kFtz = 1, kRelu = 2, kSatFinite = 4, kIntegral = 8;

// -- integers

template <class D, class S>
void integer_to_integer(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<D, S>(warp, inst, mask, [](S a) { return D(a); });
}
template <class D, class S>
void integer_to_integer_saturated(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<D, S>(warp, inst, mask, [](S a) {
    if (std::cmp_less(a, std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (std::cmp_greater(a, std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return D(a);
  });
}

template <class D>
ExecFn from_integer(Type from, bool saturate) {
  switch (from) {
    case Type::U8:
      return saturate ? integer_to_integer_saturated<D, uint8_t> : integer_to_integer<D, uint8_t>;
    case Type::S8:
      return saturate ? integer_to_integer_saturated<D, int8_t> : integer_to_integer<D, int8_t>;
    case Type::U16:
      return saturate ? integer_to_integer_saturated<D, uint16_t> : integer_to_integer<D, uint16_t>;
    case Type::S16:
      return saturate ? integer_to_integer_saturated<D, int16_t> : integer_to_integer<D, int16_t>;
    case Type::U32:
      return saturate ? integer_to_integer_saturated<D, uint32_t> : integer_to_integer<D, uint32_t>;
    case Type::S32:
      return saturate ? integer_to_integer_saturated<D, int32_t> : integer_to_integer<D, int32_t>;
    case Type::U64:
      return saturate ? integer_to_integer_saturated<D, uint64_t> : integer_to_integer<D, uint64_t>;
    default:
      return saturate ? integer_to_integer_saturated<D, int64_t> : integer_to_integer<D, int64_t>;
  }
}

ExecFn integer_conversion(Type to, Type from, bool saturate) {
  switch (to) {
    case Type::U8:
      return from_integer<uint8_t>(from, saturate);
    case Type::S8:
      return from_integer<int8_t>(from, saturate);
    case Type::U16:
      return from_integer<uint16_t>(from, saturate);
    case Type::S16:
      return from_integer<int16_t>(from, saturate);
    case Type::U32:
      return from_integer<uint32_t>(from, saturate);
    case Type::S32:
      return from_integer<int32_t>(from, saturate);
    case Type::U64:
      return from_integer<uint64_t>(from, saturate);
    default:
      return from_integer<int64_t>(from, saturate);
  }
}

// -- floating-point formats: how to load one as a double (exact) and to store a double (rounded)

struct F16 {
  using Bits = uint16_t;
  static double load(Bits bits, bool) { return decode_f16(bits); }
  static Bits store(double value, const Inst& inst) {
    if (Rounding(inst.m0) == Rounding::NearestEven && !(inst.m1 & kSatFinite)) return HalfF16::from_double(value);
    return Bits(encode(value, kF16, Rounding(inst.m0), inst.m1 & kSatFinite));
  }
};
struct BF16 {
  using Bits = uint16_t;
  static double load(Bits bits, bool) { return decode_bf16(bits); }
  static Bits store(double value, const Inst& inst) {
    if (Rounding(inst.m0) == Rounding::NearestEven && !(inst.m1 & kSatFinite)) return HalfBF16::from_double(value);
    return Bits(encode(value, kBF16, Rounding(inst.m0), inst.m1 & kSatFinite));
  }
};
struct F32 {
  using Bits = uint32_t;
  static double load(Bits bits, bool ftz) {
    const auto value = std::bit_cast<float>(bits);
    return ftz ? flush(value) : value;
  }
  static Bits store(double value, const Inst& inst) {
    const auto rounding = Rounding(inst.m0);
    float result = rounding == Rounding::NearestEven ? float(value) : narrow_rounded(value, rounding);
    if (inst.m1 & kFtz) result = flush(result);
    return std::bit_cast<uint32_t>(canonical(result));
  }
};
struct F64 {
  using Bits = uint64_t;
  static double load(Bits bits, bool) { return std::bit_cast<double>(bits); }
  static Bits store(double value, const Inst&) { return std::bit_cast<uint64_t>(value); }
};

double to_integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::Zero:
      return std::trunc(value);
    case Rounding::Down:
      return std::floor(value);
    case Rounding::Up:
      return std::ceil(value);
    case Rounding::NearestAway:
      return std::round(value);
    default:
      return std::nearbyint(value);
  }
}

template <class D, class S>
void float_to_float(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<typename D::Bits, typename S::Bits>(warp, inst, mask, [&](typename S::Bits bits) {
    double value = S::load(bits, inst.m1 & kFtz);
    if (inst.m1 & kIntegral) {
      value = to_integral(value, Rounding(inst.m0));
    }
    if (inst.m2) value = value > 0 ? std::min(value, 1.0) : 0.0;
    if ((inst.m1 & kRelu) && value <= 0) value = 0.0;
    return D::store(value, inst);
  });
}

template <class I, class S>
void float_to_integer(Warp& warp, const Inst& inst, LaneMask mask) {
  // The bounds as doubles: the largest 64-bit integers round up, so the test there is "not below".
  constexpr double kLow = double(std::numeric_limits<I>::min());
  constexpr double kHigh = double(std::numeric_limits<I>::max());
  unary<I, typename S::Bits>(warp, inst, mask, [&](typename S::Bits bits) {
    const double value = to_integral(S::load(bits, inst.m1 & kFtz), Rounding(inst.m0));
    if (value != value) return I(0);
    if (value <= kLow) return std::numeric_limits<I>::min();
    if (value >= kHigh) return std::numeric_limits<I>::max();
    return I(value);
  });
}

template <class D, class I>
void integer_to_float(Warp& warp, const Inst& inst, LaneMask mask) {
  const auto rounding = Rounding(inst.m0);
  unary<typename D::Bits, I>(warp, inst, mask, [&](I a) {
    using Full = std::conditional_t<std::is_signed_v<I>, int64_t, uint64_t>;
    double value;
    if constexpr (sizeof(I) < 8) {
      value = double(a);
    } else if constexpr (std::is_same_v<D, F64>) {
      value = rounding == Rounding::NearestEven ? double(a) : double_from(Full(a), rounding);
    } else if constexpr (std::is_same_v<D, F32>) {
      value = rounding == Rounding::NearestEven ? float(a) : float_from(Full(a), rounding);
    } else {
      // Sticky: whatever a double drops of 64 bits must still break ties of an 11-bit result.
      value = double_from(Full(a), Rounding::Zero);
      if (Full(value) != Full(a)) value = std::bit_cast<double>(std::bit_cast<uint64_t>(value) | 1);
    }
    if (inst.m2) value = value > 0 ? std::min(value, 1.0) : 0.0;
    return D::store(value, inst);
  });
}

template <class D>
ExecFn to_float_from_integer(Type from) {
  switch (from) {
    case Type::U8:
      return integer_to_float<D, uint8_t>;
    case Type::S8:
      return integer_to_float<D, int8_t>;
    case Type::U16:
      return integer_to_float<D, uint16_t>;
    case Type::S16:
      return integer_to_float<D, int16_t>;
    case Type::U32:
      return integer_to_float<D, uint32_t>;
    case Type::S32:
      return integer_to_float<D, int32_t>;
    case Type::U64:
      return integer_to_float<D, uint64_t>;
    default:
      return integer_to_float<D, int64_t>;
  }
}

template <class S>
ExecFn to_integer_from_float(Type to) {
  switch (to) {
    case Type::U8:
      return float_to_integer<uint8_t, S>;
    case Type::S8:
      return float_to_integer<int8_t, S>;
    case Type::U16:
      return float_to_integer<uint16_t, S>;
    case Type::S16:
      return float_to_integer<int16_t, S>;
    case Type::U32:
      return float_to_integer<uint32_t, S>;
    case Type::S32:
      return float_to_integer<int32_t, S>;
    case Type::U64:
      return float_to_integer<uint64_t, S>;
    default:
      return float_to_integer<int64_t, S>;
  }
}

template <class S>
ExecFn from_float(Type to) {
  switch (to) {
    case Type::F16:
      return float_to_float<F16, S>;
    case Type::BF16:
      return float_to_float<BF16, S>;
    case Type::F32:
      return float_to_float<F32, S>;
    case Type::F64:
      return float_to_float<F64, S>;
    default:
      return to_integer_from_float<S>(to);
  }
}

bool is_scalar_float(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64;
}
bool is_integer(Type type) {
  return ptx::is_signed(type) || ptx::is_unsigned(type);
}

ExecFn conversion(Type to, Type from, bool saturate) {
  if (is_integer(to) && is_integer(from)) return integer_conversion(to, from, saturate);
  switch (from) {
    case Type::F16:
      return from_float<F16>(to);
    case Type::BF16:
      return from_float<BF16>(to);
    case Type::F32:
      return from_float<F32>(to);
    case Type::F64:
      return from_float<F64>(to);
    default:
      break;
  }
  switch (to) {
    case Type::F16:
      return to_float_from_integer<F16>(from);
    case Type::BF16:
      return to_float_from_integer<BF16>(from);
    case Type::F32:
      return to_float_from_integer<F32>(from);
    default:
      return to_float_from_integer<F64>(from);
  }
}

// -- packed results

uint32_t relu_or(double value, const Inst& inst, const Format& format) {
  if ((inst.m1 & kRelu) && value <= 0) value = 0.0;
  return encode(value, format, Rounding(inst.m0), inst.m1 & kSatFinite);
}

/// Two f32 into a pair: a goes to the upper half. m3: 0 f16x2, 1 bf16x2.
void pair_from_floats(Warp& warp, const Inst& inst, LaneMask mask) {
  const Format& format = inst.m3 ? kBF16 : kF16;
  binary<uint32_t, float, float>(warp, inst, mask, [&](float a, float b) {
    if (inst.m1 & kFtz) a = flush(a), b = flush(b);
    return relu_or(a, inst, format) << 16 | relu_or(b, inst, format);
  });
}

/// Two f32 into a pair of 8-bit floats. m3: 0 e4m3, 1 e5m2.
void small_pair_from_floats(Warp& warp, const Inst& inst, LaneMask mask) {
  const Format& format = inst.m3 ? kE5M2 : kE4M3;
  binary<uint16_t, float, float>(warp, inst, mask, [&](float a, float b) {
    return uint16_t(relu_or(a, inst, format) << 8 | relu_or(b, inst, format));
  });
}

void small_pair_from_halves(Warp& warp, const Inst& inst, LaneMask mask) {
  const Format& format = inst.m3 ? kE5M2 : kE4M3;
  unary<uint16_t, uint32_t>(warp, inst, mask, [&](uint32_t a) {
    const double high = decode_f16(uint16_t(a >> 16)), low = decode_f16(uint16_t(a));
    return uint16_t(relu_or(high, inst, format) << 8 | relu_or(low, inst, format));
  });
}

void halves_from_small_pair(Warp& warp, const Inst& inst, LaneMask mask) {
  const Format& format = inst.m3 ? kE5M2 : kE4M3;
  unary<uint32_t, uint16_t>(warp, inst, mask, [&](uint16_t a) {
    return relu_or(decode(a >> 8, format), inst, kF16) << 16 | relu_or(decode(a & 0xFF, format), inst, kF16);
  });
}

/// f32 to tf32: the low 13 bits become zero.
void to_tf32(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<uint32_t, float>(warp, inst, mask, [&](float a) {
    if (a != a) return kNanF32;
    if ((inst.m1 & kRelu) && a <= 0) a = 0;
    return encode(a, kTF32, Rounding(inst.m0), inst.m1 & kSatFinite) << 13;
  });
}

struct PackedForm {
  Type to, from;
  ExecFn fn;
  bool two_sources;
  uint8_t format;
  int version, target;
};
constexpr PackedForm kPacked[] = {
    {Type::F16x2, Type::F32, pair_from_floats, true, 0, 70, 80},
    {Type::BF16x2, Type::F32, pair_from_floats, true, 1, 70, 80},
    {Type::E4M3x2, Type::F32, small_pair_from_floats, true, 0, 78, 89},
    {Type::E5M2x2, Type::F32, small_pair_from_floats, true, 1, 78, 89},
    {Type::E4M3x2, Type::F16x2, small_pair_from_halves, false, 0, 78, 89},
    {Type::E5M2x2, Type::F16x2, small_pair_from_halves, false, 1, 78, 89},
    {Type::F16x2, Type::E4M3x2, halves_from_small_pair, false, 0, 78, 89},
    {Type::F16x2, Type::E5M2x2, halves_from_small_pair, false, 1, 78, 89},
    {Type::TF32, Type::F32, to_tf32, false, 0, 70, 80},
};

/// The register type that carries a packed type.
Type carrier(Type type) {
  switch (ptx::type_bits(type)) {
    case 16:
      return Type::B16;
    case 32:
      return type == Type::F32 ? Type::F32 : Type::B32;
    default:
      return type;
  }
}

bool decode_packed(Decode& c, Type to, Type from, int rounding) {
  for (const PackedForm& form : kPacked) {
    if (form.to != to || form.from != from) continue;
    c.require(form.version, form.target);
    if (rounding < 0 || rounding == 2 || rounding == 3) c.fail("this conversion needs .rn, .rz or .rna");
    c.inst.fn = form.fn;
    c.inst.m3 = form.format;
    c.expect_operands(form.two_sources ? 3 : 2);
    c.inst.d = c.writes(0, carrier(to));
    c.inst.a = c.reads(1, carrier(from));
    if (form.two_sources) c.inst.b = c.reads(2, carrier(from));
    return true;
  }
  return false;
}

// -- cvt.pack: two 32-bit integers saturated and put side by side. m0: bits of each, m1: signed, m2: source signed

void convert_pack(Warp& warp, const Inst& inst, LaneMask mask) {
  const int bits = inst.m0;
  const int64_t low = inst.m1 ? -(int64_t(1) << (bits - 1)) : 0;
  const int64_t high = inst.m1 ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
  const auto field = (uint64_t(1) << bits) - 1;
  const bool source_signed = inst.m2;
  const auto squeeze = [=](uint32_t v) {
    const int64_t value = source_signed ? int64_t(int32_t(v)) : int64_t(v);
    return uint64_t(std::min(high, std::max(low, value))) & field;
  };
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [=](uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t pair = squeeze(a) << bits | squeeze(b);
    return uint32_t(pair | (2 * bits < 32 ? uint64_t(c) << (2 * bits) : 0));
  });
}

void decode_pack(Decode& c) {
  c.require(65, 72);
  if (!c.mods.take("sat")) c.fail("cvt.pack needs .sat");
  static constexpr struct {
    std::string_view name;
    uint8_t bits;
    bool is_signed;
  } kFields[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false}, {"s8", 8, true},
                 {"u4", 4, false},   {"s4", 4, true},   {"u2", 2, false}, {"s2", 2, true}};
  const std::vector<std::string> rest = c.mods.rest();
  if (rest.size() < 2) c.fail("missing type modifier");
  for (const auto& field : kFields) {
    if (rest[0] != field.name) continue;
    c.inst.m0 = field.bits;
    c.inst.m1 = field.is_signed;
  }
  if (c.inst.m0 == 0) c.fail("illegal type for cvt.pack");
  c.mods.take(rest[0]);
  const int from = c.mods.take_one({"u32", "s32"});
  if (from < 0) c.fail("cvt.pack converts from .s32 or .u32");
  c.inst.m2 = from == 1;
  const bool has_c = c.inst.m0 < 16;
  if (has_c && !c.mods.take("b32")) c.fail("cvt.pack with fields below 16 bits needs .b32 and an operand c");
  c.expect_operands(has_c ? 4 : 3);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = has_c ? c.reads(3, Type::B32) : c.inst.b;
  c.inst.fn = convert_pack;
}

void decode_cvt(Decode& c) {
  c.inst.klass = Class::Conversion;
  if (c.mods.take("pack")) return decode_pack(c);
  const int integral = c.mods.take_one({"rni", "rzi", "rmi", "rpi"});
  const int rounding = c.mods.take_one({"rn", "rz", "rm", "rp", "rna"});
  const bool saturate = c.mods.take("sat");
  if (c.mods.take("ftz")) c.inst.m1 |= kFtz;
  if (c.mods.take("relu")) c.inst.m1 |= kRelu;
  if (c.mods.take("satfinite")) c.inst.m1 |= kSatFinite;
  const Type to = c.mods.type(), from = c.mods.type();
  c.inst.m0 = uint8_t(std::max({integral, rounding, 0}));
  c.inst.m2 = saturate;
  if (decode_packed(c, to, from, rounding)) return;
  const bool to_float = is_scalar_float(to), from_float = is_scalar_float(from);
  if ((!to_float && !is_integer(to)) || (!from_float && !is_integer(from))) {
    c.fail("there is no conversion from ." + std::string(ptx::type_name(from)) + " to ." +
           std::string(ptx::type_name(to)));
  }
  if ((c.inst.m1 & kFtz) && to != Type::F32 && from != Type::F32) c.fail(".ftz applies to .f32 only");
  if ((c.inst.m1 & (kRelu | kSatFinite)) && !(to == Type::F16 || to == Type::BF16))
    c.fail("illegal .relu or .satfinite");
  if (from_float && !to_float && integral < 0) c.fail("conversion to an integer needs .rni, .rzi, .rmi or .rpi");
  if (!from_float && integral >= 0) c.fail("integer rounding applies to floating-point sources");
  if (from_float && to_float) {
    const bool narrowing =
        ptx::type_bits(to) < ptx::type_bits(from) || (to != from && ptx::type_bits(to) == ptx::type_bits(from));
    // Between the 16-bit formats, and from bf16, assemblers are lenient: to nearest without a modifier, exact with one.
    const bool halves = ptx::type_bits(to) == 16 && ptx::type_bits(from) == 16;
    if (narrowing && rounding < 0 && !halves) c.fail("missing rounding modifier");
    if (!narrowing && rounding >= 0 && from != Type::BF16) c.fail("illegal rounding modifier: the conversion is exact");
    if (integral >= 0) {
      if (to != from) c.fail("integer rounding needs equal types");
      c.inst.m1 |= kIntegral;
    }
  }
  if (!from_float && to_float && rounding < 0) c.fail("missing rounding modifier");
  if ((to == Type::BF16 || from == Type::BF16) && !(to == Type::BF16 && from == Type::F32)) {
    c.require(from == Type::BF16 && to == Type::F32 ? 71 : 78, from == Type::BF16 && to == Type::F32 ? 80 : 90);
  }
  c.expect_operands(2);
  c.inst.d = c.writes_relaxed(0, to);
  c.inst.a = c.reads_relaxed(1, from);
  c.inst.fn = conversion(to, from, saturate);
}

}  // namespace

void register_convert(OpcodeTable& table) {
  table["cvt"] = decode_cvt;
}

}  // namespace corrloom::sim::exec
