#pragma once

#include <cstdint>

#include "ir/kernel/target.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

/// How results of the host reach memory.
namespace corrloom::passes::host {

/// Most rows that are stored between each other, as long as they are the whole last axis of a result.
inline constexpr std::int64_t kMostInterleaved = 8;

/// The axis along which vectors of the result lie when they are stored through transposes, in pieces of many rows; null
/// for stages that store vectors as they lie.
const tensor::Axis* axis_across(const tensor::Compute& compute, const schedule::Stage& stage);

/// Whether the result of an op goes past the caches: a store then need not read the line that it overwrites. That are
/// results that the last-level cache cannot keep, and what another kernel reads must be larger still, or it would find
/// part of it there. Where vectors lie `across` the result, in rows that share few sets of the caches, the second-level
/// cache could not keep what it has, either.
bool streams(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target,
             const tensor::Axis* across);

}  // namespace corrloom::passes::host
