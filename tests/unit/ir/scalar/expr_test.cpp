#include "ir/scalar/expr.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/base/errors.h"

namespace corrloom::scalar {
namespace {

const Expr kI = axis(AxisId{0});
const Expr kJ = axis(AxisId{1});

Expr element(std::vector<Expr> index, DType dtype = DType::F32) {
  return read(Read{.source = TensorId{0}, .index = std::move(index)}, dtype);
}

Expr add(const Expr& x, const Expr& y) {
  return apply(Opcode::Add, {x, y});
}

std::string text(const Expr& expr) {
  Names names;
  names.axis = [](AxisId id) { return std::string(1, static_cast<char>('i' + id.index)); };
  names.symbol = [](SymbolId id) { return "N" + std::to_string(id.index); };
  names.tensor = [](TensorId id) { return "%t" + std::to_string(id.index); };
  names.accumulator = [](int index, bool other) { return "%s" + std::to_string(index) + (other ? ".other" : ""); };
  return to_text(expr, names);
}

std::size_t count_nodes(const Expr& expr) {
  std::size_t count = 0;
  for_each_node(expr, [&](const Expr&) { ++count; });
  return count;
}

/// x + x, and that again, `depth` times: a tree of it would have 2^depth leaves.
Expr doubled(Expr x, int depth) {
  for (int i = 0; i < depth; ++i) x = add(x, x);
  return x;
}

TEST(Expr, TableOfOpcodesIsInOrderAndHasUniqueNames) {
  std::set<std::string_view> texts;
  for (std::size_t i = 0; i < all_opcodes().size(); ++i) {
    const OpcodeInfo& row = all_opcodes()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.opcode), i);
    EXPECT_EQ(&info(row.opcode), &row);
    EXPECT_EQ(parse_opcode(row.text), row.opcode);
    EXPECT_TRUE(texts.insert(row.text).second) << row.text;
  }
  EXPECT_EQ(parse_opcode("nothing"), std::nullopt);
}

TEST(Expr, BuildersRefuseWrongOperands) {
  const Expr one = constant(Value::f32(1));
  EXPECT_THROW(apply(Opcode::Add, {one}), InternalError);
  EXPECT_THROW(apply(Opcode::Add, {one, kI}), InternalError);
  EXPECT_THROW(apply(Opcode::Add, {one, nullptr}), InternalError);
  EXPECT_THROW(apply(Opcode::FloorDiv, {one, one}), InternalError);
  EXPECT_THROW(apply(Opcode::Select, {one, one, one}), InternalError);
  EXPECT_THROW(apply(Opcode::Cast, {one}), InternalError);
  EXPECT_THROW(bitcast(one, DType::I64), InternalError);
  EXPECT_THROW(element({one}), InternalError);
  EXPECT_THROW(read(Read{.source = TensorId{0}, .pad = PadMode::Value}, DType::F32), InternalError);
  EXPECT_THROW(read(Read{.source = TensorId{0}, .pad = PadMode::Value, .pad_value = kI}, DType::F32), InternalError);
}

TEST(Expr, ResultDtypes) {
  const Expr one = constant(Value::f32(1));
  const Expr flag = apply(Opcode::Lt, {kI, kJ});
  EXPECT_EQ(flag->dtype, DType::Bool);
  EXPECT_EQ(apply(Opcode::If, {flag, one, one})->dtype, DType::F32);
  EXPECT_EQ(apply(Opcode::LazyAnd, {flag, flag})->dtype, DType::Bool);
  EXPECT_EQ(cast(one, DType::F32)->dtype, DType::F32);
  EXPECT_NE(as_apply(cast(one, DType::F32), Opcode::Cast), nullptr);
}

TEST(Expr, TextOfEachKind) {
  const Expr padded = read(Read{.source = TensorId{1},
                                .index = {kI, add(kJ, constant_i64(-1))},
                                .pad = PadMode::Value,
                                .pad_value = constant(Value::f32(0)),
                                .check = ReadCheck::Proven},
                           DType::F32);
  EXPECT_EQ(text(padded), "%t1[i, add(j, -1:i64)] pad 0.0:f32 check proven");
  const Expr computed_pad =
      read(Read{.source = TensorId{1}, .pad = PadMode::Value, .pad_value = element({kI})}, DType::F32);
  EXPECT_EQ(text(computed_pad), "%t1[] pad (%t0[i])");
  EXPECT_EQ(text(read(Read{.source = TensorId{2}, .index = {kI}, .pad = PadMode::Reflect, .check = ReadCheck::Runtime},
                      DType::I8)),
            "%t2[i] pad reflect check runtime");
  EXPECT_EQ(text(cast(symbol(SymbolId{0}, DType::U8), DType::BF16)), "cast.bf16(N0)");
  EXPECT_EQ(text(bitcast(accumulator(0, DType::F32, true), DType::U32)), "bitcast.u32(%s0.other)");
  EXPECT_EQ(text(constant(Value::boolean(false))), "false");
  EXPECT_EQ(text(constant(Value{DType::F32, 0xffc00001})), "nan:0xffc00001:f32");
}

TEST(Expr, TextNamesWhatIsShared) {
  const Expr x = element({kI});
  const Expr e = apply(Opcode::Exp, {x});
  EXPECT_EQ(text(add(e, apply(Opcode::Mul, {x, e}))), "add($0 = exp($1 = %t0[i]), mul($1, $0))");
  EXPECT_EQ(text(add(element({kI}), element({kI}))), "add(%t0[i], %t0[i])");
}

TEST(Expr, SharedDagsStayLinear) {
  const Expr a = doubled(element({kI}), 3000);
  const Expr b = doubled(element({kI}), 3000);
  EXPECT_TRUE(same(a, b));
  EXPECT_EQ(hash_of(a), hash_of(b));
  EXPECT_FALSE(same(a, doubled(element({kJ}), 3000)));
  EXPECT_EQ(count_nodes(a), 3002u);
  EXPECT_EQ(count_nodes(rewrite(a, [](const Expr&) { return nullptr; })), 3002u);
  EXPECT_EQ(count_nodes(substitute_axes(a, [](AxisId) { return kJ; })), 3002u);
  EXPECT_EQ(count_nodes(simplify(a)), 3002u);
  EXPECT_LT(text(a).size(), 100000u);
}

TEST(Expr, DagsOfDifferentSharingAreTheSame) {
  const Expr shared = element({kI});
  EXPECT_TRUE(same(add(shared, shared), add(element({kI}), element({kI}))));
  EXPECT_FALSE(same(add(shared, shared), add(element({kI}), element({kJ}))));
}

TEST(Expr, SameLooksAtEveryPartButSpans) {
  const auto file = std::make_shared<SourceFile>("a.loom", "X[i]");
  const Read plain{.source = TensorId{0}, .index = {kI}};
  const auto differs = [&](auto change) {
    Read other = plain;
    change(other);
    return !same(read(plain, DType::F32), read(other, DType::F32));
  };
  EXPECT_FALSE(differs([&](Read& r) { r.span = {file, 0, 4}; }));
  EXPECT_TRUE(differs([](Read& r) { r.source = TensorId{1}; }));
  EXPECT_TRUE(differs([](Read& r) { r.pad = PadMode::Edge; }));
  EXPECT_TRUE(differs([](Read& r) { r.check = ReadCheck::Proven; }));
  EXPECT_TRUE(differs([](Read& r) { r.index = {kI, kI}; }));
  EXPECT_FALSE(same(constant(Value::f32(0.0f)), constant(Value::f32(-0.0f))));
  EXPECT_FALSE(same(accumulator(0, DType::F32), accumulator(0, DType::F32, true)));
  EXPECT_FALSE(same(cast(kI, DType::F32), cast(kI, DType::F64)));
}

TEST(Expr, DeepChainsAreBuiltWalkedAndDestroyed) {
  Expr deep = element({kI});
  for (int i = 0; i < 300000; ++i) deep = apply(Opcode::Neg, {deep});
  EXPECT_EQ(deep->depth, 300001);
  EXPECT_EQ(count_nodes(deep), 300002u);
  EXPECT_EQ(text(deep).size(), 300000u * 5 + 6);
}

TEST(Expr, AnExpressionKeepsWhatItsDyingUserShared) {
  const Expr inner = add(element({kI}), element({kJ}));
  Expr outer = apply(Opcode::Neg, {inner});
  outer = nullptr;
  EXPECT_EQ(text(inner), "add(%t0[i], %t0[j])");
}

TEST(Expr, RewriteKeepsSharingAndIdentity) {
  const Expr x = element({kI});
  const Expr e = apply(Opcode::Exp, {x});
  const Expr untouched = apply(Opcode::Neg, {element({kJ})});
  const Expr whole = add(add(e, e), untouched);
  int calls = 0;
  const Expr result = rewrite(whole, [&](const Expr& node) -> Expr {
    ++calls;
    return as_apply(node, Opcode::Exp) != nullptr ? apply(Opcode::Log, {std::get<Apply>(node->kind).args[0]}) : nullptr;
  });
  EXPECT_EQ(calls, 8);  // i, x, exp, inner add, j, read, neg, outer add
  const Apply* sum = as_apply(result, Opcode::Add);
  EXPECT_EQ(sum->args[1], untouched);
  const Apply* inner = as_apply(sum->args[0], Opcode::Add);
  EXPECT_EQ(inner->args[0], inner->args[1]);
  EXPECT_EQ(rewrite(whole, [](const Expr&) { return nullptr; }), whole);
}

TEST(Expr, SubstitutesInSubscriptsAndPadValues) {
  const Expr padded =
      read(Read{.source = TensorId{1}, .index = {kI}, .pad = PadMode::Value, .pad_value = element({kI})}, DType::F32);
  const Expr moved =
      substitute_axes(padded, [](AxisId id) { return id.index == 0 ? add(kJ, constant_i64(2)) : nullptr; });
  EXPECT_EQ(text(moved), "%t1[$0 = add(j, 2:i64)] pad (%t0[$0])" + std::string());
}

TEST(Expr, ForEachNodeVisitsOperandsFirst) {
  std::set<const Node*> seen;
  for_each_node(doubled(element({kI}), 5), [&](const Expr& node) {
    for (const Expr& child : children(node)) EXPECT_EQ(seen.count(child.get()), 1u);
    EXPECT_TRUE(seen.insert(node.get()).second);
  });
}

}  // namespace
}  // namespace corrloom::scalar
