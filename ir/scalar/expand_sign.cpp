// sign, exact: -1, 0 or 1; zeros and NaN stay as they are.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {

template <>
Expr expansion<Opcode::Sign>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  const auto whole = [&](int value) { return is_float(dtype) ? number(dtype, value) : integer(dtype, value); };
  const Expr up_to_zero = is_unsigned_integer(dtype) ? x : select(lt(x, whole(0)), whole(-1), x);
  return select(gt(x, whole(0)), whole(1), up_to_zero);
}

}  // namespace corrloom::scalar::parts
