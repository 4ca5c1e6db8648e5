#include <unordered_set>

#include "compiler/frontend/lower_expr.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

/// Finds the reads that give one index variable its range.
class RangeFinder {
 public:
  using Tensors = std::function<std::optional<TensorId>(const std::string&)>;
  /// `takes_padded`: a pack takes its ranges from reads with padding, too.
  RangeFinder(const Context& context, const std::string& variable, Tensors tensors, bool takes_padded)
      : context_(context), variable_(variable), tensors_(std::move(tensors)), takes_padded_(takes_padded) {}

  std::vector<RangeSource> run(const ast::Expr& expr) {
    visit(expr);
    return std::move(found_);
  }
  bool has_unknown() const { return has_unknown_; }

 private:
  void visit(const ast::Expr& expr) {
    match(
        expr.kind, [](const ast::Literal&) {}, [&](const ast::Read& read) { visit_read(read, expr.span); },
        [&](const ast::Call&) { visit_children(expr); }, [&](const ast::Reduction&) { visit_children(expr); },
        [&](const ast::Unary&) { visit_children(expr); },
        [&](const ast::Binary& binary) {
          visit(*binary.left);
          const bool is_lazy = binary.op == ast::BinaryOp::And || binary.op == ast::BinaryOp::Or;
          if (!is_lazy || !uses_variable(*binary.left)) visit(*binary.right);
        },
        [&](const ast::If& choice) {
          visit(*choice.condition);
          if (uses_variable(*choice.condition)) return;
          visit(*choice.then_value);
          visit(*choice.else_value);
        },
        [&](const ast::LetIn& let) {
          visit(*let.value);
          const bool carries = uses_variable(*let.value);
          if (carries) carriers_.insert(let.name.text);
          visit(*let.body);
          if (carries) carriers_.erase(let.name.text);
        });
  }

  void visit_children(const ast::Expr& expr) {
    for_each_child(expr, [&](const ast::Expr& child) { visit(child); });
  }

  void visit_read(const ast::Read& read, const Span& span) {
    const bool is_taken = !read.padding || takes_padded_;
    const std::optional<TensorId> tensor = is_taken ? tensors_(read.name.text) : std::nullopt;
    // A pack takes the dimensions that the other subscripts leave.
    const std::size_t others = read.subscripts.size() - 1;
    const std::size_t rank = tensor ? context_.rank(*tensor) : 0;
    const std::size_t packed = rank > others ? rank - others : 0;
    std::size_t dimension = 0;
    for (const ast::Subscript& subscript : read.subscripts) {
      const auto* expr = std::get_if<ast::ExprRef>(&subscript.kind);
      const auto* pack = std::get_if<ast::Pack>(&subscript.kind);
      if (expr != nullptr && !is_variable(**expr)) visit(**expr);
      if ((expr != nullptr && is_variable(**expr)) || (pack != nullptr && pack->name.text == variable_)) {
        const std::size_t count = pack != nullptr ? packed : 1;
        if (tensor && (pack != nullptr || !read.padding))
          found_.push_back({*tensor, read.name.text, dimension, span, count});
        has_unknown_ = has_unknown_ || (!tensor && !read.padding);
      }
      dimension += pack != nullptr ? packed : 1;
    }
    if (!read.padding) return;
    if (const auto* value = std::get_if<ast::ExprRef>(&read.padding->kind)) visit(**value);
  }

  bool is_variable(const ast::Expr& expr) const {
    const auto* read = std::get_if<ast::Read>(&expr.kind);
    return read != nullptr && read->name.text == variable_ && read->subscripts.empty() && !read->padding;
  }

  /// Also by way of a `let ... in` whose value mentions it.
  bool uses_variable(const ast::Expr& expr) const {
    if (mentions(expr, variable_)) return true;
    for (const std::string& carrier : carriers_) {
      if (mentions(expr, carrier)) return true;
    }
    return false;
  }

  const Context& context_;
  const std::string& variable_;
  Tensors tensors_;
  bool takes_padded_;
  std::unordered_set<std::string> carriers_;
  std::vector<RangeSource> found_;
  bool has_unknown_ = false;
};

}  // namespace

std::vector<RangeSource> ExprLowering::range_sources(const ast::Expr& expr, const std::string& variable,
                                                     bool takes_padded) {
  RangeFinder finder(
      context_, variable, [&](const std::string& name) { return tensor_named(name); }, takes_padded);
  std::vector<RangeSource> sources = finder.run(expr);
  // A read of the wrong rank is an error of its own, and gives nothing.
  const auto erased = std::erase_if(sources, [&](const RangeSource& source) {
    return source.dimension + source.rank > context_.rank(source.tensor);
  });
  has_unknown_sources_ = finder.has_unknown() || erased > 0;
  return sources;
}

std::optional<std::vector<Expr>> ExprLowering::pack_extents(const ast::Expr& body, const ast::Index& pack) {
  const std::string& name = pack.name.text;
  if (pack.range) {
    context_.diagnostics.report(Code::E0208, pack.range->span, "the range of the pack " + quoted(name) + " is written",
                                "it has the extents of the dimensions in whose place it stands");
    return {};
  }
  std::vector<RangeSource> sources = range_sources(body, name);
  // A pack stands as it is, so that padding changes nothing; and its ranges cannot be written.
  if (sources.empty() && !has_unknown_sources_) sources = range_sources(body, name, true);
  if (sources.empty()) {
    if (has_unknown_sources_ || context_.has_gaps) return {};
    context_.diagnostics.report(Code::E0206, pack.span, "the ranges of " + quoted("..." + name) + " are not known",
                                "never stands among the subscripts of a plain read");
    return {};
  }
  for (const RangeSource& source : sources) {
    if (source.rank == sources.front().rank) continue;
    context_.diagnostics.report(Code::E0207, source.span,
                                quoted("..." + name) + " stands for " + counted(sources.front().rank, "dimension") +
                                    " in " + quoted(sources.front().name) + " and for " + std::to_string(source.rank) +
                                    " in " + quoted(source.name),
                                "wanted the same number");
    return {};
  }
  std::vector<Expr> extents;
  for (std::size_t part = 0; part < sources.front().rank; ++part) extents.push_back(extent_from(sources, name, part));
  return extents;
}

void ExprLowering::bind_pack(const ast::Name& pack, const std::vector<Expr>& extents, std::vector<tensor::Axis>& axes,
                             std::vector<std::string>& bound) {
  scope_.bind(pack.text, {PackName{PackName::Holds::Indices, extents.size()}, "the pack", pack.span});
  for (std::size_t part = 0; part < extents.size(); ++part) {
    const std::string name = pack_part(pack.text, part);
    const AxisId axis = context_.new_axis(name, extents[part]);
    axes.push_back({axis, name, extents[part]});
    bound.push_back(name);
    scope_.bind(name, {IndexVariable{axis, scalar::axis(axis)}, "the index variable", pack.span});
  }
}

Expr ExprLowering::extent_from(const std::vector<RangeSource>& sources, const std::string& variable, std::size_t part) {
  if (sources.empty()) return nullptr;
  const auto dimension_of = [&](const RangeSource& source) { return source.dimension + part; };
  const auto extent_of = [&](const RangeSource& source) {
    return context_.extents(source.tensor)[dimension_of(source)];
  };
  const RangeSource& first = sources.front();
  const Expr extent = extent_of(first);
  for (const RangeSource& other : sources) {
    const Expr other_extent = extent_of(other);
    if (scalar::same(extent, other_extent)) continue;
    context_.require_equal(extent, other_extent,
                           "the index " + quoted(variable) + " has different ranges in " + quoted(first.name) +
                               " and " + quoted(other.name),
                           other.span,
                           {{extent_text(first.name, dimension_of(first)), extent},
                            {extent_text(other.name, dimension_of(other)), other_extent}});
  }
  return extent;
}

}  // namespace corrloom::frontend
