#include "compiler/frontend/nested_reductions.h"

#include <algorithm>
#include <functional>

namespace corrloom::frontend {
namespace {

using scalar::Opcode;

/// Above the numbers of all accumulators.
constexpr int kFirstPlaceholder = 1 << 20;

/// The expression with each accumulator replaced by what `replacement` gives for its number, if anything.
Expr with_accumulators(const Expr& expr, const std::function<Expr(int)>& replacement) {
  return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
    const auto* reference = std::get_if<scalar::AccRef>(&node->kind);
    return reference == nullptr ? nullptr : replacement(reference->index);
  });
}

Expr both(const Expr& a, const Expr& b) {
  return a == nullptr ? b : scalar::apply(Opcode::LazyAnd, {a, b});
}

/// The loops that all nested reductions run in, and where each of them has elements there. A loop has at least one
/// iteration, so that reductions without elements give their value too.
struct Loops {
  std::vector<tensor::Axis> axes;
  std::vector<Expr> has_element;  ///< by nested reduction
  Expr is_first, is_last;
};

class LoopsBuilder {
 public:
  LoopsBuilder(Context& context, std::vector<const tensor::Reduction*> reductions)
      : context_(context), reductions_(std::move(reductions)), own_(reductions_.size()) {
    loops_.has_element.resize(reductions_.size());
  }

  Loops run() {
    std::size_t rank = 0;
    for (const tensor::Reduction* reduction : reductions_) rank = std::max(rank, reduction->axes.size());
    for (std::size_t place = 0; place < rank; ++place) add_axis(place, rank);
    return std::move(loops_);
  }

  /// An expression of nested reduction `k` in the common loops.
  Expr in_loops(std::size_t k, const Expr& expr) const {
    return scalar::substitute_axes(expr, [&](AxisId axis) -> Expr {
      const auto& own = own_[k];
      const auto found = std::find_if(own.begin(), own.end(), [&](const auto& one) { return one.first == axis; });
      return found == own.end() ? nullptr : scalar::axis(found->second);
    });
  }

 private:
  /// Shorter nests stand inside: they run where the loops around them are at their first value.
  void add_axis(std::size_t place, std::size_t rank) {
    const Expr one = scalar::constant_i64(1);
    Expr extent = one;
    std::vector<Expr> extents;
    std::string name;
    for (std::size_t k = 0; k < reductions_.size(); ++k) {
      const std::vector<tensor::Axis>& axes = reductions_[k]->axes;
      const std::size_t outside = rank - axes.size();
      extents.push_back(place < outside ? one : in_loops(k, axes[place - outside].extent));
      extent = scalar::simplify(scalar::apply(Opcode::Max, {extent, extents.back()}));
      if (place >= outside && name.empty()) name = axes[place - outside].name;
    }
    const AxisId id = context_.new_axis(name, extent);
    const Expr axis = scalar::axis(id);
    for (std::size_t k = 0; k < reductions_.size(); ++k) {
      const std::vector<tensor::Axis>& axes = reductions_[k]->axes;
      const std::size_t outside = rank - axes.size();
      if (place >= outside) own_[k].emplace_back(axes[place - outside].id, id);
      loops_.has_element[k] = both(loops_.has_element[k], scalar::apply(Opcode::Lt, {axis, extents[k]}));
    }
    const Expr last = scalar::apply(Opcode::Sub, {extent, one});
    loops_.is_first = both(loops_.is_first, scalar::apply(Opcode::Eq, {axis, scalar::constant_i64(0)}));
    loops_.is_last = both(loops_.is_last, scalar::apply(Opcode::Eq, {axis, last}));
    loops_.axes.push_back({id, name, extent});
  }

  Context& context_;
  std::vector<const tensor::Reduction*> reductions_;
  std::vector<std::vector<std::pair<AxisId, AxisId>>> own_;  ///< by nested reduction: its axes and the loops'
  Loops loops_;
};

}  // namespace

Expr NestedReductions::add(tensor::Reduction reduction, const Expr& result, int& next_placeholder) {
  const int first = kFirstPlaceholder + next_placeholder;
  next_placeholder += static_cast<int>(reduction.accumulators.size());
  std::vector<DType> dtypes;
  for (const tensor::Accumulator& accumulator : reduction.accumulators) dtypes.push_back(accumulator.dtype);
  nested_.push_back({std::move(reduction), first});
  return with_accumulators(result, [&](int number) {
    return scalar::accumulator(first + number, dtypes[static_cast<std::size_t>(number)]);
  });
}

tensor::Reduction NestedReductions::put_into(Context& context, tensor::Reduction around) const {
  std::vector<const tensor::Reduction*> reductions;
  for (const Nested& nested : nested_) reductions.push_back(&nested.reduction);
  LoopsBuilder builder(context, reductions);
  Loops loops = builder.run();

  const std::size_t own = around.accumulators.size();
  std::unordered_map<int, Expr> values;  // of placeholders
  std::vector<tensor::Accumulator> inside;
  for (std::size_t k = 0; k < nested_.size(); ++k) {
    const std::vector<tensor::Accumulator>& accumulators = nested_[k].reduction.accumulators;
    const auto first = static_cast<int>(own + inside.size());
    std::vector<Expr> before;  // the accumulators as an element finds them
    for (std::size_t n = 0; n < accumulators.size(); ++n) {
      const Expr carried = scalar::accumulator(first + static_cast<int>(n), accumulators[n].dtype);
      before.push_back(scalar::apply(Opcode::Select, {loops.is_first, accumulators[n].init, carried}));
    }
    const auto found = [&](int number) { return before[static_cast<std::size_t>(number)]; };
    for (std::size_t n = 0; n < accumulators.size(); ++n) {
      const Expr step = with_accumulators(builder.in_loops(k, accumulators[n].step), found);
      const Expr after = scalar::apply(Opcode::If, {loops.has_element[k], step, before[n]});
      values[nested_[k].first_placeholder + static_cast<int>(n)] = after;
      const int number = first + static_cast<int>(n);
      inside.push_back({accumulators[n].name + "." + std::to_string(number), accumulators[n].dtype,
                        accumulators[n].init, after, scalar::accumulator(number, accumulators[n].dtype, true)});
    }
  }
  for (std::size_t n = 0; n < own; ++n) {
    tensor::Accumulator& accumulator = around.accumulators[n];
    const Expr step = with_accumulators(accumulator.step, [&](int number) -> Expr {
      const auto value = values.find(number);
      return value == values.end() ? nullptr : value->second;
    });
    const Expr unchanged = scalar::accumulator(static_cast<int>(n), accumulator.dtype);
    accumulator.step = scalar::apply(Opcode::If, {loops.is_last, step, unchanged});
  }
  around.accumulators.insert(around.accumulators.end(), inside.begin(), inside.end());
  around.axes.insert(around.axes.end(), loops.axes.begin(), loops.axes.end());
  return around;
}

bool uses_placeholders(const tensor::Reduction& reduction) {
  bool found = false;
  const auto look = [&](const Expr& expr) {
    if (expr == nullptr) return;
    scalar::for_each_node(expr, [&](const Expr& node) {
      const auto* reference = std::get_if<scalar::AccRef>(&node->kind);
      found = found || (reference != nullptr && reference->index >= kFirstPlaceholder);
    });
  };
  for (const tensor::Axis& axis : reduction.axes) look(axis.extent);
  for (const tensor::Accumulator& accumulator : reduction.accumulators) look(accumulator.step);
  return found;
}

}  // namespace corrloom::frontend
