#include "compiler/grad/write_op.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/grad/expr_writer.h"
#include "compiler/grad/polynomial.h"
#include "ir/base/match.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

/// A name of the graph as an identifier: `t.softmax.m` is `t_softmax_m`.
std::string identifier(const std::string& name) {
  std::string text = name.empty() ? "i" : name;
  for (char& c : text) {
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_good) c = '_';
  }
  return text;
}

/// Where a variable stands alone as a subscript, so that its range need not be written.
class RangeSources {
 public:
  RangeSources(const Notation& notation, AxisId axis) : notation_(notation), axis_(axis) {}

  void visit(const Expr& expr, bool is_conditional = false) {
    if (const scalar::Read* read = scalar::as_read(expr)) {
      for (std::size_t k = 0; k < read->index.size(); ++k) {
        const auto* alone = std::get_if<scalar::AxisRef>(&read->index[k]->kind);
        if (alone != nullptr && alone->axis == axis_ && !is_conditional && read->pad == scalar::PadMode::None)
          extents_.push_back(notation_.tensor(read->source).extents[k]);
        visit(read->index[k], is_conditional);
      }
      return;
    }
    const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
    if (apply == nullptr) return;
    const bool is_lazy =
        apply->opcode == Opcode::If || apply->opcode == Opcode::LazyAnd || apply->opcode == Opcode::LazyOr;
    const bool is_about = is_lazy && mentions(apply->args[0], axis_);
    for (std::size_t k = 0; k < apply->args.size(); ++k) visit(apply->args[k], is_conditional || (is_about && k > 0));
  }

  /// True when the reads give the range [0, end).
  bool give(const Expr& end) const {
    return !extents_.empty() && std::all_of(extents_.begin(), extents_.end(), [&](const Expr& extent) {
      return Polynomial::of(extent) == Polynomial::of(end);
    });
  }

 private:
  const Notation& notation_;
  AxisId axis_;
  std::vector<Expr> extents_;
};

class OpWriter {
 public:
  OpWriter(const Derivative& derivative, const Signature& signature, const tensor::Graph& graph)
      : derivative_(derivative), notation_(derivative.notation), signature_(signature), graph_(graph) {}

  std::string run() {
    name_everything();
    std::string text = literals() + "op " + signature_.name + head() + " {\n";
    for (const Statement& statement : notation_.statements) text += "  " + write(statement) + "\n";
    return text + "}\n";
  }

 private:
  // ---- Names ----

  std::string unique(const std::string& wish) {
    std::string name = wish;
    for (int k = 2; taken_.count(name) != 0; ++k) name = wish + (is_digit(wish.back()) ? "_" : "") + std::to_string(k);
    return name;
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  void name_everything() {
    taken_.insert(signature_.name);
    taken_.insert(signature_.taken.begin(), signature_.taken.end());
    for (const tensor::Symbol& symbol : notation_.symbols) taken_.insert(symbol.name);
    for (const Signature::Declared& parameter : signature_.parameters) taken_.insert(parameter.name);
    const auto fix = [&](TensorId id, const std::string& wish) {
      names_[id.index] = unique(wish);
      taken_.insert(names_[id.index]);
    };
    for (std::size_t k = 0; k < graph_.inputs.size(); ++k)
      names_[graph_.inputs[k].index] = graph_.op(graph_.inputs[k]).name;
    for (std::size_t k = 0; k < derivative_.cotangents.size(); ++k)
      fix(derivative_.cotangents[k], notation_.tensor(derivative_.cotangents[k]).name);
    for (const TensorId id : derivative_.values) fix(id, notation_.tensor(id).name);
    for (const TensorId id : derivative_.results) fix(id, notation_.tensor(id).name);
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      const TensorId id{static_cast<std::int32_t>(k)};
      if (std::holds_alternative<tensor::Literal>(graph_.ops[k].kind) && is_read(id))
        fix(id, identifier(graph_.ops[k].name));
    }
    for (const Statement& statement : notation_.statements) {
      if (names_.count(statement.target.index) == 0)
        fix(statement.target, identifier(notation_.tensor(statement.target).name));
    }
  }

  bool is_read(TensorId id) const {
    bool found = false;
    for (const Statement& statement : notation_.statements) {
      found = found || statement.reshaped == id;
      for_each_expr(statement, [&](const Expr& expr) {
        scalar::for_each_node(expr, [&](const Expr& node) {
          const scalar::Read* read = scalar::as_read(node);
          found = found || (read != nullptr && read->source == id);
        });
      });
    }
    return found;
  }

  ExprWriter::Names writer_names(const std::vector<std::string>* reductions) {
    return {[this](AxisId axis) { return axes_.count(axis) != 0 ? axes_.at(axis) : identifier(notation_.name(axis)); },
            [this](SymbolId symbol) { return notation_.symbols[static_cast<std::size_t>(symbol.index)].name; },
            [this](TensorId tensor) { return names_.at(tensor.index); },
            [reductions](int k) { return (*reductions)[static_cast<std::size_t>(k)]; },
            [this] {
              // Not the name of a variable of this statement: what is named may stand around it.
              std::string name = "t";
              for (int k = 2; taken_.count(name) != 0 || bound_.count(name) != 0; ++k) name = "t" + std::to_string(k);
              taken_.insert(name);
              value_names_.push_back(name);
              return name;
            },
            [this](DType dtype) { return dtype_name(dtype); },
            [this](const Expr& expr) { return has_dtype(expr); }};
  }

  std::string dtype_name(DType dtype) const {
    const auto found = signature_.dtype_names.find(dtype);
    return found == signature_.dtype_names.end() ? std::string(name_of(dtype)) : found->second;
  }

  /// True when something in the expression has a dtype: literals and float attributes have none.
  bool has_dtype(const Expr& expr) const {
    const auto is_attribute = [&](const scalar::SymbolRef& reference) {
      const std::string& name = notation_.symbols[static_cast<std::size_t>(reference.symbol.index)].name;
      return std::any_of(signature_.attributes.begin(), signature_.attributes.end(),
                         [&](const Signature::Declared& one) { return one.name == name; });
    };
    bool found = false;
    scalar::for_each_node(expr, [&](const Expr& node) {
      const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
      const bool is_literal =
          scalar::as_constant(node) != nullptr || (symbol != nullptr && is_float(node->dtype) && is_attribute(*symbol));
      found = found || (!is_literal && scalar::children(node).empty()) || scalar::as_read(node) != nullptr;
    });
    return found;
  }

  // ---- The head ----

  std::string literals() {
    std::string text;
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      const auto* literal = std::get_if<tensor::Literal>(&graph_.ops[k].kind);
      const auto name = names_.find(static_cast<std::int32_t>(k));
      if (literal == nullptr || name == names_.end()) continue;
      const tensor::Op& op = graph_.ops[k];
      std::string shape;
      std::vector<std::size_t> extents;
      for (const Expr& extent : op.extents) {
        extents.push_back(static_cast<std::size_t>(*scalar::as_i64(extent)));
        shape += (shape.empty() ? "" : ", ") + std::to_string(extents.back());
      }
      std::size_t at = 0;
      text += "const " + name->second + ": " + dtype_name(op.dtype) + "[" + shape +
              "] = " + list(*literal, extents, 0, at) + "\n\n";
    }
    return text;
  }

  std::string list(const tensor::Literal& literal, const std::vector<std::size_t>& extents, std::size_t depth,
                   std::size_t& at) {
    if (depth == extents.size()) {
      ExprWriter writer(writer_names(nullptr));
      return writer.write_value(scalar::constant(literal.values[at++])).text;
    }
    std::string text = "[";
    for (std::size_t k = 0; k < extents[depth]; ++k)
      text += (k == 0 ? "" : ", ") + list(literal, extents, depth + 1, at);
    return text + "]";
  }

  std::string head() {
    std::string text;
    for (const std::string& parameter : signature_.type_parameters) text += (text.empty() ? "<" : ", ") + parameter;
    if (!text.empty()) text += ">";
    return text + head_behind_types();
  }

  std::string head_behind_types() {
    std::string text;
    for (const Signature::Declared& attribute : signature_.attributes)
      text += (text.empty() ? "[" : ", ") + attribute.text;
    if (!text.empty()) text += "]";
    text += "(";
    std::string parameters;
    for (const Signature::Declared& parameter : signature_.parameters)
      parameters += (parameters.empty() ? "" : ", ") + parameter.text;
    for (std::size_t k = 0; k < signature_.cotangents.size(); ++k) {
      parameters += (parameters.empty() ? "" : ", ") + names_.at(derivative_.cotangents[k].index) + ": " +
                    signature_.cotangents[k].type;
    }
    text += parameters + ") -> ";
    const bool several = signature_.values.size() + signature_.results.size() > 1;
    std::string results;
    const auto add = [&](TensorId id, const std::string& type) {
      results += (results.empty() ? "" : ", ") + names_.at(id.index) + ": " + type;
    };
    for (std::size_t k = 0; k < signature_.values.size(); ++k) add(derivative_.values[k], signature_.values[k].type);
    for (std::size_t k = 0; k < signature_.results.size(); ++k) add(derivative_.results[k], signature_.results[k].type);
    text += several ? "(" + results + ")" : results;
    std::vector<std::string> clauses = signature_.where;
    for (const Expr& condition : derivative_.required) {
      ExprWriter writer(writer_names(nullptr));
      const std::string clause = writer.write_value(condition).text;
      if (std::find(clauses.begin(), clauses.end(), clause) == clauses.end()) clauses.push_back(clause);
    }
    for (std::size_t k = 0; k < clauses.size(); ++k) text += (k == 0 ? " where " : ", ") + clauses[k];
    for (std::size_t k = 0; k < signature_.with.size(); ++k) text += " " + signature_.with[k];
    return text;
  }

  // ---- Statements ----

  /// Gives a variable a name that nothing in scope has; one over the dimensions of a pack is written `...d`.
  void bind(AxisId axis, const Expr& end) {
    const bool is_pack = is_pack_extent(notation_, end);
    std::string wish = notation_.name(axis);
    if (is_pack) wish = wish.substr(0, wish.find('.'));
    const std::string name = wish.empty() ? unnamed() : unique(identifier(wish));
    axes_[axis] = is_pack ? "..." + name : name;
    taken_.insert(name);
    bound_.insert(name);
  }
  std::string unnamed() {
    for (const char* name : {"i", "j", "k", "l", "m", "n"}) {
      if (taken_.count(name) == 0) return name;
    }
    return unique("i");
  }
  void unbind(AxisId axis) {
    const std::string& name = axes_.at(axis);
    taken_.erase(name[0] == '.' ? name.substr(3) : name);
    axes_.erase(axis);
  }

  std::string write(const Statement& statement) {
    const Tensor& target = notation_.tensor(statement.target);
    const std::string word = target.kind == Tensor::Kind::Local ? "let " : "";
    std::string text = word + names_.at(statement.target.index);
    if (!statement.body) {
      std::string extents;
      for (const Expr& extent : target.extents) {
        ExprWriter writer(writer_names(nullptr));
        extents += (extents.empty() ? "" : ", ") + writer.write_value(extent).text;
      }
      return text + " = reshape(" + names_.at(statement.reshaped.index) + ", [" + extents + "])";
    }
    for (std::size_t k = 0; k < statement.axes.size(); ++k) bind(statement.axes[k], target.extents[k]);
    std::string left;
    for (std::size_t k = 0; k < statement.axes.size(); ++k) {
      left += (left.empty() ? "[" : ", ") + axes_.at(statement.axes[k]);
      const bool is_pack = is_pack_extent(notation_, target.extents[k]);
      if (target.kind == Tensor::Kind::Local && !is_pack && !is_range_given(statement, k)) {
        ExprWriter writer(writer_names(nullptr));
        left += ": " + writer.write_bound(target.extents[k]);
      }
    }
    if (!left.empty()) left += "]";
    std::vector<std::string> reductions;
    for (const Reduce& reduce : statement.reductions) reductions.push_back(write(reduce));
    ExprWriter writer(writer_names(&reductions));
    std::string value = writer.write_value(statement.body).text;
    // A value of literals alone has no dtype of its own.
    if (target.kind == Tensor::Kind::Local && !has_dtype(statement.body))
      value = dtype_name(target.dtype) + "(" + value + ")";
    for (const AxisId axis : statement.axes) unbind(axis);
    for (const std::string& name : value_names_) taken_.erase(name);
    value_names_.clear();
    bound_.clear();
    return text + left + " = " + value;
  }

  bool is_range_given(const Statement& statement, std::size_t k) const {
    RangeSources sources(notation_, statement.axes[k]);
    sources.visit(statement.body);
    for (const Reduce& reduce : statement.reductions) sources.visit(reduce.body);
    return sources.give(notation_.tensor(statement.target).extents[k]);
  }

  std::string write(const Reduce& reduce) {
    for (const Loop& loop : reduce.loops) bind(loop.axis, loop.end);
    std::string indices;
    for (const Loop& loop : reduce.loops) {
      indices += (indices.empty() ? "" : ", ") + axes_.at(loop.axis);
      RangeSources sources(notation_, loop.axis);
      sources.visit(reduce.body);
      ExprWriter writer(writer_names(nullptr));
      if (loop.begin) {
        indices += ": " + writer.write_bound(loop.begin) + ".." + writer.write_bound(loop.end);
      } else if (!is_pack_extent(notation_, loop.end) && !sources.give(loop.end)) {
        indices += ": " + writer.write_bound(loop.end);
      }
    }
    ExprWriter writer(writer_names(nullptr));
    std::string text =
        std::string(tensor::name_of(reduce.kind)) + "(" + indices + ") " + writer.write_body(reduce.body);
    for (const Loop& loop : reduce.loops) unbind(loop.axis);
    return text;
  }

  const Derivative& derivative_;
  const Notation& notation_;
  const Signature& signature_;
  const tensor::Graph& graph_;
  std::set<std::string> taken_;
  std::set<std::string> bound_;  ///< names of variables in the statement that is written
  std::map<std::int32_t, std::string> names_;
  std::map<AxisId, std::string> axes_;
  std::vector<std::string> value_names_;
};

}  // namespace

std::string write_op(const Derivative& derivative, const Signature& signature, const tensor::Graph& graph) {
  return OpWriter(derivative, signature, graph).run();
}

}  // namespace corrloom::grad
