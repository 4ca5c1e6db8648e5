#include <algorithm>

#include "compiler/passes/host_stores.h"
#include "compiler/passes/lower_compute.h"
#include "compiler/passes/tile_shuffles.h"
#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::ValueId;
using scalar::AxisId;
using scalar::Opcode;
using schedule::Bind;

namespace {

/// Bytes of a line of the caches.
constexpr std::size_t kLineBytes = 64;
/// Fewest rows of a tile for which a store that is contiguous along them goes through a transpose.
constexpr std::size_t kTransposedRows = 4;

}  // namespace

/// Vectors along an axis other than the last one are stored through a transpose where the tile has enough elements
/// beside each other in the result.
void ComputeLowering::store(const std::vector<Result>& results) {
  const tensor::Axis* vector = nullptr;
  for (const Level& level : levels_) {
    if (level.bind != Bind::Vector || level.reduction) continue;
    for (const tensor::Axis& axis : compute_.axes) vector = axis.id == level.axis ? &axis : vector;
  }
  // Nothing is known of an open end, and a single element is no ramp.
  const bool goes_alone = std::any_of(results.begin(), results.end(), [&](const Result& result) {
    if (vector == nullptr || result.point.at(vector->id).is_open) return true;
    const std::optional<loop::Ramp> ramp = builder_.as_ramp(result.point.at(vector->id).value);
    return !ramp || ramp->stride != 1;
  });
  if (vector == nullptr || vector == &compute_.axes.back() || goes_alone) {
    for (const Result& result : results) store_one(result);
    return;
  }
  std::vector<Point> points;
  for (const Result& result : results) points.push_back(result.point);
  for (const std::vector<std::size_t>& run : runs_of(points)) {
    if (stands_between(run.size(), *vector)) {
      std::vector<const Result*> rows;
      for (std::size_t k : run) rows.push_back(&results[k]);
      store_interleaved(rows, vector->id);
      continue;
    }
    if (run.size() < kTransposedRows) {
      for (std::size_t k : run) store_one(results[k]);
      continue;
    }
    const auto lanes = static_cast<std::size_t>(builder_.type(points[run.front()].at(vector->id).value).lanes);
    // As many parts as fill a line of the cache with elements that are narrower than what is computed.
    const std::size_t whole =
        std::max<std::size_t>(1, kLineBytes / lanes / static_cast<std::size_t>(byte_size(op_.dtype)));
    for (std::size_t first = 0; first < run.size();) {
      std::size_t parts = whole;
      while (parts > 1 && run.size() - first < parts * lanes) parts /= 2;
      std::vector<const Result*> rows;
      for (std::size_t k = first; k < std::min(first + parts * lanes, run.size()); ++k)
        rows.push_back(&results[run[k]]);
      store_transposed(rows, vector->id, static_cast<int>(lanes));
      first += rows.size();
    }
  }
}

/// So many rows are the whole last axis, which is short, and the vectors lie along the axis before it.
bool ComputeLowering::stands_between(std::size_t rows, const tensor::Axis& vector) const {
  const auto extent = static_cast<std::int64_t>(rows);
  return rows > 1 && extent <= host::kMostInterleaved && known_extent(compute_.axes.back().id) == extent &&
         &vector == &compute_.axes.back() - 1;
}

/// Rows whose elements stand between each other make whole vectors together.
void ComputeLowering::store_interleaved(const std::vector<const Result*>& rows, AxisId vector) {
  const Point& first = rows.front()->point;
  const int lanes = builder_.type(first.at(vector).value).lanes, count = static_cast<int>(rows.size());
  const std::optional<loop::Ramp> ramp = builder_.as_ramp(first.at(vector).value);
  CORRLOOM_CHECK(ramp && ramp->stride == 1, "a vector axis that is no ramp");
  const ValueId base = ramp->base, present = builder_.index(std::int64_t{first.at(vector).lanes} * count);
  std::vector<ValueId> values;
  for (const Result* row : rows) values.push_back(builder_.splat(row->value, lanes));
  values = interleave(builder_, values);
  for (int number = 0; number * lanes < first.at(vector).lanes * count; ++number) {
    const ValueId element = builder_.ramp(builder_.index(std::int64_t{number} * lanes), 1, lanes);
    std::vector<ValueId> index;
    for (const tensor::Axis& axis : compute_.axes) {
      const ValueId value = first.at(axis.id).value;
      if (axis.id == vector)
        index.push_back(builder_.add(base, builder_.apply(Opcode::FloorDiv, {element, builder_.index(count)})));
      else if (axis.id == compute_.axes.back().id)
        index.push_back(builder_.add(value, builder_.apply(Opcode::Mod, {element, builder_.index(count)})));
      else
        index.push_back(value);
    }
    const bool whole = (number + 1) * lanes <= first.at(vector).lanes * count;
    builder_.store(kernel_.buffers.at(id_), result_index(std::move(index)), values[static_cast<std::size_t>(number)],
                   whole ? ValueId{} : builder_.apply(Opcode::Lt, {element, present}), stage_.streaming);
  }
}

void ComputeLowering::store_one(const Result& result) {
  std::vector<ValueId> index;
  for (const tensor::Axis& axis : compute_.axes) index.push_back(result.point.at(axis.id).value);
  builder_.store(kernel_.buffers.at(id_), result_index(std::move(index)), result.value, mask_of(result.point),
                 stage_.streaming);
}

/// Rows as they stand beside each other in the result, in whole parts of as many as there are lanes or in one that is
/// shorter.
void ComputeLowering::store_transposed(const std::vector<const Result*>& results, AxisId vector, int lanes) {
  std::vector<std::vector<ValueId>> parts;
  for (std::size_t first = 0; first < results.size(); first += static_cast<std::size_t>(lanes)) {
    std::vector<ValueId> rows;
    for (std::size_t k = first; k < std::min(first + static_cast<std::size_t>(lanes), results.size()); ++k)
      rows.push_back(builder_.splat(results[k]->value, lanes));
    rows.resize(static_cast<std::size_t>(lanes), rows.front());
    parts.push_back(transpose(builder_, std::move(rows)));
  }
  for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
    for (std::size_t k = 0; k < parts.size() / 2; ++k) {
      for (std::size_t lane = 0; lane < static_cast<std::size_t>(lanes); ++lane)
        parts[k][lane] = side_by_side(builder_, parts[2 * k][lane], parts[2 * k + 1][lane]);
    }
  }
  const std::vector<ValueId>& columns = parts.front();
  const Point& first = results.front()->point;
  const std::optional<loop::Ramp> ramp = builder_.as_ramp(first.at(vector).value);
  CORRLOOM_CHECK(ramp && ramp->stride == 1, "a vector axis that is no ramp");
  const ValueId base = ramp->base;
  const AxisId last = compute_.axes.back().id;
  const int stored = builder_.type(columns.front()).lanes;
  ValueId mask;
  if (results.size() < static_cast<std::size_t>(lanes)) {
    const ValueId count = builder_.index(static_cast<std::int64_t>(results.size()));
    mask = builder_.apply(Opcode::Lt, {builder_.ramp(builder_.index(0), 1, lanes), count});
  }
  for (int lane = 0; lane < first.at(vector).lanes; ++lane) {
    std::vector<ValueId> index;
    for (const tensor::Axis& axis : compute_.axes) {
      const ValueId value = first.at(axis.id).value;
      index.push_back(axis.id == vector ? builder_.add(base, builder_.index(lane))
                      : axis.id == last ? builder_.ramp(value, 1, stored)
                                        : value);
    }
    builder_.store(kernel_.buffers.at(id_), result_index(std::move(index)), columns[static_cast<std::size_t>(lane)],
                   mask, stage_.streaming);
  }
}

}  // namespace corrloom::passes
