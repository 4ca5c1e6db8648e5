#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/base/visibility.h"
#include "runtime/tensor.h"

/// Tensors in files. The suffix names the format: `.npy`, `.npz`, `.safetensors`, `.png`, `.pgm`, `.ppm`. A file that
/// is missing or cannot be read or written is a RuntimeError; wrong contents, an unknown suffix, a missing key or a
/// tensor that the format cannot hold are an InputError. A written file appears whole or not at all.
namespace corrloom::io {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Splits `w.npz:key` into path and key; the key is empty for formats that hold one tensor.
CORRLOOM_API std::pair<std::string, std::string> split_key(const std::string& path);

/// Whether a name ends in one of the suffixes above, a key aside.
CORRLOOM_API bool has_known_suffix(const std::string& path);

/// One tensor, on the host. `.npz` and `.safetensors` take `path:key`; without a key they must hold exactly one tensor.
CORRLOOM_API Tensor load(const std::string& path);
/// Every tensor of a `.npz` or `.safetensors` file, in its order; of other formats the only one, without a name.
CORRLOOM_API NamedTensors load_all(const std::string& path);

/// Writes one tensor, from any device. In `.npz` and `.safetensors` it is called `name`, or the key of `path:key`.
CORRLOOM_API void save(const std::string& path, const Tensor& tensor, const std::string& name = "arr_0");
/// Writes several tensors into one `.npz` or `.safetensors` file.
CORRLOOM_API void save_all(const std::string& path, const NamedTensors& tensors);

}  // namespace corrloom::io
