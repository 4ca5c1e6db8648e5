#include "runtime/io/image.h"

#include "ir/base/errors.h"

namespace corrloom::io {

Tensor interleaved(const std::string& path, const Tensor& image) {
  const Shape& shape = image.shape();
  const bool grey = image.rank() == 2;
  const bool colour = image.rank() == 3 && shape[0] >= 1 && shape[0] <= 4;
  if (image.dtype() != DType::U8 || (!grey && !colour) || image.element_count() == 0) {
    throw InputError(path + ": " + image.type().to_string() +
                     " is no image; wanted u8[H, W] or u8[C, H, W] with 1 to 4 channels");
  }
  const Tensor on_host = image.to(cpu());
  on_host.wait();
  if (grey) return on_host.contiguous().reshape({shape[0], shape[1], 1});
  return on_host.transpose({1, 2, 0}).contiguous();
}

Tensor planar(const Tensor& rows) {
  const Shape& shape = rows.shape();
  if (shape[2] == 1) return rows.reshape({shape[0], shape[1]});
  return rows.transpose({2, 0, 1}).contiguous();
}

}  // namespace corrloom::io
