#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/frontend/lowering.h"
#include "compiler/frontend/nested_reductions.h"

namespace corrloom::frontend {

/// The compute under construction: where reductions of its expression go.
struct Site {
  std::string name;          ///< of the tensor that it gives
  std::vector<AxisId> axes;  ///< of the left side
  tensor::Numerics numerics = {};
  /// The reduction that becomes the compute's own: the first that uses all axes. The others become computes.
  std::optional<tensor::Reduction> attached = {};
  std::vector<Expr> conditions = {};   ///< what holds where the lowering stands: of `if`, `&&`, `||` around it
  std::vector<TensorId> guarded = {};  ///< reductions that have values only where such conditions hold
  /// Reductions whose elements are being lowered, outermost first, with what runs in their loops.
  std::vector<NestedReductions> open = {};
  int placeholders = 0;  ///< that stand for values of those
  int reduction_depth = 0;
  int shared_depth = 0;  ///< values around the place that other reductions may use
};

/// While it lives, reductions become tensors of their own: other reductions may use their values, and those cannot see
/// the reduction of the compute itself.
class SharedValue {
 public:
  SharedValue(Site* site, bool is_shared) : site_(is_shared ? site : nullptr) {
    if (site_ != nullptr) ++site_->shared_depth;
  }
  ~SharedValue() {
    if (site_ != nullptr) --site_->shared_depth;
  }
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;

 private:
  Site* site_;
};
/// True when lowering the expression may make reductions: its own, or those of functions of `module` that it calls.
bool may_reduce(const Module& module, const ast::Expr& expr);

/// A read whose dimension gives an index variable its range; or the first of so many that a pack stands for.
struct RangeSource {
  TensorId tensor;
  std::string name;
  std::size_t dimension = 0;
  Span span;
  std::size_t rank = 1;
};

/// A divisor of `//` or `%` as written, with its value.
struct Divisor {
  const ast::Expr* written;
  Expr value;
};

/// The exponent of `pow(x, 3)`.
struct WholePower {
  std::uint64_t magnitude = 0;
  bool negative = false;
};
/// The exponent when the call is one of `pow` with a literal whole number.
std::optional<WholePower> whole_power_of(const ast::Call& call);

/// Lowers expressions of elements (and of shapes, ranges and constants) in one scope. Every function that gives an Expr
/// gives null after an error, which is reported; operands that are independent are looked at all the same.
class ExprLowering {
 public:
  enum class Place { Statement, Shape, Function, Constant };

  ExprLowering(Context& context, const Module& module, Scope& scope, Place place, Site* site)
      : context_(context), module_(module), scope_(scope), place_(place), site_(site) {}

  /// The value; literals take `wanted`. When nothing in the expression has a dtype of its own, the value has `wanted`.
  Expr lower(const ast::Expr& expr, std::optional<DType> wanted);
  /// The value in that dtype. Reports E0212 when it has another one.
  Expr lower_as(const ast::Expr& expr, DType dtype);
  /// An integer of any dtype, widened to i64. Reports E0215 for others.
  Expr lower_index(const ast::Expr& expr);
  /// What is known of the dtype. Reports nothing.
  Typing typing(const ast::Expr& expr);

  /// The reads in which the index variable, or the pack of them, stands alone as a subscript, without a pad and not
  /// under a condition that mentions it.
  /// `has_unknown_sources` tells afterwards whether it stands alone in a read of a tensor that has an error of its own.
  std::vector<RangeSource> range_sources(const ast::Expr& expr, const std::string& variable, bool takes_padded = false);
  bool has_unknown_sources() const { return has_unknown_sources_; }
  /// The extent that they give; later ones are required to agree. Null when there are none. `part` counts along a pack.
  Expr extent_from(const std::vector<RangeSource>& sources, const std::string& variable, std::size_t part = 0);
  /// The extents of a pack of index variables; nothing, with E0206 or E0207, when no read gives them.
  std::optional<std::vector<Expr>> pack_extents(const ast::Expr& body, const ast::Index& pack);
  /// Binds a pack of index variables, with an axis for each extent; `bound` takes the names of its parts.
  void bind_pack(const ast::Name& pack, const std::vector<Expr>& extents, std::vector<tensor::Axis>& axes,
                 std::vector<std::string>& bound);
  /// Whether an index variable may have this name. Reports E0204.
  bool may_declare(const ast::Name& name);
  /// Conditions for the divisors met while shapes and ranges are lowered into `divisors`.
  void require_divisors(const std::vector<Divisor>& divisors);
  /// Values of names that the expression mentions, to be shown in an error.
  std::vector<tensor::Condition::Shown> shown_names(const ast::Expr& expr);
  /// The tensor of that name in scope, constant lists included.
  std::optional<TensorId> tensor_named(const std::string& name);

  /// Sub-expressions that stand for an element of a whole tensor at `element_axes`; a rank-0 tensor for its value.
  void set_leaves(const std::unordered_map<const ast::Expr*, TensorId>* leaves, std::vector<Expr> element_axes) {
    leaves_ = leaves;
    element_axes_ = std::move(element_axes);
  }
  /// Where divisors are noted, or null.
  void note_divisors(std::vector<Divisor>* divisors) { divisors_ = divisors; }

 private:
  // lower_expr.cpp
  Expr lower_integer(const ast::Expr& expr);
  Expr lower_kind(const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_literal(const ast::Literal& literal, bool negative, std::optional<DType> wanted, const Span& span);
  Expr lower_unary(const ast::Unary& unary, const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_binary(const ast::Binary& binary, const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_condition(const ast::Expr& expr, bool is_shared);
  Expr lower_shared(const ast::Expr& expr, bool is_shared);
  Expr lower_lazy(const ast::Binary& binary);
  Expr lower_if(const ast::If& choice, const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_let(const ast::LetIn& let, std::optional<DType> wanted);
  Expr expect(const ast::Expr& expr, Expr value, DType dtype);
  Expr lower_under(const Expr& condition, bool holds, const ast::Expr& expr, std::optional<DType> wanted);
  Expr apply_checked(scalar::Opcode opcode, std::vector<Expr> operands, const Span& span, const std::string& written);
  /// The dtype that operands of unknown dtype take.
  DType operand_dtype(const Typing& typing, std::optional<DType> wanted) const;

  // lower_read.cpp
  Expr lower_read(const ast::Read& read, const ast::Expr& expr, std::optional<DType> wanted);
  void report_dtype_as_value(const std::string& name, const Span& span);
  Expr lower_global(const ast::Read& read, const ast::Expr& expr);
  Expr lower_constant(const ast::Read& read, const ast::Expr& expr, const Module& module, const ast::Const& constant);
  Expr lower_tensor_read(const ast::Read& read, const Span& span, TensorId source);
  Expr plain_value(const ast::Read& read, const Binding& binding, Expr value);
  std::optional<std::size_t> rank_of_pack(const ast::Name& name);
  std::optional<std::vector<Expr>> lower_subscripts(const ast::Read& read);
  bool lower_padding(const ast::Read& read, scalar::Read& node, DType dtype);
  void report_unknown(const ast::Read& read, const Span& span);

  // lower_calls.cpp
  Expr lower_call(const ast::Call& call, const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_cast(const ast::Call& call, DType to);
  Expr lower_builtin(const ast::Call& call, const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_select(const ast::Call& call, const ast::Expr& expr, std::optional<DType> wanted);
  Expr lower_dtype_fact(const ast::Call& call);
  // lower_power.cpp
  Expr lower_whole_power(const ast::Call& call, const WholePower& exponent, const ast::Expr& expr,
                         std::optional<DType> wanted);
  Expr lower_fn(const ast::Call& call, const Module& module, const ast::Fn& fn, const ast::Item& item,
                std::optional<DType> wanted, const Span& span);
  bool has_arguments(const ast::Call& call, std::size_t wanted);
  const ast::Expr* argument(const ast::Call& call, std::size_t at);
  std::optional<DType> dtype_named(const std::string& name) const;
  std::optional<DType> dtype_argument(const ast::Call& call) const;
  std::optional<std::map<std::string, DType>> type_arguments_of(const ast::Call& call, const ast::Fn& fn,
                                                                std::optional<DType> wanted, bool report);

  // typing.cpp
  Typing typing_of_kind(const ast::Expr& expr);
  Typing typing_of_body(const ast::Reduction& reduction);
  Typing typing_of_read(const ast::Read& read);
  Typing typing_of_call(const ast::Call& call);
  Typing typing_of_arguments(const ast::Call& call, std::size_t first);

  // lower_reduction.cpp
  Expr lower_reduction(const ast::Reduction& reduction, const ast::Expr& expr, std::optional<DType> wanted);
  bool bind_indices(const ast::Reduction& reduction, std::vector<tensor::Axis>& axes, std::vector<std::string>& bound);
  bool bind_index(const ast::Reduction& reduction, const ast::Index& index, std::vector<tensor::Axis>& axes,
                  std::vector<std::string>& bound);
  std::optional<std::pair<Expr, Expr>> written_range(const ast::Range& range);
  Expr lower_element(const ast::Reduction& reduction, DType dtype);
  Expr lower_product_in_f32(const ast::Expr& expr, DType dtype);
  Expr place_reduction(tensor::Reduction reduction, Expr result, const ast::Expr& expr);
  Expr hoist(tensor::Reduction reduction, Expr result, std::vector<AxisId> outer, const ast::Expr& expr);
  bool box_outer_axes(tensor::Reduction& reduction, std::vector<AxisId>& outer,
                      std::unordered_map<AxisId, Expr>& extents);
  Expr nest(tensor::Reduction reduction, const Expr& result, const ast::Expr& expr);
  Expr only_if_not_empty(Expr extent, const std::vector<AxisId>& axes);
  Expr lower_range_end(const ast::Expr& expr);
  void guard(tensor::Reduction& reduction, const Expr& condition);
  bool has_values_everywhere(const tensor::Reduction& reduction) const;
  void require_not_empty(const tensor::Axis& axis, const ast::Reduction& reduction);

  Context& context_;
  const Module& module_;
  Scope& scope_;
  Place place_;
  Site* site_;
  const std::unordered_map<const ast::Expr*, TensorId>* leaves_ = nullptr;
  std::vector<Expr> element_axes_;
  std::vector<Divisor>* divisors_ = nullptr;
  bool has_unknown_sources_ = false;
  int lazy_depth_ = 0;  ///< branches around the place that may not be evaluated
  std::unordered_map<const ast::Expr*, Typing> typings_;
  std::unordered_map<std::string, Typing>
      typed_names_;  ///< names that are bound in what is looked at, not yet in scope
};

}  // namespace corrloom::frontend
