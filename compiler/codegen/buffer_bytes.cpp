#include "compiler/codegen/buffer_bytes.h"

#include "ir/base/errors.h"

namespace corrloom::codegen {

std::int64_t constant_bytes(const loop::Buffer& buffer) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  std::int64_t bytes = byte_size(buffer.dtype);
  for (const loop::Expr& extent : buffer.extents) {
    const std::optional<std::int64_t> length = scalar::as_i64(scalar::simplify(extent));
    CORRLOOM_CHECK(length && *length >= 0, "the extents of ", buffer.name, " are not constant");
    if (*length != 0 && bytes > kFar / *length) return kFar;
    bytes *= *length;
  }
  return bytes;
}

std::int64_t constant_bytes(const loop::Function& function, loop::Space space) {
  std::int64_t bytes = 0;
  for (const loop::Buffer& buffer : function.buffers) {
    // Each starts at a multiple of the widest vector.
    if (buffer.space == space) bytes += (constant_bytes(buffer) + 63) / 64 * 64;
  }
  return bytes;
}

}  // namespace corrloom::codegen
