#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "ir/base/errors.h"
#include "runtime/backend.h"
#include "runtime/layout.h"
#include "tests/unit/runtime/fake_driver.h"
#include "tests/unit/runtime/fake_gpu.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime {
namespace {

/// Two devices of a kind, and what they need to live.
struct Devices {
  std::shared_ptr<void> environment;
  BackendRef first, second;
};

/// One kind of device that the suite runs against.
struct BackendCase {
  const char* name;
  std::function<Devices()> make;
  std::function<kernel::Target()> target;
  bool needs_ptx = false;  ///< the driver compiles real PTX
};

Devices two_of(const std::function<BackendRef(int)>& make) {
  return {nullptr, make(0), make(1)};
}
/// The CUDA backend, on a driver made of host memory.
Devices on_fake_driver() {
  auto driver = std::make_shared<test::FakeDriver>();
  const gpu::CudaDevices found = test::FakeDriver::devices();
  return {driver, found.backends.at(0), found.backends.at(1)};
}

/// Devices of a driver that is a library; none when it does not start.
Devices on_driver(const std::string& setting) {
  const gpu::CudaDevices found = gpu::devices_of(gpu::find_driver(setting));
  const auto device = [&](std::size_t k) { return k < found.backends.size() ? found.backends[k] : nullptr; };
  return {nullptr, device(0), device(1)};
}

/// The kernel `add` of `test_programs.h`: block b computes elements 4b to 4b + 3.
constexpr const char* kAddPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 X, .param .u64 Z, .param .u64 Y, .param .u64 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [X];
  ld.param.u64 %rd2, [Z];
  ld.param.u64 %rd3, [Y];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  cvta.to.global.u64 %rd3, %rd3;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd4, 4;
  ld.param.u64 %rd6, [n];
  min.s64 %rd5, %rd5, %rd6;
NEXT:
  setp.ge.s64 %p1, %rd4, %rd5;
  @%p1 bra DONE;
  shl.b64 %rd7, %rd4, 2;
  add.s64 %rd8, %rd1, %rd7;
  ld.global.f32 %f1, [%rd8];
  add.s64 %rd9, %rd2, %rd7;
  ld.global.f32 %f2, [%rd9];
  add.rn.f32 %f3, %f1, %f2;
  add.s64 %rd10, %rd3, %rd7;
  st.global.f32 [%rd10], %f3;
  add.s64 %rd4, %rd4, 1;
  bra NEXT;
DONE:
  ret;
}
)";

class DeviceConformance : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    test::use_test_loader();
    devices = GetParam().make();
    device = devices.first;
    if (device == nullptr) GTEST_SKIP() << "no such device on this machine";
  }
  void TearDown() override {
    device = devices.first = devices.second = nullptr;
    if (devices.environment == nullptr) return;
    EXPECT_EQ(std::static_pointer_cast<test::FakeDriver>(devices.environment)->leaks(), "");
  }
  void* upload(const std::vector<float>& values, Stream stream = {}) {
    void* const memory = device->allocate(values.size() * 4, stream);
    device->copy_from_host(memory, values.data(), values.size() * 4, stream);
    return memory;
  }
  std::vector<float> download(const void* memory, std::size_t count, Stream stream = {}) {
    std::vector<float> values(count);
    device->copy_to_host(values.data(), memory, count * 4, stream);
    device->synchronise(stream);
    return values;
  }
  /// The program of `add`, in a form that the device runs.
  test::ProgramRef add_program(std::int64_t n) {
    test::ProgramRef program = test::add_program(GetParam().target(), n);
    if (GetParam().needs_ptx) program->code = kAddPtx;
    return program;
  }
  /// Launches `add` on memory of the device.
  void add(const LoadedCode& code, void* x, void* z, void* y, std::int64_t n, Stream stream = {}) {
    const bool direct = GetParam().target().kind == kernel::TargetKind::Host;
    void* addresses[] = {x, z, y};
    void* arguments[] = {direct ? x : &addresses[0], direct ? z : &addresses[1], direct ? y : &addresses[2], &n};
    device->launch({.code = &code, .kernel = 0, .blocks = (n + 3) / 4, .arguments = arguments, .argument_count = 4},
                   stream);
  }
  Devices devices;
  BackendRef device;
};

TEST_P(DeviceConformance, CopiesBetweenLayouts) {
  if (GetParam().target().kind == kernel::TargetKind::Host) GTEST_SKIP() << "the host copies without a kernel";
  // Eight axes that no two layouts walk alike, one of them backwards; gaps in the target stay as they are.
  const Extents shape = {2, 3, 2, 1, 2, 3, 2, 2};
  const Extents from = {72, 1, 36, 5, 6, 12, 3, 144}, to = {1, 2, 6, 100, 48, -12, 96, 200};
  const std::int64_t from_count = 288, to_first = 24, to_count = 512;
  for (const int bytes : {1, 2, 4, 8}) {
    std::vector<std::byte> source(static_cast<std::size_t>(from_count * bytes)), wanted, found;
    for (std::size_t k = 0; k < source.size(); ++k) source[k] = static_cast<std::byte>(k * 7 + k / 251);
    wanted.assign(static_cast<std::size_t>(to_count * bytes), std::byte{0xee});
    found = wanted;
    copy_elements(wanted.data() + to_first * bytes, to, source.data(), from, shape, bytes);
    void* const source_memory = device->allocate(source.size());
    void* const target_memory = device->allocate(found.size());
    device->copy_from_host(source_memory, source.data(), source.size());
    device->copy_from_host(target_memory, found.data(), found.size());
    device->strided_copy().run(*device, static_cast<std::byte*>(target_memory) + to_first * bytes, source_memory,
                               copy_axes(shape, to, from), bytes, {});
    device->copy_to_host(found.data(), target_memory, found.size());
    device->synchronise(Stream{});
    EXPECT_EQ(found, wanted) << bytes << " bytes";
    device->free(source_memory, source.size());
    device->free(target_memory, found.size());
  }
}

TEST_P(DeviceConformance, NamesItself) {
  EXPECT_FALSE(device->description().empty());
  EXPECT_FALSE(device->architecture().empty());
  EXPECT_GE(device->multiprocessors(), 1);
}

TEST_P(DeviceConformance, AllocatesAlignedDistinctMemoryAlsoForNoBytes) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{65}, std::size_t{5000}, std::size_t{3} << 20}) {
    void* const a = device->allocate(bytes);
    void* const b = device->allocate(bytes);
    EXPECT_NE(a, nullptr);
    EXPECT_NE(a, b);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % device->alignment(), 0u) << bytes;
    device->free(a, bytes);
    device->free(b, bytes);
  }
}

TEST_P(DeviceConformance, CountsMemory) {
  const MemoryStats before = device->memory();
  void* const memory = device->allocate(1000);
  EXPECT_GE(device->memory().in_use, before.in_use + 1000);
  EXPECT_GE(device->memory().peak, before.in_use + 1000);
  EXPECT_GE(device->memory().reserved, device->memory().in_use);
  device->free(memory, 1000);
  EXPECT_EQ(device->memory().in_use, before.in_use);
  device->trim();
  EXPECT_EQ(device->memory().reserved, device->memory().in_use);
}

TEST_P(DeviceConformance, SaysOutOfMemoryAndGoesOn) {
  device->set_memory_limit(device->memory().in_use + 4096);
  EXPECT_THROW(device->allocate(1 << 20), RuntimeError);
  void* const small = device->allocate(100);
  device->free(small, 100);
  device->set_memory_limit(std::nullopt);
  void* const large = device->allocate(1 << 20);
  device->free(large, 1 << 20);
  try {
    device->allocate(std::size_t{1} << 60);
    ADD_FAILURE() << "no machine has 2^60 bytes";
  } catch (const RuntimeError& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos) << error.what();
  }
}

TEST_P(DeviceConformance, CopiesAndFills) {
  void* const a = upload({1, 2, 3, 4, 5});
  void* const b = device->allocate(20);
  device->fill(b, std::byte{0}, 20);
  EXPECT_EQ(download(b, 5), (std::vector<float>{0, 0, 0, 0, 0}));
  device->copy_within(b, static_cast<float*>(a) + 1, 12);
  EXPECT_EQ(download(b, 5), (std::vector<float>{2, 3, 4, 0, 0}));
  device->copy_from_host(b, nullptr, 0);
  device->free(a, 20);
  device->free(b, 20);
}

TEST_P(DeviceConformance, CopiesFromAPeer) {
  const BackendRef peer = devices.second;
  if (peer == nullptr) GTEST_SKIP() << "one device alone";
  const float values[] = {7, 8};
  void* const there = peer->allocate(8);
  peer->copy_from_host(there, values, 8);
  peer->synchronise();
  void* const here = device->allocate(8);
  device->copy_from_peer(here, *peer, there, 8);
  EXPECT_EQ(download(here, 2), (std::vector<float>{7, 8}));
  peer->free(there, 8);
  device->free(here, 8);
}

TEST_P(DeviceConformance, RunsKernelsInStreamOrder) {
  const test::ProgramRef program = add_program(6);
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const x = upload({1, 2, 3, 4, 5, 6});
  void* const y = device->allocate(24);
  add(*code, x, x, y, 6);
  add(*code, y, x, x, 6);
  EXPECT_EQ(download(x, 6), (std::vector<float>{3, 6, 9, 12, 15, 18}));
  device->free(x, 24);
  device->free(y, 24);
}

TEST_P(DeviceConformance, ReadsArgumentsBeforeLaunchReturns) {
  const test::ProgramRef program = add_program(2);
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const x = upload({1, 2});
  void* const y = upload({0, 0});
  for (int round = 0; round < 3; ++round) add(*code, x, y, y, 2);
  EXPECT_EQ(download(y, 2), (std::vector<float>{3, 6}));
  device->free(x, 8);
  device->free(y, 8);
}

TEST_P(DeviceConformance, RefusesCodeForAnotherDevice) {
  const bool is_host = GetParam().target().kind == kernel::TargetKind::Host;
  const test::ProgramRef program = test::add_program(is_host ? test::ptx_target_for_tests() : test::host_target(), 2);
  EXPECT_ANY_THROW(device->load(*program));
}

TEST_P(DeviceConformance, OrdersStreamsByEvents) {
  const test::ProgramRef program = add_program(4);
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  const Stream first = device->create_stream(), second = device->create_stream();
  void* const x = upload({1, 2, 3, 4}, first);
  void* const y = device->allocate(16, first);
  add(*code, x, x, y, 4, first);
  const Event event = device->record(first);
  device->wait(second, event);
  add(*code, y, y, y, 4, second);
  EXPECT_EQ(download(y, 4, second), (std::vector<float>{4, 8, 12, 16}));
  EXPECT_TRUE(device->is_done(event));
  device->synchronise(event);
  device->destroy_event(event);
  device->free(x, 16, second);
  device->free(y, 16, second);
  device->synchronise(second);
  device->destroy_stream(first);
  device->destroy_stream(second);
}

TEST_P(DeviceConformance, ServesManyThreadsAtOnce) {
  const test::ProgramRef program = add_program(64);
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 50; ++round) {
        const std::vector<float> values(64, static_cast<float>(number * 100 + round));
        void* const x = upload(values);
        void* const y = device->allocate(256);
        add(*code, x, x, y, 64);
        EXPECT_EQ(download(y, 64)[63], 2 * values[0]);
        device->free(x, 256);
        device->free(y, 256);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->memory().in_use, 0);
}

TEST_P(DeviceConformance, ReusesMemoryInTheOrderOfStreams) {
  const test::ProgramRef program = add_program(1024);
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  const Stream second = device->create_stream();
  const std::vector<float> ones(1024, 1), fives(1024, 5);
  void* const y = device->allocate(4096);
  void* const x = upload(ones);
  // The default stream still has to read x when it is given back and its bytes are asked for again.
  add(*code, x, x, y, 1024);
  device->free(x, 4096);
  void* const same_stream = upload(fives);
  device->free(same_stream, 4096);
  void* const other_stream = upload(fives, second);
  EXPECT_EQ(download(y, 1024), std::vector<float>(1024, 2));
  EXPECT_EQ(download(other_stream, 1024, second), fives);
  device->free(other_stream, 4096, second);
  device->free(y, 4096);
  device->synchronise();
  device->destroy_stream(second);
  EXPECT_EQ(device->memory().in_use, 0);
}

TEST_P(DeviceConformance, FreesBehindAnotherStream) {
  const test::ProgramRef program = add_program(1024);
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  const Stream second = device->create_stream();
  const std::vector<float> ones(1024, 1), fives(1024, 5);
  // Ten blocks of the default stream end behind work of the second one; taken again, none may be written too early.
  std::vector<void*> sums;
  for (int round = 0; round < 10; ++round) {
    void* const x = upload(ones);
    const Event uploaded = device->record();
    device->wait(second, uploaded);
    device->destroy_event(uploaded);
    void* const y = device->allocate(4096, second);
    add(*code, x, x, y, 1024, second);
    device->free(x, 4096, second);
    sums.push_back(y);
    void* const again = upload(fives);
    device->free(again, 4096);
  }
  for (void* const y : sums) {
    EXPECT_EQ(download(y, 1024, second), std::vector<float>(1024, 2));
    device->free(y, 4096, second);
  }
  device->synchronise();
  device->destroy_stream(second);
  EXPECT_EQ(device->memory().in_use, 0);
}

TEST_P(DeviceConformance, CopiesMoreThanTheStagingRingHolds) {
  const std::size_t count = (std::size_t{40} << 20) / 4 + 3;
  std::vector<float> values(count);
  for (std::size_t k = 0; k < count; ++k) values[k] = static_cast<float>(k % 8191);
  void* const memory = device->allocate(count * 4);
  device->copy_from_host(memory, values.data(), count * 4);
  const std::vector<float> sent = values;
  std::fill(values.begin(), values.end(), -1.0F);  // pageable memory is free again on return
  device->copy_to_host(values.data(), memory, count * 4);
  EXPECT_EQ(values, sent);
  device->free(memory, count * 4);
}

TEST_P(DeviceConformance, CopiesPinnedMemoryAsWorkOfTheStream) {
  auto* const pinned = static_cast<float*>(device->allocate_pinned(64));
  std::iota(pinned, pinned + 16, 0.0F);
  void* const memory = device->allocate(64);
  device->copy_from_host(memory, pinned, 64, {}, HostMemory::Pinned);
  device->synchronise(Stream{});
  std::fill(pinned, pinned + 16, -1.0F);
  device->copy_to_host(pinned, memory, 64, {}, HostMemory::Pinned);
  device->synchronise(Stream{});
  EXPECT_EQ(pinned[15], 15);
  device->free(memory, 64);
  device->free_pinned(pinned, 64);
}

TEST_P(DeviceConformance, CopiesFromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      const std::size_t count = (std::size_t{5} << 20) / 4;
      std::vector<float> values(count, static_cast<float>(number)), back(count);
      void* const memory = device->allocate(count * 4);
      device->copy_from_host(memory, values.data(), count * 4);
      device->copy_to_host(back.data(), memory, count * 4);
      EXPECT_EQ(back, values);
      device->free(memory, count * 4);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    Backends, DeviceConformance,
    testing::Values(
        BackendCase{"Host", [] { return two_of([](int) { return make_host_backend(); }); }, test::host_target},
        BackendCase{"FakeGpu", [] { return two_of(test::make_fake_gpu); }, test::ptx_target_for_tests},
        BackendCase{"FakeDriver", on_fake_driver, test::ptx_target_for_tests},
        BackendCase{"Simulated", [] { return on_driver(CORRLOOM_SIM_DRIVER); }, test::ptx_target_for_tests, true},
        BackendCase{"Real", [] { return on_driver("auto"); }, test::ptx_target_for_tests, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace corrloom::runtime
