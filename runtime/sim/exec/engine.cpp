#include "runtime/sim/exec/engine.h"

#include <algorithm>
#include <bit>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/calls.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/undefined.h"

/// The warp engine: independent threads, run in lockstep where they agree.
///
/// A warp is a set of splits, lanes at the same place. The split that is furthest behind in the code runs; splits that
/// meet merge. Code is laid out so that this reconverges at post-dominators (decode_layout.cpp). A split that keeps the
/// others waiting for long is set aside for a while, so that every thread makes progress, as sm_70 and later promise.
namespace corrloom::sim::exec {
namespace {

/// Instructions that splits ahead wait for those behind before they get a turn; less from turn to turn, as turns are a
/// sign of threads that wait for each other.
constexpr int64_t kPatience = 20000;
constexpr int64_t kLeastPatience = 200;
/// Length of such a turn.
constexpr int64_t kTurn = 2000;
constexpr int kMaxCallDepth = 2048;

/// Whether split a should run before split b: it is behind in the innermost function both are in.
bool is_behind(const Split& a, const Split& b) {
  if (a.frame == b.frame) return a.pc < b.pc;
  const Frame* fa = a.frame;
  const Frame* fb = b.frame;
  int pa = a.pc, pb = b.pc;
  const auto up = [](const Frame*& frame, int& pc) {
    pc = frame->return_pc - 1;
    frame = frame->caller;
  };
  while (fa->depth > fb->depth) up(fa, pa);
  while (fb->depth > fa->depth) up(fb, pb);
  while (fa != fb) {
    up(fa, pa);
    up(fb, pb);
  }
  return pa != pb ? pa < pb : a.frame->depth > b.frame->depth;
}

}  // namespace

Warp::Warp() = default;
Warp::~Warp() = default;

Frame* Warp::make_frame(const DecodedFunction& function, Frame* caller, uint32_t local_base) {
  std::unique_ptr<Frame> made;
  for (auto it = free_frames.begin(); it != free_frames.end(); ++it) {
    if ((*it)->capacity < function.register_bytes) continue;
    made = std::move(*it);
    free_frames.erase(it);
    break;
  }
  if (made == nullptr) {
    made = std::make_unique<Frame>();
    made->capacity = function.register_bytes;
    made->storage = std::make_unique<std::byte[]>(made->capacity + 64);
    const auto address = reinterpret_cast<uintptr_t>(made->storage.get());
    made->registers = made->storage.get() + (64 - address % 64) % 64;
  }
  made->shadow = {};
  made->function = &function;
  made->caller = caller;
  made->references = 1;
  made->depth = caller == nullptr ? 0 : caller->depth + 1;
  made->local_base = local_base;
  // The first register of every frame is the base of its local memory (Decoder::decode_function).
  auto* base = reinterpret_cast<uint32_t*>(made->registers);
  for (int lane = 0; lane < kLanes; ++lane) base[lane] = local_base;
  live_frames.push_back(std::move(made));
  return live_frames.back().get();
}

void Warp::drop_frame(Frame* released) {
  if (--released->references > 0) return;
  for (auto it = live_frames.begin(); it != live_frames.end(); ++it) {
    if (it->get() != released) continue;
    free_frames.push_back(std::move(*it));
    live_frames.erase(it);
    return;
  }
}

void Warp::find(FindingKind kind, const Inst& inst, int lane, DeviceAddress address, uint32_t bytes,
                std::string message, std::string other) {
  Finding finding;
  finding.kind = kind;
  finding.kernel = program->info.name;
  finding.ptx_line = inst.line;
  if (inst.text < program->texts.size()) finding.instruction = program->texts[inst.text];
  finding.block = block->index;
  finding.thread = thread_coordinates(block->launch->request.block, uint32_t(index * kLanes + lane));
  finding.address = address;
  finding.access_bytes = bytes;
  finding.message = std::move(message);
  finding.other = std::move(other);
  add_finding(*block->launch, std::move(finding), false);
}

void Warp::fault(LaunchError error, FindingKind kind, const Inst& inst, int lane, DeviceAddress address, uint32_t bytes,
                 std::string message) {
  find(kind, inst, lane, address, bytes, std::move(message));
  {
    const std::lock_guard lock(block->launch->mutex);
    // The fault that ends the kernel comes first.
    auto& findings = block->launch->findings;
    for (size_t i = findings.size(); i-- > 1;) {
      if (findings[i].kind == kind && findings[i].ptx_line == inst.line) {
        std::rotate(findings.begin(), findings.begin() + std::ptrdiff_t(i), findings.begin() + std::ptrdiff_t(i) + 1);
        break;
      }
    }
  }
  throw Fault{error};
}

// -- splits

void Warp::merge_splits() {
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].wait != Wait::Ready) continue;
    for (size_t j = i + 1; j < splits.size();) {
      if (splits[j].wait == Wait::Ready && splits[j].pc == splits[i].pc && splits[j].frame == splits[i].frame) {
        splits[i].mask |= splits[j].mask;
        splits[i].ran = std::max(splits[i].ran, splits[j].ran);
        splits[i].favoured |= splits[j].favoured;
        --splits[i].frame->references;
        splits.erase(splits.begin() + std::ptrdiff_t(j));
      } else {
        ++j;
      }
    }
  }
}

/// Chooses the split to run; false when none can.
bool Warp::pick() {
  if (splits.size() == 1) {
    current = 0;
    patience = kPatience;
    give_way = false;
    return splits[0].wait == Wait::Ready;
  }
  merge_splits();
  const size_t none = splits.size();
  size_t behind = none, favoured = none, starving = none;
  for (size_t i = 0; i < splits.size(); ++i) {
    Split& split = splits[i];
    if (split.wait != Wait::Ready) {
      split.ran = waited;  // it waits for others, not for a turn
      continue;
    }
    if (behind == none || is_behind(split, splits[behind])) behind = i;
    if (split.favoured && (favoured == none || is_behind(split, splits[favoured]))) favoured = i;
    if (starving == none || split.ran < splits[starving].ran) starving = i;
  }
  if (behind == none) return false;
  const bool turn_over = give_way || waited >= turn_end;
  if (turn_over && (give_way || waited - splits[starving].ran > patience)) {
    for (Split& split : splits) split.favoured = false;
    splits[starving].favoured = true;
    turn_end = waited + kTurn;
    patience = std::max(kLeastPatience, patience / 2);
    current = starving;
  } else {
    current = !turn_over && favoured != none ? favoured : behind;
  }
  give_way = false;
  return true;
}

/// Leaves only `staying` in the current split; the other lanes go on after the instruction.
void Warp::part_lanes(LaneMask staying) {
  const LaneMask leaving = splits[current].mask & ~staying;
  if (leaving == 0) return;
  Split other = splits[current];
  other.mask = leaving;
  other.pc = pc + 1;
  ++other.frame->references;
  splits[current].mask = staying;
  splits.push_back(other);
}

void Warp::park(Wait wait) {
  splits[current].pc = pc;
  splits[current].wait = wait;
}

/// Joins lanes that wait at this very instruction into the current split.
void Warp::absorb_waiting(Wait wait) {
  for (size_t i = 0; i < splits.size();) {
    Split& other = splits[i];
    if (i != current && other.wait == wait && other.pc == pc && other.frame == splits[current].frame) {
      splits[current].mask |= other.mask;
      --other.frame->references;
      splits.erase(splits.begin() + std::ptrdiff_t(i));
      if (i < current) --current;
    } else {
      ++i;
    }
  }
}

/// Lets waiting splits try again, after lanes they wait for have exited.
void Warp::retry_waiting() {
  for (Split& split : splits) {
    if (split.wait == Wait::Collective || split.wait == Wait::WholeWarp) split.wait = Wait::Ready;
  }
}

void Warp::remove_current() {
  Frame* released = splits[current].frame;
  splits.erase(splits.begin() + std::ptrdiff_t(current));
  while (released != nullptr) {
    Frame* caller = released->caller;
    const bool last = released->references == 1;
    drop_frame(released);
    if (!last) break;
    released = caller;
  }
  current = 0;
}

void Warp::exit_lanes(LaneMask lanes) {
  alive &= ~lanes;
  splits[current].mask &= ~lanes;
  splits[current].pc = pc + 1;
  if (splits[current].mask == 0) remove_current();
  retry_waiting();
  release_warp_barriers();
}

// -- collectives

/// Lanes that the guard of an instruction lets through.
LaneMask Warp::passing(const Inst& inst) {
  if (inst.guard == kNoSlot) return kAllLanes;
  return inst.guard_negated ? ~predicate(inst.guard) : predicate(inst.guard);
}

/// Arrives at an instruction that waits for the lanes of its membermask. Lanes with the same mask form a group;
/// complete groups execute, the others wait.
void Warp::arrive_collective(const Inst& inst, LaneMask active) {
  absorb_waiting(Wait::Collective);
  active |= splits[current].mask & passing(inst);
  const uint32_t* masks = inst.list_size != 0 ? at<uint32_t>(program->slots[inst.list]) : nullptr;
  LaneMask incomplete = 0;
  for (LaneMask left = active; left != 0;) {
    const int first = std::countr_zero(left);
    LaneMask members = masks == nullptr ? alive : masks[first];
    LaneMask group = 0;
    for_lanes(left, [&](int lane) {
      if (masks == nullptr || masks[lane] == members) group |= 1u << lane;
    });
    left &= ~group;
    if (const LaneMask strangers = group & ~members; strangers != 0) {
      if (worker->launch.options.checks.shuffles) {
        find(FindingKind::InvalidMask, inst, std::countr_zero(strangers), 0, 0,
             "the membermask " + hex(members) + " does not contain the executing lane " +
                 std::to_string(std::countr_zero(strangers)));
      }
      members |= group;
    }
    if ((members & alive & ~group) != 0) {
      incomplete |= group;
    } else {
      execute_group(inst, group);
    }
  }
  if (incomplete == 0) {
    splits[current].pc = pc + 1;
    return;
  }
  part_lanes(incomplete);
  park(Wait::Collective);
}

bool Warp::arrive_whole_warp(LaneMask active) {
  absorb_waiting(Wait::WholeWarp);
  if ((splits[current].mask & alive) == alive && active == splits[current].mask) return true;
  // Lanes the guard turned away go on; those absorbed passed the guard when they came.
  const LaneMask staying = active | (splits[current].mask & passing(program->code[size_t(pc)]));
  if (staying == alive) {
    part_lanes(staying);
    return true;
  }
  part_lanes(staying);
  park(Wait::WholeWarp);
  return false;
}

/// bar.warp.sync: lanes may arrive at different instructions.
bool Warp::arrive_warp_barrier(const Inst& inst, LaneMask active) {
  const uint32_t* masks = at<uint32_t>(program->slots[inst.list]);
  bool complete = active == splits[current].mask;
  for_lanes(active, [&](int lane) {
    if (!(masks[lane] >> lane & 1) && worker->launch.options.checks.shuffles) {
      find(FindingKind::InvalidMask, inst, lane, 0, 0,
           "the membermask " + hex(masks[lane]) + " does not contain the executing lane " + std::to_string(lane));
    }
    if ((masks[lane] & alive & ~active) != 0) complete = false;
  });
  if (complete) {
    race_sync_lanes(*this);
    splits[current].pc = pc + 1;
    return true;
  }
  part_lanes(active);
  park(Wait::Collective);
  release_warp_barriers();
  return false;
}

/// Releases lanes parked at bar.warp.sync once all lanes of their masks are parked at one.
void Warp::release_warp_barriers() {
  LaneMask parked = 0;
  std::array<LaneMask, kLanes> wanted{};
  for (const Split& split : splits) {
    if (split.wait != Wait::Collective) continue;
    const Inst& inst = program->code[size_t(split.pc)];
    if (inst.flow != Flow::WarpBarrier) continue;
    bases[0] = split.frame->registers;
    const uint32_t* masks = at<uint32_t>(program->slots[inst.list]);
    for_lanes(split.mask, [&](int lane) { wanted[size_t(lane)] = masks[lane]; });
    parked |= split.mask;
  }
  LaneMask released = 0;
  for_lanes(parked, [&](int lane) {
    bool complete = true;
    for_lanes(wanted[size_t(lane)] & alive,
              [&](int other) { complete &= (parked >> other & 1) && wanted[size_t(other)] == wanted[size_t(lane)]; });
    if (complete) released |= 1u << lane;
  });
  if (released == 0) return;
  race_sync_lanes(*this);
  const size_t count = splits.size();
  for (size_t i = 0; i < count; ++i) {
    Split& split = splits[i];
    if (split.wait != Wait::Collective || program->code[size_t(split.pc)].flow != Flow::WarpBarrier) continue;
    const LaneMask going = split.mask & released;
    if (going == 0) continue;
    if (going != split.mask) {
      Split rest = split;
      rest.mask &= ~going;
      ++rest.frame->references;
      split.mask = going;
      split.wait = Wait::Ready;
      ++split.pc;
      splits.push_back(rest);
    } else {
      split.wait = Wait::Ready;
      ++split.pc;
    }
  }
}

/// Called when no split of the block can run. True when something was set free again.
bool Warp::diagnose_stuck() {
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].wait != Wait::WholeWarp) continue;
    const Inst& inst = program->code[size_t(splits[i].pc)];
    const int lane = std::countr_zero(splits[i].mask);
    const std::string where = "lanes " + hex(splits[i].mask) + " of " + hex(alive) +
                              " reached an aligned instruction; the others wait elsewhere";
    current = i;
    pc = splits[i].pc;
    bases[0] = splits[i].frame->registers;
    frame = splits[i].frame;
    if (inst.flow == Flow::BlockBarrier) {
      // Threads of a divergent warp arrive one by one on the hardware; report it and go on like that.
      if (worker->launch.options.checks.barriers) find(FindingKind::DivergentBarrier, inst, lane, 0, 0, where);
      splits[i].wait = Wait::Ready;
      block_barrier(inst, splits[i].mask);
      return true;
    }
    fault(LaunchError::IllegalInstruction, FindingKind::DivergentBarrier, inst, lane, 0, 0, where);
  }
  return false;
}

// -- control flow

void Warp::branch(const Inst& inst, LaneMask active) {
  Split other = splits[current];
  other.mask = active;
  other.pc = inst.target;
  ++other.frame->references;
  splits[current].mask &= ~active;
  splits[current].pc = pc + 1;
  splits.push_back(other);
}

void Warp::branch_indexed(const Inst& inst, LaneMask active) {
  const uint32_t* index = at<uint32_t>(inst.a);
  const int* table = program->branch_tables.data() + inst.imm;
  part_lanes(active);
  bool first = true;
  Split base = splits[current];
  for (LaneMask left = active; left != 0;) {
    const int lane = std::countr_zero(left);
    if (index[lane] >= inst.list_size) {
      fault(LaunchError::InvalidPc, FindingKind::InvalidPc, inst, lane, 0, 0,
            "branch index " + std::to_string(index[lane]) + " of a table of " + std::to_string(inst.list_size));
    }
    const int target = table[index[lane]];
    LaneMask group = 0;
    for_lanes(left, [&](int other) {
      if (index[other] < inst.list_size && table[index[other]] == target) group |= 1u << other;
    });
    left &= ~group;
    base.mask = group;
    base.pc = target;
    if (first) {
      splits[current] = base;
      first = false;
    } else {
      ++base.frame->references;
      splits.push_back(base);
      ++worker->counters.divergent_branches;
    }
  }
}

namespace {

/// Copies one passed value between two frames of a warp.
void copy_passed(Warp& warp, LaneMask mask, Frame& from, const Passed& source, Frame& to, const Passed& target) {
  if (warp.holds_undefined) pass_undefined(warp, mask, from, source, to, target);
  const uint32_t bytes = std::min(source.bytes, target.bytes);
  const auto in = [](Frame& frame, Warp& w, Slot slot) {
    return slot >> kSlotBaseShift == uint32_t(Base::Frame) ? frame.registers + (slot & kSlotOffsetMask)
                                                           : w.bases[slot >> kSlotBaseShift] + (slot & kSlotOffsetMask);
  };
  if (source.bytes == 0 && source.slot != kNoSlot && target.slot != kNoSlot) {
    const LaneMask value = *reinterpret_cast<LaneMask*>(in(from, warp, source.slot));
    auto& predicate = *reinterpret_cast<LaneMask*>(in(to, warp, target.slot));
    predicate = (predicate & ~mask) | (value & mask);
    return;
  }
  for_lanes(mask, [&](int lane) {
    const std::byte* a = source.slot != kNoSlot
                             ? in(from, warp, source.slot) + size_t(lane) * source.bytes
                             : warp.local.get() + size_t(lane) * warp.local_stride + from.local_base + source.offset;
    std::byte* b = target.slot != kNoSlot
                       ? in(to, warp, target.slot) + size_t(lane) * target.bytes
                       : warp.local.get() + size_t(lane) * warp.local_stride + to.local_base + target.offset;
    std::memcpy(b, a, bytes);
  });
}

}  // namespace

void Warp::call(const Inst& inst, LaneMask active, int function) {
  const DecodedFunction& callee = program->functions[size_t(function)];
  const CallSite& site = program->calls[size_t(inst.target)];
  const uint32_t base = frame->local_base + frame->function->local_bytes;
  uint32_t top = local_stride;
  if (program->dynamic_stack) for_lanes(active, [&](int lane) { top = std::min(top, stack_top[size_t(lane)]); });
  if (frame->depth >= kMaxCallDepth || uint64_t(base) + callee.local_bytes > top) {
    fault(LaunchError::StackOverflow, FindingKind::StackOverflow, inst, std::countr_zero(active), 0, 0,
          "call of '" + callee.name + "' at depth " + std::to_string(frame->depth) + " exceeds the stack of " +
              std::to_string(local_stride) + " bytes");
  }
  part_lanes(active);
  Frame* made = make_frame(callee, frame, base);
  made->call_site = inst.target;
  made->return_pc = pc + 1;
  made->stack_top = stack_top;
  if (holds_undefined) clear_local(*this, active, *made);
  for (size_t i = 0; i < std::min(site.arguments.size(), callee.params.size()); ++i) {
    copy_passed(*this, active, *frame, site.arguments[i], *made, callee.params[i]);
  }
  if (callee.intrinsic >= 0) {
    run_intrinsic(*this, inst, active, callee, *made);
    for (size_t i = 0; i < std::min(site.results.size(), callee.returns.size()); ++i) {
      copy_passed(*this, active, *made, callee.returns[i], *frame, site.results[i]);
    }
    drop_frame(made);
    splits[current].pc = pc + 1;
    return;
  }
  splits[current].frame = made;
  splits[current].pc = callee.entry;
}

void Warp::call_indirect(const Inst& inst, LaneMask active) {
  part_lanes(active);
  const uint64_t* addresses = at<uint64_t>(inst.a);
  const int lane = std::countr_zero(active);
  const auto found = program->function_addresses.find(addresses[lane]);
  if (found == program->function_addresses.end() || found->second == 0) {
    fault(LaunchError::InvalidPc, FindingKind::InvalidPc, inst, lane, addresses[lane], 0,
          hex(addresses[lane]) + " is not the address of a function");
  }
  LaneMask group = 0;
  for_lanes(active, [&](int other) {
    if (addresses[other] == addresses[lane]) group |= 1u << other;
  });
  if (group != active) {  // the others come back to this instruction
    Split rest = splits[current];
    rest.mask = active & ~group;
    rest.pc = pc;
    ++rest.frame->references;
    splits[current].mask = group;
    splits.push_back(rest);
    ++worker->counters.divergent_branches;
  }
  call(inst, group, found->second);
}

/// ret: back to the caller, or out of the kernel.
void Warp::leave(LaneMask active) {
  Frame* left = frame;
  if (left->caller == nullptr) return exit_lanes(active);
  part_lanes(active);
  const CallSite& site = program->calls[size_t(left->call_site)];
  const DecodedFunction& callee = *left->function;
  for (size_t i = 0; i < std::min(site.results.size(), callee.returns.size()); ++i) {
    copy_passed(*this, active, *left, callee.returns[i], *left->caller, site.results[i]);
  }
  for_lanes(active, [&](int lane) { stack_top[size_t(lane)] = left->stack_top[size_t(lane)]; });
  Split& split = splits[current];
  split.frame = left->caller;
  split.pc = left->return_pc;
  // The caller's frame was kept alive by the callee's; each split that returns holds it itself.
  if (left->references > 1) ++left->caller->references;
  drop_frame(left);
}

// -- the loop

namespace {

void count_instruction(Worker& worker, const Inst& inst, LaneMask active) {
  const auto lanes = uint64_t(std::popcount(active));
  ++worker.by_class[size_t(inst.klass)];
  worker.counters.thread_instructions += lanes;
  if (inst.flops == 0) return;
  Counters& counters = worker.counters;
  (inst.klass == Class::Fp64   ? counters.flops_fp64
   : inst.klass == Class::Fp16 ? counters.flops_fp16
                               : counters.flops_fp32) += inst.flops * lanes;
}

}  // namespace

/// Executes what waits for others or changes what the splits are; `mask` holds the lanes of the split. True when the
/// split goes on behind the instruction as it is.
bool Warp::steer(const Inst& inst, LaneMask mask, LaneMask active) {
  switch (inst.flow) {
    case Flow::BranchIndexed:
      branch_indexed(inst, active);
      return false;
    case Flow::Call:
      call(inst, active, program->calls[size_t(inst.target)].function);
      return false;
    case Flow::CallIndirect:
      call_indirect(inst, active);
      return false;
    case Flow::Return:
      leave(active);
      return false;
    case Flow::Exit:
      exit_lanes(active);
      return false;
    case Flow::Collective:
      if (!everyone_is_here(inst, mask, active)) {
        arrive_collective(inst, active);
        return false;
      }
      execute_group(inst, active);
      return true;
    case Flow::WarpBarrier:
      arrive_warp_barrier(inst, active);
      return false;
    case Flow::BlockBarrier:
      if (inst.aligned && !arrive_whole_warp(active)) return false;
      // An aligned barrier has gathered lanes that came before; they arrive now as well.
      block_barrier(inst, inst.aligned ? splits[current].mask & passing(inst) : active);
      return false;
    case Flow::ClusterBarrier:
      if (inst.aligned && !arrive_whole_warp(active)) return false;
      cluster_barrier(inst, inst.aligned ? splits[current].mask & passing(inst) : active);
      return false;
    case Flow::Trap:
      fault(LaunchError::Trap, FindingKind::Trap, inst, std::countr_zero(active), 0, 0, "the kernel executed 'trap'");
    default:  // Yield
      inst.fn(*this, inst, active);
      splits[current].pc = pc + 1;
      yield_requested = true;
      return false;
  }
}

/// The usual case of a collective instruction: all living lanes execute it together and its membermask, a constant,
/// means them all.
bool Warp::everyone_is_here(const Inst& inst, LaneMask mask, LaneMask active) {
  if (active != mask || active != alive) return false;
  if (inst.list_size == 0) return true;
  const Slot members = program->slots[inst.list];
  return members >> kSlotBaseShift == uint32_t(Base::Constant) && (*at<uint32_t>(members) & alive) == alive;
}

/// Executes a collective instruction for lanes that are complete.
void Warp::execute_group(const Inst& inst, LaneMask group) {
  if (worker->launch.options.checks.races) race_sync_lanes(*this);
  if (holds_undefined) follow_undefined(*this, inst, group, group);
  inst.fn(*this, inst, group);
}

void Warp::execute(int64_t& budget) {
  Split& split = splits[current];
  const Inst* code = program->code.data();
  const bool several = splits.size() > 1;
  const bool counting = worker->count;
  frame = split.frame;
  bases[0] = frame->registers;
  pc = split.pc;
  const LaneMask mask = split.mask;
  split.ran = waited;
  bool first = true;
  for (;; first = false) {
    const Inst& inst = code[pc];
    // Others may be at a place where control arrives from elsewhere, or behind it.
    if ((several && inst.leader && !first) || budget <= 0) {
      split.pc = pc;
      return;
    }
    LaneMask active = mask;
    if (inst.guard != kNoSlot) {
      const LaneMask guard = predicate(inst.guard);
      active &= inst.guard_negated ? ~guard : guard;
    }
    if (inst.klass != Class::None) {
      --budget;
      ++issued;
      waited += several;
      if (counting) count_instruction(*worker, inst, active);
    }
    if (holds_undefined && inst.flow != Flow::Collective) follow_undefined(*this, inst, mask, active);
    switch (inst.flow) {
      case Flow::Next:
        if (active != 0) inst.fn(*this, inst, active);
        ++pc;
        continue;
      case Flow::Jump:
        pc = inst.target;
        continue;
      case Flow::Branch:
        ++worker->counters.branches;
        if (active == mask) {
          pc = inst.target;
          continue;
        }
        if (active == 0) {
          ++pc;
          continue;
        }
        ++worker->counters.divergent_branches;
        return branch(inst, active);
      default:
        break;
    }
    if (active != 0) {
      split.pc = pc;
      if (!steer(inst, mask, active)) return;
    }
    ++pc;
  }
}

Stop Warp::run(int64_t budget) {
  yield_requested = false;
  while (!splits.empty()) {
    if (budget <= 0 || yield_requested) return Stop::Budget;
    if (!pick()) return Stop::Blocked;
    execute(budget);
  }
  return Stop::Done;
}

}  // namespace corrloom::sim::exec
