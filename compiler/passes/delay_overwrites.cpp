#include "compiler/passes/delay_overwrites.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "compiler/passes/add_copy.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"

namespace corrloom::passes {
namespace {

using tensor::TensorId;

std::size_t position(TensorId id) {
  return static_cast<std::size_t>(id.index);
}

/// Which ops have to stand before which: first those that an op uses, then also those that it must not run before.
class Precedence {
 public:
  explicit Precedence(const tensor::Graph& graph) {
    for (const tensor::Op& op : graph.ops) add(op);
  }

  void add(const tensor::Op& op) {
    std::vector<std::size_t>& before = before_.emplace_back();
    for_each_use(op, [&](TensorId source, const scalar::Read*) { before.push_back(position(source)); });
  }
  void require(std::size_t first, std::size_t then) { before_[then].push_back(first); }

  /// True when `then` has to stand behind `first`.
  bool follows(std::size_t then, std::size_t first) const {
    std::vector<bool> seen(before_.size(), false);
    std::vector<std::size_t> open{then};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (at == first) return true;
      for (const std::size_t before : before_[at]) {
        if (!seen[before]) open.push_back(before);
        seen[before] = true;
      }
    }
    return false;
  }

  /// An order that keeps to all of it: of those ops that may come next always the first.
  std::vector<std::size_t> order() const {
    std::vector<std::vector<std::size_t>> after(before_.size());
    std::vector<std::size_t> missing(before_.size());
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t k = 0; k < before_.size(); ++k) {
      missing[k] = before_[k].size();
      for (const std::size_t before : before_[k]) after[before].push_back(k);
      if (before_[k].empty()) ready.push(k);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const std::size_t next : after[order.back()]) {
        if (--missing[next] == 0) ready.push(next);
      }
    }
    return order;
  }

 private:
  std::vector<std::vector<std::size_t>> before_;  ///< by op
};

/// The computes other than `writer` that read the storage of an input.
std::vector<std::size_t> other_readers(const tensor::Graph& graph, TensorId input, TensorId writer) {
  std::vector<std::size_t> readers;
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    if (!std::holds_alternative<tensor::Compute>(graph.ops[k].kind) || k == position(writer)) continue;
    bool reads = false;
    for_each_use(graph.ops[k],
                 [&](TensorId source, const scalar::Read*) { reads = reads || storage_root(graph, source) == input; });
    if (reads) readers.push_back(k);
  }
  return readers;
}

}  // namespace

tensor::Graph delay_overwrites(tensor::Graph graph, PassContext& ctx) {
  Precedence precedence(graph);
  for (tensor::Output& output : graph.outputs) {
    if (!output.storage_of) continue;
    TensorId writer = storage_root(graph, output.value);
    const std::vector<std::size_t> readers = other_readers(graph, output.storage_of, writer);
    const bool is_needed = std::any_of(readers.begin(), readers.end(), [&](std::size_t reader) {
      return precedence.follows(reader, position(writer));
    });
    if (is_needed) {
      writer = add_copy(graph, output.value, output.name);
      output.value = writer;
      precedence.add(graph.op(writer));
      ctx.count("results copied");
    }
    for (const std::size_t reader : readers) precedence.require(reader, position(writer));
  }
  return reorder_ops(std::move(graph), precedence.order());
}

}  // namespace corrloom::passes
