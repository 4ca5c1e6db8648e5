#pragma once

#include <vector>

#include "ir/loop/function.h"

namespace llvm {
class Value;
}

namespace corrloom::codegen {

/// A function while its body is written: what each value and buffer became, and how values are defined.
class Body {
 public:
  explicit Body(const loop::Function& function);

  const loop::Function& function() const { return function_; }
  loop::Type type(loop::ValueId id) const { return function_.type(id); }

  llvm::Value* value(loop::ValueId id) const;
  void bind(loop::ValueId id, llvm::Value* value);

  /// The ramp that defines `id`, if any.
  const loop::Ramp* as_ramp(loop::ValueId id) const;
  /// The constant that every lane of `id` is, if so.
  const scalar::Value* known(loop::ValueId id) const;
  /// The scalar that `id` repeats in its lanes, or itself when it is one; nothing for other vectors.
  loop::ValueId uniform_scalar(loop::ValueId id) const;
  /// `id` is `base` + `displacement`; the base names nothing when `id` is a constant.
  struct Offset {
    loop::ValueId base;
    std::int64_t displacement = 0;
  };
  Offset split_offset(loop::ValueId id) const;
  /// log2 of a power of two that divides the scalar in every run.
  int known_zero_bits(loop::ValueId id) const { return known_zero_bits(id, 0); }
  /// Some instruction uses the lanes of `id`, and not only as the address of a contiguous access.
  bool needs_lanes(loop::ValueId id) const { return needs_lanes_[static_cast<std::size_t>(id.index)]; }

 private:
  template <class Kind>
  const Kind* defined_as(loop::ValueId id) const;
  void index_block(const loop::Block& block);
  int known_zero_bits(loop::ValueId id, int depth) const;

  const loop::Function& function_;
  std::vector<const loop::Instr*> definitions_;
  std::vector<bool> needs_lanes_;
  std::vector<llvm::Value*> values_;
};

}  // namespace corrloom::codegen
