// The derivative of every op of the standard library against central differences in f64; those without one say why.

#include <gmock/gmock.h>

#include "compiler/frontend/entry.h"
#include "derivative_testing.h"

namespace corrloom::frontend::testing {
namespace {

using scalar::Value;

/// Sizes by the names that the library gives dimensions and attributes; others are 3.
const std::map<std::string, std::int64_t> kSizes = {
    {"N", 2},      {"C", 4},      {"H", 5},      {"W", 6},     {"L", 7},     {"G", 4},      {"P", 2},
    {"Q", 3},      {"R", 2},      {"D", 4},      {"O", 4},     {"I", 3},     {"J", 2},      {"K", 3},
    {"M", 3},      {"height", 3}, {"width", 7},  {"bins", 4},  {"E", 2},     {"Co", 2},     {"Ci", 3},
    {"window", 3}, {"radius", 2}, {"groups", 2}, {"parts", 4}, {"block", 2}, {"factor", 2}, {"step", 2}};

/// What an op needs that the common sizes and values do not suit.
struct Special {
  std::map<std::string, std::int64_t> sizes = {};  ///< of dimensions and attributes
  bool inside_unit = false;                        ///< floats from 0.1 to 0.9: probabilities
  const char* why_not = nullptr;                   ///< what the refusal says, of an op without a derivative
  const char* without = "";                        ///< an argument that it has no derivative by
};
const std::map<std::string, Special> kSpecial = {
    {"adam", {{}, true}},
    {"adam_w", {{}, true}},
    {"batch_norm", {{}, true}},
    {"binary_cross_entropy", {{}, true}},
    {"col2im", {{{"H", 3}, {"W", 4}, {"height", 2}, {"width", 3}, {"R", 12}, {"L", 4}}}},
    {"im2col", {{{"width", 2}}}},
    {"kl_divergence", {{}, true}},
    {"pixel_unshuffle", {{{"H", 4}}}},
    {"space_to_depth", {{{"H", 4}}}},

    // Its length is 0 in the corners, whose mirrored neighbours are equal: a kink.
    {"sobel", {{}, false, "is nan"}},
    // The sum over a pack of what stands under a condition has no text for every rank.
    {"pad2d", {{}, false, nullptr, "value"}},

    // What gives integers, or takes no floats.
    {"arange_i64", {{}, false, "takes no float"}},
    {"arg_max", {{}, false, "none of its results is a float"}},
    {"arg_min", {{}, false, "none of its results is a float"}},
    {"bincount", {{}, false, "takes no float"}},
    {"eye", {{}, false, "takes no float"}},
    {"gaussian_weights", {{}, false, "takes no float"}},
    {"histogram", {{}, false, "none of its results is a float"}},
    {"matmul_integer", {{}, false, "takes no float"}},
    {"matmul_quantized", {{}, false, "none of its results is a float"}},
    {"one_hot", {{}, false, "takes no float"}},
    {"ones", {{}, false, "takes no float"}},
    {"quantize_linear", {{}, false, "none of its results is a float"}},
    {"rand", {{}, false, "takes no float"}},
    {"randint", {{}, false, "takes no float"}},
    {"randn", {{}, false, "takes no float"}},
    {"rgb_to_grey_u8", {{}, false, "takes no float"}},
    {"zeros", {{}, false, "takes no float"}},
};

const Special& special(const std::string& op) {
  static const Special kNone;
  const auto found = kSpecial.find(op);
  return found == kSpecial.end() ? kNone : found->second;
}

std::int64_t size_of(const std::string& op, const std::string& name) {
  const auto own = special(op).sizes.find(name);
  if (own != special(op).sizes.end()) return own->second;
  const auto known = kSizes.find(name.substr(0, name.find('.')));
  return known == kSizes.end() ? 3 : known->second;
}

/// Types and ranks to look at an op by: f64 and i64, packs of one dimension.
Instance instance_of(const OpSignature& signature) {
  Instance instance = example_instance(signature, 1);
  for (auto& [name, dtype] : instance.types) dtype = is_float(dtype) ? DType::F64 : DType::I64;
  return instance;
}

class Sweep {
 public:
  Sweep(const Program& program, std::string op) : program_(program), op_(std::move(op)) {}

  /// Nothing when the derivative is right; else what is wrong, or why there is none.
  std::string run() {
    const OpSignature& declared = *program_.find(op_);
    const Instance instance = instance_of(declared);
    signature_ = program_.instantiate(op_, instance);
    for (const AttributeSignature& attribute : signature_.attributes) attributes_[attribute.name] = value_of(attribute);
    Diagnostics diagnostics;
    const auto graph = program_.lower(op_, attributes_, diagnostics, instance);
    if (!graph) return diagnostics.render();
    fill(*graph);
    if (wrt_.empty()) return "it takes no float";
    DerivativeOptions options;
    options.wrt = wrt_;
    const auto derived = program_.derivative(op_, options, diagnostics);
    if (!derived) return diagnostics.render();
    return compare(*graph, *derived);
  }

 private:
  Value value_of(const AttributeSignature& attribute) const {
    const bool is_sized = special(op_).sizes.count(attribute.name) != 0;
    if (attribute.default_value && !is_sized) return *attribute.default_value;
    const std::int64_t size = size_of(op_, attribute.name);
    return attribute.dtype == DType::F64 ? Value::f64(static_cast<double>(size)) : Value::i64(size);
  }

  /// Arguments of the sizes that the dimensions have.
  void fill(const tensor::Graph& graph) {
    const auto lookup = [&](scalar::SymbolId id) -> std::optional<Value> {
      const std::string& name = graph.symbols[static_cast<std::size_t>(id.index)].name;
      const auto attribute = attributes_.find(name);
      return attribute != attributes_.end() ? attribute->second : Value::i64(size_of(op_, name));
    };
    std::uint64_t seed = 1;
    std::size_t next = 0;
    for (const ParameterSignature& parameter : signature_.parameters) {
      if (is_float(parameter.dtype) && parameter.name != special(op_).without) wrt_.push_back(parameter.name);
      if (!parameter.is_tensor) {
        scalars_[parameter.name] = parameter.default_value ? *parameter.default_value
                                   : is_float(parameter.dtype)
                                       ? of_dtype(parameter.dtype, 0.7)
                                       : Value::integer(parameter.dtype, size_of(op_, parameter.name));
        continue;
      }
      std::vector<std::int64_t> extents;
      for (const scalar::Expr& extent : graph.op(graph.inputs[next++]).extents)
        extents.push_back(evaluate_at_entry(extent, lookup).value.as_i64());
      tensors_[parameter.name] = elements(parameter.dtype, extents, seed++);
    }
  }

  static Value of_dtype(DType dtype, double x) {
    return dtype == DType::F32 ? Value::f32(static_cast<float>(x)) : Value::f64(x);
  }

  tensor::Array elements(DType dtype, const std::vector<std::int64_t>& extents, std::uint64_t seed) const {
    tensor::Array array = spread(extents, seed);
    array.dtype = dtype;
    for (std::size_t k = 0; k < array.bits.size(); ++k) {
      const double x = Value{DType::F64, array.bits[k]}.as_f64();
      if (dtype == DType::Bool)
        array.bits[k] = (k + seed) % 3 != 0;
      else if (dtype == DType::F32)
        array.bits[k] = Value::f32(static_cast<float>(x)).bits;
      else if (!is_float(dtype))
        array.bits[k] = Value::integer(dtype, static_cast<std::int64_t>((k + seed) % 2)).bits;
      else if (special(op_).inside_unit)
        array.bits[k] = Value::f64(0.5 + 0.2 * x).bits;
    }
    return array;
  }

  static std::vector<tensor::Array> call(const Program& program, const std::string& op, const Arguments& arguments,
                                         const std::map<std::string, tensor::Array>& tensors,
                                         const std::map<std::string, Value>& attributes) {
    Diagnostics diagnostics;
    const auto fail = [&] { throw std::runtime_error(diagnostics.render()); };
    const auto instance = infer_instance(*program.find(op), arguments, diagnostics);
    if (!instance) fail();
    const auto graph = program.lower(op, attributes, diagnostics, *instance);
    if (!graph) fail();
    const auto symbols = bind(program.instantiate(op, *instance), *graph, arguments, diagnostics);
    if (!symbols) fail();
    std::vector<tensor::Array> inputs;
    for (const auto id : graph->inputs) inputs.push_back(tensors.at(graph->op(id).name));
    return tensor::interpret(*graph, inputs, in_symbol_order(*graph, *symbols));
  }

  std::vector<tensor::Array> call_with(const std::map<std::string, tensor::Array>& tensors,
                                       const std::map<std::string, Value>& scalars) const {
    return call(program_, op_, arguments_of(tensors, scalars), tensors, attributes_);
  }
  static Arguments arguments_of(const std::map<std::string, tensor::Array>& tensors,
                                const std::map<std::string, Value>& scalars) {
    Arguments arguments{{}, scalars};
    for (const auto& [name, array] : tensors) arguments.tensors[name] = {array.dtype, array.extents};
    return arguments;
  }

  std::string compare(const tensor::Graph& graph, const DerivativeText& derived) {
    const std::vector<tensor::Array> values = call_with(tensors_, scalars_);
    std::map<std::string, tensor::Array> tensors = tensors_;
    std::map<std::string, Value> scalars = scalars_;
    std::uint64_t seed = 100;
    for (std::size_t k = 0; k < values.size(); ++k) {
      cotangents_.push_back(
          elements(is_float(values[k].dtype) ? values[k].dtype : DType::F64, values[k].extents, seed++));
      if (!is_float(values[k].dtype)) continue;
      const std::string name = "d" + graph.outputs[k].name;
      if (values[k].extents.empty())
        scalars[name] = cotangents_.back().at(0);
      else
        tensors[name] = cotangents_.back();
    }
    const Program program = load_text(derived.text);
    const auto found = call(program, derived.name, arguments_of(tensors, scalars), tensors, attributes_);
    std::string wrong;
    for (std::size_t k = 0; k < wrt_.size() && wrong.empty(); ++k) wrong = difference(wrt_[k], found[k]);
    return wrong.empty() ? wrong : wrong + "\n" + derived.text;
  }

  double value_at(const std::map<std::string, tensor::Array>& tensors,
                  const std::map<std::string, Value>& scalars) const {
    const std::vector<tensor::Array> values = call_with(tensors, scalars);
    double sum = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (is_float(values[k].dtype)) sum += dot(values[k], cotangents_[k]);
    }
    return sum;
  }

  std::string difference(const std::string& name, const tensor::Array& found) const {
    // Ops on f32 alone are linear there, so that a long step is as good as a short one.
    const bool is_narrow = found.dtype == DType::F32;
    const double step = is_narrow ? 0.25 : 1e-5;
    // Of large arguments every so many elements.
    constexpr std::int64_t kElements = 16;
    for (std::int64_t element = 0; element < found.count(); element += 1 + found.count() / kElements) {
      double sides[2];
      for (const int side : {0, 1}) {
        std::map<std::string, tensor::Array> tensors = tensors_;
        std::map<std::string, Value> scalars = scalars_;
        const auto scalar = scalars.find(name);
        std::uint64_t& bits =
            scalar != scalars.end() ? scalar->second.bits : tensors.at(name).bits[static_cast<std::size_t>(element)];
        bits = of_dtype(found.dtype, Value{found.dtype, bits}.as_f64() + (side == 0 ? step : -step)).bits;
        sides[side] = value_at(tensors, scalars);
      }
      const double wanted = (sides[0] - sides[1]) / (2 * step), here = found.at(element).as_f64();
      // The step's square times the third derivative, and the rounding of the two values over the step.
      if (std::abs(here - wanted) <= (is_narrow ? 1e-4 : 1e-6) * std::max(1.0, std::abs(wanted))) continue;
      return "d" + name + ", element " + std::to_string(element) + " is " + std::to_string(here) + "; wanted " +
             std::to_string(wanted);
    }
    return {};
  }

  const Program& program_;
  std::string op_;
  OpSignature signature_;
  std::map<std::string, Value> attributes_, scalars_;
  std::map<std::string, tensor::Array> tensors_;
  std::vector<tensor::Array> cotangents_;
  std::vector<std::string> wrt_;
};

TEST(StandardLibraryDerivatives, AreCentralDifferencesOrSayWhyThereIsNone) {
  Diagnostics diagnostics;
  const auto program = Program::load_standard_library(diagnostics);
  ASSERT_TRUE(program.has_value());
  int right = 0;
  for (const OpSignature& op : program->ops()) {
    SCOPED_TRACE(op.name);
    std::string answer;
    try {
      answer = Sweep(*program, op.name).run();
    } catch (const std::exception& error) {
      answer = error.what();
    }
    const char* const why_not = special(op.name).why_not;
    if (why_not == nullptr)
      EXPECT_EQ(answer, "");
    else
      EXPECT_THAT(answer, ::testing::HasSubstr(why_not));
    right += answer.empty();
  }
  EXPECT_GE(right, 100);
}

}  // namespace
}  // namespace corrloom::frontend::testing
