#include "ir/scalar/parse_expr.h"

#include <unordered_map>
#include <vector>

#include "ir/base/errors.h"
#include "ir/scalar/operand_dtypes.h"

namespace corrloom::scalar {
namespace {

/// Why an opcode cannot take these operands; empty when it can. Says before building what the builders check.
std::string operand_fault(const OpcodeInfo& row, const std::vector<Expr>& args, DType given) {
  const std::string name(row.text);
  if (static_cast<int>(args.size()) != row.arity)
    return "`" + name + "` takes " + std::to_string(row.arity) + " operands, not " + std::to_string(args.size());
  const DType dtype = args.back()->dtype;
  if (!takes_last(row.opcode, dtype)) return "`" + name + "` does not take " + std::string(name_of(dtype));
  for (std::size_t k = 0; k < args.size(); ++k) {
    const DType wanted = operand_dtype(row.opcode, k, dtype);
    if (args[k]->dtype == wanted) continue;
    if (wanted == dtype)
      return "`" + name + "` mixes " + std::string(name_of(args[k]->dtype)) + " and " + std::string(name_of(dtype));
    return "operand " + std::to_string(k) + " of `" + name + "` is of " + std::string(name_of(args[k]->dtype)) +
           ", not " + std::string(name_of(wanted));
  }
  if (row.opcode == Opcode::Bitcast && bit_width(dtype) != bit_width(given))
    return "`bitcast` from " + std::string(name_of(dtype)) + " to " + std::string(name_of(given));
  return {};
}

/// Reads an expression with the unfinished operations around it on a stack.
class ExprParser {
 public:
  ExprParser(IrCursor& cursor, const ParseScope& scope) : cursor_(cursor), scope_(scope) {}

  Expr run() {
    while (!cursor_.failed()) {
      Expr value = begin_operand();
      // A finished operand may finish what stands around it.
      while (value && !open_.empty()) value = feed(std::move(value));
      if (value) return cursor_.failed() ? nullptr : value;
    }
    return nullptr;
  }

 private:
  struct Open {
    enum class Kind { Apply, Index, PadValue, Shared } kind;
    Span span;
    const OpcodeInfo* row = nullptr;  ///< of Apply
    DType dtype = DType::I64;         ///< of casts and reads
    Read read = {};
    std::vector<Expr> args = {};  ///< operands, or subscripts
    std::string shared = {};
  };

  /// A finished operand, or null when one was opened (or an error met).
  Expr begin_operand() {
    const IrToken token = cursor_.next();
    switch (token.kind) {
      case IrToken::Kind::Number:
        return number(token);
      case IrToken::Kind::Word:
        return cursor_.peek().is("(") ? open_apply(token) : word(token);
      case IrToken::Kind::Value:
        return cursor_.peek().is("[") ? open_read(token) : value(token);
      case IrToken::Kind::Shared:
        return shared(token);
      default:
        cursor_.fail(Code::E0402, token.span, "expected an expression");
        return nullptr;
    }
  }

  Expr number(const IrToken& token) {
    Value value;
    const DType dtype = token.dtype.value_or(DType::I64);
    if (parse_value(token.text, dtype, value)) return constant(value);
    cursor_.fail(Code::E0401, token.span, "`" + token.text + "` is not a value of " + std::string(name_of(dtype)));
    return nullptr;
  }

  Expr word(const IrToken& token) {
    if (token.text == "true" || token.text == "false") return constant(Value::boolean(token.text == "true"));
    if (Expr found = scope_.word ? scope_.word(token.text) : nullptr) return found;
    return unknown(token);
  }

  Expr value(const IrToken& token) {
    if (Expr found = scope_.value ? scope_.value(token.text) : nullptr) return found;
    return unknown(token);
  }

  Expr unknown(const IrToken& token) {
    cursor_.fail(Code::E0403, token.span, "unknown name `" + std::string(token.span.text()) + "`");
    return nullptr;
  }

  Expr shared(const IrToken& token) {
    const auto found = shared_.find(token.text);
    if (!cursor_.accept("=")) return found == shared_.end() ? unknown(token) : found->second;
    if (found != shared_.end()) {
      cursor_.fail(Code::E0404, token.span, "`$" + token.text + "` is defined twice");
    } else {
      open_.push_back({Open::Kind::Shared, token.span});
      open_.back().shared = token.text;
    }
    return nullptr;
  }

  Expr open_apply(const IrToken& token) {
    const std::size_t point = token.text.find('.');
    const std::optional<Opcode> opcode = parse_opcode(std::string_view(token.text).substr(0, point));
    if (!opcode) return unknown(token);
    Open open = {Open::Kind::Apply, token.span, &info(*opcode)};
    const bool states_dtype = point != std::string::npos;
    const std::optional<DType> dtype =
        states_dtype ? parse_dtype(std::string_view(token.text).substr(point + 1)) : std::nullopt;
    if (states_dtype != (open.row->result == Result::Given) || (states_dtype && !dtype)) {
      cursor_.fail(Code::E0402, token.span,
                   "expected `" + std::string(open.row->text) +
                       (open.row->result == Result::Given ? ".` and a dtype" : "` alone"));
      return nullptr;
    }
    open.dtype = dtype.value_or(DType::I64);
    cursor_.expect("(");
    open_.push_back(std::move(open));
    return nullptr;
  }

  Expr open_read(const IrToken& token) {
    const auto found = scope_.tensor ? scope_.tensor(token.text) : std::nullopt;
    if (!found) return unknown(token);
    Open open = {Open::Kind::Index, token.span};
    open.read.source = found->first;
    open.dtype = found->second;
    cursor_.expect("[");
    if (cursor_.accept("]")) return close_index(std::move(open));
    open_.push_back(std::move(open));
    return nullptr;
  }

  /// Gives a finished operand to the innermost open operation; its value when that finishes it.
  Expr feed(Expr operand) {
    Open& open = open_.back();
    switch (open.kind) {
      case Open::Kind::Shared: {
        shared_[open.shared] = operand;
        open_.pop_back();
        return operand;
      }
      case Open::Kind::Apply:
        open.args.push_back(std::move(operand));
        if (cursor_.accept(",") || !cursor_.expect(")")) return nullptr;
        return close_apply(take_open());
      case Open::Kind::Index:
        if (operand->dtype != DType::I64) return wrong_operands(open, "a subscript is an i64, not ", operand->dtype);
        open.args.push_back(std::move(operand));
        if (cursor_.accept(",") || !cursor_.expect("]")) return nullptr;
        return close_index(take_open());
      case Open::Kind::PadValue:
        open.read.pad_value = std::move(operand);
        if (!cursor_.expect(")")) return nullptr;
        return close_read(take_open());
    }
    return nullptr;
  }

  Open take_open() {
    Open open = std::move(open_.back());
    open_.pop_back();
    return open;
  }

  Expr wrong_operands(const Open& open, const std::string& fault, DType dtype) {
    cursor_.fail(Code::E0405, open.span, fault + std::string(name_of(dtype)));
    return nullptr;
  }

  Expr close_apply(Open open) {
    if (const std::string fault = operand_fault(*open.row, open.args, open.dtype); !fault.empty()) {
      cursor_.fail(Code::E0405, open.span, fault);
      return nullptr;
    }
    if (open.row->opcode == Opcode::Cast) return bounded(cast(std::move(open.args[0]), open.dtype), open.span);
    if (open.row->opcode == Opcode::Bitcast) return bounded(bitcast(std::move(open.args[0]), open.dtype), open.span);
    return bounded(apply(open.row->opcode, std::move(open.args)), open.span);
  }

  /// After the `]` of a read: its pad, then its check.
  Expr close_index(Open open) {
    open.read.index = std::move(open.args);
    open.args.clear();
    if (!cursor_.accept_word("pad")) return close_read(std::move(open));
    if (cursor_.accept_word("edge")) {
      open.read.pad = PadMode::Edge;
    } else if (cursor_.accept_word("reflect")) {
      open.read.pad = PadMode::Reflect;
    } else if (cursor_.accept_word("wrap")) {
      open.read.pad = PadMode::Wrap;
    } else {
      open.read.pad = PadMode::Value;
      return read_pad_value(std::move(open));
    }
    return close_read(std::move(open));
  }

  Expr read_pad_value(Open open) {
    if (cursor_.accept("(")) {
      open.kind = Open::Kind::PadValue;
      open_.push_back(std::move(open));
      return nullptr;
    }
    const IrToken token = cursor_.next();
    if (token.is_word("true") || token.is_word("false")) {
      open.read.pad_value = constant(Value::boolean(token.text == "true"));
    } else if (token.kind == IrToken::Kind::Number) {
      open.read.pad_value = number(token);
    } else {
      cursor_.fail(Code::E0402, token.span, "expected `edge`, `reflect`, `wrap`, a literal or `(` after `pad`");
    }
    return open.read.pad_value ? close_read(std::move(open)) : nullptr;
  }

  Expr close_read(Open open) {
    if (open.read.pad_value && open.read.pad_value->dtype != open.dtype)
      return wrong_operands(open, "the pad of a read of " + std::string(name_of(open.dtype)) + " is of ",
                            open.read.pad_value->dtype);
    if (cursor_.accept_word("check")) {
      if (cursor_.accept_word("runtime")) {
        open.read.check = ReadCheck::Runtime;
      } else if (cursor_.expect_word("proven")) {
        open.read.check = ReadCheck::Proven;
      }
    }
    open.read.span = open.span;
    return bounded(read(std::move(open.read), open.dtype), open.span);
  }

  Expr bounded(Expr expr, const Span& span) {
    if (expr->depth <= scope_.max_depth) return expr;
    cursor_.fail(Code::E0406, span, "an expression is nested more than " + std::to_string(scope_.max_depth) + " deep");
    return nullptr;
  }

  IrCursor& cursor_;
  const ParseScope& scope_;
  std::vector<Open> open_;
  std::unordered_map<std::string, Expr> shared_;
};

}  // namespace

Expr parse_expr(IrCursor& cursor, const ParseScope& scope) {
  return ExprParser(cursor, scope).run();
}

}  // namespace corrloom::scalar
