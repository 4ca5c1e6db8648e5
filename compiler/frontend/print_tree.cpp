#include <utility>

#include "compiler/frontend/ast.h"
#include "ir/base/match.h"

namespace corrloom::frontend::ast {
namespace {

/// Writes `(word part part ...)`. Parts that are missing print as `_`, so that every node can be told from every other.
class TreePrinter {
 public:
  std::string take() { return std::move(out_); }

  void file(const File& file) {
    for (const Item& entry : file.items) {
      match(
          entry, [&](const Import& i) { import(i); }, [&](const Const& c) { constant(c); },
          [&](const Fn& f) { function(f); }, [&](const Op& o) { op(o); }, [&](const Grad& g) { gradient(g); });
      out_ += "\n";
    }
  }

  void expr(const ExprRef& node) {
    if (node == nullptr) {
      out_ += "_";
    } else {
      expr(*node);
    }
  }

  void expr(const Expr& node) {
    if (node.parenthesized) out_ += "(paren ";
    match(
        node.kind, [&](const Literal& n) { literal(n); }, [&](const Read& n) { read(n); },
        [&](const Call& n) { call(n); }, [&](const Reduction& n) { reduction(n); },
        [&](const Unary& n) {
          out_ += "(" + std::string(spelling(n.op)) + " ";
          expr(n.operand);
          out_ += ")";
        },
        [&](const Binary& n) {
          out_ += "(" + std::string(spelling(n.op)) + " ";
          expr(n.left);
          out_ += " ";
          expr(n.right);
          out_ += ")";
        },
        [&](const If& n) {
          out_ += "(if ";
          expr(n.condition);
          out_ += " ";
          expr(n.then_value);
          out_ += " ";
          expr(n.else_value);
          out_ += ")";
        },
        [&](const LetIn& n) {
          out_ += "(let " + n.name.text + " ";
          expr(n.value);
          out_ += " ";
          expr(n.body);
          out_ += ")";
        });
    if (node.parenthesized) out_ += ")";
  }

 private:
  template <class T, class Print>
  void spaced(const std::vector<T>& list, Print print) {
    for (const T& entry : list) {
      out_ += " ";
      print(entry);
    }
  }
  void names(const std::vector<Name>& list) {
    spaced(list, [&](const Name& name) { out_ += name.text; });
  }

  void literal(const Literal& node) {
    match(
        node.value,
        [&](const Integer& n) { out_ += n.overflows ? "(huge " + node.text + ")" : std::to_string(n.magnitude); },
        [&](const Decimal& n) { out_ += n.digits; }, [&](const Infinity&) { out_ += "inf"; },
        [&](const NotANumber&) { out_ += "nan"; }, [&](const Boolean& n) { out_ += n.value ? "true" : "false"; });
  }

  void read(const Read& node) {
    if (node.subscripts.empty() && !node.padding) {
      out_ += node.name.text;
      return;
    }
    out_ += "(read " + node.name.text;
    spaced(node.subscripts, [&](const Subscript& s) { subscript(s); });
    if (node.padding) {
      out_ += " (pad ";
      match(
          node.padding->kind, [&](PadMode mode) { out_ += "mode:" + std::string(spelling(mode)); },
          [&](const ExprRef& value) { expr(value); });
      out_ += ")";
    }
    out_ += ")";
  }

  void subscript(const Subscript& node) {
    match(
        node.kind, [&](const ExprRef& n) { expr(n); },
        [&](const Slice& n) {
          out_ += "(slice ";
          expr(n.begin);
          out_ += " ";
          expr(n.end);
          out_ += " ";
          expr(n.step);
          out_ += ")";
        },
        [&](const Pack& n) { out_ += "..." + n.name.text; });
  }

  void call(const Call& node) {
    out_ += "(call " + node.callee.text;
    spaced(node.attributes, [&](const NamedArgument& a) {
      out_ += "(attr " + a.name.text + " ";
      expr(a.value);
      out_ += ")";
    });
    spaced(node.arguments, [&](const Argument& a) { argument(a); });
    out_ += ")";
  }

  void argument(const Argument& node) {
    match(
        node.kind, [&](const ExprRef& n) { expr(n); },
        [&](const std::vector<Argument>& list) {
          out_ += "(list";
          spaced(list, [&](const Argument& a) { argument(a); });
          out_ += ")";
        });
  }

  void reduction(const Reduction& node) {
    out_ += "(" + std::string(spelling(node.kind)) + " (";
    indices(node.indices);
    out_ += ") ";
    expr(node.body);
    out_ += ")";
  }

  void indices(const std::vector<Index>& list) {
    bool is_first = true;
    for (const Index& index : list) {
      if (!is_first) out_ += " ";
      is_first = false;
      const std::string name = (index.is_pack ? "..." : "") + index.name.text;
      if (!index.range) {
        out_ += name;
        continue;
      }
      out_ += "(" + name + " ";
      if (index.range->begin) {
        expr(index.range->begin);
        out_ += " .. ";
      }
      expr(index.range->end);
      out_ += ")";
    }
  }

  void type(const Type& node) {
    out_ += "(type " + node.name.text;
    spaced(node.dims, [&](const Dim& dim) {
      match(
          dim.kind, [&](const ExprRef& n) { expr(n); }, [&](const Pack& n) { out_ += "..." + n.name.text; });
    });
    out_ += ")";
  }

  void type_parameters(const std::vector<TypeParameter>& list) {
    for (const TypeParameter& p : list) out_ += "\n  (tparam " + p.name.text + " " + p.type_class.text + ")";
  }

  void import(const Import& node) {
    out_ += "(import \"" + node.path + "\"" + (node.alias ? " as " + node.alias->text : "") + ")";
  }

  void constant(const Const& node) {
    out_ += "(const " + node.name.text + " ";
    if (node.type) {
      type(*node.type);
    } else {
      out_ += "_";
    }
    out_ += " ";
    argument(node.value);
    out_ += ")";
  }

  void function(const Fn& node) {
    out_ += "(fn " + node.name.text;
    type_parameters(node.type_parameters);
    for (const FnParameter& p : node.parameters) out_ += "\n  (param " + p.name.text + " " + p.type.text + ")";
    out_ += "\n  (result " + node.result.text + ")\n  ";
    expr(node.body);
    out_ += ")";
  }

  void op(const Op& node) {
    out_ += std::string(node.is_broken ? "(broken-op " : "(op ") + node.name.text;
    type_parameters(node.type_parameters);
    for (const Attribute& a : node.attributes) {
      out_ += "\n  (attr " + a.name.text + " " + a.type.text + " ";
      expr(a.default_value);
      out_ += ")";
    }
    for (const Parameter& p : node.parameters) parameter(p);
    for (const Result& r : node.results) {
      out_ += "\n  (result " + r.name.text + " ";
      type(r.type);
      if (r.in) out_ += " in " + r.in->text;
      out_ += ")";
    }
    for (const ExprRef& condition : node.where) {
      out_ += "\n  (where ";
      expr(condition);
      out_ += ")";
    }
    for (const With& w : node.with) out_ += "\n  (with " + w.name.text + " " + w.value.text + ")";
    for (const Statement& s : node.statements) statement(s);
    out_ += ")";
  }

  void parameter(const Parameter& node) {
    out_ += std::string("\n  (") + (node.is_owned ? "owned " : "param ") + node.name.text + " ";
    type(node.type);
    if (node.default_value) {
      out_ += " = ";
      literal(*node.default_value);
    }
    out_ += ")";
  }

  void statement(const Statement& node) {
    out_ += node.is_let ? "\n  (let " : "\n  (define ";
    match(
        node.target, [&](const Name& n) { out_ += n.text; },
        [&](const IndexedTarget& n) {
          out_ += "(" + n.name.text + " ";
          indices(n.indices);
          out_ += ")";
        },
        [&](const TupleTarget& n) {
          out_ += "(tuple";
          names(n.names);
          out_ += ")";
        });
    if (node.along) out_ += " along " + node.along->text;
    out_ += " ";
    expr(node.value);
    out_ += ")";
  }

  void gradient(const Grad& node) {
    out_ += "(grad " + node.name.text + " " + node.of.text + " wrt";
    names(node.wrt);
    out_ += ")";
  }

  std::string out_;
};

}  // namespace

std::string print_tree(const File& file) {
  TreePrinter printer;
  printer.file(file);
  return printer.take();
}

std::string print_tree(const Expr& expr) {
  TreePrinter printer;
  printer.expr(expr);
  return printer.take();
}

}  // namespace corrloom::frontend::ast
