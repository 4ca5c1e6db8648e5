#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/matrix.h"
#include "runtime/sim/exec/memory_modifiers.h"

/// mma.sync, ldmatrix, stmatrix, movmatrix. Source: PTX ISA, "Matrix multiply-accumulate operation using mma
/// instruction".
namespace corrloom::sim::exec {

using ptx::Type;

std::optional<Element> element_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Element> kNames[] = {
      {"f16", Element::F16},  {"bf16", Element::BF16}, {"tf32", Element::TF32}, {"f64", Element::F64},
      {"f32", Element::F32},  {"s32", Element::S32},   {"s8", Element::S8},     {"u8", Element::U8},
      {"s4", Element::S4},    {"u4", Element::U4},     {"b1", Element::B1},     {"e4m3", Element::E4M3},
      {"e5m2", Element::E5M2}};
  for (const auto& [known, element] : kNames) {
    if (known == name) return element;
  }
  return std::nullopt;
}

int element_bits(Element element) {
  switch (element) {
    case Element::F64:
      return 64;
    case Element::TF32:
    case Element::F32:
    case Element::S32:
      return 32;
    case Element::F16:
    case Element::BF16:
      return 16;
    case Element::S4:
    case Element::U4:
      return 4;
    case Element::B1:
      return 1;
    default:
      return 8;
  }
}

bool is_integer_element(Element element) {
  return element >= Element::S32 && element <= Element::B1;
}

double element_value(uint64_t bits, Element element) {
  switch (element) {
    case Element::F16:
      return decode_f16(uint16_t(bits));
    case Element::BF16:
      return decode_bf16(uint16_t(bits));
    case Element::TF32:
      return std::bit_cast<float>(uint32_t(bits) & 0xFFFFE000u);  // the low bits are ignored
    case Element::F64:
      return std::bit_cast<double>(bits);
    case Element::F32:
      return std::bit_cast<float>(uint32_t(bits));
    case Element::S32:
      return int32_t(bits);
    case Element::S8:
      return int8_t(bits);
    case Element::U8:
      return uint8_t(bits);
    case Element::S4:
      return int8_t(uint8_t(bits << 4)) >> 4;
    case Element::U4:
      return double(bits & 15);
    case Element::B1:
      return double(bits & 1);
    case Element::E4M3:
      return decode(uint32_t(bits & 0xFF), kE4M3);
    case Element::E5M2:
      return decode(uint32_t(bits & 0xFF), kE5M2);
  }
  return 0;
}

void multiply_accumulate(const double* a, const double* b, double* c, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      const double x = a[i * k + p];
      for (int j = 0; j < n; ++j) c[i * n + j] += x * b[p * n + j];
    }
  }
}

namespace {

// mma. Inst::m0: Element of a, m1: of b, m2: of c and d, m3: bit 0 satfinite, bit 1 .xor, bit 2 .and (for b1);
// imm: m << 32 | n << 16 | k. list: registers of a, b, c, d in turn.

struct Shape {
  int m, n, k;
};
Shape shape_of(const Inst& inst) {
  return {int(inst.imm >> 32), int(inst.imm >> 16 & 0xFFFF), int(inst.imm & 0xFFFF)};
}

/// Bits of a fragment's element: register `reg` of a lane, element `index` in it.
uint64_t fragment_bits(Warp& warp, Slot slot, int lane, int index, int bits) {
  if (bits == 64) return warp.at<uint64_t>(slot)[lane];
  const uint32_t word = warp.at<uint32_t>(slot)[lane];
  if (bits == 32) return word;
  return word >> (index * bits) & ((1u << bits) - 1);
}

/// Reads A [m, k] from fragments. Within a register k runs; lanes of a group of four follow; then come rows 8 further
/// down (if m is 16), then the next stretch of k.
void read_a(Warp& warp, const Slot* slots, const Shape& s, Element element, double* a) {
  const int bits = element_bits(element), per = std::max(1, 32 / bits), rows = s.m / 8;
  const int registers = s.k / (4 * per) * rows;
  for (int r = 0; r < registers; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4 + r % rows * 8, k0 = r / rows * 4 * per + lane % 4 * per;
      for (int i = 0; i < per; ++i)
        a[row * s.k + k0 + i] = element_value(fragment_bits(warp, slots[r], lane, i, bits), element);
    }
  }
}

void read_b(Warp& warp, const Slot* slots, const Shape& s, Element element, double* b) {
  const int bits = element_bits(element), per = std::max(1, 32 / bits);
  const int registers = s.k / (4 * per);
  for (int r = 0; r < registers; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int column = lane / 4, k0 = r * 4 * per + lane % 4 * per;
      for (int i = 0; i < per; ++i)
        b[(k0 + i) * s.n + column] = element_value(fragment_bits(warp, slots[r], lane, i, bits), element);
    }
  }
}

/// Calls visit(register, lane, element in the register, row, column) for an accumulator [m, 8].
template <class F>
void for_accumulator(int m, Element element, F&& visit) {
  const int per = element_bits(element) == 16 ? 2 : 1;
  for (int half = 0; half < m / 8; ++half) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 2; ++i) {
        const int value = half * 2 + i;
        visit(value / per, lane, value % per, lane / 4 + half * 8, lane % 4 * 2 + i);
      }
    }
  }
}

uint64_t accumulator_bits(double value, Element element, bool saturate) {
  switch (element) {
    case Element::F16:
      return HalfF16::from_double(value);
    case Element::F32:
      return std::bit_cast<uint32_t>(canonical(float(value)));
    case Element::F64:
      return std::bit_cast<uint64_t>(value);
    default:
      if (saturate)
        value =
            std::clamp(value, double(std::numeric_limits<int32_t>::min()), double(std::numeric_limits<int32_t>::max()));
      return uint32_t(int64_t(value));  // sums of a tile are far below 2^53: exact, and wrap like the hardware's
  }
}

void mma(Warp& warp, const Inst& inst, LaneMask) {
  const Shape s = shape_of(inst);
  const auto ea = Element(inst.m0), eb = ea == Element::F64 ? ea : Element(inst.m1), ec = Element(inst.m2);
  static constexpr int kMostA = 16 * 256, kMostB = 256 * 8;
  double a[kMostA], b[kMostB], c[16 * 8];
  const Slot* slots = warp.program->slots.data() + inst.list;
  const int per_a = std::max(1, 32 / element_bits(ea)), per_b = std::max(1, 32 / element_bits(eb));
  const int count_a = s.k / (4 * per_a) * (s.m / 8), count_b = s.k / (4 * per_b);
  const int count_c = s.m / 8 * 2 / (element_bits(ec) == 16 ? 2 : 1);
  read_a(warp, slots, s, ea, a);
  read_b(warp, slots + count_a, s, eb, b);
  const Slot* slots_c = slots + count_a + count_b;
  for_accumulator(s.m, ec, [&](int r, int lane, int i, int row, int column) {
    c[row * s.n + column] = element_value(fragment_bits(warp, slots_c[r], lane, i, element_bits(ec)), ec);
  });
  if (ec == Element::F64) {
    for (int i = 0; i < s.m; ++i) {
      for (int j = 0; j < s.n; ++j) {
        for (int k = 0; k < s.k; ++k) {
          double& sum = c[i * s.n + j];
          sum = fma_rounded(a[i * s.k + k], b[k * s.n + j], sum, Rounding(inst.m1));
        }
      }
    }
  } else if (inst.m3 & 2) {
    for (int i = 0; i < s.m; ++i) {
      for (int j = 0; j < s.n; ++j) {
        for (int k = 0; k < s.k; ++k) c[i * s.n + j] += a[i * s.k + k] != b[k * s.n + j];
      }
    }
  } else {
    multiply_accumulate(a, b, c, s.m, s.n, s.k);
  }
  const Slot* slots_d = slots_c + count_c;
  for_accumulator(s.m, ec, [&](int r, int lane, int i, int row, int column) {
    const uint64_t bits = accumulator_bits(c[row * s.n + column], ec, inst.m3 & 1);
    if (ec == Element::F64) {
      warp.at<uint64_t>(slots_d[r])[lane] = bits;
    } else if (ec == Element::F16) {
      warp.at<uint16_t>(slots_d[r])[lane * 2 + i] = uint16_t(bits);
    } else {
      warp.at<uint32_t>(slots_d[r])[lane] = uint32_t(bits);
    }
  });
  warp.worker->counters.tensor_flops += 2ull * uint64_t(s.m) * uint64_t(s.n) * uint64_t(s.k);
}

struct MmaForm {
  Element element;
  int m, k;
  int version, target;
};
/// All have n = 8.
constexpr MmaForm kForms[] = {
    {Element::F16, 16, 8, 65, 75},   {Element::F16, 16, 16, 70, 80},  {Element::BF16, 16, 8, 70, 80},
    {Element::BF16, 16, 16, 70, 80}, {Element::TF32, 16, 4, 70, 80},  {Element::TF32, 16, 8, 70, 80},
    {Element::F64, 8, 4, 70, 80},    {Element::F64, 16, 4, 78, 90},   {Element::F64, 16, 8, 78, 90},
    {Element::F64, 16, 16, 78, 90},  {Element::S8, 8, 16, 65, 75},    {Element::S8, 16, 16, 70, 80},
    {Element::S8, 16, 32, 70, 80},   {Element::S4, 8, 32, 65, 75},    {Element::S4, 16, 32, 70, 80},
    {Element::S4, 16, 64, 70, 80},   {Element::B1, 8, 128, 70, 75},   {Element::B1, 16, 128, 70, 80},
    {Element::B1, 16, 256, 70, 80},  {Element::E4M3, 16, 32, 84, 89}, {Element::E4M3, 16, 16, 87, 89},
};

/// Types that share a shape table: signed with unsigned, e4m3 with e5m2.
Element family(Element element) {
  switch (element) {
    case Element::U8:
      return Element::S8;
    case Element::U4:
      return Element::S4;
    case Element::E5M2:
      return Element::E4M3;
    default:
      return element;
  }
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

/// `m16n8k16`
bool parse_shape(std::string_view text, Shape& shape) {
  int values[3] = {0, 0, 0};
  static constexpr char kLetters[] = {'m', 'n', 'k'};
  size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    if (at >= text.size() || text[at] != kLetters[i]) return false;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9' && values[i] < 10000; ++at)
      values[i] = values[i] * 10 + (text[at] - '0');
  }
  shape = {values[0], values[1], values[2]};
  return at == text.size();
}

/// Appends the registers of a vector operand, which must be `count`.
void append(Decode& c, std::vector<Slot>& slots, size_t operand, int count, Type type, bool write) {
  const auto parts = Decoder::elements(c.operand(operand));
  if (int(parts.size()) != count) {
    c.fail("operand " + std::to_string(operand + 1) + " must have " + std::to_string(count) + " registers, not " +
           std::to_string(parts.size()));
  }
  for (const ptx::Operand* part : parts) {
    slots.push_back(write ? c.decoder.write_operand(*part, type, false, c.source.line)
                          : c.decoder.read_operand(*part, type, false, c.source.line));
  }
}

void collective(Decode& c, Class klass) {
  if (!c.mods.take("sync") || !c.mods.take("aligned")) c.fail("'" + c.source.opcode + "' needs .sync.aligned");
  c.inst.klass = klass;
  c.inst.flow = Flow::Collective;
  c.inst.aligned = true;
}

// m8n8k4 of f16, four products at once: lanes 4q to 4q + 3 and 16 more have the q-th. m0: b is row major, m1: a is
// column major, m2: Element of d, m3: of c. list: registers of a, b, c, d.

/// Row and column of element i of an accumulator.
std::pair<int, int> quarter_place(int lane, int i, Element element) {
  const int low = lane < 16 ? 0 : 4;
  if (element == Element::F16) return {lane % 4 + low, i};
  return {(lane & 1) + (i & 2) + low, (i & 4) + (lane & 2) + (i & 1)};
}

void quarters(Warp& warp, const Inst& inst, LaneMask) {
  const Slot* slots = warp.program->slots.data() + inst.list;
  const auto ed = Element(inst.m2), ec = Element(inst.m3);
  const int count_c = ec == Element::F16 ? 4 : 8;
  double a[4][8][4], b[4][4][8], c[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int q = lane % 16 / 4, own = lane % 4, low = lane < 16 ? 0 : 4;
    for (int i = 0; i < 4; ++i) {
      const double x = element_value(fragment_bits(warp, slots[i / 2], lane, i % 2, 16), Element::F16);
      const double y = element_value(fragment_bits(warp, slots[2 + i / 2], lane, i % 2, 16), Element::F16);
      (inst.m1 ? a[q][i + low][own] : a[q][own + low][i]) = x;
      (inst.m0 ? b[q][own][i + low] : b[q][i][own + low]) = y;
    }
    for (int i = 0; i < 8; ++i) {
      const auto [row, column] = quarter_place(lane, i, ec);
      const bool packed = ec == Element::F16;
      c[q][row][column] =
          element_value(fragment_bits(warp, slots[4 + (packed ? i / 2 : i)], lane, i % 2, packed ? 16 : 32), ec);
    }
  }
  for (int q = 0; q < 4; ++q) multiply_accumulate(a[q][0], b[q][0], c[q][0], 8, 8, 4);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const auto [row, column] = quarter_place(lane, i, ed);
      const auto bits = uint32_t(accumulator_bits(c[lane % 16 / 4][row][column], ed, false));
      if (ed == Element::F16) {
        warp.at<uint16_t>(slots[4 + count_c + i / 2])[lane * 2 + i % 2] = uint16_t(bits);
      } else {
        warp.at<uint32_t>(slots[4 + count_c + i])[lane] = bits;
      }
    }
  }
  warp.worker->counters.tensor_flops += 4ull * 2 * 8 * 8 * 4;
}

/// Called with everything before the layouts consumed.
void decode_quarters(Decode& c) {
  c.require(64, 70);
  std::vector<bool> is_column;
  std::vector<Element> types;
  for (const std::string& modifier : c.mods.rest()) {
    const std::optional<Element> element = element_of(modifier);
    if (modifier == "row" || modifier == "col") {
      is_column.push_back(modifier == "col");
    } else if (element) {
      types.push_back(*element);
    } else {
      c.fail("unknown or illegal modifier '." + modifier + "'");
    }
    c.mods.take(modifier);
  }
  const auto accumulates = [](Element element) { return element == Element::F16 || element == Element::F32; };
  if (is_column.size() != 2 || types.size() != 4 || types[1] != Element::F16 || types[2] != Element::F16 ||
      !accumulates(types[0]) || !accumulates(types[3]) || (types[0] == Element::F16 && types[3] == Element::F32)) {
    c.fail("illegal combination of shape and types of 'mma'");
  }
  c.expect_operands(4);
  c.inst.m0 = !is_column[1];
  c.inst.m1 = is_column[0];
  c.inst.m2 = uint8_t(types[0]);
  c.inst.m3 = uint8_t(types[3]);
  std::vector<Slot> slots;
  append(c, slots, 1, 2, Type::B32, false);
  append(c, slots, 2, 2, Type::B32, false);
  append(c, slots, 3, types[3] == Element::F16 ? 4 : 8, register_type(types[3]), false);
  append(c, slots, 0, types[0] == Element::F16 ? 4 : 8, register_type(types[0]), true);
  c.decoder.set_list(c.inst, slots);
  c.inst.list_size = 0;
  c.inst.fn = quarters;
}

void decode_mma(Decode& c) {
  for (const std::string& modifier : c.mods.rest()) {
    if (modifier == "sp" || modifier.starts_with("sp::") || modifier == "block_scale" ||
        modifier.starts_with("kind::")) {
      c.fail("mma with ." + modifier + " is not supported by this simulator");
    }
  }
  collective(c, Class::TensorCore);
  Shape shape{};
  bool has_shape = false;
  for (const std::string& modifier : c.mods.rest()) {
    if (!parse_shape(modifier, shape)) continue;
    c.mods.take(modifier);
    has_shape = true;
    break;
  }
  if (!has_shape) c.fail("missing shape of 'mma'");
  if (shape.m == 8 && shape.n == 8 && shape.k == 4 && c.mods.has("f16")) return decode_quarters(c);
  if (!c.mods.take("row") || !c.mods.take("col")) c.fail("mma takes .row.col");
  const int rounding = c.mods.take_one({"rn", "rz", "rm", "rp"});
  if (c.mods.take("satfinite")) c.inst.m3 |= 1;
  const bool is_xor = c.mods.take("xor"), is_and = c.mods.take("and");
  if (c.mods.take("popc") != (is_xor || is_and)) c.fail("single-bit mma needs .xor.popc or .and.popc");
  if (is_xor) c.inst.m3 |= 2;
  std::vector<Element> types;
  for (const std::string& modifier : c.mods.rest()) {
    const std::optional<Element> element = element_of(modifier);
    if (!element) c.fail("unknown or illegal modifier '." + modifier + "'");
    types.push_back(*element);
  }
  for (const std::string& modifier : c.mods.rest()) c.mods.take(modifier);
  if (types.size() != 4) c.fail("mma needs the types of d, a, b and c");
  const Element d = types[0], a = types[1], b = types[2], acc = types[3];
  const MmaForm* form = nullptr;
  for (const MmaForm& row : kForms) {
    if (row.element == family(a) && row.m == shape.m && row.k == shape.k) form = &row;
  }
  const bool integer = is_integer_element(a);
  bool legal = form != nullptr && shape.n == 8 && family(a) == family(b) && d == acc;
  if (family(a) != Element::S8 && family(a) != Element::S4 && family(a) != Element::E4M3) legal &= a == b;
  if (integer) {
    legal &= d == Element::S32 && ((a == Element::B1) == (is_xor || is_and));
  } else if (a == Element::F64) {
    legal &= d == Element::F64;
  } else if (rounding >= 0) {
    c.fail("only mma of .f64 takes a rounding modifier");
  } else if (a == Element::F16 || family(a) == Element::E4M3) {
    legal &= d == Element::F16 || d == Element::F32;
  } else {
    legal &= d == Element::F32;
  }
  if (!legal || ((c.inst.m3 & 1) && (!integer || a == Element::B1)))
    c.fail("illegal combination of shape and types of 'mma'");
  c.require(form->version, form->target);
  c.expect_operands(4);
  c.inst.m0 = uint8_t(a);
  static constexpr Rounding kRoundings[] = {Rounding::NearestEven, Rounding::NearestEven, Rounding::Zero,
                                            Rounding::Down, Rounding::Up};
  c.inst.m1 = a == Element::F64 ? uint8_t(kRoundings[rounding + 1]) : uint8_t(b);
  c.inst.m2 = uint8_t(d);
  c.inst.imm = int64_t(shape.m) << 32 | int64_t(shape.n) << 16 | shape.k;
  const int per = std::max(1, 32 / element_bits(a));
  const int count_c = shape.m / 8 * 2 / (d == Element::F16 ? 2 : 1);
  std::vector<Slot> slots;
  append(c, slots, 1, shape.k / (4 * per) * (shape.m / 8), register_type(a), false);
  append(c, slots, 2, shape.k / (4 * per), register_type(b), false);
  append(c, slots, 3, count_c, register_type(d), false);
  append(c, slots, 0, count_c, register_type(d), true);
  c.decoder.set_list(c.inst, slots);
  c.inst.list_size = 0;  // no membermask: the whole warp
  c.inst.fn = mma;
}

// -- ldmatrix, stmatrix. list: registers; m0: number of matrices, m1: .trans, imm: offset

/// Shared memory of the row that a lane names: 16 bytes.
std::byte* matrix_row(Warp& warp, const Inst& inst, int lane, bool write) {
  const Located at = locate(inst.space, lane_address(warp, inst, lane));
  if (at.space != Space::Shared && at.space != Space::SharedCluster) {
    warp.fault(LaunchError::InvalidAddressSpace, FindingKind::OutOfBounds, inst, lane, at.address, 16,
               "the address is not in shared memory");
  }
  return resolve(warp, inst, lane, at.address, {.space = Space::Shared, .bytes = 16, .reads = !write, .writes = write});
}

void count_matrix_rows(Warp& warp, const Inst& inst, bool store) {
  if (!warp.worker->count) return;
  uint64_t addresses[kLanes] = {};
  for (int lane = 0; lane < inst.m0 * 8; ++lane)
    addresses[lane] = locate(inst.space, lane_address(warp, inst, lane)).address;
  count_request(warp, Space::Shared, addresses, inst.m0 == 4 ? kAllLanes : (1u << inst.m0 * 8) - 1, 16, store);
}

void ldmatrix(Warp& warp, const Inst& inst, LaneMask) {
  uint16_t rows[32][8];
  for (int lane = 0; lane < inst.m0 * 8; ++lane) std::memcpy(rows[lane], matrix_row(warp, inst, lane, false), 16);
  count_matrix_rows(warp, inst, false);
  for (int matrix = 0; matrix < inst.m0; ++matrix) {
    uint32_t* d = warp.at<uint32_t>(warp.program->slots[inst.list + uint32_t(matrix)]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const auto* m = rows + matrix * 8;
      d[lane] = inst.m1 ? uint32_t(m[column + 1][row]) << 16 | m[column][row]
                        : uint32_t(m[row][column + 1]) << 16 | m[row][column];
    }
  }
}

void stmatrix(Warp& warp, const Inst& inst, LaneMask) {
  uint16_t rows[32][8];
  for (int matrix = 0; matrix < inst.m0; ++matrix) {
    const uint32_t* a = warp.at<uint32_t>(warp.program->slots[inst.list + uint32_t(matrix)]);
    auto* m = rows + matrix * 8;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const auto low = uint16_t(a[lane]), high = uint16_t(a[lane] >> 16);
      (inst.m1 ? m[column][row] : m[row][column]) = low;
      (inst.m1 ? m[column + 1][row] : m[row][column + 1]) = high;
    }
  }
  for (int lane = 0; lane < inst.m0 * 8; ++lane) std::memcpy(matrix_row(warp, inst, lane, true), rows[lane], 16);
  count_matrix_rows(warp, inst, true);
}

void decode_matrix_move(Decode& c, bool store) {
  c.require(store ? 78 : 65, store ? 90 : 75);
  collective(c, Class::LoadStore);
  if (!c.mods.take("m8n8")) c.fail("only the shape .m8n8 is supported");
  static constexpr int kCounts[] = {1, 2, 4};
  const int count = c.mods.take_one({"x1", "x2", "x4"});
  if (count < 0) c.fail("missing .x1, .x2 or .x4");
  c.inst.m0 = uint8_t(kCounts[count]);
  c.inst.m1 = c.mods.take("trans");
  c.inst.space = take_memory_space(c);
  if (c.inst.space != Space::Shared && c.inst.space != Space::Generic) c.fail("matrices lie in shared memory");
  if (c.mods.type() != Type::B16) c.fail("only .b16 elements are supported");
  c.expect_operands(2);
  std::vector<Slot> slots;
  append(c, slots, store ? 1 : 0, kCounts[count], Type::B32, !store);
  c.decoder.read_address(c.operand(store ? 0 : 1), c.inst, c.source.line);
  c.decoder.set_list(c.inst, slots);
  c.inst.list_size = 0;
  c.inst.fn = store ? stmatrix : ldmatrix;
}

void movmatrix(Warp& warp, const Inst& inst, LaneMask) {
  uint16_t m[8][8];
  const uint32_t* a = warp.at<uint32_t>(inst.a);
  for (int lane = 0; lane < kLanes; ++lane) {
    m[lane / 4][lane % 4 * 2] = uint16_t(a[lane]);
    m[lane / 4][lane % 4 * 2 + 1] = uint16_t(a[lane] >> 16);
  }
  uint32_t* d = warp.at<uint32_t>(inst.d);
  for (int lane = 0; lane < kLanes; ++lane) {
    d[lane] = uint32_t(m[lane % 4 * 2 + 1][lane / 4]) << 16 | m[lane % 4 * 2][lane / 4];
  }
}

void decode_movmatrix(Decode& c) {
  c.require(78, 75);
  collective(c, Class::Move);
  if (!c.mods.take("m8n8") || !c.mods.take("trans")) c.fail("movmatrix needs .m8n8.trans");
  if (c.mods.type() != Type::B16) c.fail("movmatrix works on .b16");
  c.expect_operands(2);
  c.inst.d = c.writes(0, Type::B32);
  c.inst.a = c.reads(1, Type::B32);
  c.inst.fn = movmatrix;
}

}  // namespace

void register_matrix(OpcodeTable& table) {
  table["mma"] = decode_mma;
  table["ldmatrix"] = [](Decode& c) { decode_matrix_move(c, false); };
  table["stmatrix"] = [](Decode& c) { decode_matrix_move(c, true); };
  table["movmatrix"] = decode_movmatrix;
  register_wgmma(table);
  register_wmma(table);
}

}  // namespace corrloom::sim::exec
