#include <algorithm>
#include <charconv>

#include "runtime/sim/machine.h"

namespace corrloom::sim {
namespace {

/// One architecture. Source: CUDA C Programming Guide, "Compute Capabilities"; clocks and bus of its largest board.
struct ArchRow {
  int number;
  int multiprocessors, threads, blocks, shared_per_mp, shared_optin, reserved;
  int cluster_blocks, clock_khz, memory_clock_khz, bus_bits, l2_bytes;
};
constexpr ArchRow kArchs[] = {
    {70, 80, 2048, 32, 98304, 98304, 0, 0, 1530000, 877000, 4096, 6 << 20},
    {72, 8, 2048, 32, 98304, 98304, 0, 0, 1377000, 1377000, 256, 512 << 10},
    {75, 72, 1024, 16, 65536, 65536, 0, 0, 1770000, 7001000, 384, 6 << 20},
    {80, 108, 2048, 32, 167936, 166912, 1024, 0, 1410000, 1593000, 5120, 40 << 20},
    {86, 84, 1536, 16, 102400, 101376, 1024, 0, 1740000, 9751000, 384, 6 << 20},
    {87, 16, 1536, 16, 167936, 166912, 1024, 0, 1300000, 3200000, 256, 4 << 20},
    {88, 16, 1536, 16, 102400, 101376, 1024, 0, 1740000, 9751000, 384, 6 << 20},
    {89, 142, 1536, 24, 102400, 101376, 1024, 0, 2520000, 10501000, 384, 72 << 20},
    {90, 132, 2048, 32, 233472, 232448, 1024, 8, 1980000, 2619000, 5120, 50 << 20},
    {100, 148, 2048, 32, 233472, 232448, 1024, 8, 1965000, 3996000, 8192, 126 << 20},
    {103, 148, 2048, 32, 233472, 232448, 1024, 8, 1965000, 3996000, 8192, 126 << 20},
    {110, 20, 1536, 24, 233472, 232448, 1024, 8, 1575000, 4266000, 256, 32 << 20},
    {120, 170, 1536, 24, 102400, 101376, 1024, 8, 2617000, 14001000, 512, 96 << 20},
    {121, 48, 1536, 24, 102400, 101376, 1024, 8, 2418000, 8533000, 256, 24 << 20},
};

const ArchRow* find_row(int number) {
  const auto it = std::ranges::find(kArchs, number, &ArchRow::number);
  return it == std::end(kArchs) ? nullptr : it;
}

}  // namespace

std::string Arch::name() const {
  return "sm_" + std::to_string(number) + (accelerated ? "a" : family ? "f" : "");
}

std::optional<Arch> parse_arch(std::string_view text) {
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    Arch arch;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), arch.number);
    if (error != std::errc()) return std::nullopt;
    const std::string_view suffix(end, size_t(text.data() + text.size() - end));
    if (suffix != "" && suffix != "a" && suffix != "f") return std::nullopt;
    arch.accelerated = suffix == "a";
    arch.family = suffix == "f";
    // PTX may name any architecture back to the first with its features; only those of the table can be devices.
    static constexpr int kOld[] = {30, 32, 35, 37, 50, 52, 53, 60, 61, 62};
    if (find_row(arch.number) == nullptr && std::ranges::find(kOld, arch.number) == std::end(kOld)) return std::nullopt;
    return arch;
  }
  return std::nullopt;
}

DeviceLimits device_limits(const Arch& arch) {
  const ArchRow* row = find_row(arch.number);
  if (row == nullptr) row = find_row(70);
  DeviceLimits limits{};
  limits.multiprocessors = row->multiprocessors;
  limits.max_threads_per_multiprocessor = row->threads;
  limits.max_blocks_per_multiprocessor = row->blocks;
  limits.shared_bytes_per_multiprocessor = row->shared_per_mp;
  limits.shared_bytes_per_block_optin = row->shared_optin;
  limits.reserved_shared_bytes_per_block = row->reserved;
  limits.max_cluster_blocks = row->cluster_blocks;
  limits.clock_khz = row->clock_khz;
  limits.memory_clock_khz = row->memory_clock_khz;
  limits.memory_bus_bits = row->bus_bits;
  limits.l2_bytes = row->l2_bytes;
  return limits;
}

int occupancy_blocks(const Arch& arch, int threads_per_block, int registers_per_thread,
                     int64_t shared_bytes_per_block) {
  const DeviceLimits limits = device_limits(arch);
  if (threads_per_block <= 0 || threads_per_block > limits.max_threads_per_block) return 0;
  const int warps = (threads_per_block + 31) / 32;
  int64_t blocks =
      std::min<int64_t>(limits.max_blocks_per_multiprocessor, limits.max_threads_per_multiprocessor / (warps * 32));
  if (registers_per_thread > 0) {
    const int per_warp = (registers_per_thread * 32 + 255) / 256 * 256;
    blocks = std::min<int64_t>(blocks, limits.registers_per_multiprocessor / per_warp / warps);
  }
  if (shared_bytes_per_block > limits.shared_bytes_per_block_optin) return 0;
  const int64_t shared = (shared_bytes_per_block + limits.reserved_shared_bytes_per_block + 127) / 128 * 128;
  if (shared > 0) blocks = std::min(blocks, limits.shared_bytes_per_multiprocessor / shared);
  return int(blocks);
}

}  // namespace corrloom::sim
