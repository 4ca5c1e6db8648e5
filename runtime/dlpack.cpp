#include <dlpack/dlpack.h>

#include <memory>
#include <optional>
#include <utility>

#include "ir/base/errors.h"
#include "runtime/layout.h"
#include "runtime/tensor_state.h"

namespace corrloom {
namespace {

/// The code of bool in DLPack 0.8 and later; earlier headers do not name it.
constexpr std::uint8_t kBoolCode = 6;

DLDataType to_dlpack_type(DType dtype) {
  DLDataType type{};
  type.bits = static_cast<std::uint8_t>(8 * byte_size(dtype));
  type.lanes = 1;
  type.code = static_cast<std::uint8_t>(kDLUInt);
  if (dtype == DType::Bool) type.code = kBoolCode;
  if (is_signed_integer(dtype)) type.code = static_cast<std::uint8_t>(kDLInt);
  if (is_float(dtype)) type.code = static_cast<std::uint8_t>(dtype == DType::BF16 ? kDLBfloat : kDLFloat);
  return type;
}

std::optional<DType> from_dlpack_type(DLDataType type) {
  for (const DType dtype : kAllDTypes) {
    const DLDataType candidate = to_dlpack_type(dtype);
    if (candidate.code == type.code && candidate.bits == type.bits && type.lanes == 1) return dtype;
  }
  return std::nullopt;
}

std::optional<Device> from_dlpack_device(DLDevice device) {
  if (device.device_type == kDLCPU) return cpu();
  if (device.device_type == kDLCUDA) return cuda(device.device_id);
  return std::nullopt;
}

/// What a tensor that was handed out owns.
struct Exported {
  DLManagedTensor managed{};
  Tensor tensor;
  Shape shape, strides;
};

using Managed = std::unique_ptr<DLManagedTensor, void (*)(DLManagedTensor*)>;

/// Calls the deleter of a tensor that somebody else made.
void release(DLManagedTensor* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

}  // namespace

DLManagedTensor* Tensor::to_dlpack() const {
  wait();
  storage()->note_exposed();
  auto exported = std::make_unique<Exported>();
  exported->tensor = *this;
  exported->shape = shape();
  exported->strides = strides();
  DLTensor& out = exported->managed.dl_tensor;
  out.data = storage()->data();
  out.byte_offset = static_cast<std::uint64_t>(state().byte_offset);
  out.device.device_type = device().is_cpu() ? kDLCPU : kDLCUDA;
  out.device.device_id = device().index();
  out.ndim = rank();
  out.dtype = to_dlpack_type(dtype());
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](DLManagedTensor* self) {
    const std::unique_ptr<Exported> owner(static_cast<Exported*>(self->manager_ctx));
  };
  return &exported.release()->managed;
}

Tensor Tensor::from_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) throw InputError("a DLPack tensor is null");
  Managed owner(managed, release);
  const DLTensor& in = managed->dl_tensor;
  const std::optional<DType> dtype = from_dlpack_type(in.dtype);
  if (!dtype) {
    throw InputError(detail::concat("a DLPack tensor has elements of code ", int{in.dtype.code}, ", ",
                                    int{in.dtype.bits}, " bits, ", in.dtype.lanes, " lanes; no dtype is like that"));
  }
  const std::optional<Device> device = from_dlpack_device(in.device);
  if (!device) {
    throw InputError(detail::concat("a DLPack tensor is on a device of kind ", static_cast<int>(in.device.device_type),
                                    "; wanted the host (1) or CUDA (2)"));
  }
  if (in.ndim < 0 || (in.ndim > 0 && in.shape == nullptr)) throw InputError("a DLPack tensor has no shape");
  Shape shape(in.shape, in.shape + in.ndim);
  const std::int64_t count = corrloom::element_count(shape, *dtype);
  Shape strides = in.strides == nullptr ? runtime::dense_strides(shape) : Shape(in.strides, in.strides + in.ndim);

  std::int64_t start = 0, end = 0;
  if (count > 0) {
    const std::optional<runtime::OffsetRange> range = runtime::offset_range(shape, strides);
    const std::int64_t bytes = byte_size(*dtype);
    if (!range || __builtin_mul_overflow(range->lowest, bytes, &start) ||
        __builtin_add_overflow(range->highest, 1, &end) || __builtin_mul_overflow(end, bytes, &end) ||
        __builtin_sub_overflow(end, start, &end)) {
      throw InputError("the strides of a DLPack tensor lead beyond 2^63 bytes");
    }
  }
  auto* const first = static_cast<std::byte*>(in.data) + in.byte_offset;
  if (count > 0 && in.data == nullptr) throw InputError("a DLPack tensor has no memory");
  if (reinterpret_cast<std::uintptr_t>(first) % static_cast<std::uintptr_t>(byte_size(*dtype)) != 0) {
    throw InputError("the memory of a DLPack tensor is not aligned to its elements");
  }
  runtime::BackendRef backend = runtime::backend_of(*device);
  // The protocol hands over no stream: whatever its maker launched has to be done.
  backend->synchronise();
  std::shared_ptr<Managed> shared = std::make_shared<Managed>(std::move(owner));
  std::shared_ptr<runtime::Storage> storage = runtime::Storage::wrap(
      std::move(backend), first + start, static_cast<std::size_t>(end), [shared]() mutable { shared.reset(); });
  return make(std::move(storage), -start, *dtype, std::move(shape), std::move(strides));
}

}  // namespace corrloom
