#include <algorithm>
#include <cstdlib>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// Video instructions on whole registers: vadd ... and their packed forms vadd2 ..., vadd4 ... Selectors and masks on
/// operands are not supported. Source: PTX ISA, "Video Instructions", "SIMD Video Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

enum class VideoOp : uint8_t { Add, Sub, AbsDiff, Min, Max, Average, Shl, Shr };

// Inst::m0: VideoOp; m1: parts of a register (1, 2, 4); m2 bit 0 result signed, bit 1 a signed, bit 2 b signed, bit 3
// .sat, bit 4 shift amounts wrap; m3: second operation, 0 none, 1 add, 2 min, 3 max.

int64_t part_of(uint32_t word, int i, int bits, bool is_signed) {
  const auto field = uint32_t(uint64_t(word) >> (i * bits) & ((uint64_t(1) << bits) - 1));
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

void video(Warp& warp, const Inst& inst, LaneMask mask) {
  const int parts = inst.m1, bits = 32 / parts;
  const auto op = VideoOp(inst.m0);
  ternary<uint32_t, uint32_t, uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    int64_t sum = inst.m2 & 1 ? int64_t(int32_t(c)) : int64_t(c);
    for (int i = 0; i < parts; ++i) {
      int64_t value = combine(op, part_of(a, i, bits, inst.m2 & 2), part_of(b, i, bits, inst.m2 & 4), inst.m2 & 16);
      if (inst.m2 & 8) value = saturate(value, bits, inst.m2 & 1);
      sum += value;
      result |= uint32_t(uint64_t(value) & ((uint64_t(1) << bits) - 1)) << (i * bits);
    }
    if (inst.m3 == 0) return result;
    if (inst.m3 == 1) return uint32_t(sum);
    const bool is_signed = inst.m2 & 1;
    const bool less = is_signed ? int32_t(result) < int32_t(c) : result < c;
    return less == (inst.m3 == 2) ? result : c;
  });
}

void decode_video(Decode& c, VideoOp op, int parts) {
  const bool shift = op == VideoOp::Shl || op == VideoOp::Shr;
  const Type d = c.mods.type(), a = c.mods.type(), b = c.mods.type();
  for (const Type type : {d, a, b}) {
    if (type != Type::U32 && type != Type::S32) c.fail("video instructions work on .u32 and .s32");
  }
  c.inst.m0 = uint8_t(op);
  c.inst.m1 = uint8_t(parts);
  c.inst.m2 = uint8_t((d == Type::S32) | (a == Type::S32) << 1 | (b == Type::S32) << 2 | c.mods.take("sat") << 3);
  if (shift) {
    const int mode = c.mods.take_one({"clamp", "wrap"});
    if (mode < 0) c.fail("missing .clamp or .wrap");
    c.inst.m2 |= uint8_t(mode << 4);
  }
  c.inst.m3 = uint8_t(c.mods.take_one({"add", "min", "max"}) + 1);
  if (parts > 1 && c.inst.m3 > 1) c.fail("packed video instructions have .add only");
  const bool has_c = parts > 1 || c.inst.m3 != 0;
  c.expect_operands(has_c ? 4 : 3);
  c.inst.klass = Class::Integer;
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = has_c ? c.reads(3, Type::B32) : c.inst.b;
  c.inst.fn = video;
}

}  // namespace

void register_video(OpcodeTable& table) {
  table["vadd"] = [](Decode& c) { decode_video(c, VideoOp::Add, 1); };
  table["vsub"] = [](Decode& c) { decode_video(c, VideoOp::Sub, 1); };
  table["vabsdiff"] = [](Decode& c) { decode_video(c, VideoOp::AbsDiff, 1); };
  table["vmin"] = [](Decode& c) { decode_video(c, VideoOp::Min, 1); };
  table["vmax"] = [](Decode& c) { decode_video(c, VideoOp::Max, 1); };
  table["vshl"] = [](Decode& c) { decode_video(c, VideoOp::Shl, 1); };
  table["vshr"] = [](Decode& c) { decode_video(c, VideoOp::Shr, 1); };
  table["vadd2"] = [](Decode& c) { decode_video(c, VideoOp::Add, 2); };
  table["vadd4"] = [](Decode& c) { decode_video(c, VideoOp::Add, 4); };
  table["vsub2"] = [](Decode& c) { decode_video(c, VideoOp::Sub, 2); };
  table["vsub4"] = [](Decode& c) { decode_video(c, VideoOp::Sub, 4); };
  table["vavrg2"] = [](Decode& c) { decode_video(c, VideoOp::Average, 2); };
  table["vavrg4"] = [](Decode& c) { decode_video(c, VideoOp::Average, 4); };
  table["vabsdiff2"] = [](Decode& c) { decode_video(c, VideoOp::AbsDiff, 2); };
  table["vabsdiff4"] = [](Decode& c) { decode_video(c, VideoOp::AbsDiff, 4); };
  table["vmin2"] = [](Decode& c) { decode_video(c, VideoOp::Min, 2); };
  table["vmin4"] = [](Decode& c) { decode_video(c, VideoOp::Min, 4); };
  table["vmax2"] = [](Decode& c) { decode_video(c, VideoOp::Max, 2); };
  table["vmax4"] = [](Decode& c) { decode_video(c, VideoOp::Max, 4); };
}

}  // namespace corrloom::sim::exec
