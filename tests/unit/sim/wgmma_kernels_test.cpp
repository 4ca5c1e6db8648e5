#include <cmath>

#include "compiled.h"

/// wgmma in many shapes, types and layouts, against products computed here.
namespace corrloom::sim {
namespace {

enum class Kind { F16, BF16, TF32, E4M3, E5M2, S8, U8 };

size_t bytes_of(Kind kind) {
  return kind == Kind::TF32 ? 4 : kind <= Kind::BF16 ? 2 : 1;
}

/// Appends the code of a small number, exact in every kind.
void append(std::vector<uint8_t>& bytes, Kind kind, int value) {
  const uint32_t sign = value < 0;
  int exponent = 0;
  float rest = std::frexp(float(std::abs(value)), &exponent);  // in [1/2, 1)
  const auto encode = [&](int mantissa_bits, int bias) {
    if (value == 0) return 0u;
    return uint32_t(exponent - 1 + bias) << mantissa_bits | uint32_t(std::ldexp(rest * 2 - 1, mantissa_bits));
  };
  uint32_t code = 0;
  switch (kind) {
    case Kind::F16:
      code = sign << 15 | encode(10, 15);
      break;
    case Kind::BF16:
      code = sign << 15 | encode(7, 127);
      break;
    case Kind::TF32:
      code = sign << 31 | encode(23, 127) | 0x155;  // bits that do not count
      break;
    case Kind::E4M3:
      code = sign << 7 | encode(3, 7);
      break;
    case Kind::E5M2:
      code = sign << 7 | encode(2, 15);
      break;
    default:
      code = uint32_t(value) & 0xFF;
      break;
  }
  for (size_t i = 0; i < bytes_of(kind); ++i) bytes.push_back(uint8_t(code >> (8 * i)));
}

struct Case {
  const char* name;
  int n, k;  ///< of all steps together
  Kind a, b;
  char d;  ///< f: f32, i: s32, h: f16
  int sign;
};

constexpr Case kCases[] = {
    {"f16_n8", 8, 64, Kind::F16, Kind::F16, 'f', 1},
    {"f16_n64", 64, 64, Kind::F16, Kind::F16, 'f', 1},
    {"f16_n256", 256, 32, Kind::F16, Kind::F16, 'f', 1},
    {"bf16_n128", 128, 64, Kind::BF16, Kind::BF16, 'f', -1},
    {"f16_f16_n64", 64, 16, Kind::F16, Kind::F16, 'h', 1},
    {"tf32_n32", 32, 32, Kind::TF32, Kind::TF32, 'f', 1},
    {"e4m3_n64", 64, 128, Kind::E4M3, Kind::E4M3, 'f', 1},
    {"e5m2_e4m3_n16", 16, 64, Kind::E5M2, Kind::E4M3, 'f', -1},
    {"e4m3_f16_n32", 32, 32, Kind::E4M3, Kind::E5M2, 'h', 1},
    {"s8_n32", 32, 128, Kind::S8, Kind::S8, 'i', 1},
    {"u8_s8_n128", 128, 32, Kind::U8, Kind::S8, 'i', 1},
};

class Wgmma : public CompiledKernels {
 protected:
  /// Values of a rows x k matrix.
  static std::vector<int> values(int rows, int k, int seed, bool positive) {
    std::vector<int> v;
    for (int i = 0; i < rows * k; ++i) v.push_back((i * 7 + i / k * 3 + seed) % 9 - (positive ? 0 : 4));
    return v;
  }
  DeviceAddress matrix(const std::vector<int>& v, Kind kind) {
    std::vector<uint8_t> bytes;
    for (const int value : v) append(bytes, kind, kind == Kind::E5M2 && std::abs(value) == 7 ? 8 : value);
    return sim.upload(bytes);
  }
  static double half(uint32_t bits) {
    const double magnitude = std::ldexp(1 + double(bits & 0x3FF) / 1024, int(bits >> 10 & 31) - 15);
    return (bits & 0x7FFF) == 0 ? 0 : bits & 0x8000 ? -magnitude : magnitude;
  }
};

TEST_P(Wgmma, ShapesAndTypes) {
  for (const Case& test : kCases) {
    for (const int accumulate : {0, 1}) {
      const auto a = values(64, test.k, 1, test.a == Kind::U8), b = values(test.n, test.k, 5, false);
      const auto exact = [](int v, Kind kind) { return kind == Kind::E5M2 && v == 7 ? 8 : v; };
      const int registers = test.d == 'h' ? test.n / 4 : test.n / 2;
      sim.dynamic_shared = uint32_t(64 + test.n) * uint32_t(test.k) * uint32_t(bytes_of(test.a));
      sim.max_dynamic_shared = 100000;
      const auto y = run<uint32_t>(std::string("wgmma_") + test.name, {1}, {128}, 128 * registers, matrix(a, test.a),
                                   matrix(b, test.b), kOut, accumulate);
      int wrong = 0;
      for (int t = 0; t < 128; ++t) {
        for (int i = 0; i < test.n / 2; ++i) {
          const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
          double expected = accumulate;
          for (int k = 0; k < test.k; ++k) {
            expected +=
                test.sign * exact(a[size_t(row * test.k + k)], test.a) * exact(b[size_t(column * test.k + k)], test.b);
          }
          const uint32_t bits = y[size_t(t * registers + (test.d == 'h' ? i / 2 : i))];
          const double got = test.d == 'f'   ? std::bit_cast<float>(bits)
                             : test.d == 'i' ? int32_t(bits)
                                             : half(bits >> i % 2 * 16 & 0xFFFF);
          if (got == expected || ++wrong > 5) continue;
          ADD_FAILURE() << test.name << " row " << row << " column " << column << ": " << got << ", not " << expected;
        }
      }
    }
  }
}

TEST_P(Wgmma, TransposedOperandsInEverySwizzle) {
  for (const int span : {16, 32, 64, 128}) {
    const auto a = values(16, 64, 2, false), b = values(16, 64, 3, false);
    sim.dynamic_shared = 4096;
    const auto y = run<float>("wgmma_transposed_" + std::to_string(span), {1}, {128}, 128 * 32, matrix(a, Kind::BF16),
                              matrix(b, Kind::BF16), kOut);
    int wrong = 0;
    for (int t = 0; t < 128; ++t) {
      for (int i = 0; i < 32; ++i) {
        const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
        float expected = 0;
        for (int k = 0; k < 16; ++k) expected += float(a[size_t(k * 64 + row)] * b[size_t(k * 64 + column)]);
        if (y[size_t(t * 32 + i)] == expected || ++wrong > 5) continue;
        ADD_FAILURE() << span << " row " << row << " column " << column << ": " << y[size_t(t * 32 + i)] << ", not "
                      << expected;
      }
    }
  }
}

TEST_P(Wgmma, OperandInRegisters) {
  const auto a = values(128, 16, 4, false), b = values(16, 16, 5, false);
  sim.dynamic_shared = 512;
  const auto y = run<float>("wgmma_registers", {1}, {256}, 256 * 8, matrix(a, Kind::F16), matrix(b, Kind::F16), kOut);
  for (int t = 0; t < 256; ++t) {
    for (int i = 0; i < 8; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
      float expected = float(t / 128);
      for (int k = 0; k < 16; ++k) expected += float(2 * a[size_t(row * 16 + k)] * b[size_t(column * 16 + k)]);
      EXPECT_EQ(y[size_t(t * 8 + i)], expected) << row << ' ' << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Wgmma, variants({"wgmma_sm90a.ptx", "wgmma_sm90a_debug.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
