#include "ir/loop/interpret.h"

#include <deque>

#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::loop {
namespace {

using tensor::Array;

/// Runs a function on arrays. A value is its lanes.
class Interpreter {
 public:
  Interpreter(const Function& function, std::vector<Array>& buffers, const std::vector<Value>& symbols)
      : function_(function), symbols_(symbols), values_(function.values.size()) {
    std::size_t next = 0;
    for (const Buffer& buffer : function.buffers) {
      if (buffer.space != Space::Global) {
        own_.push_back(own_array(buffer));
        arrays_.push_back(&own_.back());
        written_.emplace_back();
        continue;
      }
      CORRLOOM_CHECK(next < buffers.size(), "an array is missing for %", buffer.name);
      arrays_.push_back(&buffers[next++]);
      written_.emplace_back(buffer.written ? arrays_.back()->bits.size() : 0, false);
    }
  }

  std::optional<Fault> run() {
    run(function_.body);
    return fault_;
  }

 private:
  /// An array for what the function makes for itself.
  static Array own_array(const Buffer& buffer) {
    Array array;
    array.dtype = buffer.dtype;
    for (const Expr& extent : buffer.extents) {
      const std::optional<std::int64_t> size = scalar::as_i64(extent);
      CORRLOOM_CHECK(size.has_value(), "%", buffer.name, " has an extent that is not constant");
      array.extents.push_back(*size);
    }
    array.bits.assign(static_cast<std::size_t>(array.count()), 0);
    return array;
  }

  using Lanes = std::vector<Value>;

  const Lanes& at(ValueId id) const { return values_[static_cast<std::size_t>(id.index)]; }
  void set(ValueId id, Lanes lanes) { values_[static_cast<std::size_t>(id.index)] = std::move(lanes); }
  std::size_t lanes(ValueId id) const { return static_cast<std::size_t>(function_.type(id).lanes); }

  void run(const Block& block) {
    for (const Instr& instr : block.instrs) run(instr);
  }

  void run(const Instr& instr) {
    match(
        instr.kind, [&](const Constant& k) { set(instr.results[0], Lanes(lanes(instr.results[0]), k.value)); },
        [&](const Symbol& k) { set(instr.results[0], {symbols_[static_cast<std::size_t>(k.symbol.index)]}); },
        [&](const Apply& k) { apply(instr.results[0], k); },
        [&](const Splat& k) { set(instr.results[0], Lanes(lanes(instr.results[0]), at(k.scalar)[0])); },
        [&](const Ramp& k) {
          Lanes out;
          for (std::size_t lane = 0; lane < lanes(instr.results[0]); ++lane) {
            out.push_back(Value::i64(at(k.base)[0].as_i64() + static_cast<std::int64_t>(lane) * k.stride));
          }
          set(instr.results[0], std::move(out));
        },
        [&](const Shuffle& k) {
          Lanes out;
          const std::size_t first = at(k.source).size();
          for (int lane : k.lanes) {
            const auto number = static_cast<std::size_t>(lane);
            out.push_back(number < first ? at(k.source)[number] : at(k.other)[number - first]);
          }
          set(instr.results[0], std::move(out));
        },
        [&](const Load& k) { load(instr.results[0], k); }, [&](const Store& k) { store(k); }, [](const Prefetch&) {},
        [&](const Check& k) { check(instr.results[0], k); }, [&](const For& k) { loop(instr, k); },
        [&](const If& k) {
          const Block& side = at(k.condition)[0].as_bool() ? k.then : k.otherwise;
          run(side);
          for (std::size_t r = 0; r < instr.results.size(); ++r) set(instr.results[r], at(side.yields[r]));
        });
  }

  void apply(ValueId result, const Apply& apply) {
    const Type type = function_.type(result);
    Lanes out;
    for (int lane = 0; lane < type.lanes; ++lane) {
      std::vector<Value> args;
      for (ValueId id : apply.args) args.push_back(at(id)[static_cast<std::size_t>(lane)]);
      out.push_back(scalar::evaluate(apply.opcode, args, type.dtype));
    }
    set(result, std::move(out));
  }

  /// The position of an element in its array; throws when an index or the offset lies outside.
  std::size_t element(BufferId id, const std::vector<ValueId>& index, std::size_t lane) const {
    const Array& array = *arrays_[static_cast<std::size_t>(id.index)];
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < index.size(); ++k) {
      const Lanes& value = at(index[k]);
      const std::int64_t subscript = value[value.size() == 1 ? 0 : lane].as_i64();
      const std::int64_t extent = function_.stage == Stage::Flat ? array.count() : array.extents[k];
      CORRLOOM_CHECK(subscript >= 0 && subscript < extent, "access of %", function_.buffer(id).name, " at ", subscript,
                     ", which has ", extent, " there");
      offset = offset * extent + subscript;
    }
    return static_cast<std::size_t>(offset);
  }

  void load(ValueId result, const Load& load) {
    Lanes out;
    for (std::size_t lane = 0; lane < lanes(result); ++lane) {
      const bool wanted = !load.mask || at(load.mask)[lane].as_bool();
      const auto buffer = static_cast<std::size_t>(load.buffer.index);
      const Array& array = *arrays_[buffer];
      const std::size_t where = wanted ? element(load.buffer, load.index, lane) : 0;
      out.push_back(wanted ? array.at(static_cast<std::int64_t>(where)) : Value{array.dtype, 0});
      if (wanted && !written_[buffer].empty()) written_[buffer][where] = false;  // a sum that goes on
    }
    set(result, std::move(out));
  }

  void store(const Store& store) {
    const Lanes& value = at(store.value);
    for (std::size_t lane = 0; lane < value.size(); ++lane) {
      if (store.mask && !at(store.mask)[lane].as_bool()) continue;
      const std::size_t where = element(store.buffer, store.index, lane);
      std::vector<bool>& written = written_[static_cast<std::size_t>(store.buffer.index)];
      // What a function keeps for itself may be written again and again, a result only after it was read.
      if (function_.buffer(store.buffer).space == Space::Global) {
        CORRLOOM_CHECK(!written[where], "element ", where, " of %", function_.buffer(store.buffer).name,
                       " is written twice");
        written[where] = true;
      }
      arrays_[static_cast<std::size_t>(store.buffer.index)]->bits[where] = value[lane].bits;
    }
  }

  void check(ValueId result, const Check& check) {
    const Lanes& index = at(check.index);
    const std::int64_t extent = at(check.extent)[0].as_i64();
    Lanes out;
    for (std::size_t lane = 0; lane < lanes(result); ++lane) {
      const std::int64_t tested = index[index.size() == 1 ? 0 : lane].as_i64();
      const bool wanted = !check.mask || at(check.mask)[lane].as_bool();
      const bool inside = tested >= 0 && tested < extent;
      const Fault fault{check.site, tested};
      if (wanted && !inside && (!fault_ || fault < *fault_)) fault_ = fault;
      out.push_back(Value::boolean(wanted && inside));
    }
    set(result, std::move(out));
  }

  void loop(const Instr& instr, const For& loop) {
    const std::int64_t extent = at(loop.extent)[0].as_i64();
    std::vector<Lanes> carried;
    for (ValueId id : loop.inits) carried.push_back(at(id));
    for (std::int64_t number = 0; number < extent; ++number) {
      set(loop.variable, {Value::i64(number)});
      for (std::size_t k = 0; k < carried.size(); ++k) set(loop.carried[k], carried[k]);
      run(loop.body);
      for (std::size_t k = 0; k < carried.size(); ++k) carried[k] = at(loop.body.yields[k]);
    }
    for (std::size_t k = 0; k < carried.size(); ++k) set(instr.results[k], std::move(carried[k]));
  }

  const Function& function_;
  const std::vector<Value>& symbols_;
  std::vector<Lanes> values_;
  std::deque<Array> own_;
  std::vector<Array*> arrays_;
  std::vector<std::vector<bool>> written_;
  std::optional<Fault> fault_;
};

}  // namespace

std::optional<Fault> interpret(const Function& function, std::vector<Array>& buffers,
                               const std::vector<Value>& symbols) {
  return Interpreter(function, buffers, symbols).run();
}

}  // namespace corrloom::loop
