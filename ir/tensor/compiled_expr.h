#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/tensor/interpret.h"

namespace corrloom::tensor {

/// What the leaves of the expressions of one op stand for while it is interpreted.
struct ExprScope {
  std::unordered_map<AxisId, std::size_t> axis_positions;  ///< where an axis has its value in `ExprFrame::axes`
  std::span<const scalar::Value> symbols;
  std::vector<const Array*> tensors;  ///< by TensorId; null for those that are not read
  /// Called when a read without a pad leaves its tensor in that dimension, or any pad but a value meets a dimension of
  /// extent 0. Throws, or lets the read give 0.
  std::function<void(const scalar::Read&, std::span<const std::int64_t> index, std::size_t dimension)> out_of_range;
};

/// The values that change from one evaluation to the next.
struct ExprFrame {
  std::vector<std::int64_t> axes;
  std::span<const std::uint64_t> accumulators;
  std::span<const std::uint64_t> others;  ///< the right-hand side of a merge
};

/// An expression flattened into steps over an array of bits. Means what `scalar::evaluate` does, bit for bit:
/// everything but a few operations on i64 and f32 (whose meaning is that of C++, NaNs apart) calls it. The scope must
/// outlive it.
///
/// Steps form blocks. What stands under `if`, `land`, `lor` or is a pad value is a block of its own, which runs only
/// when it is needed and at most once an evaluation; a block computes all that it uses, so blocks do not rely on what
/// others happened to compute.
class CompiledExpr {
 public:
  CompiledExpr(const Expr& expr, const ExprScope& scope);

  /// The bits of the value.
  std::uint64_t run(const ExprFrame& frame);
  std::int64_t run_i64(const ExprFrame& frame) { return static_cast<std::int64_t>(run(frame)); }

 private:
  enum class StepKind : std::uint8_t {
    Evaluate,
    Read,
    If,
    LazyAnd,
    LazyOr,
    Select,
    AddI64,
    SubI64,
    MulI64,
    LtI64,
    LeI64,
    GtI64,
    GeI64,
    EqI64,
    NeI64,
    AddF32,
    SubF32,
    MulF32,
    FmaF32,
  };
  struct Step {
    StepKind kind;
    scalar::Opcode opcode;
    DType dtype;  ///< of the result
    std::uint32_t to;
    std::uint32_t operand_count;
    std::uint32_t operands;  ///< first of them in `operands_`
    std::uint32_t extra;     ///< Read: in `reads_`; If, LazyAnd, LazyOr: first of the blocks in `branches_`
  };
  struct ReadSite {
    const scalar::Read* read;
    const Array* source;
    std::uint32_t pad_branch;  ///< in `branches_`, for PadMode::Value
  };
  /// A block to run and the slot where its value is then. Leaves have their values from the start, and no block.
  struct Branch {
    std::int32_t block;
    std::uint32_t slot;
  };
  struct Block {
    std::vector<Step> steps;
    std::uint64_t run_in = 0;  ///< the evaluation that ran it last
  };

  void give_slots();
  void compile_block(std::size_t block, const scalar::Node* target);
  void add_step(Block& block, const scalar::Node& node);
  std::uint32_t add_branch(const Expr& target);
  static StepKind kind_of(const scalar::Apply& apply);
  static bool is_leaf(const scalar::Node& node);

  std::uint64_t run_branch(std::uint32_t branch);
  void run_block(std::size_t block);
  void run_step(const Step& step);
  std::uint64_t evaluate_step(const Step& step) const;
  std::uint64_t read_element(const Step& step);

  Expr expr_;  ///< keeps the nodes alive
  const ExprScope& scope_;
  std::unordered_map<const scalar::Node*, std::uint32_t> slots_;
  std::unordered_map<const scalar::Node*, std::int32_t> blocks_of_;
  std::vector<const scalar::Node*> targets_;  ///< of each block
  std::vector<Block> blocks_;
  std::vector<Branch> branches_;
  std::vector<ReadSite> reads_;
  std::vector<std::uint32_t> operands_;
  std::vector<std::pair<std::uint32_t, std::size_t>> axis_slots_;  ///< slot and position in the frame
  struct AccumulatorSlot {
    std::uint32_t slot;
    std::size_t index;
    bool other;
  };
  std::vector<AccumulatorSlot> accumulator_slots_;
  std::vector<std::uint64_t> bits_;  ///< of each slot
  std::vector<DType> dtypes_;
  std::uint32_t root_ = 0;
  std::uint64_t evaluation_ = 0;
};

}  // namespace corrloom::tensor
