#include "simulator.h"

/// Device memory and the limits of architectures, seen from the driver's side.
namespace corrloom::sim {
namespace {

TEST(DeviceMemory, AllocatesAlignedAndCountsWhatIsLeft) {
  DeviceMemory memory(3, 1 << 20);
  EXPECT_EQ(memory.free_bytes(), 1u << 20);
  const DeviceAddress a = memory.allocate(100), b = memory.allocate(1, 4096);
  EXPECT_EQ(a % 256, 0u);
  EXPECT_EQ(b % 4096, 0u);
  EXPECT_GE(a, uint64_t(1) << 47);  // no host pointer
  EXPECT_EQ(memory.free_bytes(), (1u << 20) - 512);
  EXPECT_EQ(memory.allocate(1 << 20), 0u);
  EXPECT_EQ(memory.allocate(0), 0u);
  EXPECT_TRUE(memory.release(a));
  EXPECT_FALSE(memory.release(a));
  EXPECT_FALSE(memory.release(b + 1));
  EXPECT_TRUE(memory.release(b));
  EXPECT_EQ(memory.free_bytes(), 1u << 20);
  const DeviceAddress all = memory.allocate(1 << 20);  // the holes have joined again
  EXPECT_NE(all, 0u);
  EXPECT_TRUE(memory.release(all));
}

TEST(DeviceMemory, FreedRangesRestBeforeTheyAreUsedAgain) {
  DeviceMemory memory(3, 1 << 20);
  const DeviceAddress a = memory.allocate(256);
  memory.release(a);
  EXPECT_NE(memory.allocate(256), a);
}

TEST(DeviceMemory, PointersOnlyInsideAllocations) {
  DeviceMemory memory(3, 1 << 20);
  const DeviceAddress a = memory.allocate(100);
  EXPECT_NE(memory.host_pointer(a, 100), nullptr);
  EXPECT_NE(memory.host_pointer(a + 99, 1), nullptr);
  EXPECT_EQ(memory.host_pointer(a, 101), nullptr);
  EXPECT_EQ(memory.host_pointer(a + 100, 1), nullptr);
  EXPECT_EQ(memory.host_pointer(0, 1), nullptr);
  EXPECT_EQ(memory.find(a + 50)->bytes, 100u);
  EXPECT_FALSE(memory.find(a + 100).has_value());
  EXPECT_EQ(memory.live().size(), 1u);
}

TEST(DeviceMemory, TracksWhatWasWritten) {
  DeviceMemory memory(3, 1 << 20);
  const DeviceAddress a = memory.allocate(64), b = memory.allocate(64);
  EXPECT_EQ(memory.first_uninitialised(a, 64), a);
  memory.mark_initialised(a, 10);
  EXPECT_EQ(memory.first_uninitialised(a, 64), a + 10);
  EXPECT_FALSE(memory.first_uninitialised(a, 10).has_value());
  memory.copy_initialised(b, a, 64);
  EXPECT_EQ(memory.first_uninitialised(b, 64), b + 10);
}

TEST(DeviceMemory, HostRangesAndPeersAreReachable) {
  Simulator sim;
  DeviceMemory peer(1, 1 << 20);
  std::vector<uint32_t> host(32, 5);
  sim.memory.map_host(host.data(), 128, MemoryKind::Managed, true);
  const DeviceAddress far = peer.allocate(128);
  sim.load(
      kernel_text(".reg .b64 %a, %b, %o; .reg .b32 %t, %x; mov.u32 %t, %tid.x; ld.param.u64 %a, [in]; ld.param.u64 %b, "
                  "[out]; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; add.u64 %b, %b, %o;\n"
                  "ld.global.u32 %x, [%a]; add.u32 %x, %x, %t; st.global.u32 [%b], %x;"));
  const auto in = reinterpret_cast<DeviceAddress>(host.data());
  EXPECT_EQ(sim.launch("k", {1}, {32}, far, in).error, LaunchError::IllegalAddress);
  sim.memory.add_peer(&peer);
  ASSERT_TRUE(clean(sim.launch("k", {1}, {32}, far, in)));
  EXPECT_EQ(reinterpret_cast<uint32_t*>(peer.host_pointer(far, 128))[7], 12u);
  EXPECT_EQ(sim.memory.find(in)->kind, MemoryKind::Managed);
  sim.memory.remove_peer(&peer);
  EXPECT_TRUE(sim.memory.unmap_host(host.data()));
  EXPECT_EQ(sim.launch("k", {1}, {32}, far, in).error, LaunchError::IllegalAddress);
}

TEST(Arch, NamesAndOccupancy) {
  EXPECT_EQ(parse_arch("sm_90a")->name(), "sm_90a");
  EXPECT_TRUE(parse_arch("compute_100f")->family);
  EXPECT_FALSE(parse_arch("sm_91").has_value());
  EXPECT_FALSE(parse_arch("sm_90b").has_value());
  const Arch arch = *parse_arch("sm_80");
  EXPECT_EQ(occupancy_blocks(arch, 256, 32, 0), 8);      // 2048 threads
  EXPECT_EQ(occupancy_blocks(arch, 256, 64, 0), 4);      // 65536 registers
  EXPECT_EQ(occupancy_blocks(arch, 256, 32, 49152), 3);  // 164 KiB of shared memory
  EXPECT_EQ(occupancy_blocks(arch, 32, 16, 0), 32);      // blocks
  EXPECT_EQ(occupancy_blocks(arch, 1025, 16, 0), 0);
}

}  // namespace
}  // namespace corrloom::sim
