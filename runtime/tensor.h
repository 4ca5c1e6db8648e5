#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/base/visibility.h"
#include "ir/scalar/value.h"
#include "runtime/device.h"

struct DLManagedTensor;

namespace corrloom {

namespace runtime {
class Storage;
struct TensorAccess;
}  // namespace runtime

inline constexpr DType boolean = DType::Bool;
inline constexpr DType i8 = DType::I8;
inline constexpr DType i16 = DType::I16;
inline constexpr DType i32 = DType::I32;
inline constexpr DType i64 = DType::I64;
inline constexpr DType u8 = DType::U8;
inline constexpr DType u16 = DType::U16;
inline constexpr DType u32 = DType::U32;
inline constexpr DType u64 = DType::U64;
inline constexpr DType f16 = DType::F16;
inline constexpr DType bf16 = DType::BF16;
inline constexpr DType f32 = DType::F32;
inline constexpr DType f64 = DType::F64;

/// The bits of an f16 and of a bf16 element, for `Tensor::data<T>()`.
struct Half {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// The dtype whose elements are `T` in memory.
template <class T>
constexpr DType dtype_of() {
  using Element = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Element, bool>)
    return DType::Bool;
  else if constexpr (std::is_same_v<Element, Half>)
    return DType::F16;
  else if constexpr (std::is_same_v<Element, BFloat16>)
    return DType::BF16;
  else if constexpr (std::is_same_v<Element, float>)
    return DType::F32;
  else if constexpr (std::is_same_v<Element, double>)
    return DType::F64;
  else {
    static_assert(std::is_integral_v<Element>, "no dtype has elements of this type");
    constexpr bool is_signed = std::is_signed_v<Element>;
    if constexpr (sizeof(Element) == 1)
      return is_signed ? DType::I8 : DType::U8;
    else if constexpr (sizeof(Element) == 2)
      return is_signed ? DType::I16 : DType::U16;
    else if constexpr (sizeof(Element) == 4)
      return is_signed ? DType::I32 : DType::U32;
    else
      return is_signed ? DType::I64 : DType::U64;
  }
}

using Shape = std::vector<std::int64_t>;

/// Dtype and shape: what an op is compiled for.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape;

  /// `f32[2, 3]`; `f32[]` of rank 0.
  CORRLOOM_API std::string to_string() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// A dense or strided array on one device. A handle: copying one copies no elements, and both name the same tensor.
/// Views (`slice`, `transpose`, `reshape` where strides allow) share the storage. Misuse (a shape that does not fit, an
/// index out of range, an unknown device) throws InputError; the machine's faults throw RuntimeError.
class CORRLOOM_API Tensor {
 public:
  /// Names no tensor; only `is_defined`, assignment and destruction are allowed.
  Tensor() = default;

  /// Contents are whatever memory held.
  static Tensor empty(Shape shape, DType dtype = f32, Device device = cpu());
  /// Copies `count(shape)` dense elements from host memory.
  static Tensor from_data(const void* elements, Shape shape, DType dtype, Device device = cpu());
  /// Copies the elements; their number must be that of the shape.
  template <class T>
  static Tensor from(std::span<const T> elements, Shape shape, Device device = cpu()) {
    check_count(elements.size(), shape);
    return from_data(elements.data(), std::move(shape), dtype_of<T>(), device);
  }
  template <class T>
  static Tensor from(std::initializer_list<T> elements, Shape shape, Device device = cpu()) {
    return from(std::span<const T>(elements.begin(), elements.size()), std::move(shape), device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& elements, Shape shape, Device device = cpu()) {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> holds no array of bool");
    return from(std::span<const T>(elements), std::move(shape), device);
  }
  /// Rank 0, with the value's dtype.
  static Tensor from_scalar(scalar::Value value, Device device = cpu());
  /// Uses the caller's host memory without a copy. `release` is called when nothing uses it any more; without it the
  /// memory must outlive every tensor that shares it. `strides` are in elements; empty: dense. The address must be a
  /// multiple of the element's size.
  static Tensor wrap(void* elements, Shape shape, DType dtype, std::function<void()> release = {}, Shape strides = {});
  /// Takes the tensor over: its deleter is called when nothing uses it any more. Throws InputError for what a tensor
  /// cannot be (dtype, lanes, device), and then calls the deleter at once.
  static Tensor from_dlpack(DLManagedTensor* managed);
  /// This tensor for another library; waits for what produces it. The result keeps the storage alive until its deleter
  /// is called.
  DLManagedTensor* to_dlpack() const;

  bool is_defined() const { return state_ != nullptr; }
  const Shape& shape() const;
  /// In elements.
  const Shape& strides() const;
  DType dtype() const;
  Device device() const;
  TensorType type() const;
  int rank() const { return static_cast<int>(shape().size()); }
  std::int64_t element_count() const;
  /// Of the elements, not of the storage.
  std::int64_t byte_count() const;
  /// Dense and row-major.
  bool is_contiguous() const;

  /// The elements of a dense tensor on the host; waits for what produces them and throws what that work failed with.
  /// Ask for `const` elements where they are only read: what has a pointer may change them without anybody's notice, so
  /// that nothing made of them can be kept for the next call (`Module`).
  template <class T>
  T* data() const {
    return static_cast<T*>(host_data(dtype_of<T>(), !std::is_const_v<T>));
  }
  /// The address of the first element on its device, without waiting. The elements may be changed through it.
  void* address() const;
  /// Waits for the work that writes this tensor and throws what it failed with.
  void wait() const;
  /// An element by its position in row-major order; waits. From a GPU each call is a copy.
  scalar::Value element(std::int64_t position) const;
  scalar::Value at(std::initializer_list<std::int64_t> index) const;
  /// The only element, as a double.
  double item() const;

  /// Elements begin, begin + step, ... below end of an axis. Negative `axis`, `begin` and `end` count from the end, as
  /// in Python; the step is at least 1.
  Tensor slice(int axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  /// One element of an axis, which disappears.
  Tensor select(int axis, std::int64_t index) const;
  /// Result axis k is axis `order[k]`; without an order all axes in reverse.
  Tensor transpose(std::vector<int> order = {}) const;
  /// A view where strides allow, a copy elsewhere. One extent may be -1: what remains.
  Tensor reshape(Shape shape) const;
  /// This tensor if it is dense, else a dense copy.
  Tensor contiguous() const;
  /// A dense copy with storage of its own.
  Tensor copy() const;
  /// This tensor if it is there already (`is_same_as`), else a dense copy on that device. This tensor may be written
  /// again on return. A copy to a GPU may still be under way then, beside other work; one to the host is done.
  Tensor to(Device device) const;
  /// The same without waiting in either direction. A copy to the host goes into pinned memory, and `data` and all other
  /// reads of it wait for it. A host tensor that is such a copy itself must not be written until its own copy to a GPU
  /// is done (`wait` on the result).
  Tensor to_async(Device device) const;
  /// This tensor if it has that dtype, else elements cast as the language casts (integers wrap, floats saturate into
  /// integers, narrowing rounds once).
  Tensor to(DType dtype) const;
  /// Writes the elements of `source` (same shape and dtype, any device) into this tensor.
  void copy_from(const Tensor& source) const;

  /// Same storage, place, shape, strides and dtype.
  bool is_same_as(const Tensor& other) const;
  bool shares_storage_with(const Tensor& other) const;
  /// Some byte may belong to both (exact for dense tensors, by address range otherwise).
  bool overlaps(const Tensor& other) const;

  /// `f32[2, 3] on cpu` and the elements as NumPy shows them, long axes with `...` in the middle. Without an end of
  /// line.
  std::string to_string() const;

  /// The memory behind it, for the runtime's own use.
  const std::shared_ptr<runtime::Storage>& storage() const;

 private:
  friend struct runtime::TensorAccess;
  struct State;
  explicit Tensor(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static Tensor make(std::shared_ptr<runtime::Storage> storage, std::int64_t byte_offset, DType dtype, Shape shape,
                     Shape strides);
  static Tensor make_dense(std::shared_ptr<runtime::Storage> storage, DType dtype, Shape shape);
  /// Memory that is to be filled from the host.
  static Tensor empty_for_upload(Shape shape, DType dtype, Device device);
  const State& state() const;
  [[noreturn]] static void reject_undefined();
  void* host_data(DType wanted, bool may_write) const;
  static void check_count(std::size_t found, const Shape& shape);

  std::shared_ptr<const State> state_;
};

/// The number of elements of a shape. Throws InputError for a negative extent or when elements of `dtype` would take
/// 2^63 bytes or more.
CORRLOOM_API std::int64_t element_count(const Shape& shape, DType dtype);

CORRLOOM_API Tensor zeros(Shape shape, DType dtype = f32, Device device = cpu());
CORRLOOM_API Tensor ones(Shape shape, DType dtype = f32, Device device = cpu());
/// Every element is the value, cast as the language casts.
CORRLOOM_API Tensor full(Shape shape, double value, DType dtype = f32, Device device = cpu());
CORRLOOM_API Tensor full(Shape shape, scalar::Value value, Device device = cpu());
/// 0, 1, 2, ... in row-major order, cast as the language casts.
CORRLOOM_API Tensor arange(Shape shape, DType dtype = f32, Device device = cpu());

}  // namespace corrloom
