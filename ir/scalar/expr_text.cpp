#include <unordered_map>
#include <utility>

#include "ir/base/match.h"
#include "ir/scalar/expr.h"

namespace corrloom::scalar {
namespace {

std::string constant_text(const Value& value) {
  if (value.dtype == DType::Bool) return to_text(value);
  return to_text(value) + ":" + std::string(name_of(value.dtype));
}

std::string_view pad_text(PadMode mode) {
  switch (mode) {
    case PadMode::Edge:
      return " pad edge";
    case PadMode::Reflect:
      return " pad reflect";
    case PadMode::Wrap:
      return " pad wrap";
    case PadMode::None:
    case PadMode::Value:
      break;
  }
  return "";
}

std::string_view check_text(ReadCheck check) {
  switch (check) {
    case ReadCheck::Runtime:
      return " check runtime";
    case ReadCheck::Proven:
      return " check proven";
    case ReadCheck::Unchecked:
      break;
  }
  return "";
}

/// Writes one expression from left to right. What is still to be written waits on a stack, so depth costs no recursion.
class Printer {
 public:
  Printer(const Expr& root, const Names& names) : names_(names) {
    for_each_node(root, [&](const Expr& node) {
      for (const Expr& child : children(node)) ++users_[child.get()];
    });
    pending_.push_back({root.get(), {}});
  }

  std::string run() {
    while (!pending_.empty()) {
      const Piece piece = std::move(pending_.back());
      pending_.pop_back();
      if (piece.node == nullptr) {
        text_ += piece.text;
      } else {
        write(*piece.node);
      }
    }
    return std::move(text_);
  }

 private:
  /// A node to write, or a text where there is none.
  struct Piece {
    const Node* node;
    std::string text;
  };

  void write(const Node& node) {
    if (users_[&node] > 1 && node_is_shareable(node)) {
      const auto [at, first] = numbers_.emplace(&node, numbers_.size());
      text_ += "$" + std::to_string(at->second);
      if (!first) return;
      text_ += " = ";
    }
    match(
        node.kind, [&](const Constant& kind) { text_ += constant_text(kind.value); },
        [&](const AxisRef& kind) { text_ += names_.axis(kind.axis); },
        [&](const SymbolRef& kind) { text_ += names_.symbol(kind.symbol); },
        [&](const AccRef& kind) { text_ += names_.accumulator(kind.index, kind.other); },
        [&](const Read& kind) { write_read(kind); }, [&](const Apply& kind) { write_apply(kind, node.dtype); });
  }

  static bool node_is_shareable(const Node& node) {
    return std::holds_alternative<Read>(node.kind) || std::holds_alternative<Apply>(node.kind);
  }

  void write_read(const Read& read) {
    text_ += names_.tensor(read.source) + "[";
    std::vector<Piece> rest;
    list(read.index, rest);
    rest.push_back({nullptr, "]"});
    if (read.pad == PadMode::Value && as_constant(read.pad_value) != nullptr) {
      rest.push_back({nullptr, " pad " + constant_text(*as_constant(read.pad_value))});
    } else if (read.pad == PadMode::Value) {
      rest.push_back({nullptr, " pad ("});
      rest.push_back({read.pad_value.get(), {}});
      rest.push_back({nullptr, ")"});
    }
    rest.push_back({nullptr, std::string(pad_text(read.pad)) + std::string(check_text(read.check))});
    postpone(std::move(rest));
  }

  void write_apply(const Apply& apply, DType dtype) {
    text_ += info(apply.opcode).text;
    if (info(apply.opcode).result == Result::Given) text_ += "." + std::string(name_of(dtype));
    text_ += "(";
    std::vector<Piece> rest;
    list(apply.args, rest);
    rest.push_back({nullptr, ")"});
    postpone(std::move(rest));
  }

  static void list(const std::vector<Expr>& items, std::vector<Piece>& rest) {
    for (const Expr& item : items) {
      if (!rest.empty()) rest.push_back({nullptr, ", "});
      rest.push_back({item.get(), {}});
    }
  }

  void postpone(std::vector<Piece> rest) {
    for (auto piece = rest.rbegin(); piece != rest.rend(); ++piece) pending_.push_back(std::move(*piece));
  }

  const Names& names_;
  std::unordered_map<const Node*, int> users_;
  std::unordered_map<const Node*, std::size_t> numbers_;
  std::vector<Piece> pending_;
  std::string text_;
};

}  // namespace

std::string to_text(const Expr& expr, const Names& names) {
  return Printer(expr, names).run();
}

}  // namespace corrloom::scalar
