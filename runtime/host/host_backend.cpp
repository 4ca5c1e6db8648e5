#include "runtime/host/host_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>

#include "ir/base/errors.h"
#include "runtime/host/pool.h"

namespace corrloom::runtime {
namespace {

/// What one fast core does in a nanosecond, for the choice between one thread and several only.
constexpr double kFlopsPerNs = 200;
constexpr double kBytesPerNs = 30, kBytesPerNsOfL3 = 120, kBytesPerNsOfL2 = 250;

/// The least time for reading and writing as many bytes: of the smallest cache that holds them, half of what all cores
/// share.
double traffic_ns(double bytes, const kernel::Target& target) {
  if (bytes <= static_cast<double>(target.l2_bytes)) return bytes / kBytesPerNsOfL2;
  if (bytes <= static_cast<double>(target.l3_bytes) / 2) return bytes / kBytesPerNsOfL3;
  return bytes / kBytesPerNs;
}

/// The loader that the layer above has set.
struct LoaderSlot {
  std::mutex mutex;
  HostLoader loader;
};
LoaderSlot& loader_slot() {
  static LoaderSlot slot;
  return slot;
}

class LoadedHostCode : public LoadedCode {
 public:
  LoadedHostCode(std::unique_ptr<HostCode> code, const kernel::CompiledProgram& program)
      : code_(std::move(code)), target_(program.target) {
    for (const kernel::Kernel& kernel : program.kernels) {
      void* const entry = code_->find(kernel.name);
      CORRLOOM_CHECK(entry != nullptr, "the code of op ", program.op, " has no kernel ", kernel.name);
      entries_.push_back(reinterpret_cast<HostEntry>(entry));
    }
  }
  HostEntry entry(int kernel) const { return entries_[static_cast<std::size_t>(kernel)]; }
  const kernel::Target& target() const { return target_; }

 private:
  std::unique_ptr<HostCode> code_;
  const kernel::Target target_;
  std::vector<HostEntry> entries_;
};

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos)
      return line.substr(std::min(colon + 2, line.size()));
  }
  return "host processor";
}

std::int64_t kept_limit() {
  const std::int64_t physical = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::max<std::int64_t>(physical / 4, std::int64_t{64} << 20);
}

class HostBackend final : public DeviceBackend {
 public:
  Device device() const override { return cpu(); }
  std::string description() const override {
    return processor_name() + ", " + std::to_string(host_threads()) + (host_threads() == 1 ? " thread" : " threads");
  }
  std::string architecture() const override { return "host"; }
  int multiprocessors() const override { return host_threads(); }
  bool is_asynchronous() const override { return false; }
  std::size_t alignment() const override { return HostPool::kAlignment; }

  void* allocate(std::size_t bytes, Stream) override { return pool_.allocate(bytes); }
  void free(void* memory, std::size_t bytes, Stream) noexcept override { pool_.free(memory, bytes); }
  MemoryStats memory() const override { return pool_.stats(); }
  void trim(std::int64_t keep_bytes) override { pool_.trim(keep_bytes); }
  void set_memory_limit(std::optional<std::int64_t> bytes) override { pool_.set_limit(bytes); }

  void* allocate_pinned(std::size_t bytes) override { return pool_.allocate(bytes); }
  void free_pinned(void* memory, std::size_t bytes) noexcept override { pool_.free(memory, bytes); }

  void copy_from_host(void* to, const void* from, std::size_t bytes, Stream, HostMemory) override {
    copy(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, Stream, HostMemory) override {
    copy(to, from, bytes);
  }
  void copy_within(void* to, const void* from, std::size_t bytes, Stream) override { copy(to, from, bytes); }
  void copy_from_peer(void* to, DeviceBackend&, const void* from, std::size_t bytes, Stream) override {
    copy(to, from, bytes);
  }
  void fill(void* to, std::byte value, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memset(to, std::to_integer<int>(value), bytes);
  }

  std::unique_ptr<LoadedCode> load(const kernel::CompiledProgram& program) override {
    CORRLOOM_CHECK(program.target.kind == kernel::TargetKind::Host, "op ", program.op, " is compiled for ",
                   program.target.name, ", not for the host");
    HostLoader loader;
    {
      LoaderSlot& slot = loader_slot();
      const std::lock_guard lock(slot.mutex);
      loader = slot.loader;
    }
    CORRLOOM_CHECK(loader != nullptr, "no loader of host code is set");
    std::unique_ptr<HostCode> code = loader(program.code);
    CORRLOOM_CHECK(code != nullptr, "the loader of host code gave nothing for op ", program.op);
    return std::make_unique<LoadedHostCode>(std::move(code), program);
  }

  void launch(const Launch& launch, Stream) override {
    const auto* const code = static_cast<const LoadedHostCode*>(launch.code);
    const HostEntry entry = code->entry(launch.kernel);
    if (launch.blocks == 1) return entry(launch.arguments, 0, 1);
    const double work_ns = std::max(launch.flops / kFlopsPerNs, traffic_ns(launch.bytes, code->target()));
    for_each_range(launch.blocks, work_ns,
                   [&](std::int64_t first, std::int64_t last) { entry(launch.arguments, first, last); });
  }

  Stream create_stream() override { return {}; }
  void destroy_stream(Stream) noexcept override {}
  Event record(Stream) override { return {}; }
  void destroy_event(Event) noexcept override {}
  bool is_done(Event) override { return true; }
  void wait(Stream, Event) override {}
  void synchronise(Event) override {}
  void synchronise(Stream) override {}
  void synchronise() override {}

 private:
  /// A copy by as many threads as it pays for.
  static void copy(void* to, const void* from, std::size_t bytes) {
    constexpr std::size_t kPart = std::size_t{256} << 10;
    for_each_range(static_cast<std::int64_t>((bytes + kPart - 1) / kPart), static_cast<double>(bytes) / kBytesPerNs,
                   [&](std::int64_t first, std::int64_t last) {
                     const std::size_t begin = static_cast<std::size_t>(first) * kPart;
                     const std::size_t end = std::min(bytes, static_cast<std::size_t>(last) * kPart);
                     std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                                 end - begin);
                   });
  }

  HostPool pool_{kept_limit()};
};

}  // namespace

void set_host_loader(HostLoader loader) {
  LoaderSlot& slot = loader_slot();
  const std::lock_guard lock(slot.mutex);
  slot.loader = std::move(loader);
}

BackendRef make_host_backend() {
  return std::make_shared<HostBackend>();
}

}  // namespace corrloom::runtime
