#include "compiler/grad/rules.h"

#include <numbers>
#include <string_view>

#include "compiler/grad/algebra.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

/// One operation with its operands, in a form in which rules read as formulas.
struct Place {
  const Expr& y;     ///< its value
  const Expr& seed;  ///< what its value receives
  const std::vector<Expr>& args;

  const Expr& a() const { return args[0]; }
  const Expr& b() const { return args[1]; }
  Expr constant(double value) const { return number(y->dtype, value); }
};

using Seeds = std::vector<Expr>;
struct Rule {
  std::string_view name;
  Seeds (*seeds)(const Place&);
};

Expr square(const Expr& x) {
  return multiply(x, x);
}

/// seed * n * a^(n - 1) for a literal n; the general power otherwise.
Seeds power(const Place& p) {
  const Expr log_part =
      choose(compare(Opcode::Gt, p.a(), p.constant(0)), multiply(multiply(p.seed, p.y), call("log", {p.a()})));
  if (const scalar::Value* exponent = scalar::as_constant(p.b())) {
    const double n = exponent->as_f64();
    if (n == 0) return {nullptr, nullptr};
    if (n == 1) return {p.seed, nullptr};
    const Expr less = n == 2 ? p.a() : call("pow", {p.a(), p.constant(n - 1)});
    return {multiply(multiply(p.constant(n), p.seed), less), nullptr};
  }
  const Expr less = call("pow", {p.a(), subtract(p.b(), p.constant(1))});
  const Expr base = multiply(multiply(p.seed, p.b()), less);
  return {choose(compare(Opcode::Ne, p.b(), p.constant(0)), base), log_part};
}

/// The operand for which `first` holds takes all.
Seeds picked(const Place& p, const Expr& first) {
  return {choose(first, p.seed), choose(opposite(first), p.seed)};
}

Expr either(const Expr& a, const Expr& b) {
  return scalar::apply(Opcode::LazyOr, {a, b});
}

constexpr Rule kRules[] = {
    {"neg", [](const Place& p) { return Seeds{negate(p.seed)}; }},
    {"add",
     [](const Place& p) {
       return Seeds{p.seed, p.seed};
     }},
    {"sub",
     [](const Place& p) {
       return Seeds{p.seed, negate(p.seed)};
     }},
    {"mul",
     [](const Place& p) {
       return Seeds{multiply(p.seed, p.b()), multiply(p.seed, p.a())};
     }},
    {"div",
     [](const Place& p) {
       return Seeds{divide(p.seed, p.b()), negate(divide(multiply(p.seed, p.a()), square(p.b())))};
     }},
    {"fma",
     [](const Place& p) {
       return Seeds{multiply(p.seed, p.b()), multiply(p.seed, p.a()), p.seed};
     }},
    {"abs", [](const Place& p) { return Seeds{multiply(p.seed, call("sign", {p.a()}))}; }},
    {"sign", [](const Place&) { return Seeds{nullptr}; }},
    {"floor", [](const Place&) { return Seeds{nullptr}; }},
    {"ceil", [](const Place&) { return Seeds{nullptr}; }},
    {"round", [](const Place&) { return Seeds{nullptr}; }},
    {"trunc", [](const Place&) { return Seeds{nullptr}; }},
    {"min", [](const Place& p) { return picked(p, compare(Opcode::Le, p.a(), p.b())); }},
    {"max", [](const Place& p) { return picked(p, compare(Opcode::Ge, p.a(), p.b())); }},
    {"fmin",
     [](const Place& p) { return picked(p, either(compare(Opcode::Le, p.a(), p.b()), call("isnan", {p.b()}))); }},
    {"fmax",
     [](const Place& p) { return picked(p, either(compare(Opcode::Ge, p.a(), p.b()), call("isnan", {p.b()}))); }},
    {"fmod",
     [](const Place& p) {
       return Seeds{p.seed, negate(multiply(p.seed, call("trunc", {divide(p.a(), p.b())})))};
     }},
    {"sqrt", [](const Place& p) { return Seeds{divide(multiply(p.constant(0.5), p.seed), p.y)}; }},
    {"rsqrt",
     [](const Place& p) { return Seeds{multiply(multiply(p.constant(-0.5), p.seed), multiply(square(p.y), p.y))}; }},
    {"exp", [](const Place& p) { return Seeds{multiply(p.seed, p.y)}; }},
    {"exp2", [](const Place& p) { return Seeds{multiply(multiply(p.constant(std::numbers::ln2), p.seed), p.y)}; }},
    {"expm1", [](const Place& p) { return Seeds{multiply(p.seed, call("exp", {p.a()}))}; }},
    {"log", [](const Place& p) { return Seeds{divide(p.seed, p.a())}; }},
    {"log2", [](const Place& p) { return Seeds{divide(multiply(p.constant(std::numbers::log2e), p.seed), p.a())}; }},
    {"log1p", [](const Place& p) { return Seeds{divide(p.seed, add(p.constant(1), p.a()))}; }},
    {"sin", [](const Place& p) { return Seeds{multiply(p.seed, call("cos", {p.a()}))}; }},
    {"cos", [](const Place& p) { return Seeds{negate(multiply(p.seed, call("sin", {p.a()})))}; }},
    {"tan", [](const Place& p) { return Seeds{multiply(p.seed, add(p.constant(1), square(p.y)))}; }},
    {"asin",
     [](const Place& p) { return Seeds{divide(p.seed, call("sqrt", {subtract(p.constant(1), square(p.a()))}))}; }},
    {"acos",
     [](const Place& p) {
       return Seeds{negate(divide(p.seed, call("sqrt", {subtract(p.constant(1), square(p.a()))})))};
     }},
    {"atan", [](const Place& p) { return Seeds{divide(p.seed, add(p.constant(1), square(p.a())))}; }},
    {"atan2",
     [](const Place& p) {
       const Expr length = add(square(p.a()), square(p.b()));
       return Seeds{divide(multiply(p.seed, p.b()), length), negate(divide(multiply(p.seed, p.a()), length))};
     }},
    {"sinh", [](const Place& p) { return Seeds{multiply(p.seed, call("cosh", {p.a()}))}; }},
    {"cosh", [](const Place& p) { return Seeds{multiply(p.seed, call("sinh", {p.a()}))}; }},
    {"tanh", [](const Place& p) { return Seeds{multiply(p.seed, subtract(p.constant(1), square(p.y)))}; }},
    {"asinh", [](const Place& p) { return Seeds{divide(p.seed, call("sqrt", {add(square(p.a()), p.constant(1))}))}; }},
    {"acosh",
     [](const Place& p) { return Seeds{divide(p.seed, call("sqrt", {subtract(square(p.a()), p.constant(1))}))}; }},
    {"atanh", [](const Place& p) { return Seeds{divide(p.seed, subtract(p.constant(1), square(p.a())))}; }},
    {"sigmoid", [](const Place& p) { return Seeds{multiply(multiply(p.seed, p.y), subtract(p.constant(1), p.y))}; }},
    {"erf",
     [](const Place& p) {
       const Expr bell = call("exp", {negate(square(p.a()))});
       return Seeds{multiply(multiply(p.constant(2 * std::numbers::inv_sqrtpi), p.seed), bell)};
     }},
    {"pow", power},
};

}  // namespace

std::optional<std::vector<Expr>> operand_seeds(const Expr& value, const Expr& seed) {
  const auto& apply = std::get<scalar::Apply>(value->kind);
  switch (apply.opcode) {
    case Opcode::Select:
      return Seeds{nullptr, choose(apply.args[0], seed), choose(opposite(apply.args[0]), seed)};
    case Opcode::Cast:
      return Seeds{is_float(apply.args[0]->dtype) ? cast_to(seed, apply.args[0]->dtype) : nullptr};
    default:
      break;
  }
  const std::string_view name = scalar::info(apply.opcode).text;
  for (const Rule& rule : kRules) {
    if (rule.name == name) return rule.seeds({value, seed, apply.args});
  }
  return {};
}

}  // namespace corrloom::grad
