#include <algorithm>

#include "ir/affine/affine.h"
#include "ir/affine/integer_set.h"
#include "ir/affine/intervals.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::affine {
namespace {

/// Points that are enumerated at most, in the place of reasoning.
constexpr std::int64_t kMostPoints = 1'000'000;

Ranges ranges_of(const Domain& domain) {
  return [&domain](AxisId axis) -> std::optional<Interval> {
    for (const DomainAxis& entry : domain.axes) {
      if (entry.axis == axis) return Interval{0, entry.extent - 1};
    }
    return std::nullopt;
  };
}

bool has_no_points(const Domain& domain) {
  return std::any_of(domain.axes.begin(), domain.axes.end(), [](const DomainAxis& axis) { return axis.extent <= 0; });
}

/// How many points the box has, up to `kMostPoints` + 1.
std::int64_t points_in_box(const Domain& domain) {
  std::int64_t count = 1;
  for (const DomainAxis& axis : domain.axes) {
    if (__builtin_mul_overflow(count, axis.extent, &count) || count > kMostPoints) return kMostPoints + 1;
  }
  return count;
}

bool has_only_axes_of(const Expr& expr, const Domain& domain) {
  bool result = true;
  const Ranges ranges = ranges_of(domain);
  scalar::for_each_node(expr, [&](const Expr& node) {
    const auto* axis = std::get_if<scalar::AxisRef>(&node->kind);
    const bool known = axis != nullptr ? ranges(axis->axis).has_value()
                                       : std::holds_alternative<scalar::Constant>(node->kind) ||
                                             std::holds_alternative<scalar::Apply>(node->kind);
    result = result && known;
  });
  return result;
}

/// The value of an expression of axes and constants at a point.
class AtPoint {
 public:
  AtPoint(const Expr& expr, const Domain& domain, const std::vector<std::int64_t>& point) : evaluator_(expr) {
    environment_.axis = [&domain, &point](AxisId axis) {
      std::size_t i = 0;
      while (domain.axes[i].axis != axis) ++i;
      return scalar::Value::i64(point[i]);
    };
  }
  std::int64_t operator()() { return evaluator_(environment_).as_i64(); }

 private:
  scalar::Evaluator evaluator_;
  scalar::Environment environment_;
};

/// Steps to the next point of the box, the last axis fastest; false at the end.
bool advance(std::vector<std::int64_t>& point, const Domain& domain) {
  for (std::size_t i = point.size(); i-- > 0;) {
    if (++point[i] < domain.axes[i].extent) return true;
    point[i] = 0;
  }
  return false;
}

/// Tries every point; exact.
Verdict enumerate(const Expr& index, std::int64_t extent, const Domain& domain) {
  std::vector<std::int64_t> point(domain.axes.size(), 0);
  AtPoint value_at(index, domain, point);
  std::vector<AtPoint> conditions;
  for (const Expr& condition : domain.conditions) conditions.emplace_back(condition, domain, point);
  Verdict verdict{Verdict::Kind::Inside, {}};
  bool some_inside = false;
  do {
    if (!std::all_of(conditions.begin(), conditions.end(), [](AtPoint& condition) { return condition() != 0; }))
      continue;
    const std::int64_t value = value_at();
    if (value >= 0 && value < extent) {
      some_inside = true;
    } else if (verdict.kind == Verdict::Kind::Inside) {
      verdict = {Verdict::Kind::Outside, point, value};
    }
  } while (!(some_inside && verdict.kind == Verdict::Kind::Outside) && advance(point, domain));
  verdict.always = verdict.kind == Verdict::Kind::Outside && !some_inside;
  return verdict;
}

bool can_enumerate(const Expr& index, const Domain& domain) {
  return points_in_box(domain) <= kMostPoints && has_only_axes_of(index, domain) &&
         std::all_of(domain.conditions.begin(), domain.conditions.end(),
                     [&](const Expr& condition) { return has_only_axes_of(condition, domain); });
}

bool proves_inside(const WideInterval& bounds, std::int64_t extent) {
  return bounds.low >= 0 && bounds.high < extent;
}

}  // namespace

Verdict stays_inside(const Expr& index, std::int64_t extent, const Domain& domain) {
  const Verdict inside{Verdict::Kind::Inside, {}};
  if (has_no_points(domain)) return inside;
  Intervals plain(ranges_of(domain)), intervals = plain;
  for (const Expr& condition : domain.conditions) intervals.assume(condition);
  if (intervals.contradictory() || proves_inside(intervals.of(index), extent)) return inside;

  SetAnswer answer = ask_isl(index, extent, domain, plain, intervals);
  if (answer.verdict.kind == Verdict::Kind::Inside) return inside;
  if (answer.verdict.kind == Verdict::Kind::Outside && !answer.approximate) {
    answer.verdict.value = AtPoint(index, domain, answer.verdict.point)();
    return answer.verdict;
  }
  if (can_enumerate(index, domain)) return enumerate(index, extent, domain);
  return {Verdict::Kind::Unknown, {}};
}

std::optional<Interval> footprint(const Expr& index, const Domain& domain) {
  if (has_no_points(domain)) return Interval{0, -1};
  const Expr simplified = simplify_index(index, ranges_of(domain));
  Intervals plain(ranges_of(domain)), intervals = plain;
  for (const Expr& condition : domain.conditions) intervals.assume(condition);
  if (intervals.contradictory()) return Interval{0, -1};
  if (const std::optional<Interval> exact = ask_isl_for_bounds(simplified, domain, plain, intervals)) return exact;
  const WideInterval bounds = intervals.of(simplified);
  if (!bounds.inside({INT64_MIN, INT64_MAX})) return std::nullopt;
  return Interval{static_cast<std::int64_t>(bounds.low), static_cast<std::int64_t>(bounds.high)};
}

}  // namespace corrloom::affine
