#include "compiler/codegen/emit_memory.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/codegen/types.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {

using llvm::Value;
using loop::BufferId;
using loop::ValueId;

namespace {

/// The lane that a constant mask takes, if it takes one alone.
std::optional<unsigned> only_lane(const Value* mask) {
  const auto* lanes = llvm::dyn_cast_or_null<llvm::Constant>(mask);
  const auto* type = lanes == nullptr ? nullptr : llvm::dyn_cast<llvm::FixedVectorType>(lanes->getType());
  if (type == nullptr) return std::nullopt;
  std::optional<unsigned> found;
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    const auto* taken = llvm::dyn_cast_or_null<llvm::ConstantInt>(lanes->getAggregateElement(lane));
    if (taken == nullptr || (taken->isOne() && found)) return std::nullopt;
    if (taken->isOne()) found = lane;
  }
  return found;
}

}  // namespace

Value* MemoryEmitter::load(const loop::Load& load, loop::Type type) {
  const Access found = access(load.buffer, load.index, load.mask, type);
  const ValueId scalar = body_.uniform_scalar(found.offset);
  const bool is_one_element = type.lanes == 1 || (scalar && found.mask == nullptr);
  Value* loaded = is_one_element ? load_element(found, pointer(load.buffer, scalar), found.mask) : load_lanes(found);
  return in_lanes(from_memory(builder_, loaded, type.dtype), type.lanes);
}

void MemoryEmitter::store(const loop::Store& store) {
  const int lanes = std::max({body_.type(store.index.at(0)).lanes, body_.type(store.value).lanes,
                              store.mask ? body_.type(store.mask).lanes : 1});
  const DType dtype = body_.function().buffer(store.buffer).dtype;
  Access found = access(store.buffer, store.index, store.mask, {dtype, lanes});
  found.streaming = store.streaming;
  Value* value = in_lanes(to_memory(builder_, body_.value(store.value), dtype), lanes);
  if (lanes == 1) {
    store_element(found, pointer(store.buffer, found.offset), value, found.mask);
  } else {
    store_lanes(found, value);
  }
}

/// Into the second-level cache: the first holds what is being worked on.
void MemoryEmitter::prefetch(const loop::Prefetch& prefetch) {
  constexpr std::uint32_t kRead = 0, kSecondLevel = 2, kData = 1;
  Value* address = pointer(prefetch.buffer, prefetch.index.at(0));
  builder_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {address->getType()},
      {address, builder_.getInt32(kRead), builder_.getInt32(kSecondLevel), builder_.getInt32(kData)});
}

MemoryEmitter::Access MemoryEmitter::access(BufferId buffer, const std::vector<ValueId>& index, ValueId mask,
                                            loop::Type type) {
  CORRLOOM_CHECK(index.size() == 1, body_.function().name, " has an access with ", index.size(), " indices, not 1");
  CORRLOOM_CHECK(body_.function().buffer(buffer).dtype == type.dtype, body_.function().name, " accesses ",
                 body_.function().buffer(buffer).name, " as ", name_of(type.dtype));
  const scalar::Value* known = mask ? body_.known(mask) : nullptr;
  const bool is_masked = mask && !(known != nullptr && known->as_bool());
  return {buffer, index[0], type, is_masked ? in_lanes(body_.value(mask), type.lanes) : nullptr, false};
}

bool MemoryEmitter::is_contiguous(const Access& access) const {
  const loop::Ramp* ramp = body_.as_ramp(access.offset);
  return ramp != nullptr && ramp->stride == 1;
}

/// The constant part of an offset is a step of its own, which addressing modes take as a displacement.
Value* MemoryEmitter::pointer(BufferId buffer, ValueId offset) {
  llvm::Type* element = memory_type(builder_.getContext(), {body_.function().buffer(buffer).dtype, 1});
  const Body::Offset split = body_.split_offset(offset);
  Value* found = places_.at(static_cast<std::size_t>(buffer.index)).pointer;
  if (split.base) {
    // Neighbours differ in the displacement alone.
    Base& last = bases_[static_cast<std::size_t>(buffer.index)];
    if (last.offset != split.base || last.block != builder_.GetInsertBlock()) {
      last = {split.base, builder_.GetInsertBlock(), builder_.CreateGEP(element, found, body_.value(split.base))};
    }
    found = last.pointer;
  }
  if (split.displacement == 0) return found;
  return builder_.CreateGEP(element, found, constant_i64(builder_.getContext(), split.displacement));
}

/// The element of lane 0 of a ramp.
Value* MemoryEmitter::base_pointer(const Access& access) {
  return pointer(access.buffer, body_.as_ramp(access.offset)->base);
}

Value* MemoryEmitter::lane_pointer(const Access& access, int lane) {
  if (const ValueId scalar = body_.uniform_scalar(access.offset)) return pointer(access.buffer, scalar);
  if (const loop::Ramp* ramp = body_.as_ramp(access.offset)) {
    Value* step = constant_i64(builder_.getContext(), ramp->stride * lane);
    return builder_.CreateGEP(element_type(access), base_pointer(access), step);
  }
  Value* offset = builder_.CreateExtractElement(body_.value(access.offset), static_cast<std::uint64_t>(lane));
  Value* base = places_.at(static_cast<std::size_t>(access.buffer.index)).pointer;
  return builder_.CreateGEP(element_type(access), base, offset);
}

Value* MemoryEmitter::lane_pointers(const Access& access) {
  Value* base = places_.at(static_cast<std::size_t>(access.buffer.index)).pointer;
  return builder_.CreateGEP(element_type(access), base, in_lanes(body_.value(access.offset), access.type.lanes));
}

/// No processor gathers or scatters elements of fewer bytes. LLVM would make two branches for each lane, and goes
/// through all of the function again for each of them.
bool MemoryEmitter::is_narrow(const Access& access) {
  constexpr int kGatheredBytes = 4;
  return byte_size(access.type.dtype) < kGatheredBytes;
}

/// Where a lane's element is, and the condition on which it may be touched. On the host there is none: a lane that is
/// not taken uses the spare place instead.
std::pair<Value*, Value*> MemoryEmitter::lane_place(const Access& access, int lane, Value*& spare) {
  Value* pointer = lane_pointer(access, lane);
  if (access.mask == nullptr) return {pointer, nullptr};
  Value* mask = builder_.CreateExtractElement(access.mask, static_cast<std::uint64_t>(lane));
  if (!traits_.has_vector_memory) return {pointer, mask};
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(mask);
  if (known != nullptr && known->isOne()) return {pointer, nullptr};
  if (spare == nullptr) {
    llvm::BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> first(&entry, entry.getFirstInsertionPt());
    spare = first.CreateAlloca(first.getInt64Ty());
    first.CreateStore(first.getInt64(0), spare);
  }
  return {known != nullptr ? spare : builder_.CreateSelect(mask, pointer, spare), nullptr};
}

/// What the address of the first element is a multiple of.
unsigned MemoryEmitter::alignment(const Access& access) const {
  const int element_bytes = byte_size(access.type.dtype);
  const int zero_bits = std::min(body_.known_zero_bits(body_.as_ramp(access.offset)->base), 6);
  const int buffer_bytes = places_.at(static_cast<std::size_t>(access.buffer.index)).alignment_bytes;
  return static_cast<unsigned>(std::max(element_bytes, std::min(buffer_bytes, element_bytes << zero_bits)));
}

llvm::Type* MemoryEmitter::element_type(const Access& access) const {
  return memory_type(builder_.getContext(), {access.type.dtype, 1});
}
llvm::Type* MemoryEmitter::lanes_type(const Access& access) const {
  return memory_type(builder_.getContext(), access.type);
}

Value* MemoryEmitter::in_lanes(Value* value, int lanes) {
  if (lanes == 1 || value->getType()->isVectorTy()) return value;
  return builder_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

/// Where the mask is false nothing is touched: a branch around the access.
Value* MemoryEmitter::load_element(const Access& access, Value* pointer, Value* mask) {
  const llvm::Align align(static_cast<std::uint64_t>(byte_size(access.type.dtype)));
  llvm::Type* type = element_type(access);
  if (mask == nullptr) return builder_.CreateAlignedLoad(type, pointer, align);
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(builder_.getContext(), "load", before->getParent());
  auto* after = llvm::BasicBlock::Create(builder_.getContext(), "loaded", before->getParent());
  builder_.CreateCondBr(mask, inside, after);
  builder_.SetInsertPoint(inside);
  Value* loaded = builder_.CreateAlignedLoad(type, pointer, align);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  llvm::PHINode* result = builder_.CreatePHI(type, 2);
  result->addIncoming(llvm::Constant::getNullValue(type), before);
  result->addIncoming(loaded, inside);
  return result;
}

void MemoryEmitter::store_element(const Access& access, Value* pointer, Value* value, Value* mask) {
  const llvm::Align align(static_cast<std::uint64_t>(byte_size(access.type.dtype)));
  if (mask == nullptr) {
    builder_.CreateAlignedStore(value, pointer, align);
    return;
  }
  llvm::Function* function = builder_.GetInsertBlock()->getParent();
  auto* inside = llvm::BasicBlock::Create(builder_.getContext(), "store", function);
  auto* after = llvm::BasicBlock::Create(builder_.getContext(), "stored", function);
  builder_.CreateCondBr(mask, inside, after);
  builder_.SetInsertPoint(inside);
  builder_.CreateAlignedStore(value, pointer, align);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

Value* MemoryEmitter::load_lanes(const Access& access) {
  const bool is_run = is_contiguous(access);
  llvm::Type* type = lanes_type(access);
  if (is_run && access.mask == nullptr) {
    return builder_.CreateAlignedLoad(type, base_pointer(access), llvm::Align(alignment(access)));
  }
  if (!traits_.has_vector_memory) return load_each(access);
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (is_run) {
    return builder_.CreateMaskedLoad(type, base_pointer(access), llvm::Align(alignment(access)), access.mask, zero);
  }
  if (is_narrow(access)) return load_each(access);
  const llvm::Align align(static_cast<std::uint64_t>(byte_size(access.type.dtype)));
  return builder_.CreateMaskedGather(type, lane_pointers(access), align, access.mask, zero);
}

Value* MemoryEmitter::load_each(const Access& access) {
  // Joined only behind the last branch, so that no vector crosses one half undefined.
  std::vector<Value*> elements;
  for (int lane = 0; lane < access.type.lanes; ++lane) {
    const auto [pointer, mask] = lane_place(access, lane, spare_zero_);
    elements.push_back(load_element(access, pointer, mask));
  }
  Value* loaded = llvm::PoisonValue::get(lanes_type(access));
  for (std::size_t lane = 0; lane < elements.size(); ++lane) {
    loaded = builder_.CreateInsertElement(loaded, elements[lane], lane);
  }
  return loaded;
}

void MemoryEmitter::store_lanes(const Access& access, Value* value) {
  const bool is_run = is_contiguous(access);
  if (is_run && access.mask == nullptr) {
    store_run(access, value);
  } else if (!traits_.has_vector_memory) {
    store_each(access, value);
  } else if (const std::optional<unsigned> lane = is_run ? only_lane(access.mask) : std::nullopt) {
    // LLVM 22 makes a store of the whole lane of what was cut to such an element, over its neighbour.
    Value* place = builder_.CreateConstGEP1_64(value->getType()->getScalarType(), base_pointer(access), *lane);
    const llvm::Align align(static_cast<std::uint64_t>(byte_size(access.type.dtype)));
    builder_.CreateAlignedStore(builder_.CreateExtractElement(value, std::uint64_t{*lane}), place, align);
  } else if (is_run) {
    builder_.CreateMaskedStore(value, base_pointer(access), llvm::Align(alignment(access)), access.mask);
  } else if (is_narrow(access)) {
    store_each(access, value);
  } else {
    const llvm::Align align(static_cast<std::uint64_t>(byte_size(access.type.dtype)));
    builder_.CreateMaskedScatter(value, lane_pointers(access), align, access.mask);
  }
}

/// Whole vectors of a size that a streaming store has.
bool MemoryEmitter::may_stream(const Access& access) const {
  const int bytes = access.type.lanes * byte_size(access.type.dtype);
  return access.streaming && traits_.has_streaming && std::has_single_bit(static_cast<unsigned>(bytes)) &&
         bytes >= 16 && bytes <= 64;
}

/// Whether the address of the access is a multiple of so many bytes. Where the offset is one, that is a question about
/// the buffer, with one answer for all of the kernel.
Value* MemoryEmitter::is_aligned(const Access& access, int bytes) {
  const int zero_bits = std::min(body_.known_zero_bits(body_.as_ramp(access.offset)->base), 6);
  const bool follows_buffer = byte_size(access.type.dtype) << zero_bits >= bytes;
  llvm::Type* word = builder_.getInt64Ty();
  const auto test = [&](llvm::IRBuilderBase& builder, Value* address) {
    Value* low_bits = builder.CreateAnd(builder.CreatePtrToInt(address, word), static_cast<std::uint64_t>(bytes - 1));
    return builder.CreateICmpEQ(low_bits, builder.getInt64(0));
  };
  if (!follows_buffer) return test(builder_, base_pointer(access));
  Value*& known = aligned_[{access.buffer, bytes}];
  if (known == nullptr) {
    llvm::BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> first(&entry, entry.getFirstInsertionPt());
    known = test(first, places_.at(static_cast<std::size_t>(access.buffer.index)).pointer);
  }
  return known;
}

/// Neighbours, all of them. Streaming stores need an address that is aligned; the others are the rule's exception.
void MemoryEmitter::store_run(const Access& access, Value* value) {
  Value* pointer = base_pointer(access);
  if (!may_stream(access)) {
    builder_.CreateAlignedStore(value, pointer, llvm::Align(alignment(access)));
    return;
  }
  has_streamed_ = true;
  const int bytes = access.type.lanes * byte_size(access.type.dtype);
  Value* aligned = is_aligned(access, bytes);
  if (!joins_streams(aligned)) begin_streams(aligned);
  llvm::IRBuilder<> past(streams_.past->getTerminator()), plain(streams_.plain->getTerminator());
  llvm::StoreInst* store = past.CreateAlignedStore(value, pointer, llvm::Align(static_cast<std::uint64_t>(bytes)));
  llvm::Metadata* one = llvm::ConstantAsMetadata::get(builder_.getInt32(1));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(builder_.getContext(), one));
  plain.CreateAlignedStore(value, pointer, llvm::Align(alignment(access)));
}

/// Two ways to store: past the caches when `aligned`, and through them.
void MemoryEmitter::begin_streams(Value* aligned) {
  llvm::LLVMContext& context = builder_.getContext();
  llvm::BasicBlock* head = builder_.GetInsertBlock();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, head->getParent()); };
  streams_ = {aligned, head, block("stream"), block("store"), block("stored")};
  builder_.CreateCondBr(aligned, streams_.past, streams_.plain, llvm::MDBuilder(context).createLikelyBranchWeights());
  for (llvm::BasicBlock* way : {streams_.past, streams_.plain}) llvm::IRBuilder<>(way).CreateBr(streams_.after);
  builder_.SetInsertPoint(streams_.after);
}

/// Whether the stores before have just asked the same and nothing has touched memory since. What was computed since
/// then moves in front of the question: one for all stores of a tile leaves their values in one block, where the
/// instructions of one can fill the gaps of another's.
bool MemoryEmitter::joins_streams(Value* aligned) {
  llvm::BasicBlock* here = builder_.GetInsertBlock();
  if (here != streams_.after || aligned != streams_.aligned) return false;
  for (const llvm::Instruction& since : *here) {
    if (since.mayReadOrWriteMemory() || llvm::isa<llvm::PHINode>(since)) return false;
  }
  streams_.head->splice(streams_.head->getTerminator()->getIterator(), here);
  builder_.SetInsertPoint(here);
  return true;
}

void MemoryEmitter::store_each(const Access& access, Value* value) {
  for (int lane = 0; lane < access.type.lanes; ++lane) {
    Value* element = builder_.CreateExtractElement(value, static_cast<std::uint64_t>(lane));
    const auto [pointer, mask] = lane_place(access, lane, spare_place_);
    store_element(access, pointer, element, mask);
  }
}

}  // namespace corrloom::codegen
