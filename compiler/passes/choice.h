#pragma once

#include <string>
#include <vector>

namespace corrloom::passes {

/// What was weighed for the schedule of one compute: for people, nothing is decided from it.
struct Choice {
  /// One way to run the compute, in words, and what the model of the processor says it costs.
  struct Alternative {
    std::string what;
    double cycles = 0;
  };
  std::string compute;
  std::vector<Alternative> considered;  ///< the taken one first, then the best of each other kind, cheapest first
  std::string not_inside;  ///< why its value is not computed inside the compute that reads it; empty: nobody asked
};
using Choices = std::vector<Choice>;

}  // namespace corrloom::passes
