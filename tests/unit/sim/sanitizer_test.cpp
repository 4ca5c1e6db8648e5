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

TEST(Sanitizer, TheReadBeforeACompareAndSwapIsNoRace) {
  // The loop of the CUDA Programming Guide for atomics that the hardware lacks begins with a plain read.
  const std::string loop =
      "ld.global.u32 %x, [%in]; A: add.u32 %y, %x, 1; atom.global.cas.b32 %z, [%in], %x, %y; setp.ne.u32 %p, %z, %x; "
      "mov.u32 %x, %z; @%p bra A;";
  EXPECT_TRUE(clean(run(loop, 64, 2)));
  expect_finding(run("ld.global.u32 %x, [%in]; add.u32 %y, %x, 1; atom.global.exch.b32 %z, [%in], %y;", 64),
                 LaunchError::Finding, FindingKind::Race);
  expect_finding(run("st.global.u32 [%in], %t; atom.global.cas.b32 %z, [%in], %t, %t;", 64), LaunchError::Finding,
                 FindingKind::Race);
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
  expect_finding(run("ld.global.u32 %x, [%o]; st.global.u32 [%o], %x;"), LaunchError::Finding,
                 FindingKind::UninitialisedRead);
  EXPECT_TRUE(clean(run("st.global.u32 [%o], %t; ld.global.u32 %x, [%o]; st.global.u32 [%o], %x;")));
  expect_finding(run("ld.shared.u32 %x, [%a]; st.global.u32 [%o], %x;"), LaunchError::Finding,
                 FindingKind::UninitialisedRead);
  EXPECT_TRUE(clean(run("st.shared.u32 [%a], %t; ld.shared.u32 %x, [%a]; st.global.u32 [%o], %x;")));
}

/// What is undefined, and decides nothing, is no fault: the first line of each pair uses it, the second does not.
TEST(Sanitizer, UndefinedValuesAreFollowedToTheirUse) {
  const std::string load = "ld.shared.u32 %x, [%a];";
  const std::pair<const char*, const char*> pairs[] = {
      {"add.u32 %y, %x, 1; st.global.u32 [%o], %y;", "add.u32 %y, %x, 1; mov.u32 %y, %t; st.global.u32 [%o], %y;"},
      {"setp.eq.u32 %p, %x, 1; @%p bra E; st.global.u32 [%o], %t; E:",
       "setp.eq.u32 %p, %x, 1; st.global.u32 [%o], %t;"},
      {"setp.eq.u32 %p, %x, 1; @%p st.global.u32 [%o], %t;",
       "setp.eq.u32 %p, %x, 1; setp.eq.u32 %p, %t, 1; @%p st.global.u32 [%o], %t;"},
      {"setp.eq.u32 %p, %x, 1; mov.u32 %y, 2; @%p mov.u32 %y, 1; st.global.u32 [%o], %y;",
       "setp.eq.u32 %p, %x, 1; mov.u32 %y, 2; @%p mov.u32 %y, 1; st.global.u32 [%o], %t;"},
      // A choice by a value that is defined.
      {"setp.lt.u32 %p, %t, 31; selp.b32 %y, %t, %x, %p; st.global.u32 [%o], %y;",
       "setp.lt.u32 %p, %t, 32; selp.b32 %y, %t, %x, %p; st.global.u32 [%o], %y;"},
      {"setp.eq.u32 %p, %x, 1; selp.b32 %y, %t, 7, %p; st.global.u32 [%o], %y;",
       "setp.eq.u32 %p, %x, 1; selp.b32 %y, %t, 7, %p; setp.eq.u32 %q, %t, 77; @%q st.global.u32 [%o], %y;"},
      // A bound that decides before the value does, as short-circuit conditions compile to.
      {"setp.lt.u32 %q, %t, 31; setp.eq.or.u32 %p, %x, 1, %q; @%p bra E; st.global.u32 [%o], %t; E:",
       "setp.lt.u32 %q, %t, 32; setp.eq.or.u32 %p, %x, 1, %q; @%p bra E; st.global.u32 [%o], %t; E:"},
      {"setp.eq.u32 %q, %x, 1; setp.lt.and.u32 %p, %t, 31, %q; @%p bra E; st.global.u32 [%o], %t; E:",
       "setp.eq.u32 %q, %x, 1; setp.gt.and.u32 %p, %t, 32, %q; @%p bra E; st.global.u32 [%o], %t; E:"},
      {"setp.eq.u32 %q, %x, 1; setp.lt.u32 %p, %t, 31; or.pred %p, %p, %q; @%p bra E; st.global.u32 [%o], %t; E:",
       "setp.eq.u32 %q, %x, 1; setp.lt.u32 %p, %t, 32; or.pred %p, %p, %q; @%p bra E; st.global.u32 [%o], %t; E:"},
      {"setp.eq.u32 %q, %x, 1; setp.lt.u32 %p, %t, 31; and.pred %p, %q, %p; @%p bra E; st.global.u32 [%o], %t; E:",
       "setp.eq.u32 %q, %x, 1; setp.gt.u32 %p, %t, 32; and.pred %p, %q, %p; @%p bra E; st.global.u32 [%o], %t; E:"},
      // Bits that a mask or a shift takes away.
      {"st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; and.b32 %y, %x, 511; st.global.u32 [%o], %y;",
       "st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; and.b32 %y, %x, 255; st.global.u32 [%o], %y;"},
      {"st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; shl.b32 %y, %x, 23; st.global.u32 [%o], %y;",
       "st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; shl.b32 %y, %x, 24; st.global.u32 [%o], %y;"},
      {"st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; prmt.b32 %y, %x, %t, 0x4410; st.global.u32 [%o], %y;",
       "st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; prmt.b32 %y, %x, %t, 0x4440; st.global.u32 [%o], %y;"},
      {"st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; .reg .b16 %l, %h; mov.b32 {%l, %h}, %x; st.global.u16 [%o], %h;",
       "st.shared.u16 [%a], %t; ld.shared.u32 %x, [%a]; .reg .b16 %l, %h; mov.b32 {%l, %h}, %x; st.global.u16 [%o], "
       "%l;"},
      {"st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; xor.b32 %x, %x, 5; not.b32 %x, %x; and.b32 %y, %x, 511; "
       "st.global.u32 [%o], %y;",
       "st.shared.u8 [%a], %t; ld.shared.u32 %x, [%a]; xor.b32 %x, %x, 5; not.b32 %x, %x; and.b32 %y, %x, 255; "
       "st.global.u32 [%o], %y;"},
      // A pair of halves of which one is undefined.
      {"st.shared.u16 [%a], %t; ld.shared.u32 %x, [%a]; mul.f16x2 %x, %x, %x; shr.u32 %y, %x, 16; "
       "st.global.u32 [%o], %y;",
       "st.shared.u16 [%a], %t; ld.shared.u32 %x, [%a]; mul.f16x2 %x, %x, %x; and.b32 %y, %x, 65535; "
       "st.global.u32 [%o], %y;"},
      // A bit-field: the rest of its word was there before.
      {"and.b32 %x, %x, -2048; or.b32 %x, %x, %t; st.shared.u32 [%a], %x; ld.shared.u32 %y, [%a]; shr.u32 %y, %y, 16; "
       "st.global.u32 [%o], %y;",
       "and.b32 %x, %x, -2048; or.b32 %x, %x, %t; st.shared.u32 [%a], %x; ld.shared.u32 %y, [%a]; and.b32 %y, %y, "
       "2047; st.global.u32 [%o], %y;"},
      // Through a shuffle, the warp's votes, memory, and a call.
      {"setp.lt.u32 %p, %t, 16; @%p mov.u32 %x, 1; shfl.sync.idx.b32 %y, %x, 16, 31, -1; st.global.u32 [%o], %y;",
       "setp.lt.u32 %p, %t, 16; @%p mov.u32 %x, 1; shfl.sync.idx.b32 %y, %x, 15, 31, -1; st.global.u32 [%o], %y;"},
      {"setp.lt.u32 %p, %t, 16; @%p mov.u32 %x, 1; setp.eq.u32 %p, %x, 1; vote.sync.ballot.b32 %y, %p, -1; "
       "and.b32 %y, %y, 0x1ffff; st.global.u32 [%o], %y;",
       "setp.lt.u32 %p, %t, 16; @%p mov.u32 %x, 1; setp.eq.u32 %p, %x, 1; vote.sync.ballot.b32 %y, %p, -1; "
       "and.b32 %y, %y, 0xffff; st.global.u32 [%o], %y;"},
      {"st.shared.u32 [%a+128], %x; ld.shared.u32 %y, [%a+128]; st.global.u32 [%o], %y;",
       "st.shared.u32 [%a+128], %x; st.shared.u32 [%a+128], %t; ld.shared.u32 %y, [%a+128]; st.global.u32 [%o], %y;"},
      {".local .b32 l; st.local.u32 [l], %x; ld.local.u32 %y, [l]; st.global.u32 [%o], %y;",
       ".local .b32 l; st.local.u32 [l], %x; st.local.u32 [l], %t; ld.local.u32 %y, [l]; st.global.u32 [%o], %y;"},
      {"atom.shared.add.u32 %y, [buf+256], %x;",
       "st.shared.u32 [buf+256], 0; bar.sync 0; atom.shared.add.u32 %y, [buf+256], %t;"},
      {"and.b32 %x, %x, 1; mad.wide.u32 %i, %x, 4, %in; ld.global.u32 %y, [%i];",
       "and.b32 %x, %x, 1; mad.wide.u32 %i, %x, 4, %in; mov.u64 %i, %in; ld.global.u32 %y, [%i];"},
  };
  for (const auto& [fault, twin] : pairs) {
    SCOPED_TRACE(fault);
    const LaunchResult result = run(load + fault);
    ASSERT_FALSE(result.findings.empty());
    EXPECT_EQ(result.findings[0].kind, FindingKind::UninitialisedRead);
    EXPECT_TRUE(clean(run(load + twin))) << twin;
  }
}

TEST(Sanitizer, UndefinedValuesAreFollowedIntoFunctions) {
  const auto launch = [](const std::string& returned) {
    Simulator sim;
    sim.load(
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %x, %y; ld.param.b32 %x, [n]; mov.u32 %y, %tid.x; "
        "st.param.b32 [r], " +
        returned +
        "; ret; }\n.visible .entry k(.param .u64 out) { .reg .b32 %x; .reg .b64 %o; .shared .b32 s; ld.param.u64 %o, "
        "[out]; "
        "ld.shared.u32 %x, [s]; { .param .b32 q, p; st.param.b32 [q], %x; call.uni (p), f, (q); ld.param.b32 %x, [p]; "
        "} "
        "st.global.u32 [%o], %x; ret; }\n");
    return sim.launch("k", {1}, {1}, sim.memory.allocate(4));
  };
  expect_finding(launch("%x"), LaunchError::Finding, FindingKind::UninitialisedRead);
  EXPECT_TRUE(clean(launch("%y")));
}

TEST(Sanitizer, FindingsOfUndefinedValuesNameLoadAndUse) {
  const LaunchResult result = run("ld.shared.u32 %x, [%a];\nadd.u32 %y, %x, 1;\nst.global.u32 [%o], %y;", 64);
  ASSERT_EQ(result.findings.size(), 1u);
  const Finding& finding = result.findings[0];
  EXPECT_NE(finding.instruction.find("ld.shared"), std::string::npos);
  EXPECT_EQ(finding.thread.x, 0u);
  EXPECT_EQ(finding.access_bytes, 4u);
  EXPECT_NE(
      finding.other.find("used by thread (0, 0, 0) at line " + std::to_string(finding.ptx_line + 2) + ": st.global"),
      std::string::npos)
      << finding.other;
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
  const LaunchResult result = run("ld.shared.u32 %x, [%a]; st.global.u32 [%o], %x;", 64);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].occurrences, 64u);
}

}  // namespace
}  // namespace corrloom::sim
