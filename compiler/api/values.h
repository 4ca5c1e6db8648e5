#pragma once

#include <string>
#include <vector>

#include "compiler/api/corrloom.h"

/// Values that users give for attributes and scalar parameters, and messages about them.
namespace corrloom::api {

/// A number in the dtype of a parameter. Throws InputError, beginning with `where`, when it does not suit: integers
/// must fit exactly, floats go to float dtypes only and may not overflow, bools to bool only.
scalar::Value convert(const scalar::Value& value, DType wanted, const std::string& where);

/// The value of an attribute in its dtype (bool, i64 or f64); an int suits a float attribute. Throws InputError,
/// beginning with `where`.
scalar::Value convert_attribute(const scalar::Value& value, DType wanted, const std::string& where);

/// `int`, `float` or `bool`: how an attribute of the dtype is declared.
std::string attribute_kind(DType dtype);

/// `did you mean \`stride\`?` when one candidate is near, otherwise what there is: `there are \`a\`, \`b\`` or `there
/// are none`.
std::string suggestion(const std::string& name, const std::vector<std::string>& candidates);

/// `1 tensor`, `2 tensors`.
std::string counted(std::size_t count, const std::string& noun);

}  // namespace corrloom::api
