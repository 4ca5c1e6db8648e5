#include "ir/scalar/expr.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "ir/scalar/operand_dtypes.h"

namespace corrloom::scalar {
namespace {

constexpr OpcodeInfo kOpcodes[] = {
#define CORRLOOM_OPCODE(name, text, arity, operands, result, kind, callable, summary) \
  {Opcode::name, text, arity, Operands::operands, Result::result, OpcodeKind::kind, callable != 0, summary},
#include "ir/scalar/opcodes.def"
#undef CORRLOOM_OPCODE
};

/// Calls `visit` with each direct sub-expression, in the order of `children`.
template <class Visit>
void each_child(const Node& node, const Visit& visit) {
  if (const auto* apply = std::get_if<Apply>(&node.kind)) {
    for (const Expr& arg : apply->args) visit(arg);
  } else if (const auto* read = std::get_if<Read>(&node.kind)) {
    for (const Expr& subscript : read->index) visit(subscript);
    if (read->pad_value) visit(read->pad_value);
  }
}

/// Moves the direct sub-expressions of a dying node to `pending`.
void take_children(Node& node, std::vector<Expr>& pending) {
  const auto take = [&](Expr& child) {
    if (child) pending.push_back(std::move(child));
  };
  if (auto* apply = std::get_if<Apply>(&node.kind)) {
    for (Expr& arg : apply->args) take(arg);
  } else if (auto* read = std::get_if<Read>(&node.kind)) {
    for (Expr& subscript : read->index) take(subscript);
    take(read->pad_value);
  }
}

using Kind = decltype(Node::kind);

Expr make_node(Kind kind, DType dtype) {
  const auto node = std::make_shared<Node>();
  node->kind = std::move(kind);
  node->dtype = dtype;
  node->depth = 0;
  each_child(*node, [&](const Expr& child) { node->depth = std::max(node->depth, child->depth + 1); });
  return node;
}

void check_operands(const OpcodeInfo& row, const std::vector<Expr>& args) {
  CORRLOOM_CHECK(static_cast<int>(args.size()) == row.arity, row.text, " takes ", row.arity, " operands, not ",
                 args.size());
  for (const Expr& arg : args) CORRLOOM_CHECK(arg != nullptr, "an operand of ", row.text, " is null");
  const DType last = args.back()->dtype;
  CORRLOOM_CHECK(takes_last(row.opcode, last), row.text, " does not take ", name_of(last));
  for (std::size_t k = 0; k < args.size(); ++k) {
    const DType wanted = operand_dtype(row.opcode, k, last);
    CORRLOOM_CHECK(args[k]->dtype == wanted, "operand ", k, " of ", row.text, " is of ", name_of(args[k]->dtype),
                   ", not ", name_of(wanted));
  }
}

/// `node` with other children, in the order of `children`.
Expr with_children(const Node& node, std::vector<Expr> replaced) {
  if (const auto* old = std::get_if<Read>(&node.kind)) {
    Read changed = *old;
    if (changed.pad_value) {
      changed.pad_value = std::move(replaced.back());
      replaced.pop_back();
    }
    changed.index = std::move(replaced);
    return read(std::move(changed), node.dtype);
  }
  const auto& old = std::get<Apply>(node.kind);
  if (old.opcode == Opcode::Cast) return cast(std::move(replaced[0]), node.dtype);
  if (old.opcode == Opcode::Bitcast) return bitcast(std::move(replaced[0]), node.dtype);
  return apply(old.opcode, std::move(replaced));
}

/// Nodes by identity, in one block of memory: most sets are made, filled once and thrown away.
class NodeSet {
 public:
  bool contains(const Node* node) const { return slots_[place_of(node)] == node; }
  /// False when it was there.
  bool insert(const Node* node) {
    const std::size_t place = place_of(node);
    if (slots_[place] == node) return false;
    slots_[place] = node;
    if (++count_ * 2 > slots_.size()) grow();
    return true;
  }

 private:
  /// Where the node is, or where it would be.
  std::size_t place_of(const Node* node) const {
    const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(node) * 0x9e3779b97f4a7c15u;
    std::size_t place = static_cast<std::size_t>(bits >> 32) & (slots_.size() - 1);
    while (slots_[place] != nullptr && slots_[place] != node) place = (place + 1) & (slots_.size() - 1);
    return place;
  }
  void grow() {
    const std::vector<const Node*> before = std::exchange(slots_, std::vector<const Node*>(2 * slots_.size()));
    for (const Node* node : before) {
      if (node != nullptr) slots_[place_of(node)] = node;
    }
  }

  std::vector<const Node*> slots_ = std::vector<const Node*>(32);  ///< a power of two, at most half of them taken
  std::size_t count_ = 0;
};

/// Visits each distinct node once, operands first and from left to right, without recursion.
template <class Visit>
void post_order(const Expr& root, const Visit& visit) {
  struct Frame {
    const Expr* node;
    bool entered;
  };
  if (root->depth == 0) return visit(root);
  NodeSet done;
  std::vector<Frame> stack = {{&root, false}};
  std::vector<const Expr*> operands;
  while (!stack.empty()) {
    Frame& top = stack.back();
    const Expr* node = top.node;
    if (top.entered || done.contains(node->get())) {
      stack.pop_back();
      if (done.insert(node->get())) visit(*node);
      continue;
    }
    top.entered = true;
    operands.clear();
    each_child(**node, [&](const Expr& child) { operands.push_back(&child); });
    for (auto child = operands.rbegin(); child != operands.rend(); ++child) {
      if (!done.contains((*child)->get())) stack.push_back({*child, false});
    }
  }
}

bool same_but_children(const Node& a, const Node& b) {
  if (a.dtype != b.dtype || a.depth != b.depth || a.kind.index() != b.kind.index()) return false;
  return match(
      a.kind, [&](const Constant& kind) { return kind.value == std::get<Constant>(b.kind).value; },
      [&](const AxisRef& kind) { return kind.axis == std::get<AxisRef>(b.kind).axis; },
      [&](const SymbolRef& kind) { return kind.symbol == std::get<SymbolRef>(b.kind).symbol; },
      [&](const AccRef& kind) {
        const auto& other = std::get<AccRef>(b.kind);
        return kind.index == other.index && kind.other == other.other;
      },
      [&](const Read& kind) {
        const auto& other = std::get<Read>(b.kind);
        return kind.source == other.source && kind.pad == other.pad && kind.check == other.check &&
               kind.index.size() == other.index.size() && !kind.pad_value == !other.pad_value;
      },
      [&](const Apply& kind) {
        const auto& other = std::get<Apply>(b.kind);
        return kind.opcode == other.opcode && kind.args.size() == other.args.size();
      });
}

/// Nodes that are taken to be equal, as a union-find forest: each pair is compared once, so comparing is linear.
class EqualNodes {
 public:
  /// Joins the classes of two nodes; false when they were one already.
  bool join(const Node* a, const Node* b) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    parent_[a] = b;
    return true;
  }

 private:
  const Node* find(const Node* node) {
    for (auto at = parent_.find(node); at != parent_.end(); at = parent_.find(node)) {
      const auto above = parent_.find(at->second);
      if (above != parent_.end()) at->second = above->second;
      node = at->second;
    }
    return node;
  }

  std::unordered_map<const Node*, const Node*> parent_;
};

std::size_t mix(std::size_t seed, std::uint64_t value) {
  // The finaliser of MurmurHash3 (Appleby, public domain constants) on the running sum.
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + value;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return static_cast<std::size_t>(x ^ (x >> 33));
}

std::size_t hash_but_children(const Node& node) {
  const std::size_t seed = mix(node.kind.index(), static_cast<std::uint64_t>(node.dtype));
  const auto with = [&](auto value) { return mix(seed, static_cast<std::uint64_t>(value)); };
  return match(
      node.kind, [&](const Constant& kind) { return with(kind.value.bits); },
      [&](const AxisRef& kind) { return with(kind.axis.index); },
      [&](const SymbolRef& kind) { return with(kind.symbol.index); },
      [&](const AccRef& kind) { return with(kind.index * 2 + (kind.other ? 1 : 0)); },
      [&](const Read& kind) {
        return mix(with(kind.source.index),
                   static_cast<std::uint64_t>(kind.pad) * 4 + static_cast<std::uint64_t>(kind.check));
      },
      [&](const Apply& kind) { return with(kind.opcode); });
}

}  // namespace

Node::~Node() {
  std::vector<Expr> pending;
  take_children(*this, pending);
  while (!pending.empty()) {
    const Expr node = std::move(pending.back());
    pending.pop_back();
    if (node.use_count() != 1) continue;
    // The last owner: what other owners did before they let go must be seen before the operands are taken out.
    std::atomic_thread_fence(std::memory_order_acquire);
    // Every node is made as a non-const object, by make_node.
    take_children(const_cast<Node&>(*node), pending);
  }
}

const OpcodeInfo& info(Opcode opcode) {
  return kOpcodes[static_cast<std::size_t>(opcode)];
}

std::span<const OpcodeInfo> all_opcodes() {
  return kOpcodes;
}

std::optional<Opcode> parse_opcode(std::string_view text) {
  for (const OpcodeInfo& row : kOpcodes) {
    if (row.text == text) return row.opcode;
  }
  return std::nullopt;
}

bool takes(Operands operands, DType dtype) {
  switch (operands) {
    case Operands::Any:
      return true;
    case Operands::Number:
      return dtype != DType::Bool;
    case Operands::Integer:
      return is_integer(dtype);
    case Operands::IntegerOrBool:
      return !is_float(dtype);
    case Operands::Float:
      return is_float(dtype);
    case Operands::Bool:
      return dtype == DType::Bool;
  }
  return false;
}

DType operand_dtype(Opcode opcode, std::size_t operand, DType last) {
  if ((opcode == Opcode::If || opcode == Opcode::Select) && operand == 0) return DType::Bool;
  return opcode == Opcode::Dot && operand < 2 && last == DType::F32 ? DType::I32 : last;
}

bool takes_last(Opcode opcode, DType last) {
  return takes(info(opcode).operands, last) || (opcode == Opcode::Dot && last == DType::F32);
}

Expr constant(Value value) {
  return make_node(Constant{value}, value.dtype);
}

Expr constant_i64(std::int64_t value) {
  return constant(Value::i64(value));
}

Expr axis(AxisId id) {
  return make_node(AxisRef{id}, DType::I64);
}

Expr symbol(SymbolId id, DType dtype) {
  return make_node(SymbolRef{id}, dtype);
}

Expr accumulator(int index, DType dtype, bool other) {
  return make_node(AccRef{index, other}, dtype);
}

Expr read(Read read, DType dtype) {
  for (const Expr& subscript : read.index) {
    CORRLOOM_CHECK(subscript != nullptr && subscript->dtype == DType::I64, "a subscript is not an i64");
  }
  CORRLOOM_CHECK((read.pad == PadMode::Value) == (read.pad_value != nullptr), "a pad value goes with PadMode::Value");
  if (read.pad_value) {
    CORRLOOM_CHECK(read.pad_value->dtype == dtype, "the pad value of a read of ", name_of(dtype), " has dtype ",
                   name_of(read.pad_value->dtype));
  }
  return make_node(std::move(read), dtype);
}

Expr apply(Opcode opcode, std::vector<Expr> args) {
  const OpcodeInfo& row = info(opcode);
  CORRLOOM_CHECK(row.result != Result::Given, row.text, " states its result: it has a builder of its own");
  check_operands(row, args);
  const DType dtype = row.result == Result::Boolean ? DType::Bool : args.back()->dtype;
  return make_node(Apply{opcode, std::move(args)}, dtype);
}

Expr cast(Expr operand, DType to) {
  CORRLOOM_CHECK(operand != nullptr, "the operand of cast is null");
  return make_node(Apply{Opcode::Cast, {std::move(operand)}}, to);
}

Expr bitcast(Expr operand, DType to) {
  CORRLOOM_CHECK(operand != nullptr, "the operand of bitcast is null");
  CORRLOOM_CHECK(bit_width(operand->dtype) == bit_width(to), "bitcast from ", name_of(operand->dtype), " to ",
                 name_of(to));
  return make_node(Apply{Opcode::Bitcast, {std::move(operand)}}, to);
}

const Value* as_constant(const Expr& expr) {
  const auto* found = std::get_if<Constant>(&expr->kind);
  return found == nullptr ? nullptr : &found->value;
}

std::optional<std::int64_t> as_i64(const Expr& expr) {
  const Value* value = as_constant(expr);
  if (value == nullptr || value->dtype != DType::I64) return std::nullopt;
  return value->as_i64();
}

const Read* as_read(const Expr& expr) {
  return std::get_if<Read>(&expr->kind);
}

const Apply* as_apply(const Expr& expr, Opcode opcode) {
  const auto* found = std::get_if<Apply>(&expr->kind);
  return found != nullptr && found->opcode == opcode ? found : nullptr;
}

bool is_constant_i64(const Expr& expr, std::int64_t value) {
  return as_i64(expr) == value;
}

bool same(const Expr& a, const Expr& b) {
  if (a == b) return true;
  // Most that differ do so here.
  if (!same_but_children(*a, *b)) return false;
  if (a->depth == 0) return true;
  EqualNodes equal;
  std::vector<std::pair<const Node*, const Node*>> pending = {{a.get(), b.get()}};
  while (!pending.empty()) {
    const auto [left, right] = pending.back();
    pending.pop_back();
    if (left == right || !equal.join(left, right)) continue;
    if (!same_but_children(*left, *right)) return false;
    const std::size_t begin = pending.size();
    each_child(*left, [&](const Expr& child) { pending.emplace_back(child.get(), nullptr); });
    std::size_t at = begin;
    each_child(*right, [&](const Expr& child) { pending[at++].second = child.get(); });
  }
  return true;
}

std::size_t hash_of(const Expr& expr) {
  std::unordered_map<const Node*, std::size_t> hashes;
  post_order(expr, [&](const Expr& node) {
    std::size_t hash = hash_but_children(*node);
    each_child(*node, [&](const Expr& child) { hash = mix(hash, hashes[child.get()]); });
    hashes[node.get()] = hash;
  });
  return hashes[expr.get()];
}

std::vector<Expr> children(const Expr& expr) {
  std::vector<Expr> result;
  each_child(*expr, [&](const Expr& child) { result.push_back(child); });
  return result;
}

void for_each_node(const Expr& expr, const std::function<void(const Expr&)>& visit) {
  post_order(expr, visit);
}

Expr rewrite(const Expr& expr, const std::function<Expr(const Expr&)>& replace) {
  if (expr->depth == 0) {
    const Expr replacement = replace(expr);
    return replacement ? replacement : expr;
  }
  std::unordered_map<const Node*, Expr> replaced;
  post_order(expr, [&](const Expr& node) {
    bool changed = false;
    std::vector<Expr> operands;
    each_child(*node, [&](const Expr& child) {
      operands.push_back(replaced[child.get()]);
      changed = changed || operands.back() != child;
    });
    const Expr rebuilt = changed ? with_children(*node, std::move(operands)) : node;
    const Expr replacement = replace(rebuilt);
    replaced[node.get()] = replacement ? replacement : rebuilt;
  });
  return replaced[expr.get()];
}

Expr substitute_axes(const Expr& expr, const std::function<Expr(AxisId)>& replacement) {
  return rewrite(expr, [&](const Expr& node) -> Expr {
    const auto* found = std::get_if<AxisRef>(&node->kind);
    return found == nullptr ? nullptr : replacement(found->axis);
  });
}

}  // namespace corrloom::scalar
