
#include "ir/scalar/evaluate.h"
#include "ir/scalar/expr.h"

namespace corrloom::scalar {
namespace {

Expr whole(DType dtype, std::int64_t value) {
  return constant(Value::integer(dtype, value));
}

/// True when `expr` is the integer constant `value` of its dtype.
bool is_whole(const Expr& expr, std::int64_t value) {
  const Value* found = as_constant(expr);
  return found != nullptr && is_integer(found->dtype) && *found == Value::integer(found->dtype, value);
}

/// The same node, or equal leaves: cheap, unlike `same`.
bool is_identical(const Expr& a, const Expr& b) {
  return a == b || (a->depth == 0 && b->depth == 0 && same(a, b));
}

bool is_commutative(Opcode opcode) {
  switch (opcode) {
    case Opcode::Add:
    case Opcode::Mul:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
    case Opcode::Min:
    case Opcode::Max:
      return true;
    default:
      return false;
  }
}

Value combine(Opcode opcode, const Value& x, const Value& y) {
  const Value operands[] = {x, y};
  return evaluate(opcode, operands, x.dtype);
}

Value negated(const Value& x) {
  return evaluate(Opcode::Neg, std::span(&x, 1), x.dtype);
}

/// x plus a constant; a negative one is written as a difference.
Expr plus(const Expr& x, const Value& offset) {
  if (offset.bits == 0) return x;
  const bool is_negative = is_signed_integer(offset.dtype) && offset.as_i64() < 0;
  const Value opposite = negated(offset);
  if (is_negative && opposite.as_i64() > 0) return apply(Opcode::Sub, {x, constant(opposite)});
  return apply(Opcode::Add, {x, constant(offset)});
}

/// An integer as base + offset.
struct Sum {
  Expr base;
  Value offset;
};

/// Splits x + c and x - c; anything else is itself plus 0.
Sum split_sum(const Expr& x) {
  if (const Apply* sum = as_apply(x, Opcode::Add)) {
    if (const Value* offset = as_constant(sum->args[1])) return {sum->args[0], *offset};
  }
  if (const Apply* difference = as_apply(x, Opcode::Sub)) {
    if (const Value* offset = as_constant(difference->args[1])) return {difference->args[0], negated(*offset)};
  }
  return {x, Value::integer(x->dtype, 0)};
}

Expr simplify_add(const Expr& x, const Expr& y) {
  const Value* offset = as_constant(y);
  if (offset == nullptr) return nullptr;
  const Sum sum = split_sum(x);
  if (sum.base == x && offset->bits != 0) return nullptr;
  return plus(sum.base, combine(Opcode::Add, sum.offset, *offset));
}

Expr simplify_sub(const Expr& x, const Expr& y) {
  const Sum left = split_sum(x);
  const Sum right = split_sum(y);
  const Value offset = combine(Opcode::Sub, left.offset, right.offset);
  if (is_identical(left.base, right.base)) return constant(offset);
  const Value* subtracted = as_constant(y);
  if (subtracted == nullptr) return nullptr;
  if (left.base == x && subtracted->bits != 0) return nullptr;
  return plus(left.base, combine(Opcode::Sub, left.offset, *subtracted));
}

Expr simplify_mul(const Expr& x, const Expr& y) {
  if (is_whole(y, 0)) return y;
  if (is_whole(y, 1)) return x;
  const Apply* inner = as_apply(x, Opcode::Mul);
  const Value* outer_factor = as_constant(y);
  const Value* inner_factor = inner == nullptr ? nullptr : as_constant(inner->args[1]);
  if (outer_factor == nullptr || inner_factor == nullptr) return nullptr;
  // Products wrap, so factors combine whatever they are.
  const Value factor = combine(Opcode::Mul, *inner_factor, *outer_factor);
  if (Value::integer(x->dtype, 0) == factor) return constant(factor);
  if (Value::integer(x->dtype, 1) == factor) return inner->args[0];
  return apply(Opcode::Mul, {inner->args[0], constant(factor)});
}

bool is_positive(const Value& value) {
  return is_signed_integer(value.dtype) ? value.as_i64() > 0 : value.bits > 0;
}

Expr simplify_floor_div(const Expr& x, const Expr& y) {
  if (is_whole(y, 0) || is_whole(x, 0)) return whole(x->dtype, 0);
  if (is_whole(y, 1)) return x;
  const Apply* inner = as_apply(x, Opcode::FloorDiv);
  const Value* outer_divisor = as_constant(y);
  const Value* inner_divisor = inner == nullptr ? nullptr : as_constant(inner->args[1]);
  if (outer_divisor == nullptr || inner_divisor == nullptr) return nullptr;
  if (!is_positive(*outer_divisor) || !is_positive(*inner_divisor)) return nullptr;
  const Value product = combine(Opcode::Mul, *inner_divisor, *outer_divisor);
  const bool wraps = combine(Opcode::FloorDiv, product, *outer_divisor) != *inner_divisor || !is_positive(product);
  return wraps ? nullptr : apply(Opcode::FloorDiv, {inner->args[0], constant(product)});
}

Expr simplify_mod(const Expr& x, const Expr& y) {
  if (is_whole(y, 0) || is_whole(y, 1) || is_whole(x, 0)) return whole(x->dtype, 0);
  // The same bits are the highest number of an unsigned dtype.
  if (is_signed_integer(y->dtype) && is_whole(y, -1)) return whole(x->dtype, 0);
  const Apply* inner = as_apply(x, Opcode::Mod);
  return inner != nullptr && is_identical(inner->args[1], y) ? x : nullptr;
}

Expr simplify_shift(const Expr& x, const Expr& y) {
  if (is_whole(y, 0) || is_whole(x, 0)) return x;
  return nullptr;
}

Expr simplify_bits(Opcode opcode, const Expr& x, const Expr& y) {
  const bool is_bool = x->dtype == DType::Bool;
  const Value* mask = as_constant(y);
  const bool none = mask != nullptr && mask->bits == 0;
  const bool all = mask != nullptr && *mask == (is_bool ? Value::boolean(true) : Value::integer(x->dtype, -1));
  const bool identical = is_identical(x, y);
  if (opcode == Opcode::And) return none ? y : all || identical ? x : nullptr;
  if (opcode == Opcode::Or) return all ? y : none || identical ? x : nullptr;
  if (identical) return constant({x->dtype, 0});
  return none ? x : nullptr;
}

/// Binary operations of integers (and bools, for bitwise ones); a constant stands right where the order is free.
Expr simplify_binary(Opcode opcode, const Expr& x, const Expr& y) {
  switch (opcode) {
    case Opcode::Add:
      return simplify_add(x, y);
    case Opcode::Sub:
      return simplify_sub(x, y);
    case Opcode::Mul:
      return simplify_mul(x, y);
    case Opcode::FloorDiv:
      return simplify_floor_div(x, y);
    case Opcode::Mod:
      return simplify_mod(x, y);
    case Opcode::Shl:
    case Opcode::Shr:
      return simplify_shift(x, y);
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
      return simplify_bits(opcode, x, y);
    case Opcode::Min:
    case Opcode::Max:
      return is_identical(x, y) ? x : nullptr;
    case Opcode::Eq:
    case Opcode::Le:
    case Opcode::Ge:
      return is_identical(x, y) ? constant(Value::boolean(true)) : nullptr;
    case Opcode::Ne:
    case Opcode::Lt:
    case Opcode::Gt:
      return is_identical(x, y) ? constant(Value::boolean(false)) : nullptr;
    default:
      return nullptr;
  }
}

/// The branch of a choice that was decided. A product stays behind a fence: it was no operand of the sum around the
/// choice, so it must not be contracted with it.
Expr taken_branch(const Expr& branch) {
  const bool may_contract = is_float(branch->dtype) && as_apply(branch, Opcode::Mul) != nullptr;
  return may_contract ? apply(Opcode::Fence, {branch}) : branch;
}

Expr simplify_choice(const Apply& choice) {
  const Value* condition = as_constant(choice.args[0]);
  return condition == nullptr ? nullptr : taken_branch(choice.args[condition->as_bool() ? 1 : 2]);
}

/// `land` and `lor`: `deciding` is the operand value that settles the result.
Expr simplify_lazy(const Apply& apply, bool deciding) {
  const Value* left = as_constant(apply.args[0]);
  if (left != nullptr) return left->as_bool() == deciding ? apply.args[0] : apply.args[1];
  const Value* right = as_constant(apply.args[1]);
  if (right != nullptr) return right->as_bool() == deciding ? apply.args[1] : apply.args[0];
  return is_identical(apply.args[0], apply.args[1]) ? apply.args[0] : nullptr;
}

/// -(-x) and !!x.
Expr simplify_twice(const Apply& outer) {
  const Apply* inner = as_apply(outer.args[0], outer.opcode);
  return inner == nullptr || is_float(outer.args[0]->dtype) ? nullptr : inner->args[0];
}

Expr fold_constants(const Apply& apply, DType result) {
  std::vector<Value> operands;
  for (const Expr& arg : apply.args) {
    const Value* operand = as_constant(arg);
    if (operand == nullptr) return nullptr;
    operands.push_back(*operand);
  }
  return constant(evaluate(apply.opcode, operands, result));
}

Expr simplify_operands(const Expr& node, const Apply& operation) {
  switch (operation.opcode) {
    case Opcode::If:
    case Opcode::Select:
      return simplify_choice(operation);
    case Opcode::LazyAnd:
      return simplify_lazy(operation, false);
    case Opcode::LazyOr:
      return simplify_lazy(operation, true);
    case Opcode::Neg:
    case Opcode::Not:
      return simplify_twice(operation);
    default:
      break;
  }
  if (operation.args.size() != 2 || is_float(operation.args[0]->dtype)) return nullptr;
  const bool swapped = is_commutative(operation.opcode) && as_constant(operation.args[0]) != nullptr;
  const Expr& x = operation.args[swapped ? 1 : 0];
  const Expr& y = operation.args[swapped ? 0 : 1];
  const Expr simpler = simplify_binary(operation.opcode, x, y);
  if (simpler || !swapped) return simpler;
  // Constants are looked for on the right, so that nested ones meet.
  return node->dtype == x->dtype ? apply(operation.opcode, {x, y}) : nullptr;
}

Expr simplify_node(const Expr& node) {
  const auto* operation = std::get_if<Apply>(&node->kind);
  if (operation == nullptr) return nullptr;
  if (const Expr folded = fold_constants(*operation, node->dtype)) return folded;
  return simplify_operands(node, *operation);
}

}  // namespace

Expr simplify(const Expr& expr) {
  return rewrite(expr, simplify_node);
}

}  // namespace corrloom::scalar
