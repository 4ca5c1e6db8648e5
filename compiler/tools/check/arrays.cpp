#include "compiler/tools/check/arrays.h"

#include <cmath>
#include <cstring>

namespace corrloom::tools {
namespace {

std::string index_text(std::int64_t position, const std::vector<std::int64_t>& extents) {
  std::string text;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    text = std::to_string(position % extents[axis]) + (text.empty() ? "" : ", ") + text;
    position /= extents[axis];
  }
  return "[" + text + "]";
}

bool agree(const scalar::Value& a, const scalar::Value& b) {
  return a == b || (is_float(a.dtype) && std::isnan(a.as_f64()) && std::isnan(b.as_f64()));
}

}  // namespace

tensor::Array to_array(const Tensor& tensor) {
  const Tensor host = tensor.to(cpu()).contiguous();
  host.wait();
  tensor::Array array{host.dtype(), host.shape(), {}};
  const auto width = static_cast<std::size_t>(byte_size(host.dtype()));
  const auto* const bytes = static_cast<const std::byte*>(host.address());
  array.bits.resize(static_cast<std::size_t>(host.element_count()));
  for (std::size_t k = 0; k < array.bits.size(); ++k) {
    std::memcpy(&array.bits[k], bytes + k * width, width);
    if (host.dtype() == DType::Bool) array.bits[k] = array.bits[k] != 0 ? 1 : 0;
  }
  return array;
}

Tensor to_tensor(const tensor::Array& array) {
  const auto width = static_cast<std::size_t>(byte_size(array.dtype));
  std::vector<std::byte> bytes(array.bits.size() * width);
  for (std::size_t k = 0; k < array.bits.size(); ++k) std::memcpy(bytes.data() + k * width, &array.bits[k], width);
  return Tensor::from_data(bytes.data(), array.extents, array.dtype);
}

std::optional<std::string> difference(const tensor::Array& found, const tensor::Array& wanted) {
  if (found.dtype != wanted.dtype || found.extents != wanted.extents) {
    return TensorType{found.dtype, found.extents}.to_string() + ", wanted " +
           TensorType{wanted.dtype, wanted.extents}.to_string();
  }
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t k = 0; k < found.count(); ++k) {
    if (agree(found.at(k), wanted.at(k))) continue;
    if (wrong++ == 0) first = k;
  }
  if (wrong == 0) return std::nullopt;
  return std::to_string(wrong) + " of " + std::to_string(found.count()) + " elements differ, first " +
         index_text(first, found.extents) + ": " + scalar::to_text(found.at(first)) + ", wanted " +
         scalar::to_text(wanted.at(first));
}

}  // namespace corrloom::tools
