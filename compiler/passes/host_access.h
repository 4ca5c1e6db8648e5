#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "ir/affine/affine.h"
#include "ir/scalar/expr.h"

namespace corrloom::passes {

/// One read of a compute: its element offset as a linear form, and whether conditions stand around it.
struct Access {
  const scalar::Read* read = nullptr;
  const scalar::Node* node = nullptr;
  std::optional<affine::LinearForm> offset;
  bool in_step = false;
  bool guarded = false;
  std::int64_t element_bytes = 4;
  int staged = -1;  ///< number of the staged expression that holds it

  std::set<scalar::AxisId> axes = {};  ///< what its subscripts use

  bool depends_on(scalar::AxisId axis) const { return axes.contains(axis); }
  bool is_affine() const { return offset && offset->is_affine(); }
  std::int64_t stride(scalar::AxisId axis) const { return is_affine() ? offset->coefficient_of(axis) : 0; }
  /// Elements of a window that `rows` places of one axis and `taps` of the other reach together: less than their
  /// product when places share some. 0 when a step of one is not a few steps of the other.
  std::int64_t window(scalar::AxisId row, std::int64_t rows, scalar::AxisId tap, std::int64_t taps) const;
};

}  // namespace corrloom::passes
