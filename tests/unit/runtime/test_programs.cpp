#include "tests/unit/runtime/test_programs.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "ir/kernel/error_slot.h"

namespace corrloom::runtime::test {
namespace {

using kernel::Argument;
using kernel::Buffer;
using kernel::SizeExpr;
using kernel::SizeOp;

constexpr std::int64_t kBlock = 4;

std::int64_t size_at(void* argument) {
  return *static_cast<std::int64_t*>(argument);
}

void add(void* const* args, std::int64_t first, std::int64_t last) {
  const auto* const x = static_cast<const float*>(args[0]);
  const auto* const z = static_cast<const float*>(args[1]);
  auto* const y = static_cast<float*>(args[2]);
  const std::int64_t n = size_at(args[3]);
  for (std::int64_t i = first * kBlock; i < std::min(n, last * kBlock); ++i) y[i] = x[i] + z[i];
}

void scale(void* const* args, std::int64_t first, std::int64_t last) {
  const auto* const x = static_cast<const float*>(args[0]);
  auto* const y = static_cast<float*>(args[1]);
  float factor = 0;
  std::memcpy(&factor, args[2], sizeof factor);
  const std::int64_t n = size_at(args[3]);
  for (std::int64_t i = first * kBlock; i < std::min(n, last * kBlock); ++i) y[i] = factor * x[i];
}

void increment(void* const* args, std::int64_t first, std::int64_t last) {
  auto* const x = static_cast<float*>(args[0]);
  const std::int64_t n = size_at(args[1]);
  for (std::int64_t i = first * kBlock; i < std::min(n, last * kBlock); ++i) x[i] += 1;
}

void gather(void* const* args, std::int64_t first, std::int64_t last) {
  const auto* const x = static_cast<const float*>(args[0]);
  const auto* const at = static_cast<const std::int64_t*>(args[1]);
  auto* const y = static_cast<float*>(args[2]);
  const std::int64_t n = size_at(args[3]), m = size_at(args[4]);
  auto* const slot = static_cast<std::uint64_t*>(args[5]);
  for (std::int64_t i = first * kBlock; i < std::min(n, last * kBlock); ++i) {
    if (at[i] < 0 || at[i] >= m) {
      const std::uint64_t fault = kernel::encode_fault(0, at[i]);
      std::uint64_t seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
      while (fault < seen &&
             !__atomic_compare_exchange_n(slot, &seen, fault, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      }
    }
    y[i] = x[std::clamp<std::int64_t>(at[i], 0, m - 1)];
  }
}

/// The runtime's own kernel of copies between layouts (runtime/strided_copy.cpp).
template <int kBytes>
void copy_strided(void* const* args, std::int64_t, std::int64_t) {
  for (std::int64_t n = 0; n < size_at(args[2]); ++n) {
    auto* to = static_cast<std::byte*>(args[0]);
    const auto* from = static_cast<const std::byte*>(args[1]);
    std::int64_t rest = n;
    for (int axis = 5; axis >= 0; --axis) {
      const std::int64_t index = rest % size_at(args[3 + 3 * axis]);
      rest /= size_at(args[3 + 3 * axis]);
      to += index * size_at(args[4 + 3 * axis]);
      from += index * size_at(args[5 + 3 * axis]);
    }
    std::memcpy(to, from, kBytes);
  }
}

const std::map<std::string, HostEntry> kKernels = {{"add", add},
                                                   {"scale", scale},
                                                   {"scale_by", scale},
                                                   {"increment", increment},
                                                   {"gather", gather},
                                                   {"corrloom_copy_1", copy_strided<1>},
                                                   {"corrloom_copy_2", copy_strided<2>},
                                                   {"corrloom_copy_4", copy_strided<4>},
                                                   {"corrloom_copy_8", copy_strided<8>}};

class TestCode : public HostCode {
 public:
  void* find(const std::string& symbol) const override { return reinterpret_cast<void*>(find_kernel(symbol)); }
};

SizeExpr symbol(int number) {
  return {{{SizeOp::Kind::Symbol, number}}};
}
SizeExpr size_of(std::int64_t n) {
  return n < 0 ? symbol(0) : SizeExpr::constant(n);
}

/// ceil(n / kBlock).
SizeExpr blocks_of(SizeExpr n) {
  n.code.push_back({SizeOp::Kind::Constant, kBlock - 1});
  n.code.push_back({SizeOp::Kind::Add});
  n.code.push_back({SizeOp::Kind::Constant, kBlock});
  n.code.push_back({SizeOp::Kind::FloorDiv});
  return n;
}

Argument buffer_argument(int index) {
  return {Argument::Kind::Buffer, index};
}
Argument size_argument(SizeExpr size) {
  return {Argument::Kind::Size, 0, std::move(size)};
}

ProgramRef program(const char* op, const kernel::Target& target) {
  auto made = std::make_shared<kernel::CompiledProgram>();
  made->op = op;
  made->target = target;
  // What the fake driver reads in place of PTX: kernels, and for each parameter whether it is an address or a value.
  if (target.kind == kernel::TargetKind::Ptx)
    made->code = "add ppps\nscale ppss\nscale_by ppps\nincrement ps\ngather pppssp\n";
  return made;
}

}  // namespace

HostEntry find_kernel(const std::string& name) {
  const auto found = kKernels.find(name);
  return found == kKernels.end() ? nullptr : found->second;
}

void use_test_loader() {
  set_host_loader([](const std::string&) { return std::make_unique<TestCode>(); });
}

kernel::Target host_target() {
  return {.kind = kernel::TargetKind::Host, .name = "host"};
}
kernel::Target ptx_target_for_tests() {
  return {.kind = kernel::TargetKind::Ptx, .name = "sm_90a"};
}

ProgramRef add_program(const kernel::Target& target, std::int64_t n) {
  ProgramRef made = program("add", target);
  if (n < 0) made->symbols = {{.name = "n", .dimension = true, .buffer = 0, .axis = 0}};
  made->buffers = {{.name = "X", .extents = {size_of(n)}},
                   {.name = "Z", .extents = {size_of(n)}},
                   {.name = "Y", .role = Buffer::Role::Output, .extents = {size_of(n)}}};
  made->kernels = {
      {.name = "add",
       .op = "Y",
       .blocks = blocks_of(size_of(n)),
       .arguments = {buffer_argument(0), buffer_argument(1), buffer_argument(2), size_argument(size_of(n))},
       .flops = n < 0 ? 1e7 : static_cast<double>(n)}};
  return made;
}

ProgramRef scale_program(const kernel::Target& target) {
  ProgramRef made = program("scale", target);
  made->symbols = {{.name = "n", .dimension = true, .buffer = 0, .axis = 0}, {.name = "s", .dtype = DType::F32}};
  made->buffers = {
      {.name = "X", .extents = {symbol(0)}},
      {.name = "A", .role = Buffer::Role::Workspace, .extents = {symbol(0)}, .first_use = 0, .last_use = 1},
      {.name = "B", .role = Buffer::Role::Workspace, .extents = {symbol(0)}, .first_use = 1, .last_use = 2},
      {.name = "C", .role = Buffer::Role::Workspace, .extents = {symbol(0)}, .first_use = 2, .last_use = 3},
      {.name = "Y", .role = Buffer::Role::Output, .extents = {symbol(0)}},
      {.name = "one", .role = Buffer::Role::Workspace, .extents = {SizeExpr::constant(1)}}};
  const float one = 1;
  made->buffers[5].contents.resize(sizeof one);
  std::memcpy(made->buffers[5].contents.data(), &one, sizeof one);
  SizeExpr positive = symbol(0);
  positive.code.insert(positive.code.begin(), {SizeOp::Kind::Constant, 1});
  positive.code.push_back({SizeOp::Kind::Le});
  made->entry_checks = {{positive, "scale needs an element"}};
  // Y = s * (1 * (1 * (1 * X))) through A, B, C: neighbours must not share memory, A and C may.
  const Argument s{Argument::Kind::Scalar, 1};
  const std::pair<int, int> steps[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  for (const auto& [from, to] : steps) {
    made->kernels.push_back({.name = to == 4 ? "scale" : "scale_by",
                             .op = "Y",
                             .blocks = blocks_of(symbol(0)),
                             .arguments = {buffer_argument(from), buffer_argument(to), to == 4 ? s : buffer_argument(5),
                                           size_argument(symbol(0))}});
  }
  return made;
}

ProgramRef increment_program(const kernel::Target& target, std::int64_t n) {
  ProgramRef made = program("increment", target);
  made->buffers = {{.name = "X", .extents = {size_of(n)}},
                   {.name = "Y", .role = Buffer::Role::Output, .extents = {size_of(n)}, .storage_of = 0}};
  made->kernels = {{.name = "increment",
                    .op = "Y",
                    .blocks = blocks_of(size_of(n)),
                    .arguments = {buffer_argument(1), size_argument(size_of(n))}}};
  return made;
}

ProgramRef gather_program(const kernel::Target& target) {
  ProgramRef made = program("gather", target);
  made->symbols = {{.name = "n", .dimension = true, .buffer = 1, .axis = 0},
                   {.name = "m", .dimension = true, .buffer = 0, .axis = 0}};
  made->buffers = {{.name = "X", .extents = {symbol(1)}},
                   {.name = "at", .dtype = DType::I64, .extents = {symbol(0)}},
                   {.name = "Y", .role = Buffer::Role::Output, .extents = {symbol(0)}}};
  made->check_sites = {{"X[at[i]]: the subscript is {value}"}};
  made->kernels = {{.name = "gather",
                    .op = "Y",
                    .blocks = blocks_of(symbol(0)),
                    .arguments = {buffer_argument(0),
                                  buffer_argument(1),
                                  buffer_argument(2),
                                  size_argument(symbol(0)),
                                  size_argument(symbol(1)),
                                  {Argument::Kind::ErrorSlot}}}};
  return made;
}

}  // namespace corrloom::runtime::test
