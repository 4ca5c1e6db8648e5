#include "compiler/passes/add_copy.h"

#include <utility>

namespace corrloom::passes {

tensor::TensorId add_copy(tensor::Graph& graph, tensor::TensorId source, const std::string& name) {
  const tensor::Op original = graph.op(source);
  tensor::Compute copy;
  scalar::Read read{source, {}};
  read.check = scalar::ReadCheck::Proven;
  for (const scalar::Expr& extent : original.extents) {
    const std::string axis_name = "i" + std::to_string(copy.axes.size());
    const scalar::AxisId axis = graph.new_axis(axis_name);
    copy.axes.push_back({axis, axis_name, extent});
    read.index.push_back(scalar::axis(axis));
  }
  copy.body = scalar::read(std::move(read), original.dtype);
  return graph.add({name, original.dtype, original.extents, std::move(copy), original.span});
}

}  // namespace corrloom::passes
