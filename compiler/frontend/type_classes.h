#pragma once

#include <string>
#include <vector>

#include "ir/base/dtype.h"

/// The classes of type parameters: `float`, `integer`, `number`, `any`.
namespace corrloom::frontend {

/// True when the class holds the dtype; no dtype is in a class that does not exist.
bool is_in_class(const std::string& type_class, DType dtype);

/// One dtype of each kind in the class, f32 first where it is in; none for a class that does not exist. What suits
/// these suits all of the class, literals that are too large for one of them aside.
std::vector<DType> kinds_of_class(const std::string& type_class);

}  // namespace corrloom::frontend
