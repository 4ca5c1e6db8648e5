#pragma once

#include "ir/scalar/value.h"

namespace corrloom::runtime {

/// The value in another dtype, as the language casts: integers keep their low bits, floats saturate into integers (NaN
/// gives 0), narrowing rounds once to nearest even, anything but zero is true.
scalar::Value cast(scalar::Value value, DType to);

/// One element in memory, and back. A bool byte other than 0 is true.
scalar::Value read_element(const void* from, DType dtype);
void write_element(void* to, scalar::Value value);

}  // namespace corrloom::runtime
