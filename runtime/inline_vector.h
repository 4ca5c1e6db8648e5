#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace corrloom::runtime {

/// A list of plain values that allocates nothing while there are at most `kInline`.
template <class T, std::size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineVector() {}  // NOLINT(modernize-use-equals-default): the array is left as it is
  /// `count` values that are to be written before they are read.
  explicit InlineVector(std::size_t count) : size_(count) {
    if (count > kInline) heap_.resize(count);
  }

  void push_back(const T& value) {
    if (size_ < kInline) {
      inline_[size_] = value;
    } else {
      if (size_ == kInline) heap_.assign(inline_.begin(), inline_.end());
      heap_.push_back(value);
    }
    ++size_;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ > kInline ? heap_.data() : inline_.data(); }
  const T* data() const { return size_ > kInline ? heap_.data() : inline_.data(); }
  T& operator[](std::size_t k) { return data()[k]; }
  const T& operator[](std::size_t k) const { return data()[k]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  std::size_t size_ = 0;
  std::array<T, kInline> inline_;  // written as far as it is used
  std::vector<T> heap_;
};

}  // namespace corrloom::runtime
