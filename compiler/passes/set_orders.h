#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Gives each reduction the order that its structure, its dtypes and the target call for. Extents play no part, so that
/// static and dynamic programs give the same bits.
///
///   - a reduction whose operations are exact, and `with order = any`: Lanes where the rule below gives lanes, else Any
///     (both say `with any` from then on)
///   - `with order = strict`: Ascending, the axes as listed
///   - the last axis runs along memory in some read, and no result axis does: as many Lanes as the target's orders have
///     (16 on the host, none on PTX). Not for a window that its result axis moves by less than the lanes.
///   - otherwise Ascending. On the host window axes (those that stand in a sum with a result axis, as p in X[c, i + p])
///     move inside the others, those along memory first: c, q, p. On PTX they move outside: p, q, c, so that a tap is
///     tested once.
///   - a sum of products of bf16 whose last axis walks both factors adds them with Opcode::Dot where the target has
///     it and the order is not strict: each product rounded into the sum, denormals as zeros
///
///   sum [p: 3, c: 8] ... %X[c, add(i, p)] ...   becomes   sum [c: 8, p: 3] ...   on the host
///
/// Requires: extents are as the op declares them, before `specialise` puts constants in their place; views are looked
/// through here. Later passes keep what this one decides.
/// Defines bits: the only pass that sets orders.
tensor::Graph set_orders(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
