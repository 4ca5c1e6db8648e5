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

}  // namespace corrloom
