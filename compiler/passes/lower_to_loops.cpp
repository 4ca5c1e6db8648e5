#include "compiler/passes/lower_to_loops.h"

#include <algorithm>

#include "compiler/passes/lower_compute.h"
#include "ir/base/errors.h"
#include "ir/schedule/regions.h"

namespace corrloom::passes {
namespace {

using scalar::TensorId;
using tensor::Compute;

/// One buffer for each value from outside that the kernel's computes read, in the order of their ids, and one for the
/// result.
std::vector<TensorId> add_buffers(KernelState& kernel, TensorId root, const std::vector<TensorId>& inside) {
  std::vector<TensorId> order;
  const auto add_reads = [&](const tensor::Op& op) {
    tensor::for_each_expr(op, [&](const scalar::Expr& expr) {
      scalar::for_each_node(expr, [&](const scalar::Expr& node) {
        if (const scalar::Read* found = scalar::as_read(node)) order.push_back(found->source);
      });
    });
  };
  add_reads(kernel.graph.op(root));
  for (TensorId id : inside) add_reads(kernel.graph.op(id));
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::erase_if(order, [&](TensorId id) { return std::find(inside.begin(), inside.end(), id) != inside.end(); });
  order.push_back(root);
  for (TensorId id : order) {
    const tensor::Op& op = kernel.graph.op(id);
    kernel.buffers[id] = kernel.builder.add_buffer({op.name, op.dtype, op.extents, loop::Space::Global, id == root});
  }
  return order;
}

LoweredKernel lower_kernel(const tensor::Graph& graph, const schedule::Schedule& schedule, const schedule::Stage& stage,
                           TensorId root, const std::vector<tensor::CheckSite>& sites, const kernel::Target& target) {
  KernelState kernel{graph, schedule, sites,
                     FunctionBuilder(graph.name + "." + graph.op(root).name, loop::Stage::Mapped, graph.symbols)};
  kernel.most_own_bytes = target.at_scale(kMostOwnBytes);
  LoweredKernel out;
  out.compute = root;
  out.inside = schedule::computed_inside(graph, schedule, stage);
  out.buffers = add_buffers(kernel, root, out.inside);
  ComputeLowering(kernel, root, stage).run_kernel();
  out.blocks = kernel.blocks;
  out.function = kernel.builder.finish();
  return out;
}

}  // namespace

std::vector<LoweredKernel> lower_to_loops(const tensor::Graph& graph, const schedule::Schedule& schedule,
                                          PassContext& ctx) {
  std::vector<LoweredKernel> kernels;
  const std::vector<tensor::CheckSite> sites = tensor::check_sites(graph);
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    if (!std::holds_alternative<Compute>(graph.ops[k].kind)) continue;
    const auto stage =
        std::find_if(schedule.stages.begin(), schedule.stages.end(),
                     [&](const schedule::Stage& candidate) { return candidate.compute == graph.ops[k].name; });
    CORRLOOM_CHECK(stage != schedule.stages.end(), "no schedule for ", graph.ops[k].name);
    CORRLOOM_CHECK(stage->staging.empty(), "the copies of ", graph.ops[k].name, " were not made");
    if (stage->placement.kind == schedule::Placement::Kind::At) continue;
    kernels.push_back(lower_kernel(graph, schedule, *stage, TensorId{static_cast<std::int32_t>(k)}, sites, ctx.target));
    ctx.count("kernels");
  }
  return kernels;
}

}  // namespace corrloom::passes
