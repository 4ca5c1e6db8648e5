// log2 of f32 and f64.
//
//   x = (1 + f) * 2^k with sqrt(1/2) <= 1 + f < sqrt(2);  log2(x) = k + log(1 + f) / ln(2)
//
// The quotient is a product with 1 / ln(2), both in two parts, so powers of two are exact and so is the neighbourhood
// of
// 1. log2(+-0) = -inf, log2 of a negative is NaN.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// 1 / ln(2) in two parts.
Pair inverse_ln2(DType dtype) {
  if (dtype == DType::F32) return {number(dtype, 0x1.715476p+0), number(dtype, 0x1.4ae0cp-26)};
  return {number(dtype, 0x1.71547652b82fep+0), number(dtype, 0x1.777d0ffda0d24p-56)};
}

}  // namespace

template <>
Expr expansion<Opcode::Log2>(const std::vector<Expr>& args) {
  const SplitLog of = split_log(args[0]);
  const LogTerms terms = log_terms(of.f);
  const Pair first = sum_exact(of.f, neg(terms.half_square));
  const Pair scaled = product({first.high, add(first.low, terms.tail)}, inverse_ln2(of.f->dtype));
  const Pair sum = sum_exact(of.k, scaled.high);
  return log_with_edges(args[0], add(sum.high, add(sum.low, scaled.low)));
}

}  // namespace corrloom::scalar::parts
