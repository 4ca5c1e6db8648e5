#include "compiler/passes/tile_shuffles.h"

#include <algorithm>
#include <optional>

#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::ValueId;
using scalar::Opcode;

namespace {

/// Most elements that lanes lie apart.
constexpr std::int64_t kMostStride = 4;

/// The lanes [first, last] of a mask of so many; an invalid id for all of them.
ValueId interval_mask(FunctionBuilder& builder, int first, int last, int lanes) {
  const ValueId lane = builder.ramp(builder.index(0), 1, lanes);
  ValueId mask;
  if (last < lanes - 1) mask = builder.apply(Opcode::Lt, {lane, builder.index(last + 1)});
  if (first == 0) return mask;
  const ValueId from = builder.apply(Opcode::Ge, {lane, builder.index(first)});
  return mask ? builder.apply(Opcode::And, {from, mask}) : from;
}

/// Whether a block of `stride` elements that begins at a multiple of it lies inside when one of its elements does.
bool blocks_lie_inside(FunctionBuilder& builder, loop::BufferId buffer, std::int64_t stride) {
  const std::optional<std::int64_t> extent = scalar::as_i64(builder.buffer(buffer).extents.back());
  return extent && *extent % stride == 0;
}

}  // namespace

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

ValueId load_strided(FunctionBuilder& builder, loop::BufferId buffer, const std::vector<ValueId>& index, ValueId mask) {
  if (index.empty() ||
      !std::all_of(index.begin(), index.end() - 1, [&](ValueId id) { return builder.type(id).lanes == 1; }))
    return {};
  const loop::Ramp* found = builder.as_ramp(index.back());
  if (found == nullptr || found->stride < 2 || found->stride > kMostStride) return {};
  const loop::Ramp ramp = *found;
  const int lanes = builder.type(index.back()).lanes, stride = static_cast<int>(ramp.stride);
  const std::optional<std::vector<bool>> wanted =
      mask ? builder.as_mask(builder.splat(mask, lanes))
           : std::optional(std::vector<bool>(static_cast<std::size_t>(lanes), true));
  if (!wanted) return {};
  // The lanes that are wanted, of which there is one at least, without holes.
  const int first = static_cast<int>(std::find(wanted->begin(), wanted->end(), true) - wanted->begin());
  const int last = lanes - 1 - static_cast<int>(std::find(wanted->rbegin(), wanted->rend(), true) - wanted->rbegin());
  if (first > last || !std::all_of(wanted->begin() + first, wanted->begin() + last, [](bool lane) { return lane; }))
    return {};
  const std::optional<std::int64_t> phase =
      builder.as_index(builder.apply(Opcode::Mod, {ramp.base, builder.index(stride)}));
  const int offset = static_cast<int>(phase.value_or(0));
  const bool whole_blocks = phase && blocks_lie_inside(builder, buffer, stride);
  const int low = first * stride + (whole_blocks ? 0 : offset),
            high = last * stride + (whole_blocks ? stride - 1 : offset);
  std::vector<ValueId> parts;
  for (int part = 0; part < stride; ++part) {
    std::vector<ValueId> at = index;
    const int begin = part * lanes;
    if (high < begin || low >= begin + lanes) {
      parts.push_back(builder.constant(scalar::Value{builder.buffer(buffer).dtype, 0}, lanes));
      continue;
    }
    at.back() = builder.ramp(builder.add(ramp.base, builder.index(begin - offset)), 1, lanes);
    const ValueId present = interval_mask(builder, std::max(low - begin, 0), std::min(high - begin, lanes - 1), lanes);
    parts.push_back(builder.load(buffer, std::move(at), present));
  }
  ValueId joined = parts.front();
  for (int part = 1; part < stride; ++part) {
    std::vector<int> picked;
    for (int lane = 0; lane < lanes; ++lane) {
      const int place = lane * stride + offset, in_part = place - part * lanes;
      if (in_part >= 0 && in_part < lanes)
        picked.push_back(lanes + in_part);
      else
        picked.push_back(part == 1 && place < lanes ? place : lane);
    }
    joined = builder.shuffle(joined, std::move(picked), parts[static_cast<std::size_t>(part)]);
  }
  if (!mask) return joined;
  // Lanes under the mask are 0.
  return builder.apply(Opcode::Select,
                       {mask, joined, builder.constant(scalar::Value{builder.buffer(buffer).dtype, 0}, lanes)});
}

}  // namespace corrloom::passes
