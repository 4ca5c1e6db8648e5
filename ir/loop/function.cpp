#include "ir/loop/function.h"

#include "ir/base/match.h"

namespace corrloom::loop {

void for_each_block(const Block& block, const std::function<void(const Block&)>& visit) {
  visit(block);
  for (const Instr& instr : block.instrs) {
    if (const auto* loop = std::get_if<For>(&instr.kind)) for_each_block(loop->body, visit);
    if (const auto* branch = std::get_if<If>(&instr.kind)) {
      for_each_block(branch->then, visit);
      for_each_block(branch->otherwise, visit);
    }
  }
}

bool has_checks(const Function& function) {
  bool found = false;
  for_each_block(function.body, [&](const Block& block) {
    for (const Instr& instr : block.instrs) found = found || std::holds_alternative<Check>(instr.kind);
  });
  return found;
}

std::vector<ValueId> operands(const Instr& instr) {
  const auto access = [](std::vector<ValueId> ids, ValueId mask) {
    if (mask) ids.push_back(mask);
    return ids;
  };
  return match(
      instr.kind, [](const Constant&) { return std::vector<ValueId>{}; },
      [](const Symbol&) { return std::vector<ValueId>{}; }, [](const Apply& k) { return k.args; },
      [](const Splat& k) { return std::vector<ValueId>{k.scalar}; },
      [](const Ramp& k) { return std::vector<ValueId>{k.base}; },
      [](const Shuffle& k) {
        return k.other ? std::vector<ValueId>{k.source, k.other} : std::vector<ValueId>{k.source};
      },
      [&](const Load& k) { return access(k.index, k.mask); },
      [&](const Store& k) {
        std::vector<ValueId> ids = k.index;
        ids.push_back(k.value);
        return access(std::move(ids), k.mask);
      },
      [](const Prefetch& k) { return k.index; },
      [&](const Check& k) {
        return access({k.index, k.extent}, k.mask);
      },
      [](const For& k) {
        std::vector<ValueId> ids = k.inits;
        ids.push_back(k.extent);
        return ids;
      },
      [](const If& k) { return std::vector<ValueId>{k.condition}; });
}

}  // namespace corrloom::loop
