// Random programs on random arguments: the interpreter, the host and the GPU must agree.
//
//   fuzz_programs [SEED [RUNS]]     programs SEED, SEED + 1, ...; ends with `N passed, N failed`
//
// A fault prints its seed, the program and the smallest question found that shows it; CORRLOOM_CUDA=sim adds a
// simulated GPU.
#include <cstdlib>
#include <iostream>
#include <string>

#include "compiler/tools/check/judge.h"
#include "compiler/tools/check/shrink.h"
#include "tests/fuzz/program_generator.h"

namespace {

using namespace corrloom;

struct Counts {
  int passed = 0, failed = 0, refused = 0, calls = 0;
};

/// What is wrong with a program on a question; empty: nothing.
std::string fault_of(const Op& op, const tools::Question& question, const std::vector<Device>& devices) {
  try {
    return tools::judge(op, question.arguments(), devices).difference;
  } catch (const CompileError&) {
    return "";  // a program that is refused for these extents, say a read that leaves its tensor
  } catch (const std::exception& error) {
    return std::string("throws ") + error.what();
  }
}

void run_one(std::uint64_t seed, const std::vector<Device>& devices, Counts& counts) {
  const std::string text = fuzz::random_program(seed);
  const auto fail = [&](const std::string& what) {
    ++counts.failed;
    std::cout << "FAIL seed " << seed << ": " << what << "\n" << text << std::flush;
  };
  try {
    const Library library = Library::parse(text, "f.loom");
    const Op op = library["f"];
    for (std::uint64_t question_seed = 0; question_seed < 3; ++question_seed) {
      tools::Random random(seed * 8 + question_seed);
      const auto question = tools::make_question(op, random);
      if (!question) continue;
      ++counts.calls;
      if (fault_of(op, *question, devices).empty()) continue;
      const tools::Question small = tools::shrink(
          *question, [&](const tools::Question& candidate) { return !fault_of(op, candidate, devices).empty(); });
      return fail(fault_of(op, small, devices) + "\n  corrloom check f.loom " + small.settings());
    }
    ++counts.passed;
  } catch (const CompileError& error) {
    const std::string what = error.what();
    if (what.find("error[") == std::string::npos) return fail("refused without a code: " + what);
    ++counts.refused;
  } catch (const std::exception& error) {
    fail(std::string("throws ") + error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : argc > 1 ? 1 : 100;
  std::vector<Device> devices{cpu()};
  if (device_count() > 0) devices.push_back(cuda(0));
  Counts counts;
  for (std::uint64_t seed = first; seed < first + count; ++seed) run_one(seed, devices, counts);
  std::cout << "seeds " << first << " to " << first + count - 1 << ": " << counts.calls << " calls on "
            << devices.size() << " devices, " << counts.refused << " programs refused\n"
            << counts.passed + counts.refused << " passed, " << counts.failed << " failed\n";
  return counts.failed == 0 && counts.calls > 0 ? 0 : 1;
}
