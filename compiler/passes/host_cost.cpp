#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "compiler/passes/host_chooser.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/strides.h"

namespace corrloom::passes::host {

using scalar::Expr;

namespace {

/// Cycles until a sum can be added to again.
constexpr double kLatency = 4;
/// Cycles that a turn of a loop costs beside its body.
constexpr double kLoop = 0.25;
/// Loads and arithmetic of whole vectors in a cycle.
constexpr double kLoadsPerCycle = 2, kArithmeticPerCycle = 2;
/// Bytes of a line of the caches.
constexpr double kLineBytes = 64;
/// Bytes in a cycle from the second-level cache, and from what lies behind it.
constexpr double kNearBytesPerCycle = 48, kFarBytesPerCycle = 16;
/// The same for lines here and there, which the processor does not see coming.
constexpr double kScatteredBytesPerCycle = 6;
/// Cycles: of a load under a mask, which bodies of their own have at borders only, of one element that is gathered, of
/// a vector that is stored through a transpose, of one that is scattered, of an element that is copied along memory or
/// across it.
constexpr double kMaskedLoad = 0.5, kGatheredElement = 2.4, kTransposedStore = 6, kScatteredStore = 24;
/// Cycles of a scattered element whose line is gone when its next element is stored.
constexpr double kEvictedLine = 5;
/// The part of it that is left where two transposed parts fill a line together.
constexpr double kJoinedStore = 0.9;
constexpr double kCopiedElement = 0.25, kTransposedElement = 0.6;
/// Cycles of a kernel beside its work.
constexpr double kKernel = 1000;
/// What a load costs when more rows share a set of the first-level cache than it has ways, and for the first row of
/// a window that is too many; each further one costs more.
constexpr double kCollision = 4, kCrowdedLoad = 0.25;
/// Ways of that cache that other operands need, and results that are stored after few steps.
constexpr std::int64_t kWaysForOthers = 2, kWaysForResults = 2;
/// How much of their time loads, and what comes from behind the first-level cache, add to a step that they do not
/// bound.
constexpr double kLoadShare = 0.25, kFarShare = 0.05;
/// Cycles of a division of whole vectors, or of a conversion through integers of 64 bits.
constexpr double kSlowOperation = 10;
/// Cycles of a step to another page.
constexpr double kPageStep = 1;
/// The part of it that is left where tiles meet the same pages again.
constexpr double kKnownPages = 0.25;
/// A page of memory, and what one way of the first-level cache holds: rows of a tile that many bytes apart share a set.
constexpr std::int64_t kPageBytes = 4096;
/// What a second body for rows that are left over costs an unrolled window, as a part of the time, where there are not
/// many others: it is decoded, and compiled.
constexpr double kCodeOfRest = 0.04;
constexpr std::int64_t kFewTiles = 8;

}  // namespace

double HostChooser::load_cost(const Access& access, const Tile& tile) const {
  const bool copied = access.staged >= 0 && tile.staged[static_cast<std::size_t>(access.staged)];
  const double guard = access.guarded && !copied ? kMaskedLoad : 0;
  if (!access.depends_on(tile.vector->id)) return 1 + guard * 18 + (rows_collide(access, tile) ? kCollision : 0);
  if (copied) {
    const schedule::Part* part = part_of(staged_[static_cast<std::size_t>(access.staged)], tile.vector->id);
    const bool along = part != nullptr && (phases_of(*part, tile.vector->id) > 1 ||
                                           std::all_of(part->terms.begin(), part->terms.end(), [&](const auto& term) {
                                             return axis_of(term.expr) != tile.vector->id || term.coefficient == 1;
                                           }));
    if (!along) return static_cast<double>(lanes()) * kGatheredElement;
    return part->terms.size() > 1 && is_shifted(access) ? 2 : 1;  // windows are copied as they lie
  }
  const std::int64_t stride = access.stride(tile.vector->id);
  if (stride == 1) return (is_shifted(access) ? 2 : 1) + guard + window_collisions(access, tile);
  // Lanes are picked from whole vectors where it is known which of them exist.
  const bool is_known = !access.guarded || !access.in_step || unrolls_all(tile);
  const bool shared = !access.in_step && tile.row != nullptr && picks_between(*tile.vector, *tile.row);
  if (stride > 1 && stride <= kMostVectorStride && is_known) {
    const double parts = static_cast<double>(picked_vectors(access, tile)) / static_cast<double>(tile.vectors);
    return std::max(1.0, parts / static_cast<double>(shared ? tile.rows : 1)) + guard;
  }
  if (const std::optional<Near> near = is_known ? near_of(access, tile) : std::nullopt)
    return static_cast<double>(near->parts) + 1 + guard;
  return static_cast<double>(lanes()) * kGatheredElement + guard;
}

const std::optional<Near>& HostChooser::known_near(const Access& access, const Axis& vector) const {
  const auto [found, is_new] = near_.try_emplace({access.node, vector.id}, std::nullopt);
  if (is_new) found->second = near_lanes(access, vector.id, lanes());
  return found->second;
}

std::optional<Near> HostChooser::near_of(const Access& access, const Tile& tile) const {
  const std::optional<Near>& near = known_near(access, *tile.vector);
  const bool alike = near && (tile.vectors % near->vectors == 0 || tile.vectors * lanes() >= extent_of(*tile.vector));
  return alike ? near : std::nullopt;
}

std::int64_t HostChooser::vectors_alike(const Axis& vector) const {
  std::int64_t together = 1;
  for (const Access& access : accesses_) {
    if (const std::optional<Near>& near = known_near(access, vector)) together = std::lcm(together, near->vectors);
  }
  return together;
}

bool HostChooser::is_shifted(const Access& access) const {
  return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                           [&](const Axis& axis) { return access.stride(axis.id) % lanes() != 0; });
}

bool HostChooser::rows_collide(const Access& access, const Tile& tile) const {
  const std::int64_t ways = target_.l1_bytes / kPageBytes;
  return tile.row != nullptr && tile.rows > ways && access.depends_on(tile.row->id) &&
         std::abs(access.stride(tile.row->id)) * access.element_bytes >= kPageBytes / 2;
}

double HostChooser::window_collisions(const Access& access, const Tile& tile) const {
  if (tile.window < 2 || !access.in_step || !access.depends_on(tile.row->id)) return 0;
  const std::int64_t reached = access.window(tile.row->id, tile.rows, last_reduction()->id, tile.window);
  const std::int64_t results = unrolls_all(tile) ? kWaysForResults : 0;
  const double rows = rows_without_way(reached, access.stride(tile.row->id) * access.element_bytes, results);
  return std::min(kCollision, kCrowdedLoad * rows * (rows + 1) / 2);
}

double HostChooser::rows_without_way(std::int64_t rows, std::int64_t bytes_apart, std::int64_t others) const {
  const std::int64_t ways = std::max<std::int64_t>(target_.l1_bytes / kPageBytes - kWaysForOthers - others, 1);
  const std::int64_t groups = kPageBytes / std::gcd(bytes_apart, kPageBytes);
  return static_cast<double>(std::max<std::int64_t>(ceil_div(rows, groups) - ways, 0));
}

double HostChooser::loads_of(const Access& access, const Tile& tile) const {
  const bool on_vector = access.depends_on(tile.vector->id),
             on_row = tile.row != nullptr && access.depends_on(tile.row->id);
  const auto rows = static_cast<double>(tile.rows), vectors = static_cast<double>(tile.vectors);
  double count = on_vector ? vectors : 1;
  if (!on_row) return count;
  const std::int64_t reached =
      tile.window > 1 ? access.window(tile.row->id, tile.rows, last_reduction()->id, tile.window) : 0;
  return count * (reached > 0 ? static_cast<double>(reached) / static_cast<double>(tile.window) : rows);
}

double HostChooser::operations_of(const Expr& expr) {
  double operations = 0;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (const auto* apply = std::get_if<scalar::Apply>(&node->kind);
        apply != nullptr && node->dtype != DType::I64 && node->dtype != DType::Bool)
      ++operations;
  });
  return operations;
}

double HostChooser::window_operations(const Tile& tile) const {
  if (tile.row == nullptr || tile.window < 2) return 0;
  const auto found = window_operations_.find(tile.row->id);
  if (found != window_operations_.end()) return found->second;
  std::map<const scalar::Node*, bool> moves;  // reads, and whether a window moves them
  for (const Access& access : accesses_)
    moves[access.node] = access.window(tile.row->id, 2, last_reduction()->id, 2) > 0;
  double operations = 0;
  for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators) {
    scalar::for_each_node(accumulator.step, [&](const Expr& node) {
      if (!std::holds_alternative<scalar::Apply>(node->kind) || operations_of(node) == 0) return;
      bool reads = false, shared = true;
      scalar::for_each_node(node, [&](const Expr& inner) {
        reads |= moves.contains(inner.get());
        if (const auto read = moves.find(inner.get()); read != moves.end()) shared &= read->second;
        shared &= !std::holds_alternative<scalar::AccRef>(inner->kind);
      });
      operations += reads && shared && node->dtype != DType::I64 && node->dtype != DType::Bool ? 1 : 0;
    });
  }
  return window_operations_[tile.row->id] = operations;
}

double HostChooser::tile_operations(const Tile& tile) const {
  const auto points = static_cast<double>(tile.rows * tile.vectors);
  double operations = step_operations_, shared = window_operations(tile);
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    if (!tile.staged[k]) continue;
    operations -= staged_operations_[k];
    shared = std::max(0.0, shared - staged_operations_[k]);
  }
  double reached = 1;
  for (const Access& access : accesses_) {
    if (shared == 0 || !access.in_step) continue;
    const std::int64_t elements = access.window(tile.row->id, tile.rows, last_reduction()->id, tile.window);
    if (elements > 0) reached = static_cast<double>(elements) / static_cast<double>(tile.rows * tile.window);
  }
  return (operations - shared + shared * reached) * points;
}

double HostChooser::cost(const Tile& tile) const {
  const auto rows = static_cast<double>(tile.rows), vectors = static_cast<double>(tile.vectors);
  double step_loads = 0, body_loads = 0, far = 0, rows_far = 0;
  for (const Access& access : accesses_) {
    const double cycles = load_cost(access, tile) * loads_of(access, tile);
    (access.in_step ? step_loads : body_loads) += cycles;
    if (access.in_step && access.depends_on(tile.vector->id)) far += far_cycles(access, tile);
    if (access.in_step && !access.depends_on(tile.vector->id)) rows_far += rows_far_cycles(access, tile);
  }
  double step = 0;
  if (compute_.reduction) {
    const double loads = step_loads / kLoadsPerCycle;
    step = kLoop + std::max({tile_operations(tile) / kArithmeticPerCycle, loads, kLatency, far, rows_far}) +
           kLoadShare * loads + kFarShare * far + pages_of_step(tile);
  }
  const double body = std::max(body_operations_ * rows * vectors / kArithmeticPerCycle, body_loads / kLoadsPerCycle) *
                      shared_part(tile);
  const double outer = points_ / static_cast<double>(extent_of(*tile.vector)) /
                       (tile.row == nullptr ? 1 : static_cast<double>(extent_of(*tile.row)));
  const double tiles =
      outer * static_cast<double>(ceil_div(extent_of(*tile.vector), lanes() * tile.vectors)) * row_tiles(tile);
  return (1 + code_cost(tile)) * tiles *
             (step * reduction_ + body + rows * vectors * store_cost(tile) + line_cost(tile) + slow_cycles(tile) + 4) +
         copy_cost(tile);
}

double HostChooser::code_cost(const Tile& tile) const {
  if (tile.window < 2 || !unrolls_all(tile)) return 0;
  const std::int64_t extent = extent_of(*tile.row);
  return extent % tile.rows == 0 || ceil_div(extent, tile.rows) > kFewTiles ? 0 : kCodeOfRest;
}

double HostChooser::slow_cycles(const Tile& tile) const {
  const double all = slow_operations(*tile.vector, nullptr);
  const double shared = tile.row == nullptr ? 0 : slow_operations(*tile.vector, tile.row);
  const auto vectors = static_cast<double>(tile.vectors);
  return kSlowOperation * vectors * (shared + (all - shared) * static_cast<double>(tile.rows));
}

double HostChooser::line_cost(const Tile& tile) const {
  double lines = 0;
  for (const Access& access : accesses_) {
    if (!access.in_step || tile.row == nullptr || access.stride(tile.vector->id) != 1) continue;
    const std::optional<std::int64_t> taps = scalar::as_i64(last_reduction()->extent);
    const std::int64_t rows =
        access.window(tile.row->id, tile.rows, last_reduction()->id, std::clamp<std::int64_t>(taps.value_or(1), 1, 32));
    lines += static_cast<double>(rows) * (static_cast<double>(tile.vectors * access.element_bytes) / 4 + 0.5);
  }
  return lines * kLineBytes / kNearBytesPerCycle / 2;
}

double HostChooser::pages_of_step(const Tile& tile) const {
  const Axis* last = last_reduction();
  double pages = 0;
  for (const Access& access : accesses_) {
    const bool broadcast = access.in_step && !access.depends_on(tile.vector->id);
    if (broadcast && last != nullptr && std::abs(access.stride(last->id)) * access.element_bytes >= kPageBytes)
      pages += kPageStep;
  }
  return sweeps_pages(tile) ? pages * kKnownPages : pages;
}

double HostChooser::row_tiles(const Tile& tile) const {
  if (tile.row == nullptr) return 1;
  const std::int64_t extent = extent_of(*tile.row), rest = extent % tile.rows;
  const auto rows = static_cast<double>(tile.rows);
  return static_cast<double>(extent / tile.rows) +
         (rest == 0 ? 0 : std::min(1.0, std::max(static_cast<double>(rest) / rows, std::min(4.0, rows) / rows)));
}

double HostChooser::store_cost(const Tile& tile) const {
  if (tile.vector == &compute_.axes.back()) return 1;
  if (interleaves(tile)) return static_cast<double>(tile.rows);
  if (tile.row != &compute_.axes.back() || tile.rows < 4) return scattered_store(tile);
  const double parts = static_cast<double>(ceil_div(tile.rows, lanes()) * lanes()) / static_cast<double>(tile.rows);
  const bool joined = byte_size(op_.dtype) < 4 && tile.rows == 2 * lanes();
  return kTransposedStore * parts * (joined ? kJoinedStore : 1);
}

double HostChooser::scattered_store(const Tile& tile) const {
  std::int64_t apart = byte_size(op_.dtype);
  for (const Axis* axis = tile.vector + 1; axis <= &compute_.axes.back(); ++axis) apart *= extent_of(*axis);
  return kScatteredStore + kEvictedLine * rows_without_way(tile.vectors * lanes(), apart, 0);
}

double HostChooser::far_cycles(const Access& access, const Tile& tile) const {
  const double bytes = loads_of(access, tile) * target_.vector_bytes * static_cast<double>(access.element_bytes) / 4;
  double all = bytes;
  for (const Axis& axis : compute_.reduction->axes) {
    // A step of a few elements stays in the same lines.
    const bool in_place = access.stride(tile.vector->id) == 1;
    const bool moves = in_place ? std::abs(access.stride(axis.id)) >= lanes() : access.depends_on(axis.id);
    if (moves) all *= static_cast<double>(walked_elements(axis, tile));
  }
  if (all <= static_cast<double>(target_.l1_bytes) / 2) return 0;
  return bytes / (all <= 0.6 * static_cast<double>(target_.l2_bytes) ? kNearBytesPerCycle : kFarBytesPerCycle);
}

std::int64_t HostChooser::walked_elements(const Axis& reduced, const Tile& tile) const {
  const std::int64_t piece = piece_of(tile);
  return piece > 0 ? piece : std::max<std::int64_t>(scalar::as_i64(reduced.extent).value_or(1024), 1);
}

double HostChooser::rows_far_cycles(const Access& access, const Tile& tile) const {
  if (!compute_.reduction || !access.is_affine()) return 0;
  const auto lines_of = [&](std::int64_t extent, std::int64_t stride) {
    const auto bytes = static_cast<double>(std::abs(stride) * access.element_bytes);
    return std::max(1.0, static_cast<double>(extent) * std::min(1.0, bytes / kLineBytes));
  };
  double bytes = kLineBytes * (tile.row == nullptr ? 1 : lines_of(tile.rows, access.stride(tile.row->id)));
  for (const Axis& axis : compute_.reduction->axes)
    bytes *= lines_of(walked_elements(axis, tile), access.stride(axis.id));
  const std::int64_t piece = piece_of(tile);
  const double panel =
      static_cast<double>(tile.vectors * target_.vector_bytes) * (piece > 0 ? static_cast<double>(piece) : reduction_);
  if (bytes + panel <= 0.8 * static_cast<double>(target_.l2_bytes)) return 0;
  return bytes / reduction_ / kScatteredBytesPerCycle;
}

double HostChooser::copy_cost(const Tile& tile) const {
  double cycles = 0;
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    if (!tile.staged[k] || is_constant(k)) continue;
    bool across = false;
    for (const Access& access : accesses_) {
      if (access.staged == static_cast<int>(k) && access.depends_on(tile.vector->id) &&
          access.stride(tile.vector->id) != 1)
        across = true;
    }
    cycles += kKernel + elements_of(k) * (across ? kTransposedElement : kCopiedElement);
  }
  return cycles;
}

}  // namespace corrloom::passes::host
