#include "tests/fuzz/program_generator.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compiler/tools/check/question.h"
#include "tests/fuzz/kernel_generator.h"

namespace corrloom::fuzz {
namespace {

using tools::Random;

/// A tensor that may be read.
struct Array {
  std::string name;
  std::string dtype;
  std::vector<std::string> dims;
};
/// An index variable with the text of its extent.
struct Variable {
  std::string name;
  std::string extent;
};

/// Stand for any float and any integer type.
constexpr const char* kAnyFloat = "F";
constexpr const char* kAnyInteger = "I";

bool is_float(const std::string& dtype) {
  return dtype == "f32" || dtype == "f64" || dtype == "f16" || dtype == "bf16" || dtype == kAnyFloat;
}
/// Whether `abs` may refuse it.
bool may_be_unsigned(const std::string& dtype) {
  return dtype[0] == 'u' || dtype == kAnyInteger;
}

/// An op that others call, and how: the class of its operand, its operand's rank (0: any) and the dims of its results.
struct Callee {
  const char* name;
  const char* text;
  bool floats_only;
  std::size_t rank;
};
constexpr Callee kCallees[] = {
    {"folded",
     "op folded<T: number>(X: T[...D]) -> Y: T[...D] {\n  Y[...d] = if X[...d] < 2 then X[...d] * 3 else 1\n}\n", false,
     0},
    {"shifted",
     "op shifted<T: number>[by: int = 1](X: T[L, ...D]) -> Y: T[L, ...D] {\n"
     "  Y[l, ...d] = X[l, ...d] + (X[l - by, ...d] pad wrap)\n}\n",
     false, 0},
    {"centred",
     "op centred<T: float>(X: T[...D, L]) -> Y: T[...D, L] {\n"
     "  Y[...d, l] = X[...d, l] - (max(m) X[...d, m])\n}\n",
     true, 0},
    {"softmax", "", true, 0},
    {"relu", "", true, 0},
    {"sobel_x", "", false, 2},
};
/// Gives two results.
constexpr const char* kSplit =
    "op split<T: number>(X: T[M, L]) -> (A: T[M], B: T[L, M]) {\n"
    "  A[m] = sum(l) X[m, l]\n  B[l, m] = X[m, l] - A[m]\n}\n";

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string run() {
    constexpr const char* kMain[] = {"f32", "f32", "f32", "f64", "f16", "bf16", "i32",
                                     "i64", "i8",  "u8",  "i16", "u16", "u32",  "u64"};
    main_ = random_.pick(kMain);
    if (random_.one_in(6)) main_ = random_.one_in(2) ? kAnyFloat : kAnyInteger;
    has_attributes_ = random_.one_in(4);
    // Small programs find most, and more of them run in the same time.
    depth_ = random_.one_in(4) ? 4 : 2;
    std::string parameters;
    const int inputs = static_cast<int>(random_.between(1, 3));
    for (int k = 0; k < inputs; ++k)
      parameters += (k == 0 ? "" : ", ") + input(std::string(1, static_cast<char>('P' + k)));
    if (random_.one_in(4)) {
      scalar_ = "s";
      parameters += ", s: " + main_ + (is_open() || random_.one_in(2) ? "" : " = 2");
    }
    if (random_.one_in(5)) constant();
    if (random_.one_in(5)) scalar_function();
    std::string body;
    const int locals = static_cast<int>(random_.between(0, 2));
    for (int k = 0; k < locals; ++k) body += local("T" + std::to_string(k));
    std::string results;
    const int outputs = random_.one_in(5) ? 2 : 1;
    for (int k = 0; k < outputs; ++k) body += result(k == 0 ? "Y" : "Z", results);
    return before_ + "op f" + type_parameter() +
           (has_attributes_ ? "[a: int = 2, g: float = 0.75, w: bool = true]" : "") + "(" + parameters + ") -> " +
           (outputs == 2 ? "(" + results + ")" : results) + clauses() + " {\n" + body + "}\n";
  }

 private:
  std::string type_parameter() const {
    if (main_ == kAnyFloat) return "<F: float>";
    return main_ == kAnyInteger ? "<I: integer>" : "";
  }

  /// What stands behind the results.
  std::string clauses() {
    static constexpr const char* kWith[] = {" with order = strict", " with order = strict", " with order = any",
                                            " with math = fast", " with order = strict with math = fast"};
    std::string text;
    if (random_.one_in(8)) text += " where " + random_.pick(dims_) + " < 100, " + random_.pick(dims_) + " >= 0";
    return random_.one_in(7) ? text + random_.pick(kWith) : text;
  }

  /// Whether the main type is known only from a call.
  bool is_open() const { return main_ == kAnyFloat || main_ == kAnyInteger; }

  /// A table of constants, which is read like any tensor.
  void constant() {
    const std::string dtype = is_open() ? "f32" : main_;
    std::string row;
    for (int k = 0; k < 3; ++k) row += (k == 0 ? "[" : ", ") + std::to_string(random_.between(0, 9));
    before_ += "const c: " + dtype + "[2, 3] = [" + row + "], " + row + "]]\n";
    arrays_.push_back({"c", dtype, {"2", "3"}});
  }

  void scalar_function() {
    has_function_ = true;
    const std::string dtype = is_open() ? "T" : main_;
    const std::string class_of = main_ == kAnyFloat ? "float" : "integer";
    before_ += "fn mixed" + (is_open() ? "<T: " + class_of + ">" : std::string()) + "(x: " + dtype + ", y: " + dtype +
               ") -> " + dtype + " = if x < y then x * y + x else y - x\n";
  }

  /// Puts a definition or an import in front of the op, once.
  void need(const std::string& text) {
    if (before_.find(text) == std::string::npos) before_ += text;
  }

  std::string input(const std::string& name) {
    static constexpr const char* kDims[] = {"A", "B", "C"};
    static constexpr const char* kOthers[] = {"i32", "bool", "u8", "f32", "i64"};
    // A type that is open is known from an argument: the first.
    Array array{name, name != "P" && random_.one_in(4) ? random_.pick(kOthers) : main_, {}};
    const int rank = static_cast<int>(random_.between(1, 3));
    for (int axis = 0; axis < rank; ++axis) array.dims.push_back(random_.pick(kDims));
    for (const std::string& dim : array.dims) {
      if (std::find(dims_.begin(), dims_.end(), dim) == dims_.end()) dims_.push_back(dim);
    }
    arrays_.push_back(array);
    return name + ": " + array.dtype + "[" + joined(array.dims) + "]";
  }

  static std::string joined(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
    return out;
  }

  /// An extent over the dimensions.
  std::string extent() {
    const std::string dim = random_.pick(dims_);
    switch (random_.between(0, 9)) {
      case 0:
        return dim + " + 1";
      case 1:
        return "2 * " + dim;
      case 2:
        return "(" + dim + " + 1) // 2";
      case 3:
        return "3";
      case 4:
        return "max(" + dim + " - 1, 0)";
      case 5:
        return has_attributes_ ? dim + " + a" : dim;
      default:
        return dim;
    }
  }

  // ---- Statements ----

  std::vector<Variable> left_variables() {
    static constexpr const char* kNames[] = {"i", "j", "k"};
    std::vector<Variable> variables;
    const int rank = static_cast<int>(random_.between(0, 3));
    for (int axis = 0; axis < rank; ++axis) variables.push_back({kNames[axis], extent()});
    return variables;
  }

  static std::vector<std::string> extents_of(const std::vector<Variable>& variables) {
    std::vector<std::string> out;
    for (const Variable& variable : variables) out.push_back(variable.extent);
    return out;
  }

  std::string local(const std::string& name) {
    if (random_.one_in(5)) return call(name);
    if (random_.one_in(4)) return whole(name);
    std::vector<Variable> variables = left_variables();
    if (variables.empty()) variables.push_back({"i", random_.pick(dims_)});
    const std::string dtype = random_.one_in(6) ? "bool" : main_;
    scope_ = variables;
    std::string ranges;
    for (const Variable& variable : variables)
      ranges += (ranges.empty() ? "" : ", ") + variable.name + ": " + variable.extent;
    std::string text = "  let " + name + "[" + ranges + "] = " + expression(dtype, depth_ - 1) + "\n";
    arrays_.push_back({name, dtype, extents_of(variables)});
    return text;
  }

  std::string result(const std::string& name, std::string& declarations) {
    static constexpr const char* kOthers[] = {"bool", "i64", "f32"};
    const std::string dtype = random_.one_in(5) ? random_.pick(kOthers) : main_;
    const std::vector<Variable> variables = left_variables();
    scope_ = variables;
    declarations += (declarations.empty() ? "" : ", ") + name + ": " + dtype;
    if (!variables.empty()) declarations += "[" + joined(extents_of(variables)) + "]";
    const std::string value = expression(dtype, depth_);
    // Later statements may read it.
    arrays_.push_back({name, dtype, extents_of(variables)});
    std::vector<std::string> names;
    for (const Variable& variable : variables) names.push_back(variable.name);
    const std::string left = names.empty() ? name : name + "[" + joined(names) + "]";
    return "  " + left + " = " + value + "\n";
  }

  static std::string repeated(const std::string& text, std::size_t count) {
    std::string out;
    for (std::size_t k = 0; k < count; ++k) out += text;
    return out;
  }

  /// A local that moves whole tensors.
  std::string whole(const std::string& name) {
    const Array source = random_.pick(arrays_);
    Array made{name, source.dtype, source.dims};
    std::string text;
    const std::string rest = repeated(", :", source.dims.size() - 1);
    switch (random_.between(0, 7)) {
      case 0: {
        std::string product;
        for (const std::string& dim : source.dims) product += (product.empty() ? "(" : " * (") + dim + ")";
        made.dims = {product};
        text = "reshape(" + source.name + ", [" + product + "])";
        break;
      }
      case 1:
        std::reverse(made.dims.begin(), made.dims.end());
        text = "transpose(" + source.name + ")";
        break;
      case 2:
        made.dims[0] = "2 * (" + made.dims[0] + ")";
        text = "concat([" + source.name + ", " + source.name + "], 0)";
        break;
      case 3:
        made.dims[0] = "(" + made.dims[0] + " + 1) // 2";
        text = source.name + "[::2" + rest + "]";
        break;
      case 4:
        made.dims[0] = "max(" + made.dims[0] + " - 1, 0)";
        text = source.name + "[min(1, " + source.dims[0] + "):" + rest + "]";
        break;
      case 5:
        if (source.dims.size() > 1) {
          std::rotate(made.dims.begin(), made.dims.begin() + 1, made.dims.end());
          text = "transpose(" + source.name + ", [" + (source.dims.size() == 2 ? "1, 0" : "1, 2, 0") + "])";
          break;
        }
        [[fallthrough]];
      case 6:
        text = source.dtype == "bool" ? "!" + source.name : source.name + " * 2 + " + source.name;
        break;
      default:
        made.dims[0] = made.dims[0] + " + 3";
        text = "pad(" + source.name + ", [[1, 2]" + repeated(", [0, 0]", source.dims.size() - 1) + "], " +
               literal(source.dtype) + ")";
        break;
    }
    arrays_.push_back(made);
    return "  let " + name + " = " + text + "\n";
  }

  /// A local, or two, that another op gives.
  std::string call(const std::string& name) {
    const Array source = random_.pick(arrays_);
    if (source.dtype == "bool" || source.dims.empty()) return whole(name);
    if (source.dims.size() == 2 && random_.one_in(3)) {
      need(kSplit);
      const std::string second = name + "b";
      arrays_.push_back({name, source.dtype, {source.dims[0]}});
      arrays_.push_back({second, source.dtype, {source.dims[1], source.dims[0]}});
      return "  let (" + name + ", " + second + ") = split(" + source.name + ")\n";
    }
    const Callee& callee = random_.pick(kCallees);
    if ((callee.floats_only && !is_float(source.dtype)) || (callee.rank != 0 && callee.rank != source.dims.size()))
      return whole(name);
    const std::string text = callee.text;
    need(text.empty() ? "import \"std\"\n" : text);
    arrays_.push_back({name, source.dtype, source.dims});
    const std::string attribute = text.find("by: int") != std::string::npos && random_.one_in(2) ? "[by = 2]" : "";
    return "  let " + name + " = " + callee.name + attribute + "(" + source.name + ")\n";
  }

  // ---- Expressions ----

  std::string literal(const std::string& dtype) {
    static constexpr const char* kFloats[] = {"0", "1", "0.5", "2", "3.25", "-1", "-0.0", "1e-5", "inf", "nan"};
    static constexpr const char* kInts[] = {"0", "1", "2", "3", "7", "0x1F", "1_0"};
    if (dtype == "bool") return has_attributes_ && random_.one_in(5) ? "w" : random_.one_in(2) ? "true" : "false";
    if (is_float(dtype) && has_attributes_ && random_.one_in(5)) return "g";
    return is_float(dtype) ? random_.pick(kFloats) : random_.pick(kInts);
  }

  /// An operand: everything is in parentheses, so it may stand anywhere.
  std::string expression(const std::string& dtype, int depth) {
    if (depth <= 0 || random_.one_in(6)) return leaf(dtype);
    switch (random_.between(0, 7)) {
      case 0:
      case 1:
        return reduction(dtype, depth);
      case 2:
        return "(if " + condition(depth - 1) + " then " + expression(dtype, depth - 1) + " else " +
               expression(dtype, depth - 1) + ")";
      case 3:
        return function(dtype, depth);
      case 4:
        return "(let v = " + dtype + "(" + expression(dtype, depth - 1) + ") in " + two(dtype, "v", leaf(dtype)) + ")";
      default:
        return two(dtype, expression(dtype, depth - 1), expression(dtype, depth - 1));
    }
  }

  std::string two(const std::string& dtype, const std::string& a, const std::string& b) {
    static constexpr const char* kFloats[] = {"+", "-", "*", "*", "+", "/"};
    static constexpr const char* kInts[] = {"+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"};
    static constexpr const char* kBools[] = {"&&", "||", "&", "|", "^"};
    const char* op = dtype == "bool"   ? random_.pick(kBools)
                     : is_float(dtype) ? random_.pick(kFloats)
                                       : random_.pick(kInts);
    return "(" + a + " " + op + " " + b + ")";
  }

  std::string condition(int depth) {
    static constexpr const char* kCompare[] = {"<", "<=", ">", ">=", "==", "!="};
    if (!scope_.empty() && random_.one_in(2))
      return "(" + random_.pick(scope_).name + " " + random_.pick(kCompare) + " " +
             std::to_string(random_.between(0, 4)) + ")";
    return "(" + expression(main_, depth) + " " + random_.pick(kCompare) + " " + expression(main_, depth) + ")";
  }

  std::string function(const std::string& dtype, int depth) {
    const std::string x = expression(dtype, depth - 1);
    if (dtype == "bool") return "(!" + x + ")";
    if (has_function_ && dtype == main_ && random_.one_in(4)) return "mixed(" + x + ", " + leaf(dtype) + ")";
    if (random_.one_in(10)) return "pow(" + x + ", " + std::to_string(random_.between(0, 5)) + ")";
    if (random_.one_in(10) && !may_be_unsigned(dtype)) return "(-" + x + ")";
    if (random_.one_in(10)) return "min(highest(" + dtype + "), " + x + ")";
    if (random_.one_in(4)) return "select(" + condition(depth - 1) + ", " + x + ", " + leaf(dtype) + ")";
    if (random_.one_in(8)) return "clamp(" + x + ", " + leaf(dtype) + ", " + leaf(dtype) + ")";
    if (random_.one_in(3)) {
      static constexpr const char* kFloats[] = {"min", "max", "fmin", "fmax", "atan2", "pow", "fmod"};
      static constexpr const char* kInts[] = {"min", "max"};
      const char* name = is_float(dtype) ? random_.pick(kFloats) : random_.pick(kInts);
      return std::string(name) + "(" + x + ", " + expression(dtype, depth - 1) + ")";
    }
    if (!is_float(dtype)) return may_be_unsigned(dtype) ? "(~" + x + ")" : "abs(" + x + ")";
    if (random_.one_in(10)) return "fma(" + x + ", " + leaf(dtype) + ", " + leaf(dtype) + ")";
    if (random_.one_in(10)) return "(if isnan(" + x + ") then " + leaf(dtype) + " else " + leaf(dtype) + ")";
    if (random_.one_in(10)) return "max(" + x + ", lowest(" + dtype + ") * epsilon(" + dtype + "))";
    static constexpr const char* kOne[] = {"abs",   "sign",    "exp",   "exp2",  "expm1", "log",   "log2",
                                           "log1p", "sqrt",    "rsqrt", "sin",   "cos",   "tan",   "asin",
                                           "acos",  "atan",    "sinh",  "cosh",  "tanh",  "asinh", "acosh",
                                           "atanh", "sigmoid", "erf",   "floor", "ceil",  "round", "trunc"};
    return std::string(random_.pick(kOne)) + "(" + x + ")";
  }

  std::string leaf(const std::string& dtype) {
    if (random_.one_in(7)) return literal(dtype);
    if (!scalar_.empty() && dtype == main_ && random_.one_in(6)) return scalar_;
    if (!scope_.empty() && random_.one_in(7)) {
      const std::string& name = random_.pick(scope_).name;
      return dtype == "bool" ? "(" + name + " % 2 == 0)" : dtype == "i64" ? name : dtype + "(" + name + ")";
    }
    const Array array = random_.pick(arrays_);
    const std::string read = this->read(array);
    if (array.dtype == dtype) return read;
    return dtype == "bool" && array.dtype != "bool"
               ? "(" + read + " > " + literal(array.dtype == "bool" ? "i32" : "u8") + ")"
               : dtype + "(" + read + ")";
  }

  std::string read(const Array& array) {
    if (array.dims.empty()) return array.name;
    std::vector<std::string> subscripts;
    bool is_safe = true;
    // Whether its elements lie inside is known when the op runs.
    const std::string index = scope_.empty() || !random_.one_in(6) ? "" : data_subscript();
    const std::int64_t index_axis = random_.between(0, static_cast<std::int64_t>(array.dims.size()) - 1);
    for (const std::string& dim : array.dims) {
      if (!index.empty() && static_cast<std::int64_t>(subscripts.size()) == index_axis) {
        subscripts.push_back(index);
        continue;
      }
      std::vector<std::string> fitting;
      for (const Variable& variable : scope_) {
        if (variable.extent == dim) fitting.push_back(variable.name);
      }
      if (!fitting.empty() && !random_.one_in(4)) {
        subscripts.push_back(random_.pick(fitting));
        continue;
      }
      is_safe = false;
      subscripts.push_back(any_subscript(dim));
    }
    const std::string text = array.name + "[" + joined(subscripts) + "]";
    if (is_safe) return text;
    static constexpr const char* kModes[] = {"edge", "wrap", "reflect"};
    return "(" + text + " pad " + (random_.one_in(2) ? random_.pick(kModes) : literal(array.dtype)) + ")";
  }

  /// A subscript made of elements: near zero, far off, or held inside; empty when nothing has elements that fit.
  std::string data_subscript() {
    for (const Array& array : arrays_) {
      if (array.dtype == "bool" || is_float(array.dtype) || array.dims.empty()) continue;
      std::string element = array.name;
      for (std::size_t axis = 0; axis < array.dims.size(); ++axis) {
        std::string fitting;
        for (const Variable& variable : scope_) {
          if (variable.extent == array.dims[axis]) fitting = variable.name;
        }
        if (fitting.empty()) return "";
        element += (axis == 0 ? "[" : ", ") + fitting;
      }
      element += "]";
      switch (random_.between(0, 3)) {
        case 0:
          return element;
        case 1:
          return "i64(" + element + ") + 1";
        case 2:
          return element + " % 3";
        default:
          return "i64(clamp(" + element + ", 0, 2))";
      }
    }
    return "";
  }

  /// An element of any integer type as a number of the kind that dimensions are.
  static std::string element_as_index(const std::string& element) { return "i64(" + element + ")"; }

  std::string any_subscript(const std::string& dim) {
    const std::string offset = std::to_string(random_.between(0, 4));
    if (scope_.empty()) return offset;
    const std::string name = random_.pick(scope_).name;
    if (has_attributes_ && random_.one_in(4)) return "a * " + name + " - " + offset;
    switch (random_.between(0, 6)) {
      case 0:
        return name + " + " + offset;
      case 1:
        return name + " - " + offset;
      case 2:
        return "2 * " + name + " - " + offset;
      case 3:
        return name + " // 2";
      case 4:
        return "(" + dim + ") - 1 - " + name;
      case 5:
        return random_.pick(scope_).name + " + " + name + " - 1";
      default:
        return "(3 * " + name + " + " + offset + ") % 5";
    }
  }

  std::string reduction(const std::string& dtype, int depth) {
    if (reductions_ >= 3) return leaf(dtype);
    static constexpr const char* kNumbers[] = {"sum", "sum", "sum", "max", "min", "prod"};
    const std::string name = "r" + std::to_string(reductions_++);
    const std::string range = scope_.empty() || !random_.one_in(4) ? extent() : dependent_range();
    const std::vector<Variable> outside = scope_;
    scope_.push_back({name, range});
    // A second variable of the same reduction.
    std::string second;
    if (dtype != "bool" && reductions_ < 3 && random_.one_in(4)) {
      second = "r" + std::to_string(reductions_++);
      scope_.push_back({second, extent()});
    }
    const std::string list = name + ": " + range + (second.empty() ? "" : ", " + second + ": " + scope_.back().extent);
    std::string kind, body;
    if (dtype == "bool") {
      kind = random_.one_in(2) ? "any" : "all";
      body = "(" + name + " % 3 != 1 && " + expression("bool", depth - 2) + ")";
    } else if (dtype == "i64" && second.empty() && random_.one_in(3)) {
      // An empty argmax is an entry error: a range of one at least.
      kind = random_.one_in(2) ? "argmax" : "argmin";
      scope_.back().extent = "3";
      body = using_variable(expression(main_, depth - 2), name, main_);
      scope_ = outside;
      return "(" + kind + "(" + name + ": 3) (" + body + "))";
    } else {
      kind = random_.pick(kNumbers);
      body = using_variable(expression(dtype, depth - 2), name, dtype);
      if (!second.empty()) body = using_variable(body, second, dtype);
    }
    scope_ = outside;
    return "(" + kind + "(" + list + ") (" + body + "))";
  }

  /// Up to a variable, from it on, a window around it or in proportion to it, or what elements say.
  std::string dependent_range() {
    const Variable& variable = random_.pick(scope_);
    const std::string& name = variable.name;
    switch (random_.between(0, 5)) {
      case 4:
        return name + " * 5 // 2..((" + name + " + 1) * 5 + 1) // 2";
      case 5:
        if (const std::string element = data_subscript(); !element.empty())
          return "0..min(" + element_as_index(element) + ", 6)";
        [[fallthrough]];
      case 0:
        return name + ".." + extent();
      case 1:
        return "max(" + name + " - 2, 0).." + name + " + 1";
      default:
        return "0.." + name + " + 1";
    }
  }

  /// A reduction's body has to mention its variable.
  static std::string using_variable(const std::string& body, const std::string& name, const std::string& dtype) {
    if (body.find(name) != std::string::npos) return body;
    return body + " + " + (dtype == "i64" ? name : dtype + "(" + name + ")");
  }

  Random random_;
  std::string before_;  ///< imports and the ops that are called
  std::string main_, scalar_;
  int depth_ = 4;  ///< of a result's expression
  bool has_attributes_ = false;
  bool has_function_ = false;  ///< `mixed`
  std::vector<std::string> dims_;
  std::vector<Array> arrays_;
  std::vector<Variable> scope_;
  int reductions_ = 0;
};

}  // namespace

std::string random_program(std::uint64_t seed) {
  Random random(seed);
  return random.one_in(2) ? random_kernel(random) : Generator(seed).run();
}

}  // namespace corrloom::fuzz
