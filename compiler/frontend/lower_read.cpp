#include <algorithm>

#include "compiler/frontend/lower_expr.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

bool has_pack(const ast::Read& read) {
  return std::any_of(read.subscripts.begin(), read.subscripts.end(),
                     [](const ast::Subscript& subscript) { return std::holds_alternative<ast::Pack>(subscript.kind); });
}

}  // namespace

Expr ExprLowering::lower_read(const ast::Read& read, const ast::Expr& expr, std::optional<DType> wanted) {
  const Binding* found = scope_.find(read.name.text);
  if (found == nullptr) return lower_global(read, expr);
  const Binding binding = *found;
  return match(
      binding.kind, [&](const IndexVariable& index) { return plain_value(read, binding, index.value); },
      [&](const TensorName& tensor) { return lower_tensor_read(read, expr.span, tensor.id); },
      [&](const ScalarName& scalar) { return plain_value(read, binding, scalar.value); },
      [&](const LiteralName& literal) -> Expr {
        if (!literal.attribute.empty())
          return plain_value(read, binding, context_.float_attribute(literal.attribute, wanted.value_or(DType::F32)));
        const auto value =
            value_of(literal.literal, literal.negative, wanted.value_or(DType::F32), expr.span, context_.diagnostics);
        return value ? plain_value(read, binding, scalar::constant(*value)) : nullptr;
      },
      [&](const TypeName&) -> Expr {
        report_dtype_as_value(read.name.text, expr.span);
        return nullptr;
      },
      [&](const PackName&) -> Expr {
        context_.diagnostics
            .report(Code::E0229, read.name.span, binding.what + " " + quoted(read.name.text) + " is no single value",
                    "stands for any number of dimensions")
            .help("write " + quoted("..." + read.name.text) + " among the subscripts of a tensor")
            .note("declared here", binding.span);
        return nullptr;
      },
      [&](const PendingResult&) -> Expr {
        if (context_.has_gaps) return nullptr;
        context_.diagnostics
            .report(Code::E0231, read.name.span, quoted(read.name.text) + " is read before it is defined",
                    "its statement comes later, or never")
            .note("declared here", binding.span);
        return nullptr;
      },
      [&](const PoisonedName&) -> Expr {
        lower_subscripts(read);
        return nullptr;
      });
}

/// A value that is no tensor: nothing may be behind its name.
Expr ExprLowering::plain_value(const ast::Read& read, const Binding& binding, Expr value) {
  if (read.subscripts.empty() && !read.padding) return value;
  context_.diagnostics
      .report(Code::E0229, read.name.span, binding.what + " " + quoted(read.name.text) + " is no tensor",
              read.subscripts.empty() ? "cannot be padded" : "has no elements")
      .note("declared here", binding.span);
  return nullptr;
}

Expr ExprLowering::lower_global(const ast::Read& read, const ast::Expr& expr) {
  const std::string& name = read.name.text;
  const Global global = find_global(module_, name);
  switch (global.kind) {
    case Global::Kind::Broken:
      return nullptr;
    case Global::Kind::Ambiguous:
      report_ambiguous(read.name, global, context_.diagnostics);
      return nullptr;
    case Global::Kind::Unknown:
      report_unknown(read, expr.span);
      lower_subscripts(read);
      return nullptr;
    case Global::Kind::Item:
      break;
  }
  if (const ast::Const* constant = global.constant()) return lower_constant(read, expr, *global.module, *constant);
  context_.diagnostics
      .report(Code::E0229, read.name.span, quoted(name) + " is no value", "it is defined as something to call")
      .help("call it: " + quoted(name + "(...)"));
  return nullptr;
}

Expr ExprLowering::lower_constant(const ast::Read& read, const ast::Expr& expr, const Module& module,
                                  const ast::Const& constant) {
  const ConstantValue* value = context_.constant_value(module, constant, read.name.span);
  if (value == nullptr) return nullptr;
  if (value->extents.empty()) {
    return plain_value(read, {{}, "the constant", constant.name.span}, scalar::constant(value->values.front()));
  }
  if (site_ != nullptr) return lower_tensor_read(read, expr.span, context_.constant_tensor(constant, *value));
  context_.diagnostics
      .report(Code::E0227, expr.span, "an element of " + quoted(constant.name.text) + " is read where no tensor can be",
              "wanted a value that follows from dimensions and constants")
      .note("declared here", constant.name.span);
  return nullptr;
}

void ExprLowering::report_dtype_as_value(const std::string& name, const Span& span) {
  context_.diagnostics.report(Code::E0229, span, quoted(name) + " is a dtype, not a value", "wanted a value")
      .help("a cast is written " + quoted(name + "(x)"));
}

void ExprLowering::report_unknown(const ast::Read& read, const Span& span) {
  const std::string& name = read.name.text;
  if (context_.has_gaps) return;
  const bool is_bare = read.subscripts.empty();
  std::vector<std::string> candidates;
  for (const std::string& local : scope_.names()) {
    const auto& kind = scope_.find(local)->kind;
    const auto* tensor = std::get_if<TensorName>(&kind);
    const bool has_elements = tensor != nullptr && context_.rank(tensor->id) > 0;
    if (has_elements != is_bare && !std::holds_alternative<PendingResult>(kind)) candidates.push_back(local);
  }
  for (const auto& [global, item] : module_.items) {
    if (std::holds_alternative<ast::Const>(*item)) candidates.push_back(global);
  }
  const auto nearest = nearest_name(name, candidates);
  const auto add_help = [&](Diagnostic& error, const std::string& otherwise) {
    if (nearest) {
      error.help("did you mean " + quoted(*nearest) + "?");
    } else if (!otherwise.empty()) {
      error.help(otherwise);
    }
  };
  if (parse_dtype(name)) {
    report_dtype_as_value(name, span);
  } else if (is_bare && place_ == Place::Shape) {
    add_help(context_.diagnostics.report(Code::E0217, read.name.span, "no argument gives the dimension " + quoted(name),
                                         "is neither a dimension nor an attribute nor a constant"),
             "make it an attribute: " + quoted("[" + name + ": int]"));
  } else if (is_bare && place_ == Place::Statement) {
    add_help(context_.diagnostics.report(Code::E0203, read.name.span, "nothing declares the index " + quoted(name),
                                         "is neither on the left nor in the list of a reduction"),
             "");
  } else {
    add_help(context_.diagnostics.report(Code::E0201, read.name.span, "nothing defines " + quoted(name),
                                         is_bare ? "an unknown name" : "an unknown tensor"),
             "");
  }
}

Expr ExprLowering::lower_tensor_read(const ast::Read& read, const Span& span, TensorId source) {
  const std::size_t rank = context_.rank(source);
  const DType dtype = context_.graph.op(source).dtype;
  if (site_ == nullptr) {
    context_.diagnostics.report(Code::E0227, span,
                                "the tensor " + quoted(read.name.text) + " is read where none can be",
                                "wanted a value that is known at entry");
    return nullptr;
  }
  std::optional<std::vector<Expr>> subscripts = lower_subscripts(read);
  const std::size_t given = subscripts ? subscripts->size() : read.subscripts.size();
  const bool is_counted = subscripts || !has_pack(read);
  if (is_counted && given != rank) {
    Diagnostic& error = context_.diagnostics.report(
        Code::E0207, span,
        quoted(read.name.text) + " has " + counted(rank, "dimension") + ", not " + std::to_string(given),
        "read with " + counted(given, "subscript"));
    error.note(quoted(read.name.text) + " is declared here", context_.graph.op(source).span);
    return nullptr;
  }
  scalar::Read node{source, subscripts ? std::move(*subscripts) : std::vector<Expr>()};
  node.span = span;
  const bool is_padded = lower_padding(read, node, dtype);
  return subscripts && is_padded ? scalar::read(std::move(node), dtype) : nullptr;
}

/// How many index variables a pack stands for; nothing, with an error, when the name is no such pack.
std::optional<std::size_t> ExprLowering::rank_of_pack(const ast::Name& name) {
  const Binding* binding = scope_.find(name.text);
  if (binding != nullptr && std::holds_alternative<PoisonedName>(binding->kind)) return {};
  const auto* pack = binding == nullptr ? nullptr : std::get_if<PackName>(&binding->kind);
  if (pack != nullptr && pack->holds == PackName::Holds::Indices) return pack->rank;
  if (context_.has_gaps && binding == nullptr) return {};
  Diagnostic& error = context_.diagnostics.report(
      Code::E0203, name.span,
      binding == nullptr ? "nothing declares the index variables " + quoted("..." + name.text)
                         : binding->what + " " + quoted(name.text) + " is no pack of index variables",
      "wanted a pack that stands on the left or in the list of a reduction");
  if (binding != nullptr) error.note("declared here", binding->span);
  return {};
}

std::optional<std::vector<Expr>> ExprLowering::lower_subscripts(const ast::Read& read) {
  std::vector<Expr> subscripts;
  bool failed = false;
  for (const ast::Subscript& subscript : read.subscripts) {
    if (const auto* expr = std::get_if<ast::ExprRef>(&subscript.kind)) {
      Expr value = lower_index(**expr);
      failed = failed || !value;
      subscripts.push_back(std::move(value));
    } else if (const auto* pack = std::get_if<ast::Pack>(&subscript.kind)) {
      const auto rank = rank_of_pack(pack->name);
      failed = failed || !rank;
      for (std::size_t part = 0; rank && part < *rank; ++part) {
        const Binding* variable = scope_.find(pack_part(pack->name.text, part));
        subscripts.push_back(std::get<IndexVariable>(variable->kind).value);
      }
    } else {
      context_.diagnostics
          .report(Code::E0218, subscript.span, "a slice stands in an expression of elements",
                  "wanted one subscript: an integer expression")
          .help("name the slice first: " + quoted("let part = " + read.name.text + "[...]"));
      failed = true;
    }
  }
  if (failed) return {};
  return subscripts;
}

/// Puts the padding of a read, if it has one, into its node. False after an error.
bool ExprLowering::lower_padding(const ast::Read& read, scalar::Read& node, DType dtype) {
  if (!read.padding) return true;
  if (const auto* mode = std::get_if<ast::PadMode>(&read.padding->kind)) {
    switch (*mode) {
      case ast::PadMode::Edge:
        node.pad = scalar::PadMode::Edge;
        break;
      case ast::PadMode::Reflect:
        node.pad = scalar::PadMode::Reflect;
        break;
      case ast::PadMode::Wrap:
        node.pad = scalar::PadMode::Wrap;
        break;
    }
    return true;
  }
  node.pad = scalar::PadMode::Value;
  node.pad_value = lower_as(*std::get<ast::ExprRef>(read.padding->kind), dtype);
  return node.pad_value != nullptr;
}

std::optional<TensorId> ExprLowering::tensor_named(const std::string& name) {
  if (const Binding* binding = scope_.find(name)) {
    const auto* tensor = std::get_if<TensorName>(&binding->kind);
    return tensor == nullptr ? std::nullopt : std::optional(tensor->id);
  }
  const Global global = find_global(module_, name);
  const ast::Const* constant = global.constant();
  if (constant == nullptr) return {};
  const ConstantValue* value = context_.constant_value(*global.module, *constant);
  if (value == nullptr || value->extents.empty()) return {};
  return context_.constant_tensor(*constant, *value);
}

std::vector<tensor::Condition::Shown> ExprLowering::shown_names(const ast::Expr& expr) {
  std::vector<tensor::Condition::Shown> shown;
  for (const std::string& name : names_in(expr)) {
    Expr value;
    if (const Binding* binding = scope_.find(name)) {
      if (const auto* scalar = std::get_if<ScalarName>(&binding->kind)) value = scalar->value;
    } else if (const Global global = find_global(module_, name); global.constant() != nullptr) {
      const ConstantValue* constant = context_.constant_value(*global.module, *global.constant());
      if (constant != nullptr && constant->extents.empty()) value = scalar::constant(constant->values.front());
    }
    if (value && is_symbolic(value)) shown.push_back({name, value});
  }
  return shown;
}

void ExprLowering::require_divisors(const std::vector<Divisor>& divisors) {
  for (const Divisor& divisor : divisors) {
    if (!is_symbolic(divisor.value)) continue;
    const Expr zero = scalar::constant(scalar::Value::integer(divisor.value->dtype, 0));
    context_.require({scalar::apply(scalar::Opcode::Ne, {divisor.value, zero}),
                      "the divisor " + quoted(std::string(divisor.written->span.text())) + " is zero",
                      divisor.written->span, shown_names(*divisor.written)});
  }
}

}  // namespace corrloom::frontend
