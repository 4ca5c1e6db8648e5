#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/codegen/primitives.h"

namespace corrloom::testing {
namespace {

using scalar::Opcode;

kernel::Target ptx(const std::string& arch) {
  return kernel::ptx_target(arch).value();
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

/// `ptxas` on PATH, or nothing.
std::string find_ptxas() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/ptxas";
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

/// What ptxas says of the text; empty when it has nothing to object.
std::string assemble(const std::string& ptxas, const std::string& arch, const std::string& text) {
  const auto folder = std::filesystem::temp_directory_path() / ("loom_ptx_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string input = folder / "kernels.ptx", log = folder / "log";
  std::ofstream(input) << text;
  const std::string command =
      ptxas + " -O1 -arch=" + arch + " -o " + (folder / "cubin").string() + " " + input + " >" + log + " 2>&1";
  const int status = std::system(command.c_str());
  std::stringstream said;
  said << std::ifstream(log).rdbuf();
  std::filesystem::remove_all(folder);
  return status == 0 ? said.str() : "ptxas failed: " + said.str();
}

class PtxArch : public ::testing::TestWithParam<const char*> {};

TEST_P(PtxArch, AssemblesEveryPrimitive) {
  const std::string ptxas = find_ptxas();
  const std::string arch = GetParam();
  const bool is_baseline = arch == "sm_75" || arch == "sm_80" || arch == "sm_90";
  std::vector<loop::Function> functions;
  for (const auto& group : lowerable_primitives(is_baseline ? std::vector<int>{1, 4} : std::vector<int>{1})) {
    for (const Primitive& primitive : group) {
      functions.push_back(elementwise(primitive.opcode, primitive.operands, primitive.result, primitive.lanes, 16));
    }
  }
  std::vector<codegen::KernelSource> sources;
  for (const loop::Function& function : functions) sources.push_back(source_of(function));
  const auto code = emit_or_fail(sources, ptx(arch));
  EXPECT_EQ(count(code.bytes, ".visible .entry loom_"), static_cast<int>(sources.size()));
  EXPECT_EQ(count(code.bytes, "call"), 0) << "there is no library to call";
  if (ptxas.empty()) GTEST_SKIP() << "skipped: no ptxas";
  EXPECT_EQ(assemble(ptxas, arch, code.bytes), "");
}

INSTANTIATE_TEST_SUITE_P(Archs, PtxArch,
                         ::testing::Values("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"),
                         [](const auto& info) { return std::string(info.param); });

constexpr const char* kRows = R"(
  func @rows stage flat symbols [n, s: f32] (%X: f32[64, 32], %M: bool[64, 32], %Y: f32[64, 32] out, %T: f32[32] shared out) {
    %n: i64 = symbol n
    %s: f32 = symbol s
    %eight: i64 = const 8:i64
    %four: i64 = const 4:i64
    %width: i64 = const 32:i64
    for %b below %n block {
      %row: i64 = mul %b, %width
      for %t below %eight thread {
        %at: i64 = mul %t, %four
        %o: i64 = add %row, %at
        %i: i64x4 = ramp %o by 1
        %m: boolx4 = load %M[%i]
        %x: f32x4 = load %X[%i]
        %sv: f32x4 = splat %s
        %p: f32x4 = mul %x, %sv
        %y: f32x4 = add %p, %x
        %more: f32x4 = load %X[%i] mask %m
        %z: f32x4 = add %y, %more
        store %Y[%i] = %z
        store %T[%at] = %s
        %g: i64x4 = ramp %at by 3
        %w: f32x4 = load %X[%g] mask %m
        store %Y[%i] = %w mask %m
      }
    }
  })";

TEST(Ptx, SplitsAKernelIntoBlocksAndThreads) {
  const auto function = parse_function(kRows);
  codegen::KernelSource source = source_of(function);
  source.alignment_bytes = 16;
  for (const char* arch : {"sm_75", "sm_80", "sm_90", "sm_100"}) {
    const auto code = emit_or_fail({source}, ptx(arch));
    const std::string& text = code.bytes;
    const std::string version = std::to_string(code.ptx_version / 10) + "." + std::to_string(code.ptx_version % 10);
    EXPECT_NE(text.find(".version " + version), std::string::npos) << text.substr(0, 200);
    EXPECT_NE(text.find(std::string(".target ") + arch), std::string::npos);
    EXPECT_NE(text.find(".reqntid 8"), std::string::npos);
    EXPECT_NE(text.find("%ctaid.x"), std::string::npos);
    EXPECT_NE(text.find("%tid.x"), std::string::npos);
    // Rows are multiples of 16 bytes: one access of four lanes, read-only.
    // Two f32 in one register from sm_100 on.
    const std::string wide = code.ptx_version >= 86 ? "v2.b64" : "v4.b32";
    EXPECT_NE(text.find("ld.global.nc." + wide), std::string::npos) << text;
    EXPECT_NE(text.find("st.global." + wide), std::string::npos) << text;
    EXPECT_NE(text.find("st.shared"), std::string::npos) << text;
    const std::string ptxas = find_ptxas();
    if (!ptxas.empty()) {
      EXPECT_EQ(assemble(ptxas, arch, text), "");
    }
  }
}

/// ptxas fuses what has no rounding of its own, so each product and sum must have one.
TEST(Ptx, NeverLeavesAProductToBeFused) {
  const auto code = emit_or_fail({source_of(parse_function(kRows))}, ptx("sm_80"));
  EXPECT_EQ(count(code.bytes, "mul.f32"), 0);
  EXPECT_EQ(count(code.bytes, "add.f32"), 0);
  EXPECT_EQ(count(code.bytes, "fma"), 0);
  EXPECT_GE(count(code.bytes, "mul.rn.f32"), 4);
}

TEST(Ptx, ReadsBuffersThatShareStorageInOrder) {
  codegen::KernelSource source;
  const auto function = parse_function(kRows);
  source = source_of(function);
  source.exclusive_buffers = false;
  EXPECT_EQ(count(emit_or_fail({source}, ptx("sm_80")).bytes, ".nc"), 0);
}

TEST(Ptx, LetsOneThreadStoreBesideTheThreadLoop) {
  const auto function = parse_function(R"(
    func @beside stage flat symbols [] (%X: f32[4], %Y: f32[4] out, %Z: f32[4] out) {
      %four: i64 = const 4:i64
      %two: i64 = const 2:i64
      for %b below %two block {
        for %t below %four thread {
          %x: f32 = load %X[%t]
          store %Y[%t] = %x
        }
        %z: f32 = load %Y[%b]
        store %Z[%b] = %z
      }
    })");
  const std::string text = emit_or_fail({source_of(function)}, ptx("sm_80")).bytes;
  EXPECT_EQ(count(text, "bar.sync"), 3) << text;
  EXPECT_GE(count(text, "setp.eq.b64"), 1) << text;
}

TEST(Ptx, ManyArgumentsNeedAVersionThatHasRoomForThem) {
  const auto with_buffers = [](int count) {
    std::string parameters = "%Y: f32[1] out";
    for (int k = 1; k < count; ++k) parameters += ", %X" + std::to_string(k) + ": f32[1]";
    return parse_function("func @many stage flat symbols [] (" + parameters + R"() {
      %one: i64 = const 1:i64
      %zero: i64 = const 0:i64
      %value: f32 = const 2.0:f32
      for %b below %one block {
        store %Y[%zero] = %value
      }
    })");
  };
  const auto few = with_buffers(512), many = with_buffers(513), too_many = with_buffers(4096);
  EXPECT_EQ(emit_or_fail({source_of(few)}, ptx("sm_80")).ptx_version, 70);
  const codegen::EmittedCode code = emit_or_fail({source_of(many)}, ptx("sm_80"));
  EXPECT_EQ(code.ptx_version, 81);
  EXPECT_EQ(count(code.bytes, ".version 8.1"), 1);
  EXPECT_EQ(emit_or_fail({source_of(many)}, ptx("sm_100")).ptx_version, 86);
  Diagnostics diagnostics;
  EXPECT_FALSE(codegen::emit(std::vector{source_of(too_many)}, ptx("sm_80"), {}, diagnostics));
  EXPECT_NE(diagnostics.render().find("room for arguments"), std::string::npos) << diagnostics.render();
}

TEST(Ptx, RefusesAKernelThatNeedsTooMuchSharedMemory) {
  auto function = parse_function(kRows);
  function.buffers[3].extents[0] = scalar::constant_i64(1 << 20);
  Diagnostics diagnostics;
  EXPECT_FALSE(codegen::emit(std::vector{source_of(function)}, ptx("sm_80"), {}, diagnostics));
  ASSERT_TRUE(diagnostics.has_errors());
  EXPECT_EQ(diagnostics.entries()[0].code, Code::E0301);
  EXPECT_NE(diagnostics.render().find("4194304"), std::string::npos) << diagnostics.render();
}

}  // namespace
}  // namespace corrloom::testing
