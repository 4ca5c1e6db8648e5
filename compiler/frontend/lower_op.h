#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/frontend/lower_expr.h"

namespace corrloom::frontend {

/// An argument of an op that is called by another one: a tensor, or a value over symbols and rank-0 tensors.
struct CallArgument {
  std::optional<TensorId> tensor;
  Expr scalar = nullptr;
  Span span = {};
};

/// Lowers one op, called from outside or by another op, into the graph of its context.
class OpLowering {
 public:
  /// `prefix` begins the names of its tensors; `inherited` is what an op without a `with` takes from its caller.
  /// `instance` says what its type parameters and packs stand for.
  OpLowering(Context& context, const Module& module, const ast::Op& op, std::string prefix, tensor::Numerics inherited,
             Instance instance);

  /// As the graph itself: dimensions and scalars become symbols, arguments inputs. Attributes that are not given have
  /// their defaults; in a generic context all of them are symbols. False after an error.
  bool lower_entry(const std::map<std::string, scalar::Value>& attributes);
  /// In place of a call: gives the results. Attributes and arguments belong to the caller.
  std::optional<std::vector<TensorId>> lower_call(const std::map<std::string, Binding>& attributes,
                                                  const std::vector<CallArgument>& arguments, const Span& call);

  /// Value of a compile-time attribute as a binding, in the kind that the signature declares.
  static Binding attribute_binding(const ast::Attribute& attribute, const scalar::Value& value);
  /// `int`, `float` or `bool` as a dtype.
  static std::optional<DType> attribute_dtype(const ast::Attribute& attribute);

 private:
  struct ResultState {
    const ast::Result* declared;
    std::optional<std::vector<Expr>> extents;  ///< nothing after an error
    DType dtype = DType::F32;
    std::optional<TensorId> value;
    bool is_defined = false;
    Span defined_at = {};
  };

  // lower_op.cpp
  bool check_signature();
  bool check_type(const ast::Type& type);
  void read_numerics();
  bool bind_entry_attributes(const std::map<std::string, scalar::Value>& given);
  std::optional<Binding> default_of(const ast::Attribute& attribute);
  /// An entry of a shape for each dimension: that of a pack as often as it stands for one.
  struct DimPlace {
    const ast::Dim* dim;
    std::size_t part;  ///< along the pack
  };
  std::vector<DimPlace> places_of(const ast::Type& type) const;
  static std::string text_of(const DimPlace& place);
  DType dtype_of(const ast::Type& type) const;
  bool bind_type_parameters();
  bool bind_packs();
  std::optional<std::string> bare_dimension(const DimPlace& place) const;
  bool declare_entry_arguments();
  bool has_suitable_default(const ast::Parameter& parameter, DType dtype);
  bool bind_call_arguments(const std::vector<CallArgument>& arguments, const Span& call);
  std::optional<std::vector<Expr>> lower_dims(const ast::Type& type, bool is_result, const std::string& name);
  Expr lower_dim(const DimPlace& place, const std::string& title, bool is_result);
  bool declare_results();
  bool check_where();
  bool run();
  bool publish();
  bool check_storage(const ast::Result& result, TensorId value, TensorId input);
  bool bind_name(const ast::Name& name, Binding binding);
  ExprLowering expressions(ExprLowering::Place place, Site* site) {
    return ExprLowering(context_, module_, scope_, place, site);
  }

  // lower_statement.cpp
  bool lower_statement(const ast::Statement& statement);
  bool lower_indexed(const ast::Statement& statement, const ast::IndexedTarget& target);
  bool lower_named(const ast::Statement& statement, const ast::Name& target);
  bool lower_tuple(const ast::Statement& statement, const ast::TupleTarget& target);
  bool lower_rank_zero(const ast::Statement& statement, const ast::Name& target, ResultState* result);
  ResultState* result_for(const ast::Name& name);
  bool may_define_local(const ast::Name& name);
  bool bind_left(const ast::Statement& statement, const ast::IndexedTarget& target, const ResultState* result,
                 std::vector<tensor::Axis>& axes, std::vector<std::string>& bound);
  bool has_one_pack(const ast::IndexedTarget& target);
  bool has_rank(const ast::Statement& statement, const ast::IndexedTarget& target, const ResultState* result);
  std::optional<std::vector<Expr>> left_extents(const ast::Statement& statement, const ast::IndexedTarget& target,
                                                const ast::Index& index, const ResultState* result, std::size_t axis);
  Expr left_extent(const ast::Statement& statement, const ast::Index& index);
  bool has_declared_extents(const ResultState& result, TensorId value, const Span& span);
  bool define(const ast::Name& name, ResultState* result, std::optional<TensorId> value, bool is_fresh);
  void poison(const ast::Statement& statement);
  std::optional<TensorId> add_compute(Site site, std::vector<tensor::Axis> axes, Expr body, const Span& span);

  // whole_tensor.cpp, whole_functions.cpp
  bool is_whole(const ast::Expr& expr);
  bool is_whole_call(const ast::Call& call);
  bool is_leaf(const ast::Expr& expr);
  std::optional<TensorId> lower_whole(const ast::Expr& expr, std::optional<DType> wanted, const std::string& name);
  std::optional<TensorId> lower_leaf(const ast::Expr& expr, const std::string& name);
  bool collect_leaves(const ast::Expr& expr, const std::string& name,
                      std::unordered_map<const ast::Expr*, TensorId>& leaves,
                      std::vector<std::pair<const ast::Expr*, TensorId>>& in_order);
  std::optional<std::vector<Expr>> common_extents(const std::vector<std::pair<const ast::Expr*, TensorId>>& leaves,
                                                  const ast::Expr& expr);
  bool is_slice(const ast::Read& read) const;
  bool is_pack_of_dimensions(const ast::Name& name) const;
  /// The tensor that a slice gives, as far as it is made.
  struct SliceBuilder {
    tensor::Op op;
    tensor::View view;
  };
  /// A bound of a slice as errors name it; without a name it is not shown.
  struct SliceBound {
    std::string name;
    Expr value;
  };
  std::optional<TensorId> lower_slice(const ast::Read& read, const Span& span, const std::string& name);
  std::optional<TensorId> sliced_tensor(const ast::Read& read);
  std::optional<std::vector<ast::Subscript>> slice_subscripts(const ast::Read& read, std::size_t rank, const Span& span,
                                                              const Span& declared);
  bool add_slice(SliceBuilder& out, const ast::Read& read, const ast::Subscript& subscript, std::size_t axis,
                 const Expr& extent);
  void add_slice_axis(SliceBuilder& out, const Expr& begin, const Expr& end, const Expr& step);
  void require_of_slice(const ast::Read& read, const ast::Subscript& subscript, std::size_t axis,
                        const std::string& fault, scalar::Opcode opcode, const SliceBound& left,
                        const SliceBound& right);
  std::optional<Expr> lower_slice_bound(const ast::ExprRef& expr, const std::string& what);
  Global find_op(const ast::Name& callee);
  std::optional<std::vector<TensorId>> lower_op_call(const ast::Call& call, const Span& span, const std::string& name);
  std::optional<std::map<std::string, Binding>> call_attributes(const ast::Call& call, const ast::Op& callee);
  std::optional<Binding> call_attribute(const ast::NamedArgument& given, const ast::Attribute& declared);
  std::optional<std::vector<CallArgument>> call_arguments(const ast::Call& call, const ast::Op& callee,
                                                          const std::string& name, Instance& instance);
  std::optional<TensorId> call_tensor(const ast::Call& call, std::size_t at, const ast::Parameter& parameter,
                                      const std::string& name, const Instance& instance);
  bool suits(const ast::Op& callee, const ast::Parameter& parameter, const CallArgument& argument, Instance& instance);
  bool is_in_class_of(const ast::Op& callee, const ast::Parameter& parameter, DType dtype, const Span& span);
  std::optional<DType> scalar_dtype(const ast::Call& call, const ast::Op& callee, std::size_t at, Instance& instance);
  Expr call_scalar(const ast::Call& call, std::size_t at, const ast::Parameter& parameter, DType dtype,
                   const std::string& name);
  std::optional<CallArgument> scalar_argument(const ast::Expr& expr, DType dtype, const std::string& name);
  std::optional<TensorId> lower_whole_function(const ast::Call& call, const Span& span, const std::string& name);
  std::optional<TensorId> lower_matmul(const ast::Call& call, const Span& span, const std::string& name);
  std::optional<TensorId> lower_reshape(const ast::Call& call, const Span& span, const std::string& name);
  std::optional<TensorId> lower_transpose(const ast::Call& call, const Span& span, const std::string& name);
  /// A tensor that `concat` joins.
  struct Part {
    TensorId tensor;
    std::string text;
    Span span;
  };
  std::optional<std::vector<Part>> concat_parts(const ast::Call& call, const std::vector<ast::Argument>& list,
                                                const std::string& name);
  std::vector<Expr> joined_extents(const std::vector<Part>& parts, std::size_t axis, const Span& span);
  std::optional<TensorId> lower_concat(const ast::Call& call, const Span& span, const std::string& name);
  std::optional<TensorId> lower_pad(const ast::Call& call, const Span& span, const std::string& name);
  std::optional<TensorId> tensor_argument(const ast::Call& call, std::size_t at, const std::string& name);
  bool has_arguments(const ast::Call& call, std::size_t least, std::size_t most);
  const std::vector<ast::Argument>* list_argument(const ast::Call& call, std::size_t at, const std::string& what);
  Expr extent_argument(const ast::Argument& argument, const std::string& what);
  std::optional<std::int64_t> fixed_argument(const ast::Argument& argument, const std::string& what);
  std::vector<tensor::Axis> axes_over(const std::vector<Expr>& extents);
  std::string text_of(const ast::Expr& expr) const { return std::string(expr.span.text()); }

  Context& context_;
  const Module& module_;
  const ast::Op& op_;
  std::string prefix_;
  tensor::Numerics numerics_;
  Instance instance_;
  Scope scope_;
  std::map<std::string, ResultState> results_;
};

}  // namespace corrloom::frontend
