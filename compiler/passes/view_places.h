#pragma once

#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Elements of a value: a source and its subscripts.
struct Place {
  tensor::TensorId source;
  std::vector<tensor::Expr> index;
};

/// True for an op that only shows elements of another value.
bool is_view(const tensor::Op& op);

/// True for a view and for a reshape of one: values that have no memory of their own.
bool is_virtual(const tensor::Graph& graph, tensor::TensorId id);

/// The subscripts of the view's source for those of the view.
std::vector<tensor::Expr> index_in_source(const tensor::View& view, const std::vector<tensor::Expr>& index);

/// One step from a virtual value towards memory.
Place shown_by(const tensor::Graph& graph, const Place& place);

/// Follows an element through views to a value with memory (or a reshape of one).
Place resolve(const tensor::Graph& graph, Place place);

}  // namespace corrloom::passes
