#include <cstring>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/copy.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/memory.h"
#include "runtime/sim/driver/state.h"

/// Copies of every shape, and memsets.
///
/// When they return follows "API synchronization behavior" of the driver's manual: a copy from or to the host is over
/// when the plain form returns, a copy on the device and a memset are only queued. The asynchronous forms are queued,
/// except that pageable memory is read before the call returns, as staging does.
namespace corrloom::sim::driver {
namespace {

enum class When { Queued, Done };

/// What a CUdeviceptr may name: an allocation, or host memory that a device can reach.
void check_device_pointer(uint64_t address, uint64_t bytes) {
  const std::optional<Block> block = driver().find_block(address);
  require(block.has_value() && bytes <= block->bytes - (address - block->address));
}

bool is_pageable(uint64_t address) {
  return !is_device_address(address) && !driver().blocks.find(address);
}

/// Takes a copy of a contiguous pageable source, which the client may change as soon as the call returns.
void stage(Copy& copy) {
  if (!is_pageable(copy.from.address) || copy.height != 1 || copy.depth != 1) return;
  const auto* source = reinterpret_cast<const std::byte*>(copy.from.address);
  copy.staged = std::make_shared<const std::vector<std::byte>>(source, source + copy.width_bytes);
}

/// Queues a copy that has been checked as far as its kind demands. Copies that pageable memory in several rows takes
/// part in are done when the call returns.
CUresult start(Stream& stream, Copy copy, When when) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) return CUDA_SUCCESS;
  if (const std::optional<CUresult> problem = problem_of(copy)) return *problem;
  if (when == When::Done) return submit_and_wait(stream, std::move(copy));
  if (stream.capture() == nullptr) {
    const bool host_only = !is_device_address(copy.from.address) && !is_device_address(copy.to.address);
    if (host_only && is_pageable(copy.from.address) && is_pageable(copy.to.address))
      return submit_and_wait(stream, std::move(copy));
    stage(copy);
    if (copy.staged == nullptr && is_pageable(copy.from.address)) return submit_and_wait(stream, std::move(copy));
  }
  submit(stream, std::move(copy));
  return CUDA_SUCCESS;
}

Copy flat(uint64_t to, uint64_t from, uint64_t bytes) {
  Copy copy;
  copy.to.address = to;
  copy.from.address = from;
  copy.width_bytes = bytes;
  return copy;
}

uint64_t number(const void* host) {
  return reinterpret_cast<uint64_t>(host);
}

CUresult to_device(CUdeviceptr to, const void* from, size_t bytes, CUstream handle, When when) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  require(from != nullptr);
  check_device_pointer(to, bytes);
  return start(*stream, flat(to, number(from), bytes), when);
}

CUresult to_host(void* to, CUdeviceptr from, size_t bytes, CUstream handle, When when) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  require(to != nullptr);
  check_device_pointer(from, bytes);
  return start(*stream, flat(number(to), from, bytes), when);
}

CUresult on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  check_device_pointer(to, bytes);
  check_device_pointer(from, bytes);
  return start(*stream, flat(to, from, bytes), When::Queued);
}

/// The plain form is over when it returns, unless both sides are on devices.
CUresult any(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle, When when) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  require(to != 0 && from != 0);
  if (is_device_address(to) && is_device_address(from)) when = When::Queued;
  return start(*stream, flat(to, from, bytes), when);
}

CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
              CUstream handle) {
  require(driver().contexts.find(to_context) != nullptr && driver().contexts.find(from_context) != nullptr,
          CUDA_ERROR_INVALID_CONTEXT);
  return on_device(to, from, bytes, handle);
}

/// One side of a 2D or 3D copy from its description. Rows and slices follow each other at `pitch` and `pitch * rows`.
template <class Description>
CopySide side(CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch, size_t rows, size_t x, size_t y,
              size_t z, const Description& copy) {
  require(type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
  require(type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED);
  constexpr size_t kMost = size_t(1) << 40;
  require(pitch < kMost && rows < kMost && x < kMost && y < kMost && z < kMost);
  require(copy.WidthInBytes < kMost && copy.Height < kMost);
  // 0 stands for the least that is possible.
  if (pitch == 0) pitch = x + copy.WidthInBytes;
  if (rows == 0) rows = y + copy.Height;
  require(x + copy.WidthInBytes <= pitch && y + copy.Height <= rows);
  CopySide result;
  const uint64_t base = type == CU_MEMORYTYPE_HOST ? number(host) : device;
  require(base != 0);
  result.row_pitch = pitch;
  result.slice_pitch = pitch * rows;
  result.address = base + z * result.slice_pitch + y * pitch + x;
  return result;
}

/// A side that is a CUdeviceptr must name an allocation.
void check_side(CUmemorytype type, const CopySide& side) {
  if (type == CU_MEMORYTYPE_DEVICE) check_device_pointer(side.address, 1);
}

template <class Description>
bool touches_host(const Description& copy) {
  return !is_device_address(copy.srcMemoryType == CU_MEMORYTYPE_HOST ? number(copy.srcHost) : copy.srcDevice) ||
         !is_device_address(copy.dstMemoryType == CU_MEMORYTYPE_HOST ? number(copy.dstHost) : copy.dstDevice);
}

CUresult start_2d(const CUDA_MEMCPY2D* description, CUstream handle, When when) {
  require(description != nullptr);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const CUDA_MEMCPY2D& d = *description;
  if (d.WidthInBytes == 0 || d.Height == 0) return CUDA_SUCCESS;
  Copy copy;
  copy.from = side(d.srcMemoryType, d.srcHost, d.srcDevice, d.srcPitch, 0, d.srcXInBytes, d.srcY, 0, d);
  copy.to = side(d.dstMemoryType, d.dstHost, d.dstDevice, d.dstPitch, 0, d.dstXInBytes, d.dstY, 0, d);
  check_side(d.srcMemoryType, copy.from);
  check_side(d.dstMemoryType, copy.to);
  copy.width_bytes = d.WidthInBytes;
  copy.height = d.Height;
  return start(*stream, std::move(copy), touches_host(d) ? when : When::Queued);
}

template <class Description>
Copy describe(const Description& d) {
  require(d.srcLOD == 0 && d.dstLOD == 0 && d.Depth < size_t(1) << 40);
  Copy copy;
  copy.from = side(d.srcMemoryType, d.srcHost, d.srcDevice, d.srcPitch, d.srcHeight, d.srcXInBytes, d.srcY, d.srcZ, d);
  copy.to = side(d.dstMemoryType, d.dstHost, d.dstDevice, d.dstPitch, d.dstHeight, d.dstXInBytes, d.dstY, d.dstZ, d);
  check_side(d.srcMemoryType, copy.from);
  check_side(d.dstMemoryType, copy.to);
  copy.width_bytes = d.WidthInBytes;
  copy.height = d.Height;
  copy.depth = d.Depth;
  return copy;
}

template <class Description>
CUresult start_3d(const Description* d, CUstream handle, When when) {
  require(d != nullptr);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (d->WidthInBytes == 0 || d->Height == 0 || d->Depth == 0) return CUDA_SUCCESS;
  return start(*stream, describe(*d), touches_host(*d) ? when : When::Queued);
}

/// The sides on devices must name contexts.
void check_contexts(const CUDA_MEMCPY3D_PEER* d) {
  require(d != nullptr);
  const auto check = [](CUmemorytype type, CUcontext context) {
    require(type != CU_MEMORYTYPE_DEVICE || driver().contexts.find(context) != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  };
  check(d->srcMemoryType, d->srcContext);
  check(d->dstMemoryType, d->dstContext);
}

CUresult fill(CUdeviceptr address, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
              CUstream handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  require(address % element_bytes == 0 && width < size_t(1) << 40 && height < size_t(1) << 40);
  if (height > 1) require(pitch >= width * element_bytes && pitch % element_bytes == 0);
  check_device_pointer(address, 1);
  const Fill operation{address, pitch, value, element_bytes, width, height};
  if (const std::optional<CUresult> problem = problem_of(operation)) return *problem;
  // Page-locked memory is set when the call returns.
  const bool waits = stream->capture() == nullptr && !is_device_address(address);
  if (waits) return submit_and_wait(*stream, operation);
  submit(*stream, operation);
  return CUDA_SUCCESS;
}

}  // namespace

Copy describe_copy(const CUDA_MEMCPY3D& description) {
  Copy copy = describe(description);
  if (const std::optional<CUresult> problem = problem_of(copy)) throw Failure{*problem};
  return copy;
}

CUresult copy_any(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return any(to, from, bytes, nullptr, When::Done);
}
CUresult copy_any_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return any(to, from, bytes, stream, When::Queued);
}
CUresult copy_to_device(CUdeviceptr to, const void* from, size_t bytes) {
  return to_device(to, from, bytes, nullptr, When::Done);
}
CUresult copy_to_device_async(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return to_device(to, from, bytes, stream, When::Queued);
}
CUresult copy_to_host(void* to, CUdeviceptr from, size_t bytes) {
  return to_host(to, from, bytes, nullptr, When::Done);
}
CUresult copy_to_host_async(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return to_host(to, from, bytes, stream, When::Queued);
}
CUresult copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return on_device(to, from, bytes, nullptr);
}
CUresult copy_on_device_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on_device(to, from, bytes, stream);
}
CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  return peer(to, to_context, from, from_context, bytes, nullptr);
}
CUresult copy_peer_async(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                         CUstream stream) {
  return peer(to, to_context, from, from_context, bytes, stream);
}
CUresult copy_2d(const CUDA_MEMCPY2D* copy) {
  return start_2d(copy, nullptr, When::Done);
}
CUresult copy_2d_async(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return start_2d(copy, stream, When::Queued);
}
CUresult copy_3d(const CUDA_MEMCPY3D* copy) {
  return start_3d(copy, nullptr, When::Done);
}
CUresult copy_3d_async(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return start_3d(copy, stream, When::Queued);
}
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER* copy) {
  check_contexts(copy);
  return start_3d(copy, nullptr, When::Done);
}
CUresult copy_3d_peer_async(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  check_contexts(copy);
  return start_3d(copy, stream, When::Queued);
}

CUresult fill_8(CUdeviceptr to, unsigned char value, size_t n) {
  return fill(to, 0, value, 1, n, 1, nullptr);
}
CUresult fill_16(CUdeviceptr to, unsigned short value, size_t n) {
  return fill(to, 0, value, 2, n, 1, nullptr);
}
CUresult fill_32(CUdeviceptr to, unsigned value, size_t n) {
  return fill(to, 0, value, 4, n, 1, nullptr);
}
CUresult fill_8_async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  return fill(to, 0, value, 1, n, 1, stream);
}
CUresult fill_16_async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream) {
  return fill(to, 0, value, 2, n, 1, stream);
}
CUresult fill_32_async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
  return fill(to, 0, value, 4, n, 1, stream);
}
CUresult fill_2d_8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill(to, pitch, value, 1, width, height, nullptr);
}
CUresult fill_2d_16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill(to, pitch, value, 2, width, height, nullptr);
}
CUresult fill_2d_32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill(to, pitch, value, 4, width, height, nullptr);
}
CUresult fill_2d_8_async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                         CUstream stream) {
  return fill(to, pitch, value, 1, width, height, stream);
}
CUresult fill_2d_16_async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                          CUstream stream) {
  return fill(to, pitch, value, 2, width, height, stream);
}
CUresult fill_2d_32_async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream) {
  return fill(to, pitch, value, 4, width, height, stream);
}

}  // namespace corrloom::sim::driver
