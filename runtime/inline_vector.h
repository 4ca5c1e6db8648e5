#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace corrloom::runtime {

/// A list of plain values that allocates nothing while there are at most `kInline`.
template <class T, std::size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineVector() = default;
  /// `count` values that are to be written before they are read.
  explicit InlineVector(std::size_t count) : size_(count) {
    if (count > kInline) heap_.resize(count);
  }

  void push_back(const T& value) {
    if (size_ < kInline) {
      std::construct_at(inline_values() + size_, value);
    } else {
      if (size_ == kInline) heap_.assign(inline_values(), inline_values() + kInline);
      heap_.push_back(value);
    }
    ++size_;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ > kInline ? heap_.data() : inline_values(); }
  const T* data() const { return size_ > kInline ? heap_.data() : inline_values(); }
  T& operator[](std::size_t k) { return data()[k]; }
  const T& operator[](std::size_t k) const { return data()[k]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  T* inline_values() { return reinterpret_cast<T*>(inline_); }
  const T* inline_values() const { return reinterpret_cast<const T*>(inline_); }

  std::size_t size_ = 0;
  alignas(T) std::byte inline_[sizeof(T) * kInline];  // NOLINT: written as far as it is used, which costs nothing
  std::vector<T> heap_;
};

}  // namespace corrloom::runtime
