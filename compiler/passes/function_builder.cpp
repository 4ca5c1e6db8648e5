#include "compiler/passes/function_builder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "ir/base/errors.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::passes {

using loop::Block;
using loop::BufferId;
using loop::Instr;
using loop::Type;
using loop::ValueId;
using scalar::Opcode;
using scalar::Value;

namespace {

/// No loop of which nothing is known runs more often.
constexpr std::int64_t kMostTrips = std::int64_t{1} << 40;

/// First numbers of the structural keys, one for each kind of pure instruction.
enum KeyKind : std::int64_t { kConstant, kSymbol, kApply, kSplat, kRamp, kShuffle, kLoad, kCheck };

std::vector<std::int64_t> key_of(KeyKind kind, Type type, std::span<const ValueId> ids,
                                 std::initializer_list<std::int64_t> more = {}) {
  std::vector<std::int64_t> key;
  key.reserve(3 + more.size() + ids.size());
  key = {kind, static_cast<std::int64_t>(type.dtype), type.lanes};
  key.insert(key.end(), more);
  for (ValueId id : ids) key.push_back(id.index);
  return key;
}

/// -`value`, wrapped as the arithmetic of indices is.
std::int64_t negated(std::int64_t value) {
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(value));
}

bool is_pure(const Instr& instr) {
  return !std::holds_alternative<loop::Store>(instr.kind) && !std::holds_alternative<loop::Prefetch>(instr.kind) &&
         !std::holds_alternative<loop::Check>(instr.kind) && !std::holds_alternative<loop::For>(instr.kind) &&
         !std::holds_alternative<loop::If>(instr.kind);
}

/// Drops what nothing uses: folding leaves behind what it folds through. `used` says of each value whether something
/// behind the block uses it.
void drop_unused(Block& block, std::vector<bool>& used) {
  const auto at = [&](ValueId id) { return used[static_cast<std::size_t>(id.index)]; };
  const auto use = [&](ValueId id) { at(id) = true; };
  std::for_each(block.yields.begin(), block.yields.end(), use);
  auto kept = block.instrs.end();
  for (auto instr = block.instrs.end(); instr != block.instrs.begin();) {
    --instr;
    if (is_pure(*instr) && std::none_of(instr->results.begin(), instr->results.end(), at)) continue;
    if (auto* loop = std::get_if<loop::For>(&instr->kind)) drop_unused(loop->body, used);
    if (auto* branch = std::get_if<loop::If>(&instr->kind)) {
      drop_unused(branch->then, used);
      drop_unused(branch->otherwise, used);
    }
    for (ValueId id : loop::operands(*instr)) use(id);
    if (--kept != instr) *kept = std::move(*instr);
  }
  block.instrs.erase(block.instrs.begin(), kept);
}

DType result_dtype(Opcode opcode, DType last_operand, std::optional<DType> to) {
  switch (scalar::info(opcode).result) {
    case scalar::Result::Same:
      return last_operand;
    case scalar::Result::Boolean:
      return DType::Bool;
    case scalar::Result::Given:
      break;
  }
  CORRLOOM_CHECK(to.has_value(), "a cast needs a dtype");
  return *to;
}

}  // namespace

FunctionBuilder::FunctionBuilder(std::string name, loop::Stage stage, std::vector<tensor::Symbol> symbols) {
  function_.name = std::move(name);
  function_.stage = stage;
  function_.symbols = std::move(symbols);
  scopes_.emplace_back();
}

BufferId FunctionBuilder::add_buffer(loop::Buffer buffer) {
  function_.buffers.push_back(std::move(buffer));
  return BufferId{static_cast<std::int32_t>(function_.buffers.size()) - 1};
}

std::size_t FunctionBuilder::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0;
  for (std::int64_t part : key) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

ValueId FunctionBuilder::new_value(Type type, int depth, std::string name) {
  function_.values.push_back({type, std::move(name)});
  facts_.push_back({.depth = depth});
  return ValueId{static_cast<std::int32_t>(function_.values.size()) - 1};
}

template <class Make>
ValueId FunctionBuilder::emit_pure(Key key, Type type, std::span<const ValueId> operands, const Make& make,
                                   int lowest) {
  int level = lowest;
  for (ValueId id : operands) {
    if (id) level = std::max(level, facts(id).depth);
  }
  Scope& scope = scopes_[static_cast<std::size_t>(level)];
  const auto [known, is_new] = scope.known.try_emplace(std::move(key));
  if (!is_new) return known->second;
  const ValueId result = known->second = new_value(type, level);
  scope.block.instrs.push_back({{result}, make()});
  return result;
}

ValueId FunctionBuilder::constant(Value value, int lanes) {
  const Type type{value.dtype, lanes};
  const ValueId id = emit_pure(key_of(kConstant, type, {}, {static_cast<std::int64_t>(value.bits)}), type, {},
                               [&] { return loop::Constant{value}; });
  facts(id).constant = value;
  if (value.dtype == DType::I64) facts(id).range = {value.as_i64(), value.as_i64()};
  return id;
}

ValueId FunctionBuilder::symbol(scalar::SymbolId symbol, DType dtype) {
  const Type type{dtype, 1};
  return emit_pure(key_of(kSymbol, type, {}, {symbol.index}), type, {}, [&] { return loop::Symbol{symbol}; });
}

const Value* FunctionBuilder::as_constant(ValueId id) const {
  const std::optional<Value>& value = facts(id).constant;
  return value ? &*value : nullptr;
}

std::optional<std::int64_t> FunctionBuilder::as_index(ValueId id) const {
  const Value* value = as_constant(id);
  if (value == nullptr || value->dtype != DType::I64) return std::nullopt;
  return value->as_i64();
}

ValueId FunctionBuilder::splat(ValueId value, int lanes) {
  if (type(value).lanes == lanes) return value;
  CORRLOOM_CHECK(type(value).lanes == 1, "a vector of ", type(value).lanes, " lanes where ", lanes, " are wanted");
  if (const Value* known = as_constant(value)) return constant(*known, lanes);
  const Type wide{type(value).dtype, lanes};
  const ValueId ids[] = {value};
  const ValueId id = emit_pure(key_of(kSplat, wide, ids), wide, ids, [&] { return loop::Splat{value}; });
  facts(id).splat_of = value;
  return id;
}

ValueId FunctionBuilder::ramp(ValueId base, std::int64_t stride, int lanes) {
  if (lanes == 1) return base;
  if (stride == 0) return splat(base, lanes);
  const Type wide{DType::I64, lanes};
  const ValueId ids[] = {base};
  const ValueId id = emit_pure(key_of(kRamp, wide, ids, {stride}), wide, ids, [&] { return loop::Ramp{base, stride}; });
  facts(id).ramp = loop::Ramp{base, stride};
  return id;
}

ValueId FunctionBuilder::shuffle(ValueId source, std::vector<int> lanes, ValueId other) {
  const Type narrow{type(source).dtype, static_cast<int>(lanes.size())};
  const ValueId ids[] = {source, other};
  std::vector<std::int64_t> key = key_of(kShuffle, narrow, ids);
  key.insert(key.end(), lanes.begin(), lanes.end());
  return emit_pure(std::move(key), narrow, ids, [&] { return loop::Shuffle{source, std::move(lanes), other}; });
}

std::optional<std::vector<bool>> FunctionBuilder::as_mask(ValueId id) const {
  const auto lanes = static_cast<std::size_t>(type(id).lanes);
  if (const Value* known = as_constant(id)) return std::vector<bool>(lanes, known->as_bool());
  const auto found = masks_.find(id.index);
  return found == masks_.end() ? std::nullopt : std::optional(found->second);
}

/// The lanes of an index that are the same in every run.
std::optional<std::vector<std::int64_t>> FunctionBuilder::known_lanes(ValueId id, int lanes) {
  if (type(id).lanes == 1) id = splat(id, lanes);
  const std::optional<Lanes> found = as_lanes(id);
  const std::optional<std::int64_t> first = found ? as_index(found->base) : std::nullopt;
  if (!first) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const std::int64_t offset : found->offsets) out.push_back(*first + offset);
  return out;
}

std::optional<std::vector<bool>> FunctionBuilder::evaluate_mask(Opcode opcode, const std::vector<ValueId>& args,
                                                                int lanes) {
  if (lanes == 1) return std::nullopt;
  if (opcode == Opcode::Not && type(args[0]).dtype == DType::Bool) {
    std::optional<std::vector<bool>> known = as_mask(args[0]);
    if (known) known->flip();
    return known;
  }
  if (args.size() != 2) return std::nullopt;
  std::vector<bool> out;
  if (opcode == Opcode::And || opcode == Opcode::Or) {
    const std::optional<std::vector<bool>> a = as_mask(args[0]), b = as_mask(args[1]);
    if (type(args[0]).dtype != DType::Bool || !a || !b || a->size() != b->size()) return std::nullopt;
    for (std::size_t lane = 0; lane < a->size(); ++lane)
      out.push_back(opcode == Opcode::And ? (*a)[lane] && (*b)[lane] : (*a)[lane] || (*b)[lane]);
    return out;
  }
  const bool compares = opcode == Opcode::Lt || opcode == Opcode::Le || opcode == Opcode::Gt || opcode == Opcode::Ge ||
                        opcode == Opcode::Eq || opcode == Opcode::Ne;
  if (!compares || type(args[0]).dtype != DType::I64) return std::nullopt;
  const auto a = known_lanes(args[0], lanes), b = known_lanes(args[1], lanes);
  if (!a || !b) return std::nullopt;
  for (std::size_t lane = 0; lane < a->size(); ++lane) {
    const Value values[] = {Value::i64((*a)[lane]), Value::i64((*b)[lane])};
    out.push_back(scalar::evaluate(opcode, values, DType::Bool).as_bool());
  }
  return out;
}

/// A mask with lanes that are known: a constant where they are all the same.
ValueId FunctionBuilder::fold_mask(Opcode opcode, const std::vector<ValueId>& args, int lanes) {
  const std::optional<std::vector<bool>> known = evaluate_mask(opcode, args, lanes);
  if (!known || std::find(known->begin(), known->end(), !known->front()) != known->end()) return {};
  return constant(Value::boolean(known->front()), lanes);
}

std::optional<FunctionBuilder::Lanes> FunctionBuilder::as_lanes(ValueId id) {
  if (type(id).dtype != DType::I64 || type(id).lanes == 1) return std::nullopt;
  if (const auto known = lanes_.find(id.index); known != lanes_.end()) return known->second;
  std::optional<Lanes> found = lanes_of(id);
  lanes_[id.index] = found;
  return found;
}

std::optional<FunctionBuilder::Lanes> FunctionBuilder::lanes_of(ValueId id) {
  const auto lanes = static_cast<std::size_t>(type(id).lanes);
  if (const std::optional<loop::Ramp> ramp = as_ramp(id)) {
    Lanes out{ramp->base, {}};
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::int64_t offset = 0;
      if (__builtin_mul_overflow(ramp->stride, static_cast<std::int64_t>(lane), &offset)) return std::nullopt;
      out.offsets.push_back(offset);
    }
    return out;
  }
  const std::vector<std::int64_t> same(lanes, 0);
  if (const std::optional<std::int64_t> known = as_index(id)) return Lanes{index(*known), same};
  if (const ValueId scalar = facts(id).splat_of) return Lanes{scalar, same};
  const auto found = vectors_.find(id.index);
  return found == vectors_.end() ? std::nullopt : lanes_of(loop::Apply(found->second));
}

std::optional<FunctionBuilder::Lanes> FunctionBuilder::lanes_of(const loop::Apply& apply) {
  if (apply.args.size() != 2) return std::nullopt;
  const std::optional<Lanes> a = as_lanes(apply.args[0]), b = as_lanes(apply.args[1]);
  if (!a || !b) return std::nullopt;
  const bool is_sum = apply.opcode == Opcode::Add || apply.opcode == Opcode::Sub;
  const std::optional<std::int64_t> factor = is_sum ? 1 : as_index(apply.args[1]);
  if (!factor) return std::nullopt;
  if (apply.opcode == Opcode::FloorDiv || apply.opcode == Opcode::Mod) return divided_lanes(apply.opcode, *a, *factor);
  if (!is_sum && apply.opcode != Opcode::Mul) return std::nullopt;
  Lanes out{this->apply(apply.opcode, {a->base, b->base}), {}};
  for (std::size_t lane = 0; lane < a->offsets.size(); ++lane) {
    const std::int64_t x = a->offsets[lane], y = is_sum ? b->offsets[lane] : *factor;
    std::int64_t offset = 0;
    if (apply.opcode == Opcode::Add   ? __builtin_add_overflow(x, y, &offset)
        : apply.opcode == Opcode::Sub ? __builtin_sub_overflow(x, y, &offset)
                                      : __builtin_mul_overflow(x, y, &offset))
      return std::nullopt;
    out.offsets.push_back(offset);
  }
  return out;
}

/// Quotients or remainders of lanes whose base has a known place between multiples of the (positive) divisor.
std::optional<FunctionBuilder::Lanes> FunctionBuilder::divided_lanes(Opcode opcode, const Lanes& of, std::int64_t by) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  // What may have wrapped keeps its division.
  if (by < 1 || by > kFar || !is_far_from_wrapping(range(of.base))) return std::nullopt;
  const std::optional<std::int64_t> phase = phase_of(of.base, by);
  if (!phase) return std::nullopt;
  Lanes out{opcode == Opcode::Mod ? index(0) : apply(Opcode::FloorDiv, {of.base, index(by)}), {}};
  for (const std::int64_t offset : of.offsets) {
    if (offset < -kFar || offset > kFar) return std::nullopt;
    const std::int64_t rest = ((*phase + offset) % by + by) % by;
    out.offsets.push_back(opcode == Opcode::Mod ? rest : (*phase + offset - rest) / by);
  }
  return out;
}

std::optional<std::int64_t> FunctionBuilder::phase_of(ValueId id, std::int64_t by) {
  const std::optional<std::int64_t> rest = as_index(split_multiple(id, by).second);
  return rest ? std::optional((*rest % by + by) % by) : std::nullopt;
}

/// Index arithmetic in which some operand is a ramp and the result is one, or an invalid id.
ValueId FunctionBuilder::fold_ramp(Opcode opcode, const std::vector<ValueId>& args, int lanes) {
  if (lanes > 1 && opcode == Opcode::Neg) return apply(Opcode::Mul, {args[0], index(-1)});
  if (lanes == 1 || args.size() != 2) return {};
  struct Linear {
    ValueId base;
    std::int64_t stride;
  };
  const auto linear = [&](ValueId id) -> std::optional<Linear> {
    if (const std::optional<loop::Ramp> ramp = as_ramp(id)) return Linear{ramp->base, ramp->stride};
    if (type(id).lanes == 1) return Linear{id, 0};
    if (const ValueId scalar = facts(id).splat_of) return Linear{scalar, 0};
    if (const std::optional<std::int64_t> known = as_index(id)) return Linear{index(*known), 0};
    return std::nullopt;
  };
  const std::optional<Linear> a = linear(args[0]), b = linear(args[1]);
  if (!a || !b) return {};
  if (opcode == Opcode::Add) return ramp(apply(Opcode::Add, {a->base, b->base}), a->stride + b->stride, lanes);
  if (opcode == Opcode::Sub) return ramp(apply(Opcode::Sub, {a->base, b->base}), a->stride - b->stride, lanes);
  if (opcode != Opcode::Mul) return {};
  const auto scaled = [&](const Linear& by, const Linear& lane) -> ValueId {
    const std::optional<std::int64_t> factor = as_index(by.base);
    std::int64_t stride = 0;
    if (by.stride != 0 || !factor || __builtin_mul_overflow(lane.stride, *factor, &stride)) return {};
    return ramp(mul(lane.base, *factor), stride, lanes);
  };
  if (const ValueId folded = scaled(*b, *a)) return folded;
  return scaled(*a, *b);
}

/// Constants, and the identities of integers that index arithmetic leaves behind; an invalid id when nothing folds.
ValueId FunctionBuilder::fold(Opcode opcode, const std::vector<ValueId>& args, DType dtype, int lanes) {
  std::vector<Value> known;
  for (ValueId id : args) {
    if (const Value* value = as_constant(id)) known.push_back(*value);
  }
  if (known.size() == args.size()) return constant(scalar::evaluate(opcode, known, dtype), lanes);
  if (opcode == Opcode::Select) {
    if (const Value* condition = as_constant(args[0])) return splat(args[condition->as_bool() ? 1 : 2], lanes);
    if (args[1] == args[2]) return splat(args[1], lanes);
    return {};
  }
  if (opcode == Opcode::And || opcode == Opcode::Or) {
    for (int k : {0, 1}) {
      const Value* value = as_constant(args[static_cast<std::size_t>(k)]);
      if (value == nullptr || value->dtype != DType::Bool) continue;
      const bool absorbs = value->as_bool() == (opcode == Opcode::Or);
      return splat(absorbs ? args[static_cast<std::size_t>(k)] : args[static_cast<std::size_t>(1 - k)], lanes);
    }
    return {};
  }
  // A reduction begins with the least number there is, which changes nothing.
  if (is_float(dtype) && (opcode == Opcode::Max || opcode == Opcode::Min)) {
    for (int k : {0, 1}) {
      const Value* value = as_constant(args[static_cast<std::size_t>(k)]);
      const double least =
          opcode == Opcode::Max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
      if (value != nullptr && value->as_f64() == least) return splat(args[static_cast<std::size_t>(1 - k)], lanes);
    }
    return {};
  }
  if (!is_integer(dtype) || args.size() != 2) return {};
  const Value *a = as_constant(args[0]), *b = as_constant(args[1]);
  const auto is = [](const Value* value, std::int64_t wanted) {
    return value != nullptr && is_integer(value->dtype) && value->as_i64() == wanted;
  };
  if (opcode == Opcode::Add && is(a, 0)) return splat(args[1], lanes);
  if ((opcode == Opcode::Add || opcode == Opcode::Sub) && is(b, 0)) return splat(args[0], lanes);
  if (opcode == Opcode::Mul && (is(a, 0) || is(b, 0))) return constant(Value::integer(dtype, 0), lanes);
  if (opcode == Opcode::Mul && is(a, 1)) return splat(args[1], lanes);
  if ((opcode == Opcode::Mul || opcode == Opcode::FloorDiv) && is(b, 1)) return splat(args[0], lanes);
  if (opcode == Opcode::Mod && is(b, 1)) return constant(Value::integer(dtype, 0), lanes);
  if (opcode == Opcode::Sub && args[0] == args[1]) return constant(Value::integer(dtype, 0), lanes);
  return {};
}

/// Bounds of all lanes of an i64 value; nothing for vectors of which they are not known.
std::optional<affine::Interval> FunctionBuilder::lanes_range(ValueId id) const {
  const Facts& known = facts(id);
  if (type(id).lanes == 1 || known.constant) return known.range;
  if (known.splat_of) return range(known.splat_of);
  if (!known.ramp) return std::nullopt;
  const std::int64_t last = type(id).lanes - 1;
  const affine::Interval steps = {std::min<std::int64_t>(known.ramp->stride * last, 0),
                                  std::max<std::int64_t>(known.ramp->stride * last, 0)};
  return result_range(Opcode::Add, range(known.ramp->base), steps);
}

/// A comparison, minimum or maximum of i64 values that their bounds decide; an invalid id for others.
ValueId FunctionBuilder::fold_comparison(Opcode opcode, const std::vector<ValueId>& args, int lanes) {
  const bool compares = opcode >= Opcode::Eq && opcode <= Opcode::Ge;
  if (args.size() != 2 || (!compares && opcode != Opcode::Min && opcode != Opcode::Max)) return {};
  if (type(args[0]).dtype != DType::I64) return {};
  const std::optional<affine::Interval> a = lanes_range(args[0]), b = lanes_range(args[1]);
  if (!a || !b) return {};
  if (compares) {
    const std::optional<bool> known = decided(opcode, *a, *b);
    return known ? constant(Value::boolean(*known), lanes) : ValueId{};
  }
  const std::optional<bool> is_first = decided(opcode == Opcode::Min ? Opcode::Le : Opcode::Ge, *a, *b);
  return is_first ? splat(args[*is_first ? 0 : 1], lanes) : ValueId{};
}

/// A number that divides the value in every run; 0 for the constant 0.
std::int64_t FunctionBuilder::divisor_of(ValueId id, int depth) const {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  constexpr int kDeepest = 16;
  if (const std::optional<std::int64_t> known = as_index(id))
    return *known > -kFar && *known < kFar ? std::abs(*known) : 1;
  const std::optional<Arithmetic>& found = facts(id).arithmetic;
  if (!found || depth == kDeepest) return 1;
  const std::int64_t a = divisor_of(found->first, depth + 1), b = divisor_of(found->second, depth + 1);
  if (found->opcode == Opcode::Add) return std::gcd(a, b);
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kFar ? std::max(a, b) : product;
}

/// `id` / `by` where `by` divides it, in operations that do not divide; an invalid id when that does not show.
ValueId FunctionBuilder::exact_quotient(ValueId id, std::int64_t by) {
  if (const std::optional<std::int64_t> known = as_index(id)) return *known % by == 0 ? index(*known / by) : ValueId{};
  const std::optional<Arithmetic> found = facts(id).arithmetic;
  if (!found) return {};
  if (found->opcode == Opcode::Mul) {
    const std::optional<std::int64_t> factor = as_index(found->second);
    return factor && *factor % by == 0 ? mul(found->first, *factor / by) : ValueId{};
  }
  const ValueId a = exact_quotient(found->first, by), b = a ? exact_quotient(found->second, by) : ValueId{};
  return b ? add(a, b) : ValueId{};
}

/// `id` as multiple + rest where `by` divides the multiple, as far as that shows.
std::pair<ValueId, ValueId> FunctionBuilder::split_multiple(ValueId id, std::int64_t by) {
  if (divisor_of(id, 0) % by == 0) return {id, index(0)};
  const std::optional<Arithmetic> found = facts(id).arithmetic;
  if (!found || found->opcode != Opcode::Add) return {index(0), id};
  if (divisor_of(found->first, 0) % by == 0) return {found->first, found->second};
  if (divisor_of(found->second, 0) % by == 0) return {found->second, found->first};
  return {index(0), id};
}

/// Floor division and modulo of sums of which one part is a multiple of the (positive) divisor, ramps included; an
/// invalid id when nothing folds.
ValueId FunctionBuilder::fold_division(Opcode opcode, const std::vector<ValueId>& args, int lanes) {
  if (opcode != Opcode::FloorDiv && opcode != Opcode::Mod) return {};
  const std::optional<std::int64_t> divisor = as_index(args[1]);
  if (!divisor || *divisor < 2) return {};
  // What may have wrapped keeps its division.
  const std::optional<loop::Ramp> ramp_of = as_ramp(args[0]);
  if (lanes > 1 && (!ramp_of || ramp_of->stride < 0)) return {};
  const loop::Ramp lane = lanes > 1 ? *ramp_of : loop::Ramp{args[0], 0};
  if (!is_far_from_wrapping(range(lane.base))) return {};
  if (lanes > 1 && lane.stride > 0 && lane.stride % *divisor == 0) {
    // Each lane lies in a block of its own, at the same place.
    const ValueId first = apply(opcode, {lane.base, args[1]});
    return opcode == Opcode::Mod ? splat(first, lanes) : ramp(first, lane.stride / *divisor, lanes);
  }
  const auto [multiple, rest] = split_multiple(lane.base, *divisor);
  if (lanes > 1) {
    const std::optional<std::int64_t> offset = as_index(rest);
    if (!offset) return {};
    const std::int64_t first = (*offset % *divisor + *divisor) % *divisor;
    if (lane.stride >= *divisor || first + lane.stride * (lanes - 1) >= *divisor) {
      // What the lanes add is the same in every run.
      if (as_index(lane.base)) return {};
      const ValueId added = apply(opcode, {ramp(index(first), lane.stride, lanes), args[1]});
      if (opcode == Opcode::Mod) return added;
      return apply(Opcode::Add, {apply(opcode, {add(lane.base, index(-first)), args[1]}), added});
    }
    if (opcode == Opcode::Mod) return ramp(index(first), lane.stride, lanes);
    return splat(apply(opcode, {lane.base, args[1]}), lanes);
  }
  if (as_index(multiple) == std::optional<std::int64_t>(0)) return {};
  if (opcode == Opcode::Mod) return apply(opcode, {rest, args[1]});
  const ValueId quotient = exact_quotient(multiple, *divisor);
  return quotient ? add(quotient, apply(opcode, {rest, args[1]})) : ValueId{};
}

/// Quotients and remainders of lanes by a constant as products, where bounds of the lanes leave room for them:
/// processors divide integers one by one. An invalid id for others, and where lanes lie at known distances from each
/// other.
ValueId FunctionBuilder::multiply_out(Opcode opcode, const std::vector<ValueId>& args, int lanes) {
  constexpr int kBits = 30;  // of a dividend
  constexpr std::int64_t kMost = std::int64_t{1} << kBits;
  if ((opcode != Opcode::FloorDiv && opcode != Opcode::Mod) || type(args[0]).lanes == 1) return {};
  const std::optional<std::int64_t> divisor = as_index(args[1]);
  const std::optional<affine::Interval> bounds = lanes_range(args[0]);
  if (!divisor || *divisor < 2 || *divisor >= kMost || !bounds || bounds->low < 0 || bounds->high >= kMost) return {};
  const std::optional<Lanes> known = as_lanes(args[0]);
  if (known && phase_of(known->base, *divisor)) return {};
  // With 2^shift <= factor * divisor < 2^shift + divisor and divisor <= 2^(shift - kBits), the quotient by 2^shift of a
  // product is too large by less than what is missing to the next whole number.
  const int shift = kBits + std::bit_width(static_cast<std::uint64_t>(*divisor - 1));
  const std::int64_t factor = ((std::int64_t{1} << shift) + *divisor - 1) / *divisor;
  const ValueId quotient =
      apply(Opcode::Shr, {apply(Opcode::Mul, {args[0], splat(index(factor), lanes)}), splat(index(shift), lanes)});
  if (opcode == Opcode::FloorDiv) return quotient;
  return apply(Opcode::Sub, {args[0], apply(Opcode::Mul, {quotient, splat(index(*divisor), lanes)})});
}

/// Constants gather at the end of a sum, (x + 1) + 2 = x + 3, where addresses can take them as displacements; an
/// invalid id when there is nothing to gather. A constant becomes the second operand.
ValueId FunctionBuilder::fold_sum(Opcode opcode, std::vector<ValueId>& args) {
  // By value: what is made here moves the facts.
  const auto sum = [&](ValueId id) {
    const Arithmetic* found = sum_of(id);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  };
  const auto constant_of = [&](const std::optional<Arithmetic>& found) {
    return found ? as_index(found->second) : std::nullopt;
  };
  if (opcode == Opcode::Sub) {
    if (const std::optional<std::int64_t> known = as_index(args[1])) return add(args[0], index(negated(*known)));
    const std::optional<Arithmetic> a = sum(args[0]), b = sum(args[1]);
    if (const std::optional<std::int64_t> first = constant_of(a))
      return add(apply(Opcode::Sub, {a->first, args[1]}), index(*first));
    if (const std::optional<std::int64_t> second = constant_of(b))
      return add(apply(Opcode::Sub, {args[0], b->first}), index(negated(*second)));
    return {};
  }
  if (as_index(args[0])) std::swap(args[0], args[1]);
  const std::optional<Arithmetic> a = sum(args[0]), b = sum(args[1]);
  if (const std::optional<std::int64_t> first = constant_of(a)) {
    const std::optional<std::int64_t> second = as_index(args[1]);
    std::int64_t both = 0;
    if (second && !__builtin_add_overflow(*first, *second, &both)) return add(a->first, index(both));
    if (!second) return add(add(a->first, args[1]), a->second);
  }
  return constant_of(b) ? add(add(args[0], b->first), b->second) : ValueId{};
}

ValueId FunctionBuilder::apply(Opcode opcode, std::vector<ValueId> args, std::optional<DType> to) {
  if (opcode == Opcode::Fence) return args[0];
  const DType dtype = result_dtype(opcode, type(args.back()).dtype, to);
  int lanes = 1;
  for (ValueId id : args) lanes = std::max(lanes, type(id).lanes);
  if (const ValueId folded = fold(opcode, args, dtype, lanes)) return folded;
  if (dtype == DType::Bool || dtype == DType::I64) {
    if (const ValueId folded = fold_comparison(opcode, args, lanes)) return folded;
  }
  if (dtype == DType::Bool) {
    if (const ValueId folded = fold_mask(opcode, args, lanes)) return folded;
  }
  if (dtype == DType::I64) {
    if (const ValueId folded = fold_ramp(opcode, args, lanes)) return folded;
    if (const ValueId folded = fold_division(opcode, args, lanes)) return folded;
    if (const ValueId folded = multiply_out(opcode, args, lanes)) return folded;
    if (lanes == 1 && (opcode == Opcode::Add || opcode == Opcode::Sub)) {
      if (const ValueId folded = fold_sum(opcode, args)) return folded;
    }
  }
  if (opcode == Opcode::Mul && dtype == DType::I64) {
    if (as_index(args[0])) std::swap(args[0], args[1]);
    // For the same reason: (x + 1) * 3 = x * 3 + 3.
    const Arithmetic* inner = lanes == 1 ? sum_of(args[0]) : nullptr;
    const std::optional<std::int64_t> factor = as_index(args[1]);
    const std::optional<std::int64_t> first = inner != nullptr ? as_index(inner->second) : std::nullopt;
    std::int64_t part = 0;
    if (factor && first && !__builtin_mul_overflow(*factor, *first, &part)) {
      const ValueId scaled = mul(inner->first, *factor);
      return add(scaled, index(part));
    }
  }
  if (opcode == Opcode::Cast && is_integer(dtype) && dtype != DType::I64 && lanes > 1) {
    if (const ValueId folded = narrow_ramp(args[0], dtype, lanes)) return folded;
  }
  for (ValueId& id : args) id = splat(id, lanes);
  const Type result{dtype, lanes};
  const ValueId id = emit_pure(key_of(kApply, result, args, {static_cast<std::int64_t>(opcode)}), result, args, [&] {
    return loop::Apply{opcode, args};
  });
  if (dtype == DType::Bool) {
    if (std::optional<std::vector<bool>> known = evaluate_mask(opcode, args, lanes))
      masks_.insert_or_assign(id.index, *std::move(known));
  }
  if (result == Type{DType::I64, 1} && args.size() == 2) {
    facts(id).range = result_range(opcode, range(args[0]), range(args[1]));
    if (opcode == Opcode::Add || opcode == Opcode::Mul) facts(id).arithmetic = {opcode, args[0], args[1]};
  }
  if (dtype == DType::I64 && lanes > 1) vectors_.insert_or_assign(id.index, loop::Apply{opcode, args});
  return id;
}

/// A ramp in another integer: its lanes differ from the first by constants, and sums wrap alike in all widths.
ValueId FunctionBuilder::narrow_ramp(ValueId id, DType dtype, int lanes) {
  const std::optional<loop::Ramp> whole = as_ramp(id);
  if (!whole || as_index(whole->base)) return {};
  const ValueId lane = apply(Opcode::Cast, {ramp(index(0), whole->stride, lanes)}, dtype);
  return add(apply(Opcode::Cast, {whole->base}, dtype), lane);
}

/// The operands of a scalar sum.
const FunctionBuilder::Arithmetic* FunctionBuilder::sum_of(ValueId id) const {
  const std::optional<Arithmetic>& found = facts(id).arithmetic;
  return found && found->opcode == Opcode::Add ? &*found : nullptr;
}

int FunctionBuilder::outermost_for_loads() const {
  int level = depth();
  while (level > 0 && scopes_[static_cast<std::size_t>(level)].loads_may_leave) --level;
  return level;
}

ValueId FunctionBuilder::load(BufferId buffer, std::vector<ValueId> index, ValueId mask) {
  int lanes = mask ? type(mask).lanes : 1;
  for (ValueId id : index) lanes = std::max(lanes, type(id).lanes);
  if (mask) {
    mask = splat(mask, lanes);
    if (const Value* known = as_constant(mask)) {
      if (!known->as_bool()) return constant(Value{function_.buffer(buffer).dtype, 0}, lanes);
      mask = {};
      lanes = 1;
      for (ValueId id : index) lanes = std::max(lanes, type(id).lanes);
    }
  }
  const loop::Buffer& source = function_.buffer(buffer);
  const Type result{source.dtype, lanes};
  const auto frozen = frozen_.find(buffer);
  if (source.written && frozen == frozen_.end()) {
    const ValueId id = new_value(result, depth());
    scopes_.back().block.instrs.push_back({{id}, loop::Load{buffer, std::move(index), mask}});
    return id;
  }
  const Frozen since = frozen == frozen_.end() ? Frozen{} : frozen->second;
  std::vector<std::int64_t> key = key_of(kLoad, result, index, {buffer.index, mask.index, since.version});
  const int lowest = std::max(outermost_for_loads(), since.depth);
  std::vector<ValueId> operands = index;
  operands.push_back(mask);
  return emit_pure(
      std::move(key), result, operands,
      [&] {
        return loop::Load{buffer, std::move(index), mask};
      },
      lowest);
}

void FunctionBuilder::freeze(BufferId buffer) {
  frozen_[buffer] = {depth(), ++versions_};
}

ValueId FunctionBuilder::check(int site, ValueId index, ValueId extent, ValueId mask) {
  const int lanes = std::max(type(index).lanes, mask ? type(mask).lanes : 1);
  const Value* wanted = mask ? as_constant(mask) : nullptr;
  if (wanted != nullptr && !wanted->as_bool()) return splat(mask, lanes);
  if (wanted != nullptr) mask = {};
  const Value* known = as_constant(index);
  const std::optional<std::int64_t> limit = as_index(extent);
  if (known != nullptr && limit && known->as_i64() >= 0 && known->as_i64() < *limit)
    return mask ? mask : constant(Value::boolean(true), lanes);
  if (mask) mask = splat(mask, lanes);
  const Type result{DType::Bool, lanes};
  const ValueId operands[] = {index, extent, mask};
  return emit_pure(
      key_of(kCheck, result, operands, {site}), result, operands,
      [&] {
        return loop::Check{site, index, extent, mask};
      },
      outermost_for_loads());
}

void FunctionBuilder::store(BufferId buffer, std::vector<ValueId> index, ValueId value, ValueId mask, bool streaming) {
  int lanes = 1;
  for (ValueId id : index) lanes = std::max(lanes, type(id).lanes);
  value = splat(value, lanes);
  if (mask) mask = splat(mask, lanes);
  scopes_.back().block.instrs.push_back({{}, loop::Store{buffer, std::move(index), value, mask, streaming}});
}

void FunctionBuilder::prefetch(BufferId buffer, std::vector<ValueId> index) {
  scopes_.back().block.instrs.push_back({{}, loop::Prefetch{buffer, std::move(index)}});
}

Block FunctionBuilder::run_scope(bool loads_may_leave, const std::function<std::vector<ValueId>()>& body) {
  scopes_.emplace_back();
  scopes_.back().loads_may_leave = loads_may_leave;
  std::vector<ValueId> yields = body();
  Block block = std::move(scopes_.back().block);
  scopes_.pop_back();
  std::erase_if(frozen_, [&](const auto& entry) { return entry.second.depth > depth(); });
  block.yields = std::move(yields);
  return block;
}

std::vector<ValueId> FunctionBuilder::for_loop(const std::string& name, ValueId extent, loop::Binding binding,
                                               const std::vector<ValueId>& inits, const LoopBody& body) {
  const std::optional<std::int64_t> trips = as_index(extent);
  if (binding == loop::Binding::Serial && trips && *trips <= 0) return inits;
  if (binding == loop::Binding::Serial && trips && *trips == 1) return body(index(0), inits);
  loop::For loop;
  loop.extent = extent;
  loop.binding = binding;
  loop.inits = inits;
  const bool runs = trips && *trips > 0;
  Instr instr;
  for (ValueId init : inits) instr.results.push_back(new_value(type(init), depth()));
  const int inside = depth() + 1;
  loop.variable = new_value({DType::I64, 1}, inside, name);
  facts(loop.variable).range = {0, std::clamp<std::int64_t>(range(extent).high - 1, 0, kMostTrips)};
  for (ValueId init : inits) loop.carried.push_back(new_value(type(init), inside));
  const ValueId variable = loop.variable;
  const std::vector<ValueId> carried = loop.carried;
  loop.body = run_scope(runs, [&] { return body(variable, carried); });
  CORRLOOM_CHECK(loop.body.yields.size() == inits.size(), "loop ", name, " yields ", loop.body.yields.size(),
                 " values, carries ", inits.size());
  std::vector<ValueId> results = instr.results;
  instr.kind = std::move(loop);
  scopes_.back().block.instrs.push_back(std::move(instr));
  return results;
}

std::vector<ValueId> FunctionBuilder::if_else(ValueId condition, const Branch& then, const Branch& otherwise) {
  if (const Value* known = as_constant(condition)) return known->as_bool() ? then() : otherwise();
  loop::If branch;
  branch.condition = condition;
  branch.then = run_scope(false, then);
  branch.otherwise = run_scope(false, otherwise);
  CORRLOOM_CHECK(branch.then.yields.size() == branch.otherwise.yields.size(),
                 "the branches of a condition yield different numbers of values");
  Instr instr;
  for (ValueId id : branch.then.yields) instr.results.push_back(new_value(type(id), depth()));
  std::vector<ValueId> results = instr.results;
  instr.kind = std::move(branch);
  scopes_.back().block.instrs.push_back(std::move(instr));
  return results;
}

loop::Function FunctionBuilder::finish() {
  CORRLOOM_CHECK(scopes_.size() == 1, "a loop or branch is still open");
  function_.body = std::move(scopes_.back().block);
  std::vector<bool> used(function_.values.size());
  drop_unused(function_.body, used);
  return std::move(function_);
}

}  // namespace corrloom::passes
