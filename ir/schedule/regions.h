#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule/schedule.h"
#include "ir/schedule/staging.h"
#include "ir/tensor/graph.h"

namespace corrloom::schedule {

/// What a tile of a compute needs of one axis of a value: `size` elements from constant + sum / divisor on, where the
/// sum is that of factor * (first element of the tile along an axis of the compute), a multiple of `multiple` and of
/// `divisor`. It may reach over an end of the axis, where nothing is needed.
struct Region {
  std::int64_t constant = 0;
  std::map<scalar::AxisId, std::int64_t> factors;
  std::int64_t size = 1;
  bool folds = false;  ///< some reads outside are of elements as near to the end (padding): they are in the region, too
  std::int64_t divisor = 1;
  std::int64_t multiple = 1;  ///< 0: the sum is 0
};
using Regions = std::map<tensor::TensorId, std::vector<Region>>;

/// The computes that are placed at that loop of the consumer, in the order of the graph.
std::vector<tensor::TensorId> computed_at(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer,
                                          int loop);
/// The computes that are placed at any loop of the consumer, in the order of the graph.
std::vector<tensor::TensorId> computed_inside(const tensor::Graph& graph, const Schedule& schedule,
                                              const Stage& consumer);

/// What the body of that loop of the consumer (-1: all loops) reads of every value, itself or through computes placed
/// at that loop or further in: regions no larger than the axes. Nothing, and `why`, when an extent is not known.
std::optional<Regions> regions_at(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer, int loop,
                                  std::string& why);

/// Bytes of the copy that the body of the staging's loop reads, in a stage of that op. Nothing when an extent is not
/// known, or when there are too many.
std::optional<std::int64_t> copied_bytes(const tensor::Graph& graph, const tensor::Op& op, const Stage& stage,
                                         const Staging& staging, const Copy& copy);

}  // namespace corrloom::schedule
