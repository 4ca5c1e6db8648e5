#include "simulator.h"

/// Planted faults: each kernel that must trigger a finding has a twin that must not.
namespace corrloom::sim {
namespace {

const std::string kPrologue =
    ".reg .b64 %in, %out, %o, %i; .reg .b32 %t, %x, %y, %z, %s, %a; .reg .pred %p, %q;\n"
    ".shared .align 16 .b8 buf[512];\n"
    "mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mad.wide.u32 %o, %t, 4, %out; mad.wide.u32 "
    "%i, %t, 4, %in;\n"
    "mov.u32 %s, buf; shl.b32 %a, %t, 2; add.u32 %a, %a, %s;\n";

LaunchResult run(const std::string& body, uint32_t threads = 32, uint32_t blocks = 1, Simulator* given = nullptr) {
  Simulator own;
  Simulator& sim = given ? *given : own;
  sim.options.host_threads = 1;  // the kernels race on purpose; the simulator itself must not under TSan
  sim.load(kernel_text(kPrologue + body));
  const DeviceAddress out = sim.memory.allocate(threads * blocks * 4),
                      in = sim.upload(std::vector<uint32_t>(threads * blocks, 1));
  return sim.launch("k", {blocks}, {threads}, out, in);
}

void expect_finding(const LaunchResult& result, LaunchError error, FindingKind kind) {
  EXPECT_EQ(result.error, error) << result.report();
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, kind) << result.report();
  EXPECT_EQ(result.findings[0].kernel, "k");
  EXPECT_GT(result.findings[0].ptx_line, 0);
}

TEST(Sanitizer, GlobalBoundsAreByteExact) {
  EXPECT_TRUE(clean(run("ld.global.u32 %x, [%i]; st.global.u32 [%o], %x;")));
  const LaunchResult result = run("ld.global.u32 %x, [%i+4]; st.global.u32 [%o], %x;");
  expect_finding(result, LaunchError::IllegalAddress, FindingKind::OutOfBounds);
  EXPECT_EQ(result.findings[0].thread.x, 31u);
  EXPECT_NE(result.message.find("after the end of the allocation of 128 bytes"), std::string::npos) << result.message;
  expect_finding(run("st.global.u32 [%o+-4], %t;"), LaunchError::IllegalAddress, FindingKind::OutOfBounds);
  expect_finding(run("mov.u64 %o, 8; ld.global.u32 %x, [%o];"), LaunchError::IllegalAddress, FindingKind::OutOfBounds);
  expect_finding(run("ld.global.v4.u32 {%x, %y, %z, %x}, [%in+128];"), LaunchError::IllegalAddress,
                 FindingKind::OutOfBounds);
}

TEST(Sanitizer, UseAfterFree) {
  Simulator sim;
  const DeviceAddress out = sim.memory.allocate(128), in = sim.upload(std::vector<uint32_t>(32, 1));
  sim.load(kernel_text(kPrologue + "ld.global.u32 %x, [%i]; st.global.u32 [%o], %x;"));
  EXPECT_TRUE(clean(sim.launch("k", {1}, {32}, out, in)));
  ASSERT_TRUE(sim.memory.release(in));
  const LaunchResult result = sim.launch("k", {1}, {32}, out, in);
  expect_finding(result, LaunchError::IllegalAddress, FindingKind::UseAfterFree);
  EXPECT_FALSE(sim.memory.release(in));
}

TEST(Sanitizer, Misalignment) {
  expect_finding(run("ld.global.u32 %x, [%in+2];"), LaunchError::MisalignedAddress, FindingKind::Misaligned);
  expect_finding(run("ld.global.v2.u32 {%x, %y}, [%in+4];"), LaunchError::MisalignedAddress, FindingKind::Misaligned);
  EXPECT_TRUE(clean(run("ld.global.v2.u32 {%x, %y}, [%in+8];")));
  expect_finding(run("ld.shared.u32 %x, [buf+2];"), LaunchError::MisalignedAddress, FindingKind::Misaligned);
}

TEST(Sanitizer, SharedBounds) {
  EXPECT_TRUE(clean(run("st.shared.u32 [%a+384], %t;")));
  expect_finding(run("st.shared.u32 [%a+388], %t;"), LaunchError::IllegalAddress, FindingKind::SharedOutOfBounds);
}

TEST(Sanitizer, LocalBounds) {
  EXPECT_TRUE(clean(run(".local .b8 l[16]; st.local.u32 [l+12], %t;")));
  expect_finding(run(".local .b8 l[16]; .reg .b64 %l; mov.u64 %l, l; st.local.u32 [%l+16], %t;"),
                 LaunchError::IllegalAddress, FindingKind::LocalOutOfBounds);
}

TEST(Sanitizer, RaceBetweenWarps) {
  const std::string exchange = "ld.shared.u32 %x, [%z]; st.global.u32 [%o], %x;";
  const std::string neighbour = "xor.b32 %z, %t, 32; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; st.shared.u32 [%a], %t;";
  EXPECT_TRUE(clean(run(neighbour + "bar.sync 0;" + exchange, 64)));
  const LaunchResult result = run(neighbour + exchange, 64);
  EXPECT_EQ(result.error, LaunchError::Finding);
  bool race = false;
  for (const Finding& finding : result.findings) {
    race |= finding.kind == FindingKind::Race && finding.other.find("thread") != std::string::npos &&
            finding.other.find("line") != std::string::npos;
  }
  EXPECT_TRUE(race || result.findings[0].kind == FindingKind::UninitialisedRead) << result.report();
  // The other way round, a write after reads: a second phase without a barrier.
  const LaunchResult again = run(neighbour + "bar.sync 0;" + exchange + "st.shared.u32 [%a], %x;", 64);
  expect_finding(again, LaunchError::Finding, FindingKind::Race);
}

TEST(Sanitizer, RaceWithinAWarp) {
  const std::string neighbour = "xor.b32 %z, %t, 1; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; st.shared.u32 [%a], %t;";
  EXPECT_TRUE(clean(run(neighbour + "bar.warp.sync -1; ld.shared.u32 %x, [%z];")));
  expect_finding(run(neighbour + "ld.shared.u32 %x, [%z];"), LaunchError::Finding, FindingKind::Race);
  // Legacy warp-synchronous code says volatile.
  EXPECT_TRUE(
      clean(run("xor.b32 %z, %t, 1; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; st.volatile.shared.u32 [%a], %t; "
                "ld.volatile.shared.u32 %x, [%z];")));
}

TEST(Sanitizer, HalvesOfAWordDoNotRace) {
  EXPECT_TRUE(
      clean(run(".reg .b16 %h; cvt.u16.u32 %h, %t; shl.b32 %a, %t, 1; add.u32 %a, %a, %s; st.shared.u16 [%a], %h; "
                "bar.sync 0; ld.shared.u16 %h, [%a];",
                64)));
  EXPECT_TRUE(clean(run(
      ".reg .b16 %h; cvt.u16.u32 %h, %t; mad.wide.u32 %o, %t, 2, %out; st.global.u16 [%o], %h; ld.global.u16 %h, [%o];",
      64)));
}

TEST(Sanitizer, SameValueWritesAreHarmless) {
  EXPECT_TRUE(clean(run("mov.u32 %x, 1; st.global.u32 [%out], %x;", 64, 2)));
  expect_finding(run("st.global.u32 [%out], %t;", 64), LaunchError::Finding, FindingKind::Race);
}

TEST(Sanitizer, RaceBetweenBlocks) {
  EXPECT_TRUE(clean(
      run("mov.u32 %x, %ctaid.x; mad.lo.u32 %x, %x, 32, %t; mad.wide.u32 %o, %x, 4, %out; st.global.u32 [%o], %x;", 32,
          4)));
  const LaunchResult result = run("mov.u32 %x, %ctaid.x; st.global.u32 [%o], %x;", 32, 4);
  expect_finding(result, LaunchError::Finding, FindingKind::Race);
  EXPECT_NE(result.findings[0].other.find("block"), std::string::npos);
}

TEST(Sanitizer, LastBlockPatternIsOrderedByFenceAndAtomic) {
  // Every block writes a partial result, fences, counts; the last one reads them all.
  const std::string before =
      ".reg .b64 %c; .shared .u32 last; mov.u32 %x, %ctaid.x; mad.wide.u32 %o, %x, 4, %out; setp.ne.u32 %p, %t, 0; @%p "
      "bra W; st.global.u32 [%o], %x;";
  const std::string after =
      "atom.global.add.u32 %y, [%in], 1; st.shared.u32 [last], %y; W: bar.sync 0; ld.shared.u32 %y, [last]; "
      "setp.ne.u32 %q, %y, 4; @%q bra E; ld.global.u32 %z, [%i+0]; and.b32 %z, %t, 3; mad.wide.u32 %o, %z, 4, %out; "
      "ld.global.u32 %z, [%o]; E:";
  Simulator sim;
  sim.load(kernel_text(kPrologue + before + "membar.gl;" + after));
  const DeviceAddress out = sim.memory.allocate(16), in = sim.upload(std::vector<uint32_t>(32, 1));
  EXPECT_TRUE(clean(sim.launch("k", {4}, {32}, out, in)));
}

TEST(Sanitizer, UninitialisedReads) {
  expect_finding(run("ld.global.u32 %x, [%o];"), LaunchError::Finding, FindingKind::UninitialisedRead);
  EXPECT_TRUE(clean(run("st.global.u32 [%o], %t; ld.global.u32 %x, [%o];")));
  expect_finding(run("ld.shared.u32 %x, [%a];"), LaunchError::Finding, FindingKind::UninitialisedRead);
  EXPECT_TRUE(clean(run("st.shared.u32 [%a], %t; ld.shared.u32 %x, [%a];")));
}

TEST(Sanitizer, DivergentBarrier) {
  EXPECT_TRUE(clean(run("setp.lt.u32 %p, %t, 16; @%p bra A; mov.u32 %x, 1; A: bar.sync 0;", 64)));
  const LaunchResult result = run("setp.lt.u32 %p, %t, 16; @%p bra A; bar.sync 0; bra E; A: bar.sync 0; E:", 64);
  expect_finding(result, LaunchError::Finding, FindingKind::DivergentBarrier);
}

TEST(Sanitizer, BarrierThatSomeNeverReach) {
  // Warp 1 waits at barrier 1, warp 0 at barrier 0.
  const LaunchResult result = run("setp.lt.u32 %p, %t, 32; @%p bra A; bar.sync 1; bra E; A: bar.sync 0; E:", 64);
  expect_finding(result, LaunchError::Timeout, FindingKind::Deadlock);
  EXPECT_NE(result.message.find("warp 1"), std::string::npos);
  // Threads that have exited are not waited for.
  EXPECT_TRUE(clean(run("setp.lt.u32 %p, %t, 32; @%p exit; bar.sync 0;", 64)));
}

TEST(Sanitizer, BarrierMisuse) {
  expect_finding(run("mov.u32 %x, 16; bar.sync %x;"), LaunchError::IllegalInstruction, FindingKind::BarrierMisuse);
  expect_finding(run("mov.u32 %x, 33; bar.sync 0, %x;"), LaunchError::IllegalInstruction, FindingKind::BarrierMisuse);
}

TEST(Sanitizer, ShuffleMasks) {
  expect_finding(run("shfl.sync.idx.b32 %x, %t, 0, 31, 0xffff;"), LaunchError::Finding, FindingKind::InvalidMask);
  EXPECT_TRUE(clean(run("setp.ge.u32 %p, %t, 16; @%p bra E; shfl.sync.idx.b32 %x, %t, 0, 31, 0xffff; E:")));
  expect_finding(run("setp.ge.u32 %p, %t, 16; @%p bra E; shfl.sync.idx.b32 %x, %t, 20, 31, 0xffff; E:"),
                 LaunchError::Finding, FindingKind::InactiveLane);
  // The lanes that are named never come.
  expect_finding(
      run("setp.ge.u32 %p, %t, 16; @%p bra E; shfl.sync.idx.b32 %x, %t, 0, 31, -1; bra F; E: bar.sync 0; F:"),
      LaunchError::Timeout, FindingKind::Deadlock);
}

TEST(Sanitizer, WatchdogEndsEndlessLoops) {
  Simulator sim;
  sim.options.watchdog = std::chrono::milliseconds(100);
  expect_finding(run("L: bra L;", 32, 1, &sim), LaunchError::Timeout, FindingKind::Watchdog);
}

TEST(Sanitizer, TrapAndCancel) {
  expect_finding(run("setp.eq.u32 %p, %t, 9; @%p trap;"), LaunchError::Trap, FindingKind::Trap);
  Simulator sim;
  std::atomic<bool> cancel{true};
  sim.options.cancel = &cancel;
  EXPECT_EQ(run("L: bra L;", 32, 1, &sim).error, LaunchError::Timeout);
}

TEST(Sanitizer, StackOverflow) {
  Simulator sim;
  sim.load(
      ".version 8.0\n.target sm_80\n.address_size 64\n.func f(.param .b32 n) { .reg .b32 %r; .local .b8 big[1024]; "
      "ld.param.b32 %r, [n]; st.local.u32 [big], %r; { .param .b32 q; st.param.b32 [q], %r; call.uni f, (q); } ret; }\n"
      ".visible .entry k() { { .param .b32 q; st.param.b32 [q], 1; call.uni f, (q); } ret; }\n");
  expect_finding(sim.launch("k", {1}, {32}), LaunchError::StackOverflow, FindingKind::StackOverflow);
}

TEST(Sanitizer, SwitchedOffItStaysSilent) {
  Simulator sim;
  sim.options.checks = Checks::none();
  EXPECT_TRUE(clean(run("ld.shared.u32 %x, [%a]; st.global.u32 [%out], %t; ld.global.u32 %x, [%o];", 64, 1, &sim)));
  // What a device would not survive is reported all the same.
  EXPECT_EQ(run("mov.u64 %o, 8; ld.global.u32 %x, [%o];", 32, 1, &sim).error, LaunchError::IllegalAddress);
  EXPECT_EQ(Checks::parse("races,bounds")->races, true);
  EXPECT_EQ(Checks::parse("races,bounds")->barriers, false);
  EXPECT_FALSE(Checks::parse("rases").has_value());
}

TEST(Sanitizer, FindingsAreCountedNotRepeated) {
  const LaunchResult result = run("ld.shared.u32 %x, [%a];", 64);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].occurrences, 64u);
}

}  // namespace
}  // namespace corrloom::sim
