#include "compiler/passes/host_near.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/passes/readers.h"

namespace corrloom::passes::host {
namespace {

using scalar::Apply;
using scalar::Expr;
using scalar::Opcode;

/// Most vectors of memory that lanes are picked from, and most vectors side by side.
constexpr std::int64_t kMostParts = 4, kMostVectors = 15;

/// Elements along the axis after which a division of it has the same remainder; 0 where that depends on other axes.
std::int64_t period_of(const Apply& division, AxisId axis) {
  if (!mentions(division.args[0], axis)) return 1;
  const std::optional<std::int64_t> divisor = scalar::as_i64(division.args[1]);
  const std::optional<affine::LinearForm> form = affine::linear_form(division.args[0]);
  if (!divisor || *divisor < 1 || !form) return 0;
  std::int64_t period = 1;
  for (const affine::LinearForm::Term& term : form->terms) {
    if (term.coefficient % *divisor == 0) continue;
    if (axis_of(term.expr) != axis) return 0;
    period = *divisor / std::gcd(term.coefficient, *divisor);
  }
  return period;
}

/// The same of an expression of sums, products with constants, and divisions.
std::int64_t period_of(const Expr& expr, AxisId axis) {
  std::int64_t period = 1;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (period == 0 || scalar::as_i64(node) || axis_of(node)) return;
    const auto* apply = std::get_if<Apply>(&node->kind);
    const bool divides = apply != nullptr && (apply->opcode == Opcode::FloorDiv || apply->opcode == Opcode::Mod);
    const bool adds = apply != nullptr && (apply->opcode == Opcode::Add || apply->opcode == Opcode::Sub ||
                                           apply->opcode == Opcode::Mul || apply->opcode == Opcode::Neg);
    const std::int64_t own = divides ? period_of(*apply, axis) : adds ? 1 : 0;
    period = own == 0 ? 0 : std::lcm(period, std::min<std::int64_t>(own, 1 << 20));
  });
  return period;
}

/// Where an element lies from the first one; nothing where other things than axes decide it.
std::optional<std::int64_t> place_at(const Expr& offset, AxisId axis, std::int64_t at) {
  return scalar::as_i64(scalar::simplify(
      scalar::substitute_axes(offset, [&](AxisId used) { return scalar::constant_i64(used == axis ? at : 0); })));
}

/// Vectors of memory that hold some places, each of which begins with one.
std::int64_t parts_of(std::vector<std::int64_t> places) {
  const auto lanes = static_cast<std::int64_t>(places.size());
  std::sort(places.begin(), places.end());
  std::int64_t parts = 0, begin = 0;
  for (const std::int64_t place : places) {
    if (parts > 0 && place - begin < lanes) continue;
    begin = place;
    ++parts;
  }
  return parts;
}

}  // namespace

std::optional<Near> near_lanes(const Access& access, AxisId axis, std::int64_t lanes) {
  if (!access.offset || access.is_affine() || !access.depends_on(axis)) return std::nullopt;
  const Expr offset = affine::to_expr(*access.offset);
  const std::int64_t period = period_of(offset, axis);
  if (period == 0) return std::nullopt;
  Near near{period / std::gcd(period, lanes), 0};
  if (near.vectors > kMostVectors) return std::nullopt;
  for (std::int64_t vector = 0; vector < near.vectors; ++vector) {
    std::vector<std::int64_t> places;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::optional<std::int64_t> place = place_at(offset, axis, vector * lanes + lane);
      if (!place) return std::nullopt;
      places.push_back(*place);
    }
    near.parts = std::max(near.parts, parts_of(std::move(places)));
  }
  return near.parts <= kMostParts ? std::optional(near) : std::nullopt;
}

}  // namespace corrloom::passes::host
