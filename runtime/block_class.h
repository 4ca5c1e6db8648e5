#pragma once

#include <cstddef>

/// The sizes of blocks that memory pools hand out. Few sizes make freed blocks fit again: eight an octave, so that
/// rounding up wastes at most an eighth.
namespace corrloom::runtime {

/// Blocks of at least this are multiples of it, the size of a huge page.
inline constexpr std::size_t kLargeBlockBytes = std::size_t{2} << 20;

struct BlockClass {
  std::size_t number;
  std::size_t bytes;  ///< of a block of the class
};

/// The smallest class that holds `bytes`; classes are counted in units of `unit` bytes, a power of two up to 4096.
BlockClass block_class(std::size_t bytes, std::size_t unit);

/// Bytes of a block of a class.
std::size_t block_class_bytes(std::size_t number, std::size_t unit);

}  // namespace corrloom::runtime
