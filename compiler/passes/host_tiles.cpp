#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "compiler/passes/host_chooser.h"
#include "compiler/passes/host_stores.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/strides.h"
#include "ir/affine/affine.h"

namespace corrloom::passes::host {

using tensor::TensorId;

namespace {

/// Most rows of a register tile, and most vectors in a row: of one that shares rows, and of one that walks memory.
constexpr std::int64_t kMaxRows = 14, kMaxVectors = 6, kMaxStreamVectors = 16;
/// Most operations of the points of a tile whose rows share what they read.
constexpr double kMostStencil = 256;
/// Points of a tile that may do more operations behind their sums than for them: what they share is little beside
/// those.
constexpr std::int64_t kMostBehindSums = 4;
/// Operations of a body of which one vector at a time is enough.
constexpr double kLongBody = 96;
/// Taps of a long window that are unrolled together.
constexpr std::int64_t kLongWindow = 6;

}  // namespace

Tile HostChooser::best_tile() const {
  Tile best;
  for (const Axis& vector : compute_.axes) {
    if (extent_of(vector) <= 1 || bounds_reduction(vector)) continue;
    consider_rows(vector, nullptr, best);
    for (const Axis& row : compute_.axes) {
      if (&row != &vector && extent_of(row) > 1 && !bounds_reduction(row) && shares_loads(vector, row))
        consider_rows(vector, &row, best);
    }
  }
  return best;
}

bool HostChooser::is_window(const Axis& row, const Axis& vector) const {
  const Axis* last = last_reduction();
  return last != nullptr && scalar::as_i64(last->extent) &&
         std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
           const std::int64_t taps = std::min<std::int64_t>(*scalar::as_i64(last->extent), 8);
           const bool loads = access.in_step && access.depends_on(vector.id);
           const std::int64_t reached = loads ? access.window(row.id, 8, last->id, taps) : 0;
           return reached > 0 && reached < 8 * taps;
         });
}

bool HostChooser::is_stencil(const Axis& row) const {
  constexpr std::int64_t kRows = 8;
  const std::int64_t same_for_all = distinct_loads(&row, 0);
  return distinct_loads(&row, kRows) - same_for_all < (distinct_loads(&row, 1) - same_for_all) * kRows;
}

std::int64_t HostChooser::distinct_loads(const Axis* row, std::int64_t rows) const {
  const auto [found, is_new] = distinct_loads_.try_emplace({row == nullptr ? AxisId{} : row->id, rows}, 0);
  if (is_new) found->second = count_distinct_loads(row, rows);
  return found->second;
}

std::int64_t HostChooser::count_distinct_loads(const Axis* row, std::int64_t rows) const {
  std::set<std::tuple<TensorId, std::vector<std::int64_t>, std::int64_t>> loads;
  std::int64_t others = 0;
  for (const Access& access : accesses_) {
    if (access.in_step) continue;
    const std::int64_t stride = row == nullptr ? 0 : access.stride(row->id);
    if (!access.is_affine() || (row != nullptr && stride == 0)) {
      others += rows;  // a load that all rows share saves nothing else
      continue;
    }
    std::vector<std::int64_t> strides;
    for (const Axis& axis : compute_.axes) strides.push_back(access.stride(axis.id));
    for (std::int64_t r = 0; r < rows; ++r)
      loads.emplace(access.read->source, strides, access.offset->constant + r * stride);
  }
  return static_cast<std::int64_t>(loads.size()) + others;
}

double HostChooser::shared_part(const Tile& tile) const {
  if (compute_.reduction || tile.row == nullptr || tile.rows < 2) return 1;
  return static_cast<double>(distinct_loads(tile.row, tile.rows)) /
         static_cast<double>(distinct_loads(tile.row, 1) * tile.rows);
}

bool HostChooser::picks_between(const Axis& vector, const Axis& row) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    const std::int64_t apart = access.stride(vector.id), step = access.stride(row.id);
    return !access.in_step && apart > 1 && apart <= kMostVectorStride && step > 0 && step * extent_of(row) <= apart;
  });
}

double HostChooser::slow_operations(const Axis& vector, const Axis* row) const {
  double operations = 0;
  // Where lanes repeat, what is made of their places is constant.
  const bool gathers = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return !access.is_affine() && access.depends_on(vector.id) && !known_near(access, vector);
  });
  if (compute_.reduction || !gathers) return operations;
  const auto counts = [&](const scalar::Expr& node) {
    return mentions(node, vector.id) && (row == nullptr || !mentions(node, row->id));
  };
  scalar::for_each_node(compute_.body, [&](const scalar::Expr& node) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    if (apply == nullptr || !is_float(node->dtype)) return;
    const bool converts = apply->opcode == scalar::Opcode::Cast && apply->args[0]->dtype == DType::I64;
    if ((apply->opcode == scalar::Opcode::Div || converts) && counts(node)) ++operations;
  });
  return operations;
}

bool HostChooser::shares_loads(const Axis& vector, const Axis& row) const {
  if (&row == &compute_.axes.back()) return true;
  if (slow_operations(vector, &row) > 0) return true;
  if (compute_.reduction ? is_window(row, vector) : is_stencil(row) || picks_between(vector, row)) return true;
  return std::any_of(accesses_.begin(), accesses_.end(),
                     [&](const Access& access) { return access.depends_on(vector.id) && !access.depends_on(row.id); });
}

void HostChooser::consider_rows(const Axis& vector, const Axis* row, Tile& best) const {
  const std::int64_t width = lanes(), fitting = ceil_div(extent_of(vector), width);
  const bool works_behind = compute_.reduction && step_operations_ * reduction_ < body_operations_;
  // Without sums to wait for more vectors only make the body longer.
  const bool has_long_body = body_operations_ > kLongBody && (!compute_.reduction || works_behind);
  const std::int64_t streams = has_long_body ? 1 : compute_.reduction ? kMaxStreamVectors : 4;
  // Nor do they fit beside each other where rows are stored through a transpose.
  const bool across =
      !compute_.reduction && row == &compute_.axes.back() && &vector != row && extent_of(*row) > kMostInterleaved;
  const std::int64_t most_vectors = across ? 1 : std::min(fitting, row == nullptr ? streams : kMaxVectors);
  // More where lanes lie alike in every so many vectors.
  const std::int64_t alike = row != nullptr || compute_.reduction ? 1 : std::min(fitting, vectors_alike(vector));
  const bool may_be_alike = static_cast<double>(alike) * body_operations_ <= kMostStencil;
  // Elements narrower than what is computed fill a line of the result with the rows of two transposes.
  const bool narrow = byte_size(op_.dtype) < 4 && across && host::streams(graph_, op_, target_, &vector);
  const std::int64_t most_lanes = narrow ? 2 * width : width;
  const std::int64_t most_rows = row == nullptr ? 1 : std::min(extent_of(*row), std::max(kMaxRows, most_lanes));
  const bool window = row != nullptr && compute_.reduction && is_window(*row, vector);
  const bool along = row != nullptr && !compute_.reduction && &vector == &compute_.axes.back();
  const bool stencil = along && (is_stencil(*row) || slow_operations(vector, row) > 0),
             picks = along && picks_between(vector, *row);
  // Without a reduction a load that rows share is one from the nearest cache: a longer body is only worth a window's.
  if (!compute_.reduction && row != nullptr && row != &compute_.axes.back() && !stencil && !picks) return;
  for (std::int64_t rows = 1; rows <= most_rows; ++rows) {
    for (std::int64_t vectors = 1; vectors <= std::max(most_vectors, may_be_alike ? alike : 1); ++vectors) {
      if (vectors > most_vectors && vectors != alike) continue;
      if (rows * vectors + vectors + 1 >= target_.vector_registers &&
          !(vectors == 1 && rows <= most_lanes && !compute_.reduction))
        continue;
      if (rows > 1 && row == nullptr) continue;
      const double operations = static_cast<double>(rows * vectors) * body_operations_;
      if (stencil && operations > kMostStencil) continue;
      if (works_behind && rows * vectors > kMostBehindSums && operations > kMostStencil) continue;
      Tile tile{&vector, row, rows, vectors, 0, {}, 0};
      consider_copies(tile, best);
      if (!window || rows * vectors > target_.vector_registers / 2) continue;
      const std::int64_t taps = *scalar::as_i64(last_reduction()->extent);
      tile.window = taps <= 11 ? taps : kLongWindow;
      if (rows > 1 && rows * vectors * tile.window <= kMaxUnrolledWindow + 30 && holds_window(tile))
        consider_copies(tile, best);
    }
  }
}

bool HostChooser::interleaves(const Tile& tile) const {
  return compute_.axes.size() > 1 && tile.row == &compute_.axes.back() && tile.vector == tile.row - 1 &&
         tile.rows == extent_of(*tile.row) && tile.rows > 1 && tile.rows <= kMostInterleaved;
}

bool HostChooser::holds_window(const Tile& tile) const {
  std::int64_t registers = tile.rows * tile.vectors + 2;
  for (const Access& access : accesses_) {
    const std::int64_t stride = access.stride(tile.vector->id);
    if (!access.in_step || stride < 2 || stride > kMostVectorStride) continue;
    registers +=
        access.window(tile.row->id, tile.rows, last_reduction()->id, tile.window) * picked_vectors(access, tile);
  }
  return registers <= target_.vector_registers;
}

std::int64_t HostChooser::picked_vectors(const Access& access, const Tile& tile) const {
  const std::int64_t stride = access.stride(tile.vector->id);
  return std::min(tile.vectors * stride, ceil_div((extent_of(*tile.vector) - 1) * stride + 1, lanes()));
}

bool HostChooser::unrolls_all(const Tile& tile) const {
  const auto most = static_cast<double>(tile.window > 1 ? kMaxUnrolledWindow : kMaxUnrolled);
  return static_cast<double>(tile.rows * tile.vectors) * reduction_ <= most;
}

void HostChooser::consider_copies(Tile tile, Tile& best) const {
  const std::size_t choices = std::size_t{1} << std::min<std::size_t>(staged_.size(), 3);
  for (std::size_t choice = 0; choice < choices; ++choice) {
    tile.staged.assign(staged_.size(), false);
    bool possible = true;
    for (std::size_t k = 0; k < std::min<std::size_t>(staged_.size(), 3); ++k) {
      tile.staged[k] = (choice >> k & 1) != 0;
      possible &= !tile.staged[k] || (can_stage(k, tile) && changes_loads(k, tile));
    }
    if (!possible) continue;
    tile.cycles = cost(tile);
    note(tile);
    if (tile.cycles < best.cycles * 0.999) best = tile;
  }
}

double HostChooser::elements_of(std::size_t staged) const {
  double elements = 1;
  for (const schedule::Part& part : staged_[staged].parts) elements *= static_cast<double>(part.count());
  return elements;
}

bool HostChooser::can_stage(std::size_t staged, const Tile& tile) const {
  // Elements that are gathered one by one cost more than a copy that is read once.
  const bool gathered =
      compute_.reduction && std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
        return access.staged == static_cast<int>(staged) && access.in_step && access.stride(tile.vector->id) > lanes();
      });
  const bool pays = is_constant(staged) || gathered ||
                    elements_of(staged) * static_cast<double>(target_.at_scale(kWorthPacking)) <= points_ * reduction_;
  return pays && elements_of(staged) < 1e10;
}

bool HostChooser::changes_loads(std::size_t staged, const Tile& tile) const {
  if (scalar::as_apply(staged_[staged].expr, scalar::Opcode::Cast) != nullptr) return true;
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return access.staged == static_cast<int>(staged) && (access.guarded || access.depends_on(tile.vector->id));
  });
}

std::int64_t HostChooser::phases_of(const schedule::Part& part, AxisId axis) {
  std::int64_t phases = 1;
  for (const affine::LinearForm::Term& term : part.terms) {
    if (axis_of(term.expr) == axis && part.terms.size() > 1) phases = term.coefficient;
  }
  return phases > 1 && phases <= kMostVectorStride ? phases : 1;
}

const schedule::Part* HostChooser::part_of(const schedule::StagedExpr& staged, AxisId axis) {
  const schedule::Part* found = nullptr;
  for (const schedule::Part& part : staged.parts) {
    for (const affine::LinearForm::Term& term : part.terms) {
      if (axis_of(term.expr) == axis) found = found == nullptr ? &part : found;
    }
  }
  return found;
}

}  // namespace corrloom::passes::host
