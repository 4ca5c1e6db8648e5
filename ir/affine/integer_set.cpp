#include "ir/affine/integer_set.h"

#include <isl/cpp.h>
#include <isl/options.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::affine {
namespace {

using scalar::Apply;
using scalar::Opcode;

/// Operations of isl's solvers that one question may take: about a tenth of a second.
constexpr unsigned long kQuota = 20'000;

struct FreeContext {
  void operator()(isl_ctx* context) const { isl_ctx_free(context); }
};
using Context = std::unique_ptr<isl_ctx, FreeContext>;

/// A context whose errors become exceptions of the C++ interface and never end the process.
Context make_context() {
  Context context(isl_ctx_alloc());
  CORRLOOM_CHECK(context != nullptr, "isl gives no context");
  isl_options_set_on_error(context.get(), ISL_ON_ERROR_CONTINUE);
  isl_ctx_set_max_operations(context.get(), kQuota);
  return context;
}

/// Turns expressions over the axes of a domain into isl's piecewise quasi-affine functions and sets. A dimension of the
/// space stands for each axis, in order; a parameter for each sub-expression that has no quasi-affine form.
class Converter {
 public:
  Converter(isl::ctx context, const Domain& domain, Intervals& plain, Intervals& assumed)
      : context_(context),
        domain_(domain),
        plain_(plain),
        assumed_(assumed),
        intervals_(&plain),
        space_(isl::manage(isl_space_set_alloc(context.get(), 0, static_cast<unsigned>(domain.axes.size())))) {}

  /// The box of the axes, cut by the conditions. What is converted afterwards may take the conditions as given.
  isl::set points() {
    isl::set points = isl::set::universe(space_);
    for (std::size_t i = 0; i < domain_.axes.size(); ++i) {
      const isl::pw_aff position = variable(i);
      points = points.intersect(position.ge_set(number(0)));
      points = points.intersect(position.lt_set(number(domain_.axes[i].extent)));
    }
    // Conditions are converted without assuming any of them: the set must not hold points that break one.
    for (const Expr& condition : domain_.conditions) points = points.intersect(where(condition));
    intervals_ = &assumed_;
    values_.clear();
    // With unknowns the set is too large anyway; then bounds that the conditions give to them cut it further.
    if (has_unknowns()) {
      for (const Expr& condition : domain_.conditions) points = points.intersect(where(condition));
    }
    return points;
  }
  /// The points within the bounds of the unknowns met so far.
  isl::set with_unknowns(isl::set points) const {
    for (const isl::set& bounds : bounds_of_unknowns_) points = points.intersect(bounds);
    return points;
  }
  bool has_unknowns() const { return !unknowns_.empty(); }

  isl::pw_aff number(Int128 value) {
    CORRLOOM_CHECK(value >= INT64_MIN && value <= INT64_MAX, "a constant beyond 64 bits");
    const isl::aff zero = isl::aff::zero_on_domain(space_);
    return isl::pw_aff(zero.add_constant(isl::val(context_, static_cast<long>(value))));
  }

  /// The value of an integer expression.
  isl::pw_aff value_of(const Expr& expr) {
    const auto found = values_.find(expr.get());
    if (found != values_.end()) return found->second;
    const isl::pw_aff value = convert(expr);
    values_.emplace(expr.get(), value);
    return value;
  }

  /// The points where a bool expression holds.
  isl::set where(const Expr& condition) {
    if (const scalar::Value* value = scalar::as_constant(condition)) {
      const isl::set all = isl::set::universe(space_);
      return value->as_bool() ? all : all.subtract(all);
    }
    const auto* apply = std::get_if<Apply>(&condition->kind);
    if (apply == nullptr || is_float(apply->args[0]->dtype)) return where_unknown(condition);
    switch (apply->opcode) {
      case Opcode::Not:
        return where(apply->args[0]).complement();
      case Opcode::And:
      case Opcode::LazyAnd:
        return where(apply->args[0]).intersect(where(apply->args[1]));
      case Opcode::Or:
      case Opcode::LazyOr:
        return where(apply->args[0]).unite(where(apply->args[1]));
      case Opcode::If:
      case Opcode::Select: {
        const isl::set condition_set = where(apply->args[0]);
        return condition_set.intersect(where(apply->args[1]))
            .unite(condition_set.complement().intersect(where(apply->args[2])));
      }
      default:
        break;
    }
    if (apply->opcode == Opcode::Xor) return compare(Opcode::Ne, value_of(apply->args[0]), value_of(apply->args[1]));
    if (apply->opcode == Opcode::Cast) return compare(Opcode::Ne, value_of(apply->args[0]), number(0));
    if (apply->opcode < Opcode::Eq || apply->opcode > Opcode::Ge) return where_unknown(condition);
    return compare(apply->opcode, value_of(apply->args[0]), value_of(apply->args[1]));
  }

 private:
  isl::pw_aff variable(std::size_t axis) {
    isl_local_space* local = isl_local_space_from_space(space_.copy());
    return isl::pw_aff(isl::manage(isl_aff_var_on_domain(local, isl_dim_set, static_cast<unsigned>(axis))));
  }

  static isl::set compare(Opcode opcode, const isl::pw_aff& x, const isl::pw_aff& y) {
    switch (opcode) {
      case Opcode::Eq:
        return x.eq_set(y);
      case Opcode::Ne:
        return x.ne_set(y);
      case Opcode::Lt:
        return x.lt_set(y);
      case Opcode::Le:
        return x.le_set(y);
      case Opcode::Gt:
        return x.gt_set(y);
      default:
        return x.ge_set(y);
    }
  }

  /// A parameter that stands for `expr`, the same one for equal expressions.
  isl::pw_aff unknown(const Expr& expr) {
    std::size_t number_of = 0;
    while (number_of < unknowns_.size() && !scalar::same(unknowns_[number_of], expr)) ++number_of;
    const isl::id name(context_, "p" + std::to_string(number_of));
    const isl::pw_aff value(isl::manage(isl_aff_param_on_domain_space_id(space_.copy(), name.copy())));
    if (number_of < unknowns_.size()) return value;
    unknowns_.push_back(expr);
    const WideInterval bounds = assumed_.of(expr);
    const WideInterval all = range_of(DType::I64);
    if (bounds.low >= all.low) bounds_of_unknowns_.push_back(value.ge_set(number(bounds.low)));
    if (bounds.high <= all.high) bounds_of_unknowns_.push_back(value.le_set(number(bounds.high)));
    return value;
  }
  isl::set where_unknown(const Expr& condition) { return unknown(condition).eq_set(number(1)); }

  isl::pw_aff convert(const Expr& expr) {
    const WideInterval bounds = intervals_->of(expr);
    if (bounds.is_point() && bounds.inside(range_of(DType::I64))) return number(bounds.low);
    if (expr->dtype == DType::Bool) return where(expr).indicator_function();
    if (const auto* reference = std::get_if<scalar::AxisRef>(&expr->kind)) {
      for (std::size_t i = 0; i < domain_.axes.size(); ++i) {
        if (domain_.axes[i].axis == reference->axis) return variable(i);
      }
      return unknown(expr);
    }
    const auto* apply = std::get_if<Apply>(&expr->kind);
    if (apply == nullptr || is_float(apply->args[0]->dtype)) return unknown(expr);
    const std::optional<isl::pw_aff> value = convert_apply(expr, *apply);
    if (!value) return unknown(expr);
    if (intervals_->is_exact(expr)) return *value;
    return bit_width(expr->dtype) < 64 ? wrapped(*value, expr->dtype) : unknown(expr);
  }

  /// The value as an integer of fewer than 64 bits.
  isl::pw_aff wrapped(const isl::pw_aff& value, DType dtype) {
    const long period = 1L << bit_width(dtype);
    if (is_unsigned_integer(dtype)) return value.mod(isl::val(context_, period));
    const isl::pw_aff half = number(period / 2);
    return value.add(half).mod(isl::val(context_, period)).sub(half);
  }

  /// The value of an operand that is the same at every point.
  std::optional<long> fixed(const Expr& operand) {
    const WideInterval bounds = intervals_->of(operand);
    if (!bounds.is_point() || !bounds.inside(range_of(DType::I64)) || bounds.low == INT64_MIN) return std::nullopt;
    return static_cast<long>(bounds.low);
  }

  isl::pw_aff floor_division(const isl::pw_aff& x, long divisor) {
    return divisor == 0 ? number(0) : x.scale_down(isl::val(context_, divisor)).floor();
  }

  /// The ideal value of an operation, before it wraps; nothing when it is not quasi-affine.
  std::optional<isl::pw_aff> convert_apply(const Expr& expr, const Apply& apply) {
    const auto operand = [&](std::size_t i) { return value_of(apply.args[i]); };
    const auto shift = [&]() -> std::optional<long> {
      const std::optional<long> count = fixed(apply.args[1]);
      return count && *count >= 0 && *count < std::min(bit_width(expr->dtype), 62) ? std::optional(1L << *count)
                                                                                   : std::nullopt;
    };
    switch (apply.opcode) {
      case Opcode::Neg:
        return operand(0).neg();
      case Opcode::Not: {
        if (bit_width(expr->dtype) == 64 && is_unsigned_integer(expr->dtype)) return std::nullopt;
        return number(is_signed_integer(expr->dtype) ? -1 : range_of(expr->dtype).high).sub(operand(0));
      }
      case Opcode::Add:
        return operand(0).add(operand(1));
      case Opcode::Sub:
        return operand(0).sub(operand(1));
      case Opcode::Mul:
        if (const auto factor = fixed(apply.args[1])) return operand(0).scale(isl::val(context_, *factor));
        if (const auto factor = fixed(apply.args[0])) return operand(1).scale(isl::val(context_, *factor));
        return std::nullopt;
      case Opcode::FloorDiv:
      case Opcode::Mod: {
        const std::optional<long> divisor = fixed(apply.args[1]);
        if (!divisor) return std::nullopt;
        const isl::pw_aff x = operand(0);
        const isl::pw_aff quotient = floor_division(x, *divisor);
        if (apply.opcode == Opcode::FloorDiv) return quotient;
        return *divisor == 0 ? number(0) : x.sub(quotient.scale(isl::val(context_, *divisor)));
      }
      case Opcode::Shl: {
        const auto factor = shift();
        return factor ? std::optional(operand(0).scale(isl::val(context_, *factor))) : std::nullopt;
      }
      case Opcode::Shr: {
        const auto divisor = shift();
        return divisor ? std::optional(floor_division(operand(0), *divisor)) : std::nullopt;
      }
      case Opcode::Abs:
        return operand(0).max(operand(0).neg());
      case Opcode::Min:
        return operand(0).min(operand(1));
      case Opcode::Max:
        return operand(0).max(operand(1));
      case Opcode::Sign:
        return operand(0).max(number(-1)).min(number(1));
      case Opcode::If:
      case Opcode::Select: {
        const isl::set condition = where(apply.args[0]);
        return operand(1).intersect_domain(condition).union_add(operand(2).intersect_domain(condition.complement()));
      }
      case Opcode::Cast:
        return operand(0);
      case Opcode::Fence:
        return operand(0);
      default:
        return std::nullopt;
    }
  }

  isl::ctx context_;
  const Domain& domain_;
  Intervals& plain_;
  Intervals& assumed_;
  Intervals* intervals_;  ///< the one in use: `plain_` for the conditions, then `assumed_`
  isl::space space_;
  std::unordered_map<const scalar::Node*, isl::pw_aff> values_;
  std::vector<Expr> unknowns_;
  std::vector<isl::set> bounds_of_unknowns_;
};

/// The smallest point of a set in lexicographic order, or any one when finding it takes too long.
std::vector<std::int64_t> point_of(const isl::set& points, std::size_t rank) {
  isl::point point = [&] {
    try {
      return points.lexmin().sample_point();
    } catch (const isl::exception_quota&) {
      isl_ctx_reset_operations(points.ctx().get());
      return points.sample_point();
    }
  }();
  std::vector<std::int64_t> coordinates;
  for (std::size_t i = 0; i < rank; ++i) {
    const isl::val value = isl::manage(isl_point_get_coordinate_val(point.get(), isl_dim_set, static_cast<int>(i)));
    coordinates.push_back(isl_val_get_num_si(value.get()));
  }
  return coordinates;
}

SetAnswer answer(isl::ctx context, const Expr& index, std::int64_t extent, const Domain& domain, Intervals& plain,
                 Intervals& assumed) {
  Converter converter(context, domain, plain, assumed);
  const isl::set points = converter.points();
  const isl::pw_aff value = converter.value_of(index);
  const isl::set all = converter.with_unknowns(points);
  const isl::set outside = value.lt_set(converter.number(0)).unite(value.ge_set(converter.number(extent)));
  const isl::set bad = all.intersect(outside);
  if (bad.is_empty()) return {{Verdict::Kind::Inside, {}}, false};
  SetAnswer found{{Verdict::Kind::Outside, {}}, converter.has_unknowns()};
  if (found.approximate) return found;
  found.verdict.point = point_of(bad, domain.axes.size());
  found.verdict.always = all.is_subset(bad);
  return found;
}

std::optional<std::int64_t> as_int64(const isl::val& value) {
  if (!value.is_int() || isl_val_cmp_si(value.get(), INT64_MIN) < 0 || isl_val_cmp_si(value.get(), INT64_MAX) > 0)
    return std::nullopt;
  return isl_val_get_num_si(value.get());
}

}  // namespace

SetAnswer ask_isl(const Expr& index, std::int64_t extent, const Domain& domain, Intervals& plain, Intervals& assumed) {
  const Context context = make_context();
  try {
    return answer(isl::ctx(context.get()), index, extent, domain, plain, assumed);
  } catch (const isl::exception&) {
    return {{Verdict::Kind::Unknown, {}}, true};
  }
}

std::optional<Interval> ask_isl_for_bounds(const Expr& index, const Domain& domain, Intervals& plain,
                                           Intervals& assumed) {
  const Context context = make_context();
  try {
    Converter converter(isl::ctx(context.get()), domain, plain, assumed);
    const isl::set exact_points = converter.points();
    const isl::pw_aff everywhere = converter.value_of(index);
    const isl::set points = converter.with_unknowns(exact_points);
    if (points.is_empty()) return Interval{0, -1};
    const isl::pw_aff value = everywhere.intersect_domain(points);
    const std::optional<std::int64_t> low = as_int64(value.min_val()), high = as_int64(value.max_val());
    return low && high ? std::optional(Interval{*low, *high}) : std::nullopt;
  } catch (const isl::exception&) {
    return std::nullopt;
  }
}

}  // namespace corrloom::affine
