#include "tests/fuzz/machine_generator.h"

#include <algorithm>

#include "compiler/codegen/host_target.h"

namespace corrloom::fuzz {

std::optional<kernel::Target> random_machine(tools::Random& random) {
  if (random.one_in(4)) return std::nullopt;
  constexpr std::int64_t kMiniatures[] = {4, 16, 64, 256, 1024}, kFirst[] = {256, 512, 1024, 4096},
                         kSecond[] = {1, 2, 4}, kThird[] = {1, 2, 4};
  constexpr int kVectors[] = {16, 32, 64, 64}, kRegisters[] = {16, 32};
  kernel::Target target = codegen::host_target();
  target.miniature = random.pick(kMiniatures);
  target.l1_bytes = random.pick(kFirst);
  target.l2_bytes = target.l1_bytes * random.pick(kSecond);
  target.l3_bytes = target.l2_bytes * random.pick(kThird);
  target.threads = random.one_in(2) ? 1 : 4;
  target.vector_bytes = std::min(target.vector_bytes, random.pick(kVectors));
  target.vector_registers = std::min(target.vector_registers, random.pick(kRegisters));
  return target;
}

std::string in_words(const std::optional<kernel::Target>& machine) {
  if (!machine) return "on this machine";

  return "with caches of " + std::to_string(machine->l1_bytes) + "/" + std::to_string(machine->l2_bytes) + "/" +
         std::to_string(machine->l3_bytes) + " bytes, " + std::to_string(machine->vector_registers) + " vectors of " +
         std::to_string(machine->vector_bytes) + " bytes, " + std::to_string(machine->threads) +
         " threads, miniature " + std::to_string(machine->miniature);
}

}  // namespace corrloom::fuzz
