#include "random_expr.h"

#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "ir/scalar/operand_dtypes.h"

namespace corrloom::scalar::testing {
namespace {

std::size_t below(Random& random, std::size_t count) {
  return static_cast<std::size_t>(random() % count);
}

template <class T>
const T& pick(Random& random, const std::vector<T>& from) {
  return from[below(random, from.size())];
}

Value random_bits(Random& random, DType dtype) {
  const int unused = 64 - bit_width(dtype);
  return {dtype, random() >> unused};
}

Value edge_float(Random& random, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> edges = {0.0,       -0.0,       1.0,   -1.0,   0.5,    1.5,     2.5,   -2.5,
                                     kInfinity, -kInfinity, NAN,   3.0,    1e-8,   65504.0, 3e38,  -3e38,
                                     127,       255,        32768, 0x1p31, 0x1p63, 0x1p64,  1e-40, 0x1p-24};
  return Value::floating(dtype, pick(random, edges));
}

Value edge_integer(Random& random, DType dtype) {
  const std::int64_t sign = static_cast<std::int64_t>(std::uint64_t{1} << (bit_width(dtype) - 1));
  const std::vector<std::int64_t> edges = {0,
                                           1,
                                           -1,
                                           2,
                                           3,
                                           -2,
                                           7,
                                           bit_width(dtype) - 1,
                                           bit_width(dtype),
                                           sign,
                                           static_cast<std::int64_t>(static_cast<std::uint64_t>(sign) - 1),
                                           sign + 1};
  return Value::integer(dtype, pick(random, edges));
}

/// What a new operation may take: the expressions so far, by dtype.
class Pool {
 public:
  void add(Expr expr) { by_dtype_[static_cast<std::size_t>(expr->dtype)].push_back(std::move(expr)); }

  /// One of that dtype; the later ones more often, so that expressions grow deep.
  Expr draw(Random& random, DType dtype) {
    const std::vector<Expr>& all = by_dtype_[static_cast<std::size_t>(dtype)];
    if (below(random, 5) == 0) return constant(random_value(random, dtype));
    return below(random, 3) == 0 ? pick(random, all) : all.back();
  }

 private:
  std::array<std::vector<Expr>, std::size(kAllDTypes)> by_dtype_;
};

Expr random_operation(Random& random, Pool& pool, const std::vector<DType>& dtypes) {
  const OpcodeInfo& row = all_opcodes()[below(random, all_opcodes().size())];
  const DType dtype = pick(random, dtypes);
  if (row.opcode == Opcode::Cast) return cast(pool.draw(random, dtype), pick(random, dtypes));
  if (row.opcode == Opcode::Bitcast) {
    std::vector<DType> fitting;
    for (const DType to : dtypes) {
      if (bit_width(to) == bit_width(dtype)) fitting.push_back(to);
    }
    // The bits of a NaN are not part of the contract, so floats are not looked into.
    return is_float(dtype) ? nullptr : bitcast(pool.draw(random, dtype), pick(random, fitting));
  }
  // Has a meaning only for few operands.
  if (row.opcode == Opcode::Scale) return nullptr;
  if (!takes_last(row.opcode, dtype)) return nullptr;
  std::vector<Expr> args;
  for (std::size_t k = 0; k < static_cast<std::size_t>(row.arity); ++k)
    args.push_back(pool.draw(random, operand_dtype(row.opcode, k, dtype)));
  return apply(row.opcode, std::move(args));
}

}  // namespace

Value random_value(Random& random, DType dtype) {
  if (dtype == DType::Bool) return Value::boolean(random() & 1);
  const std::size_t kind = below(random, 4);
  if (kind == 0) return random_bits(random, dtype);
  if (is_integer(dtype)) {
    return kind == 1 ? Value::integer(dtype, static_cast<std::int64_t>(below(random, 40)) - 20)
                     : edge_integer(random, dtype);
  }
  if (kind > 1) return edge_float(random, dtype);
  return Value::floating(dtype, std::uniform_real_distribution<double>(-8, 8)(random));
}

Expr random_expr(Random& random, int operations, DType result, bool integers_only) {
  std::vector<DType> dtypes;
  Pool pool;
  for (const DType dtype : kAllDTypes) {
    if (integers_only && is_float(dtype)) continue;
    dtypes.push_back(dtype);
    pool.add(symbol(SymbolId{static_cast<std::int32_t>(dtype)}, dtype));
  }
  // Few dtypes, so that operations meet their like; the symbols of all are there for casts.
  const std::vector<DType> few = {pick(random, dtypes), pick(random, dtypes), result, DType::Bool};
  for (int made = 0; made < operations;) {
    if (Expr next = random_operation(random, pool, few)) {
      pool.add(std::move(next));
      ++made;
    }
  }
  return apply(Opcode::Fence, {pool.draw(random, result)});
}

Environment random_environment(Random& random) {
  const auto values = std::make_shared<std::vector<Value>>();
  for (const DType dtype : kAllDTypes) values->push_back(random_value(random, dtype));
  Environment environment;
  environment.symbol = [values](SymbolId id) { return (*values)[static_cast<std::size_t>(id.index)]; };
  return environment;
}

bool agree(const Value& a, const Value& b) {
  if (a.dtype != b.dtype) return false;
  return a.bits == b.bits || (is_float(a.dtype) && std::isnan(a.as_f64()) && std::isnan(b.as_f64()));
}

}  // namespace corrloom::scalar::testing
