#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/api/corrloom.h"
#include "runtime/io/value.h"

namespace corrloom::tools {

/// Random numbers that are the same on every machine (Steele, Lea, Flood 2014, SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  /// A whole number from `low` to `high`, both included.
  std::int64_t between(std::int64_t low, std::int64_t high);
  bool one_in(int count) { return between(1, count) == 1; }
  template <class Items>
  const auto& pick(const Items& items) {
    return items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(items)) - 1))];
  }

 private:
  std::uint64_t state_;
};

/// Arguments of an op in the terms of the command line.
struct Question {
  const api::OpCore* core = nullptr;               ///< the op, or an instance of a generic one
  double most_work = 0;                            ///< elements to compute, reductions included
  std::map<std::string, std::int64_t> dimensions;  ///< of the op's graph
  std::map<std::string, scalar::Value> scalars;
  std::vector<io::GeneratedValue> tensors;  ///< in the op's order; their shapes follow from the dimensions

  std::vector<Argument> arguments() const;
  /// `X=randn[2,3]@7 s=0.5`
  std::string settings() const;
};

/// A question that the op accepts at entry: extents 0, 1, primes and the edges of tiles, numbers ordinary and extreme.
/// Computes about `most_work` elements at most, and `least_work` at least where extents for that are found. Nothing
/// when none was found.
std::optional<Question> make_question(const Op& op, Random& random, double most_work = 1 << 22, double least_work = 0);

/// The question with those dimensions; nothing when the op does not accept them.
std::optional<Question> with_dimensions(Question question, std::map<std::string, std::int64_t> dimensions);

}  // namespace corrloom::tools
