#include <unordered_map>
#include <utility>

#include "ir/base/errors.h"
#include "ir/base/ir_lexer.h"
#include "ir/scalar/parse_expr.h"
#include "ir/tensor/text.h"

namespace corrloom::tensor {
namespace {

using Kind = IrToken::Kind;

/// Most values that a literal of a text may have.
constexpr std::size_t kMaxLiteral = std::size_t{1} << 26;

/// Reads one graph. After an error the cursor stands at the end of the text, and what was read so far is thrown away by
/// the caller.
class GraphParser {
 public:
  explicit GraphParser(IrCursor& cursor) : cursor_(cursor) {
    scope_.word = [this](const std::string& name) { return word(name); };
    scope_.value = [this](const std::string& name) { return accumulator(name); };
    scope_.tensor = [this](const std::string& name) { return read_source(name); };
  }

  Graph run() {
    cursor_.expect_word("graph");
    graph_.name = cursor_.expect(Kind::Global, "the graph's name, `@name`");
    // Extents of the inputs use symbols, and outputs use ops: the lists are read when what they use is known.
    const std::size_t inputs_at = cursor_.position();
    skip_list();
    cursor_.expect("->");
    const std::size_t outputs_at = cursor_.position();
    skip_list();
    if (cursor_.accept_word("symbols")) parse_symbols();
    const std::size_t body_at = cursor_.position();
    cursor_.go_to(inputs_at);
    parse_inputs();
    cursor_.go_to(body_at);
    cursor_.expect("{");
    while (cursor_.peek().is_word("require")) parse_condition();
    while (cursor_.peek().kind == Kind::Value) parse_op();
    cursor_.expect("}");
    const std::size_t end_at = cursor_.position();
    cursor_.go_to(outputs_at);
    parse_outputs();
    cursor_.go_to(end_at);
    return std::move(graph_);
  }

 private:
  /// Reads `item {"," item}` between two brackets; the list may be empty.
  template <class Item>
  void parse_list(std::string_view open, std::string_view close, const Item& item) {
    if (!cursor_.expect(open) || cursor_.accept(close)) return;
    do item();
    while (cursor_.accept(","));
    cursor_.expect(close);
  }

  void skip_list() {
    if (!cursor_.peek().is("(")) return cursor_.fail_expected("`(`");
    cursor_.skip_group();
  }

  // What names stand for.

  Expr word(const std::string& name) const {
    if (const auto found = axes_.find(name); found != axes_.end()) return scalar::axis(found->second);
    const auto found = symbols_.find(name);
    if (found == symbols_.end()) return nullptr;
    return scalar::symbol(found->second, graph_.symbols[static_cast<std::size_t>(found->second.index)].dtype);
  }

  Expr accumulator(const std::string& name) const {
    constexpr std::string_view kOther = ".other";
    const bool other = name.ends_with(kOther);
    const auto found = accumulators_.find(other ? name.substr(0, name.size() - kOther.size()) : name);
    return found == accumulators_.end() ? nullptr
                                        : scalar::accumulator(found->second.first, found->second.second, other);
  }

  std::optional<std::pair<TensorId, DType>> read_source(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return std::nullopt;
    return std::pair(found->second, graph_.op(found->second).dtype);
  }

  Expr expr() { return scalar::parse_expr(cursor_, scope_); }

  /// Adds a definition of a name, which must be new.
  template <class Names, class Meaning>
  void define(Names& names, const IrToken& token, Meaning meaning) {
    if (!names.emplace(token.text, std::move(meaning)).second)
      cursor_.fail(Code::E0404, token.span, "`" + std::string(token.span.text()) + "` is defined twice");
  }

  TensorId tensor() {
    const IrToken token = cursor_.peek();
    cursor_.expect(Kind::Value, "a tensor, `%name`");
    const auto found = tensors_.find(token.text);
    if (found != tensors_.end()) return found->second;
    cursor_.fail(Code::E0403, token.span, "unknown tensor `%" + token.text + "`");
    return {};
  }

  // The header.

  void parse_symbols() {
    parse_list("[", "]", [&] {
      const IrToken token = cursor_.peek();
      Symbol symbol = {cursor_.expect(Kind::Word, "a symbol"), DType::I64, Symbol::Kind::Dimension, token.span};
      if (cursor_.accept(":")) {
        symbol.dtype = cursor_.expect_dtype();
        if (!cursor_.accept_word("dimension")) symbol.kind = Symbol::Kind::Scalar;
      }
      define(symbols_, token, graph_.new_symbol(std::move(symbol)));
    });
  }

  void parse_inputs() {
    parse_list("(", ")", [&] {
      const bool parameter = cursor_.accept_word("param");
      const IrToken token = cursor_.peek();
      Op op = parse_definition();
      op.kind = Input{parameter};
      graph_.inputs.push_back(add(token, std::move(op)));
    });
  }

  void parse_outputs() {
    parse_list("(", ")", [&] {
      Output output;
      if (cursor_.peek().kind == Kind::Word) {
        output.name = cursor_.next().text;
        cursor_.expect("=");
      } else {
        output.name = cursor_.peek().text;
      }
      output.value = tensor();
      if (cursor_.accept_word("in")) output.storage_of = tensor();
      graph_.outputs.push_back(std::move(output));
    });
  }

  void parse_condition() {
    Condition condition;
    const Span begin = cursor_.next().span;
    condition.holds = expr();
    const Span end = cursor_.peek().span;
    condition.title = cursor_.expect(Kind::String, "a title in quotes");
    condition.span = cover(begin, end);
    if (cursor_.accept_word("showing")) {
      do {
        Condition::Shown shown;
        shown.name = cursor_.expect(Kind::String, "a name in quotes");
        cursor_.expect("=");
        shown.value = expr();
        condition.shown.push_back(std::move(shown));
      } while (cursor_.accept(","));
    }
    graph_.conditions.push_back(std::move(condition));
  }

  // Ops.

  TensorId add(const IrToken& token, Op op) {
    const TensorId id = graph_.add(std::move(op));
    define(tensors_, token, id);
    return id;
  }

  /// `%name: dtype[extents]`
  Op parse_definition() {
    Op op;
    op.span = cursor_.peek().span;
    op.name = cursor_.expect(Kind::Value, "a definition, `%name: dtype[extents]`");
    cursor_.expect(":");
    op.dtype = cursor_.expect_dtype();
    parse_list("[", "]", [&] { op.extents.push_back(expr()); });
    return op;
  }

  void parse_op() {
    const IrToken token = cursor_.peek();
    Op op = parse_definition();
    cursor_.expect("=");
    if (cursor_.accept_word("literal")) {
      op.kind = parse_literal(op.dtype);
    } else if (cursor_.accept_word("compute")) {
      op.kind = parse_compute();
    } else if (cursor_.accept_word("view")) {
      op.kind = parse_view();
    } else if (cursor_.accept_word("reshape")) {
      op.kind = Reshape{tensor()};
    } else {
      cursor_.fail_expected("`literal`, `compute`, `view` or `reshape`");
    }
    axes_.clear();
    accumulators_.clear();
    add(token, std::move(op));
  }

  Literal parse_literal(DType dtype) {
    Literal literal;
    parse_list("[", "]", [&] {
      const IrToken token = cursor_.next();
      scalar::Value value;
      const bool is_value = token.kind == Kind::Number || token.kind == Kind::Word;
      const DType wanted = token.dtype.value_or(dtype);
      if (!is_value || !scalar::parse_value(token.text, wanted, value)) {
        cursor_.fail(Code::E0401, token.span,
                     "`" + std::string(token.span.text()) + "` is not a value of " + std::string(name_of(wanted)));
      }
      if (literal.values.size() >= kMaxLiteral) cursor_.fail(Code::E0402, token.span, "a literal has too many values");
      literal.values.push_back(value);
    });
    return literal;
  }

  std::vector<Axis> parse_axes() {
    std::vector<Axis> axes;
    parse_list("[", "]", [&] {
      const IrToken token = cursor_.peek();
      Axis axis = {{}, cursor_.expect(Kind::Word, "an axis, `name: extent`"), nullptr};
      cursor_.expect(":");
      axis.extent = expr();
      if (cursor_.accept_word("from")) axis.origin = expr();
      axis.id = graph_.new_axis(axis.name);
      if (symbols_.count(axis.name) != 0)
        cursor_.fail(Code::E0404, token.span, "the axis `" + axis.name + "` has the name of a symbol");
      define(axes_, token, axis.id);
      axes.push_back(std::move(axis));
    });
    return axes;
  }

  View parse_view() {
    View view;
    view.axes = parse_axes();
    view.source = tensor();
    parse_list("[", "]", [&] { view.index.push_back(expr()); });
    return view;
  }

  Numerics parse_numerics() {
    Numerics numerics;
    if (!cursor_.accept_word("with")) return numerics;
    if (cursor_.accept_word("strict")) {
      numerics.order = Numerics::OrderMode::Strict;
    } else if (cursor_.accept_word("any")) {
      numerics.order = Numerics::OrderMode::Any;
    }
    numerics.fast_math = cursor_.accept_word("fast");
    if (numerics == Numerics{}) cursor_.fail_expected("`strict`, `any` or `fast`");
    return numerics;
  }

  std::int64_t parse_count(const char* what) {
    cursor_.expect("(");
    const std::int64_t count = cursor_.expect_integer(what);
    cursor_.expect(")");
    return count;
  }

  Order parse_order() {
    Order order;
    if (cursor_.accept_word("lanes")) {
      order = {Order::Kind::Lanes, parse_count("the number of lanes")};
    } else if (cursor_.accept_word("any")) {
      order.kind = Order::Kind::Any;
    } else if (!cursor_.accept_word("ascending")) {
      cursor_.fail_expected("`ascending`, `lanes(count)` or `any`");
    }
    if (cursor_.accept_word("parts")) order.part = parse_count("the number of elements in a part");
    return order;
  }

  Compute parse_compute() {
    Compute compute;
    compute.axes = parse_axes();
    compute.numerics = parse_numerics();
    if (cursor_.accept_word("reduce")) {
      Reduction& reduction = compute.reduction.emplace();
      reduction.axes = parse_axes();
      reduction.order = parse_order();
    }
    cursor_.expect("{");
    if (compute.reduction) parse_accumulators(*compute.reduction);
    cursor_.expect_word("yield");
    compute.body = expr();
    cursor_.expect("}");
    return compute;
  }

  /// Each step may use every accumulator, so their names are read before their expressions.
  void parse_accumulators(Reduction& reduction) {
    const std::size_t begin = cursor_.position();
    int count = 0;
    while (!cursor_.at_end() && !cursor_.peek().is("}")) {
      // An axis may be named `acc` too: it is not followed by a name.
      const bool found = cursor_.peek().is_word("acc") && cursor_.peek(1).kind == Kind::Value;
      cursor_.next();
      if (!found) continue;
      const IrToken token = cursor_.peek();
      cursor_.expect(Kind::Value, "an accumulator, `%name`");
      cursor_.expect(":");
      const DType dtype = cursor_.expect_dtype();
      define(accumulators_, token, std::pair(count++, dtype));
    }
    cursor_.go_to(begin);
    while (cursor_.accept_word("acc")) {
      Accumulator accumulator;
      accumulator.name = cursor_.expect(Kind::Value, "an accumulator, `%name`");
      cursor_.expect(":");
      accumulator.dtype = cursor_.expect_dtype();
      cursor_.expect("=");
      accumulator.init = expr();
      cursor_.expect_word("step");
      accumulator.step = expr();
      cursor_.expect_word("merge");
      accumulator.merge = expr();
      reduction.accumulators.push_back(std::move(accumulator));
    }
  }

  IrCursor& cursor_;
  scalar::ParseScope scope_;
  Graph graph_;
  std::unordered_map<std::string, SymbolId> symbols_;
  std::unordered_map<std::string, TensorId> tensors_;
  std::unordered_map<std::string, AxisId> axes_;  ///< of the op being read
  std::unordered_map<std::string, std::pair<int, DType>> accumulators_;
};

}  // namespace

std::optional<std::vector<Graph>> parse_all(const SourceRef& text, Diagnostics& diagnostics) {
  IrCursor cursor(text, diagnostics);
  std::vector<Graph> graphs;
  while (!cursor.at_end()) graphs.push_back(GraphParser(cursor).run());
  if (cursor.failed()) return std::nullopt;
  return graphs;
}

std::optional<Graph> parse(const SourceRef& text, Diagnostics& diagnostics) {
  IrCursor cursor(text, diagnostics);
  Graph graph = GraphParser(cursor).run();
  if (!cursor.at_end()) cursor.fail_expected("the end of the text");
  if (cursor.failed()) return std::nullopt;
  return graph;
}

}  // namespace corrloom::tensor
