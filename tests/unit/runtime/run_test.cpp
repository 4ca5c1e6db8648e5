#include "runtime/run.h"

#include <gtest/gtest.h>

#include <thread>

#include "ir/base/errors.h"
#include "ir/kernel/error_slot.h"
#include "runtime/plan.h"
#include "tests/unit/runtime/fake_gpu.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime {
namespace {

using Tensors = std::vector<Tensor>;

/// Each test runs on the host and on a fake GPU.
class Run : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    test::use_test_loader();
    test::use_fake_gpus();
  }
  Device device() const { return GetParam(); }
  kernel::Target target() const { return device().is_cpu() ? test::host_target() : test::ptx_target_for_tests(); }
  LoadedProgram load(test::ProgramRef program) const { return {std::move(program), backend_of(device())}; }
  Tensor tensor(std::initializer_list<float> values) const {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, device());
  }
  static std::vector<float> values(const Tensor& t) {
    const Tensor host = t.to(cpu()).contiguous();
    return {host.data<float>(), host.data<float>() + host.element_count()};
  }
  template <class Call>
  static std::string error_of(Call call) {
    try {
      call();
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_P(Run, AddsOnFixedAndSymbolicSizes) {
  for (const std::int64_t n : {5, -1}) {
    const LoadedProgram add = load(test::add_program(target(), n));
    EXPECT_EQ(values(add.run(Tensors{tensor({1, 2, 3, 4, 5}), tensor({10, 20, 30, 40, 50})})[0]),
              (std::vector<float>{11, 22, 33, 44, 55}));
  }
  const LoadedProgram add = load(test::add_program(target(), -1));
  EXPECT_EQ(add.run(Tensors{zeros({0}, f32, device()), zeros({0}, f32, device())})[0].shape(), Shape{0});
  EXPECT_EQ(add.output_types(Tensors{zeros({7}, f32, device()), zeros({7}, f32, device())}),
            (std::vector<TensorType>{{f32, {7}}}));
}

TEST_P(Run, WritesIntoTheCallersOutputs) {
  const LoadedProgram add = load(test::add_program(target(), 2));
  const Tensor y = zeros({2}, f32, device());
  add.run_into(Tensors{tensor({1, 2}), tensor({3, 4})}, {}, Tensors{y});
  EXPECT_EQ(values(y), (std::vector<float>{4, 6}));
}

TEST_P(Run, TakesStridedInputs) {
  const LoadedProgram add = load(test::add_program(target(), 3));
  const Tensor matrix = arange({3, 2}, f32, device());
  EXPECT_EQ(values(add.run(Tensors{matrix.select(1, 0), matrix.select(1, 1)})[0]), (std::vector<float>{1, 5, 9}));
}

TEST_P(Run, UsesWorkspacesConstantsAndScalars) {
  const LoadedProgram scale = load(test::scale_program(target()));
  const scalar::Value factor = scalar::Value::f32(2.5f);
  EXPECT_EQ(values(scale.run(Tensors{tensor({1, 2, 3, 4, 6})}, std::span(&factor, 1))[0]),
            (std::vector<float>{2.5, 5, 7.5, 10, 15}));
  EXPECT_EQ(error_of([&] { scale.run(Tensors{zeros({0}, f32, device())}, std::span(&factor, 1)); }),
            "scale needs an element");
  EXPECT_EQ(error_of([&] { scale.run(Tensors{tensor({1})}); }), "op `scale`: found 0 scalars; wanted 1");
  const scalar::Value wrong = scalar::Value::f64(2);
  EXPECT_EQ(error_of([&] { scale.run(Tensors{tensor({1})}, std::span(&wrong, 1)); }),
            "op `scale`: scalar s is f64; wanted f32");
}

TEST_P(Run, UpdatesInPlaceWhereTheOpSaysSo) {
  const LoadedProgram increment = load(test::increment_program(target(), 3));
  const Tensor x = tensor({1, 2, 3});
  const Tensor y = increment.run(Tensors{x})[0];
  EXPECT_TRUE(y.is_same_as(x));
  EXPECT_EQ(values(x), (std::vector<float>{2, 3, 4}));
  increment.run_into(Tensors{x}, {}, Tensors{x});
  EXPECT_EQ(values(x), (std::vector<float>{3, 4, 5}));
  EXPECT_NE(error_of([&] {
              increment.run_into(Tensors{x}, {}, Tensors{zeros({3}, f32, device())});
            }).find("pass that tensor for both"),
            std::string::npos);
  const Tensor strided = zeros({3, 2}, f32, device()).select(1, 0);
  EXPECT_NE(error_of([&] { increment.run(Tensors{strided}); }).find("strided"), std::string::npos);
}

TEST_P(Run, ReportsTheLowestOffendingSubscriptAndStaysUsable) {
  const LoadedProgram gather = load(test::gather_program(target()));
  const Tensor x = tensor({10, 20, 30});
  const Tensor good = Tensor::from<std::int64_t>({2, 0, 1, 1, 2}, {5}, device());
  const Tensor bad = Tensor::from<std::int64_t>({2, 7, 1, -4, 3}, {5}, device());
  EXPECT_EQ(error_of([&] { gather.run(Tensors{x, bad})[0].wait(); }), "X[at[i]]: the subscript is -4");
  EXPECT_EQ(values(gather.run(Tensors{x, good})[0]), (std::vector<float>{30, 10, 20, 20, 30}));
}

TEST_P(Run, NamesWhatDoesNotSuit) {
  const LoadedProgram add = load(test::add_program(target(), 2));
  const std::string on = " on " + device().name();
  const Tensor x = tensor({1, 2});
  EXPECT_EQ(error_of([&] { add.run(Tensors{x}); }), "op `add`: found 1 tensors; wanted 2");
  EXPECT_EQ(error_of([&] {
              add.run(Tensors{x, tensor({1, 2, 3})});
            }),
            "op `add`: Z is f32[3]" + on + "; wanted f32[2]");
  EXPECT_EQ(error_of([&] {
              add.run(Tensors{x, zeros({2}, f64, device())});
            }),
            "op `add`: Z is f64[2]" + on + "; wanted f32[2]");
  EXPECT_EQ(error_of([&] {
              add.run(Tensors{x, zeros({1, 2}, f32, device())});
            }),
            "op `add`: Z is f32[1, 2]" + on + "; wanted f32[2]");
  EXPECT_EQ(error_of([&] { add.run(Tensors{x, Tensor()}); }), "a tensor is used that was never given a value");
  EXPECT_NE(error_of([&] {
              add.run(Tensors{x, zeros({2}, f32, cuda(1))});
            }).find("Z is f32[2] on cuda:1, but the op runs on " + device().name() + "; use `Z.to("),
            std::string::npos);
  const LoadedProgram symbolic = load(test::add_program(target(), -1));
  EXPECT_EQ(error_of([&] {
              symbolic.run(Tensors{x, tensor({1, 2, 3})});
            }),
            "op `add`: Z is f32[3]" + on + "; wanted f32[2]");
}

TEST_P(Run, RefusesOverlappingOutputs) {
  const LoadedProgram add = load(test::add_program(target(), 2));
  const Tensor whole = arange({3}, f32, device());
  const Tensor x = whole.slice(0, 0, 2), y = whole.slice(0, 1, 3);
  EXPECT_EQ(error_of([&] {
              add.run_into(Tensors{x, x}, {}, Tensors{y});
            }),
            "op `add`: output Y overlaps input X; use a tensor of its own");
  const Tensor strided = zeros({2, 2}, f32, device()).select(1, 0);
  EXPECT_NE(error_of([&] {
              add.run_into(Tensors{x, x}, {}, Tensors{strided});
            }).find("an output must be dense"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { add.run_into(Tensors{x, x}, {}, Tensors{}); }), "op `add`: found 0 outputs; wanted 1");
}

TEST_P(Run, GivesAllMemoryBack) {
  const std::int64_t before = backend_of(device())->memory().in_use;
  {
    const LoadedProgram scale = load(test::scale_program(target()));
    const LoadedProgram gather = load(test::gather_program(target()));
    const scalar::Value factor = scalar::Value::f32(1);
    scale.run(Tensors{tensor({1, 2})}, std::span(&factor, 1));
    (void)error_of([&] { gather.run(Tensors{tensor({1}), Tensor::from<std::int64_t>({1}, {1}, device())})[0].wait(); });
  }
  EXPECT_EQ(backend_of(device())->memory().in_use, before);
}

TEST_P(Run, SurvivesOutOfMemory) {
  const LoadedProgram add = load(test::add_program(target(), -1));
  const Tensor x = zeros({100000}, f32, device());
  const BackendRef backend = backend_of(device());
  backend->set_memory_limit(backend->memory().in_use + 1000);
  EXPECT_THROW(add.run(Tensors{x, x}), RuntimeError);
  backend->set_memory_limit(std::nullopt);
  EXPECT_EQ(add.run(Tensors{x, x})[0].shape(), Shape{100000});
}

TEST_P(Run, ServesManyThreadsAtOnce) {
  const LoadedProgram scale = load(test::scale_program(target()));
  std::vector<std::thread> threads;
  for (int number = 1; number <= 4; ++number) {
    threads.emplace_back([&, number] {
      const scalar::Value factor = scalar::Value::f32(static_cast<float>(number));
      for (int round = 0; round < 50; ++round) {
        EXPECT_EQ(values(scale.run(Tensors{tensor({1, 2, 3, 4, 5})}, std::span(&factor, 1))[0])[4],
                  5.0f * static_cast<float>(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, Run, testing::Values(cpu(), cuda(0)),
                         [](const auto& info) { return info.param.is_cpu() ? "Cpu" : "FakeGpu"; });

TEST(RunOnHost, GivesTheSameBitsForEveryNumberOfThreads) {
  test::use_test_loader();
  const LoadedProgram add(test::add_program(test::host_target(), -1), backend_of(cpu()));
  const Tensor x = arange({100003});
  const int before = host_threads();
  for (const int threads : {1, 2, 5}) {
    set_host_threads(threads);
    EXPECT_EQ(add.run(Tensors{x, x})[0].at({100002}).as_f64(), 200004);
  }
  set_host_threads(before);
}

TEST(RunOnHost, MalformedProgramsAreInternalErrors) {
  test::use_test_loader();
  const auto refuses = [](auto change) {
    const test::ProgramRef program = test::add_program(test::host_target(), -1);
    change(*program);
    EXPECT_THROW(LoadedProgram(program, backend_of(cpu())), InternalError);
  };
  refuses([](auto& p) { p.kernels[0].name = "missing"; });
  refuses([](auto& p) { p.kernels[0].arguments[0].index = 9; });
  refuses([](auto& p) { p.symbols[0].axis = 1; });
  refuses([](auto& p) { p.buffers[2].storage_of = 2; });
  refuses([](auto& p) { p.buffers[2].storage_of = 7; });
  refuses([](auto& p) { p.buffers[0].storage_of = 1; });
}

TEST(RunOnHost, SizesThatOverflowAreInputErrors) {
  test::use_test_loader();
  const test::ProgramRef program = test::add_program(test::host_target(), -1);
  program->buffers[2].extents[0].code.insert(
      program->buffers[2].extents[0].code.end(),
      {{kernel::SizeOp::Kind::Constant, std::int64_t{1} << 62}, {kernel::SizeOp::Kind::Mul}});
  const LoadedProgram add(program, backend_of(cpu()));
  EXPECT_THROW(add.run(Tensors{zeros({4}), zeros({4})}), InputError);
  EXPECT_THROW(add.run(Tensors{zeros({1}), zeros({1})}), InputError);
}

TEST(Plan, NeighboursDoNotShareMemoryAndOthersMay) {
  const test::ProgramRef program = test::scale_program(test::host_target());
  const Plan plan = make_plan(*program, storage_roots(*program), {1000, 0});
  EXPECT_EQ(plan.arena_offset[1], plan.arena_offset[3]);
  EXPECT_GE(std::abs(plan.arena_offset[1] - plan.arena_offset[2]), 4000);
  EXPECT_EQ(plan.arena_offset[0], -1);
  EXPECT_LE(plan.arena_bytes, 8000 + 256);
}

TEST(Plan, WorkFollowsTheSizesOfTheCall) {
  const test::ProgramRef program = test::add_program(test::host_target(), -1);
  kernel::Kernel& kernel = program->kernels[0];
  kernel.bytes = 3 * 4 * 512;
  kernel.flops = 512;
  const auto work = [&](std::int64_t extent) {
    return make_plan(*program, storage_roots(*program), {extent}).work.at(0);
  };
  EXPECT_DOUBLE_EQ(work(8).bytes, 3 * 4 * 8);
  EXPECT_DOUBLE_EQ(work(8).flops, 8);
  EXPECT_DOUBLE_EQ(work(1024).flops, 1024);
  kernel.flops = 64 * kernel.bytes;  // as of a product, whose operands are used many times
  EXPECT_DOUBLE_EQ(work(8).flops, kernel.flops / 64 / 8);
  EXPECT_DOUBLE_EQ(work(1024).flops, kernel.flops * 2);
}

TEST(ErrorSlot, KeepsSiteAndClampedValueInOrder) {
  using namespace kernel;
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-5}, std::int64_t{123456789}}) {
    EXPECT_EQ(fault_site(encode_fault(3, value)), 3);
    EXPECT_EQ(fault_value(encode_fault(3, value)), value);
  }
  EXPECT_LT(encode_fault(0, 100), encode_fault(1, -100));
  EXPECT_LT(encode_fault(1, -100), encode_fault(1, 0));
  EXPECT_EQ(fault_value(encode_fault(0, INT64_MAX)), kFaultValueBias - 1);
  EXPECT_LT(encode_fault(65534, INT64_MAX), kNoFault);
}

TEST(DeviceOfOperands, NamesEveryOperandAndTheFix) {
  test::use_fake_gpus();
  const std::vector<std::string> names = {"X", "K"};
  const Tensors mixed = {zeros({1}), zeros({1}, f32, cuda(1))};
  EXPECT_EQ(device_of_operands("conv", names, Tensors{mixed[1], mixed[1]}), cuda(1));
  EXPECT_EQ(device_of_operands("eye", {}, {}), cpu());
  EXPECT_EQ(device_of_operands("eye", {}, {}, cuda(1)), cuda(1));
  try {
    device_of_operands("conv", names, mixed);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "op `conv` needs its operands on one device: X is on cpu, K is on cuda:1\n  help: use `K.to(cpu())`");
  }
  EXPECT_THROW(device_of_operands("conv", names, Tensors{mixed[0], mixed[0]}, cuda(0)), InputError);
}

}  // namespace
}  // namespace corrloom::runtime
