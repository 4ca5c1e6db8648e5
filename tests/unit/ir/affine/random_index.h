#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "ir/affine/affine.h"
#include "ir/scalar/expr.h"

namespace corrloom::affine {

/// Random index expressions over the axes 0, 1, ... of small boxes, from a seed that failures print.
class RandomIndex {
 public:
  explicit RandomIndex(unsigned seed) : random_(seed) {}

  /// A box of one to three axes with extents from 1 to 6; its names are `a`, `b`, `c`.
  Domain box() {
    Domain domain;
    const int rank = number(1, 3);
    for (int i = 0; i < rank; ++i)
      domain.axes.push_back({AxisId{i}, std::string(1, static_cast<char>('a' + i)), number(1, 6)});
    return domain;
  }

  /// An i64 expression of the axes; `products` allows products of axes.
  Expr index(const Domain& domain, int depth, bool products = true) {
    using scalar::Opcode;
    if (depth == 0 || number(0, 5) == 0) return leaf(domain);
    const auto sub = [&] { return index(domain, depth - 1, products); };
    const auto fixed = [&](int low, int high) { return scalar::constant_i64(number(low, high)); };
    switch (number(0, 11)) {
      case 0:
      case 1:
        return scalar::apply(Opcode::Add, {sub(), sub()});
      case 2:
        return scalar::apply(Opcode::Sub, {sub(), sub()});
      case 3:
        return scalar::apply(Opcode::Mul, {sub(), fixed(-4, 7)});
      case 4:
        return scalar::apply(Opcode::FloorDiv, {sub(), fixed(-3, 7)});
      case 5:
        return scalar::apply(Opcode::Mod, {sub(), fixed(-3, 7)});
      case 6:
        return scalar::apply(Opcode::FloorDiv, {sub(), fixed(1, 12)});
      case 7:
        return scalar::apply(Opcode::Mod, {sub(), fixed(1, 12)});
      case 8:
        return scalar::apply(number(0, 1) == 0 ? Opcode::Min : Opcode::Max, {sub(), sub()});
      case 9:
        return scalar::apply(number(0, 1) == 0 ? Opcode::If : Opcode::Select,
                             {condition(domain, depth - 1), sub(), sub()});
      case 10:
        return scalar::apply(number(0, 1) == 0 ? Opcode::Abs : Opcode::Neg, {sub()});
      default: {
        if (number(0, 2) == 0)
          return scalar::cast(scalar::cast(sub(), number(0, 1) == 0 ? DType::I8 : DType::U8), DType::I64);
        return products && number(0, 2) == 0 ? scalar::apply(Opcode::Mul, {sub(), sub()})
                                             : scalar::apply(Opcode::Add, {sub(), fixed(-5, 5)});
      }
    }
  }

  Expr condition(const Domain& domain, int depth) {
    using scalar::Opcode;
    const auto sub = [&] { return index(domain, std::max(depth - 1, 0), false); };
    switch (number(0, 4)) {
      case 0:
        return scalar::apply(Opcode::Lt, {sub(), sub()});
      case 1:
        return scalar::apply(Opcode::Ge, {sub(), scalar::constant_i64(number(-2, 6))});
      case 2:
        return scalar::apply(number(0, 1) == 0 ? Opcode::Eq : Opcode::Ne, {sub(), sub()});
      case 3:
        return scalar::apply(Opcode::Not, {scalar::apply(Opcode::Le, {sub(), sub()})});
      default:
        return scalar::apply(number(0, 1) == 0 ? Opcode::LazyAnd : Opcode::LazyOr,
                             {scalar::apply(Opcode::Gt, {sub(), sub()}), scalar::apply(Opcode::Le, {sub(), sub()})});
    }
  }

  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  Expr leaf(const Domain& domain) {
    if (number(0, 3) == 0) return scalar::constant_i64(number(-6, 12));
    return scalar::axis(
        domain.axes[static_cast<std::size_t>(number(0, static_cast<int>(domain.axes.size()) - 1))].axis);
  }

  std::mt19937 random_;
};

}  // namespace corrloom::affine
