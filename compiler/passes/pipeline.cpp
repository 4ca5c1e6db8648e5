#include "compiler/passes/pipeline.h"

#include <algorithm>
#include <string>

#include "compiler/passes/canonicalise.h"
#include "compiler/passes/check_bounds.h"
#include "compiler/passes/compose_views.h"
#include "compiler/passes/contract_fma.h"
#include "compiler/passes/cut_reductions.h"
#include "compiler/passes/delay_overwrites.h"
#include "compiler/passes/expand_functions.h"
#include "compiler/passes/flatten_indices.h"
#include "compiler/passes/fuse_epilogue.h"
#include "compiler/passes/inline_elementwise.h"
#include "compiler/passes/lower_padding.h"
#include "compiler/passes/materialise_outputs.h"
#include "compiler/passes/name_uniquely.h"
#include "compiler/passes/narrow_picks.h"
#include "compiler/passes/pack_dots.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/passes/set_orders.h"
#include "compiler/passes/specialise.h"
#include "compiler/passes/split_axes.h"
#include "compiler/passes/split_epilogue.h"
#include "compiler/passes/unwrap_remainders.h"
#include "ir/base/errors.h"
#include "ir/loop/text.h"
#include "ir/loop/verify.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"

namespace corrloom::passes {
namespace {

constexpr TensorPass kTensorPasses[] = {
    {"contract_fma", contract_fma, "makes one fma of a product and a sum in one expression as written"},
    {"set_orders", set_orders, "states the order of every reduction"},
    {"specialise", specialise, "puts constants in place of dimensions and tests the entry conditions"},
    {"check_bounds", check_bounds, "proves that reads stay inside, or shows where they do not"},
    {"lower_padding", lower_padding, "writes padding as conditions and index arithmetic"},
    {"compose_views", compose_views, "lets readers of a view read what the view reads"},
    {"materialise_outputs", materialise_outputs, "gives every result a compute of its own"},
    {"inline_elementwise", inline_elementwise, "folds elementwise producers into their readers"},
    {"remove_dead_ops", remove_dead_ops, "drops what no result needs"},
    {"fuse_epilogue", fuse_epilogue, "folds elementwise consumers into the reduction that they follow"},
    {"remove_dead_ops", remove_dead_ops, "drops what no result needs"},
    {"split_axes", split_axes, "makes two axes of one that is divided by a constant"},
    {"unwrap_remainders", unwrap_remainders, "writes remainders that wrap once as a choice"},
    {"canonicalise", canonicalise, "drops unit axes and merges axes that are contiguous in every access"},
    {"remove_dead_ops", remove_dead_ops, "drops what no result needs"},
    {"narrow_picks", narrow_picks, "carries the places of argmax and argmin as i32"},
    {"pack_dots", pack_dots, "lets sums of products of bytes take four at a time"},
    {"cut_reductions", cut_reductions, "makes ops of their own of the parts of reductions"},
    {"delay_overwrites", delay_overwrites, "moves results in the storage of an input behind what reads the input"},
    {"expand_functions", expand_functions, "writes functions in terms of primitives"},
    {"split_epilogue", split_epilogue, "gives long bodies of reductions by lanes vectors of their own"},
    {"name_uniquely", name_uniquely, "gives ops and axes names of their own"},
};

constexpr LoopPass kLoopPasses[] = {
    {"flatten_indices", flatten_indices, loop::Stage::Flat, "turns [i, j] into i * 16 + j"},
};

/// Pairs of passes of which the first must run earlier, and why.
struct Order {
  std::string_view first, then, reason;
};
constexpr Order kOrder[] = {
    {"specialise", "check_bounds", "bounds are judged on constant extents"},
    {"check_bounds", "lower_padding", "messages show reads as they were written"},
    {"check_bounds", "compose_views", "a read of a view is judged by the view's extents"},
    {"contract_fma", "specialise",
     "bits must not depend on which sizes are constants: f32(N) * x + y is an fma for all N"},
    {"set_orders", "specialise", "bits must not depend on which sizes are constants"},
    {"contract_fma", "inline_elementwise", "contraction does not cross statements"},
    {"contract_fma", "fuse_epilogue", "contraction does not cross statements"},
    {"lower_padding", "compose_views", "composition is exact only for reads without padding"},
    {"compose_views", "materialise_outputs", "a result that is a view becomes a compute there"},
    {"compose_views", "canonicalise", "axes merge when views no longer hide how elements lie"},
    {"set_orders", "inline_elementwise", "a rewritten step no longer shows that its order decides no bits"},
    {"inline_elementwise", "fuse_epilogue", "a reduction that is read once is seen when other readers are folded"},
    {"remove_dead_ops", "canonicalise", "a dead reader must not keep axes apart"},
    {"set_orders", "canonicalise", "orders must not depend on extents, and unit axes are dropped there"},
    {"inline_elementwise", "delay_overwrites", "what is folded moves its reads to its reader"},
    {"fuse_epilogue", "split_axes", "a consumer reads the elements of a reduction in the shape of both"},
    {"inline_elementwise", "split_axes", "what is folded brings divisions to where they stay"},
    {"split_axes", "canonicalise", "parts that lie side by side in every access become one axis"},
    {"fuse_epilogue", "delay_overwrites", "what is folded moves its reads to its reader"},
    {"canonicalise", "delay_overwrites", "a copy that it makes must not be folded away"},
    {"contract_fma", "expand_functions", "expansions are not contracted"},
    {"set_orders", "pack_dots", "orders are judged on the sums as they were written"},
    {"split_axes", "unwrap_remainders", "remainders of whole periods are axes of their own"},
    {"check_bounds", "narrow_picks", "an argmax is told by its accumulators there"},
    {"canonicalise", "narrow_picks", "axes that merge make one range"},
    {"canonicalise", "pack_dots", "axes that merge make longer sums"},
    {"pack_dots", "delay_overwrites", "packing reads inputs"},
    {"fuse_epilogue", "cut_reductions", "what is made of the result would hide in its parts"},
    {"canonicalise", "cut_reductions", "axes that merge need no reshape, and a part may be all there is"},
    {"lower_padding", "cut_reductions", "reads walk whole rows where they have no padding"},
    {"cut_reductions", "delay_overwrites", "parts read inputs"},
    {"fuse_epilogue", "expand_functions", "functions in bodies are counted as one operation"},
    {"expand_functions", "split_epilogue", "what is split off is as long as its operations are"},
    {"fuse_epilogue", "split_epilogue", "what is split off would be folded in again"},
};

constexpr std::size_t position(std::string_view name) {
  for (std::size_t k = 0; k < std::size(kTensorPasses); ++k) {
    if (kTensorPasses[k].name == name) return k;
  }
  return std::size(kTensorPasses);
}
constexpr bool holds() {
  for (const Order& order : kOrder) {
    if (position(order.then) == std::size(kTensorPasses) || position(order.first) >= position(order.then)) return false;
  }
  return true;
}
static_assert(holds(), "a pass runs before one it depends on");

template <class Ir>
std::string violations_text(const Ir& ir) {
  std::string out;
  for (const auto& violation : verify(ir)) {
    if constexpr (requires { violation.op; }) {
      out += violation.rule + ": %" + violation.op + " " + violation.message + "\n";
    } else {
      out += violation.rule + ": " + violation.where + " " + violation.message + "\n";
    }
  }
  return out;
}

/// Runs a pass with everything around it: observers, time, verification, blame.
template <class Pass, class Ir, class Watch>
Ir run_one(const Pass& pass, Ir ir, PassContext& ctx, const Observer& observer, const Watch& before, const Watch& after,
           std::string_view suffix) {
  if (before) before(pass.name, ir);
  const Ir input = ir;
  const auto blame = [&](const std::string& what) {
    return InternalError("in pass " + std::string(pass.name) + ": " + what + "\nIR before it:\n" + print(input) +
                         "reproduce: corrloom-opt FILE." + std::string(suffix) + " --pass=" + std::string(pass.name));
  };
  const auto start = std::chrono::steady_clock::now();
  Ir result;
  try {
    result = pass.run(std::move(ir), ctx);
  } catch (const InternalError& error) {
    throw blame(error.what());
  }
  if (observer.timed) observer.timed(pass.name, std::chrono::steady_clock::now() - start);
  if (ctx.diagnostics.has_errors()) return result;
  const std::string broken = violations_text(result);
  if (!broken.empty()) throw blame(broken + "IR after it:\n" + print(result));
  if (after) after(pass.name, result);
  return result;
}

template <class Ir>
void require(const Ir& ir, std::string_view after) {
  const std::string broken = violations_text(ir);
  if (!broken.empty()) throw InternalError("after " + std::string(after) + ": " + broken + print(ir));
}

}  // namespace

std::span<const TensorPass> tensor_passes() {
  return kTensorPasses;
}
std::span<const LoopPass> loop_passes() {
  return kLoopPasses;
}

const TensorPass* find_tensor_pass(std::string_view name) {
  const auto found = std::find_if(std::begin(kTensorPasses), std::end(kTensorPasses),
                                  [&](const TensorPass& pass) { return pass.name == name; });
  return found == std::end(kTensorPasses) ? nullptr : found;
}
const LoopPass* find_loop_pass(std::string_view name) {
  const auto found = std::find_if(std::begin(kLoopPasses), std::end(kLoopPasses),
                                  [&](const LoopPass& pass) { return pass.name == name; });
  return found == std::end(kLoopPasses) ? nullptr : found;
}

tensor::Graph run_pass(const TensorPass& pass, tensor::Graph graph, PassContext& ctx, const Observer& observer) {
  return run_one(pass, std::move(graph), ctx, observer, observer.before_tensor, observer.after_tensor, "tir");
}
loop::Function run_pass(const LoopPass& pass, loop::Function function, PassContext& ctx, const Observer& observer) {
  loop::Function result =
      run_one(pass, std::move(function), ctx, observer, observer.before_loop, observer.after_loop, "lir");
  if (result.stage != pass.leaves)
    throw InternalError("pass " + std::string(pass.name) + " leaves another stage than it states");
  return result;
}

tensor::Graph run_tensor_passes(tensor::Graph graph, PassContext& ctx, const Observer& observer) {
  for (const TensorPass& pass : kTensorPasses) {
    graph = run_pass(pass, std::move(graph), ctx, observer);
    if (ctx.diagnostics.has_errors()) break;
  }
  return graph;
}
loop::Function run_loop_passes(loop::Function function, PassContext& ctx, const Observer& observer) {
  for (const LoopPass& pass : kLoopPasses) function = run_pass(pass, std::move(function), ctx, observer);
  return function;
}

void require_verified(const tensor::Graph& graph, std::string_view after) {
  require(graph, after);
}
void require_verified(const loop::Function& function, std::string_view after) {
  require(function, after);
}

}  // namespace corrloom::passes
