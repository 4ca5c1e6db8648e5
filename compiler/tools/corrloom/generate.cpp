#include "compiler/tools/corrloom/generate.h"

#include <algorithm>
#include <map>
#include <random>

#include "compiler/api/op_core.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::tools {
namespace {

constexpr int kTries = 400;
constexpr std::int64_t kLargestExtent = 9;
constexpr std::int64_t kMostElements = 1 << 16;

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

scalar::Value random_scalar(DType dtype, Random& random) {
  if (dtype == DType::Bool) return scalar::Value::boolean(pick(random, 0, 1) == 1);
  if (is_integer(dtype)) return scalar::Value::integer(dtype, pick(random, 0, 3));
  return scalar::Value::floating(dtype, static_cast<double>(pick(random, -8, 8)) / 4);
}

Tensor random_tensor(const TensorType& type, Random& random) {
  if (is_float(type.dtype)) return randn(type.shape, type.dtype, cpu(), random());
  if (type.dtype == DType::Bool) return randint(0, 2, type.shape, i64, cpu(), random()).to(DType::Bool);
  return randint(is_unsigned_integer(type.dtype) ? 0 : -10, 10, type.shape, type.dtype, cpu(), random());
}

/// The types of the tensors when the graph's symbols have those values; nothing when one would be negative or large.
std::optional<std::vector<TensorType>> types_for(const tensor::Graph& graph,
                                                 const std::vector<scalar::Value>& symbols) {
  scalar::Environment environment;
  environment.symbol = [&](scalar::SymbolId id) { return symbols[static_cast<std::size_t>(id.index)]; };
  std::vector<TensorType> types;
  for (const tensor::TensorId input : graph.inputs) {
    TensorType type{graph.op(input).dtype, {}};
    std::int64_t count = 1;
    for (const scalar::Expr& extent : graph.op(input).extents) {
      type.shape.push_back(scalar::Evaluator(extent)(environment).as_i64());
      if (type.shape.back() < 0 || type.shape.back() > kMostElements) return std::nullopt;
      count *= std::max<std::int64_t>(type.shape.back(), 1);
      if (count > kMostElements) return std::nullopt;
    }
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace

std::optional<std::vector<Argument>> generate_arguments(const Op& op, std::uint64_t seed) {
  const std::shared_ptr<const tensor::Graph> graph = op.core()->graph();
  Random random(seed);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::map<std::string, scalar::Value> scalars;
    std::vector<std::optional<scalar::Value>> scalar_list;
    for (const ParameterInfo& parameter : op.info().parameters) {
      if (parameter.is_tensor) continue;
      scalar_list.emplace_back(scalars[parameter.name] = random_scalar(parameter.dtype, random));
    }
    std::vector<scalar::Value> symbols;
    for (const tensor::Symbol& symbol : graph->symbols) {
      const auto known = scalars.find(symbol.name);
      symbols.push_back(known != scalars.end() ? known->second : scalar::Value::i64(pick(random, 1, kLargestExtent)));
    }
    const std::optional<std::vector<TensorType>> types = types_for(*graph, symbols);
    if (!types) continue;
    try {
      op.core()->bind(*types, scalar_list);
    } catch (const InputError&) {
      continue;
    }
    std::vector<Argument> arguments;
    std::size_t next_type = 0;
    for (const ParameterInfo& parameter : op.info().parameters) {
      if (parameter.is_tensor)
        arguments.emplace_back(random_tensor((*types)[next_type++], random));
      else
        arguments.emplace_back(scalars[parameter.name]);
    }
    return arguments;
  }
  return std::nullopt;
}

}  // namespace corrloom::tools
