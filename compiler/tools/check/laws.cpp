#include "compiler/tools/check/laws.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/passes/specialise.h"
#include "compiler/tools/check/arrays.h"
#include "compiler/tools/check/linearity.h"
#include "compiler/tools/check/movement.h"
#include "ir/base/errors.h"

namespace corrloom::tools {
namespace {

using scalar::Value;
using tensor::Array;
using Arrays = std::vector<Array>;

constexpr std::int64_t kLargestElement = 3;
constexpr std::int64_t kMostImpulses = 16;

Value number(DType dtype, std::int64_t value) {
  return is_float(dtype) ? Value::floating(dtype, static_cast<double>(value)) : Value::integer(dtype, value);
}

/// The array with each element the whole number close to it, at most 3: arithmetic on those is mostly exact.
Array made_small(Array array) {
  for (std::int64_t k = 0; k < array.count(); ++k) {
    const double value = array.at(k).as_f64();
    const double limit = static_cast<double>(kLargestElement);
    const double small = std::isnan(value) ? 1 : std::clamp(std::nearbyint(value), -limit, limit);
    array.bits[static_cast<std::size_t>(k)] = number(array.dtype, static_cast<std::int64_t>(small)).bits;
  }
  return array;
}

Array filled(Array array, const std::function<std::int64_t(std::int64_t)>& element) {
  for (std::int64_t k = 0; k < array.count(); ++k)
    array.bits[static_cast<std::size_t>(k)] = number(array.dtype, element(k)).bits;
  return array;
}

/// Small numbers without a period that programs have.
Array pattern_like(const Array& array) {
  const std::int64_t lowest = is_unsigned_integer(array.dtype) ? 0 : -kLargestElement;
  return filled(array, [&](std::int64_t k) { return (k * k + 5 * k) % 7 % (kLargestElement - lowest + 1) + lowest; });
}

Array sum_of(const Array& a, const Array& b) {
  Array sum = a;
  for (std::int64_t k = 0; k < a.count(); ++k)
    sum.bits[static_cast<std::size_t>(k)] = is_float(a.dtype)
                                                ? Value::floating(a.dtype, a.at(k).as_f64() + b.at(k).as_f64()).bits
                                                : Value::integer(a.dtype, a.at(k).as_i64() + b.at(k).as_i64()).bits;
  return sum;
}

/// Position of an element and the extents around one dimension: `position = (outer * extent + k) * inner + rest`.
struct Strides {
  Strides(const Array& array, std::size_t dimension) : extent(array.extents[dimension]) {
    for (std::size_t k = dimension + 1; k < array.extents.size(); ++k) inner *= array.extents[k];
  }
  std::int64_t along(std::int64_t position) const { return position / inner % extent; }
  std::int64_t moved(std::int64_t position, std::int64_t by) const { return position + by * inner; }

  std::int64_t extent;
  std::int64_t inner = 1;
};

/// Elements `first` to `last` - 1 of a dimension.
Array part_of(const Array& array, std::size_t dimension, std::int64_t first, std::int64_t last) {
  const Strides strides(array, dimension);
  Array part{array.dtype, array.extents, {}};
  part.extents[dimension] = last - first;
  for (std::int64_t k = 0; k < array.count(); ++k) {
    if (strides.along(k) >= first && strides.along(k) < last) part.bits.push_back(array.at(k).bits);
  }
  return part;
}

bool are_alike(const Value& a, const Value& b) {
  return a == b || (is_float(a.dtype) && std::isnan(a.as_f64()) && std::isnan(b.as_f64()));
}

std::string index_text(std::int64_t position, const Array& array) {
  std::string text;
  for (std::size_t k = 0; k < array.extents.size(); ++k)
    text += (k == 0 ? "" : ", ") + std::to_string(Strides(array, k).along(position));
  return "[" + text + "]";
}

class Laws {
 public:
  Laws(const tensor::Graph& graph, const frontend::SymbolValues& values, const Arrays& inputs, const Subject& subject)
      : declared_(graph), values_(values), given_(inputs), subject_(subject), graph_(without_symbols()) {
    for (std::size_t k = 0; k < inputs.size(); ++k)
      small_.push_back(is_float(inputs[k].dtype) ? made_small(inputs[k]) : inputs[k]);
  }

  LawReport run() {
    for (std::size_t k = 0; k < given_.size() && is_intact(); ++k) try_law([&] { try_linearity(k); });
    for (std::size_t k = 0; k < given_.size() && is_intact(); ++k) {
      for (std::size_t axis = 0; axis < given_[k].extents.size() && is_intact(); ++axis)
        try_law([&] { try_movement(k, axis); });
    }
    for (std::size_t k = 0; k < declared_.symbols.size() && is_intact(); ++k)
      try_law([&] { try_split(tensor::SymbolId{static_cast<std::int32_t>(k)}); });
    return std::move(report_);
  }

 private:
  bool is_intact() const { return report_.broken.empty(); }

  /// A law is about arguments that the op takes.
  template <class Law>
  static void try_law(const Law& law) {
    try {
      law();
    } catch (const InputError&) {
    } catch (const CompileError&) {
    }
  }

  tensor::Graph without_symbols() const {
    passes::PassContext ctx;
    ctx.bindings = values_;
    return passes::specialise(declared_, ctx);
  }

  std::string name_of_input(std::size_t input) const { return declared_.op(declared_.inputs[input]).name; }

  /// The inputs as small numbers, one of them replaced.
  Arrays with(std::size_t input, Array array) const {
    Arrays inputs = small_;
    inputs[input] = std::move(array);
    return inputs;
  }

  // ---- Linearity ----

  static bool is_bounded(const Dependence& one) { return std::isfinite(one.error) && std::isfinite(one.magnitude); }

  /// The elements of every op of the graph.
  Arrays values_of_all(const Arrays& inputs) const {
    tensor::Graph all = graph_;
    all.outputs.clear();
    for (std::size_t k = 0; k < all.ops.size(); ++k)
      all.outputs.push_back({"v" + std::to_string(k), tensor::TensorId{static_cast<std::int32_t>(k)}, {}});
    return tensor::interpret(all, inputs, {});
  }

  void try_linearity(std::size_t input) {
    const Array& like = given_[input];
    if (like.dtype == DType::Bool || like.count() == 0) return;
    const Array x = made_small(like), y = pattern_like(like), zero = filled(like, [](std::int64_t) { return 0; });
    const std::vector<Dependence> outputs = dependences_on(
        graph_, graph_.inputs[input], static_cast<double>(2 * kLargestElement), values_of_all(with(input, zero)));
    const auto is_linear = [](const Dependence& one) {
      return (one.kind == Dependence::Kind::Linear || one.kind == Dependence::Kind::Affine) && is_bounded(one);
    };
    if (std::none_of(outputs.begin(), outputs.end(), is_linear)) return;
    const Arrays of_x = subject_.as_called(with(input, x)), of_y = subject_.as_called(with(input, y));
    const Arrays of_sum = subject_.as_called(with(input, sum_of(x, y)));
    const Arrays of_zero = subject_.as_called(with(input, zero));
    const std::string name = name_of_input(input);
    for (std::size_t k = 0; k < outputs.size() && is_intact(); ++k) {
      if (!is_linear(outputs[k])) continue;
      const std::string result = declared_.outputs[k].name;
      const std::string law = result + " is " +
                              (outputs[k].kind == Dependence::Kind::Linear ? "linear" : "linear up to a constant") +
                              " in " + name;
      compare_sums(law, {&of_x[k], &of_y[k]}, {&of_sum[k], &of_zero[k]}, {}, 4 * outputs[k].error);
      if (is_intact() && outputs[k].kind == Dependence::Kind::Linear)
        compare_sums(law, {&of_zero[k], &of_zero[k]}, {&of_zero[k]}, {}, 2 * outputs[k].error);
      if (is_intact()) holds(law + within(outputs[k].error));
    }
    if (is_intact() && like.count() > 1 && like.count() <= kMostImpulses) try_impulses(input, x, of_x, outputs);
  }

  static std::string within(double error) {
    return error == 0 ? ", exactly" : ", within " + scalar::to_text(Value::f64(4 * error));
  }

  void try_impulses(std::size_t input, const Array& x, const Arrays& of_x, const std::vector<Dependence>& outputs) {
    std::vector<Arrays> responses;
    for (std::int64_t at = 0; at < x.count(); ++at)
      responses.push_back(subject_.as_called(with(input, filled(x, [&](std::int64_t k) { return k == at ? 1 : 0; }))));
    for (std::size_t k = 0; k < outputs.size() && is_intact(); ++k) {
      if (outputs[k].kind != Dependence::Kind::Linear || !is_bounded(outputs[k])) continue;
      std::vector<const Array*> terms;
      std::vector<std::int64_t> factors;
      for (std::int64_t at = 0; at < x.count(); ++at) {
        terms.push_back(&responses[static_cast<std::size_t>(at)][k]);
        factors.push_back(is_float(x.dtype) ? static_cast<std::int64_t>(x.at(at).as_f64()) : x.at(at).as_i64());
      }
      const std::string law =
          declared_.outputs[k].name + " is the sum of its responses to the elements of " + name_of_input(input);
      const double error = outputs[k].error * static_cast<double>(1 + kLargestElement * x.count());
      compare_sums(law, terms, {&of_x[k]}, factors, error);
      if (is_intact()) holds(law);
    }
  }

  /// Compares sum(factor * left) with sum(right), element by element; factors left out are 1.
  void compare_sums(const std::string& law, const std::vector<const Array*>& left,
                    const std::vector<const Array*>& right, const std::vector<std::int64_t>& factors, double bound) {
    const Array& like = *left.front();
    for (std::int64_t k = 0; k < like.count(); ++k) {
      double difference = 0, scale = 0;
      std::uint64_t whole = 0;
      const auto add = [&](const Array& array, std::int64_t factor) {
        if (is_float(like.dtype)) {
          difference += static_cast<double>(factor) * array.at(k).as_f64();
          scale += std::fabs(static_cast<double>(factor) * array.at(k).as_f64());
        } else {
          whole += static_cast<std::uint64_t>(factor) * static_cast<std::uint64_t>(array.at(k).as_i64());
        }
      };
      for (std::size_t term = 0; term < left.size(); ++term) add(*left[term], factors.empty() ? 1 : factors[term]);
      for (const Array* term : right) add(*term, -1);
      if (!is_float(like.dtype)) difference = Value::integer(like.dtype, static_cast<std::int64_t>(whole)).as_f64();
      // Adding up here rounds too.
      const double own = bound == 0 ? 0 : scale * 1e-14;
      if (std::fabs(difference) <= bound + own) continue;
      breaks(law, "at " + index_text(k, like) + " the two sides differ by " + scalar::to_text(Value::f64(difference)) +
                      (bound == 0 ? "" : ", allowed " + scalar::to_text(Value::f64(bound))));
      return;
    }
  }

  // ---- Movement ----

  void try_movement(std::size_t input, std::size_t dimension) {
    const std::vector<std::optional<Movement>> outputs = movements_with(graph_, graph_.inputs[input], dimension);
    const auto step = std::find_if(outputs.begin(), outputs.end(), [](const auto& one) { return one.has_value(); });
    if (step == outputs.end() || (*step)->step >= given_[input].extents[dimension]) return;
    const std::int64_t by = (*step)->step;
    Array still = given_[input];
    const bool is_constant =
        std::all_of(still.bits.begin(), still.bits.end(), [&](std::uint64_t bits) { return bits == still.bits[0]; });
    if (is_constant && still.dtype != DType::Bool) still = pattern_like(still);
    const Strides strides(still, dimension);
    Array moved = still;
    for (std::int64_t k = 0; k < still.count(); ++k) {
      const std::int64_t from = (strides.along(k) + by) % strides.extent;
      moved.bits[static_cast<std::size_t>(k)] = still.at(strides.moved(k, from - strides.along(k))).bits;
    }
    Arrays inputs = given_;
    inputs[input] = std::move(still);
    const Arrays before = subject_.as_called(inputs);
    inputs[input] = std::move(moved);
    const Arrays after = subject_.as_called(inputs);
    for (std::size_t k = 0; k < outputs.size() && is_intact(); ++k) {
      if (!outputs[k] || outputs[k]->step != by) continue;
      compare_moved(input, dimension, k, *outputs[k], before[k], after[k]);
    }
  }

  /// after[i] = before[i + 1] wherever both are computed from elements that moved.
  void compare_moved(std::size_t input, std::size_t dimension, std::size_t output, const Movement& movement,
                     const Array& before, const Array& after) {
    const std::string law = declared_.outputs[output].name + " moves along axis " + std::to_string(movement.dimension) +
                            " when " + name_of_input(input) + " moves by " + std::to_string(movement.step) +
                            " along axis " + std::to_string(dimension);
    const Strides strides(after, movement.dimension);
    const std::int64_t end = given_[input].extents[dimension] - movement.step;
    bool is_seen = false;
    for (std::int64_t k = 0; k < after.count(); ++k) {
      const std::int64_t i = strides.along(k);
      const bool is_inside = i >= movement.first && i + 1 <= movement.last && i + 1 < strides.extent &&
                             movement.step * i + movement.low >= 0 && movement.step * i + movement.high < end;
      if (!is_inside) continue;
      is_seen = true;
      if (are_alike(after.at(k), before.at(strides.moved(k, 1)))) continue;
      breaks(law, "at " + index_text(k, after) + " it has " + scalar::to_text(after.at(k)) + ", and had " +
                      scalar::to_text(before.at(strides.moved(k, 1))) + " one further");
      return;
    }
    if (is_seen) holds(law);
  }

  // ---- Splitting ----

  void try_split(tensor::SymbolId symbol) {
    const tensor::Symbol& dimension = declared_.symbols[static_cast<std::size_t>(symbol.index)];
    if (dimension.kind != tensor::Symbol::Kind::Dimension || !is_free_dimension(declared_, symbol)) return;
    const std::int64_t extent = values_.at(dimension.name).as_i64(), cut = (extent + 1) / 2;
    if (extent < 2) return;
    const Arrays whole = subject_.strict(given_);
    const Arrays left = subject_.strict(parts_of(symbol, 0, cut));
    const Arrays right = subject_.strict(parts_of(symbol, cut, extent));
    const std::string law = "splits along " + dimension.name;
    for (std::size_t k = 0; k < whole.size() && is_intact(); ++k) {
      const auto along = dimension_of(declared_.op(declared_.outputs[k].value), symbol);
      compare_part(law, whole[k], left[k], along, 0);
      if (is_intact()) compare_part(law, whole[k], right[k], along, cut);
      if (!is_intact()) report_.broken += " of " + declared_.outputs[k].name;
    }
    if (is_intact()) holds(law);
  }

  Arrays parts_of(tensor::SymbolId symbol, std::int64_t first, std::int64_t last) const {
    Arrays parts;
    for (std::size_t k = 0; k < given_.size(); ++k) {
      const auto along = dimension_of(declared_.op(declared_.inputs[k]), symbol);
      parts.push_back(along ? part_of(given_[k], *along, first, last) : given_[k]);
    }
    return parts;
  }

  void compare_part(const std::string& law, const Array& whole, const Array& part, std::optional<std::size_t> along,
                    std::int64_t first) {
    const Array wanted = along ? part_of(whole, *along, first, first + part.extents[*along]) : whole;
    if (const auto fault = difference(part, wanted))
      breaks(law, "of the part from " + std::to_string(first) + " on " + *fault);
  }

  void holds(const std::string& law) { report_.held.push_back(law); }
  void breaks(const std::string& law, const std::string& what) { report_.broken = law + ", but " + what; }

  const tensor::Graph& declared_;
  const frontend::SymbolValues& values_;
  const Arrays& given_;
  const Subject& subject_;
  tensor::Graph graph_;  ///< with the values put in
  Arrays small_;         ///< the inputs as small whole numbers
  LawReport report_;
};

}  // namespace

LawReport check_laws(const tensor::Graph& graph, const frontend::SymbolValues& values, const Arrays& inputs,
                     const Subject& subject) {
  return Laws(graph, values, inputs, subject).run();
}

}  // namespace corrloom::tools
