#pragma once

#include <string>

#include "runtime/io/bytes.h"
#include "runtime/tensor.h"

namespace corrloom::io {

/// Reads an array in NumPy's format, versions 1 to 3, C or Fortran order, either byte order, every dtype but bf16,
/// which it does not have. Throws InputError for anything else. Memory is taken only once the source is known to be
/// long enough. Source: NumPy Enhancement Proposal 1 and `numpy.lib.format`.
Tensor read_npy(ByteSource& source);

/// What stands before the elements of a tensor of that type: 64-byte aligned, version 1 or 2. Throws InputError for
/// bf16.
std::string npy_header(const TensorType& type);

}  // namespace corrloom::io
