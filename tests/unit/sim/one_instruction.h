#pragma once

#include "simulator.h"

namespace corrloom::sim {

/// Runs one instruction (or a few) in the lanes of one warp and compares what it leaves in `%d`.
///
/// `types` has one letter for each of %d, %a, %b, %c, %e: h 16, r 32, l 64 bits, p predicate, q 128 bits are not
/// offered. Each row holds the operands in that order without %d, then the expected bits.
inline void expect_rows(const std::string& text, const std::string& types,
                        const std::vector<std::vector<uint64_t>>& rows, const std::string& arch = "sm_90a") {
  static constexpr char kNames[] = {'d', 'a', 'b', 'c', 'e'};
  const size_t inputs = types.size() - 1;
  std::string body = ".reg .b64 %in, %out, %t; .reg .b32 %lane, %t32; .reg .b16 %t16;\n";
  for (size_t i = 0; i < types.size(); ++i) {
    const char* type = types[i] == 'h' ? ".b16" : types[i] == 'r' ? ".b32" : types[i] == 'l' ? ".b64" : ".pred";
    body += std::string(".reg ") + type + " %" + kNames[i] + ";\n";
  }
  body += "mov.u32 %lane, %tid.x;\nld.param.u64 %out, [out]; ld.param.u64 %in, [in];\n";
  body += "mad.wide.u32 %in, %lane, " + std::to_string(8 * inputs) + ", %in;\nmad.wide.u32 %out, %lane, 8, %out;\n";
  for (size_t i = 0; i < inputs; ++i) {
    const std::string address = "[%in+" + std::to_string(8 * i) + "];\n";
    const std::string name = std::string("%") + kNames[i + 1];
    switch (types[i + 1]) {
      case 'h':
        body += "ld.global.b16 " + name + ", " + address;
        break;
      case 'r':
        body += "ld.global.b32 " + name + ", " + address;
        break;
      case 'l':
        body += "ld.global.b64 " + name + ", " + address;
        break;
      default:
        body += "ld.global.b32 %t32, " + address + "setp.ne.u32 " + name + ", %t32, 0;\n";
        break;
    }
  }
  body += text + "\n";
  switch (types[0]) {
    case 'h':
      body += "cvt.u64.u16 %t, %d;\n";
      break;
    case 'r':
      body += "cvt.u64.u32 %t, %d;\n";
      break;
    case 'l':
      body += "mov.b64 %t, %d;\n";
      break;
    default:
      body += "selp.b64 %t, 1, 0, %d;\n";
      break;
  }
  body += "st.global.b64 [%out], %t;";
  Simulator sim(arch);
  sim.load(kernel_text(body));
  if (sim.module == nullptr) return;
  for (size_t first = 0; first < rows.size(); first += 32) {
    const size_t count = std::min<size_t>(32, rows.size() - first);
    std::vector<uint64_t> in;
    for (size_t row = first; row < first + count; ++row)
      in.insert(in.end(), rows[row].begin(), rows[row].begin() + std::ptrdiff_t(inputs));
    const DeviceAddress address = sim.upload(in), out = sim.memory.allocate(count * 8);
    ASSERT_TRUE(clean(sim.launch("k", {1}, {uint32_t(count)}, out, address)));
    const auto found = sim.download<uint64_t>(out, count);
    for (size_t i = 0; i < count; ++i) {
      std::stringstream what;
      what << text << std::hex;
      for (size_t k = 0; k < inputs; ++k) what << " 0x" << rows[first + i][k];
      EXPECT_EQ(found[i], rows[first + i][inputs])
          << what.str() << " -> 0x" << found[i] << ", wanted 0x" << rows[first + i][inputs];
    }
  }
}

/// The bits of a float or double.
inline uint64_t bits(float value) {
  return std::bit_cast<uint32_t>(value);
}
inline uint64_t bits(double value) {
  return std::bit_cast<uint64_t>(value);
}

}  // namespace corrloom::sim
