#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/sim/machine.h"

namespace corrloom::sim {

/// Text of a file under tests/unit/sim/ptx.
inline std::string read_ptx(const std::string& name) {
  std::ifstream file(std::string(CORRLOOM_TEST_DATA) + "/ptx/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A kernel body with the usual frame around it: parameters `out` and `in` as 64-bit addresses.
inline std::string kernel_text(const std::string& body,
                               const std::string& head = ".version 9.0\n.target sm_90a\n.address_size 64\n") {
  return head + ".visible .entry k(.param .u64 out, .param .u64 in)\n{\n" + body + "\nret;\n}\n";
}

/// One simulated device with what a test needs around it.
class Simulator {
 public:
  explicit Simulator(const std::string& arch = "sm_90a", uint64_t bytes = uint64_t(256) << 20) : memory(0, bytes) {
    options.arch = *parse_arch(arch);
    options.watchdog = std::chrono::milliseconds(20000);
    options.print = [this](std::string_view text) { printed += text; };
  }

  /// Loads a module that must be valid.
  void load(const std::string& text) {
    LoadResult result = load_module(text, options.arch, memory);
    ASSERT_EQ(result.status, LoadStatus::Ok) << result.error_log << text;
    module = std::move(result.module);
  }

  template <class T>
  DeviceAddress upload(const std::vector<T>& values) {
    const DeviceAddress address = memory.allocate(std::max<size_t>(1, values.size() * sizeof(T)));
    std::memcpy(memory.host_pointer(address, values.size() * sizeof(T)), values.data(), values.size() * sizeof(T));
    memory.mark_initialised(address, values.size() * sizeof(T));
    return address;
  }

  template <class T>
  std::vector<T> download(DeviceAddress address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory.host_pointer(address, count * sizeof(T)), count * sizeof(T));
    return values;
  }

  /// Lays out arguments as the kernel's parameters and launches.
  template <class... Args>
  LaunchResult launch(const std::string& kernel, Dim3 grid, Dim3 block, const Args&... args) {
    const std::optional<int> index = module->find_kernel(kernel);
    EXPECT_TRUE(index.has_value()) << kernel;
    const KernelInfo& info = module->kernel(*index);
    std::vector<std::byte> params(info.param_bytes);
    [[maybe_unused]] size_t next = 0;
    (place(params, info, next, args), ...);
    LaunchRequest request;
    request.module = module.get();
    request.kernel = *index;
    request.grid = grid;
    request.block = block;
    request.cluster = cluster;
    request.dynamic_shared_bytes = dynamic_shared;
    request.max_dynamic_shared_bytes = max_dynamic_shared;
    request.cooperative = cooperative;
    request.params = params;
    return sim::launch(request, options);
  }

  DeviceMemory memory;
  LaunchOptions options;
  std::unique_ptr<Module> module;
  std::string printed;
  std::optional<Dim3> cluster;
  uint32_t dynamic_shared = 0, max_dynamic_shared = 0;
  bool cooperative = false;

 private:
  template <class T>
  void place(std::vector<std::byte>& params, const KernelInfo& info, size_t& next, const T& value) {
    ASSERT_LT(next, info.params.size());
    ASSERT_EQ(sizeof(T), info.params[next].bytes);
    std::memcpy(params.data() + info.params[next++].offset, &value, sizeof(T));
  }
};

/// True when nothing went wrong; prints the report otherwise.
inline ::testing::AssertionResult clean(const LaunchResult& result) {
  if (result.error == LaunchError::None) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "error " << int(result.error) << ": " << result.message << "\n"
                                       << result.report();
}

}  // namespace corrloom::sim
