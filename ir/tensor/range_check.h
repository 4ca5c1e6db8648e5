#pragma once

#include <cstddef>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// A subscript that is `first + stride * r` in every iteration of a reduction axis r whose extent is not constant: it
/// is checked once for the whole range, before the first iteration, and a range that leaves the tensor is not walked.
/// So a range that is made of wild data ends at once, and the loop needs no check of its own.
struct RangeCheck {
  std::size_t axis;  ///< position in the reduction
  Expr read;         ///< the node in a step
  std::size_t dimension;
  Expr first;           ///< over axes that the axis's extent uses too, so it is known wherever the extent is
  std::int64_t stride;  ///< at least 1
  Expr holds = {};      ///< whether iterations make the read, known as `first` is; null: they do
};

/// The checks of a reduction's ranges: of reads that are checked (`check runtime`, or not judged yet), that every
/// iteration of the axis makes, under no condition and in no other range that may be empty. In a sequence
/// (`is_in_sequence`) a read under conditions on the axes inside is one too, where some values of theirs meet them.
std::vector<RangeCheck> range_checks(const Reduction& reduction);

/// The subscript to check for a range of `extent` elements, against a tensor of `limit` there: the first one outside,
/// the lowest if there are several, or the last one inside. Only for an extent above 0.
Expr checked_subscript(const RangeCheck& check, const Expr& extent, const Expr& limit);

}  // namespace corrloom::tensor
