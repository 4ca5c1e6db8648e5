#include "ir/loop/verify.h"

#include <algorithm>
#include <string>

#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "ir/scalar/expand.h"
#include "ir/scalar/operand_dtypes.h"

namespace corrloom::loop {
namespace {

std::string text_of(Type type) {
  return std::string(name_of(type.dtype)) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

constexpr Type kIndex{DType::I64, 1};

/// Walks a function with the values in scope.
class Verifier {
 public:
  explicit Verifier(const Function& function)
      : function_(function), defined_(function.values.size(), false), in_scope_(function.values.size(), false) {}

  std::vector<Violation> run() {
    for (const Buffer& buffer : function_.buffers) check_buffer(buffer);
    check(function_.body, Context{});
    return std::move(violations_);
  }

 private:
  /// The loops around a block that matter for the rules of the launch.
  struct Context {
    bool in_block = false, in_thread = false, in_other = false;
  };

  void violate(const char* rule, const std::string& where, const std::string& message) {
    violations_.push_back({rule, where, message});
  }

  static std::string name_of_kind(const Instr& instr) {
    return match(
        instr.kind, [](const Constant&) { return std::string("const"); },
        [](const Symbol&) { return std::string("symbol"); },
        [](const Apply& k) { return std::string(scalar::info(k.opcode).text); },
        [](const Splat&) { return std::string("splat"); }, [](const Ramp&) { return std::string("ramp"); },
        [](const Shuffle&) { return std::string("shuffle"); }, [](const Load&) { return std::string("load"); },
        [](const Store&) { return std::string("store"); }, [](const Prefetch&) { return std::string("prefetch"); },
        [](const Check&) { return std::string("check"); }, [](const For&) { return std::string("for"); },
        [](const If&) { return std::string("if"); });
  }

  /// L1: an id names a value of the function that is defined before, in this block or one around it.
  bool usable(ValueId id, const std::string& where) {
    const bool exists = id.index >= 0 && id.index < static_cast<std::int32_t>(function_.values.size());
    if (exists && in_scope_[static_cast<std::size_t>(id.index)]) return true;
    violate("L1", where,
            exists ? "uses value " + std::to_string(id.index) + " where it is not defined"
                   : "uses a value that does not exist");
    return false;
  }

  /// L2: each value is defined once.
  void define(ValueId id, const std::string& where) {
    const bool exists = id.index >= 0 && id.index < static_cast<std::int32_t>(function_.values.size());
    if (!exists || defined_[static_cast<std::size_t>(id.index)]) {
      return violate("L2", where,
                     exists ? "defines value " + std::to_string(id.index) + " a second time"
                            : "defines a value that does not exist");
    }
    defined_[static_cast<std::size_t>(id.index)] = in_scope_[static_cast<std::size_t>(id.index)] = true;
  }

  /// L3: a type is the one wanted.
  void want(ValueId id, Type wanted, const std::string& where, const std::string& what) {
    if (!usable(id, where)) return;
    const Type found = function_.type(id);
    if (found != wanted) violate("L3", where, what + " is " + text_of(found) + ", wanted " + text_of(wanted));
  }

  void check_buffer(const Buffer& buffer) {
    for (const Expr& extent : buffer.extents) {
      bool fine = extent != nullptr && extent->dtype == DType::I64;
      if (fine) {
        scalar::for_each_node(extent, [&](const Expr& node) {
          if (std::holds_alternative<scalar::AxisRef>(node->kind) || std::holds_alternative<scalar::Read>(node->kind) ||
              std::holds_alternative<scalar::AccRef>(node->kind)) {
            fine = false;
          }
        });
      }
      if (!fine) violate("L11", "%" + buffer.name, "has an extent that is no i64 over symbols");
    }
  }

  void check(const Block& block, Context context) {
    std::vector<ValueId> here;
    for (const Instr& instr : block.instrs) {
      const std::string where = name_of_kind(instr);
      for (ValueId id : operands(instr)) usable(id, where);
      check_kind(instr, where, context);
      for (ValueId id : instr.results) {
        define(id, where);
        here.push_back(id);
      }
    }
    for (ValueId id : block.yields) usable(id, "yield");
    for (ValueId id : here) leave(id);
  }

  void leave(ValueId id) {
    if (id.index >= 0 && id.index < static_cast<std::int32_t>(in_scope_.size()))
      in_scope_[static_cast<std::size_t>(id.index)] = false;
  }

  bool has_results(const Instr& instr, std::size_t count, const std::string& where) {
    if (instr.results.size() == count) return true;
    violate("L4", where, "has " + std::to_string(instr.results.size()) + " results, wanted " + std::to_string(count));
    return false;
  }

  Type result(const Instr& instr) const {
    const ValueId id = instr.results[0];
    const bool exists = id.index >= 0 && id.index < static_cast<std::int32_t>(function_.values.size());
    return exists ? function_.type(id) : Type{};
  }

  void check_kind(const Instr& instr, const std::string& where, Context context) {
    match(
        instr.kind,
        [&](const Constant& k) {
          if (has_results(instr, 1, where) && result(instr).dtype != k.value.dtype)
            violate("L3", where,
                    "gives " + text_of(result(instr)) + " for a value of " + std::string(name_of(k.value.dtype)));
        },
        [&](const Symbol& k) {
          const bool known =
              k.symbol.index >= 0 && k.symbol.index < static_cast<std::int32_t>(function_.symbols.size());
          if (!known) return violate("L5", where, "names a symbol that the function does not have");
          const Type wanted{function_.symbols[static_cast<std::size_t>(k.symbol.index)].dtype, 1};
          if (has_results(instr, 1, where) && result(instr) != wanted)
            violate("L3", where, "gives " + text_of(result(instr)) + ", wanted " + text_of(wanted));
        },
        [&](const Apply& k) {
          if (has_results(instr, 1, where)) check_apply(k, result(instr), where);
        },
        [&](const Splat& k) {
          if (has_results(instr, 1, where)) want(k.scalar, {result(instr).dtype, 1}, where, "the scalar");
        },
        [&](const Ramp& k) {
          if (!has_results(instr, 1, where)) return;
          if (result(instr).dtype != DType::I64)
            violate("L3", where, "gives " + text_of(result(instr)) + ", wanted a vector of i64");
          want(k.base, kIndex, where, "the base");
        },
        [&](const Shuffle& k) {
          if (has_results(instr, 1, where)) check_shuffle(k, result(instr), where);
        },
        [&](const Load& k) {
          if (!has_results(instr, 1, where)) return;
          check_access(k.buffer, k.index, k.mask, result(instr), where);
        },
        [&](const Store& k) {
          has_results(instr, 0, where);
          if (usable(k.value, where)) check_access(k.buffer, k.index, k.mask, function_.type(k.value), where);
          if (has_buffer(k.buffer) && !function_.buffer(k.buffer).written)
            violate("L8", where, "writes %" + function_.buffer(k.buffer).name + ", which is not an output");
        },
        [&](const Prefetch& k) {
          has_results(instr, 0, where);
          if (has_buffer(k.buffer)) check_access(k.buffer, k.index, {}, {function_.buffer(k.buffer).dtype, 1}, where);
        },
        [&](const Check& k) {
          if (has_results(instr, 1, where)) check_index(k, result(instr), where);
        },
        [&](const For& k) { check_loop(instr, k, where, context); },
        [&](const If& k) {
          want(k.condition, {DType::Bool, 1}, where, "the condition");
          for (const Block* side : {&k.then, &k.otherwise}) {
            check(*side, context);
            check_yields(instr, *side, where);
          }
        });
  }

  /// L6: an operation takes the dtypes of its row, all in the same lanes.
  void check_apply(const Apply& apply, Type result, const std::string& where) {
    const scalar::OpcodeInfo& row = scalar::info(apply.opcode);
    const bool is_lowered =
        row.kind == scalar::OpcodeKind::Primitive || scalar::is_approximable(apply.opcode, result.dtype);
    if (!is_lowered || apply.opcode == Opcode::If || apply.opcode == Opcode::LazyAnd ||
        apply.opcode == Opcode::LazyOr) {
      return violate("L6", where, "is not an operation of Loop IR");
    }
    if (static_cast<int>(apply.args.size()) != row.arity) {
      return violate("L6", where,
                     "has " + std::to_string(apply.args.size()) + " operands, wanted " + std::to_string(row.arity));
    }
    for (std::size_t k = 0; k < apply.args.size(); ++k) {
      if (!usable(apply.args[k], where)) return;
      const Type type = function_.type(apply.args[k]);
      const DType last = function_.type(apply.args.back()).dtype;
      const DType wanted = scalar::operand_dtype(apply.opcode, k, last);
      const bool special = wanted != last;
      const bool fits = special ? type.dtype == wanted : scalar::takes_last(apply.opcode, type.dtype);
      if (!fits) violate("L6", where, "does not take " + text_of(type));
      if (type.lanes != result.lanes)
        violate("L6", where, "mixes " + std::to_string(type.lanes) + " lanes with " + std::to_string(result.lanes));
      const bool same = special || row.result != scalar::Result::Same || type.dtype == result.dtype;
      if (!same) violate("L6", where, "gives " + text_of(result) + " for operands of " + text_of(type));
      if (!special && type.dtype != last) violate("L6", where, "has operands of several dtypes");
    }
    if (row.result == scalar::Result::Boolean && result.dtype != DType::Bool)
      violate("L6", where, "gives " + text_of(result) + ", wanted bool");
    if (apply.opcode == Opcode::Bitcast && bit_width(result.dtype) != bit_width(function_.type(apply.args[0]).dtype))
      violate("L6", where, "changes the width of an element");
  }

  void check_shuffle(const Shuffle& shuffle, Type result, const std::string& where) {
    if (!usable(shuffle.source, where)) return;
    const Type source = function_.type(shuffle.source);
    if (source.dtype != result.dtype || result.lanes != static_cast<int>(shuffle.lanes.size()))
      violate(
          "L7", where,
          "gives " + text_of(result) + " for " + std::to_string(shuffle.lanes.size()) + " lanes of " + text_of(source));
    if (shuffle.other) want(shuffle.other, source, where, "the second source");
    const int available = shuffle.other ? 2 * source.lanes : source.lanes;
    for (int lane : shuffle.lanes) {
      if (lane < 0 || lane >= available)
        violate("L7", where, "takes lane " + std::to_string(lane) + " of " + text_of(source));
    }
  }

  bool has_buffer(BufferId id) const {
    return id.index >= 0 && id.index < static_cast<std::int32_t>(function_.buffers.size());
  }

  /// L8: an access names a buffer, its dtype, and as many indices as the stage wants, each a scalar or in the access's
  /// lanes.
  void check_access(BufferId id, const std::vector<ValueId>& index, ValueId mask, Type element,
                    const std::string& where) {
    if (!has_buffer(id)) return violate("L8", where, "names a buffer that does not exist");
    const Buffer& buffer = function_.buffer(id);
    if (buffer.dtype != element.dtype)
      violate("L8", where,
              "moves " + text_of(element) + " between values and %" + buffer.name + ", which holds " +
                  std::string(name_of(buffer.dtype)));
    const std::size_t wanted = function_.stage == Stage::Flat ? 1 : buffer.extents.size();
    if (index.size() != wanted)
      violate("L8", where,
              "has " + std::to_string(index.size()) + " indices for %" + buffer.name + ", wanted " +
                  std::to_string(wanted));
    for (ValueId at : index) {
      if (!usable(at, where)) continue;
      const Type type = function_.type(at);
      if (type.dtype != DType::I64 || (type.lanes != 1 && type.lanes != element.lanes))
        violate("L8", where, "has an index of " + text_of(type) + " for " + text_of(element));
    }
    if (mask) want(mask, {DType::Bool, element.lanes}, where, "the mask");
  }

  /// L12: a check tests i64 indices against a scalar extent, gives a bool a lane, and its site fits the error slot.
  void check_index(const Check& check, Type result, const std::string& where) {
    constexpr int kSites = 65535;
    if (check.site < 0 || check.site >= kSites)
      violate("L12", where, "has site " + std::to_string(check.site) + ", wanted one of 0..65535");
    if (result.dtype != DType::Bool) violate("L12", where, "gives " + text_of(result) + ", wanted bool");
    if (usable(check.index, where)) {
      const Type index = function_.type(check.index);
      if (index.dtype != DType::I64 || (index.lanes != 1 && index.lanes != result.lanes))
        violate("L12", where, "tests an index of " + text_of(index) + " for " + text_of(result));
    }
    if (usable(check.extent, where) && function_.type(check.extent) != kIndex)
      violate("L12", where, "has an extent of " + text_of(function_.type(check.extent)) + ", wanted i64");
    if (check.mask) want(check.mask, result, where, "the mask");
  }

  /// L9: carried values keep their types; only serial loops carry. L10: one block loop, and in it one thread loop.
  void check_loop(const Instr& instr, const For& loop, const std::string& where, Context context) {
    want(loop.extent, kIndex, where, "the extent");
    if (loop.carried.size() != loop.inits.size())
      violate("L9", where,
              "carries " + std::to_string(loop.carried.size()) + " values from " + std::to_string(loop.inits.size()) +
                  " initial ones");
    if (loop.binding != Binding::Serial && !loop.carried.empty())
      violate("L9", where, "carries values from block to block or thread to thread");
    for (std::size_t k = 0; k < std::min(loop.carried.size(), loop.inits.size()); ++k) {
      if (usable(loop.inits[k], where) && function_.type(loop.inits[k]) != type_or_default(loop.carried[k]))
        violate("L9", where, "carries a value as another type than its initial one");
    }
    if (loop.binding == Binding::Block) {
      if (context.in_block || context.in_thread || context.in_other || std::exchange(seen_block_, true))
        violate("L10", where, "is a second block loop, or one inside another loop");
      context.in_block = true;
    } else if (loop.binding == Binding::Thread) {
      if (context.in_thread || context.in_other || std::exchange(seen_thread_, true))
        violate("L10", where, "is a second thread loop, or one inside another loop");
      context.in_thread = true;
    } else {
      context.in_other = true;
    }
    define(loop.variable, where);
    if (type_or_default(loop.variable) != kIndex) violate("L3", where, "has a variable that is no i64");
    for (ValueId id : loop.carried) define(id, where);
    check(loop.body, context);
    leave(loop.variable);
    for (ValueId id : loop.carried) leave(id);
    check_yields(instr, loop.body, where);
    if (instr.results.size() != loop.carried.size())
      violate("L9", where,
              "has " + std::to_string(instr.results.size()) + " results for " + std::to_string(loop.carried.size()) +
                  " carried values");
  }

  Type type_or_default(ValueId id) const {
    const bool exists = id.index >= 0 && id.index < static_cast<std::int32_t>(function_.values.size());
    return exists ? function_.type(id) : Type{};
  }

  void check_yields(const Instr& instr, const Block& block, const std::string& where) {
    if (block.yields.size() != instr.results.size())
      return violate("L9", where,
                     "yields " + std::to_string(block.yields.size()) + " values for " +
                         std::to_string(instr.results.size()) + " results");
    for (std::size_t k = 0; k < block.yields.size(); ++k) {
      if (type_or_default(block.yields[k]) != type_or_default(instr.results[k]))
        violate("L9", where,
                "yields " + text_of(type_or_default(block.yields[k])) + " for a result of " +
                    text_of(type_or_default(instr.results[k])));
    }
  }

  const Function& function_;
  std::vector<bool> defined_, in_scope_;
  bool seen_block_ = false, seen_thread_ = false;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> verify(const Function& function) {
  return Verifier(function).run();
}

}  // namespace corrloom::loop
