// Random programs on random arguments: the interpreter, the host and the GPU must agree, and laws must hold.
//
//   fuzz_programs [SEED [RUNS [QUESTIONS]]]   programs SEED, SEED + 1, ... on up to 3 sets of arguments each
//   fuzz_programs std [SEED [RUNS]]           every op of the standard library on RUNS sets of arguments
//
// The last line is `N passed, N failed`. A fault prints its seed, the program and the smallest question found that
// shows it; CORRLOOM_CUDA=sim adds a simulated GPU. On the host most programs are compiled for miniature machines,
// where small tensors are large, and with another schedule than the chosen one, too.
#include <cstdlib>
#include <iostream>
#include <string>

#include "compiler/api/op_core.h"
#include "compiler/tools/check/judge.h"
#include "compiler/tools/check/op_laws.h"
#include "compiler/tools/check/shrink.h"
#include "tests/fuzz/coverage.h"
#include "tests/fuzz/machine_generator.h"
#include "tests/fuzz/program_generator.h"
#include "tests/fuzz/schedule_mutator.h"

namespace {

using namespace corrloom;

/// Of most questions of a program, and of its last: most faults show in small tensors, some need the edges of
/// tiles.
constexpr double kLittleWork = 1 << 12, kMostWork = 1 << 18, kPartOfMost = 1.0 / 16;
/// Laws and strict order cost several compilations: one program in so many is held to them.
constexpr std::uint64_t kProgramsForMore = 4;
/// Programs that are asked with another schedule: one in so many.
constexpr int kForSchedules = 2;

class Fuzzer {
 public:
  Fuzzer() {
    if (device_count() > 0) devices_.push_back(cuda(0));
  }

  void run_program(std::uint64_t seed, std::uint64_t questions) {
    const std::string text = fuzz::random_program(seed);
    guarded("seed " + std::to_string(seed), text, [&] {
      const Op op = Library::parse(text, "f.loom")["f"];
      for (std::uint64_t k = 0; k < questions; ++k) {
        tools::Random random(seed * 8 + k);
        const auto question = k > 0 ? tools::make_question(op, random, kMostWork, kMostWork * kPartOfMost)
                                    : tools::make_question(op, random, kLittleWork);
        draw_host(random);
        if (question && !ask(op, *question, seed % kProgramsForMore == 0)) return false;
      }
      return true;
    });
  }

  void run_library(std::uint64_t seed, std::uint64_t questions) {
    const Library library = Library::load("std");
    for (const std::string& name : library.op_names()) {
      guarded(name, "", [&] {
        for (std::uint64_t k = 0; k < questions; ++k) {
          tools::Random random(seed + k);
          const Op op = with_attributes(library[name], random);
          const auto question = k % 4 == 0 ? tools::make_question(op, random, kMostWork, kMostWork * kPartOfMost)
                                           : tools::make_question(op, random, kLittleWork);
          draw_host(random);
          if (question && !ask(op, *question, k % 2 == 0)) return false;
        }
        return true;
      });
    }
  }

  int report(const std::string& what) const {
    std::cout << what << ": " << calls_ << " calls on " << devices_.size() << " devices, " << unsuited_
              << " with extents that the program does not allow, " << refused_ << " programs refused, " << schedules_
              << " other schedules taken\n"
              << coverage_.to_text() << "\n"
              << passed_ << " passed, " << failed_ << " failed\n";
    return failed_ == 0 && calls_ > 0 ? 0 : 1;
  }

 private:
  /// The op with small values for the attributes that have no default, and for some that have one.
  static Op with_attributes(const Op& op, tools::Random& random) {
    Attributes attributes;
    for (const AttributeInfo& attribute : op.info().attributes) {
      if (attribute.default_value && !random.one_in(3)) continue;
      if (attribute.dtype == DType::Bool)
        attributes.insert_or_assign(attribute.name, AttributeValue(random.one_in(2)));
      else if (attribute.dtype == DType::I64)
        attributes.insert_or_assign(attribute.name, AttributeValue(random.between(attribute.default_value ? 0 : 1, 3)));
      else
        attributes.insert_or_assign(attribute.name, AttributeValue(static_cast<double>(random.between(1, 8)) / 4));
    }
    return attributes.empty() ? op : op.with(attributes);
  }

  /// The machine and the schedule of the next question.
  void draw_host(tools::Random& random) {
    host_.target = fuzz::random_machine(random);
    host_.rewrite = nullptr;
    if (random.one_in(kForSchedules)) {
      host_.rewrite = [seed = random.bits()](const std::string& chosen) {
        tools::Random mutations(seed);
        return fuzz::mutated_schedule(chosen, mutations);
      };
    }
  }

  template <class Run>
  void guarded(const std::string& name, const std::string& text, const Run& run) {
    name_ = name;
    text_ = text;
    try {
      if (run()) ++passed_;
    } catch (const CompileError& error) {
      const std::string what = error.what();
      if (what.find("error[") == std::string::npos) return fail("refused without a code: " + what);
      ++refused_;
      ++passed_;
    } catch (const InputError&) {
      // Attributes that do not suit each other.
      ++refused_;
      ++passed_;
    } catch (const std::exception& error) {
      fail(std::string("throws ") + error.what());
    }
  }

  void fail(const std::string& what) {
    ++failed_;
    std::cout << "FAIL " << name_ << ": " << what << "\n" << text_ << std::flush;
  }

  bool ask(const Op& op, const tools::Question& question, bool with_more) {
    ++calls_;
    if (fault_of(op, question, with_more, true).empty()) return true;
    const auto still_fails = [&](const tools::Question& one) { return !fault_of(op, one, with_more).empty(); };
    const tools::Question small = tools::shrink(question, still_fails);
    std::string attributes;
    for (const auto& [attribute, value] : small.core->attributes())
      attributes += " --set " + attribute + "=" + scalar::to_text(value);
    fail(fault_of(op, small, with_more) + "\n  " + fuzz::in_words(host_.target) + "\n  corrloom check " +
         (text_.empty() ? "std:" + name_ : "f.loom") + " " + small.settings() +
         (op.info().attributes.empty() ? "" : attributes));
    return false;
  }

  /// What is wrong with a program on a question; empty: nothing. The first time it counts what it meets.
  std::string fault_of(const Op& op, const tools::Question& question, bool with_more, bool counts = false) {
    try {
      const tools::Orders orders = with_more ? tools::Orders::StrictAndOwn : tools::Orders::Own;
      const tools::Verdict verdict = tools::judge(op, question.arguments(), devices_, orders, host_);
      if (counts) {
        coverage_.add(verdict);
        schedules_ += verdict.takes_schedule ? 1 : 0;
      }
      if (!verdict.difference.empty() || !with_more) return verdict.difference;
      const std::string broken = tools::laws_of(op, question.arguments(), devices_.front()).broken;
      return broken.empty() ? "" : "breaks a law: " + broken;
    } catch (const CompileError&) {
      if (counts) ++unsuited_;
      return "";  // say a read that leaves its tensor for these extents
    } catch (const std::exception& error) {
      return std::string("throws ") + error.what();
    }
  }

  std::vector<Device> devices_{cpu()};
  std::string name_, text_;  ///< of what runs
  tools::HostSetting host_;  ///< of the question
  int passed_ = 0, failed_ = 0, refused_ = 0, calls_ = 0, unsuited_ = 0, schedules_ = 0;
  fuzz::Coverage coverage_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool is_library = argc > 1 && std::string(argv[1]) == "std";
  const auto number = [&](int at, std::uint64_t otherwise) {
    at += is_library ? 1 : 0;
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  const std::uint64_t first = number(1, 1), count = number(2, is_library ? 4 : argc > 1 ? 1 : 100);
  Fuzzer fuzzer;
  if (is_library) {
    fuzzer.run_library(first, count);
    return fuzzer.report("the standard library, from seed " + std::to_string(first));
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) fuzzer.run_program(seed, number(3, 3));
  return fuzzer.report("seeds " + std::to_string(first) + " to " + std::to_string(first + count - 1));
}
