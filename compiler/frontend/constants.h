#pragma once

#include <optional>

#include "compiler/frontend/lowering.h"

namespace corrloom::frontend {

/// The value of a `const`, from literals, other constants and functions. Reports E02xx.
std::optional<ConstantValue> evaluate_constant(Context& context, const Module& module, const ast::Const& constant);

}  // namespace corrloom::frontend
