#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string_view>

#include "compiler/passes/pass.h"
#include "ir/loop/function.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// A pass on the Tensor IR. The name is also that of its function, its file, its `--pass=` flag and its test.
struct TensorPass {
  std::string_view name;
  tensor::Graph (*run)(tensor::Graph, PassContext&);
  std::string_view summary;
};

/// A pass on the Loop IR, and the stage that it leaves.
struct LoopPass {
  std::string_view name;
  loop::Function (*run)(loop::Function, PassContext&);
  loop::Stage leaves;
  std::string_view summary;
};

std::span<const TensorPass> tensor_passes();
std::span<const LoopPass> loop_passes();
const TensorPass* find_tensor_pass(std::string_view name);
const LoopPass* find_loop_pass(std::string_view name);

/// What the runner tells of each pass: for `--print-before`, `--print-after`, `--time`.
struct Observer {
  std::function<void(std::string_view pass, const tensor::Graph&)> before_tensor, after_tensor;
  std::function<void(std::string_view pass, const loop::Function&)> before_loop, after_loop;
  std::function<void(std::string_view pass, std::chrono::nanoseconds)> timed;
};

/// Runs one pass and verifies what it leaves. Throws InternalError with the pass's name and the IR before it when a
/// rule is broken or the pass itself fails.
tensor::Graph run_pass(const TensorPass& pass, tensor::Graph graph, PassContext& ctx, const Observer& observer);
loop::Function run_pass(const LoopPass& pass, loop::Function function, PassContext& ctx, const Observer& observer);

/// All Tensor IR passes in order; stops after one that reports.
tensor::Graph run_tensor_passes(tensor::Graph graph, PassContext& ctx, const Observer& observer);
loop::Function run_loop_passes(loop::Function function, PassContext& ctx, const Observer& observer);

/// Throws InternalError naming `after` when the graph or function breaks a rule.
void require_verified(const tensor::Graph& graph, std::string_view after);
void require_verified(const loop::Function& function, std::string_view after);

}  // namespace corrloom::passes
