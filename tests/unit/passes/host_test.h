#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/apply_staging.h"
#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/flatten_indices.h"
#include "compiler/passes/lower_to_loops.h"
#include "ir/loop/function.h"
#include "tests/unit/ir/tensor/parsed.h"

/// What tests of the recipe of schedules share.
namespace corrloom::testing {

/// A processor with 32 registers of 64 bytes.
inline passes::PassContext wide_host() {
  passes::PassContext ctx;
  ctx.target.name = "host";
  ctx.target.vector_bytes = 64;
  ctx.target.vector_registers = 32;
  return ctx;
}

/// The loops that the recipe chooses for the only compute of a graph.
inline std::vector<schedule::Loop> loops_of(const std::string& graph) {
  passes::PassContext ctx = wide_host();
  return passes::choose_schedule(parsed(graph), ctx).stages.at(0).loops;
}

/// The loop functions of a graph under the schedule that the recipe chooses.
inline std::vector<loop::Function> lowered(const std::string& text) {
  passes::PassContext ctx = wide_host();
  tensor::Graph graph = parsed(text);
  schedule::Schedule schedule = passes::choose_schedule(graph, ctx);
  const passes::Scheduled scheduled = passes::apply_staging(std::move(graph), std::move(schedule), ctx);
  std::vector<loop::Function> out;
  for (passes::LoweredKernel& kernel : passes::lower_to_loops(scheduled.graph, scheduled.schedule, ctx))
    out.push_back(std::move(kernel.function));
  return out;
}

/// The same with offsets, as code is made of them.
inline std::vector<loop::Function> flattened(const std::string& text) {
  std::vector<loop::Function> functions = lowered(text);
  passes::PassContext ctx = wide_host();
  for (loop::Function& function : functions) function = passes::flatten_indices(std::move(function), ctx);
  return functions;
}

/// Loads of vectors: those that are not one run of memory, and those under a mask that the program computes.
struct VectorLoads {
  int all = 0, gathered = 0, masked = 0;
};
inline VectorLoads vector_loads(const loop::Function& function) {
  std::map<loop::ValueId, loop::Ramp> ramps;
  VectorLoads out;
  loop::for_each_block(function.body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      if (const auto* ramp = std::get_if<loop::Ramp>(&instr.kind)) ramps[instr.results[0]] = *ramp;
      const auto* load = std::get_if<loop::Load>(&instr.kind);
      if (load == nullptr || function.type(instr.results[0]).lanes == 1) continue;
      ++out.all;
      out.masked += load->mask ? 1 : 0;
      const bool runs = std::all_of(load->index.begin(), load->index.end(), [&](loop::ValueId id) {
        return function.type(id).lanes == 1 ||
               (ramps.contains(id) && ramps[id].stride == 1 && id == load->index.back());
      });
      out.gathered += runs ? 0 : 1;
    }
  });
  return out;
}

}  // namespace corrloom::testing
