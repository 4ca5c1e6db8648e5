#pragma once

#include <cstdlib>

#include "simulator.h"

namespace corrloom::sim {

/// Stands for the array that `CompiledKernels::run` makes, where it is not the first argument.
struct OutMark {};
inline constexpr OutMark kOut;

/// Tests of one compiled source; the parameter is the file of PTX.
class CompiledKernels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { sim.load(read_ptx(GetParam())); }

  static std::vector<int> numbers(int n) {
    std::vector<int> v(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) v[size_t(i)] = i * 7919 % 1009;
    return v;
  }
  DeviceAddress zeros(size_t words) { return sim.upload(std::vector<int>(words, 0)); }

  /// Launches a kernel and returns `count` elements of what it wrote to the array at `kOut`, or, when no argument says
  /// so, to its first argument.
  template <class T, class... Args>
  std::vector<T> run(const std::string& kernel, Dim3 grid, Dim3 block, int count, const Args&... args) {
    const DeviceAddress out = sim.memory.allocate(sizeof(T) * size_t(count));
    constexpr bool placed = (std::is_same_v<Args, OutMark> || ...);
    const auto argument = [out](const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, OutMark>) {
        return out;
      } else {
        return value;
      }
    };
    if constexpr (placed) {
      EXPECT_TRUE(clean(sim.launch(kernel, grid, block, argument(args)...)));
    } else {
      EXPECT_TRUE(clean(sim.launch(kernel, grid, block, out, args...)));
    }
    return sim.download<T>(out, size_t(count));
  }

  Simulator sim;
};

/// The files to run: those checked in and, to look at what other options of a compiler lead to, the one that
/// CORRLOOM_SIM_TEST_PTX names, if it was compiled from the same source.
inline auto variants(std::vector<std::string> files) {
  const char* extra = std::getenv("CORRLOOM_SIM_TEST_PTX");
  const std::string source = files[0].substr(0, files[0].find('_'));
  if (extra != nullptr && std::string_view(extra).starts_with(source)) files.emplace_back(extra);
  return ::testing::ValuesIn(std::move(files));
}

inline std::string variant_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find('.'));
}

}  // namespace corrloom::sim
