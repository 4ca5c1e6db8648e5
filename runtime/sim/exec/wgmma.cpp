#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/matrix.h"

/// wgmma: products by a group of four warps. Source: PTX ISA, "Asynchronous warpgroup level matrix instructions".
/// A product takes place when its group is waited for, from what registers and shared memory hold then: reading the
/// accumulators, or overwriting the operands, too early gives wrong results here as it may on the hardware.
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

// Inst::m0: Element of a, m1: of b, m2: of d; m3: bit 0 a in registers, bit 1 negate a, bit 2 negate b, bit 3 transpose
// a, bit 4 transpose b, bit 6 satfinite. imm: n << 16 | k. a: descriptor of a, b: descriptor of b, c: scale-d. list:
// registers of d, then of a.
constexpr int kRowsOfWarp = 16;

/// A matrix in shared memory. Source: PTX ISA, "Matrix descriptor format" and "Strides".
struct Descriptor {
  uint32_t start, leading_bytes, stride_bytes;
  int swizzle;  ///< 0 none, 1 128, 2 64, 3 32 bytes

  explicit Descriptor(uint64_t bits)
      : start(uint32_t(bits & 0x3FFF) << 4),
        leading_bytes(uint32_t(bits >> 16 & 0x3FFF) << 4),
        stride_bytes(uint32_t(bits >> 32 & 0x3FFF) << 4),
        swizzle(int(bits >> 62)) {}

  uint32_t span() const { return swizzle == 1 ? 128 : swizzle == 2 ? 64 : swizzle == 3 ? 32 : 16; }

  uint32_t permute(uint32_t address) const {
    static constexpr uint32_t kMasks[] = {0, 0x70, 0x30, 0x10};
    return address ^ (address >> 3 & kMasks[swizzle]);
  }

  /// Byte address of the 16-byte unit `unit` along k of row (m or n) `row`: k is contiguous.
  uint32_t k_major(uint32_t row, uint32_t k_byte) const {
    if (swizzle == 0) return start + row / 8 * stride_bytes + row % 8 * 16 + k_byte / 16 * leading_bytes + k_byte % 16;
    return permute(start + row / 8 * stride_bytes + row % 8 * span() + k_byte);
  }

  /// The same where m or n is contiguous: `mn_byte` along it, at depth k.
  uint32_t mn_major(uint32_t mn_byte, uint32_t k) const {
    if (swizzle == 0) return start + mn_byte / 16 * stride_bytes + mn_byte % 16 + k % 8 * 16 + k / 8 * leading_bytes;
    return permute(start + mn_byte / span() * leading_bytes + mn_byte % span() + k % 8 * span() + k / 8 * stride_bytes);
  }
};

/// Byte address of element (row, k) of an operand.
uint32_t element_address(const Descriptor& d, bool transposed, uint32_t row, uint32_t k, uint32_t bytes) {
  return transposed ? d.mn_major(row * bytes, k) : d.k_major(row, k * bytes);
}

/// Bounds, races, and whether the data has arrived: for each 16 bytes of an operand, in the name of lane 0.
void check_operand(Warp& warp, const Inst& inst, const Descriptor& d, bool transposed, uint32_t first_row,
                   uint32_t rows, uint32_t k, uint32_t bytes) {
  const uint32_t row_step = transposed ? 16 / bytes : 1, k_step = transposed ? 1 : 16 / bytes;
  for (uint32_t row = 0; row < rows; row += row_step) {
    for (uint32_t at = 0; at < k; at += k_step) {
      const uint32_t address = element_address(d, transposed, first_row + row, at, bytes);
      resolve(warp, inst, 0, address, {.space = Space::Shared, .bytes = 16, .reads = true, .async_proxy = true});
    }
  }
}

uint64_t load_bits(const std::byte* from, uint32_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  return bits;
}

/// One warp's sixteen rows of a product. `registers` is the frame the instruction was issued in.
void multiply(Warp& warp, const Inst& inst, std::byte* registers, uint64_t a_bits, uint64_t b_bits, bool accumulate,
              const std::vector<uint32_t>& a_registers) {
  const auto n = int(inst.imm >> 16), k = int(inst.imm & 0xFFFF);
  const auto ea = Element(inst.m0), eb = Element(inst.m1), ed = Element(inst.m2);
  const uint32_t bytes_a = uint32_t(element_bits(ea)) / 8, bytes_b = uint32_t(element_bits(eb)) / 8;
  const std::byte* shared = warp.block->shared.data();
  std::vector<double> a(size_t(kRowsOfWarp * k)), b(size_t(k * n)), d(size_t(kRowsOfWarp * n), 0.0);
  const double sign_a = inst.m3 & 2 ? -1 : 1, sign_b = inst.m3 & 4 ? -1 : 1;
  if (inst.m3 & 1) {
    const int per = 32 / element_bits(ea);
    for (size_t r = 0; r < a_registers.size() / kLanes; ++r) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane / 4 + int(r % 2) * 8, k0 = int(r / 2) * 4 * per + lane % 4 * per;
        for (int i = 0; i < per; ++i) {
          const uint32_t bits = a_registers[r * kLanes + size_t(lane)];
          a[size_t(row * k + k0 + i)] =
              sign_a * element_value(per == 1 ? bits : bits >> (i * 32 / per) & ((1u << (32 / per)) - 1), ea);
        }
      }
    }
  } else {
    const Descriptor descriptor(a_bits);
    const uint32_t first = uint32_t(warp.index % 4) * kRowsOfWarp;
    for (int row = 0; row < kRowsOfWarp; ++row) {
      for (int at = 0; at < k; ++at) {
        const uint32_t address = element_address(descriptor, inst.m3 & 8, first + uint32_t(row), uint32_t(at), bytes_a);
        a[size_t(row * k + at)] = sign_a * element_value(load_bits(shared + address, bytes_a), ea);
      }
    }
  }
  const Descriptor descriptor(b_bits);
  for (int column = 0; column < n; ++column) {
    for (int at = 0; at < k; ++at) {
      const uint32_t address = element_address(descriptor, inst.m3 & 16, uint32_t(column), uint32_t(at), bytes_b);
      b[size_t(at * n + column)] = sign_b * element_value(load_bits(shared + address, bytes_b), eb);
    }
  }
  std::byte* const before = warp.bases[0];
  warp.bases[0] = registers;
  const Slot* slots = warp.program->slots.data() + inst.list;
  const auto for_values = [&](auto&& visit) {
    const int per = ed == Element::F16 ? 2 : 1;
    for (int value = 0; value < n / 2; ++value) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane / 4 + value / 2 % 2 * 8, column = value / 4 * 8 + lane % 4 * 2 + value % 2;
        visit(slots[value / per], lane, value % per, d[size_t(row * n + column)]);
      }
    }
  };
  if (accumulate) {
    for_values([&](Slot slot, int lane, int i, double& value) {
      value = ed == Element::F16 ? element_value(warp.at<uint16_t>(slot)[lane * 2 + i], ed)
                                 : element_value(warp.at<uint32_t>(slot)[lane], ed);
    });
  }
  multiply_accumulate(a.data(), b.data(), d.data(), kRowsOfWarp, n, k);
  for_values([&](Slot slot, int lane, int i, double& value) {
    if (ed == Element::F16) {
      warp.at<uint16_t>(slot)[lane * 2 + i] = HalfF16::from_double(value);
    } else if (ed == Element::F32) {
      warp.at<float>(slot)[lane] = canonical(float(value));
    } else {
      if (inst.m3 & 64) value = std::clamp(value, -0x1p31, 0x1p31 - 1);
      warp.at<uint32_t>(slot)[lane] = uint32_t(int64_t(value));
    }
  });
  warp.bases[0] = before;
  warp.worker->counters.tensor_flops += 2ull * kRowsOfWarp * uint64_t(n) * uint64_t(k);
}

void issue(Warp& warp, const Inst& inst, LaneMask) {
  const auto n = uint32_t(inst.imm >> 16), k = uint32_t(inst.imm & 0xFFFF);
  const uint32_t bytes_a = uint32_t(element_bits(Element(inst.m0))) / 8,
                 bytes_b = uint32_t(element_bits(Element(inst.m1))) / 8;
  const uint64_t b_bits = warp.at<uint64_t>(inst.b)[0];
  const uint64_t a_bits = inst.m3 & 1 ? 0 : warp.at<uint64_t>(inst.a)[0];
  check_operand(warp, inst, Descriptor(b_bits), inst.m3 & 16, 0, n, k, bytes_b);
  if (!(inst.m3 & 1)) {
    check_operand(warp, inst, Descriptor(a_bits), inst.m3 & 8, uint32_t(warp.index % 4) * kRowsOfWarp, kRowsOfWarp, k,
                  bytes_a);
  }
  const LaneMask scale = warp.predicate(inst.c);
  // Operands in registers are read at once: the registers may be reused only after the wait, but compilers move values
  // between registers of the same name.
  std::vector<uint32_t> a_registers;
  if (inst.m3 & 1) {
    const uint32_t count_d = n / 2 / (Element(inst.m2) == Element::F16 ? 2 : 1);
    for (uint32_t r = 0; r < k * bytes_a / 8; ++r) {
      const uint32_t* values = warp.at<uint32_t>(warp.program->slots[inst.list + count_d + r]);
      a_registers.insert(a_registers.end(), values, values + kLanes);
    }
  }
  std::byte* registers = warp.bases[0];
  async_state(warp).wgmma_open.push_back(
      [&warp, &inst, registers, a_bits, b_bits, accumulate = (scale & 1) != 0, a_registers = std::move(a_registers)] {
        multiply(warp, inst, registers, a_bits, b_bits, accumulate, a_registers);
      });
}

void commit(Warp& warp, const Inst&, LaneMask) {
  AsyncState& state = async_state(warp);
  state.wgmma_groups.push_back(std::move(state.wgmma_open));
  state.wgmma_open.clear();
}

void wait(Warp& warp, const Inst& inst, LaneMask) {
  auto& groups = async_state(warp).wgmma_groups;
  while (groups.size() > size_t(inst.imm)) {
    for (const auto& product : groups.front()) product();
    groups.pop_front();
  }
}

void nothing(Warp&, const Inst&, LaneMask) {}

struct Form {
  Element a;
  int k;
};
constexpr Form kForms[] = {{Element::F16, 16},  {Element::BF16, 16}, {Element::TF32, 8}, {Element::E4M3, 32},
                           {Element::E5M2, 32}, {Element::S8, 32},   {Element::U8, 32}};

int take_shape(Decode& c, int& k) {
  for (const std::string& modifier : c.mods.rest()) {
    int n = 0;
    if (std::sscanf(modifier.c_str(), "m64n%dk%d", &n, &k) != 2) continue;
    if (modifier != "m64n" + std::to_string(n) + "k" + std::to_string(k)) continue;
    c.mods.take(modifier);
    return n;
  }
  c.fail("missing shape of 'wgmma.mma_async'");
}

void decode_product(Decode& c) {
  if (c.mods.has("sp")) c.fail("sparse wgmma is not supported by this simulator");
  int k = 0;
  const int n = take_shape(c, k);
  const bool saturate = c.mods.take("satfinite");
  std::vector<Element> types;
  for (const std::string& modifier : c.mods.rest()) {
    const std::optional<Element> element = element_of(modifier);
    if (!element) c.fail("unknown or illegal modifier '." + modifier + "'");
    types.push_back(*element);
    c.mods.take(modifier);
  }
  if (types.size() != 3) c.fail("wgmma.mma_async needs the types of d, a and b");
  const Element d = types[0], a = types[1], b = types[2];
  bool legal = n >= 8 && n <= 256 && n % 8 == 0;
  bool known = false;
  for (const Form& form : kForms) known |= form.a == a && form.k == k;
  const bool integer = is_integer_element(a), half = a == Element::F16 || a == Element::BF16;
  const bool small = a == Element::E4M3 || a == Element::E5M2;
  legal &= known && (integer ? is_integer_element(b) && element_bits(b) == 8 && d == Element::S32 &&
                                   (n <= 32 ? n % 8 == 0 : n % 16 == 0)
                     : small ? b == Element::E4M3 || b == Element::E5M2
                             : a == b);
  if (!integer) legal &= d == Element::F32 || (d == Element::F16 && (a == Element::F16 || small));
  if (saturate) c.inst.m3 |= 64;
  if (!legal || (saturate && !integer)) c.fail("illegal combination of shape and types of 'wgmma.mma_async'");
  c.inst.m0 = uint8_t(a);
  c.inst.m1 = uint8_t(b);
  c.inst.m2 = uint8_t(d);
  c.inst.imm = int64_t(n) << 16 | k;
  const auto d_parts = Decoder::elements(c.operand(0));
  const size_t count_d = size_t(n) / 2 / (d == Element::F16 ? 2 : 1);
  if (d_parts.size() != count_d)
    c.fail("the accumulator must have " + std::to_string(count_d) + " registers, not " +
           std::to_string(d_parts.size()));
  const Type d_type = d == Element::F32 ? Type::F32 : d == Element::S32 ? Type::S32 : Type::B32;
  std::vector<Slot> slots;
  for (const ptx::Operand* part : d_parts)
    slots.push_back(c.decoder.write_operand(*part, d_type, false, c.source.line));
  if (c.operand(1).kind == ptx::OperandKind::Vector) {
    c.inst.m3 |= 1;
    const auto a_parts = Decoder::elements(c.operand(1));
    const size_t count_a = size_t(k) * size_t(element_bits(a)) / 64;
    if (a_parts.size() != count_a)
      c.fail("matrix a must have " + std::to_string(count_a) + " registers, not " + std::to_string(a_parts.size()));
    for (const ptx::Operand* part : a_parts)
      slots.push_back(c.decoder.read_operand(*part, Type::B32, false, c.source.line));
  } else {
    c.inst.a = c.reads(1, Type::B64);
  }
  c.inst.b = c.reads(2, Type::B64);
  c.decoder.set_list(c.inst, slots);
  c.inst.list_size = 0;
  size_t next = 3;
  c.inst.c = c.decoder.predicate_constant(true);
  if (next < c.operand_count()) c.inst.c = c.reads_predicate(next++);
  const auto take_sign = [&](uint8_t bit) {
    if (next >= c.operand_count()) c.fail("missing scale of an operand");
    const auto value = int64_t(c.constant(next++));
    if (value != 1 && value != -1) c.fail("scales must be 1 or -1");
    if (value == -1) c.inst.m3 |= bit;
  };
  if (!integer) {
    take_sign(2);
    take_sign(4);
  }
  const auto take_transpose = [&](uint8_t bit) {
    if (next >= c.operand_count()) c.fail("missing transposition of an operand");
    const uint64_t value = c.constant(next++);
    if (value > 1) c.fail("a transposition is 0 or 1");
    if (value == 1) c.inst.m3 |= bit;
  };
  if (half) {
    if (!(c.inst.m3 & 1)) take_transpose(8);
    take_transpose(16);
  }
  c.expect_operands(next);
  c.inst.fn = issue;
}

void decode_wgmma(Decode& c) {
  c.require(80, 90, true);
  const int what = c.mods.take_one({"fence", "commit_group", "wait_group", "mma_async"});
  if (what < 0) c.fail("unknown wgmma operation");
  if (!c.mods.take("sync") || !c.mods.take("aligned")) c.fail("wgmma needs .sync.aligned");
  c.inst.klass = what == 3 ? Class::TensorCore : Class::Barrier;
  c.inst.flow = Flow::Collective;
  c.inst.aligned = true;
  switch (what) {
    case 0:
      c.expect_operands(0);
      c.inst.fn = nothing;
      return;
    case 1:
      c.expect_operands(0);
      c.inst.fn = commit;
      return;
    case 2:
      c.expect_operands(1);
      c.inst.imm = int64_t(c.constant(0));
      if (c.inst.imm < 0) c.fail("the number of groups must not be negative");
      c.inst.fn = wait;
      return;
    default:
      return decode_product(c);
  }
}

}  // namespace

void land_products(Warp& warp, const Inst&, LaneMask) {
  if (warp.async == nullptr) return;
  auto& groups = warp.async->wgmma_groups;
  for (; !groups.empty(); groups.pop_front()) {
    for (const auto& product : groups.front()) product();
  }
  for (const auto& product : warp.async->wgmma_open) product();
  warp.async->wgmma_open.clear();
}

void register_wgmma(OpcodeTable& table) {
  table["wgmma"] = decode_wgmma;
}

}  // namespace corrloom::sim::exec
