#include "compiler/grad/notation.h"

#include <functional>
#include <unordered_map>

#include "compiler/grad/algebra.h"
#include "compiler/grad/polynomial.h"
#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::grad {

using scalar::Opcode;

TensorId Notation::add(Tensor tensor) {
  tensors.push_back(std::move(tensor));
  return {static_cast<std::int32_t>(tensors.size()) - 1};
}

AxisId Notation::new_axis(std::string name) {
  axis_names.push_back(std::move(name));
  return {static_cast<std::int32_t>(axis_names.size()) - 1};
}

bool is_pack_extent(const Notation& notation, const Expr& extent) {
  const auto* symbol = std::get_if<scalar::SymbolRef>(&extent->kind);
  return symbol != nullptr &&
         notation.symbols[static_cast<std::size_t>(symbol->symbol.index)].name.find('.') != std::string::npos;
}

void for_each_expr(const Statement& statement, const std::function<void(const Expr&)>& visit) {
  if (statement.body) visit(statement.body);
  for (const Reduce& reduce : statement.reductions) {
    for (const Loop& loop : reduce.loops) {
      if (loop.begin) visit(loop.begin);
      visit(loop.end);
    }
    visit(reduce.body);
  }
}

namespace {

/// Replaces axes from the leaves up; whatever holds an i64 expression that changed has it tidied.
class Substitution {
 public:
  explicit Substitution(const std::function<Expr(AxisId)>& replacement) : replacement_(replacement) {}

  Expr run(const Expr& expr) {
    const Expr result = visit(expr);
    return result == expr ? expr : tidy_index(result);
  }

 private:
  Expr visit(const Expr& expr) {
    const auto known = done_.find(expr.get());
    if (known != done_.end()) return known->second;
    Expr result = match(
        expr->kind, [&](const scalar::Constant&) { return expr; },
        [&](const scalar::AxisRef& reference) {
          const Expr other = replacement_(reference.axis);
          return other ? other : expr;
        },
        [&](const scalar::SymbolRef&) { return expr; }, [&](const scalar::AccRef&) { return expr; },
        [&](const scalar::Read& read) { return visit_read(read, expr); },
        [&](const scalar::Apply& apply) { return visit_apply(apply, expr); });
    done_.emplace(expr.get(), result);
    return result;
  }

  Expr visit_read(const scalar::Read& read, const Expr& expr) {
    scalar::Read other = read;
    bool changed = false;
    for (Expr& index : other.index) {
      const Expr before = index;
      index = run(index);
      changed = changed || index != before;
    }
    if (read.pad_value) {
      other.pad_value = run(read.pad_value);
      changed = changed || other.pad_value != read.pad_value;
    }
    return changed ? scalar::read(std::move(other), expr->dtype) : expr;
  }

  Expr visit_apply(const scalar::Apply& apply, const Expr& expr) {
    // Sums and products of integers are tidied as a whole, by what holds them.
    const bool is_index = expr->dtype == DType::I64;
    std::vector<Expr> args;
    bool changed = false;
    for (const Expr& arg : apply.args) {
      args.push_back(is_index ? visit(arg) : run(arg));
      changed = changed || args.back() != arg;
    }
    if (!changed) return expr;
    if (apply.opcode == Opcode::Cast) return scalar::cast(args[0], expr->dtype);
    if (apply.opcode == Opcode::Bitcast) return scalar::bitcast(args[0], expr->dtype);
    return scalar::apply(apply.opcode, std::move(args));
  }

  const std::function<Expr(AxisId)>& replacement_;
  std::unordered_map<const scalar::Node*, Expr> done_;
};

/// Takes one graph apart.
class Reader {
 public:
  explicit Reader(const tensor::Graph& graph) : graph_(graph) {}

  Notation run() {
    notation_.symbols = graph_.symbols;
    notation_.axis_names = graph_.axis_names;
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      const tensor::Op& op = graph_.ops[k];
      const TensorId id{static_cast<std::int32_t>(k)};
      Tensor tensor{op.name, op.dtype, op.extents};
      if (std::holds_alternative<tensor::Input>(op.kind)) tensor.kind = Tensor::Kind::Input;
      if (std::holds_alternative<tensor::Literal>(op.kind)) tensor.kind = Tensor::Kind::Literal;
      notation_.tensors.push_back(std::move(tensor));
      match(
          op.kind, [](const tensor::Input&) {}, [](const tensor::Literal&) {},
          [&](const tensor::Compute& compute) { add_compute(id, compute); },
          [&](const tensor::View& view) { add_view(id, op, view); },
          [&](const tensor::Reshape& reshape) {
            notation_.statements.push_back({id, {}, nullptr, {}, reshape.source});
          });
    }
    return std::move(notation_);
  }

 private:
  void add_view(TensorId id, const tensor::Op& op, const tensor::View& view) {
    Statement statement{id};
    for (const tensor::Axis& axis : view.axes) statement.axes.push_back(axis.id);
    statement.body = scalar::read({view.source, view.index}, op.dtype);
    notation_.statements.push_back(std::move(statement));
  }

  void add_compute(TensorId id, const tensor::Compute& compute) {
    Statement statement{id};
    for (const tensor::Axis& axis : compute.axes) statement.axes.push_back(axis.id);
    statement.body = plain(compute.body);
    if (compute.reduction) add_reduction(statement, *compute.reduction);
    notation_.statements.push_back(std::move(statement));
  }

  void add_reduction(Statement& statement, const tensor::Reduction& reduction) {
    Reduce reduce = recognised(reduction);
    for (const tensor::Axis& axis : reduction.axes) {
      Expr length = plain(axis.extent);
      // A range whose end is not above its start is empty by itself.
      const scalar::Apply* most = scalar::as_apply(length, Opcode::Max);
      if (most != nullptr && scalar::is_constant_i64(most->args[1], 0)) length = most->args[0];
      const Expr begin = axis.origin ? plain(axis.origin) : nullptr;
      Polynomial end = Polynomial::of(length);
      if (begin) end = end + Polynomial::of(begin);
      reduce.loops.push_back({axis.id, begin, begin ? end.expr() : length});
    }
    // Variables with an origin are counted from 0 in the graph, and have their own values here.
    std::unordered_map<AxisId, Expr> origins;
    for (const tensor::Axis& axis : reduction.axes) {
      if (axis.origin) origins.emplace(axis.id, plain(axis.origin));
    }
    const auto shifted = [&](AxisId axis) -> Expr {
      const auto origin = origins.find(axis);
      if (origin == origins.end()) return nullptr;
      return scalar::apply(Opcode::Sub, {scalar::axis(axis), origin->second});
    };
    if (!origins.empty()) {
      reduce.body = substitute(reduce.body, shifted);
      for (Loop& loop : reduce.loops) {
        if (loop.begin) loop.begin = substitute(loop.begin, shifted);
        loop.end = substitute(loop.end, shifted);
      }
    }
    fit_narrow(statement, reduce);
    statement.reductions.push_back(std::move(reduce));
  }

  /// A sum of f16 or bf16 is carried in f32 and rounded at its end; the language writes it without the casts.
  static void fit_narrow(Statement& statement, Reduce& reduce) {
    const bool may_be = reduce.kind == ReduceKind::Sum || reduce.kind == ReduceKind::Prod;
    DType narrow = DType::F32;
    scalar::for_each_node(statement.body, [&](const Expr& node) {
      const scalar::Apply* cast = scalar::as_apply(node, Opcode::Cast);
      if (cast != nullptr && std::holds_alternative<scalar::AccRef>(cast->args[0]->kind) &&
          is_narrow_float(node->dtype))
        narrow = node->dtype;
    });
    const Expr body = may_be && is_narrow_float(narrow) ? narrow_product(reduce.body, narrow) : nullptr;
    if (!body) return;
    reduce.body = body;
    reduce.dtype = narrow;
    statement.body = scalar::rewrite(statement.body, [&](const Expr& node) -> Expr {
      const scalar::Apply* cast = scalar::as_apply(node, Opcode::Cast);
      if (cast != nullptr && std::holds_alternative<scalar::AccRef>(cast->args[0]->kind) && node->dtype == narrow)
        return scalar::accumulator(0, narrow);
      return nullptr;
    });
  }

  /// The product with each factor in its own dtype; null when it is no such product.
  static Expr narrow_product(const Expr& expr, DType narrow) {
    if (const scalar::Apply* cast = scalar::as_apply(expr, Opcode::Cast);
        cast != nullptr && cast->args[0]->dtype == narrow)
      return cast->args[0];
    if (const scalar::Apply* product = scalar::as_apply(expr, Opcode::Mul)) {
      const Expr left = narrow_product(product->args[0], narrow), right = narrow_product(product->args[1], narrow);
      return left && right ? scalar::apply(Opcode::Mul, {left, right}) : nullptr;
    }
    // The guard of a reduction that stands under a condition.
    if (const scalar::Apply* choice = scalar::as_apply(expr, Opcode::If);
        choice != nullptr && scalar::as_constant(choice->args[2]) != nullptr) {
      const Expr taken = narrow_product(choice->args[1], narrow);
      const double neutral = scalar::as_constant(choice->args[2])->as_f64();
      return taken ? scalar::apply(Opcode::If, {choice->args[0], taken, number(narrow, neutral)}) : nullptr;
    }
    return nullptr;
  }

  /// The reduction's kind and element, from how it combines.
  Reduce recognised(const tensor::Reduction& reduction) {
    const bool picks = reduction.accumulators.size() == 2;
    const tensor::Accumulator& first = reduction.accumulators.front();
    Reduce reduce;
    reduce.dtype = first.dtype;
    Expr step = first.step;
    Expr condition;
    if (const scalar::Apply* guard = scalar::as_apply(step, Opcode::If)) {
      condition = guard->args[0];
      step = guard->args[1];
    }
    const auto* apply = std::get_if<scalar::Apply>(&step->kind);
    CORRLOOM_CHECK(apply != nullptr, "a reduction of an unknown kind");
    reduce.body = plain(apply->args[1]);
    if (picks) {
      const double worst = scalar::as_constant(first.init)->as_f64();
      reduce.kind = worst > 0 ? ReduceKind::ArgMin : ReduceKind::ArgMax;
      reduce.dtype = DType::I64;
    } else {
      reduce.kind = kind_of(apply->opcode);
    }
    if (condition) {
      const Expr neutral = first.init;
      reduce.body = scalar::apply(Opcode::If, {plain(condition), reduce.body, neutral});
    }
    return reduce;
  }

  static ReduceKind kind_of(Opcode opcode) {
    switch (opcode) {
      case Opcode::Add:
        return ReduceKind::Sum;
      case Opcode::Mul:
        return ReduceKind::Prod;
      case Opcode::Min:
        return ReduceKind::Min;
      case Opcode::Max:
        return ReduceKind::Max;
      case Opcode::Or:
        return ReduceKind::Any;
      case Opcode::And:
        return ReduceKind::All;
      default:
        break;
    }
    CORRLOOM_CHECK(false, "a reduction by ", scalar::info(opcode).text, " is none of the language");
    return ReduceKind::Sum;
  }

  /// Without fences, which have no text, and with the one reduction as AccRef 0.
  static Expr plain(const Expr& expr) {
    return scalar::rewrite(expr, [](const Expr& node) -> Expr {
      if (const scalar::Apply* fence = scalar::as_apply(node, Opcode::Fence)) return fence->args[0];
      const auto* reference = std::get_if<scalar::AccRef>(&node->kind);
      if (reference != nullptr && reference->index != 0) return scalar::accumulator(0, node->dtype);
      return nullptr;
    });
  }

  const tensor::Graph& graph_;
  Notation notation_;
};

}  // namespace

Expr substitute(const Expr& expr, const std::function<Expr(AxisId)>& replacement) {
  return Substitution(replacement).run(expr);
}

Expr element(const Notation& notation, TensorId tensor, const std::vector<AxisId>& axes) {
  scalar::Read read{tensor, {}};
  for (const AxisId axis : axes) read.index.push_back(scalar::axis(axis));
  return scalar::read(std::move(read), notation.tensor(tensor).dtype);
}

Notation notation_of(const tensor::Graph& graph) {
  return Reader(graph).run();
}

}  // namespace corrloom::grad
