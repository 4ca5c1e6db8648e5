#include <algorithm>

#include "runtime/sim/exec/decoder.h"

/// Puts the code of a function in an order in which every block comes after all blocks that can lead to it, loops kept
/// together. The engine always runs the lanes that are furthest behind, so with this order lanes that took different
/// ways meet again at the immediate post-dominator of the branch at the latest.
namespace corrloom::sim::exec {
namespace {

/// Strongly connected components of part of a graph, in topological order (Tarjan, without recursion).
class Components {
 public:
  Components(const std::vector<std::vector<int>>& successors, const std::vector<int>& region_of, int region, int header)
      : successors_(successors),
        region_of_(region_of),
        region_(region),
        header_(header),
        number_(successors.size(), -1),
        low_(successors.size(), 0),
        on_stack_(successors.size(), false) {}

  std::vector<std::vector<int>> run(const std::vector<int>& nodes) {
    visit(header_);
    for (const int node : nodes) {
      if (number_[size_t(node)] < 0) visit(node);
    }
    std::ranges::reverse(result_);
    return std::move(result_);
  }

 private:
  struct Step {
    int node;
    size_t next = 0;
  };

  void enter(int node) {
    number_[size_t(node)] = low_[size_t(node)] = count_++;
    stack_.push_back(node);
    on_stack_[size_t(node)] = true;
    path_.push_back({node});
  }

  void visit(int root) {
    enter(root);
    while (!path_.empty()) {
      const int node = path_.back().node;
      const auto& next = successors_[size_t(node)];
      if (path_.back().next < next.size()) {
        // Last successor first: ties then keep the fall-through close.
        const int to = next[next.size() - 1 - path_.back().next++];
        if (region_of_[size_t(to)] != region_ || to == header_) continue;  // edges to the header close the loop
        if (number_[size_t(to)] < 0) {
          enter(to);
        } else if (on_stack_[size_t(to)]) {
          low_[size_t(node)] = std::min(low_[size_t(node)], number_[size_t(to)]);
        }
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) {
        low_[size_t(path_.back().node)] = std::min(low_[size_t(path_.back().node)], low_[size_t(node)]);
      }
      if (low_[size_t(node)] != number_[size_t(node)]) continue;
      std::vector<int> component;
      for (int member = -1; member != node;) {
        member = stack_.back();
        stack_.pop_back();
        on_stack_[size_t(member)] = false;
        component.push_back(member);
      }
      std::ranges::sort(component);
      result_.push_back(std::move(component));
    }
  }

  const std::vector<std::vector<int>>& successors_;
  const std::vector<int>& region_of_;
  int region_, header_;
  std::vector<int> number_, low_;
  std::vector<bool> on_stack_;
  std::vector<int> stack_;
  std::vector<Step> path_;
  std::vector<std::vector<int>> result_;
  int count_ = 0;
};

}  // namespace

std::vector<int> Decoder::order_blocks(const std::vector<std::vector<int>>& successors) const {
  std::vector<int> order;
  std::vector<bool> reachable(successors.size(), false);
  std::vector<int> work{0};
  reachable[0] = true;
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    for (const int to : successors[size_t(node)]) {
      if (!reachable[size_t(to)]) {
        reachable[size_t(to)] = true;
        work.push_back(to);
      }
    }
  }
  struct Region {
    std::vector<int> nodes;
    int header;
    int depth;
  };
  std::vector<int> region_of(successors.size(), -1);
  std::vector<int> all;
  for (size_t i = 0; i < successors.size(); ++i) {
    if (reachable[i]) all.push_back(int(i));
  }
  int next_region = 0;
  std::vector<Region> stack{{all, 0, 0}};
  while (!stack.empty()) {
    const Region region = std::move(stack.back());
    stack.pop_back();
    if (region.nodes.size() == 1 || region.depth > 64) {
      order.insert(order.end(), region.nodes.begin(), region.nodes.end());
      continue;
    }
    const int id = next_region++;
    for (const int node : region.nodes) region_of[size_t(node)] = id;
    auto components = Components(successors, region_of, id, region.header).run(region.nodes);
    // The stack is last in, first out: push the components backwards.
    for (size_t i = components.size(); i-- > 0;) {
      std::vector<int>& nodes = components[i];
      int header = nodes.front();
      if (nodes.size() > 1) {
        // The header is the node that control enters from outside; irreducible loops have several, take the first.
        std::vector<bool> inside(successors.size(), false);
        for (const int node : nodes) inside[size_t(node)] = true;
        std::vector<bool> entered(successors.size(), false);
        for (const int from : region.nodes) {
          if (inside[size_t(from)]) continue;
          for (const int to : successors[size_t(from)]) entered[size_t(to)] = entered[size_t(to)] || inside[size_t(to)];
        }
        for (const int node : nodes) {
          if (entered[size_t(node)]) {
            header = node;
            break;
          }
        }
      }
      stack.push_back({std::move(nodes), header, region.depth + 1});
    }
  }
  return order;
}

void Decoder::lay_out() {
  const auto code_index = [&](int label) { return starts_[size_t(function_->labels[size_t(label)].instruction)]; };
  // Cut into blocks.
  std::vector<bool> leader(code_.size() + 1, false);
  leader[0] = true;
  for (size_t i = 0; i < code_.size(); ++i) {
    Inst& inst = code_[i];
    switch (inst.flow) {
      case Flow::Branch:
        inst.target = code_index(inst.target);
        leader[size_t(inst.target)] = true;
        leader[i + 1] = true;
        break;
      case Flow::BranchIndexed:
        for (uint32_t t = 0; t < inst.list_size; ++t) {
          int& target = program_.branch_tables[size_t(inst.imm) + t];
          target = code_index(target);
          leader[size_t(target)] = true;
        }
        leader[i + 1] = true;
        break;
      case Flow::Return:
      case Flow::Exit:
      case Flow::Trap:
        leader[i + 1] = true;
        break;
      default:
        break;
    }
  }
  std::vector<int> block_of(code_.size(), 0), begin;
  for (size_t i = 0; i < code_.size(); ++i) {
    if (leader[i]) begin.push_back(int(i));
    block_of[i] = int(begin.size()) - 1;
  }
  begin.push_back(int(code_.size()));
  const size_t blocks = begin.size() - 1;
  std::vector<std::vector<int>> successors(blocks);
  std::vector<bool> falls_through(blocks, false);
  for (size_t b = 0; b < blocks; ++b) {
    const Inst& last = code_[size_t(begin[b + 1] - 1)];
    const bool guarded = last.guard != kNoSlot;
    bool falls = true;
    if (last.flow == Flow::Branch) {
      successors[b].push_back(block_of[size_t(last.target)]);
      falls = guarded;
    } else if (last.flow == Flow::BranchIndexed) {
      for (uint32_t t = 0; t < last.list_size; ++t) {
        successors[b].push_back(block_of[size_t(program_.branch_tables[size_t(last.imm) + t])]);
      }
      falls = guarded;
    } else if (last.flow == Flow::Return || last.flow == Flow::Exit || last.flow == Flow::Trap) {
      falls = guarded;
    }
    if (falls && b + 1 < blocks) {
      successors[b].push_back(int(b) + 1);
      falls_through[b] = true;
    }
  }
  const std::vector<int> order = order_blocks(successors);
  // Copy in the new order, with jumps where a fall-through was broken.
  std::vector<int> new_start(blocks, -1);
  const int base = int(program_.code.size());
  std::vector<Inst> placed;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto b = size_t(order[i]);
    new_start[b] = base + int(placed.size());
    const size_t first = placed.size();
    placed.insert(placed.end(), code_.begin() + begin[b], code_.begin() + begin[b + 1]);
    placed[first].leader = true;
    if (falls_through[b] && (i + 1 == order.size() || order[i + 1] != int(b) + 1)) {
      Inst jump;
      jump.flow = Flow::Jump;
      jump.target = -2 - (int(b) + 1);  // a block number until all are placed
      jump.line = placed.back().line;
      jump.text = placed.back().text;
      placed.push_back(jump);
    }
  }
  std::vector<bool> table_done(program_.branch_tables.size(), false);
  for (Inst& inst : placed) {
    if (inst.flow == Flow::Jump) {
      inst.target = new_start[size_t(-2 - inst.target)];
    } else if (inst.flow == Flow::Branch) {
      inst.target = new_start[size_t(block_of[size_t(inst.target)])];
    } else if (inst.flow == Flow::BranchIndexed) {
      for (uint32_t t = 0; t < inst.list_size; ++t) {
        int& target = program_.branch_tables[size_t(inst.imm) + t];
        if (!table_done[size_t(inst.imm) + t]) target = new_start[size_t(block_of[size_t(target)])];
        table_done[size_t(inst.imm) + t] = true;
      }
    }
  }
  decoded_->entry = base;
  program_.code.insert(program_.code.end(), placed.begin(), placed.end());
}

}  // namespace corrloom::sim::exec
