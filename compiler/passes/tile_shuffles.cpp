#include "compiler/passes/tile_shuffles.h"

#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::ValueId;

std::vector<ValueId> transpose(FunctionBuilder& builder, std::vector<ValueId> vectors) {
  const int lanes = builder.type(vectors.at(0)).lanes;
  CORRLOOM_CHECK(static_cast<int>(vectors.size()) == lanes && (lanes & (lanes - 1)) == 0, "a transpose of ",
                 vectors.size(), " vectors of ", lanes, " lanes");
  // Butterflies: each step swaps one bit of the vector's number with that bit of the lane's.
  for (int bit = 1; bit < lanes; bit *= 2) {
    std::vector<int> low, high;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool set = (lane & bit) != 0;
      low.push_back(set ? lanes + lane - bit : lane);
      high.push_back(set ? lanes + lane : lane + bit);
    }
    for (int number = 0; number < lanes; ++number) {
      if ((number & bit) != 0) continue;
      ValueId& a = vectors[static_cast<std::size_t>(number)];
      ValueId& b = vectors[static_cast<std::size_t>(number + bit)];
      const ValueId next = builder.shuffle(a, low, b);
      b = builder.shuffle(a, high, b);
      a = next;
    }
  }
  return vectors;
}

Halves split_runs(FunctionBuilder& builder, ValueId a, ValueId b, int segments) {
  const int lanes = builder.type(a).lanes, width = lanes / segments;
  const auto pick = [&](int offset) {
    std::vector<int> picked;
    for (int run = 0; run < (b ? 2 * segments : segments); ++run) {
      for (int lane = 0; lane < width / 2; ++lane) picked.push_back(run * width + offset + lane);
    }
    return builder.shuffle(a, std::move(picked), b);
  };
  return {pick(0), pick(width / 2)};
}

}  // namespace corrloom::passes
