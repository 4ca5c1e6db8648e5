#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/matrix.h"
#include "runtime/sim/exec/memory_modifiers.h"

/// wmma.load, wmma.store, wmma.mma. Source: PTX ISA, "Matrix multiply-accumulate operation using wmma instructions".
/// Which lane holds which element of a fragment is the target's affair; here element v (counted over lanes, then
/// registers, then halves of a register) is element v of the row-major matrix, modulo its size: some fragments hold
/// every element twice.
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

// Inst::imm: m << 32 | n << 16 | k.
// load, store: m0 Element, m1 column major, m2 fragment (0 a, 1 b, 2 c or d); b: stride or none; list: registers.
// mma: m0 a, m1 b, m2 c, m3 d; bytes bit 0 satfinite, bit 1 xor; list: registers of a, b, c, d.

struct Shape {
  int m, n, k;
};
Shape shape_of(const Inst& inst) {
  return {int(inst.imm >> 32), int(inst.imm >> 16 & 0xFFFF), int(inst.imm & 0xFFFF)};
}

struct Extent {
  int rows, columns;
};
Extent extent_of(const Shape& s, int fragment) {
  return fragment == 0 ? Extent{s.m, s.k} : fragment == 1 ? Extent{s.k, s.n} : Extent{s.m, s.n};
}

int per_register(Element element) {
  return std::max(1, 32 / element_bits(element));
}

/// Registers of a fragment. f16 factors are held twice.
int register_count(const Shape& s, int fragment, Element element) {
  const Extent e = extent_of(s, fragment);
  if (fragment != 2 && element == Element::F16) return 8;
  return e.rows * e.columns / (kLanes * per_register(element));
}

uint64_t get(Warp& warp, Slot slot, int lane, int i, Element element) {
  const int bits = element_bits(element);
  if (bits == 64) return warp.at<uint64_t>(slot)[lane];
  const uint32_t word = warp.at<uint32_t>(slot)[lane];
  return bits == 32 ? word : word >> (i * bits) & ((1u << bits) - 1);
}

void set(Warp& warp, Slot slot, int lane, int i, Element element, uint64_t value) {
  const int bits = element_bits(element);
  if (bits == 64) {
    warp.at<uint64_t>(slot)[lane] = value;
    return;
  }
  uint32_t& word = warp.at<uint32_t>(slot)[lane];
  if (bits == 32) {
    word = uint32_t(value);
  } else {
    const uint32_t mask = ((1u << bits) - 1) << (i * bits);
    word = (word & ~mask) | (uint32_t(value) << (i * bits) & mask);
  }
}

/// Calls visit(slot, lane, index in the register, element number) for the whole fragment.
template <class F>
void for_fragment(const Slot* slots, int registers, Element element, const Extent& e, F&& visit) {
  const int per = per_register(element), total = e.rows * e.columns;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < registers; ++r) {
      for (int i = 0; i < per; ++i) visit(slots[r], lane, i, ((lane * registers + r) * per + i) % total);
    }
  }
}

void load_store(Warp& warp, const Inst& inst, bool store) {
  const Shape s = shape_of(inst);
  const Extent e = extent_of(s, inst.m2);
  const auto element = Element(inst.m0);
  const int bits = element_bits(element);
  const uint32_t bytes = uint32_t(std::max(1, bits / 8));
  const Slot* slots = warp.program->slots.data() + inst.list;
  const int registers = register_count(s, inst.m2, element);
  for_fragment(slots, registers, element, e, [&](Slot slot, int lane, int i, int number) {
    const int row = number / e.columns, column = number % e.columns;
    const uint64_t stride =
        inst.b != kNoSlot ? warp.at<uint32_t>(inst.b)[lane] : uint64_t(inst.m1 ? e.rows : e.columns);
    const uint64_t at = inst.m1 ? uint64_t(column) * stride + uint64_t(row) : uint64_t(row) * stride + uint64_t(column);
    const uint64_t base = inst.wide_address ? warp.at<uint64_t>(inst.a)[lane] : warp.at<uint32_t>(inst.a)[lane];
    const uint64_t address = base + at * uint64_t(bits) / 8;
    // A store of a value held twice happens once.
    if (store) {
      const uint64_t value = get(warp, slot, lane, i, element);
      std::byte* host =
          resolve(warp, inst, lane, address, {.space = inst.space, .bytes = bytes, .writes = true, .stored = &value});
      std::memcpy(host, &value, bytes);
      return;
    }
    const std::byte* host = resolve(warp, inst, lane, address, {.space = inst.space, .bytes = bytes, .reads = true});
    uint64_t value = 0;
    std::memcpy(&value, host, bytes);
    if (bits < 8) value = value >> (at * uint64_t(bits) % 8) & ((1u << bits) - 1);
    set(warp, slot, lane, i, element, value);
  });
}

void wmma_load(Warp& warp, const Inst& inst, LaneMask) {
  load_store(warp, inst, false);
}
void wmma_store(Warp& warp, const Inst& inst, LaneMask) {
  load_store(warp, inst, true);
}

void wmma(Warp& warp, const Inst& inst, LaneMask) {
  const Shape s = shape_of(inst);
  const Element elements[] = {Element(inst.m0), Element(inst.m1), Element(inst.m2), Element(inst.m3)};
  std::vector<double> values[3];
  const Slot* slots = warp.program->slots.data() + inst.list;
  for (int f = 0; f < 3; ++f) {
    const Extent e = extent_of(s, f);
    values[f].assign(size_t(e.rows * e.columns), 0);
    const int registers = register_count(s, f, elements[f]);
    for_fragment(slots, registers, elements[f], e, [&](Slot slot, int lane, int i, int number) {
      values[f][size_t(number)] = element_value(get(warp, slot, lane, i, elements[f]), elements[f]);
    });
    slots += registers;
  }
  if (elements[0] == Element::F64) {
    for (int i = 0; i < s.m; ++i) {
      for (int j = 0; j < s.n; ++j) {
        for (int k = 0; k < s.k; ++k) {
          double& c = values[2][size_t(i * s.n + j)];
          c = std::fma(values[0][size_t(i * s.k + k)], values[1][size_t(k * s.n + j)], c);
        }
      }
    }
  } else if (inst.bytes & 2) {
    for (int i = 0; i < s.m; ++i) {
      for (int j = 0; j < s.n; ++j) {
        for (int k = 0; k < s.k; ++k)
          values[2][size_t(i * s.n + j)] += values[0][size_t(i * s.k + k)] != values[1][size_t(k * s.n + j)];
      }
    }
  } else {
    multiply_accumulate(values[0].data(), values[1].data(), values[2].data(), s.m, s.n, s.k);
  }
  const Element d = elements[3];
  for_fragment(slots, register_count(s, 2, d), d, extent_of(s, 2), [&](Slot slot, int lane, int i, int number) {
    double value = values[2][size_t(number)];
    uint64_t bits = 0;
    switch (d) {
      case Element::F16:
        bits = HalfF16::from_double(value);
        break;
      case Element::F32:
        bits = std::bit_cast<uint32_t>(canonical(float(value)));
        break;
      case Element::F64:
        bits = std::bit_cast<uint64_t>(value);
        break;
      default:
        if (inst.bytes & 1) value = std::clamp(value, -0x1p31, 0x1p31 - 1);
        bits = uint32_t(int64_t(value));
        break;
    }
    set(warp, slot, lane, i, d, bits);
  });
  warp.worker->counters.tensor_flops += 2ull * uint64_t(s.m) * uint64_t(s.n) * uint64_t(s.k);
}

struct Form {
  Element element;
  Shape shape;
};
constexpr Form kForms[] = {
    {Element::F16, {16, 16, 16}},  {Element::F16, {32, 8, 16}},  {Element::F16, {8, 32, 16}},
    {Element::BF16, {16, 16, 16}}, {Element::BF16, {32, 8, 16}}, {Element::BF16, {8, 32, 16}},
    {Element::TF32, {16, 16, 8}},  {Element::F64, {8, 8, 4}},    {Element::S8, {16, 16, 16}},
    {Element::S8, {32, 8, 16}},    {Element::S8, {8, 32, 16}},   {Element::S4, {8, 8, 32}},
    {Element::B1, {8, 8, 128}},
};

Element family(Element element) {
  return element == Element::U8 ? Element::S8 : element == Element::U4 ? Element::S4 : element;
}

bool has_form(Element element, const Shape& s) {
  return std::ranges::any_of(kForms, [&](const Form& f) {
    return f.element == family(element) && f.shape.m == s.m && f.shape.n == s.n && f.shape.k == s.k;
  });
}

Shape take_shape(Decode& c) {
  for (const Form& form : kForms) {
    const Shape& s = form.shape;
    if (c.mods.take("m" + std::to_string(s.m) + "n" + std::to_string(s.n) + "k" + std::to_string(s.k))) return s;
  }
  c.fail("missing or unknown shape of 'wmma'");
}

Type register_type(Element element) {
  switch (element) {
    case Element::F64:
      return Type::F64;
    case Element::F32:
      return Type::F32;
    case Element::S32:
      return Type::S32;
    default:
      return Type::B32;
  }
}

void append(Decode& c, std::vector<Slot>& slots, size_t operand, int count, Element element, bool write) {
  const auto parts = Decoder::elements(c.operand(operand));
  if (int(parts.size()) != count)
    c.fail("operand " + std::to_string(operand + 1) + " must have " + std::to_string(count) + " registers");
  for (const ptx::Operand* part : parts) {
    slots.push_back(write ? c.decoder.write_operand(*part, register_type(element), false, c.source.line)
                          : c.decoder.read_operand(*part, register_type(element), false, c.source.line));
  }
}

std::vector<Element> take_elements(Decode& c) {
  std::vector<Element> elements;
  for (const std::string& modifier : c.mods.rest()) {
    const std::optional<Element> element = element_of(modifier);
    if (!element) c.fail("unknown or illegal modifier '." + modifier + "'");
    elements.push_back(*element);
    c.mods.take(modifier);
  }
  return elements;
}

void decode_move(Decode& c, bool store) {
  const int fragment = c.mods.take_one({"a", "b", "c", "d"});
  if (fragment < 0 || store != (fragment == 3)) c.fail("missing matrix of 'wmma'");
  c.inst.m2 = uint8_t(std::min(fragment, 2));
  const int layout = c.mods.take_one({"row", "col"});
  if (layout < 0) c.fail("missing .row or .col");
  c.inst.m1 = uint8_t(layout);
  const Shape s = take_shape(c);
  c.inst.space = take_memory_space(c);
  const std::vector<Element> elements = take_elements(c);
  if (elements.size() != 1) c.fail("missing type modifier");
  const Element element = elements[0];
  const bool accumulator =
      element == Element::F16 || element == Element::F32 || element == Element::F64 || element == Element::S32;
  if (c.inst.m2 == 2 ? !accumulator : !has_form(element, s)) c.fail("illegal combination of shape and type of 'wmma'");
  c.inst.m0 = uint8_t(element);
  c.inst.imm = 0;
  c.expect_operands(2, 3);
  std::vector<Slot> slots;
  append(c, slots, store ? 1 : 0, register_count(s, c.inst.m2, element), element, !store);
  c.decoder.set_list(c.inst, slots);
  c.inst.list_size = 0;
  c.decoder.read_address(c.operand(store ? 0 : 1), c.inst, c.source.line);
  if (c.inst.imm != 0) {
    // The offset of the address and the shape share a field: add the offset beforehand.
    Inst add;
    add.imm = c.inst.imm;
    add.a = c.inst.a;
    const bool wide = c.inst.wide_address;
    add.d = c.decoder.temporary(wide ? 8 : 4);
    add.line = c.source.line;
    add.fn = wide ? ExecFn([](Warp& warp, const Inst& inst, LaneMask mask) {
      unary<uint64_t, uint64_t>(warp, inst, mask, [&](uint64_t a) { return a + uint64_t(inst.imm); });
    })
                  : ExecFn([](Warp& warp, const Inst& inst, LaneMask mask) {
                      unary<uint32_t, uint32_t>(warp, inst, mask, [&](uint32_t a) { return a + uint32_t(inst.imm); });
                    });
    c.decoder.emit_before(add);
    c.inst.a = add.d;
  }
  c.inst.imm = int64_t(s.m) << 32 | int64_t(s.n) << 16 | s.k;
  if (c.operand_count() == 3) c.inst.b = c.reads(2, Type::U32);
  c.inst.fn = store ? wmma_store : wmma_load;
}

void decode_product(Decode& c) {
  if (c.mods.take_one({"row", "col"}) < 0 || c.mods.take_one({"row", "col"}) < 0) {
    // Both layouts may be the same word, which is then there twice.
    c.fail("missing layouts of 'wmma.mma'");
  }
  const Shape s = take_shape(c);
  if (c.mods.take("satfinite")) c.inst.bytes |= 1;
  const bool is_xor = c.mods.take("xor"), is_and = c.mods.take("and");
  if (c.mods.take("popc") != (is_xor || is_and)) c.fail("single-bit wmma needs .xor.popc or .and.popc");
  if (is_xor) c.inst.bytes |= 2;
  std::vector<Element> types = take_elements(c);
  if (types.size() == 2) types = {types[0], Element::F16, Element::F16, types[1]};
  if (types.size() != 4) c.fail("wmma.mma needs the types of d, a, b and c");
  const Element d = types[0], a = types[1], b = types[2], acc = types[3];
  bool legal = has_form(a, s) && family(a) == family(b);
  if (is_integer_element(a)) {
    legal &= d == Element::S32 && acc == Element::S32;
  } else if (a == Element::F16) {
    legal &= (d == Element::F16 || d == Element::F32) && (acc == Element::F16 || acc == Element::F32);
  } else {
    legal &= d == acc && d == (a == Element::F64 ? Element::F64 : Element::F32);
  }
  if (!legal) c.fail("illegal combination of shape and types of 'wmma.mma'");
  c.inst.m0 = uint8_t(a);
  c.inst.m1 = uint8_t(b);
  c.inst.m2 = uint8_t(acc);
  c.inst.m3 = uint8_t(d);
  c.inst.imm = int64_t(s.m) << 32 | int64_t(s.n) << 16 | s.k;
  c.expect_operands(4);
  std::vector<Slot> slots;
  append(c, slots, 1, register_count(s, 0, a), a, false);
  append(c, slots, 2, register_count(s, 1, b), b, false);
  append(c, slots, 3, register_count(s, 2, acc), acc, false);
  append(c, slots, 0, register_count(s, 2, d), d, true);
  c.decoder.set_list(c.inst, slots);
  c.inst.list_size = 0;
  c.inst.fn = wmma;
}

void decode_wmma(Decode& c) {
  c.require(60, 70);
  const int what = c.mods.take_one({"load", "store", "mma"});
  if (what < 0 || !c.mods.take("sync") || !c.mods.take("aligned"))
    c.fail("wmma needs .load, .store or .mma, and .sync.aligned");
  c.inst.klass = what == 2 ? Class::TensorCore : Class::LoadStore;
  c.inst.flow = Flow::Collective;
  c.inst.aligned = true;
  if (what == 2) {
    decode_product(c);
  } else {
    decode_move(c, what == 1);
  }
}

}  // namespace

void register_wmma(OpcodeTable& table) {
  table["wmma"] = decode_wmma;
}

}  // namespace corrloom::sim::exec
