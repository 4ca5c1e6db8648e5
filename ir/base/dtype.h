#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/base/visibility.h"

namespace corrloom {

/// The element types of the language, in the order of its reference: bool, integers, floats.
enum class DType : std::uint8_t { Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 };

inline constexpr DType kAllDTypes[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64,
                                       DType::U8,   DType::U16, DType::U32, DType::U64, DType::F16,
                                       DType::BF16, DType::F32, DType::F64};

/// The name used in `.loom` files and IR text: `bool`, `i8`, ..., `bf16`, `f64`.
CORRLOOM_API std::string_view name_of(DType dtype);

/// The dtype of that name, or nothing.
CORRLOOM_API std::optional<DType> parse_dtype(std::string_view name);

/// Storage of one element, in bytes (a bool takes one).
constexpr int byte_size(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::I8:
    case DType::U8:
      return 1;
    case DType::I16:
    case DType::U16:
    case DType::F16:
    case DType::BF16:
      return 2;
    case DType::I32:
    case DType::U32:
    case DType::F32:
      return 4;
    case DType::I64:
    case DType::U64:
    case DType::F64:
      return 8;
  }
  return 0;
}
/// Width in bits of an integer or float; 1 for bool.
constexpr int bit_width(DType dtype) {
  return dtype == DType::Bool ? 1 : 8 * byte_size(dtype);
}
constexpr bool is_float(DType dtype) {
  return dtype >= DType::F16;
}
constexpr bool is_signed_integer(DType dtype) {
  return dtype >= DType::I8 && dtype <= DType::I64;
}
constexpr bool is_unsigned_integer(DType dtype) {
  return dtype >= DType::U8 && dtype <= DType::U64;
}
constexpr bool is_integer(DType dtype) {
  return dtype >= DType::I8 && dtype <= DType::U64;
}
/// Bits of a float's significand, the hidden one included.
constexpr int significand_bits(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 11;
    case DType::BF16:
      return 8;
    case DType::F32:
      return 24;
    default:
      return 53;
  }
}
/// Floats narrower than f32, whose reductions accumulate in f32.
constexpr bool is_narrow_float(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

}  // namespace corrloom
