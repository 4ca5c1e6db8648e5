#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ir/tensor/text.h"

namespace corrloom::testing {

inline SourceRef source_of(std::string text) {
  return std::make_shared<const SourceFile>("test.tir", std::move(text));
}

/// The graph of a text that has to be right.
inline tensor::Graph parsed(const std::string& text) {
  Diagnostics diagnostics;
  std::optional<tensor::Graph> graph = tensor::parse(source_of(text), diagnostics);
  EXPECT_TRUE(graph.has_value()) << diagnostics.render() << text;
  return graph ? *std::move(graph) : tensor::Graph{};
}

}  // namespace corrloom::testing
