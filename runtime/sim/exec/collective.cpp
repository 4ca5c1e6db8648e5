#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// shfl, vote, match, redux, activemask, elect. Source: PTX ISA, "Data Movement: shfl.sync" and "Parallel
/// Synchronization". The engine gathers the lanes of the membermask (Inst::list[0]) first; `mask` then holds exactly
/// one group.
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

void set_member_mask(Decode& c, size_t operand, std::vector<Slot> more = {}) {
  more.insert(more.begin(), c.reads(operand, Type::B32));
  c.decoder.set_list(c.inst, more);
  c.inst.flow = Flow::Collective;
  c.inst.klass = Class::ShuffleVote;
}

/// m0: 0 up, 1 down, 2 bfly, 3 idx. list[1]: the predicate, if any.
void shfl(Warp& warp, const Inst& inst, LaneMask mask) {
  uint32_t source[kLanes];
  std::memcpy(source, warp.at<uint32_t>(inst.a), sizeof(source));
  const uint32_t* amount = warp.at<uint32_t>(inst.b);
  const uint32_t* control = warp.at<uint32_t>(inst.c);
  uint32_t result[kLanes];
  LaneMask valid = 0;
  for_lanes(mask, [&](int lane) {
    const int b = int(amount[lane] & 31), clamp = int(control[lane] & 31), segment = int(control[lane] >> 8 & 31);
    const int high = (lane & segment) | (clamp & ~segment), low = lane & segment;
    int from = 0;
    bool in_range = false;
    switch (inst.m0) {
      case 0:
        from = lane - b, in_range = from >= high;
        break;
      case 1:
        from = lane + b, in_range = from <= high;
        break;
      case 2:
        from = lane ^ b, in_range = from <= high;
        break;
      default:
        from = low | (b & ~segment), in_range = from <= high;
        break;
    }
    if (!in_range) from = lane;
    if (!(mask >> from & 1) && warp.worker->launch.options.checks.shuffles) {
      warp.find(FindingKind::InactiveLane, inst, lane, 0, 0,
                "lane " + std::to_string(lane) + " reads from lane " + std::to_string(from) +
                    ", which does not take part in the shuffle");
    }
    result[lane] = source[from];
    valid |= LaneMask(in_range) << lane;
  });
  blend(warp.at<uint32_t>(inst.d), result, mask);
  if (inst.list_size > 1) set_predicate(warp, warp.program->slots[inst.list + 1], mask, valid);
}

void decode_shfl(Decode& c) {
  if (!c.mods.take("sync")) c.fail("shfl without .sync is not supported on sm_70 and later");
  c.require(60, 30);
  const int mode = c.mods.take_one({"up", "down", "bfly", "idx"});
  if (mode < 0) c.fail("missing mode of 'shfl'");
  if (c.mods.type() != Type::B32) c.fail("shfl works on .b32");
  c.expect_operands(5);
  c.inst.m0 = uint8_t(mode);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.b = c.reads(2, Type::B32);
  c.inst.c = c.reads(3, Type::B32);
  std::vector<Slot> more;
  if (c.operand(0).paired != -1) more.push_back(c.decoder.write_predicate_register(c.operand(0).paired, c.source.line));
  set_member_mask(c, 4, more);
  c.inst.follow = Follow::MovesFirst;
  c.inst.fn = shfl;
}

/// m0: 0 all, 1 any, 2 uni, 3 ballot
void vote(Warp& warp, const Inst& inst, LaneMask mask) {
  const LaneMask holds = warp.predicate(inst.a) & mask;
  if (inst.m0 == 3) {
    for_lanes(mask, [&](int lane) { warp.at<uint32_t>(inst.d)[lane] = holds; });
    return;
  }
  const bool result = inst.m0 == 0 ? holds == mask : inst.m0 == 1 ? holds != 0 : holds == 0 || holds == mask;
  set_predicate(warp, inst.d, mask, result ? kAllLanes : 0);
}

void decode_vote(Decode& c) {
  if (!c.mods.take("sync")) c.fail("vote without .sync is not supported on sm_70 and later");
  c.require(60, 30);
  const int mode = c.mods.take_one({"all", "any", "uni", "ballot"});
  if (mode < 0) c.fail("missing mode of 'vote'");
  const Type type = c.mods.type();
  if (type != (mode == 3 ? Type::B32 : Type::Pred)) c.fail("illegal type of 'vote'");
  c.expect_operands(3);
  c.inst.m0 = uint8_t(mode);
  c.inst.d = mode == 3 ? c.writes(0, Type::B32) : c.writes_predicate(0);
  c.inst.a = c.reads_predicate(1);
  set_member_mask(c, 2);
  if (mode == 3) c.inst.follow = Follow::Ballots;
  c.inst.fn = vote;
}

template <class T>
void match_any(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  uint32_t result[kLanes] = {};
  for_lanes(mask, [&](int lane) {
    for_lanes(mask, [&](int other) { result[lane] |= uint32_t(a[other] == a[lane]) << other; });
  });
  blend(warp.at<uint32_t>(inst.d), result, mask);
}

template <class T>
void match_all(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  const T first = a[std::countr_zero(mask)];
  bool same = true;
  for_lanes(mask, [&](int lane) { same &= a[lane] == first; });
  for_lanes(mask, [&](int lane) { warp.at<uint32_t>(inst.d)[lane] = same ? mask : 0; });
  if (inst.list_size > 1) set_predicate(warp, warp.program->slots[inst.list + 1], mask, same ? kAllLanes : 0);
}

void decode_match(Decode& c) {
  c.require(60, 70);
  const int mode = c.mods.take_one({"any", "all"});
  if (mode < 0 || !c.mods.take("sync")) c.fail("match needs .any or .all, and .sync");
  const Type type = c.mods.type();
  if (type != Type::B32 && type != Type::B64) c.fail("match works on .b32 and .b64");
  c.expect_operands(3);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, type);
  std::vector<Slot> more;
  if (c.operand(0).paired != -1) {
    if (mode == 0) c.fail("match.any has no predicate");
    more.push_back(c.decoder.write_predicate_register(c.operand(0).paired, c.source.line));
  }
  set_member_mask(c, 2, more);
  if (mode == 0) {
    c.inst.fn = type == Type::B32 ? match_any<uint32_t> : match_any<uint64_t>;
  } else {
    c.inst.fn = type == Type::B32 ? match_all<uint32_t> : match_all<uint64_t>;
  }
}

/// m0: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor
template <class T>
void redux(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  T result = a[std::countr_zero(mask)];
  for_lanes(mask & (mask - 1), [&](int lane) {
    switch (inst.m0) {
      case 0:
        result = T(uint32_t(result) + uint32_t(a[lane]));
        break;
      case 1:
        result = std::min(result, a[lane]);
        break;
      case 2:
        result = std::max(result, a[lane]);
        break;
      case 3:
        result = T(result & a[lane]);
        break;
      case 4:
        result = T(result | a[lane]);
        break;
      default:
        result = T(result ^ a[lane]);
        break;
    }
  });
  for_lanes(mask, [&](int lane) { warp.at<T>(inst.d)[lane] = result; });
}

/// redux.f32. m0: 1 min, 2 max; m1: .abs, m2: .NaN
void redux_float(Warp& warp, const Inst& inst, LaneMask mask) {
  const float* a = warp.at<float>(inst.a);
  float result = NAN;
  bool nan = false;
  for_lanes(mask, [&](int lane) {
    const float value = inst.m1 ? std::fabs(a[lane]) : a[lane];
    if (value != value) {
      nan = true;
    } else if (result != result ||
               (value == result ? std::signbit(value) == (inst.m0 == 1) : (value < result) == (inst.m0 == 1))) {
      result = value;
    }
  });
  if (result != result || (nan && inst.m2)) result = std::bit_cast<float>(0x7FFFFFFFu);
  for_lanes(mask, [&](int lane) { warp.at<float>(inst.d)[lane] = result; });
}

void decode_redux(Decode& c) {
  if (!c.mods.take("sync")) c.fail("redux needs .sync");
  const int op = c.mods.take_one({"add", "min", "max", "and", "or", "xor"});
  if (op < 0) c.fail("missing operation of 'redux'");
  c.inst.m0 = uint8_t(op);
  c.inst.m1 = c.mods.take("abs");
  c.inst.m2 = c.mods.take("NaN");
  const Type type = c.mods.type();
  c.expect_operands(3);
  if (type == Type::F32) {
    c.require(86, 100, true);
    if (op != 1 && op != 2) c.fail("redux.f32 has .min and .max only");
    c.inst.fn = redux_float;
  } else {
    c.require(70, 80);
    if (c.inst.m1 || c.inst.m2) c.fail(".abs and .NaN apply to .f32 only");
    if ((op >= 3) != (type == Type::B32) || ptx::type_bits(type) != 32) c.fail("illegal type of 'redux'");
    c.inst.fn = type == Type::S32 ? redux<int32_t> : redux<uint32_t>;
  }
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  set_member_mask(c, 2);
}

void activemask(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) { warp.at<uint32_t>(inst.d)[lane] = mask; });
}

void decode_activemask(Decode& c) {
  c.require(62, 30);
  if (c.mods.type() != Type::B32) c.fail("activemask works on .b32");
  c.expect_operands(1);
  c.inst.klass = Class::ShuffleVote;
  c.inst.d = c.writes(0, Type::B32);
  c.inst.fn = activemask;
}

/// elect.sync: the lowest lane of the mask leads. list[1]: the predicate.
void elect(Warp& warp, const Inst& inst, LaneMask mask) {
  const int leader = std::countr_zero(mask);
  if (inst.d != kNoSlot) {
    for_lanes(mask, [&](int lane) { warp.at<uint32_t>(inst.d)[lane] = uint32_t(leader); });
  }
  set_predicate(warp, warp.program->slots[inst.list + 1], mask, 1u << leader);
}

void decode_elect(Decode& c) {
  c.require(80, 90);
  if (!c.mods.take("sync")) c.fail("elect needs .sync");
  c.expect_operands(2);
  if (c.operand(0).paired == -1) c.fail("expected a predicate after '|'");
  c.inst.d = c.writes(0, Type::B32);
  set_member_mask(c, 1, {c.decoder.write_predicate_register(c.operand(0).paired, c.source.line)});
  c.inst.fn = elect;
}

}  // namespace

void register_collective(OpcodeTable& table) {
  table["shfl"] = decode_shfl;
  table["vote"] = decode_vote;
  table["match"] = decode_match;
  table["redux"] = decode_redux;
  table["activemask"] = decode_activemask;
  table["elect"] = decode_elect;
}

}  // namespace corrloom::sim::exec
