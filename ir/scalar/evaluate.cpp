#include "ir/scalar/evaluate.h"

#include <unordered_map>

#include "ir/base/match.h"
#include "ir/scalar/expand.h"

namespace corrloom::scalar {
namespace {

Expr expand_functions(const Expr& expr) {
  return rewrite(expr, [](const Expr& node) -> Expr {
    const auto* apply = std::get_if<Apply>(&node->kind);
    const bool is_function = apply != nullptr && info(apply->opcode).kind == OpcodeKind::Function;
    return is_function ? expand_function(apply->opcode, apply->args) : nullptr;
  });
}

/// What evaluating a node needs the values of: a read's subscripts or an operation's operands.
const std::vector<Expr>* operands_of(const Node& node) {
  if (const auto* apply = std::get_if<Apply>(&node.kind)) return &apply->args;
  if (const auto* read = std::get_if<Read>(&node.kind)) return &read->index;
  return nullptr;
}

bool is_lazy(const Node& node) {
  const auto* apply = std::get_if<Apply>(&node.kind);
  if (apply == nullptr) return false;
  return apply->opcode == Opcode::If || apply->opcode == Opcode::LazyAnd || apply->opcode == Opcode::LazyOr;
}

}  // namespace

Evaluator::Evaluator(const Expr& expr) : expr_(expand_functions(expr)) {
  std::vector<const Node*> nodes;
  for_each_node(expr_, [&](const Expr& node) { nodes.push_back(node.get()); });

  // Pad values belong to the environment: what only they need gets no step.
  std::unordered_map<const Node*, std::uint32_t> slots = {{expr_.get(), 0}};
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const std::vector<Expr>* operands = operands_of(**node);
    if (operands == nullptr || slots.count(*node) == 0) continue;
    for (const Expr& operand : *operands) slots.emplace(operand.get(), 0);
  }
  for (const Node* node : nodes) {
    const auto slot = slots.find(node);
    if (slot == slots.end()) continue;
    slot->second = static_cast<std::uint32_t>(steps_.size());
    const auto first = static_cast<std::uint32_t>(operands_.size());
    if (const std::vector<Expr>* operands = operands_of(*node)) {
      for (const Expr& operand : *operands) operands_.push_back(slots.at(operand.get()));
    }
    steps_.push_back({node, first, static_cast<std::uint32_t>(operands_.size()) - first});
    is_lazy_ = is_lazy_ || is_lazy(*node);
  }
  values_.resize(steps_.size());
  computed_in_.resize(steps_.size());
}

Value Evaluator::operator()(const Environment& environment) {
  return is_lazy_ ? run_on_demand(environment) : run_in_order(environment);
}

Value Evaluator::run_in_order(const Environment& environment) {
  for (std::size_t slot = 0; slot < steps_.size(); ++slot) values_[slot] = compute(steps_[slot], environment);
  return values_.back();
}

Value Evaluator::run_on_demand(const Environment& environment) {
  ++call_;
  // What an environment that threw left behind.
  pending_.clear();
  pending_.push_back(static_cast<std::uint32_t>(steps_.size() - 1));
  while (!pending_.empty()) {
    const std::uint32_t slot = pending_.back();
    const Step& step = steps_[slot];
    if (const std::optional<std::uint32_t> needed = next_needed(step)) {
      pending_.push_back(*needed);
      continue;
    }
    values_[slot] = compute(step, environment);
    computed_in_[slot] = call_;
    pending_.pop_back();
  }
  return values_.back();
}

/// The next operand without which the step cannot be computed, or nothing when it can be.
std::optional<std::uint32_t> Evaluator::next_needed(const Step& step) const {
  const std::uint32_t* operands = operands_.data() + step.first_operand;
  if (!is_lazy(*step.node)) {
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      if (!is_ready(operands[i])) return operands[i];
    }
    return std::nullopt;
  }
  if (!is_ready(operands[0])) return operands[0];
  const bool condition = values_[operands[0]].as_bool();
  const Opcode opcode = std::get<Apply>(step.node->kind).opcode;
  const bool is_decided = (opcode == Opcode::LazyAnd && !condition) || (opcode == Opcode::LazyOr && condition);
  if (is_decided) return std::nullopt;
  const std::uint32_t taken = operands[opcode == Opcode::If && !condition ? 2 : 1];
  return is_ready(taken) ? std::nullopt : std::optional(taken);
}

Value Evaluator::compute(const Step& step, const Environment& environment) {
  const std::uint32_t* operands = operands_.data() + step.first_operand;
  return match(
      step.node->kind, [&](const Constant& kind) { return kind.value; },
      [&](const AxisRef& kind) { return environment.axis(kind.axis); },
      [&](const SymbolRef& kind) { return environment.symbol(kind.symbol); },
      [&](const AccRef& kind) { return environment.accumulator(kind.index, kind.other); },
      [&](const Read& kind) {
        subscripts_.clear();
        for (std::uint32_t i = 0; i < step.operand_count; ++i) subscripts_.push_back(values_[operands[i]].as_i64());
        return environment.read(kind, subscripts_);
      },
      [&](const Apply& kind) {
        arguments_.clear();
        // An operand that a lazy operation left alone has some older value, which its result does not depend on.
        for (std::uint32_t i = 0; i < step.operand_count; ++i) arguments_.push_back(values_[operands[i]]);
        return evaluate(kind.opcode, arguments_, step.node->dtype);
      });
}

Value evaluate(const Expr& expr, const Environment& environment) {
  return Evaluator(expr)(environment);
}

}  // namespace corrloom::scalar
