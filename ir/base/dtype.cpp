#include "ir/base/dtype.h"

namespace corrloom {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "bool";
    case DType::I8:
      return "i8";
    case DType::I16:
      return "i16";
    case DType::I32:
      return "i32";
    case DType::I64:
      return "i64";
    case DType::U8:
      return "u8";
    case DType::U16:
      return "u16";
    case DType::U32:
      return "u32";
    case DType::U64:
      return "u64";
    case DType::F16:
      return "f16";
    case DType::BF16:
      return "bf16";
    case DType::F32:
      return "f32";
    case DType::F64:
      return "f64";
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace corrloom
