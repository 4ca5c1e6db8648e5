#include "compiler/passes/host_access.h"

#include <numeric>

namespace corrloom::passes {
namespace {

/// Most elements by which a step of an axis moves a window that rows of a tile share.
constexpr std::int64_t kMostWindowStep = 4;

}  // namespace

using scalar::AxisId;

std::int64_t Access::window(AxisId row, std::int64_t rows, AxisId tap, std::int64_t taps) const {
  const std::int64_t a = stride(row), b = stride(tap), common = std::gcd(a, b);
  if (a <= 0 || b <= 0 || a / common > kMostWindowStep || b / common > kMostWindowStep) return 0;
  std::set<std::int64_t> reached;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t t = 0; t < taps; ++t) reached.insert(r * (a / common) + t * (b / common));
  }
  return static_cast<std::int64_t>(reached.size());
}

}  // namespace corrloom::passes
