#include "ir/tensor/compiled_expr.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "ir/scalar/evaluate.h"
#include "ir/scalar/expand.h"

namespace corrloom::tensor {
namespace {

using scalar::Node;
using scalar::Opcode;
using scalar::PadMode;

/// Most operands that an opcode has.
constexpr std::size_t kMaxOperands = 3;

Expr expand_functions(const Expr& expr) {
  return scalar::rewrite(expr, [](const Expr& node) -> Expr {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    const bool is_function = apply != nullptr && scalar::info(apply->opcode).kind == scalar::OpcodeKind::Function;
    return is_function ? scalar::expand_function(apply->opcode, apply->args) : nullptr;
  });
}

float as_f32(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
std::uint64_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
std::int64_t as_i64(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits);
}

std::int64_t floor_mod(std::int64_t value, std::int64_t modulus) {
  const std::int64_t rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

/// The subscript inside [0, extent) that a pad reads instead; `extent` is positive.
std::int64_t padded(PadMode mode, std::int64_t index, std::int64_t extent) {
  if (mode == PadMode::Edge) return std::clamp<std::int64_t>(index, 0, extent - 1);
  if (mode == PadMode::Wrap) return floor_mod(index, extent);
  if (extent == 1) return 0;
  // Reflection about the middle of the first and last element: 0 1 2 3 2 1 | 0 1 2 3 2 1.
  const std::int64_t period = 2 * (extent - 1);
  const std::int64_t at = floor_mod(index, period);
  return std::min(at, period - at);
}

}  // namespace

CompiledExpr::CompiledExpr(const Expr& expr, const ExprScope& scope) : expr_(expand_functions(expr)), scope_(scope) {
  give_slots();
  root_ = add_branch(expr_);
  // Compiling a block may find further ones.
  for (std::size_t block = 0; block < targets_.size(); ++block) {
    blocks_.emplace_back();
    compile_block(block, targets_[block]);
  }
}

bool CompiledExpr::is_leaf(const Node& node) {
  return !std::holds_alternative<scalar::Apply>(node.kind) && !std::holds_alternative<scalar::Read>(node.kind);
}

/// One slot a node; constants and symbols get their values for good.
void CompiledExpr::give_slots() {
  scalar::for_each_node(expr_, [&](const Expr& node) {
    const auto slot = static_cast<std::uint32_t>(bits_.size());
    slots_.emplace(node.get(), slot);
    bits_.push_back(0);
    dtypes_.push_back(node->dtype);
    match(
        node->kind, [&](const scalar::Constant& kind) { bits_[slot] = kind.value.bits; },
        [&](const scalar::AxisRef& kind) {
          const auto found = scope_.axis_positions.find(kind.axis);
          CORRLOOM_CHECK(found != scope_.axis_positions.end(), "axis ", kind.axis.index, " is not in scope");
          axis_slots_.emplace_back(slot, found->second);
        },
        [&](const scalar::SymbolRef& kind) {
          bits_[slot] = scope_.symbols[static_cast<std::size_t>(kind.symbol.index)].bits;
        },
        [&](const scalar::AccRef& kind) {
          accumulator_slots_.push_back({slot, static_cast<std::size_t>(kind.index), kind.other});
        },
        [](const scalar::Read&) {}, [](const scalar::Apply&) {});
  });
}

std::uint32_t CompiledExpr::add_branch(const Expr& target) {
  Branch branch = {-1, slots_.at(target.get())};
  if (!is_leaf(*target)) {
    const auto [found, is_new] = blocks_of_.emplace(target.get(), static_cast<std::int32_t>(targets_.size()));
    if (is_new) targets_.push_back(target.get());
    branch.block = found->second;
  }
  branches_.push_back(branch);
  return static_cast<std::uint32_t>(branches_.size()) - 1;
}

/// Orders what the target needs whenever the block runs, operands first, without recursion.
void CompiledExpr::compile_block(std::size_t block, const Node* target) {
  struct Visit {
    const Node* node;
    bool entered;
  };
  std::unordered_map<const Node*, bool> done;
  std::vector<Visit> stack = {{target, false}};
  Block compiled;
  while (!stack.empty()) {
    const Visit visit = stack.back();
    if (visit.entered || done.count(visit.node) != 0 || is_leaf(*visit.node)) {
      stack.pop_back();
      if (visit.entered && done.emplace(visit.node, true).second) add_step(compiled, *visit.node);
      continue;
    }
    stack.back().entered = true;
    const auto* apply = std::get_if<scalar::Apply>(&visit.node->kind);
    const std::vector<Expr>& needed = apply != nullptr ? apply->args : std::get<scalar::Read>(visit.node->kind).index;
    const StepKind kind = apply != nullptr ? kind_of(*apply) : StepKind::Read;
    const bool lazy = kind == StepKind::If || kind == StepKind::LazyAnd || kind == StepKind::LazyOr;
    const std::size_t count = lazy ? 1 : needed.size();
    for (std::size_t k = count; k-- > 0;) stack.push_back({needed[k].get(), false});
  }
  blocks_[block] = std::move(compiled);
}

CompiledExpr::StepKind CompiledExpr::kind_of(const scalar::Apply& apply) {
  const DType dtype = apply.args.back()->dtype;
  switch (apply.opcode) {
    case Opcode::If:
      return StepKind::If;
    case Opcode::LazyAnd:
      return StepKind::LazyAnd;
    case Opcode::LazyOr:
      return StepKind::LazyOr;
    case Opcode::Select:
      return StepKind::Select;
    case Opcode::Fma:
      return dtype == DType::F32 ? StepKind::FmaF32 : StepKind::Evaluate;
    default:
      break;
  }
  if (dtype == DType::I64) {
    switch (apply.opcode) {
      case Opcode::Add:
        return StepKind::AddI64;
      case Opcode::Sub:
        return StepKind::SubI64;
      case Opcode::Mul:
        return StepKind::MulI64;
      case Opcode::Lt:
        return StepKind::LtI64;
      case Opcode::Le:
        return StepKind::LeI64;
      case Opcode::Gt:
        return StepKind::GtI64;
      case Opcode::Ge:
        return StepKind::GeI64;
      case Opcode::Eq:
        return StepKind::EqI64;
      case Opcode::Ne:
        return StepKind::NeI64;
      default:
        break;
    }
  }
  if (dtype == DType::F32) {
    if (apply.opcode == Opcode::Add) return StepKind::AddF32;
    if (apply.opcode == Opcode::Sub) return StepKind::SubF32;
    if (apply.opcode == Opcode::Mul) return StepKind::MulF32;
  }
  return StepKind::Evaluate;
}

void CompiledExpr::add_step(Block& block, const Node& node) {
  Step step = {
      StepKind::Read, Opcode::Neg, node.dtype, slots_.at(&node), 0, static_cast<std::uint32_t>(operands_.size()), 0};
  const auto add_operands = [&](const std::vector<Expr>& operands) {
    for (const Expr& operand : operands) operands_.push_back(slots_.at(operand.get()));
    step.operand_count = static_cast<std::uint32_t>(operands.size());
  };
  if (const auto* read = std::get_if<scalar::Read>(&node.kind)) {
    add_operands(read->index);
    const std::uint32_t pad = read->pad == PadMode::Value ? add_branch(read->pad_value) : 0;
    step.extra = static_cast<std::uint32_t>(reads_.size());
    reads_.push_back({read, scope_.tensors[static_cast<std::size_t>(read->source.index)], pad});
  } else {
    const auto& apply = std::get<scalar::Apply>(node.kind);
    CORRLOOM_CHECK(apply.args.size() <= kMaxOperands, "an operation with ", apply.args.size(), " operands");
    step.kind = kind_of(apply);
    step.opcode = apply.opcode;
    add_operands(apply.args);
    step.extra = static_cast<std::uint32_t>(branches_.size());
    const bool lazy = step.kind == StepKind::If || step.kind == StepKind::LazyAnd || step.kind == StepKind::LazyOr;
    for (std::size_t k = 1; lazy && k < apply.args.size(); ++k) add_branch(apply.args[k]);
  }
  block.steps.push_back(step);
}

std::uint64_t CompiledExpr::run(const ExprFrame& frame) {
  ++evaluation_;
  for (const auto& [slot, position] : axis_slots_) bits_[slot] = static_cast<std::uint64_t>(frame.axes[position]);
  for (const AccumulatorSlot& use : accumulator_slots_)
    bits_[use.slot] = (use.other ? frame.others : frame.accumulators)[use.index];
  return run_branch(root_);
}

std::uint64_t CompiledExpr::run_branch(std::uint32_t branch) {
  const auto [block, slot] = branches_[branch];
  if (block >= 0) run_block(static_cast<std::size_t>(block));
  return bits_[slot];
}

void CompiledExpr::run_block(std::size_t at) {
  Block& block = blocks_[at];
  if (block.run_in == evaluation_) return;
  for (const Step& step : block.steps) run_step(step);
  block.run_in = evaluation_;
}

void CompiledExpr::run_step(const Step& step) {
  const std::uint32_t* operands = operands_.data() + step.operands;
  const auto operand = [&](std::size_t k) { return bits_[operands[k]]; };
  std::uint64_t& to = bits_[step.to];
  const auto keep_number = [&](float value) { to = value == value ? bits_of(value) : evaluate_step(step); };
  switch (step.kind) {
    case StepKind::Evaluate:
      to = evaluate_step(step);
      break;
    case StepKind::Read:
      to = read_element(step);
      break;
    case StepKind::If:
      to = run_branch(step.extra + (operand(0) != 0 ? 0 : 1));
      break;
    case StepKind::LazyAnd:
      to = operand(0) != 0 ? run_branch(step.extra) : 0;
      break;
    case StepKind::LazyOr:
      to = operand(0) != 0 ? 1 : run_branch(step.extra);
      break;
    case StepKind::Select:
      to = operand(0) != 0 ? operand(1) : operand(2);
      break;
    case StepKind::AddI64:
      to = operand(0) + operand(1);
      break;
    case StepKind::SubI64:
      to = operand(0) - operand(1);
      break;
    case StepKind::MulI64:
      to = operand(0) * operand(1);
      break;
    case StepKind::LtI64:
      to = as_i64(operand(0)) < as_i64(operand(1));
      break;
    case StepKind::LeI64:
      to = as_i64(operand(0)) <= as_i64(operand(1));
      break;
    case StepKind::GtI64:
      to = as_i64(operand(0)) > as_i64(operand(1));
      break;
    case StepKind::GeI64:
      to = as_i64(operand(0)) >= as_i64(operand(1));
      break;
    case StepKind::EqI64:
      to = operand(0) == operand(1);
      break;
    case StepKind::NeI64:
      to = operand(0) != operand(1);
      break;
    case StepKind::AddF32:
      keep_number(as_f32(operand(0)) + as_f32(operand(1)));
      break;
    case StepKind::SubF32:
      keep_number(as_f32(operand(0)) - as_f32(operand(1)));
      break;
    case StepKind::MulF32:
      keep_number(as_f32(operand(0)) * as_f32(operand(1)));
      break;
    case StepKind::FmaF32:
      keep_number(std::fma(as_f32(operand(0)), as_f32(operand(1)), as_f32(operand(2))));
      break;
  }
}

std::uint64_t CompiledExpr::evaluate_step(const Step& step) const {
  std::array<scalar::Value, kMaxOperands> values;
  for (std::uint32_t k = 0; k < step.operand_count; ++k) {
    const std::uint32_t slot = operands_[step.operands + k];
    values[k] = {dtypes_[slot], bits_[slot]};
  }
  return scalar::evaluate(step.opcode, std::span(values.data(), step.operand_count), step.dtype).bits;
}

std::uint64_t CompiledExpr::read_element(const Step& step) {
  const ReadSite& site = reads_[step.extra];
  const auto subscript = [&](std::size_t k) { return as_i64(bits_[operands_[step.operands + k]]); };
  std::int64_t linear = 0;
  for (std::size_t k = 0; k < step.operand_count; ++k) {
    const std::int64_t extent = site.source->extents[k];
    std::int64_t index = subscript(k);
    if (index < 0 || index >= extent) {
      if (site.read->pad == PadMode::Value) return run_branch(site.pad_branch);
      if (site.read->pad == PadMode::None || extent == 0) {
        std::vector<std::int64_t> subscripts;
        for (std::size_t d = 0; d < step.operand_count; ++d) subscripts.push_back(subscript(d));
        scope_.out_of_range(*site.read, subscripts, k);
        return 0;
      }
      index = padded(site.read->pad, index, extent);
    }
    linear = linear * extent + index;
  }
  return site.source->bits[static_cast<std::size_t>(linear)];
}

}  // namespace corrloom::tensor
