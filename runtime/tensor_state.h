#pragma once

#include <memory>

#include "runtime/storage.h"
#include "runtime/tensor.h"

namespace corrloom {

/// What a tensor handle names; immutable.
struct Tensor::State {
  std::shared_ptr<runtime::Storage> storage;
  std::int64_t byte_offset = 0;
  DType dtype = DType::F32;
  Shape shape;
  Shape strides;
  std::int64_t count = 0;
  bool dense = true;

  std::byte* address() const { return storage->data() + byte_offset; }
};

inline const Tensor::State& Tensor::state() const {
  if (state_ == nullptr) [[unlikely]]
    reject_undefined();
  return *state_;
}

namespace runtime {

/// Equality of vectors calls memcmp, which takes longer than a few extents do.
inline bool is_same_shape(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] != b[k]) return false;
  }
  return true;
}

/// The state of a tensor without a call, for the path of a launch. Throws InputError for an undefined one.
struct TensorAccess {
  using State = Tensor::State;
  static const State& state(const Tensor& tensor) { return tensor.state(); }
  /// The address for the runtime's own use, which `Storage::is_exposed` need not know of.
  static void* address(const Tensor& tensor) { return tensor.state().address(); }
};

}  // namespace runtime
}  // namespace corrloom
