#include <chrono>
#include <random>

#include "runtime/sim/ptx/lexer.h"
#include "runtime/sim/ptx/module.h"
#include "simulator.h"

/// The text side: what parses, what is refused and how, and that no text does harm.
namespace corrloom::sim {
namespace {

const std::string kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";

LoadResult load(const std::string& text, const std::string& arch = "sm_90a") {
  static thread_local DeviceMemory memory(9, uint64_t(64) << 20);
  LoadResult result = load_module(text, *parse_arch(arch), memory);
  result.module.reset();  // the memory outlives it
  return result;
}

void expect_error(const std::string& text, int line, const std::string& part) {
  const LoadResult result = load(text);
  EXPECT_EQ(result.status, LoadStatus::InvalidPtx) << text;
  EXPECT_NE(result.error_log.find("line " + std::to_string(line) + ";"), std::string::npos) << result.error_log << text;
  EXPECT_NE(result.error_log.find(part), std::string::npos) << result.error_log << text;
}

std::string body(const std::string& text) {
  return kHead +
         ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred "
         "%p<4>;\n" +
         text + "\nret;\n}\n";
}

TEST(Lexer, NumbersOfEveryForm) {
  const auto tokens = ptx::tokenize("42 0x2A 052 0b101010 42U 0f3F800000 0d3FF0000000000000 1.5 1e3 .5d");
  ASSERT_EQ(tokens.size(), 11u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(tokens[size_t(i)].bits, 42u);
  EXPECT_TRUE(tokens[4].is_unsigned);
  EXPECT_EQ(tokens[5].kind, ptx::TokenKind::Float32);
  EXPECT_EQ(tokens[5].bits, 0x3F800000u);
  EXPECT_EQ(tokens[6].bits, 0x3FF0000000000000u);
  EXPECT_EQ(std::bit_cast<double>(tokens[7].bits), 1.5);
  EXPECT_EQ(std::bit_cast<double>(tokens[8].bits), 1000.0);
  EXPECT_EQ(tokens[9].kind, ptx::TokenKind::Dot);
}

TEST(Lexer, CommentsAndLines) {
  const auto tokens = ptx::tokenize("a // b\n/* c\n d */ e\n# 1 \"file\"\nf");
  ASSERT_EQ(tokens.size(), 4u);
  EXPECT_EQ(tokens[1].text, "e");
  EXPECT_EQ(tokens[1].line, 3);
  EXPECT_EQ(tokens[2].line, 5);
  EXPECT_THROW(ptx::tokenize("/* open"), ptx::SyntaxError);
  EXPECT_THROW(ptx::tokenize("99999999999999999999999"), ptx::SyntaxError);
  EXPECT_THROW(ptx::tokenize("\"open"), ptx::SyntaxError);
}

TEST(Parser, AcceptsDebugInformationAndPragmas) {
  EXPECT_EQ(
      load(kHead + ".file 1 \"a.cu\"\n" +
           ".visible .entry k()\n.maxntid 128, 1, 1\n.minnctapersm 2\n{\n.loc 1 3 4\n.pragma \"nounroll\";\n.loc 1 5 "
           "6, function_name $L__info, inlined_at 1 2 3\nret;\n}\n.section .debug_str { $L__info: .b8 1,2 .b32 x+4 }\n")
          .status,
      LoadStatus::Ok);
}

TEST(Parser, ScopesOfInlineAssembly) {
  EXPECT_EQ(load(body("{ .reg .pred q; L: setp.eq.u32 q, %r1, 0; @q bra L; }\n{ .reg .pred q; L: setp.eq.u32 q, %r1, "
                      "0; @q bra L; }"))
                .status,
            LoadStatus::Ok);
  expect_error(body("{ .reg .b32 inner; mov.b32 inner, 1; }\nmov.b32 %r1, inner;"), 8, "inner");
}

TEST(Parser, ErrorsNameLineAndCause) {
  expect_error(body("frob.b32 %r1, %r2;"), 7, "unknown instruction 'frob'");
  expect_error(body("add.s32 %r1, %r2;"), 7, "too few operands");
  expect_error(body("add.s32 %r1, %r2, %r3, %r3;"), 7, "too many operands");
  expect_error(body("add.s32 %r1, %r2, %rd1;"), 7, "does not fit");
  expect_error(body("add.s32 %f1, %r1, %r2;"), 7, "does not fit");
  expect_error(body("add.wat.s32 %r1, %r2, %r3;"), 7, "'.wat'");
  expect_error(body("bra NOWHERE;"), 7, "NOWHERE");
  expect_error(body("mov.u32 %r9, 1;"), 7, "%r9");
  expect_error(body("@%r1 bra L; L:"), 7, "predicate");
  expect_error(body("ld.global.u32 %r1, %rd1;"), 7, "address");
  expect_error(body("st.const.u32 [%rd1], %r1;"), 7, ".const");
  expect_error(body("mov.u32 %r1, %nosuch;"), 7, "%nosuch");
  expect_error(body("bar.sync;"), 7, "too few");
  expect_error(body("bar.sync 16;"), 7, "0 to 15");
  expect_error(body("add.u32 %r1, %tid.x, 1;"), 7, "mov and cvt only");
  expect_error(body("ld.global.u32 %r1, [64];"), 7, "immediate addresses");
  expect_error(body("mad.f32 %f1, %f2, %f3, %f1;"), 7, "rounding");
  expect_error(body("cvt.rn.f32.f32 %f1, %f2;"), 7, "rounding");
  expect_error(body("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"), 7,
               "not supported by this simulator: 'tcgen05'");
  expect_error(body("wgmma.fence.sync.aligned;"), 7, "requires .target sm_90a");
  expect_error(body("elect.sync %r1|%p1, -1;"), 7, "requires .target sm_90");
  expect_error(body("call nosuch, (%r1);"), 7, "nosuch");
  expect_error(body("mov.u32 %r1, 1"), 8, "expected ';'");
}

TEST(Parser, SeveralErrorsAreAllReported) {
  const LoadResult result = load(body("frob.b32 %r1;\nadd.s32 %r1, %r2;\nmov.u32 %r1, 1;\nblub;"));
  EXPECT_NE(result.error_log.find("line 7;"), std::string::npos);
  EXPECT_NE(result.error_log.find("line 8;"), std::string::npos);
  EXPECT_NE(result.error_log.find("line 10;"), std::string::npos);
  EXPECT_EQ(result.error_log.find("line 9;"), std::string::npos);
}

TEST(Parser, VersionsAndTargets) {
  EXPECT_EQ(load(".version 9.9\n.target sm_80\n.address_size 64\n").status, LoadStatus::UnsupportedPtxVersion);
  EXPECT_EQ(load(".version 8.0\n.target sm_90\n.address_size 64\n", "sm_80").status, LoadStatus::NoBinaryForGpu);
  EXPECT_EQ(load(".version 8.0\n.target sm_90a\n.address_size 64\n", "sm_90").status, LoadStatus::NoBinaryForGpu);
  EXPECT_EQ(load(".version 8.0\n.target sm_90a\n.address_size 64\n", "sm_100a").status, LoadStatus::NoBinaryForGpu);
  EXPECT_EQ(load(".version 7.0\n.target sm_70\n.address_size 64\n", "sm_120").status, LoadStatus::Ok);
  EXPECT_EQ(load("").status, LoadStatus::InvalidPtx);
  EXPECT_EQ(load("hello").status, LoadStatus::InvalidPtx);
}

TEST(Parser, UnresolvedExternals) {
  EXPECT_EQ(load(kHead + ".extern .global .u32 x;\n").status, LoadStatus::SymbolNotFound);
  expect_error(kHead + ".extern .func f;\n.visible .entry k() { call f; ret; }\n", 4, "undefined function 'f'");
}

TEST(Parser, VerboseLogNamesResources) {
  DeviceMemory memory(8, uint64_t(1) << 20);
  LoadOptions options;
  options.verbose = true;
  const LoadResult result =
      load_module(body(".shared .b8 s[100]; mov.u32 %r1, s;"), *parse_arch("sm_90"), memory, options);
  ASSERT_EQ(result.status, LoadStatus::Ok);
  EXPECT_NE(result.info_log.find("100 bytes smem"), std::string::npos) << result.info_log;
  EXPECT_EQ(result.module->kernel(0).static_shared_bytes, 100u);
  EXPECT_EQ(result.module->kernel(0).param_bytes, 8u);
}

/// Changes a text a little, in one of the ways that hurt parsers.
std::string mutate(const std::string& text, std::mt19937& engine) {
  std::string changed = text;
  const auto at = [&](size_t size) { return size == 0 ? 0 : engine() % size; };
  for (uint32_t n = 1 + engine() % 4; n > 0; --n) {
    const size_t place = at(changed.size());
    switch (engine() % 7) {
      case 0:
        changed[place] = char(engine());
        break;
      case 1:
        changed.erase(place, engine() % 40);
        break;
      case 2:
        changed.insert(place, changed.substr(at(changed.size()), engine() % 40));
        break;
      case 3:
        changed.insert(place, 1, "{}()[],;:.%@!|<>-\"/*0x"[engine() % 22]);
        break;
      case 4:
        changed.resize(place);
        break;
      case 5:
        changed.insert(place, std::to_string(engine()));
        break;
      default: {
        // Swap two words of the text: instructions with the modifiers and operands of others.
        const size_t other = at(changed.size());
        const size_t length = std::min<size_t>({12, changed.size() - place, changed.size() - other});
        for (size_t i = 0; i < length; ++i) std::swap(changed[place + i], changed[other + i]);
        break;
      }
    }
    if (changed.empty()) return changed;
  }
  return changed;
}

TEST(Parser, SurvivesMutatedText) {
  const uint32_t seed = 20261130;
  std::mt19937 engine(seed);
  DeviceMemory memory(7, uint64_t(64) << 20);
  std::vector<std::string> texts{read_ptx("basics_sm80.ptx"), read_ptx("matrix_sm80.ptx"),
                                 read_ptx("hopper_sm90a.ptx")};
  // Whole files are long; most mutants are of a single kernel.
  for (const std::string& text : std::vector<std::string>(texts)) {
    const size_t head = text.find(".visible .entry");
    for (size_t begin = head; begin != std::string::npos;) {
      const size_t end = text.find("\n}\n", begin);
      if (end == std::string::npos) break;
      texts.push_back(text.substr(0, head) + text.substr(begin, end + 3 - begin));
      begin = text.find(".visible .entry", end);
    }
  }
  int loaded = 0, refused = 0;
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  while (std::chrono::steady_clock::now() < stop) {
    const std::string text = mutate(texts[engine() % texts.size()], engine);
    const LoadResult result = load_module(text, *parse_arch("sm_90a"), memory);
    (result.status == LoadStatus::Ok ? loaded : refused) += 1;
    if (result.status != LoadStatus::Ok) {
      ASSERT_FALSE(result.error_log.empty()) << "seed " << seed;
    }
  }
  std::printf("mutants: %d loaded, %d refused\n", loaded, refused);
  EXPECT_GT(loaded, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(memory.free_bytes(), memory.total_bytes());
}

TEST(Parser, RunsMutantsThatLoad) {
  // What loads must also run to some end: a result, a finding, or the watchdog. No mutant may harm the host.
  std::mt19937 engine(77);
  const std::string text = read_ptx("basics_sm80.ptx");
  const size_t head = text.find(".visible .entry saxpy"),
               tail = text.find("\n}\n", text.find(".visible .entry matmul_race"));
  const std::string kernels = text.substr(0, text.find(".extern .func")) + text.substr(head, tail + 3 - head);
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  Simulator sim;
  sim.options.watchdog = std::chrono::milliseconds(50);
  const DeviceAddress a = sim.upload(std::vector<float>(1024, 1.0f));
  int ran = 0;
  while (std::chrono::steady_clock::now() < stop) {
    LoadResult loaded = load_module(mutate(kernels, engine), sim.options.arch, sim.memory);
    if (loaded.status != LoadStatus::Ok) continue;
    for (int kernel = 0; kernel < loaded.module->kernel_count(); ++kernel) {
      LaunchRequest request;
      request.module = loaded.module.get();
      request.kernel = kernel;
      request.block = {16, 4, 1};
      std::vector<std::byte> params(loaded.module->kernel(kernel).param_bytes, std::byte(0));
      for (const KernelParam& param : loaded.module->kernel(kernel).params) {
        const uint64_t value = param.bytes == 8 ? a : 16;
        std::memcpy(params.data() + param.offset, &value, std::min<size_t>(8, param.bytes));
      }
      request.params = params;
      launch(request, sim.options);
      ++ran;
    }
  }
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace corrloom::sim
