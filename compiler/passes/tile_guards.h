#pragma once

#include <vector>

#include "ir/affine/affine.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// A comparison that decides whether a read of a compute happens, or which element it is of (padding): it holds where
/// `form` is not negative.
struct Guard {
  scalar::Expr condition;
  affine::LinearForm form;  ///< affine
};

/// The guards of a compute's steps and body, each once: what is left of its conditions when conjunctions are taken
/// apart, as far as it compares affine combinations of axes.
std::vector<Guard> guards_of(const tensor::Op& op);

}  // namespace corrloom::passes
