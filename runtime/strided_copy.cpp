#include "runtime/strided_copy.h"

#include <array>
#include <bit>
#include <cstdint>

#include "ir/base/errors.h"
#include "runtime/backend.h"

namespace corrloom::runtime {
namespace {

using kernel::Argument;

/// Axes of one launch; what has more is copied piece by piece.
constexpr std::size_t kAxes = 6;
constexpr int kThreads = 256;
/// By kernel: bytes of an element, and what PTX calls them.
struct Element {
  int bytes;
  const char* type;
  const char* name;
};
constexpr std::array<Element, 4> kElements = {{{1, "u8", "%h"}, {2, "u16", "%h"}, {4, "u32", "%w"}, {8, "u64", "%v"}}};

std::string kernel_name(int bytes) {
  return "corrloom_copy_" + std::to_string(bytes);
}

/// Thread number `%n` of all takes one element: its index along each axis, the last one first, moves both addresses.
std::string kernel_ptx(const Element& element) {
  std::string ptx =
      ".visible .entry " + kernel_name(element.bytes) + "(.param .u64 to, .param .u64 from, .param .u64 count";
  for (std::size_t k = 0; k < kAxes; ++k) {
    const std::string axis = std::to_string(k);
    ptx += ", .param .u64 extent" + axis + ", .param .u64 to" + axis + ", .param .u64 from" + axis;
  }
  ptx += R"()
{
  .reg .pred %p;
  .reg .b16 %h;
  .reg .b32 %w, %block, %size, %thread;
  .reg .b64 %v, %n, %limit, %to, %from, %extent, %index, %step;
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %n, %block, %size;
  cvt.u64.u32 %index, %thread;
  add.u64 %n, %n, %index;
  ld.param.u64 %limit, [count];
  setp.ge.u64 %p, %n, %limit;
  @%p bra DONE;
  ld.param.u64 %to, [to];
  cvta.to.global.u64 %to, %to;
  ld.param.u64 %from, [from];
  cvta.to.global.u64 %from, %from;
)";
  for (std::size_t k = kAxes; k-- > 0;) {
    const std::string axis = std::to_string(k);
    ptx += "  ld.param.u64 %extent, [extent" + axis + "];\n  setp.eq.u64 %p, %extent, 1;\n  @%p bra NEXT" + axis +
           ";\n  rem.u64 %index, %n, %extent;\n  div.u64 %n, %n, %extent;\n  ld.param.u64 %step, [to" + axis +
           "];\n  mad.lo.u64 %to, %index, %step, %to;\n  ld.param.u64 %step, [from" + axis +
           "];\n  mad.lo.u64 %from, %index, %step, %from;\nNEXT" + axis + ":\n";
  }
  const std::string type = element.type, value = element.name;
  return ptx + "  ld.global." + type + " " + value + ", [%from];\n  st.global." + type + " [%to], " + value +
         ";\nDONE:\n  ret;\n}\n";
}

/// The kernels as a program, so that devices load and launch them like any other.
std::unique_ptr<const kernel::CompiledProgram> copy_program() {
  auto program = std::make_unique<kernel::CompiledProgram>();
  program->op = "copy";
  program->target = *kernel::ptx_target("sm_75");
  program->ptx_version = 63;
  program->code = strided_copy_ptx();
  for (const Element& element : kElements) {
    kernel::Kernel one;
    one.name = kernel_name(element.bytes);
    one.op = "copy";
    one.threads = kThreads;
    one.arguments = {{Argument::Kind::Buffer, 0, {}}, {Argument::Kind::Buffer, 1, {}}};
    one.arguments.resize(2 + 1 + 3 * kAxes, {Argument::Kind::Size, 0, {}});
    program->kernels.push_back(std::move(one));
  }
  return program;
}

}  // namespace

std::string strided_copy_ptx() {
  std::string ptx = ".version 6.3\n.target sm_75\n.address_size 64\n";
  for (const Element& element : kElements) ptx += kernel_ptx(element);
  return ptx;
}

StridedCopy::StridedCopy() = default;
StridedCopy::~StridedCopy() = default;

void StridedCopy::run(DeviceBackend& backend, void* to, const void* from, std::span<const CopyAxis> axes,
                      int element_bytes, Stream stream) {
  if (axes.size() > kAxes) {
    const CopyAxis outer = axes.front();
    for (std::int64_t k = 0; k < outer.extent; ++k) {
      run(backend, static_cast<std::byte*>(to) + k * outer.to * element_bytes,
          static_cast<const std::byte*>(from) + k * outer.from * element_bytes, axes.subspan(1), element_bytes, stream);
    }
    return;
  }
  const LoadedCode* code = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (code_ == nullptr) {
      program_ = copy_program();
      code_ = backend.load(*program_);
    }
    code = code_.get();
  }
  std::array<std::uint64_t, 3 + 3 * kAxes> values{};
  values[0] = std::bit_cast<std::uint64_t>(to);
  values[1] = std::bit_cast<std::uint64_t>(from);
  std::int64_t count = 1;
  for (std::size_t k = 0; k < kAxes; ++k) {
    const CopyAxis axis = k < axes.size() ? axes[k] : CopyAxis{1, 0, 0};
    count *= axis.extent;
    values[3 + 3 * k] = static_cast<std::uint64_t>(axis.extent);
    values[4 + 3 * k] = static_cast<std::uint64_t>(axis.to * element_bytes);
    values[5 + 3 * k] = static_cast<std::uint64_t>(axis.from * element_bytes);
  }
  values[2] = static_cast<std::uint64_t>(count);
  std::array<void*, values.size()> arguments{};
  for (std::size_t k = 0; k < values.size(); ++k) arguments[k] = &values[k];
  const int number = std::countr_zero(static_cast<unsigned>(element_bytes));
  CORRLOOM_CHECK(number >= 0 && number < static_cast<int>(kElements.size()), "elements of ", element_bytes, " bytes");
  backend.launch({.code = code,
                  .kernel = number,
                  .blocks = (count + kThreads - 1) / kThreads,
                  .arguments = arguments.data(),
                  .argument_count = static_cast<int>(arguments.size())},
                 stream);
}

void StridedCopy::clear() noexcept {
  const std::lock_guard lock(mutex_);
  code_ = nullptr;
}

}  // namespace corrloom::runtime
