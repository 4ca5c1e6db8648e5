#include "random_op.h"

#include <random>
#include <vector>

namespace corrloom::testing {
namespace {

/// A tensor in scope, and its extents as texts.
struct Name {
  std::string name;
  std::vector<std::string> extents;
};
/// An index variable in scope, and the end of its range.
struct Variable {
  std::string name;
  std::string end;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string run() {
    std::string text = "op f(X: f64[N, M], Z: f64[N]) -> (Y: f64[N, M], V: f64[N]) {\n";
    tensors_ = {{"X", {"N", "M"}}, {"Z", {"N"}}};
    const int locals = draw(4);
    for (int k = 0; k < locals; ++k) {
      const std::string name = "t" + std::to_string(k);
      const bool is_row = draw(2) == 0;
      const std::vector<Variable> left = is_row ? std::vector<Variable>{{"i", "N"}}
                                                : std::vector<Variable>{{"i", draw(2) == 0 ? "N" : "M"}, {"j", "M"}};
      std::string indices;
      Name made{name, {}};
      for (const Variable& one : left) {
        indices += (indices.empty() ? "" : ", ") + one.name + ": " + one.end;
        made.extents.push_back(one.end);
      }
      text += "  let " + name + "[" + indices + "] = " + value(left, 3) + "\n";
      tensors_.push_back(made);
    }
    text += "  Y[i, j] = " + value({{"i", "N"}, {"j", "M"}}, 3) + "\n";
    text += "  V[i] = " + value({{"i", "N"}}, 3) + "\n}\n";
    return text;
  }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }

  std::string value(const std::vector<Variable>& scope, int depth) {
    if (depth == 0) return leaf(scope);
    switch (draw(12)) {
      case 0:
      case 1:
        return "(" + value(scope, depth - 1) + " + " + value(scope, depth - 1) + ")";
      case 2:
        return "(" + value(scope, depth - 1) + " - " + value(scope, depth - 1) + ")";
      case 3:
      case 4:
        return "(" + value(scope, depth - 1) + " * " + value(scope, depth - 1) + ")";
      case 5:
        return "(" + value(scope, depth - 1) + " / (2 + " + function(scope, depth - 1) + "))";
      case 6:
        return function(scope, depth - 1);
      case 7:
        return "(if " + condition(scope, depth - 1) + " then " + value(scope, depth - 1) + " else " +
               value(scope, depth - 1) + ")";
      case 8:
        return (draw(2) == 0 ? "max(" : "min(") + value(scope, depth - 1) + ", " + value(scope, depth - 1) + ")";
      case 9:
      case 10:
        return reduction(scope, depth - 1);
      default:
        return leaf(scope);
    }
  }

  std::string leaf(const std::vector<Variable>& scope) {
    if (draw(8) == 0)
      return draw(2) == 0 ? "f64(0.5)"
                          : "f64(" + scope[static_cast<std::size_t>(draw(static_cast<int>(scope.size())))].name + ")";
    return read(scope);
  }

  /// A function whose values lie between -1 and 1, so that nothing grows.
  std::string function(const std::vector<Variable>& scope, int depth) {
    const char* names[] = {"tanh", "erf"};
    switch (draw(4)) {
      case 0:
        return "exp(-abs(" + value(scope, depth) + "))";
      case 1:
        return "(1 / sqrt(1 + exp(tanh(" + value(scope, depth) + "))))";
      default:
        return std::string(names[draw(2)]) + "(" + value(scope, depth) + ")";
    }
  }

  std::string condition(const std::vector<Variable>& scope, int depth) {
    const std::string& name = scope[static_cast<std::size_t>(draw(static_cast<int>(scope.size())))].name;
    switch (draw(4)) {
      case 0:
        return name + " % 2 == 0";
      case 1:
        return name + " > 0";
      case 2:
        return scope.front().name + " <= " + scope.back().name;
      default:
        return value(scope, depth) + " > 0.1";
    }
  }

  std::string reduction(const std::vector<Variable>& scope, int depth) {
    // Ranges that depend on other indices are not nested.
    if (used_ >= 3 || is_in_open_) return leaf(scope);
    const char* kinds[] = {"sum", "sum", "sum", "max", "min", "prod"};
    const int kind = draw(6);
    std::vector<Variable> inner = scope;
    const Variable one{std::string(1, static_cast<char>('p' + used_)), draw(2) == 0 ? "N" : "M"};
    ++used_;
    inner.push_back(one);
    std::string range = one.end;
    if (kind != 3 && draw(3) == 0) range = "0.." + scope.back().name + " + 1";
    if (kind == 3 && draw(3) == 0) range = scope.front().name + ".." + scope.front().name + " + 2";
    const bool is_open = range != one.end;
    if (is_open) inner.back().end = "";  // reads at it are padded
    is_in_open_ = is_open;
    std::string body = value(inner, depth);
    is_in_open_ = false;
    --used_;
    // The variable has to be used.
    body = "(" + body + " * " + read_at(one.name, is_open) + ")";
    return std::string("(") + kinds[kind] + "(" + one.name + ": " + range + ") " + body + ")";
  }

  std::string read_at(const std::string& variable, bool is_open) {
    return is_open || draw(2) == 0 ? "(Z[" + variable + "] pad edge)" : "(X[" + variable + ", 0] pad edge)";
  }

  std::string read(const std::vector<Variable>& scope) {
    const Name& tensor = tensors_[static_cast<std::size_t>(draw(static_cast<int>(tensors_.size())))];
    std::string text = tensor.name + "[";
    bool is_inside = true;
    for (std::size_t k = 0; k < tensor.extents.size(); ++k) {
      text += (k == 0 ? "" : ", ") + subscript(scope, tensor.extents[k], is_inside);
    }
    text += "]";
    if (is_inside) return text;
    const char* pads[] = {"0", "edge", "wrap", "reflect", "0.25"};
    return "(" + text + " pad " + pads[draw(5)] + ")";
  }

  std::string subscript(const std::vector<Variable>& scope, const std::string& extent, bool& is_inside) {
    const Variable& one = scope[static_cast<std::size_t>(draw(static_cast<int>(scope.size())))];
    const Variable& other = scope[static_cast<std::size_t>(draw(static_cast<int>(scope.size())))];
    switch (draw(14)) {
      case 0:
        is_inside = false;
        return one.name + " + 1";
      case 1:
        is_inside = false;
        return one.name + " - " + other.name;
      case 2:
        is_inside = false;
        return "2*" + one.name + " - 1";
      case 3:
        is_inside = false;
        return "2*" + one.name + " + " + other.name;
      case 4:
        return "(" + one.name + " + " + other.name + ") % " + extent;
      case 5:
        is_inside = false;
        return one.name + " // 2";
      case 6:
        is_inside = false;
        return "(" + one.name + " + 1) // 2 + " + other.name;
      case 7:
        return "clamp(" + one.name + " - 1, 0, " + extent + " - 1)";
      case 8:
        return one.name + " * " + one.name + " % " + extent;
      case 9:
        is_inside = false;
        return extent + " - 1 - " + one.name;
      case 10:
        is_inside = false;
        return one.name + " % 2";
      default:
        is_inside = is_inside && one.end == extent;
        return one.name;
    }
  }

  std::mt19937_64 random_;
  std::vector<Name> tensors_;
  int used_ = 0;
  bool is_in_open_ = false;  ///< inside a reduction whose range depends on other indices
};

}  // namespace

std::string random_op(std::uint64_t seed) {
  return Generator(seed).run();
}

}  // namespace corrloom::testing
