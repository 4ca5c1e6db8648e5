#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/affine/affine.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::schedule {

/// An affine combination of axes that subscripts and conditions of a staged expression use, without constant, common
/// factor or leading minus, and the values [low, high] that it takes.
struct Part {
  std::vector<affine::LinearForm::Term> terms;
  std::int64_t low = 0, high = 0;
  std::int64_t count() const { return high - low + 1; }
};

/// A sub-expression that a copy can stand for: a read, or conditions around reads of one tensor (padding), that depends
/// on nothing but axes, and reads nothing outside for any values of its parts.
struct StagedExpr {
  scalar::Expr expr;
  scalar::TensorId tensor;
  std::vector<Part> parts;  ///< in the order in which the tensor's subscripts use them, others behind
  /// Sub-expressions that are factor * part + constant.
  struct Use {
    int part;
    std::int64_t factor, constant;
  };
  std::map<const scalar::Node*, Use> uses;
};

/// The sub-expressions of the steps of the compute's reduction that copies can stand for, largest ones only.
std::vector<StagedExpr> staged_exprs(const tensor::Graph& graph, const tensor::Op& op);

/// The expression, or a sub-expression of it, with values in place of its parts. A part that it does not use may be
/// null.
scalar::Expr in_parts(const StagedExpr& staged, const scalar::Expr& expr, const std::vector<scalar::Expr>& values);

/// A part as the text of a schedule has it: `i + p`, `2 * i + p`.
std::string to_text(const Part& part, const tensor::Graph& graph);

/// What a staging of that compute copies: the expression, and for each entry of the layout its part. Nothing, and
/// `why`, when it names no such expression or lays it out in another way than part by part. Expressions in `taken` are
/// those of other stagings.
struct Copy {
  StagedExpr staged;
  std::vector<int> parts;  ///< by position in the layout
};
std::optional<Copy> copy_of(const tensor::Graph& graph, const tensor::Op& op, const Staging& staging,
                            const std::vector<scalar::Expr>& taken, std::string& why);

/// The subscript of the copy that an entry of the layout stands for, in the axes of the compute, and how many elements
/// there are along it.
scalar::Expr index_in(const Copy& copy, const Staging& staging, std::size_t dim);
std::int64_t extent_in(const Copy& copy, const Staging& staging, std::size_t dim);

}  // namespace corrloom::schedule
