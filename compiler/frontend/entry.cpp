#include "compiler/frontend/entry.h"

#include <limits>
#include <unordered_map>

#include "ir/base/match.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::frontend {
namespace {

using scalar::Expr;
using scalar::Opcode;
using scalar::Value;

/// Computes each node once, operands first. Branches that are not taken are computed too, but do not count.
class ExactEvaluator {
 public:
  explicit ExactEvaluator(const SymbolLookup& symbols) : symbols_(symbols) {}

  EntryValue run(const Expr& expr) {
    scalar::for_each_node(expr, [&](const Expr& node) { known_.emplace(node.get(), compute(*node)); });
    return value_of(expr);
  }

 private:
  EntryValue compute(const scalar::Node& node) {
    return match(
        node.kind, [](const scalar::Constant& kind) { return exact(kind.value); },
        [](const scalar::AxisRef&) { return EntryValue{}; },
        [&](const scalar::SymbolRef& kind) {
          const std::optional<Value> value = symbols_ ? symbols_(kind.symbol) : std::nullopt;
          return value ? exact(*value) : EntryValue{};
        },
        [](const scalar::AccRef&) { return EntryValue{}; }, [](const scalar::Read&) { return EntryValue{}; },
        [&](const scalar::Apply& kind) { return of_apply(kind, node.dtype); });
  }

  EntryValue of_apply(const scalar::Apply& apply, DType dtype) {
    const EntryValue first = value_of(apply.args[0]);
    if (first.kind != EntryValue::Kind::Exact) return first;
    const bool condition = first.value.as_bool();
    if (apply.opcode == Opcode::LazyAnd && !condition) return first;
    if (apply.opcode == Opcode::LazyOr && condition) return first;
    if (apply.opcode == Opcode::If) return value_of(apply.args[condition ? 1 : 2]);
    std::vector<Value> values = {first.value};
    for (std::size_t k = 1; k < apply.args.size(); ++k) {
      const EntryValue operand = value_of(apply.args[k]);
      if (operand.kind != EntryValue::Kind::Exact) return operand;
      values.push_back(operand.value);
    }
    if (overflows(apply.opcode, values)) return {EntryValue::Kind::Overflow};
    if (divides_by_zero(apply.opcode, values)) return {EntryValue::Kind::ZeroDivisor};
    return exact(scalar::evaluate(apply.opcode, values, dtype));
  }

  const EntryValue& value_of(const Expr& expr) const { return known_.at(expr.get()); }

  static bool overflows(Opcode opcode, const std::vector<Value>& values) {
    if (values[0].dtype != DType::I64) return false;
    const std::int64_t a = values[0].as_i64();
    const std::int64_t b = values.size() > 1 ? values[1].as_i64() : 0;
    const bool is_lowest = a == std::numeric_limits<std::int64_t>::min();
    std::int64_t unused = 0;
    switch (opcode) {
      case Opcode::Add:
        return __builtin_add_overflow(a, b, &unused);
      case Opcode::Sub:
        return __builtin_sub_overflow(a, b, &unused);
      case Opcode::Mul:
        return __builtin_mul_overflow(a, b, &unused);
      case Opcode::Neg:
      case Opcode::Abs:
        return is_lowest;
      case Opcode::FloorDiv:
        return is_lowest && b == -1;
      case Opcode::Shl: {
        const bool is_count = b >= 0 && b < 64;
        return a != 0 && (!is_count || static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b) >> b != a);
      }
      default:
        return false;
    }
  }

  static bool divides_by_zero(Opcode opcode, const std::vector<Value>& values) {
    return (opcode == Opcode::FloorDiv || opcode == Opcode::Mod) && values[1].bits == 0;
  }

  static EntryValue exact(const Value& value) { return {EntryValue::Kind::Exact, value}; }

  const SymbolLookup& symbols_;
  std::unordered_map<const scalar::Node*, EntryValue> known_;
};

}  // namespace

EntryValue evaluate_at_entry(const Expr& expr, const SymbolLookup& symbols) {
  return ExactEvaluator(symbols).run(expr);
}

}  // namespace corrloom::frontend
