#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/grad/differentiate.h"

namespace corrloom::grad {

/// What a derivative takes over from the text of its op.
struct Signature {
  struct Declared {
    std::string name;
    std::string text;  ///< the parameter as written, `X: f32[H, W]`
    std::string type;  ///< its type, `f32[H, W]`
  };
  std::string name;                          ///< of the derivative
  std::vector<std::string> type_parameters;  ///< `T: float`
  std::map<DType, std::string> dtype_names;  ///< dtypes of the graph that stand for type parameters
  std::vector<Declared> attributes;          ///< `stride: int = 1`; no types
  std::vector<Declared> parameters;          ///< all of them, in their order
  std::vector<Declared> cotangents;          ///< of the float results: `name` is that of the result
  std::vector<Declared> values;              ///< the op's own results, where they are asked for; no texts
  std::vector<Declared> results;             ///< `name` is that of the variable
  std::vector<std::string> where;
  std::vector<std::string> with;
  std::vector<std::string> taken;  ///< other names that nothing may hide
};

/// The derivative as an op in index notation. Not laid out: `format` of the front end does that.
std::string write_op(const Derivative& derivative, const Signature& signature, const tensor::Graph& graph);

}  // namespace corrloom::grad
