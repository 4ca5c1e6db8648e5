#include <bit>
#include <cstring>

#include "runtime/sim/machine.h"

namespace corrloom::sim {
namespace {

/// Marks the bytes as an encoding of this simulator.
constexpr uint64_t kMagic = 0x50414d524f534e45;

/// The 128 bytes. What an extent of 2^32 needs is kept by storing extents less one.
struct Encoded {
  uint64_t magic;
  uint64_t address;
  uint64_t stride_bytes[4];
  uint32_t extent_less_one[5];
  uint16_t box[5];
  uint8_t element_stride[5];
  uint8_t type, rank, interleave, swizzle, fill, im2col;
  int8_t lower[3], upper[3];
  uint8_t check;
};
static_assert(sizeof(Encoded) <= 128);

uint8_t checksum(const Encoded& encoded) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&encoded);
  uint8_t sum = 0x5A;
  for (size_t i = 0; i < offsetof(Encoded, check); ++i) sum = uint8_t(sum * 31 + bytes[i]);
  return sum;
}

/// Bytes of the span that a swizzle permutes; the inner box must fit it.
uint32_t swizzle_span(TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::None:
      return 0;
    case TensorSwizzle::Bytes32:
      return 32;
    case TensorSwizzle::Bytes64:
      return 64;
    default:
      return 128;
  }
}

std::string broken_rule(const TensorMapDescription& d) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  if (d.type > TensorType::B6x16Align16) return "unknown element type";
  if (d.type >= TensorType::B4x16Align8) return "sub-byte element types are not supported";
  if (d.rank < 1 || d.rank > 5) return "the rank is " + number(d.rank) + ", it must be 1 to 5";
  if (d.interleave != TensorInterleave::None) return "interleaved layouts are not supported";
  if (d.swizzle > TensorSwizzle::Bytes128) return "swizzles with atoms of 32 or 64 bytes are not supported";
  constexpr uint64_t alignment = 16;
  if (d.address == 0 || d.address % alignment != 0) return "the address must be a multiple of " + number(alignment);
  const uint32_t element = tensor_type_bytes(d.type);
  for (uint32_t i = 0; i < d.rank; ++i) {
    if (d.extent[i] == 0 || d.extent[i] > uint64_t(1) << 32)
      return "extent " + number(i) + " is " + number(d.extent[i]) + ", it must be 1 to 2^32";
    if (d.element_stride[i] == 0 || d.element_stride[i] > 8)
      return "element stride " + number(i) + " is " + number(d.element_stride[i]) + ", it must be 1 to 8";
    if (!d.im2col && (d.box[i] == 0 || d.box[i] > 256))
      return "box extent " + number(i) + " is " + number(d.box[i]) + ", it must be 1 to 256";
  }
  for (uint32_t i = 0; i + 1 < d.rank; ++i) {
    if (d.stride_bytes[i] % alignment != 0 || d.stride_bytes[i] >= uint64_t(1) << 40) {
      return "stride " + number(i) + " is " + number(d.stride_bytes[i]) + " bytes, it must be a multiple of " +
             number(alignment) + " below 2^40";
    }
  }
  const uint64_t inner = uint64_t(d.box[0]) * element;
  if (d.im2col) {
    if (d.rank < 3) return "im2col needs a rank of at least 3";
    if (d.box[0] == 0 || d.box[0] > 256) return "channels per pixel must be 1 to 256";
    if (d.box[1] == 0 || d.box[1] > 1024) return "pixels per column must be 1 to 1024";
  }
  if (inner % 16 != 0) return "the inner box is " + number(inner) + " bytes, it must be a multiple of 16";
  if (d.swizzle != TensorSwizzle::None && inner > swizzle_span(d.swizzle)) {
    return "the inner box is " + number(inner) + " bytes, the swizzle allows at most " +
           number(swizzle_span(d.swizzle));
  }
  if (d.fill == TensorFill::NanRequestZeroFma && d.type < TensorType::F16)
    return "NaN fill needs a floating-point type";
  return {};
}

}  // namespace

uint32_t tensor_type_bytes(TensorType type) {
  static constexpr uint32_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};
  return kBytes[size_t(type)];
}

std::string check_tensor_map(const TensorMapDescription& description) {
  return broken_rule(description);
}

std::string encode_tensor_map(const TensorMapDescription& d, std::span<std::byte, 128> out) {
  if (std::string broken = broken_rule(d); !broken.empty()) return broken;
  write_tensor_map(d, out);
  return {};
}

void write_tensor_map(const TensorMapDescription& d, std::span<std::byte, 128> out) {
  Encoded encoded{};
  encoded.magic = kMagic;
  encoded.address = d.address;
  for (size_t i = 0; i < 5; ++i) {
    encoded.extent_less_one[i] = i < d.rank ? uint32_t(d.extent[i] - 1) : 0;
    encoded.box[i] = uint16_t(d.box[i]);
    // The first stride does not count: the innermost dimension is always dense.
    encoded.element_stride[i] = uint8_t(i > 0 && i < d.rank ? d.element_stride[i] : 1);
    if (i < 4) encoded.stride_bytes[i] = i + 1 < d.rank ? d.stride_bytes[i] : 0;
  }
  encoded.type = uint8_t(d.type);
  encoded.rank = uint8_t(d.rank);
  encoded.interleave = uint8_t(d.interleave);
  encoded.swizzle = uint8_t(d.swizzle);
  encoded.fill = uint8_t(d.fill);
  encoded.im2col = d.im2col;
  for (size_t i = 0; i < 3; ++i) {
    encoded.lower[i] = int8_t(d.lower_corner[i]);
    encoded.upper[i] = int8_t(d.upper_corner[i]);
  }
  encoded.check = checksum(encoded);
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &encoded, sizeof(encoded));
}

std::optional<TensorMapDescription> decode_tensor_map(std::span<const std::byte, 128> bytes) {
  Encoded encoded;
  std::memcpy(&encoded, bytes.data(), sizeof(encoded));
  if (encoded.magic != kMagic || encoded.check != checksum(encoded)) return std::nullopt;
  TensorMapDescription d;
  d.type = TensorType(encoded.type);
  d.rank = encoded.rank;
  d.address = encoded.address;
  for (size_t i = 0; i < 5; ++i) {
    d.extent[i] = uint64_t(encoded.extent_less_one[i]) + 1;
    d.box[i] = encoded.box[i];
    d.element_stride[i] = encoded.element_stride[i];
    if (i < 4) d.stride_bytes[i] = encoded.stride_bytes[i];
  }
  d.interleave = TensorInterleave(encoded.interleave);
  d.swizzle = TensorSwizzle(encoded.swizzle);
  d.fill = TensorFill(encoded.fill);
  d.im2col = encoded.im2col != 0;
  for (size_t i = 0; i < 3; ++i) {
    d.lower_corner[i] = encoded.lower[i];
    d.upper_corner[i] = encoded.upper[i];
  }
  return d;
}

}  // namespace corrloom::sim
