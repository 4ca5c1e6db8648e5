#include <unordered_set>

#include "compiler/frontend/lower_expr.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

/// Finds the reads that give one index variable its range.
class RangeFinder {
 public:
  using Tensors = std::function<std::optional<TensorId>(const std::string&)>;
  RangeFinder(const std::string& variable, Tensors tensors) : variable_(variable), tensors_(std::move(tensors)) {}

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
    const std::optional<TensorId> tensor = read.padding ? std::nullopt : tensors_(read.name.text);
    for (std::size_t k = 0; k < read.subscripts.size(); ++k) {
      const auto* subscript = std::get_if<ast::ExprRef>(&read.subscripts[k].kind);
      if (subscript == nullptr) continue;
      if (is_variable(**subscript)) {
        if (tensor) found_.push_back({*tensor, read.name.text, k, span});
        has_unknown_ = has_unknown_ || (!tensor && !read.padding);
      } else {
        visit(**subscript);
      }
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

  const std::string& variable_;
  Tensors tensors_;
  std::unordered_set<std::string> carriers_;
  std::vector<RangeSource> found_;
  bool has_unknown_ = false;
};

}  // namespace

std::vector<RangeSource> ExprLowering::range_sources(const ast::Expr& expr, const std::string& variable) {
  RangeFinder finder(variable, [&](const std::string& name) { return tensor_named(name); });
  std::vector<RangeSource> sources = finder.run(expr);
  // A read of the wrong rank is an error of its own, and gives nothing.
  const auto erased = std::erase_if(
      sources, [&](const RangeSource& source) { return source.dimension >= context_.rank(source.tensor); });
  has_unknown_sources_ = finder.has_unknown() || erased > 0;
  return sources;
}

Expr ExprLowering::extent_from(const std::vector<RangeSource>& sources, const std::string& variable) {
  if (sources.empty()) return nullptr;
  const auto extent_of = [&](const RangeSource& source) { return context_.extents(source.tensor)[source.dimension]; };
  const RangeSource& first = sources.front();
  const Expr extent = extent_of(first);
  for (const RangeSource& other : sources) {
    const Expr other_extent = extent_of(other);
    if (scalar::same(extent, other_extent)) continue;
    context_.require_equal(
        extent, other_extent,
        "the index " + quoted(variable) + " has different ranges in " + quoted(first.name) + " and " +
            quoted(other.name),
        other.span,
        {{extent_text(first.name, first.dimension), extent}, {extent_text(other.name, other.dimension), other_extent}});
  }
  return extent;
}

}  // namespace corrloom::frontend
