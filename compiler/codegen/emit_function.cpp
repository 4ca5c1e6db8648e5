#include "compiler/codegen/emit_function.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/codegen/body.h"
#include "compiler/codegen/buffer_bytes.h"
#include "compiler/codegen/emit_check.h"
#include "compiler/codegen/emit_memory.h"
#include "compiler/codegen/emit_primitive.h"
#include "compiler/codegen/llvm_messages.h"
#include "compiler/codegen/types.h"
#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using loop::Binding;
using loop::ValueId;

/// Whole vectors of every target are aligned inside a buffer that the kernel makes.
constexpr int kOwnAlignment = 64;

bool is_loop_of(const loop::Instr& instr, Binding binding) {
  const auto* loop = std::get_if<loop::For>(&instr.kind);
  return loop != nullptr && loop->binding == binding;
}

bool has_loop_of(const loop::Function& function, Binding binding) {
  bool found = false;
  loop::for_each_block(function.body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) found |= is_loop_of(instr, binding);
  });
  return found;
}

bool holds_loop(const loop::Block& block) {
  bool found = false;
  loop::for_each_block(block, [&](const loop::Block& inner) {
    for (const loop::Instr& instr : inner.instrs) found |= std::holds_alternative<loop::For>(instr.kind);
  });
  return found;
}

/// Some store stands outside the loops of that binding.
bool stores_outside(const loop::Block& block, Binding binding) {
  for (const loop::Instr& instr : block.instrs) {
    if (std::holds_alternative<loop::Store>(instr.kind)) return true;
    if (const auto* loop = std::get_if<loop::For>(&instr.kind)) {
      if (loop->binding != binding && stores_outside(loop->body, binding)) return true;
    }
    if (const auto* branch = std::get_if<loop::If>(&instr.kind)) {
      if (stores_outside(branch->then, binding) || stores_outside(branch->otherwise, binding)) return true;
    }
  }
  return false;
}

/// It computes nothing of floats, but copies: fewer registers for tiles would make nothing better.
bool only_moves(const loop::Function& function) {
  bool found = false;
  loop::for_each_block(function.body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      const auto* apply = std::get_if<loop::Apply>(&instr.kind);
      found |= apply != nullptr && apply->opcode != scalar::Opcode::Select &&
               is_float(function.type(instr.results.at(0)).dtype);
    }
  });
  return !found;
}

/// Whether a smaller tile would leave fewer values in a turn of the loop: it carries some, or stores some beside each
/// other.
bool holds_tile(const loop::For& loop) {
  std::ptrdiff_t most = std::ssize(loop.carried);
  loop::for_each_block(loop.body, [&](const loop::Block& block) {
    most = std::max(most, std::count_if(block.instrs.begin(), block.instrs.end(), [](const loop::Instr& instr) {
                      return std::holds_alternative<loop::Store>(instr.kind);
                    }));
  });
  return most > 1;
}

class FunctionEmitter {
 public:
  FunctionEmitter(llvm::Module& module, const KernelSource& kernel, const TargetTraits& traits, const Entry& entry)
      : module_(module),
        context_(module.getContext()),
        kernel_(kernel),
        function_(*kernel.function),
        traits_(traits),
        entry_(entry),
        builder_(&entry.function->back()),
        body_(function_),
        memory_(builder_, traits, body_, place_buffers()),
        is_alone_outside_(entry.thread != nullptr && has_loop_of(function_, Binding::Thread)),
        joins_threads_(is_alone_outside_ && stores_outside(function_.body, Binding::Thread)),
        has_tiles_(!only_moves(function_)) {}

  void run() {
    if (has_loop_of(function_, Binding::Block)) {
      CORRLOOM_CHECK(!stores_outside(function_.body, Binding::Block), function_.name, " stores beside its blocks");
      emit(function_.body);
    } else {
      Value* is_first = builder_.CreateICmpEQ(entry_.first_block, i64(0));
      if (entry_.last_block != nullptr) {
        Value* runs = builder_.CreateICmpSLT(entry_.first_block, entry_.last_block);
        is_first = builder_.CreateAnd(is_first, runs);
      }
      emit_when(is_first, [&] { emit(function_.body); });
    }
    if (memory_.has_streamed()) emit_host_fence(builder_);
    builder_.CreateRetVoid();
    drop_unused();
  }

 private:
  /// Offsets of which accesses took the parts alone.
  void drop_unused() {
    for (BasicBlock& block : llvm::reverse(*entry_.function)) {
      for (llvm::Instruction& instr : llvm::make_early_inc_range(llvm::reverse(block))) {
        if (llvm::isInstructionTriviallyDead(&instr)) instr.eraseFromParent();
      }
    }
  }

  llvm::Constant* i64(std::int64_t value) { return constant_i64(context_, value); }
  BasicBlock* new_block(const char* name) { return BasicBlock::Create(context_, name, entry_.function); }

  // ---- buffers

  std::vector<MemoryEmitter::Place> place_buffers() {
    std::vector<MemoryEmitter::Place> places;
    for (std::size_t k = 0; k < function_.buffers.size(); ++k) {
      const loop::Buffer& buffer = function_.buffers[k];
      const bool is_global = buffer.space == loop::Space::Global;
      places.push_back(is_global ? MemoryEmitter::Place{entry_.buffers[k], kernel_.alignment_bytes}
                                 : MemoryEmitter::Place{make_buffer(buffer), kOwnAlignment});
    }
    return places;
  }

  Value* make_buffer(const loop::Buffer& buffer) {
    const auto elements = static_cast<std::uint64_t>(constant_bytes(buffer) / byte_size(buffer.dtype));
    llvm::Type* type = llvm::ArrayType::get(memory_type(context_, {buffer.dtype, 1}), elements);
    if (buffer.space == loop::Space::Shared && traits_.runs_threads) {
      auto* shared =
          new llvm::GlobalVariable(module_, type, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                   llvm::PoisonValue::get(type), kernel_.entry + "_" + symbol_name(buffer.name),
                                   nullptr, llvm::GlobalValue::NotThreadLocal, traits_.shared_space);
      shared->setAlignment(llvm::Align(kOwnAlignment));
      return shared;
    }
    llvm::AllocaInst* local = builder_.CreateAlloca(type);
    local->setAlignment(llvm::Align(kOwnAlignment));
    return local;
  }

  // ---- instructions

  void emit(const loop::Block& block) {
    const bool several = std::count_if(block.instrs.begin(), block.instrs.end(), is_step) > 1;
    for (const loop::Instr& instr : block.instrs) {
      if (several && is_step(instr)) emit_register_fence();
      emit(instr);
    }
  }

  /// A loop that holds others and leaves nothing but what it stores.
  static bool is_step(const loop::Instr& instr) {
    const auto* loop = std::get_if<loop::For>(&instr.kind);
    return loop != nullptr && loop->binding == Binding::Serial && loop->carried.empty() && holds_loop(loop->body);
  }

  /// Nothing stays in a vector register here: LLVM makes constants before all loops, and keeps those of one step in
  /// registers that the tile of another one needs.
  void emit_register_fence() {
    if (traits_.vector_clobbers.empty()) return;
    llvm::FunctionType* type = llvm::FunctionType::get(builder_.getVoidTy(), false);
    builder_.CreateCall(llvm::InlineAsm::get(type, "", traits_.vector_clobbers, /*hasSideEffects=*/true));
  }

  void emit(const loop::Instr& instr) {
    match(
        instr.kind,
        [&](const loop::Constant& k) { define(instr, constant_of(context_, k.value, type_of(instr).lanes)); },
        [&](const loop::Symbol& k) { define(instr, symbol(k)); },
        [&](const loop::Apply& k) { define(instr, apply(k, type_of(instr))); },
        [&](const loop::Splat& k) { define(instr, in_lanes(body_.value(k.scalar), type_of(instr).lanes)); },
        [&](const loop::Ramp& k) {
          if (body_.needs_lanes(instr.results[0])) define(instr, ramp(k, type_of(instr).lanes));
        },
        [&](const loop::Shuffle& k) { define(instr, shuffle(k)); },
        [&](const loop::Load& k) { define(instr, memory_.load(k, type_of(instr))); },
        [&](const loop::Store& k) { store(k); },
        [&](const loop::Prefetch& k) {
          if (!traits_.runs_threads) memory_.prefetch(k);
        },
        [&](const loop::Check& k) { define(instr, check(k, type_of(instr).lanes)); },
        [&](const loop::For& k) { emit_for(instr, k); }, [&](const loop::If& k) { emit_if(instr, k); });
  }

  loop::Type type_of(const loop::Instr& instr) const { return function_.type(instr.results.at(0)); }
  void define(const loop::Instr& instr, Value* value) { body_.bind(instr.results.at(0), value); }

  Value* symbol(const loop::Symbol& symbol) {
    Value* value = entry_.symbols.at(static_cast<std::size_t>(symbol.symbol.index));
    CORRLOOM_CHECK(value != nullptr, function_.name, " uses a symbol that is not among its arguments");
    return value;
  }

  Value* in_lanes(Value* value, int lanes) {
    if (lanes == 1 || value->getType()->isVectorTy()) return value;
    return builder_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
  }

  Value* apply(const loop::Apply& apply, loop::Type result) {
    std::vector<Operand> operands;
    for (ValueId arg : apply.args) {
      const loop::Type type = function_.type(arg);
      operands.push_back({in_lanes(body_.value(arg), result.lanes), {type.dtype, result.lanes}, body_.known(arg)});
    }
    return emit_primitive(builder_, traits_, apply.opcode, operands, result);
  }

  Value* ramp(const loop::Ramp& ramp, int lanes) {
    std::vector<llvm::Constant*> steps;
    for (int lane = 0; lane < lanes; ++lane) steps.push_back(i64(ramp.stride * lane));
    if (lanes == 1) return body_.value(ramp.base);
    return builder_.CreateAdd(in_lanes(body_.value(ramp.base), lanes), llvm::ConstantVector::get(steps));
  }

  Value* shuffle(const loop::Shuffle& shuffle) {
    Value* source = body_.value(shuffle.source);
    if (!source->getType()->isVectorTy()) return in_lanes(source, static_cast<int>(shuffle.lanes.size()));
    if (shuffle.lanes.size() == 1) {
      const auto lanes = static_cast<int>(function_.type(shuffle.source).lanes);
      const int lane = shuffle.lanes[0];
      if (lane >= lanes) source = body_.value(shuffle.other);
      return builder_.CreateExtractElement(source, static_cast<std::uint64_t>(lane % lanes));
    }
    source = fenced(source);
    if (shuffle.other) return builder_.CreateShuffleVector(source, fenced(body_.value(shuffle.other)), shuffle.lanes);
    return builder_.CreateShuffleVector(source, shuffle.lanes);
  }

  /// What a chain of shuffles made, behind a fence: LLVM tries to combine each with all before it, which for a
  /// transposition, whose steps are instructions already, takes longer than all else together.
  Value* fenced(Value* value) {
    const auto is_shuffled = [](const Value* made) { return llvm::isa<llvm::ShuffleVectorInst>(made); };
    const llvm::Type* element = llvm::cast<llvm::FixedVectorType>(value->getType())->getElementType();
    if ((!element->isFloatTy() && !element->isDoubleTy()) || traits_.runs_threads || !is_shuffled(value)) return value;
    if (!is_shuffled(llvm::cast<llvm::User>(value)->getOperand(0))) return value;
    Value*& fence = fences_[value];
    const auto* kept = llvm::cast_if_present<llvm::Instruction>(fence);
    if (kept == nullptr || kept->getParent() != builder_.GetInsertBlock())
      fence = builder_.CreateArithmeticFence(value, value->getType());
    return fence;
  }

  Value* check(const loop::Check& check, int lanes) {
    CORRLOOM_CHECK(entry_.error_slot != nullptr, function_.name, " has checks, but no error slot among its arguments");
    const IndexCheck in_registers{check.site, in_lanes(body_.value(check.index), lanes),
                                  in_lanes(body_.value(check.extent), lanes),
                                  check.mask ? body_.value(check.mask) : nullptr};
    return emit_check(builder_, in_registers, entry_.error_slot);
  }

  /// Outside their loop all threads of a block run the same code, and one of them stores for all. The others must not
  /// overtake it, nor it them.
  void store(const loop::Store& store) {
    if (!is_alone_outside_) return memory_.store(store);
    emit_ptx_barrier(builder_);
    emit_when(builder_.CreateICmpEQ(entry_.thread, i64(0)), [&] { memory_.store(store); });
    emit_ptx_barrier(builder_);
  }

  // ---- control flow

  template <class Write>
  void emit_when(Value* condition, const Write& write) {
    BasicBlock* inside = new_block("then");
    BasicBlock* after = new_block("after");
    builder_.CreateCondBr(condition, inside, after);
    builder_.SetInsertPoint(inside);
    write();
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  void emit_for(const loop::Instr& instr, const loop::For& loop) {
    switch (loop.binding) {
      case Binding::Block:
        return emit_blocks(instr, loop);
      case Binding::Thread:
        if (entry_.thread != nullptr) return emit_threads(loop);
        break;
      case Binding::Serial:
        break;
    }
    emit_loop(instr, loop, i64(0), body_.value(loop.extent));
  }

  void emit_blocks(const loop::Instr& instr, const loop::For& loop) {
    Value* extent = body_.value(loop.extent);
    if (entry_.last_block != nullptr) {
      Value* last = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, entry_.last_block, extent);
      return emit_loop(instr, loop, entry_.first_block, last);
    }
    body_.bind(loop.variable, entry_.first_block);
    emit_when(builder_.CreateICmpSLT(entry_.first_block, extent), [&] { emit(loop.body); });
  }

  /// A block has as many threads as the loop has iterations.
  void emit_threads(const loop::For& loop) {
    body_.bind(loop.variable, entry_.thread);
    const bool was_alone = std::exchange(is_alone_outside_, false);
    emit(loop.body);
    is_alone_outside_ = was_alone;
    if (joins_threads_) emit_ptx_barrier(builder_);
  }

  ///   before --> body (variable, carried = phi) --> body ... --> after (results = phi)
  ///      \______________________________________________________/   left out when there is an iteration for sure
  void emit_loop(const loop::Instr& instr, const loop::For& loop, Value* begin, Value* end) {
    Value* runs = builder_.CreateICmpSLT(begin, end);
    BasicBlock* before = builder_.GetInsertBlock();
    BasicBlock* inside = new_block(has_tiles_ && !holds_loop(loop.body) && holds_tile(loop) ? kInnermostLoop : "loop");
    BasicBlock* after = new_block("done");
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(runs);
    const bool runs_once = known != nullptr && known->isOne();
    if (runs_once) {
      builder_.CreateBr(inside);
    } else {
      builder_.CreateCondBr(runs, inside, after);
    }

    builder_.SetInsertPoint(inside);
    llvm::PHINode* variable = builder_.CreatePHI(builder_.getInt64Ty(), 2, function_.value(loop.variable).name);
    variable->addIncoming(begin, before);
    body_.bind(loop.variable, variable);
    std::vector<llvm::PHINode*> carried;
    for (std::size_t k = 0; k < loop.carried.size(); ++k) {
      Value* init = body_.value(loop.inits.at(k));
      carried.push_back(builder_.CreatePHI(init->getType(), 2));
      carried.back()->addIncoming(init, before);
      body_.bind(loop.carried[k], carried.back());
    }
    emit(loop.body);

    BasicBlock* latch = builder_.GetInsertBlock();
    Value* next = builder_.CreateAdd(variable, i64(1), "", /*HasNUW=*/true, /*HasNSW=*/true);
    variable->addIncoming(next, latch);
    for (std::size_t k = 0; k < carried.size(); ++k) {
      carried[k]->addIncoming(body_.value(loop.body.yields.at(k)), latch);
    }
    llvm::BranchInst* back = builder_.CreateCondBr(builder_.CreateICmpSLT(next, end), inside, after);
    back->setMetadata(llvm::LLVMContext::MD_loop, never_unrolled());

    builder_.SetInsertPoint(after);
    for (std::size_t k = 0; k < carried.size(); ++k) {
      llvm::PHINode* result = builder_.CreatePHI(carried[k]->getType(), 2);
      result->addIncoming(body_.value(loop.body.yields[k]), latch);
      if (!runs_once) result->addIncoming(body_.value(loop.inits[k]), before);
      body_.bind(instr.results.at(k), result);
    }
  }

  /// Unrolling shares reads across iterations and spills the accumulators; the schedule has unrolled what pays.
  llvm::MDNode* never_unrolled() {
    llvm::MDNode* unroll = llvm::MDNode::get(context_, llvm::MDString::get(context_, "llvm.loop.unroll.disable"));
    llvm::MDNode* properties = llvm::MDNode::getDistinct(context_, {nullptr, unroll});
    properties->replaceOperandWith(0, properties);
    return properties;
  }

  void emit_if(const loop::Instr& instr, const loop::If& branch) {
    BasicBlock* then = new_block("then");
    BasicBlock* otherwise = new_block("else");
    BasicBlock* after = new_block("endif");
    builder_.CreateCondBr(body_.value(branch.condition), then, otherwise);
    BasicBlock* then_end = emit_side(branch.then, then, after);
    BasicBlock* otherwise_end = emit_side(branch.otherwise, otherwise, after);
    builder_.SetInsertPoint(after);
    for (std::size_t k = 0; k < instr.results.size(); ++k) {
      Value* taken = body_.value(branch.then.yields.at(k));
      llvm::PHINode* result = builder_.CreatePHI(taken->getType(), 2);
      result->addIncoming(taken, then_end);
      result->addIncoming(body_.value(branch.otherwise.yields.at(k)), otherwise_end);
      body_.bind(instr.results[k], result);
    }
  }

  /// The block that the side ends in.
  BasicBlock* emit_side(const loop::Block& side, BasicBlock* start, BasicBlock* after) {
    builder_.SetInsertPoint(start);
    emit(side);
    BasicBlock* end = builder_.GetInsertBlock();
    builder_.CreateBr(after);
    return end;
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const KernelSource& kernel_;
  const loop::Function& function_;
  const TargetTraits& traits_;
  const Entry& entry_;
  llvm::IRBuilder<> builder_;
  Body body_;
  MemoryEmitter memory_;
  bool is_alone_outside_;  ///< here every thread runs the same, and one may store
  bool joins_threads_;     ///< what threads wrote is read, or written again, behind their loop
  bool has_tiles_;         ///< whose spills count
  std::map<Value*, Value*> fences_;
};

}  // namespace

void emit_function(llvm::Module& module, const KernelSource& kernel, const TargetTraits& traits, const Entry& entry) {
  FunctionEmitter(module, kernel, traits, entry).run();
}

}  // namespace corrloom::codegen
