#include "compiler/grad/partials.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/grad/algebra.h"
#include "compiler/grad/rules.h"

namespace corrloom::grad {
namespace {

using scalar::Node;
using scalar::Opcode;

/// Adds to the entry of a leaf, or makes one.
void receive(std::vector<Partial>& partials, const Expr& leaf, const Expr& value) {
  for (Partial& partial : partials) {
    if (!scalar::same(partial.leaf, leaf)) continue;
    partial.value = add(partial.value, value);
    return;
  }
  partials.push_back({leaf, value});
}

/// Walks an expression backwards. Branches of an `if` are walked by themselves, so that what they give stays under the
/// condition.
class Reverse {
 public:
  Reverse(const PartialsQuery& query, Expr& failed) : query_(query), failed_(failed) {}

  std::vector<Partial> run(const Expr& root, const Expr& seed) {
    std::vector<Expr> order;
    std::unordered_map<const Node*, int> users;
    visit(root, order, users);
    std::unordered_map<const Node*, Expr> seeds;
    std::vector<Partial> found;
    if (leads_to_leaf(root)) seeds[root.get()] = seed;
    for (auto node = order.rbegin(); node != order.rend() && !failed_; ++node) {
      const auto received = seeds.find(node->get());
      if (received == seeds.end() || is_number(received->second, 0)) continue;
      reverse(*node, received->second, users, seeds, found);
    }
    return found;
  }

 private:
  /// Operands of what is evaluated whenever the node is: all but the branches of an `if`.
  static std::vector<Expr> operands(const Expr& node) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    if (apply != nullptr && apply->opcode != Opcode::If) return apply->args;
    const scalar::Read* read = scalar::as_read(node);
    if (read != nullptr && read->pad_value) return {read->pad_value};
    return {};
  }

  void visit(const Expr& root, std::vector<Expr>& order, std::unordered_map<const Node*, int>& users) {
    if (++users[root.get()] > 1) return;
    if (is_float(root->dtype)) {
      for (const Expr& operand : operands(root)) visit(operand, order, users);
    }
    order.push_back(root);
  }

  bool leads_to_leaf(const Expr& expr) {
    const auto known = leads_.find(expr.get());
    if (known != leads_.end()) return known->second;
    bool leads = false;
    if (is_float(expr->dtype)) {
      const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
      leads = apply == nullptr && query_.is_wanted(expr);
      for (const Expr& operand : operands(expr)) leads = leads_to_leaf(operand) || leads;
      if (apply != nullptr && apply->opcode == Opcode::If) {
        for (std::size_t k = 1; k < 3; ++k) leads = leads_to_leaf(apply->args[k]) || leads;
      }
    }
    leads_.emplace(expr.get(), leads);
    return leads;
  }

  using Seeds = std::unordered_map<const Node*, Expr>;
  void give(Seeds& seeds, const Expr& operand, const Expr& seed) {
    if (!seed || !leads_to_leaf(operand)) return;
    const auto [place, is_new] = seeds.emplace(operand.get(), seed);
    if (!is_new) place->second = add(place->second, seed);
  }

  void reverse(const Expr& node, const Expr& seed, const std::unordered_map<const Node*, int>& users, Seeds& seeds,
               std::vector<Partial>& found) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    if (apply == nullptr) {
      if (query_.is_wanted(node)) receive(found, node, seed);
      if (const scalar::Read* read = scalar::as_read(node); read != nullptr && read->pad_value)
        give(seeds, read->pad_value, choose(leaves_the_tensor(*read), seed));
      return;
    }
    if (apply->opcode == Opcode::If) {
      reverse_choice(*apply, seed, found);
      return;
    }
    if (apply->opcode == Opcode::Mul) {
      reverse_product(node, seed, users, seeds);
      return;
    }
    const auto given = operand_seeds(node, seed);
    if (!given) {
      failed_ = node;
      return;
    }
    for (std::size_t k = 0; k < apply->args.size(); ++k) give(seeds, apply->args[k], (*given)[k]);
  }

  /// A chain of products is taken as a whole: each factor receives the others in their order.
  void reverse_product(const Expr& node, const Expr& seed, const std::unordered_map<const Node*, int>& users,
                       Seeds& seeds) {
    std::vector<Expr> factors;
    const std::function<void(const Expr&)> split = [&](const Expr& expr) {
      const scalar::Apply* product = scalar::as_apply(expr, Opcode::Mul);
      if (product == nullptr || (expr != node && users.at(expr.get()) > 1)) {
        factors.push_back(expr);
        return;
      }
      for (const Expr& factor : product->args) split(factor);
    };
    split(node);
    for (std::size_t k = 0; k < factors.size(); ++k) {
      if (!leads_to_leaf(factors[k])) continue;
      Expr value = seed;
      for (std::size_t other = 0; other < factors.size(); ++other) {
        if (other != k) value = multiply(value, factors[other]);
      }
      give(seeds, factors[k], value);
    }
  }

  void reverse_choice(const scalar::Apply& choice, const Expr& seed, std::vector<Partial>& found) {
    const std::vector<Partial> taken =
        leads_to_leaf(choice.args[1]) ? run(choice.args[1], seed) : std::vector<Partial>();
    std::vector<Partial> other = leads_to_leaf(choice.args[2]) ? run(choice.args[2], seed) : std::vector<Partial>();
    for (const Partial& partial : taken) {
      const auto twin = std::find_if(other.begin(), other.end(),
                                     [&](const Partial& one) { return scalar::same(one.leaf, partial.leaf); });
      Expr value = twin == other.end() ? nullptr : twin->value;
      if (twin != other.end()) other.erase(twin);
      receive(found, partial.leaf, choose(choice.args[0], partial.value, value));
    }
    for (const Partial& partial : other) receive(found, partial.leaf, choose(opposite(choice.args[0]), partial.value));
  }

  /// Where the read gives its pad value.
  Expr leaves_the_tensor(const scalar::Read& read) {
    const std::vector<Expr>& extents = query_.extents(read.source);
    const Expr zero = scalar::constant_i64(0);
    Expr outside;
    const auto or_else = [&](const Expr& condition) {
      outside = outside ? scalar::apply(Opcode::LazyOr, {outside, condition}) : condition;
    };
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      or_else(compare(Opcode::Lt, read.index[k], zero));
      or_else(compare(Opcode::Ge, read.index[k], extents[k]));
    }
    return outside;
  }

  const PartialsQuery& query_;
  Expr& failed_;
  std::unordered_map<const Node*, bool> leads_;
};

}  // namespace

std::optional<std::vector<Partial>> partials_of(const Expr& expr, const Expr& seed, const PartialsQuery& query,
                                                Expr& failed) {
  failed = nullptr;
  std::vector<Partial> found = Reverse(query, failed).run(expr, seed);
  if (failed) return {};
  return found;
}

}  // namespace corrloom::grad
