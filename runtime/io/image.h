#pragma once

#include <string>

#include "runtime/tensor.h"

/// Images as u8 tensors: `[H, W]` for grey ones, `[C, H, W]` with C = 2 (grey and alpha), 3 (red, green, blue) or 4
/// (and alpha) for the others.
namespace corrloom::io {

/// A PNG. 16 bits become 8, palettes become colours. Throws InputError for what is none, is damaged, or claims more
/// pixels than its bytes can hold.
Tensor read_png(const std::string& path);
void write_png(const std::string& path, const Tensor& image);

/// A PGM or PPM, text (P2, P3) or binary (P5, P6); samples are scaled to 0..255.
Tensor read_netpbm(const std::string& path);
/// Binary; grey as P5 and three colours as P6.
void write_netpbm(const std::string& path, const Tensor& image);

/// Rows of interleaved pixels, `[H, W, C]` dense on the host, from an image. Throws InputError, which names the path,
/// when the tensor is no image.
Tensor interleaved(const std::string& path, const Tensor& image);
/// The image of such rows: `[H, W]` for one channel, else `[C, H, W]`.
Tensor planar(const Tensor& rows);

}  // namespace corrloom::io
