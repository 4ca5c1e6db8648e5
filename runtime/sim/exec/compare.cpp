#include <cmath>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/lanes.h"

/// Comparison and selection. Source: PTX ISA, "Comparison and Selection Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

enum class Compare : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
enum class Combine : uint8_t { None, And, Or, Xor };

struct CompareName {
  std::string_view name;
  Compare compare;
  bool unsigned_only, float_only;
};
constexpr CompareName kCompares[] = {
    {"eq", Compare::Eq, false, false},  {"ne", Compare::Ne, false, false},  {"lt", Compare::Lt, false, false},
    {"le", Compare::Le, false, false},  {"gt", Compare::Gt, false, false},  {"ge", Compare::Ge, false, false},
    {"lo", Compare::Lt, true, false},   {"ls", Compare::Le, true, false},   {"hi", Compare::Gt, true, false},
    {"hs", Compare::Ge, true, false},   {"equ", Compare::Equ, false, true}, {"neu", Compare::Neu, false, true},
    {"ltu", Compare::Ltu, false, true}, {"leu", Compare::Leu, false, true}, {"gtu", Compare::Gtu, false, true},
    {"geu", Compare::Geu, false, true}, {"num", Compare::Num, false, true}, {"nan", Compare::Nan, false, true},
};

template <class T>
bool holds(Compare compare, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool unordered = a != a || b != b;
    switch (compare) {
      case Compare::Ne:
        return !unordered && a != b;
      case Compare::Equ:
        return unordered || a == b;
      case Compare::Neu:
        return unordered || a != b;
      case Compare::Ltu:
        return unordered || a < b;
      case Compare::Leu:
        return unordered || a <= b;
      case Compare::Gtu:
        return unordered || a > b;
      case Compare::Geu:
        return unordered || a >= b;
      case Compare::Num:
        return !unordered;
      case Compare::Nan:
        return unordered;
      default:
        break;
    }
  }
  switch (compare) {
    case Compare::Eq:
      return a == b;
    case Compare::Ne:
      return a != b;
    case Compare::Lt:
      return a < b;
    case Compare::Le:
      return a <= b;
    case Compare::Gt:
      return a > b;
    default:
      return a >= b;
  }
}

template <class T>
LaneMask compare_lanes(Compare compare, const T* a, const T* b) {
  switch (compare) {
    case Compare::Eq:
      return lanes_where([&](int l) { return a[l] == b[l]; });
    case Compare::Lt:
      return lanes_where([&](int l) { return a[l] < b[l]; });
    case Compare::Le:
      return lanes_where([&](int l) { return a[l] <= b[l]; });
    case Compare::Gt:
      return lanes_where([&](int l) { return a[l] > b[l]; });
    case Compare::Ge:
      return lanes_where([&](int l) { return a[l] >= b[l]; });
    default:
      return lanes_where([&](int l) { return holds(compare, a[l], b[l]); });
  }
}

enum class Half : uint8_t { F16, BF16 };

float half_value(uint16_t bits, bool bf16, bool ftz) {
  const float value = bf16 ? decode_bf16(bits) : decode_f16(bits);
  return ftz && std::fabs(value) < 0x1p-14f && !bf16 ? std::copysign(0.0f, value) : value;
}

/// The operands a and b compared: m0 Compare, m1 ftz, m3 the kind of type (index in kTypes below).
/// `high` chooses the upper half of packed types.
LaneMask compare_operands(Warp& warp, const Inst& inst, bool high) {
  const auto compare = Compare(inst.m0);
  const auto whole = [&]<class T>(T) { return compare_lanes(compare, warp.at<T>(inst.a), warp.at<T>(inst.b)); };
  switch (Type(inst.m3)) {
    case Type::U16:
    case Type::B16:
      return whole(uint16_t());
    case Type::U32:
    case Type::B32:
      return whole(uint32_t());
    case Type::U64:
    case Type::B64:
      return whole(uint64_t());
    case Type::S16:
      return whole(int16_t());
    case Type::S32:
      return whole(int32_t());
    case Type::S64:
      return whole(int64_t());
    case Type::F64:
      return whole(double());
    case Type::F32: {
      if (!inst.m1) return whole(float());
      const float* a = warp.at<float>(inst.a);
      const float* b = warp.at<float>(inst.b);
      return lanes_where([&](int l) { return holds(compare, flush(a[l]), flush(b[l])); });
    }
    case Type::F16:
    case Type::BF16: {
      const uint16_t* a = warp.at<uint16_t>(inst.a);
      const uint16_t* b = warp.at<uint16_t>(inst.b);
      const bool bf16 = Type(inst.m3) == Type::BF16;
      return lanes_where(
          [&](int l) { return holds(compare, half_value(a[l], bf16, inst.m1), half_value(b[l], bf16, inst.m1)); });
    }
    default: {
      const uint32_t* a = warp.at<uint32_t>(inst.a);
      const uint32_t* b = warp.at<uint32_t>(inst.b);
      const bool bf16 = Type(inst.m3) == Type::BF16x2;
      const int shift = high ? 16 : 0;
      return lanes_where([&](int l) {
        return holds(compare, half_value(uint16_t(a[l] >> shift), bf16, inst.m1),
                     half_value(uint16_t(b[l] >> shift), bf16, inst.m1));
      });
    }
  }
}

LaneMask combine(Combine how, LaneMask compared, LaneMask other) {
  switch (how) {
    case Combine::And:
      return compared & other;
    case Combine::Or:
      return compared | other;
    case Combine::Xor:
      return compared ^ other;
    default:
      return compared;
  }
}

/// setp: d = compared op c; list[0], if any, is q: the complement of the comparison, or of the upper halves itself.
void setp(Warp& warp, const Inst& inst, LaneMask mask) {
  const LaneMask other = inst.c == kNoSlot ? 0 : warp.predicate(inst.c);
  const LaneMask compared = compare_operands(warp, inst, false);
  const bool packed = Type(inst.m3) == Type::F16x2 || Type(inst.m3) == Type::BF16x2;
  const LaneMask second = inst.list_size == 0 ? 0 : packed ? compare_operands(warp, inst, true) : ~compared;
  set_predicate(warp, inst.d, mask, combine(Combine(inst.m2), compared, other));
  if (inst.list_size != 0) {
    set_predicate(warp, warp.program->slots[inst.list], mask, combine(Combine(inst.m2), second, other));
  }
}

/// set: imm is the pattern for true.
template <class D>
void set(Warp& warp, const Inst& inst, LaneMask mask) {
  const LaneMask other = inst.c == kNoSlot ? 0 : warp.predicate(inst.c);
  const LaneMask result = combine(Combine(inst.m2), compare_operands(warp, inst, false), other);
  D* d = warp.at<D>(inst.d);
  for_lanes(mask, [&](int lane) { d[lane] = result >> lane & 1 ? D(inst.imm) : D(0); });
}

/// set on packed halves; m0.. as in setp, imm the pattern of one half.
void set_packed(Warp& warp, const Inst& inst, LaneMask mask) {
  const LaneMask other = inst.c == kNoSlot ? 0 : warp.predicate(inst.c);
  const LaneMask low = combine(Combine(inst.m2), compare_operands(warp, inst, false), other);
  const LaneMask high = combine(Combine(inst.m2), compare_operands(warp, inst, true), other);
  uint32_t* d = warp.at<uint32_t>(inst.d);
  const auto pattern = uint32_t(inst.imm);
  for_lanes(mask,
            [&](int lane) { d[lane] = (low >> lane & 1 ? pattern : 0) | (high >> lane & 1 ? pattern << 16 : 0); });
}

/// Reads CmpOp, BoolOp and .ftz.
const CompareName& take_compare(Decode& c) {
  const CompareName* found = nullptr;
  for (const CompareName& row : kCompares) {
    if (c.mods.take(row.name)) {
      found = &row;
      break;
    }
  }
  if (found == nullptr) c.fail("missing comparison operator");
  c.inst.m0 = uint8_t(found->compare);
  c.inst.m2 = uint8_t(c.mods.take_one({"and", "or", "xor"}) + 1);
  c.inst.m1 = c.mods.take("ftz");
  return *found;
}

/// Checks the operator against the type and reads a, b and c.
void take_compared(Decode& c, const CompareName& row, Type type) {
  const bool is_float = ptx::is_float(type);
  const bool ordered = row.compare != Compare::Eq && row.compare != Compare::Ne;
  if ((row.float_only && !is_float) || (row.unsigned_only && !ptx::is_unsigned(type)) ||
      (ordered && ptx::is_untyped(type)) || (c.inst.m1 && (!is_float || type == Type::F64))) {
    c.fail("operator ." + std::string(row.name) + " does not go with type ." + std::string(ptx::type_name(type)));
  }
  const int bits = ptx::type_bits(type);
  if (bits < 16 || bits > 64 || type == Type::TF32 || type == Type::F32x2 || type == Type::E4M3x2 ||
      type == Type::E5M2x2) {
    c.fail("illegal type for instruction '" + c.source.opcode + "'");
  }
  if (type == Type::BF16 || type == Type::BF16x2) c.require(78, 90);
  c.inst.m3 = uint8_t(type);
  c.expect_operands(c.inst.m2 != 0 ? 4 : 3);
  c.inst.klass = type == Type::F64   ? Class::Fp64
                 : type == Type::F32 ? Class::Fp32
                 : is_float          ? Class::Fp16
                                     : Class::Integer;
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  if (c.inst.m2 != 0) c.inst.c = c.reads_predicate(3);
}

void decode_setp(Decode& c) {
  const CompareName& row = take_compare(c);
  const Type type = c.mods.type();
  take_compared(c, row, type);
  c.inst.d = c.writes_predicate(0);
  if (c.operand(0).paired != -1) {
    c.decoder.set_list(c.inst, {c.decoder.write_predicate_register(c.operand(0).paired, c.source.line)});
  }
  if (c.inst.m2 == uint8_t(Combine::And) || c.inst.m2 == uint8_t(Combine::Or)) c.inst.follow = Follow::Compares;
  c.inst.fn = setp;
}

void decode_set(Decode& c) {
  const CompareName& row = take_compare(c);
  const Type result = c.mods.type(), type = c.mods.type();
  take_compared(c, row, type);
  c.inst.d = c.writes(0, result);
  switch (result) {
    case Type::U32:
    case Type::S32:
      c.inst.imm = 0xFFFFFFFF;
      c.inst.fn = set<uint32_t>;
      break;
    case Type::F32:
      c.inst.imm = 0x3F800000;
      c.inst.fn = set<uint32_t>;
      break;
    case Type::U16:
    case Type::S16:
      c.inst.imm = 0xFFFF;
      c.inst.fn = set<uint16_t>;
      break;
    case Type::F16:
      c.inst.imm = 0x3C00;
      c.inst.fn = set<uint16_t>;
      break;
    case Type::BF16:
      c.inst.imm = 0x3F80;
      c.inst.fn = set<uint16_t>;
      break;
    case Type::F16x2:
      c.inst.imm = 0x3C00;
      c.inst.fn = set_packed;
      return;
    case Type::BF16x2:
      c.inst.imm = 0x3F80;
      c.inst.fn = set_packed;
      return;
    default:
      c.fail("illegal result type for instruction 'set'");
  }
  if (type == Type::F16x2 || type == Type::BF16x2) {
    if (ptx::type_bits(result) != 32) c.fail("illegal result type for instruction 'set'");
    c.inst.imm = 0xFFFF;
    c.inst.fn = set_packed;
  }
}

template <class T>
void selp(Warp& warp, const Inst& inst, LaneMask mask) {
  const LaneMask chosen = warp.predicate(inst.c);
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  T* d = warp.at<T>(inst.d);
  T result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = chosen >> lane & 1 ? a[lane] : b[lane];
  blend(d, result, mask);
}

void decode_selp(Decode& c) {
  const Type type = c.mods.type();
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads_predicate(3);
  c.inst.follow = Follow::MovesTwo;
  switch (ptx::type_bits(type)) {
    case 16:
      c.inst.fn = selp<uint16_t>;
      break;
    case 32:
      c.inst.fn = selp<uint32_t>;
      break;
    case 64:
      c.inst.fn = selp<uint64_t>;
      break;
    default:
      c.fail("illegal type for instruction 'selp'");
  }
}

/// slct: a where c >= 0, else b; NaN selects b. m0: c is a float, m1: ftz.
template <class T>
void slct(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint32_t* c = warp.at<uint32_t>(inst.c);
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  T* d = warp.at<T>(inst.d);
  for_lanes(mask, [&](int lane) {
    float value = std::bit_cast<float>(c[lane]);
    if (inst.m1) value = flush(value);
    d[lane] = (inst.m0 ? value >= 0 : int32_t(c[lane]) >= 0) ? a[lane] : b[lane];
  });
}

void decode_slct(Decode& c) {
  c.inst.m1 = c.mods.take("ftz");
  const Type type = c.mods.type(), chooser = c.mods.type();
  if (chooser != Type::S32 && chooser != Type::F32) c.fail("slct chooses by .s32 or .f32");
  if (c.inst.m1 && chooser != Type::F32) c.fail(".ftz applies to .f32 only");
  c.expect_operands(4);
  c.inst.klass = Class::Integer;
  c.inst.m0 = chooser == Type::F32;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads(3, chooser);
  switch (ptx::type_bits(type)) {
    case 16:
      c.inst.fn = slct<uint16_t>;
      break;
    case 32:
      c.inst.fn = slct<uint32_t>;
      break;
    case 64:
      c.inst.fn = slct<uint64_t>;
      break;
    default:
      c.fail("illegal type for instruction 'slct'");
  }
}

}  // namespace

void register_compare(OpcodeTable& table) {
  table["setp"] = decode_setp;
  table["set"] = decode_set;
  table["selp"] = decode_selp;
  table["slct"] = decode_slct;
}

}  // namespace corrloom::sim::exec
