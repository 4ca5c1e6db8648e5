#include "compiler/tools/corrloom/limits.h"

#include <algorithm>
#include <bit>

#include "compiler/tools/corrloom/quantity.h"

namespace corrloom::tools {
namespace {

using runtime::Traffic;

/// Beyond this nothing stays in caches, and a measurement costs a page fault for every new page.
constexpr std::int64_t kMostMeasured = std::int64_t{128} << 20;

}  // namespace

void Work::add(const KernelInfo& kernel) {
  flops += kernel.flops;
  integer_ops += kernel.integer_ops;
  integer_products += kernel.integer_products;
}

void Work::widen_for(DType dtype) {
  // Short floats are computed in f32.
  element_bytes = std::max(element_bytes, is_float(dtype) ? std::max(4, byte_size(dtype)) : byte_size(dtype));
}

std::string Work::operations_text() const {
  if (integer_ops == 0) return count_text(flops) + " flops";
  return (flops > 0 ? count_text(flops) + " flops, " : "") + count_text(integer_ops) + " integer operations";
}

double HostLimits::flops_per_ns(runtime::Arithmetic kind) {
  const auto [rate, is_new] = flops_per_ns_.try_emplace(kind, 0);
  if (is_new) rate->second = runtime::measure_flops_per_ns(kind, threads_);
  return rate->second;
}

double HostLimits::measured(Traffic traffic, std::int64_t bytes) {
  const auto [rate, is_new] = rates_.try_emplace({traffic, bytes}, 0);
  if (is_new) rate->second = runtime::measure_bytes_per_ns(traffic, bytes, threads_);
  return rate->second;
}

double HostLimits::bytes_per_ns(double read_bytes, double written_bytes) {
  const Traffic traffic = written_bytes * 8 < read_bytes   ? Traffic::Read
                          : read_bytes * 8 < written_bytes ? Traffic::Write
                                                           : Traffic::Copy;
  // Powers of two, so that kernels of about one size are measured once.
  const auto bytes = static_cast<std::uint64_t>(std::clamp(read_bytes + written_bytes, 4096.0, double{kMostMeasured}));
  return measured(traffic, static_cast<std::int64_t>(std::bit_floor(bytes)));
}

double HostLimits::level_bytes_per_ns(int level) {
  const std::int64_t sizes[] = {target_.l1_bytes / 2, target_.l2_bytes / 2, target_.l3_bytes / 2,
                                std::min(kMostMeasured, target_.l3_bytes * 4)};
  return measured(Traffic::Read, sizes[std::clamp(level, 1, 4) - 1]);
}

std::string HostLimits::level_of(double bytes) const {
  const std::pair<std::int64_t, const char*> levels[] = {
      {target_.l1_bytes, "L1"}, {target_.l2_bytes, "L2"}, {target_.l3_bytes, "L3"}};
  for (const auto& [size, name] : levels) {
    if (bytes <= static_cast<double>(size)) return name;
  }
  return "memory";
}

double HostLimits::integers_us(const Work& work) {
  // Sums run beside products, so the longer of the two counts.
  const double narrow = 4.0 / work.element_bytes;
  double us = 0;
  if (work.integer_products > 0 && work.on_bytes) {
    us = 2 * work.integer_products / flops_per_ns(runtime::Arithmetic::ByteQuads) / 1e3;
  } else if (work.integer_products > 0) {
    us = 2 * work.integer_products / (flops_per_ns(runtime::Arithmetic::I32Products) * narrow) / 1e3;
  }
  // The sums of products are part of their instructions.
  const double others = work.integer_ops - 2 * work.integer_products;
  if (others > 0) us = std::max(us, others / (flops_per_ns(runtime::Arithmetic::I32) * narrow) / 1e3);
  return us;
}

Limit HostLimits::of(const Work& work) {
  Limit limit;
  limit.memory = level_of(work.bytes());
  const double rate = flops_per_ns(work.on_bf16 ? runtime::Arithmetic::Bf16Pairs : runtime::Arithmetic::F32);
  if (work.flops > 0) limit.arithmetic_us = work.flops / (rate * 4 / work.element_bytes) / 1e3;
  limit.arithmetic_us = std::max(limit.arithmetic_us, integers_us(work));
  // Both occupy the unit that divides, one after the other.
  const auto divide = [&](double count, runtime::Arithmetic kind) {
    return count > 0 ? count / (flops_per_ns(kind) * 4 / work.element_bytes) / 1e3 : 0;
  };
  limit.divisions_us =
      divide(work.divisions, runtime::Arithmetic::Divisions) + divide(work.roots, runtime::Arithmetic::Roots);
  if (work.bytes() > 0) limit.memory_us = work.bytes() / bytes_per_ns(work.read_bytes, work.written_bytes) / 1e3;
  return limit;
}

}  // namespace corrloom::tools
