#pragma once

#include <map>
#include <string>

#include "compiler/tools/check/judge.h"

namespace corrloom::fuzz {

/// What schedules did and what became of them, counted: a fuzzer that never meets something finds nothing in it.
class Coverage {
 public:
  Coverage();

  /// Counts what stands in the texts of a verdict.
  void add(const tools::Verdict& verdict);
  /// One line: `of 12 schedules: blocks 9, checks at run time 0, ...`.
  std::string to_text() const;

 private:
  std::map<std::string, int> seen_;
  int schedules_ = 0;
};

}  // namespace corrloom::fuzz
