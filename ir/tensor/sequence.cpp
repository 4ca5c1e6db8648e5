#include "ir/tensor/sequence.h"

#include <algorithm>

namespace corrloom::tensor {

bool is_in_sequence(const Reduction& reduction) {
  return std::any_of(reduction.accumulators.begin(), reduction.accumulators.end(), [](const Accumulator& accumulator) {
    const auto* merged = accumulator.merge ? std::get_if<scalar::AccRef>(&accumulator.merge->kind) : nullptr;
    return merged != nullptr && merged->other;
  });
}

}  // namespace corrloom::tensor
