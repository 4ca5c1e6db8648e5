#include <algorithm>
#include <cstdio>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Tensor maps, in the simulator's own encoding.
namespace corrloom::sim::driver {
namespace {

using Bytes = std::span<std::byte, 128>;

/// What both encoders are given in the same form.
TensorMapDescription describe(CUtensorMapDataType type, uint32_t rank, void* address, const cuuint64_t* extents,
                              const cuuint64_t* strides, const cuuint32_t* element_strides,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  require(type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B && rank >= 1 && rank <= 5);
  require(address != nullptr && extents != nullptr && element_strides != nullptr && (rank == 1 || strides != nullptr));
  require(interleave <= CU_TENSOR_MAP_INTERLEAVE_32B && swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B);
  require(promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  require(fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  TensorMapDescription map;
  map.type = TensorType(type);
  map.rank = rank;
  map.address = reinterpret_cast<DeviceAddress>(address);
  std::copy_n(extents, rank, map.extent.begin());
  std::copy_n(strides, rank - 1, map.stride_bytes.begin());
  std::copy_n(element_strides, rank, map.element_stride.begin());
  map.interleave = TensorInterleave(interleave);
  map.swizzle = TensorSwizzle(swizzle);
  map.fill = TensorFill(fill);
  return map;
}

CUresult encode(const TensorMapDescription& map, CUtensorMap* out) {
  const std::string problem = encode_tensor_map(map, Bytes(reinterpret_cast<std::byte*>(out), 128));
  if (problem.empty()) return CUDA_SUCCESS;
  if (driver().report_to_stderr) std::fprintf(stderr, "simulated device: tensor map: %s\n", problem.c_str());
  return CUDA_ERROR_INVALID_VALUE;
}

/// Only devices with a tensor memory accelerator read tensor maps.
void check_devices() {
  require(driver().settings.arch.number >= 90, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace

CUresult tensor_map_encode_tiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                                 const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
  require(out != nullptr && box != nullptr);
  check_devices();
  TensorMapDescription map =
      describe(type, rank, address, extents, strides, element_strides, interleave, swizzle, promotion, fill);
  std::copy_n(box, rank, map.box.begin());
  return encode(map, out);
}

CUresult tensor_map_encode_im2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                  const cuuint64_t* extents, const cuuint64_t* strides, const int* lower,
                                  const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                  const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                  CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                  CUtensorMapFloatOOBfill fill) {
  require(out != nullptr && lower != nullptr && upper != nullptr && rank >= 3);
  check_devices();
  TensorMapDescription map =
      describe(type, rank, address, extents, strides, element_strides, interleave, swizzle, promotion, fill);
  map.im2col = true;
  map.box[0] = channels;
  map.box[1] = pixels;
  std::copy_n(lower, rank - 2, map.lower_corner.begin());
  std::copy_n(upper, rank - 2, map.upper_corner.begin());
  return encode(map, out);
}

CUresult tensor_map_replace_address(CUtensorMap* map, void* address) {
  require(map != nullptr && address != nullptr);
  check_devices();
  std::optional<TensorMapDescription> description =
      decode_tensor_map(std::span<const std::byte, 128>(reinterpret_cast<const std::byte*>(map), 128));
  require(description.has_value());
  description->address = reinterpret_cast<DeviceAddress>(address);
  return encode(*description, map);
}

}  // namespace corrloom::sim::driver
