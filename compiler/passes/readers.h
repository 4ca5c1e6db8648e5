#pragma once

#include <functional>
#include <vector>

#include "ir/affine/affine.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// For each op, by how many ops and outputs of the graph its value is used. An op that reads a value in several places
/// counts once.
std::vector<int> count_readers(const tensor::Graph& graph);

/// Calls `visit` for each distinct read in the op's expressions, and for the source of a view or reshape with null.
void for_each_use(const tensor::Op& op,
                  const std::function<void(tensor::TensorId source, const scalar::Read* read)>& visit);

/// The range of each axis that the op binds, as an interval over the ranges of the axes outside it. An axis whose
/// extent depends on what is not known has none.
affine::Ranges ranges_of(const tensor::Op& op);

/// The axes that the op binds, outer ones first: those of its result, then those of its reduction.
std::vector<tensor::Axis> bound_axes(const tensor::Op& op);

/// The value whose storage a value is: reshapes move no data.
tensor::TensorId storage_root(const tensor::Graph& graph, tensor::TensorId id);

/// The axis when the expression is one, an id that names nothing otherwise.
tensor::AxisId axis_of(const tensor::Expr& expr);

/// True when the expression uses an axis for which `is_wanted` holds.
bool uses_axis(const tensor::Expr& expr, const std::function<bool(tensor::AxisId)>& is_wanted);

/// True when the expression reads a tensor.
bool reads_tensor(const tensor::Expr& expr);

}  // namespace corrloom::passes
