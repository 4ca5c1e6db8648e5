#pragma once

#include <cstdint>

#include "ir/loop/function.h"

namespace corrloom::codegen {

/// The bytes of a buffer that the kernel itself makes, in Shared or Local space. Throws InternalError when its extents
/// are no constants; the result saturates far above what any target grants.
std::int64_t constant_bytes(const loop::Buffer& buffer);

/// The bytes of all buffers of a function in that space.
std::int64_t constant_bytes(const loop::Function& function, loop::Space space);

}  // namespace corrloom::codegen
