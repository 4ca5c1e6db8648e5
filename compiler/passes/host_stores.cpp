#include "compiler/passes/host_stores.h"

#include <algorithm>
#include <functional>
#include <set>

#include "compiler/passes/readers.h"
#include "compiler/passes/view_places.h"

namespace corrloom::passes::host {
namespace {

using scalar::Expr;
using tensor::Axis;
using tensor::Compute;
using tensor::TensorId;

/// Rows that lie a multiple of so many bytes apart share a set of the first-level cache, and few of the second-level
/// one.
constexpr std::int64_t kSetBytes = 4096;
/// A result that fills such a part of the last cache is streamed past it, and from that part on where not all that the
/// op touches stays there.
constexpr double kMostOfFar = 2, kPartOfFar = 3;

TensorId id_of(const tensor::Graph& graph, const tensor::Op& op) {
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    if (graph.ops[k].name == op.name) return TensorId{static_cast<std::int32_t>(k)};
  }
  return {};
}

/// Some op reads the tensor, or a view of it.
bool is_read(const tensor::Graph& graph, TensorId id) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const tensor::Op& op) {
    bool found = false;
    for_each_use(op, [&](TensorId source, const scalar::Read* read) {
      found |= read != nullptr && storage_root(graph, source) == id;
    });
    return found;
  });
}

/// Some result is stored in place of an argument.
bool is_in_place(const tensor::Graph& graph, TensorId id) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const tensor::Output& output) {
    return output.storage_of && storage_root(graph, output.value) == id;
  });
}

/// Bytes of the elements of a result inside of one place of an axis; of all where it is null.
double bytes_inside(const tensor::Op& op, const Axis* axis) {
  const std::vector<Axis>& axes = std::get<Compute>(op.kind).axes;
  double bytes = byte_size(op.dtype);
  for (std::size_t k = axes.size(); k-- > 0 && (axis == nullptr || axes[k].id != axis->id);)
    bytes *= static_cast<double>(scalar::as_i64(axes[k].extent).value_or(1));
  return bytes;
}

/// Bytes of what the compute reads, through other computes that may be inside of it.
double bytes_read(const tensor::Graph& graph, const tensor::Op& op) {
  std::set<TensorId> seen;
  double bytes = 0;
  const std::function<void(const tensor::Op&)> add = [&](const tensor::Op& reader) {
    for_each_use(reader, [&](TensorId named, const scalar::Read*) {
      const TensorId source = storage_root(graph, named);
      if (!seen.insert(source).second) return;
      const tensor::Op& used = graph.op(source);
      if (std::holds_alternative<Compute>(used.kind)) return add(used);
      double all = byte_size(used.dtype);
      for (const scalar::Expr& extent : used.extents) all *= static_cast<double>(scalar::as_i64(extent).value_or(1));
      bytes += all;
    });
  };
  add(op);
  return bytes;
}

}  // namespace

const Axis* axis_across(const Compute& compute, const schedule::Stage& stage) {
  if (compute.reduction || compute.axes.empty()) return nullptr;
  const Axis* vector = nullptr;
  bool has_rows = false;
  for (const schedule::Loop& loop : stage.loops) {
    has_rows |= loop.bind == schedule::Bind::Unroll && loop.axis == compute.axes.back().name;
    if (loop.bind != schedule::Bind::Vector) continue;
    for (const Axis& axis : compute.axes) vector = axis.name == loop.axis ? &axis : vector;
  }
  return has_rows && vector != &compute.axes.back() ? vector : nullptr;
}

bool streams(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target, const Axis* across) {
  const TensorId id = id_of(graph, op);
  if (!id || is_in_place(graph, id)) return false;
  const bool read_again = is_read(graph, id);
  const double bytes = bytes_inside(op, nullptr), far = static_cast<double>(target.l3_bytes);
  if (bytes >= far / (read_again ? 1 : kMostOfFar)) return true;
  // Several threads want more of memory than it can write; the last cache has more for them.
  const bool stays = target.threads > 1 && bytes + bytes_read(graph, op) < far;
  if (!read_again && bytes >= far / kPartOfFar && !stays) return true;
  const bool collides =
      across != nullptr && static_cast<std::int64_t>(bytes_inside(op, across)) % target.at_scale(kSetBytes) == 0;
  return collides && !read_again && bytes > static_cast<double>(target.l2_bytes);
}

}  // namespace corrloom::passes::host
