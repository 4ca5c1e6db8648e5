#pragma once

#include <optional>
#include <string>

#include "ir/tensor/interpret.h"
#include "runtime/tensor.h"

namespace corrloom::tools {

/// The elements of a tensor, from any device.
tensor::Array to_array(const Tensor& tensor);

/// A dense tensor of the array's elements, on the host.
Tensor to_tensor(const tensor::Array& array);

/// Nothing when both have the same dtype, extents and bits (any NaN equals any other); else what differs first, in one
/// line.
std::optional<std::string> difference(const tensor::Array& found, const tensor::Array& wanted);

}  // namespace corrloom::tools
