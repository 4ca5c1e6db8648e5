#include <algorithm>
#include <cstdlib>
#include <limits>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// Video instructions: vadd ..., vset, vmad, and the packed forms vadd2 ..., vadd4 ..., vset2, vset4, with selectors
/// and masks. Source: PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

enum class VideoOp : uint8_t { Add, Sub, AbsDiff, Min, Max, Average, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge };

// Inst::m0: VideoOp; m1: parts of a register (1, 2, 4); m2 bit 0 result signed, bit 1 a signed, bit 2 b signed, bit 3
// .sat, bit 4 shift amounts wrap; m3: second operation, 0 none, 1 add, 2 min, 3 max, 4 merge.
// imm: the selections of a, of b, and of d, from the low bits: see the functions.

int64_t part_of(uint64_t word, int first, int bits, bool is_signed) {
  const auto field = uint32_t(word >> first & ((uint64_t(1) << bits) - 1));
  return is_signed ? int64_t(int32_t(field << (32 - bits)) >> (32 - bits)) : int64_t(field);
}

int64_t combine(VideoOp op, int64_t a, int64_t b, bool wrap) {
  switch (op) {
    case VideoOp::Add:
      return a + b;
    case VideoOp::Sub:
      return a - b;
    case VideoOp::AbsDiff:
      return std::llabs(a - b);
    case VideoOp::Min:
      return std::min(a, b);
    case VideoOp::Max:
      return std::max(a, b);
    case VideoOp::Average:
      return a + b >= 0 ? (a + b + 1) >> 1 : -((-(a + b)) >> 1);
    case VideoOp::Eq:
      return a == b;
    case VideoOp::Ne:
      return a != b;
    case VideoOp::Lt:
      return a < b;
    case VideoOp::Le:
      return a <= b;
    case VideoOp::Gt:
      return a > b;
    case VideoOp::Ge:
      return a >= b;
    default:
      break;
  }
  const int64_t amount = wrap ? b & 31 : std::min<int64_t>(b & 0xFFFFFFFF, 32);
  return op == VideoOp::Shl ? a << amount : a >> amount;
}

int64_t saturate(int64_t value, int bits, bool is_signed) {
  const int64_t low = is_signed ? -(int64_t(1) << (bits - 1)) : 0;
  const int64_t high = is_signed ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
  return std::clamp(value, low, high);
}

/// A selection of part of a register: first bit and number of bits.
struct Selection {
  int first = 0, bits = 32;
  int64_t pack() const { return first | int64_t(bits) << 8; }
  explicit Selection(int64_t packed) : first(int(packed & 0xFF)), bits(int(packed >> 8 & 0xFF)) {}
  Selection(int first_bit, int bit_count) : first(first_bit), bits(bit_count) {}
};
constexpr int kSelectionBits = 16;

/// One operation on selected parts, then perhaps a second one with c.
void video(Warp& warp, const Inst& inst, LaneMask mask) {
  const Selection sa(inst.imm), sb(inst.imm >> kSelectionBits), sd(inst.imm >> (2 * kSelectionBits));
  const auto op = VideoOp(inst.m0);
  const bool is_signed = inst.m2 & 1;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a, uint32_t b, uint32_t c) {
    int64_t value = combine(op, part_of(a, sa.first, sa.bits, inst.m2 & 2), part_of(b, sb.first, sb.bits, inst.m2 & 4),
                            inst.m2 & 16);
    if (inst.m2 & 8) value = saturate(value, sd.bits, is_signed);
    const auto result = uint32_t(value);
    switch (inst.m3) {
      case 0:
        return result;
      case 1:
        return result + c;
      case 4: {
        const auto field = uint32_t(((uint64_t(1) << sd.bits) - 1) << sd.first);
        return (c & ~field) | (result << sd.first & field);
      }
      default: {
        const bool less = is_signed ? int32_t(result) < int32_t(c) : result < c;
        return less == (inst.m3 == 2) ? result : c;
      }
    }
  });
}

/// Packed operations. imm: for each part four bits that choose a part of a (0 up) or b (after those of a), first for
/// the first operand, then for the second; then a bit for each part of the result, the others come from c.
void video_packed(Warp& warp, const Inst& inst, LaneMask mask) {
  const int parts = inst.m1, bits = 32 / parts;
  const auto op = VideoOp(inst.m0);
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = uint64_t(b) << 32 | a;
    uint32_t result = c, sum = c;
    for (int i = 0; i < parts; ++i) {
      if (!(inst.imm >> (32 + i) & 1)) continue;
      const int from_a = int(inst.imm >> (4 * i) & 15), from_b = int(inst.imm >> (16 + 4 * i) & 15);
      int64_t value = combine(op, part_of(both, from_a * bits, bits, inst.m2 & 2),
                              part_of(both, from_b * bits, bits, inst.m2 & 4), false);
      if (inst.m2 & 8) value = saturate(value, bits, inst.m2 & 1);
      const auto field = uint32_t((uint64_t(1) << bits) - 1) << (i * bits);
      result = (result & ~field) | (uint32_t(uint64_t(value) << (i * bits)) & field);
      sum += uint32_t(value);
    }
    return inst.m3 == 1 ? sum : result;
  });
}

/// vmad. m3: bit 0 plus one, bit 1 negative product, bit 2 negative c; m1: shift of the result.
void multiply_add(Warp& warp, const Inst& inst, LaneMask mask) {
  const Selection sa(inst.imm), sb(inst.imm >> kSelectionBits);
  const bool is_signed = (inst.m2 & 6) != 0 || (inst.m3 & 6) != 0;
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a, uint32_t b, uint32_t c) {
    __extension__ using Wide = __int128;
    Wide product = Wide(part_of(a, sa.first, sa.bits, inst.m2 & 2)) * part_of(b, sb.first, sb.bits, inst.m2 & 4);
    Wide addend = is_signed ? Wide(int32_t(c)) : Wide(c);
    if (inst.m3 & 2) product = -product;
    if (inst.m3 & 4) addend = -addend;
    Wide value = (product + addend + (inst.m3 & 1)) >> inst.m1;
    if (inst.m2 & 8) {
      const Wide low = is_signed ? Wide(std::numeric_limits<int32_t>::min()) : Wide(0);
      const Wide high = is_signed ? Wide(std::numeric_limits<int32_t>::max()) : Wide(0xFFFFFFFFu);
      value = std::clamp(value, low, high);
    }
    return uint32_t(value);
  });
}

// -- decoding

/// The register of an operand without its selector and sign.
ptx::Operand plain(const ptx::Operand& operand) {
  ptx::Operand copy = operand;
  copy.selector.clear();
  copy.negative = false;
  return copy;
}
Slot read_plain(Decode& c, size_t i) {
  return c.decoder.read_operand(plain(c.operand(i)), Type::B32, false, c.source.line);
}

/// `.b0` to `.b3`, `.h0`, `.h1`; the whole register without one.
Selection selection_of(Decode& c, const ptx::Operand& operand) {
  const std::string& name = operand.selector;
  if (name.empty()) return {0, 32};
  const bool bytes = name[0] == 'b', halves = name[0] == 'h';
  const int index = name.size() == 2 ? name[1] - '0' : -1;
  if ((!bytes && !halves) || index < 0 || index >= (bytes ? 4 : 2)) c.fail("illegal selector '." + name + "'");
  return {index * (bytes ? 8 : 16), bytes ? 8 : 16};
}

/// The digits of a packed selector such as `.b7531` or `.h10`, the lowest part first.
std::vector<int> digits_of(Decode& c, const std::string& name, int parts, int most) {
  std::vector<int> digits;
  if (name.size() < 2 || name[0] != (parts == 2 ? 'h' : 'b')) c.fail("illegal selector '." + name + "'");
  for (size_t i = name.size(); i-- > 1;) {
    const int digit = name[i] - '0';
    if (digit < 0 || digit >= most || int(digits.size()) >= parts) c.fail("illegal selector '." + name + "'");
    digits.push_back(digit);
  }
  return digits;
}

void take_types(Decode& c, bool has_result_type) {
  const Type d = has_result_type ? c.mods.type() : Type::U32;
  const Type a = c.mods.type(), b = c.mods.type();
  for (const Type type : {d, a, b}) {
    if (type != Type::U32 && type != Type::S32) c.fail("video instructions work on .u32 and .s32");
  }
  c.inst.m2 = uint8_t((d == Type::S32) | (a == Type::S32) << 1 | (b == Type::S32) << 2 | c.mods.take("sat") << 3);
}

/// The operands of a scalar instruction: d, a, b and perhaps c.
void take_scalar_operands(Decode& c) {
  const bool merges = !c.operand(0).selector.empty();
  c.inst.m3 = merges ? 4 : uint8_t(c.mods.take_one({"add", "min", "max"}) + 1);
  const bool has_c = c.inst.m3 != 0;
  c.expect_operands(has_c ? 4 : 3);
  const Selection sd = selection_of(c, c.operand(0)), sa = selection_of(c, c.operand(1)),
                  sb = selection_of(c, c.operand(2));
  c.inst.imm = sa.pack() | sb.pack() << kSelectionBits | sd.pack() << (2 * kSelectionBits);
  c.inst.klass = Class::Integer;
  c.inst.d = c.decoder.write_operand(plain(c.operand(0)), Type::B32, false, c.source.line);
  c.inst.a = read_plain(c, 1);
  c.inst.b = read_plain(c, 2);
  c.inst.c = has_c ? c.reads(3, Type::B32) : c.inst.b;
  c.inst.fn = video;
}

void decode_scalar(Decode& c, VideoOp op) {
  take_types(c, true);
  c.inst.m0 = uint8_t(op);
  c.inst.m1 = 1;
  if (op == VideoOp::Shl || op == VideoOp::Shr) {
    const int mode = c.mods.take_one({"clamp", "wrap"});
    if (mode < 0) c.fail("missing .clamp or .wrap");
    c.inst.m2 |= uint8_t(mode << 4);
  }
  take_scalar_operands(c);
}

VideoOp take_comparison(Decode& c) {
  const int comparison = c.mods.take_one({"eq", "ne", "lt", "le", "gt", "ge"});
  if (comparison < 0) c.fail("missing comparison of '" + c.source.opcode + "'");
  return VideoOp(int(VideoOp::Eq) + comparison);
}

void decode_vset(Decode& c) {
  take_types(c, false);
  if (c.inst.m2 & 8) c.fail("vset does not saturate");
  c.inst.m0 = uint8_t(take_comparison(c));
  take_scalar_operands(c);
}

void decode_packed(Decode& c, VideoOp op, int parts, bool compares) {
  take_types(c, !compares);
  if (compares && (c.inst.m2 & 8)) c.fail(c.source.opcode + " does not saturate");
  c.inst.m0 = uint8_t(compares ? take_comparison(c) : op);
  c.inst.m1 = uint8_t(parts);
  c.inst.m3 = c.mods.take("add");
  if (c.inst.m3 != 0 && (c.inst.m2 & 8)) c.fail(".sat and .add exclude each other");
  c.expect_operands(4);
  for (int which = 0; which < 2; ++which) {
    const std::string& selector = c.operand(size_t(1 + which)).selector;
    std::vector<int> digits;
    for (int i = 0; i < parts; ++i) digits.push_back(which * parts + i);
    if (!selector.empty()) digits = digits_of(c, selector, parts, 2 * parts);
    if (int(digits.size()) != parts) c.fail("illegal selector '." + selector + "'");
    for (int i = 0; i < parts; ++i) c.inst.imm |= int64_t(digits[size_t(i)]) << (16 * which + 4 * i);
  }
  const std::string& written = c.operand(0).selector;
  if (written.empty()) {
    c.inst.imm |= int64_t((1 << parts) - 1) << 32;
  } else {
    for (const int part : digits_of(c, written, parts, parts)) c.inst.imm |= int64_t(1) << (32 + part);
  }
  c.inst.klass = Class::Integer;
  c.inst.d = c.decoder.write_operand(plain(c.operand(0)), Type::B32, false, c.source.line);
  c.inst.a = read_plain(c, 1);
  c.inst.b = read_plain(c, 2);
  c.inst.c = c.reads(3, Type::B32);
  c.inst.fn = video_packed;
}

void decode_vmad(Decode& c) {
  take_types(c, true);
  static constexpr uint8_t kShifts[] = {0, 7, 15};
  c.inst.m1 = kShifts[c.mods.take_one({"shr7", "shr15"}) + 1];
  const bool plus_one = c.mods.take("po");
  c.expect_operands(4);
  const bool negative_product = c.operand(1).negative != c.operand(2).negative, negative_c = c.operand(3).negative;
  if (plus_one && (negative_product || negative_c)) c.fail(".po excludes negative operands");
  if (negative_product && negative_c) c.fail("the product and the addend cannot both be negative");
  c.inst.m3 = uint8_t(plus_one | negative_product << 1 | negative_c << 2);
  const Selection sa = selection_of(c, c.operand(1)), sb = selection_of(c, c.operand(2));
  c.inst.imm = sa.pack() | sb.pack() << kSelectionBits;
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = read_plain(c, 1);
  c.inst.b = read_plain(c, 2);
  c.inst.c = read_plain(c, 3);
  c.inst.fn = multiply_add;
}

}  // namespace

void register_video(OpcodeTable& table) {
  table["vadd"] = [](Decode& c) { decode_scalar(c, VideoOp::Add); };
  table["vsub"] = [](Decode& c) { decode_scalar(c, VideoOp::Sub); };
  table["vabsdiff"] = [](Decode& c) { decode_scalar(c, VideoOp::AbsDiff); };
  table["vmin"] = [](Decode& c) { decode_scalar(c, VideoOp::Min); };
  table["vmax"] = [](Decode& c) { decode_scalar(c, VideoOp::Max); };
  table["vshl"] = [](Decode& c) { decode_scalar(c, VideoOp::Shl); };
  table["vshr"] = [](Decode& c) { decode_scalar(c, VideoOp::Shr); };
  table["vset"] = decode_vset;
  table["vmad"] = decode_vmad;
  table["vadd2"] = [](Decode& c) { decode_packed(c, VideoOp::Add, 2, false); };
  table["vadd4"] = [](Decode& c) { decode_packed(c, VideoOp::Add, 4, false); };
  table["vsub2"] = [](Decode& c) { decode_packed(c, VideoOp::Sub, 2, false); };
  table["vsub4"] = [](Decode& c) { decode_packed(c, VideoOp::Sub, 4, false); };
  table["vavrg2"] = [](Decode& c) { decode_packed(c, VideoOp::Average, 2, false); };
  table["vavrg4"] = [](Decode& c) { decode_packed(c, VideoOp::Average, 4, false); };
  table["vabsdiff2"] = [](Decode& c) { decode_packed(c, VideoOp::AbsDiff, 2, false); };
  table["vabsdiff4"] = [](Decode& c) { decode_packed(c, VideoOp::AbsDiff, 4, false); };
  table["vmin2"] = [](Decode& c) { decode_packed(c, VideoOp::Min, 2, false); };
  table["vmin4"] = [](Decode& c) { decode_packed(c, VideoOp::Min, 4, false); };
  table["vmax2"] = [](Decode& c) { decode_packed(c, VideoOp::Max, 2, false); };
  table["vmax4"] = [](Decode& c) { decode_packed(c, VideoOp::Max, 4, false); };
  table["vset2"] = [](Decode& c) { decode_packed(c, VideoOp::Eq, 2, true); };
  table["vset4"] = [](Decode& c) { decode_packed(c, VideoOp::Eq, 4, true); };
}

}  // namespace corrloom::sim::exec
