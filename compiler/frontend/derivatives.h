#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/frontend/lowering.h"
#include "compiler/grad/reduce_work.h"

namespace corrloom::frontend {

/// `op name = grad of wrt ...`
struct DerivativeRequest {
  std::string name;
  std::vector<ast::Name> wrt;
  Span span;  ///< of what asks for it, for errors
  grad::Intermediates intermediates;
  bool with_values = false;  ///< the op's own results, too
};

/// The derivative of a checked op as the canonical text of a file: an op in index notation, with the constants that it
/// uses. `context` is fresh. Reports E0260 and E0261. `choices` gets what was decided about intermediates.
std::optional<std::string> derivative_text(Context& context, const Module& module, const ast::Op& op,
                                           const DerivativeRequest& request,
                                           std::vector<grad::Choice>* choices = nullptr);

/// Parses such a text and makes it what `item` of `module` stands for.
const Module& add_derived(Library& library, const Module& module, const ast::Item& item, const std::string& text);

}  // namespace corrloom::frontend
