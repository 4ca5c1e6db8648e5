#include "one_instruction.h"

/// Divergence, collectives, barriers, atomics, memory spaces: written in PTX, one subject each.
namespace corrloom::sim {
namespace {

/// Loads the lane's number into %t and both parameters; what follows may use %o = out + 4 * tid.
const std::string kPrologue =
    ".reg .b64 %in, %out, %o; .reg .b32 %t, %x, %y, %z, %w; .reg .pred %p, %q; .reg .f32 %f, %g;\n"
    "mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mad.wide.u32 %o, %t, 4, %out;\n";

std::vector<uint32_t> run(const std::string& body, uint32_t threads, Simulator& sim, LaunchResult* result = nullptr,
                          Dim3 grid = {}) {
  sim.load(kernel_text(kPrologue + body));
  if (sim.module == nullptr) return {};
  const size_t count = threads * grid.count();
  const DeviceAddress out = sim.upload(std::vector<uint32_t>(count, 0xDEADBEEF)),
                      in = sim.upload(std::vector<uint32_t>(1024, 0));
  const LaunchResult launched = sim.launch("k", grid, {threads}, out, in);
  if (result != nullptr) {
    *result = launched;
  } else {
    EXPECT_TRUE(clean(launched)) << body;
  }
  return sim.download<uint32_t>(out, count);
}

std::vector<uint32_t> run(const std::string& body, uint32_t threads = 32) {
  Simulator sim;
  return run(body, threads, sim);
}

const std::string kStore = "st.global.u32 [%o], %x;";

TEST(Warp, NestedBranchesReconverge) {
  const auto y = run(
      "mov.u32 %x, 0; setp.lt.u32 %p, %t, 16; @%p bra A; setp.lt.u32 %p, %t, 24; @%p bra B; add.u32 %x, %x, 1; bra C;\n"
      "B: add.u32 %x, %x, 2; C: add.u32 %x, %x, 10; bra D; A: add.u32 %x, %x, 100; D: activemask.b32 %y; add.u32 %x, "
      "%x, 1000;\n"
      "setp.ne.u32 %p, %y, 0xffffffff; @%p mov.u32 %x, 0;" +
      kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i < 16 ? 1100u : i < 24 ? 1012u : 1011u) << i;
}

TEST(Warp, LoopsWithTripCountsOfTheirOwn) {
  const auto y =
      run("mov.u32 %x, 0; mov.u32 %y, 0; L: setp.ge.u32 %p, %y, %t; @%p bra E; add.u32 %x, %x, %y; add.u32 %y, %y, 1; "
          "bra L;\n"
          "E: activemask.b32 %z; setp.ne.u32 %p, %z, 0xffffffff; @%p mov.u32 %x, 99999;" +
          kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i * (i - 1) / 2) << i;
}

TEST(Warp, EarlyExitLeavesTheOthers) {
  const auto y = run("setp.lt.u32 %p, %t, 5; @%p exit; bar.sync 0; activemask.b32 %x;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i < 5 ? 0xDEADBEEF : 0xFFFFFFE0) << i;
}

TEST(Warp, PredicatedInstructionsTouchTheirLanesOnly) {
  const auto y = run("mov.u32 %x, 1; setp.eq.u32 %p, %t, 3; @%p mov.u32 %x, 2; @!%p add.u32 %x, %x, 10;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i == 3 ? 2u : 11u) << i;
}

TEST(Warp, LanesSpinOnEachOther) {
  // Lane 0 waits for a flag that lane 1 sets after the point where both meet.
  const auto y =
      run(".shared .u32 flag; setp.ne.u32 %p, %t, 0; @%p bra J; st.volatile.shared.u32 [flag], 0; W: "
          "ld.volatile.shared.u32 %x, [flag]; setp.eq.u32 %q, %x, 0; @%q bra W;\n"
          "J: setp.ne.u32 %p, %t, 1; @%p bra E; mov.u32 %y, 7; st.volatile.shared.u32 [flag], %y; E: mov.u32 %x, 5;" +
          kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 5u);
}

TEST(Warp, ShuffleModes) {
  auto y = run("shfl.sync.up.b32 %x|%p, %t, 1, 0, -1; @!%p add.u32 %x, %x, 100;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i == 0 ? 100u : i - 1);
  y = run("shfl.sync.down.b32 %x|%p, %t, 2, 31, -1; @!%p add.u32 %x, %x, 100;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i >= 30 ? 100 + i : i + 2);
  y = run("shfl.sync.bfly.b32 %x, %t, 5, 31, -1;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i ^ 5);
  y = run("shfl.sync.idx.b32 %x, %t, 3, 31, -1;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 3u);
  // Segments of eight lanes: mask 0x18 in bits 8-12.
  y = run("shfl.sync.idx.b32 %x, %t, 2, 0x181f, -1;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], (i & 24) + 2);
  y = run("shfl.sync.down.b32 %x|%p, %t, 1, 0x181f, -1;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i % 8 == 7 ? i : i + 1);
  y = run("shfl.sync.up.b32 %x|%p, %t, 1, 0x1800, -1;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i % 8 == 0 ? i : i - 1);
}

TEST(Warp, CollectivesOfHalvesOfAWarp) {
  // Each half names itself; both execute the same instruction at once.
  const auto y =
      run("setp.lt.u32 %p, %t, 16; selp.u32 %y, 0xffff, 0xffff0000, %p; and.b32 %z, %t, 1; setp.eq.u32 %q, %z, 1; "
          "vote.sync.ballot.b32 %x, %q, %y;" +
          kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i < 16 ? 0xAAAAu : 0xAAAA0000u);
}

TEST(Warp, CollectivesWaitForDivergedLanes) {
  // The odd lanes arrive at the vote by a longer way.
  const auto y =
      run("and.b32 %z, %t, 1; setp.eq.u32 %q, %z, 0; @%q bra V; mul.lo.u32 %w, %t, %t; add.u32 %w, %w, 1; bra V; V: "
          "vote.sync.ballot.b32 %x, %q, -1;" +
          kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 0x55555555u);
}

TEST(Warp, VoteMatchRedux) {
  auto y = run("setp.lt.u32 %p, %t, 32; vote.sync.all.pred %q, %p, -1; selp.u32 %x, 1, 0, %q;" + kStore);
  EXPECT_EQ(y[7], 1u);
  y = run("setp.lt.u32 %p, %t, 1; vote.sync.uni.pred %q, %p, -1; selp.u32 %x, 1, 0, %q;" + kStore);
  EXPECT_EQ(y[7], 0u);
  y = run("and.b32 %y, %t, 3; match.any.sync.b32 %x, %y, -1;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 0x11111111u << (i & 3));
  y = run("mov.u32 %y, 4; match.all.sync.b32 %x|%p, %y, -1;" + kStore);
  EXPECT_EQ(y[9], 0xFFFFFFFFu);
  y = run("sub.u32 %y, %t, 5; redux.sync.min.s32 %x, %y, -1;" + kStore);
  EXPECT_EQ(y[9], 0xFFFFFFFBu);
  y = run("redux.sync.add.u32 %x, %t, -1;" + kStore);
  EXPECT_EQ(y[9], 496u);
  y = run("elect.sync %y|%p, -1; selp.u32 %x, 1, 0, %p;" + kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i == 0 ? 1u : 0u);
}

TEST(Warp, WarpBarrierAtDifferentInstructions) {
  const auto y =
      run(".shared .u32 v[32]; .reg .b32 %s, %a; mov.u32 %s, v; shl.b32 %a, %t, 2; add.u32 %s, %s, %a; setp.lt.u32 %p, "
          "%t, 16; @%p bra A;\n"
          "st.shared.u32 [%s], %t; bar.warp.sync -1; ld.shared.u32 %x, [%s+-64]; bra E; A: st.shared.u32 [%s], %t; "
          "bar.warp.sync -1; ld.shared.u32 %x, [%s+64]; E:" +
          kStore);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], i ^ 16);
}

TEST(Block, LanesThatArriveEarlyWaitForTheRest) {
  // Lanes below 16 loop so long that the others of their warp get a turn and reach the barrier alone. The other warp
  // loops longer still and stores what all must see after the barrier.
  const auto y = run(
      ".shared .u32 v; setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [v], 1; bar.sync 0; mov.u32 %z, 60000; setp.ge.u32 %p, "
      "%t, 32; @%p mov.u32 %z, 150000; and.b32 %y, %t, 31; setp.ge.u32 %p, %y, 16; @%p bra B; mov.u32 %y, 0;\n"
      "L: add.u32 %y, %y, 1; setp.lt.u32 %q, %y, %z; @%q bra L; setp.eq.u32 %q, %t, 32; @%q st.shared.u32 [v], %y;\n"
      "B: bar.sync 0; ld.shared.u32 %x, [v];" +
          kStore,
      64);
  for (const uint32_t value : y) EXPECT_EQ(value, 150000u);
}

TEST(Block, BarrierReductions) {
  auto y = run("and.b32 %y, %t, 3; setp.eq.u32 %p, %y, 0; bar.red.popc.u32 %x, 0, %p;" + kStore, 96);
  for (const uint32_t value : y) EXPECT_EQ(value, 24u);
  y = run("setp.lt.u32 %p, %t, 95; bar.red.and.pred %q, 1, %p; selp.u32 %x, 1, 2, %q;" + kStore, 96);
  for (const uint32_t value : y) EXPECT_EQ(value, 2u);
  y = run("setp.gt.u32 %p, %t, 94; bar.red.or.pred %q, 1, 96, %p; selp.u32 %x, 1, 2, %q;" + kStore, 96);
  for (const uint32_t value : y) EXPECT_EQ(value, 1u);
}

TEST(Block, NamedBarriersSeparateProducersAndConsumers) {
  // Warp 1 produces and only arrives, warp 0 waits; warps 2 and 3 use another barrier.
  const auto y =
      run(".shared .u32 v[32]; .reg .b32 %s, %a; and.b32 %a, %t, 31; shl.b32 %a, %a, 2; mov.u32 %s, v; add.u32 %s, %s, "
          "%a; mov.u32 %x, 0; shr.u32 %w, %t, 5;\n"
          "setp.eq.u32 %p, %w, 1; @%p bra P; setp.eq.u32 %p, %w, 0; @%p bra C; bar.sync 2, 64; bra E; P: mul.lo.u32 "
          "%y, %t, 3; st.shared.u32 [%s], %y; bar.arrive 1, 64; bra E;\n"
          "C: bar.sync 1, 64; ld.shared.u32 %x, [%s]; E:" +
              kStore,
          128);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], (i + 32) * 3);
}

TEST(Block, DivergentWarpsMayUseUnalignedBarriers) {
  const auto y =
      run("and.b32 %y, %t, 1; setp.eq.u32 %p, %y, 0; @%p bra A; barrier.sync 0; mov.u32 %x, 1; bra E; A: barrier.sync "
          "0; mov.u32 %x, 2; E:" +
              kStore,
          64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i % 2 ? 1u : 2u);
}

TEST(Block, LocalMemoryIsPerThread) {
  const auto y =
      run(".local .align 8 .b8 depot[16]; .reg .b64 %l, %gl; mov.u64 %l, depot; cvta.local.u64 %gl, %l; st.local.u32 "
          "[%l+4], %t; st.u32 [%gl+8], 7; bar.sync 0;\n"
          "ld.u32 %x, [%gl+4]; ld.local.u32 %y, [depot+8]; add.u32 %x, %x, %y;" +
              kStore,
          64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i + 7);
}

TEST(Block, GenericAddressesReachEverySpace) {
  const auto y =
      run(".shared .align 8 .u32 s[64]; .reg .b64 %a, %b; .reg .pred %r; mov.u64 %a, s; cvta.shared.u64 %a, %a; "
          "mul.wide.u32 %b, %t, 4; add.u64 %b, %b, %a;\n"
          "st.u32 [%b], %t; bar.sync 0; isspacep.shared %p, %b; isspacep.global %q, %b; isspacep.global %r, %out; "
          "cvta.to.shared.u64 %b, %b; ld.shared.u32 %x, [%b];\n"
          "@!%p add.u32 %x, %x, 1000; @%q add.u32 %x, %x, 2000; @!%r add.u32 %x, %x, 4000;" +
              kStore,
          64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i);
}

TEST(Memory, VectorsAndNarrowTypes) {
  Simulator sim;
  sim.load(kernel_text(kPrologue +
                       ".reg .b16 %h; .reg .b64 %l; ld.global.v4.u32 {%x, %y, %z, %w}, [%in]; st.global.v2.u32 [%out], "
                       "{%w, %x}; ld.global.s8 %x, [%in+1]; st.global.u32 [%out+8], %x;\n"
                       "ld.global.u8 %h, [%in+1]; cvt.u32.u16 %x, %h; st.global.u32 [%out+12], %x; ld.global.s16 %l, "
                       "[%in]; st.global.b64 [%out+16], %l; st.global.u8 [%out+24], %w;"));
  const DeviceAddress in = sim.upload(std::vector<uint32_t>{0x8001F182, 2, 3, 0x44556677}),
                      out = sim.upload(std::vector<uint32_t>(8, 0));
  ASSERT_TRUE(clean(sim.launch("k", {1}, {1}, out, in)));
  EXPECT_EQ(sim.download<uint32_t>(out, 8),
            (std::vector<uint32_t>{0x44556677, 0x8001F182, 0xFFFFFFF1, 0xF1, 0xFFFFF182, 0xFFFFFFFF, 0x77, 0}));
}

TEST(Memory, ConstantAndInitialisedGlobals) {
  Simulator sim;
  sim.load(
      ".version 8.0\n.target sm_80\n.address_size 64\n.const .align 4 .b32 table[4] = {1, 0x10, -1, 7};\n.global "
      ".align 8 .u64 p[2] = {v+4, generic(v)};\n.visible .global .f32 v[3] = {1.5, 0f40000000, -2.0};\n"
      ".visible .entry k(.param .u64 out, .param .u64 in) { .reg .b64 %o, %a; .reg .b32 %x; .reg .f32 %f; ld.param.u64 "
      "%o, [out]; ld.const.b32 %x, [table+8]; st.global.b32 [%o], %x;\n"
      "ld.global.u64 %a, [p]; ld.global.f32 %f, [%a]; st.global.f32 [%o+4], %f; ld.global.u64 %a, [p+8]; ld.f32 %f, "
      "[%a+8]; st.global.f32 [%o+8], %f; mov.u64 %a, table; cvta.const.u64 %a, %a; ld.b32 %x, [%a+4]; st.global.b32 "
      "[%o+12], %x; ret; }\n");
  const DeviceAddress out = sim.memory.allocate(16), in = 0;
  ASSERT_TRUE(clean(sim.launch("k", {1}, {1}, out, in)));
  EXPECT_EQ(sim.download<uint32_t>(out, 4), (std::vector<uint32_t>{0xFFFFFFFF, 0x40000000, 0xC0000000, 0x10}));
  EXPECT_EQ(sim.module->find_global("v")->bytes, 12u);
}

TEST(Memory, Atomics) {
  const auto one = [](const std::string& instruction, uint32_t initial, uint32_t expected_last) {
    Simulator sim;
    sim.load(kernel_text(kPrologue + instruction + " st.global.u32 [%o], %x;"));
    const DeviceAddress cell = sim.upload(std::vector<uint32_t>{initial, 0}),
                        out = sim.upload(std::vector<uint32_t>(32, 0));
    ASSERT_TRUE(clean(sim.launch("k", {1}, {32}, out, cell))) << instruction;
    EXPECT_EQ(sim.download<uint32_t>(cell, 1)[0], expected_last) << instruction;
  };
  one("atom.global.add.u32 %x, [%in], %t;", 5, 501);
  one("atom.global.min.s32 %x, [%in], %t;", uint32_t(-3), uint32_t(-3));
  one("atom.global.max.u32 %x, [%in], %t;", 9, 31);
  one("atom.global.and.b32 %x, [%in], %t;", 0xFF, 0);
  one("atom.global.or.b32 %x, [%in], %t;", 0, 31);
  one("atom.global.xor.b32 %x, [%in], %t;", 0, 0);
  one("atom.global.exch.b32 %x, [%in], %t;", 7, 31);
  one("mov.u32 %y, 20; atom.global.inc.u32 %x, [%in], %y;", 0, 11);  // 32 steps around 0..20
  one("mov.u32 %y, 20; atom.global.dec.u32 %x, [%in], %y;", 5, 15);
  one("add.u32 %y, %t, 1; atom.global.cas.b32 %x, [%in], %t, %y;", 0, 32);
  one("cvt.rn.f32.u32 %f, %t; atom.global.add.f32 %g, [%in], %f; mov.b32 %x, %g;", 0, uint32_t(bits(496.0f)));
  one("{ .reg .b16 %h; mov.b16 %h, 0x3C00; atom.global.add.noftz.f16 %h, [%in], %h; } mov.u32 %x, 0;", 0, 0x5000);
  one("mov.u32 %x, 0x3C003C00; atom.global.add.noftz.f16x2 %x, [%in], %x;", 0, 0x50005000);
  one("red.global.add.u32 [%in], 2; mov.u32 %x, 0;", 0, 64);
  one("atom.acq_rel.gpu.global.add.u32 %x, [%in], 1;", 0, 32);
}

TEST(Memory, SixtyFourBitAndSharedAtomics) {
  const auto y = run(
      ".shared .align 8 .u64 c; .reg .b64 %a; setp.eq.u32 %p, %t, 0; @%p st.shared.u64 [c], 0; bar.sync 0; cvt.u64.u32 "
      "%a, %t; atom.shared.add.u64 %a, [c], %a; bar.sync 0; ld.shared.u64 %a, [c]; cvt.u32.u64 %x, %a;" +
          kStore,
      64);
  for (const uint32_t value : y) EXPECT_EQ(value, 2016u);
}

TEST(Memory, ClocksAdvance) {
  const auto y =
      run(".reg .b64 %c, %e; mov.u64 %c, %clock64; add.u32 %x, %t, 1; mov.u64 %e, %clock64; setp.gt.u64 %p, %e, %c; "
          "selp.u32 %x, 1, 0, %p; mov.u64 %c, %globaltimer; nanosleep.u32 10;" +
          kStore);
  EXPECT_EQ(y[0], 1u);
}

TEST(Launch, RefusesWhatADeviceRefuses) {
  Simulator sim;
  sim.load(
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) .reqntid 32 { ret; }\n.visible "
      ".entry big() { .shared .b8 s[40000]; .reg .b32 %r; mov.u32 %r, s; ret; }\n");
  const DeviceAddress a = 0;
  EXPECT_EQ(sim.launch("k", {1}, {64}, a).error, LaunchError::InvalidLaunch);
  EXPECT_EQ(sim.launch("k", {1, 65536}, {32}, a).error, LaunchError::InvalidLaunch);
  EXPECT_EQ(sim.launch("k", {0}, {32}, a).error, LaunchError::InvalidLaunch);
  EXPECT_TRUE(clean(sim.launch("k", {3}, {32}, a)));
  sim.dynamic_shared = 20000;
  EXPECT_EQ(sim.launch("big", {1}, {32}).error, LaunchError::InvalidLaunch);
  sim.max_dynamic_shared = 20000;
  EXPECT_TRUE(clean(sim.launch("big", {1}, {32})));
  sim.cluster = Dim3{3};
  EXPECT_EQ(sim.launch("big", {4}, {32}).error, LaunchError::InvalidCluster);
}

TEST(Launch, CountsWhatAProfilerCounts) {
  Simulator sim;
  sim.load(kernel_text(
      kPrologue +
      ".shared .f32 s[1024]; .reg .b32 %a; mov.u32 %a, s; mad.lo.u32 %a, %t, 128, %a; mov.b32 %f, 0f3F800000; "
      "st.shared.f32 [%a], %f; add.f32 %g, %f, %f; fma.rn.f32 %g, %g, %f, %f; st.global.f32 [%o], %g;\n"
      "and.b32 %y, %t, 1; setp.eq.u32 %p, %y, 0; @%p bra E; add.f32 %g, %g, %f; E:"));
  const DeviceAddress out = sim.memory.allocate(128), in = 0;
  const LaunchResult result = sim.launch("k", {1}, {32}, out, in);
  ASSERT_TRUE(clean(result));
  const Counters& c = result.counters;
  EXPECT_EQ(c.global_store_requests, 1u);
  EXPECT_EQ(c.global_store_sectors, 4u);
  EXPECT_EQ(c.global_store_bytes, 128u);
  EXPECT_EQ(c.shared_store_wavefronts, 32u);  // a stride of 32 words: one bank
  EXPECT_EQ(c.shared_bank_conflicts, 31u);
  EXPECT_EQ(c.fp32, 3u);
  EXPECT_EQ(c.flops_fp32, 32u * 3 + 16);
  EXPECT_EQ(c.divergent_branches, 1u);
  EXPECT_EQ(c.warps, 1u);
  EXPECT_NE(c.json().find("\"shared_bank_conflicts\": 31"), std::string::npos);
}

TEST(Launch, OtherSchedulesGiveTheSameAnswer) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Simulator sim;
    sim.options.schedule_seed = seed;
    const auto y =
        run("atom.global.add.u32 %x, [%in], 1; bar.sync 0; ld.volatile.global.u32 %x, [%in]; setp.ge.u32 %p, %x, 96; "
            "selp.u32 %x, 1, 0, %p;" +
                kStore,
            96, sim);
    for (const uint32_t value : y) EXPECT_EQ(value, 1u);
  }
}

}  // namespace
}  // namespace corrloom::sim
