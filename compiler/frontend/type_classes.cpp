#include "compiler/frontend/type_classes.h"

namespace corrloom::frontend {

bool is_in_class(const std::string& type_class, DType dtype) {
  if (type_class == "float") return is_float(dtype);
  if (type_class == "integer") return is_integer(dtype);
  if (type_class == "number") return dtype != DType::Bool;
  return type_class == "any";
}

std::vector<DType> kinds_of_class(const std::string& type_class) {
  std::vector<DType> dtypes;
  for (const DType dtype : {DType::F32, DType::I32, DType::Bool, DType::U8, DType::F16}) {
    if (is_in_class(type_class, dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

}  // namespace corrloom::frontend
