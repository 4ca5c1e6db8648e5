#include "compiler/passes/expand_functions.h"

#include "ir/scalar/expand.h"

namespace corrloom::passes {

tensor::Graph expand_functions(tensor::Graph graph, PassContext&) {
  for (tensor::Op& op : graph.ops) tensor::rewrite_exprs(op, scalar::expand);
  return graph;
}

}  // namespace corrloom::passes
