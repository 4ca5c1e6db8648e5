#include "runtime/sim/exec/undefined.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/sim/exec/lanes.h"

namespace corrloom::sim::exec {
namespace {

constexpr uint32_t kRegisterAlignment = 64;  ///< Decoder::temporary
constexpr uint32_t kWidest = 16 * kLanes;    ///< bytes of the widest register

bool in_frame(Slot slot) {
  return slot != kNoSlot && slot >> kSlotBaseShift == uint32_t(Base::Frame);
}

UndefinedState& state_of(Warp& warp) {
  if (warp.undefined == nullptr) warp.undefined = std::make_unique<UndefinedState>();
  return *warp.undefined;
}

/// The undefined bits of one register of a frame.
class Shadow {
 public:
  Shadow(Frame& frame, const Operand& operand) : Shadow(frame, operand.slot, operand.bytes) {}
  Shadow(Frame& frame, Slot slot, uint32_t bytes)
      : bits_(in_frame(slot) && frame.shadow.bits != nullptr ? frame.shadow.bits.get() + slot : nullptr),
        origin_(bits_ != nullptr ? &frame.shadow.origins[slot / kRegisterAlignment] : nullptr),
        bytes_(bytes) {}

  uint16_t origin() const { return origin_ == nullptr ? uint16_t(0) : *origin_; }
  std::byte* lane(int lane) { return bits_ + size_t(lane) * bytes_; }

  /// Lanes in which a bit is undefined.
  LaneMask lanes() const {
    if (origin() == 0) return 0;
    if (bytes_ == 0) return predicate();
    return lanes_where([&](int lane) {
      const std::byte* at = bits_ + size_t(lane) * bytes_;
      return std::any_of(at, at + bytes_, [](std::byte b) { return b != std::byte(0); });
    });
  }
  /// Makes the lanes of a mask wholly undefined, or defined.
  void set(LaneMask mask, bool undefined, uint16_t origin) {
    if (bits_ == nullptr || mask == 0 || (!undefined && *origin_ == 0)) return;
    if (bytes_ == 0) {
      LaneMask bits = predicate();
      bits = undefined ? bits | mask : bits & ~mask;
      std::memcpy(bits_, &bits, sizeof(bits));
    } else {
      for_lanes(mask, [&](int lane) { std::memset(bits_ + size_t(lane) * bytes_, undefined ? 0xFF : 0, bytes_); });
    }
    settle(undefined ? origin : *origin_);
  }
  /// Notes the origin, or that nothing is undefined any more.
  void settle(uint16_t origin) {
    if (bits_ == nullptr) return;
    *origin_ = origin;
    if (lanes() == 0) *origin_ = 0;
  }

 private:
  LaneMask predicate() const {
    LaneMask bits;
    std::memcpy(&bits, bits_, sizeof(bits));
    return bits;
  }

  std::byte* bits_;
  uint16_t* origin_;
  uint32_t bytes_;
};

void make_shadow(Frame& frame) {
  if (frame.shadow.bits != nullptr) return;
  const size_t bytes = frame.function->register_bytes + kRegisterAlignment;
  frame.shadow.bits = std::make_unique<std::byte[]>(bytes + kWidest);
  frame.shadow.origins.assign(bytes / kRegisterAlignment + 1, 0);
}

/// Where the zeros behind a frame's shadow begin.
Slot zero_slot(const Frame& frame) {
  return make_slot(Base::Frame, frame.function->register_bytes + kRegisterAlignment);
}

const Operand* operands_of(const Warp& warp, const Inst& inst) {
  return warp.program->operands.data() + inst.operands;
}

/// Reports that `inst` uses a value that came from `origin`.
void report_use(Warp& warp, const Inst& inst, int lane, uint16_t origin) {
  const UndefinedState::Origin& from = warp.undefined->origins[size_t(origin) - 1];
  const Inst& load = warp.program->code[size_t(from.pc)];
  std::string use = "used by thread " +
                    print(thread_coordinates(warp.block->launch->request.block, uint32_t(warp.index * kLanes + lane))) +
                    " at line " + std::to_string(inst.line);
  if (inst.text < warp.program->texts.size()) use += ": " + warp.program->texts[inst.text];
  warp.find(FindingKind::UninitialisedRead, load, lane, from.addresses[size_t(lane)], load.bytes,
            std::string("read of ") + (from.global ? "global" : "shared") + " memory that nothing has written",
            std::move(use));
}

/// Reports the lanes in which a register is undefined, and takes it for defined from now on.
void report_lanes(Warp& warp, const Inst& inst, Shadow& shadow, LaneMask mask) {
  const LaneMask undefined = shadow.lanes() & mask;
  for_lanes(undefined, [&](int lane) { report_use(warp, inst, lane, shadow.origin()); });
  shadow.set(undefined, false, 0);
}

bool is_pure(Follow follow) {
  return follow < Follow::SpreadsWide;
}

/// What follow_undefined works on.
struct Following {
  Warp& warp;
  const Inst& inst;
  LaneMask active;
  LaneMask unsure;  ///< lanes whose guard is undefined
  uint16_t origin;  ///< of the first operand that is not defined
  Frame& frame = *warp.frame;

  template <class F>
  void each(Operand::Role role, F&& f) {
    for (const Operand* o = operands_of(warp, inst); o->slot != kNoSlot; ++o) {
      if (o->role == role) f(*o);
    }
  }
  LaneMask undefined(Slot slot) {
    LaneMask lanes = 0;
    each(Operand::Role::Read, [&](const Operand& o) {
      if (o.slot == slot) lanes = Shadow(frame, o).lanes();
    });
    return lanes;
  }
  LaneMask any_undefined() {
    LaneMask lanes = 0;
    each(Operand::Role::Read, [&](const Operand& o) { lanes |= Shadow(frame, o).lanes(); });
    return lanes;
  }
  void set_results(LaneMask undefined) {
    each(Operand::Role::Write, [&](const Operand& o) {
      Shadow result(frame, o);
      result.set(active & ~undefined, false, 0);
      result.set(undefined, true, origin);
    });
  }
};

/// Puts the value of a register in the place of its undefined bits while an instruction runs on those.
class Borrowed {
 public:
  Borrowed(Following& f, Slot slot) {
    if (!in_frame(slot)) return;
    f.each(Operand::Role::Read, [&](const Operand& o) {
      if (o.slot == slot) bytes_ = o.bytes == 0 ? sizeof(LaneMask) : size_t(o.bytes) * kLanes;
    });
    at_ = f.frame.shadow.bits.get() + slot;
    std::memcpy(saved_, at_, bytes_);
    std::memcpy(at_, f.frame.registers + slot, bytes_);
  }
  ~Borrowed() {
    if (bytes_ != 0) std::memcpy(at_, saved_, bytes_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  std::byte* at_ = nullptr;
  size_t bytes_ = 0;
  std::byte saved_[kWidest];
};

/// Runs an instruction that moves bits on the undefined bits. The first `data` of its operands a and b are moved, the
/// others say how; with 0 everything it reads is moved.
void move_bits(Following& f, int data) {
  Warp& warp = f.warp;
  Inst inst = f.inst;
  LaneMask unsure = f.unsure;
  std::byte* const constants = warp.bases[size_t(Base::Constant)];
  std::byte* const specials = warp.bases[size_t(Base::Special)];
  std::byte* const registers = warp.bases[size_t(Base::Frame)];
  std::vector<std::byte> zeros;
  if (data == 0) {
    zeros.resize(std::max<size_t>(warp.program->constants.size(), warp.program->special_bytes) + kWidest);
    warp.bases[size_t(Base::Constant)] = warp.bases[size_t(Base::Special)] = zeros.data();
  } else {
    if (!in_frame(inst.a)) inst.a = zero_slot(f.frame);
    if (data == 2 && !in_frame(inst.b)) inst.b = zero_slot(f.frame);
    if (data == 1) unsure |= f.undefined(inst.b);
    unsure |= f.undefined(inst.c);
  }
  {
    // A register that is both data and control counts as control.
    const Borrowed second(f, data == 1 ? inst.b : kNoSlot), third(f, data == 0 ? kNoSlot : inst.c);
    warp.bases[size_t(Base::Frame)] = f.frame.shadow.bits.get();
    inst.fn(warp, inst, f.active);
  }
  warp.bases[size_t(Base::Frame)] = registers;
  warp.bases[size_t(Base::Constant)] = constants;
  warp.bases[size_t(Base::Special)] = specials;
  f.each(Operand::Role::Write, [&](const Operand& o) {
    Shadow result(f.frame, o);
    result.settle(f.origin);
    if (o.bytes == 0 && data != 0) result.set(f.active, false, 0);  // a flag that tells of the control operands
    result.set(unsure, true, f.origin);
  });
}

/// and, or: bits that the other operand decides are defined.
void follow_logic(Following& f, bool is_or) {
  const Inst& inst = f.inst;
  const Operand* d = nullptr;
  f.each(Operand::Role::Write, [&](const Operand& o) { d = &o; });
  const size_t bytes = d->bytes == 0 ? sizeof(LaneMask) : size_t(d->bytes) * kLanes;
  const auto* a = f.warp.at<uint8_t>(inst.a);
  const auto* b = f.warp.at<uint8_t>(inst.b);
  std::byte* const bits = f.frame.shadow.bits.get();
  const auto* ua = reinterpret_cast<uint8_t*>(bits + (in_frame(inst.a) ? inst.a : zero_slot(f.frame)));
  const auto* ub = reinterpret_cast<uint8_t*>(bits + (in_frame(inst.b) ? inst.b : zero_slot(f.frame)));
  uint8_t result[kWidest];
  const uint8_t flip = is_or ? 0xFF : 0;
  for (size_t i = 0; i < bytes; ++i) {
    result[i] = uint8_t((ua[i] & ub[i]) | (ua[i] & (b[i] ^ flip)) | (ub[i] & (a[i] ^ flip)));
  }
  std::byte* to = bits + inst.d;
  if (d->bytes == 0) {
    LaneMask before, after;
    std::memcpy(&before, to, sizeof(before));
    std::memcpy(&after, result, sizeof(after));
    after = (before & ~f.active) | (after & f.active);
    std::memcpy(to, &after, sizeof(after));
  } else {
    for_lanes(f.active,
              [&](int lane) { std::memcpy(to + size_t(lane) * d->bytes, result + size_t(lane) * d->bytes, d->bytes); });
  }
  Shadow shadow(f.frame, *d);
  shadow.settle(f.origin);
  shadow.set(f.unsure, true, f.origin);
}

/// A bit of the result, or with `pairs` a half of it, follows the operands' bits in the same place.
void follow_places(Following& f, bool pairs) {
  const Operand* d = nullptr;
  f.each(Operand::Role::Write, [&](const Operand& o) { d = &o; });
  if (d->bytes == 0) return f.set_results((f.any_undefined() & f.active) | f.unsure);
  const uint32_t half = 4u * d->bytes;
  const uint64_t upper = ~uint64_t{0} << half;
  Shadow result(f.frame, *d);
  for_lanes(f.active, [&](int lane) {
    uint64_t undefined = 0;
    f.each(Operand::Role::Read, [&](const Operand& o) {
      Shadow operand(f.frame, o);
      if (operand.origin() == 0) return;
      uint64_t bits = 0;
      std::memcpy(&bits, operand.lane(lane), o.bytes);
      undefined |= bits;
    });
    if (pairs) undefined = ((undefined & upper) != 0 ? upper : 0) | ((undefined & ~upper) != 0 ? ~upper : 0);
    std::memcpy(result.lane(lane), &undefined, d->bytes);
  });
  result.settle(f.origin);
  result.set(f.unsure, true, f.origin);
}

/// setp with .and or .or: the combined predicate may decide.
void follow_compare(Following& f, bool is_or) {
  const Inst& inst = f.inst;
  const LaneMask compared = f.undefined(inst.a) | f.undefined(inst.b), other = f.undefined(inst.c);
  const LaneMask decides = is_or ? f.warp.predicate(inst.c) : ~f.warp.predicate(inst.c);
  // What the comparison alone gives.
  Inst alone = inst;
  alone.c = kNoSlot;
  alone.m2 = 0;
  alone.list_size = 0;
  const LaneMask before = f.warp.predicate(inst.d);
  alone.fn(f.warp, alone, f.active);
  const LaneMask holds = f.warp.predicate(inst.d);
  f.warp.predicate(inst.d) = before;
  f.each(Operand::Role::Write, [&](const Operand& o) {
    const LaneMask settled = (o.slot == inst.d) == is_or ? holds : ~holds;  // the comparison decides
    const LaneMask undefined =
        ((compared & ~(decides & ~other)) | (other & ~(settled & ~compared)) | f.unsure) & (f.active | f.unsure);
    Shadow result(f.frame, o);
    result.set(f.active & ~undefined, false, 0);
    result.set(undefined, true, f.origin);
  });
}

void follow_ballot(Following& f) {
  const LaneMask undefined = f.undefined(f.inst.a) & f.active;
  f.each(Operand::Role::Write, [&](const Operand& o) {
    Shadow result(f.frame, o);
    for_lanes(f.active, [&](int lane) { std::memcpy(result.lane(lane), &undefined, sizeof(undefined)); });
    result.settle(f.origin);
  });
}

}  // namespace

void follow_undefined(Warp& warp, const Inst& inst, LaneMask mask, LaneMask active) {
  if (warp.frame->shadow.bits == nullptr) return;
  Following f{warp, inst, active, 0, 0};
  Shadow guard(f.frame, inst.guard, 0);
  if (guard.origin() != 0) {
    if (is_pure(inst.follow) && inst.flow == Flow::Next) {
      f.unsure = guard.lanes() & mask;
      f.origin = guard.origin();
    } else {
      report_lanes(warp, inst, guard, mask);
    }
  }
  f.each(Operand::Role::Address, [&](const Operand& o) {
    Shadow address(f.frame, o);
    report_lanes(warp, inst, address, active);
  });
  if (inst.follow == Follow::Loads || inst.follow == Follow::Stores) return;
  f.each(Operand::Role::Read, [&](const Operand& o) {
    if (f.origin == 0) f.origin = Shadow(f.frame, o).origin();
  });
  if (f.origin == 0) return f.set_results(0);
  switch (inst.follow) {
    case Follow::SpreadsBits:
    case Follow::SpreadsPairs:
      return follow_places(f, inst.follow == Follow::SpreadsPairs);
    case Follow::Moves:
      return move_bits(f, 0);
    case Follow::MovesFirst:
      return move_bits(f, 1);
    case Follow::MovesTwo:
      return move_bits(f, 2);
    case Follow::And:
    case Follow::Or:
      return follow_logic(f, inst.follow == Follow::Or);
    case Follow::Compares:
      return follow_compare(f, inst.m2 == 2);
    case Follow::Ballots:
      return follow_ballot(f);
    case Follow::SpreadsWide:
      return f.set_results(f.any_undefined() & active ? active : 0);
    case Follow::Spreads:
      return f.set_results((f.any_undefined() & active) | f.unsure);
    default:
      f.each(Operand::Role::Read, [&](const Operand& o) {
        Shadow used(f.frame, o);
        report_lanes(warp, inst, used, active);
      });
      f.set_results(0);
  }
}

void note_undefined(Warp& warp, int lane, uint64_t address, bool global, const uint8_t* shadow, uint32_t bytes,
                    uint8_t bit) {
  UndefinedState& state = state_of(warp);
  uint32_t found = 0;
  for (uint32_t i = 0; i < bytes; ++i) found |= uint32_t(!(shadow[i] & bit)) << i;
  if (found == 0) return;
  warp.holds_undefined = true;
  auto origin = std::ranges::find_if(
      state.origins, [&](const UndefinedState::Origin& o) { return o.pc == warp.pc && o.global == global; });
  if (origin == state.origins.end()) origin = state.origins.insert(origin, {warp.pc, global});
  origin->addresses[size_t(lane)] = address;
  state.found[size_t(lane)] = found;
  state.found_lanes |= 1u << lane;
  state.found_origin = uint16_t(origin - state.origins.begin() + 1);
}

void read_local(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  UndefinedState& state = state_of(warp);
  if (state.local == nullptr) return;
  std::byte* bits = state.local.get() + size_t(lane) * warp.local_stride + address;
  uint32_t found = 0;
  for (uint32_t i = 0; i < access.bytes; ++i) found |= uint32_t(bits[i] != std::byte(0)) << i;
  if (found == 0) return;
  if (access.defers) {
    state.found[size_t(lane)] = found;
    state.found_lanes |= 1u << lane;
    state.found_origin = state.local_origin;
  } else {
    report_use(warp, inst, lane, state.local_origin);
    std::memset(bits, 0, access.bytes);
  }
}

void define_loaded(Warp& warp, const Inst& inst, LaneMask mask) {
  UndefinedState& state = state_of(warp);
  const LaneMask found = std::exchange(state.found_lanes, 0) & mask;
  if (found != 0) make_shadow(*warp.frame);
  const uint32_t bytes = inst.bytes / inst.list_size;
  for (uint32_t i = 0; i < inst.list_size; ++i) {
    Shadow shadow(*warp.frame, warp.program->slots[inst.list + i], bytes);
    shadow.set(mask, false, 0);
    if (found == 0) continue;
    for_lanes(found, [&](int lane) {
      for (uint32_t b = 0; b < bytes; ++b) {
        if (state.found[size_t(lane)] >> (i * bytes + b) & 1) shadow.lane(lane)[b] = std::byte(0xFF);
      }
    });
    shadow.settle(state.found_origin);
  }
}

namespace {

/// Bytes of local memory become what `bits` says, or defined where it is null.
void mark_local(Warp& warp, int lane, uint64_t address, const std::byte* bits, uint32_t bytes, uint16_t origin) {
  UndefinedState& state = state_of(warp);
  if (state.local == nullptr) {
    if (bits == nullptr) return;
    state.local = std::make_unique<std::byte[]>(size_t(warp.local_stride) * kLanes);
  }
  std::byte* to = state.local.get() + size_t(lane) * warp.local_stride + address;
  if (bits == nullptr) {
    std::memset(to, 0, bytes);
  } else {
    std::memcpy(to, bits, bytes);
    state.local_origin = origin;
  }
}

/// One lane's store of undefined bits.
void store_bits(Warp& warp, const Inst& inst, int lane, const Located& at, const std::byte* bits, uint32_t bytes,
                uint16_t origin) {
  switch (at.space) {
    case Space::Local:
    case Space::Param:
      return mark_local(warp, lane, at.address, bits, bytes, origin);
    case Space::Shared:
    case Space::SharedCluster: {
      uint32_t offset = 0;
      Block& block = shared_owner(warp, inst, lane, at.address, offset);
      for (uint32_t i = 0; i < bytes; ++i) {
        // What is known of shared memory is known by bytes: one that is defined in part, as of bit-fields, counts as
        // written.
        if (bits[i] == std::byte(0xFF)) block.shared_state[offset + i] &= uint8_t(~Block::kWritten);
      }
      return;
    }
    default:
      report_use(warp, inst, lane, origin);
  }
}

}  // namespace

void store_undefined(Warp& warp, const Inst& inst, LaneMask mask, const uint64_t* addresses) {
  const uint32_t bytes = inst.bytes / inst.list_size;
  for (uint32_t i = 0; i < inst.list_size; ++i) {
    Shadow shadow(*warp.frame, warp.program->slots[inst.list + i], bytes);
    const LaneMask undefined = shadow.lanes();
    for_lanes(mask, [&](int lane) {
      const Located at = locate(inst.space, addresses[lane] + i * bytes);
      if (undefined >> lane & 1) {
        store_bits(warp, inst, lane, at, shadow.lane(lane), bytes, shadow.origin());
      } else if (at.space == Space::Local || at.space == Space::Param) {
        mark_local(warp, lane, at.address, nullptr, bytes, 0);
      }
    });
  }
}

void clear_local(Warp& warp, LaneMask mask, const Frame& frame) {
  const UndefinedState& state = state_of(warp);
  if (state.local == nullptr) return;
  for_lanes(mask, [&](int lane) {
    std::memset(state.local.get() + size_t(lane) * warp.local_stride + frame.local_base, 0,
                frame.function->local_bytes);
  });
}

void pass_undefined(Warp& warp, LaneMask mask, Frame& from, const Passed& source, Frame& to, const Passed& target) {
  const uint32_t bytes = std::min(source.bytes, target.bytes);
  Shadow sent(from, source.slot, source.bytes);
  if (sent.origin() != 0) make_shadow(to);
  Shadow received(to, target.slot, target.bytes);
  if (source.bytes == 0) {
    const LaneMask undefined = sent.lanes() & mask;
    received.set(mask & ~undefined, false, 0);
    return received.set(undefined, true, sent.origin());
  }
  UndefinedState& state = state_of(warp);
  const std::byte zeros[16] = {};
  uint16_t origin = sent.origin();
  for_lanes(mask, [&](int lane) {
    // A value in local memory may be larger than a register.
    for (uint32_t done = 0; done < bytes; done += sizeof(zeros)) {
      const uint32_t part = std::min<uint32_t>(bytes - done, sizeof(zeros));
      const std::byte* bits = zeros;
      if (source.slot != kNoSlot) {
        if (sent.origin() != 0) bits = sent.lane(lane) + done;
      } else if (state.local != nullptr) {
        bits = state.local.get() + size_t(lane) * warp.local_stride + from.local_base + source.offset + done;
        origin = state.local_origin;
      }
      const bool undefined = std::any_of(bits, bits + part, [](std::byte b) { return b != std::byte(0); });
      if (target.slot == kNoSlot) {
        mark_local(warp, lane, to.local_base + target.offset + done, undefined ? bits : nullptr, part, origin);
      } else if (undefined) {
        make_shadow(to);
        Shadow(to, target.slot, target.bytes).set(1u << lane, true, origin);
      } else {
        received.set(1u << lane, false, 0);
      }
    }
  });
}

}  // namespace corrloom::sim::exec
