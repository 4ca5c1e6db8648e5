#include <algorithm>
#include <limits>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// Integer arithmetic. Source: PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic".
/// What the ISA leaves to the machine (division by zero) follows ptxas's constant folder: all ones.
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// Twice as wide, for products.
template <class T>
struct Twice;
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
template <>
struct Twice<int64_t> {
  __extension__ using type = __int128;
};
template <>
struct Twice<uint64_t> {
  __extension__ using type = unsigned __int128;
};
template <class T>
using Wide = typename Twice<T>::type;

template <class T>
T wrap_mul(T a, T b) {
  return T(Wide<T>(a) * Wide<T>(b));
}
template <class T>
T high_mul(T a, T b) {
  return T((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return T(Unsigned<T>(a) + Unsigned<T>(b));
  }
};
struct AddSat {
  template <class T>
  static T apply(T a, T b) {
    T r;
    if (!__builtin_add_overflow(a, b, &r)) return r;
    return a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return T(Unsigned<T>(a) - Unsigned<T>(b));
  }
};
struct SubSat {
  template <class T>
  static T apply(T a, T b) {
    T r;
    if (!__builtin_sub_overflow(a, b, &r)) return r;
    return a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
};
struct MulLo {
  template <class T>
  static T apply(T a, T b) {
    return wrap_mul(a, b);
  }
};
struct MulHi {
  template <class T>
  static T apply(T a, T b) {
    return high_mul(a, b);
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return T(Unsigned<T>(0) - Unsigned<T>(a));
    }
    return T(a / b);
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return 0;
    }
    return T(a % b);
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};
struct MinRelu {
  template <class T>
  static T apply(T a, T b) {
    return std::max(T(0), std::min(a, b));
  }
};
struct MaxRelu {
  template <class T>
  static T apply(T a, T b) {
    return std::max(T(0), std::max(a, b));
  }
};

template <class T, class Op>
void run_binary(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<T, T, T>(warp, inst, mask, [](T a, T b) { return Op::template apply<T>(a, b); });
}

/// The function for a type of 16, 32 or 64 bits.
template <class Op>
ExecFn binary_for(Decode& c, Type type) {
  switch (type) {
    case Type::U16:
      return run_binary<uint16_t, Op>;
    case Type::S16:
      return run_binary<int16_t, Op>;
    case Type::U32:
      return run_binary<uint32_t, Op>;
    case Type::S32:
      return run_binary<int32_t, Op>;
    case Type::U64:
      return run_binary<uint64_t, Op>;
    case Type::S64:
      return run_binary<int64_t, Op>;
    default:
      c.fail("illegal type ." + std::string(ptx::type_name(type)) + " for instruction '" + c.source.opcode + "'");
  }
}

void three_operands(Decode& c, Type type) {
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
}

// -- carries: CC.CF is a predicate of the frame. m0: carry in, m1: carry out
//
// Subtraction adds the complement, so it leaves CF set where there was *no* borrow. The ISA speaks of a borrow; nvcc's
// own 128-bit division tests the flag of a subc.cc with addc and relies on the complement, and with subc only the two
// agree.

template <class T>
void add_carry(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  T* d = warp.at<T>(inst.d);
  const LaneMask in = inst.m0 ? warp.predicate(inst.c) : 0;
  LaneMask out = 0;
  for_lanes(mask, [&](int lane) {
    T sum;
    bool carry = __builtin_add_overflow(a[lane], b[lane], &sum);
    carry |= __builtin_add_overflow(sum, T(in >> lane & 1), &sum);
    d[lane] = sum;
    out |= LaneMask(carry) << lane;
  });
  if (inst.m1) set_predicate(warp, inst.c, mask, out);
}

template <class T>
void sub_borrow(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  T* d = warp.at<T>(inst.d);
  const LaneMask in = inst.m0 ? ~warp.predicate(inst.c) : 0;
  LaneMask out = 0;
  for_lanes(mask, [&](int lane) {
    T difference;
    bool borrow = __builtin_sub_overflow(a[lane], b[lane], &difference);
    borrow |= __builtin_sub_overflow(difference, T(in >> lane & 1), &difference);
    d[lane] = difference;
    out |= LaneMask(borrow) << lane;
  });
  if (inst.m1) set_predicate(warp, inst.c, mask, ~out);
}

/// mad{c}{.hi,.lo}{.cc}: list[0] is the addend; m2 chooses the high half.
template <class T>
void mad_carry(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  const T* addend = warp.at<T>(warp.program->slots[inst.list]);
  T* d = warp.at<T>(inst.d);
  const LaneMask in = inst.m0 ? warp.predicate(inst.c) : 0;
  LaneMask out = 0;
  for_lanes(mask, [&](int lane) {
    const T product = inst.m2 ? high_mul(a[lane], b[lane]) : wrap_mul(a[lane], b[lane]);
    Unsigned<T> sum;
    bool carry = __builtin_add_overflow(Unsigned<T>(product), Unsigned<T>(addend[lane]), &sum);
    carry |= __builtin_add_overflow(sum, Unsigned<T>(in >> lane & 1), &sum);
    d[lane] = T(sum);
    out |= LaneMask(carry) << lane;
  });
  if (inst.m1) set_predicate(warp, inst.c, mask, out);
}

void decode_carry(Decode& c, bool subtract, bool carry_in) {
  c.inst.m0 = carry_in;
  c.inst.m1 = c.mods.take("cc");
  const Type type = c.mods.type();
  const int bits = ptx::type_bits(type);
  if ((bits != 32 && bits != 64) || ptx::is_untyped(type)) c.fail("illegal type for extended-precision arithmetic");
  three_operands(c, type);
  c.inst.c = c.decoder.carry_slot(c.inst.m0 != 0, c.inst.m1 != 0);
  if (subtract) {
    c.inst.fn = bits == 32 ? sub_borrow<uint32_t> : sub_borrow<uint64_t>;
  } else {
    c.inst.fn = bits == 32 ? add_carry<uint32_t> : add_carry<uint64_t>;
  }
}

void decode_mad_carry(Decode& c, bool carry_in) {
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.m0 = carry_in;
  c.inst.m1 = c.mods.take("cc");
  c.inst.m2 = c.mods.take("hi");
  if (!c.inst.m2 && !c.mods.take("lo")) c.fail("missing .hi or .lo");
  const Type type = c.mods.type();
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.decoder.set_list(c.inst, {c.reads(3, type)});
  c.inst.c = c.decoder.carry_slot(c.inst.m0 != 0, c.inst.m1 != 0);
  switch (type) {
    case Type::U32:
      c.inst.fn = mad_carry<uint32_t>;
      break;
    case Type::S32:
      c.inst.fn = mad_carry<int32_t>;
      break;
    case Type::U64:
      c.inst.fn = mad_carry<uint64_t>;
      break;
    case Type::S64:
      c.inst.fn = mad_carry<int64_t>;
      break;
    default:
      c.fail("illegal type for extended-precision arithmetic");
  }
}

// -- add.{u,s}16x2 and min/max of packed halves

template <class T, class Op>
uint32_t pairwise(uint32_t a, uint32_t b) {
  const T low = Op::template apply<T>(T(a), T(b));
  const T high = Op::template apply<T>(T(a >> 16), T(b >> 16));
  return uint32_t(uint16_t(low)) | uint32_t(uint16_t(high)) << 16;
}

template <class T, class Op>
void run_pairwise(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<uint32_t, uint32_t, uint32_t>(warp, inst, mask, [](uint32_t a, uint32_t b) { return pairwise<T, Op>(a, b); });
}

template <class Op>
bool decode_pairwise(Decode& c) {
  const bool is_unsigned = c.mods.take("u16x2");
  if (!is_unsigned && !c.mods.take("s16x2")) return false;
  c.require(80, 90);
  three_operands(c, Type::B32);
  c.inst.fn = is_unsigned ? run_pairwise<uint16_t, Op> : run_pairwise<int16_t, Op>;
  return true;
}

void decode_add(Decode& c) {
  if (c.mods.has("cc")) return decode_carry(c, false, false);
  if (decode_pairwise<Add>(c)) return;
  const bool saturate = c.mods.take("sat");
  const Type type = c.mods.type();
  if (saturate && type != Type::S32) c.fail(".sat applies to .s32 only");
  three_operands(c, type);
  c.inst.fn = saturate ? run_binary<int32_t, AddSat> : binary_for<Add>(c, type);
}

void decode_sub(Decode& c) {
  if (c.mods.has("cc")) return decode_carry(c, true, false);
  const bool saturate = c.mods.take("sat");
  const Type type = c.mods.type();
  if (saturate && type != Type::S32) c.fail(".sat applies to .s32 only");
  three_operands(c, type);
  c.inst.fn = saturate ? run_binary<int32_t, SubSat> : binary_for<Sub>(c, type);
}

template <class Op>
void decode_simple(Decode& c) {
  const Type type = c.mods.type();
  three_operands(c, type);
  c.inst.fn = binary_for<Op>(c, type);
}

template <class Op, class Relu>
void decode_min_max(Decode& c) {
  const bool relu = c.mods.take("relu");
  if (relu && c.mods.has("s16x2")) {
    decode_pairwise<Relu>(c);
    return;
  }
  if (decode_pairwise<Op>(c)) return;
  const Type type = c.mods.type();
  if (relu && type != Type::S32) c.fail(".relu applies to .s32 and .s16x2 only");
  if (relu) c.require(80, 90);
  three_operands(c, type);
  c.inst.fn = relu ? run_binary<int32_t, Relu> : binary_for<Op>(c, type);
}

// -- multiplication

template <class T>
void mul_wide(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<Wide<T>, T, T>(warp, inst, mask, [](T a, T b) { return Wide<T>(Wide<T>(a) * Wide<T>(b)); });
}

template <class T>
void mad_wide(Warp& warp, const Inst& inst, LaneMask mask) {
  using W = Wide<T>;
  ternary<W, T, T, W>(warp, inst, mask, [](T a, T b, W c) { return W(Unsigned<W>(W(a) * W(b)) + Unsigned<W>(c)); });
}

template <class T>
void mad_lo(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<T, T, T, T>(warp, inst, mask, [](T a, T b, T c) { return Add::apply(wrap_mul(a, b), c); });
}

template <class T>
void mad_hi(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<T, T, T, T>(warp, inst, mask, [](T a, T b, T c) { return Add::apply(high_mul(a, b), c); });
}

void mad_hi_sat(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<int32_t, int32_t, int32_t, int32_t>(
      warp, inst, mask, [](int32_t a, int32_t b, int32_t c) { return AddSat::apply(high_mul(a, b), c); });
}

Type widened(Type type) {
  switch (type) {
    case Type::U16:
      return Type::U32;
    case Type::S16:
      return Type::S32;
    case Type::U32:
      return Type::U64;
    default:
      return Type::S64;
  }
}

template <template <class> class F>
ExecFn wide_for(Decode& c, Type type) {
  switch (type) {
    case Type::U16:
      return F<uint16_t>::run;
    case Type::S16:
      return F<int16_t>::run;
    case Type::U32:
      return F<uint32_t>::run;
    case Type::S32:
      return F<int32_t>::run;
    default:
      c.fail("illegal type for a wide product");
  }
}
template <class T>
struct MulWide {
  static constexpr ExecFn run = mul_wide<T>;
};
template <class T>
struct MadWide {
  static constexpr ExecFn run = mad_wide<T>;
};

ExecFn mad_for(Decode& c, Type type, bool high) {
  switch (type) {
    case Type::U16:
      return high ? mad_hi<uint16_t> : mad_lo<uint16_t>;
    case Type::S16:
      return high ? mad_hi<int16_t> : mad_lo<int16_t>;
    case Type::U32:
      return high ? mad_hi<uint32_t> : mad_lo<uint32_t>;
    case Type::S32:
      return high ? mad_hi<int32_t> : mad_lo<int32_t>;
    case Type::U64:
      return high ? mad_hi<uint64_t> : mad_lo<uint64_t>;
    case Type::S64:
      return high ? mad_hi<int64_t> : mad_lo<int64_t>;
    default:
      c.fail("illegal type for instruction 'mad'");
  }
}

void decode_mul(Decode& c) {
  const int half = c.mods.take_one({"lo", "hi", "wide"});
  if (half < 0) c.fail("missing .lo, .hi or .wide");
  const Type type = c.mods.type();
  if (half < 2) {
    three_operands(c, type);
    c.inst.fn = half == 0 ? binary_for<MulLo>(c, type) : binary_for<MulHi>(c, type);
    return;
  }
  c.inst.fn = wide_for<MulWide>(c, type);
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, widened(type));
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
}

void decode_mad(Decode& c) {
  if (c.mods.has("cc")) return decode_mad_carry(c, false);
  const int half = c.mods.take_one({"lo", "hi", "wide"});
  if (half < 0) c.fail("missing .lo, .hi or .wide");
  const bool saturate = c.mods.take("sat");
  const Type type = c.mods.type();
  if (saturate && (half != 1 || type != Type::S32)) c.fail(".sat applies to mad.hi.s32 only");
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  const Type result = half == 2 ? widened(type) : type;
  c.inst.fn = half == 2 ? wide_for<MadWide>(c, type) : saturate ? mad_hi_sat : mad_for(c, type, half == 1);
  c.inst.d = c.writes(0, result);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads(3, result);
}

/// 24-bit operands, extended to 48 bits of product; lo and hi are its two overlapping 32-bit ends.
template <bool kSigned>
int64_t product24(uint32_t a, uint32_t b) {
  if constexpr (kSigned) return int64_t(int32_t(a << 8) >> 8) * (int32_t(b << 8) >> 8);
  return int64_t(uint64_t(a & 0xFFFFFF) * (b & 0xFFFFFF));
}

template <bool kSigned>
void mul24(Warp& warp, const Inst& inst, LaneMask mask) {
  const int shift = inst.m0 ? 16 : 0;
  binary<uint32_t, uint32_t, uint32_t>(
      warp, inst, mask, [shift](uint32_t a, uint32_t b) { return uint32_t(product24<kSigned>(a, b) >> shift); });
}

template <bool kSigned>
void mad24(Warp& warp, const Inst& inst, LaneMask mask) {
  const int shift = inst.m0 ? 16 : 0;
  const bool saturate = inst.m1;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [=](uint32_t a, uint32_t b, uint32_t c) {
    const auto part = uint32_t(product24<kSigned>(a, b) >> shift);
    return saturate ? uint32_t(AddSat::apply(int32_t(part), int32_t(c))) : part + c;
  });
}

void decode_mul24(Decode& c) {
  const int half = c.mods.take_one({"lo", "hi"});
  if (half < 0) c.fail("missing .lo or .hi");
  const Type type = c.mods.type();
  if (type != Type::U32 && type != Type::S32) c.fail("mul24 works on .u32 and .s32");
  three_operands(c, type);
  c.inst.m0 = uint8_t(half);
  c.inst.fn = type == Type::S32 ? mul24<true> : mul24<false>;
}

void decode_mad24(Decode& c) {
  const int half = c.mods.take_one({"lo", "hi"});
  if (half < 0) c.fail("missing .lo or .hi");
  c.inst.m1 = c.mods.take("sat");
  const Type type = c.mods.type();
  if (type != Type::U32 && type != Type::S32) c.fail("mad24 works on .u32 and .s32");
  if (c.inst.m1 && (type != Type::S32 || half != 1)) c.fail(".sat applies to mad24.hi.s32 only");
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads(3, type);
  c.inst.m0 = uint8_t(half);
  c.inst.fn = type == Type::S32 ? mad24<true> : mad24<false>;
}

template <class T>
void sad(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<T, T, T, T>(warp, inst, mask,
                      [](T a, T b, T c) { return Add::apply(c, a < b ? Sub::apply(b, a) : Sub::apply(a, b)); });
}

void decode_sad(Decode& c) {
  const Type type = c.mods.type();
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads(3, type);
  switch (type) {
    case Type::U16:
      c.inst.fn = sad<uint16_t>;
      break;
    case Type::S16:
      c.inst.fn = sad<int16_t>;
      break;
    case Type::U32:
      c.inst.fn = sad<uint32_t>;
      break;
    case Type::S32:
      c.inst.fn = sad<int32_t>;
      break;
    case Type::U64:
      c.inst.fn = sad<uint64_t>;
      break;
    case Type::S64:
      c.inst.fn = sad<int64_t>;
      break;
    default:
      c.fail("illegal type for instruction 'sad'");
  }
}

template <class T>
void negate(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<T, T>(warp, inst, mask, [](T a) { return Sub::apply(T(0), a); });
}
template <class T>
void absolute(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<T, T>(warp, inst, mask, [](T a) { return a < 0 ? Sub::apply(T(0), a) : a; });
}

void decode_neg_abs(Decode& c) {
  const bool is_neg = c.source.opcode == "neg";
  const Type type = c.mods.type();
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  switch (type) {
    case Type::S16:
      c.inst.fn = is_neg ? negate<int16_t> : absolute<int16_t>;
      break;
    case Type::S32:
      c.inst.fn = is_neg ? negate<int32_t> : absolute<int32_t>;
      break;
    case Type::S64:
      c.inst.fn = is_neg ? negate<int64_t> : absolute<int64_t>;
      break;
    default:
      c.fail("illegal type for instruction '" + c.source.opcode + "'");
  }
}

// -- dot products of bytes. m0: a is signed, m1: b is signed, m2: dp2a's upper bytes of b

int32_t byte_of(uint32_t word, int i, bool is_signed) {
  const auto byte = uint8_t(word >> (8 * i));
  return is_signed ? int8_t(byte) : int32_t(byte);
}

void dp4a(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool sa = inst.m0, sb = inst.m1;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [=](uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) c += uint32_t(byte_of(a, i, sa) * byte_of(b, i, sb));
    return c;
  });
}

void dp2a(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool sa = inst.m0, sb = inst.m1, high = inst.m2;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [=](uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 2; ++i) {
      const auto half = uint16_t(a >> (16 * i));
      const int32_t wide = sa ? int16_t(half) : int32_t(half);
      c += uint32_t(wide * byte_of(b, i + (high ? 2 : 0), sb));
    }
    return c;
  });
}

void decode_dot(Decode& c) {
  const bool four = c.source.opcode == "dp4a";
  if (!four) {
    const int half = c.mods.take_one({"lo", "hi"});
    if (half < 0) c.fail("missing .lo or .hi");
    c.inst.m2 = uint8_t(half);
  }
  const Type a = c.mods.type(), b = c.mods.type();
  const auto legal = [](Type t) { return t == Type::U32 || t == Type::S32; };
  if (!legal(a) || !legal(b)) c.fail("byte dot products work on .u32 and .s32");
  const Type result = a == Type::S32 || b == Type::S32 ? Type::S32 : Type::U32;
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, result);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, result);
  c.inst.m0 = a == Type::S32;
  c.inst.m1 = b == Type::S32;
  c.inst.fn = four ? dp4a : dp2a;
}

}  // namespace

void register_integer(OpcodeTable& table) {
  table["add"] = decode_add;
  table["addc"] = [](Decode& c) { decode_carry(c, false, true); };
  table["sub"] = decode_sub;
  table["subc"] = [](Decode& c) { decode_carry(c, true, true); };
  table["mul"] = decode_mul;
  table["mad"] = decode_mad;
  table["madc"] = [](Decode& c) { decode_mad_carry(c, true); };
  table["mul24"] = decode_mul24;
  table["mad24"] = decode_mad24;
  table["sad"] = decode_sad;
  table["div"] = decode_simple<Div>;
  table["rem"] = decode_simple<Rem>;
  table["min"] = decode_min_max<Min, MinRelu>;
  table["max"] = decode_min_max<Max, MaxRelu>;
  table["neg"] = decode_neg_abs;
  table["abs"] = decode_neg_abs;
  table["dp4a"] = decode_dot;
  table["dp2a"] = decode_dot;
}

}  // namespace corrloom::sim::exec
