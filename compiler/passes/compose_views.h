#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Turns reads of views into reads of what the views show.
///
///   %t: f32[4, 3] = view [i: 4, j: 3] %X[j, i]
///   %y: f32[4] = compute [a: 4] { yield %t[a, 2:i64] pad 0.0:f32 }
/// becomes
///   %y: f32[4] = compute [a: 4] { yield %X[2:i64, a] pad 0.0:f32 }
///
/// Padding and checks at run time are judged against the view. Where the view does not show its source dimension by
/// dimension, a padded read becomes an `if` over the view's extents (pads with a value) or a computed subscript (edge,
/// wrap, reflect); for a read checked at run time the view is copied to a tensor.
/// A reshape of an input, literal or compute stays, as another name of the same memory; one of a view is read through
/// division and modulo. Results that are views become copies.
/// Requires: a verified graph. Preserves: the value of every output, bit for bit.
/// Leaves behind: views that are not read, for `remove_dead_ops`; no read, view or reshape uses a view.
tensor::Graph compose_views(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
