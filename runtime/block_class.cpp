#include "runtime/block_class.h"

#include <algorithm>
#include <bit>

namespace corrloom::runtime {
namespace {

constexpr std::size_t kClassesPerOctave = 8;

}  // namespace

BlockClass block_class(std::size_t bytes, std::size_t unit) {
  const std::size_t units = std::max<std::size_t>(1, bytes / unit + (bytes % unit != 0 ? 1 : 0));
  std::size_t number = units - 1;
  if (units > kClassesPerOctave) {
    const int octave = std::bit_width(units - 1) - 1;  // 2^octave <= units - 1 < 2^(octave + 1), so octave >= 3
    const std::size_t step = (std::size_t{1} << octave) / kClassesPerOctave;
    const std::size_t steps = (units - 1) / step + 1;  // in [9, 16]
    number = kClassesPerOctave * static_cast<std::size_t>(octave - 2) + steps - kClassesPerOctave - 1;
  }
  return {number, block_class_bytes(number, unit)};
}

std::size_t block_class_bytes(std::size_t number, std::size_t unit) {
  const std::size_t units = number < kClassesPerOctave ? number + 1
                                                       : (number % kClassesPerOctave + kClassesPerOctave + 1)
                                                             << (number / kClassesPerOctave - 1);
  const std::size_t bytes = units * unit;
  if (bytes < kLargeBlockBytes) return bytes;
  return (bytes + kLargeBlockBytes - 1) / kLargeBlockBytes * kLargeBlockBytes;
}

}  // namespace corrloom::runtime
