#pragma once

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Operations on elements, as the expressions have them.
struct Operations {
  double flops = 0;
  double integer_ops = 0, integer_products = 0;  ///< products are among the operations
  /// Of floats, and roots: a processor takes several times as long for them. Each once for every point of the axes that
  /// it depends on; the others once for every point of the domain.
  double divisions = 0, roots = 0;
  bool uses_dots = false;

  void add(double times, const Operations& other);
};

/// Of one execution of a compute. Arithmetic on indices alone is none: it is subscripts, conditions of padding, and
/// what is made of positions.
Operations operations_of(const tensor::Op& op);

}  // namespace corrloom::passes
