#include "tests/unit/runtime/fake_gpu.h"

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>

#include "ir/base/errors.h"
#include "runtime/host/pool.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime::test {
namespace {

/// Guards all fake devices: their streams wait for one another.
std::recursive_mutex& fake_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

struct Queue {
  std::deque<std::function<void()>> work;
  std::uint64_t done = 0;  ///< pieces of work so far
};

struct Mark {
  Queue* queue;
  std::uint64_t passed_at;
};

void run_until(Queue& queue, std::uint64_t position) {
  while (queue.done < position && !queue.work.empty()) {
    const std::function<void()> piece = std::move(queue.work.front());
    queue.work.pop_front();
    ++queue.done;
    piece();
  }
}

struct FakeCode : LoadedCode {
  const kernel::CompiledProgram* program;
};

class FakeGpu final : public DeviceBackend {
 public:
  explicit FakeGpu(int index) : index_(index) {}
  ~FakeGpu() override {
    synchronise();
    faults().clear();
    strided_copy().clear();
  }

  Device device() const override { return cuda(index_); }
  std::string description() const override { return "fake GPU"; }
  std::string architecture() const override { return "sm_90a"; }
  int multiprocessors() const override { return 2; }
  bool is_asynchronous() const override { return true; }
  std::size_t alignment() const override { return 64; }

  void* allocate(std::size_t bytes, Stream) override { return pool_.allocate(bytes); }
  void free(void* memory, std::size_t bytes, Stream stream) noexcept override {
    push(stream, [this, memory, bytes] {
      // A block that is used after it was given back shows.
      std::memset(memory, 0xEE, bytes);
      pool_.free(memory, bytes);
    });
  }
  MemoryStats memory() const override {
    const_cast<FakeGpu*>(this)->synchronise();
    return pool_.stats();
  }
  void trim(std::int64_t keep_bytes) override {
    synchronise();
    pool_.trim(keep_bytes);
  }
  void set_memory_limit(std::optional<std::int64_t> bytes) override { pool_.set_limit(bytes); }

  void* allocate_pinned(std::size_t bytes) override { return pinned_.allocate(bytes); }
  void free_pinned(void* memory, std::size_t bytes) noexcept override { pinned_.free(memory, bytes); }

  void copy_from_host(void* to, const void* from, std::size_t bytes, Stream stream, HostMemory kind) override {
    if (kind == HostMemory::Pinned) return copy_within(to, from, bytes, stream);
    const auto* const begin = static_cast<const unsigned char*>(from);
    push(stream, [to, staged = std::vector<unsigned char>(begin, begin + bytes)] {
      std::copy(staged.begin(), staged.end(), static_cast<unsigned char*>(to));
    });
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream, HostMemory kind) override {
    copy_within(to, from, bytes, stream);
    if (kind == HostMemory::Pageable) synchronise(stream);
  }
  void copy_within(void* to, const void* from, std::size_t bytes, Stream stream) override {
    push(stream, [=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void copy_from_peer(void* to, DeviceBackend&, const void* from, std::size_t bytes, Stream stream) override {
    copy_within(to, from, bytes, stream);
  }
  void fill(void* to, std::byte value, std::size_t bytes, Stream stream) override {
    push(stream, [=] { std::memset(to, std::to_integer<int>(value), bytes); });
  }

  std::unique_ptr<LoadedCode> load(const kernel::CompiledProgram& program) override {
    if (program.target.kind != kernel::TargetKind::Ptx) throw InternalError("not for this device");
    auto code = std::make_unique<FakeCode>();
    code->program = &program;
    return code;
  }
  void launch(const Launch& launch, Stream stream) override {
    const kernel::Kernel& kernel =
        static_cast<const FakeCode*>(launch.code)->program->kernels[static_cast<std::size_t>(launch.kernel)];
    const HostEntry entry = find_kernel(kernel.name);
    // Parameters are read at launch, as a driver does.
    std::vector<std::uint64_t> values;
    for (int k = 0; k < launch.argument_count; ++k) values.push_back(*static_cast<std::uint64_t*>(launch.arguments[k]));
    push(stream, [&kernel, entry, values, blocks = launch.blocks]() mutable {
      std::vector<void*> arguments;
      for (std::size_t k = 0; k < values.size(); ++k) {
        const auto kind = kernel.arguments[k].kind;
        const bool is_address = kind == kernel::Argument::Kind::Buffer || kind == kernel::Argument::Kind::ErrorSlot;
        arguments.push_back(is_address ? reinterpret_cast<void*>(values[k]) : &values[k]);
      }
      entry(arguments.data(), 0, blocks);
    });
  }

  Stream upload_stream() override { return {&upload_}; }
  Stream download_stream() override { return {&download_}; }
  Stream create_stream() override { return {new Queue}; }
  void destroy_stream(Stream stream) noexcept override {
    synchronise(stream);
    const std::lock_guard lock(fake_mutex());
    queues_.erase(stream.handle);
    delete static_cast<Queue*>(stream.handle);
  }
  Event record(Stream stream) override {
    const std::lock_guard lock(fake_mutex());
    Queue& own = queue(stream);
    return {new Mark{&own, own.done + own.work.size()}};
  }
  void destroy_event(Event event) noexcept override { delete static_cast<Mark*>(event.handle); }
  bool is_done(Event event) override {
    const std::lock_guard lock(fake_mutex());
    const Mark& mark = *static_cast<Mark*>(event.handle);
    return mark.queue->done >= mark.passed_at;
  }
  void wait(Stream stream, Event event) override {
    push(stream, [mark = *static_cast<Mark*>(event.handle)] { run_until(*mark.queue, mark.passed_at); });
  }
  void synchronise(Event event) override {
    const std::lock_guard lock(fake_mutex());
    const Mark& mark = *static_cast<Mark*>(event.handle);
    run_until(*mark.queue, mark.passed_at);
  }
  void synchronise(Stream stream) override {
    const std::lock_guard lock(fake_mutex());
    run_until(queue(stream), ~std::uint64_t{0});
  }
  void synchronise() override {
    const std::lock_guard lock(fake_mutex());
    run_until(main_, ~std::uint64_t{0});
    for (const auto& [handle, used] : queues_) run_until(*static_cast<Queue*>(handle), ~std::uint64_t{0});
  }

 private:
  Queue& queue(Stream stream) {
    if (stream.handle == nullptr) return main_;
    queues_[stream.handle] = true;
    return *static_cast<Queue*>(stream.handle);
  }
  void push(Stream stream, std::function<void()> piece) {
    const std::lock_guard lock(fake_mutex());
    queue(stream).work.push_back(std::move(piece));
  }

  int index_;
  HostPool pool_{std::int64_t{1} << 20};
  HostPool pinned_{std::int64_t{1} << 20};
  Queue main_, upload_, download_;
  std::map<void*, bool> queues_;
};

}  // namespace

BackendRef make_fake_gpu(int index) {
  return std::make_shared<FakeGpu>(index);
}

void use_fake_gpus() {
  static const bool done = [] {
    register_backend(make_fake_gpu(0));
    register_backend(make_fake_gpu(1));
    return true;
  }();
  (void)done;
}

}  // namespace corrloom::runtime::test
