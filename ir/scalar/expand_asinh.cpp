// asinh, acosh and atanh of f32 and f64, by way of log1p.
//
//   asinh(|x|) = log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))
//   acosh(x) = log1p(t + sqrt(t (t + 2))), t = x - 1
//   atanh(|x|) = log1p(2 |x| / (1 - |x|)) / 2
//
// Where squares could overflow the first two are log1p(x) + ln(2), which is the same there. asinh(+-0) = +-0, acosh(1)
// = 0, atanh(+-1) = +-inf; acosh below 1 and atanh beyond [-1, 1] are NaN; denormals give themselves.

#include <limits>

#include "ir/scalar/expand_parts.h"

namespace corrloom::scalar::parts {
namespace {

/// From here on x^2 + 1 is x^2, and 1 + x is x for log's purposes.
Expr is_huge(const Expr& x) {
  return gt(x, number(x->dtype, x->dtype == DType::F32 ? 0x1p30 : 0x1p60));
}

Expr infinity_of(DType dtype) {
  return number(dtype, std::numeric_limits<double>::infinity());
}

/// log1p(x), plus ln(2) where `doubled`; x itself where it is infinite or NaN.
Expr log1p_doubled(const Expr& x, const Expr& doubled) {
  const DType dtype = x->dtype;
  const Expr finite = log1p_core(x, select(doubled, number(dtype, 1), number(dtype, 0)));
  return select(lt(x, infinity_of(dtype)), finite, x);
}

}  // namespace

template <>
Expr expansion<Opcode::Asinh>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr one = number(x->dtype, 1);
  const Expr a = abs(x);
  const Expr huge = is_huge(a);
  const Expr square = mul(a, a);
  const Expr argument = add(a, div(square, add(one, sqrt(add(square, one)))));
  return with_sign_of(log1p_doubled(select(huge, a, argument), huge), x);
}

template <>
Expr expansion<Opcode::Acosh>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr huge = is_huge(x);
  const Expr t = sub(x, number(x->dtype, 1));
  // Of x < 1 the square root is that of a negative number.
  const Expr argument = add(t, sqrt(mul(t, add(t, number(x->dtype, 2)))));
  const Expr value = log1p_doubled(select(huge, x, argument), huge);
  return select(lt(x, number(x->dtype, 1)), number(x->dtype, std::numeric_limits<double>::quiet_NaN()), value);
}

template <>
Expr expansion<Opcode::Atanh>(const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const DType dtype = x->dtype;
  const Expr one = number(dtype, 1);
  const Expr a = abs(x);
  const Expr argument = div(add(a, a), sub(one, a));
  const Expr finite = mul(number(dtype, 0.5), log1p_core(argument, nullptr));
  const Expr at_the_ends =
      select(eq(a, one), infinity_of(dtype), number(dtype, std::numeric_limits<double>::quiet_NaN()));
  return with_sign_of(select(lt(a, one), finite, at_the_ends), x);
}

}  // namespace corrloom::scalar::parts
