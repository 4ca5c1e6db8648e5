#include <algorithm>
#include <bit>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// Bits: logic, shifts, fields, counts and permutations. Source: PTX ISA, "Logic and Shift Instructions" and the bit
/// operations of "Integer Arithmetic Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

[[noreturn]] void bad_type(Decode& c, Type type) {
  c.fail("illegal type ." + std::string(ptx::type_name(type)) + " for instruction '" + c.source.opcode + "'");
}

// -- logic

struct And {
  static constexpr Follow kFollow = Follow::And;
  template <class T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  static constexpr Follow kFollow = Follow::Or;
  template <class T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  static constexpr Follow kFollow = Follow::SpreadsBits;
  template <class T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};

template <class T, class Op>
void logic(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<T, T, T>(warp, inst, mask, [](T a, T b) { return Op::template apply<T>(a, b); });
}
template <class Op>
void logic_predicate(Warp& warp, const Inst& inst, LaneMask mask) {
  set_predicate(warp, inst.d, mask, Op::template apply<LaneMask>(warp.predicate(inst.a), warp.predicate(inst.b)));
}

template <class Op>
void decode_logic(Decode& c) {
  const Type type = c.mods.type();
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  if (type == Type::Pred) {
    c.inst.d = c.writes_predicate(0);
    c.inst.a = c.reads_predicate(1);
    c.inst.b = c.reads_predicate(2);
    c.inst.follow = Op::kFollow;
    c.inst.fn = logic_predicate<Op>;
    return;
  }
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.follow = Op::kFollow;
  switch (type) {
    case Type::B16:
      c.inst.fn = logic<uint16_t, Op>;
      break;
    case Type::B32:
      c.inst.fn = logic<uint32_t, Op>;
      break;
    case Type::B64:
      c.inst.fn = logic<uint64_t, Op>;
      break;
    default:
      bad_type(c, type);
  }
}

template <class T>
void invert(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<T, T>(warp, inst, mask, [](T a) { return T(~a); });
}
template <class T>
void is_zero(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<T, T>(warp, inst, mask, [](T a) { return T(a == 0); });
}
void invert_predicate(Warp& warp, const Inst& inst, LaneMask mask) {
  set_predicate(warp, inst.d, mask, ~warp.predicate(inst.a));
}

void decode_not(Decode& c) {
  const bool logical = c.source.opcode == "cnot";
  const Type type = c.mods.type();
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  if (type == Type::Pred && !logical) {
    c.inst.d = c.writes_predicate(0);
    c.inst.a = c.reads_predicate(1);
    c.inst.fn = invert_predicate;
    return;
  }
  if (!logical) c.inst.follow = Follow::SpreadsBits;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  switch (type) {
    case Type::B16:
      c.inst.fn = logical ? is_zero<uint16_t> : invert<uint16_t>;
      break;
    case Type::B32:
      c.inst.fn = logical ? is_zero<uint32_t> : invert<uint32_t>;
      break;
    case Type::B64:
      c.inst.fn = logical ? is_zero<uint64_t> : invert<uint64_t>;
      break;
    default:
      bad_type(c, type);
  }
}

/// The function of three inputs whose truth table is `table`: bit 4a+2b+c.
uint32_t lookup3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    if (!(table >> i & 1)) continue;
    result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  }
  return result;
}

void lop3(Warp& warp, const Inst& inst, LaneMask mask) {
  const auto table = uint32_t(inst.imm);
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
      warp, inst, mask, [table](uint32_t a, uint32_t b, uint32_t c) { return lookup3(a, b, c, table); });
  if (inst.list_size == 0) return;
  // lop3.BoolOp: p = (d != 0) op q
  const uint32_t* d = warp.at<uint32_t>(inst.d);
  const LaneMask nonzero = lanes_where([&](int lane) { return d[lane] != 0; });
  const LaneMask q = warp.predicate(warp.program->slots[inst.list + 1]);
  set_predicate(warp, warp.program->slots[inst.list], mask, inst.m0 ? nonzero & q : nonzero | q);
}

void decode_lop3(Decode& c) {
  const int combine = c.mods.take_one({"or", "and"});
  if (c.mods.type() != Type::B32) c.fail("lop3 works on .b32");
  c.expect_operands(combine < 0 ? 5 : 6);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, Type::B32);
  c.inst.imm = int64_t(c.constant(4) & 0xFF);
  c.inst.fn = lop3;
  if (combine >= 0) {
    c.require(82, 70);
    if (c.operand(0).paired == -1) c.fail("expected a predicate after '|'");
    c.inst.m0 = combine == 1;
    c.decoder.set_list(c.inst,
                       {c.decoder.write_predicate_register(c.operand(0).paired, c.source.line), c.reads_predicate(5)});
  }
}

// -- shifts: amounts above the width give what the width gives

template <class T>
void shift_left(Warp& warp, const Inst& inst, LaneMask mask) {
  binary<T, T, uint32_t>(warp, inst, mask, [](T a, uint32_t n) { return n < 8 * sizeof(T) ? T(a << n) : T(0); });
}
template <class T>
void shift_right(Warp& warp, const Inst& inst, LaneMask mask) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  binary<T, T, uint32_t>(warp, inst, mask, [](T a, uint32_t n) {
    if (n < kBits) return T(a >> n);
    return std::is_signed_v<T> ? T(a >> (kBits - 1)) : T(0);
  });
}

void decode_shift(Decode& c) {
  const bool left = c.source.opcode == "shl";
  const Type type = c.mods.type();
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.follow = Follow::MovesFirst;
  switch (type) {
    case Type::B16:
      c.inst.fn = left ? shift_left<uint16_t> : shift_right<uint16_t>;
      return;
    case Type::B32:
      c.inst.fn = left ? shift_left<uint32_t> : shift_right<uint32_t>;
      return;
    case Type::B64:
      c.inst.fn = left ? shift_left<uint64_t> : shift_right<uint64_t>;
      return;
    default:
      break;
  }
  if (left) bad_type(c, type);
  switch (type) {
    case Type::U16:
      c.inst.fn = shift_right<uint16_t>;
      break;
    case Type::S16:
      c.inst.fn = shift_right<int16_t>;
      break;
    case Type::U32:
      c.inst.fn = shift_right<uint32_t>;
      break;
    case Type::S32:
      c.inst.fn = shift_right<int32_t>;
      break;
    case Type::U64:
      c.inst.fn = shift_right<uint64_t>;
      break;
    case Type::S64:
      c.inst.fn = shift_right<int64_t>;
      break;
    default:
      bad_type(c, type);
  }
}

/// shf: m0 left, m1 clamp (else wrap). b:a is a 64-bit value; left keeps its top word after the shift.
void funnel(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool left = inst.m0, clamp = inst.m1;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [=](uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = clamp ? std::min(c, 32u) : c & 31;
    const uint64_t pair = uint64_t(b) << 32 | a;
    return left ? uint32_t((pair << n) >> 32) : uint32_t(pair >> n);
  });
}

void decode_funnel(Decode& c) {
  const int direction = c.mods.take_one({"r", "l"}), mode = c.mods.take_one({"wrap", "clamp"});
  if (direction < 0 || mode < 0) c.fail("shf needs .l or .r and .clamp or .wrap");
  if (c.mods.type() != Type::B32) c.fail("shf works on .b32");
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.m0 = uint8_t(direction);
  c.inst.m1 = uint8_t(mode);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, Type::B32);
  c.inst.follow = Follow::MovesTwo;
  c.inst.fn = funnel;
}

// -- fields

template <class T>
T extract_field(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  position &= 0xFF;
  length &= 0xFF;
  const uint32_t top = std::min(position + length - 1, kBits - 1);
  const bool sign = std::is_signed_v<T> && length != 0 && (U(a) >> top & 1);
  U field = position < kBits ? U(U(a) >> position) : 0;
  const uint32_t kept = position + length > kBits ? (position < kBits ? kBits - position : 0) : length;
  if (kept < kBits) {
    field &= (U(1) << kept) - 1;
    if (sign) field |= U(~U(0)) << kept;
  }
  return T(field);
}

template <class T>
void bfe(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<T, T, uint32_t, uint32_t>(warp, inst, mask,
                                    [](T a, uint32_t p, uint32_t n) { return extract_field(a, p, n); });
}

void decode_bfe(Decode& c) {
  const Type type = c.mods.type();
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, Type::B32);
  c.inst.follow = Follow::MovesFirst;
  switch (type) {
    case Type::U32:
      c.inst.fn = bfe<uint32_t>;
      break;
    case Type::S32:
      c.inst.fn = bfe<int32_t>;
      break;
    case Type::U64:
      c.inst.fn = bfe<uint64_t>;
      break;
    case Type::S64:
      c.inst.fn = bfe<int64_t>;
      break;
    default:
      bad_type(c, type);
  }
}

template <class T>
void bfi(Warp& warp, const Inst& inst, LaneMask mask) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const uint32_t* lengths = warp.at<uint32_t>(warp.program->slots[inst.list]);
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  const uint32_t* positions = warp.at<uint32_t>(inst.c);
  T* d = warp.at<T>(inst.d);
  for_lanes(mask, [&](int lane) {
    const uint32_t position = positions[lane] & 0xFF, length = lengths[lane] & 0xFF;
    T field = 0;
    if (position < kBits && length > 0) {
      field = (length >= kBits ? T(~T(0)) : T((T(1) << length) - 1)) << position;
    }
    const T shifted = position < kBits ? T(a[lane] << position) : T(0);
    d[lane] = (b[lane] & ~field) | (shifted & field);
  });
}

void decode_bfi(Decode& c) {
  const Type type = c.mods.type();
  if (type != Type::B32 && type != Type::B64) bad_type(c, type);
  c.expect_operands(5);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads(3, Type::B32);
  c.decoder.set_list(c.inst, {c.reads(4, Type::B32)});
  c.inst.fn = type == Type::B32 ? bfi<uint32_t> : bfi<uint64_t>;
}

/// szext: sign- or zero-extends the low n bits. m0: clamp.
template <class T>
void szext(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool clamp = inst.m0;
  binary<T, T, uint32_t>(warp, inst, mask, [clamp](T a, uint32_t n) {
    if (clamp ? n >= 32 : false) return a;
    n = clamp ? n : n & 31;
    if (n == 0) return T(0);
    return T(T(uint32_t(a) << (32 - n)) >> (32 - n));
  });
}

void decode_szext(Decode& c) {
  const int mode = c.mods.take_one({"wrap", "clamp"});
  if (mode < 0) c.fail("szext needs .clamp or .wrap");
  const Type type = c.mods.type();
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  c.inst.m0 = uint8_t(mode);
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, Type::U32);
  if (type != Type::U32 && type != Type::S32) bad_type(c, type);
  c.inst.fn = type == Type::U32 ? szext<uint32_t> : szext<int32_t>;
}

void bmsk(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool clamp = inst.m0;
  binary<uint32_t, uint32_t, uint32_t>(warp, inst, mask, [clamp](uint32_t a, uint32_t b) {
    const uint32_t position = clamp ? std::min(a, 32u) : a & 31;
    const uint32_t width = clamp ? std::min(b, 32u) : b & 31;
    const uint64_t ones = (uint64_t(1) << width) - 1;
    return uint32_t(ones << position);
  });
}

void decode_bmsk(Decode& c) {
  const int mode = c.mods.take_one({"wrap", "clamp"});
  if (mode < 0) c.fail("bmsk needs .clamp or .wrap");
  if (c.mods.type() != Type::B32) c.fail("bmsk works on .b32");
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  c.inst.m0 = uint8_t(mode);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.fn = bmsk;
}

// -- counts

template <class T>
void popc(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<uint32_t, T>(warp, inst, mask, [](T a) { return uint32_t(std::popcount(a)); });
}
template <class T>
void clz(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<uint32_t, T>(warp, inst, mask, [](T a) { return uint32_t(std::countl_zero(a)); });
}

void decode_count(Decode& c) {
  const bool is_popc = c.source.opcode == "popc";
  const Type type = c.mods.type();
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, Type::U32);
  c.inst.a = c.reads(1, type);
  switch (type) {
    case Type::B32:
      c.inst.fn = is_popc ? popc<uint32_t> : clz<uint32_t>;
      break;
    case Type::B64:
      c.inst.fn = is_popc ? popc<uint64_t> : clz<uint64_t>;
      break;
    default:
      bad_type(c, type);
  }
}

/// The most significant bit that differs from the sign; all ones when there is none. m0: .shiftamt
template <class T>
void bfind(Warp& warp, const Inst& inst, LaneMask mask) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kTop = 8 * sizeof(T) - 1;
  const bool shift = inst.m0;
  unary<uint32_t, T>(warp, inst, mask, [shift](T a) {
    const U bits = a < 0 ? U(~a) : U(a);
    if (bits == 0) return ~uint32_t(0);
    const auto found = kTop - uint32_t(std::countl_zero(bits));
    return shift ? kTop - found : found;
  });
}

void decode_bfind(Decode& c) {
  c.inst.m0 = c.mods.take("shiftamt");
  const Type type = c.mods.type();
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, Type::U32);
  c.inst.a = c.reads(1, type);
  switch (type) {
    case Type::U32:
      c.inst.fn = bfind<uint32_t>;
      break;
    case Type::S32:
      c.inst.fn = bfind<int32_t>;
      break;
    case Type::U64:
      c.inst.fn = bfind<uint64_t>;
      break;
    case Type::S64:
      c.inst.fn = bfind<int64_t>;
      break;
    default:
      bad_type(c, type);
  }
}

/// fns: the position of the |offset|-th set bit from `base`, upwards for positive offsets.
uint32_t find_nth_set(uint32_t bits, uint32_t base, int32_t offset) {
  if (base > 31) return ~uint32_t(0);
  const int step = offset >= 0 ? 1 : -1;
  if (offset == 0) return bits >> base & 1 ? base : ~uint32_t(0);
  int64_t left = std::abs(int64_t(offset));
  for (int position = int(base); position >= 0 && position < 32; position += step) {
    if (bits >> position & 1 && --left == 0) return uint32_t(position);
  }
  return ~uint32_t(0);
}

void fns(Warp& warp, const Inst& inst, LaneMask mask) {
  ternary<uint32_t, uint32_t, uint32_t, int32_t>(
      warp, inst, mask, [](uint32_t a, uint32_t base, int32_t n) { return find_nth_set(a, base, n); });
}

void decode_fns(Decode& c) {
  if (c.mods.type() != Type::B32) c.fail("fns works on .b32");
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, Type::S32);
  c.inst.fn = fns;
}

template <class T>
void brev(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<T, T>(warp, inst, mask, [](T a) {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) result |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
    return result;
  });
}

void decode_brev(Decode& c) {
  const Type type = c.mods.type();
  if (type != Type::B32 && type != Type::B64) bad_type(c, type);
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.fn = type == Type::B32 ? brev<uint32_t> : brev<uint64_t>;
}

// -- prmt. m0: mode

/// Selector nibbles that the special modes stand for, by the low two bits of c.
uint32_t prmt_selector(int mode, uint32_t c) {
  static constexpr uint32_t kForward4[] = {0x3210, 0x4321, 0x5432, 0x6543};
  static constexpr uint32_t kBackward4[] = {0x5670, 0x6701, 0x7012, 0x0123};
  static constexpr uint32_t kReplicate8[] = {0x0000, 0x1111, 0x2222, 0x3333};
  static constexpr uint32_t kEdgeClampLeft[] = {0x3210, 0x3211, 0x3222, 0x3333};
  static constexpr uint32_t kEdgeClampRight[] = {0x0000, 0x1110, 0x2210, 0x3210};
  static constexpr uint32_t kReplicate16[] = {0x1010, 0x3232, 0x1010, 0x3232};
  static constexpr const uint32_t* kTables[] = {kForward4,      kBackward4,      kReplicate8,
                                                kEdgeClampLeft, kEdgeClampRight, kReplicate16};
  return mode == 0 ? c : kTables[mode - 1][c & 3];
}

void prmt(Warp& warp, const Inst& inst, LaneMask mask) {
  const int mode = inst.m0;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [mode](uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t pair = uint64_t(b) << 32 | a;
    const uint32_t selector = prmt_selector(mode, c);
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t nibble = selector >> (4 * i);
      auto byte = uint32_t(pair >> (8 * (nibble & 7)) & 0xFF);
      if (nibble & 8) byte = byte & 0x80 ? 0xFF : 0;
      result |= byte << (8 * i);
    }
    return result;
  });
}

void decode_prmt(Decode& c) {
  if (c.mods.type() != Type::B32) c.fail("prmt works on .b32");
  const int mode = c.mods.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.m0 = uint8_t(mode + 1);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, Type::B32);
  c.inst.follow = Follow::MovesTwo;
  c.inst.fn = prmt;
}

}  // namespace

void register_bits(OpcodeTable& table) {
  table["and"] = decode_logic<And>;
  table["or"] = decode_logic<Or>;
  table["xor"] = decode_logic<Xor>;
  table["not"] = decode_not;
  table["cnot"] = decode_not;
  table["lop3"] = decode_lop3;
  table["shl"] = decode_shift;
  table["shr"] = decode_shift;
  table["shf"] = decode_funnel;
  table["bfe"] = decode_bfe;
  table["bfi"] = decode_bfi;
  table["szext"] = decode_szext;
  table["bmsk"] = decode_bmsk;
  table["popc"] = decode_count;
  table["clz"] = decode_count;
  table["bfind"] = decode_bfind;
  table["fns"] = decode_fns;
  table["brev"] = decode_brev;
  table["prmt"] = decode_prmt;
}

}  // namespace corrloom::sim::exec
