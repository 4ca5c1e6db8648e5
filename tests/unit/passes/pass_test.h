#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "compiler/passes/pass.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"
#include "tests/unit/ir/tensor/parsed.h"

namespace corrloom::testing {

using Pass = tensor::Graph (*)(tensor::Graph, passes::PassContext&);

/// The text after the passes, in order, on the graph of a text. The result is verified.
inline std::string after(std::initializer_list<Pass> row, const std::string& text, passes::PassContext& ctx) {
  tensor::Graph graph = parsed(text);
  for (Pass pass : row) graph = pass(std::move(graph), ctx);
  for (const tensor::Violation& violation : tensor::verify(graph))
    ADD_FAILURE() << violation.rule << " " << violation.op << ": " << violation.message << "\n" << tensor::print(graph);
  return tensor::print(graph);
}

inline std::string after(std::initializer_list<Pass> row, const std::string& text) {
  passes::PassContext ctx;
  const std::string result = after(row, text, ctx);
  EXPECT_FALSE(ctx.diagnostics.has_errors()) << ctx.diagnostics.render();
  return result;
}

/// What the passes report.
inline std::string report_of(std::initializer_list<Pass> row, const std::string& text, passes::PassContext ctx = {}) {
  tensor::Graph graph = parsed(text);
  for (Pass pass : row) graph = pass(std::move(graph), ctx);
  return ctx.diagnostics.render();
}

}  // namespace corrloom::testing
