#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::passes {

/// The conditions that hold on one way from the root of an expression to a node, outermost first.
using Path = std::vector<scalar::Expr>;

/// For each read of an expression, all the ways that lead to it through lazy branches: `if`, `land`, `lor`, and the
/// value of a pad, which is wanted only outside. Keys are nodes of `expr`. `extents_of` gives the extents of a tensor.
/// Nothing when there are too many ways to list.
using ReadPaths = std::map<const scalar::Node*, std::vector<Path>>;
std::optional<ReadPaths> paths_to_reads(
    const scalar::Expr& expr, const std::function<const std::vector<scalar::Expr>&(scalar::TensorId)>& extents_of);

/// `0 <= index[k] < extents[k]` for every k, as one bool.
scalar::Expr is_inside(const std::vector<scalar::Expr>& index, const std::vector<scalar::Expr>& extents);

}  // namespace corrloom::passes
