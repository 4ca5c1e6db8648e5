#pragma once

#include <cstdint>
#include <optional>
#include <vector>

/// Shapes and strides as plain numbers. Strides are in elements.
namespace corrloom::runtime {

using Extents = std::vector<std::int64_t>;

/// Row-major strides; those of empty shapes are of the shape with 1 for each 0.
Extents dense_strides(const Extents& shape);

/// Whether the elements are those of a dense row-major array: axes of extent 1 may have any stride, empty ones always
/// are.
bool is_dense(const Extents& shape, const Extents& strides);

/// Strides with which `wanted` (as many elements) names the same elements in the same order, or nothing when no strides
/// do.
std::optional<Extents> reshaped_strides(const Extents& shape, const Extents& strides, const Extents& wanted);

/// The lowest and the highest element offset that is touched; of a shape with elements.
struct OffsetRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
/// Nothing when an offset does not fit 63 bits.
std::optional<OffsetRange> offset_range(const Extents& shape, const Extents& strides);

/// One axis of a copy between two layouts: how many elements, and the strides in each.
struct CopyAxis {
  std::int64_t extent, to, from;
};
/// The axes of a copy without those of extent 1, adjacent ones merged where both layouts walk straight on; at least
/// one. The shape has elements.
std::vector<CopyAxis> copy_axes(const Extents& shape, const Extents& to, const Extents& from);

/// Copies elements of `element_bytes` (1, 2, 4 or 8) from one layout of a shape to another, on one thread or several.
void copy_elements(void* to, const Extents& to_strides, const void* from, const Extents& from_strides,
                   const Extents& shape, int element_bytes);

}  // namespace corrloom::runtime
