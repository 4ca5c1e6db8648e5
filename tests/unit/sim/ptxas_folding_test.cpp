#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "simulator.h"

/// NVIDIA's assembler as a second opinion: it folds instructions whose operands are constants, and what it stores
/// stands in the machine code as immediates. Every form is assembled with edge values, and the folded results are
/// compared with the simulator's. Not every form is folded (divisions and the multi-word ones are expanded), and
/// approximations are left out: the folder rounds them correctly, which promises nothing about a device.
namespace corrloom::sim {
namespace {

/// An instruction without its operands, and what these are: result ':' operands. h w l: integers of 16, 32, 64 bits;
/// e b f d: f16, bf16, f32, f64; s: a shift amount or position; c: a prmt selector; p: a predicate (results only).
struct Form {
  const char* text;
  const char* types;
};

constexpr Form kForms[] = {
    {"add.u16", "h:hh"},
    {"add.s32", "w:ww"},
    {"add.s64", "l:ll"},
    {"sub.s16", "h:hh"},
    {"sub.u32", "w:ww"},
    {"sub.u64", "l:ll"},
    {"add.sat.s32", "w:ww"},
    {"sub.sat.s32", "w:ww"},
    {"mul.lo.s16", "h:hh"},
    {"mul.hi.s16", "h:hh"},
    {"mul.hi.u16", "h:hh"},
    {"mul.wide.s16", "w:hh"},
    {"mul.wide.u16", "w:hh"},
    {"mul.lo.s32", "w:ww"},
    {"mul.hi.s32", "w:ww"},
    {"mul.hi.u32", "w:ww"},
    {"mul.wide.s32", "l:ww"},
    {"mul.wide.u32", "l:ww"},
    {"mul.lo.s64", "l:ll"},
    {"mul.hi.s64", "l:ll"},
    {"mul.hi.u64", "l:ll"},
    {"mad.lo.s32", "w:www"},
    {"mad.hi.s32", "w:www"},
    {"mad.hi.u32", "w:www"},
    {"mad.wide.s32", "l:wwl"},
    {"mad.wide.u32", "l:wwl"},
    {"mad.lo.s64", "l:lll"},
    {"mad.lo.s16", "h:hhh"},
    {"mad.wide.s16", "w:hhw"},
    {"mul24.lo.s32", "w:ww"},
    {"mul24.lo.u32", "w:ww"},
    {"mul24.hi.s32", "w:ww"},
    {"mad24.lo.s32", "w:www"},
    {"div.s16", "h:hh"},
    {"div.u16", "h:hh"},
    {"div.s32", "w:ww"},
    {"div.u32", "w:ww"},
    {"rem.s32", "w:ww"},
    {"rem.u32", "w:ww"},
    {"rem.s16", "h:hh"},
    {"rem.u16", "h:hh"},
    {"min.s32", "w:ww"},
    {"min.u32", "w:ww"},
    {"max.s32", "w:ww"},
    {"max.u32", "w:ww"},
    {"min.s16", "h:hh"},
    {"max.u16", "h:hh"},
    {"min.s64", "l:ll"},
    {"max.u64", "l:ll"},
    {"max.s64", "l:ll"},
    {"min.u64", "l:ll"},
    {"abs.s16", "h:h"},
    {"abs.s32", "w:w"},
    {"abs.s64", "l:l"},
    {"neg.s16", "h:h"},
    {"neg.s32", "w:w"},
    {"neg.s64", "l:l"},
    {"sad.s32", "w:www"},
    {"sad.u32", "w:www"},
    {"popc.b32", "w:w"},
    {"popc.b64", "w:l"},
    {"clz.b32", "w:w"},
    {"clz.b64", "w:l"},
    {"bfind.u32", "w:w"},
    {"bfind.s32", "w:w"},
    {"bfind.u64", "w:l"},
    {"bfind.s64", "w:l"},
    {"bfind.shiftamt.u32", "w:w"},
    {"bfind.shiftamt.s32", "w:w"},
    {"brev.b32", "w:w"},
    {"brev.b64", "l:l"},
    {"bfe.u32", "w:wss"},
    {"bfe.s32", "w:wss"},
    {"bfe.u64", "l:lss"},
    {"bfe.s64", "l:lss"},
    {"bfi.b32", "w:wwss"},
    {"bfi.b64", "l:llss"},
    {"and.b16", "h:hh"},
    {"and.b32", "w:ww"},
    {"or.b32", "w:ww"},
    {"xor.b32", "w:ww"},
    {"and.b64", "l:ll"},
    {"or.b64", "l:ll"},
    {"xor.b64", "l:ll"},
    {"not.b16", "h:h"},
    {"not.b32", "w:w"},
    {"not.b64", "l:l"},
    {"cnot.b16", "h:h"},
    {"cnot.b32", "w:w"},
    {"cnot.b64", "l:l"},
    {"shl.b16", "h:hs"},
    {"shl.b32", "w:ws"},
    {"shl.b64", "l:ls"},
    {"shr.u16", "h:hs"},
    {"shr.s16", "h:hs"},
    {"shr.u32", "w:ws"},
    {"shr.s32", "w:ws"},
    {"shr.u64", "l:ls"},
    {"shr.s64", "l:ls"},
    {"shf.l.clamp.b32", "w:wws"},
    {"shf.r.clamp.b32", "w:wws"},
    {"shf.l.wrap.b32", "w:wws"},
    {"shf.r.wrap.b32", "w:wws"},
    {"prmt.b32", "w:wwc"},
    {"prmt.b32.f4e", "w:wws"},
    {"prmt.b32.b4e", "w:wws"},
    {"prmt.b32.rc8", "w:wws"},
    {"prmt.b32.ecl", "w:wws"},
    {"prmt.b32.ecr", "w:wws"},
    {"prmt.b32.rc16", "w:wws"},
    {"dp4a.u32.u32", "w:www"},
    {"dp4a.s32.u32", "w:www"},
    {"dp4a.s32.s32", "w:www"},
    {"dp2a.lo.s32.u32", "w:www"},
    {"dp2a.hi.u32.s32", "w:www"},
    {"szext.wrap.s32", "w:ws"},
    {"szext.clamp.u32", "w:ws"},
    {"bmsk.clamp.b32", "w:ss"},
    {"bmsk.wrap.b32", "w:ss"},
    {"set.lt.u32.s32", "w:ww"},
    {"set.hi.u32.u32", "w:ww"},
    {"set.le.f32.f32", "f:ff"},
    {"set.neu.u32.f32", "w:ff"},
    {"setp.eq.s16", "p:hh"},
    {"setp.lt.u16", "p:hh"},
    {"setp.lt.s32", "p:ww"},
    {"setp.le.s32", "p:ww"},
    {"setp.lo.u32", "p:ww"},
    {"setp.hs.u32", "p:ww"},
    {"setp.gt.s64", "p:ll"},
    {"setp.ne.b64", "p:ll"},
    {"setp.ls.u64", "p:ll"},
    {"setp.eq.f32", "p:ff"},
    {"setp.ne.f32", "p:ff"},
    {"setp.lt.f32", "p:ff"},
    {"setp.ge.f32", "p:ff"},
    {"setp.equ.f32", "p:ff"},
    {"setp.neu.f32", "p:ff"},
    {"setp.ltu.f32", "p:ff"},
    {"setp.geu.f32", "p:ff"},
    {"setp.num.f32", "p:ff"},
    {"setp.nan.f32", "p:ff"},
    {"setp.gt.ftz.f32", "p:ff"},
    {"setp.eq.ftz.f32", "p:ff"},
    {"setp.lt.f64", "p:dd"},
    {"setp.gtu.f64", "p:dd"},
    {"setp.nan.f64", "p:dd"},
    {"setp.le.f16", "p:ee"},
    {"setp.neu.f16", "p:ee"},
    {"setp.lt.bf16", "p:bb"},
    {"slct.b32.s32", "w:www"},
    {"slct.u64.s32", "l:llw"},
    {"slct.f32.f32", "f:fff"},
    {"add.rn.f32", "f:ff"},
    {"add.rz.f32", "f:ff"},
    {"add.rm.f32", "f:ff"},
    {"add.rp.f32", "f:ff"},
    {"add.rn.ftz.f32", "f:ff"},
    {"add.rn.sat.f32", "f:ff"},
    {"sub.rn.f32", "f:ff"},
    {"sub.rn.ftz.f32", "f:ff"},
    {"mul.rn.f32", "f:ff"},
    {"mul.rz.f32", "f:ff"},
    {"mul.rm.f32", "f:ff"},
    {"mul.rp.f32", "f:ff"},
    {"mul.rn.ftz.f32", "f:ff"},
    {"mul.rn.ftz.sat.f32", "f:ff"},
    {"fma.rn.f32", "f:fff"},
    {"fma.rz.f32", "f:fff"},
    {"fma.rn.ftz.f32", "f:fff"},
    {"fma.rn.sat.f32", "f:fff"},
    {"min.f32", "f:ff"},
    {"max.f32", "f:ff"},
    {"min.ftz.f32", "f:ff"},
    {"min.NaN.f32", "f:ff"},
    {"max.NaN.f32", "f:ff"},
    {"max.ftz.NaN.f32", "f:ff"},
    {"min.xorsign.abs.f32", "f:ff"},
    {"abs.f32", "f:f"},
    {"neg.f32", "f:f"},
    {"abs.ftz.f32", "f:f"},
    {"neg.ftz.f32", "f:f"},
    {"copysign.f32", "f:ff"},
    {"testp.finite.f32", "p:f"},
    {"testp.infinite.f32", "p:f"},
    {"testp.number.f32", "p:f"},
    {"testp.notanumber.f32", "p:f"},
    {"testp.normal.f32", "p:f"},
    {"testp.subnormal.f32", "p:f"},
    {"testp.subnormal.f64", "p:d"},
    {"div.rn.f32", "f:ff"},
    {"rcp.rn.f32", "f:f"},
    {"rcp.rz.f32", "f:f"},
    {"sqrt.rn.f32", "f:f"},
    {"sqrt.rm.f32", "f:f"},
    {"add.rn.f64", "d:dd"},
    {"add.rm.f64", "d:dd"},
    {"sub.rp.f64", "d:dd"},
    {"mul.rn.f64", "d:dd"},
    {"mul.rz.f64", "d:dd"},
    {"fma.rn.f64", "d:ddd"},
    {"min.f64", "d:dd"},
    {"max.f64", "d:dd"},
    {"abs.f64", "d:d"},
    {"neg.f64", "d:d"},
    {"copysign.f64", "d:dd"},
    {"add.rn.f16", "e:ee"},
    {"sub.rn.f16", "e:ee"},
    {"mul.rn.f16", "e:ee"},
    {"mul.rn.ftz.f16", "e:ee"},
    {"add.rn.sat.f16", "e:ee"},
    {"fma.rn.f16", "e:eee"},
    {"fma.rn.relu.f16", "e:eee"},
    {"min.f16", "e:ee"},
    {"max.NaN.f16", "e:ee"},
    {"neg.f16", "e:e"},
    {"abs.f16", "e:e"},
    {"add.rn.bf16", "b:bb"},
    {"mul.rn.bf16", "b:bb"},
    {"fma.rn.bf16", "b:bbb"},
    {"min.bf16", "b:bb"},
    {"max.NaN.bf16", "b:bb"},
    {"neg.bf16", "b:b"},
    {"abs.bf16", "b:b"},
    {"cvt.s32.s16", "w:h"},
    {"cvt.u32.u16", "w:h"},
    {"cvt.s64.s32", "l:w"},
    {"cvt.u64.u32", "l:w"},
    {"cvt.u16.u32", "h:w"},
    {"cvt.u32.u64", "w:l"},
    {"cvt.sat.s16.s32", "h:w"},
    {"cvt.sat.u16.s32", "h:w"},
    {"cvt.sat.s32.s64", "w:l"},
    {"cvt.sat.u32.s64", "w:l"},
    {"cvt.sat.s32.u32", "w:w"},
    {"cvt.rni.s32.f32", "w:f"},
    {"cvt.rzi.s32.f32", "w:f"},
    {"cvt.rmi.s32.f32", "w:f"},
    {"cvt.rpi.s32.f32", "w:f"},
    {"cvt.rzi.u32.f32", "w:f"},
    {"cvt.rni.u32.f32", "w:f"},
    {"cvt.rzi.ftz.s32.f32", "w:f"},
    {"cvt.rzi.s64.f32", "l:f"},
    {"cvt.rzi.u64.f32", "l:f"},
    {"cvt.rzi.s16.f32", "h:f"},
    {"cvt.rzi.u16.f32", "h:f"},
    {"cvt.rzi.s32.f64", "w:d"},
    {"cvt.rni.s64.f64", "l:d"},
    {"cvt.rpi.u32.f64", "w:d"},
    {"cvt.rn.f32.s32", "f:w"},
    {"cvt.rz.f32.s32", "f:w"},
    {"cvt.rm.f32.u32", "f:w"},
    {"cvt.rp.f32.u32", "f:w"},
    {"cvt.rn.f32.s64", "f:l"},
    {"cvt.rn.f32.u64", "f:l"},
    {"cvt.rn.f64.s32", "d:w"},
    {"cvt.rn.f64.u32", "d:w"},
    {"cvt.rn.f64.s64", "d:l"},
    {"cvt.rz.f64.u64", "d:l"},
    {"cvt.rn.f32.f64", "f:d"},
    {"cvt.rz.f32.f64", "f:d"},
    {"cvt.rm.f32.f64", "f:d"},
    {"cvt.rp.f32.f64", "f:d"},
    {"cvt.f64.f32", "d:f"},
    {"cvt.rni.f32.f32", "f:f"},
    {"cvt.rzi.f32.f32", "f:f"},
    {"cvt.rmi.f32.f32", "f:f"},
    {"cvt.rpi.f32.f32", "f:f"},
    {"cvt.sat.f32.f32", "f:f"},
    {"cvt.ftz.f32.f32", "f:f"},
    {"cvt.rni.f64.f64", "d:d"},
    {"cvt.rmi.f64.f64", "d:d"},
    {"cvt.rn.f16.f32", "e:f"},
    {"cvt.rz.f16.f32", "e:f"},
    {"cvt.f32.f16", "f:e"},
    {"cvt.rn.f16.s32", "e:w"},
    {"cvt.rzi.s32.f16", "w:e"},
    {"cvt.rni.f16.f16", "e:e"},
    {"cvt.rn.bf16.f32", "b:f"},
    {"cvt.rz.bf16.f32", "b:f"},
    {"cvt.f32.bf16", "f:b"},
    {"cvt.rn.relu.bf16.f32", "b:f"},
    {"cvt.rna.tf32.f32", "f:f"},
    {"cvt.rn.f16x2.f32", "w:ff"},
    {"cvt.rn.bf16x2.f32", "w:ff"},
    {"cvt.rn.satfinite.e4m3x2.f32", "h:ff"},
    {"cvt.rn.satfinite.e5m2x2.f32", "h:ff"},
};

const std::vector<uint64_t>& values_of(char type) {
  static const std::map<char, std::vector<uint64_t>> kValues{
      {'h', {0, 1, 2, 5, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x00FF, 0x1234, 0xABCD}},
      {'w',
       {0, 1, 2, 3, 31, 100, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFF9, 0x00010000, 0x12345678,
        0xDEADBEEF, 0x01000001}},
      {'l',
       {0, 1, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
        0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF80000000, 0x123456789ABCDEF0, 0xFEDCBA9876543210}},
      {'s', {0, 1, 4, 8, 15, 16, 31, 32, 33, 40, 63, 64, 65, 255}},
      {'c', {0x3210, 0x7654, 0x0123, 0x4567, 0xFEDC, 0x8888, 0x1B0F, 0x5410}},
      {'e', {0, 0x8000, 0x3C00, 0xBC00, 0x3C01, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x4248}},
      {'b', {0, 0x8000, 0x3F80, 0xBF80, 0x3F81, 0x0001, 0x0080, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x4049}},
      {'f', {0,          0x80000000, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F000000, 0x3FC00000, 0x40200000,
             0xC0200000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
             0x7FC00000, 0x40490FDB, 0x4F000000, 0x4EFFFFFF, 0xCF000000, 0xCF000001, 0x4F800000, 0x5F000000,
             0x477FEFFF, 0x477FF000, 0x33000000, 0x38800001, 0x3F808000, 0x3F801000, 0x43E00000, 0x43E80000}},
      {'d',
       {0, 0x8000000000000000, 0x3FF0000000000000, 0xBFF8000000000000, 0x4004000000000000, 0x3FF0000000000001,
        0x0000000000000001, 0x000FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000,
        0x7FF8000000000000, 0x400921FB54442D18, 0x41DFFFFFFFE00000, 0xC1E0000000200000, 0x47EFFFFFF0000000,
        0x3690000000000000, 0x3FF0000010000000}},
  };
  return kValues.at(type);
}

/// One form with one choice of operands.
struct Case {
  const Form* form;
  std::vector<uint64_t> operands;
};

/// All values of one operand, a spread of the combinations of several.
std::vector<Case> cases_of(const Form& form, size_t most) {
  const std::string inputs = std::string(form.types).substr(2);
  uint64_t total = 1;
  for (const char type : inputs) total *= values_of(type).size();
  const uint64_t count = std::min<uint64_t>(most, total);
  std::vector<Case> cases;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t choice = i * total / count + (count < total ? i * 7 % (total / count) : 0);
    Case made{&form, {}};
    for (const char type : inputs) {
      const auto& values = values_of(type);
      made.operands.push_back(values[choice % values.size()]);
      choice /= values.size();
    }
    cases.push_back(made);
  }
  return cases;
}

/// Registers and their types by the letters of Form.
const char* class_of(char type) {
  switch (type) {
    case 'h':
    case 'e':
    case 'b':
      return "b16";
    case 'l':
    case 'd':
      return "b64";
    case 'p':
      return "pred";
    default:
      return "b32";
  }
}

/// A kernel that stores the result of case i at 8 * i.
std::string kernel_of(const std::string& name, std::span<const Case> cases) {
  std::stringstream text;
  text << ".visible .entry " << name << "(.param .u64 out)\n{\n.reg .b64 %out; ld.param.u64 %out, [out];\n";
  for (size_t i = 0; i < cases.size(); ++i) {
    const Form& form = *cases[i].form;
    const char result = form.types[0];
    text << "{ .reg ." << class_of(result) << " %d; .reg .b32 %x;";
    for (size_t k = 0; k < cases[i].operands.size(); ++k) {
      const char* type = class_of(form.types[2 + k]);
      text << " .reg ." << type << " %a" << k << "; mov." << type << " %a" << k << ", " << cases[i].operands[k] << ";";
    }
    // prmt has its mode behind the type.
    text << ' ' << form.text << " %d";
    for (size_t k = 0; k < cases[i].operands.size(); ++k) text << ", %a" << k;
    text << "; ";
    const std::string address = "[%out+" + std::to_string(8 * i) + "]";
    if (result == 'p') {
      text << "selp.b32 %x, 1, 0, %d; st.global.b32 " << address << ", %x; }\n";
    } else if (class_of(result) == std::string_view("b16")) {
      text << "cvt.u32.u16 %x, %d; st.global.b32 " << address << ", %x; }\n";
    } else {
      text << "st.global." << class_of(result) << ' ' << address << ", %d; }\n";
    }
  }
  text << "ret;\n}\n";
  return text.str();
}

const std::string kHead = ".version 8.1\n.target sm_90a\n.address_size 64\n";

// -- reading the machine code

/// Words of 32 bits by offset from the kernel's argument, as far as they are immediates.
using Stored = std::map<uint32_t, uint32_t>;

/// What straight-line code stores. Only what moves an immediate to a register is understood; any other instruction
/// leaves its destination unknown. Low 12 bits: the opcode; then bits 16-23: the destination.
Stored stored_by(std::span<const uint64_t> code) {
  constexpr uint32_t kMov = 0x802, kImadMov = 0x424, kHfmaMov = 0x435, kStore = 0x986, kZeroPair = 0x805, kExit = 0x94d;
  constexpr uint32_t kZero = 255;
  std::map<uint32_t, uint32_t> known{{kZero, 0}};
  Stored stored;
  for (size_t i = 0; i + 1 < code.size(); i += 2) {
    const auto opcode = uint32_t(code[i] & 0xFFF), first = uint32_t(code[i] >> 16 & 0xFF);
    const auto immediate = uint32_t(code[i] >> 32);
    if (opcode == kExit) break;
    if (opcode == kStore) {
      const auto source = uint32_t(code[i] >> 32 & 0xFF), offset = uint32_t(code[i] >> 40);
      const auto size = uint32_t(code[i + 1] >> 9 & 7);  // 4: 32 bits, 5: 64, 6: 128
      const uint32_t words = size == 6 ? 4 : size == 5 ? 2 : 1;
      for (uint32_t w = 0; w < words; ++w) {
        const auto it = known.find(source == kZero ? kZero : source + w);
        if (it != known.end()) stored[offset + 4 * w] = it->second;
      }
    } else if (opcode == kMov || ((opcode == kImadMov || opcode == kHfmaMov) && (code[i] >> 24 & 0xFF) == kZero &&
                                  (code[i + 1] & 0xFF) == kZero)) {
      known[first] = immediate;
    } else if (opcode == kZeroPair && (code[i + 1] >> 8 & 0xFF) == kZero) {
      known[first] = known[first + 1] = 0;
    } else if (first != kZero) {
      for (uint32_t r = first; r < first + 4; ++r) known.erase(r);
    }
  }
  return stored;
}

template <class T>
T read(const std::vector<char>& file, uint64_t offset) {
  T value{};
  if (offset + sizeof(T) <= file.size()) std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

/// The machine code of every kernel in an ELF file of 64 bits.
std::map<std::string, std::vector<uint64_t>> kernels_of(const std::vector<char>& file) {
  std::map<std::string, std::vector<uint64_t>> kernels;
  const auto table = read<uint64_t>(file, 0x28);
  const auto count = read<uint16_t>(file, 0x3C), names_index = read<uint16_t>(file, 0x3E);
  const auto names = read<uint64_t>(file, table + 64u * names_index + 0x18);
  for (unsigned s = 0; s < count; ++s) {
    const uint64_t header = table + 64u * s;
    std::string name;
    for (uint64_t at = names + read<uint32_t>(file, header); at < file.size() && file[at] != 0; ++at) name += file[at];
    if (!name.starts_with(".text.")) continue;
    std::vector<uint64_t>& code = kernels[name.substr(6)];
    const auto begin = read<uint64_t>(file, header + 0x18), size = read<uint64_t>(file, header + 0x20);
    for (uint64_t at = begin; at + 8 <= begin + size; at += 8) code.push_back(read<uint64_t>(file, at));
  }
  return kernels;
}

bool has_ptxas() {
  return std::system("ptxas --version > /dev/null 2>&1") == 0;
}

std::vector<char> assemble(const std::string& text) {
  const std::string base = ::testing::TempDir() + "corrloom_folding_" + std::to_string(::getpid());
  std::ofstream(base + ".ptx") << text;
  const int status = std::system(("ptxas -O3 -arch=sm_90a -o " + base + ".cubin " + base + ".ptx").c_str());
  std::ifstream file(base + ".cubin", std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(base + ".ptx");
  std::filesystem::remove(base + ".cubin");
  return status == 0 ? bytes : std::vector<char>{};
}

bool is_wide(char type) {
  return class_of(type) == std::string_view("b64");
}

/// Two NaNs of one format are the same answer: the ISA leaves their payloads open.
bool both_nan(char type, uint64_t a, uint64_t b) {
  const auto nan = [&](uint64_t v) {
    switch (type) {
      case 'e':
        return (v & 0x7FFF) > 0x7C00;
      case 'b':
        return (v & 0x7FFF) > 0x7F80;
      case 'f':
        return (v & 0x7FFFFFFF) > 0x7F800000;
      case 'd':
        return (v & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
      default:
        return false;
    }
  };
  return nan(a) && nan(b);
}

TEST(PtxasFolding, AgreesWithTheSimulator) {
  if (!has_ptxas()) GTEST_SKIP() << "no ptxas here";
  constexpr size_t kMostOfAForm = 100, kOfAKernel = 64;
  std::vector<Case> cases;
  for (const Form& form : kForms) {
    const std::vector<Case> own = cases_of(form, kMostOfAForm);
    cases.insert(cases.end(), own.begin(), own.end());
  }
  std::string text = kHead;
  const size_t kernels = (cases.size() + kOfAKernel - 1) / kOfAKernel;
  const auto part = [&](size_t k) {
    return std::span(cases).subspan(k * kOfAKernel, std::min(kOfAKernel, cases.size() - k * kOfAKernel));
  };
  for (size_t k = 0; k < kernels; ++k) text += kernel_of("k" + std::to_string(k), part(k));
  const std::vector<char> cubin = assemble(text);
  ASSERT_FALSE(cubin.empty());
  const auto machine_code = kernels_of(cubin);
  Simulator sim;
  sim.load(text);
  std::set<const Form*> folded_forms;
  size_t folded = 0, wrong = 0;
  for (size_t k = 0; k < kernels; ++k) {
    const std::string name = "k" + std::to_string(k);
    const auto code = machine_code.find(name);
    ASSERT_NE(code, machine_code.end()) << name;
    const Stored stored = stored_by(code->second);
    const std::span<const Case> own = part(k);
    const DeviceAddress out = sim.upload(std::vector<uint64_t>(own.size(), 0));
    ASSERT_TRUE(clean(sim.launch(name, {1}, {1}, out)));
    const auto found = sim.download<uint64_t>(out, own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      const char type = own[i].form->types[0];
      const auto low = stored.find(uint32_t(8 * i)), high = stored.find(uint32_t(8 * i + 4));
      if (low == stored.end() || (is_wide(type) && high == stored.end())) continue;
      const uint64_t theirs = low->second | (is_wide(type) ? uint64_t(high->second) << 32 : 0);
      ++folded;
      folded_forms.insert(own[i].form);
      if (theirs == found[i] || both_nan(type, theirs, found[i])) continue;
      std::stringstream what;
      what << std::hex << own[i].form->text;
      for (const uint64_t operand : own[i].operands) what << " 0x" << operand;
      if (++wrong <= 40)
        ADD_FAILURE() << what.str() << ": ptxas 0x" << std::hex << theirs << ", simulator 0x" << found[i];
    }
  }
  std::printf("%zu of %zu cases folded, of %zu of %zu forms; %zu differ\n", folded, cases.size(), folded_forms.size(),
              std::size(kForms), wrong);
  // Less would mean that the machine code is not read as it should be.
  EXPECT_GT(folded, cases.size() / 3);
}

}  // namespace
}  // namespace corrloom::sim
