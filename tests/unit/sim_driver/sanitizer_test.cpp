#include "runtime/sim/driver/corrloom_sim.h"
#include "tests/unit/sim_driver/client.h"

/// Planted faults as a client meets them: each kernel that must trigger a finding has a twin that must not.
namespace corrloom::sim::driver {
namespace {

using ::testing::HasSubstr;

/// A fault and what it must lead to. The bodies stand behind `kPrologue`.
struct Planted {
  const char* name;
  const char* kind;  ///< as reports call it
  CUresult error;
  unsigned blocks, threads;
  const char* faulty;
  const char* twin;
};

constexpr const char* kPrologue =
    ".reg .b64 %in, %out, %o, %i, %l; .reg .b32 %t, %x, %y, %z, %s, %a; .reg .pred %p, %q;\n"
    ".shared .align 16 .b8 buf[512]; .local .align 8 .b8 loc[16];\n"
    "mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %in, [in];\n"
    "mad.wide.u32 %o, %t, 4, %out; mad.wide.u32 %i, %t, 4, %in;\n"
    "mov.u32 %s, buf; shl.b32 %a, %t, 2; add.u32 %a, %a, %s;\n";

constexpr Planted kPlanted[] = {
    {"GlobalBounds", "out of bounds", CUDA_ERROR_ILLEGAL_ADDRESS, 1, 32, "ld.global.u32 %x, [%i+4];",
     "ld.global.u32 %x, [%i];"},
    {"NullPointer", "out of bounds", CUDA_ERROR_ILLEGAL_ADDRESS, 1, 1, "mov.u64 %i, 0; ld.global.u32 %x, [%i];",
     "ld.global.u32 %x, [%i];"},
    {"Misalignment", "misaligned address", CUDA_ERROR_MISALIGNED_ADDRESS, 1, 32, "ld.global.u32 %x, [%in+2];",
     "ld.global.u32 %x, [%in+4];"},
    {"SharedBounds", "shared memory out of bounds", CUDA_ERROR_ILLEGAL_ADDRESS, 1, 32, "st.shared.u32 [%a+388], %t;",
     "st.shared.u32 [%a+384], %t;"},
    {"LocalBounds", "local memory out of bounds", CUDA_ERROR_ILLEGAL_ADDRESS, 1, 32,
     "mov.u64 %l, loc; st.local.u32 [%l+16], %t;", "mov.u64 %l, loc; st.local.u32 [%l+12], %t;"},
    {"SharedRace", "race", CUDA_ERROR_LAUNCH_FAILED, 1, 64,
     "st.shared.u32 [%a], %t; bar.sync 0; xor.b32 %z, %t, 32; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; "
     "ld.shared.u32 %x, [%z]; st.shared.u32 [%a], %x;",
     "st.shared.u32 [%a], %t; bar.sync 0; xor.b32 %z, %t, 32; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; "
     "ld.shared.u32 %x, [%z]; bar.sync 0; st.shared.u32 [%a], %x;"},
    {"GlobalRaceBetweenBlocks", "race", CUDA_ERROR_LAUNCH_FAILED, 4, 32,
     "mov.u32 %x, %ctaid.x; st.global.u32 [%o], %x;",
     "mov.u32 %x, %ctaid.x; mad.lo.u32 %y, %x, 32, %t; mad.wide.u32 %o, %y, 4, %out; st.global.u32 [%o], %x;"},
    {"UninitialisedGlobal", "uninitialised read", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "ld.global.u32 %x, [%o]; st.global.u32 [%o], %x;",
     "st.global.u32 [%o], %t; ld.global.u32 %x, [%o]; st.global.u32 [%o], %x;"},
    {"UninitialisedShared", "uninitialised read", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "ld.shared.u32 %x, [%a]; st.global.u32 [%o], %x;",
     "st.shared.u32 [%a], %t; ld.shared.u32 %x, [%a]; st.global.u32 [%o], %x;"},
    {"UndefinedBranch", "uninitialised read", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "ld.shared.u32 %x, [%a]; setp.eq.u32 %p, %x, 1; @%p bra A; st.global.u32 [%o], %t; A:",
     "ld.shared.u32 %x, [%a]; setp.eq.u32 %p, %x, 1; st.global.u32 [%o], %t;"},
    {"DivergentBarrier", "divergent barrier", CUDA_ERROR_LAUNCH_FAILED, 1, 64,
     "setp.lt.u32 %p, %t, 16; @%p bra A; bar.sync 0; bra E; A: bar.sync 0; E:",
     "setp.lt.u32 %p, %t, 16; @%p bra A; mov.u32 %x, 1; A: bar.sync 0;"},
    {"BarrierMisuse", "barrier misuse", CUDA_ERROR_ILLEGAL_INSTRUCTION, 1, 32, "mov.u32 %x, 33; bar.sync 0, %x;",
     "mov.u32 %x, 32; bar.sync 0, %x;"},
    {"ShuffleMask", "invalid membermask", CUDA_ERROR_LAUNCH_FAILED, 1, 32, "shfl.sync.idx.b32 %x, %t, 0, 31, 0xffff;",
     "setp.ge.u32 %p, %t, 16; @%p bra E; shfl.sync.idx.b32 %x, %t, 0, 31, 0xffff; E:"},
    {"ShuffleFromInactiveLane", "shuffle from an inactive lane", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "setp.ge.u32 %p, %t, 16; @%p bra E; shfl.sync.idx.b32 %x, %t, 20, 31, 0xffff; E:",
     "setp.ge.u32 %p, %t, 16; @%p bra E; shfl.sync.idx.b32 %x, %t, 10, 31, 0xffff; E:"},
    {"Deadlock", "deadlock", CUDA_ERROR_LAUNCH_TIMEOUT, 1, 64,
     "setp.lt.u32 %p, %t, 32; @%p bra A; bar.sync 1; bra E; A: bar.sync 0; E:",
     "setp.lt.u32 %p, %t, 32; @%p bra A; bar.sync 0; bra E; A: bar.sync 0; E:"},
    {"WriteToConstants", "write to read-only memory", CUDA_ERROR_ILLEGAL_ADDRESS, 1, 1,
     ".reg .b64 %g; cvta.param.u64 %g, out; st.u32 [%g], %t;",
     ".reg .b64 %g; cvta.param.u64 %g, out; ld.u32 %x, [%g];"},
    {"ParameterBounds", "constant memory out of bounds", CUDA_ERROR_ILLEGAL_ADDRESS, 1, 1,
     ".reg .b64 %g; cvta.param.u64 %g, out; ld.u32 %x, [%g+256];",
     ".reg .b64 %g; cvta.param.u64 %g, out; ld.u32 %x, [%g+8];"},
    {"StaleReadOnlyLoad", "stale read-only load", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "st.global.u32 [%o], %t; ld.global.nc.u32 %x, [%o];", "st.global.u32 [%o], %t; ld.global.nc.u32 %x, [%i];"},
    {"AsyncCopyNotWaitedFor", "unsynchronised asynchronous copy", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group; ld.shared.u32 %x, [%a]; cp.async.wait_all;",
     "cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %x, [%a];"},
    {"AsyncGroupNotWaitedFor", "unsynchronised asynchronous copy", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group; cp.async.ca.shared.global [%a+256], [%i], 4; "
     "cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %x, [%a+256]; cp.async.wait_all;",
     "cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group; cp.async.ca.shared.global [%a+256], [%i], 4; "
     "cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %x, [%a]; cp.async.wait_all;"},
    {"BulkCopyNotWaitedFor", "unsynchronised asynchronous copy", CUDA_ERROR_LAUNCH_FAILED, 1, 4,
     "BULK ld.shared.u32 %x, [%a]; bar.sync 0; W: mbarrier.try_wait.parity.shared::cta.b64 %q, [%s+256], 0; @!%q bra "
     "W;",
     "BULK bar.sync 0; W: mbarrier.try_wait.parity.shared::cta.b64 %q, [%s+256], 0; @!%q bra W; ld.shared.u32 %x, "
     "[%a];"},
    {"MissingProxyFence", "missing proxy fence", CUDA_ERROR_LAUNCH_FAILED, 1, 4,
     "st.shared.u32 [%a], %t; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra E; "
     "cp.async.bulk.global.shared::cta.bulk_group "
     "[%out], [%s], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:",
     "st.shared.u32 [%a], %t; fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra E; "
     "cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 16; cp.async.bulk.commit_group; "
     "cp.async.bulk.wait_group 0; E:"},
    {"IndirectCallToNowhere", "invalid program counter", CUDA_ERROR_INVALID_PC, 1, 1,
     "P: .callprototype _ (); mov.u64 %l, 4096; call %l, P;", "mov.u64 %l, 4096;"},
    {"WarpRace", "race", CUDA_ERROR_LAUNCH_FAILED, 1, 32,
     "st.shared.u32 [%a], %t; xor.b32 %z, %t, 1; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; ld.shared.u32 %x, [%z];",
     "st.shared.u32 [%a], %t; bar.warp.sync -1; xor.b32 %z, %t, 1; shl.b32 %z, %z, 2; add.u32 %z, %z, %s; "
     "ld.shared.u32 %x, [%z];"},
    {"MissingThreadFence", "race", CUDA_ERROR_LAUNCH_FAILED, 2, 1,
     "mov.u32 %x, %ctaid.x; setp.ne.u32 %p, %x, 0; @%p bra R; st.global.u32 [%out], %t; st.volatile.global.u32 [%in], "
     "7; "
     "bra E; R: ld.volatile.global.u32 %y, [%in]; setp.ne.u32 %p, %y, 7; @%p bra R; ld.global.u32 %z, [%out]; E:",
     "mov.u32 %x, %ctaid.x; setp.ne.u32 %p, %x, 0; @%p bra R; st.global.u32 [%out], %t; membar.gl; "
     "st.volatile.global.u32 [%in], 7; bra E; R: ld.volatile.global.u32 %y, [%in]; setp.ne.u32 %p, %y, 7; @%p bra R; "
     "ld.global.u32 %z, [%out]; E:"},
    {"MbarrierThatIsNone", "barrier misuse", CUDA_ERROR_ILLEGAL_INSTRUCTION, 1, 1,
     "mbarrier.arrive.shared::cta.b64 %l, [%s];",
     "mbarrier.init.shared::cta.b64 [%s], 1; mbarrier.arrive.shared::cta.b64 %l, [%s];"},
    {"StackOverflow", "stack overflow", CUDA_ERROR_LAUNCH_FAILED, 1, 1,
     "{ .param .b32 q; st.param.b32 [q], 1000000; call.uni deeper, (q); }",
     "{ .param .b32 q; st.param.b32 [q], 10; call.uni deeper, (q); }"},
    {"Assertion", "assertion", CUDA_ERROR_ASSERT, 1, 1, "setp.ge.u32 %p, %t, 0; ASSERT",
     "setp.gt.u32 %p, %t, 0; ASSERT"},
    {"Trap", "trap", CUDA_ERROR_LAUNCH_FAILED, 1, 32, "setp.eq.u32 %p, %t, 9; @%p trap;",
     "setp.eq.u32 %p, %t, 99; @%p trap;"},
};

/// Functions that some bodies call, and text that stands for words of theirs.
constexpr const char* kFunctions =
    ".global .align 1 .b8 text[5] = {116, 101, 120, 116, 0};\n"
    ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
    ".func deeper (.param .b32 n) { .reg .b32 %r; .reg .pred %p; .local .b8 big[512]; ld.param.b32 %r, [n]; "
    "st.local.u32 [big], %r; sub.u32 %r, %r, 1; setp.eq.u32 %p, %r, 0; @%p ret; "
    "{ .param .b32 q; st.param.b32 [q], %r; call.uni deeper, (q); } ret; }\n";

std::string with_words(std::string body) {
  const std::pair<std::string, std::string> words[] = {
      {"BULK",
       "setp.ne.u32 %p, %t, 0; @!%p mbarrier.init.shared::cta.b64 [%s+256], 1; fence.proxy.async; bar.sync 0; @%p bra "
       "B; "
       "mbarrier.arrive.expect_tx.shared::cta.b64 %l, [%s+256], 16; "
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%in], 16, [%s+256]; B:"},
      {"ASSERT",
       "@!%p bra E; { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; "
       "mov.u64 %l, text; cvta.global.u64 %l, %l; st.param.b64 [a], %l; st.param.b64 [b], %l; "
       "st.param.b32 [c], 7; st.param.b64 [d], %l; st.param.b64 [e], 1; "
       "call.uni __assertfail, (a, b, c, d, e); } E:"}};
  for (const auto& [word, text] : words) {
    if (const size_t at = body.find(word); at != std::string::npos) body.replace(at, word.size(), text);
  }
  return body;
}

/// The text for a newer machine, whose instructions some bodies need.
std::string modern(std::string text) {
  const std::string target = ".target sm_80";
  return text.replace(text.find(target), target.size(), ".target sm_90");
}

class PlantedFault : public DriverTest, public ::testing::WithParamInterface<Planted> {
 protected:
  void TearDown() override {
    clear(0);
    DriverTest::TearDown();
  }
  template <class F>
  static F symbol(const char* name) {
    return reinterpret_cast<F>(::dlsym(library(), name));
  }
  decltype(&corrloom_sim_clear) clear = symbol<decltype(&corrloom_sim_clear)>("corrloom_sim_clear");
  decltype(&corrloom_sim_finding_count) count =
      symbol<decltype(&corrloom_sim_finding_count)>("corrloom_sim_finding_count");
  decltype(&corrloom_sim_get_finding) get = symbol<decltype(&corrloom_sim_get_finding)>("corrloom_sim_get_finding");

  /// Runs a body and returns how the context ends up; the report goes to `report`.
  CUresult run(const char* body) {
    const Planted& planted = GetParam();
    const unsigned words = planted.blocks * planted.threads;
    const CUdeviceptr in = upload(std::vector<uint32_t>(words, 1)), out = allocate(words * 4);
    const CUfunction function = load(modern(kernel_text(kPrologue + with_words(body), kFunctions)));
    testing::internal::CaptureStderr();
    EXPECT_CU(CUDA_SUCCESS, launch(function, planted.blocks, planted.threads, out, in, 0));
    const CUresult result = cu().cuCtxSynchronize();
    report = testing::internal::GetCapturedStderr();
    return result;
  }
  std::string report;
};

TEST_P(PlantedFault, IsFound) {
  const Planted& planted = GetParam();
  EXPECT_CU(planted.error, run(planted.faulty));
  EXPECT_THAT(report, HasSubstr(planted.kind));
  EXPECT_THAT(report, HasSubstr("in kernel k at PTX line "));
  EXPECT_THAT(report, HasSubstr("thread ("));
  ASSERT_GE(count(0), 1u);
  bool found = false;
  for (uint64_t i = 0; i < count(0); ++i) {
    corrloom_sim_finding finding;
    ASSERT_EQ(get(0, i, &finding), 1);
    found |= std::string(finding.kind) == planted.kind && finding.ptx_line >= 6;
  }
  EXPECT_TRUE(found) << report;
}

TEST_P(PlantedFault, TheTwinIsClean) {
  EXPECT_CU(CUDA_SUCCESS, run(GetParam().twin));
  EXPECT_EQ(report, "");
  EXPECT_EQ(count(0), 0u);
}

INSTANTIATE_TEST_SUITE_P(Driver, PlantedFault, ::testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

using Sanitizer = DriverTest;

TEST_F(Sanitizer, UseAfterFreeAndAPendingFree) {
  const CUdeviceptr in = upload<uint32_t>({1}), out = allocate(4);
  const CUfunction add = load(add_kernel());
  ASSERT_OK(launch(add, 1, 1, out, in, 0));
  ASSERT_OK(cu().cuMemFree_v2(in));
  testing::internal::CaptureStderr();
  ASSERT_OK(launch(add, 1, 1, out, in, 0));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu().cuCtxSynchronize());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("use after free"));
}

TEST_F(Sanitizer, CopiesCarryWhatIsInitialised) {
  // b gets its first half from a, which is set; the second half stays unset.
  const CUdeviceptr a = upload<uint32_t>({1, 2}), b = allocate(16), c = allocate(16);
  const CUfunction add = load(add_kernel());
  ASSERT_OK(cu().cuMemcpyDtoD_v2(b, a, 8));
  ASSERT_OK(launch(add, 1, 2, c, b, 0));
  EXPECT_CU(CUDA_SUCCESS, cu().cuCtxSynchronize());
  ASSERT_OK(cu().cuMemcpyDtoD_v2(c, b, 16));
  testing::internal::CaptureStderr();
  ASSERT_OK(launch(add, 1, 4, b, c, 0));
  EXPECT_CU(CUDA_ERROR_LAUNCH_FAILED, cu().cuCtxSynchronize());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("uninitialised read"));
}

}  // namespace
}  // namespace corrloom::sim::driver
