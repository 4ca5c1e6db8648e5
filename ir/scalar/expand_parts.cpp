#include "ir/scalar/expand_parts.h"

#include <utility>

#include "ir/base/errors.h"

namespace corrloom::scalar::parts {

Expr number(DType dtype, double value) {
  return constant(Value::floating(dtype, value));
}
Expr integer(DType dtype, std::int64_t value) {
  return constant(Value::integer(dtype, value));
}

Expr neg(Expr x) {
  return apply(Opcode::Neg, {std::move(x)});
}
Expr abs(Expr x) {
  return apply(Opcode::Abs, {std::move(x)});
}
Expr add(Expr x, Expr y) {
  return apply(Opcode::Add, {std::move(x), std::move(y)});
}
Expr sub(Expr x, Expr y) {
  return apply(Opcode::Sub, {std::move(x), std::move(y)});
}
Expr mul(Expr x, Expr y) {
  return apply(Opcode::Mul, {std::move(x), std::move(y)});
}
Expr div(Expr x, Expr y) {
  return apply(Opcode::Div, {std::move(x), std::move(y)});
}
Expr fma(Expr x, Expr y, Expr z) {
  return apply(Opcode::Fma, {std::move(x), std::move(y), std::move(z)});
}
Expr bit_and(Expr x, Expr y) {
  return apply(Opcode::And, {std::move(x), std::move(y)});
}
Expr bit_or(Expr x, Expr y) {
  return apply(Opcode::Or, {std::move(x), std::move(y)});
}
Expr bit_xor(Expr x, Expr y) {
  return apply(Opcode::Xor, {std::move(x), std::move(y)});
}
Expr eq(Expr x, Expr y) {
  return apply(Opcode::Eq, {std::move(x), std::move(y)});
}
Expr ne(Expr x, Expr y) {
  return apply(Opcode::Ne, {std::move(x), std::move(y)});
}
Expr lt(Expr x, Expr y) {
  return apply(Opcode::Lt, {std::move(x), std::move(y)});
}
Expr gt(Expr x, Expr y) {
  return apply(Opcode::Gt, {std::move(x), std::move(y)});
}
Expr le(Expr x, Expr y) {
  return apply(Opcode::Le, {std::move(x), std::move(y)});
}
Expr ge(Expr x, Expr y) {
  return apply(Opcode::Ge, {std::move(x), std::move(y)});
}
Expr is_nan(Expr x) {
  return apply(Opcode::IsNan, {std::move(x)});
}

Expr scale(const Expr& m, const Expr& n) {
  return apply(Opcode::Scale, {m, n});
}

Expr sqrt(Expr x) {
  return apply(Opcode::Sqrt, {std::move(x)});
}
Expr trunc(Expr x) {
  return apply(Opcode::Trunc, {std::move(x)});
}
Expr shl(Expr x, Expr count) {
  return apply(Opcode::Shl, {std::move(x), std::move(count)});
}
Expr shr(Expr x, Expr count) {
  return apply(Opcode::Shr, {std::move(x), std::move(count)});
}

Expr shl(Expr x, int count) {
  Expr places = integer(x->dtype, count);
  return apply(Opcode::Shl, {std::move(x), std::move(places)});
}

Expr shr(Expr x, int count) {
  Expr places = integer(x->dtype, count);
  return apply(Opcode::Shr, {std::move(x), std::move(places)});
}

Expr select(Expr condition, Expr then, Expr otherwise) {
  return apply(Opcode::Select, {std::move(condition), std::move(then), std::move(otherwise)});
}

Expr at_most(Expr x, double bound) {
  const Expr limit = number(x->dtype, bound);
  return select(gt(x, limit), limit, x);
}

Expr at_least(Expr x, double bound) {
  const Expr limit = number(x->dtype, bound);
  return select(lt(x, limit), limit, x);
}

Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {
  auto next = std::rbegin(coefficients);
  Expr sum = number(x->dtype, *next);
  while (++next != std::rend(coefficients)) sum = fma(sum, x, number(x->dtype, *next));
  return sum;
}

Expr bits_of(const Expr& x) {
  return bitcast(x, x->dtype == DType::F32 ? DType::I32 : DType::I64);
}

Expr from_bits(const Expr& bits) {
  return bitcast(bits, bits->dtype == DType::I32 ? DType::F32 : DType::F64);
}

int fraction_bits(DType dtype) {
  CORRLOOM_CHECK(dtype == DType::F32 || dtype == DType::F64, "functions are computed in f32 or f64, not ",
                 name_of(dtype));
  return dtype == DType::F32 ? 23 : 52;
}

Expr sign_bit_of(const Expr& x) {
  const Expr bits = bits_of(x);
  return bit_and(bits, integer(bits->dtype, std::int64_t{1} << (bit_width(bits->dtype) - 2) << 1));
}

Expr with_sign_of(Expr magnitude, const Expr& x) {
  return from_bits(bit_or(bits_of(magnitude), sign_bit_of(x)));
}

Pair sum_exact(const Expr& x, const Expr& y) {
  const Expr sum = add(x, y);
  return {sum, add(sub(x, sum), y)};
}

Pair product_exact(const Expr& x, const Expr& y) {
  const Expr product = mul(x, y);
  return {product, fma(x, y, neg(product))};
}

Pair product(const Pair& x, const Pair& y) {
  const Pair exact = product_exact(x.high, y.high);
  return {exact.high, add(exact.low, fma(x.high, y.low, mul(x.low, y.high)))};
}

}  // namespace corrloom::scalar::parts
