// exp2 of f32 and f64.
//
//   x = n + f with n whole and |f| <= 1/2;  exp2(x) = 2^n (1 + f P(f))
//
// Whole x give exact powers of two; denormal results are rounded once. exp2(-inf) = 0, exp2(inf) = inf.

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// (2^f - 1) / f. Minimax of f * (P - it) relative to 2^f on [-1/2, 1/2]: error 2^-26 (f32), 2^-55 (f64);
/// fit_polynomials.py `exp2`.
Expr rest(const Expr& f) {
  if (f->dtype == DType::F32) {
    return polynomial(f, {0.693147182, 0.240226477, 0.0555033237, 0.00961843785, 0.00133989006, 0.000153533416});
  }
  return polynomial(f, {0.69314718055994529, 0.2402265069591013, 0.055504108664820077, 0.0096181291075940652,
                        0.0013333558146775167, 0.00015403530457188034, 1.5252733492772062e-5, 1.3215435241402327e-6,
                        1.0178199653308714e-7, 7.0737907447042124e-9, 4.4347685482440021e-10});
}

}  // namespace

template <>
Expr expansion<Opcode::Exp2>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  // Beyond these the result is infinite, or rounds to 0.
  const Expr inside = x->dtype == DType::F32 ? at_least(at_most(x, 129), -151) : at_least(at_most(x, 1025), -1076);
  const ReducedExp reduced = reduce_exp2(inside);
  return scale(fma(reduced.r, rest(reduced.r), number(x->dtype, 1)), reduced.n);
}

}  // namespace corrloom::scalar::parts
