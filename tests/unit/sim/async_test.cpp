#include "simulator.h"

/// Bulk and tensor copies, mbarriers and proxies, in PTX of their own: the forms no compiled kernel here uses.
namespace corrloom::sim {
namespace {

const std::string kPrologue =
    ".reg .b64 %in, %out, %o, %i, %st; .reg .b32 %t, %x, %y, %z, %r, %n; .reg .b16 %h; .reg .pred %p, %q;\n"
    ".shared .align 128 .b8 buf[1024]; .shared .align 8 .b64 bar; .shared .align 128 .b8 two[1024];\n"
    "mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mad.wide.u32 %o, %t, 4, %out; mad.wide.u32 "
    "%i, %t, 4, %in;\n"
    "mov.u32 %z, buf; mov.u32 %n, two; mad.lo.u32 %z, %t, 4, %z; setp.eq.u32 %p, %t, 0;\n";
const std::string kInit = "@%p mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;\n";
/// Waits for phase 0.
const std::string kWait = "{ W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @%q bra D; bra W; D: }\n";

LaunchResult run(Simulator& sim, const std::string& body, std::vector<uint32_t>& out, const std::vector<uint32_t>& in,
                 uint32_t threads = 32, uint32_t blocks = 1,
                 std::optional<std::vector<uint32_t>> initial = std::nullopt) {
  sim.load(kernel_text(kPrologue + body));
  const DeviceAddress address = sim.upload(initial.value_or(std::vector<uint32_t>(threads * blocks, 0)));
  const LaunchResult result = sim.launch("k", {blocks}, {threads}, address, sim.upload(in));
  out = sim.download<uint32_t>(address, threads * blocks);
  return result;
}

std::vector<uint32_t> count(uint32_t n) {
  std::vector<uint32_t> values(n);
  for (uint32_t i = 0; i < n; ++i) values[i] = i + 1;
  return values;
}

TEST(Bulk, GlobalToSharedAndOn) {
  Simulator sim;
  std::vector<uint32_t> out;
  // Into buf, then from buf to two, then two to global memory as a sum.
  const std::string body =
      kInit +
      "@%p mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bar], 128; @%p "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 128, [bar];\n" +
      kWait +
      "@%p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [buf], 128; @%p "
      "cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;";
  ASSERT_TRUE(clean(run(sim, body, out, count(32), 32, 1, std::vector<uint32_t>(32, 1000))));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 1001 + i);
}

TEST(Bulk, MulticastReachesEveryBlockOfTheMask) {
  Simulator sim;
  sim.cluster = Dim3{4};
  std::vector<uint32_t> out;
  const std::string body =
      kInit +
      "@%p mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bar], 128; barrier.cluster.arrive; barrier.cluster.wait; "
      "mov.u32 %r, %cluster_ctarank; setp.eq.and.u32 %q, %r, 2, %p; mov.b16 %h, 15;\n"
      "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [buf], [%in], 128, "
      "[bar], %h;\n" +
      kWait +
      "ld.shared.u32 %x, [%z]; mad.lo.u32 %x, %r, 100, %x; mad.wide.u32 %o, %r, 128, %o; st.global.u32 [%o], %x; "
      "barrier.cluster.arrive; barrier.cluster.wait;";
  ASSERT_TRUE(clean(run(sim, body, out, count(32), 32, 4)));
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i / 32 * 100 + i % 32 + 1) << i;
}

TEST(Bulk, SharedToAnotherBlock) {
  Simulator sim;
  sim.cluster = Dim3{2};
  std::vector<uint32_t> out;
  // Block 0 writes its buf and sends it to block 1's two, reporting to block 1's barrier.
  const std::string body =
      ".reg .b32 %rb, %rd;" + kInit +
      "mov.u32 %r, %cluster_ctarank; setp.eq.and.u32 %q, %r, 1, %p; @%q mbarrier.arrive.expect_tx.shared::cta.b64 %st, "
      "[bar], 128; st.shared.u32 [%z], %t; fence.proxy.async.shared::cta; bar.sync 0;\n"
      "barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %y, bar; mapa.shared::cluster.u32 %rb, %y, 1; "
      "mapa.shared::cluster.u32 %rd, %n, 1; setp.eq.and.u32 %q, %r, 0, %p;\n"
      "@%q cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%rd], [buf], 128, [%rb]; "
      "setp.eq.u32 %q, %r, 0; @%q bra E;\n" +
      kWait +
      "mad.lo.u32 %n, %t, 4, %n; ld.shared.u32 %x, [%n]; add.u32 %x, %x, 5; st.global.u32 [%o], %x; E: "
      "barrier.cluster.arrive; barrier.cluster.wait;";
  ASSERT_TRUE(clean(run(sim, body, out, count(32), 32, 2)));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i + 5) << i;
}

TEST(Bulk, RemoteStoresReportToABarrier) {
  Simulator sim;
  sim.cluster = Dim3{2};
  std::vector<uint32_t> out;
  // Block 0 stores a number in block 1's memory and adds two to another.
  const std::string body =
      ".reg .b32 %rb, %rd;" + kInit +
      "mov.u32 %r, %cluster_ctarank; setp.eq.and.u32 %q, %r, 1, %p; @%q mbarrier.arrive.expect_tx.shared::cta.b64 %st, "
      "[bar], 12; @%p st.shared.u32 [%n+4], 2;\n"
      "barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %y, bar; mapa.shared::cluster.u32 %rb, %y, 1; "
      "mapa.shared::cluster.u32 %rd, %n, 1; setp.eq.and.u32 %q, %r, 0, %p; mov.u32 %x, 40; \n"
      "@%q st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%rd], %x, [%rb]; @%q "
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%rd+4], %x, [%rb]; @%q "
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%rd+4], %x, [%rb];\n"
      "setp.eq.u32 %q, %r, 0; @%q bra E;\n" +
      kWait +
      "ld.shared.v2.u32 {%x, %y}, [%n]; @%p st.global.u32 [%out], %x; @%p st.global.u32 [%out+4], %y; E: "
      "barrier.cluster.arrive; barrier.cluster.wait;";
  ASSERT_TRUE(clean(run(sim, body, out, count(32), 32, 2)));
  EXPECT_EQ(out[0], 40u);
  EXPECT_EQ(out[1], 82u);
}

TEST(Bulk, ReadingBeforeTheWaitIsFound) {
  Simulator sim;
  std::vector<uint32_t> out;
  const std::string issue =
      kInit +
      "@%p mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bar], 128; @%p "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 128, [bar]; bar.sync 0;\n";
  EXPECT_TRUE(clean(run(sim, issue + kWait + "ld.shared.u32 %x, [%z];", out, count(32))));
  const LaunchResult result = run(sim, issue + "ld.shared.u32 %x, [%z];" + kWait, out, count(32));
  EXPECT_EQ(result.error, LaunchError::Finding);
  bool found = false;
  for (const Finding& finding : result.findings) found |= finding.kind == FindingKind::UnsynchronisedAsyncCopy;
  EXPECT_TRUE(found) << result.report();
}

TEST(Bulk, MissingProxyFenceIsFound) {
  Simulator sim;
  std::vector<uint32_t> out;
  const auto body = [](const std::string& fence) {
    return "st.shared.u32 [%z], %t; " + fence +
           " bar.sync 0; @%p cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 128; @%p "
           "cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;";
  };
  EXPECT_TRUE(clean(run(sim, body("fence.proxy.async;"), out, count(32))));
  EXPECT_EQ(out[9], 9u);
  const LaunchResult result = run(sim, body(""), out, count(32));
  EXPECT_EQ(result.error, LaunchError::Finding);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, FindingKind::MissingProxyFence);
}

TEST(Bulk, BoundsAndAlignment) {
  Simulator sim;
  std::vector<uint32_t> out;
  const auto body = [](const std::string& copy) {
    return kInit + "@%p mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bar], 128; @%p " + copy + kWait;
  };
  EXPECT_EQ(
      run(sim, body("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in+16], 128, [bar];"),
          out, count(32))
          .error,
      LaunchError::IllegalAddress);
  EXPECT_EQ(
      run(sim, body("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf+8], [%in], 128, [bar];"),
          out, count(32))
          .error,
      LaunchError::MisalignedAddress);
  EXPECT_EQ(
      run(sim, body("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 120, [bar];"), out,
          count(32))
          .error,
      LaunchError::IllegalInstruction);
}

TEST(Mbarrier, TokensPhasesAndCounts) {
  Simulator sim;
  std::vector<uint32_t> out;
  ASSERT_TRUE(clean(run(sim,
                        "@%p mbarrier.init.shared.b64 [bar], 32; bar.sync 0; mbarrier.arrive.shared.b64 %st, [bar]; W: "
                        "mbarrier.test_wait.shared.b64 %q, [bar], %st; @!%q bra W; mbarrier.pending_count.b64 %x, %st; "
                        "st.global.u32 [%o], %x;",
                        out, count(32))));
  // Each lane saw the arrivals still missing before its own.
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 32 - i);
  EXPECT_EQ(run(sim, "mbarrier.arrive.shared.b64 %st, [bar];", out, count(32)).error, LaunchError::IllegalInstruction);
  EXPECT_EQ(run(sim, "@%p mbarrier.init.shared.b64 [bar], 3; bar.sync 0; mbarrier.arrive.shared.b64 %st, [bar], 4;",
                out, count(32))
                .error,
            LaunchError::IllegalInstruction);
  EXPECT_EQ(run(sim, "@%p mbarrier.init.shared.b64 [buf+4], 3;", out, count(32)).error, LaunchError::MisalignedAddress);
}

TEST(Mbarrier, OrdersSharedMemory) {
  Simulator sim;
  std::vector<uint32_t> out;
  const auto body = [](const std::string& wait) {
    return "@%p mbarrier.init.shared.b64 [bar], 64; bar.sync 0; st.shared.u32 [%z], %t; mbarrier.arrive.shared.b64 "
           "%st, [bar];" +
           wait +
           "xor.b32 %y, %t, 63; mov.u32 %z, buf; mad.lo.u32 %z, %y, 4, %z; ld.shared.u32 %x, [%z]; st.global.u32 [%o], "
           "%x;";
  };
  ASSERT_TRUE(clean(run(sim, body("W: mbarrier.try_wait.shared.b64 %q, [bar], %st; @!%q bra W;"), out, count(64), 64)));
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i ^ 63);
  EXPECT_EQ(run(sim, body(""), out, count(64), 64).error, LaunchError::Finding);
}

TEST(ReadOnlyLoad, OfMemoryTheKernelWroteIsStale) {
  Simulator sim;
  std::vector<uint32_t> out;
  EXPECT_TRUE(
      clean(run(sim, "ld.global.nc.u32 %x, [%i]; st.global.u32 [%o], %x; ld.global.u32 %y, [%o];", out, count(32))));
  const LaunchResult result = run(sim, "st.global.u32 [%o], %t; ld.global.nc.u32 %x, [%o];", out, count(32));
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, FindingKind::StaleReadOnlyLoad);
}

TEST(TensorMap, RulesOfTheEncoder) {
  std::array<std::byte, 128> bytes;
  TensorMapDescription good;
  good.rank = 2;
  good.address = 0x800000000000;
  good.extent = {64, 32};
  good.stride_bytes = {256};
  good.box = {32, 8};
  EXPECT_EQ(encode_tensor_map(good, bytes), "");
  const auto decoded = decode_tensor_map(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->extent[1], 32u);
  EXPECT_EQ(decoded->box[0], 32u);
  const auto refused = [&](auto change) {
    TensorMapDescription bad = good;
    change(bad);
    return !encode_tensor_map(bad, bytes).empty();
  };
  EXPECT_TRUE(refused([](auto& d) { d.rank = 6; }));
  EXPECT_TRUE(refused([](auto& d) { d.address += 8; }));
  EXPECT_TRUE(refused([](auto& d) { d.stride_bytes[0] = 264; }));
  EXPECT_TRUE(refused([](auto& d) { d.box[0] = 257; }));
  EXPECT_TRUE(refused([](auto& d) { d.box[0] = 3; }));
  EXPECT_TRUE(refused([](auto& d) { d.swizzle = TensorSwizzle::Bytes64; }));
  EXPECT_TRUE(refused([](auto& d) { d.element_stride[1] = 9; }));
  EXPECT_FALSE(decode_tensor_map(std::array<std::byte, 128>{}).has_value());
}

TEST(TensorMap, Im2colWalksPixels) {
  // NHWC with one image of 4 x 5 pixels and 4 channels; the tap at offset (1, 0) of a 3 x 3 filter without padding.
  Simulator sim;
  std::vector<uint32_t> x(4 * 5 * 4);
  for (uint32_t i = 0; i < x.size(); ++i) x[i] = i + 1;
  TensorMapDescription d;
  d.type = TensorType::U32;
  d.rank = 4;
  d.address = sim.upload(x);
  d.extent = {4, 5, 4, 1};
  d.stride_bytes = {16, 80, 320};
  d.box = {4, 6};
  d.im2col = true;
  d.upper_corner = {-2, -2, 0};  // the last two columns and rows start no filter
  std::array<std::byte, 128> map;
  ASSERT_EQ(encode_tensor_map(d, map), "");
  sim.load(
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .align 64 .b8 map[128], .param .u64 "
      "out) {\n.reg .b64 %m, %o; .reg .b32 %t, %x, %z, %zero; .reg .b16 %h; .reg .pred %p, %q; .reg .b64 %st;\n"
      ".shared .align 128 .b8 buf[128]; .shared .align 8 .b64 bar; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; "
      "ld.param.u64 %o, [out]; mov.b64 %m, map; cvta.param.u64 %m, %m; mov.u32 %zero, 0; mov.b16 %h, 1;\n"
      ".reg .b16 %g; mov.b16 %g, 0; @%p mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p "
      "mbarrier.arrive.expect_tx.shared.b64 %st, [bar], 96;\n"
      "@%p cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [buf], [%m, {%zero, "
      "%zero, %zero, %zero}], [bar], {%h, %g};\n"
      "W: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra W; mov.u32 %z, buf; mad.lo.u32 %z, %t, 4, %z; "
      "ld.shared.u32 %x, [%z]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %x; ret; }\n");
  const DeviceAddress out = sim.memory.allocate(24 * 4);
  ASSERT_TRUE(clean(sim.launch("k", {1}, {24}, map, out)));
  const auto y = sim.download<uint32_t>(out, 24);
  for (uint32_t p = 0; p < 6; ++p) {
    const uint32_t row = p / 3, column = p % 3 + 1;
    for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(y[p * 4 + c], (row * 5 + column) * 4 + c + 1) << p << " " << c;
  }
}

}  // namespace
}  // namespace corrloom::sim
