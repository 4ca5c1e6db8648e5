#include "tests/fuzz/kernel_generator.h"

#include <vector>

namespace corrloom::fuzz {
namespace {

using tools::Random;
using Texts = std::vector<std::string>;

class KernelGenerator {
 public:
  explicit KernelGenerator(Random& random) : random_(random) {
    constexpr const char* kTypes[] = {"f32",  "f32", "f32", "f32", "f64", "f16",
                                      "bf16", "i32", "i8",  "u8",  "i64", "i16"};
    dtype_ = random_.pick(kTypes);
    is_float_ = dtype_[0] == 'f' || dtype_ == "bf16";
    constexpr const char* kModes[] = {"0", "0", "edge", "wrap", "reflect", "1"};
    mode_ = random_.pick(kModes);
  }

  std::string run() {
    switch (random_.between(0, 9)) {
      case 0:
      case 1:
        return product();
      case 2:
      case 3:
        return window();
      case 4:
        return rows();
      case 5:
        return across();
      case 6:
        return interleaved();
      case 7:
        return chain();
      case 8:
        return normalised();
      default:
        return picked();
    }
  }

 private:
  static std::string joined(const Texts& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
    return out;
  }
  std::string number(std::int64_t low, std::int64_t high) { return std::to_string(random_.between(low, high)); }
  std::string tensor(const std::string& name, const Texts& dims) {
    return name + ": " + dtype_ + "[" + joined(dims) + "]";
  }
  std::string padded(const std::string& read) { return "(" + read + " pad " + mode_ + ")"; }
  Texts either_way(const std::string& a, const std::string& b) { return random_.one_in(2) ? Texts{a, b} : Texts{b, a}; }
  const char* fold() {
    constexpr const char* kFolds[] = {"sum", "sum", "sum", "max", "min", "prod"};
    return random_.pick(kFolds);
  }

  /// A function of one element.
  std::string of_element(const std::string& x) {
    switch (random_.between(0, is_float_ ? 6 : 3)) {
      case 0:
        return "max(" + x + ", 0)";
      case 1:
        return "(" + x + " * 3 + 1)";
      case 2:
        return "(if " + x + " < 2 then " + x + " else 2 * " + x + ")";
      case 3:
        return x;
      case 4:
        return "exp(" + x + ")";
      case 5:
        return "(" + x + " * sigmoid(" + x + "))";
      default:
        return "trunc(" + x + ")";
    }
  }

  /// Results in wider types now and then.
  std::string wide(const std::string& element) {
    if (wide_ == dtype_) return element;
    return wide_ + "(" + element + ")";
  }
  void choose_wide() {
    wide_ = dtype_;
    if ((dtype_ == "i8" || dtype_ == "u8" || dtype_ == "i16") && random_.one_in(2)) wide_ = "i32";
    if ((dtype_ == "bf16" || dtype_ == "f16") && random_.one_in(2)) wide_ = "f32";
  }

  /// `op f(inputs) -> Y: dtype[dims] { lines }`
  std::string op(const Texts& inputs, const std::string& dtype, const Texts& dims, const std::string& lines) {
    constexpr const char* kWith[] = {" with order = strict", " with order = any"};
    return "op f(" + joined(inputs) + ") -> Y: " + dtype + (dims.empty() ? "" : "[" + joined(dims) + "]") +
           (random_.one_in(8) ? random_.pick(kWith) : "") + " {\n" + lines + "}\n";
  }

  std::string product() {
    choose_wide();
    const bool batch = random_.one_in(4), shared = random_.one_in(2);
    const Texts a = either_way("M", "K"), b = either_way("K", "N"), y = either_way("M", "N");
    const auto at = [&](const Texts& dims, bool with_batch) {
      Texts subscripts;
      if (with_batch) subscripts.push_back("b");
      for (const std::string& dim : dims) subscripts.push_back(dim == "M" ? "m" : dim == "N" ? "n" : "k");
      return "[" + joined(subscripts) + "]";
    };
    const auto dims = [&](Texts out, bool with_batch) {
      if (with_batch) out.insert(out.begin(), "B");
      return out;
    };
    const bool b_batch = batch && !shared;
    std::string left = "P" + at(a, batch);
    if (random_.one_in(4)) left = of_element(left);
    std::string value = "sum(k) " + wide(left) + " * " + wide("Q" + at(b, b_batch));
    if (random_.one_in(3)) value = "sum(k) (" + wide(left) + " - " + wide("Q" + at(b, b_batch)) + ")";
    Texts inputs{tensor("P", dims(a, batch)), tensor("Q", dims(b, b_batch))};
    if (random_.one_in(2)) {
      inputs.push_back("R: " + wide_ + "[N]");
      value = "(" + value + ") + R[n]";
    }
    std::string lines = "  Y" + at(y, batch) + " = " + value + "\n";
    if (random_.one_in(3))
      lines = "  let T[" + std::string(batch ? "b: B, " : "") + "m: M, n: N] = " + value + "\n  Y" + at(y, batch) +
              " = " + of_element("T[" + std::string(batch ? "b, " : "") + "m, n]") + "\n";
    return op(inputs, wide_, dims(y, batch), lines);
  }

  std::string window() {
    choose_wide();
    const std::string step = random_.one_in(3) ? "2" : "1", pad = number(0, 3), h = number(1, 5), w = number(1, 5);
    const std::string spread = random_.one_in(4) ? "2 * " : "";
    const std::string row = step + " * i + " + spread + "p - " + pad, column = step + " * j + " + spread + "q - " + pad;
    const std::string rows = step == "1" ? "H" : "(H + 1) // 2", columns = step == "1" ? "W" : "(W + 1) // 2";
    const std::string range = "p: " + h + ", q: " + w;
    switch (random_.between(0, 3)) {
      case 0:
        return op({tensor("P", {"H", "W"}), tensor("Q", {h, w})}, wide_, {rows, columns},
                  "  Y[i, j] = sum(" + range + ") " + wide(padded("P[" + row + ", " + column + "]")) + " * " +
                      wide("Q[p, q]") + "\n");
      case 1:
        return op({tensor("P", {"C", "H", "W"}), tensor("Q", {"O", "C", h, w})}, wide_, {"O", rows, columns},
                  "  Y[o, i, j] = sum(c, " + range + ") " + wide(padded("P[c, " + row + ", " + column + "]")) + " * " +
                      wide("Q[o, c, p, q]") + "\n");
      case 2:
        return op({tensor("P", {"H", "W", "C"}), tensor("Q", {h, w, "C"})}, wide_, {rows, columns, "C"},
                  "  Y[i, j, c] = sum(" + range + ") " + wide(padded("P[" + row + ", " + column + ", c]")) + " * " +
                      wide("Q[p, q, c]") + "\n");
      default:
        return op({tensor("P", {"C", "H", "W"})}, dtype_, {"C", rows, columns},
                  "  Y[c, i, j] = " + std::string(fold()) + "(" + range + ") " +
                      padded("P[c, " + row + ", " + column + "]") + "\n");
    }
  }

  /// Rows, columns or several axes reduced.
  std::string rows() {
    const bool picks = random_.one_in(4);
    const std::string how = picks ? (random_.one_in(2) ? "argmax" : "argmin") : fold();
    const std::string type = picks ? "i64" : dtype_;
    switch (random_.between(0, 3)) {
      case 0:
        return op({tensor("P", {"A", "B"})}, type, {"A"}, "  Y[a] = " + how + "(b) " + of_element("P[a, b]") + "\n");
      case 1:
        return op({tensor("P", {"A", "B"})}, type, {"B"}, "  Y[b] = " + how + "(a) " + of_element("P[a, b]") + "\n");
      case 2:
        return op({tensor("P", {"A", "B", "C"})}, type, {"B"},
                  "  Y[b] = " + (picks ? how + "(a) P[a, b, 0]" : how + "(a, c) " + of_element("P[a, b, c]")) + "\n");
      default:
        return op({tensor("P", {"A", "B", "C"})}, type, {"A"},
                  "  Y[a] = " + (picks ? how + "(c) P[a, 0, c]" : how + "(b, c) " + of_element("P[a, b, c]")) + "\n");
    }
  }

  std::string across() {
    const std::string lines =
        "  Y[b, a] = " + of_element(random_.one_in(2) ? "P[a, b]" : padded("P[a - 1, b + 1]")) + "\n";
    if (random_.one_in(2)) return op({tensor("P", {"A", "B"})}, dtype_, {"B", "A"}, lines);
    const bool last = random_.one_in(2);
    return op({tensor("P", {"A", "B", "C"})}, dtype_, last ? Texts{"C", "A", "B"} : Texts{"B", "C", "A"},
              last ? "  Y[c, a, b] = " + of_element("P[a, b, c]") + "\n"
                   : "  Y[b, c, a] = " + of_element("P[a, b, c]") + "\n");
  }

  /// Few rows between each other, and quotients and remainders.
  std::string interleaved() {
    const std::string few = number(2, 5);
    switch (random_.between(0, 3)) {
      case 0:
        return op({tensor("P", {few, "A"})}, dtype_, {"A", few}, "  Y[a, c] = " + of_element("P[c, a]") + "\n");
      case 1:
        return op({tensor("P", {"A"}), tensor("Q", {"A"})}, dtype_, {"A * 2"},
                  "  Y[a] = if a % 2 == 0 then P[a // 2] else Q[a // 2]\n");
      case 2:
        return op({tensor("P", {"B", "A * " + few})}, dtype_, {"B", "A"},
                  "  Y[b, a] = " + std::string(fold()) + "(c: " + few + ") P[b, a * " + few + " + c]\n");
      default:
        return op({tensor("P", {"B", "A"})}, dtype_, {"B * " + few, "A * " + few},
                  "  Y[b, a] = P[b // " + few + ", a // " + few + "]\n");
    }
  }

  std::string chain() {
    const auto tap = [&](const std::string& name, int row, int column) {
      return padded(name + "[i + " + std::to_string(row) + ", j + " + std::to_string(column) + "]");
    };
    const auto taps = [&](const std::string& name) {
      std::string text = name + "[i, j]";
      for (std::int64_t k = random_.between(1, 3); k > 0; --k) {
        constexpr const char* kOperators[] = {"+", "-", "+"};
        text += std::string(" ") + random_.pick(kOperators) + " " +
                tap(name, static_cast<int>(random_.between(-2, 2)), static_cast<int>(random_.between(-2, 2)));
      }
      return text;
    };
    std::string lines = "  let T[i: H, j: W] = " + taps("P") + "\n";
    std::string last = "T";
    if (random_.one_in(2)) {
      lines += "  let U[i: H, j: W] = " + of_element("T[i, j]") + " + " + taps("T") + "\n";
      last = "U";
    }
    return op({tensor("P", {"H", "W"})}, dtype_, {"H", "W"}, lines + "  Y[i, j] = " + taps(last) + "\n");
  }

  std::string normalised() {
    std::string lines = "  let M[a: A] = " + std::string(fold()) + "(b) P[a, b]\n";
    lines += "  let T[a: A, b: B] = " + of_element("(P[a, b] - M[a])") + "\n";
    if (random_.one_in(2))
      return op({tensor("P", {"A", "B"})}, dtype_, {"A", "B"},
                lines + "  let S[a: A] = sum(b) T[a, b]\n  Y[a, b] = T[a, b] " + (is_float_ ? "/" : "-") + " S[a]\n");
    return op({tensor("P", {"A", "B"}), tensor("Q", {"B", "N"})}, dtype_, {"A", "N"},
              lines + "  Y[a, n] = sum(b) T[a, b] * Q[b, n]\n");
  }

  /// Elements picked backwards, around the end, at distances, running.
  std::string picked() {
    switch (random_.between(0, 4)) {
      case 0:
        return op({tensor("P", {"A", "B"})}, dtype_, {"A", "B"},
                  "  Y[a, b] = " + std::string(fold()) + "(r: 0..b + 1) P[a, r]\n");
      case 1:
        return op({tensor("P", {"A", "B"})}, dtype_, {"A", "B"},
                  "  Y[a, b] = P[A - 1 - a, B - 1 - b] + (P[a, b - 1] pad wrap)\n");
      case 2:
        return op(
            {tensor("P", {"A", "B"})}, dtype_, {"A", "B"},
            "  Y[a, b] = (P[a, b + " + number(1, 9) + "] pad wrap) - (P[a, b - " + number(1, 9) + "] pad reflect)\n");
      case 3:
        return op({tensor("P", {"A", "B"}), tensor("Q", {"C", "B"})}, dtype_, {"A + C", "B"},
                  "  Y[a, b] = if a < A then (P[a, b] pad 0) else (Q[a - A, b] pad 0)\n");
      default:
        return op({tensor("P", {"A", "B"})}, dtype_, {"A", "B"},
                  "  Y[a, b] = " + std::string(fold()) + "(r: 0..a + 1) P[r, b]\n");
    }
  }

  Random& random_;
  std::string dtype_, wide_, mode_;
  bool is_float_ = false;
};

}  // namespace

std::string random_kernel(Random& random) {
  return KernelGenerator(random).run();
}

}  // namespace corrloom::fuzz
