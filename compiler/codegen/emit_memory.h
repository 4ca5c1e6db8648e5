#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compiler/codegen/body.h"
#include "compiler/codegen/target_description.h"

namespace llvm {
class IRBuilderBase;
class Type;
class Value;
}  // namespace llvm

namespace corrloom::codegen {

/// Writes loads and stores. An access is the cheapest that its offset allows: one element, one element for all lanes, a
/// run of neighbours, or lanes each for themselves.
class MemoryEmitter {
 public:
  /// A buffer's pointer and what its address is a multiple of.
  struct Place {
    llvm::Value* pointer = nullptr;
    int alignment_bytes = 1;
  };

  MemoryEmitter(llvm::IRBuilderBase& builder, const TargetTraits& traits, const Body& body, std::vector<Place> places)
      : builder_(builder), traits_(traits), body_(body), places_(std::move(places)), bases_(places_.size()) {}

  /// The loaded register value of that type.
  llvm::Value* load(const loop::Load& load, loop::Type type);
  void store(const loop::Store& store);
  void prefetch(const loop::Prefetch& prefetch);
  /// Some store went past the caches.
  bool has_streamed() const { return has_streamed_; }

 private:
  /// How the lanes of one access find their elements.
  struct Access {
    loop::BufferId buffer;
    loop::ValueId offset;
    loop::Type type;
    llvm::Value* mask = nullptr;  ///< null: all lanes
    bool streaming = false;
  };

  Access access(loop::BufferId buffer, const std::vector<loop::ValueId>& index, loop::ValueId mask, loop::Type type);
  bool is_contiguous(const Access& access) const;
  llvm::Value* pointer(loop::BufferId buffer, loop::ValueId offset);
  llvm::Value* lane_pointer(const Access& access, int lane);
  llvm::Value* lane_pointers(const Access& access);
  static bool is_narrow(const Access& access);
  std::pair<llvm::Value*, llvm::Value*> lane_place(const Access& access, int lane, llvm::Value*& spare);
  llvm::Value* base_pointer(const Access& access);
  unsigned alignment(const Access& access) const;
  llvm::Type* element_type(const Access& access) const;
  llvm::Type* lanes_type(const Access& access) const;

  llvm::Value* load_element(const Access& access, llvm::Value* pointer, llvm::Value* mask);
  void store_element(const Access& access, llvm::Value* pointer, llvm::Value* value, llvm::Value* mask);
  llvm::Value* load_lanes(const Access& access);
  llvm::Value* load_each(const Access& access);
  void store_lanes(const Access& access, llvm::Value* value);
  void store_run(const Access& access, llvm::Value* value);
  void begin_streams(llvm::Value* aligned);
  bool joins_streams(llvm::Value* aligned);
  bool may_stream(const Access& access) const;
  llvm::Value* is_aligned(const Access& access, int bytes);
  void store_each(const Access& access, llvm::Value* value);
  llvm::Value* in_lanes(llvm::Value* value, int lanes);

  llvm::IRBuilderBase& builder_;
  const TargetTraits& traits_;
  const Body& body_;
  std::vector<Place> places_;  ///< by BufferId
  /// The address that the last access of a buffer added its displacement to, and the block that it stands in.
  struct Base {
    loop::ValueId offset;
    llvm::BasicBlock* block = nullptr;
    llvm::Value* pointer = nullptr;
  };
  std::vector<Base> bases_;  ///< by BufferId
  /// What lanes use that a mask leaves out: to load from, which stays 0, and to store to.
  llvm::Value *spare_zero_ = nullptr, *spare_place_ = nullptr;
  bool has_streamed_ = false;
  /// The last question whether stores may go past the caches: what is asked, and the blocks before, of both answers and
  /// behind.
  struct Streams {
    llvm::Value* aligned = nullptr;
    llvm::BasicBlock *head = nullptr, *past = nullptr, *plain = nullptr, *after = nullptr;
  };
  Streams streams_;
  /// Whether a buffer's address is a multiple of so many bytes: computed once, at the entry.
  std::map<std::pair<loop::BufferId, int>, llvm::Value*> aligned_;
};

}  // namespace corrloom::codegen
