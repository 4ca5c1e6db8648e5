#include "compiler/passes/flatten_indices.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/function_builder.h"
#include "compiler/passes/tile_shuffles.h"
#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::passes {
namespace {

using loop::Block;
using loop::Instr;
using loop::ValueId;
using scalar::Expr;
using scalar::Opcode;

/// Builds the function again, instruction by instruction, with other accesses.
class Flattening {
 public:
  explicit Flattening(const loop::Function& function)
      : function_(function),
        builder_(function.name, loop::Stage::Flat, function.symbols),
        now_(function.values.size()) {}

  loop::Function flattened() {
    for (const loop::Buffer& buffer : function_.buffers) builder_.add_buffer(buffer);
    copy(function_.body);
    return builder_.finish();
  }

 private:
  ValueId now(ValueId id) const { return id ? now_[static_cast<std::size_t>(id.index)] : ValueId{}; }
  void bind(ValueId before, ValueId after) { now_[static_cast<std::size_t>(before.index)] = after; }

  std::vector<ValueId> now(const std::vector<ValueId>& ids) const {
    std::vector<ValueId> out;
    for (ValueId id : ids) out.push_back(now(id));
    return out;
  }

  /// A size of a buffer: constants and symbols.
  ValueId size(const Expr& expr) {
    return match(
        expr->kind, [&](const scalar::Constant& c) { return builder_.constant(c.value); },
        [&](const scalar::SymbolRef& ref) { return builder_.symbol(ref.symbol, expr->dtype); },
        [&](const scalar::Apply& apply) {
          std::vector<ValueId> args;
          for (const Expr& arg : apply.args) args.push_back(size(arg));
          return builder_.apply(apply.opcode, std::move(args), expr->dtype);
        },
        [](const auto&) -> ValueId {
          CORRLOOM_CHECK(false, "an extent that is no expression over symbols");
          return {};
        });
  }

  ValueId offset(loop::BufferId buffer, const std::vector<ValueId>& index) {
    const loop::Buffer& target = function_.buffer(buffer);
    // Sum of index * stride, so that each product folds into a ramp or a constant by itself.
    ValueId stride = builder_.index(1), sum = builder_.index(0);
    for (std::size_t k = index.size(); k-- > 0;) {
      sum = builder_.add(builder_.apply(Opcode::Mul, {now(index[k]), stride}), sum);
      if (k > 0) stride = builder_.apply(Opcode::Mul, {stride, size(target.extents[k])});
    }
    return sum;
  }

  /// The offset as a ramp where its lanes lie one behind the other.
  ValueId run(ValueId offset) {
    const std::optional<FunctionBuilder::Lanes> form = builder_.as_lanes(offset);
    if (!form || builder_.as_ramp(offset).has_value()) return offset;
    const std::vector<std::int64_t>& places = form->offsets;
    for (std::size_t lane = 1; lane < places.size(); ++lane) {
      if (places[lane] != places[lane - 1] + 1) return offset;
    }
    return builder_.ramp(builder_.add(form->base, builder_.index(places.front())), 1, static_cast<int>(places.size()));
  }

  void copy(const Block& block) {
    for (const Instr& instr : block.instrs) copy(instr);
  }

  void copy(const Instr& instr) {
    match(
        instr.kind, [&](const loop::Constant& k) { bind(instr.results[0], builder_.constant(k.value, lanes(instr))); },
        [&](const loop::Symbol& k) {
          bind(instr.results[0], builder_.symbol(k.symbol, function_.type(instr.results[0]).dtype));
        },
        [&](const loop::Apply& k) {
          bind(instr.results[0], builder_.apply(k.opcode, now(k.args), function_.type(instr.results[0]).dtype));
        },
        [&](const loop::Splat& k) { bind(instr.results[0], builder_.splat(now(k.scalar), lanes(instr))); },
        [&](const loop::Ramp& k) { bind(instr.results[0], builder_.ramp(now(k.base), k.stride, lanes(instr))); },
        [&](const loop::Shuffle& k) { bind(instr.results[0], builder_.shuffle(now(k.source), k.lanes, now(k.other))); },
        [&](const loop::Load& k) {
          const ValueId at = offset(k.buffer, k.index), near = load_near(builder_, k.buffer, at, now(k.mask));
          const ValueId loaded = near ? near : builder_.load(k.buffer, {at}, now(k.mask));
          bind(instr.results[0], builder_.splat(loaded, lanes(instr)));
        },
        [&](const loop::Store& k) {
          builder_.store(k.buffer, {run(offset(k.buffer, k.index))}, now(k.value), now(k.mask), k.streaming);
        },
        [&](const loop::Prefetch& k) { builder_.prefetch(k.buffer, {offset(k.buffer, k.index)}); },
        [&](const loop::Check& k) {
          const ValueId inside = builder_.check(k.site, now(k.index), now(k.extent), now(k.mask));
          bind(instr.results[0], builder_.splat(inside, lanes(instr)));
        },
        [&](const loop::For& k) { copy_loop(instr, k); }, [&](const loop::If& k) { copy_branch(instr, k); });
  }

  int lanes(const Instr& instr) const { return function_.type(instr.results[0]).lanes; }

  void bind_results(const Instr& instr, const std::vector<ValueId>& results) {
    for (std::size_t k = 0; k < results.size(); ++k) bind(instr.results[k], results[k]);
  }

  void copy_loop(const Instr& instr, const loop::For& loop) {
    const std::string& name = function_.value(loop.variable).name;
    bind_results(instr, builder_.for_loop(name, now(loop.extent), loop.binding, now(loop.inits),
                                          [&](ValueId variable, std::span<const ValueId> carried) {
                                            bind(loop.variable, variable);
                                            for (std::size_t k = 0; k < carried.size(); ++k)
                                              bind(loop.carried[k], carried[k]);
                                            copy(loop.body);
                                            return now(loop.body.yields);
                                          }));
  }

  void copy_branch(const Instr& instr, const loop::If& branch) {
    const auto side = [&](const Block& block) {
      return [&] {
        copy(block);
        return now(block.yields);
      };
    };
    bind_results(instr, builder_.if_else(now(branch.condition), side(branch.then), side(branch.otherwise)));
  }

  const loop::Function& function_;
  FunctionBuilder builder_;
  std::vector<ValueId> now_;
};

}  // namespace

loop::Function flatten_indices(loop::Function function, PassContext&) {
  return Flattening(function).flattened();
}

}  // namespace corrloom::passes
