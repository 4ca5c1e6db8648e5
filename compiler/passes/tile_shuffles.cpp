#include "compiler/passes/tile_shuffles.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::ValueId;
using scalar::Opcode;

namespace {

/// Most vectors that are loaded to pick lanes from them.
constexpr std::int64_t kMostParts = 4;

/// The lanes [first, last] of a mask of so many; an invalid id for all of them.
ValueId interval_mask(FunctionBuilder& builder, int first, int last, int lanes) {
  const ValueId lane = builder.ramp(builder.index(0), 1, lanes);
  ValueId mask;
  if (last < lanes - 1) mask = builder.apply(Opcode::Lt, {lane, builder.index(last + 1)});
  if (first == 0) return mask;
  const ValueId from = builder.apply(Opcode::Ge, {lane, builder.index(first)});
  return mask ? builder.apply(Opcode::And, {from, mask}) : from;
}

std::int64_t floor_multiple(std::int64_t value, std::int64_t of) {
  return value - (value % of + of) % of;
}

/// The number of elements of a buffer divides by `by`.
bool has_multiple_of(const loop::Buffer& buffer, std::int64_t by) {
  bool divides = by == 1;
  for (const scalar::Expr& extent : buffer.extents) {
    const std::optional<std::int64_t> known = scalar::as_i64(extent);
    if (!known) return false;
    divides |= *known % by == 0;
  }
  return divides;
}

/// Elements that are loaded together, as many as there are lanes: of those from `begin` on, the ones from `low` to
/// `high` may be touched.
struct Part {
  std::int64_t begin = 0, low = 0, high = 0;
};

/// Where lanes find their elements: at distances from a place, in parts.
struct Place {
  ValueId base;
  std::vector<std::int64_t> at;
  std::vector<Part> parts;
};

/// The lanes of a mask that are wanted, if they are known: one of them is.
std::optional<std::vector<bool>> wanted_lanes(FunctionBuilder& builder, ValueId mask, int lanes) {
  if (!mask) return std::vector<bool>(static_cast<std::size_t>(lanes), true);
  std::optional<std::vector<bool>> wanted = builder.as_mask(builder.splat(mask, lanes));
  return wanted && std::find(wanted->begin(), wanted->end(), true) != wanted->end() ? wanted : std::nullopt;
}

/// As few parts as hold all those places, each of which begins with one.
std::vector<Part> parts_from(std::vector<std::int64_t> places, std::int64_t lanes) {
  std::sort(places.begin(), places.end());
  std::vector<Part> parts;
  for (const std::int64_t place : places) {
    if (parts.empty() || place - parts.back().begin >= lanes) parts.push_back({place, place, place});
    parts.back().high = place;
  }
  return parts;
}

/// Parts one behind the other, at the same places for all that pick from the same blocks of `stride` elements. Blocks
/// that lie inside of the buffer are loaded whole.
std::vector<Part> parts_of_blocks(const std::vector<std::int64_t>& places, std::int64_t lanes, std::int64_t stride,
                                  bool whole) {
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  const std::int64_t low = whole ? floor_multiple(*least, stride) : *least;
  const std::int64_t high = whole ? floor_multiple(*most, stride) + stride - 1 : *most;
  std::vector<Part> parts;
  for (std::int64_t begin = floor_multiple(low, lanes); begin <= high; begin += lanes)
    parts.push_back({begin, std::max(low, begin), std::min(high, begin + lanes - 1)});
  return parts;
}

/// Nothing where the lanes lie one behind the other, far apart, or nobody knows how.
std::optional<Place> place_of(FunctionBuilder& builder, loop::BufferId buffer, ValueId offset, ValueId mask) {
  const std::optional<FunctionBuilder::Lanes> form = builder.as_lanes(offset);
  const std::optional<loop::Ramp> ramp = builder.as_ramp(offset);
  if (!form || (ramp && ramp->stride == 1)) return std::nullopt;
  const int lanes = builder.type(offset).lanes;
  const std::optional<std::vector<bool>> wanted = wanted_lanes(builder, mask, lanes);
  if (!wanted) return std::nullopt;
  Place place{form->base, form->offsets, {}};
  const std::int64_t stride = ramp && ramp->stride <= kMostParts ? ramp->stride : 1;
  const std::optional<std::int64_t> phase = stride > 1 ? builder.phase_of(form->base, stride) : std::nullopt;
  if (phase) {
    place.base = builder.add(form->base, builder.index(-*phase));
    for (std::int64_t& at : place.at) at += *phase;
  }
  std::vector<std::int64_t> places;
  for (std::size_t lane = 0; lane < wanted->size(); ++lane) {
    if ((*wanted)[lane]) places.push_back(place.at[lane]);
  }
  const bool whole = phase && has_multiple_of(builder.buffer(buffer), stride);
  place.parts = stride > 1 ? parts_of_blocks(places, lanes, stride, whole) : parts_from(places, lanes);
  return static_cast<std::int64_t>(place.parts.size()) <= kMostParts ? std::optional(place) : std::nullopt;
}

/// The elements of a part; 0 for those that are not touched.
ValueId load_part(FunctionBuilder& builder, loop::BufferId buffer, const Place& place, const Part& part) {
  const auto lanes = static_cast<int>(place.at.size());
  const auto first = static_cast<int>(part.low - part.begin), last = static_cast<int>(part.high - part.begin);
  const ValueId from = builder.add(place.base, builder.index(part.begin));
  // A short piece needs no mask where it is a vector by itself.
  const bool is_short = place.parts.size() == 1 && first == 0 && std::has_single_bit(static_cast<unsigned>(last + 1));
  const int loaded = is_short ? last + 1 : lanes;
  const ValueId present = is_short ? ValueId{} : interval_mask(builder, first, last, lanes);
  return builder.load(buffer, {builder.ramp(from, 1, loaded)}, present);
}

/// The lanes that are found in that part, and the others as they are in what was joined before.
ValueId join(FunctionBuilder& builder, const Place& place, ValueId joined, ValueId part, std::size_t number) {
  const auto lanes = static_cast<std::int64_t>(place.at.size());
  const Part &first = place.parts.front(), &here = place.parts[number];
  std::vector<int> picked;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const std::int64_t at = place.at[static_cast<std::size_t>(lane)];
    if (number <= 1 && at >= first.low && at <= first.high)
      picked.push_back(static_cast<int>(at - first.begin));
    else if (number > 0 && at >= here.low && at <= here.high)
      picked.push_back(static_cast<int>(lanes + at - here.begin));
    else
      picked.push_back(static_cast<int>(number > 0 ? lane : 0));
  }
  return number == 0 ? builder.shuffle(joined, std::move(picked)) : builder.shuffle(joined, std::move(picked), part);
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

std::vector<ValueId> interleave(FunctionBuilder& builder, const std::vector<ValueId>& vectors) {
  const auto count = static_cast<int>(vectors.size());
  const int lanes = builder.type(vectors.at(0)).lanes;
  std::vector<ValueId> out;
  for (int number = 0; number < count; ++number) {
    ValueId joined = vectors.front();
    for (int from = 1; from < count; ++from) {
      std::vector<int> picked;
      for (int lane = 0; lane < lanes; ++lane) {
        const int element = number * lanes + lane, vector = element % count, place = element / count;
        // What later vectors fill may be anything.
        picked.push_back(vector == from ? lanes + place : from == 1 && vector == 0 ? place : lane);
      }
      joined = builder.shuffle(joined, std::move(picked), vectors[static_cast<std::size_t>(from)]);
    }
    out.push_back(joined);
  }
  return out;
}

ValueId side_by_side(FunctionBuilder& builder, ValueId a, ValueId b) {
  std::vector<int> lanes(static_cast<std::size_t>(builder.type(a).lanes + builder.type(b).lanes));
  std::iota(lanes.begin(), lanes.end(), 0);
  return builder.shuffle(a, std::move(lanes), b);
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

ValueId load_near(FunctionBuilder& builder, loop::BufferId buffer, ValueId offset, ValueId mask) {
  const std::optional<Place> place = place_of(builder, buffer, offset, mask);
  if (!place) return {};
  std::vector<ValueId> parts;
  for (const Part& part : place->parts) parts.push_back(load_part(builder, buffer, *place, part));
  ValueId joined = parts.front();
  if (parts.size() == 1) joined = join(builder, *place, joined, {}, 0);
  for (std::size_t number = 1; number < parts.size(); ++number)
    joined = join(builder, *place, joined, parts[number], number);
  if (!mask) return joined;
  // Lanes under the mask are 0.
  const int lanes = builder.type(offset).lanes;
  return builder.apply(Opcode::Select,
                       {mask, joined, builder.constant(scalar::Value{builder.buffer(buffer).dtype, 0}, lanes)});
}

}  // namespace corrloom::passes
