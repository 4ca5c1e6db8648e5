#include "compiler/tools/check/question.h"

#include <algorithm>

#include "compiler/api/op_core.h"
#include "ir/scalar/evaluate.h"

namespace corrloom::tools {
namespace {

using io::GeneratedValue;
using Kind = GeneratedValue::Kind;

constexpr int kTries = 400;
constexpr std::int64_t kMostElements = 1 << 16;
/// 0, 1, primes, and what lies around the widths of vectors, warps and tiles, and the parts of reductions.
constexpr std::int64_t kExtents[] = {0,  1,  2,  3,  5,  7,  8,  9,   13,  15,  16,   17,   31,
                                     32, 33, 48, 63, 64, 65, 96, 127, 130, 257, 1030, 4099, 16411};
constexpr std::int64_t kSmallExtents[] = {1, 2, 3, 4, 5, 7};

scalar::Value random_scalar(DType dtype, Random& random) {
  if (dtype == DType::Bool) return scalar::Value::boolean(random.one_in(2));
  if (is_integer(dtype))
    return scalar::Value::integer(dtype, random.between(is_unsigned_integer(dtype) || !random.one_in(5) ? 0 : -3, 4));
  return scalar::Value::floating(dtype, static_cast<double>(random.between(-8, 8)) / 4);
}

GeneratedValue random_tensor(DType dtype, Random& random) {
  GeneratedValue value;
  value.seed = static_cast<std::uint64_t>(random.between(0, 99));
  constexpr Kind kKinds[] = {Kind::Randn, Kind::Randn, Kind::Randint, Kind::Extremes, Kind::Ones};
  value.kind = random.pick(kKinds);
  if (!is_float(dtype) && value.kind == Kind::Randn) value.kind = Kind::Randint;
  if (dtype == DType::Bool && value.kind == Kind::Randint) value.kind = Kind::Extremes;
  if (value.kind == Kind::Randint) {
    constexpr std::int64_t kLargest[] = {2, 3, 5, 10, 100};
    const std::int64_t largest = random.pick(kLargest);
    value.numbers = {std::to_string(is_unsigned_integer(dtype) || random.one_in(2) ? 0 : -largest),
                     std::to_string(largest)};
  }
  return value;
}

/// The op, or one of the instances of a generic one.
const api::OpCore& some_instance(const api::OpCore& core, Random& random) {
  constexpr std::int64_t kLargestRank = 3;
  if (!core.signature().is_generic()) return core;
  const auto rank = static_cast<std::size_t>(random.between(0, kLargestRank));
  return core.library().instance(core.name(), frontend::example_instance(core.signature(), rank), core.attributes());
}

/// The shapes of the tensors for those dimensions and scalars; nothing when one would be negative or large.
std::optional<std::vector<TensorType>> types_for(const tensor::Graph& graph, const Question& question) {
  scalar::Environment environment;
  environment.symbol = [&](scalar::SymbolId id) {
    const tensor::Symbol& symbol = graph.symbols[static_cast<std::size_t>(id.index)];
    if (symbol.kind == tensor::Symbol::Kind::Dimension) return scalar::Value::i64(question.dimensions.at(symbol.name));
    return question.scalars.at(symbol.name);
  };
  std::vector<TensorType> types;
  for (const tensor::TensorId input : graph.inputs) {
    TensorType type{graph.op(input).dtype, {}};
    std::int64_t count = 1;
    for (const scalar::Expr& extent : graph.op(input).extents) {
      type.shape.push_back(scalar::Evaluator(extent)(environment).as_i64());
      if (type.shape.back() < 0 || type.shape.back() > kMostElements) return std::nullopt;
      count *= std::max<std::int64_t>(type.shape.back(), 1);
      if (count > kMostElements) return std::nullopt;
    }
    types.push_back(std::move(type));
  }
  return types;
}

/// About how many elements are computed: the points of every value and of its reduction. A range that depends on other
/// variables counts with its length where they are 0, at least once.
double work_of(const tensor::Graph& graph, const frontend::SymbolValues& values) {
  scalar::Environment environment;
  const std::vector<scalar::Value> symbols = frontend::in_symbol_order(graph, values);
  environment.symbol = [&](scalar::SymbolId id) { return symbols[static_cast<std::size_t>(id.index)]; };
  environment.axis = [](scalar::AxisId) { return scalar::Value::i64(0); };
  environment.read = [&](const scalar::Read& read, std::span<const std::int64_t>) {
    return scalar::Value(graph.op(read.source).dtype, 0);
  };
  const auto extent = [&](const scalar::Expr& expr) {
    return static_cast<double>(std::max<std::int64_t>(scalar::Evaluator(expr)(environment).as_i64(), 1));
  };
  double work = 0;
  for (const tensor::Op& op : graph.ops) {
    double points = 1;
    for (const scalar::Expr& one : op.extents) points *= extent(one);
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute != nullptr && compute->reduction) {
      for (const tensor::Axis& axis : compute->reduction->axes) points *= extent(axis.extent);
    }
    work += points;
  }
  return work;
}

/// Fills in the tensors' shapes; false when the op does not accept the question, or it is much work.
bool settle(Question& question, double least_work = 0) {
  const std::optional<std::vector<TensorType>> types = types_for(*question.core->graph(), question);
  if (!types) return false;
  std::vector<std::optional<scalar::Value>> scalars;
  for (const ParameterInfo& parameter : question.core->info().parameters) {
    if (!parameter.is_tensor) scalars.emplace_back(question.scalars.at(parameter.name));
  }
  try {
    const frontend::SymbolValues values = question.core->bind(*types, scalars);
    const double work = work_of(*question.core->graph(), values);
    if (work > question.most_work || work < least_work) return false;
  } catch (const InputError&) {
    return false;
  }
  for (std::size_t k = 0; k < types->size(); ++k) {
    question.tensors[k].shape = (*types)[k].shape;
    question.tensors[k].dtype = (*types)[k].dtype;
  }
  return true;
}

/// As the command line writes it; with the dtype where the declaration leaves it open.
std::string text_of(const GeneratedValue& value, bool with_dtype) {
  constexpr std::pair<Kind, const char*> kNames[] = {
      {Kind::Zeros, "zeros"}, {Kind::Ones, "ones"},   {Kind::Full, "full"},       {Kind::Arange, "arange"},
      {Kind::Rand, "rand"},   {Kind::Randn, "randn"}, {Kind::Randint, "randint"}, {Kind::Extremes, "extremes"}};
  std::string text = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& one) {
                       return one.first == value.kind;
                     })->second;
  const auto joined = [](const auto& items, const auto& show) {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : ",") + show(item);
    return out;
  };
  if (!value.numbers.empty()) text += "(" + joined(value.numbers, [](const std::string& one) { return one; }) + ")";
  text += "[" + joined(value.shape, [](std::int64_t one) { return std::to_string(one); }) + "]";
  if (with_dtype) text += ":" + std::string(name_of(*value.dtype));
  const bool is_random = value.kind == Kind::Rand || value.kind == Kind::Randn || value.kind == Kind::Randint ||
                         value.kind == Kind::Extremes;
  return is_random && value.seed != 0 ? text + "@" + std::to_string(value.seed) : text;
}

}  // namespace

std::uint64_t Random::bits() {
  std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
}

std::vector<Argument> Question::arguments() const {
  std::vector<Argument> out;
  std::size_t next = 0;
  for (const ParameterInfo& parameter : core->info().parameters) {
    if (parameter.is_tensor)
      out.emplace_back(io::make_tensor(tensors[next++]));
    else
      out.emplace_back(scalars.at(parameter.name));
  }
  return out;
}

std::string Question::settings() const {
  std::string text;
  std::size_t next = 0;
  for (const ParameterInfo& parameter : core->info().parameters) {
    const std::string value = parameter.is_tensor
                                  ? text_of(tensors[next++], core->signature().instance != frontend::Instance{})
                                  : scalar::to_text(scalars.at(parameter.name));
    // Parentheses and brackets mean something to a shell.
    const bool needs_quotes = value.find_first_of("()[]") != std::string::npos;
    text += (text.empty() ? "" : " ") +
            (needs_quotes ? "'" + parameter.name + "=" + value + "'" : parameter.name + "=" + value);
  }
  return text;
}

std::optional<Question> make_question(const Op& op, Random& random, double most_work, double least_work) {
  const api::OpCore& core = some_instance(*op.core(), random);
  // Of large extents few products are little work: they get their share of the tries.
  const bool wants_small = random.one_in(2) && least_work == 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Question question{&core, most_work, {}, {}, {}};
    const bool is_late = attempt > kTries / 2, is_small = wants_small || is_late;
    for (const ParameterInfo& parameter : core.info().parameters) {
      if (parameter.is_tensor)
        question.tensors.push_back(random_tensor(parameter.dtype, random));
      else
        question.scalars[parameter.name] = random_scalar(parameter.dtype, random);
    }
    for (const tensor::Symbol& symbol : core.graph()->symbols) {
      if (symbol.kind == tensor::Symbol::Kind::Dimension)
        question.dimensions[symbol.name] = is_small ? random.pick(kSmallExtents) : random.pick(kExtents);
    }
    if (settle(question, is_late ? 0 : least_work)) return question;
  }
  return std::nullopt;
}

std::optional<Question> with_dimensions(Question question, std::map<std::string, std::int64_t> dimensions) {
  question.dimensions = std::move(dimensions);
  if (!settle(question)) return std::nullopt;
  return question;
}

}  // namespace corrloom::tools
