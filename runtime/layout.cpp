#include "runtime/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/host/host_backend.h"

namespace corrloom::runtime {
namespace {

/// The innermost loop, with the element's size known to the compiler.
template <int kBytes>
void copy_row(std::byte* to, const std::byte* from, const CopyAxis& axis) {
  if (axis.to == 1 && axis.from == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(axis.extent) * kBytes);
    return;
  }
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    std::memcpy(to + i * axis.to * kBytes, from + i * axis.from * kBytes, kBytes);
  }
}

using CopyRow = void (*)(std::byte*, const std::byte*, const CopyAxis&);

CopyRow copy_row_of(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_row<1>;
    case 2:
      return copy_row<2>;
    case 4:
      return copy_row<4>;
    default:
      return copy_row<8>;
  }
}

}  // namespace

std::vector<CopyAxis> copy_axes(const Extents& shape, const Extents& to, const Extents& from) {
  std::vector<CopyAxis> axes;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 1) continue;
    if (!axes.empty() && axes.back().to == to[k] * shape[k] && axes.back().from == from[k] * shape[k]) {
      axes.back() = {axes.back().extent * shape[k], to[k], from[k]};
    } else {
      axes.push_back({shape[k], to[k], from[k]});
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  return axes;
}

Extents dense_strides(const Extents& shape) {
  Extents strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= std::max<std::int64_t>(shape[k], 1);
  }
  return strides;
}

bool is_dense(const Extents& shape, const Extents& strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t stride = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    if (shape[k] != 1 && strides[k] != stride) return false;
    stride *= shape[k];
  }
  return true;
}

std::optional<Extents> reshaped_strides(const Extents& shape, const Extents& strides, const Extents& wanted) {
  if (is_dense(shape, strides)) return dense_strides(wanted);
  // Axes of extent 1 say nothing; the others are matched group by group: the shortest runs of old and new axes with the
  // same product.
  std::vector<CopyAxis> old_axes;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] != 1) old_axes.push_back({shape[k], 0, strides[k]});
  }
  Extents result(wanted.size(), 1);
  std::size_t old_begin = 0, new_begin = 0;
  while (old_begin < old_axes.size()) {
    std::size_t old_end = old_begin + 1, new_end = new_begin + 1;
    std::int64_t old_product = old_axes[old_begin].extent, new_product = wanted[new_begin];
    while (old_product != new_product) {
      if (old_product < new_product) {
        old_product *= old_axes[old_end++].extent;
      } else {
        new_product *= wanted[new_end++];
      }
    }
    for (std::size_t k = old_begin; k + 1 < old_end; ++k) {
      if (old_axes[k].from != old_axes[k + 1].from * old_axes[k + 1].extent) return std::nullopt;
    }
    std::int64_t stride = old_axes[old_end - 1].from;
    for (std::size_t k = new_end; k-- > new_begin;) {
      result[k] = stride;
      stride *= wanted[k];
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  return result;
}

std::optional<OffsetRange> offset_range(const Extents& shape, const Extents& strides) {
  OffsetRange range;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach)) return std::nullopt;
    std::int64_t& end = reach < 0 ? range.lowest : range.highest;
    if (__builtin_add_overflow(end, reach, &end)) return std::nullopt;
  }
  return range;
}

void copy_elements(void* to, const Extents& to_strides, const void* from, const Extents& from_strides,
                   const Extents& shape, int element_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  std::vector<CopyAxis> axes = copy_axes(shape, to_strides, from_strides);
  const CopyAxis row = axes.back();
  axes.pop_back();
  std::int64_t rows = 1;
  for (const CopyAxis& axis : axes) rows *= axis.extent;

  const CopyRow copy = copy_row_of(element_bytes);
  const double work_ns = static_cast<double>(rows) * static_cast<double>(row.extent) * 0.5;
  for_each_range(rows, work_ns, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t number = first; number < last; ++number) {
      std::int64_t to_offset = 0, from_offset = 0, rest = number;
      for (std::size_t k = axes.size(); k-- > 0;) {
        const std::int64_t index = rest % axes[k].extent;
        rest /= axes[k].extent;
        to_offset += index * axes[k].to;
        from_offset += index * axes[k].from;
      }
      copy(static_cast<std::byte*>(to) + to_offset * element_bytes,
           static_cast<const std::byte*>(from) + from_offset * element_bytes, row);
    }
  });
}

}  // namespace corrloom::runtime
