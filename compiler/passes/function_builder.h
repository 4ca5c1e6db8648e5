#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/value_ranges.h"
#include "ir/loop/function.h"

namespace corrloom::passes {

/// Builds a loop function. Pure instructions are folded, shared, and placed in the outermost block where their operands
/// are known, so that what the lowering asks for again in an inner loop or at another point of a register tile is
/// computed once.
///
/// Scalars mix with vectors: `apply` splats them. Index arithmetic on ramps stays a ramp: ramp(b, s) + x = ramp(b + x,
/// s).
class FunctionBuilder {
 public:
  FunctionBuilder(std::string name, loop::Stage stage, std::vector<tensor::Symbol> symbols);

  loop::BufferId add_buffer(loop::Buffer buffer);
  const loop::Buffer& buffer(loop::BufferId id) const { return function_.buffer(id); }
  loop::Type type(loop::ValueId id) const { return function_.type(id); }

  /// The value by value: it may be one of those kept here, which move when another is made.
  loop::ValueId constant(scalar::Value value, int lanes = 1);
  loop::ValueId index(std::int64_t value) { return constant(scalar::Value::i64(value)); }
  loop::ValueId symbol(scalar::SymbolId id, DType dtype);
  /// `to` is for casts and bitcasts.
  loop::ValueId apply(scalar::Opcode opcode, std::vector<loop::ValueId> args, std::optional<DType> to = std::nullopt);
  /// `value` in `lanes` lanes; itself when it has them already.
  loop::ValueId splat(loop::ValueId value, int lanes);
  loop::ValueId ramp(loop::ValueId base, std::int64_t stride, int lanes);
  /// Lanes of the source, or of the source and `other` one behind the other.
  loop::ValueId shuffle(loop::ValueId source, std::vector<int> lanes, loop::ValueId other = {});
  /// The lanes follow from the widest index or mask. Loads from a buffer that the function does not write are pure, but
  /// stay inside conditions and inside loops that may not run.
  loop::ValueId load(loop::BufferId buffer, std::vector<loop::ValueId> index, loop::ValueId mask = {});
  /// True in the lanes where `mask` holds and the index is one of 0 .. extent-1; others than masked ones are reported
  /// as failures of the site. Moves outwards like a load.
  loop::ValueId check(int site, loop::ValueId index, loop::ValueId extent, loop::ValueId mask = {});
  /// What the buffer holds stays as it is until the end of the block at hand, or the next call for it: loads from it
  /// are pure there.
  void freeze(loop::BufferId buffer);
  void store(loop::BufferId buffer, std::vector<loop::ValueId> index, loop::ValueId value, loop::ValueId mask = {},
             bool streaming = false);

  void prefetch(loop::BufferId buffer, std::vector<loop::ValueId> index);

  // Index arithmetic, folded.
  loop::ValueId add(loop::ValueId a, loop::ValueId b) { return apply(scalar::Opcode::Add, {a, b}); }
  loop::ValueId mul(loop::ValueId a, std::int64_t b) { return apply(scalar::Opcode::Mul, {a, index(b)}); }
  std::optional<std::int64_t> as_index(loop::ValueId id) const;
  const scalar::Value* as_constant(loop::ValueId id) const;
  /// The lanes of a mask, where they are known.
  std::optional<std::vector<bool>> as_mask(loop::ValueId id) const;
  /// The ramp that `id` was defined as, if any.
  std::optional<loop::Ramp> as_ramp(loop::ValueId id) const { return facts(id).ramp; }
  /// An index whose lanes lie at known distances from a scalar: `i // 2`, `2*i + 1 - i % 2` and the like.
  struct Lanes {
    loop::ValueId base;
    std::vector<std::int64_t> offsets;  ///< of each lane
  };
  std::optional<Lanes> as_lanes(loop::ValueId id);
  /// `id` modulo `by` where that is the same in every run.
  std::optional<std::int64_t> phase_of(loop::ValueId id, std::int64_t by);

  using LoopBody =
      std::function<std::vector<loop::ValueId>(loop::ValueId variable, std::span<const loop::ValueId> carried)>;
  /// A loop; `body` returns what the carried values become. A serial loop of constant extent 0 is left out, one of
  /// extent 1 is its body.
  std::vector<loop::ValueId> for_loop(const std::string& name, loop::ValueId extent, loop::Binding binding,
                                      const std::vector<loop::ValueId>& inits, const LoopBody& body);
  using Branch = std::function<std::vector<loop::ValueId>()>;
  /// A condition; both branches return values of the same types. A constant condition is its branch.
  std::vector<loop::ValueId> if_else(loop::ValueId condition, const Branch& then, const Branch& otherwise);

  loop::Function finish();

 private:
  /// The structure of a pure instruction as numbers.
  using Key = std::vector<std::int64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Scope {
    loop::Block block;
    std::unordered_map<Key, loop::ValueId, KeyHash> known = {};  ///< pure instructions by structure
    bool loads_may_leave = true;                                 ///< false in branches and in loops that may not run
  };
  /// A scalar sum or product of i64, for folding through it.
  struct Arithmetic {
    scalar::Opcode opcode;
    loop::ValueId first, second;
  };
  /// What folding knows of a value.
  struct Facts {
    int depth = 0;                       ///< of the scope that defines it
    affine::Interval range = kAnything;  ///< of i64 scalars
    std::optional<scalar::Value> constant = {};
    std::optional<loop::Ramp> ramp = {};
    std::optional<Arithmetic> arithmetic = {};
    loop::ValueId splat_of = {};  ///< the scalar that the vector repeats
  };

  loop::ValueId new_value(loop::Type type, int depth, std::string name = {});
  /// The value of a pure instruction with those operands: one that is there, or that of the instruction that `make`
  /// makes.
  template <class Make>
  loop::ValueId emit_pure(Key key, loop::Type type, std::span<const loop::ValueId> operands, const Make& make,
                          int lowest = 0);
  Facts& facts(loop::ValueId id) { return facts_[static_cast<std::size_t>(id.index)]; }
  const Facts& facts(loop::ValueId id) const { return facts_[static_cast<std::size_t>(id.index)]; }
  affine::Interval range(loop::ValueId id) const { return facts(id).range; }
  std::optional<affine::Interval> lanes_range(loop::ValueId id) const;
  loop::ValueId fold_comparison(scalar::Opcode opcode, const std::vector<loop::ValueId>& args, int lanes);
  loop::ValueId fold_sum(scalar::Opcode opcode, std::vector<loop::ValueId>& args);
  loop::ValueId fold(scalar::Opcode opcode, const std::vector<loop::ValueId>& args, DType dtype, int lanes);
  loop::ValueId fold_mask(scalar::Opcode opcode, const std::vector<loop::ValueId>& args, int lanes);
  std::optional<Lanes> lanes_of(loop::ValueId id);
  std::optional<Lanes> lanes_of(const loop::Apply& apply);
  std::optional<Lanes> divided_lanes(scalar::Opcode opcode, const Lanes& of, std::int64_t by);
  std::optional<std::vector<std::int64_t>> known_lanes(loop::ValueId id, int lanes);
  std::optional<std::vector<bool>> evaluate_mask(scalar::Opcode opcode, const std::vector<loop::ValueId>& args,
                                                 int lanes);
  loop::ValueId fold_ramp(scalar::Opcode opcode, const std::vector<loop::ValueId>& args, int lanes);
  loop::ValueId narrow_ramp(loop::ValueId id, DType dtype, int lanes);
  std::int64_t divisor_of(loop::ValueId id, int depth) const;
  loop::ValueId exact_quotient(loop::ValueId id, std::int64_t by);
  std::pair<loop::ValueId, loop::ValueId> split_multiple(loop::ValueId id, std::int64_t by);
  loop::ValueId fold_division(scalar::Opcode opcode, const std::vector<loop::ValueId>& args, int lanes);
  loop::ValueId multiply_out(scalar::Opcode opcode, const std::vector<loop::ValueId>& args, int lanes);
  const Arithmetic* sum_of(loop::ValueId id) const;
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  /// The outermost scope that a load may move to from here.
  int outermost_for_loads() const;
  loop::Block run_scope(bool loads_may_leave, const std::function<std::vector<loop::ValueId>()>& body);

  loop::Function function_;
  std::vector<Scope> scopes_;
  std::vector<Facts> facts_;  ///< by ValueId
  /// Written buffers that stay as they are: the scope they do so in, and how often that was said.
  struct Frozen {
    int depth = 0;
    std::int64_t version = 0;
  };
  std::map<loop::BufferId, Frozen> frozen_;
  std::int64_t versions_ = 0;
  std::unordered_map<std::int32_t, std::vector<bool>> masks_;     ///< with lanes that are known, but not the same
  std::unordered_map<std::int32_t, loop::Apply> vectors_;         ///< i64 arithmetic on vectors
  std::unordered_map<std::int32_t, std::optional<Lanes>> lanes_;  ///< of those, as asked for
};

}  // namespace corrloom::passes
