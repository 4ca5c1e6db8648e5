#pragma once

#include <vector>

#include "ir/loop/function.h"
#include "ir/tensor/interpret.h"

namespace corrloom::loop {

/// What a function means: runs blocks and threads one after the other. `buffers` holds an array for each buffer, in
/// order, updated in place. Throws InternalError for an access outside a buffer and for an element that is written
/// twice.
void interpret(const Function& function, std::vector<tensor::Array>& buffers,
               const std::vector<scalar::Value>& symbols);

}  // namespace corrloom::loop
