#include <string>

#include "ir/base/ir_lexer.h"
#include "ir/base/ir_names.h"
#include "ir/base/match.h"
#include "ir/loop/text.h"

namespace corrloom::loop {
namespace {

std::string_view space_name(Space space) {
  switch (space) {
    case Space::Global:
      return "global";
    case Space::Shared:
      return "shared";
    case Space::Local:
      return "local";
  }
  return "global";
}

std::string type_text(Type type) {
  return std::string(name_of(type.dtype)) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

class Printer {
 public:
  explicit Printer(const Function& function) : function_(function), values_(function.values.size()) {
    for (const tensor::Symbol& symbol : function.symbols) symbols_.push_back(symbol_names_.make_unique(symbol.name));
    for (const Buffer& buffer : function.buffers) buffers_.push_back(value_names_.make_unique(buffer.name));
  }

  std::string run() {
    out_ = "func @" + as_ir_name(function_.name) + " stage " + (function_.stage == Stage::Mapped ? "mapped" : "flat") +
           " symbols [";
    for (std::size_t k = 0; k < symbols_.size(); ++k) {
      const tensor::Symbol& symbol = function_.symbols[k];
      out_ += (k == 0 ? "" : ", ") + symbols_[k];
      if (symbol.kind == tensor::Symbol::Kind::Scalar) out_ += ": " + std::string(name_of(symbol.dtype));
    }
    out_ += "] (";
    for (std::size_t k = 0; k < buffers_.size(); ++k) out_ += (k == 0 ? "" : ", ") + buffer_text(k);
    out_ += ") {\n";
    print(function_.body, 1);
    return out_ + "}\n";
  }

 private:
  std::string buffer_text(std::size_t number) const {
    const Buffer& buffer = function_.buffers[number];
    std::string text = "%" + buffers_[number] + ": " + std::string(name_of(buffer.dtype)) + "[";
    scalar::Names names;
    names.symbol = [this](SymbolId id) { return symbol(id); };
    for (std::size_t k = 0; k < buffer.extents.size(); ++k) {
      const std::optional<std::int64_t> known = scalar::as_i64(buffer.extents[k]);
      text += (k == 0 ? "" : ", ") + (known ? std::to_string(*known) : scalar::to_text(buffer.extents[k], names));
    }
    text += "]";
    if (buffer.space != Space::Global) text += " " + std::string(space_name(buffer.space));
    if (buffer.written) text += " out";
    return text;
  }

  std::string symbol(SymbolId id) const {
    const bool known = id.index >= 0 && id.index < static_cast<std::int32_t>(symbols_.size());
    return known ? symbols_[static_cast<std::size_t>(id.index)] : "symbol_" + std::to_string(id.index);
  }
  std::string buffer(BufferId id) const {
    const bool known = id.index >= 0 && id.index < static_cast<std::int32_t>(buffers_.size());
    return "%" + (known ? buffers_[static_cast<std::size_t>(id.index)] : "buffer_" + std::to_string(id.index));
  }

  /// Named at its first mention; values without a display name are numbered in that order.
  std::string value(ValueId id) {
    if (id.index < 0 || id.index >= static_cast<std::int32_t>(values_.size()))
      return "%invalid_" + std::to_string(id.index);
    std::string& name = values_[static_cast<std::size_t>(id.index)];
    if (name.empty()) {
      const std::string& wanted = function_.value(id).name;
      name = value_names_.make_unique(wanted.empty() ? "v" + std::to_string(numbered_++) : wanted);
    }
    return "%" + name;
  }
  std::string type(ValueId id) const {
    const bool known = id.index >= 0 && id.index < static_cast<std::int32_t>(function_.values.size());
    return known ? type_text(function_.type(id)) : "?";
  }

  std::string list(const std::vector<ValueId>& ids) {
    std::string text;
    for (std::size_t k = 0; k < ids.size(); ++k) text += (k == 0 ? "" : ", ") + value(ids[k]);
    return text;
  }
  std::string typed(const std::vector<ValueId>& ids) {
    std::string text;
    for (std::size_t k = 0; k < ids.size(); ++k) text += (k == 0 ? "" : ", ") + value(ids[k]) + ": " + type(ids[k]);
    return text;
  }

  void line(int depth, const std::string& text) {
    out_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + text + "\n";
  }

  void print(const Block& block, int depth) {
    for (const Instr& instr : block.instrs) print(instr, depth);
    if (!block.yields.empty()) line(depth, "yield " + list(block.yields));
  }

  void print(const Instr& instr, int depth) {
    const std::string results = instr.results.empty() ? "" : typed(instr.results) + " = ";
    match(
        instr.kind,
        [&](const Constant& k) { line(depth, results + "const " + scalar::to_text(k.value) + suffix(k.value)); },
        [&](const Symbol& k) { line(depth, results + "symbol " + symbol(k.symbol)); },
        [&](const Apply& k) { line(depth, results + std::string(scalar::info(k.opcode).text) + " " + list(k.args)); },
        [&](const Splat& k) { line(depth, results + "splat " + value(k.scalar)); },
        [&](const Ramp& k) { line(depth, results + "ramp " + value(k.base) + " by " + std::to_string(k.stride)); },
        [&](const Shuffle& k) {
          std::string lanes;
          for (int lane : k.lanes) lanes += (lanes.empty() ? "" : ", ") + std::to_string(lane);
          const std::string other = k.other ? ", " + value(k.other) : "";
          line(depth, results + "shuffle " + value(k.source) + other + " [" + lanes + "]");
        },
        [&](const Load& k) {
          line(depth, results + "load " + buffer(k.buffer) + "[" + list(k.index) + "]" + mask(k.mask));
        },
        [&](const Store& k) {
          line(depth, "store " + buffer(k.buffer) + "[" + list(k.index) + "] = " + value(k.value) + mask(k.mask) +
                          (k.streaming ? " streaming" : ""));
        },
        [&](const Prefetch& k) { line(depth, "prefetch " + buffer(k.buffer) + "[" + list(k.index) + "]"); },
        [&](const Check& k) {
          line(depth, results + "check " + std::to_string(k.site) + " " + value(k.index) + " below " + value(k.extent) +
                          mask(k.mask));
        },
        [&](const For& k) { print_loop(results, k, depth); },
        [&](const If& k) {
          line(depth, results + "if " + value(k.condition) + " {");
          print(k.then, depth + 1);
          if (!k.otherwise.instrs.empty() || !k.otherwise.yields.empty()) {
            line(depth, "} else {");
            print(k.otherwise, depth + 1);
          }
          line(depth, "}");
        });
  }

  static std::string suffix(const Value& value) {
    return value.dtype == DType::Bool ? "" : ":" + std::string(name_of(value.dtype));
  }
  std::string mask(ValueId id) { return id ? " mask " + value(id) : ""; }

  void print_loop(const std::string& results, const For& loop, int depth) {
    std::string text = results + "for " + value(loop.variable) + " below " + value(loop.extent);
    if (loop.binding == Binding::Block) text += " block";
    if (loop.binding == Binding::Thread) text += " thread";
    if (!loop.carried.empty()) {
      text += " carry (";
      for (std::size_t k = 0; k < loop.carried.size(); ++k) {
        text += (k == 0 ? "" : ", ") + value(loop.carried[k]) + " = " +
                (k < loop.inits.size() ? value(loop.inits[k]) : "?");
      }
      text += ")";
    }
    line(depth, text + " {");
    print(loop.body, depth + 1);
    line(depth, "}");
  }

  const Function& function_;
  IrNames symbol_names_ = IrNames::with_reserved_words();
  IrNames value_names_;
  std::vector<std::string> symbols_, buffers_, values_;
  int numbered_ = 0;
  std::string out_;
};

}  // namespace

std::string print(const Function& function) {
  return Printer(function).run();
}

}  // namespace corrloom::loop
