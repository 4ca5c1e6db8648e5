#include <cmath>

#include "simulator.h"

/// mma.m8n8k4 on halves: four products in one warp, in every layout; and tensor maps that a kernel edits.
namespace corrloom::sim {
namespace {

uint16_t half(int value) {
  if (value == 0) return 0;
  int exponent = 0;
  const float rest = std::frexp(float(std::abs(value)), &exponent);
  return uint16_t((value < 0 ? 0x8000 : 0) | (exponent - 1 + 15) << 10 | int((rest * 2 - 1) * 1024));
}
int value(int product, int row, int column, int seed) {
  return (product * 5 + row * 3 + column * 7 + seed) % 9 - 4;
}

/// Lane and register element that hold an element of a quarter's matrix. Source: PTX ISA, "Matrix Fragments for
/// mma.m8n8k4 with .f16 floating point type".
struct Place {
  int lane, element;
};
Place place_a(int q, int row, int k, bool column_major) {
  const int lane = column_major ? k : row % 4;
  return {q * 4 + lane + (row < 4 ? 0 : 16), column_major ? row % 4 : k};
}
Place place_b(int q, int k, int column, bool row_major) {
  const int lane = row_major ? k : column % 4;
  return {q * 4 + lane + (column < 4 ? 0 : 16), row_major ? column % 4 : k};
}

class QuarterMma : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(QuarterMma, MatchesTheProduct) {
  const auto [a_layout, b_layout, type] = GetParam();
  std::vector<uint16_t> a(128), b(128);
  for (int q = 0; q < 4; ++q) {
    for (int i = 0; i < 8; ++i) {
      for (int k = 0; k < 4; ++k) {
        const Place pa = place_a(q, i, k, a_layout == "col"), pb = place_b(q, k, i, b_layout == "row");
        a[size_t(pa.lane * 4 + pa.element)] = half(value(q, i, k, 1));
        b[size_t(pb.lane * 4 + pb.element)] = half(value(q, k, i, 2));
      }
    }
  }
  const bool wide = type == "f32";
  std::string d = "{", c = "{", stores;
  for (int i = 0; i < (wide ? 8 : 4); ++i) {
    const std::string comma = i ? "," : "", n = std::to_string(i);
    d += comma + "%d" + n;
    c += comma + "%z";
    stores += "st.global.b32 [%out+" + std::to_string(4 * i) + "], %d" + n + ";\n";
  }
  Simulator sim;
  sim.load(
      kernel_text(".reg .b64 %in, %out; .reg .b32 %t, %a<2>, %b<2>, %d<8>, %z;\n"
                  "mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mov.b32 %z, 0;\n"
                  "mad.wide.u32 %in, %t, 8, %in; mad.wide.u32 %out, %t, 32, %out;\n"
                  "ld.global.v2.b32 {%a0, %a1}, [%in]; ld.global.v2.b32 {%b0, %b1}, [%in+256];\n"
                  "mma.sync.aligned.m8n8k4." +
                  a_layout + "." + b_layout + "." + type + ".f16.f16." + type + " " + d +
                  "}, {%a0, %a1}, {%b0, %b1}, " + c + "};\n" + stores));
  a.insert(a.end(), b.begin(), b.end());
  const DeviceAddress out = sim.memory.allocate(1024);
  ASSERT_TRUE(clean(sim.launch("k", {1}, {32}, out, sim.upload(a))));
  const auto words = sim.download<uint32_t>(out, 256);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const int low = lane < 16 ? 0 : 4;
      const int row = wide ? (lane & 1) + (i & 2) + low : lane % 4 + low;
      const int column = wide ? (i & 4) + (lane & 2) + (i & 1) : i;
      int sum = 0;
      for (int k = 0; k < 4; ++k) sum += value(lane % 16 / 4, row, k, 1) * value(lane % 16 / 4, k, column, 2);
      const uint32_t word = words[size_t(lane * 8 + (wide ? i : i / 2))];
      if (wide) {
        EXPECT_EQ(std::bit_cast<float>(word), float(sum)) << lane << ' ' << i;
      } else {
        EXPECT_EQ(word >> i % 2 * 16 & 0xFFFF, half(sum)) << lane << ' ' << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, QuarterMma,
                         ::testing::Combine(::testing::Values("row", "col"), ::testing::Values("row", "col"),
                                            ::testing::Values("f16", "f32")));

TEST(TensorMapEdits, ReplacedFieldsTakeEffect) {
  // The kernel copies a map to shared memory, gives it another address, row length and pitch, and loads a tile with it.
  Simulator sim;
  sim.load(kernel_text(
      ".reg .b64 %in, %out, %o, %w, %st; .reg .b32 %t, %x, %s; .reg .pred %p, %q;\n"
      ".shared .align 128 .b8 map[128]; .shared .align 128 .b8 tile[64]; .shared .align 8 .b64 bar;\n"
      "mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; setp.ne.u32 %p, %t, 0;\n"
      "mad.wide.u32 %o, %t, 4, %in; mov.u32 %s, map; mad.lo.u32 %s, %t, 4, %s; ld.global.u32 %x, [%o]; st.shared.u32 "
      "[%s], %x;\n"
      "bar.sync 0; @%p bra R;\n"
      "add.u64 %w, %in, 128; tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %w;\n"
      "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 0, 6;\n"
      "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 0, 32;\n"
      "mbarrier.init.shared::cta.b64 [bar], 1;\n"
      "R: bar.sync 0; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%in], "
      "[map], 128;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%in], 128; @%p bra W;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bar], 64;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in, {4, 1}], [bar];\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @!%q bra W; setp.gt.u32 %p, %t, 15; @%p ret;\n"
      "mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; ld.shared.u32 %x, [%s]; mad.wide.u32 %o, %t, 4, %out; st.global.u32 "
      "[%o], %x;"));
  std::vector<uint32_t> in(32 + 64);
  for (uint32_t i = 0; i < 64; ++i) in[32 + i] = 100 + i;
  TensorMapDescription map;
  map.type = TensorType::U32;
  map.rank = 2;
  map.extent = {16, 4};
  map.stride_bytes = {64};
  map.box = {4, 4};
  map.address = sim.memory.allocate(256);
  std::array<std::byte, 128> bytes;
  ASSERT_EQ(encode_tensor_map(map, bytes), "");
  std::memcpy(in.data(), bytes.data(), 128);
  const DeviceAddress out = sim.memory.allocate(64);
  ASSERT_TRUE(clean(sim.launch("k", {1}, {32}, out, sim.upload(in))));
  const auto y = sim.download<uint32_t>(out, 16);
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t row = 1 + i / 4, column = 4 + i % 4;
    EXPECT_EQ(y[i], row < 4 && column < 6 ? 100 + row * 8 + column : 0) << i;
  }
}

}  // namespace
}  // namespace corrloom::sim
