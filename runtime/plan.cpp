#include "runtime/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/errors.h"

namespace corrloom::runtime {
namespace {

using kernel::Argument;
using kernel::Buffer;
using kernel::CompiledProgram;
using kernel::SizeExpr;

/// Workspaces begin at multiples of this: a cache line of the host, and what GPUs align to.
constexpr std::int64_t kWorkspaceAlignment = 256;

/// A workspace that needs memory of the arena while kernels `first` to `last` run.
struct Lifetime {
  int buffer;
  std::int64_t bytes;
  int first, last;
};

std::int64_t value_of(const CompiledProgram& program, const SizeExpr& size, const std::vector<std::int64_t>& symbols,
                      const std::string& what) {
  const std::optional<std::int64_t> value = kernel::evaluate(size, symbols);
  if (!value) throw InputError("op `" + program.op + "`: " + what + " does not fit 64 bits for these operands");
  return *value;
}

Shape shape_of(const CompiledProgram& program, const Buffer& buffer, const std::vector<std::int64_t>& symbols) {
  Shape shape;
  for (const SizeExpr& extent : buffer.extents) {
    shape.push_back(value_of(program, extent, symbols, "an extent of " + buffer.name));
    if (shape.back() < 0) {
      throw InputError(detail::concat("op `", program.op, "`: extent ", shape.size() - 1, " of ", buffer.name,
                                      " would be ", shape.back(), " for these operands"));
    }
  }
  (void)element_count(shape, buffer.dtype);
  return shape;
}

/// The workspaces that own memory, alive as long as any buffer that lives in theirs.
std::vector<Lifetime> workspace_lifetimes(const CompiledProgram& program, const std::vector<int>& roots,
                                          const Plan& plan) {
  std::vector<Lifetime> lifetimes;
  for (std::size_t root = 0; root < roots.size(); ++root) {
    const Buffer& buffer = program.buffers[root];
    if (roots[root] != static_cast<int>(root) || buffer.role != Buffer::Role::Workspace || !buffer.contents.empty() ||
        buffer.constant)
      continue;
    Lifetime life{static_cast<int>(root), 0, buffer.first_use, buffer.last_use};
    for (std::size_t user = 0; user < roots.size(); ++user) {
      if (roots[user] != life.buffer) continue;
      const Buffer& other = program.buffers[user];
      life.bytes = std::max(life.bytes, element_count(plan.shapes[user], other.dtype) * byte_size(other.dtype));
      life.first = std::min(life.first, other.first_use);
      life.last = std::max(life.last, other.last_use);
    }
    lifetimes.push_back(life);
  }
  return lifetimes;
}

/// The lowest place for `life` that no workspace of the same time occupies.
std::int64_t lowest_place(const Lifetime& life, const std::vector<Lifetime>& placed, const Plan& plan) {
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (const Lifetime& other : placed) {
    if (other.last < life.first || life.last < other.first) continue;
    const std::int64_t begin = plan.arena_offset[static_cast<std::size_t>(other.buffer)];
    taken.emplace_back(begin, begin + other.bytes);
  }
  std::sort(taken.begin(), taken.end());
  std::int64_t place = 0;
  for (const auto& [begin, end] : taken) {
    if (begin - place >= life.bytes) break;
    place = std::max(place, (end + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment);
  }
  return place;
}

/// Gives what preparing kernels make its places, one behind the other: all of it stays.
void place_prepared(const CompiledProgram& program, Plan& plan) {
  for (std::size_t k = 0; k < program.buffers.size(); ++k) {
    const Buffer& buffer = program.buffers[k];
    if (buffer.role != Buffer::Role::Workspace || !buffer.constant) continue;
    std::int64_t bytes = element_count(plan.shapes[k], buffer.dtype) * byte_size(buffer.dtype);
    bytes = (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    plan.arena_offset[k] = plan.prepared_bytes;
    if (__builtin_add_overflow(plan.prepared_bytes, bytes, &plan.prepared_bytes))
      throw InputError("op `" + program.op + "`: what it keeps of its constants does not fit 64 bits");
  }
}

/// Gives every workspace its place; the largest first, so that small ones fill the gaps.
void place_workspaces(const CompiledProgram& program, const std::vector<int>& roots, Plan& plan) {
  plan.arena_offset.assign(program.buffers.size(), -1);
  std::vector<Lifetime> lifetimes = workspace_lifetimes(program, roots, plan);
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  std::int64_t total = 0;
  for (const Lifetime& life : lifetimes) {
    if (__builtin_add_overflow(total, life.bytes + kWorkspaceAlignment, &total)) {
      throw InputError("op `" + program.op + "`: its workspaces do not fit 64 bits for these operands");
    }
  }
  std::vector<Lifetime> placed;
  for (const Lifetime& life : lifetimes) {
    const std::int64_t place = lowest_place(life, placed, plan);
    plan.arena_offset[static_cast<std::size_t>(life.buffer)] = place;
    plan.arena_bytes = std::max(plan.arena_bytes, place + life.bytes);
    placed.push_back(life);
  }
}

bool is_constant(const SizeExpr& size) {
  return size.as_constant().has_value();
}

bool has_constant_extents(const Buffer& buffer) {
  return std::all_of(buffer.extents.begin(), buffer.extents.end(), is_constant);
}

/// The estimates of the program are for typical extents. Operations grow with the bytes of the operands; where each
/// element is used many times and every operand grows, as in a matrix product, with their power of one and a half.
Plan::Work work_of(const CompiledProgram& program, const kernel::Kernel& kernel, const Plan& plan) {
  constexpr double kManyUses = 16;
  double bytes = 0;
  bool grows = true, is_open = false;
  for (const Argument& argument : kernel.arguments) {
    if (argument.kind != Argument::Kind::Buffer) continue;
    const Buffer& buffer = program.buffers[static_cast<std::size_t>(argument.index)];
    const Shape& shape = plan.shapes[static_cast<std::size_t>(argument.index)];
    bytes += static_cast<double>(element_count(shape, buffer.dtype)) * byte_size(buffer.dtype);
    grows &= !has_constant_extents(buffer);
    is_open |= !has_constant_extents(buffer);
  }
  const double operations = kernel.flops + kernel.integer_ops;
  if (!is_open || kernel.bytes <= 0) return {operations, kernel.bytes};
  const double factor = bytes / kernel.bytes;
  const bool is_product = grows && factor < 1 && operations > kManyUses * kernel.bytes;
  return {operations * (is_product ? factor * std::sqrt(factor) : factor), bytes};
}

}  // namespace

std::vector<int> storage_roots(const CompiledProgram& program) {
  const int count = static_cast<int>(program.buffers.size());
  std::vector<int> roots(program.buffers.size());
  std::iota(roots.begin(), roots.end(), 0);
  for (int& root : roots) {
    for (int steps = 0; program.buffers[static_cast<std::size_t>(root)].storage_of >= 0; ++steps) {
      root = program.buffers[static_cast<std::size_t>(root)].storage_of;
      CORRLOOM_CHECK(root < count && steps < count, "op ", program.op, ": the storage of a buffer is nobody's");
    }
  }
  return roots;
}

bool has_constant_sizes(const CompiledProgram& program) {
  if (!std::all_of(program.buffers.begin(), program.buffers.end(), has_constant_extents)) return false;
  for (const kernel::EntryCheck& check : program.entry_checks) {
    if (!is_constant(check.holds)) return false;
  }
  for (const kernel::Kernel& kernel : program.kernels) {
    if (!is_constant(kernel.blocks)) return false;
    for (const Argument& argument : kernel.arguments) {
      if (argument.kind == Argument::Kind::Size && !is_constant(argument.size)) return false;
    }
  }
  return true;
}

Plan make_plan(const CompiledProgram& program, const std::vector<int>& roots,
               const std::vector<std::int64_t>& symbols) {
  Plan plan;
  // Inputs and entry checks come first: only when they hold do the other sizes mean anything.
  plan.shapes.resize(program.buffers.size());
  for (std::size_t k = 0; k < program.buffers.size(); ++k) {
    if (program.buffers[k].role == Buffer::Role::Input) plan.shapes[k] = shape_of(program, program.buffers[k], symbols);
  }
  for (const kernel::EntryCheck& check : program.entry_checks) {
    if (value_of(program, check.holds, symbols, "an entry check") != 0) continue;
    plan.failed_check =
        check.message.empty() ? "op `" + program.op + "`: a condition on its operands does not hold" : check.message;
    return plan;
  }
  for (std::size_t k = 0; k < program.buffers.size(); ++k) {
    if (program.buffers[k].role != Buffer::Role::Input) plan.shapes[k] = shape_of(program, program.buffers[k], symbols);
  }
  for (const kernel::Kernel& kernel : program.kernels) {
    plan.work.push_back(work_of(program, kernel, plan));
    plan.blocks.push_back(value_of(program, kernel.blocks, symbols, "the number of blocks of " + kernel.name));
    for (const Argument& argument : kernel.arguments) {
      if (argument.kind == Argument::Kind::Size) {
        plan.sizes.push_back(value_of(program, argument.size, symbols, "a size of " + kernel.name));
      }
    }
  }
  place_workspaces(program, roots, plan);
  place_prepared(program, plan);
  return plan;
}

}  // namespace corrloom::runtime
