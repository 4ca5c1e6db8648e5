#include "compiler/tools/check/op_laws.h"

#include <algorithm>

#include "compiler/api/op_core.h"
#include "compiler/tools/check/arrays.h"
#include "compiler/tools/check/strict.h"
#include "runtime/run.h"

namespace corrloom::tools {
namespace {

using tensor::Array;

bool is_free(const tensor::Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [](const tensor::Op& op) {
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    return compute != nullptr &&
           (compute->numerics.fast_math || compute->numerics.order == tensor::Numerics::OrderMode::Any);
  });
}

std::vector<Array> to_arrays(const std::vector<Tensor>& tensors) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(to_array(tensor));
  return arrays;
}

std::vector<Tensor> to_tensors(const std::vector<Array>& arrays, Device device) {
  std::vector<Tensor> tensors;
  for (const Array& array : arrays) tensors.push_back(to_tensor(array).to(device));
  return tensors;
}

}  // namespace

LawReport laws_of(const Op& op, const std::vector<Argument>& arguments, Device device) {
  const api::OpCore& core = op.core()->instance_for(arguments);
  const std::shared_ptr<const tensor::Graph> graph = core.graph();
  if (is_free(*graph)) return {};
  const api::SplitArguments split = api::split_arguments(core.info(), arguments);
  const std::vector<std::optional<scalar::Value>> scalars(split.scalars.begin(), split.scalars.end());
  const auto bind = [&](const std::vector<Array>& arrays) {
    std::vector<TensorType> types;
    for (const Array& array : arrays) types.push_back({array.dtype, array.extents});
    return core.bind(types, scalars);
  };
  Subject subject;
  subject.as_called = [&](const std::vector<Array>& arrays) {
    const std::vector<Tensor> tensors = to_tensors(arrays, device);
    std::vector<Argument> all;
    std::size_t next = 0;
    for (const Argument& argument : arguments)
      all.push_back(argument.is_tensor() ? Argument(tensors[next++]) : argument);
    return to_arrays(op.on(device).call(all));
  };
  subject.strict = [&](const std::vector<Array>& arrays) {
    const driver::Compiled compiled = compile_strictly(*graph, bind(arrays), api::target_of(device));
    runtime::LoadedProgram loaded(compiled.program, runtime::backend_of(device));
    return to_arrays(loaded.run(to_tensors(arrays, device), {}));
  };
  std::vector<Array> inputs;
  for (const Tensor* tensor : split.tensors) inputs.push_back(to_array(*tensor));
  return check_laws(*graph, bind(inputs), inputs, subject);
}

}  // namespace corrloom::tools
