#include <climits>
#include <map>
#include <string>

#include "ir/base/ir_lexer.h"
#include "ir/loop/text.h"
#include "ir/scalar/parse_expr.h"

namespace corrloom::loop {
namespace {

using Kind = IrToken::Kind;

/// Blocks inside blocks that a text may have; `print` writes a handful.
constexpr int kMaxNesting = 200;
/// Most lanes of a type that a text may have.
constexpr int kMaxLanes = 4096;

class FunctionParser {
 public:
  explicit FunctionParser(IrCursor& cursor) : cursor_(cursor) {}

  Function run() {
    cursor_.expect_word("func");
    function_.name = cursor_.expect(Kind::Global, "the function's name, `@name`");
    cursor_.expect_word("stage");
    if (cursor_.accept_word("flat")) {
      function_.stage = Stage::Flat;
    } else {
      cursor_.expect_word("mapped");
    }
    cursor_.expect_word("symbols");
    cursor_.expect("[");
    while (cursor_.peek().kind == Kind::Word) {
      parse_symbol();
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect("]");
    cursor_.expect("(");
    while (cursor_.peek().kind == Kind::Value) {
      parse_buffer();
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect(")");
    function_.body = block(0);
    return std::move(function_);
  }

 private:
  void parse_symbol() {
    tensor::Symbol symbol;
    const IrToken& name = cursor_.next();
    symbol.name = name.text;
    if (!symbols_.emplace(symbol.name, SymbolId{static_cast<std::int32_t>(function_.symbols.size())}).second) {
      return cursor_.fail(Code::E0404, name.span, "`" + symbol.name + "` is defined twice");
    }
    if (cursor_.accept(":")) {
      symbol.dtype = cursor_.expect_dtype();
      symbol.kind = tensor::Symbol::Kind::Scalar;
    }
    function_.symbols.push_back(std::move(symbol));
  }

  void parse_buffer() {
    Buffer buffer;
    const IrToken name = cursor_.next();
    buffer.name = name.text;
    cursor_.expect(":");
    buffer.dtype = cursor_.expect_dtype();
    cursor_.expect("[");
    scalar::ParseScope scope;
    scope.word = [&](const std::string& word) -> Expr {
      const auto found = symbols_.find(word);
      return found == symbols_.end()
                 ? nullptr
                 : scalar::symbol(found->second,
                                  function_.symbols[static_cast<std::size_t>(found->second.index)].dtype);
    };
    while (!cursor_.failed() && !cursor_.peek().is("]")) {
      if (Expr extent = scalar::parse_expr(cursor_, scope)) buffer.extents.push_back(std::move(extent));
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect("]");
    if (cursor_.accept_word("shared")) buffer.space = Space::Shared;
    if (cursor_.accept_word("local")) buffer.space = Space::Local;
    buffer.written = cursor_.accept_word("out");
    if (!buffers_.emplace(buffer.name, BufferId{static_cast<std::int32_t>(function_.buffers.size())}).second) {
      return cursor_.fail(Code::E0404, name.span, "`%" + buffer.name + "` is defined twice");
    }
    function_.buffers.push_back(std::move(buffer));
  }

  /// `f32x16`, `i64`.
  Type type() {
    Type type;
    const IrToken token = cursor_.next();
    const std::size_t split = token.text.find('x');
    const std::optional<DType> dtype = parse_dtype(token.text.substr(0, split));
    if (token.kind != Kind::Word || !dtype) {
      cursor_.fail(Code::E0402, token.span, "expected a type such as `f32` or `f32x16`", "found `" + token.text + "`");
      return type;
    }
    type.dtype = *dtype;
    if (split == std::string::npos) return type;
    const std::string lanes = token.text.substr(split + 1);
    const bool digits =
        !lanes.empty() && lanes.size() <= 4 && lanes.find_first_not_of("0123456789") == std::string::npos;
    type.lanes = digits ? std::stoi(lanes) : 0;
    if (type.lanes < 1 || type.lanes > kMaxLanes)
      cursor_.fail(Code::E0402, token.span, "expected a number of lanes from 1 to " + std::to_string(kMaxLanes));
    return type;
  }

  ValueId define(const IrToken& name, Type type) {
    function_.values.push_back({type, name.text});
    const ValueId id{static_cast<std::int32_t>(function_.values.size()) - 1};
    if (!values_.emplace(name.text, id).second)
      cursor_.fail(Code::E0404, name.span, "`%" + name.text + "` is defined twice");
    return id;
  }

  ValueId use() {
    const IrToken token = cursor_.peek();
    cursor_.expect(Kind::Value, "a value, `%name`");
    const auto found = values_.find(token.text);
    if (found != values_.end()) return found->second;
    if (!cursor_.failed()) cursor_.fail(Code::E0403, token.span, "`%" + token.text + "` is not defined");
    return {};
  }
  std::vector<ValueId> uses() {
    std::vector<ValueId> out;
    while (cursor_.peek().kind == Kind::Value) {
      out.push_back(use());
      if (!cursor_.accept(",")) break;
    }
    return out;
  }

  BufferId buffer() {
    const IrToken token = cursor_.peek();
    cursor_.expect(Kind::Value, "a buffer, `%name`");
    const auto found = buffers_.find(token.text);
    if (found != buffers_.end()) return found->second;
    if (!cursor_.failed())
      cursor_.fail(Code::E0403, token.span, "`%" + token.text + "` is not a buffer of the function");
    return {};
  }

  Block block(int depth) {
    Block block;
    if (depth > kMaxNesting) {
      cursor_.fail(Code::E0402, cursor_.peek().span,
                   "the blocks are nested more than " + std::to_string(kMaxNesting) + " deep");
      return block;
    }
    cursor_.expect("{");
    while (!cursor_.failed() && !cursor_.peek().is("}")) {
      if (cursor_.accept_word("yield")) {
        block.yields = uses();
        break;
      }
      block.instrs.push_back(instr(depth));
    }
    cursor_.expect("}");
    return block;
  }

  Instr instr(int depth) {
    Instr instr;
    std::vector<std::pair<IrToken, Type>> results;
    if (cursor_.peek().kind == Kind::Value) {
      do {
        IrToken name = cursor_.peek();
        cursor_.expect(Kind::Value, "a result, `%name`");
        cursor_.expect(":");
        results.emplace_back(std::move(name), type());
      } while (cursor_.accept(","));
      cursor_.expect("=");
    }
    instr.kind = kind(results.empty() ? Type{} : results.front().second, depth);
    for (const auto& [name, type] : results) instr.results.push_back(define(name, type));
    return instr;
  }

  decltype(Instr::kind) kind(Type result, int depth) {
    const IrToken word = cursor_.peek();
    const std::string text = cursor_.expect(Kind::Word, "an instruction");
    if (text == "const") return constant(result);
    if (text == "symbol") return symbol_value();
    if (text == "splat") return Splat{use()};
    if (text == "ramp") {
      const ValueId base = use();
      cursor_.expect_word("by");
      return Ramp{base, cursor_.expect_integer("a stride")};
    }
    if (text == "shuffle") return shuffle();
    if (text == "load") {
      const BufferId from = buffer();
      std::vector<ValueId> index = indices();
      return Load{from, std::move(index), mask()};
    }
    if (text == "store") {
      Store store{buffer(), indices(), {}, {}, false};
      cursor_.expect("=");
      store.value = use();
      store.mask = mask();
      store.streaming = cursor_.accept_word("streaming");
      return store;
    }
    if (text == "prefetch") {
      const BufferId from = buffer();
      return Prefetch{from, indices()};
    }
    if (text == "check") return check();
    if (text == "for") return for_loop(depth);
    if (text == "if") return if_else(depth);
    const std::optional<Opcode> opcode = scalar::parse_opcode(text);
    if (!opcode && !cursor_.failed()) cursor_.fail(Code::E0403, word.span, "`" + text + "` is no instruction");
    return Apply{opcode.value_or(Opcode::Add), uses()};
  }

  Constant constant(Type result) {
    const IrToken token = cursor_.next();
    Value value;
    const DType dtype = token.dtype.value_or(result.dtype);
    const bool literal = token.kind == Kind::Number || token.kind == Kind::Word;
    if (!literal || !scalar::parse_value(token.text, dtype, value)) {
      cursor_.fail(Code::E0402, token.span, "expected a constant of " + std::string(name_of(dtype)),
                   "found `" + token.text + "`");
    }
    return {value};
  }

  Symbol symbol_value() {
    const IrToken token = cursor_.peek();
    cursor_.expect(Kind::Word, "a symbol's name");
    const auto found = symbols_.find(token.text);
    if (found != symbols_.end()) return {found->second};
    if (!cursor_.failed()) cursor_.fail(Code::E0403, token.span, "`" + token.text + "` is no symbol of the function");
    return {};
  }

  Shuffle shuffle() {
    Shuffle shuffle{use(), {}};
    if (cursor_.accept(",")) shuffle.other = use();
    cursor_.expect("[");
    while (!cursor_.failed() && !cursor_.peek().is("]")) {
      shuffle.lanes.push_back(static_cast<int>(cursor_.expect_integer("a lane")));
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect("]");
    return shuffle;
  }

  std::vector<ValueId> indices() {
    cursor_.expect("[");
    std::vector<ValueId> index = uses();
    cursor_.expect("]");
    return index;
  }
  ValueId mask() { return cursor_.accept_word("mask") ? use() : ValueId{}; }

  Check check() {
    const IrToken token = cursor_.peek();
    const std::int64_t site = cursor_.expect_integer("the number of a site");
    if (site < INT_MIN || site > INT_MAX) cursor_.fail(Code::E0402, token.span, "the number of the site is too large");
    Check check{static_cast<int>(site), use(), {}, {}};
    cursor_.expect_word("below");
    check.extent = use();
    check.mask = mask();
    return check;
  }

  For for_loop(int depth) {
    For loop;
    const IrToken variable = cursor_.peek();
    cursor_.expect(Kind::Value, "the loop's variable, `%name`");
    cursor_.expect_word("below");
    loop.extent = use();
    if (cursor_.accept_word("block")) loop.binding = Binding::Block;
    if (cursor_.accept_word("thread")) loop.binding = Binding::Thread;
    std::vector<IrToken> carried;
    if (cursor_.accept_word("carry")) {
      cursor_.expect("(");
      while (cursor_.peek().kind == Kind::Value) {
        carried.push_back(cursor_.next());
        cursor_.expect("=");
        loop.inits.push_back(use());
        if (!cursor_.accept(",")) break;
      }
      cursor_.expect(")");
    }
    if (cursor_.failed()) return loop;
    loop.variable = define(variable, {DType::I64, 1});
    for (std::size_t k = 0; k < carried.size(); ++k)
      loop.carried.push_back(define(carried[k], function_.type(loop.inits[k])));
    loop.body = block(depth + 1);
    return loop;
  }

  If if_else(int depth) {
    If branch;
    branch.condition = use();
    branch.then = block(depth + 1);
    if (cursor_.accept_word("else")) branch.otherwise = block(depth + 1);
    return branch;
  }

  IrCursor& cursor_;
  Function function_;
  std::map<std::string, SymbolId> symbols_;
  std::map<std::string, BufferId> buffers_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

std::optional<std::vector<Function>> parse_all(const SourceRef& text, Diagnostics& diagnostics) {
  IrCursor cursor(text, diagnostics);
  std::vector<Function> functions;
  while (!cursor.at_end()) functions.push_back(FunctionParser(cursor).run());
  if (cursor.failed()) return std::nullopt;
  return functions;
}

std::optional<Function> parse(const SourceRef& text, Diagnostics& diagnostics) {
  IrCursor cursor(text, diagnostics);
  Function function = FunctionParser(cursor).run();
  if (!cursor.at_end()) cursor.fail_expected("the end of the function");
  if (cursor.failed()) return std::nullopt;
  return function;
}

}  // namespace corrloom::loop
