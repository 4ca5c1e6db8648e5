// log1p of f32 and f64.
//
//   u = 1 + x, rounded, lacks c;  log(1 + x) = log(u) + c / u
//
// Where u needs no scaling, x itself takes the place of u - 1. log1p(+-0) = +-0, log1p(-1) = -inf, below -1 it is NaN,
// denormals give themselves.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {

Expr log1p_core(const Expr& x, const Expr& k) {
  const DType dtype = x->dtype;
  const Expr zero = number(dtype, 0);
  const Expr one = number(dtype, 1);
  const Expr u = add(x, one);
  // What u lacks: exact, as the larger summand is subtracted first.
  const Expr lacks = select(lt(x, one), sub(x, sub(u, one)), sub(one, sub(u, x)));
  SplitLog of = split_log(u);
  const Expr is_unscaled = eq(of.k, zero);
  of.f = select(is_unscaled, x, of.f);
  if (k) of.k = add(of.k, k);
  LogTerms terms = log_terms(of.f);
  terms.tail = add(terms.tail, select(is_unscaled, zero, div(lacks, u)));
  return log_sum(of, terms);
}

template <>
Expr expansion<Opcode::Log1p>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  const Expr infinity = number(dtype, std::numeric_limits<double>::infinity());
  const Expr minus_one = number(dtype, -1);
  // The sum loses the sign of -0.
  const Expr finite = with_sign_of(log1p_core(x, nullptr), x);
  const Expr of_larger = select(lt(x, infinity), finite, infinity);
  const Expr of_others =
      select(eq(x, minus_one), neg(infinity), number(dtype, std::numeric_limits<double>::quiet_NaN()));
  return select(gt(x, minus_one), of_larger, of_others);
}

}  // namespace corrloom::scalar::parts
