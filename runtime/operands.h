#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/tensor.h"

namespace corrloom::runtime {

/// The tensors of a call, which belong to the caller: in a row, or wherever they are.
class Operands {
 public:
  Operands() = default;
  Operands(std::span<const Tensor> tensors)  // NOLINT(google-explicit-constructor): what `run` takes
      : tensors_(tensors.data()), size_(tensors.size()) {}
  Operands(const std::vector<Tensor>& tensors)  // NOLINT(google-explicit-constructor)
      : Operands(std::span<const Tensor>(tensors)) {}
  Operands(std::span<const Tensor* const> pointers)  // NOLINT(google-explicit-constructor)
      : pointers_(pointers.data()), size_(pointers.size()) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Tensor& operator[](std::size_t k) const { return pointers_ == nullptr ? tensors_[k] : *pointers_[k]; }
  const Tensor& front() const { return (*this)[0]; }

  /// Walks over the tensors.
  class Iterator {
   public:
    Iterator(const Operands& operands, std::size_t k) : operands_(&operands), k_(k) {}
    const Tensor& operator*() const { return (*operands_)[k_]; }
    Iterator& operator++() {
      ++k_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const Operands* operands_;
    std::size_t k_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  const Tensor* tensors_ = nullptr;
  const Tensor* const* pointers_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace corrloom::runtime
