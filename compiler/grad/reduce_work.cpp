#include "compiler/grad/reduce_work.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/grad/absorb.h"
#include "compiler/grad/algebra.h"
#include "compiler/grad/cost.h"
#include "compiler/grad/polynomial.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

/// Additions that take as long as moving one byte to or from memory.
constexpr int kFlopsPerByte = 2;

/// Additions that are no more than reading the value that they give from a cache.
constexpr int kBroadcastFlops = 4;

/// The reads of one tensor.
struct Uses {
  int reads = 0;
  bool is_padded = false;             ///< by some read: what is put there must be 0 outside, too
  bool is_padded_with_value = false;  ///< with something else than 0
  bool is_repeated = false;           ///< by some read inside a reduction, for values of a variable that is not in it
  bool is_broadcast = false;          ///< by some other read, for all values of an index of the left side
  bool is_whole = false;              ///< by a reshape
};

/// True for a value that no tensor and no index goes into: it is computed once wherever it stands.
bool is_symbolic(const Statement& statement) {
  bool symbolic = statement.body && statement.reductions.empty();
  if (!symbolic) return false;
  scalar::for_each_node(statement.body, [&](const Expr& node) {
    symbolic = symbolic && scalar::as_read(node) == nullptr && !std::holds_alternative<scalar::AxisRef>(node->kind);
  });
  return symbolic;
}

bool has_sum_of_negated(const Reduce& reduce) {
  return reduce.kind == ReduceKind::Sum && scalar::as_apply(reduce.body, Opcode::Neg) != nullptr;
}

class Work {
 public:
  Work(Derivative& derivative, const Intermediates& wishes) : derivative_(derivative), wishes_(wishes) {}

  std::vector<Choice> run() {
    drop_unused();
    // Producers come first: what is put in place of a read holds no read that could still be replaced.
    for (std::size_t k = 0; k < statements().size(); ++k) {
      const Statement statement = statements()[k];
      if (is_put_in_place(statement, k < derivative_.forward)) put_in_place(statement);
    }
    drop_unused();
    drop_copies();
    for (std::size_t k = derivative_.forward; k < statements().size(); ++k) {
      tidy(statements()[k]);
      const Statement statement = statements()[k];
      if (is_zero(statement) && !uses_of(statement.target).is_padded_with_value) put_in_place(statement);
    }
    drop_unused();
    return std::move(choices_);
  }

 private:
  std::vector<Statement>& statements() { return derivative_.notation.statements; }
  const Tensor& tensor(TensorId id) const { return derivative_.notation.tensor(id); }

  void drop_unused() {
    std::set<std::int32_t> needed;
    for (const TensorId id : derivative_.values) needed.insert(id.index);
    for (const TensorId id : derivative_.results) needed.insert(id.index);
    std::vector<bool> stays(statements().size());
    for (std::size_t k = statements().size(); k-- > 0;) {
      const Statement& statement = statements()[k];
      stays[k] = needed.count(statement.target.index) != 0;
      if (!stays[k]) continue;
      if (statement.reshaped) needed.insert(statement.reshaped.index);
      for_each_expr(statement, [&](const Expr& expr) {
        scalar::for_each_node(expr, [&](const Expr& node) {
          if (const scalar::Read* read = scalar::as_read(node)) needed.insert(read->source.index);
        });
      });
    }
    std::vector<Statement> left;
    std::size_t forward = 0;
    for (std::size_t k = 0; k < stays.size(); ++k) {
      if (!stays[k]) continue;
      forward += k < derivative_.forward;
      left.push_back(std::move(statements()[k]));
    }
    derivative_.forward = forward;
    statements() = std::move(left);
  }

  Uses uses_of(TensorId id) {
    Uses uses;
    const auto count = [&](const Expr& expr, const std::vector<AxisId>& around, bool Uses::*is_again) {
      scalar::for_each_node(expr, [&](const Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr || read->source != id) return;
        ++uses.reads;
        uses.is_padded = uses.is_padded || read->pad != scalar::PadMode::None;
        uses.is_padded_with_value =
            uses.is_padded_with_value || (read->pad != scalar::PadMode::None &&
                                          (read->pad != scalar::PadMode::Value || !is_number(read->pad_value, 0)));
        for (const AxisId axis : around) {
          const bool changes = std::any_of(read->index.begin(), read->index.end(),
                                           [&](const Expr& index) { return mentions(index, axis); });
          uses.*is_again = uses.*is_again || !changes;
        }
      });
    };
    for (const Statement& statement : statements()) {
      uses.is_whole = uses.is_whole || (statement.reshaped && statement.reshaped == id);
      if (statement.body) count(statement.body, statement.axes, &Uses::is_broadcast);
      for (const Reduce& reduce : statement.reductions) {
        std::vector<AxisId> around = statement.axes;
        for (const Loop& loop : reduce.loops) around.push_back(loop.axis);
        count(reduce.body, around, &Uses::is_repeated);
        for (const Loop& loop : reduce.loops) {
          if (loop.begin) count(loop.begin, {}, &Uses::is_repeated);
          count(loop.end, {}, &Uses::is_repeated);
        }
      }
    }
    return uses;
  }

  bool is_put_in_place(const Statement& statement, bool is_own) {
    const Tensor& whole = tensor(statement.target);
    if (whole.kind != Tensor::Kind::Local) return false;
    const Uses uses = uses_of(statement.target);
    const bool can_be = statement.body && statement.reductions.empty() && !uses.is_whole &&
                        !uses.is_padded_with_value && (!uses.is_padded || padded(statement));
    const int flops = statement.body ? flops_of(statement.body) : 0;
    const int bytes = byte_size(whole.dtype) * (1 + uses.reads);
    const bool is_again = uses.is_repeated || (uses.is_broadcast && flops > kBroadcastFlops);
    const bool is_cheap = flops == 0 || is_symbolic(statement) || (!is_again && uses.reads <= 1) ||
                          (!is_again && flops * uses.reads <= kFlopsPerByte * bytes);
    if (!is_own) return can_be && is_cheap;
    bool is_recomputed = can_be && is_cheap;
    std::string reason = std::to_string(flops) + " additions an element for each of " + std::to_string(uses.reads) +
                         " reads against " + std::to_string(bytes) + " bytes";
    if (!statement.reductions.empty()) reason = "is a reduction";
    if (!statement.body) reason = "is a reshape";
    if (uses.is_padded) reason = "is read with a pad";
    if (can_be && wishes_.mode != Intermediates::Mode::ByCost && flops > 0) {
      is_recomputed = wishes_.mode == Intermediates::Mode::RecomputeAll;
      reason = "as asked";
    }
    if (can_be && wishes_.keep.count(whole.name) != 0) {
      is_recomputed = false;
      reason = "as asked";
    }
    if (can_be && wishes_.recompute.count(whole.name) != 0) {
      is_recomputed = true;
      reason = "as asked";
    }
    choices_.push_back({whole.name, !is_recomputed, std::move(reason)});
    return is_recomputed;
  }

  /// The statement's value made to be 0 outside of its tensor; null when that cannot be.
  Expr padded(const Statement& statement) {
    Expr body = statement.body;
    for (std::size_t k = 0; body && k < statement.axes.size(); ++k)
      body = padded_at(derivative_.notation, body, statement.axes[k], tensor(statement.target).extents[k]);
    return body;
  }

  /// A result that is only a copy of a local tensor is defined in its place.
  void drop_copies() {
    for (std::size_t k = derivative_.forward; k < statements().size(); ++k) {
      const Statement copy = statements()[k];
      const scalar::Read* read = copy.body ? scalar::as_read(copy.body) : nullptr;
      if (read == nullptr || tensor(copy.target).kind != Tensor::Kind::Result) continue;
      if (!scalar::same(copy.body, element(derivative_.notation, read->source, copy.axes))) continue;
      const Uses uses = uses_of(read->source);
      if (uses.reads > 1 || uses.is_whole || tensor(read->source).kind != Tensor::Kind::Local) continue;
      for (std::size_t source = derivative_.forward; source < k; ++source) {
        if (statements()[source].target != read->source) continue;
        statements()[source].target = copy.target;
        for (std::size_t axis = 0; axis < statements()[source].axes.size(); ++axis)
          derivative_.notation.axis_names[static_cast<std::size_t>(statements()[source].axes[axis].index)] =
              derivative_.notation.name(copy.axes[axis]);
        statements().erase(statements().begin() + static_cast<std::ptrdiff_t>(k--));
        break;
      }
    }
  }

  /// In all places but those where a reduction would no longer use one of its variables, which the language wants.
  void put_in_place(const Statement& producer) {
    const auto placed = [&](const Expr& expr) { return expr ? with_value_in_place(expr, producer) : nullptr; };
    for (Statement& statement : statements()) {
      if (statement.body) statement.body = placed(statement.body);
      for (Reduce& reduce : statement.reductions) {
        std::vector<Loop> loops = reduce.loops;
        for (Loop& loop : loops) loop = {loop.axis, placed(loop.begin), placed(loop.end)};
        const Expr body = placed(reduce.body);
        if (!uses_all(body, loops)) continue;
        reduce.body = body;
        reduce.loops = std::move(loops);
      }
    }
  }

  Expr with_value_in_place(const Expr& expr, const Statement& producer) {
    return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
      const scalar::Read* read = scalar::as_read(node);
      if (read == nullptr || read->source != producer.target) return nullptr;
      const Expr body = read->pad == scalar::PadMode::None ? producer.body : padded(producer);
      return substitute(body, [&](AxisId axis) -> Expr {
        const auto found = std::find(producer.axes.begin(), producer.axes.end(), axis);
        if (found == producer.axes.end()) return nullptr;
        return read->index[static_cast<std::size_t>(found - producer.axes.begin())];
      });
    });
  }

  /// A local tensor of which nothing is left.
  bool is_zero(const Statement& statement) const {
    return statement.body && tensor(statement.target).kind == Tensor::Kind::Local && statement.reductions.empty() &&
           is_number(statement.body, 0);
  }

  /// What was put in place may leave `a * -b`, two equal terms or a sum of zeros behind.
  void tidy(Statement& statement) {
    if (!is_float(tensor(statement.target).dtype)) return;
    std::vector<Reduce> left;
    std::vector<Expr> values;  ///< by reduction: what stands for it now
    for (Reduce& reduce : statement.reductions) {
      Expr value = scalar::accumulator(static_cast<int>(left.size()), reduce.dtype);
      const Expr body = tidied(reduce.body);
      if (reduce.kind == ReduceKind::Sum && is_number(body, 0)) {
        values.push_back(body);
        continue;
      }
      // The language wants every variable used.
      if (uses_all(body, reduce.loops)) reduce.body = body;
      if (has_sum_of_negated(reduce)) {
        reduce.body = negate(reduce.body);
        value = scalar::apply(Opcode::Neg, {value});
      }
      left.push_back(std::move(reduce));
      values.push_back(value);
    }
    statement.reductions = std::move(left);
    if (!statement.body) return;
    statement.body = tidied(scalar::rewrite(statement.body, [&](const Expr& node) -> Expr {
      const auto* one = std::get_if<scalar::AccRef>(&node->kind);
      return one == nullptr ? nullptr : values[static_cast<std::size_t>(one->index)];
    }));
  }

  static bool uses_all(const Expr& body, const std::vector<Loop>& loops) {
    return std::all_of(loops.begin(), loops.end(), [&](const Loop& one) {
      return mentions(body, one.axis) || std::any_of(loops.begin(), loops.end(), [&](const Loop& other) {
               return (other.begin && mentions(other.begin, one.axis)) || mentions(other.end, one.axis);
             });
    });
  }

  /// Conditions stay as they are: they must choose as the op itself did.
  static Expr tidied(const Expr& expr) {
    std::unordered_map<const scalar::Node*, Expr> known;
    return tidied(expr, known);
  }
  static Expr tidied(const Expr& expr, std::unordered_map<const scalar::Node*, Expr>& known) {
    const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
    if (apply == nullptr || !is_float(expr->dtype)) return expr;
    const auto done = known.find(expr.get());
    if (done != known.end()) return done->second;
    std::vector<Expr> args;
    for (const Expr& arg : apply->args) args.push_back(is_float(arg->dtype) ? tidied(arg, known) : arg);
    Expr result = rebuilt(apply->opcode, args, expr);
    known.emplace(expr.get(), result);
    return result;
  }
  static Expr rebuilt(Opcode opcode, const std::vector<Expr>& args, const Expr& expr) {
    switch (opcode) {
      case Opcode::Add:
        return add(args[0], args[1]);
      case Opcode::Sub:
        return subtract(args[0], args[1]);
      case Opcode::Mul:
        return multiply(args[0], args[1]);
      case Opcode::Div:
        return divide(args[0], args[1]);
      case Opcode::Neg:
        return negate(args[0]);
      case Opcode::If:
        return choose(args[0], args[1], args[2]);
      case Opcode::Cast:
        return scalar::cast(args[0], expr->dtype);
      default:
        return scalar::apply(opcode, args);
    }
  }

  Derivative& derivative_;
  const Intermediates& wishes_;
  std::vector<Choice> choices_;
};

}  // namespace

std::vector<Choice> reduce_work(Derivative& derivative, const Intermediates& wishes) {
  return Work(derivative, wishes).run();
}

}  // namespace corrloom::grad
