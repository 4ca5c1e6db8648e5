#include "compiler/grad/differentiate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "compiler/grad/algebra.h"
#include "compiler/grad/cost.h"
#include "compiler/grad/partials.h"
#include "compiler/grad/transpose.h"
#include "ir/base/errors.h"
#include "ir/base/match.h"
#include "ir/tensor/sequence.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

bool uses_reduction(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr,
                        [&](const Expr& node) { found = found || std::holds_alternative<scalar::AccRef>(node->kind); });
  return found;
}

/// True when the reduction is only added to something: then its derivative does not need its value.
bool is_sum_with_reduction(const Expr& expr) {
  if (std::holds_alternative<scalar::AccRef>(expr->kind)) return true;
  const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
  if (apply == nullptr) return false;
  switch (apply->opcode) {
    case Opcode::Neg:
    case Opcode::Cast:
      return is_sum_with_reduction(apply->args[0]);
    case Opcode::Add:
    case Opcode::Sub:
      return (is_sum_with_reduction(apply->args[0]) && !uses_reduction(apply->args[1])) ||
             (is_sum_with_reduction(apply->args[1]) && !uses_reduction(apply->args[0]));
    default:
      return false;
  }
}

bool is_symbolic(const Expr& expr) {
  bool symbolic = true;
  scalar::for_each_node(expr, [&](const Expr& node) {
    symbolic = symbolic && !std::holds_alternative<scalar::AxisRef>(node->kind) && scalar::as_read(node) == nullptr;
  });
  return symbolic;
}

/// A name that whole-tensor forms make up: `d0`.
bool is_made_up(const std::string& name) {
  return name.empty() || (name[0] == 'd' && name.size() > 1 &&
                          std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

class Differentiation {
 public:
  Differentiation(const tensor::Graph& graph, const std::vector<Variable>& variables, bool with_values)
      : graph_(graph), variables_(variables), with_values_(with_values) {
    result_.notation = notation_of(graph);
  }

  std::variant<Derivative, Refusal> run() {
    split_reductions();
    if (with_values_) add_values();
    result_.forward = notation().statements.size();
    find_active();
    add_cotangents();
    for (std::size_t k = result_.forward; k-- > 0 && !refusal_;) reverse(k);
    if (refusal_) return *refusal_;
    for (const Variable& variable : variables_) add_result(variable);
    return std::move(result_);
  }

 private:
  Notation& notation() { return result_.notation; }

  // ---- Before ----

  /// Reductions whose value the derivative needs become statements of their own.
  void split_reductions() {
    std::vector<Statement> before = std::move(notation().statements), after;
    for (Statement& statement : before) {
      const bool has_one = statement.body && !statement.reductions.empty();
      const bool is_bare = has_one && std::holds_alternative<scalar::AccRef>(statement.body->kind);
      const ReduceKind kind = has_one ? statement.reductions.front().kind : ReduceKind::Sum;
      const bool is_enough = kind == ReduceKind::Sum && has_one && is_sum_with_reduction(statement.body);
      if (has_one && !is_bare && !is_enough) after.push_back(split(statement));
      after.push_back(std::move(statement));
    }
    notation().statements = std::move(after);
  }

  /// Takes the reduction out of a statement, which then reads it.
  Statement split(Statement& statement) {
    const Tensor whole = notation().tensor(statement.target);
    const std::string suffix(tensor::name_of(statement.reductions.front().kind));
    const TensorId part = notation().add(
        {whole.name + "." + suffix, statement.reductions.front().dtype, whole.extents, Tensor::Kind::Local});
    origins_[part.index] = statement.target;
    Statement reduction{part, statement.axes, scalar::accumulator(0, statement.reductions.front().dtype),
                        std::move(statement.reductions)};
    std::unordered_map<AxisId, Expr> renamed;
    for (AxisId& axis : statement.axes) {
      const AxisId other = notation().new_axis(notation().name(axis));
      renamed.emplace(axis, scalar::axis(other));
      axis = other;
    }
    statement.body = substitute(statement.body, [&](AxisId axis) -> Expr {
      const auto found = renamed.find(axis);
      return found == renamed.end() ? nullptr : found->second;
    });
    const Expr read = element(notation(), part, statement.axes);
    statement.body = scalar::rewrite(statement.body, [&](const Expr& node) -> Expr {
      return std::holds_alternative<scalar::AccRef>(node->kind) ? read : nullptr;
    });
    statement.reductions.clear();
    return reduction;
  }

  /// Which tensors and scalars a variable has an influence on.
  void find_active() {
    is_active_.resize(notation().tensors.size());
    for (const Variable& variable : variables_) {
      match(
          variable.id, [&](const TensorId& id) { is_active_[static_cast<std::size_t>(id.index)] = true; },
          [&](const SymbolId& id) { active_symbols_.push_back(id); });
    }
    for (const Statement& statement : notation().statements) {
      bool reads = statement.reshaped && is_active_[static_cast<std::size_t>(statement.reshaped.index)];
      for_each_expr(statement, [&](const Expr& expr) {
        scalar::for_each_node(expr, [&](const Expr& node) { reads = reads || is_wanted(node); });
      });
      if (is_float(notation().tensor(statement.target).dtype))
        is_active_[static_cast<std::size_t>(statement.target.index)] = reads;
    }
  }

  /// True for a leaf that a variable has an influence on.
  bool is_wanted(const Expr& leaf) const {
    if (const scalar::Read* read = scalar::as_read(leaf))
      return is_float(leaf->dtype) && static_cast<std::size_t>(read->source.index) < is_active_.size() &&
             is_active_[static_cast<std::size_t>(read->source.index)];
    const auto* symbol = std::get_if<scalar::SymbolRef>(&leaf->kind);
    return symbol != nullptr &&
           std::find(active_symbols_.begin(), active_symbols_.end(), symbol->symbol) != active_symbols_.end();
  }

  // ---- What elements receive ----

  struct Received {
    std::vector<AxisId> at;
    std::vector<Gather> gathers;
  };

  Received& received(TensorId id) {
    const auto [place, is_new] = received_.try_emplace(id.index);
    if (is_new) {
      const std::size_t rank = notation().tensor(id).extents.size();
      for (std::size_t k = 0; k < rank; ++k) place->second.at.push_back(notation().new_axis(""));
    }
    return place->second;
  }

  /// The op's own results become results of what is printed: a value that is one already, or an argument, is copied.
  void add_values() {
    for (const tensor::Output& output : graph_.outputs) {
      TensorId id = output.value;
      if (notation().tensor(id).kind != Tensor::Kind::Local) {
        const Tensor whole = notation().tensor(id);
        id = notation().add({"", whole.dtype, whole.extents, Tensor::Kind::Local});
        Statement copy{id, {}};
        for (std::size_t k = 0; k < whole.extents.size(); ++k) copy.axes.push_back(notation().new_axis(""));
        copy.body = element(notation(), output.value, copy.axes);
        notation().statements.push_back(std::move(copy));
      }
      notation().tensor(id).kind = Tensor::Kind::Result;
      notation().tensor(id).name = output.name;
      result_.values.push_back(id);
    }
  }

  void add_cotangents() {
    if (with_values_) {
      const TensorId loss = graph_.outputs.front().value;
      received(loss).gathers.push_back({{}, number(notation().tensor(loss).dtype, 1), {}, {}});
      return;
    }
    for (const tensor::Output& output : graph_.outputs) {
      const Tensor value = notation().tensor(output.value);
      if (!is_float(value.dtype)) continue;
      const TensorId id = notation().add({"d" + output.name, value.dtype, value.extents, Tensor::Kind::Input});
      result_.cotangents.push_back(id);
      Received& here = received(output.value);
      here.gathers.push_back({{}, element(notation(), id, here.at), {}, {}});
    }
  }

  /// Adds what a leaf receives to what its tensor receives.
  void receive(const Partial& partial, std::vector<Loop> loops, std::size_t outer) {
    if (is_number(partial.value, 0)) return;
    const scalar::Read* read = scalar::as_read(partial.leaf);
    const Scatter scatter{std::move(loops), outer, read, partial.value};
    const std::vector<AxisId> at = read == nullptr ? std::vector<AxisId>() : received(read->source).at;
    std::vector<Gather> gathers = transposer_.gathers(scatter, at);
    std::vector<Gather>& list = read == nullptr ? symbols_[std::get<scalar::SymbolRef>(partial.leaf->kind).symbol.index]
                                                : received(read->source).gathers;
    for (Gather& gather : gathers) {
      for (std::size_t k = 0; k < at.size(); ++k) {
        std::string& name = notation().axis_names[static_cast<std::size_t>(at[k].index)];
        if (is_made_up(name) && gather.hints[k]) name = notation().name(gather.hints[k]);
      }
      for (const Expr& condition : gather.required) require(condition);
      list.push_back(std::move(gather));
    }
  }

  void require(const Expr& condition) {
    const auto is_it = [&](const Expr& one) { return scalar::same(one, condition); };
    std::vector<Expr>& all = result_.required;
    if (std::none_of(all.begin(), all.end(), is_it)) all.push_back(condition);
  }

  /// The statement that adds up what is received.
  Statement summed(TensorId target, const std::vector<AxisId>& at, const std::vector<Gather>& gathers) {
    Statement statement{target, at};
    const DType dtype = notation().tensor(target).dtype;
    Expr body = number(dtype, 0);
    for (const Gather& gather : gathers) {
      if (gather.loops.empty()) {
        body = add(body, gather.value);
        continue;
      }
      const scalar::Apply* negated = scalar::as_apply(gather.value, Opcode::Neg);
      const Expr sum = scalar::accumulator(static_cast<int>(statement.reductions.size()), dtype);
      statement.reductions.push_back(
          {ReduceKind::Sum, dtype, gather.loops, negated != nullptr ? negated->args[0] : gather.value});
      body = negated != nullptr ? subtract(body, sum) : add(body, sum);
    }
    statement.body = body;
    return statement;
  }

  /// The tensor with what the elements of `id` receive: one that exists, when it is just that.
  TensorId cotangent_of(TensorId id, const std::vector<AxisId>& axes) {
    const Received& here = received(id);
    for (std::size_t k = 0; k < axes.size(); ++k) {
      std::string& name = notation().axis_names[static_cast<std::size_t>(here.at[k].index)];
      const std::string& own = notation().name(axes[k]);
      if (name.empty() || !is_made_up(own)) name = own;
    }
    if (here.gathers.size() == 1 && here.gathers.front().loops.empty()) {
      const scalar::Read* read = scalar::as_read(here.gathers.front().value);
      if (read != nullptr && scalar::same(here.gathers.front().value, element(notation(), read->source, here.at)))
        return read->source;
    }
    const Tensor whole = notation().tensor(id);
    const TensorId target = notation().add({"d" + whole.name, whole.dtype, whole.extents, Tensor::Kind::Local});
    notation().statements.push_back(summed(target, here.at, here.gathers));
    return target;
  }

  void add_result(const Variable& variable) {
    match(
        variable.id,
        [&](const TensorId& id) {
          const Tensor whole = notation().tensor(id);
          const TensorId target =
              notation().add({"d" + variable.name, whole.dtype, whole.extents, Tensor::Kind::Result});
          const Received& here = received(id);
          notation().statements.push_back(summed(target, here.at, here.gathers));
          result_.results.push_back(target);
        },
        [&](const SymbolId& id) {
          const DType dtype = notation().symbols[static_cast<std::size_t>(id.index)].dtype;
          const TensorId target = notation().add({"d" + variable.name, dtype, {}, Tensor::Kind::Result});
          notation().statements.push_back(summed(target, {}, symbols_[id.index]));
          result_.results.push_back(target);
        });
  }

  // ---- One statement ----

  void reverse(std::size_t at) {
    const Statement statement = notation().statements[at];
    const TensorId target = statement.target;
    reversed_ = target;
    const bool is_reached = received_.count(target.index) != 0 && !received(target).gathers.empty();
    if (!is_reached || !is_active_[static_cast<std::size_t>(target.index)]) return;
    const TensorId cotangent = cotangent_of(target, statement.axes);
    if (statement.reshaped) {
      const Tensor source = notation().tensor(statement.reshaped);
      const TensorId back = notation().add({"d" + source.name, source.dtype, source.extents, Tensor::Kind::Local});
      notation().statements.push_back({back, {}, nullptr, {}, cotangent});
      Received& here = received(statement.reshaped);
      here.gathers.push_back({{}, element(notation(), back, here.at), {}, {}});
      return;
    }
    std::vector<Loop> loops;
    for (std::size_t k = 0; k < statement.axes.size(); ++k)
      loops.push_back({statement.axes[k], nullptr, notation().tensor(target).extents[k]});
    const Expr seed = element(notation(), cotangent, statement.axes);
    for (Partial& partial : partials(statement.body, seed)) {
      partial.value = in_terms_of(statement, partial.value);
      const auto* reduction = std::get_if<scalar::AccRef>(&partial.leaf->kind);
      if (reduction == nullptr) {
        receive(partial, loops, loops.size());
      } else {
        reverse_reduction(statement, statement.reductions[static_cast<std::size_t>(reduction->index)], partial.value,
                          loops);
      }
    }
  }

  /// Reads the statement's value where the derivative uses it: `dY[i] * e[i]` for `e[i] = exp(X[i])`.
  Expr in_terms_of(const Statement& statement, const Expr& value) {
    if (flops_of(statement.body) < kFunctionFlops || uses_reduction(statement.body)) return value;
    const Expr read = element(notation(), statement.target, statement.axes);
    return scalar::rewrite(
        value, [&](const Expr& node) -> Expr { return scalar::same(node, statement.body) ? read : nullptr; });
  }

  std::vector<Partial> partials(const Expr& expr, const Expr& seed) {
    const PartialsQuery query{[&](const Expr& leaf) {
                                return is_wanted(leaf) ||
                                       (std::holds_alternative<scalar::AccRef>(leaf->kind) && is_float(leaf->dtype));
                              },
                              [&](TensorId id) -> const std::vector<Expr>& { return notation().tensor(id).extents; }};
    Expr failed;
    auto found = partials_of(expr, seed, query, failed);
    if (found) return *std::move(found);
    refuse("`" + std::string(scalar::info(std::get<scalar::Apply>(failed->kind).opcode).text) + "` has no derivative");
    return {};
  }

  void refuse(std::string title) {
    const auto origin = origins_.find(reversed_.index);
    const TensorId written = origin == origins_.end() ? reversed_ : origin->second;
    if (!refusal_) refusal_ = Refusal{std::move(title), graph_.op(written).span};
  }

  void reverse_reduction(const Statement& statement, const Reduce& reduce, const Expr& seed,
                         const std::vector<Loop>& outer) {
    Expr element_seed;
    switch (reduce.kind) {
      case ReduceKind::Sum:
        element_seed = seed;
        break;
      case ReduceKind::Max:
      case ReduceKind::Min:
        if (const Expr condition = picks(statement, reduce)) element_seed = choose(condition, seed);
        break;
      case ReduceKind::Prod:
        if (const Expr others = product_of_others(statement, reduce)) element_seed = multiply(seed, others);
        break;
      default:
        return;
    }
    if (!element_seed) return;
    std::vector<Loop> loops = outer;
    loops.insert(loops.end(), reduce.loops.begin(), reduce.loops.end());
    for (const Partial& partial : partials(reduce.body, element_seed)) receive(partial, loops, outer.size());
  }

  /// A copy of a reduction and of the axes around it, with variables of its own.
  struct Copy {
    std::vector<AxisId> axes;
    Reduce reduce;
    std::function<Expr(const Expr&)> rename;
  };
  Copy copy(const Statement& statement, const Reduce& reduce) {
    std::map<AxisId, Expr> renamed;
    Copy result;
    for (const AxisId axis : statement.axes) {
      result.axes.push_back(notation().new_axis(notation().name(axis)));
      renamed[axis] = scalar::axis(result.axes.back());
    }
    result.reduce = reduce;
    for (Loop& loop : result.reduce.loops) {
      const AxisId other = notation().new_axis(notation().name(loop.axis));
      renamed[loop.axis] = scalar::axis(other);
      loop.axis = other;
    }
    result.rename = [renamed](const Expr& expr) {
      return substitute(expr, [&](AxisId axis) -> Expr {
        const auto found = renamed.find(axis);
        return found == renamed.end() ? nullptr : found->second;
      });
    };
    result.reduce.body = result.rename(reduce.body);
    for (Loop& loop : result.reduce.loops) {
      if (loop.begin) loop.begin = result.rename(loop.begin);
      loop.end = result.rename(loop.end);
    }
    return result;
  }

  TensorId define(std::string name, DType dtype, std::vector<Expr> extents, Statement statement) {
    statement.target = notation().add({std::move(name), dtype, std::move(extents), Tensor::Kind::Local});
    notation().statements.push_back(std::move(statement));
    return notation().statements.back().target;
  }

  /// The condition under which an element is the one that a `max` or `min` takes: the first of equal ones.
  Expr picks(const Statement& statement, const Reduce& reduce) {
    const Tensor whole = notation().tensor(statement.target);
    Copy made = copy(statement, reduce);
    const Loop& only = reduce.loops.front();
    const bool is_plain = reduce.loops.size() == 1 && !is_pack_extent(notation(), only.end) && is_symbolic(only.end) &&
                          (!only.begin || is_symbolic(only.begin));
    Expr number_here;
    if (is_plain) {
      made.reduce.kind = reduce.kind == ReduceKind::Max ? ReduceKind::ArgMax : ReduceKind::ArgMin;
      number_here = scalar::axis(only.axis);
    } else {
      const auto place = [&](const std::vector<Loop>& loops) -> Expr {
        Polynomial all;
        for (const Loop& loop : loops) {
          Polynomial count = Polynomial::of(loop.end), digit = Polynomial::of_atom(scalar::axis(loop.axis));
          if (loop.begin) count = count - Polynomial::of(loop.begin);
          if (loop.begin && loops.size() > 1) digit = digit - Polynomial::of(loop.begin);
          const bool varies =
              std::any_of(loops.begin(), loops.end(), [&](const Loop& other) { return count.mentions(other.axis); });
          if (varies && loops.size() > 1) return nullptr;
          all = all * count + digit;
        }
        return all.expr();
      };
      const bool has_pack = std::any_of(reduce.loops.begin(), reduce.loops.end(),
                                        [&](const Loop& loop) { return is_pack_extent(notation(), loop.end); });
      if (has_pack) {
        refuse("a `" + std::string(tensor::name_of(reduce.kind)) +
               "` over the dimensions of a pack has no derivative for every rank");
        return nullptr;
      }
      number_here = place(reduce.loops);
      if (!number_here) {
        refuse("a `" + std::string(tensor::name_of(reduce.kind)) +
               "` over several variables has no derivative where their ranges depend on each other");
        return nullptr;
      }
      const Expr taken = element(notation(), statement.target, made.axes);
      made.reduce.body =
          scalar::apply(Opcode::If, {compare(Opcode::Eq, made.reduce.body, taken), place(made.reduce.loops),
                                     scalar::constant_i64(std::numeric_limits<std::int64_t>::max())});
      made.reduce.kind = ReduceKind::Min;
    }
    made.reduce.dtype = DType::I64;
    Statement place{{}, made.axes, scalar::accumulator(0, DType::I64), {made.reduce}};
    const TensorId at = define(whole.name + ".at", DType::I64, whole.extents, std::move(place));
    return compare(Opcode::Eq, number_here, element(notation(), at, statement.axes));
  }

  /// An upper bound of an integer over all indices of the left side, at least 0; null when none is found.
  Expr greatest(const Statement& statement, const Expr& value) const {
    const auto bound = bound_of(statement, value, true);
    if (!bound) return nullptr;
    const bool is_plain = bound->atom() != nullptr || bound->constant().value_or(-1) >= 0;
    return is_plain ? bound->expr() : scalar::apply(Opcode::Max, {bound->expr(), scalar::constant_i64(0)});
  }
  std::optional<Polynomial> bound_of(const Statement& statement, const Expr& value, bool greatest) const {
    Polynomial sum;
    const Polynomial whole = Polynomial::of(value);
    for (const Polynomial::Term& term : whole.terms()) {
      Polynomial product = term.coefficient;
      for (const Expr& atom : term.atoms) {
        const auto bound = is_symbolic(atom)       ? Polynomial::of_atom(atom)
                           : term.atoms.size() > 1 ? std::nullopt
                                                   : bound_of_atom(statement, atom, greatest == (term.coefficient > 0));
        if (!bound) return {};
        product = product * *bound;
      }
      sum = sum + product;
    }
    return sum;
  }
  std::optional<Polynomial> bound_of_atom(const Statement& statement, const Expr& atom, bool greatest) const {
    if (const auto* reference = std::get_if<scalar::AxisRef>(&atom->kind)) {
      const auto axis = std::find(statement.axes.begin(), statement.axes.end(), reference->axis);
      if (axis == statement.axes.end()) return {};
      const std::vector<Expr>& extents = result_.notation.tensor(statement.target).extents;
      return greatest ? Polynomial::of(extents[static_cast<std::size_t>(axis - statement.axes.begin())]) - 1
                      : Polynomial(0);
    }
    const auto* apply = std::get_if<scalar::Apply>(&atom->kind);
    const bool is_extreme = apply != nullptr && (apply->opcode == Opcode::Min || apply->opcode == Opcode::Max);
    if (!is_extreme) return {};
    const auto a = bound_of(statement, apply->args[0], greatest), b = bound_of(statement, apply->args[1], greatest);
    if (!a || !b) return {};
    return Polynomial::of(scalar::apply(apply->opcode, {a->expr(), b->expr()}));
  }

  /// The product of all elements but one. Exact where elements are 0, which a division by the element is not: what
  /// stands before it times what stands behind it.
  Expr product_of_others(const Statement& statement, const Reduce& reduce) {
    const Tensor whole = notation().tensor(statement.target);
    for (const Loop& loop : reduce.loops) {
      if (is_pack_extent(notation(), loop.end)) {
        refuse("a `prod` over the dimensions of a pack has no derivative for every rank");
        return nullptr;
      }
    }
    std::vector<Expr> extents = whole.extents;
    std::vector<AxisId> at = statement.axes;
    for (const Loop& loop : reduce.loops) {
      const Expr most = is_symbolic(loop.end) ? loop.end : greatest(statement, loop.end);
      const bool is_alone = reduce.loops.size() == 1 || (most == loop.end && (!loop.begin || is_symbolic(loop.begin)));
      if (!most || !is_alone) {
        refuse("a `prod` has no derivative where its range depends on other indices in this way");
        return nullptr;
      }
      extents.push_back(most);
      at.push_back(loop.axis);
    }
    const auto others = [&](const std::string& suffix,
                            const std::function<void(Reduce&, const std::vector<AxisId>&)>& cut) {
      Copy made = copy(statement, reduce);
      std::vector<AxisId> own;
      for (const Loop& loop : reduce.loops) own.push_back(notation().new_axis(notation().name(loop.axis)));
      cut(made.reduce, own);
      Statement part{{}, made.axes, scalar::accumulator(0, reduce.dtype), {made.reduce}};
      part.axes.insert(part.axes.end(), own.begin(), own.end());
      return element(notation(), define(whole.name + "." + suffix, reduce.dtype, extents, std::move(part)), at);
    };
    if (reduce.loops.size() == 1) {
      const Expr before = others("before", [](Reduce& product, const std::vector<AxisId>& own) {
        Loop& loop = product.loops.front();
        const Expr here = scalar::axis(own.front());
        loop.end = is_symbolic(loop.end) ? here : scalar::apply(Opcode::Min, {here, loop.end});
      });
      const Expr after = others("after", [](Reduce& product, const std::vector<AxisId>& own) {
        Loop& loop = product.loops.front();
        const Expr next = (Polynomial::of_atom(scalar::axis(own.front())) + 1).expr();
        loop.begin = loop.begin ? scalar::apply(Opcode::Max, {loop.begin, next}) : next;
      });
      return multiply(before, after);
    }
    return others("others", [](Reduce& product, const std::vector<AxisId>& own) {
      Expr is_it;
      for (std::size_t k = 0; k < own.size(); ++k)
        is_it = both(is_it, compare(Opcode::Eq, scalar::axis(product.loops[k].axis), scalar::axis(own[k])));
      product.body = scalar::apply(Opcode::If, {is_it, number(product.dtype, 1), product.body});
    });
  }

  // ---- Facts of the graph ----

  std::vector<Polynomial> nonnegative_extents() const {
    std::vector<Polynomial> all;
    for (const tensor::Op& op : graph_.ops) {
      for (const Expr& extent : op.extents) {
        if (std::holds_alternative<scalar::Apply>(extent->kind)) all.push_back(Polynomial::of(extent));
      }
    }
    return all;
  }
  std::vector<Expr> nonzero_divisors() const {
    std::vector<Expr> all;
    for (const tensor::Condition& condition : graph_.conditions) {
      const scalar::Apply* unequal = scalar::as_apply(condition.holds, Opcode::Ne);
      if (unequal != nullptr && scalar::is_constant_i64(unequal->args[1], 0))
        all.push_back(tidy_index(unequal->args[0]));
    }
    return all;
  }

  std::vector<Expr> zero_remainders() const {
    std::vector<Expr> all;
    for (const tensor::Condition& condition : graph_.conditions) {
      const scalar::Apply* equal = scalar::as_apply(condition.holds, Opcode::Eq);
      const bool is_remainder = equal != nullptr && scalar::is_constant_i64(equal->args[1], 0) &&
                                scalar::as_apply(equal->args[0], Opcode::Mod) != nullptr;
      if (is_remainder) all.push_back(equal->args[0]);
    }
    return all;
  }

  const tensor::Graph& graph_;
  const std::vector<Variable>& variables_;
  const bool with_values_;
  Derivative result_;
  Transposer transposer_{result_.notation, nonnegative_extents(), nonzero_divisors(), zero_remainders()};
  std::vector<bool> is_active_;
  std::vector<SymbolId> active_symbols_;
  std::map<std::int32_t, Received> received_;
  std::map<std::int32_t, std::vector<Gather>> symbols_;
  std::map<std::int32_t, TensorId> origins_;  ///< of a reduction's own statement: the one that it was taken from
  TensorId reversed_;                         ///< whose statement is looked at
  std::optional<Refusal> refusal_;
};

}  // namespace

std::variant<Derivative, Refusal> differentiate(const tensor::Graph& graph, const std::vector<Variable>& variables,
                                                bool with_values) {
  for (const tensor::Op& op : graph.ops) {
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute != nullptr && compute->reduction && tensor::is_in_sequence(*compute->reduction))
      return Refusal{
          "a reduction inside of one over a range that no dimension bounds cannot be derived; compute it "
          "before, by a `let` with a written range",
          op.span};
  }
  return Differentiation(graph, variables, with_values).run();
}

}  // namespace corrloom::grad
